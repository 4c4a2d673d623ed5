"""Kustomize's patches: objects that are parts of others, and whole only once a build has applied them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from podfit.kube.path import FieldPath, group_and_kind, is_object, mapping
from podfit.kube.workload import JSON, as_list
from podfit.kube.workload.table import WORKLOAD_KINDS

KUSTOMIZATION_FILES = ("kustomization.yaml", "kustomization.yml", "Kustomization")
"""How a kustomization is called (kustomize api/konfig/general.go)."""
DIRECTIVE = "$patch"
"""The instruction of a strategic merge patch for an object or an item of a list: `delete`, `replace` or `merge`."""
_BUILT_IN = frozenset({"", "apps", "batch"})
"""API groups of the workloads that Kubernetes itself has."""
_SELECTING = frozenset({"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"})
"""Kinds of apps/v1 whose `spec.selector` the API server requires."""


def patch_files(kustomization: JSON) -> Iterator[str]:
    """The files that a kustomization lists as patches, relative to its folder."""
    for key in ("patches", "patchesStrategicMerge", "patchesJson6902"):
        for item in as_list(kustomization.get(key)):
            path = mapping(item).get("path") if is_object(item) else item
            if isinstance(path, str) and "\n" not in path:
                yield path


def resource_files(kustomization: JSON) -> Iterator[str]:
    """The files and folders that a kustomization lists as whole objects, relative to its folder."""
    for key in ("resources", "bases", "components"):
        yield from (item for item in as_list(kustomization.get(key)) if isinstance(item, str))


def replaced_images(kustomization: JSON) -> tuple[str, ...]:
    """The images that a kustomization puts into its resources and whose names have "vllm" in them, each with its new
    tag and digest: "vllm/vllm-openai:v0.18.0"."""
    replaced: list[str] = []
    for image in as_list(kustomization.get("images")):
        if not isinstance(image, Mapping):
            continue
        tag = f":{image['newTag']}" if image.get("newTag") else ""
        digest = f"@{image['digest']}" if image.get("digest") else ""
        text = f"{image.get('newName') or image.get('name')}{tag}{digest}"
        if "vllm" in text.lower():
            replaced.append(text)
    return tuple(replaced)


def sign_of_patch(obj: JSON) -> str | None:
    """The reason why the object is only a patch of another; None if it can be a whole object.

    It has a `$patch`, is an operation of a JSON patch, or is of a built-in kind and lacks a required field (a selector,
    a container's image). Custom resources may have any fields."""
    group, kind = group_and_kind(obj)
    if not kind:
        is_operation = isinstance(obj.get("op"), str) and isinstance(obj.get("path"), str)
        return "an operation of a JSON patch" if is_operation else None
    if _has_directive(obj):
        return f"it has {DIRECTIVE}"
    row = WORKLOAD_KINDS.get((group, kind))
    if group not in _BUILT_IN or row is None:
        return None
    if group == "apps" and kind in _SELECTING and not mapping(obj.get("spec")).get("selector"):
        return "it lacks spec.selector"
    for place in row.pods:
        pod_spec = mapping(FieldPath(tuple(place.path.split("."))).get(obj))
        if any(mapping(container).get("image") is None for container in as_list(pod_spec.get("containers"))):
            return "a container lacks its image"
    return None


def _has_directive(obj: JSON) -> bool:
    """True if a mapping anywhere in the object has a patch directive."""
    queue: list[Any] = [obj]  # mappings and lists
    for value in queue:  # grows while it is walked
        if isinstance(value, Mapping) and DIRECTIVE in value:
            return True
        children = value.values() if isinstance(value, Mapping) else value
        queue += [child for child in children if isinstance(child, Mapping | list)]
    return False
