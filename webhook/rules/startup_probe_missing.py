"""Rule startup-probe-missing."""

from __future__ import annotations

from collections.abc import Iterator

from webhook.engine import Engine
from webhook.rule import Finding, Rule
from webhook.rules import _probe


class StartupProbeMissing(Rule):
    """There is no startup probe, so nothing tells a slow start from a hang.

    vLLM binds its port at once but listens only when the weights are loaded, compiled and captured: minutes, not
    seconds. A startup probe holds the liveness probe back for that long and ends a start that hangs. Without one,
    either a liveness probe kills a healthy start (`liveness-probe-kills-startup`), or nothing ever ends a hung one.
    """

    plane = "config"
    threatens = "uptime"
    mode = "warn"
    mute_for = ("startup-probe",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain, but no more than a warning by default: vLLM starts without."""
        if not engine.served or engine.container.init or _probe.probe(engine, "startupProbe"):
            return
        new = _probe.startup_probe(engine)
        yield Finding(
            path=engine.at("startupProbe"),
            message="no startup probe" + (f"; {_probe.estimate(engine)}" if engine.plan.startup else ""),
            suggestions=(
                f"a startupProbe on /health with periodSeconds {new['periodSeconds']} and failureThreshold "
                f"{new['failureThreshold']}, and a livenessProbe without a long delay",
            )
            if new
            else (),
            fix=_probe.startup_probe_fix(engine),
        )
