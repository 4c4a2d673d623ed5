from __future__ import annotations

from collections.abc import Iterator

from podfit.rules import _parallel
from podfit.rules.engine import Engine
from podfit.rules.gpu_memory.gpu_memory_wasted import GpuMemoryWasted
from podfit.rules.rule import Finding, Rule
from podfit.vllm import change


class GpuIdle(Rule):
    """More GPUs are requested than vLLM uses.

    vLLM takes tensor-parallel × pipeline-parallel GPUs for each data-parallel engine and leaves the others alone: the
    default is one. What is requested beyond that is reserved, paid for, and idle; nothing in the log says so.
    """

    plane = "config"
    event = "GPUs are reserved and not used"
    of_vllm = False
    needs = ("vllm_args",)
    threatens = "practice"
    never_denies = "another process of the container may use them"

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Likely: another process of the container may use them. None if the numbers can't be compared, for shares of a
        GPU, and if something else may use the GPUs (`_shared_out`)."""
        count = engine.once(_parallel.count)
        if count is None or count.have <= count.needed or not count.exact or _shared_out(engine):
            return
        if count.resource.endswith(".shared") or (engine.gpu is not None and engine.gpu.value.shared):
            return  # a share of a GPU: several of them may be one GPU
        idle = count.have - count.needed
        fewer = (change.limit(count.resource, count.needed),) if count.pods == 1 else ()
        more = () if _holds_the_load(engine) else _parallel.other_sizes(engine, count)
        # An engine of several GPUs needs a volume there. If it has several already, shm-missing reports that.
        shm = "" if engine.shm.mounted or engine.world_size > 1 else " and a memory volume at /dev/shm"
        yield Finding(
            path=_parallel.requested_at(engine),
            message=f"{count.holders} requested, {_parallel.sizes(engine)} uses {count.needed}: "
            f"{idle} {'is' if idle == 1 else 'are'} idle",
            certainty="likely",
            suggestions=(*fewer, *(f"{size}{shm}" if shm else size for size in more)),
            yields_to=("tensor-parallel-indivisible", "gpu-memory-exceeded", "kv-cache-too-small"),
        )


def _holds_the_load(engine: Engine) -> bool:
    """True if the GPUs that are used hold so many requests that gpu-memory-wasted would report more of them."""
    ledger = engine.plan.gpu
    concurrency = ledger.max_concurrency if ledger is not None and engine.plan.verdict == "fits" else None
    return concurrency is not None and concurrency >= GpuMemoryWasted.requests


def _shared_out(engine: Engine) -> bool:
    """True if something else may use the GPUs.

    vLLM may have arguments that can't be seen, or a program around vLLM flags of its own. Or a script starts several
    processes, each with some of the GPUs (CUDA_VISIBLE_DEVICES)."""
    if engine.args.open or not engine.command.complete:
        return True
    if engine.command.own_flags or engine.args.unknown:
        return True
    variable = "CUDA_VISIBLE_DEVICES"
    return variable in engine.raw_command or any(variable in name for name in engine.command.env)
