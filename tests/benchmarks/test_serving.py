"""Small versions of the benchmarks of the server: the same code, with numbers that fit into `make test`."""

from __future__ import annotations

import logging

from benchmarks import fuzz, remembered


def test_remembered_answers_are_the_computed_ones() -> None:
    compared, hits, wrong = remembered.differences(2_000, seed=1)

    assert wrong == []
    assert compared > 2_000
    assert hits > 500, "pairs that share nothing prove nothing"


def test_mutated_reviews_are_all_answered() -> None:
    errors = fuzz.Errors()
    logging.getLogger("webhook").addHandler(errors)
    try:
        seen = fuzz.run(2_000, seed=2)
    finally:
        logging.getLogger("webhook").removeHandler(errors)

    assert (seen.bad, dict(errors.lines)) == ([], {})
    assert set(seen.status) == {200, 400}
    assert {"denied", "allowed", "patched", "skipped"} <= set(seen.decision)
    assert seen.pool > 300, "what was not seen before is mutated further"
