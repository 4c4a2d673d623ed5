"""Images and videos that vLLM can't split: the longest item must fit into one batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from podfit.vllm.model import Model
from podfit.vllm.release import Release

WHOLE_SINCE: Final = Release(0, 20)
"""First release that reads use_bidirectional_attention of Gemma 4 (vLLM 0.20.2, 0.22.0, 0.33.0
transformers_utils/model_arch_config_convertor.py; 0.19.1 does not)."""
RAISED_SINCE: Final = Release(0, 22)
"""First release that raises the default batch to the longest item (vLLM 0.22.0, 0.24.0, 0.33.0 engine/arg_utils.py,
_get_min_mm_batched_tokens; 0.20.2 and 0.21.0 do not)."""
VIDEO_TOKENS: Final = 32 * (70 + 2 + 6)
"""Tokens of the longest video that Gemma 4 accepts: 32 frames, each of at most 70 tokens, two markers and six tokens of
a time stamp. Source: vLLM 0.20.2 to 0.33.0 model_executor/models/gemma4_mm.py, get_mm_max_tokens_per_item."""
IMAGE_TOKENS: Final = 1120
"""Tokens of the largest image that a request may ask for (the same file, _SUPPORTED_SOFT_TOKENS)."""

LONG_VIDEO: Final = 32_768
"""Context from which the dummy video of vLLM's profile run is much larger than the largest image (16,384 tokens). Read
off start-ups with 8,192 … 16,384 and with 65,536 tokens and more, not off a source."""


def is_whole(model: Model, release: Release) -> bool:
    """True if the tokens of an image attend in both directions: in Gemma 4's 26B and 31B, not in E2B and E4B."""
    return (
        release >= WHOLE_SINCE
        and model.model_type == "gemma4"
        and model.config.get("use_bidirectional_attention") == "vision"
    )


def least_default(model: Model, release: Release) -> int:
    """Least value to which vLLM raises the default of max_num_batched_tokens, whatever the limits for prompts; 0: it is
    not raised."""
    return VIDEO_TOKENS if release >= RAISED_SINCE and is_whole(model, release) else 0


def no_videos(given: Mapping[str, Any]) -> bool:
    """True if videos are switched off, made shorter than Gemma 4's own, or unknown to the classes that serve it:
    those of `--model-impl transformers` (vLLM 0.20.2, 0.24.0, 0.27.1 model_executor/models/transformers/multimodal.py).
    """
    limits = given.get("limit_mm_per_prompt")
    video = limits.get("video") if isinstance(limits, Mapping) else None
    elsewhere = given.get("model_impl") not in (None, "auto", "vllm")
    return elsewhere or bool(given.get("language_model_only")) or video == 0 or isinstance(video, Mapping)
