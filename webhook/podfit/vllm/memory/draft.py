"""The drafter of speculative decoding: what it adds to the weights of a rank.

n-gram and suffix decoding add nothing. Multi-token prediction loads layers of the checkpoint itself (`weights.py`).
A draft model is loaded whole next to the target, cut by `draft_tensor_parallel_size` (default: the target's TP).

An EAGLE head is one decoder layer and a projection from the target's hidden states: one of them for EAGLE, three for
EAGLE-3. EAGLE-3 also has a small LM head of its own. The head shares the target's embedding. All of these are on the
last pipeline stage (vLLM 0.33 config/speculative.py, v1/spec_decode).

DFlash and DSpark draft a block of tokens at once. Their drafters are some layers of the target's width and a
projection from as many of its layers, which every rank has whole; they share embedding and head.
"""

from __future__ import annotations

from dataclasses import replace

from podfit.kube.quantity import GI, human
from podfit.vllm.memory import quantisation, shape, weights
from podfit.vllm.memory.arguments import Speculative
from podfit.vllm.memory.estimate import Estimate
from podfit.vllm.memory.settings import Settings
from podfit.vllm.model import Model

SOURCE = "vLLM 0.33 v1/spec_decode, config/speculative.py"
NO_DRAFT = Estimate(0, 0, 0, 0)
EAGLE3_VOCABULARY = 32_000
"""Vocabulary size of published EAGLE-3 heads."""


def line(model: Model, settings: Settings, stage: int) -> Estimate:
    """The drafter's weights on one rank of `stage`."""
    speculative = settings.speculative
    if speculative is None or speculative.method in OWN or stage != settings.parallel.pp - 1:
        return NO_DRAFT
    tp = speculative.tp or settings.parallel.tp
    counted = _counted(speculative, settings)
    if counted is not None:
        size = counted[0] / tp
        floor = counted[1] / tp if speculative.certain else 0
        return Estimate(
            int(floor), int(0.97 * size), int(size), int(1.05 * size), f"draft model {human(counted[0])}", SOURCE
        )
    if speculative.method in EAGLE:
        size, head = _eagle(model, settings, three=speculative.method == "eagle3")
        return Estimate(0, int(0.5 * size / tp), int(size / tp), int((1.5 * size + head) / tp), "an EAGLE head", SOURCE)
    if speculative.method in BLOCK_DRAFTERS and model.hidden_size:
        return _of_blocks(model, settings, speculative, tp)
    return Estimate(0, 0, 0, int(2 * GI), "a draft model of unknown size", SOURCE)


def is_unknown(settings: Settings) -> bool:
    """True if a drafter is loaded whose size is only guessed."""
    speculative = settings.speculative
    if speculative is None or speculative.method in OWN:
        return False
    return _counted(speculative, settings) is None


OWN = ("ngram", "[ngram]", "ngram_gpu", "suffix", "mtp")
"""Methods without weights of their own, or with layers that `weights.py` counts."""
EAGLE = ("eagle", "eagle3")
BLOCK_DRAFTERS = ("dflash", "dspark")
WITH_EXPERTS = ("laguna", "deepseek_v4", "deepseek_v41")
"""Families whose block drafters have the target's own layers with all experts (vLLM 0.33 models/laguna_dflash.py,
models/deepseek_v4/nvidia/dspark.py). Those of all others are dense (models/qwen3_dflash.py, gemma4_dspark.py)."""
LAYERS = {False: (3, 5, 10), True: (3, 8, 8)}
"""With experts → the fewest, likely and most layers of a block drafter. The drafter of Laguna-S-2.1 took 34 GiB in
16 bits (7.5 of its target's layers) and 8 GiB in 4 bits (a DGX Spark, 0.25.1)."""
FOUR_BITS = 0.56
"""Bytes of a weight in 4 bits, with scales."""


def _of_blocks(model: Model, settings: Settings, speculative: Speculative, tp: int) -> Estimate:
    """The weights of a block drafter that is not in the catalog. Its files may be in 16 bits whatever its name says:
    one that is named NVFP4 took 33 GiB next to Laguna-S-2.1, like one in 16 bits."""
    hidden, with_experts = model.hidden_size or 0, model.model_type in WITH_EXPERTS
    layer = _dense_layer(model)
    counted = shape.of(model)
    if with_experts and counted:
        layer = counted.body // counted.layers
    fewest, usual, most = ((layer / tp + hidden * hidden) * count for count in LAYERS[with_experts])
    width = settings.types.dtype
    stored = FOUR_BITS if speculative.quantized else width
    note = f"a {speculative.method} drafter of unknown size"
    return Estimate(0, int(FOUR_BITS * fewest), int(stored * usual), int(width * most), note, SOURCE)


def _counted(speculative: Speculative, settings: Settings) -> tuple[float, float] | None:
    """(bytes, bytes that are certainly loaded) of the drafter; None if the catalog does not know its size."""
    drafter = speculative.drafter
    if drafter is None:
        return None
    types = replace(settings.types, scheme=quantisation.scheme(drafter, None))
    own = replace(settings, types=types, speculative=None, lora=None, cpu_offload=0)
    checkpoint = weights.checkpoint(drafter, own)
    if checkpoint is not None:
        known = quantisation.is_known(drafter, None)
        return checkpoint.total, checkpoint.doubt.least * (checkpoint.total - checkpoint.vision) if known else 0
    return (drafter.weights_bytes, 0) if drafter.weights_bytes else None


def _eagle(model: Model, settings: Settings, *, three: bool) -> tuple[float, float]:
    """(bytes of a head with layers like the target's, bytes of the LM head for the whole vocabulary that it may
    have)."""
    hidden, width = model.hidden_size or 0, settings.types.dtype
    dense = _dense_layer(model)
    projected = (3 if three else 2) * hidden * hidden
    head = EAGLE3_VOCABULARY * hidden if three else 0
    return (dense + projected + head) * width, (model.vocab_size or 0) * hidden * width


def _dense_layer(model: Model) -> int:
    """Elements of a decoder layer of the model's width without experts."""
    counted, hidden = shape.of(model), model.hidden_size or 0
    if counted and not model.num_experts:
        return counted.body // counted.layers
    return 3 * hidden * (model.intermediate_size or 4 * hidden) + 4 * hidden * hidden
