"""Memory that the kernel can't reclaim while the weights load."""

from __future__ import annotations

from collections.abc import Mapping

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


def shard(size: int, model: Model | None) -> tuple[int, int]:
    """(The largest file is at least, is likely) bytes of a checkpoint of `size`: no less than the average file."""
    files = (model.files or CHECKPOINT_FILES.get(model.id.rpartition("/")[2].lower())) if model else None
    if files:
        return size // files, min(size, max(size // files, min(SHARD, 2 * size // files)))
    return min(size, LEAST_SHARD), min(size, SHARD)


def line(
    args: EngineArgs, model: Model | None, checkpoint: Checkpoint | None, ranks: int, env: Mapping[str, str]
) -> Estimate:
    """Host memory that loading the weights takes, by load format. Memory-mapped safetensors take none: they are page
    cache.

    vLLM 0.33 model_executor/model_loader/weight_utils.py. `eager` reads a whole file and decodes it, so that its bytes
    and its tensors are in memory together. Every rank does so, and all read the same files in the same order.
    `enable_multithread_load` opens `num_threads` files at once; `torchao` keeps a file's tensors.
    """
    size = (model.weights_bytes if model else None) or (int(checkpoint.total) if checkpoint else None)
    form = str(args.given.get("load_format") or "auto")
    if size is None:
        return NOTHING
    extra = args.given.get("model_loader_extra_config")
    extra = extra if isinstance(extra, Mapping) else {}
    least, usual = shard(size, model)
    if form in ("pt", "npcache"):
        each = min(size, 2 * SHARD)
        return Estimate(0, each // 2, each * ranks, 2 * each * ranks, f"one .bin file in each of {ranks} ranks")
    if form in ("dummy", "sharded_state", "tensorizer", "fastsafetensors", "instanttensor", "ipc_cache", "gguf"):
        return Estimate(0, 0, 0, usual, form)
    if form == "bitsandbytes" or args.quantization == "bitsandbytes":
        return Estimate(0, 0, usual, 2 * usual * ranks, "16-bit tensors on their way to bitsandbytes")
    if form.startswith("runai_streamer"):
        return _streamed(form, extra, size, usual, ranks, env)
    if args.given.get("safetensors_load_strategy") == "eager":
        return Estimate(
            2 * least * ranks,
            2 * least * ranks,
            2 * usual * ranks,
            3 * usual * ranks,
            f"{human(usual)} file, twice while it is decoded, × {ranks} ranks (eager)",
            "vLLM 0.33 model_loader/weight_utils.py safetensors_weights_iterator",
        )
    if args.given.get("safetensors_load_strategy") == "torchao":
        return Estimate(0, usual, usual * ranks, 2 * usual * ranks, f"a file's tensors × {ranks} ranks")
    if extra.get("enable_multithread_load"):
        threads = extra.get("num_threads")
        several = min(size, usual * (threads if isinstance(threads, int) and threads > 0 else 8))
        return Estimate(0, usual * ranks, several * ranks, several * ranks, f"files read by threads × {ranks} ranks")
    return Estimate(0, 0, 0, usual, "memory-mapped: page cache", "vLLM 0.33 model_loader/weight_utils.py")


def _streamed(
    form: str, extra: Mapping[str, object], size: int, usual: int, ranks: int, env: Mapping[str, str]
) -> Estimate:
    """Run:ai's streamer: a buffer in each rank, limited by `memory_limit` (default 40 GB; 0: one tensor)."""
    limit = extra.get("memory_limit", env.get("RUNAI_STREAMER_MEMORY_LIMIT"))
    bound = (
        int(limit)
        if isinstance(limit, int) or (isinstance(limit, str) and limit.isdecimal() and len(limit) < 19)
        else 40 * 10**9
    )
    each = min(size // ranks if form.endswith("sharded") else size, bound or usual)
    together = 1 if extra.get("distributed") else min(ranks, 4)
    return Estimate(0, each // 4, each * together, each * ranks, f"{form} buffers")
