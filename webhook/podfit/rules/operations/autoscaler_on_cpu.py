from __future__ import annotations

from collections.abc import Iterator, Mapping

from podfit.kube.companions import describe
from podfit.kube.path import FieldPath
from podfit.rules.engine import Engine
from podfit.rules.operations import _scaling
from podfit.rules.rule import Finding, Rule

_HOST = {"cpu", "memory"}
_BETTER = "vllm:num_requests_waiting (a Pods metric of a metrics adapter, or KEDA's prometheus trigger)"


class AutoscalerOnCpu(Rule):
    """The autoscaler scales on CPU use, which does not show vLLM's load.

    vLLM's work is on the GPU. Its processes keep a core or two busy while they wait for the GPU, with one request as
    with a hundred. CPU use is therefore flat, or high from the start; host memory use does not fall at all. Such an
    autoscaler adds unneeded replicas, or adds none while requests queue up. vLLM's own metrics show the load:
    `vllm:num_requests_waiting`, and `vllm:kv_cache_usage_perc` (`vllm:gpu_cache_usage_perc` in old releases).
    """

    plane = "cluster"
    event = "the number of replicas does not follow the load"
    of_vllm = False
    threatens = "practice"
    where = frozenset({"check", "scan"})

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain: the autoscaler says what it looks at."""
        if not engine.served or engine.container.init:
            return
        for autoscaler in _scaling.autoscalers(engine):
            items = list(_scaling.metrics(autoscaler))
            if items and all(name in _HOST for name, _ in items):
                name, place = items[0]
                yield Finding(
                    path=FieldPath(("spec", "replicas")),
                    message=f"{describe(autoscaler)} scales on {name}, which does not follow vLLM's load ({place})",
                    suggestions=(_BETTER, "vllm:kv_cache_usage_perc, as a second metric"),
                )
        yield from _kserve(engine)


def _kserve(engine: Engine) -> Iterator[Finding]:
    """KServe makes the autoscaler itself, of what the predictor or an annotation says (`scaleMetric`, v0.15 also
    `autoScaling.metrics`)."""
    if engine.workload.kind != "InferenceService":
        return
    predictor = FieldPath(("spec", "predictor"))
    value = (predictor / "autoScaling" / "metrics").get(engine.workload.object)
    named = [
        (str(FieldPath(("resource", "name")).get(item)), predictor.join("autoScaling", "metrics", index))
        for index, item in enumerate(value if isinstance(value, list) else ())
        if isinstance(item, Mapping)
    ]
    if not named:
        named = [(str((predictor / "scaleMetric").get(engine.workload.object)), predictor / "scaleMetric")]
    if all(name in _HOST for name, _ in named):
        name, path = named[0]
        yield Finding(
            path=path,
            message=f"scales on {name}, which does not follow vLLM's load",
            suggestions=("scaleMetric: concurrency", _BETTER),
        )
