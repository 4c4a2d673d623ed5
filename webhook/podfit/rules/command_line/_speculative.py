"""Values of `--speculative-config` that vLLM rejects (config/speculative.py of each release): rows as in
`_configuration`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from podfit.rules.command_line._configuration import Check, VllmConfig
from podfit.vllm import change
from podfit.vllm.args import settings
from podfit.vllm.change import Suggestion
from podfit.vllm.model import by_id, model_of_name
from podfit.vllm.model.name import last_part
from podfit.vllm.release import Release

NGRAM = ("ngram", "[ngram]", "ngram_gpu")
WITHOUT_MODEL = (*NGRAM, "mtp", "suffix", "extract_hidden_states", "custom_class", "dspark")
"""Methods that draft without a model of their own; those of MTP end in `mtp`."""
NO_DRAFTER = (*NGRAM, "suffix", "extract_hidden_states", "custom_class")
"""Methods that build no drafter's config, whatever `model` says."""
HAS_MTP = frozenset({
    "Glm4MoeForCausalLM", "Glm4MoeLiteForCausalLM", "GlmOcrForConditionalGeneration", "MiMoForCausalLM",
    "MistralLarge3ForCausalLM", "bailing_hybrid", "deepseek_v3", "deepseek_v32", "deepseek_v4", "deepseek_v41",
    "ernie4_5_moe", "exaone4_5", "exaone_moe", "gemma4", "gemma4_text", "glm5_next", "glm_moe_dsa", "hy_v3", "hy_v4",
    "inkling_mm_model", "inkling_model", "intern_s2_preview", "interns2_mobius", "kimi_k2", "kimi_k25", "kimi_k3",
    "longcat_flash", "longcat_flash_ngram", "minimax_m3_vl", "nemotron_h", "nemotron_h_puzzle", "pangu_ultra_moe",
    "qwen3_5", "qwen3_5_moe", "qwen3_next", "qwen4_exp", "step3p5", "step3p7", "step5", "step5_vl",
})  # fmt: skip
"""Model types and classes that some release makes a drafter of (vLLM 0.11 … 0.33 hf_config_override)."""
NO_MTP = frozenset({
    "bert", "gemma", "gemma2", "gemma3", "gemma3_text", "gpt_oss", "granite", "granitemoehybrid", "internlm2", "llama",
    "mistral", "mixtral", "phi3", "qwen2", "qwen2_5_vl", "qwen2_moe", "qwen2_vl", "qwen3", "qwen3_moe", "roberta",
    "xlm-roberta",
})  # fmt: skip
"""Families without such layers in any release."""
EAGLE3_TARGETS = (
    "llama", "qwen", "minicpm", "gpt_oss", "hunyuan_vl", "hunyuan_v1_dense", "afmoe", "nemotron_h", "deepseek_v2",
    "deepseek_v3", "kimi_k2", "kimi_k25", "minimax_m2", "gemma4", "laguna",
)  # fmt: skip
"""Parts of the model types that some release takes (vLLM 0.11 … 0.21 _verify_args)."""
FIRST_TARGETS, MORE_TARGETS = EAGLE3_TARGETS[:4], Release(0, 11, 1)
"""The first four, which 0.11 takes, and the first release that takes more."""
DRAFT_MODELS = Release(0, 15)
"""Since then V1 drafts with plain models (vLLM 0.10.0 … 0.15.0 config/speculative.py, engine/arg_utils.py,
v1/worker/gpu_model_runner.py; V0 without speculative decoding in 0.10: platforms/cuda.py)."""
METHOD_BY_MODEL = Release(0, 17)
"""Since then a model without a method drafts as `draft_model` (vLLM 0.15.1 … 0.17.0 config/speculative.py)."""


def _config(vllm_config: VllmConfig) -> Mapping[str, Any]:
    """The given object. Empty if --spec-method and its like change it, and if its class rejects it, which
    `invalid-flag-value` or `unknown-config-key` reports."""
    dest, release = "speculative_config", vllm_config.settings.release
    config = vllm_config.args.get(dest)
    if not isinstance(config, Mapping) or not vllm_config.args.keys().isdisjoint(
        ("spec_method", "spec_model", "spec_tokens")
    ):
        return {}
    is_refused = any(settings.unknown_keys(dest, config, release)) or any(settings.bad_values(dest, config, release))
    return {} if is_refused else config


def _check(
    release: Release,
    until: Release | None,
    refusal: Callable[[VllmConfig, Mapping[str, Any]], str | None],
    change: Suggestion,
    unknown: Callable[[VllmConfig], str | None] | None = None,
) -> Check:
    """A check of the speculative config for releases from `release` to before `until`. `refusal` gets the object of
    `_config`, its keys with underscores, unless that is empty; `unknown`: as in `Check`."""

    def speculative_problem(vllm_config: VllmConfig) -> str | None:
        entries = {key.replace("-", "_"): value for key, value in _config(vllm_config).items()}
        problem = refusal(vllm_config, entries) if entries else None
        return f"--speculative-config: {problem}" if problem else None

    speculative_problem.__doc__ = refusal.__doc__
    return Check("speculative_config", release, until, speculative_problem, (change,), of_model=True, unknown=unknown)


def _method(obj: Mapping[str, Any]) -> str:
    """The method as vLLM derives it; empty if it takes the model's."""
    method = str(obj.get("method") or "")
    if not method:
        return "ngram" if obj.get("model") in NGRAM else ""
    return "mtp" if method.endswith("mtp") else method


def _no_token_count(vllm_config: VllmConfig, obj: Mapping[str, Any]) -> str | None:
    """A method that needs num_speculative_tokens, without it. None for methods that may not need it."""
    method = _method(obj)
    if obj.get("num_speculative_tokens") is not None:
        return None
    alone = method in NGRAM or (method == "mtp" and not obj.get("model"))
    if alone or (method in ("eagle", "eagle3") and obj.get("model")):
        return f"the method {method} needs num_speculative_tokens"
    if (
        vllm_config.settings.release >= DRAFT_MODELS
        and _is_draft_model(vllm_config, obj)
        and not _unknown_drafter(vllm_config)
    ):
        return "a draft model needs num_speculative_tokens"
    return None


def _no_drafter(vllm_config: VllmConfig, obj: Mapping[str, Any]) -> str | None:
    """A method that needs a draft model, without one. None without num_speculative_tokens, and for `WITHOUT_MODEL`."""
    method = _method(obj)
    if obj.get("num_speculative_tokens") is None or obj.get("model") or method in WITHOUT_MODEL:
        return None
    return f"{f'the method {method}' if method else 'num_speculative_tokens'} needs a model"


def _lookup_range(vllm_config: VllmConfig, obj: Mapping[str, Any]) -> str | None:
    """An n-gram range whose minimum is above its maximum. None for other methods, and unless both are given."""
    least, most = obj.get("prompt_lookup_min"), obj.get("prompt_lookup_max")
    if _method(obj) not in NGRAM or not isinstance(least, int) or not isinstance(most, int) or least <= most:
        return None
    return f"prompt_lookup_min {least} is larger than prompt_lookup_max {most}"


def _disabled(vllm_config: VllmConfig, obj: Mapping[str, Any]) -> str | None:
    """A batch size below 2 from which speculation is off. None if it is not given."""
    size = obj.get("disable_by_batch_size")
    return f"disable_by_batch_size {size} is below 2" if isinstance(size, int) and size < 2 else None


DRAFTER_NAMES = ("eagle-", "eagle3", "dflash", "dspark")
"""Parts of a name by which vLLM takes another method than `draft_model`, though that is given (0.11 … 0.33)."""


def _is_of_another_method(drafter: object) -> bool:
    """True if vLLM may find by the drafter's name or config.json that it is not a plain model; False if none is
    named."""
    if not isinstance(drafter, str):
        return False
    known = model_of_name(drafter)
    plain = known is None or known.value.model_type in NO_MTP
    return not plain or any(part in drafter.lower() for part in DRAFTER_NAMES)


def _is_draft_model(vllm_config: VllmConfig, obj: Mapping[str, Any]) -> bool:
    """True if the drafter is a plain model. Without a method vLLM decides by its config.json, so that has to be
    known."""
    drafter, method = obj.get("model"), _method(obj)
    if not isinstance(drafter, str) or drafter in NGRAM or _is_of_another_method(drafter):
        return False
    return method == "draft_model" or (not method and not _unknown_drafter(vllm_config))


def _draft_model(vllm_config: VllmConfig, obj: Mapping[str, Any]) -> str | None:
    """A draft model in a release without them: V0 had lost speculative decoding, V1 did not draft with models yet. None
    without a plain draft model."""
    return f"vLLM {vllm_config.settings.release} has no draft models" if _is_draft_model(vllm_config, obj) else None


def _no_method(vllm_config: VllmConfig, obj: Mapping[str, Any]) -> str | None:
    """A draft model without its method. None with a method, and without a plain draft model."""
    named = _method(obj) or not _is_draft_model(vllm_config, obj)
    return (
        None if named else f'vLLM {vllm_config.settings.release} takes a draft model with "method": "draft_model" only'
    )


def _unknown_drafter(vllm_config: VllmConfig) -> str | None:
    """The reason why the drafter's config.json is unknown: it may name another method (`medusa`, `mlp_speculator`,
    MTP), which vLLM then takes. None for a model of the catalog under its own name."""
    name = str(_config(vllm_config).get("model"))
    known = model_of_name(name)
    published = known is not None and by_id(known.value.id) is not None
    if known and published and last_part(name) == last_part(known.value.id):
        return None
    return f"the config.json of {name} is not known"


def _next_tokens(vllm_config: VllmConfig, obj: Mapping[str, Any]) -> str | None:
    """The method mtp for a model that predicts no further tokens. None with a draft model, and if the model is not of a
    family in `NO_MTP`."""
    kinds = {
        str(vllm_config.model.model_type),
        str(vllm_config.model.config.get("model_type")),
        *vllm_config.model.architectures,
    }
    if _method(obj) != "mtp" or obj.get("model") or obj.get("num_speculative_tokens") is None:
        return None
    if vllm_config.model.num_nextn_predict_layers or not kinds.isdisjoint(HAS_MTP) or kinds.isdisjoint(NO_MTP):
        return None
    return f"{vllm_config.model.id} has no layers for multi-token prediction (method mtp)"


def _unsupported_target(vllm_config: VllmConfig, obj: Mapping[str, Any]) -> str | None:
    """EAGLE3 for a model type that the release does not support. None for other methods."""
    kind = str(vllm_config.model.config.get("model_type") or vllm_config.model.model_type)
    taken = FIRST_TARGETS if vllm_config.settings.release < MORE_TARGETS else EAGLE3_TARGETS
    if _method(obj) != "eagle3" or any(part in kind for part in taken):
        return None
    return f"eagle3 is not supported for a {kind} model"


def _drafter_ranks(vllm_config: VllmConfig, obj: Mapping[str, Any]) -> str | None:
    """A draft model's tensor-parallel size other than 1 or the model's own. None without a draft model or a size."""
    ranks, tp = obj.get("draft_tensor_parallel_size"), vllm_config.parallel.tp
    if not obj.get("model") or _method(obj) in NO_DRAFTER or not isinstance(ranks, int) or ranks in (1, tp):
        return None
    return f"draft_tensor_parallel_size {ranks} is neither 1 nor --tensor-parallel-size {tp}"


def _vocabulary(vllm_config: VllmConfig, obj: Mapping[str, Any]) -> str | None:
    """A draft model with a vocabulary of another size. None if a size is unknown, and if the drafter may be of another
    method."""
    name = obj.get("model")
    if _method(obj) not in ("draft_model", "") or not isinstance(name, str) or obj.get("use_heterogeneous_vocab"):
        return None
    drafter = None if _is_of_another_method(name) else model_of_name(name)
    words = drafter.value.vocab_size if drafter else None
    if not words or not vllm_config.model.vocab_size or words == vllm_config.model.vocab_size:
        return None
    return f"{name} has a vocabulary of {words:,}, and {vllm_config.model.id} one of {vllm_config.model.vocab_size:,}"


def _asynchronous(vllm_config: VllmConfig, obj: Mapping[str, Any]) -> str | None:
    """Speculation with asynchronous scheduling. None without --async-scheduling."""
    return "it does not go with --async-scheduling" if vllm_config.args.get("async_scheduling") else None


def _asynchronous_ngram(vllm_config: VllmConfig, obj: Mapping[str, Any]) -> str | None:
    """N-grams or suffixes with asynchronous scheduling. None for other methods, and without --async-scheduling."""
    if not vllm_config.args.get("async_scheduling") or _method(obj) not in ("ngram", "[ngram]", "suffix"):
        return None
    return f"the method {_method(obj)} does not go with --async-scheduling"


R = Release
CHECKS = (
    _check(R(0, 11), None, _no_token_count, '"num_speculative_tokens": 3'),
    _check(R(0, 11), None, _no_drafter, '"model": "ORG/DRAFTER"'),
    _check(R(0, 8, 5), None, _lookup_range, "leave prompt_lookup_min out"),
    _check(R(0, 8, 5), R(0, 17), _disabled, "leave disable_by_batch_size out"),
    _check(R(0, 10), DRAFT_MODELS, _draft_model, "vLLM 0.15 or newer", _unknown_drafter),
    _check(DRAFT_MODELS, METHOD_BY_MODEL, _no_method, '"method": "draft_model"', _unknown_drafter),
    _check(R(0, 11), None, _next_tokens, '"method": "ngram"'),
    _check(R(0, 11), R(0, 22), _unsupported_target, '"method": "ngram"'),
    _check(R(0, 8, 5), None, _drafter_ranks, '"draft_tensor_parallel_size": 1'),
    _check(R(0, 15), None, _vocabulary, "a drafter of the same family", _unknown_drafter),
    _check(R(0, 10), R(0, 11, 1), _asynchronous, change.without("--async-scheduling")),
    _check(R(0, 11, 1), R(0, 33), _asynchronous_ngram, change.without("--async-scheduling")),
)
