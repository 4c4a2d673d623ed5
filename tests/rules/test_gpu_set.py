"""What people read about the GPUs that a container may get."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.evaluation.lint import lint
from podfit.evaluation.policy import builtin
from podfit.report.text import reason
from podfit.rules import gpu_set
from podfit.rules.engine import Engine
from podfit.rules.gpu.unknown_gpu import UnknownGpu
from podfit.rules.scheduling.mixed_gpu_nodes import MixedGpuNodes
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
        ((L4, T4), "fits L4 (24 GB); not T4 (16 GB)"),
        ((L4, node("unnamed", "")), "fits L4 (24 GB); 1 of 2 matching nodes name no GPU"),
        ((node("shared", "NVIDIA-L4-SHARED"),), "unsure on L4 (24 GB)"),
    ],
)
def test_with_nodes_only_theirs_are_planned(nodes: tuple[dict[str, Any], ...], text: str) -> None:
    found = gpu_set.sentence(engine(Facts(plans_table=True, cluster=snapshot(*nodes)))) or ""

    assert found.startswith(text) or text in found


A100_40 = node("a100", "NVIDIA-A100-SXM4-40GB")
BIG = ("Qwen/Qwen2.5-14B-Instruct", "--max-model-len", "32768", "--max-num-batched-tokens", "32768")


def test_a_headline_names_the_gpus_that_fit_if_it_depends_on_them() -> None:
    found = engine(Facts(cluster=snapshot(L4, T4)))

    assert found.plan.verdict == "unsure"
    assert reason(found) == "fits L4 (24 GB); not T4 (16 GB)"
    assert gpu_set.planned_name(found) == "Tesla T4, the smallest of 2 GPUs"


def test_a_shortage_on_some_of_the_gpus_names_the_one_that_is_planned() -> None:
    """And what the others are: no number is of all of them."""
    obj = pod({"nvidia.com/gpu": "1", "memory": "96Gi"})
    words = ["--model", "Qwen/Qwen3-32B", "--max-model-len", "20000", "--gpu-memory-utilization", "0.85"]
    obj["spec"]["containers"][0] |= {"args": words, "image": "vllm/vllm-openai:v0.11.0"}
    nodes = snapshot(T4, node("a100", "NVIDIA-A100-SXM4-80GB"))
    (result,) = lint(obj, builtin(), Facts(cluster=nodes, plans_table=True)).results

    assert result.engine.gpus is not None
    assert not result.engine.gpus.by_verdict["fits"]
    (finding,) = [judged.finding for judged in result.findings if judged.rule == "gpu-memory-exceeded"]
    assert finding.message.endswith("(Tesla T4, the smallest of 2 GPUs)")
    assert finding.details[0] == "unsure on A100 (80 GB); does not fit T4 (16 GB)"


def test_sizes_are_written_where_one_name_has_two() -> None:
    text = gpu_set.sentence(engine(Facts(cluster=snapshot(node("a", "NVIDIA-A100-SXM4-80GB"), A100_40)), *BIG)) or ""

    assert text.startswith("fits A100 (80 GB); ")
    assert "A100 (40 GB)" in text


def test_of_mixed_nodes_the_smallest_gpu_that_fits_is_suggested_first() -> None:
    """Whatever GPU most nodes have."""
    large = [node(f"h100-{number}", "NVIDIA-H100-80GB-HBM3") for number in range(3)]
    (finding,) = MixedGpuNodes().check(engine(Facts(cluster=snapshot(*large, T4, L4))))

    assert [str(change).rpartition(" ")[2] for change in finding.suggestions] == ["NVIDIA-L4", "NVIDIA-H100-80GB-HBM3"]


def test_known_nodes_that_do_not_match_are_mentioned() -> None:
    found = engine(Facts(plans_table=True, cluster=snapshot(L4)), nodeSelector={"pool": "big"})
    (finding,) = UnknownGpu().check(found)

    assert finding.details == ("no known node can run it: no node has pool=big; no node has this label",)


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
