"""The KV cache of DeepSeek-V4: the tokens of a window, latents of groups of tokens, and states of what compresses them.

Every layer stores the latents of its window. A layer with a compression ratio also stores one latent for each group of
4 or 128 tokens, and the states of the last groups. With ratio 4 it has an indexer, which does the same with its keys.

Source: vLLM 0.33 models/deepseek_v4/attention.py, compressor.py, v1/attention/backends/mla/sparse_swa.py. Read in
0.21 … 0.33; 0.20 is taken to be like 0.21.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from podfit.vllm.memory.layer_tensors import numbers
from podfit.vllm.model import Model

BLOCK = 256
"""Tokens per block of the compressed latents: the only size of their kernels (sparse_mla.py)."""
WINDOW_BLOCK = 64
"""Tokens per block of the window (sparse_swa.py DeepseekV4SWACache)."""
LATENT = 584
"""Bytes of a latent of 448 elements in FP8, 64 in BF16 and 8 scales (`fp8_ds_mla`)."""
ALIGNMENT = 576
"""A page is a multiple of this many bytes."""
STATE_BLOCKS = {4: 4, 128: 8}
"""Compression ratio → tokens per block of the compressor's states (compressor.py CompressorStateCache)."""
STATE_ELEMENT = 4
"""Bytes of an element of a state: float32."""


class Page(NamedTuple):
    """One cache of a layer."""

    tokens: int
    """Tokens per block."""
    size: int
    """Bytes per block."""
    window: int
    """Tokens that are kept; 0: all of them."""


def has_compressed_latents(model: Model) -> bool:
    """True if the model is a DeepSeek-V4 whose config.json has all sizes."""
    ratios = numbers(model.config, "compress_ratios")
    return (
        model.model_type in ("deepseek_v4", "deepseek_ref")
        and model.head_dim == 512
        and bool(model.sliding_window and model.index_head_dim)
        and len(ratios) >= (model.num_hidden_layers or 0) > 0
        and all(ratio in (0, 1, *STATE_BLOCKS) for ratio in ratios)
    )


def pages(model: Model, index: int, block: int | None, index_dtype: str | None) -> Iterator[Page]:
    """The caches of one layer. `block`: `--block-size`; `index_dtype`: `indexer_kv_dtype` of `--attention-config`."""
    yield Page(WINDOW_BLOCK, _aligned(WINDOW_BLOCK * LATENT), model.sliding_window or 0)
    ratios = numbers(model.config, "compress_ratios")
    ratio = ratios[index] if index < (model.num_hidden_layers or 0) else 0  # drafted layers have the window only
    if ratio not in STATE_BLOCKS:
        return
    tokens, width = block or BLOCK, model.head_dim or 0
    yield Page(tokens, _aligned(tokens // ratio * LATENT), 0)
    yield _states(ratio, width)
    if ratio == min(STATE_BLOCKS):
        keys = model.index_head_dim or 0
        key = keys // 2 + keys // 32 if index_dtype == "mxfp4" else keys + keys // 128 * 4
        yield Page(tokens, _aligned(tokens // ratio * key), 0)
        yield _states(ratio, keys)


def _states(ratio: int, width: int) -> Page:
    """The compressor's states: keys and scores, of two groups that overlap if the ratio is 4."""
    groups = 2 if ratio == min(STATE_BLOCKS) else 1
    tokens = STATE_BLOCKS[ratio]
    return Page(tokens, _aligned(tokens * 2 * groups * width * STATE_ELEMENT), groups * ratio)


def _aligned(size: int) -> int:
    """The size in bytes, rounded up to ALIGNMENT."""
    return -(-size // ALIGNMENT) * ALIGNMENT
