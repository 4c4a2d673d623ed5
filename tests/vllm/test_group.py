"""The Pods that serve a model together, and the GPUs that they have."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.evaluation.lint import lint
from podfit.evaluation.policy import builtin
from podfit.kube import manifest, workload
from podfit.kube.companions import Companions
from podfit.vllm import group
from podfit.vllm.facts import Facts

POD = "{containers: [{name: vllm, resources: {limits: {nvidia.com/gpu: 8}}}]}"
CPU = "{containers: [{name: ray, resources: {limits: {cpu: 8}}}]}"
LWS = "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nspec: {{leaderWorkerTemplate: {{{}}}}}"
RAY = "apiVersion: ray.io/v1\nkind: RayCluster\nspec: {{headGroupSpec: {head}, workerGroupSpecs: [{worker}]}}"


def of(text: str, index: int = 0) -> tuple[int, int] | None:
    """Pods and GPUs of the group of one of the templates of an object."""
    (document,) = manifest.read(text, "x.yaml").documents
    one = workload.find(document.object)[index]
    found = group.group_of(one, one.containers[0])
    return (found.pods, found.gpus) if found else None


@pytest.mark.parametrize(
    ("text", "index", "wanted"),
    [
        (f"apiVersion: v1\nkind: Pod\nspec: {POD}", 0, (1, 8)),
        (LWS.format(f"workerTemplate: {{spec: {POD}}}"), 0, (1, 8)),
        (LWS.format(f"size: 4, workerTemplate: {{spec: {POD}}}"), 0, (4, 32)),
        (LWS.format(f"size: 4, leaderTemplate: {{spec: {POD}}}, workerTemplate: {{spec: {POD}}}"), 0, (4, 32)),
        (LWS.format(f"size: 4, leaderTemplate: {{spec: {POD}}}, workerTemplate: {{spec: {CPU}}}"), 0, (4, 8)),
        # the leader is evaluated, not its workers
        (LWS.format(f"size: 4, leaderTemplate: {{spec: {POD}}}, workerTemplate: {{spec: {POD}}}"), 1, None),
        (LWS.format(f"size: '{{{{N}}}}', workerTemplate: {{spec: {POD}}}"), 0, None),
        (LWS.format(f"size: 2, workerTemplate: {{spec: {POD.replace('8', 'x')}}}"), 0, None),
        (
            "apiVersion: serving.kserve.io/v1beta1\nkind: InferenceService\n"
            f"spec: {{predictor: {{containers: {POD[13:-1]}, workerSpec: {{pipelineParallelSize: 2, {POD[1:]}}}}}",
            0,
            (2, 16),
        ),
        (
            "apiVersion: serving.kserve.io/v1alpha1\nkind: LLMInferenceService\n"
            "spec: {model: {uri: 'hf://a/b', name: b}, parallelism: {data: 16, dataLocal: 8}, "
            f"template: {POD.replace('vllm', 'main')}, worker: {POD.replace('vllm', 'main')}}}",
            0,
            (2, 16),
        ),
        (
            "apiVersion: orchestration.aibrix.ai/v1alpha1\nkind: StormService\n"
            f"spec: {{template: {{spec: {{roles: [{{podGroupSize: 2, template: {{spec: {POD}}}}}]}}}}}}",
            0,
            (2, 16),
        ),
    ],
)
def test_a_group(text: str, index: int, wanted: Any) -> None:
    assert of(text, index) == wanted


@pytest.mark.parametrize(
    ("head", "worker", "wanted"),
    [
        (f"{{template: {{spec: {POD}}}}}", f"{{replicas: 1, template: {{spec: {POD}}}}}", (2, 16)),
        (f"{{template: {{spec: {CPU}}}}}", f"{{replicas: 2, numOfHosts: 2, template: {{spec: {POD}}}}}", (5, 32)),
        # the most that the autoscaler may make, and the resources that Ray is given by an argument
        (f"{{template: {{spec: {CPU}}}}}", f"{{replicas: 0, maxReplicas: 2, template: {{spec: {POD}}}}}", (3, 16)),
        (
            f"{{rayStartParams: {{num-gpus: '0'}}, template: {{spec: {POD}}}}}",
            f"{{replicas: 1, template: {{spec: {POD}}}}}",
            (2, 8),
        ),
        (f"{{template: {{spec: {POD}}}}}", f"{{template: {{spec: {POD}}}}}", None),
        (f"{{template: {{spec: {CPU}}}}}", f"{{replicas: 1, template: {{spec: {CPU}}}}}", None),
    ],
)
def test_a_ray_cluster_counts_as_one(head: str, worker: str, wanted: Any) -> None:
    assert of(RAY.format(head=head, worker=worker)) == wanted


SERVE = """
apiVersion: {api}
kind: {kind}
metadata: {{name: llama, namespace: chat}}
spec:
  template:
    spec:
      containers:
      - name: vllm
        image: vllm/vllm-openai:{tag}
        command: {command}
        resources: {{limits: {{nvidia.com/gpu: 8, memory: 500Gi}}}}
"""


def modes(text: str) -> dict[str, str]:
    """Rule → mode, of what is found about the number of GPUs."""
    documents = manifest.read(text, "x.yaml").documents
    facts = Facts(companions=Companions(tuple(one.object for one in documents)))
    reports = [lint(document.object, builtin(), facts, where="check") for document in documents]
    assert not [error for report in reports for error in report.errors]
    found = [one for report in reports for one in report.findings]
    return {one.rule: one.mode for one in found if one.rule in ("gpu-count-mismatch", "gpu-idle")}


@pytest.mark.parametrize(
    ("command", "tag", "wanted"),
    [
        ("[vllm, serve, Qwen/Qwen3-32B, -tp, '8']", "v0.27.1", {}),
        ("[vllm, serve, Qwen/Qwen3-32B, -tp, '8', -pp, '2']", "v0.27.1", {"gpu-count-mismatch": "deny"}),
        # another Deployment may join as a worker
        ("[vllm, serve, Qwen/Qwen3-32B, -tp, '8', -pp, '2', --distributed-executor-backend, ray]", "v0.27.1", {}),
        ("[sh, -c, 'ray start --head; vllm serve Qwen/Qwen3-32B -tp 8 -pp 2']", "v0.10.0", {}),
        # each of the nodes takes its part
        ("[vllm, serve, Qwen/Qwen3-32B, -tp, '8', -pp, '2', --nnodes, '2']", "v0.27.1", {}),
        ("[vllm, serve, Qwen/Qwen3-32B, -tp, '8', --nnodes, '2']", "v0.27.1", {"gpu-idle": "warn"}),
        ("[vllm, serve, Qwen/Qwen3-32B, -tp, '8', -pp, '4', --nnodes, '2']", "v0.27.1", {"gpu-count-mismatch": "warn"}),
        ("[vllm, serve, Qwen/Qwen3-32B, -tp, '4', -dp, '2']", "v0.27.1", {}),
        ("[vllm, serve, Qwen/Qwen3-32B, -tp, '4', --config, /etc/vllm.yaml]", "v0.27.1", {}),
        ("[vllm, serve, Qwen/Qwen3-32B, -tp, $(TP)]", "v0.27.1", {}),
    ],
)
def test_the_gpus_of_a_deployment(command: str, tag: str, wanted: dict[str, str]) -> None:
    assert modes(SERVE.format(api="apps/v1", kind="Deployment", command=command, tag=tag)) == wanted


@pytest.mark.parametrize(
    ("command", "tag", "wanted"),
    [
        ("vllm serve Qwen/Qwen3-32B -tp 8 -pp 2", "v0.11.1", "deny"),
        ("vllm serve Qwen/Qwen3-32B -tp 8 -pp 2", "v0.33.0", "deny"),
        ("vllm serve Qwen/Qwen3-32B -tp 16 --data-parallel-backend ray", "v0.27.1", "deny"),
        ("vllm serve Qwen/Qwen3-32B -tp 8 -pp 2", "v0.11.0", None),  # it looks for Ray by itself
        ("vllm serve Qwen/Qwen3-32B -tp 8 -pp 2", "v0.34.0", "warn"),
        ("vllm serve Qwen/Qwen3-32B -tp 8 -pp 2", "latest", "warn"),
        ("vllm serve Qwen/Qwen3-32B -tp 8 -pp 2 --distributed-executor-backend ray", "v0.27.1", None),
        ("vllm serve Qwen/Qwen3-32B -tp 8 -pp 2 --distributed-executor-backend external_launcher", "v0.27.1", None),
        ("vllm serve Qwen/Qwen3-32B -tp 8 -pp 2 --distributed-executor-backend $HOW", "v0.27.1", None),
        ("vllm serve Qwen/Qwen3-32B -tp 8 -pp 2 --nnodes 2", "v0.27.1", None),
        ("vllm serve Qwen/Qwen3-32B -tp 8 -pp 2 $MORE", "v0.27.1", None),
        ("vllm serve Qwen/Qwen3-32B -tp 8 -pp $STAGES", "v0.27.1", None),
        ("vllm serve Qwen/Qwen3-32B -tp 8 -dp 2", "v0.27.1", None),
        ("pip install my-platform; vllm serve Qwen/Qwen3-32B -tp 8 -pp 2", "v0.27.1", "warn"),
        ("sed -i s/a/b/ $PACKAGES/site-packages/vllm/x.py; vllm serve Qwen/Qwen3-32B -tp 16", "v0.27.1", "warn"),
    ],
)
def test_a_leader_that_is_not_told_of_the_other_pods(command: str, tag: str, wanted: str | None) -> None:
    pod = f"{{containers: [{{name: vllm, image: 'vllm/vllm-openai:{tag}', command: [bash, -c, '{command}'], "
    pod += "resources: {limits: {nvidia.com/gpu: 8, memory: 500Gi}}}]}"
    assert modes(LWS.format(f"size: 2, workerTemplate: {{spec: {pod}}}")).get("gpu-count-mismatch") == wanted
    amd = pod.replace("nvidia.com", "amd.com")
    assert "gpu-count-mismatch" not in modes(LWS.format(f"size: 2, workerTemplate: {{spec: {amd}}}"))


def test_a_leader_that_may_see_more_cards_is_warned() -> None:
    pod = "{containers: [{name: vllm, image: 'vllm/vllm-openai:v0.27.1', args: [Qwen/Qwen3-32B, -tp, '16'], "
    pod += "securityContext: {privileged: true}, resources: {limits: {nvidia.com/gpu: 8, memory: 500Gi}}}]}"
    assert modes(LWS.format(f"size: 2, workerTemplate: {{spec: {pod}}}")) == {"gpu-count-mismatch": "warn"}
