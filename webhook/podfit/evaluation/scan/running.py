"""Running Pods that are equal to the present template of their workload: the proof that such a workload starts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from podfit.kube.path import mapping, mappings, strings
from podfit.kube.workload import JSON


def is_ready(pod: JSON) -> bool:
    """True if a Pod is running and has the condition Ready."""
    status = mapping(pod.get("status"))
    conditions = mappings(status.get("conditions"))
    has_ready = any(condition.get("type") == "Ready" and condition.get("status") == "True" for condition in conditions)
    return status.get("phase") == "Running" and has_ready


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
    uri, image, own_args = container.get("storageUri"), container.get("image"), set(strings(container.get("args")))
    annotations = mapping(mapping(pod.get("metadata")).get("annotations")).values()
    texts = [annotation for annotation in annotations if isinstance(annotation, str)]
    for init_container in mappings(spec.get("initContainers")):
        texts += strings(init_container.get("args"))
    loaded_uris = {text for text in texts if "://" in text}  # of the storage initializer
    if uri and loaded_uris and uri not in loaded_uris:
        return False
    for pod_container in mappings(spec.get("containers")):
        words = {*strings(pod_container.get("command")), *strings(pod_container.get("args"))}
        if own_args <= words and image in (None, pod_container.get("image")):
            return True
    return False
