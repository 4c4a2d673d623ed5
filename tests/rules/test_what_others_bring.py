"""What an operator, a plugin or a template adds is not reported as missing, and what is not vLLM is not evaluated."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.evaluation.lint import Report, lint
from podfit.evaluation.policy import builtin
from podfit.vllm.facts import Facts


def _judge(container: dict[str, Any], kind: str = "Pod", api: str = "v1") -> Report:
    obj = {"apiVersion": api, "kind": kind, "metadata": {"name": "x"}, "spec": {"containers": [container]}}
    report = lint(obj, builtin(), Facts(), where="check")
    assert not report.errors
    return report


def _rules(container: dict[str, Any], kind: str = "Pod", api: str = "v1") -> set[str]:
    return {one.rule for one in _judge(container, kind, api).findings}


@pytest.mark.parametrize(
    ("kind", "api", "name", "told"),
    [
        ("ServingRuntime", "serving.kserve.io/v1alpha1", "PIPELINE_PARALLEL_SIZE", False),
        ("ClusterServingRuntime", "serving.kserve.io/v1alpha1", "TENSOR_PARALLEL_SIZE", False),
        ("ServingRuntime", "serving.kserve.io/v1alpha1", "ANYTHING", False),
        ("Pod", "v1", "PIPELINE_PARALLEL_SIZE", True),
    ],
)
def test_variables_that_kserve_sets(kind: str, api: str, name: str, told: bool) -> None:
    args = ["--model=/mnt/models", f"--tensor-parallel-size=$({name})"]
    container = {"name": "kserve-container", "image": "vllm/vllm-openai:v0.10.2", "args": args}
    assert ("variable-not-expanded" in _rules(container, kind, api)) is told


@pytest.mark.parametrize(
    ("image", "told"),
    [
        ("vllm/vllm-openai:v0.8.5", True),
        ("quay.io/ascend/vllm-ascend:v0.8.5", False),
        ("vault.habana.ai/vllm-gaudi:v0.8.5", False),
    ],
)
def test_architectures_that_a_plugin_brings(image: str, told: bool) -> None:
    container = {"name": "vllm", "image": image, "command": ["vllm", "serve", "Qwen/Qwen3-Next-80B-A3B-Instruct"]}
    assert ("model-newer-than-release" in _rules(container)) is told


@pytest.mark.parametrize(
    ("image", "told"),
    [
        ("vllm/vllm-openai", True),
        ("registry.corp/ml/vllm-openai:latest", True),
        ("<your-registry>/vllm-openai", False),
        ("REGISTRY/vllm-openai:TAG", False),
        ("IMAGE_NAME", False),
        ("$ECR_REGISTRY/vllm-openai:latest", False),
        ("your-registry/vllm-openai:latest", False),
        ("vllm/vllm-openai:<tag>", False),
        ("vllm/vllm-openai:__TAG__", False),
        ("placeholder", False),
    ],
)
def test_images_that_something_fills_in(image: str, told: bool) -> None:
    container = {"name": "vllm", "image": image, "command": ["vllm", "serve", "Qwen/Qwen3-8B"]}
    assert ("unpinned-image" in _rules(container)) is told


@pytest.mark.parametrize(
    "container",
    [
        {"image": "lmcache/vllm-openai:v0.3.5", "command": ["lmcache_server", "localhost", "8080"]},
        {
            "image": "lmcache/vllm-openai:v0.3.5",
            "command": ["/opt/venv/bin/lmcache_server"],
            "args": ["localhost", "8080"],
        },
        {"image": "lmcache/vllm-openai:v0.3.5", "args": ["lmcache_experimental_server", "localhost", "8080"]},
        {"image": "registry.corp/vllm-optimizer-backend:v1"},
        {"image": "registry.corp/vllm-manager:v1"},
        {"image": "registry.corp/vllme:0.2", "env": [{"name": "MODEL_NAME", "value": "org/model"}]},
        {"image": "registry.corp/vllm-fake:1"},
    ],
)
def test_what_only_sounds_like_vllm(container: dict[str, Any]) -> None:
    assert not _judge({"name": "x", **container}).results


def test_lmcache_s_image_runs_vllm_all_the_same() -> None:
    assert _judge({"name": "x", "image": "lmcache/vllm-openai:v0.3.5", "args": ["Qwen/Qwen3-8B"]}).results


def test_a_home_that_the_preset_brings() -> None:
    container = {"name": "main", "image": "vllm/vllm-openai-cpu:v0.19.0", "securityContext": {"runAsUser": 1000}}
    service = {
        "apiVersion": "serving.kserve.io/v1alpha2",
        "kind": "LLMInferenceService",
        "metadata": {"name": "llm"},
        "spec": {"model": {"uri": "hf://facebook/opt-125m"}, "template": {"containers": [container]}},
    }
    assert "home-not-writable" not in {finding.rule for finding in lint(service, builtin(), Facts()).findings}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "llm"}, "spec": {"containers": [container]}}
    assert "home-not-writable" in {finding.rule for finding in lint(pod, builtin(), Facts()).findings}


@pytest.mark.parametrize(
    ("image", "before", "missing"),
    [
        ("vllm/vllm-openai:v0.9.2", "ray start --head &", False),
        ("vllm/vllm-openai:v0.9.2", 'eval "$KUBERAY_GEN_RAY_START_CMD" &', False),
        ("vllm/vllm-openai:v0.9.2", "until ray status | grep -q '0.0/16.0 GPU'; do sleep 2; done", False),
        ("vllm/vllm-openai:v0.9.2", "echo starting", True),
        ("vllm/vllm-openai:v0.12.0", 'eval "$KUBERAY_GEN_RAY_START_CMD" &', True),
    ],
)
def test_gpus_of_a_ray_cluster_that_another_object_makes(image: str, before: str, missing: bool) -> None:
    """Until 0.11.0 vLLM looks for the Ray cluster of its own Pod, whose other Pods the manifest need not show."""
    serve = "python3 -m vllm.entrypoints.openai.api_server --model Qwen/Qwen3-32B --tensor-parallel-size 8"
    container = {
        "name": "vllm",
        "image": image,
        "command": ["bash", "-c", f"{before}\n{serve} --pipeline-parallel-size 2"],
        "resources": {"limits": {"nvidia.com/gpu": "8"}},
    }
    assert ("gpu-count-mismatch" in _rules(container)) is missing


_READ_ONLY_ROOT = {
    "image": "vllm/vllm-openai:v0.19.0",
    "args": ["Qwen/Qwen3-8B"],
    "securityContext": {"readOnlyRootFilesystem": True},
}
_NEEDS_VOLUMES = {"temporary-directory-missing", "cache-read-only"}


@pytest.mark.parametrize(
    ("api", "kind", "spec", "rules"),
    [
        (
            "serving.kserve.io/v1alpha2",
            "LLMInferenceService",
            {
                "model": {"uri": "hf://Qwen/Qwen3-8B"},
                "template": {"containers": [{"name": "main", **_READ_ONLY_ROOT, "args": []}]},
            },
            set(),
        ),
        (
            "serving.kserve.io/v1alpha2",
            "LLMInferenceServiceConfig",
            {"template": {"containers": [{"name": "main", "command": ["vllm", "serve"], **_READ_ONLY_ROOT}]}},
            set(),
        ),
        (
            "serving.kserve.io/v1beta1",
            "InferenceService",
            {"predictor": {"model": {"modelFormat": {"name": "vLLM"}, **_READ_ONLY_ROOT}}},
            set(),
        ),
        (
            "serving.kserve.io/v1beta1",
            "InferenceService",
            {"predictor": {"containers": [{"name": "kserve-container", **_READ_ONLY_ROOT}]}},
            _NEEDS_VOLUMES,
        ),
        ("v1", "Pod", {"containers": [{"name": "vllm", **_READ_ONLY_ROOT}]}, _NEEDS_VOLUMES),
    ],
)
def test_volumes_that_kserve_brings(api: str, kind: str, spec: dict[str, Any], rules: set[str]) -> None:
    """KServe's presets and runtimes mount /tmp and the cache: their absence in the object is not a finding."""
    obj = {"apiVersion": api, "kind": kind, "metadata": {"name": "x"}, "spec": spec}
    report = lint(obj, builtin(), Facts(), where="check")
    assert report.results
    assert {finding.rule for finding in report.findings} & _NEEDS_VOLUMES == rules


@pytest.mark.parametrize(
    ("args", "change"),
    [
        ([], 'nvidia.com/gpu: "1" in resources.limits'),
        (["--device", "cpu"], "an image of vllm/vllm-openai-cpu"),
        (["--device=cpu"], "an image of vllm/vllm-openai-cpu"),
    ],
)
def test_processors_that_the_command_names_are_given_their_image(args: list[str], change: str) -> None:
    container = {"name": "vllm", "image": "vllm/vllm-openai:v0.33.0", "args": ["--model", "Qwen/Qwen3-8B", *args]}
    finding = next(finding for finding in _judge(container).findings if finding.rule == "gpu-missing")
    assert finding.finding.suggestions == (change,)
