"""How sure a shortage of GPU memory is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from podfit.evaluation.lint import lint
from podfit.evaluation.policy import builtin
from podfit.report.explained import explain
from podfit.rules.rule import Finding
from podfit.vllm.facts import Facts
from podfit.vllm.memory import leaning
from podfit.vllm.memory.estimate import Estimate


def shortage(pod: dict[str, Any], *args: str) -> Finding:
    """The finding about one request, on an H200."""
    pod["spec"]["nodeSelector"] = {"nvidia.com/gpu.product": "NVIDIA-H200"}
    pod["spec"]["containers"][0] |= {"image": "vllm/vllm-openai:v0.25.0", "args": list(args)}
    (result,) = lint(pod, builtin(), Facts(), where="check").results
    return next(one.finding for one in result.findings if one.rule == "kv-cache-too-small")


def drafted(drafter: str) -> tuple[str, ...]:
    """Laguna with this drafter and its own length."""
    config = {"model": drafter, "method": "dflash", "num_speculative_tokens": 15}
    return ("poolside/Laguna-S-2.1-INT4", f"--speculative-config={json.dumps(config)}")


@pytest.mark.parametrize(
    ("drafter", "certainty"),
    [
        pytest.param("acme/block-drafter", "possible", id="a drafter of unknown size"),
        pytest.param("Qwen/Qwen3-32B", "certain", id="a known one of 61 GiB"),
    ],
)
def test_a_shortage_that_rests_on_the_size_of_a_drafter_is_only_possible(
    pod: dict[str, Any], drafter: str, certainty: str
) -> None:
    found = shortage(pod, *drafted(drafter))
    assert found.certainty == certainty
    assert ("the size of the drafter" in " ".join(found.details)) == (certainty == "possible")


@pytest.mark.parametrize(
    ("size", "certainty"),
    [("$(( $RANKS * 8 ))", "possible"), ("1", "certain")],
    ids=["only the script knows it", "given"],
)
def test_a_parallel_size_of_unknown_value_makes_a_shortage_only_possible(
    pod: dict[str, Any], size: str, certainty: str
) -> None:
    """With experts on 16 GPUs, each has a tenth of the weights that one would have."""
    command = f"exec vllm serve deepseek-ai/DeepSeek-R1-0528 --enable-expert-parallel --data-parallel-size {size}"
    pod["spec"]["nodeSelector"] = {"nvidia.com/gpu.product": "NVIDIA-H200"}
    pod["spec"]["containers"][0] |= {
        "image": "vllm/vllm-openai:v0.25.0",
        "command": ["bash", "-c", command],
        "args": [],
    }
    (result,) = lint(pod, builtin(), Facts(), where="check").results
    shortages = [item.finding for item in result.findings if item.rule == "gpu-memory-exceeded"]
    assert [item.certainty for item in shortages] == [certainty]
    assert ("--data-parallel-size" in " ".join(shortages[0].details)) == (certainty == "possible")


@pytest.mark.parametrize(
    ("left", "outcomes"),
    [(3, "vLLM failed in 10 of 13 published start-ups with likely too little"),
     (4, "vLLM started in 9 of 16 published start-ups with only likely enough")],
)  # fmt: skip
def test_an_unsure_plan_says_what_became_of_start_ups_like_it(left: int, outcomes: str) -> None:
    assert leaning.sentence(Estimate(9, 2, left, 6), 4) == outcomes


@pytest.mark.parametrize(
    ("length", "outcomes"),
    [("37000", "failed in 10 of 13"), ("35000", "started in 9 of 16"), ("8192", None), ("200000", None)],
)
def test_check_plan_and_explain_say_it(pod: dict[str, Any], length: str, outcomes: str | None) -> None:
    """Qwen3-8B on a 4090 has room for about 35,632 tokens; 8,192 fit, and 200,000 certainly do not."""
    pod["spec"]["nodeSelector"] = {"nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-4090"}
    args = ["Qwen/Qwen3-8B", "--max-model-len", length]
    pod["spec"]["containers"][0] |= {"image": "vllm/vllm-openai:v0.27.1", "args": args}
    report = lint(pod, builtin(), Facts(), where="check")
    (result,) = report.results
    checked = [result.engine.plan.why, *(line for one in result.findings for line in one.finding.details)]
    explained = dict(explain(report, result).results)
    assert ("start-ups like it" in explained) == (outcomes is not None)
    assert any("published start-ups" in line for line in checked) == (outcomes is not None)
    if outcomes:
        assert outcomes in explained["start-ups like it"]
        assert any(outcomes in line for line in checked)
