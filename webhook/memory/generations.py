"""What an unknown release is planned as: one release of each way to account for memory, if it can serve the model."""

from __future__ import annotations

from webhook.model import Model
from webhook.release import Release

OLDEST = Release(0, 4)
"""Before, nothing is known well enough to be certain."""
GENERATIONS = tuple(
    Release(*numbers) for numbers in ((0, 6, 3), (0, 7, 3), (0, 8, 5), (0, 10, 2), (0, 16), (0, 19), (0, 25), (0, 33))
)
"""V0 with its three accountings, V1 with and without NCCL in the budget, the samplers of 0.11.1, 0.17 and 0.21, CUDA
graphs in the budget from 0.20, batches of 0.28."""
SINCE = {
    "deepseek_v3": Release(0, 6, 6),
    "deepseek_v32": Release(0, 11),
    "gemma3": Release(0, 8),
    "gemma3_text": Release(0, 8),
    "gemma4": Release(0, 18),
    "glm4_moe": Release(0, 10),
    "gpt_oss": Release(0, 10, 1),
    "llama4": Release(0, 8, 3),
    "mistral3": Release(0, 8),
    "qwen2_5_vl": Release(0, 7, 2),
    "qwen3": Release(0, 8, 4),
    "qwen3_5": Release(0, 16),
    "qwen3_5_moe": Release(0, 16),
    "qwen3_moe": Release(0, 8, 4),
    "qwen3_next": Release(0, 10, 2),
    "qwen3_vl": Release(0, 11),
    "qwen3_vl_moe": Release(0, 11),
}
"""model_type → the first release that serves it, or an earlier one (vLLM's release notes, model_executor/models)."""


def possible(model: Model) -> tuple[Release, ...]:
    """The generations that may serve this model, oldest first; the newest always may."""
    since = SINCE.get(model.model_type or "", OLDEST)
    return tuple(release for release in GENERATIONS if release >= since) or GENERATIONS[-1:]
