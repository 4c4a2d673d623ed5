"""What a Template's parameter softens: what rests on it, and nothing else."""

from __future__ import annotations

import json

import pytest

from podfit.evaluation.lint import lint
from podfit.evaluation.policy import builtin
from podfit.kube import manifest
from podfit.vllm.facts import Facts

TEMPLATE = """
apiVersion: template.openshift.io/v1
kind: Template
metadata: {name: x}
parameters: [{name: P, value: VALUE}]
objects:
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: x}
  spec:
    replicas: REPLICAS
    template:
      spec:
        nodeSelector: {nvidia.com/gpu.product: PRODUCT}
        containers:
        - name: vllm
          image: vllm/vllm-openai:TAG
          args: [Qwen/Qwen3-32B, --max-model-len, 'LENGTH', --no-flag-of-vllm]
          resources: {limits: {nvidia.com/gpu: GPUS, memory: MEMORY}}
          startupProbe: {httpGet: {path: /health, port: 8000}, failureThreshold: TRIES}
"""
PLAIN = {
    "REPLICAS": "1", "PRODUCT": "NVIDIA-L4", "TAG": "v0.24.0", "LENGTH": "8192", "GPUS": "1", "MEMORY": "64Gi",
    "TRIES": "1",
}  # fmt: skip


def modes(**parameters: str) -> dict[str, str]:
    """Rule → mode of what would be denied."""
    text = TEMPLATE
    value = next((PLAIN[name] for name in parameters), "1")
    for name, plain in PLAIN.items():
        text = text.replace(name, parameters.get(name, plain), 1)
    found = {}
    for document in manifest.read(text.replace("VALUE", json.dumps(value)), "x.yaml").documents:
        for one in lint(document.object, builtin(), Facts(), where="check").findings:
            found[one.rule] = one.mode
    return {rule: found[rule] for rule in ("gpu-memory-exceeded", "unknown-flag", "startup-window-too-short")}


ALL = {"gpu-memory-exceeded": "deny", "unknown-flag": "deny", "startup-window-too-short": "deny"}


def test_without_parameters_all_is_denied() -> None:
    assert modes() == ALL


@pytest.mark.parametrize(
    "parameter",
    [{"REPLICAS": "'${{P}}'"}, {"MEMORY": "'${P}'"}, {"TRIES": "'${{P}}'"}],
    ids=lambda one: next(iter(one)),
)
def test_what_vllm_is_told_does_not_rest_on_these(parameter: dict[str, str]) -> None:
    assert modes(**parameter) == {**ALL, "startup-window-too-short": "warn"}


@pytest.mark.parametrize(
    "parameter",
    [{"PRODUCT": "'${P}'"}, {"TAG": "${P}"}, {"LENGTH": "${P}"}, {"GPUS": "'${{P}}'"}],
    ids=lambda one: next(iter(one)),
)
def test_on_these_everything_may_rest(parameter: dict[str, str]) -> None:
    assert set(modes(**parameter).values()) == {"warn"}


def test_a_parameter_in_both_places_softens_all() -> None:
    assert set(modes(REPLICAS="'${{P}}'", GPUS="'${{P}}'").values()) == {"warn"}
