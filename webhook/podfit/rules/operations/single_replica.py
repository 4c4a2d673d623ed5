from __future__ import annotations

from collections.abc import Iterator

from podfit.base import duration
from podfit.kube.path import FieldPath
from podfit.rules.engine import Engine
from podfit.rules.operations import _scaling
from podfit.rules.rule import Finding, Rule


class SingleReplica(Rule):
    """One replica serves: no replica answers while it restarts.

    A vLLM Pod that is evicted, drained or killed needs minutes to load, compile and capture before it answers again.
    With one replica every request of that time fails. With two replicas on two nodes, one keeps answering. If there is
    an autoscaler, its `minReplicas` counts.
    """

    plane = "cluster"
    event = "no replica answers while the only one restarts"
    of_vllm = False
    threatens = "practice"
    mode = "audit"
    where = frozenset({"check", "scan"})

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain: the number of replicas is in the manifest, or is the minimum of the known autoscalers. None for a
        kind without replicas that serve alike."""
        if not _scaling.leads(engine) or _scaling.least(engine) != 1:
            return
        is_autoscaled = bool(_scaling.autoscalers(engine))
        startup = engine.plan.startup
        downtime = f", for about {duration.human(startup.likely)}" if startup else ""
        yield Finding(
            path=FieldPath(("spec", "replicas")),
            message=f"one replica{' at least' if is_autoscaled else ''}: requests get no answer while it restarts"
            f"{downtime}",
            suggestions=(
                "minReplicas: 2" if is_autoscaled else "replicas: 2",
                "on two nodes: topologySpreadConstraints",
            ),
        )
