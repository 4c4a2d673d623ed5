from __future__ import annotations

from collections.abc import Iterator, Mapping

from podfit.kube.companions import describe
from podfit.kube.path import FieldPath
from podfit.rules.engine import Engine
from podfit.rules.operations import _scaling
from podfit.rules.operations._scaling import Metric
from podfit.rules.rule import Finding, Rule

_HOST_METRICS = {"cpu", "memory"}
_QUEUE_METRIC = "vllm:num_requests_waiting (a Pods metric of a metrics adapter, or KEDA's prometheus trigger)"


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
        """Certain: the manifest names the metrics. None if one of them is not the host's, and for a container that
        does not serve."""
        if not engine.served or engine.container.init:
            return
        for autoscaler in _scaling.autoscalers(engine):
            metrics = list(_scaling.metrics(autoscaler))
            if metrics and _are_of_host(metrics):
                name, place = metrics[0]
                yield Finding(
                    path=FieldPath(("spec", "replicas")),
                    message=f"{describe(autoscaler)} scales on {name}, which does not follow vLLM's load ({place})",
                    suggestions=(_QUEUE_METRIC, "vllm:kv_cache_usage_perc, as a second metric"),
                )
        yield from _kserve(engine)


def _are_of_host(metrics: list[Metric]) -> bool:
    """True if each metric is the CPU or host memory use of the Pods."""
    return all(metric.name in _HOST_METRICS for metric in metrics)


def _kserve(engine: Engine) -> Iterator[Finding]:
    """The finding on the autoscaler that KServe makes of the predictor's `autoScaling.metrics` (from v0.15 on), else of
    its `scaleMetric`. None for other kinds, and if the predictor names no metric."""
    if engine.workload.kind != "InferenceService":
        return
    predictor = FieldPath(("spec", "predictor"))
    value = (predictor / "autoScaling" / "metrics").get(engine.workload.object)
    metrics = [
        Metric(
            name=str(FieldPath(("resource", "name")).get(item)),
            path=predictor.join("autoScaling", "metrics", index),
        )
        for index, item in enumerate(value if isinstance(value, list) else ())
        if isinstance(item, Mapping)
    ]
    if not metrics:
        scale_metric = predictor / "scaleMetric"
        # The name of an absent field is "None", which is not a metric of the host.
        metrics = [Metric(name=str(scale_metric.get(engine.workload.object)), path=scale_metric)]
    if _are_of_host(metrics):
        name, path = metrics[0]
        yield Finding(
            path=path,
            message=f"scales on {name}, which does not follow vLLM's load",
            suggestions=("scaleMetric: concurrency", _QUEUE_METRIC),
        )
