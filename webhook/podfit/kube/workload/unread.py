"""Finds vLLM containers in kinds that the table lacks, so that podfit can report that it checks nothing there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from podfit.base.lazy import regex
from podfit.kube.path import FieldPath, group_and_kind, is_object
from podfit.kube.workload.table import WORKLOAD_KINDS
from podfit.kube.workload.template import JSON

MAX_SEARCH_DEPTH = 16
"""Levels of an object that are searched. A choice: a PodSpec in a custom resource is less deep."""
_DEFINES = frozenset({"CustomResourceDefinition", "ConfigMap", "Secret"})
"""Kinds whose objects contain the text of others, which do not run."""


def pod_spec(obj: JSON, known: Mapping[str, object]) -> FieldPath | None:
    """The place of the first PodSpec with a vLLM container in an object of an unknown kind; None if there is none.

    `known`: kinds that a policy adds, as in `workload.find`."""
    group, kind = group_and_kind(obj)
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
    """The place of the first PodSpec with a vLLM container, of those that are nearest to the top; None without one."""
    queue: list[tuple[FieldPath, Any]] = [(FieldPath(), obj)]
    for path, value in queue:  # grows while it is walked
        if is_object(value):
            containers = value.get("containers")
            if isinstance(containers, list) and any(map(_is_vllm, containers)):
                return path
            inner = [(path / str(key), item) for key, item in value.items()]
        else:
            inner = [(path / index, item) for index, item in enumerate(value)]
        if len(path.parts) < MAX_SEARCH_DEPTH:
            queue += [(place, item) for place, item in inner if isinstance(item, dict | list)]
    return None


_IMAGE = regex(
    r"(?:^|[/\s])vllm-openai\b|(?:^|/)vllm/vllm-|(?<![\w.-])vllm(?:\[\w+\])?[=<>~!]=?[\d.]+|\bvllm serve\b|"
    r"vllm\.entrypoints"
)
"""An image, a package or a command of vLLM's."""
_INSTALLED = regex(r"(?<![\w./-])vllm(?![\w./:-])")
"""The package in a `runtime_env` of Ray (`serveConfigV2`): `pip: [vllm]`."""
_ENGINE = regex(r"\w*(engine|backend|runtime|framework|server|type|backendName|backendRuntimeName)", re.IGNORECASE)
"""Keys that name an engine: `engine: VLLM`, `backendType: vLLM`, `backendRuntimeName: vllm`, `servingEngine: vllm`."""
_IMAGE_KEY = regex(r"\w*(image|repository)(Name|Ref)?", re.IGNORECASE)
"""Keys of images."""
_VLLM_WORD = regex(r"(?<![a-z])vllm(?![a-z])", re.IGNORECASE)
_OWN_SETTINGS = frozenset(
    {"gpumemoryutilization", "maxmodellen", "maxnumseqs", "tensorparallelsize", "vllm", "vllmconfig"}
)
"""Keys for vLLM's own settings, without case and underscores, also as flags in a text."""
_FLAGS = regex(r"--(gpu[-_]memory[-_]utilization|max[-_]model[-_]len|tensor[-_]parallel[-_]size)\b")
_ABOUT = ("monitoring.", "gateway.", "networking.", "cert-manager.", "rbac.", "admissionregistration.", "podfit.dev")
"""Beginnings of API groups whose objects only speak of others."""
RENDERED = {
    ("helm.toolkit.fluxcd.io", "HelmRelease"): "podfit check --helm CHART --values FILE, with its spec.values in FILE",
    ("helm.cattle.io", "HelmChart"): "podfit check --helm CHART --values FILE, with its spec.valuesContent in FILE",
    ("argoproj.io", "Application"): "argocd app manifests NAME | podfit check -",
    ("argoproj.io", "ApplicationSet"): "argocd app manifests NAME | podfit check -, for each of its Applications",
    ("kustomize.toolkit.fluxcd.io", "Kustomization"): "podfit check --kustomize DIR",
}
"""Kinds from whose charts or folders other programs make objects → how to check those."""
_SERVING = frozenset({
    ("apps.nvidia.com", "NIMService"), ("inference.llmaz.io", "Playground"), ("llm-d.ai", "ModelService"),
    ("ome.io", "InferenceService"), ("production-stack.vllm.ai", "VLLMRuntime"),
})  # fmt: skip
"""Kinds that serve a model, most with vLLM, whatever words they have."""
_KAITO_MODELS = {
    "Workspace": FieldPath(("inference", "preset")),
    "InferenceSet": FieldPath(("spec", "template", "inference", "preset")),
    "MultiRoleInference": FieldPath(("spec", "model")),
}
"""Kinds of KAITO → the field with the model for which KAITO writes vLLM's command (kaito api/v1alpha1)."""
_OTHER_ENGINES = regex(r"llama\.?cpp|ollama|sglang|tgi|tensorrt.*|trt.*|triton|infinity|faster_?whisper", re.IGNORECASE)
MAX_SEARCHED_LENGTH = 1 << 15
"""Characters of a text that is searched, as of a YAML text in an object (`manifest.MAX_INNER_LENGTH`)."""


def is_rendered(obj: JSON) -> bool:
    """True if another program makes objects of a chart or a folder that this one names."""
    return group_and_kind(obj) in RENDERED


def mention(obj: JSON) -> FieldPath | None:
    """Where an object of a custom kind, of which nothing was read, names vLLM: an image, a command, a package, an
    engine or a setting; None if it names none.

    A kind from which other programs make objects names it with any word. A kind that serves models is one of vLLM's
    unless it names another engine."""
    group, kind = group_and_kind(obj)
    if group == "kaito.sh" and (preset := _KAITO_MODELS.get(kind)) is not None:
        return preset if preset.get(obj) else None
    if (group, kind) in WORKLOAD_KINDS and group != "ray.io":  # Ray's own Python code may start vLLM
        return None
    if "." not in group or group.startswith(_ABOUT) or group.endswith(".k8s.io") or kind in _DEFINES:
        return None
    any_word = is_rendered(obj)
    names_other_engine = False
    queue: list[tuple[FieldPath, Any]] = [(FieldPath(("spec",)), obj.get("spec"))]
    for path, value in queue:  # grows while it is walked
        key = path.parts[-1]
        if isinstance(key, str) and key.replace("_", "").lower() in _OWN_SETTINGS and value not in (None, ""):
            return path
        if isinstance(value, str):
            if _mentions(str(key), value, any_word=any_word):
                return path
            if _ENGINE.fullmatch(str(key)) and _OTHER_ENGINES.fullmatch(value):
                names_other_engine = True
        elif len(path.parts) < MAX_SEARCH_DEPTH:
            if is_object(value):
                queue += [(path / str(key), item) for key, item in value.items()]
            elif isinstance(value, list):
                queue += [(path / index, item) for index, item in enumerate(value)]
    return FieldPath(("spec",)) if (group, kind) in _SERVING and not names_other_engine else None


def _mentions(key: str, text: str, *, any_word: bool) -> bool:
    """True if a text under this key names vLLM: as an engine, by one of its flags, or in an image or a command.
    `any_word`: in any text. A very long text is not searched."""
    if _ENGINE.fullmatch(key) and _VLLM_WORD.match(text):
        return True
    if len(text) > MAX_SEARCHED_LENGTH:
        return False
    if not any_word and "vllm" not in text and "--" not in text:  # no pattern below can match
        return False
    if any_word or _IMAGE_KEY.fullmatch(key):
        return _VLLM_WORD.search(text) is not None or _FLAGS.search(text) is not None
    return _names(text) or _FLAGS.search(text) is not None


def _names(text: str) -> bool:
    """True if an image, a package or a command of vLLM's is in a text."""
    environment = text.find("runtime_env")
    return bool(_IMAGE.search(text) or (environment >= 0 and _INSTALLED.search(text, environment)))


def _is_vllm(container: object) -> bool:
    """True if the image or a word of the command of a container names vLLM."""
    if not is_object(container) or not isinstance(container.get("image"), str):
        return False
    words = [container["image"]]
    for name in ("command", "args"):
        value = container.get(name)
        words += map(str, value) if isinstance(value, list) else ()
    return any("vllm" in word for word in words)
