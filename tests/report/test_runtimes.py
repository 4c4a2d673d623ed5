"""An InferenceService is evaluated with the runtime of the same input that it names; a runtime alone says so."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from podfit.base.secret import Secrets
from podfit.evaluation.lint import lint
from podfit.evaluation.policy import builtin
from podfit.kube.companions import Companions
from podfit.report.text import summary
from podfit.rules.engine import Engine
from podfit.vllm.facts import Facts

RUNTIME = """
apiVersion: serving.kserve.io/v1alpha1
kind: KIND
metadata: {name: mine}
spec:
  nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4, pool: a}
  volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 2Gi}}]
  containers:
  - name: kserve-container
    image: vllm/vllm-openai:v0.10.0
    command: [python3, -m, vllm.entrypoints.openai.api_server]
    args: [--model=/mnt/models, "--served-model-name={{.Name}}", --max-model-len=4096]
    env: [{name: A, value: runtime}, {name: B, value: runtime}]
    volumeMounts: [{name: shm, mountPath: /dev/shm}]
    resources: {limits: {nvidia.com/gpu: "1", memory: 24Gi}}
  - {name: sidecar, image: proxy}
"""
SERVICE = """
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: llama}
spec:
  predictor:
    nodeSelector: {pool: b}
    model:
      modelFormat: {name: vLLM}
      runtime: mine
      storageUri: hf://meta-llama/Llama-3.1-8B-Instruct
      args: [--tensor-parallel-size=2]
      env: [{name: B, value: service}]
      resources: {limits: {nvidia.com/gpu: "2"}}
"""
WORKERS = """
  workerSpec:
    pipelineParallelSize: 2
    tensorParallelSize: 4
    containers:
    - name: worker-container
      image: vllm/vllm-openai:v0.10.0
      command: [bash, -c, ray start --address=x --block]
      resources: {limits: {nvidia.com/gpu: "4"}}
"""


def objects(*texts: str, kind: str = "ServingRuntime") -> list[dict[str, Any]]:
    return [yaml.safe_load(text.replace("KIND", kind)) for text in texts]


def engines(*found: dict[str, Any]) -> list[Engine]:
    """The engines of the first object, the others next to it."""
    facts = Facts(companions=Companions(tuple(found)), plans_table=True)
    return [one.engine for one in lint(found[0], builtin(), facts, where="check").results]


@pytest.mark.parametrize("kind", ["ServingRuntime", "ClusterServingRuntime"])
def test_a_service_has_the_image_the_arguments_and_the_gpu_of_its_runtime(kind: str) -> None:
    (engine,) = engines(*objects(SERVICE, RUNTIME, kind=kind))
    assert str(engine.release) == "0.10.0"
    assert engine.args.given["max_model_len"] == 4096
    assert engine.args.given["tensor_parallel_size"] == 2
    assert engine.args.given["served_model_name"] == ["llama"]
    assert engine.requested == ("nvidia.com/gpu", 2)
    assert engine.gpu is not None
    assert engine.gpu.value.name == "NVIDIA L4"
    assert engine.model is not None
    assert engine.model.value.id == "meta-llama/Llama-3.1-8B-Instruct"
    assert engine.shm.mounted


def test_what_the_service_says_itself_wins() -> None:
    (engine,) = engines(*objects(SERVICE, RUNTIME))
    assert engine.command.env["A"] == "runtime"
    assert engine.command.env["B"] == "service"
    assert engine.workload.spec["nodeSelector"]["pool"] == "b"


@pytest.mark.parametrize(
    ("service", "runtime"),
    [
        (SERVICE.replace("runtime: mine", "runtime: other"), RUNTIME),
        (SERVICE.replace("      runtime: mine\n", ""), RUNTIME),
        (SERVICE.replace("{name: llama}", "{name: llama, namespace: a}"),
         RUNTIME.replace("{name: mine}", "{name: mine, namespace: b}")),
    ],
    ids=["another name", "no name", "another namespace"],
)  # fmt: skip
def test_no_other_runtime_is_used(service: str, runtime: str) -> None:
    (engine,) = engines(*objects(service, runtime))
    assert engine.release is None
    assert engine.gpu is None


def test_findings_about_inherited_arguments_are_at_the_name_of_the_runtime() -> None:
    service, runtime = objects(
        SERVICE.replace("--tensor-parallel-size=2", "--tensor-paralel-size=2"),
        RUNTIME.replace("--max-model-len=", "--max-modl-len="),
    )
    facts = Facts(companions=Companions((service, runtime)))
    found = [one for one in lint(service, builtin(), facts, where="check").findings if one.rule == "unknown-flag"]
    assert {str(one.finding.path): one.applies for one in found} == {
        "spec.predictor.model.runtime": False,
        "spec.predictor.model.args[0]": True,
    }


def test_the_workers_of_a_service_come_from_its_runtime() -> None:
    service, runtime = objects(SERVICE + "    workerSpec: {}\n", RUNTIME + WORKERS)
    head, worker = engines(service, runtime)
    assert head.command.env["PIPELINE_PARALLEL_SIZE"] == "2"
    assert head.workload.pods_per_replica == 2
    assert worker.leader is head
    assert worker.requested == ("nvidia.com/gpu", 4)


def test_a_runtime_says_which_services_name_it() -> None:
    alone, used = (summary(engines(*objects(RUNTIME, *more))[0], Secrets()) for more in ((), (SERVICE,)))
    begins = "a runtime template, vLLM 0.10.0: "
    assert alone == f"{begins}an InferenceService names its model, and none in this input names this runtime"
    assert used == f"{begins}its model is that of InferenceService llama"
