"""What a name tells of the model: an id, a path that ends in one, or one with a quantisation added."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from webhook.facts import Fact
from webhook.model.catalogue import aliases, by_id, catalogued, ids, row_of
from webhook.model.shape import Model

_LONGEST_NAME = 256
"""A hub's names have at most 96 characters a part; a longer text is no name."""


def named(name: str) -> Fact[Model] | None:
    """The model that a name tells: an id, a path or URI that ends in one, or one with a quantisation added."""
    if len(name) > _LONGEST_NAME:
        return None
    if row := by_id(name):
        return row
    parts = _parts(name)
    for start in range(max(0, len(parts) - 2), len(parts)):
        tail = "/".join(parts[start:])
        if found := by_id(tail) or _by_last_part(tail):
            return Fact(found.value, f"the path's last part names {found.value.id}", may_deny=False)
    return next((found for part in reversed(parts[-3:]) if (found := _by_beginning(part))), None)


def _parts(name: str) -> list[str]:
    """The parts of a path or URI from the outside in; a Hugging Face cache's `models--org--name` is two."""
    path = re.sub(r"^[a-z][a-z0-9+.-]*://", "", name.strip(), flags=re.IGNORECASE).partition("?")[0]
    path = re.sub(r"@sha256:\w+$", "", path)
    parts = [part for part in path.split("/") if part.strip()]
    if cached := next((part for part in parts if part.startswith("models--")), None):
        return cached.removeprefix("models--").split("--")
    while len(parts) > 1 and re.fullmatch(
        r"\d{1,4}|v\d+|latest|main|snapshots?|hf|original|[0-9a-f]{40}", parts[-1], re.I
    ):
        parts.pop()
    if parts and name.startswith("oci://"):
        parts[-1] = parts[-1].partition(":")[0]
    return parts


@cache
def _last_parts() -> Mapping[str, tuple[str, ...]]:
    """The last part of an id or alias, as `_key` writes it → the rows that it may mean."""
    found: dict[str, list[str]] = {}
    for name, row in [*ids().items(), *aliases().items()]:
        rows = found.setdefault(_key(name.rpartition("/")[2]), [])
        if row not in rows:
            rows.append(row)
    return {key: tuple(rows) for key, rows in found.items()}


def _key(name: str) -> str:
    """Names that people write apart and mean alike: Llama_3.1-8B, llama-3-1-8b-hf, llama3.1-8b."""
    joined = re.sub(r"(?<=[a-z])[\s_-](?=\d+(?:\.\d+)?[\s_-])", "", name.lower())
    return re.sub(r"[\s_.()-]+", "-", joined).strip("-").removesuffix("-hf")


def _by_last_part(name: str) -> Fact[Model] | None:
    """The one model of that last part: copies by several owners are one where shape and scheme agree."""
    rows = _last_parts().get(_key(name.rpartition("/")[2]), ())
    models = [catalogued(row) for row in rows]
    if not models or len({shape(model) for model in models}) != 1:
        return None
    best = min(rows, key=lambda row: (not row_of(row)["trusted"], "base" in row_of(row), row.lower()))
    return by_id(best)


def shape(model: Model) -> tuple[object, ...]:
    """What copies of one model agree in; whether it is quantised is part of it, by which scheme is not."""
    return (model.num_hidden_layers, model.hidden_size, model.num_attention_heads, model.num_key_value_heads,
            model.vocab_size, model.num_experts, model.quantization_config is not None)  # fmt: skip


QUANTISED = re.compile(
    r"(?P<gguf>gguf|q[2-8]-[k01])|(?P<awq>awq)|(?P<gptq>gptq|autoround)|(?P<fp8>fp8|float8)|(?P<nvfp4>nvfp4)"
    r"|(?P<bnb>bnb|bitsandbytes)|(?P<w8a8>w8a8|int8|8bit|8-bit)|(?P<w4a16>w4a16|int4|4bit|4-bit)"
    r"|(?P<unknown>mxfp4|fp4|w8a16|quantized?|exl[23]|hqq|aqlm)"
)
SCHEMES: Mapping[str, Mapping[str, Any]] = {
    "awq": {"quant_method": "awq", "bits": 4, "group_size": 128},
    "gptq": {"quant_method": "gptq", "bits": 4, "group_size": 128},
    "fp8": {"quant_method": "fp8"},
    "nvfp4": {"quant_method": "modelopt", "quant_algo": "NVFP4"},
    "bnb": {"quant_method": "bitsandbytes", "load_in_4bit": True},
    "w8a8": {"quant_method": "compressed-tensors", "_scheme": "W8A8"},
    "w4a16": {"quant_method": "compressed-tensors", "format": "pack-quantized", "_scheme": "W4A16"},
}
"""What a name's word usually means, as the catalogue writes schemes; enough to estimate with, not to deny on."""
SIZE = re.compile(r"(?:^|-)((?:\d+x|[ea])?\d+(?:-\d+)?[bm])(?=-|$)")


def tells_quantisation(name: str) -> bool:
    """The name says that the weights are quantised (`llama-8b-awq`)."""
    return len(name) <= _LONGEST_NAME and QUANTISED.search(_key(name)) is not None


_MOST_WORDS = 24
"""No published name has more."""


def _by_beginning(name: str) -> Fact[Model] | None:
    """A published model's name, with its size in it, and then more words: a quantised copy or a fine-tune of it."""
    words = _key(name).split("-")[:_MOST_WORDS]
    for end in range(len(words) - 1, 1, -1):
        beginning, rest = "-".join(words[:end]), "-".join(words[end:])
        sizes = SIZE.findall(beginning)
        if not sizes or not set(SIZE.findall(rest)) <= set(sizes):
            continue
        spellings = (beginning, f"{beginning}-instruct", f"{beginning}-it", f"meta-{beginning}")
        if found := next((row for one in spellings if (row := _by_last_part(one))), None):
            return _variant(found.value, name, rest)
    return None


def _variant(model: Model, name: str, rest: str) -> Fact[Model] | None:
    """`model` as the further words of a name change it; None where they name a format of unknown size."""
    source = f"the name begins with {model.id}'s"
    if scheme := QUANTISED.search(rest):
        if (settings := SCHEMES.get(scheme.lastgroup or "")) is None:
            return None
        model = replace(model, quantization_config=settings)
    if model.quantization_config:
        model = replace(model, weights_bytes=None, dtype_parameters={}, expert_bytes=None, replicated_bytes=None)
    return Fact(replace(model, id=name), source, may_deny=False)
