"""The keys of a sparse attention's indexer, which it stores next to keys and values, or latents.

An indexer chooses the tokens (DeepSeek-V3.2, GLM-5) or the blocks of tokens (MiniMax-M3) that a query attends to. Each
rank stores its keys whole (vLLM 0.33 model_executor/models/deepseek_v2.py DeepseekV32IndexerCache and its caller,
models/minimax_m3/common/indexer.py MiniMaxM3IndexerCache).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from podfit.vllm.memory.layer_tensors import number, numbers
from podfit.vllm.model import Model
from podfit.vllm.release import Release

QUANTIZATION_BLOCK = 128
"""Elements of a key with one scale of four bytes (deepseek_v2.py Indexer `quant_block_size`)."""
SHARED_INDEXERS = Release(0, 22)
"""From this release on, `index_topk_freq` lets several layers use one indexer's choice. Before, each layer has one."""
FIRST_SHARED = Release(0, 24)
"""From this release on, `index_skip_topk_offset` says where that begins; before, at the second layer."""


def each(model: Model, layers: range, release: Release, dtype: str | None) -> Iterator[tuple[int, int]]:
    """(index of the layer, bytes per token) for each of the layers with an indexer. `dtype`: `indexer_kv_dtype` of
    `--attention-config`; None if vLLM decides."""
    if (sparse := _blockwise(model)) is not None:
        size = (number(sparse, "sparse_index_dim") or 128) * (1 if dtype == "fp8" else 2)
        frequencies = numbers(sparse, "sparse_attention_freq")
        yield from ((index, size) for index in layers if index < len(frequencies) and frequencies[index])
    elif (width := model.index_head_dim) and model.kv_lora_rank:
        size = width // 2 + width // 32 if dtype == "mxfp4" else width + width // QUANTIZATION_BLOCK * 4
        yield from ((index, size) for index in layers if _has_indexer(model, index, release))


def _blockwise(model: Model) -> Mapping[str, Any] | None:
    """The `sparse_attention_config` of MiniMax-M3; None if the model has none, or does not use it."""
    sparse = model.config.get("sparse_attention_config")
    return sparse if isinstance(sparse, Mapping) and sparse.get("use_sparse_attention") is not False else None


def _has_indexer(model: Model, index: int, release: Release) -> bool:
    """True if the layer has its own indexer. Layers after the model's are those of multi-token prediction."""
    if index >= (model.num_hidden_layers or 0) or release < SHARED_INDEXERS:
        return True
    pattern = model.config.get("index_topk_pattern")
    if isinstance(pattern, str | list) and index < len(pattern):
        return bool(pattern[index] != "S")
    period = number(model.config, "index_topk_freq") or 1
    offset = number(model.config, "index_skip_topk_offset") if release >= FIRST_SHARED else None
    return max(index - (offset or 2) + 1, 0) % period == 0
