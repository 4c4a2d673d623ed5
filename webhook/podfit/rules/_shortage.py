"""How sure a shortage of memory is: its probability by the estimate's own distribution."""

from __future__ import annotations

from typing import NamedTuple

from podfit.rules.engine import Engine
from podfit.rules.rule import Certainty
from podfit.vllm.memory import draft, leaning, verdict
from podfit.vllm.memory.ledger import GpuLedger

LIKELY = 0.8
"""The least probability of a likely shortage. On public start-ups it finds 43 of the 45 failures that 0.5 finds, and
three of its five false ones."""
POSSIBLE = 0.5
"""A more probable shortage is likelier than not, and reported."""


class Shortage(NamedTuple):
    """How sure it is that GPU memory is too small for the KV cache."""

    certainty: Certainty | None
    """None if the shortage is not worth a finding."""
    detail: str = ""
    """A sentence that limits the certainty; empty if nothing does."""


def certainty(probability: float) -> Certainty | None:
    """The certainty of a shortage with this probability (0 to 1); None if it is not worth a finding."""
    if probability <= POSSIBLE:
        return None
    return "likely" if probability >= LIKELY else "possible"


def sentence(probability: float, outcomes: str = "") -> str:
    """A detail for a shortage that is only possible: the probability (0 to 1) in words, then `outcomes`. For other
    probabilities `outcomes` alone. `outcomes`: the results of measured start-ups like this one, "" if there are
    none."""
    if not POSSIBLE < probability < LIKELY:
        return outcomes
    likelier = f"that it is too little is likelier ({probability:.0%}) than that it is enough"
    return f"{likelier}: {outcomes}" if outcomes else likelier


def of_kv_cache(engine: Engine, ledger: GpuLedger, needed: int) -> Shortage:
    """The shortage if vLLM needs `needed` bytes for the KV cache and the ledger leaves some number of them.

    It is only possible if it depends on an argument of unknown value, which may divide the weights by any number. So it
    is if the model or its drafter is partly unknown, unless even the favorable end is too little."""
    left = ledger.kv_cache
    probability = left.share_below(needed)
    grade = certainty(probability)
    if grade is None:
        return Shortage(certainty=None)
    argument = verdict.unresolved(engine.args, verdict.DECIDING_ARGUMENTS)
    if argument:
        detail = f"whether it is enough depends on the unknown value of {argument}"
        return Shortage(certainty="possible", detail=detail)
    doubt = ledger.model.unknown
    if doubt is None and draft.is_unknown(ledger.resolved.settings):
        doubt = "the size of the drafter"
    if doubt is None:
        return Shortage(certainty=grade, detail=sentence(probability, leaning.sentence(left, needed)))
    if left.high < needed / ledger.times_fewer:
        return Shortage(certainty=grade)
    return Shortage(certainty="possible", detail=f"whether it is enough depends on what is unknown: {doubt}")
