"""Quantization schemes in model names: a word → what the config.json of such a checkpoint usually has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from podfit.base.lazy import regex

QUANTISED = regex(
    r"(?P<gguf>gguf|i?q[1-8]-(?:[k01]|x{0,2}s|nl|m)(?![a-z])(?:-(?:xs|s|m|l|xl)(?![a-z]))?)|(?P<awq>awq)|(?P<gptq>gptq|autoround)|(?P<fp8>fp8|float8)|(?P<nvfp4>nvfp4|(?<!mx)fp4)"
    r"|(?P<bnb>bnb|bitsandbytes)|(?P<w8a8>w8a8|int8|8bit|8-bit)|(?P<w4a16>w4a16|int4|4bit|4-bit)"
    r"|(?P<mxfp4>mxfp4)|(?P<unknown>w8a16|quantized?|exl[23]|hqq|aqlm)"
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
"""The usual meaning of a name's word, as catalog entries have it: certain enough for an estimate, not for a denial."""
GGUF_BITS: Mapping[str, float] = {
    "iq1-s": 2.00, "iq1-m": 2.15, "iq2-xxs": 2.38, "iq2-xs": 2.59, "iq2-s": 2.74, "iq2-m": 2.93, "iq3-xxs": 3.25,
    "iq3-xs": 3.50, "iq3-s": 3.66, "iq3-m": 3.76, "iq4-xs": 4.46, "iq4-nl": 4.68, "q2-k-s": 2.97, "q2-k": 3.16,
    "q3-k-s": 3.64, "q3-k-m": 3.97, "q3-k-l": 4.30, "q4-0": 4.68, "q4-k-s": 4.67, "q4-k-m": 4.89, "q4-1": 5.15,
    "q5-0": 5.57, "q5-k-s": 5.57, "q5-k-m": 5.70, "q5-1": 6.05, "q6-k": 6.56, "q8-0": 8.50,
}  # fmt: skip
"""Bits per weight of Llama 3.1 8B's files, embeddings and scales included (llama.cpp tools/quantize/README.md). Q3_K_M
is the mean of its neighbors; the old formats are by the size of their blocks."""


def scheme_of(text: str) -> Mapping[str, Any] | None:
    """The quantization_config that a name's words mean, empty if none; None for a format of unknown size."""
    match = QUANTISED.search(text)
    if match is None:
        return {}
    if match.lastgroup == "gguf":
        kind = re.search(r"(?<![a-z0-9])i?q[1-8]-[a-z0-9]+(?:-(?:xs|s|m|l|xl)(?![a-z0-9]))?", text)
        bits = GGUF_BITS.get(kind[0]) if kind else None
        if not kind or not bits:
            return None
        return {"quant_method": "gguf", "_scheme": kind[0].replace("-", "_").upper(), "_bits": bits}
    return SCHEMES.get(match.lastgroup or "")
