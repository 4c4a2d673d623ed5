"""Helpers of the rules about quantization: the scheme of the checkpoint that vLLM will read."""

from __future__ import annotations

from collections.abc import Mapping

from podfit.rules.engine import Engine
from podfit.vllm.gpu.kernels import is_exact
from podfit.vllm.model import annotated
from podfit.vllm.model.name import tells_quantisation

CONFIG_ARGUMENTS = ("revision", "hf_overrides", "hf_config_path", "config_format", "quantization_config")
"""With one of these, vLLM may read another config than the known one."""
OVERRIDING = "deepseek_v4"
"""A family of FP8 checkpoints that has a quantization method of its own, whatever `--quantization` says."""


def is_the_known(engine: Engine, but: str | None = None) -> bool:
    """True if nothing says that vLLM reads another config.json than that of the known model. `but`: an argument of
    `CONFIG_ARGUMENTS` that does not count."""
    args = engine.args
    revision = engine.model.value.revision if engine.model else None
    for dest in CONFIG_ARGUMENTS:
        is_set = dest in args.given or dest in args.unresolved
        is_known_revision = dest == "revision" and revision is not None and args.given.get(dest) == revision
        if is_set and dest != but and not is_known_revision:
            return False
    if annotated(engine.workload) not in (None, args.model):
        return False  # the annotation names a model of the same shape, whose config.json may differ
    return engine.command.env.get("VLLM_USE_MODELSCOPE", "").lower() in ("", "0", "false")  # another hub


def is_scheme_known(engine: Engine) -> bool:
    """True if the checkpoint's quantization scheme is that of the known config.json. `--hf-overrides` of single values
    such as num_hidden_layers leave the scheme as it is; nested ones, and those of quantization, may change it."""
    overrides = engine.args.given.get("hf_overrides")
    if not isinstance(overrides, Mapping) or any(isinstance(value, Mapping) for value in overrides.values()):
        return is_the_known(engine)
    harmless = not any("quant" in key or "compression" in key for key in overrides)
    return harmless and is_the_known(engine, but="hf_overrides")


def method(engine: Engine) -> str:
    """The `quant_method` of the model's config in lower case; "" if the model is unknown or not quantized."""
    config = engine.model.value.quantization_config if engine.model else None
    return str((config or {}).get("quant_method") or "").lower().replace("compressed_tensors", "compressed-tensors")


def is_certain(engine: Engine) -> bool:
    """True if vLLM certainly finds the quantization method of `method` in the config.json that it reads.

    The config must name an exact method. If it names none, the model's name must not name one either."""
    if engine.model is None or not engine.model.may_deny or not is_the_known(engine):
        return False
    model = engine.model.value
    if model.quantization_config:
        return is_exact(model) and method(engine) != ""
    return not tells_quantisation(model.id)
