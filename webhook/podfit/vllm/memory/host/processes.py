"""The processes of a container and their own memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

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
    """The processes that run (vLLM 0.33 v1/engine/utils.py, v1/executor; 0.7 executor/multiproc_gpu_executor.py)."""
    ranks = max(1, cut.world_size // cut.nnodes)
    if not v1:
        merged = bool(args.given.get("disable_frontend_multiprocessing"))
        return Processes(0 if merged else 1, 1, ranks - 1, ranks)
    engines = 1 if args.given.get("data_parallel_rank") is not None else cut.dp_local
    ports = bool(args.given.get("data_parallel_multi_port_external_lb"))
    if args.given.get("headless"):
        servers = 0
    elif ports:
        servers = engines  # one per rank, on ports of their own; the launcher supervises them
    else:
        usual = engines if release >= Release(0, 15) else 1
        servers = cut.api_servers if cut.api_servers else usual
    own = ranks > 1 or (cut.dp > 1 and release >= Release(0, 11))
    coordinator = 1 if cut.dp > 1 and not ports else 0
    launcher = 1 if servers > 1 else 0
    workers = engines * ranks if own else 0
    return Processes(servers + launcher + coordinator, engines, workers, engines * ranks, servers)


def _imported(running: Processes, release: Release, *, cuda: bool) -> int:
    """Bytes of anonymous memory of processes that have imported vLLM: the least that they need."""
    if release < Release(0, 9):
        return running.count * IMPORTED_BEFORE
    large = running.fronts + running.engines + running.workers if cuda and release >= Release(0, 14) else 0
    return large * IMPORTED_CUDA + (running.count - large) * IMPORTED


@lru_cache(256)  # there are few kinds of Pods
def memory(running: Processes, release: Release, *, cuda: bool) -> Estimate:
    """Anonymous memory; shared library pages are file-backed. `cuda`: torch is its CUDA build.

    Estimates: an API server 0.8 … 1.5 GiB, an engine 0.8 … 2 GiB. A worker has 2 … 4 GiB with CUDA, NCCL and compiled
    code (anon-rss 3.1 GB in the kernel's report of vllm#57469).
    """
    together = running.engines if not running.workers else 0
    low = 0.6 * running.servers + (1.6 if together else 0.6) * running.engines + 1.6 * running.workers
    likely = 1.2 * running.servers + (3.5 if together else 1.2) * running.engines + 3.0 * running.workers
    high = 2.0 * running.servers + (6.0 if together else 2.5) * running.engines + 4.5 * running.workers
    parts = [
        f"{count} {what}{'s' if count > 1 else ''}"
        for count, what in ((running.servers, "API server"), (running.engines, "engine"), (running.workers, "worker"))
        if count
    ]
    return Estimate(
        _imported(running, release, cuda=cuda),
        int(low * GI),
        int(likely * GI),
        int(high * GI),
        ", ".join(parts),
        "measured: 0.39 GiB (CUDA: 0.5 GiB) anonymous after imports; estimates for CUDA, NCCL and compiled code",
    )


def requests(running: Processes, *, vision: bool) -> Estimate:
    """Tokenizer state, queues, and decoded inputs of requests in flight; images and videos are hundreds of MB."""
    each = 4 * GI if vision else GI // 2
    return Estimate(
        0, 0, each // 8 * running.servers, each * running.servers, "tokenizer and request buffers, under load"
    )


def compilers(release: Release, *, eager: bool) -> Estimate:
    """nvcc, ptxas and ninja for kernels that are built at start (FlashInfer, DeepGEMM): 1 … 3 GiB per job, temporarily.

    Inductor's own pool has one thread (TORCHINDUCTOR_COMPILE_THREADS=1, vLLM 0.33 env_override.py).
    """
    return Estimate(0, 0, 0, 0 if eager or release < Release(0, 9) else 3 * GI, "kernels compiled at start")
