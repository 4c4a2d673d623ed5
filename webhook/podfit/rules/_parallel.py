"""Helpers of the rules about parallelism: the GPUs that an engine needs, and those of its Pods."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile
from typing import Any, NamedTuple

from podfit.base.lazy import regex
from podfit.kube.path import FieldPath
from podfit.rules._flags import certainty, is_since, names_plugins, runs_vllms_code
from podfit.rules.engine import PARALLEL, Engine
from podfit.vllm import change
from podfit.vllm.change import Change
from podfit.vllm.memory import parallel, plan
from podfit.vllm.memory.division import divisible
from podfit.vllm.memory.search import with_changes
from podfit.vllm.release import Release

_ONE_RANK_EACH = ("nvidia.com/", "amd.com/")
"""Where one of the resource is one device to vLLM. One `aws.amazon.com/neuron` is a chip of several cores that tensor
parallelism counts; one Ascend or Gaudi GPU may be several too."""


class Count(NamedTuple):
    """GPUs that are requested, and GPUs that the command line takes."""

    resource: str
    have: int
    needed: int
    pods: int
    """1: one container is compared; more: all Pods of the group together."""
    exact: bool
    """Whatever is more is idle (Ray may run something else on it)."""

    @property
    def holders(self) -> str:
        """ "8 × nvidia.com/gpu", "2 Pods with together 16 × nvidia.com/gpu"."""
        text = f"{self.have} × {self.resource}"
        return text if self.pods == 1 else f"{self.pods} Pods with together {text}"


def count(engine: Engine) -> Count | None:
    """The GPUs that are requested and needed: by this container alone, or by all Pods of its group. None for a worker,
    an init container and a resource of other units than GPUs, and if either number is unknown."""
    if engine.command.entry == "worker" or engine.container.init:
        return None
    if joins_ray(engine):
        return None
    result: Count | None = None
    if engine.alone or (_over_nodes(engine) and not engine.args.get("headless")):
        needed = parallel.gpus_needed(engine.args)
        resource, have = engine.requested or ("", None)
        if have is not None and needed is not None:
            result = Count(resource=resource, have=have, needed=needed, pods=1, exact=True)
    elif engine.group is not None and engine.group.pods > 1:
        group, group_gpus = engine.group, parallel.gpus_of_group(engine.args)
        if group_gpus is not None:
            result = Count(
                resource=group.resource,
                have=group.gpus,
                needed=group_gpus,
                pods=group.pods,
                exact=not _is_in_ray(engine),
            )
    return result if result is not None and result.resource.startswith(_ONE_RANK_EACH) else None


def requested_at(engine: Engine) -> FieldPath:
    """Where the container asks for its GPUs."""
    return engine.at("resources", "limits", engine.requested[0] if engine.requested else "nvidia.com/gpu")


_RAY_SCRIPT = regex(
    r"\bray\s+(start|status)\b|KUBERAY_GEN_RAY_START_CMD|multi[-_]node[-_]serving|ray[-_](init|cluster|address)|"
    r"run[-_]cluster"
)
RAY_FALLBACK = Release(0, 11, 1)
"""Before it, too few GPUs make vLLM look for a Ray cluster, which a script may have started (CHANGES of 0.11.1)."""


def refuses(engine: Engine) -> bool:
    """True if this release does not look for a Ray cluster by itself."""
    return is_since(engine, RAY_FALLBACK)


def joins_ray(engine: Engine) -> bool:
    """True if a script makes a Ray cluster of Pods that this object does not show."""
    if refuses(engine) or (engine.group is not None and engine.group.closed):
        return False
    return _starts_ray(engine)


def makes_ray(engine: Engine) -> bool:
    """True if the container starts or joins a Ray cluster."""
    return "RAY_ADDRESS" in engine.command.env or _starts_ray(engine)


def _starts_ray(engine: Engine) -> bool:
    """True if the container's script has a word about starting or joining a Ray cluster."""
    return engine.command.shell and _RAY_SCRIPT.search(engine.raw_command) is not None


def short_of_own(engine: Engine) -> tuple[str, int] | None:
    """The resource and number of this Pod's GPUs if one engine needs more and the arguments do not lead vLLM to the
    rest; else None.

    The other GPUs are in other Pods, and the arguments set neither Ray nor `--nnodes`. Since 0.11.1 vLLM counts the
    GPUs it sees before it looks for Ray or a placement group (the same in every release until 0.33, config/parallel.py
    `__post_init__`). This applies to CUDA only; on other devices the workers fail. Also None if more arguments may come
    from a `$VARIABLE` or an operator (Dynamo, KServe)."""
    args, release = engine.args, engine.release
    if engine.alone or args.open or engine.command.own_flags or not engine.command.serves or engine.container.init:
        return None
    if (release is None and not runs_vllms_code(engine)) or (release is not None and release < RAY_FALLBACK):
        return None
    if not _SPREADING.isdisjoint((*args.given, *args.written)) or not (_SPREADING | PARALLEL).isdisjoint(
        args.unresolved
    ):
        return None
    if engine.command.shell and _TOLD_ELSEWHERE.search(engine.raw_command):
        return None
    if engine.container.synthetic or (engine.workload.completes and not _is_in_ray(engine)):
        return None
    resource, own = engine.requested or ("", None)
    return (resource, own) if own and resource.startswith("nvidia.com/") and own < engine.world_size else None


def own_count_is_certain(engine: Engine) -> bool:
    """True if it is certain that vLLM's own code counts this Pod's own GPUs; False outside of a LeaderWorkerSet. A
    script of the image's, such as multi-node-serving.sh, may add packages as any program may; one that the command
    itself installs may bring a platform of its own."""
    if "leaderWorkerTemplate" not in engine.workload.path.parts or sees_more(engine):
        return False
    added = engine.command.changes - {"packages"} or _INSTALLS.search(engine.raw_command)
    return not added and not names_plugins(engine) and certainty(engine) == "certain"


_INSTALLS = regex(r"\b(pip3?|uv|conda|install|source|eval|curl|wget)\b|(?:^|[;&\n'])\s*\. ")
"""Words of a script that may install packages or run another script."""
_SPREADING = frozenset({"distributed_executor_backend", "worker_use_ray", "nnodes", "headless"})
"""Arguments that lead vLLM to the GPUs of other Pods."""
_TOLD_ELSEWHERE = regex(r"executor[-_]backend|nnodes|headless")
"""Somewhere in a script, of which one branch was read."""


def _over_nodes(engine: Engine) -> bool:
    """True with `--nnodes`: every Pod is one of the nodes, and takes its part of the ranks."""
    return (engine.args.get("nnodes") or 1) > 1 and engine.args.get("distributed_executor_backend") != "ray"


def _is_in_ray(engine: Engine) -> bool:
    """True if the container is in a head or worker group of a RayCluster."""
    return any(part in engine.workload.path.parts for part in ("headGroupSpec", "workerGroupSpecs"))


def sees_more(engine: Engine) -> bool:
    """True if the container may see more GPUs than it asks for, or a custom executor class uses others.

    A privileged container sees every GPU of the node (nvidia-container-toolkit); NVIDIA_VISIBLE_DEVICES of the Pod is
    what the container runtime reads where the device plugin sets none.
    """
    executor = engine.args.get("distributed_executor_backend")
    if isinstance(executor, str) and "." in executor:
        return True
    if engine.field("securityContext", "privileged") is True:
        return True
    devices = "NVIDIA_VISIBLE_DEVICES"
    return devices in engine.declared and engine.command.env.get(devices) not in ("", "none", "void")


def visible(engine: Engine) -> int | None:
    """GPUs that CUDA_VISIBLE_DEVICES of the Pod leaves; None if it is not set there, or names no plain indices.

    CUDA numbers the GPUs of the container from 0, and takes those before the first that is not there.
    """
    text = engine.command.env.get("CUDA_VISIBLE_DEVICES")
    if engine.command.shell or text is None:
        return None
    written = {name: value for _, name, value in engine.variables}
    if written.get("CUDA_VISIBLE_DEVICES") != text or not _INDICES.fullmatch(text):
        return None
    named = dict.fromkeys(map(int, text.split(",")))
    resource, have = engine.requested or ("", None)
    if have is None or not resource.startswith("nvidia.com/"):
        return len(named)
    return len(list(takewhile(lambda index: index < have, named)))


_INDICES = regex(r"\d{1,2}(,\d{1,2})*")


def sizes(engine: Engine) -> str:
    """ "--tensor-parallel-size 8 × --pipeline-parallel-size 2", as far as they are not 1."""
    text = " × ".join(
        f"--{dest.replace('_', '-')} {engine.args.get(dest)}"
        for dest in ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
        if (engine.args.get(dest) or 1) != 1
    )
    return text or "vLLM without --tensor-parallel-size"


def divides_model(engine: Engine) -> bool:
    """True if the tensor-parallel size divides the model, as far as it is known; else no number of GPUs helps."""
    size = parallel.size(engine.args, "tensor_parallel_size")
    return engine.model is None or divisible(engine.model.value, size, engine.args)


def other_sizes(engine: Engine, count: Count) -> tuple[Change, ...]:
    """The flag with the tensor-parallel size that uses exactly the container's GPUs; empty if the model does not fit
    them."""
    size = parallel.size(engine.args, "tensor_parallel_size")
    rest = count.needed // size
    if count.pods > 1 or _over_nodes(engine) or count.have < rest or count.have % rest:
        return ()
    tp, model = count.have // rest, engine.model.value if engine.model else None
    if model is None:
        return (change.flags(f"--tensor-parallel-size {tp}"),)
    fits = divisible(model, tp, engine.args) and may_fit(engine, {"tensor_parallel_size": tp})
    return (change.flags(f"--tensor-parallel-size {tp}"),) if fits else ()


def may_fit(engine: Engine, changes: Mapping[str, Any]) -> bool:
    """True if the model probably fits its GPU with these changes, or that is unknown."""
    if engine.model is None or engine.gpu is None:
        return True
    changed = with_changes(engine.args, changes)
    release_plan = plan.judge(changed, engine.model.value, engine.gpu.value, env=engine.command.env)
    ledger = release_plan.ledger
    if release_plan.verdict == "does-not-fit" or ledger is None:
        return release_plan.verdict != "does-not-fit"
    return ledger.kv_cache.likely > max(0, (ledger.request_bytes or 1) - 1)
