"""Memory of a rank while its weights load, if it is more than what stays afterwards.

Until v0.15.1, a 16-bit checkpoint with `--quantization fp8` was on the GPU as a whole, in 16 bits. `create_weights`
allocates every layer in the checkpoint's dtype while the model is built. FP8 replaces it after loading (v0.4.1 …
v0.12), or layer by layer while the layers are filled (v0.13 … v0.15, which have allocated all of them by then).

From v0.16 on, layers are built on the meta device, and each is allocated when it is filled. In every release,
bitsandbytes and experts_int8 allocate the quantized sizes.
"""

from __future__ import annotations

from dataclasses import replace

from podfit.vllm.memory import weights
from podfit.vllm.memory.estimate import Estimate
from podfit.vllm.memory.settings import Settings
from podfit.vllm.model import Model

SOURCE = "vLLM 0.11 model_executor/layers/quantization/fp8.py, create_weights; model_loader/base_loader.py, load_model"


def line(model: Model, settings: Settings, stage: int) -> Estimate | None:
    """Weights of one rank of `stage` in 16 bits, before vLLM quantizes them. None if that is not more than what stays,
    or if the GPU's memory is the host's."""
    scheme = settings.types.scheme
    if scheme is None or scheme.streamed is None or settings.release >= scheme.streamed or settings.gpu.unified_memory:
        return None
    # vLLM creates LoRA's slots, a drafter and MLA's copies after it quantized the weights; it rejects float32 with FP8
    plain = replace(settings, types=replace(settings.types, scheme=None, dtype=2), lora=None, speculative=None)
    checkpoint = weights.checkpoint(model, plain)
    if checkpoint is None:
        return None
    estimate = weights.line(replace(checkpoint, absorbed=0.0), model, plain, stage)
    return estimate._replace(note=f"{estimate.note} in 16 bits, before they are quantized", source=SOURCE)
