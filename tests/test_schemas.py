"""docs/schemas: what machines read of podfit is as its schema says, and each schema is in use."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from podfit.cli import main
from podfit.evaluation.policy import builtin
from podfit.server.accesslog import AccessLog
from podfit.server.app import create_app
from podfit.server.metrics import Metrics
from podfit.vllm.facts import Facts
from tests.asgi import Client
from tests.conftest import GOOD_POD
from tests.reviews import admission_review

FOLDER = Path(__file__).parent.parent / "docs" / "schemas"
EXAMPLES = Path(__file__).parent.parent / "examples"


def schema(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return found


def validate(found: object, name: str) -> None:
    jsonschema.validate(found, schema(name), cls=jsonschema.Draft202012Validator)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_every_schema_is_one_and_is_listed_and_tested(path: Path) -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads(path.read_text()))
    index = (FOLDER / "README.md").read_text()

    assert f"[{path.name}]({path.name})" in index
    users = [one for one in Path(__file__).parent.rglob("test_*.py") if f'"{path.name}"' in one.read_text()]
    assert users or f'"{path.stem}"' in Path(__file__).read_text()


PLANNED = [
    ("--gpu", "l4", "--fit", "--sweep", "--", "vllm", "serve", "Qwen/Qwen3-8B"),
    ("--gpu", "h100:2", "--vllm-version", "0.27.1", "--", "vllm", "serve", "deepseek-ai/DeepSeek-V3", "-tp", "2"),
    ("--", "vllm", "serve", "nobody/knows-it", "--no-such-flag", "--max-model-len", "x"),
    ("--gpu", "mi300x", "--", "vllm", "serve", "BAAI/bge-m3"),
]


@pytest.mark.parametrize("argv", PLANNED, ids=lambda argv: argv[-1])
def test_a_plan(argv: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--format", "json", *argv]) == 0
    found = json.loads(capsys.readouterr().out)

    validate(found, "plan")
    assert {*schema("plan")["$defs"]["plan"]["required"]} <= found.keys()


def test_a_batch_and_its_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines: list[dict[str, Any]] = [
        {"id": "a", "argv": ["vllm", "serve", "Qwen/Qwen3-8B"], "gpu": "l4:1", "vllm_version": "0.27.1"},
        {"id": 2, "argv": ["vllm", "serve", "Qwen/Qwen3-8B"], "gpu": None, "gpu_memory_bytes": 24 << 30},
    ]
    for line in lines:
        validate(line, "batch")
    wrong: dict[str, Any] = {"id": "b", "argv": []}
    with pytest.raises(jsonschema.ValidationError):
        validate(wrong, "batch")
    (tmp_path / "in").write_text("\n".join(map(json.dumps, [*lines, wrong])))

    assert main(["plan", "--batch", str(tmp_path / "in")]) == 0
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    assert [one["id"] for one in answers] == ["a", 2, "b"]
    for one in answers:
        validate(one, "plan")
    assert "error" in answers[2]


def test_models(capsys: pytest.CaptureFixture[str]) -> None:
    names = ("Qwen/Qwen3-8B", "deepseek-ai/DeepSeek-V3", "openai/gpt-oss-20b", "google/gemma-3-27b-it")

    assert main(["models", "show", "--format", "json", *names]) == 0
    found = json.loads(capsys.readouterr().out)
    validate(found, "models")
    assert len(found) == 4


def test_a_baseline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "known.json"
    main(["check", "--write-baseline", str(file), str(EXAMPLES)])
    capsys.readouterr()
    found = json.loads(file.read_text())

    validate(found, "baseline")
    assert found["findings"]


def test_a_difference_of_policies(capsys: pytest.CaptureFixture[str]) -> None:
    strict = EXAMPLES.parent / "policies" / "strict.yaml"

    assert main(["policy", "diff", "default", str(strict), "--on", str(EXAMPLES), "--format", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    validate(found, "policy-diff")
    assert found["changes"]


def test_the_lines_of_the_access_log() -> None:
    stream = io.BytesIO()
    access = AccessLog(stream)
    app = create_app(builtin(), Facts(), Metrics("", "", ""), access=access)
    client = Client(app)
    client.post("/validate", json=admission_review(GOOD_POD))
    client.post("/validate", b"no JSON")
    access.close(30)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]

    assert len(lines) == 2
    for line in lines:
        validate(line, "access-log")


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_an_explanation(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(path), "--format", "json"]) == 0
    validate(json.loads(capsys.readouterr().out), "explain")


@pytest.mark.parametrize("argv", [[], ["shm-missing"]])
def test_rules(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", *argv, "--format", "json"]) == 0
    validate(json.loads(capsys.readouterr().out), "rules")
