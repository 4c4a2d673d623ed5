"""Rule video-exceeds-batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from webhook.engine import Engine
from webhook.memory import plan
from webhook.model import Model
from webhook.release import Release
from webhook.rule import Finding, Rule
from webhook.rules import _flags

SINCE: Final = Release(0, 20)
"""Since when vLLM reads use_bidirectional_attention of Gemma 4 (vLLM 0.20.2, 0.22.0, 0.33.0
transformers_utils/model_arch_config_convertor.py; 0.19.1 does not)."""
VIDEO_TOKENS: Final = 32 * (70 + 2 + 6)
"""Of the longest video that Gemma 4 takes: 32 frames of at most 70 tokens, two marks and six of a time stamp
(vLLM 0.20.2 to 0.33.0 model_executor/models/gemma4_mm.py, get_mm_max_tokens_per_item)."""


class VideoExceedsBatch(Rule):
    """One video does not fit one batch.

    Gemma 4's larger models look at an image or a video as a whole, so that vLLM must not cut one in two: the longest
    item has to fit `--max-num-batched-tokens`. The default of GPUs with less than 70 GiB, and of the A100, is 2,048
    tokens; a video of Gemma 4 has 2,496. vLLM stops before it serves:

        ValueError: Chunked MM input disabled but max_tokens_per_mm_item (2496) is larger than max_num_batched_tokens
        (2048). Please increase max_num_batched_tokens.

    A larger batch takes some more GPU memory; without videos the default is enough.
    """

    plane = "config"
    mode = "deny"
    needs = ("model", "release")

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain for NVIDIA's GPUs; ROCm has followed in some release."""
        model, release, given = engine.model, engine.release, engine.args.given
        if model is None or release is None or release < SINCE or not _is_whole(model.value) or _no_videos(given):
            return
        written = "max_num_batched_tokens" in given
        tokens = given["max_num_batched_tokens"] if written else _usual(engine, model.value)
        unknown = {"max_num_batched_tokens", "limit_mm_per_prompt", "language_model_only"} & set(engine.args.unresolved)
        if unknown or given.get("hf_overrides") or not isinstance(tokens, int) or tokens >= VIDEO_TOKENS:
            return
        yield Finding(
            path=engine.argument("max_num_batched_tokens"),
            message=f"--max-num-batched-tokens {tokens}{'' if written else ' (the default on this GPU)'}: one video of "
            f"{model.value.id} has up to {VIDEO_TOKENS:,} tokens, and vLLM refuses to cut it",
            certainty=_flags.certainty(engine) if engine.vendor == "nvidia" else "likely",
            suggestions=(f"--max-num-batched-tokens {VIDEO_TOKENS}", """--limit-mm-per-prompt '{"video": 0}'"""),
            rests_on=("model",) if written else ("model", "gpu"),
        )


def _is_whole(model: Model) -> bool:
    """Whether an image is attended to in both directions: Gemma 4's 26B and 31B, not E2B and E4B."""
    return model.model_type == "gemma4" and model.config.get("use_bidirectional_attention") == "vision"


def _usual(engine: Engine, model: Model) -> int | None:
    """What this release takes on this GPU; None where that is not known."""
    if engine.gpu is None:
        return None
    found = plan.judge(
        engine.args, model, engine.gpu.value, gpu_memory=engine.facts.gpu_memory, env=engine.command.env
    ).settings
    return found.max_num_batched_tokens if found else None


def _no_videos(given: Mapping[str, object]) -> bool:
    """Whether videos are switched off, or made shorter than Gemma 4's own."""
    limits = given.get("limit_mm_per_prompt")
    video = limits.get("video") if isinstance(limits, Mapping) else None
    return bool(given.get("language_model_only")) or video == 0 or isinstance(video, Mapping)
