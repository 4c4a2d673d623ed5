"""Which model is evaluated if the command names none: vLLM's own default."""

from __future__ import annotations

import pytest

from podfit.evaluation.lint import lint
from podfit.evaluation.policy import builtin
from podfit.kube import manifest
from podfit.vllm.facts import Facts


@pytest.mark.parametrize(
    ("container", "served"),
    [
        ("image: vllm/vllm-openai:v0.11.0", "Qwen/Qwen3-0.6B"),
        ("image: vllm/vllm-openai:v0.9.2", "facebook/opt-125m"),
        ("image: 'acme/vllm:v0.11.0', command: [vllm, serve]", "Qwen/Qwen3-0.6B"),
        ("image: 'acme/vllm:v0.11.0'", None),  # its entrypoint may name one
        ("image: vllm/vllm-openai:latest", None),
        ("image: 'vllm/vllm-openai:v0.11.0', command: [sh, -c, 'ray start --address=head:6379 --block']", None),
        ("image: 'vllm/vllm-openai:v0.11.0', args: [$(MODEL)]", None),
    ],
)
def test_without_a_model_the_default_is_judged_and_nothing_denied(container: str, served: str | None) -> None:
    text = f"""
apiVersion: v1
kind: Pod
metadata: {{name: x}}
spec:
  nodeSelector: {{nvidia.com/gpu.product: NVIDIA-L4}}
  containers: [{{name: vllm, {container}, resources: {{limits: {{nvidia.com/gpu: 1, memory: 64Gi}}}}}}]
"""
    (document,) = manifest.read(text, "x.yaml").documents
    (result,) = lint(document.object, builtin(), Facts(), where="check").results
    model = result.engine.model
    assert (model and model.value.id) == served
    assert model is None or not model.may_deny
    named = any(one.rule == "unknown-model" for one in result.findings)
    assert named == (result.engine.command.entry != "worker")
