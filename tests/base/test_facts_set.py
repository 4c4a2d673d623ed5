"""A set of facts that was built elsewhere: what is accepted, and what is rejected with one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from podfit.base import data, facts_set
from podfit.base.facts_set import DIGESTS, NAMES, FactsError, of_files
from scripts.facts.table import DATA

Files = dict[str, bytes]


def tables() -> Files:
    """The packaged tables."""
    return {name: (DATA / f"{name}.json").read_bytes() for name in NAMES}


def files_of(content: Files, name: str | None = None) -> Files:
    """A set of these tables."""
    files = {f"{table}.json": text for table, text in content.items()}
    return files | {DIGESTS: facts_set.digests(content, name).encode()}


def test_a_set_of_the_packaged_tables_says_the_same_under_its_own_name() -> None:
    found = of_files(files_of(tables(), "ours"))

    assert found.name == "ours"
    assert all(found.load(name) == data.PACKAGED.load(name) for name in NAMES)
    assert found.rows("models") == data.PACKAGED.rows("models")
    assert found.age().startswith(f"facts ours ({found.version}): vLLM up to ")
    assert found.version != data.PACKAGED.version


def test_every_table_of_the_package_is_in_a_set() -> None:
    assert {path.stem for path in DATA.glob("*.json")} == {*NAMES}


def test_two_sets_that_differ_have_two_versions() -> None:
    one = of_files(files_of(tables(), "one"))
    other = of_files(files_of(tables() | {"gpus": tables()["gpus"] + b" "}, "one"))

    assert one.version != other.version


def digests(change: Callable[[dict[str, Any]], object]) -> Callable[[Files], object]:
    """A change of the digest file."""

    def changed(files: Files) -> None:
        said = json.loads(files[DIGESTS])
        change(said)
        files[DIGESTS] = json.dumps(said).encode()

    return changed


def table(name: str, content: bytes) -> Callable[[Files], object]:
    """Another table, with its digest."""

    def changed(files: Files) -> None:
        files[f"{name}.json"] = content
        said = json.loads(files[DIGESTS])
        said["sha256"][f"{name}.json"] = facts_set.digest(content)
        files[DIGESTS] = json.dumps(said).encode()

    return changed


DEEP = b'{"a":' * 100_000
REFUSED: dict[str, tuple[Callable[[Files], object], str]] = {
    "no digest file": (lambda files: files.pop(DIGESTS), "digests.json: no such file"),
    "a table is missing": (lambda files: files.pop("gpus.json"), "gpus.json: no such file"),
    "a table was changed": (
        lambda files: files.update({"gpus.json": files["gpus.json"].replace(b"H100", b"H900", 1)}),
        "gpus.json: its SHA-256 is not that of digests.json",
    ),
    "a table was cut": (
        lambda files: files.update({"models.json": files["models.json"][:1000]}),
        "models.json: its SHA-256 is not that of digests.json",
    ),
    "not JSON": (lambda files: files.update({DIGESTS: b"{"}), "digests.json: not JSON (JSONDecodeError)"),
    "not UTF-8": (lambda files: files.update({DIGESTS: b"\xff"}), "digests.json: not JSON (UnicodeDecodeError)"),
    "a list": (lambda files: files.update({DIGESTS: b"[]"}), "digests.json: expected a JSON object"),
    "deep": (lambda files: files.update({DIGESTS: DEEP}), "digests.json: not JSON (RecursionError)"),
    "another schema version": (digests(lambda said: said.update(schema=2)), "schema version 2, expected 1"),
    "a schema version of true": (digests(lambda said: said.update(schema=True)), "schema version True, expected 1"),
    "no schema version": (digests(lambda said: said.pop("schema")), "schema version None, expected 1"),
    "a name with a line break": (digests(lambda said: said.update(name="a\nb")), r"name 'a\nb' is not letters"),
    "a name that ends in a line break": (digests(lambda said: said.update(name="ab\n")), r"name 'ab\n' is not letters"),
    "no name": (digests(lambda said: said.pop("name")), "name None is not letters"),
    "a path out of the folder": (
        digests(lambda said: said["sha256"].update({"../../etc/passwd": "0" * 64})),
        "'../../etc/passwd' is unknown",
    ),
    "a file of no set": (digests(lambda said: said["sha256"].update({"zz.json": ""})), "'zz.json' is unknown"),
    "a table is not listed": (digests(lambda said: said["sha256"].pop("gpus.json")), "'gpus.json' is missing"),
    "no list": (digests(lambda said: said.pop("sha256")), "'sha256' is missing"),
    "a digest that is not text": (
        digests(lambda said: said["sha256"].update({"gpus.json": None})),
        "gpus.json: its SHA-256 is not that",
    ),
    "another date": (digests(lambda said: said.update(vllm="9.9.9")), "digests.json: vllm is not that of facts.json"),
    "a table that is not JSON": (table("gpus", b"\x00"), "gpus.json: not JSON (JSONDecodeError)"),
    "a deep table": (table("gpus", DEEP), "gpus.json: not JSON (RecursionError)"),
    "a table that is a list": (table("gpus", b"[]"), "gpus.json: expected a JSON object"),
    "a table without its field": (table("gpus", b"{}"), "gpus.json: products: field required"),
    "a table with a field of another type": (
        table("flags", b'{"releases": {}}'),
        "flags.json: releases: input should be a valid list",
    ),
    "a name twice": (
        table("gpus", tables()["gpus"].replace(b"{", b'{"products":[],', 1)),
        "gpus.json: 'products' is there twice",
    ),
    "a table on one line": (
        table("models", json.dumps(json.loads((DATA / "models.json").read_bytes())).encode()),
        "models.json: models is not written one entry per line",
    ),
}


MODEL, CARD, TYPE = "Qwen/Qwen3-8B", "NVIDIA L4", "g5.xlarge"


def row(name: str, said: Any) -> Any:
    """The row of a table that the changes below are made in."""
    match name:
        case "models":
            return said["models"][MODEL]
        case "gpus":
            return next(one for one in said["products"] if one["name"] == CARD)
        case "instances":
            return said["instance_types"][TYPE]
        case _:
            return said


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("models", {"weights_bytes": 0}, f"models.{MODEL}.weights_bytes: input should be greater than 0"),
    ("models", {"parameters": -5}, f"models.{MODEL}.parameters: input should be greater than 0"),
    ("models", {"weights_bytes": "16 GB"}, f"models.{MODEL}.weights_bytes: input should be a valid integer"),
    ("models", {"weights_bytes": float("nan")}, "NaN is not a number of JSON"),
    ("models", {"parameters": 8e9}, f"models.{MODEL}.parameters: input should be a valid integer"),
    ("models", {"dtype_parameters": {"BF16": -1}}, f"models.{MODEL}.dtype_parameters.BF16: input should be greater"),
    ("models", {"config": None}, f"models.{MODEL}.config: input should be a valid dictionary"),
    ("models", {"trusted": 1}, f"models.{MODEL}.trusted: input should be a valid boolean"),
    ("models", {"source": 99_999}, f"models.{MODEL}.source: 99999 of "),
    ("models", {"doubts": "a\x1b[31mb"}, f"models.{MODEL}.doubts: string should match pattern"),
    ("gpus", {"memory": 0}, f"products.{CARD}.memory: input should be greater than 0"),
    ("gpus", {"memory": "24GB"}, "memory: input should be a valid integer"),
    ("gpus", {"memory": None}, "memory: input should be a valid integer"),
    ("gpus", {"memory_high": 1}, f"products.{CARD}.memory_high: 1, less than memory "),
    ("gpus", {"name": "Tesla T4"}, "`products`: two entries have one name"),
    ("instances", {"count": -3}, f"instance_types.{TYPE}.count: input should be greater than or equal to 0"),
    ("instances", {"fraction": 8.0}, f"instance_types.{TYPE}.fraction: input should be less than or equal to 1"),
    ("flags", {"definitions": []}, "not spans of its releases and definitions"),
    ("flags", {"underscores": 999}, "underscores: 999 of "),
    ("settings", {"bounds": {"port": [[3, 2, {}]]}}, "bounds.port: not spans of its releases"),
    ("architectures", {"model_types": {"llama": 4}}, "model_types.llama: input should be a valid string"),
    ("releases", {"images": [{"image": "a", "release": "latest", "source": "b"}]}, "images.a.release: string should"),
    ("facts", {"released": "yesterday"}, "released: string should match pattern"),
]


@pytest.mark.parametrize(("name", "change", "said"), WRONG)
def test_a_value_that_no_entry_has_is_refused(name: str, change: dict[str, Any], said: str) -> None:
    content = tables()
    found = json.loads(content[name])
    row(name, found).update(change)
    content[name] = json.dumps(found).encode()

    with pytest.raises(FactsError) as raised:
        of_files(files_of(content))

    assert str(raised.value).startswith(f"{name}.json: ")
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("what", REFUSED)
def test_what_can_not_be_used_is_refused_with_the_file_and_the_reason(what: str) -> None:
    change, said = REFUSED[what]
    files = files_of(tables())
    change(files)

    with pytest.raises(FactsError) as raised:
        of_files(files)

    assert said in str(raised.value)
    assert str(raised.value).split(":")[0] in {DIGESTS, *(f"{name}.json" for name in NAMES)}
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", ["", "-a", "../a", "a b", "a" * 64, "ä", "a\n"])
def test_a_set_gets_no_name_that_would_not_be_taken(name: str) -> None:
    with pytest.raises(FactsError, match="is not a name of a set"):
        facts_set.digests(tables(), name)


def test_what_is_remembered_belongs_to_its_set() -> None:
    calls: list[str] = []

    @data.remembered()
    def newest() -> str:
        calls.append(str(data.current().name))
        return str(data.load("facts")["vllm"])

    said = json.loads(tables()["facts"]) | {"vllm": "0.99.0"}
    newer = of_files(files_of(tables() | {"facts": json.dumps(said).encode()}, "newer"))
    packaged = newest()
    with data.using(newer):
        assert newest() == newest() == "0.99.0"
    assert newest() == packaged

    assert calls == ["None", "newer"]
