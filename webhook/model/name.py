"""What a name tells of the model: an id, a path that ends in one, one with more words added, or only a size."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from webhook.facts import Fact
from webhook.model.catalogue import aliases, by_id, catalogued, ids, row_of
from webhook.model.config import from_config
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
            return Fact(found.value, f"path: its last part names {found.value.id}", may_deny=False)
    return next((found for part in reversed(parts[-3:]) if (found := _by_beginning(part))), None)


def last_part(name: str) -> str:
    """What names a model in a path, a URI or an id, spelled so that people's spellings meet; "" where nothing does."""
    parts = _parts(name) if len(name) <= _LONGEST_NAME else []
    return _key(parts[-1]) if parts else ""


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
    if not rows:
        return None
    best = min(rows, key=lambda row: (_worth(row), row.lower()))
    wanted = shape(catalogued(best))
    others = (row for row in rows if _worth(row)[:2] <= _worth(best)[:2])  # worse rows of the same name say nothing
    return by_id(best) if all(shape(catalogued(row)) == wanted for row in others) else None


def _worth(row: str) -> tuple[bool, bool, bool]:
    """Trusted rows before others, a config.json before a table, originals before copies."""
    found = row_of(row)
    return not found["trusted"], found["confidence"] != "file", "base" in found


def shape(model: Model) -> tuple[object, ...]:
    """What copies of one model agree in; whether it is quantised is part of it, by which scheme is not."""
    return (model.num_hidden_layers, model.hidden_size, model.num_attention_heads, model.num_key_value_heads,
            model.vocab_size, model.num_experts, model.quantization_config is not None)  # fmt: skip


QUANTISED = re.compile(
    r"(?P<gguf>gguf|i?q[1-8]-(?:[k01]|x{0,2}s|nl|m)(?![a-z])(?:-(?:xs|s|m|l|xl)(?![a-z]))?)|(?P<awq>awq)|(?P<gptq>gptq|autoround)|(?P<fp8>fp8|float8)|(?P<nvfp4>nvfp4)"
    r"|(?P<bnb>bnb|bitsandbytes)|(?P<w8a8>w8a8|int8|8bit|8-bit)|(?P<w4a16>w4a16|int4|4bit|4-bit)"
    r"|(?P<mxfp4>mxfp4)|(?P<unknown>fp4|w8a16|quantized?|exl[23]|hqq|aqlm)"
)
SCHEMES: Mapping[str, Mapping[str, Any]] = {
    "awq": {"quant_method": "awq", "bits": 4, "group_size": 128},
    "gptq": {"quant_method": "gptq", "bits": 4, "group_size": 128},
    "fp8": {"quant_method": "fp8"},
    "nvfp4": {"quant_method": "modelopt", "quant_algo": "NVFP4"},
    "bnb": {"quant_method": "bitsandbytes", "load_in_4bit": True},
    "w8a8": {"quant_method": "compressed-tensors", "_scheme": "W8A8"},
    "w4a16": {"quant_method": "compressed-tensors", "format": "pack-quantized", "_scheme": "W4A16"},
    "mxfp4": {"quant_method": "mxfp4"},
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
    source = f"name: it begins with {model.id}'s"
    settings = _scheme(rest)
    if settings is None:
        return None
    if settings:
        model = replace(model, quantization_config=settings)
    if model.quantization_config:
        model = replace(model, weights_bytes=None, dtype_parameters={}, expert_bytes=None, replicated_bytes=None)
    return Fact(replace(model, id=name, gated=False), source, may_deny=False)


GGUF_BITS: Mapping[str, float] = {
    "iq1-s": 2.00, "iq1-m": 2.15, "iq2-xxs": 2.38, "iq2-xs": 2.59, "iq2-s": 2.74, "iq2-m": 2.93, "iq3-xxs": 3.25,
    "iq3-xs": 3.50, "iq3-s": 3.66, "iq3-m": 3.76, "iq4-xs": 4.46, "iq4-nl": 4.68, "q2-k-s": 2.97, "q2-k": 3.16,
    "q3-k-s": 3.64, "q3-k-m": 3.97, "q3-k-l": 4.30, "q4-0": 4.68, "q4-k-s": 4.67, "q4-k-m": 4.89, "q4-1": 5.15,
    "q5-0": 5.57, "q5-k-s": 5.57, "q5-k-m": 5.70, "q5-1": 6.05, "q6-k": 6.56, "q8-0": 8.50,
}  # fmt: skip
"""Bits a weight of Llama 3.1 8B's files, embeddings and scales included (llama.cpp tools/quantize/README.md); Q3_K_M as
the mean of its neighbours, the old formats by the size of their blocks."""


def _scheme(words: str) -> Mapping[str, Any] | None:
    """The quantization_config that a name's words tell, empty for none; None for a format of unknown size."""
    found = QUANTISED.search(words)
    if found is None:
        return {}
    if found.lastgroup == "gguf":
        kind = re.search(r"(?<![a-z0-9])i?q[1-8]-[a-z0-9]+(?:-(?:xs|s|m|l|xl)(?![a-z0-9]))?", words)
        bits = GGUF_BITS.get(kind[0]) if kind else None
        if not kind or not bits:
            return None
        return {"quant_method": "gguf", "_scheme": kind[0].replace("-", "_").upper(), "_bits": bits}
    return SCHEMES.get(found.lastgroup or "")


SIZED = re.compile(r"(?:^|-)(?:(?P<experts>\d{1,3})x)?(?P<size>\d{1,4}(?:-\d{1,3})?)(?P<unit>[bmt])(?=-|$)")


def size_of(name: str) -> Fact[Model] | None:
    """A model of which only the number of parameters is known: its name says "70B", "8x7B", "235B-A22B"."""
    if len(name) > _LONGEST_NAME:
        return None
    for part in reversed(_parts(name)[-2:]):
        sizes = list(SIZED.finditer(_key(part.replace("_", "-"))))
        if not sizes or (settings := _scheme(_key(part))) is None:
            continue
        largest = max(sizes, key=_parameters)
        unknown = from_config(name, {"quantization_config": settings} if settings else {})
        said = largest[0].strip("-").replace("-", ".").upper()
        active = re.search(r"-(a\d+(?:-\d+)?[bm])(?=-|$)", _key(part))
        source = f"name: it says {said} parameters"
        source += f", {active[1][1:].replace('-', '.').upper()} active" if active else ""
        source += f", {settings['quant_method']}" if settings else ""
        return Fact(replace(unknown, parameters=_parameters(largest)), source, may_deny=False)
    return None


def _parameters(said: re.Match[str]) -> int:
    """The experts of "8x7B" share their attention: Mixtral 8x7B has 46.7, 8x22B has 141 billion parameters."""
    unit = {"m": 10**6, "b": 10**9, "t": 10**12}[said["unit"]]
    one = float(said["size"].replace("-", ".")) * unit
    return int(one * int(said["experts"]) * 0.82) if said["experts"] else int(one)
