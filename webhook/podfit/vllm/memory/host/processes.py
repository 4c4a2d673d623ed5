"""The processes of a container and their own memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from podfit.kube.quantity import GI
from podfit.vllm.args import EngineArgs
from podfit.vllm.memory.estimate import Estimate
from podfit.vllm.memory.parallel import Parallel
from podfit.vllm.release import Release

IMPORTED = int(0.39 * GI)
"""Anonymous memory of a Python process that imported vLLM 0.33's server with torch's CPU build (0.50 GiB resident),
measured."""
IMPORTED_BEFORE = int(0.2 * GI)
"""Bytes of imported code in releases before 0.9, which import less: torch alone is 0.22 GiB resident, measured."""
IMPORTED_CUDA = int(0.505 * GI)
"""Bytes of imported code with torch's CUDA build, from vLLM 0.14 on. Measured without a GPU, with torch 2.10: 523 MiB
for the server of 0.14.0, 524 of 0.20.0, 558 of 0.33.0. An engine with its worker: 549 to 571 MiB. With torch 2.9.1, the
oldest of these releases, it is 5 MiB less. The dynamic linker writes to the pages of CUDA's libraries (torch alone 259
MiB)."""


@dataclass(frozen=True, slots=True)
class Processes:
    """Processes of one container."""

    servers: int
    """API servers, and the processes in front of them: a launcher of several, a data-parallel coordinator or
    supervisor."""
    engines: int
    """Engines, each with a process of its own (in V0, maybe that of the API server)."""
    workers: int
    """GPU workers in processes of their own."""
    ranks: int
    """GPUs that they use together."""
    fronts: int = 1
    """API servers, without the processes in front of them."""

    @property
    def count(self) -> int:
        """The number of all processes."""
        return self.servers + self.engines + self.workers

    @property
    def busy(self) -> int:
        """Number of processes that may each keep a core busy: an engine's loop, and workers that poll their ring."""
        return self.engines + self.workers


def processes(args: EngineArgs, cut: Parallel, release: Release, *, v1: bool) -> Processes:
    """The processes that one container runs (vLLM 0.33 v1/engine/utils.py, v1/executor; 0.7
    executor/multiproc_gpu_executor.py)."""
    ranks = max(1, cut.world_size // cut.nnodes)  # of one engine, on this node
    if not v1:
        has_one_process = bool(args.given.get("disable_frontend_multiprocessing"))
        return Processes(servers=0 if has_one_process else 1, engines=1, workers=ranks - 1, ranks=ranks)
    engines = 1 if args.given.get("data_parallel_rank") is not None else cut.dp_local
    has_port_per_rank = bool(args.given.get("data_parallel_multi_port_external_lb"))
    if args.given.get("headless"):
        servers = 0
    elif has_port_per_rank:
        servers = engines
    else:
        usual = engines if release >= SERVER_PER_ENGINE_SINCE else 1
        servers = cut.api_servers if cut.api_servers else usual
    has_workers = ranks > 1 or (cut.dp > 1 and release >= WORKER_OF_ONE_RANK_SINCE)
    coordinator = 1 if cut.dp > 1 and not has_port_per_rank and _is_first(args) else 0
    launcher = 1 if servers > 1 else 0
    return Processes(
        servers=servers + launcher + coordinator,
        engines=engines,
        workers=engines * ranks if has_workers else 0,
        ranks=engines * ranks,
        fronts=servers,
    )


SERVER_PER_ENGINE_SINCE = Release(0, 15)
"""From this release on, the default of `--api-server-count` is one per data-parallel engine; before, one."""
WORKER_OF_ONE_RANK_SINCE = Release(0, 11)
"""From this release on, a data-parallel engine with a single GPU has a worker process, too."""
FULL_IMPORTS_SINCE, CUDA_MEASURED_SINCE = Release(0, 9), Release(0, 14)
"""From the first of these on, a process has IMPORTED, from the second on IMPORTED_CUDA with torch's CUDA build."""


def _is_first(args: EngineArgs) -> bool:
    """True if this container has the first data-parallel rank, next to which the coordinator runs. A headless one
    only has engines (vLLM 0.33 v1/engine/utils.py launch_core_engines, entrypoints/cli/serve.py run_headless)."""
    rank = args.given.get("data_parallel_rank") or args.given.get("data_parallel_start_rank")
    return not args.given.get("headless") and not rank


def _imported(running: Processes, release: Release, *, cuda: bool) -> int:
    """Bytes of anonymous memory of all processes once they have imported vLLM: the least that they need. A launcher or
    coordinator does not load CUDA's libraries. `cuda`: torch is its CUDA build."""
    if release < FULL_IMPORTS_SINCE:
        return running.count * IMPORTED_BEFORE
    with_cuda = running.fronts + running.engines + running.workers if cuda and release >= CUDA_MEASURED_SINCE else 0
    return with_cuda * IMPORTED_CUDA + (running.count - with_cuda) * IMPORTED


class ProcessMemory(NamedTuple):
    """GiB of anonymous memory of one process of a kind; the minimum is in `_imported`."""

    low: float
    likely: float
    high: float


SERVER = ProcessMemory(0.6, 1.2, 2.0)
ENGINE = ProcessMemory(0.6, 1.2, 2.5)
"""An engine whose workers are processes of their own."""
ENGINE_WITH_WORKER = ProcessMemory(1.6, 3.5, 6.0)
"""An engine that is its own worker, with CUDA."""
WORKER = ProcessMemory(1.6, 3.0, 4.5)
"""Engineering estimates: an API server has 0.8 … 1.5 GiB, an engine 0.8 … 2 GiB. A worker has 2 … 4 GiB with CUDA, NCCL
and compiled code (anon-rss 3.1 GB in the kernel's report of vllm#57469)."""


@lru_cache(256)  # there are few kinds of Pods
def memory(running: Processes, release: Release, *, cuda: bool) -> Estimate:
    """Bytes of anonymous memory of all processes; shared library pages are file-backed and not counted. `cuda`: torch
    is its CUDA build."""
    engine = ENGINE if running.workers else ENGINE_WITH_WORKER
    low = SERVER.low * running.servers + engine.low * running.engines + WORKER.low * running.workers
    likely = SERVER.likely * running.servers + engine.likely * running.engines + WORKER.likely * running.workers
    high = SERVER.high * running.servers + engine.high * running.engines + WORKER.high * running.workers
    counts = {"API server": running.servers, "engine": running.engines, "worker": running.workers}
    parts = [f"{count} {process}{'s' if count > 1 else ''}" for process, count in counts.items() if count]
    return Estimate(
        _imported(running, release, cuda=cuda),
        int(low * GI),
        int(likely * GI),
        int(high * GI),
        ", ".join(parts),
        "measured: 0.39 GiB (CUDA: 0.5 GiB) anonymous after imports; estimates for CUDA, NCCL and compiled code",
    )


def requests(running: Processes, *, vision: bool) -> Estimate:
    """Bytes of tokenizer state, queues, and decoded inputs of requests in flight, in all API servers. `vision`: inputs
    may be images and videos, which are hundreds of MB each.

    The high end is under load; likely is an eighth of it (both assumed)."""
    each = MOST_REQUESTS_WITH_IMAGES if vision else MOST_REQUESTS
    return Estimate(
        0, 0, each // 8 * running.servers, each * running.servers, "tokenizer and request buffers, under load"
    )


MOST_REQUESTS, MOST_REQUESTS_WITH_IMAGES = GI // 2, 4 * GI
"""Bytes of the requests in flight in one API server, at most: of text, and with images or videos (assumed)."""
COMPILERS_SINCE = Release(0, 9)
"""The first release for which kernels that are built at start are planned."""
MOST_OF_COMPILER = 3 * GI
"""Bytes of one job of nvcc, ptxas and ninja, at most: 1 … 3 GiB (an engineering estimate)."""


def compilers(release: Release, *, eager: bool) -> Estimate:
    """Bytes of the compilers of kernels that are built at start (FlashInfer, DeepGEMM), temporarily; only the high end
    counts one job. `eager`: --enforce-eager, which is planned without any.

    Inductor's own pool has one thread (TORCHINDUCTOR_COMPILE_THREADS=1, vLLM 0.33 env_override.py).
    """
    most = 0 if eager or release < COMPILERS_SINCE else MOST_OF_COMPILER
    return Estimate(0, 0, 0, most, "kernels compiled at start")
