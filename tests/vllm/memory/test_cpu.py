"""The CPU backend: weights and KV cache in host memory."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.kube import workload
from podfit.kube.quantity import GI
from podfit.rules import reading
from podfit.rules.engine import Engine
from podfit.vllm.args import EngineArgs
from podfit.vllm.facts import Facts
from podfit.vllm.memory import cpu
from podfit.vllm.memory.estimate import Estimate
from podfit.vllm.release import Release


def read(image: str = "vllm/vllm-openai-cpu:v0.27.1", *args: str, **env: str) -> Engine:
    container = {
        "name": "vllm", "image": image, "args": list(args or ("Qwen/Qwen3-8B",)),
        "env": [{"name": name, "value": value} for name, value in env.items()],
    }  # fmt: skip
    pod: dict[str, Any] = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}
    }  # fmt: skip
    (one,) = workload.find(pod)
    found = reading.read(one, one.containers[0], Facts())
    assert found is not None
    return found


def lines(found: Engine) -> dict[str, Estimate]:
    assert found.plan.host is not None
    return dict(found.plan.host.lines)


def test_weights_and_kv_cache_are_host_memory() -> None:
    found = read(VLLM_CPU_KVCACHE_SPACE="40")
    held = lines(found)

    assert held["weights"].likely == pytest.approx(16.38e9, rel=0.01)
    assert held["weights"].floor > 0.98 * held["weights"].likely
    assert (held["KV cache"].floor, held["KV cache"].likely) == (0, 40 * GI)
    assert found.plan.host is not None
    assert found.plan.host.steady.likely > held["weights"].likely + 40 * GI
    assert found.plan.gpu is None
    assert "staged weights" not in held


def test_what_ranks_share_and_how_many_cores_they_need_is_not_known() -> None:
    host = read("vllm/vllm-openai-cpu:v0.27.1", "Qwen/Qwen3-8B", "-tp", "4").plan.host

    assert host is not None
    assert (host.shm.high, host.in_shm, host.busy) == (0, 0, 0)


def test_each_rank_has_a_kv_cache() -> None:
    held = lines(read("vllm/vllm-openai-cpu:v0.27.1", "Qwen/Qwen3-8B", "-tp", "2", VLLM_CPU_KVCACHE_SPACE="10"))

    assert held["KV cache"].likely == 20 * GI
    assert held["weights"].likely == pytest.approx(16.38e9, rel=0.01)


@pytest.mark.parametrize(
    ("space", "release", "size"),
    [
        ("40", None, 40 * GI), (None, Release(0, 9, 2), 4 * GI), ("0", Release(0, 9, 2), 4 * GI),
        (None, Release(0, 11), 4 * GI), (None, Release(0, 27), 0), (None, None, 0), ("many", Release(0, 27), 0),
    ],
)  # fmt: skip
def test_the_kv_cache_is_what_is_given_or_what_the_release_takes(
    space: str | None, release: Release | None, size: int
) -> None:
    env = {cpu.SPACE: space} if space is not None else {}

    assert cpu.kv_cache(EngineArgs(release), env, 1, release).likely == size


@pytest.mark.parametrize(("release", "size"), [(Release(0, 27), 6 * GI), (Release(0, 13), 0)])
def test_from_0_20_the_kv_cache_may_be_given_as_on_a_gpu(release: Release, size: int) -> None:
    args = EngineArgs(release, given={"kv_cache_memory_bytes": 3 * GI})

    assert cpu.kv_cache(args, {}, 2, release).likely == size


@pytest.mark.parametrize(
    ("release", "note"),
    [
        (Release(0, 13), "half of a NUMA node's memory, whatever the container's limit"),
        (Release(0, 20), "--gpu-memory-utilization of a NUMA node's memory, whatever the container's limit"),
        (Release(0, 27), "--gpu-memory-utilization of the container's limit or a NUMA node's memory"),
    ],
)
def test_what_is_taken_of_the_node_is_told(release: Release, note: str) -> None:
    assert note in cpu.kv_cache(EngineArgs(release), {}, 1, release).note


def test_a_model_that_only_informs_is_no_certain_memory() -> None:
    assert lines(read("vllm/vllm-openai-cpu:v0.27.1", "/models/Qwen3-8B"))["weights"].floor == 0


def test_without_a_model_there_is_no_plan() -> None:
    assert read("vllm/vllm-openai-cpu:v0.27.1", "acme/entirely-new").plan.host is None


@pytest.mark.parametrize(
    ("image", "args", "env"),
    [
        ("public.ecr.aws/q9t5s3a7/vllm-cpu-release-repo:v0.11.0", ("--model", "Qwen/Qwen3-8B"), {}),
        ("vllm/vllm-openai:v0.8.5", ("--model", "Qwen/Qwen3-8B", "--device", "cpu"), {}),
        ("vllm/vllm-openai:v0.27.1", (), {"VLLM_CPU_KVCACHE_SPACE": "8"}),
    ],
)
def test_the_cpu_backend_is_recognised(image: str, args: tuple[str, ...], env: dict[str, str]) -> None:
    assert "weights" in lines(read(image, *args, **env))


def test_a_gpu_is_no_processor() -> None:
    assert "weights" not in lines(read("vllm/vllm-openai:v0.27.1"))
