"""The phase of vLLM in which it failed: the same text, out of memory, has another remedy in each phase.

The functions of the frames are vLLM's, 0.4 … 0.33: v1/worker/gpu_worker.py, v1/worker/gpu_model_runner.py,
v1/worker/gpu/model_runner.py, worker/worker.py, worker/model_runner.py, model_executor/model_loader/.
"""

from __future__ import annotations

import re
from typing import Literal

Phase = Literal["load", "profile", "kv-cache", "capture", "sampler", "serve"]

_FRAMES: tuple[tuple[Phase, re.Pattern[str]], ...] = (
    ("sampler", re.compile(r"_dummy_sampler_run|_dummy_pooler_run|warming up (?:sampler|pooler)")),
    (
        "capture",
        re.compile(
            r"\bcapture_model\b|\bcapture_graph|cudagraph_manager|_capture_cudagraphs|CUDAGraphWrapper|"
            r"torch/cuda/graphs\.py|profile_cudagraph_memory|compile_or_warm_up_model|\bkernel_warmup\b"
        ),
    ),
    ("kv-cache", re.compile(r"_allocate_kv_cache|initialize_kv_cache\b|initialize_from_config|CacheEngine\(")),
    ("profile", re.compile(r"\bprofile_run\b|determine_available_memory|determine_num_available_blocks")),
    (
        "load",
        re.compile(
            r"\bload_model\b|\bload_weights\b|\bcreate_weights\b|initialize_model|process_weights_after_loading|"
            r"model_loader|model_executor/models/\S+ in __init__|not enough GPU memory"
        ),
    ),
    ("serve", re.compile(r"\bexecute_model\b|\bsample_tokens\b|run_busy_loop|process_engine_step|\bstep_fn\b")),
)
"""Frames by phase, the innermost phase first: profiling in V0 calls `execute_model`, too."""

MILESTONES: tuple[tuple[Phase, str], ...] = (
    ("serve", r"Application startup complete|Avg prompt throughput"),
    (
        "capture",
        r"Available KV cache memory:? \d|GPU KV cache size|# GPU blocks: [1-9]|Capturing (?:CUDA|cuda|the model)|"
        r"Graph capturing finished|Maximum concurrency for",
    ),
    ("profile", r"Model loading took|Loading (?:model )?weights took"),
    ("load", r"Starting to load model|Loading \S+ checkpoint shards"),
)
"""(the phase that follows, a pattern of vLLM's output before it), the last phase first."""


def of_frames(traceback: str) -> Phase | None:
    """The phase that the frames of a traceback show."""
    return next((phase for phase, pattern in _FRAMES if pattern.search(traceback)), None)
