"""Strategic merge patches, as far as they are plain (k8s.io/apimachinery pkg/util/strategicpatch)."""

from __future__ import annotations

from typing import Any

from podfit.kube.path import is_object
from podfit.kube.workload.template import JSON

_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "sidecars": "name",
    "volumes": "name",
    "env": "name",
    "imagePullSecrets": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "ports": "containerPort",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
}
"""List → the field that identifies its items (`patchMergeKey` in k8s.io/api core/v1); others are replaced as a whole.
"""
MAX_MERGE_DEPTH = 32
"""Levels of objects that are merged. A choice: a PodSpec has fewer than ten."""


class Unmergeable(ValueError):  # noqa: N818 - what a patch is
    """A patch with directives, or items that nothing tells apart."""


def strategic_merge(base: JSON, patch: JSON, depth: int = 0) -> dict[str, Any]:
    """`base` with `patch` over it: objects field by field, lists with a merge key item by item; null takes a field
    away. Raises Unmergeable for a directive (`$patch`), an item without its key, or a value that is too deep."""
    entries = dict(base)
    if depth > MAX_MERGE_DEPTH:
        raise Unmergeable("too deep")
    for key, value in patch.items():
        if not isinstance(key, str) or key.startswith("$"):
            raise Unmergeable(f"directive {key}")
        before = entries.get(key)
        if value is None:
            entries.pop(key, None)
        elif is_object(value):
            entries[key] = strategic_merge(before if is_object(before) else {}, value, depth + 1)
        elif isinstance(value, list) and key in _KEYS:
            entries[key] = _merge_list(before if isinstance(before, list) else [], value, _KEYS[key], depth)
        else:
            entries[key] = value
    return entries


def _merge_list(base: list[Any], patch: list[Any], key: str, depth: int) -> list[Any]:
    """A list merged item by item, matched by the merge key `key`; an item that the base lacks is added at the end.
    Raises Unmergeable for an item of the patch without the key. `depth`: levels of objects above."""
    merged = list(base)
    index_of: dict[str | int, int] = {}  # merge key → index of the first item that has it
    for index, item in enumerate(merged):
        if is_object(item) and isinstance(name := item.get(key), str | int):
            index_of.setdefault(name, index)
    for patch_item in patch:
        if not is_object(patch_item) or not isinstance(patch_item.get(key), str | int) or "$patch" in patch_item:
            raise Unmergeable(f"an item without {key}")
        known_index = index_of.get(patch_item[key])
        if known_index is None:
            index_of[patch_item[key]] = len(merged)
            merged.append(strategic_merge({}, patch_item, depth + 1))
        else:
            merged[known_index] = strategic_merge(merged[known_index], patch_item, depth + 1)
    return merged
