from __future__ import annotations

from collections.abc import Iterator

from podfit.rules import _parallel
from podfit.rules._flags import uncertain
from podfit.rules.engine import Engine
from podfit.rules.rule import Certainty, Finding, Rule
from podfit.vllm import change
from podfit.vllm.change import Suggestion
from podfit.vllm.memory.solve import NODE


class GpuCountMismatch(Rule):
    """The GPUs requested are fewer than the parallelism needs.

    One vLLM engine takes tensor-parallel × pipeline-parallel GPUs, and each data-parallel engine as many again. With
    fewer GPUs in the container vLLM does not start:

        ValueError: World size (4) is larger than the number of available GPUs (2) in this node.

    (up to v0.11.0 it switches to Ray instead and waits forever: `No available node types can fulfill resource
    request`). If several Pods serve one model (LeaderWorkerSet, Ray, KServe with a `workerSpec`, StormService,
    `--nnodes`), podfit counts the GPUs of all of them, and a mismatch is a warning. It is also a warning if the
    container may see more GPUs than it requests (`privileged: true`, NVIDIA_VISIBLE_DEVICES), or if a custom executor
    places the workers. `gpu-idle` reports too many GPUs.

    Since v0.11.1 vLLM does not look for a Ray cluster by itself. If one engine needs more GPUs than this Pod has, it
    ends with the same error, even if other Pods have the rest. `--distributed-executor-backend ray` or `--nnodes`
    prevents that. This error is certain for a LeaderWorkerSet with vLLM's own image.
    """

    plane = "config"
    event = "vLLM exits, or waits for GPUs that never come"
    of_vllm = False
    mode = "deny"
    needs = ("vllm_args",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain if one Pod is the whole engine: both numbers are in the manifest. Also if the Pod's own GPUs
        (`short_of_own`), or those that CUDA_VISIBLE_DEVICES leaves, are too few."""
        count = engine.once(_parallel.count)
        enough = count is None or count.have >= count.needed
        if enough and (short := _parallel.short_of_own(engine)) is not None:
            yield _of_this_pod(engine, *short)
        if count is None:
            return
        have = _parallel.visible(engine)
        if have is not None and count.pods == 1 and have < count.needed <= count.have:
            yield Finding(
                path=engine.at("env"),
                message=f"CUDA_VISIBLE_DEVICES={engine.command.env['CUDA_VISIBLE_DEVICES']} leaves {have or 'none'} of "
                f"{count.holders}, {_parallel.sizes(engine)} needs {count.needed}",
                details=() if have else ("CUDA numbers the container's own GPUs from 0",),
                certainty=_certainty(engine, count),
                suggestions=("no CUDA_VISIBLE_DEVICES: the device plugin gives the container its own GPUs",),
            )
        if enough:
            return
        more: Suggestion = change.limit(count.resource, count.needed)
        if count.needed > NODE and not count.needed % NODE:
            more = f"{count.needed // NODE} Pods of {NODE} × {count.resource} (a LeaderWorkerSet)"
        divides = _parallel.divides_model(engine)
        suggestions = [*([more] if divides else []), *_parallel.other_sizes(engine, count)]
        if count.pods == 1 and _parallel.makes_ray(engine):
            suggestions.append("--distributed-executor-backend ray, where other Pods of the Ray cluster have the rest")
        if count.pods > 1 or (engine.group is not None and engine.group.closed):
            suggestions = _for_a_group(engine, count)
        yield Finding(
            path=_parallel.requested_at(engine),
            message=f"{count.holders} requested, {_parallel.sizes(engine)} needs {count.needed}",
            certainty=_certainty(engine, count),
            suggestions=tuple(suggestions),
        )


def _of_this_pod(engine: Engine, resource: str, own: int) -> Finding:
    """The finding that other Pods have the rest of the GPUs, and no argument leads vLLM to them."""
    pods = -(-engine.world_size // own)
    nodes = f"--nnodes {pods} with --node-rank and --master-addr on each Pod, --headless on all but the first"
    ray = "--distributed-executor-backend ray"
    return Finding(
        path=engine.argument("tensor_parallel_size"),
        message=f"{_parallel.sizes(engine)}: one engine is {engine.world_size} GPUs, this Pod has {own} × {resource}, "
        "and no argument shows vLLM where the others are",
        details=("since 0.11.1 vLLM counts the Pod's own GPUs, and ends before it looks for Ray",),
        certainty="certain" if _parallel.own_count_is_certain(engine) else "likely",
        of_vllm=True,  # where it looks for GPUs
        uncertain=uncertain(engine),
        suggestions=(change.flags(ray), nodes)
        if _parallel.makes_ray(engine)
        else (nodes, f"{ray}, and a Ray cluster of the Pods"),
    )


def _for_a_group(engine: Engine, count: _parallel.Count) -> list[Suggestion]:
    """Suggestions for an engine over several Pods: more Pods of the present size, then other parallel sizes."""
    each = count.have // count.pods
    names = (
        [f"{-(-count.needed // each)} Pods of {each} × {count.resource}"] if each and not count.needed % each else []
    )
    divides = _parallel.divides_model(engine)
    return [*(names if divides else []), *_parallel.other_sizes(engine, count)]


def _certainty(engine: Engine, count: _parallel.Count) -> Certainty:
    """Certain only if vLLM itself rejects, or no other GPU can be visible."""
    if not engine.alone or _parallel.sees_more(engine):
        return "likely"
    closed = engine.group is not None and engine.group.closed  # a Ray cluster of this one Pod
    return "certain" if _parallel.refuses(engine) or closed or not engine.command.shell else "likely"
