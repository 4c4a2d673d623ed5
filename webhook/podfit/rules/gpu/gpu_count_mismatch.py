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
        if count is None or count.have >= count.needed:
            short = _parallel.short_of_own(engine)
            if short is not None:
                yield _of_this_pod(engine, *short)
        if count is None:
            return
        visible = _parallel.visible(engine)
        if visible is not None and count.pods == 1 and visible < count.needed <= count.have:
            yield _of_visible_devices(engine, count, visible)
        if count.have >= count.needed:
            return
        is_group = count.pods > 1 or (engine.group is not None and engine.group.closed)
        yield Finding(
            path=_parallel.requested_at(engine),
            message=f"{count.holders} requested, {_parallel.sizes(engine)} needs {count.needed}",
            certainty=_certainty(engine, count),
            suggestions=tuple(_for_a_group(engine, count) if is_group else _for_one_pod(engine, count)),
        )


def _of_visible_devices(engine: Engine, count: _parallel.Count, visible: int) -> Finding:
    """The finding that CUDA_VISIBLE_DEVICES leaves only `visible` of the requested GPUs."""
    return Finding(
        path=engine.at("env"),
        message=f"CUDA_VISIBLE_DEVICES={engine.command.env['CUDA_VISIBLE_DEVICES']} leaves {visible or 'none'} of "
        f"{count.holders}, {_parallel.sizes(engine)} needs {count.needed}",
        details=() if visible else ("CUDA numbers the container's own GPUs from 0",),
        certainty=_certainty(engine, count),
        suggestions=("no CUDA_VISIBLE_DEVICES: the device plugin gives the container its own GPUs",),
    )


def _for_one_pod(engine: Engine, count: _parallel.Count) -> list[Suggestion]:
    """Suggestions for an engine in one Pod: more GPUs, then other parallel sizes, then the GPUs of a Ray cluster. More
    GPUs than a node has are in several Pods."""
    more: Suggestion = change.limit(count.resource, count.needed)
    # `NODE`: the GPUs of the usual large node.
    if count.needed > NODE and not count.needed % NODE:
        more = f"{count.needed // NODE} Pods of {NODE} × {count.resource} (a LeaderWorkerSet)"
    suggestions = [more] if _parallel.divides_model(engine) else []
    suggestions += _parallel.other_sizes(engine, count)
    if _parallel.makes_ray(engine):
        suggestions.append("--distributed-executor-backend ray, where other Pods of the Ray cluster have the rest")
    return suggestions


def _of_this_pod(engine: Engine, resource: str, own: int) -> Finding:
    """The finding that this Pod has only `own` GPUs, other Pods have the rest, and no argument leads vLLM to them."""
    pods = -(-engine.world_size // own)  # rounded up
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
    """Suggestions for an engine over several Pods: more Pods of the present size, if they have exactly the GPUs that
    are needed; then other parallel sizes."""
    suggestions: list[Suggestion] = []
    per_pod = count.have // count.pods
    if per_pod and not count.needed % per_pod and _parallel.divides_model(engine):
        suggestions.append(f"{count.needed // per_pod} Pods of {per_pod} × {count.resource}")
    suggestions += _parallel.other_sizes(engine, count)
    return suggestions


def _certainty(engine: Engine, count: _parallel.Count) -> Certainty:
    """Certain if vLLM has only this Pod's GPUs and finds no Ray cluster with more; else likely.

    It finds none if its release does not look for one, if the cluster is this Pod, or if no script starts one."""
    if not engine.alone or _parallel.sees_more(engine):
        return "likely"
    is_whole_cluster = engine.group is not None and engine.group.closed  # a Ray cluster of this one Pod
    if _parallel.refuses(engine) or is_whole_cluster or not engine.command.shell:
        return "certain"
    return "likely"
