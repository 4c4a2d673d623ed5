from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from podfit.kube.patch import Edit
from podfit.kube.path import mapping
from podfit.kube.quantity import equal
from podfit.rules.engine import Engine
from podfit.rules.rule import Certainty, Finding, Rule
from podfit.vllm import change
from podfit.vllm.gpu import requested_resource


class GpuRequestWithoutLimit(Rule):
    """GPUs are requested without a limit, or with another one.

    Extended resources can't be overcommitted: a limit alone is enough, a request must equal it. The API server rejects
    anything else, for workloads of its own kinds at once and for others (InferenceService, RayService,
    LeaderWorkerSet) when their Pods are made:

        spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources
        spec.containers[0].resources.requests: Invalid value: "2": must be equal to nvidia.com/gpu limit of 1
    """

    plane = "config"
    event = "the API server denies the object"
    of_vllm = False
    mode = "deny"

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain for Kubernetes' own kinds; likely for others, which an operator may complete. None if request and
        limit are equal, or no GPU is requested."""
        limits, requests = _amounts(engine, "limits"), _amounts(engine, "requests")
        if not any("/" in str(name) for name in requests):
            return  # no device is in them
        resource = (requested_resource(engine.workload, engine.container) or ("", None))[0]
        request, limit = requests.get(resource), limits.get(resource)
        if request is None or str(request) == str(limit) or equal(request, limit):
            return
        if limit is None:
            yield Finding(
                path=engine.at("resources", "limits", resource),
                message=f"{resource} is requested ({request}) without a limit, which Kubernetes rejects",
                certainty=_certainty(engine),
                suggestions=(change.limit(resource, request, "resources.limits {}: {}"),),
                fix=() if engine.container.synthetic else (Edit(engine.at("resources", "limits", resource), request),),
            )
        else:
            yield Finding(
                path=engine.at("resources", "requests", resource),
                message=f"{resource}: request {request} and limit {limit} differ, which Kubernetes rejects",
                certainty=_certainty(engine),
                suggestions=(f"a limit of {request}", f"a request of {limit}"),
            )


def _amounts(engine: Engine, side: Literal["requests", "limits"]) -> Mapping[str, Any]:
    """The container's requests or limits: resource → quantity as it is written; empty if there are none."""
    return mapping(engine.field("resources", side))


def _certainty(engine: Engine) -> Certainty:
    """Certain for a Pod or a workload of Kubernetes' own that has the container as written; else likely."""
    api = str(engine.workload.object.get("apiVersion"))
    return "certain" if api in ("v1", "apps/v1", "batch/v1") and not engine.container.synthetic else "likely"
