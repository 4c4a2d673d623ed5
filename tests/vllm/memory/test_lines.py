"""The list of ledger lines: each line is in every output, and reads no other settings than it names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from podfit.diagnose import calibrate
from podfit.evaluation.policy import builtin
from podfit.evaluation.scan.drift import COMPARED_LINES
from podfit.evaluation.scan.planned import planned_lines
from podfit.report import calibration, comparison
from podfit.report import plan as plan_report
from podfit.report.command_line import judged_as
from podfit.report.explained import explain
from podfit.vllm import measured
from podfit.vllm.facts import Facts
from podfit.vllm.gpu import parse
from podfit.vllm.memory import settings, verdict, weights
from podfit.vllm.memory.ledger import GpuLedger
from podfit.vllm.memory.line import SIZE, Line
from podfit.vllm.memory.lines import AMOUNTS, LINES, TITLES
from podfit.vllm.memory.settings import Settings
from podfit.vllm.release import Release
from tests.vllm.memory.engines import DEEPSEEK_V3, LLAMA_8B, engine, gpu, model

ROOT = Path(__file__).parents[3]
SCHEMA = ROOT / "docs" / "schemas" / "plan.json"
EACH_LINE = pytest.mark.parametrize("line", LINES, ids=lambda line: line.id)
REPORT = judged_as(["vllm", "serve", "meta-llama/Llama-3.1-8B-Instruct"], "0.27.1", Facts(gpu=parse("h100")), builtin())
(RESULT,) = REPORT.results
ENGINE = RESULT.engine
LEDGER = cast("GpuLedger", ENGINE.plan.gpu)


def test_ids_and_titles_are_unique() -> None:
    assert len(set(AMOUNTS)) == len(LINES) + 3
    assert len(set(TITLES.values())) == len(TITLES)


@EACH_LINE
def test_a_line_has_all_its_files(line: Line) -> None:
    """CONTRIBUTING.md, "Eight typical changes", lists them."""
    module, page = ROOT / "webhook" / "podfit" / "vllm" / "memory" / f"{line.id}.py", ROOT / "docs" / "memory.md"
    tests = [path.read_text() for path in Path(__file__).parent.glob("test_*.py") if path != Path(__file__)]
    missing = {
        f"write {module}": not module.exists(),
        f"write a test of it in {Path(__file__).parent}": not any(line.id in text for text in tests),
        f"run `make docs` for {SCHEMA}": f'"{line.id}": {{' not in SCHEMA.read_text(),
        f"run `make docs` for {page}": f"\n− {line.title} " not in page.read_text(),
    }
    steps = [step for step, is_missing in missing.items() if is_missing]
    assert not steps, f"{line.id}: " + "; ".join(steps).replace(f"{ROOT}/", "")


@EACH_LINE
def test_the_texts_and_the_picture_have_each_line(line: Line) -> None:
    charge = next(charge for charge in LEDGER.charges if charge.line is line)
    (chart, *_) = explain(REPORT, RESULT).charts
    bar = next(bar for bar in chart.bars if bar.name == line.title)
    assert (bar.size, bar.line) == (charge.amount.likely, charge.amount)
    table = plan_report.table(ENGINE, REPORT.secrets)
    assert bool(re.search(rf"^- {re.escape(line.title)} ", table, re.M)) == bool(charge.amount.high)
    subtracted = f" {line.title}" in verdict.subtraction(LEDGER)
    assert subtracted == bool(charge.in_budget and charge.amount.likely)


@EACH_LINE
def test_json_schemas_and_comparisons_have_each_line(line: Line) -> None:
    ledger = plan_report.tree(ENGINE, REPORT.secrets)["gpu"]
    schema = json.loads(SCHEMA.read_text())["$defs"]["plan"]["properties"]["gpu"]["anyOf"][1]
    assert line.id in ledger
    assert line.id in schema["required"]
    assert line.id in schema["properties"]
    assert comparison.LINE_NAMES[line.id] == calibration.TITLES[line.id] == line.title
    assert ("gpu", line.id, "bytes") in COMPARED_LINES
    assert line.id in planned_lines(ENGINE.plan)["gpu"]


@EACH_LINE
def test_a_measurement_of_each_line_is_believed(line: Line) -> None:
    row = {"model": "a", "gpu": "b", "vllm_version": "0.27.1", line.id: 5}
    (start,), errors = measured.read(json.dumps({"measured": [row]}), "file")
    assert not errors
    assert start.lines == {line.id: 5}


@pytest.mark.parametrize(("line", "pattern"), [(line, pattern) for line in LINES for pattern in line.printed])
def test_each_pattern_has_one_size(line: Line, pattern: str) -> None:
    assert re.compile(pattern).groups == 1
    assert pattern.count(SIZE) == 1
    assert any(printed.pattern == pattern and name == line.id for printed, name in calibrate.PRINTED)


class Recorded:
    """Settings that record which of their parts are read."""

    def __init__(self, values: Settings, parts: set[str]) -> None:
        self.values, self.parts = values, parts

    def __getattr__(self, name: str) -> Any:
        self.parts.add(name)
        return getattr(self.values, name)


def engines() -> Iterator[tuple[Mapping[str, Any], str, Mapping[str, Any]]]:
    """Models, releases and arguments of which each reads other settings."""
    for release in ("0.7.3", "0.9.2", "0.11.0", "0.19.0", "0.33.0"):
        for config in (LLAMA_8B, DEEPSEEK_V3):
            for given in ({}, {"tensor_parallel_size": 2}, {"enable_lora": True}, {"enforce_eager": True}):
                yield config, release, given


@EACH_LINE
def test_a_line_reads_only_the_settings_that_it_names(line: Line) -> None:
    parts: set[str] = set()
    card = gpu(79.19)
    for config, release, given in engines():
        served, args = model(**config), engine(release, **given)
        found = settings.resolve(args, served, card, card.memory, args.release or Release(0, 33), {}).settings
        checkpoint = weights.checkpoint(served, found)
        assert checkpoint is not None
        recorded = cast("Settings", Recorded(found, parts))
        line.amount(served, recorded, checkpoint, 0)
        line.is_charged(recorded)
    assert parts <= line.reads
