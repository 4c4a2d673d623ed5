"""A fact has a source; the facts together have a version."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from scripts import docs
from webhook.base import data
from webhook.vllm import gpu
from webhook.vllm.facts import Facts, GivenModel
from webhook.vllm.gpu import Accelerator


def test_equal_facts_have_one_version_and_others_another() -> None:
    l4 = Accelerator(gpus=gpu.by_name("l4"), count=1)
    given = Facts(gpu=l4, gpu_memory=24 << 30, models={"*": GivenModel({"hidden_size": 64}, "test")})

    assert given.version == replace(given).version
    assert len({Facts().version, given.version, replace(given, gpu_memory=None).version}) == 3
    assert given.version.startswith(Facts().version)


def test_the_packaged_facts_alone_are_known_by_the_builders_hash() -> None:
    assert Facts().version == data.load("facts")["version"]


def test_a_table_read_row_by_row_is_the_table_that_json_reads() -> None:
    for name, section in (("models", "models"), ("model_defaults", "model_types")):
        rows, whole = data.rows(name), data.load(name)
        assert {key: json.loads(rows[key]) for key in whole[section]} == whole[section]


def test_a_table_that_is_not_there_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        data.load("no-such-table")


def test_the_version_is_that_of_every_packaged_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert docs.FACTS.read_text() == docs.facts_version(), "run `make docs`"

    tables = {path.name: path.read_text() for path in docs.DATA.glob("*.json") if path != docs.FACTS}
    assert {"flags.json", "releases.json", "models.json", "gpus.json"} <= set(tables)
    monkeypatch.setattr(docs, "DATA", tmp_path)
    for changed in tables:
        for name, table in tables.items():
            (tmp_path / name).write_text(table + " " * (name == changed))
        assert docs.FACTS.read_text() != docs.facts_version(), changed
