"""Finds vLLM containers in kinds that the table lacks, so that podfit can report that it checks nothing there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from podfit.kube.path import FieldPath, is_object
from podfit.kube.workload.table import WORKLOAD_KINDS
from podfit.kube.workload.template import JSON

_DEEPEST = 16
_DEFINES = frozenset({"CustomResourceDefinition", "ConfigMap", "Secret"})


def pod_spec(obj: JSON, known: Mapping[str, object]) -> FieldPath | None:
    """The place of the first PodSpec with a vLLM container in an object of an unknown kind; None if there is none.

    `known`: kinds that a policy adds, as in `workload.find`."""
    group, kind = str(obj.get("apiVersion") or "").rpartition("/")[0], str(obj.get("kind") or "")
    if (
        (group, kind) in WORKLOAD_KINDS
        or (f"{kind}.{group}" if group else kind) in known
        or kind in _DEFINES
        or not kind
    ):
        return None
    return _with_vllm(obj)


def without_kind(obj: JSON) -> tuple[str, ...]:
    """The fields `apiVersion` and `kind`, as far as they are missing in an object with a container of vLLM's; empty for
    all other objects."""
    missing = tuple(name for name in ("apiVersion", "kind") if not obj.get(name))
    return missing if missing and _with_vllm(obj) is not None else ()


def _with_vllm(obj: JSON) -> FieldPath | None:
    """The place of the first PodSpec with a vLLM container."""
    queue: list[tuple[FieldPath, Any]] = [(FieldPath(), obj)]
    for path, value in queue:  # grows while it is walked
        if is_object(value):
            listed = value.get("containers")
            if isinstance(listed, list) and any(map(_is_vllm, listed)):
                return path
            inner = [(path / str(key), one) for key, one in value.items()]
        else:
            inner = [(path / index, one) for index, one in enumerate(value)]
        if len(path.parts) < _DEEPEST:
            queue += [(place, one) for place, one in inner if isinstance(one, dict | list)]
    return None


_IMAGE = re.compile(
    r"(?:^|[/\s])vllm-openai\b|(?:^|/)vllm/vllm-|(?<![\w.-])vllm(?:\[\w+\])?[=<>~!]=?[\d.]+|\bvllm serve\b|"
    r"vllm\.entrypoints"
)
"""An image, a package or a command of vLLM's."""
_INSTALLED = re.compile(r"(?<![\w./-])vllm(?![\w./:-])")
"""The package in a `runtime_env` of Ray (`serveConfigV2`): `pip: [vllm]`."""
_ENGINE = re.compile(r"engine|backend|backendName|backendRuntimeName|runtime|type", re.IGNORECASE)
"""Keys that name an engine: `engine: VLLM`, `backendType: vLLM`, `backendRuntimeName: vllm`."""
_ABOUT = ("monitoring.", "gateway.", "networking.", "cert-manager.", "rbac.", "admissionregistration.", "podfit.dev")
"""Beginnings of API groups whose objects only speak of others."""
_LONGEST = 1 << 15


def mention(obj: JSON) -> FieldPath | None:
    """Where an object of a custom kind, of which nothing was read, names vLLM: an image, a command, a package or an
    engine; None if it names none."""
    group, kind = str(obj.get("apiVersion") or "").rpartition("/")[0], str(obj.get("kind") or "")
    if (group, kind) in WORKLOAD_KINDS and group != "ray.io":  # Ray's own Python code may start vLLM
        return None
    if "." not in group or group.startswith(_ABOUT) or group.endswith(".k8s.io") or kind in _DEFINES:
        return None
    queue: list[tuple[FieldPath, Any]] = [(FieldPath(("spec",)), obj.get("spec"))]
    for path, value in queue:  # grows while it is walked
        if isinstance(value, str):
            key = path.parts[-1]
            engine = isinstance(key, str) and value.lower() == "vllm" and _ENGINE.fullmatch(key)
            if engine or (len(value) <= _LONGEST and "vllm" in value and _names(value)):
                return path
        elif len(path.parts) < _DEEPEST:
            if is_object(value):
                queue += [(path / str(key), one) for key, one in value.items()]
            elif isinstance(value, list):
                queue += [(path / index, one) for index, one in enumerate(value)]
    return None


def _names(text: str) -> bool:
    """Whether an image, a package or a command of vLLM's is in a text."""
    environment = text.find("runtime_env")
    return bool(_IMAGE.search(text) or (environment >= 0 and _INSTALLED.search(text, environment)))


def _is_vllm(container: object) -> bool:
    """Whether the image or a word of the command of a container names vLLM."""
    if not is_object(container) or not isinstance(container.get("image"), str):
        return False
    words = [container["image"]]
    for name in ("command", "args"):
        listed = container.get(name)
        words += map(str, listed) if isinstance(listed, list) else ()
    return any("vllm" in word for word in words)
