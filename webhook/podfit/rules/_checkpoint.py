"""Helpers of the rules about quantization: the scheme of the checkpoint that vLLM will read."""

from __future__ import annotations

from collections.abc import Mapping

from podfit.rules.engine import Engine
from podfit.vllm.gpu.kernels import is_exact
from podfit.vllm.model import annotated
from podfit.vllm.model.name import tells_quantisation

OTHER_CONFIG = ("revision", "hf_overrides", "hf_config_path", "config_format", "quantization_config")
"""With these, the config that is read need not be the one that the catalog knows."""
OVERRIDING = "deepseek_v4"
"""A family of FP8 checkpoints that has a method of its own, whatever is given."""


def is_the_known(engine: Engine, but: str | None = None) -> bool:
    """True if nothing says that vLLM reads another config.json than that of the model that is known: an annotation
    does, for it names a model of the same shape. `but`: an argument that does not count."""
    args = engine.args
    read = engine.model.value.revision if engine.model else None
    known = {but, "revision" if read is not None and read == args.given.get("revision") else None}
    other = any((dest in args.given or dest in args.unresolved) and dest not in known for dest in OTHER_CONFIG)
    other = other or annotated(engine.workload) not in (None, args.model)
    return not other and engine.command.env.get("VLLM_USE_MODELSCOPE", "").lower() in ("", "0", "false")


def is_scheme_known(engine: Engine) -> bool:
    """True if the checkpoint's quantization scheme is known, which an override of single values such as
    num_hidden_layers leaves as it is."""
    overrides = engine.args.given.get("hf_overrides")
    if not isinstance(overrides, Mapping) or any(isinstance(value, Mapping) for value in overrides.values()):
        return is_the_known(engine)
    harmless = not any("quant" in key or "compression" in key for key in overrides)
    return harmless and is_the_known(engine, but="hf_overrides")


def method(engine: Engine) -> str:
    """The `quant_method` of the model, or the one that its name shows; "" if there is none."""
    config = engine.model.value.quantization_config if engine.model else None
    return str((config or {}).get("quant_method") or "").lower().replace("compressed_tensors", "compressed-tensors")


def is_certain(engine: Engine) -> bool:
    """True if `method` is what vLLM will find: the model's own config.json is known, and none but it may be read."""
    if engine.model is None or not engine.model.may_deny or not is_the_known(engine):
        return False
    known = engine.model.value
    return is_exact(known) and bool(method(engine)) if known.quantization_config else not tells_quantisation(known.id)
