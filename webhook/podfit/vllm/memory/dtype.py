"""The dtype that `--dtype auto` becomes."""

from __future__ import annotations

from podfit.vllm.gpu import Gpu
from podfit.vllm.model import Model
from podfit.vllm.release import Release

NO_HALF = ("gemma2", "gemma3", "gemma3_text", "glm4")
"""Model types whose activations overflow float16: _FLOAT16_NOT_SUPPORTED_MODELS of vLLM 0.9.1 … 0.10.0 config.py, of
0.10.1 and 0.10.2 config/__init__.py, and of 0.11 … 0.33 config/model.py."""
GEMMA3_TEXT_SINCE = Release(0, 10, 2)
"""The first release whose table has `gemma3_text`."""
PLAMO2_UNTIL = Release(0, 24)
"""The last release read whose table also has `plamo2`; 0.27.1 no longer has it."""
READ_SINCE = Release(0, 9, 1)
"""The oldest release that has a table of such models."""


def lacks_half(model: Model, release: Release | None) -> bool:
    """True if this release rejects the model in float16; for an unknown release, whether the newest does.

    Releases before READ_SINCE only warn (vLLM 0.7.3, 0.8.5, 0.9.0.1 config.py, _get_and_verify_dtype)."""
    if release is not None and release < READ_SINCE:
        return False
    if model.model_type == "plamo2":
        return release is not None and release <= PLAMO2_UNTIL
    if model.model_type == "gemma3_text":
        return release is None or release >= GEMMA3_TEXT_SINCE
    return model.model_type in NO_HALF


def is_widened(given: object, model: Model, gpu: Gpu | None, release: Release) -> bool:
    """True if `auto` becomes float32: the GPU lacks bfloat16, and the model can't use float16 (vLLM 0.33
    config/model.py, _resolve_auto_dtype: the first dtype that both support)."""
    return (
        gpu is not None
        and gpu.supports_bf16 is False
        and gpu.vendor.lower() == "nvidia"
        and given in (None, "auto")
        and lacks_half(model, release)
        and release >= READ_SINCE
    )


NAMES = {"half": "float16", "float": "float32"}
"""Other names of a dtype (vLLM 0.33 config/model.py _STR_DTYPE_TO_TORCH_DTYPE)."""


def resolved(given: object, model: Model, gpu: Gpu | None, release: Release, *, pooling: bool) -> str | None:
    """The dtype of activations, as vLLM names it; None if unknown.

    vLLM 0.9.1 … 0.33, _resolve_auto_dtype: the one in config.json if GPU and model both support it.
    Otherwise, and instead of float32, the best that both support. A pooling model prefers float16. Without bfloat16 one
    dtype is left, whatever config.json has.
    """
    if isinstance(given, str) and given != "auto":
        return NAMES.get(given, given)
    stated = model.torch_dtype
    if release < READ_SINCE or gpu is None or gpu.vendor.lower() != "nvidia":
        return None
    if gpu.supports_bf16 is None or (gpu.supports_bf16 and stated is None):
        return None
    usual = ("bfloat16", "float16", "float32") if gpu.supports_bf16 else ("float16", "float32")
    can = [text for text in usual if text != "float16" or not lacks_half(model, release)]
    preferred = "float16" if pooling and "float16" in can else can[0]
    return stated if stated in can and stated != "float32" else preferred
