"""A model's own files from an admin: a ConfigMap, a folder, or the one file that `podfit models add` writes.

Entries are relative paths and their texts; the caller reads the files:

    config.json                          the model that the ConfigMap names
    acme/ours/config.json                the model acme/ours, or a path of that name
    acme--ours.json                      the same in one file: keys of a mounted ConfigMap have no slash
    …/model.safetensors.index.json       next to a config.json: the checkpoint's bytes

A config.json may have `"podfit": {…}` with counts from the checkpoint (the fields of `Counted`).
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from podfit.base import numbers
from podfit.base.lazy import regex
from podfit.kube import snapshot
from podfit.vllm import measured
from podfit.vllm.facts import Counted, GivenModel
from podfit.vllm.model.read import integer, mapping

LABEL = snapshot.MODEL_CONFIG
"""Label of a ConfigMap that contains a model's config.json."""
MODEL_ANNOTATION = "podfit.dev/model"
"""An annotation on that ConfigMap: the ids and paths under which the model is served, separated by commas."""
CONFIG, INDEX, OURS = "config.json", "model.safetensors.index.json", "podfit"
QUANTIZATION_FILES = ("hf_quant_config.json", "quantize_config.json", "quant_config.json")
"""Files in which ModelOpt, AutoGPTQ and AutoAWQ describe a checkpoint's quantization, if its config.json does not."""
KNOWS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "hidden_size", "d_model", "n_embd", "model_type")
"""A config.json has at least one of these, or a nested config that has."""


class UnreadableModelError(ValueError):
    """A file that should be a config.json or an index is not; the text names file and reason."""


def read(entries: Mapping[str, str], source: str, names: Iterable[str] = ()) -> tuple[dict[str, GivenModel], list[str]]:
    """(models by name, errors in the files). `names` are those of the config.json in the top folder. Files that
    describe no model, an index and a quantization file alone are skipped."""
    models: dict[str, GivenModel] = {}
    errors = []
    for path, text in sorted(entries.items()):
        folder, name = posixpath.split(path)
        if not is_read(path, beside_config=posixpath.join(folder, CONFIG) in entries) or name in (
            INDEX,
            *QUANTIZATION_FILES,
        ):
            continue
        at = f"{source}: {path}"
        try:
            config = _json_object(text, at)
            if not is_model_config(config):
                raise UnreadableModelError(f"{at}: no config.json of a model: none of {', '.join(KNOWS[:4])} … in it")
            index = entries.get(posixpath.join(folder, INDEX)) if name == CONFIG else None
            if name == CONFIG:
                config = {**config, **_quantised(config, entries, folder, at[: -len(CONFIG)])}
            model = GivenModel(
                config, at, count_weights(config, _json_object(index, f"{at[: -len(CONFIG)]}{INDEX}") if index else {})
            )
        except UnreadableModelError as error:
            errors.append(str(error))
            continue
        own = config.get(OURS)
        value = own.get("names") if isinstance(own, Mapping) else None
        called = [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
        if name != CONFIG:
            called.append(posixpath.join(folder, name.removesuffix(".json").replace("--", "/")))
        elif folder:
            called.append(cached(folder))
        else:
            called += names
        models.update({key(model_name): model for model_name in called})
    return models, errors


def is_read(path: str, *, beside_config: bool) -> bool:
    """True if a file in a folder describes a model: not a checkpoint's tokenizer.json, not an adapter's config.

    `beside_config`: there is a config.json in the same folder.
    """
    folder, name = posixpath.split(path)
    if name in (CONFIG, INDEX, *QUANTIZATION_FILES):
        return True
    return (
        name.endswith(".json")
        and not name.endswith(measured.ENDING)
        and ("--" in name or not (folder or beside_config))
    )


@dataclass(frozen=True)
class LazyModels(Mapping[str, GivenModel]):
    """Given models, and others that are read when they are looked up by id. Iteration yields the given ones alone."""

    given: Mapping[str, GivenModel]


def joined(models: Mapping[str, GivenModel], more: Mapping[str, GivenModel]) -> Mapping[str, GivenModel]:
    """`models`, and those of `more` that it lacks; ids that are in neither are still looked up."""
    if isinstance(models, LazyModels):
        return replace(models, given={**more, **models.given})
    return {**more, **models}


def of_config_map(obj: Mapping[str, Any]) -> tuple[dict[str, GivenModel], list[str]]:
    """The models of one ConfigMap object, none if it does not have the label `LABEL`; never raises.

    Its config.json is the model that the annotation `MODEL_ANNOTATION` names; else the ConfigMap's own name.
    """
    metadata = mapping(obj.get("metadata")) or {}
    labels = metadata.get("labels")
    if obj.get("kind", "ConfigMap") != "ConfigMap" or not isinstance(labels, Mapping) or LABEL not in labels:
        return {}, []
    if str(labels[LABEL]).lower() == "false":
        return {}, []
    annotations = metadata.get("annotations")
    named = annotations.get(MODEL_ANNOTATION) if isinstance(annotations, Mapping) else None
    names = re.split(r"[,\s]+", named.strip()) if isinstance(named, str) and named.strip() else []
    called = "/".join(str(metadata[part]) for part in ("namespace", "name") if metadata.get(part))
    source = f"ConfigMap {called}"
    data = obj.get("data")
    if not isinstance(data, Mapping):
        return {}, [f"{source}: labeled {LABEL}, but has no data"]
    entries = {str(key): text for key, text in data.items() if isinstance(text, str)}
    models, errors = read(entries, source, names or [str(metadata.get("name", ""))])
    if not models and not errors and not any(name.endswith(measured.ENDING) for name in entries):
        errors.append(f"{source}: labeled {LABEL}, but has neither config.json nor ORG--NAME.json")
    return models, [*errors, *measured.of_config_map(obj)[1]]


def key(name: str) -> str:
    """A name as a key of `Facts.models`: without the slash at the end of a path; ids are unchanged."""
    return name.strip().rstrip("/") or name


def cached(folder: str) -> str:
    """A folder's model: `models--org--name/snapshots/…` of a Hugging Face cache is org/name."""
    parts = folder.split("/")
    hub = next((part for part in parts if part.startswith("models--")), None)
    return hub.removeprefix("models--").replace("--", "/") if hub else folder


def is_model_config(config: Mapping[str, Any]) -> bool:
    """True if this is a config.json of a model, and not some other JSON object."""
    inner = [value for value in config.values() if isinstance(value, Mapping)]
    return any(name in item for item in (config, *inner) for name in KNOWS)


def count_weights(config: Mapping[str, Any], index: Mapping[str, Any]) -> Counted:
    """The counts: in the config's own `podfit` field, else the index's `total_size`."""
    own = config.get(OURS)
    own = own if isinstance(own, Mapping) else {}
    metadata = index.get("metadata")
    total = integer(metadata.get("total_size")) if isinstance(metadata, Mapping) else None
    by_dtype = own.get("dtype_parameters")
    stored = {
        str(name): count
        for name, count in (by_dtype.items() if isinstance(by_dtype, Mapping) else ())
        if integer(count) is not None
    }
    return Counted(
        parameters=integer(own.get("parameters")) or None,
        weights_bytes=integer(own.get("weights_bytes")) or total or None,
        dtype_parameters=stored,
        expert_bytes=integer(own.get("expert_bytes")),
        files=integer(own.get("files")) or _files(index) or None,
    )


def _files(index: Mapping[str, Any]) -> int:
    """The number of files that the index names; 0 without a weight map."""
    where = index.get("weight_map")
    return len(set(map(str, where.values()))) if isinstance(where, Mapping) else 0


PACKED = {"U8", "I8", "I16", "I32", "U32", "F4"}
"""safetensors dtypes in which one element may contain several weights."""
_EXPERT = regex(r"\.(experts|block_sparse_moe\.experts|local_experts)\.")


def of_headers(headers: Iterable[Mapping[str, Any]]) -> Counted:
    """Counts from the headers of a checkpoint's safetensors files: tensor → {"dtype", "shape", "data_offsets"}.

    `parameters` is set only if no tensor is packed. https://huggingface.co/docs/safetensors, "Format".
    """
    elements: dict[str, int] = {}
    size = experts = files = 0
    for header in headers:
        files += 1
        for name, tensor in header.items():
            if name == "__metadata__" or not isinstance(tensor, Mapping):
                continue
            begin, end = tensor["data_offsets"]
            count = 1
            for side in tensor["shape"]:
                count *= side
            elements[tensor["dtype"]] = elements.get(tensor["dtype"], 0) + count
            size += end - begin
            experts += end - begin if _EXPERT.search(name) and "shared" not in name else 0
    total = sum(elements.values()) if elements and not PACKED & set(elements) else None
    return Counted(total, size or None, elements, experts, files or None)


def one_file(config: Mapping[str, Any], count: Counted, names: Iterable[str] = (), source: str = "") -> dict[str, Any]:
    """The config.json with the counts in it: the file that `read` reads."""
    entries = {
        "names": list(names), "source": source, "parameters": count.parameters, "weights_bytes": count.weights_bytes,
        "dtype_parameters": dict(count.dtype_parameters), "expert_bytes": count.expert_bytes,
        "files": count.files,
    }  # fmt: skip
    return {**config, OURS: {name: value for name, value in entries.items() if value not in (None, [], {}, "")}}


def config_map(name: str, config: Mapping[str, Any], model_names: Iterable[str]) -> dict[str, Any]:
    """The ConfigMap that adds one model to podfit; `config` as `one_file` writes it."""
    called = list(model_names)
    word = re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-.")[:200]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": f"podfit-model-{word}",
            "labels": {LABEL: "true"},
            "annotations": {MODEL_ANNOTATION: ",".join(called)},
        },
        "data": {CONFIG: json.dumps(config, indent=1, sort_keys=False) + "\n"},
    }


def _quantised(config: Mapping[str, Any], entries: Mapping[str, str], folder: str, at: str) -> dict[str, Any]:
    """{"quantization_config": …} from the file next to a config.json that has none; empty if there is no such file, or
    if it states that nothing is quantized."""
    if "quantization_config" in config or "compression_config" in config:
        return {}
    for name, method in zip(QUANTIZATION_FILES, ("modelopt", "gptq", "awq"), strict=True):
        if text := entries.get(posixpath.join(folder, name)):
            quant_config = _json_object(text, f"{at}{name}")
            inner = quant_config.get("quantization")
            quant_config = inner if isinstance(inner, dict) else quant_config
            return (
                {"quantization_config": {"quant_method": method, **quant_config}}
                if quant_config.get("quant_algo", "") is not None
                else {}
            )
    return {}


def _json_object(text: str, at: str) -> dict[str, Any]:
    """A text as a JSON object; raises UnreadableModelError with the place `at`."""
    try:
        value = numbers.from_json(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableModelError(f"{at}: not JSON: {error}") from error
    if not isinstance(value, dict):
        raise UnreadableModelError(f"{at}: expected a JSON object, is a {type(value).__name__}")
    return value
