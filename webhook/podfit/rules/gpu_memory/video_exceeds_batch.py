from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from podfit.rules import _flags
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule
from podfit.vllm import change
from podfit.vllm.memory import media, plan
from podfit.vllm.model import Model

UNSEEN: Final = {
    "max_num_batched_tokens",
    "limit_mm_per_prompt",
    "language_model_only",
    "model_impl",
    "hf_overrides",
}


class VideoExceedsBatch(Rule):
    """One video does not fit one batch.

    Gemma 4's larger models process an image or a video as a whole, so vLLM must not split it: the longest item has to
    fit `--max-num-batched-tokens`. A video of Gemma 4 has up to 2,496 tokens. On GPUs with less than 70 GiB, and on the
    A100, the default is 2,048. Releases 0.20 and 0.21 keep this default; newer ones raise it, but they never change a
    given number. If the batch is too small, vLLM ends before it serves:

        ValueError: Chunked MM input disabled but max_tokens_per_mm_item (2496) is larger than max_num_batched_tokens
        (2048). Please increase max_num_batched_tokens.

    A larger batch takes some more GPU memory; without videos a smaller one is enough.
    """

    plane = "config"
    event = "vLLM exits while it profiles, or denies requests with a video"
    mode = "deny"
    needs = ("model", "release", "vllm_args")

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain for NVIDIA's GPUs; ROCm has followed in some release. None for a model whose videos may be split,
        without videos, if an argument of `UNSEEN` or the config.json is unknown, and if the batch is large enough or
        unknown."""
        model, release, given = engine.model, engine.release, engine.args.given
        if model is None or release is None or not media.is_whole(model.value, release) or media.no_videos(given):
            return
        if UNSEEN & set(engine.args.unresolved) or given.get("hf_overrides") or given.get("hf_config_path"):
            return
        written = "max_num_batched_tokens" in given
        tokens = given["max_num_batched_tokens"] if written else _usual(engine, model.value)
        if not isinstance(tokens, int) or tokens >= media.VIDEO_TOKENS:
            return
        others = (change.flags("""--limit-mm-per-prompt '{"video": 0}'"""),) if tokens >= media.IMAGE_TOKENS else ()
        yield Finding(
            path=engine.argument("max_num_batched_tokens"),
            message=f"--max-num-batched-tokens {tokens}{'' if written else ' (the default on this GPU)'}: one video of "
            f"{model.value.id} has up to {media.VIDEO_TOKENS:,} tokens, and vLLM does not split it",
            certainty=_flags.registry_certainty(engine) if engine.vendor == "nvidia" else "likely",
            suggestions=(change.flags(f"--max-num-batched-tokens {media.VIDEO_TOKENS}"), *others),
            rests_on=("model",) if written else ("model", "gpu"),
        )


def _usual(engine: Engine, model: Model) -> int | None:
    """Tokens of a batch that this release resolves on this GPU (max_num_batched_tokens); None if unknown."""
    if engine.gpu is None:
        return None
    resolved_arguments = plan.judge(
        engine.args, model, engine.gpu.value, gpu_memory=engine.facts.gpu_memory, env=engine.command.env
    ).resolved
    return resolved_arguments.settings.batch.max_num_batched_tokens if resolved_arguments else None
