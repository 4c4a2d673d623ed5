"""How one engine is cut over GPUs: tensor, pipeline, data, expert and context parallelism."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from podfit.vllm.args import EngineArgs


class Parallel(NamedTuple):
    """Sizes of the parallel groups; 1 if a dimension is not used."""

    tp: int = 1
    pp: int = 1
    dp: int = 1
    dp_local: int = 1
    """Data-parallel engines in this container."""
    pcp: int = 1
    dcp: int = 1
    """Decode context parallelism reuses tensor-parallel ranks: it adds no GPUs."""
    nnodes: int = 1
    expert: bool = False
    api_servers: int | None = None
    partition: tuple[int, ...] = ()
    """VLLM_PP_LAYER_PARTITION: layers of each stage."""

    @property
    def world_size(self) -> int:
        """GPUs (= ranks) of one engine: TP × PP × PCP (vLLM 0.33 config/parallel.py)."""
        return self.tp * self.pp * self.pcp

    @property
    def experts(self) -> int:
        """Ranks that share the routed experts: TP × DP × PCP, with and without expert parallelism.

        vLLM 0.33 layers/fused_moe/config.py, flatten_tp_across_dp_and_pcp.
        """
        return self.tp * self.dp * self.pcp

    @property
    def context(self) -> int:
        """Ranks that divide the tokens of one request's full-attention KV cache: DCP × PCP."""
        return self.dcp * self.pcp

    def stage(self, index: int, layers: int) -> tuple[int, int]:
        """First layer of a pipeline stage, and the layer after its last one.

        Each stage has layers // PP; the remainder goes to the stages before the last one, from the back (vLLM 0.33
        distributed/utils.py, get_pp_indices).
        """
        if self.pp == 1:
            return 0, layers
        if self._is_partitioned(layers):
            return sum(self.partition[:index]), sum(self.partition[: index + 1])
        each, more = divmod(layers, self.pp)
        first_larger = self.pp - 1 - more  # the first stage with one layer more

        def begin(stage: int) -> int:
            """The first layer of a stage: those of all stages before it."""
            return stage * each + min(max(0, stage - first_larger), more)

        return begin(index), begin(index + 1)

    def fullest(self, layers: int) -> int:
        """The first stage with the most layers."""
        if self._is_partitioned(layers):
            return self.partition.index(max(self.partition))
        more = layers % self.pp
        return self.pp - 1 - more if more else 0

    def emptiest(self, layers: int) -> int:
        """The first stage with the fewest layers."""
        if self._is_partitioned(layers):
            return self.partition.index(min(self.partition))
        return 0 if layers % self.pp < self.pp - 1 else self.pp - 1

    def _is_partitioned(self, layers: int) -> bool:
        """True if VLLM_PP_LAYER_PARTITION has a number for each stage, and these add up to all layers."""
        return len(self.partition) == self.pp and sum(self.partition) == layers


LARGEST = 1 << 53
"""Larger numbers are read as this one: they are never intended, and so no arithmetic overflows."""


def size(args: EngineArgs, dest: str) -> int:
    """A parallel size as given, 1 if it is absent or not a positive number."""
    value = args.given.get(dest)
    return min(value, LARGEST) if type(value) is int and value > 0 else 1  # the type check excludes True


PARTITION = "VLLM_PP_LAYER_PARTITION"
RARE_ARGUMENTS = frozenset({
    "pipeline_parallel_size", "data_parallel_size", "data_parallel_size_local", "prefill_context_parallel_size",
    "decode_context_parallel_size", "nnodes", "enable_expert_parallel", "api_server_count",
})  # fmt: skip
"""Arguments that `read` reads besides the tensor-parallel size: most command lines have none of them."""


def read(args: EngineArgs, env: Mapping[str, Any] | None = None) -> Parallel:
    """The parallel sizes of a command line."""
    if RARE_ARGUMENTS.isdisjoint(args.given) and not (env and PARTITION in env):
        return _of_tensors(size(args, "tensor_parallel_size"))
    dp = size(args, "data_parallel_size")
    local = args.given.get("data_parallel_size_local")
    servers = args.given.get("api_server_count")
    return Parallel(
        tp=size(args, "tensor_parallel_size"),
        pp=size(args, "pipeline_parallel_size"),
        dp=dp,
        dp_local=min(dp, local) if isinstance(local, int) and local > 0 else dp,
        pcp=size(args, "prefill_context_parallel_size"),
        dcp=size(args, "decode_context_parallel_size"),
        nnodes=size(args, "nnodes"),
        expert=bool(args.given.get("enable_expert_parallel")),
        api_servers=min(servers, LARGEST) if isinstance(servers, int) and servers >= 0 else None,
        partition=_partition(str(env[PARTITION])) if env and PARTITION in env else (),
    )


_of_tensors = lru_cache(64)(Parallel)  # tensor-parallel size → the sizes of an engine that has no other
_LONGEST = 1000
"""Characters of a partition; real ones have far fewer stages."""


def _partition(text: str) -> tuple[int, ...]:
    """Layers of each pipeline stage, from VLLM_PP_LAYER_PARTITION ("16,15,17"); empty if it is not such a list."""
    if len(text) > _LONGEST:
        return ()
    parts = [part.strip() for part in text.split(",")]
    return tuple(int(part) for part in parts) if all(part.isascii() and part.isdigit() for part in parts) else ()


def world_size(args: EngineArgs) -> int:
    """GPUs of one engine: TP × PP × PCP."""
    return read(args).world_size


_COUNTED = frozenset({
    "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "data_parallel_size_local",
    "data_parallel_rank", "prefill_context_parallel_size", "nnodes",
})  # fmt: skip
"""Arguments that decide how many GPUs a container needs."""


def gpus_needed(args: EngineArgs) -> int | None:
    """GPUs that this container needs: TP × PP × PCP × (data-parallel engines in it).

    None if a size is unknown, or if the engine spans several nodes in a way that the command line does not show. A
    process with a single data-parallel rank (`--data-parallel-rank`, external load balancing) counts only itself.
    """
    if not _COUNTED.isdisjoint(args.unresolved):
        return None
    parallel = read(args)
    if args.given.get("data_parallel_rank") is not None:
        local = 1
    elif args.given.get("data_parallel_size_local") == 0:  # a node without engines, in front of others
        return None
    else:
        local = parallel.dp_local
    if parallel.nnodes > 1:
        total = parallel.world_size * local
        return total // parallel.nnodes if total % parallel.nnodes == 0 else None
    return parallel.world_size * local


def gpus_of_group(args: EngineArgs) -> int | None:
    """GPUs that the whole engine needs, over all the Pods that form it: TP × PP × PCP × DP.

    None if a size is unknown, or if the command line is one data-parallel rank of several (`--data-parallel-rank`).
    """
    sizes = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "prefill_context_parallel_size")
    if any(dest in args.unresolved for dest in (*sizes, "data_parallel_rank")):
        return None
    if args.given.get("data_parallel_rank") is not None:
        return None
    parallel = read(args)
    return parallel.world_size * parallel.dp


def key_value_heads(heads: int, tp: int) -> int:
    """KV heads of one rank: replicated if there are fewer than ranks (vLLM 0.33 linear.py QKVParallelLinear)."""
    return max(1, heads // tp)
