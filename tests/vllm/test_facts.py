"""A fact has a source; the facts together have a version."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from podfit.base import data
from podfit.vllm import gpu
from podfit.vllm.facts import Facts, GivenModel
from podfit.vllm.gpu import Accelerator
from podfit.vllm.release import newest_read
from scripts.facts import build
from scripts.facts.table import DATA, FACTS, entries, extracts


def test_equal_facts_have_one_version_and_others_another() -> None:
    l4 = Accelerator(gpus=gpu.by_name("l4"), count=1)
    given = Facts(gpu=l4, gpu_memory=24 << 30, models={"*": GivenModel({"hidden_size": 64}, "test")})

    assert given.version == replace(given).version
    assert len({Facts().version, given.version, replace(given, gpu_memory=None).version}) == 3
    assert given.version.startswith(Facts().version)


def test_the_packaged_facts_alone_are_known_by_the_hash_of_the_tables() -> None:
    assert Facts().version == data.version()


def test_a_table_read_row_by_row_is_the_table_that_json_reads() -> None:
    for name, section in (("models", "models"), ("model_defaults", "model_types")):
        rows, whole = data.rows(name), data.load(name)
        assert {key: json.loads(rows[key]) for key in whole[section]} == whole[section]


def test_a_table_that_is_not_there_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        data.load("no-such-table")


def test_the_packaged_tables_are_what_the_sources_give() -> None:
    tables = dict(build.tables())

    for name, text in tables.items():
        assert (DATA / name).read_text(encoding="utf-8") == text, f"{name}: run `make facts`"
    assert {path.stem for path in DATA.glob("*.json")} == {*data.TABLES, "facts"}
    assert {path.name for path in DATA.glob("*.json")} == tables.keys()


def test_the_tables_are_built_where_none_are(tmp_path: Path) -> None:
    """From facts/ alone: not from what an earlier build left."""
    root = Path(build.__file__).parent.parent.parent
    for name in ("facts", "scripts", "webhook"):
        shutil.copytree(root / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "data"))
    (tmp_path / "webhook" / "podfit" / "data").mkdir()

    env = {**os.environ, "PYTHONPATH": str(tmp_path / "webhook")}
    subprocess.run(
        [sys.executable, "-m", "scripts.facts.build"], cwd=tmp_path, env=env, check=True, capture_output=True
    )

    built = {path.name: path.read_bytes() for path in (tmp_path / "webhook" / "podfit" / "data").iterdir()}
    assert built == {path.name: path.read_bytes() for path in DATA.glob("*.json")}


@pytest.mark.parametrize("changed", data.TABLES)
def test_the_version_changes_with_each_table(changed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before, content = data.version(), data._content
    monkeypatch.setattr(data, "_content", lambda name: content(name) + (b" " if name == changed else b""))

    assert data.version.__wrapped__() != before


def test_the_age_of_the_facts_is_one_line() -> None:
    newest = f"{newest_read()} ({extracts()[newest_read()]['date']})"
    assert data.age() == f"facts {data.version()}: vLLM up to {newest}, models and GPUs of {data.month()}"


def test_every_entry_has_a_source_and_a_date() -> None:
    for path in FACTS.glob("*.jsonl"):
        for entry in entries(path.stem):
            assert re.fullmatch(r"20\d\d-\d\d(-\d\d)?", entry["date"]), (path.name, entry)
            assert entry["source"] or path.stem == "corrections", (path.name, entry)
    for release, extract in extracts().items():
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", extract["date"])
        assert (extract["source"], extract["release"]) == (f"the wheel of vllm=={release} on PyPI", str(release))


def test_a_line_that_is_not_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "gpus.jsonl").write_text('{"name": "A"}\n{"name": \n')

    with pytest.raises(ValueError, match=r"gpus\.jsonl:2: "):
        entries("gpus", tmp_path)
