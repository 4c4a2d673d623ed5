"""EngineArgs + facts → Model: which model is served, and its shape in config.json's words."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from podfit.base.lazy import regex
from podfit.kube.path import mappings
from podfit.kube.workload.kserve import hub_name
from podfit.vllm.args.values import InvalidValueError, from_json
from podfit.vllm.facts import Counted, Fact, Facts, GivenModel
from podfit.vllm.model.catalogue import aliases_of, by_id, nearest, search, source
from podfit.vllm.model.config import NESTED, from_config, language_model_config
from podfit.vllm.model.copies import catalog_ids, quantised_copies
from podfit.vllm.model.given import MODEL_ANNOTATION, key
from podfit.vllm.model.length import CHANGES_LENGTH, derived_max_model_len, longest_max_model_len
from podfit.vllm.model.name import (
    NAME_BEGINS_WITH,
    have_same_sizes,
    last_part,
    model_of_name,
    shape,
    size_of,
    tells_quantisation,
    without_server_words,
)
from podfit.vllm.model.shape import MAX_LAYERS, Model
from podfit.vllm.release import is_official

if TYPE_CHECKING:
    from podfit.kube.workload import Container, Workload
    from podfit.vllm.args import EngineArgs

__all__ = [
    "ANNOTATION", "CHANGES_LENGTH", "MAX_LAYERS", "MOUNTS", "Model", "aliases_of", "annotated", "by_id",
    "catalog_ids",
    "derived_max_model_len", "find", "from_config", "given_model", "guess", "hub_id", "is_default", "is_path",
    "longest_max_model_len", "model_of_name", "named_commit", "nearest", "quantised_copies", "recognise", "search",
    "source",
]  # fmt: skip

ANNOTATION = MODEL_ANNOTATION
"""On a workload or its Pod: the id of a published model of the same shape."""

MOUNTS = regex(
    r"(/(mnt|data|opt|opt/ml|var|root|workspace|home/\w+))*"
    r"/(models?|model[-_]?(cache|store|dir|repo)|weights|checkpoints?|huggingface|data|mnt|pvc|repository|llm)/?(\d+/?)?"
)
"""Paths to which an operator or an image mounts whatever model it was configured with (KServe: /mnt/models)."""
ENVIRONMENT = ("HF_MODEL_ID", "MODEL_ID", "MODEL_NAME", "HF_MODEL", "MODEL", "VLLM_MODEL", "MODEL_REPO", "HF_REPO_ID",
               "STORAGE_URI", "MODEL_URI")  # fmt: skip
"""Variables that name the model for images and operators."""
COMMIT = regex(r"[0-9a-f]{40}")
"""A commit of a repository on the hub, as `--revision` names a snapshot; a branch or a tag may move."""
HOLE = regex(r"[$`<>]|\{\{")
"""Text that is filled in later: a shell's variable, a template's field, a placeholder."""
DEFAULT_MODEL = "vLLM's default model"
URI_FIELDS = (
    ("spec", "predictor", "model", "storageUri"),
    ("spec", "predictor", "storageUri"),
    ("spec", "predictor", "model", "storage", "path"),
    ("spec", "model", "uri"),
    ("spec", "model", "name"),
    ("spec", "modelUri"),
)
"""Fields in which KServe's InferenceService and LLMInferenceService name the model."""


def find(args: EngineArgs, workload: Workload, container: Container, facts: Facts) -> Fact[Model] | None:
    """The served model, by the order in `podfit.vllm.facts`; None if no known model is named."""
    fact = _find(args, workload, container, facts)
    if fact is None:
        return None
    changed = _with_overrides(fact.value, args)
    if changed is None:
        return fact._replace(source=f"{fact.source}; --hf-overrides is too long to be read", may_deny=False)
    if facts.weights_bytes is not None:
        changed = replace(changed, weights_bytes=facts.weights_bytes)
    return fact if changed is fact.value else fact._replace(value=changed)


def _find(args: EngineArgs, workload: Workload, container: Container, facts: Facts) -> Fact[Model] | None:
    """The served model by the order in `vllm.facts`: annotation, given files, catalog, path, other names in the object.
    None if nothing identifies it."""
    annotation = annotated(workload)
    if annotation and (row := _exact_model(annotation, facts)):
        # The annotation gives the shape. A served name that names a quantization means other weight sizes.
        copy = tells_quantisation(args.model or "") and not row.value.quantization_config
        return row._replace(source=f"annotation {ANNOTATION}: {row.source}", may_deny=row.may_deny and not copy)
    name = args.model or ""
    if facts.models:
        commit = named_commit(args)
        if commit and (files := facts.models.get(f"{name}@{commit}")):
            return Fact(replace(given_model(name, files), revision=commit), files.source, files.may_deny)
        if fact := _given_model(name or "*", facts) or _given_model("*", facts):
            return fact
    elif name and (fact := by_id(name)):  # the usual case
        return fact
    if name and not _is_placeholder(name) and ((fact := _model_of_name(name, facts)) or not is_path(name)):
        return fact or size_of(name)
    if not name and "model" not in args.unresolved and "args" not in workload.completes:
        return _default(args, workload, container)
    if (uri := workload.model_uri) and (hub := hub_id(uri)) and (fact := _exact_model(hub, facts)):
        return fact._replace(source=f"{fact.source}, from {uri!r}")
    written = args.written.get("model", args.written.get("model_tag"))
    if (
        "model" in args.unresolved
        and isinstance(written, str)
        and not HOLE.search(written.rstrip("/").rpartition("/")[2])
    ):
        name = written  # "s3://$BUCKET/models/Qwen3-8B": the unknown part is not the one that names the model
        if fact := _model_of_name(name, facts):
            return Fact(fact.value, f"path: {fact.source.removeprefix('path: ')}", may_deny=False)
    for hint in _names_in_object(args, workload, container):
        if fact := _given_model(hint.name, facts) or _model_of_name(hint.name, facts):
            source = f"path: {fact.source.removeprefix('path: ')}, from {hint.origin} {hint.name!r}"
            return Fact(fact.value, source, may_deny=False)
    return size_of(name) if name else None


def named_commit(args: EngineArgs) -> str | None:
    """The commit that --revision names, so that vLLM loads this snapshot alone; None if it names none."""
    revision = args.given.get("revision")
    exact = isinstance(revision, str) and COMMIT.fullmatch(revision) and args.is_final("revision")
    return revision if exact and args.is_sure("model") else None


def _default(args: EngineArgs, workload: Workload, container: Container) -> Fact[Model] | None:
    """The model that vLLM serves if the command names none. None if an operator, or an image other than vLLM's own
    without a command in the manifest, may add a model."""
    default, image = args.defaults.get("model"), container.spec.get("image")
    has_entrypoint = bool(container.spec.get("command")) or (isinstance(image, str) and is_official(image))
    if (
        args.release is None
        or args.open
        or not has_entrypoint
        or "model" in workload.completes
        or not isinstance(default, str)
    ):
        return None
    fact = by_id(default)
    return fact and fact._replace(source=f"{DEFAULT_MODEL}: {fact.source}", may_deny=False)


def is_default(fact: Fact[Model] | None) -> bool:
    """True if the command names no model and this is vLLM's default model: usually a mistake of the author."""
    return fact is not None and fact.source.startswith(DEFAULT_MODEL)


def annotated(workload: Workload) -> str | None:
    """The value of the annotation `podfit.dev/model`, None if there is none."""
    text = workload.annotations.get(ANNOTATION)
    return text.strip() or None if isinstance(text, str) else None


def _exact_model(name: str, facts: Facts) -> Fact[Model] | None:
    """The model of exactly that name: an admin's files first, then the catalog."""
    return _given_model(name, facts) or by_id(name)


def _given_model(name: str, facts: Facts) -> Fact[Model] | None:
    """The model of exactly that name among an admin's files."""
    own_config = facts.models.get(key(name)) if facts.models else None
    return Fact(given_model(name, own_config), own_config.source, own_config.may_deny) if own_config else None


def _model_of_name(name: str, facts: Facts) -> Fact[Model] | None:
    """The model that a name identifies, exactly or by its last part. None if it identifies none."""
    if fact := _exact_model(hub_id(name) or name, facts):
        return fact
    ending = last_part(name)
    alike = {
        id(given): (model_name, given)
        for model_name, given in facts.models.items()
        if ending and last_part(model_name) == ending
    }
    if len(alike) == 1:
        ((text, given),) = alike.values()
        return Fact(given_model(text, given), f"path: its last part names {text} ({given.source})", may_deny=False)
    return model_of_name(name)


def hub_id(uri: str) -> str | None:
    """The id in KServe's `hf://ORG/NAME[:REVISION]`; None for other addresses."""
    if "://" not in uri:
        return None
    hub = hub_name(re.sub("^huggingface://", "hf://", uri.strip()))
    return hub if hub and re.fullmatch(r"[\w.-]+/[\w.-]+", hub) else None


def _is_placeholder(name: str) -> bool:
    """True if the name is a mount point or a template's placeholder, so that something else names the model."""
    return MOUNTS.fullmatch(name) is not None or "{{" in name


def is_path(name: str) -> bool:
    """True if a name is a path or an address, and no id of a hub."""
    return name.startswith(("/", ".", "~")) or "://" in name


class _NameInObject(NamedTuple):
    """A name that the object has for the model, other than in the command."""

    origin: str
    """The place of the name, for people: "the served name"."""
    name: str


def _names_in_object(args: EngineArgs, workload: Workload, container: Container) -> Iterator[_NameInObject]:
    """Other names that the object has for the model, the most specific first."""
    if workload.model_uri:
        yield _NameInObject("the model's URI", workload.model_uri)
    for parts in URI_FIELDS:
        value: object = workload.object
        for part in parts:
            value = value.get(part) if isinstance(value, Mapping) else None
        if isinstance(value, str):
            yield _NameInObject(f"the field {parts[-1]}", value)
    served = args.given.get("served_model_name")
    for name in served if isinstance(served, list) else [served]:
        if isinstance(name, str):
            yield _NameInObject("the served name", name)
    variables = {str(item.get("name")): item.get("value") for item in mappings(container.spec.get("env"))}
    for variable in ENVIRONMENT:
        if isinstance(value := variables.get(variable), str):
            yield _NameInObject(f"the variable {variable}", value)
    for name in dict.fromkeys((workload.name, without_server_words(workload.name))):  # one if they are equal
        yield _NameInObject(f"the {workload.kind}'s name", name)


_HINT = regex(r", from (?P<origin>the [^']*?(?:'s \w+)?) '")


def guess(fact: Fact[Model]) -> Guess | None:
    """The published model for which the served one is taken; None unless a name alone decides. The texts of sources
    that `find` writes say so."""
    _, begins, base = fact.source.partition(NAME_BEGINS_WITH)  # `begins` is empty if the source has another form
    hint = _HINT.search(fact.source)
    if not begins and hint is None:
        return None
    origin = hint["origin"] if hint else "its name"
    if begins:
        return Guess(base.partition("'s")[0] or fact.value.id, f"{origin} begins so")
    return Guess(fact.value.id, f"{origin} says so")


class Guess(NamedTuple):
    """The published model for which a served model is taken because of a name."""

    id: str
    reason: str
    """For people: "its name begins so"."""


def recognise(name: str, facts: Facts) -> Fact[Model] | None:
    """The model that a name alone identifies, by the order in `podfit.vllm.facts`; None if it identifies none."""
    return _given_model(name, facts) or _model_of_name(name, facts) or size_of(name)


def given_model(name: str, given_model: GivenModel) -> Model:
    """The model of a config.json, with the counted sizes of its checkpoint. If nothing was counted: with the parameters
    of its catalog entry, if the shapes are equal."""
    model = from_config(name if name != "*" else "model", given_model.config)
    counted = given_model.counted
    if counted == Counted() and (row := by_id(name)) is not None and shape(row.value) == shape(model):
        known = row.value
        return replace(
            model, parameters=known.parameters, weights_bytes=known.weights_bytes, gated=known.gated,
            dtype_parameters=known.dtype_parameters, expert_bytes=known.expert_bytes,
            replicated_bytes=known.replicated_bytes, sizes_confirmed=known.sizes_confirmed,
        )  # fmt: skip
    return replace(
        model, parameters=counted.parameters, weights_bytes=counted.weights_bytes,
        dtype_parameters=counted.dtype_parameters, expert_bytes=counted.expert_bytes, files=counted.files,
    )  # fmt: skip


MOST_OVERRIDES, BYTES_PER_ITEM = 16 << 10, 50
"""The most that `_parsing_cost` may be for overrides that are read, and the characters that each item in them counts in
addition to its own. Results are cached per model, and so is its config. A list of the types of 126 layers has 10,000
characters. Both are chosen."""
OUTER = ("architectures", "dtype", "quantization_config", "tie_word_embeddings", "torch_dtype", "vision_config")
"""Fields that vLLM reads from a multimodal model's outer config (vLLM 0.33 config/model.py)."""
_OVERRIDES = frozenset({"hf_overrides", "rope_scaling"})


def _with_overrides(model: Model, args: EngineArgs) -> Model | None:
    """The model with the changes of --hf-overrides (and, before 0.14, --rope-scaling) to its config; None if there are
    too many."""
    if _OVERRIDES.isdisjoint(args.given):
        return model
    overrides = {**_json(args.given.get("hf_overrides"))}
    if "rope_scaling" not in overrides and (scaling := _json(args.given.get("rope_scaling"))):
        overrides["rope_scaling"] = scaling
    if not overrides:
        return model
    if _parsing_cost(overrides) > MOST_OVERRIDES:
        return None
    if model.config.get("model_type") != model.model_type:  # only nested fields change the language model's config
        overrides = {key: value for key, value in overrides.items() if key in (*NESTED, *OUTER)}
    entries = {"model_type": model.model_type, "architectures": list(model.architectures)}
    changed = from_config(model.id, {**model.config, **entries, **language_model_config(overrides)}, complete=False)
    same_shape = have_same_sizes(changed, model)
    return replace(
        changed,
        torch_dtype=changed.torch_dtype or model.torch_dtype,
        tie_word_embeddings=model.tie_word_embeddings if same_shape else changed.tie_word_embeddings,
        quantization_config=changed.quantization_config or model.quantization_config,
        scheme_guessed=model.scheme_guessed and not changed.quantization_config,
        storage_known=model.storage_known or bool(changed.quantization_config),
        kv_heads_known=model.kv_heads_known or "num_key_value_heads" in overrides,
        sizes_confirmed=model.sizes_confirmed,
        vision_config=changed.vision_config or model.vision_config,
        parameters=model.parameters if same_shape else None,
        weights_bytes=model.weights_bytes if same_shape else None,
        gated=model.gated,
        config={**changed.config, "model_type": model.config.get("model_type")},
        dtype_parameters=model.dtype_parameters if same_shape else {},
        expert_bytes=model.expert_bytes if same_shape else None,
        replicated_bytes=model.replicated_bytes if same_shape else None,
    )


def _parsing_cost(overrides: Mapping[str, Any]) -> int:
    """Roughly the bytes of memory that the parsed overrides take: their characters, and BYTES_PER_ITEM for each item,
    which follows one of three signs."""
    text = json.dumps(overrides)
    items = sum(text.count(sign) for sign in "[{,")
    return len(text) + BYTES_PER_ITEM * items


def _json(value: object) -> Mapping[str, Any]:
    """An option's JSON object, parsed or not; empty for any other value (for example a Python function's name)."""
    if isinstance(value, str):
        try:
            value = from_json(value)
        except (ValueError, InvalidValueError):
            return {}
    return value if isinstance(value, Mapping) else {}
