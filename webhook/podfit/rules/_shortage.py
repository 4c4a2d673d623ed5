"""How sure a shortage of memory is: its probability by the estimate's own distribution."""

from __future__ import annotations

from podfit.rules.engine import Engine
from podfit.rules.rule import Certainty
from podfit.vllm.memory import draft, leaning, verdict
from podfit.vllm.memory.ledger import GpuLedger

LIKELY = 0.8
"""The least probability of a likely shortage. On public start-ups it finds 43 of the 45 failures that 0.5 finds, and
three of its five false ones."""
POSSIBLE = 0.5
"""From here on it is likelier than not, and reported."""


def certainty(probability: float) -> Certainty | None:
    """The certainty of a shortage with this probability; None if it is not worth a finding."""
    if probability <= POSSIBLE:
        return None
    return "likely" if probability >= LIKELY else "possible"


def sentence(probability: float, outcomes: str = "") -> str:
    """A detail that says which is likelier, for a shortage that is only possible, followed by what became of such
    start-ups; `outcomes` alone for other probabilities."""
    if not POSSIBLE < probability < LIKELY:
        return outcomes
    likelier = f"that it is too little is likelier ({probability:.0%}) than that it is enough"
    return f"{likelier}: {outcomes}" if outcomes else likelier


def of_kv_cache(engine: Engine, ledger: GpuLedger, needed: int) -> tuple[Certainty | None, str]:
    """The certainty that less than `needed` bytes are left for the KV cache (None: not worth a finding), and a detail
    that limits it (empty: none does).

    A shortage that rests on what is unknown of the model or of its drafter is only possible. It is likely if even the
    favorable end is too little. Arguments of unknown value may divide the weights by any number."""
    left = ledger.kv_cache
    probability = left.share_below(needed)
    grade = certainty(probability)
    doubt = ledger.model.unknown
    if doubt is None and draft.is_unknown(ledger.resolved.settings):
        doubt = "the size of the drafter"
    if grade is not None and (unknown := verdict.unresolved(engine.args, verdict.DECIDING_ARGUMENTS)):
        return "possible", f"whether it is enough depends on the unknown value of {unknown}"
    if grade is None or doubt is None:
        return grade, sentence(probability, leaning.sentence(left, needed)) if grade else ""
    if left.high < needed / ledger.times_fewer:
        return grade, ""
    return "possible", f"whether it is enough depends on what is unknown: {doubt}"
