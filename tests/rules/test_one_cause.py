"""One mistake, one answer: no rule reports a consequence of it, and following the advice leads to no new denial."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.base.secret import FORMS
from podfit.evaluation.lint import GradedFinding, lint
from podfit.evaluation.policy import builtin
from podfit.report.text import summary
from podfit.rules import _flags
from podfit.vllm.facts import Facts

QWEN = "Qwen/Qwen3-8B"
LENGTH = ("kv-cache-too-small", "max-model-len-unset", "max-model-len-too-long")


def _findings(pod: dict[str, Any], *args: str, product: str = "NVIDIA-L4", **more: Any) -> dict[str, GradedFinding]:
    pod["spec"]["nodeSelector"] = {"nvidia.com/gpu.product": product}
    container = pod["spec"]["containers"][0]
    container.update(image="vllm/vllm-openai:v0.11.0", args=list(args), **more)
    container["resources"] = {"limits": {"nvidia.com/gpu": "1", "memory": "64Gi"}}
    report = lint(pod, builtin(), Facts(), where="check")
    assert not report.errors
    return {one.rule: one for one in report.findings}


@pytest.mark.parametrize(
    ("args", "rule"),
    [
        (["--max-model-len", "8,192"], "invalid-flag-value"),
        (["--max-model-len=1e+06"], "invalid-flag-value"),
        (["--max-modle-len", "8192"], "unknown-flag"),
        (["\u2013max-model-len", "8192"], "invalid-flag-value"),
        (["model_tag", "\u2013max-model-len", "8192"], "invalid-flag-value"),
        (["model_tag", "--max-model-len 8192"], "argument-string-not-split"),
        (["model_tag", "max-model-len=8192"], "misplaced-word"),
    ],
)
def test_of_a_spoilt_length_the_cause_alone_is_told(pod: dict[str, Any], args: list[str], rule: str) -> None:
    assert "kv-cache-too-small" in _findings(pod, "--model", QWEN)  # where there is none, the model's own counts
    found = _findings(pod, "--model", QWEN, *args)
    assert found[rule].mode == "deny"
    assert not found.keys() & set(LENGTH)


def test_another_flag_whose_name_has_the_name_in_it_spoils_nothing() -> None:
    """`--max-model-len` has the word "model" in it, and `--model` is not there."""
    assert "model" in _flags._names("--model x")
    assert "model" not in _flags._names("--max-model-len=abc")
    assert "max_model_len" in _flags._names("\u2013max-model-len")


def test_a_length_that_the_module_ignores_is_not_there(pod: dict[str, Any]) -> None:
    found = _findings(pod, "--model", QWEN, "--max-model-len 8192")
    assert found["argument-string-not-split"].mode == "warn"
    assert found["kv-cache-too-small"].mode == "deny"


@pytest.mark.parametrize(
    "args", [[f"vllm serve {QWEN} \\ \n  --max-model-len 8192"], [f"vllm serve {QWEN}", "--max-model-len", "8192"]]
)
def test_a_length_that_the_shell_loses_is_not_said_to_be_missing(pod: dict[str, Any], args: list[str]) -> None:
    found = _findings(pod, *args, command=["sh", "-c"])
    room = found["kv-cache-too-small"]
    assert room.mode == "deny"  # vLLM starts without it
    assert room.finding.details[0].startswith("--max-model-len is in the command, but does not reach")
    assert "max-model-len-unset" not in found


@pytest.mark.parametrize(
    ("text", "instead"),
    [("8,192", "8192"), ('"8192"', "8192"), ("1e+06", "1000000"), ("many", None), ("-1,000", None)],
)
def test_the_number_that_is_meant_is_told(pod: dict[str, Any], text: str, instead: str | None) -> None:
    found = _findings(pod, "--model", QWEN, f"--max-model-len={text}")["invalid-flag-value"].finding
    assert found.suggestions == ((f"--max-model-len {instead}",) if instead else ())
    assert any("`| int`" in line for line in found.details) == (text == "1e+06")


def test_a_number_that_the_argument_does_not_take_is_not_advised(pod: dict[str, Any]) -> None:
    found = _findings(pod, "--model", QWEN, "--max-num-seqs", "0,5")["invalid-flag-value"].finding
    assert not found.suggestions


def test_what_makes_room_for_a_context_does_not_leave_it_longer_than_the_model_takes(pod: dict[str, Any]) -> None:
    found = _findings(pod, "--model", QWEN, "--max-model-len", "200000")
    room, length = found["kv-cache-too-small"].finding, found["max-model-len-too-long"].finding
    assert len(room.suggestions) > 1
    assert all("--max-model-len" in text for text in room.suggestions)
    assert length.suggestions == (room.suggestions[0],) == ("--max-model-len 20480",)
    followed = _findings(pod, "--model", QWEN, *length.suggestions[0].split())
    assert not followed.keys() & set(LENGTH)
    assert "NVIDIA-A100-SXM4-40GB and --max-model-len 40960" in room.suggestions[1]
    followed = _findings(pod, "--model", QWEN, "--max-model-len", "40960", product="NVIDIA-A100-SXM4-40GB")
    assert not followed.keys() & set(LENGTH)


def test_the_models_own_length_is_advised_where_it_fits(pod: dict[str, Any]) -> None:
    args, product = ("--model", QWEN, "--max-model-len", "400000"), "NVIDIA-A100-SXM4-40GB"
    found = _findings(pod, *args, product=product)
    assert found["kv-cache-too-small"].finding.suggestions == ("--max-model-len 40960",)
    assert found["max-model-len-too-long"].finding.suggestions == ("--max-model-len 40960",)


@pytest.mark.parametrize("args", [[f"--model {QWEN}"], [f"--model {QWEN} --max-model-len 8192"]])
@pytest.mark.parametrize("image", ["vllm/vllm-openai:v0.11.0", "vllm/vllm-openai:v0.27.1"])
def test_a_model_in_one_word_with_its_flag_is_told_once(pod: dict[str, Any], args: list[str], image: str) -> None:
    pod["spec"]["containers"][0].update(args=args, image=image)
    rules = {one.rule for one in lint(pod, builtin(), Facts()).findings}
    assert "argument-string-not-split" in rules
    assert "unknown-model" not in rules


def test_args_that_are_no_list_are_advised_as_one(pod: dict[str, Any]) -> None:
    pod["spec"]["containers"][0]["args"] = f"--model {QWEN} --port 8001"
    (found,) = (one for one in lint(pod, builtin(), Facts()).findings if one.rule == "argument-string-not-split")
    assert found.finding.suggestions == (f'args: ["--model", "{QWEN}", "--port", "8001"]',)


@pytest.mark.parametrize(
    ("image", "flag", "told"),
    [
        ("vllm/vllm-openai:v0.99.0", "--brand-new", "knows '--brand-new'"),
        ("vllm/vllm-openai:v0.99.0", "--max-num-seqs=2", None),
        ("harbor.acme.com/ml/vllm:prod", "--max-modle-len=8192", "did you mean --max-model-len?"),
        ("harbor.acme.com/ml/vllm:prod", "--brand-new", None),
        ("harbor.acme.com/ml/vllm:prod", "--dyn-tool-call-parser=hermes", None),
    ],
)
def test_where_the_release_is_not_known_an_unheard_flag_is_a_warning(
    pod: dict[str, Any], image: str, flag: str, told: str | None
) -> None:
    pod["spec"]["containers"][0].update(args=["--model", QWEN, flag], image=image)
    found = [one for one in lint(pod, builtin(), Facts()).findings if one.rule == "unknown-flag"]
    assert [one.mode for one in found] == ["warn"] * bool(told)
    assert all(told is not None and told in one.finding.message for one in found)


def test_a_model_that_only_begins_like_a_known_one_is_said_to_be_a_guess(pod: dict[str, Any]) -> None:
    pod["spec"]["containers"][0]["args"] = ["--model", "Qwen/Qwen3-8b-Instruct", "--max-model-len", "8192"]
    (result,) = lint(pod, builtin(), Facts()).results
    shown = summary(result.engine, FORMS)
    assert shown.startswith("Qwen/Qwen3-8b-Instruct on ")
    assert "GPU memory fits, if it is Qwen/Qwen3-8B (its name begins so): " in shown


@pytest.mark.parametrize("word", ["<MODEL>", "<your-model-name>", "__MODEL__"])
def test_a_placeholder_as_the_model_is_reported_by_its_own_rule_alone(pod: dict[str, Any], word: str) -> None:
    pod["spec"]["containers"][0]["args"] = ["--model", word]
    findings = {finding.rule: finding.level for finding in lint(pod, builtin(), Facts()).findings}
    assert findings["placeholder-value"] == "likely"
    assert "unknown-model" not in findings


@pytest.mark.parametrize(
    ("key", "values", "level"),
    [
        ("machine.cluster.vke.volcengine.com/gpu-name", ["Tesla-V100"], "advice"),
        ("nvidia.com/gpu.product", ["Tesla-V100-SXM2-16GB", "NVIDIA-A100-SXM4-40GB"], "likely"),
    ],
)
def test_a_shortage_on_some_of_the_named_gpus_has_one_finding(
    pod: dict[str, Any], key: str, values: list[str], level: str
) -> None:
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": values}]}
    del pod["spec"]["nodeSelector"]
    pod["spec"]["affinity"] = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    }
    pod["spec"]["containers"][0].update(
        image="vllm/vllm-openai:v0.6.2",
        args=["--model", "deepseek-ai/deepseek-coder-6.7b-instruct", "--max-model-len", "10240", "--dtype", "half"],
    )
    findings = {finding.rule: finding.level for finding in lint(pod, builtin(), Facts()).findings}
    assert findings["mixed-gpu-nodes"] == level
    assert not findings.keys() & {"kv-cache-too-small", "gpu-memory-exceeded"}


@pytest.mark.parametrize(
    ("args", "change"),
    [
        (
            ["--api-key", f"sk-{'a1' * 20}"],
            "env VLLM_API_KEY from a Secret",
        ),
        ([f"--api-key=sk-{'a1' * 20}"], "env VLLM_API_KEY from a Secret"),
        ([f"--api_key=hf_{'a1' * 20}"], "env VLLM_API_KEY from a Secret"),
        (["--hf-token", f"hf_{'a1' * 20}"], "env HF_TOKEN from a Secret"),
    ],
)
def test_a_token_in_the_command_gets_the_variable_that_replaces_it(
    pod: dict[str, Any], args: list[str], change: str
) -> None:
    pod["spec"]["containers"][0].update(args=["--model", QWEN, *args], image="vllm/vllm-openai:v0.11.0")
    findings = [item for item in lint(pod, builtin(), Facts()).findings if item.rule == "token-in-plain-env"]
    assert [item.suggestions[0].partition(" (")[0] for item in findings] == [change]
