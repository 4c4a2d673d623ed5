"""The host's ledger: processes, pinned buffers, /dev/shm; and how long a start takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.memory.engines import LLAMA_8B, LLAMA_70B, engine, gpu, model, on
from webhook.memory import host, parallel
from webhook.memory.ledger import HostLedger, Line, Startup
from webhook.memory.plan import plan
from webhook.quantity import GI, MI
from webhook.release import parse
from webhook.volumes import Files


def hosted(
    release: str | None = "0.33.0",
    env: Mapping[str, str] | None = None,
    config: Mapping[str, Any] = LLAMA_8B,
    **given: Any,
) -> HostLedger:
    """The host's ledger of that command line."""
    found = plan(engine(release, **given), model(**config), on(gpu(79.19)), env=env).host
    assert found is not None
    return found


def line(ledger: HostLedger, name: str) -> Line | None:
    """One of its lines."""
    return dict(ledger.lines).get(name)


@pytest.mark.parametrize(
    ("release", "given", "count"),
    [
        pytest.param("0.33.0", {}, 2, id="an API server, and an engine that holds the worker"),
        pytest.param("0.33.0", {"tensor_parallel_size": 4}, 6, id="2 + one a GPU"),
        pytest.param("0.33.0", {"data_parallel_size": 2}, 2 + 1 + 1 + 2 + 2, id="servers, launcher, coordinator, …"),
        pytest.param("0.11.0", {"data_parallel_size": 2}, 1 + 1 + 2 + 2, id="one API server before 0.15"),
        pytest.param("0.33.0", {"tensor_parallel_size": 8, "nnodes": 2, "headless": True}, 1 + 4, id="a follower"),
        pytest.param("0.6.3", {"tensor_parallel_size": 4}, 2 + 3, id="V0: the engine is a worker too"),
    ],
)
def test_processes_of_one_container(release: str, given: Mapping[str, Any], count: int) -> None:
    args, number = engine(release, **given), parse(release)
    assert number is not None
    assert host.processes(args, parallel.read(args), number, v1=release != "0.6.3").count == count


def test_memory_mapped_weights_need_no_memory_of_their_own() -> None:
    """A 70B model's host floor is its processes: its safetensors are page cache."""
    found = hosted(config=LLAMA_70B, tensor_parallel_size=4)
    assert found.peak.floor == 6 * host.IMPORTED
    assert found.peak.likely < 20 * GI


def test_whole_files_read_into_memory_count_once_a_rank() -> None:
    found = hosted(config=LLAMA_70B, tensor_parallel_size=4, load_format="pt")
    staged = line(found, "staged weights")
    assert staged is not None
    assert staged.likely == 4 * 2 * host.SHARD
    assert found.peak.likely > found.steady.likely


def test_swap_space_is_pinned_by_v0_alone() -> None:
    swap = line(hosted("0.6.3", tensor_parallel_size=2), "swap space")
    assert swap is not None
    assert swap.floor == swap.high == 8 * GI
    assert line(hosted("0.11.0", tensor_parallel_size=2), "swap space") is None


def test_offloaded_weights_are_pinned_and_no_more_than_there_are() -> None:
    some, all_ = hosted(cpu_offload_gb=4.0), hosted(cpu_offload_gb=400.0)
    assert some.peak.floor == 2 * host.IMPORTED + 4 * GI
    assert all_.peak.floor < 16 * GI


@pytest.mark.parametrize(
    ("release", "in_shm"), [("0.26.0", 0), ("0.27.0", 16 * GI)], ids=["pinned tensors", "one file in /dev/shm"]
)
def test_kv_offload_moved_to_shm_in_0_27(release: str, in_shm: int) -> None:
    found = hosted(release, kv_offloading_size=16.0)
    assert found.shm.floor == in_shm
    assert found.steady.floor >= 16 * GI


def test_lmcache_takes_its_buffer_in_every_worker() -> None:
    found = hosted(
        tensor_parallel_size=4,
        kv_transfer_config={"kv_connector": "LMCacheConnectorV1"},
        env={"LMCACHE_MAX_LOCAL_CPU_SIZE": "20"},
    )
    offload = line(found, "KV offload")
    assert offload is not None
    assert offload.likely == 80 * GI


@pytest.mark.parametrize(
    ("release", "given", "floor"),
    [
        pytest.param("0.33.0", {}, 0, id="one GPU: no ring"),
        pytest.param("0.26.0", {"tensor_parallel_size": 2}, 0, id="before 0.27 rings are made without asking"),
        pytest.param("0.27.1", {"tensor_parallel_size": 2}, 240 * MI, id="0.27 refuses 64 MiB"),
        pytest.param("0.27.1", {"pipeline_parallel_size": 2}, 240 * MI, id="pipeline parallelism too"),
        pytest.param("0.27.1", {"data_parallel_size": 2}, 240 * MI, id="and data parallelism"),
        pytest.param("0.27.1", {"tensor_parallel_size": 2, "distributed_executor_backend": "ray"}, 0, id="not Ray"),
        pytest.param(None, {"tensor_parallel_size": 2}, 0, id="nothing is certain of an unknown release"),
    ],
)
def test_shm_that_a_release_insists_on(release: str | None, given: Mapping[str, Any], floor: int) -> None:
    found = hosted(release, **given)
    assert found.shm.floor == floor
    assert found.shm.likely >= found.shm.low >= floor


def test_one_process_a_gpu_does_with_the_runtimes_64_mib() -> None:
    assert hosted().shm.likely <= 64 * MI


def started(release: str = "0.33.0", *, download: bool | None = None, **given: Any) -> Startup:
    """The start-up time of Llama 3.1 8B."""
    found = plan(engine(release, **given), model(), on(gpu(79.19)), files=Files(download)).startup
    assert found is not None
    return found


def test_a_start_takes_at_least_imports_and_reading_at_10_gb_a_second() -> None:
    assert started().floor == pytest.approx(8 + 16.06 / 10, abs=0.01)


def test_a_download_is_in_the_worst_case_unless_it_is_known_not_to_happen() -> None:
    unknown, cached, fetched = started(), started(download=False), started(download=True)
    assert unknown.likely == cached.likely < fetched.likely
    assert cached.high < unknown.high < fetched.high
    assert dict(fetched.parts)["download"] == pytest.approx(32, abs=1)


def test_eager_mode_starts_sooner() -> None:
    assert started(enforce_eager=True).likely < started().likely
    assert "compile" not in dict(started("0.6.3").parts)
