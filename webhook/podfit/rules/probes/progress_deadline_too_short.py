from __future__ import annotations

from collections.abc import Iterator

from podfit.base import duration
from podfit.kube.patch import Edit
from podfit.kube.path import FieldPath
from podfit.rules import probe_timing
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule

DEFAULT_PROGRESS_DEADLINE = 600
"""Seconds (API reference, DeploymentSpec; Argo Rollouts has the same)."""


class ProgressDeadlineTooShort(Rule):
    """The rollout is reported as failed before vLLM has started.

    A Deployment whose new Pods are not ready within progressDeadlineSeconds (600 by default) is reported as failed:

        error: deployment "llama-70b" exceeded its progress deadline

    `kubectl rollout status`, Helm's `--wait`, Argo CD and Flux then stop and report a failure, and some roll back,
    although vLLM still downloads and loads. The time to pull the image counts, too.
    """

    plane = "cluster"
    event = "the rollout is reported as failed, and some tools roll it back"
    of_vllm = False
    threatens = "uptime"
    never_denies = "the start-up time is an estimate"
    needs = ("model", "plan.startup")

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Likely if the likely start takes longer; possible if the size of the weights is in doubt. Advice if only the
        slowest start takes longer. None for kinds without a deadline."""
        startup = engine.plan.startup
        if startup is None or engine.workload.kind not in ("Deployment", "Rollout") or not engine.served:
            return
        spec = FieldPath(engine.workload.path.parts[:-2])  # the PodSpec's path without template.spec
        at = spec / "progressDeadlineSeconds"
        given = FieldPath(("spec", "progressDeadlineSeconds")).get(engine.workload.object)
        if given is not None and (not isinstance(given, int) or isinstance(given, bool)):
            return
        deadline = DEFAULT_PROGRESS_DEADLINE if given is None else given
        if deadline >= startup.high or engine.container.init:
            return
        seconds = probe_timing.ample(startup)
        by_default = " (the default)" if given is None else ""
        yield Finding(
            path=at,
            message=f"the rollout fails after {duration.exact(deadline)}{by_default}; {probe_timing.estimate(engine)}",
            details=probe_timing.phases(engine),
            certainty="likely" if deadline < startup.likely and not engine.weights_doubtful else "possible",
            advice=deadline >= startup.likely,
            suggestions=(f"progressDeadlineSeconds: {seconds}",),
            fix=(Edit(at, seconds),),
        )
