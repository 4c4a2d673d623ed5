from __future__ import annotations

from collections.abc import Iterator

from podfit.base import duration
from podfit.base.numbers import of_digits
from podfit.kube.patch import Edit
from podfit.rules import probe_timing
from podfit.rules._shortage import LIKELY
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule
from podfit.vllm import change
from podfit.vllm.memory import host, parallel
from podfit.vllm.memory.ledger import Startup
from podfit.vllm.release import Release

VARIABLE = "VLLM_ENGINE_READY_TIMEOUT_S"
LIMITED_SINCE, SETTABLE_SINCE = Release(0, 9), Release(0, 14)
"""From the first release on the wait is limited, to a constant; from the second on `VARIABLE` sets the limit
(v1/engine/core_client.py, utils.py)."""
DEFAULT_READY_TIMEOUT = 600
"""Seconds: vLLM's constant, and the variable's default."""


class EngineReadyTimeoutTooShort(Rule):
    """Several API servers wait ten minutes for their engines, and loading takes longer.

    There is more than one API server by default with data parallelism from v0.15 on, or with `--api-server-count`. The
    servers wait VLLM_ENGINE_READY_TIMEOUT_S (600 s) while the engines download, load, compile and capture graphs. Then
    vLLM ends, even if the startup probe would wait longer:

        TimeoutError: Timed out waiting for engine core processes to start. This is often caused by slow weight
        loading for large models.

    A single API server begins to wait only when the engine is ready, so the limit has no effect.

    How fast a cluster downloads and reads files is unknown. So the finding is likely only if the start takes longer in
    80 % of cases even without a download, or with one at the rate that the policy sets.
    """

    plane = "config"
    event = "the API servers exit before the engines are ready"
    never_denies = "the start-up time is an estimate"
    needs = ("model", "plan.startup", "release")

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Likely or possible, by the range of the start-up time; advice if only the slowest start takes longer.

        None if the limit is at least the slowest start, for a single API server, and for an engine over several
        Pods."""
        startup, release = engine.plan.startup, engine.release
        if startup is None or release is None or release < LIMITED_SINCE or engine.command.entry == "worker":
            return
        settable = release >= SETTABLE_SINCE
        given = of_digits(engine.command.env.get(VARIABLE, "")) if settable else None
        limit = DEFAULT_READY_TIMEOUT if given is None else given
        if limit >= startup.high or engine.spans_pods or "api_server_count" in engine.args.unresolved:
            return
        servers = host.processes(engine.args, parallel.read(engine.args, engine.command.env), release, v1=True).fronts
        if servers < 2:
            return
        seconds_needed = probe_timing.ample(startup)
        yield Finding(
            path=engine.argument("api_server_count"),
            message=f"{servers} API servers wait {duration.exact(limit)} for the engine; "
            f"{probe_timing.estimate(engine)}",
            details=probe_timing.phases(engine),
            certainty="likely" if _is_likely(engine, startup, limit) else "possible",
            advice=limit >= startup.likely,
            suggestions=(
                *((f"env {VARIABLE}: {seconds_needed}",) if settable else ()),
                change.flags("--api-server-count 1"),
            ),
            fix=_fix(engine, str(seconds_needed)) if settable else (),
        )


def _is_likely(engine: Engine, startup: Startup, limit: int) -> bool:
    """True if the start takes longer than `limit` seconds in 80 % of cases. A download counts only if the policy sets
    its rate. False if the size of the weights is in doubt."""
    known = startup if engine.facts.assume.download_bandwidth is not None else startup.without("download")
    return known.share_longer(limit) >= LIKELY and not engine.weights_doubtful


def _fix(engine: Engine, seconds: str) -> tuple[Edit, ...]:
    """The edit that sets the variable to `seconds`: in its entry of `env`, else in a new one. None for a container that
    an operator makes."""
    if engine.container.synthetic:
        return ()
    for index, name, _ in engine.variables:
        if name == VARIABLE:
            return (Edit(engine.at("env", index), {"name": VARIABLE, "value": seconds}),)
    return (Edit(engine.at("env"), {"name": VARIABLE, "value": seconds}, "append"),)
