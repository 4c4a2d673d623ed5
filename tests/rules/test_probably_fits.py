"""Suggestions that only the estimate supports have a line of their own, next to those that certainly fit."""

from __future__ import annotations

from typing import Any

from podfit.evaluation.denial import block
from podfit.evaluation.lint import GradedFinding, lint
from podfit.evaluation.lint.results import PROBABLY
from podfit.evaluation.policy import builtin
from podfit.vllm.facts import Facts


def _short(length: int, **args: str) -> GradedFinding | None:
    words = [f"--{name.replace('_', '-')}={value}" for name, value in args.items()]
    container = {
        "name": "vllm",
        "image": "vllm/vllm-openai:v0.33.0",
        "args": ["Qwen/Qwen3-8B", f"--max-model-len={length}", *words],
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
    }
    spec = {"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-L4"}, "containers": [container]}
    pod: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "llm"}, "spec": spec}
    found = lint(pod, builtin(), Facts(), where="check").findings
    return next((one for one in found if one.rule == "kv-cache-too-small"), None)


def test_the_length_near_the_estimate_is_offered_next_to_the_certain_one() -> None:
    judged = _short(40960)
    assert judged is not None
    certain = next(int(one.split()[1]) for one in judged.sure_suggestions if one.startswith("--max-model-len"))
    likely = next(int(one.split()[1]) for one in judged.probable_suggestions if one.startswith("--max-model-len"))

    assert likely > 1.1 * certain
    assert likely % 1024 == 0
    assert _short(likely) is None


def test_they_have_a_line_of_their_own() -> None:
    judged = _short(40960)
    assert judged is not None
    text = block(judged)

    assert "probably fits: " in text
    assert PROBABLY not in text
