"""Rule shm-too-small."""

from __future__ import annotations

from collections.abc import Iterator

from webhook.engine import Engine
from webhook.quantity import human, quantity, round_up_gi
from webhook.rule import Finding, Rule


class ShmTooSmall(Rule):
    """The volume at /dev/shm is smaller than what vLLM puts there.

    A `sizeLimit` below the rings of the engine's processes has the effect of no volume at all; see `shm-missing` for
    what fails and how. `--kv-offloading-size` lives in /dev/shm from v0.27 on, as a whole.
    """

    plane = "host"
    mode = "deny"
    needs = ("plan.host",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain where this release refuses to start with so little."""
        host, shm = engine.plan.host, engine.shm
        if host is None or not shm.mounted or shm.size is None or engine.command.entry == "worker":
            return
        if shm.size >= max(host.shm.low, host.shm.floor):
            return
        refuses = engine.release is not None and shm.size < host.shm.floor
        least = f"; vLLM {engine.release} refuses to start with less than {human(host.shm.floor)}" if refuses else ""
        yield Finding(
            path=shm.path.join("emptyDir", "sizeLimit"),
            message=f"/dev/shm has {human(shm.size)}, about {human(host.shm.likely)} are needed{least}",
            certainty="certain" if refuses else "possible",
            suggestions=(f"sizeLimit: {quantity(round_up_gi(host.shm.likely))}",),
        )
