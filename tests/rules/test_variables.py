"""References that are not expanded: denied if vLLM's own parser rejects them, and only then."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.evaluation.lint import GradedFinding, lint
from podfit.evaluation.policy import builtin
from podfit.rules.rule import Place
from podfit.vllm.facts import Facts

LEN = ["--model", "Qwen/Qwen3-8B", "--max-model-len", "$LEN"]


def _judged(pod: dict[str, Any], where: Place = "admission", **of_container: Any) -> list[GradedFinding]:
    pod["spec"]["containers"][0].update(of_container)
    report = lint(pod, builtin(), Facts(), where=where)
    assert not report.errors
    return [one for one in report.findings if one.rule == "variable-not-expanded"]


@pytest.mark.parametrize("text", ["$LEN", "${LEN}", "${LEN:-8192}", "$(nproc --all)", "${L}k"])
@pytest.mark.parametrize("joined", [False, True])
def test_what_the_parser_refuses_is_denied_where_nothing_fills_it_in(
    pod: dict[str, Any], text: str, joined: bool
) -> None:
    args = ["--model", "Qwen/Qwen3-8B", *([f"--max-model-len={text}"] if joined else ["--max-model-len", text])]
    (found,) = _judged(pod, args=args)
    assert found.mode == "deny"
    assert repr(text) in found.finding.message
    assert found.finding.details[0].endswith(f"value: {text!r}")


def test_a_file_may_still_be_filled_in(pod: dict[str, Any]) -> None:
    (found,) = _judged(pod, "check", args=LEN)
    assert (found.mode, found.why_softened) == ("warn", "envsubst, Flux or Kustomize may still put a value there")


@pytest.mark.parametrize("where", ["admission", "check", "scan"])
@pytest.mark.parametrize(
    "container",
    [
        {"args": ["--model", "${MODEL}"]},
        {"args": ["--model", "Qwen/Qwen3-8B", "--served-model-name", "$NAME"]},
        {"args": ["--model", "Qwen/Qwen3-8B", "--max-model-len", "$(LEN)"]},
        {"args": LEN, "image": "registry.acme.com/vllm:v0.27.1"},
        {"args": ["vllm", "serve", *LEN[1:]], "command": ["/docker-entrypoint.sh"]},
        {"args": LEN[1:], "command": ["doppler", "run", "--", "vllm", "serve"]},
        {"args": LEN, "command": ["python3", "-m", "dynamo.vllm"]},
    ],
)
def test_what_is_only_likely_is_a_warning(pod: dict[str, Any], where: Place, container: dict[str, Any]) -> None:
    assert {one.mode for one in _judged(pod, where, **container)} == {"warn"}


@pytest.mark.parametrize(
    "container",
    [
        {"args": ["Qwen/Qwen3-8B", "--max-model-len", "$(LEN)"], "env": [{"name": "LEN", "value": "8192"}]},
        {"args": ["Qwen/Qwen3-8B", "--max-model-len", "$(LEN)"], "envFrom": [{"secretRef": {"name": "lengths"}}]},
        {"args": ["Qwen/Qwen3-8B", "--port", "$(REDIS_SERVICE_PORT)"]},
        {"args": ["Qwen/Qwen3-8B", "--hf-overrides", '{"$schema": "a"}']},
        {"args": ["Qwen/Qwen3-8B", "--api-key", "pa$word"]},
        {"command": ["sh", "-c", "vllm serve Qwen/Qwen3-8B --max-model-len $LEN"], "args": []},
        {"command": ["sh", "-c", "vllm serve Qwen/Qwen3-8B --max-model-len $(cat /len)"], "args": []},
        {"command": ["bash", "-c", 'exec "$@"', "--", "vllm", "serve", "Qwen/Qwen3-8B"], "args": ["--port", "$P"]},
    ],
)
def test_what_is_expanded_is_no_finding(pod: dict[str, Any], container: dict[str, Any]) -> None:
    assert not _judged(pod, **container)


def test_a_custom_resource_s_operator_may_bring_a_shell(pod: dict[str, Any]) -> None:
    pod["spec"]["containers"][0]["args"] = LEN
    group = {"rayStartParams": {}, "template": {"spec": pod["spec"]}}
    ray = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "r"}, "spec": {"headGroupSpec": group}}
    assert not lint(ray, builtin(), Facts()).denied


def test_the_name_that_is_meant_is_told(pod: dict[str, Any]) -> None:
    env = [{"name": "MAX_LEN", "value": "8192"}]
    args = ["--model", "Qwen/Qwen3-8B", "--max-model-len"]
    (shells,) = _judged(pod, args=[*args, "${MAX_LEN}"], env=env)
    (missed,) = _judged(pod, args=[*args, "$(MAXLEN)"], env=env)
    assert shells.finding.suggestions == missed.finding.suggestions == ("$(MAX_LEN)",)
