"""Running Pods that are equal to the present template of their workload: the proof that such a workload starts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from podfit.kube.path import mapping, mappings, strings
from podfit.kube.workload import JSON


def is_ready(pod: JSON) -> bool:
    """Return whether a Pod runs and serves."""
    status = mapping(pod.get("status"))
    return status.get("phase") == "Running" and any(
        item.get("type") == "Ready" and item.get("status") == "True" for item in mappings(status.get("conditions"))
    )


def starts(containers: Iterable[Any]) -> set[int]:
    """Return a hash of each container's image, command and arguments. It is valid in this process alone."""
    return {
        hash(repr([mapping(container).get(field) for field in ("image", "command", "args")]))
        for container in containers
    }


PREDICTORS = "serving.kserve.io"
"""The API group whose controller completes a container's image, command and arguments."""


def runs_predictor(container: JSON, pod: JSON) -> bool:
    """True if a Pod of KServe's runs a predictor's present container. It has the image and all arguments that it
    sets, and the model of its storageUri if the Pod names one (KServe's storage initializer)."""
    spec = mapping(pod.get("spec"))
    uri, image, own = container.get("storageUri"), container.get("image"), set(strings(container.get("args")))
    annotations = mapping(mapping(pod.get("metadata")).get("annotations")).values()
    loaded = {annotation for annotation in annotations if isinstance(annotation, str) and "://" in annotation}
    loaded |= {
        word
        for pod_container in mappings(spec.get("initContainers"))
        for word in strings(pod_container.get("args"))
        if "://" in word
    }
    if uri and loaded and uri not in loaded:
        return False
    return any(
        own <= {*strings(pod_container.get("command")), *strings(pod_container.get("args"))}
        and image in (None, pod_container.get("image"))
        for pod_container in mappings(spec.get("containers"))
    )
