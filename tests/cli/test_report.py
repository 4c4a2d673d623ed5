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
    shown = json.loads(report)["items"][0]
    assert shown["metadata"]["annotations"]["team"] == "…"
    assert shown["spec"]["containers"][0]["args"] == ["facebook/opt-125m", "--api-key", "…"]


CANARY = "s3cr3t-canary-v4lue"
MODEL = "unsloth/Llama-3.1-8B-Instruct"


@pytest.mark.parametrize(
    "container",
    [
        {"command": ["bash", "-c", f'A=(--model {MODEL} --api-key {CANARY}); vllm serve "${{A[@]}}"']},
        {"command": ["bash", "-c", f'exec vllm serve {MODEL} --api-key "$1" --nope "$1"', "x", CANARY]},
        {"command": ["bash", "-c", f'set -- {CANARY}; exec vllm serve {MODEL} --nope "$1"']},
        {"command": ["bash", "-c", f"read K <<< {CANARY}; exec vllm serve {MODEL} --api-key $K"]},
        {"command": ["bash", "-c", f"for K in {CANARY}; do vllm serve {MODEL} --api-key $K; done"]},
        {"command": ["bash", "-c", f"printf -v K %s {CANARY}; vllm serve {MODEL} --nope=$K"]},
        {"command": ["bash", "-c", f"vllm serve {MODEL} --api-key ${{K:-{CANARY}}}"]},
        {"command": ["bash", "-c", f"cat > /tmp/k <<E\n{CANARY}\nE\nvllm serve {MODEL} --api-key $(cat /tmp/k)"]},
        {"args": [MODEL, "--api_keyy", CANARY]},
        {"args": [MODEL, f"--api_keyy={CANARY}", CANARY]},
        {"args": [MODEL, "--hf-overrides", json.dumps({"token": CANARY})]},
        {"args": [MODEL, "--served-model-name", CANARY, "--port", CANARY, "--dtype", CANARY]},
        {"args": [MODEL], "env": [{"name": "GOOGLE_CREDENTIALS_JSON", "value": CANARY}]},
        {"args": [MODEL], "env": [{"name": "PASSWD_FILE_CONTENT", "value": CANARY}]},
        {"args": [MODEL], "env": [{"name": "VLLM_API_KEY", "value": CANARY}]},
        {"args": [MODEL], "startupProbe": {"httpGet": {"httpHeaders": [{"name": "Authorization", "value": CANARY}]}}},
        {"args": [MODEL], "startupProbe": {"httpGet": {"path": f"/health?token={CANARY}", "port": 8000}}},
        {"args": [MODEL], "lifecycle": {"preStop": {"exec": {"command": ["curl", CANARY]}}}},
    ],
)
def test_a_text_that_is_not_allowed_is_nowhere_in_the_report(
    tmp_path: Path, capsys: Capture, container: dict[str, Any]
) -> None:
    container = {"name": "vllm", "image": "vllm/vllm-openai:v0.27.1", **container}
    metadata = {"name": "x", "annotations": {"note": CANARY}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}
    more = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": CANARY}}
    (tmp_path / "pod.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [pod, more]}))

    report = written(capsys, str(tmp_path / "pod.json"))

    assert CANARY not in report
    assert "…" in report


def test_numbers_choices_and_models_of_vllms_options_are_published(tmp_path: Path, capsys: Capture) -> None:
    words = ["--model", MODEL, "--max-model-len", "16k", "--dtype=bfloat16", "--enforce-eager", "--nope", "x"]
    env = [{"name": "VLLM_USE_V1", "value": "1"}, {"name": "OTHER", "value": "x"}]
    container = {"name": "vllm", "image": "vllm/vllm-openai:v0.27.1", "args": words, "env": env}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": [container]}}
    (tmp_path / "pod.json").write_text(json.dumps(pod))

    about = json.loads(written(capsys, str(tmp_path / "pod.json")))
    (shown,) = about["items"][0]["spec"]["containers"]

    assert shown["args"] == [*words[:-1], "…"]
    assert shown["env"] == [{"name": "VLLM_USE_V1", "value": "1"}, {"name": "OTHER", "value": "…"}]
    assert "unknown-flag" in {one["rule"] for one in about["podfit"]["found"]}


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [("apiVersion: v1\nkind: Service\n", 2, "no container in it runs vLLM"), ("a: [\n", 3, "not YAML")],
)
def test_what_can_not_be_reported_is_told(tmp_path: Path, capsys: Capture, text: str, code: int, said: str) -> None:
    (tmp_path / "x.yaml").write_text(text)

    assert main(["report", str(tmp_path / "x.yaml")]) == code
    assert said in capsys.readouterr().err
