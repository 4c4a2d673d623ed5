from __future__ import annotations

from collections.abc import Iterator

from podfit.kube.path import FieldPath
from podfit.rules.engine import Engine
from podfit.rules.operations import _scaling
from podfit.rules.rule import Finding, Rule


class DisruptionBudgetMissing(Rule):
    """No PodDisruptionBudget keeps a node drain from stopping several replicas at once.

    An upgrade of the nodes, or an autoscaler that packs them again, evicts Pods as fast as it can. A web server is back
    in seconds; vLLM needs minutes, and two replicas that are evicted together leave no replica to answer. A
    PodDisruptionBudget with `maxUnavailable: 1` makes the drain wait until the first one is ready again.

    podfit reports this only if it has all objects of the cluster, or if the input probably contains the whole release.
    It is a warning if the input has an autoscaler of the workload, and advice if it has a Service. The budget may be in
    a file that podfit was not given.
    """

    plane = "cluster"
    event = "a node drain stops several replicas at once"
    of_vllm = False
    threatens = "practice"
    where = frozenset({"check", "scan"})

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Possible, since the budget may be in a file that is not in the input; certain if all objects of the cluster
        are known. None for fewer than two replicas, and if the input probably lacks objects of the release."""
        companions = engine.facts.companions
        copies = _scaling.least(engine)
        if not _scaling.leads(engine) or copies < 2:
            return
        if not companions.holds_release(engine.workload) or companions.disruption_budgets(engine.workload):
            return
        yield Finding(
            path=FieldPath(("spec", "replicas")),
            message=f"{copies} replicas and no PodDisruptionBudget: a node drain may stop them together",
            certainty="certain" if companions.is_complete else "possible",
            advice=not (companions.is_complete or _scaling.autoscalers(engine)),
            suggestions=(f"a PodDisruptionBudget with maxUnavailable: 1 that selects {_selector(engine)}",),
        )


def _selector(engine: Engine) -> str:
    """The first label of the Pods, for people: "app: llama". Without labels, the usual `app` with the workload's
    name."""
    labels = engine.workload.metadata.get("labels")
    if not isinstance(labels, dict) or not labels:
        return f"app: {engine.workload.name}"
    key, value = next(iter(labels.items()))
    return f"{key}: {value}"
