"""Advice and warnings that know the cluster: its accelerators, and what the policy says is free."""

from __future__ import annotations

from typing import Any

from podfit.evaluation.lint import GradedFinding, lint
from podfit.evaluation.policy import load
from podfit.kube import snapshot
from podfit.vllm.facts import Facts
from podfit.vllm.memory.solve import PRODUCTS


def pod(*args: str, product: str = "Tesla-T4") -> dict[str, Any]:
    """One vLLM 0.19.0 with Qwen3 8B, which needs more than a T4."""
    container = {
        "name": "vllm",
        "image": "vllm/vllm-openai:v0.19.0",
        "args": ["Qwen/Qwen3-8B", "--max-model-len", "4096", *args],
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
    }
    spec = {"nodeSelector": {"nvidia.com/gpu.product": product}, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "qwen"}, "spec": spec}


def node(name: str, product: str) -> dict[str, Any]:
    """A node with one GPU."""
    labels = {"nvidia.com/gpu.product": product}
    status = {"allocatable": {"nvidia.com/gpu": "1"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}


def found(obj: dict[str, Any], rule: str, facts: Facts, assume: str = "{}") -> list[GradedFinding]:
    """The findings of one rule, under a policy that assumes something."""
    text = f"apiVersion: podfit.dev/v1alpha1\nkind: Policy\nmetadata: {{name: p}}\nspec: {{assume: {assume}}}\n"
    report = lint(obj, load([("p.yaml", text)]), facts, where="check")
    return [judged for judged in report.findings if judged.rule == rule]


def test_a_product_of_the_cluster_is_suggested_before_any_other() -> None:
    nodes = snapshot.from_objects(
        [node("a", "NVIDIA-A40"), node("b", "Tesla-T4"), node("c", "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb")]
    )
    (judged,) = found(pod(), "gpu-memory-exceeded", Facts(cluster=nodes))
    assert judged.finding.suggestions[0] == "nodeSelector nvidia.com/gpu.product: NVIDIA-A40"
    (elsewhere,) = found(pod(), "gpu-memory-exceeded", Facts())
    assert elsewhere.finding.suggestions[0] == f"nodeSelector nvidia.com/gpu.product: {PRODUCTS[0]}"


def test_where_no_other_node_will_come_nothing_else_is_suggested() -> None:
    facts = Facts(cluster=snapshot.from_objects([node("b", "Tesla-T4")]))
    (judged,) = found(pod(), "gpu-memory-exceeded", facts, "{nodes: closed}")
    assert not any("nodeSelector" in text for text in judged.finding.suggestions)


def test_a_policy_says_how_much_of_a_gpu_is_free() -> None:
    """Something else always runs there: a share above that is warned about, the default one, too."""
    rule, half = "gpu-memory-utilization-too-high", "{freeGpuMemory: 0.5}"
    for args, share in (((), "0.9"), (("--gpu-memory-utilization", "0.7"), "0.7")):
        (judged,) = found(pod(*args, product="NVIDIA-L40S"), rule, Facts(), half)
        said = f"--gpu-memory-utilization {share} asks for more of the GPU than the 0.5 that are free"
        assert judged.finding.message.startswith(said)
        assert judged.mode == "warn"
    quiet = pod("--gpu-memory-utilization", "0.5", product="NVIDIA-L40S")
    assert found(quiet, rule, Facts(), half) == []
