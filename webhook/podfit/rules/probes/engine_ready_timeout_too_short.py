from __future__ import annotations

import math
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
SETTABLE, CONSTANT = Release(0, 14), Release(0, 9)
"""From 0.14 on a variable, a constant of as many seconds from 0.9 on (v1/engine/core_client.py, utils.py)."""
DEFAULT_READY_TIMEOUT = 600


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
        """Likely or possible, by the range of the start-up time. Advice if only the slowest start takes longer."""
        startup, release = engine.plan.startup, engine.release
        if startup is None or release is None or release < CONSTANT or engine.command.entry == "worker":
            return
        given = engine.command.env.get(VARIABLE, "")
        limit = of_digits(given) if release >= SETTABLE else None
        limit = DEFAULT_READY_TIMEOUT if limit is None else limit
        if limit >= startup.high or engine.spans_pods or "api_server_count" in engine.args.unresolved:
            return
        servers = host.processes(engine.args, parallel.read(engine.args, engine.command.env), release, v1=True).fronts
        if servers < 2:
            return
        seconds_needed = math.ceil(2 * startup.high / 300) * 300
        settable = release >= SETTABLE
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
    """True if the start takes longer in 80 % of cases, without a download whose rate no policy sets."""
    known = startup if engine.facts.assume.download_bandwidth is not None else startup.without("download")
    return known.share_longer(limit) >= LIKELY and not engine.weights_doubtful


def _fix(engine: Engine, seconds: str) -> tuple[Edit, ...]:
    """Sets the variable, in its place where it has one."""
    if engine.container.synthetic:
        return ()
    for index, name, _ in engine.variables:
        if name == VARIABLE:
            return (Edit(engine.at("env", index), {"name": VARIABLE, "value": seconds}),)
    return (Edit(engine.at("env"), {"name": VARIABLE, "value": seconds}, "append"),)
