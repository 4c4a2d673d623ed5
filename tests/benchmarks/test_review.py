"""The benchmark of a review's stages sees all of them."""

from __future__ import annotations

from benchmarks import review, serving
from podfit.rules import all_rules


def test_every_stage_and_every_rule_that_is_asked_is_timed() -> None:
    before = all_rules()["shm-missing"].check
    seen: dict[str, review.Times] = {}
    with review.timed_stages() as took, review.timed_rules() as judged:
        for number in range(40):
            took.clear()
            judged.clear()
            outcome = review.answered(serving.review(serving.pod(number)))
            seen.setdefault(outcome, {**took, **judged})

    assert set(seen) == set(review.LIMITS)
    assert set(review.STAGES) <= set(seen["denied"]), "a stage is looked up elsewhere than where it is timed"
    assert set(review.STAGES) - {"search"} <= set(seen["allowed"])
    assert len(seen["allowed"]) > len(review.STAGES) + 30
    assert all_rules()["shm-missing"].check is before
