"""Each check of podfit's rules about arguments has an example for vLLM's own code, and podfit agrees with it."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from oracle import claims
from oracle.claim_table import NOT_RUN
from oracle.claims import Claim, Outcome, outcome
from podfit.base.data import load
from podfit.evaluation.lint import GradedFinding
from podfit.rules.command_line import (
    _combinations,
    _configuration,
    _named_backend,
    _speculative,
    _values,
    conflicting_flags,
    invalid_environment,
    invalid_flag_value,
    unknown_config_key,
)
from podfit.rules.command_line._configuration import Check
from podfit.rules.rule import Finding
from podfit.vllm.args import flags, settings
from podfit.vllm.release import Release, newest_read, parse

WRITTEN = tuple(claims.written())
CHECKS = (*_combinations.CHECKS, *_values.CHECKS, *_speculative.CHECKS)


def release_of(claim: Claim) -> Release:
    release = parse(claim.release)
    assert release is not None
    return release


def rejected(claim: Claim) -> list[GradedFinding]:
    return claim.findings(release_of(claim), claim.rejected, claim.rejected_environment)


@pytest.mark.parametrize("claim", claims.claims(), ids=lambda claim: f"{claim.release} {claim.text}")
def test_podfit_finds_the_rejected_line_and_not_its_twin(claim: Claim) -> None:
    found = rejected(claim)
    assert found
    assert claim.message in found[0].finding.message
    assert found[0].level in ("denied", "likely")
    assert claim.findings(release_of(claim), claim.accepted, claim.accepted_environment) == []


UNCERTAIN = ("rope_scaling", "--enable-prefix-caching --max-num-batched-tokens 543")
"""A scaling that the checkpoint may have, and a block of states whose length the attention backend decides."""
CERTAIN = [
    claim
    for claim in WRITTEN
    if claim.rule == "conflicting-flags" and not any(text in claim.rejected for text in UNCERTAIN)
]


@pytest.mark.parametrize("claim", CERTAIN, ids=lambda claim: claim.text)
def test_what_the_configuration_rejects_is_denied(claim: Claim) -> None:
    assert {one.level for one in rejected(claim)} == {"denied"}


@pytest.mark.parametrize("tag", ["v0.34.0", "v0.99.0"])
def test_no_check_ends_with_the_newest_release_that_was_read(tag: str) -> None:
    """A rejected line is a finding of a newer release, too, and is not denied."""
    newer = parse(tag)
    assert newer is not None
    made = [claim for claim in WRITTEN if claim.release == str(newest_read())]
    levels = {
        claim.text: {one.level for one in claim.findings(newer, claim.rejected, claim.rejected_environment)}
        for claim in made
    }
    assert len(made) > 50
    assert {text for text, found in levels.items() if not found or "denied" in found} == set()


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
    claims.findings_about.cache_clear()
    for claim in WRITTEN:
        if claim.rule == "conflicting-flags":
            rejected(claim)
    assert [f"{one.dest} {one.first}" for one in CHECKS if one not in reporting] == []


MODULES = (
    conflicting_flags, invalid_flag_value, unknown_config_key, invalid_environment, _named_backend, _combinations,
    _configuration,
)  # fmt: skip


def places_of_findings() -> Iterator[tuple[str, str, int]]:
    """Module, function and line of each place that makes a finding."""
    for module in MODULES:
        tree = ast.parse(inspect.getsource(module))
        for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]:
            for call in ast.walk(function):
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Finding":
                    yield module.__name__, function.name, call.lineno


def test_each_place_that_makes_a_finding_has_a_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    reached: set[tuple[str, str, int]] = set()

    def finding(**fields: Any) -> Finding:
        caller = sys._getframe(1)
        reached.add((caller.f_globals["__name__"], caller.f_code.co_name, caller.f_lineno))
        return Finding(**fields)

    for module in MODULES:
        monkeypatch.setattr(module, "Finding", finding)
    claims.findings_about.cache_clear()
    of_tables = {claim.rule: claim for claim in claims.derived(newest_read())}
    for claim in (*WRITTEN, *of_tables.values()):
        rejected(claim)
    places = set(places_of_findings())
    assert len(places) > 25
    assert reached <= places
    assert {place for place in places - reached if place[1] not in NOT_RUN} == set()
    assert set(NOT_RUN) == {function for _, function, _ in places - reached}


def test_each_entry_of_a_table_has_a_claim() -> None:
    """One number of each bounded argument, one value of each option, key and variable, one key of each class."""
    newest, number = newest_read(), settings.releases().index(newest_read())
    options = {
        option.dest: option for option, _ in flags.builtin().parser(newest, "serve").spellings.values() if option.flags
    }
    messages: dict[str, set[str]] = {}
    for claim in claims.derived(newest):
        messages.setdefault(claim.rule, set()).add(f"{claim.rejected.partition(' ')[0]} {claim.message}")
    values, keys = messages["invalid-flag-value"], messages["unknown-config-key"]
    bounded = {dest for dest in settings.bounded() if settings.out_of_bounds(dest, -1, newest)}
    for dest in (bounded & options.keys()) - {*invalid_flag_value.ELSEWHERE}:
        assert any(said.startswith(f"{options[dest].flags[0]}=") for said in values)
    for dest in {dest for dest, option in options.items() if option.choices or "int" in str(option.type)}:
        assert f"{options[dest].flags[0]}={claims.NO_VALUE} {options[dest].flags[0]}" in values
    for dest, config in load("releases")["settings"]["configs"].items():
        for path, spans in config["fields"].items() if dest in options else ():
            if any(first <= number <= last and definition for first, last, definition in map(padded, spans)):
                assert f"{options[dest].flags[0]} {path}" in values
        if any(first <= number <= last for spans in config["strict"].values() for first, last, *_ in spans):
            assert f"{options[dest].flags[0]} {claims.NO_KEY}" in keys
    variables = {name for claim in claims.derived(newest) for name in claim.rejected_environment}
    refused = [one for one in settings.variables() if settings.bad_variable(one, claims.NO_VALUE, newest)]
    assert variables == set(refused)
    lines = " ".join(claim.text for claim in WRITTEN).replace("-", "_")
    entries = {*invalid_flag_value.RANGES, *invalid_flag_value.REGISTERED}
    assert {dest for dest in entries if f"__{dest}" not in lines} == set()


def padded(span: Any) -> list[Any]:
    """A span of `settings` in `data/releases.json` with its definition, None if there is none."""
    return [*span, None][:3]


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
