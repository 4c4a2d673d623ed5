"""Memory that the kernel can't reclaim while the weights load."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from podfit.kube.quantity import GI, human
from podfit.vllm.args import EngineArgs
from podfit.vllm.memory.estimate import NOTHING, Estimate
from podfit.vllm.memory.weights import Checkpoint
from podfit.vllm.model import Model

SHARD = 5 * GI
"""The usual largest safetensors file: transformers' `max_shard_size` was 10GB, then 5GB."""
LEAST_SHARD = 1 * GI
"""Least size of a file of a checkpoint with many GiB, if the number of files is unknown."""
CHECKPOINT_FILES: Mapping[str, int] = {
    "llama-2-70b-hf": 15, "llama-2-70b-chat-hf": 15, "meta-llama-3-70b": 30, "meta-llama-3-70b-instruct": 30,
    "llama-3.1-70b": 30, "llama-3.1-70b-instruct": 30, "meta-llama-3.1-70b-instruct": 30, "llama-3.3-70b-instruct": 30,
    "deepseek-r1-distill-llama-70b": 17, "qwen2.5-72b-instruct": 37, "qwen2.5-32b-instruct": 17, "qwen3-32b": 17,
    "mixtral-8x7b-instruct-v0.1": 19, "deepseek-r1": 163, "deepseek-v3": 163,
}  # fmt: skip
"""Number of files of well-known checkpoints, as the hub lists them (`model-00001-of-000NN.safetensors`), by the
repository's name without its owner."""


class LargestFile(NamedTuple):
    """Bytes of the largest file of a checkpoint."""

    least: int
    likely: int


def largest_file(size: int, model: Model | None) -> LargestFile:
    """The largest file of a checkpoint of `size` bytes. `model` None: the number of its files is unknown.

    With a known number of files it is at least the average one, and likely not over twice that (assumed)."""
    files = (model.files or CHECKPOINT_FILES.get(model.id.rpartition("/")[2].lower())) if model else None
    if not files:
        return LargestFile(least=min(size, LEAST_SHARD), likely=min(size, SHARD))
    average = size // files
    usual = max(average, min(SHARD, 2 * size // files))
    return LargestFile(least=average, likely=min(size, usual))


OWN_LOADERS = ("dummy", "sharded_state", "tensorizer", "fastsafetensors", "instanttensor", "ipc_cache", "gguf")
"""Load formats with a loader of their own, which may stage one file at most (assumed)."""
BIN_FILE = 2 * SHARD
"""The usual largest PyTorch file (.bin): transformers' former `max_shard_size` of 10GB."""
USUAL_THREADS = 8
"""The default of `num_threads` of `enable_multithread_load`."""


def line(
    args: EngineArgs, model: Model | None, checkpoint: Checkpoint | None, ranks: int, env: Mapping[str, str]
) -> Estimate:
    """Host memory in bytes that loading the weights takes on all ranks, by load format and load strategy. Zeros if the
    checkpoint's size is unknown.

    Memory-mapped safetensors take none: they are page cache. `eager` reads a whole file and decodes it, so that its
    bytes and its tensors are in memory together. Every rank does so, and all read the same files in the same order, so
    the floor has both. `enable_multithread_load` opens `num_threads` files at once; `torchao` keeps a file's tensors
    (vLLM 0.33 model_executor/model_loader/weight_utils.py). The other bounds are engineering estimates.
    """
    size = (model.weights_bytes if model else None) or (int(checkpoint.total) if checkpoint else None)
    load_format = str(args.given.get("load_format") or "auto")
    if size is None:
        return NOTHING
    extra = args.given.get("model_loader_extra_config")
    extra = extra if isinstance(extra, Mapping) else {}
    least, usual = largest_file(size, model)
    if load_format in ("pt", "npcache"):
        each = min(size, BIN_FILE)
        return Estimate(0, each // 2, each * ranks, 2 * each * ranks, f"one .bin file in each of {ranks} ranks")
    if load_format in OWN_LOADERS:
        return Estimate(0, 0, 0, usual, load_format)
    if load_format == "bitsandbytes" or args.quantization == "bitsandbytes":
        return Estimate(0, 0, usual, 2 * usual * ranks, "16-bit tensors on their way to bitsandbytes")
    if load_format.startswith("runai_streamer"):
        return _streamed(load_format, extra, size, usual, ranks, env)
    strategy = args.given.get("safetensors_load_strategy")
    if strategy == "eager":
        return Estimate(
            2 * least * ranks,
            2 * least * ranks,
            2 * usual * ranks,
            3 * usual * ranks,
            f"{human(usual)} file, twice while it is decoded, × {ranks} ranks (eager)",
            "vLLM 0.33 model_loader/weight_utils.py safetensors_weights_iterator",
        )
    if strategy == "torchao":
        return Estimate(0, usual, usual * ranks, 2 * usual * ranks, f"a file's tensors × {ranks} ranks")
    if extra.get("enable_multithread_load"):
        threads = extra.get("num_threads")
        open_files = threads if isinstance(threads, int) and threads > 0 else USUAL_THREADS
        several = min(size, usual * open_files)
        return Estimate(0, usual * ranks, several * ranks, several * ranks, f"files read by threads × {ranks} ranks")
    return Estimate(0, 0, 0, usual, "memory-mapped: page cache", "vLLM 0.33 model_loader/weight_utils.py")


STREAMER_LIMIT = 40 * 10**9
"""Bytes of Run:ai's buffer in each rank if no limit is set: the default of its `memory_limit`."""
STREAMING_TOGETHER = 4
"""Ranks whose buffers are likely full at the same time, at most (assumed)."""


def _streamed(
    load_format: str, extra: Mapping[str, object], size: int, usual: int, ranks: int, env: Mapping[str, str]
) -> Estimate:
    """Bytes of the buffers of Run:ai's streamer, one in each rank. `extra`: the loader's extra config; `size`: bytes of
    the checkpoint; `usual`: bytes of its largest file, likely.

    A buffer is as large as the checkpoint, or a rank's part of it if it is sharded, up to `memory_limit` (0: one
    tensor, for which a file is taken). With `distributed`, one buffer is likely full."""
    limit = extra.get("memory_limit", env.get("RUNAI_STREAMER_MEMORY_LIMIT"))
    is_short_number = isinstance(limit, str) and limit.isdecimal() and len(limit) < 19
    bound = int(limit) if isinstance(limit, int) or (isinstance(limit, str) and is_short_number) else STREAMER_LIMIT
    to_read = size // ranks if load_format.endswith("sharded") else size
    each = min(to_read, bound or usual)
    full_at_once = 1 if extra.get("distributed") else min(ranks, STREAMING_TOGETHER)
    return Estimate(0, each // 4, each * full_at_once, each * ranks, f"{load_format} buffers")
