"""The drafter of speculative decoding: what it adds to the weights of a rank.

n-gram and suffix decoding add nothing. Multi-token prediction loads layers of the checkpoint itself (`weights.py`).
A draft model is loaded whole next to the target, cut by `draft_tensor_parallel_size` (default: the target's TP).

An EAGLE head is one decoder layer and a projection from the target's hidden states: one of them for EAGLE, three for
EAGLE-3. EAGLE-3 also has a small LM head of its own. The head shares the target's embedding. All of these are on the
last pipeline stage (vLLM 0.33 config/speculative.py, v1/spec_decode).
"""

from __future__ import annotations

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
    return Estimate(0, 0, 0, int(2 * GI), "a draft model of unknown size", SOURCE)


OWN = ("ngram", "[ngram]", "ngram_gpu", "suffix", "mtp")
"""Methods without weights of their own, or with layers that `weights.py` counts."""
EAGLE = ("eagle", "eagle3")


def _counted(speculative: Speculative, settings: Settings) -> tuple[float, float] | None:
    """Bytes of a drafter that the catalog knows, and how many of them are certainly loaded."""
    drafter = speculative.drafter
    if drafter is None:
        return None
    own = settings._replace(scheme=quantisation.scheme(drafter, None), speculative=None, lora=None, cpu_offload=0)
    found = weights.checkpoint(drafter, own)
    if found is not None:
        known = quantisation.is_known(drafter, None)
        return found.total, found.doubt.least * (found.total - found.vision) if known else 0
    return (drafter.weights_bytes, 0) if drafter.weights_bytes else None


def _eagle(model: Model, settings: Settings, *, three: bool) -> tuple[float, float]:
    """(bytes of a head with layers like the target's, bytes of the LM head for the whole vocabulary that it may
    have)."""
    counted, hidden, width = shape.of(model), model.hidden_size or 0, settings.dtype
    dense = 3 * hidden * (model.intermediate_size or 4 * hidden) + 4 * hidden * hidden
    if counted and not model.num_experts:
        dense = counted.body // counted.layers
    projected = (3 if three else 2) * hidden * hidden
    head = EAGLE3_VOCABULARY * hidden if three else 0
    return (dense + projected + head) * width, (model.vocab_size or 0) * hidden * width
