"""Helpers of the rules about the context length: the longest that the model allows, and what fits with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from podfit.base.lazy import regex
from podfit.rules.engine import Engine
from podfit.vllm.memory import plan
from podfit.vllm.memory.search import with_changes
from podfit.vllm.memory.solve import Alternative, by_flags
from podfit.vllm.model import CHANGES_LENGTH, longest_max_model_len

ALLOWS = "VLLM_ALLOW_LONG_MAX_MODEL_LEN"
"""The environment variable with which vLLM takes a length that config.json does not allow; "0" is its default."""


def too_long(engine: Engine) -> int | None:
    """The longest context that the model allows, in tokens, if a longer one is given; None if none is, or if
    it is not known."""
    given = engine.args.given.get("max_model_len")
    if engine.model is None or engine.release is None or not isinstance(given, int) or isinstance(given, bool):
        return None
    within_window = bool(engine.args.given.get("disable_sliding_window"))
    longest = longest_max_model_len(engine.model.value, engine.release, within_window)
    if longest is None or given <= longest or engine.command.env.get(ALLOWS, "0") != "0":
        return None
    arguments = {*engine.args.given, *engine.args.unresolved, *engine.args.written}
    if isinstance(engine.args.given.get("hf_overrides"), Mapping):
        arguments.discard("hf_overrides")  # the model is known with them
    return longest if arguments.isdisjoint(CHANGES_LENGTH) else None


def is_short(engine: Engine) -> bool:
    """True if the KV cache is there, and likely too small for one request."""
    ledger = engine.plan.gpu
    return ledger is not None and 0 < ledger.kv_cache.likely < (ledger.least_kv_cache_bytes or 0)


def within(engine: Engine) -> tuple[Alternative, ...]:
    """Changes that fit the GPU and limit a too long context to what the model allows.

    Changes that only make room for the given length would not help: vLLM would reject that length next."""
    longest = too_long(engine)
    if longest is None or engine.model is None or engine.gpu is None:
        return ()
    length = {"max_model_len": longest}
    args, env = with_changes(engine.args, length), engine.command.env
    if plan.fits(args, engine.model.value, engine.gpu.value, gpu_memory=engine.facts.gpu_memory, env=env):
        return (by_flags(length),)
    return tuple(_with_length(alternative, longest) for alternative in engine.changes(also=length))


def _with_length(alternative: Alternative, longest: int) -> Alternative:
    """The change together with a length of `longest` tokens; unchanged if it sets a length itself."""
    if "max_model_len" in alternative.changes:
        return alternative
    return replace(
        alternative,
        text=f"{alternative.text} and --max-model-len {longest}",
        changes={**alternative.changes, "max_model_len": longest},
    )


_WRITTEN = regex(r"(?<![\w-])--max[-_]model[-_]len\b")
"""The flag anywhere in a script."""


def not_given(engine: Engine) -> str:
    """The words for a length that vLLM does not get: none is set, or the script has one that another command gets."""
    if engine.command.shell and _WRITTEN.search(engine.raw_command):
        return "--max-model-len is in the command, but does not reach this vLLM"
    return "--max-model-len is not set"
