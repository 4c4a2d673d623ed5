"""Whether a running Pod is what its workload describes now: the proof that such a workload starts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from podfit.kube.path import mapping, mappings
from podfit.kube.workload import JSON


def is_ready(pod: JSON) -> bool:
    """A Pod that runs and serves."""
    status = mapping(pod.get("status"))
    conditions = status.get("conditions")
    return status.get("phase") == "Running" and any(
        mapping(one).get("type") == "Ready" and mapping(one).get("status") == "True"
        for one in (conditions if isinstance(conditions, list) else ())
    )


def starts(containers: Iterable[Any]) -> set[int]:
    """How containers start: image, command and arguments, each as one number of this process."""
    return {hash(repr([mapping(one).get(field) for field in ("image", "command", "args")])) for one in containers}


PREDICTORS = "serving.kserve.io"
"""The API group whose controller completes a container's image, command and arguments."""


def runs_predictor(container: JSON, pod: JSON) -> bool:
    """Whether a Pod of KServe's runs a predictor's present container. It has the image and all arguments that it
    sets, and the model of its storageUri if the Pod names one (KServe's storage initializer)."""
    spec = mapping(pod.get("spec"))
    uri, image, own = container.get("storageUri"), container.get("image"), set(_words(container.get("args")))
    annotations = mapping(mapping(pod.get("metadata")).get("annotations")).values()
    loaded = {one for one in annotations if isinstance(one, str) and "://" in one}
    loaded |= {
        word for one in mappings(spec.get("initContainers")) for word in _words(one.get("args")) if "://" in word
    }
    if uri and loaded and uri not in loaded:
        return False
    return any(
        own <= {*_words(one.get("command")), *_words(one.get("args"))} and image in (None, one.get("image"))
        for one in mappings(spec.get("containers"))
    )


def _words(value: object) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
