"""The groups of start-ups and their table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import groups
from benchmarks.accuracy import Board
from benchmarks.calibrate import resolved
from benchmarks.startups import predict, read
from tests.benchmarks.test_accuracy import GIB, case, row


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({}, ["16 bits", "vLLM 0.17 … 0.19", "NVIDIA", "attention alone"]),
        ({"model": "Qwen/Qwen3-32B-AWQ", "vllm_version": "0.10.2"},
         ["4 bits", "vLLM up to 0.10", "NVIDIA", "attention alone"]),
        ({"model": "Qwen/Qwen3.6-27B-FP8", "gpu": "AMD Instinct MI300X", "vllm_version": "0.27.1"},
         ["8 bits", "vLLM 0.20 and newer", "AMD", "state layers"]),
        ({"model": "openai/gpt-oss-120b", "vllm_version": "0.11.0"},
         ["4 bits", "vLLM 0.11 … 0.16", "NVIDIA", "attention alone"]),
    ],
)  # fmt: skip
def test_a_start_up_is_in_one_group_of_each_kind(fields: dict[str, Any], names: list[str]) -> None:
    engine = resolved(case(" ".join(names), **fields, gpu_total_gib=None))
    assert engine is not None
    assert list(groups.groups_of(*engine)) == names


def test_a_start_up_without_a_release_is_in_no_group() -> None:
    assert not groups.by_group(list(predict([case("none", vllm_version=None)])))


def test_the_table_counts_values_and_groups_with_narrow_ranges_are_named() -> None:
    good, bad = Board([row("fits", printed=58.0)] * 20), Board([row("fits", printed=58.0), row("fits", printed=50.0)])
    boards = {"good": good, "bad": bad, "none": Board([])}
    assert groups.too_narrow(boards) == ["bad"]
    lines = groups.table(boards).splitlines()
    assert lines[3] == "| bad | 2 | 1 of 2 | – | 8.0 % / 8.0 % (2) | – | 2.0 % |"
    assert lines[2].startswith("| good | 20 | 20 of 20 | ")


def test_a_page_gets_the_table_between_its_markers() -> None:
    page = f"before\n{groups.START}old\n{groups.END}\nafter\n"
    once = groups.written(page, "new")
    assert once == f"before\n{groups.START}\nnew\n\n{groups.END}\nafter\n"
    assert groups.written(once, "new") == once
    with pytest.raises(ValueError, match="groups: start"):
        groups.written("a page without them", "new")


def test_the_command_fails_if_a_range_is_too_narrow(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, good, bad = tmp_path / "page.md", tmp_path / "good.jsonl", tmp_path / "bad.jsonl"
    page.write_text(f"{groups.START}{groups.END}\n")
    good.write_text(json.dumps(case()))
    bad.write_text(json.dumps(case("b", observed={"weights_gib_per_gpu": 30.0})))
    assert groups.main([str(good), "--write", str(page)]) == 0
    assert "| 16 bits | 1 | 2 of 2 |" in page.read_text()
    assert groups.main([str(good), str(bad)]) == 1
    assert "less than 95% of the printed values: 16 bits" in capsys.readouterr().out


def test_every_range_of_the_packaged_start_ups_contains_what_was_printed() -> None:
    """The project's own start-ups, to which nothing is fitted."""
    file = Path(groups.__file__).with_name("found.jsonl")
    boards = groups.by_group(list(predict(read(file))))
    assert groups.too_narrow(boards) == []
    assert sum(len(board.inside) for board in boards.values()) >= 4 * 7


def test_the_width_of_a_range_is_a_share_of_the_gpu() -> None:
    assert Board([row("fits")]).width == pytest.approx([2 * GIB / (100 * GIB)])
