"""What people read about the GPUs that a container may get."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.evaluation.lint import lint
from podfit.evaluation.policy import builtin
from podfit.rules import gpu_set
from podfit.rules.engine import Engine
from podfit.vllm.facts import Facts
from tests.vllm.gpu.pods import pod
from tests.vllm.gpu.test_nodes import L4, T4, node, snapshot


def engine(facts: Facts, *args: str, image: str = "vllm/vllm-openai:v0.27.1", **spec: Any) -> Engine:
    """A container with 15 GiB of weights, or with these arguments."""
    obj = pod({"nvidia.com/gpu": "1", "memory": "48Gi"}, **spec)
    words = args or ("unsloth/Llama-3.1-8B-Instruct", "--max-model-len", "8192")
    obj["spec"]["containers"][0] |= {"args": list(words), "image": image}
    (result,) = lint(obj, builtin(), facts).results
    return result.engine


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ((), "fits whole GPUs of 24 GB and more (L4, A10G, RTX 4090, RTX 3090 …); not T4 (16 GB)"),
        (("Qwen/Qwen3-1.7B", "--max-model-len", "8192", "--dtype", "bfloat16"), "T4 has room, but no bfloat16"),
        (
            ("Qwen/Qwen3-1.7B", "--max-model-len", "8192"),
            "fits whole GPUs of 16 GB and more (T4, L4, A10G, RTX 4090 …)",
        ),
        (("unsloth/Llama-3.1-8B-Instruct", "--max-model-len", "131072"), "of 131,072 tokens on RTX 5090"),
        (("deepseek-ai/DeepSeek-V3",), "fits no GPU that podfit knows, at this count: 1 × "),
    ],
)
def test_the_table_says_where_it_fits(args: tuple[str, ...], text: str) -> None:
    assert text in (gpu_set.sentence(engine(Facts(plans_table=True), *args)) or "")


def test_without_a_release_the_planned_one_is_named() -> None:
    found = engine(Facts(plans_table=True), image="vllm/vllm-openai:latest")

    assert (gpu_set.sentence(found) or "").endswith("as the image names no release")


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        ((L4, T4), "fits L4; not T4 (16 GB)"),
        ((L4, node("unnamed", "")), "fits L4; 1 of 2 matching nodes name no GPU"),
        ((node("shared", "NVIDIA-L4-SHARED"),), "unsure on L4 (24 GB)"),
    ],
)
def test_with_nodes_only_theirs_are_planned(nodes: tuple[dict[str, Any], ...], text: str) -> None:
    found = gpu_set.sentence(engine(Facts(plans_table=True, cluster=snapshot(*nodes)))) or ""

    assert found.startswith(text) or text in found


def test_a_webhook_plans_no_table() -> None:
    found = engine(Facts())

    assert (found.gpus, gpu_set.sentence(found), gpu_set.selector(found)) == (None, None, None)


def test_the_smallest_is_rented_and_lacks_nothing_else() -> None:
    found = engine(Facts(plans_table=True), "Qwen/Qwen3-8B", "--max-model-len", "8192", "--dtype", "bfloat16")

    assert found.gpus is not None
    fitting = {one.gpu.name for one in found.gpus.by_verdict["fits"]}
    assert "Tesla V100 32GB" in fitting
    assert gpu_set.smallest(found) in fitting - {"Tesla V100 32GB"}


@pytest.mark.parametrize(
    ("selector", "absent", "there"),
    [
        ({"nvidia.com/gpu.memory": "81559"}, "NVIDIA L4", None),
        ({"nvidia.com/gpu.compute.major": "8"}, "NVIDIA H100 80GB SXM5", "NVIDIA L4"),
        ({"karpenter.k8s.aws/instance-category": "p"}, "NVIDIA L4", "NVIDIA H200 SXM 141GB"),
        ({"pool": "any"}, "AMD Instinct MI300X", "NVIDIA L4"),
    ],
)
def test_what_the_pod_requires_of_its_node_restricts_the_table(
    selector: dict[str, str], absent: str, there: str | None
) -> None:
    found = engine(Facts(plans_table=True), nodeSelector=selector)
    names = {one.gpu.name for one in found.candidates}

    assert absent not in names
    assert there is None or there in names
