from __future__ import annotations

from collections.abc import Iterator

from podfit.kube.patch import Edit
from podfit.rules import probe_timing
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule


class ReadinessProbeMissing(Rule):
    """There is no readiness probe, so requests are sent to a vLLM that is still loading.

    A container without a readiness probe is ready as soon as it runs. vLLM rejects connections until it has loaded,
    minutes later. During each rollout, restart and scale-up, a share of the requests therefore gets
    `connection refused` (502 and 503 behind an ingress). A rolling update removes the old replicas before the new ones
    serve, and an autoscaler counts Pods that do not serve yet.
    """

    plane = "network"
    event = "requests arrive before vLLM answers, and fail"
    threatens = "practice"
    mute_for = ("readiness-probe",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain for a container that serves requests from other Pods. None for a Pod without a controller and for
        Jobs, and if the container may not serve."""
        if not engine.served or engine.container.init or probe_timing.probe(engine, "readinessProbe"):
            return
        if engine.workload.kind in ("Pod", *probe_timing.RUN_TO_COMPLETION_KINDS):
            return
        if probe_timing.unreachable(engine) or probe_timing.follows(engine) or probe_timing.may_not_serve(engine):
            return
        yield Finding(
            path=engine.at("readinessProbe"),
            message="no readiness probe: requests are sent to a vLLM that still loads",
            suggestions=(
                f"a readinessProbe on /health, port {engine.port or 'of vLLM'}, every {probe_timing.PERIOD} s",
            ),
            fix=_fix(engine),
        )


TIMEOUT, FAILURES = 5, 3
"""timeoutSeconds and failureThreshold of the probe that the fix adds. The threshold is Kubernetes' default. The timeout
is longer than its second, which is not enough for a busy vLLM."""


def _fix(engine: Engine) -> tuple[Edit, ...]:
    """The edit that adds the probe; none if it is not certain that vLLM answers it, or an operator adds probes."""
    http = probe_timing.health(engine)
    if http is None or not probe_timing.writable(engine, "readinessProbe"):
        return ()
    probe = {
        "httpGet": http,
        "periodSeconds": probe_timing.PERIOD,
        "timeoutSeconds": TIMEOUT,
        "failureThreshold": FAILURES,
    }
    return (Edit(engine.at("readinessProbe"), probe),)
