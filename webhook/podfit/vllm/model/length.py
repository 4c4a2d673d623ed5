"""The longest context of a model: the default of --max-model-len that vLLM derives from config.json."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from podfit.vllm.model.read import integer
from podfit.vllm.model.shape import Model
from podfit.vllm.release import Release, newest_read

LENGTHS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length",
           "max_target_positions", "max_sequence_length", "max_seq_length", "seq_len")  # fmt: skip
CHANGES_LENGTH = ("hf_overrides", "rope_scaling", "rope_theta", "hf_config_path", "config_format")
"""Arguments that change the config.json from which the length is derived."""
NOT_SCALED = {"su", "longrope", "llama3"}
"""Rope types whose max_position_embeddings already is the extended length."""
LONGROPE = Release(0, 11, 1)
"""Since then a LongRoPE model's default is its original length (vLLM 0.11.1 config/model.py
_get_and_verify_max_len)."""
NOT_SCALED_SINCE_0_30 = {"yarn", "deepseek_yarn", "deepseek_llama_scaling"}


def stated_context_length(text: Mapping[str, Any]) -> int | None:
    """The context length in tokens that config.json states: the least of its keys, or Cohere's `model_max_length`."""
    if text.get("model_type") in ("cohere", "cohere2") and (longest := integer(text.get("model_max_length"))):
        return longest
    return min((length for key in LENGTHS if (length := integer(text.get(key)))), default=None)


@lru_cache(256)
def derived_max_model_len(model: Model, release: Release | None, within_window: bool = False) -> int | None:
    """The context length, in tokens, that vLLM uses if --max-model-len is not set (0.33 config/model.py,
    _get_and_verify_max_len).

    None if config.json's lengths are unknown, or if the release is unknown and the releases disagree. `within_window`:
    for a model with `--disable-sliding-window`.
    """
    return _same_in_releases(_default_length, model, release, within_window)


@lru_cache(256)
def longest_max_model_len(model: Model, release: Release | None, within_window: bool = False) -> int | None:
    """The longest --max-model-len, in tokens, that vLLM accepts from this config without VLLM_ALLOW_LONG_MAX_MODEL_LEN.
    None if releases differ, or if it is unknown.

    It exceeds the default for LongRoPE models, and if config.json has a `model_max_length`. `within_window`: for a
    model with `--disable-sliding-window`.
    """
    return _same_in_releases(_longest_length, model, release, within_window)


FORMER_LENGTH_RULES = (Release(0, 10), Release(0, 29))
"""One release for each former generation of vLLM's rules for the context length, below; the newest release that was
read is of the present one."""


def _same_in_releases(
    rule: Callable[[Model, Release, bool], int | None], model: Model, release: Release | None, within_window: bool
) -> int | None:
    """The rule's result in this release, or in all of them if it is unknown; None if they differ."""
    releases = (release,) if release else (*FORMER_LENGTH_RULES, newest_read())
    lengths = {rule(model, known, within_window) for known in releases}
    return lengths.pop() if len(lengths) == 1 else None


def _default_length(model: Model, release: Release, within_window: bool) -> int | None:
    """The context length in tokens that this release takes by default; None if config.json states none."""
    kinds = {_rope_type(scaling) for scaling in _rope_scalings(model.config)}
    if release >= LONGROPE and "longrope" in kinds:  # beyond it, answers to short prompts get worse
        original = integer(model.config.get("original_max_position_embeddings"))
        return original or _scaled_length(model, release, within_window)
    return _scaled_length(model, release, within_window)


def _longest_length(model: Model, release: Release, within_window: bool) -> int | None:
    """The longest --max-model-len in tokens that this release accepts."""
    scaled = _scaled_length(model, release, within_window)
    stated = integer(model.config.get("model_max_length"))
    return max(scaled, stated) if scaled and stated else scaled


def _scaled_length(model: Model, release: Release, within_window: bool) -> int | None:
    """The stated context length, or the window if that is less, × the factors of RoPE scaling that extend it. YaRN
    starts from its own original length, whatever the window is. None if none is stated."""
    length = model.max_position_embeddings
    if length and within_window and model.sliding_window:
        length = min(length, model.sliding_window)
    if length is None or "gemma3" in (model.model_type or ""):
        return length
    factor = 1.0
    for scaling in _rope_scalings(model.config):
        kind = _rope_type(scaling)
        if kind in NOT_SCALED or (kind in NOT_SCALED_SINCE_0_30 and release >= Release(0, 30)):
            continue
        if kind in ("yarn", "deepseek_yarn") and (original := integer(scaling.get("original_max_position_embeddings"))):
            length = original
        this = scaling.get("factor")
        if isinstance(this, int | float) and not isinstance(this, bool) and 0 < this < 1e6:
            factor = max(factor, float(this))
    return int(length * factor)


def _rope_type(scaling: Mapping[str, Any]) -> str:
    """`rope_type`, in older files `type`."""
    return str(scaling.get("rope_type") or scaling.get("type") or "default")


def _rope_scalings(text: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """`rope_parameters` since transformers 5 (one per kind of layer if they differ), `rope_scaling` before."""
    for key in ("rope_parameters", "rope_scaling"):
        value = text.get(key)
        if not isinstance(value, dict) or not value:
            continue
        inner = [child for child in value.values() if isinstance(child, dict)]
        yield from inner or [value]
        return
