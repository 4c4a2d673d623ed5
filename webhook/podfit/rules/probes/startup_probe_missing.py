from __future__ import annotations

from collections.abc import Iterator

from podfit.rules import probe_timing
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule


class StartupProbeMissing(Rule):
    """There is no startup probe, so nothing distinguishes a slow start from a hang.

    vLLM binds its port at once but listens only when the weights are loaded, compiled and captured: minutes, not
    seconds. A startup probe holds the liveness probe back for that long and ends a start that hangs. Without one,
    either a liveness probe kills a healthy start (`liveness-probe-kills-startup`), or nothing ever ends a hung one.
    Without a liveness probe the kubelet kills nothing, and the finding is only audited. So it is if the liveness probe
    waits longer than the slowest start.
    """

    plane = "config"
    event = "a start that hangs goes unnoticed"
    threatens = "practice"
    mute_for = ("startup-probe",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain, but no more than a warning by default: vLLM starts without. Advice if no liveness probe kills a slow
        start.

        It yields to the liveness probe's own rules, which ask for the same startup probe. None if a liveness probe
        without a long delay waits for the slowest start, and so ends a hang."""
        if not engine.served or engine.container.init or probe_timing.probe(engine, "startupProbe"):
            return
        if probe_timing.unreachable(engine) or probe_timing.follows(engine) or probe_timing.may_not_serve(engine):
            return
        if engine.workload.kind in probe_timing.RUN_TO_COMPLETION_KINDS:
            return
        liveness = probe_timing.probe(engine, "livenessProbe")
        startup, of_vllm = engine.plan.startup, probe_timing.probe_of_vllm(engine, "livenessProbe")
        waits = False
        if startup is not None and of_vllm is not None and probe_timing.window(of_vllm) >= startup.high:
            waits = True
            if probe_timing.setting(of_vllm, "initialDelaySeconds") < probe_timing.LONG_DELAY:
                return
        yield Finding(
            path=engine.at("startupProbe"),
            message="no startup probe" + (f"; {probe_timing.estimate(engine)}" if engine.plan.startup else ""),
            details=probe_timing.phases(engine),
            advice=liveness is None or waits,
            yields_to=("liveness-probe-kills-startup", "initial-delay-instead-of-startup-probe"),
            suggestions=probe_timing.advice(engine),
            fix=probe_timing.startup_probe_fix(engine),
        )
