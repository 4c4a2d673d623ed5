"""What stands on a rank while its weights load, where that is more than what stays.

A checkpoint in 16 bits that `--quantization fp8` quantises stood on the GPU as a whole, in 16 bits, until v0.15.1:
`create_weights` allocates every layer in the checkpoint's dtype while the model is built, and FP8 takes its place
after loading (v0.4.1 … v0.12), or layer by layer while they are filled (v0.13 … v0.15, where all of them are
allocated by then). From v0.16 on they are built on the meta device, and a layer is allocated when it is filled.
bitsandbytes and experts_int8 allocate what they quantise to in every release.
"""

from __future__ import annotations

from dataclasses import replace

from webhook.vllm.memory import weights
from webhook.vllm.memory.estimate import Estimate
from webhook.vllm.memory.settings import Settings
from webhook.vllm.model import Model

SOURCE = "vLLM 0.11 model_executor/layers/quantization/fp8.py, create_weights; model_loader/base_loader.py, load_model"


def line(model: Model, settings: Settings, stage: int) -> Estimate | None:
    """Weights of one rank of `stage` in 16 bits, before they are quantised. None where no more stands there than what
    stays, or where the GPU's memory is the host's."""
    scheme = settings.scheme
    if scheme is None or scheme.streamed is None or settings.release >= scheme.streamed or settings.unified_memory:
        return None
    # LoRA's slots, a drafter and MLA's copies are made once the weights are quantised; float32 is refused with FP8
    plain = settings._replace(scheme=None, dtype=2, lora=None, speculative=None)
    found = weights.checkpoint(model, plain)
    if found is None:
        return None
    whole = weights.line(replace(found, absorbed=0.0), model, plain, stage)
    return whole._replace(note=f"{whole.note} in 16 bits, before they are quantised", source=SOURCE)
