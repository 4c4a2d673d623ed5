"""The line about a container: what is planned, and what a guess rests on."""

from __future__ import annotations

import pytest

from podfit.base.secret import Secrets
from podfit.kube import manifest
from podfit.kube.workload import find as find_workloads
from podfit.report.text import summary
from podfit.rules.engine import Engine
from podfit.rules.reading import read as read_engine
from podfit.vllm import gpu, model
from podfit.vllm.facts import Facts


def in_workload(name: str, env: str = "[]") -> Engine:
    """A container that serves a folder, in a Deployment of this name."""
    (document,) = manifest.read(
        f"""
        apiVersion: apps/v1
        kind: Deployment
        metadata: {{name: {name}}}
        spec:
          template:
            spec:
              containers:
              - name: vllm
                image: vllm/vllm-openai:v0.24.0
                args: [--model=/models, --max-model-len=8192]
                env: {env}
                resources: {{limits: {{nvidia.com/gpu: 1}}}}
        """,
        "x.yaml",
    ).documents
    (workload,) = find_workloads(document.object)
    engine = read_engine(workload, workload.containers[0], Facts(gpu=gpu.parse("l4")))
    assert engine is not None
    return engine


@pytest.mark.parametrize(
    ("name", "env", "condition"),
    [
        ("qwen3-8b", "[]", "if it is Qwen/Qwen3-8B (the Deployment's name says so)"),
        ("vllm-qwen3-8b", "[]", "if it is Qwen/Qwen3-8B (the Deployment's name says so)"),
        ("qwen3-8b-prod", "[]", "if it is Qwen/Qwen3-8B (the Deployment's name begins so)"),
        ("x", "[{name: MODEL_ID, value: Qwen/Qwen3-8B}]", "if it is Qwen/Qwen3-8B (the variable MODEL_ID says so)"),
    ],
)
def test_the_headline_says_what_a_guess_rests_on(name: str, env: str, condition: str) -> None:
    line = summary(in_workload(name, env), Secrets())
    assert line.startswith(f"/models on 1 × NVIDIA L4, vLLM 0.24.0: GPU memory fits, {condition}: ")


def test_a_model_that_is_named_is_not_called_a_guess() -> None:
    fact = model.by_id("Qwen/Qwen3-8B")
    assert fact is not None
    assert model.guess(fact) is None
    assert model.guess(model.model_of_name("/models/Qwen3-8B") or fact) is None
