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
"""Prefixes of resources of which one is one device to vLLM. One `aws.amazon.com/neuron` is a chip of several cores that
tensor parallelism counts; one Ascend or Gaudi GPU may be several too."""


class Count(NamedTuple):
    """GPUs that are requested, and GPUs that the command line takes."""

    resource: str
    """The resource that is requested, such as "nvidia.com/gpu"."""
    have: int
    """GPUs that are requested."""
    needed: int
    """GPUs that the command line takes."""
    pods: int
    """1: one container is compared; more: all Pods of the group together."""
    exact: bool
    """GPUs beyond `needed` are idle; False in a Ray cluster, which may run something else on them."""

    @property
    def holders(self) -> str:
        """The requested GPUs for people: "8 × nvidia.com/gpu", "2 Pods with together 16 × nvidia.com/gpu"."""
        text = f"{self.have} × {self.resource}"
        return text if self.pods == 1 else f"{self.pods} Pods with together {text}"


def count(engine: Engine) -> Count | None:
    """The GPUs that are requested and needed: by this container alone, or by all Pods of its group. None for a worker,
    an init container and a resource of other units than GPUs, and if either number is unknown."""
    if engine.command.entry == "worker" or engine.container.init or joins_ray(engine):
        return None
    if engine.alone or (_is_over_nodes(engine) and not engine.args.get("headless")):
        result = _count_of_container(engine)
    else:
        result = _count_of_group(engine)
    return result if result is not None and result.resource.startswith(_ONE_RANK_EACH) else None


def _count_of_container(engine: Engine) -> Count | None:
    """The count of this container alone; None if either number is unknown."""
    needed = parallel.gpus_needed(engine.args)
    resource, have = engine.requested or ("", None)
    if have is None or needed is None:
        return None
    return Count(resource=resource, have=have, needed=needed, pods=1, exact=True)


def _count_of_group(engine: Engine) -> Count | None:
    """The count of all Pods of the engine's group; None without a group of several, and if the need is unknown."""
    group, needed = engine.group, parallel.gpus_of_group(engine.args)
    if group is None or group.pods < 2 or needed is None:
        return None
    return Count(resource=group.resource, have=group.gpus, needed=needed, pods=group.pods, exact=not _is_in_ray(engine))


def requested_at(engine: Engine) -> FieldPath:
    """The path of the container's GPU limit; of "nvidia.com/gpu" if it requests none."""
    return engine.at("resources", "limits", engine.requested[0] if engine.requested else "nvidia.com/gpu")


_RAY_SCRIPT = regex(
    r"\bray\s+(start|status)\b|KUBERAY_GEN_RAY_START_CMD|multi[-_]node[-_]serving|ray[-_](init|cluster|address)|"
    r"run[-_]cluster"
)
"""Words of a script about starting or joining a Ray cluster."""
RAY_FALLBACK = Release(0, 11, 1)
"""Before it, too few GPUs make vLLM look for a Ray cluster, which a script may have started (CHANGES of 0.11.1)."""


def refuses(engine: Engine) -> bool:
    """True if this release does not look for a Ray cluster by itself, and so rejects too few GPUs; False if the release
    is unknown."""
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
    if engine.alone or engine.args.open or engine.command.own_flags:
        return None
    if not engine.command.serves or engine.container.init:
        return None
    release = engine.release
    may_look_for_ray = release < RAY_FALLBACK if release is not None else not runs_vllms_code(engine)
    if may_look_for_ray or _is_led_to_other_pods(engine):
        return None
    if engine.container.synthetic or (engine.workload.completes and not _is_in_ray(engine)):
        return None  # an operator may add arguments
    resource, own = engine.requested or ("", None)
    if not own or not resource.startswith("nvidia.com/") or own >= engine.world_size:
        return None
    return resource, own


def _is_led_to_other_pods(engine: Engine) -> bool:
    """True if an argument leads vLLM to the GPUs of other Pods, or may.

    It may if its value is unknown, or if it is in a part of the script that was not read."""
    args = engine.args
    if not _SPREADING.isdisjoint((*args.given, *args.written)):
        return True
    if not (_SPREADING | PARALLEL).isdisjoint(args.unresolved):
        return True
    return engine.command.shell and _SPREADING_WORDS.search(engine.raw_command) is not None


def own_count_is_certain(engine: Engine) -> bool:
    """True if it is certain that vLLM's own code counts this Pod's own GPUs; False outside of a LeaderWorkerSet.

    A package that the command itself installs may bring a platform of its own. One that a script of the image may
    install (multi-node-serving.sh) does not count, as any program may install packages."""
    if "leaderWorkerTemplate" not in engine.workload.path.parts or sees_more(engine):
        return False
    if engine.command.changes - {"packages"} or _INSTALLS.search(engine.raw_command):
        return False
    return not names_plugins(engine) and certainty(engine) == "certain"


_INSTALLS = regex(r"\b(pip3?|uv|conda|install|source|eval|curl|wget)\b|(?:^|[;&\n'])\s*\. ")
"""Words of a script that may install packages or run another script."""
_SPREADING = frozenset({"distributed_executor_backend", "worker_use_ray", "nnodes", "headless"})
"""Arguments that lead vLLM to the GPUs of other Pods."""
_SPREADING_WORDS = regex(r"executor[-_]backend|nnodes|headless")
"""Words of such arguments anywhere in a script, of which only one branch is read."""


def _is_over_nodes(engine: Engine) -> bool:
    """True with `--nnodes`: every Pod is one of the nodes, and takes its part of the ranks."""
    return (engine.args.get("nnodes") or 1) > 1 and engine.args.get("distributed_executor_backend") != "ray"


def _is_in_ray(engine: Engine) -> bool:
    """True if the container is in a head or worker group of a RayCluster."""
    return any(part in engine.workload.path.parts for part in ("headGroupSpec", "workerGroupSpecs"))


def sees_more(engine: Engine) -> bool:
    """True if the container may see more GPUs than it asks for, or a custom executor class uses others."""
    executor = engine.args.get("distributed_executor_backend")
    if isinstance(executor, str) and "." in executor:
        return True  # the path of a class, such as my_package.MyExecutor
    if engine.field("securityContext", "privileged") is True:
        return True  # it sees every GPU of the node (nvidia-container-toolkit)
    # The container runtime reads this variable where the device plugin sets none.
    variable = "NVIDIA_VISIBLE_DEVICES"
    return variable in engine.declared and engine.command.env.get(variable) not in _NO_DEVICES


_NO_DEVICES = ("", "none", "void")
"""Values of NVIDIA_VISIBLE_DEVICES that give a container no GPU (nvidia-container-toolkit)."""


def visible(engine: Engine) -> int | None:
    """The number of GPUs that CUDA_VISIBLE_DEVICES leaves to the container. None if `env` does not set it, if a script
    may change it, and if it is not a list of indices.

    CUDA numbers the GPUs of the container from 0, and takes those before the first that is not there.
    """
    variable = "CUDA_VISIBLE_DEVICES"
    text = engine.command.env.get(variable)
    if engine.command.shell or text is None:
        return None
    written = {name: value for _, name, value in engine.variables}
    if written.get(variable) != text or not _INDICES.fullmatch(text):
        return None
    indices = dict.fromkeys(map(int, text.split(",")))  # each once, in their order
    resource, have = engine.requested or ("", None)
    if have is None or not resource.startswith("nvidia.com/"):
        return len(indices)
    return sum(1 for _ in takewhile(lambda index: index < have, indices))


_INDICES = regex(r"\d{1,2}(,\d{1,2})*")
"""Indices of GPUs: "0,1"."""


def sizes(engine: Engine) -> str:
    """The parallel sizes that are not 1, for people: "--tensor-parallel-size 8 × --pipeline-parallel-size 2"."""
    texts = []
    for dest in ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size"):
        size = engine.args.get(dest) or 1
        if size != 1:
            texts.append(f"--{dest.replace('_', '-')} {size}")
    return " × ".join(texts) or "vLLM without --tensor-parallel-size"


def divides_model(engine: Engine) -> bool:
    """True if the tensor-parallel size divides the model's heads, or the model is unknown; else no number of GPUs
    helps."""
    size = parallel.size(engine.args, "tensor_parallel_size")
    return engine.model is None or divisible(engine.model.value, size, engine.args)


def other_sizes(engine: Engine, count: Count) -> tuple[Change, ...]:
    """The flag with the tensor-parallel size that uses exactly the container's GPUs. Empty if there is no such size, if
    the model can't be divided by it or does not fit then, and for an engine over several Pods."""
    if count.pods > 1 or _is_over_nodes(engine):
        return ()
    groups = count.needed // parallel.size(engine.args, "tensor_parallel_size")  # tensor-parallel groups: PP × DP
    if count.have < groups or count.have % groups:
        return ()
    tp = count.have // groups
    if engine.model is not None:
        fits = divisible(engine.model.value, tp, engine.args) and may_fit(engine, {"tensor_parallel_size": tp})
        if not fits:
            return ()
    return (change.flags(f"--tensor-parallel-size {tp}"),)


def may_fit(engine: Engine, changes: Mapping[str, Any]) -> bool:
    """True if the model probably fits its GPU with these changes (dest → value), or that is unknown.

    It fits if the likely KV cache holds a request of the full length, or any bytes if the size of one is unknown."""
    if engine.model is None or engine.gpu is None:
        return True
    changed = with_changes(engine.args, changes)
    planned = plan.judge(changed, engine.model.value, engine.gpu.value, env=engine.command.env)
    if planned.verdict == "does-not-fit":
        return False
    if planned.ledger is None:
        return True
    return planned.ledger.kv_cache.likely > max(0, (planned.ledger.request_bytes or 1) - 1)
