"""The outcomes of published start-ups whose plan was `unsure`: the direction in which such a plan leans, as a fact."""

from __future__ import annotations

from typing import NamedTuple

from podfit.vllm.memory.estimate import Estimate


class Outcomes(NamedTuple):
    """Start-ups that failed for lack of GPU memory, and all of them."""

    failed: int
    of: int


TOO_LITTLE, ENOUGH = Outcomes(10, 13), Outcomes(7, 16)
"""Start-ups whose plan is `unsure`, by whether the likely KV cache holds a request. Counted on the 150 start-ups of
docs/benchmark.md in November 2026 by `python -m benchmarks.accuracy`; some failed when CUDA graphs were captured."""


def sentence(left: Estimate, needed: int) -> str:
    """The outcomes of start-ups with an estimate like this one. `left`: of the KV cache; `needed`: bytes of a
    request."""
    if left.likely < max(1, needed):
        return f"vLLM failed in {TOO_LITTLE.failed} of {TOO_LITTLE.of} published start-ups with likely too little"
    return f"vLLM started in {ENOUGH.of - ENOUGH.failed} of {ENOUGH.of} published start-ups with only likely enough"
