"""Rule max-model-len-too-long."""

from __future__ import annotations

from collections.abc import Iterator

from webhook.engine import Engine
from webhook.model import longest_max_model_len
from webhook.rule import Finding, Rule

CHANGES_IT = ("hf_overrides", "rope_scaling", "rope_theta", "hf_config_path", "config_format")
"""Arguments that change the config.json that the length is derived from."""


class MaxModelLenTooLong(Rule):
    """The context length is longer than the model's config.json allows.

    vLLM derives the longest context from config.json and refuses a longer one before it loads anything:

        ValueError: User-specified max_model_len (131072) is greater than the derived max_model_len
        (max_position_embeddings=32768 …). … VLLM_ALLOW_LONG_MAX_MODEL_LEN=1

    A model that is to be stretched needs its rope scaling stated (`--hf-overrides`), else its answers get worse.
    """

    plane = "config"
    needs = ("model", "release")

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Likely: published configs get longer contexts in later revisions."""
        given = engine.args.given.get("max_model_len")
        if engine.model is None or not isinstance(given, int) or isinstance(given, bool):
            return
        longest = longest_max_model_len(engine.model.value, engine.release)
        if longest is None or given <= longest or engine.command.env.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "0") != "0":
            return
        if any(dest in (*engine.args.given, *engine.args.unresolved, *engine.args.written) for dest in CHANGES_IT):
            return
        yield Finding(
            path=engine.argument("max_model_len"),
            message=f"--max-model-len {given:,} is longer than the {longest:,} tokens that the config.json of "
            f"{engine.model.value.id} allows",
            certainty="likely",
            suggestions=(f"--max-model-len {longest}", "env VLLM_ALLOW_LONG_MAX_MODEL_LEN=1, at the risk of nonsense"),
        )
