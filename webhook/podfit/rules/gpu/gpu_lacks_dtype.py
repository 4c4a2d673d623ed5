from __future__ import annotations

from collections.abc import Iterator

from podfit.rules._checkpoint import is_the_known
from podfit.rules._flags import runs_vllms_code, uncertain
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule
from podfit.vllm import change
from podfit.vllm.memory.dtype import NO_HALF
from podfit.vllm.release import Release


class GpuLacksDtype(Rule):
    """The GPU can't compute in the requested dtype.

    bfloat16 needs compute capability 8.0 (Ampere); a T4 has 7.5, a V100 7.0:

        ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0. Your Tesla T4 GPU has
        compute capability 7.5. You can use float16 instead by explicitly setting the `dtype` flag in CLI …

    Before v0.9 that happens without any flag if the model's own dtype is bfloat16, as in most models since 2023. From
    v0.9 on `auto` falls back to float16 on such a GPU.
    """

    plane = "gpu"
    event = "vLLM exits before it loads the model"
    mode = "deny"
    needs = ("gpu", "vllm_args")

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain in vLLM's own image if bfloat16 is given, or if a release before 0.9 takes it from config.json.

        Every release of vLLM makes this check. A fork for older GPUs may compute in another dtype, or skip the check.
        """
        given = engine.args.given.get("dtype")
        if engine.gpu is None or "dtype" in engine.args.unresolved:
            return
        gpus = engine.gpu.value.gpus
        lacking = [gpu for gpu in gpus if gpu.vendor == "nvidia" and gpu.supports_bf16 is False]
        is_given = given == "bfloat16"
        is_default = given in (None, "auto") and _defaults_to_bfloat16(engine)
        if not lacking or not (is_given or is_default):
            return
        what = "--dtype bfloat16" if is_given else "bfloat16, the model's own dtype,"
        capability = ".".join(map(str, lacking[0].compute_capability or ()))
        trusted = is_given or _is_read(engine)
        model_type = engine.model.value.model_type if engine.model else None
        half = () if model_type in NO_HALF else (change.flags("--dtype half"),)
        yield Finding(
            path=engine.argument("dtype"),
            message=f"{what} needs compute capability 8.0; {' or '.join(gpu.name for gpu in lacking)} has "
            f"{capability or 'less'}",
            certainty="certain" if len(lacking) == len(gpus) and trusted and runs_vllms_code(engine) else "likely",
            uncertain=uncertain(engine) or (None if trusted else "in which dtype the model was saved was not read"),
            suggestions=(*half, "a GPU of compute capability 8.0 or higher, such as an L4"),
        )


def _is_read(engine: Engine) -> bool:
    """True if the model's dtype is its own, and vLLM reads the config.json that has it."""
    fact = engine.model
    return fact is not None and fact.may_deny and not fact.value.dtype_inherited and is_the_known(engine)


def _defaults_to_bfloat16(engine: Engine) -> bool:
    """True if `--dtype auto` is bfloat16 on any GPU: config.json says so, in a release before `FALLS_BACK`. False if
    the model or the release is unknown."""
    if engine.release is None or engine.release >= FALLS_BACK or engine.model is None:
        return False
    model = engine.model.value
    if model.dtype_inherited and model.quantization_config:
        return False  # the base model's dtype is not the quantized one's: AutoAWQ writes float16
    return model.torch_dtype == "bfloat16"


FALLS_BACK = Release(0, 9)
"""From this release on `--dtype auto` is float16 on a GPU without bfloat16 (platforms/cuda.py, `supported_dtypes`)."""
