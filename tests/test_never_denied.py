"""Manifests that run, each of a kind that was once denied or nearly so: a false denial is the worst bug."""

from __future__ import annotations

from pathlib import Path

import pytest

from podfit.evaluation.lint import lint
from podfit.evaluation.policy import builtin
from podfit.evaluation.repair import repair
from podfit.kube import manifest
from podfit.vllm.facts import Facts

FILES = sorted((Path(__file__).parent / "never_denied").glob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_is_not_denied(path: Path) -> None:
    reports = [
        lint(document.object, builtin(), Facts(), where="check")
        for document in manifest.read(path.read_bytes(), path.name).documents
    ]

    assert any(report.results for report in reports)
    assert not [error for report in reports for error in report.errors]
    assert not [
        (judged.rule, judged.finding.message)
        for report in reports
        for judged in report.findings
        if judged.mode == "deny"
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_nor_is_it_once_it_is_repaired(path: Path) -> None:
    for document in manifest.read(path.read_bytes(), path.name).documents:
        assert not repair(document.object, builtin(), Facts()).denied
