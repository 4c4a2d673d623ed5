"""`podfit report`: one file that says what podfit decided and why, that podfit can check again, and has no secrets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from podfit.cli import main

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
SCHEMA = json.loads((ROOT / "docs" / "schemas" / "report.json").read_text())
KEY = "sk-abcdefghij0123456789abcdef"
Capture = pytest.CaptureFixture[str]


def written(capsys: Capture, *argv: str) -> str:
    assert main(["report", *argv]) == 0
    return capsys.readouterr().out


def findings(capsys: Capture, *argv: str) -> list[Any]:
    main(["check", "--format", "json", *argv])
    results = json.loads(capsys.readouterr().out)["results"]
    return [(one["rule"], one["mode"], one["message"]) for result in results for one in result["findings"]]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_report_is_reproducible_and_can_be_checked_again(path: Path, tmp_path: Path, capsys: Capture) -> None:
    report = written(capsys, str(path))
    (tmp_path / "report.json").write_text(report)

    assert written(capsys, str(path)) == report
    assert findings(capsys, str(tmp_path / "report.json")) == findings(capsys, str(path))
    jsonschema.validate(json.loads(report), SCHEMA)


def test_it_has_the_decision_of_the_policy_in_force_and_the_ledgers(capsys: Capture) -> None:
    about = json.loads(written(capsys, str(ROOT / "examples" / "llama-8b-on-a-t4.yaml"), "--policy", "strict"))[
        "podfit"
    ]

    (decision,), (result,) = about["decisions"], about["results"]
    assert decision["denied"]
    assert decision["message"].startswith("vLLM would not start")
    assert result["plan"]["gpu"]["weights"]["likely"] > 0
    assert [one["name"] for one in about["policies"]] == ["strict"]
    assert about["podfit"]


def test_it_has_no_secrets(tmp_path: Path, capsys: Capture) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "x",
            "managedFields": [{"manager": "kubectl"}],
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": f"--api-key {KEY}", "team": "chat"},
        },
        "spec": {
            "containers": [
                {
                    "name": "vllm",
                    "image": "vllm/vllm-openai:v0.21.0",
                    "args": ["facebook/opt-125m", "--api-key", KEY],
                    "env": [{"name": "HF_TOKEN", "value": "hunter2hunter2"}],
                }
            ]
        },
    }
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"token": "in-a-secret"}}
    (tmp_path / "pod.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [pod, secret]}))

    report = written(capsys, str(tmp_path / "pod.json"))

    for text in (KEY, "hunter2hunter2", "in-a-secret", "managedFields", "last-applied"):
        assert text not in report
    assert json.loads(report)["items"][0]["metadata"]["annotations"] == {"team": "chat"}


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [("apiVersion: v1\nkind: Service\n", 2, "no container in it runs vLLM"), ("a: [\n", 3, "not YAML")],
)
def test_what_can_not_be_reported_is_told(tmp_path: Path, capsys: Capture, text: str, code: int, said: str) -> None:
    (tmp_path / "x.yaml").write_text(text)

    assert main(["report", str(tmp_path / "x.yaml")]) == code
    assert said in capsys.readouterr().err
