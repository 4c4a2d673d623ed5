from __future__ import annotations

from collections.abc import Iterator

from podfit.base import duration
from podfit.rules import probe_timing
from podfit.rules.engine import Engine
from podfit.rules.rule import Certainty, Finding, Rule

AMPLE = 2
"""A window of so many times the likely start is not reported: "it kills the container" would be false of most starts.
`startup-probe-missing` asks for the same startup probe there."""


class LivenessProbeKillsStartup(Rule):
    """The liveness probe kills vLLM before it has started.

    Without a startup probe the liveness probe counts from the first second. vLLM does not listen while it loads, so
    every probe fails. After initialDelaySeconds + periodSeconds × failureThreshold the kubelet kills the healthy
    container:

        Liveness probe failed: … connect: connection refused
        Container vllm failed liveness probe, will be restarted

    An exec probe that only runs `curl` or `wget` against vLLM's port fails in the same way.

    If a volume keeps the downloaded model, a restarted container starts sooner than the first one. Where it answers in
    time, the loop ends by itself, and the finding is advice.

    A startup probe delays the liveness probe exactly as long as the start takes; a long initialDelaySeconds is a guess.
    """

    plane = "config"
    event = "the kubelet restarts the container before vLLM answers, each time"
    mode = "deny"
    needs = ("model", "plan.startup")
    mute_for = ("startup-probe",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain below the floor of the start-up estimate, likely below the likely time of each start.

        Possible up to `AMPLE` times that or the slowest start, and if the size of the weights is in doubt. None with a
        startup probe, and if the probe does not ask vLLM."""
        probe, startup = probe_timing.probe_of_vllm(engine, "livenessProbe"), engine.plan.startup
        restart = probe_timing.likely_restart(engine)
        if probe is None or startup is None or restart is None or not engine.served:
            return
        if probe_timing.probe(engine, "startupProbe"):
            return
        window = probe_timing.window(probe)
        if window >= min(startup.high, AMPLE * startup.likely):
            return
        certainty: Certainty = "certain" if window < startup.floor else "likely"
        if engine.weights_doubtful or window >= restart:
            certainty = "possible"
        condition = " if vLLM does not answer by then" if certainty == "possible" else ""
        yield Finding(
            path=engine.at("livenessProbe"),
            message=f"the liveness probe kills the container after {duration.exact(window)}{condition}; "
            f"{probe_timing.estimate(engine)}",
            details=(*probe_timing.phases(engine), *probe_timing.shorter_restart(engine, window)),
            certainty=certainty,
            suggestions=probe_timing.advice(engine),
            presumes=probe_timing.presumed(engine, "livenessProbe"),
            fix=probe_timing.startup_probe_fix(engine),
        )
