"""What is assumed of a Pod's GPU holds where the Pod may get it: where its resources, or its build of vLLM, are of the
same maker."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.evaluation.lint import Report, lint
from podfit.evaluation.policy import builtin, load
from podfit.vllm import gpu
from podfit.vllm.facts import Facts
from podfit.vllm.gpu import maker

L4, MI300X = gpu.parse("l4"), gpu.parse("mi300x")
CUDA = "vllm/vllm-openai:v0.11.0"
ARGS = ["serve", "Qwen/Qwen2.5-14B-Instruct", "--max-model-len", "4096"]


POLICY = "apiVersion: podfit.dev/v1alpha1\nkind: Policy\nmetadata: {{name: mine}}\nspec: {{assume: {{gpu: {}}}}}\n"


def report(image: str, limits: dict[str, Any], facts: Facts, *env: str, assumed: str = "", **spec: Any) -> Report:
    """The findings in a Pod whose model fits one MI300X, and no L4; `assumed`: the policy's `assume.gpu`."""
    policy = load([("p.yaml", POLICY.format(assumed))]) if assumed else builtin()
    variables = [dict(zip(("name", "value"), one.split("="), strict=True)) for one in env]
    runs = {"name": "vllm", "image": image, "command": ["vllm"], "args": ARGS, "env": variables}
    container: dict[str, Any] = {**runs, "resources": {"limits": limits}}
    spec = {"containers": [container], **spec}
    return lint({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}, policy, facts)


def product(found: Report) -> str | None:
    fact = found.results[0].engine.gpu
    return fact.value.name if fact else None


ASKED = [
    (CUDA, {"nvidia.com/gpu": 1}, "nvidia"),
    (CUDA, {"amd.com/gpu": 1}, "amd"),
    ("rocm/vllm:rocm6.4.1_vllm_0.10.1_20250909", {"amd.com/gpu": 1}, "amd"),
    ("rocm/vllm:rocm6.4.1_vllm_0.10.1_20250909", {}, "amd"),
    ("rocm/vllm:rocm6.4.1_vllm_0.10.1_20250909", {"nvidia.com/gpu": 1}, "nvidia"),
    ("vllm/vllm-openai-rocm:v0.14.0", {}, "amd"),
    ("vllm/vllm-tpu:v0.11.0", {"google.com/tpu": 4}, "google"),
    ("vllm/vllm-tpu:v0.11.0", {}, "google"),
    ("registry.example.com/vllm-gaudi:v0.11.0", {"habana.ai/gaudi": 1}, "gaudi"),
    ("registry.example.com/vllm-neuron:v0.11.0", {"aws.amazon.com/neuron": 2}, "aws"),
    ("quay.io/ascend/vllm-ascend:v0.11.0", {"huawei.com/Ascend910": 1}, "huawei"),
    ("quay.io/ascend/vllm-ascend:v0.11.0", {}, "huawei"),
    ("vllm/vllm-openai-xpu:v0.17.0", {"gpu.intel.com/xe": 1}, "intel"),
    ("intel/vllm:0.10.2-xpu", {}, "intel"),
    (CUDA, {"cambricon.com/mlu": 1}, "other"),
    (CUDA, {"example.com/npu": 1}, "other"),
]


@pytest.mark.parametrize(("image", "limits", "its"), ASKED)
@pytest.mark.parametrize(("name", "of"), [("l4", "nvidia"), ("mi300x", "amd")])
def test_a_gpu_that_is_assumed_is_one_of_the_maker_that_is_asked_for(
    image: str, limits: dict[str, Any], its: str, name: str, of: str
) -> None:
    given, assumed = report(image, limits, Facts(gpu=gpu.parse(name))), report(image, limits, Facts(), assumed=name)
    assert product(given) == product(assumed) == (gpu.parse(name).name if its == of else None)
    assert given.denied == (its == of == "nvidia")


@pytest.mark.parametrize("limits", [{}, {"google.com/tpu": 0}, {"volcano.sh/vgpu-number": 1}, {"rdma/hca": 1}])
def test_where_nothing_tells_the_maker_it_holds(limits: dict[str, Any]) -> None:
    assert product(report(CUDA, limits, Facts(gpu=L4))) == "NVIDIA L4"
    assert product(report("registry.example.com/ours:1", limits, Facts(gpu=MI300X))) == "AMD Instinct MI300X"


@pytest.mark.parametrize("variable", ["VLLM_TARGET_DEVICE=tpu", "PJRT_DEVICE=TPU"])
def test_the_environment_tells_the_build_too(variable: str) -> None:
    assert product(report("registry.example.com/ours:1", {}, Facts(gpu=L4), variable)) is None


@pytest.mark.parametrize("spec", [{}, {"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-L4"}}])
def test_a_build_for_processors_gets_no_gpu(spec: dict[str, Any]) -> None:
    image = "public.ecr.aws/q9t5s3a7/vllm-cpu-release-repo:v0.11.0"
    found = report(image, {}, Facts(gpu=L4), **spec)
    assert product(found) is None
    assert not found.denied


def test_the_policys_gpu_is_taken_where_the_one_that_was_given_is_another_makers() -> None:
    found = report(CUDA, {"amd.com/gpu": 1}, Facts(gpu=L4), assumed="mi300x")
    assert product(found) == "AMD Instinct MI300X"


def test_the_finding_says_why_what_was_given_is_not_believed() -> None:
    found = report("vllm/vllm-tpu:v0.11.0", {"google.com/tpu": 4}, Facts(gpu=L4))
    (message,) = (one.finding.message for one in found.findings if one.rule == "unknown-gpu")
    assert message.endswith("GPU memory is not checked (--gpu NVIDIA L4 is another maker's)")


@pytest.mark.parametrize(
    ("resource", "label"),
    [
        ("nvidia.com/gpu", "nvidia.com/gpu.product"),
        ("amd.com/gpu", "amd.com/gpu.product-name"),
        ("gpu.intel.com/xe", "gpu.intel.com/product"),
        ("google.com/tpu", "cloud.google.com/gke-tpu-accelerator"),
        ("habana.ai/gaudi", None),
        ("aws.amazon.com/neuron", None),
        ("huawei.com/Ascend910", None),
        ("cambricon.com/mlu", None),
    ],
)
def test_the_label_that_is_proposed_is_one_of_the_makers_nodes(resource: str, label: str | None) -> None:
    found = report("registry.example.com/ours:1", {resource: 1}, Facts())
    (finding,) = (one.finding for one in found.findings if one.rule == "unknown-gpu")
    assert finding.suggestions == ((f"nodeSelector {label} with the GPU's label",) if label else ())


def test_every_product_has_a_maker_and_every_maker_a_resource() -> None:
    for one in gpu.all_products():
        (its,) = maker.of_gpus([one])
        assert maker.of_resource(maker.RESOURCES[its]) == its
