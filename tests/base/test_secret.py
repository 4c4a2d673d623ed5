"""Keys and tokens are stars in whatever is printed, and stay what they are in what is repaired."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from webhook.base import secret
from webhook.cli import main
from webhook.evaluation import review
from webhook.evaluation.lint import lint
from webhook.evaluation.policy import builtin
from webhook.report import text
from webhook.vllm.facts import Facts

KEYS = [
    "sk-live-0123456789abcdef",
    "hf_AbCdEfGhIjKlMnOpQrStUvWxYz012345",
    "nvapi-0123456789abcdef0123456789abcdef",
    "correct-horse-battery",
    "2b1f8e77c0",
    "hunter.two",
]
FORMS = [
    ["--api-key {}"],
    ["--api-key={} --no-such-flag"],
    ["api-key={}"],
    ["--api-key", "{}", "{}"],
    ["--no-such-flag", "{}", "--hf-token={}"],
    ["--max-num-seqs", "{}", "--api-key", "{}"],
    ["--middleware", "Authorization: Bearer {}", "Authorization: Bearer {}"],
]


def _pod(args: list[str], **fields: Any) -> dict[str, Any]:
    container = {"name": "vllm", "image": "vllm/vllm-openai:v0.27.1", "args": ["Qwen/Qwen3-8B", *args], **fields}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": [container]}}


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("form", FORMS, ids=" ".join)
def test_a_secret_is_in_no_message(form: list[str], key: str) -> None:
    report = lint(_pod([word.format(key) for word in form]), builtin(), Facts(), where="check")

    said = [*text.warnings(report), *([text.refusal(report)] if report.denied else [])]
    for judged in report.findings:
        finding = judged.finding
        said += [finding.message, *finding.details, *finding.suggestions, judged.why_softened or ""]
    assert not report.errors
    assert report.findings
    assert not [line for line in said if key in line]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("fmt", ["text", "sarif", "markdown", "junit", "github", "gitlab"])
def test_a_secret_is_in_no_report(key: str, fmt: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(json.dumps(_pod([f"--api-key {key}", f"api-key={key}"]), indent=1))

    assert main(["check", "--format", fmt, str(file)]) == 1
    assert key not in capsys.readouterr().out


def test_a_denial_holds_no_secret_and_the_repair_keeps_it() -> None:
    pod = _pod([f"--api-key {KEYS[0]}"])
    request = review.Request(
        "1", "CREATE", "", "Pod", "pods", "", "x", "x", pod, None, False
    )  # fmt: skip
    answer = review.validate(request, builtin(), Facts())
    fixes = [edit.value for one in lint(pod, builtin(), Facts(), where="check").edits for edit in (one,)]

    assert answer["response"]["allowed"] is False
    assert KEYS[0] not in json.dumps(answer)
    assert KEYS[0] in json.dumps(fixes, default=str)


def test_the_value_of_a_variable_that_names_a_secret_is_one() -> None:
    env = [{"name": "VLLM_API_KEY", "value": "correct-horse-battery"}]
    report = lint(_pod(["--no-such-flag=correct-horse-battery"], env=env), builtin(), Facts())

    assert "unknown-flag" in {judged.rule for judged in report.findings}
    assert not [judged for judged in report.findings if "correct-horse-battery" in str(judged.finding.message)]


FLAGS = ("--api-key", "--API_KEY", "--hf-token", "--api_token", "--hf_key")
NAMES = ("apiKey", "my-api-key", "APIKEY", "Hf_Token", "A_TOKEN", "MY_KEY", "DB_SECRET", "X9_PASSWORD")
STARTS = ("hf_A0", "sk-", "nvapi-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "glpat-", "AKIA0123456789")


@pytest.mark.parametrize(
    ("words", "key"),
    [
        *((f"{flag}{mark}s3cr3t-v4lue", "s3cr3t-v4lue") for flag in FLAGS for mark in (" ", "=")),
        *((f'{name}: "s3cr3t-v4lue"', "s3cr3t-v4lue") for name in NAMES),
        ("authorization: BEARER s3cr3t-v4lue", "s3cr3t-v4lue"),
        *((f"see {start}ABCDEF", f"{start}ABCDEF") for start in STARTS),
    ],
)
def test_every_form_of_a_secret_is_found(words: str, key: str) -> None:
    assert secret.found(words) == {key}


@pytest.mark.parametrize(
    "words",
    [
        "--api-key $(VLLM_API_KEY) --port 8000",
        "--api-key --port 8000",
        "--hf-overrides {} --hf_overrides hf_config_path task-force",
        "automountServiceAccountToken: false",
        "max_tokens: 8192",
        "--api-key EMPTY",
        "--api-key sk-REDACTED, HF_TOKEN: hf_xxxxxxxxxxxx",
    ],
)
def test_what_is_no_secret_stays(words: str) -> None:
    assert secret.masked(words, secret.found(words)) == words
