"""Each check of podfit's rules about arguments has an example for vLLM's own code, and podfit agrees with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from oracle import claims
from oracle.claims import Claim, Outcome, outcome
from podfit.evaluation.lint import Judged
from podfit.rules.command_line import _combinations, _configuration, _speculative, _values, invalid_flag_value
from podfit.rules.command_line._configuration import Check
from podfit.vllm.args import settings
from podfit.vllm.release import Release, newest_read, parse

WRITTEN = tuple(claims.written())
CHECKS = (*_combinations.CHECKS, *_values.CHECKS, *_speculative.CHECKS)


def release_of(claim: Claim) -> Release:
    release = parse(claim.release)
    assert release is not None
    return release


def rejected(claim: Claim) -> list[Judged]:
    return claim.findings(release_of(claim), claim.rejected, claim.rejected_environment)


@pytest.mark.parametrize("claim", claims.claims(), ids=lambda claim: f"{claim.release} {claim.text}")
def test_podfit_finds_the_rejected_line_and_not_its_twin(claim: Claim) -> None:
    found = rejected(claim)
    assert found
    assert claim.message in found[0].finding.message
    assert found[0].level in ("denied", "likely")
    assert claim.findings(release_of(claim), claim.accepted, claim.accepted_environment) == []


CERTAIN = [one for one in WRITTEN if one.rule == "conflicting-flags" and "rope_scaling" not in one.rejected]


@pytest.mark.parametrize("claim", CERTAIN, ids=lambda claim: claim.text)
def test_what_the_configuration_rejects_is_denied(claim: Claim) -> None:
    assert {one.level for one in rejected(claim)} == {"denied"}


def test_each_check_of_the_configuration_has_a_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check is the one of a claim if the claim's line is a finding of that check alone."""
    reporting: list[Check] = []
    ask = _configuration.findings

    def each(engine: Any, checks: Any) -> Iterator[Any]:
        for check in checks:
            found = list(ask(engine, [check]))
            reporting.extend([check] * bool(found))
            yield from found

    monkeypatch.setattr("podfit.rules.command_line._configuration.findings", each)
    for claim in WRITTEN:
        if claim.rule == "conflicting-flags":
            rejected(claim)
    assert [f"{one.dest} {one.first}" for one in CHECKS if one not in reporting] == []


def test_each_entry_of_a_table_has_a_claim() -> None:
    lines = " ".join(claim.text for claim in claims.claims()).replace("-", "_")
    entries = {*invalid_flag_value.RANGES, *invalid_flag_value.REGISTERED}
    assert {dest for dest in entries if f"__{dest}" not in lines} == set()
    newest = list(claims.derived(newest_read()))
    variables = {name for claim in newest for name in claim.rejected_environment}
    refused = [one for one in settings.variables() if settings.bad_variable(one, claims.NO_VALUE, newest_read())]
    assert variables == set(refused)
    keys = {claim.rejected.partition(" ")[0] for claim in newest if claim.rule == "unknown-config-key"}
    assert len(keys) > 15


CLAIM = next(claim for claim in WRITTEN if claim.rejected == "--max-num-seqs 3000")
ACCEPTED: Mapping[str, Any] = {"accepted": True}
REJECTED: Mapping[str, Any] = {"accepted": False, "error": "must be greater than or equal to max_num_seqs (3000)"}


@pytest.mark.parametrize(
    ("line", "twin", "problem", "judged"),
    [
        (REJECTED, ACCEPTED, None, True),
        ({**REJECTED, "own": True}, ACCEPTED, None, True),  # the error is the one of the claim
        (ACCEPTED, ACCEPTED, "vLLM accepts it", True),
        ({"accepted": False, "error": "sorry"}, ACCEPTED, "another error: sorry", True),
        ({"accepted": False, "error": "sorry", "own": True}, ACCEPTED, "another error: sorry", False),
        (REJECTED, REJECTED, "vLLM rejects the twin", True),
        (None, ACCEPTED, "no answer", False),
    ],
)
def test_what_vllm_says_of_a_claim(
    line: Mapping[str, Any] | None, twin: Mapping[str, Any] | None, problem: str | None, judged: bool
) -> None:
    found = outcome(CLAIM, line, twin)
    assert (found.problem or "").startswith(problem or "")
    assert (found.problem is None, found.judged) == (problem is None, judged)


def test_the_report_lists_what_differs() -> None:
    text = claims.report(
        Release(0, 33), [Outcome(CLAIM, None), Outcome(CLAIM, "vLLM accepts it"), Outcome(CLAIM, "no", judged=False)]
    )
    assert text.splitlines()[0].endswith("1 of 3 as claimed, 1 differ, 1 not compared")
    assert "differs: conflicting-flags: --max-num-seqs 3000" in text
