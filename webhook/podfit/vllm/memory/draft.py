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
from typing import NamedTuple

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
LEAST_COUNTED, MOST_COUNTED = 0.97, 1.05
"""The 95 % interval of a drafter in the catalog, relative to its counted bytes (assumed)."""
LEAST_OF_HEAD, MOST_OF_HEAD = 0.5, 1.5
"""The 95 % interval of an EAGLE head without its LM head, relative to a head with layers like the target's
(assumed)."""
MOST_UNKNOWN = 2 * GI
"""Bytes of a draft model of which nothing is known, at most (assumed)."""


def line(model: Model, settings: Settings, stage: int) -> Estimate:
    """The drafter's weights on one rank of a pipeline stage, in bytes.

    Zeros without a drafter, for the methods in OWN, and on all stages but the last. The floor is above 0 only for a
    drafter whose catalog entry is certain."""
    speculative = settings.speculative
    if speculative is None or speculative.method in OWN or stage != settings.parallel.pp - 1:
        return NO_DRAFT
    tp = speculative.tp or settings.parallel.tp
    drafter = _counted(speculative, settings)
    if drafter is not None:
        likely = drafter.likely / tp
        floor = drafter.certain / tp if speculative.certain else 0
        note = f"draft model {human(drafter.likely)}"
        return Estimate(int(floor), int(LEAST_COUNTED * likely), int(likely), int(MOST_COUNTED * likely), note, SOURCE)
    if speculative.method in EAGLE:
        eagle = _eagle(model, settings, three=speculative.method == "eagle3")
        low, likely = LEAST_OF_HEAD * eagle.likely / tp, eagle.likely / tp
        high = (MOST_OF_HEAD * eagle.likely + eagle.whole_lm_head) / tp
        return Estimate(0, int(low), int(likely), int(high), "an EAGLE head", SOURCE)
    if speculative.method in BLOCK_DRAFTERS and model.hidden_size:
        return _of_blocks(model, settings, speculative, tp)
    return Estimate(0, 0, 0, int(MOST_UNKNOWN), "a draft model of unknown size", SOURCE)


def is_unknown(settings: Settings) -> bool:
    """True if a drafter is loaded whose size the catalog does not know, so that its weights are only estimated."""
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


class LayerCounts(NamedTuple):
    """Numbers of layers of a block drafter that is not in the catalog."""

    fewest: int
    likely: int
    most: int


DENSE_DRAFTER, DRAFTER_WITH_EXPERTS = LayerCounts(fewest=3, likely=5, most=10), LayerCounts(fewest=3, likely=8, most=8)
"""The drafter of Laguna-S-2.1 took 34 GiB in 16 bits (7.5 of its target's layers) and 8 GiB in 4 bits (a DGX Spark,
0.25.1)."""
FOUR_BITS = 0.56
"""Bytes of a weight in 4 bits, with scales."""


def _of_blocks(model: Model, settings: Settings, speculative: Speculative, tp: int) -> Estimate:
    """The weights, in bytes on one of `tp` ranks, of a block drafter that is not in the catalog.

    A layer is cut over the ranks; the projection of hidden × hidden elements that each layer adds is not. The low end
    is in 4 bits, the high end in 16, whatever the drafter's name says. One that is named NVFP4 took 33 GiB next to
    Laguna-S-2.1, like one in 16 bits."""
    hidden, with_experts = model.hidden_size or 0, model.model_type in WITH_EXPERTS
    layer = _dense_layer(model)
    target = shape.of(model)
    if with_experts and target:
        layer = target.body // target.layers
    counts = DRAFTER_WITH_EXPERTS if with_experts else DENSE_DRAFTER
    elements_per_layer = layer / tp + hidden * hidden
    width = settings.types.dtype
    stored = FOUR_BITS if speculative.quantized else width
    return Estimate(
        floor=0,
        low=int(FOUR_BITS * (elements_per_layer * counts.fewest)),
        likely=int(stored * (elements_per_layer * counts.likely)),
        high=int(width * (elements_per_layer * counts.most)),
        note=f"a {speculative.method} drafter of unknown size",
        source=SOURCE,
    )


class CountedDrafter(NamedTuple):
    """Bytes of all weights of a drafter in the catalog, not divided over ranks."""

    likely: float
    certain: float
    """Bytes that are loaded at least; 0 if that is unknown."""


def _counted(speculative: Speculative, settings: Settings) -> CountedDrafter | None:
    """The size of the drafter by its catalog entry. None if the catalog has no such model, or not its size."""
    drafter = speculative.drafter
    if drafter is None:
        return None
    types = replace(settings.types, scheme=quantisation.scheme(drafter, None))
    own = replace(settings, types=types, speculative=None, lora=None, cpu_offload=0)
    checkpoint = weights.checkpoint(drafter, own)
    if checkpoint is None:  # no formula describes the drafter, but its files may have been counted
        return CountedDrafter(drafter.weights_bytes, certain=0) if drafter.weights_bytes else None
    if not quantisation.is_known(drafter, None):
        return CountedDrafter(checkpoint.total, certain=0)
    return CountedDrafter(checkpoint.total, certain=checkpoint.doubt.least * (checkpoint.total - checkpoint.vision))


class EagleHead(NamedTuple):
    """Bytes of an EAGLE head that is not in the catalog, not divided over ranks."""

    likely: float
    """Bytes with one layer like the target's, and for EAGLE-3 with its usual LM head of EAGLE3_VOCABULARY."""
    whole_lm_head: float
    """Bytes of an LM head for the target's whole vocabulary, which the head may have in addition."""


def _eagle(model: Model, settings: Settings, *, three: bool) -> EagleHead:
    """The EAGLE head of this target; `three`: an EAGLE-3 head. Sizes that config.json lacks count as 0.

    The projection reads the embedding and one of the target's hidden states (EAGLE), or three hidden states."""
    hidden, width = model.hidden_size or 0, settings.types.dtype
    projection = (3 if three else 2) * hidden * hidden
    lm_head = EAGLE3_VOCABULARY * hidden if three else 0
    elements = _dense_layer(model) + projection + lm_head
    return EagleHead(likely=elements * width, whole_lm_head=(model.vocab_size or 0) * hidden * width)


def _dense_layer(model: Model) -> int:
    """Elements of a decoder layer of the model's width without experts.

    The average layer of a model without experts. Else the usual one, of a gated MLP (three matrices, four times the
    width if unknown) and attention (four square matrices)."""
    target, hidden = shape.of(model), model.hidden_size or 0
    if target and not model.num_experts:
        return target.body // target.layers
    inner = model.intermediate_size or 4 * hidden
    return 3 * hidden * inner + 4 * hidden * hidden
