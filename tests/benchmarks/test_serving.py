"""Small versions of the benchmarks of the server: the same code, with numbers that fit into `make test`."""

from __future__ import annotations

import logging

from benchmarks import fuzz


def test_mutated_reviews_are_all_answered() -> None:
    """A patch is rare among them, so all seeds together must have one."""
    decisions: set[str] = set()
    for seed in range(5):
        errors = fuzz.Errors()
        logging.getLogger("podfit").addHandler(errors)
        try:
            seen = fuzz.run(1_000, seed)
        finally:
            logging.getLogger("podfit").removeHandler(errors)

        assert (seen.bad, dict(errors.lines)) == ([], {}), f"seed {seed}"
        assert set(seen.status) == {200, 400}
        assert seen.pool > 200, "what was not seen before is mutated further"
        decisions |= set(seen.decision)
    assert {"denied", "allowed", "patched", "skipped"} <= decisions
