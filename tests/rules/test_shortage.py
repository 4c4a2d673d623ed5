"""How sure a shortage of GPU memory is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from podfit.evaluation.lint import lint
from podfit.evaluation.policy import builtin
from podfit.rules.rule import Finding
from podfit.vllm.facts import Facts


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
