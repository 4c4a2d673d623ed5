"""What a Template's parameter softens: what rests on it, and nothing else. And files for envsubst and Flux."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

import pytest

from podfit.evaluation.lint import lint
from podfit.evaluation.policy import builtin
from podfit.kube import manifest
from podfit.kube.path import FieldPath
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


DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: x}
spec:
  replicas: REPLICAS
  selector: {matchLabels: {app: x}}
  template:
    metadata: {labels: {app: x}}
    spec:
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.24.0
        command: COMMAND
        args: [meta-llama/Llama-3.1-70B-Instruct, "--max-model-len=LENGTH"]
        env: [{name: TP, value: "2"}]
        resources: {limits: {nvidia.com/gpu: GPUS, memory: 64Gi}}
      nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4}
"""


def deployment(replicas: str = "1", gpus: str = "1", length: str = "8192", command: str = "[vllm, serve]") -> str:
    """A Deployment that does not fit its GPU."""
    values = {"REPLICAS": replicas, "GPUS": gpus, "LENGTH": length, "COMMAND": command}
    return "".join(values.get(part, part) for part in re.split(r"(\b[A-Z]{4,8}\b)", DEPLOYMENT))


def checked(text: str) -> tuple[list[str | None], Mapping[str, str], Mapping[str, object]]:
    """The reasons of notes, rule → mode, and the resolved arguments."""
    manifests = manifest.read(text, "x.yaml")
    assert not manifests.errors
    (result,) = [
        one
        for document in manifests.documents
        for one in lint(document.object, builtin(), Facts(), where="check").results
    ]
    found = {one.rule: one.mode for one in result.findings}
    return [note.skips for note in manifests.notes], found, dict(result.engine.args.given)


@pytest.mark.parametrize(
    "places",
    [
        {"replicas": "${N}"}, {"replicas": '"${N}"'}, {"replicas": "$N"}, {"replicas": "${N:=2}"},
        {"replicas": "${N:-2}"}, {"gpus": "${N}"}, {"gpus": '"${N}"'},
    ],
    ids=str,
)  # fmt: skip
def test_a_placeholder_instead_of_a_number_makes_a_template(places: dict[str, str]) -> None:
    notes, rules, _ = checked(deployment(**places))
    assert notes == ["template"]
    assert rules["gpu-memory-exceeded"] == "warn"


@pytest.mark.parametrize("places", [{}, {"length": "${N}"}, {"length": "$(N)"}, {"replicas": "'$5'"}], ids=str)
def test_others_are_no_template(places: dict[str, str]) -> None:
    notes, rules, _ = checked(deployment(**places))
    assert notes == []
    assert rules["gpu-memory-exceeded"] == "deny" or "length" in places
    assert ("variable-not-expanded" in rules) is ("length" in places)


def test_in_a_template_no_value_is_called_not_expanded() -> None:
    _, rules, given = checked(deployment(replicas="${N}", length="${LENGTH:-4096}"))
    assert "variable-not-expanded" not in rules
    assert given["max_model_len"] == 4096
    assert "variable-not-expanded" not in checked(deployment(replicas="${N}", length="${LENGTH}"))[1]


def test_a_shell_expands_the_variables_that_the_container_has() -> None:
    command = "[sh, -c, 'vllm serve Qwen/Qwen3-8B --tensor-parallel-size ${TP} --port $PORT']"
    _, _, given = checked(deployment(replicas="${N}", command=command))
    assert given["tensor_parallel_size"] == 2


def test_what_is_yaml_only_without_the_placeholders_keeps_its_lines_and_texts() -> None:
    text = deployment(gpus="${GPUS}")
    (document,) = manifest.read(text, "x.yaml").documents
    limits = document.object["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
    path = FieldPath.parse("spec.template.spec.containers[0].resources.limits.memory")
    assert limits == {"nvidia.com/gpu": "${GPUS}", "memory": "64Gi"}
    assert text.split("\n")[document.line_of(path) - 1].strip().startswith("resources:")
    assert text.split("\n")[document.mark_of(path).line - 1][document.mark_of(path).column - 1 :].startswith("64Gi")


def test_what_is_no_yaml_for_another_reason_is_an_error() -> None:
    assert manifest.read(deployment(gpus="${GPUS}") + "\n  a: [", "x.yaml").errors
