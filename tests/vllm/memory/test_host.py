"""The host's ledger: processes, pinned buffers, /dev/shm; and how long a start takes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from podfit.kube.quantity import GI, MI
from podfit.vllm.memory import host, parallel
from podfit.vllm.memory.estimate import Estimate
from podfit.vllm.memory.ledger import HostLedger, Startup
from podfit.vllm.memory.plan import plan
from podfit.vllm.release import parse
from podfit.vllm.volumes import CheckpointSource
from tests.vllm.memory.engines import LLAMA_8B, LLAMA_70B, engine, gpu, model, on


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


def line(ledger: HostLedger, name: str) -> Estimate | None:
    """One of its lines."""
    return dict(ledger.lines).get(name)


@pytest.mark.parametrize(
    ("release", "given", "count"),
    [
        pytest.param("0.33.0", {}, 2, id="an API server, and an engine that holds the worker"),
        pytest.param("0.33.0", {"tensor_parallel_size": 4}, 6, id="2 + one a GPU"),
        pytest.param("0.33.0", {"data_parallel_size": 2}, 2 + 1 + 1 + 2 + 2, id="servers, launcher, coordinator, …"),
        pytest.param(
            "0.33.0",
            {"data_parallel_size": 4, "data_parallel_size_local": 2, "headless": True},
            2 + 2,
            id="no coordinator",
        ),
        pytest.param("0.11.0", {"data_parallel_size": 2}, 1 + 1 + 2 + 2, id="one API server before 0.15"),
        pytest.param("0.33.0", {"tensor_parallel_size": 8, "nnodes": 2, "headless": True}, 1 + 4, id="a follower"),
        pytest.param("0.6.3", {"tensor_parallel_size": 4}, 2 + 3, id="V0: the engine is a worker too"),
    ],
)
def test_processes_of_one_container(release: str, given: Mapping[str, Any], count: int) -> None:
    args, number = engine(release, **given), parse(release)
    assert number is not None
    assert host.processes(args, parallel.read(args), number, v1=release != "0.6.3").count == count


def test_whatever_a_line_reads_of_the_arguments_keeps_the_ledger_from_being_remembered() -> None:
    texts = "".join(path.read_text() for path in Path(host.__file__).parent.glob("*.py"))
    of_the_kind = {"enforce_eager", "language_model_only"}
    assert set(re.findall(r'\bgiven\.get\("(\w+)"', texts)) | {"quantization"} == host.RARE_ARGUMENTS | of_the_kind
    assert set(re.findall(r'\benv\.get\("(\w+)"', texts)) == host.VARIABLES


def test_memory_mapped_weights_need_no_memory_of_their_own() -> None:
    """A 70B model's host floor is its processes: its safetensors are page cache."""
    found = hosted(config=LLAMA_70B, tensor_parallel_size=4)
    assert found.peak.floor == 6 * host.IMPORTED_CUDA
    assert found.peak.likely < 20 * GI


@pytest.mark.parametrize(
    ("release", "vendor", "least"),
    [
        pytest.param("0.33.0", "NVIDIA", host.IMPORTED_CUDA, id="torch's CUDA build"),
        pytest.param("0.13.0", "NVIDIA", host.IMPORTED, id="older releases import less"),
        pytest.param("0.33.0", "AMD", host.IMPORTED, id="torch's ROCm build was not measured"),
    ],
)
def test_a_process_has_imported_torch(release: str, vendor: str, least: int) -> None:
    found = plan(engine(release), model(), on(gpu(79.19, vendor=vendor))).host
    assert found is not None
    assert found.peak.floor == 2 * least


def test_coordinators_import_less_than_servers() -> None:
    found = hosted(data_parallel_size=2, tensor_parallel_size=1, api_server_count=1)
    running = line(found, "processes")
    assert running is not None
    assert running.floor == 5 * host.IMPORTED_CUDA + host.IMPORTED


def test_whole_files_read_into_memory_count_once_a_rank() -> None:
    found = hosted(config=LLAMA_70B, tensor_parallel_size=4, load_format="pt")
    staged = line(found, "staged weights")
    assert staged is not None
    assert staged.likely == 4 * 2 * host.SHARD
    assert found.peak.likely > found.steady.likely


@pytest.mark.parametrize(
    ("name", "files", "floor"),
    [
        pytest.param("acme/big", 15, 2 * 4 * 9.4e9, id="as the index counts them: files of 9.4 GB"),
        pytest.param("copy/Llama-3.3-70B-Instruct", None, 2 * 4 * 4.7e9, id="as the hub lists them: 4.7 GB"),
        pytest.param("acme/big", None, 2 * 4 * 1.07e9, id="not known: no less than a GiB"),
    ],
)
def test_eager_loading_holds_two_files_in_every_rank(name: str, files: int | None, floor: float) -> None:
    big = replace(model(name, **LLAMA_70B), files=files)
    found = plan(engine(tensor_parallel_size=4, safetensors_load_strategy="eager"), big, on(gpu(79.19), count=4)).host
    assert found is not None
    staged = line(found, "staged weights")
    assert staged is not None
    assert staged.floor == pytest.approx(floor, rel=0.02)
    assert found.peak.floor == staged.floor + 6 * host.IMPORTED_CUDA


@pytest.mark.parametrize(
    ("given", "env", "likely"),
    [
        pytest.param({"safetensors_load_strategy": "torchao"}, {}, 4 * 5, id="a file's tensors a rank"),
        pytest.param({"model_loader_extra_config": {"enable_multithread_load": True}}, {}, 4 * 40, id="8 files a rank"),
        pytest.param(
            {"model_loader_extra_config": {"enable_multithread_load": True, "num_threads": 2}}, {}, 4 * 10, id="or 2"
        ),
        pytest.param({"load_format": "bitsandbytes"}, {}, 5, id="16-bit tensors on their way"),
        pytest.param({"load_format": "sharded_state"}, {}, 0, id="its own shard"),
        pytest.param({"load_format": "runai_streamer"}, {"RUNAI_STREAMER_MEMORY_LIMIT": "1073741824"}, 4, id="buffers"),
        pytest.param(
            {"load_format": "runai_streamer", "model_loader_extra_config": {"memory_limit": 2**31, "distributed": 1}},
            {}, 2, id="one",
        ),
        pytest.param({"load_format": "runai_streamer_sharded"}, {}, 4 * 32.85, id="a rank's own part"),
    ],
)  # fmt: skip
def test_what_loading_holds_by_format(given: Mapping[str, Any], env: Mapping[str, str], likely: float) -> None:
    staged = line(hosted(env=env, config=LLAMA_70B, tensor_parallel_size=4, **given), "staged weights")
    assert staged is not None
    assert staged.floor == 0
    assert staged.likely / GI == pytest.approx(likely, rel=0.02)


def test_weights_that_are_downloaded_to_tmpfs_stay_there() -> None:
    found = plan(engine(), model(), on(gpu(79.19)), checkpoint_source=CheckpointSource(True, in_memory=True)).host
    assert found is not None
    assert found.steady.floor > 0.9 * 16.06e9
    put = plan(engine(), model(), on(gpu(79.19)), checkpoint_source=CheckpointSource(False, in_memory=True)).host
    assert put is not None
    assert put.steady.floor == 2 * host.IMPORTED_CUDA < 16.06e9 < put.steady.likely


def test_a_model_of_unknown_size_stages_and_keeps_nothing_that_is_known() -> None:
    found = plan(engine(), None, on(gpu(79.19)), checkpoint_source=CheckpointSource(True, in_memory=True)).host
    assert found is not None
    assert line(found, "staged weights") is None
    assert line(found, "weights in a memory volume") is None


def test_swap_space_is_pinned_by_v0_alone() -> None:
    swap = line(hosted("0.6.3", tensor_parallel_size=2), "swap space")
    assert swap is not None
    assert swap.floor == swap.high == 8 * GI
    assert line(hosted("0.11.0", tensor_parallel_size=2), "swap space") is None


def test_offloaded_weights_are_pinned_and_no_more_than_there_are() -> None:
    some, all_ = hosted(cpu_offload_gb=4.0), hosted(cpu_offload_gb=400.0)
    assert some.peak.floor == 2 * host.IMPORTED_CUDA + 4 * GI
    assert all_.peak.floor < 16 * GI


@pytest.mark.parametrize(
    ("release", "in_shm"), [("0.26.0", 0), ("0.27.0", 16 * GI)], ids=["pinned tensors", "one file in /dev/shm"]
)
def test_kv_offload_moved_to_shm_in_0_27(release: str, in_shm: int) -> None:
    found = hosted(release, kv_offloading_size=16.0)
    assert found.shm.floor == in_shm
    assert found.steady.floor >= 16 * GI


@pytest.mark.parametrize(
    ("env", "vendor"), [({"VLLM_USE_SIMPLE_KV_OFFLOAD": "1"}, "nvidia"), ({}, "amd")], ids=["asked for", "ROCm"]
)
def test_some_kv_offload_stays_pinned(env: Mapping[str, str], vendor: str) -> None:
    found = plan(engine(kv_offloading_size=16.0), model(), on(gpu(79.19, vendor=vendor)), env=env).host
    assert found is not None
    assert found.shm.floor == 0
    offload = line(found, "KV offload")
    assert offload is not None
    assert offload.floor == 16 * GI < offload.high


def test_a_connector_s_size_counts_like_the_flag_s() -> None:
    config = {"kv_connector": "OffloadingConnector", "kv_connector_extra_config": {"cpu_bytes_to_use": 8 * GI}}
    assert hosted("0.27.0", kv_transfer_config=config).shm.floor == 8 * GI


def test_a_lmcache_server_s_memory_is_not_the_container_s() -> None:
    assert line(hosted(kv_offloading_size=16.0, kv_offloading_backend="lmcache"), "KV offload") is None


@pytest.mark.parametrize("size", ["many", "-1", None])
def test_without_a_size_lmcache_is_likely_5_gib_and_certain_nothing(size: str | None) -> None:
    env = {} if size is None else {"LMCACHE_MAX_LOCAL_CPU_SIZE": size}
    offload = line(hosted(kv_transfer_config={"kv_connector": "LMCacheConnectorV1"}, env=env), "KV offload")
    assert offload is not None
    assert (offload.floor, offload.likely) == (0, 5 * GI)


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


@pytest.mark.parametrize(
    ("given", "gib"),
    [
        ({"enable_shm_tensor_arena": True}, 2),
        ({"mm_processor_cache_type": "shm"}, 4),
        ({"mm_processor_cache_type": "shm", "mm_processor_cache_gb": 1.5}, 1.5),
    ],
)
def test_what_else_is_put_in_shm_on_request(given: Mapping[str, Any], gib: float) -> None:
    assert hosted(**given).shm.likely == gib * GI


def test_rings_and_offload_are_not_both_needed_at_once() -> None:
    """Rings are sparse: each is checked for free space when it is made, the offloaded blocks are filled later."""
    assert hosted("0.27.1", tensor_parallel_size=2, kv_offloading_size=16.0).shm.floor == 16 * GI


@pytest.mark.parametrize(("gb", "likely"), [(None, 2), (1.0, 0.5), (0, None)])
def test_the_multimodal_cache_fills_over_time(gb: float | None, likely: float | None) -> None:
    given: dict[str, Any] = {} if gb is None else {"mm_processor_cache_gb": gb}
    cache = line(hosted(config={**LLAMA_8B, "vision_config": {"hidden_size": 1024}}, **given), "caches")
    assert (cache.likely / GI if cache else None) == likely


def test_a_sleeping_engine_keeps_its_weights_in_host_memory() -> None:
    asleep = line(hosted(enable_sleep_mode=True), "sleep mode")
    assert asleep is not None
    assert asleep.likely == 0 < 14 * GI < asleep.high


def test_a_supervisor_has_one_server_a_rank() -> None:
    args, release = engine("0.33.0", data_parallel_size=4, data_parallel_multi_port_external_lb=True), parse("0.33.0")
    assert release is not None
    found = host.processes(args, parallel.read(args), release, v1=True)
    assert (found.servers, found.engines, found.workers) == (4 + 1, 4, 4)


def started(release: str = "0.33.0", *, download: bool | None = None, **given: Any) -> Startup:
    """The start-up time of Llama 3.1 8B."""
    found = plan(
        engine(release, **given), model(), on(gpu(79.19)), checkpoint_source=CheckpointSource(download)
    ).startup
    assert found is not None
    return found


def test_a_start_takes_at_least_imports_and_reading_at_10_gb_a_second() -> None:
    assert started().floor == pytest.approx(8 + 16.06 / 10, abs=0.01)


def test_a_download_is_in_the_worst_case_unless_it_is_known_not_to_happen() -> None:
    unknown, cached, fetched = started(), started(download=False), started(download=True)
    assert unknown.likely == cached.likely < fetched.likely
    assert cached.high < unknown.high < fetched.high
    assert dict(fetched.parts)["download"] == pytest.approx(32, abs=1)


def test_a_policy_s_rate_sets_the_time_of_a_download() -> None:
    found = plan(engine(), model(), on(gpu(79.19)), checkpoint_source=CheckpointSource(True, rate=10**9)).startup
    assert found is not None
    assert dict(found.parts)["download"] == pytest.approx(16, abs=0.5)


def test_offloaded_kv_cache_is_filled_at_start() -> None:
    assert dict(started(kv_offloading_size=100.0).parts)["KV offload"] == 10


def test_other_formats_than_files_need_not_be_read_at_all() -> None:
    assert started(load_format="tensorizer").floor == 8


def test_eager_mode_starts_sooner() -> None:
    assert started(enforce_eager=True).likely < started().likely
    assert "compile" not in dict(started("0.6.3").parts)
