"""What the rules about parallelism share: what an engine needs, what its Pods have."""

from __future__ import annotations

import re

from webhook.engine import Engine
from webhook.frozen import frozen
from webhook.memory import parallel, plan
from webhook.memory.division import divisible
from webhook.memory.solve import with_changes
from webhook.path import FieldPath
from webhook.release import Release

_ONE_RANK_EACH = ("nvidia.com/", "amd.com/")
"""Where one of the resource is one device to vLLM. One `aws.amazon.com/neuron` is a chip of several cores that tensor
parallelism counts; one Ascend or Gaudi card may be several too."""


@frozen
class Count:
    """GPUs that are requested, and GPUs that the command line takes."""

    resource: str
    have: int
    needed: int
    pods: int
    """1: one container is compared; more: all Pods of the group together."""
    exact: bool
    """Whatever is more stands idle (Ray may run something else on it)."""
    path: FieldPath

    @property
    def holders(self) -> str:
        """ "8 × nvidia.com/gpu", "2 Pods with together 16 × nvidia.com/gpu"."""
        whole = f"{self.have} × {self.resource}"
        return whole if self.pods == 1 else f"{self.pods} Pods with together {whole}"


def count(engine: Engine) -> Count | None:
    """None where the two can't be compared."""
    if engine.command.entry == "worker" or engine.container.init:
        return None
    if joins_ray(engine):
        return None
    where = engine.at("resources", "limits", engine.requested[0] if engine.requested else "nvidia.com/gpu")
    found: Count | None = None
    if engine.alone or (_over_nodes(engine) and not engine.args.get("headless")):
        needed = parallel.gpus_needed(engine.args)
        if engine.requested is not None and engine.requested[1] is not None and needed is not None:
            resource, have = engine.requested
            found = Count(resource, have or 0, needed, 1, True, where)
    elif engine.group is not None and engine.group.pods > 1:
        group, whole = engine.group, parallel.gpus_of_group(engine.args)
        if whole is not None:
            found = Count(group.resource, group.gpus, whole, group.pods, not _ray(engine), where)
    return found if found is not None and found.resource.startswith(_ONE_RANK_EACH) else None


_RAY_SCRIPT = re.compile(r"\bray\s+start\b|multi[-_]node[-_]serving|ray[-_](init|cluster|address)|run[-_]cluster")
RAY_FALLBACK = Release(0, 11, 1)
"""Before it, too few GPUs make vLLM look for a Ray cluster, which a script may have started (CHANGES of 0.11.1)."""


def refuses(engine: Engine) -> bool:
    """This release does not look for a Ray cluster by itself."""
    return engine.release is not None and engine.release >= RAY_FALLBACK


def joins_ray(engine: Engine) -> bool:
    """A script makes a Ray cluster of Pods that this object does not tell of."""
    if refuses(engine) or not engine.command.shell or (engine.group is not None and engine.group.closed):
        return False
    return _RAY_SCRIPT.search(engine.said) is not None


def _over_nodes(engine: Engine) -> bool:
    """`--nnodes`: every Pod is one of the nodes, and takes its part of the ranks."""
    return (engine.args.get("nnodes") or 1) > 1 and engine.args.get("distributed_executor_backend") != "ray"


def _ray(engine: Engine) -> bool:
    return any(part in engine.workload.path.parts for part in ("headGroupSpec", "workerGroupSpecs"))


def sees_more(engine: Engine) -> bool:
    """The container may see more cards than it asks for, or an executor class of somebody's own uses others.

    A privileged container sees every card of the node (nvidia-container-toolkit); NVIDIA_VISIBLE_DEVICES of the Pod is
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
    """Cards that CUDA_VISIBLE_DEVICES of the Pod leaves; None where it is not set there, or names no plain indices."""
    text = engine.command.env.get("CUDA_VISIBLE_DEVICES")
    if engine.command.shell or text is None:
        return None
    listed = engine.field("env")
    said = {
        str(one.get("name")): one.get("value")
        for one in (listed if isinstance(listed, list) else ())
        if isinstance(one, dict)
    }
    if said.get("CUDA_VISIBLE_DEVICES") != text:
        return None
    return len(set(text.split(","))) if _INDICES.fullmatch(text) else None


_INDICES = re.compile(r"\d{1,2}(,\d{1,2})*")


def sizes(engine: Engine) -> str:
    """ "--tensor-parallel-size 8 × --pipeline-parallel-size 2", as far as they are not 1."""
    said = " × ".join(
        f"--{dest.replace('_', '-')} {engine.args.get(dest)}"
        for dest in ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
        if (engine.args.get(dest) or 1) != 1
    )
    return said or "vLLM without --tensor-parallel-size"


def other_sizes(engine: Engine, found: Count) -> tuple[str, ...]:
    """The tensor-parallel size that would take exactly the GPUs that are there, unless the model does not fit them."""
    size = parallel.size(engine.args, "tensor_parallel_size")
    rest = found.needed // size
    if found.pods > 1 or _over_nodes(engine) or found.have < rest or found.have % rest:
        return ()
    tp, model = found.have // rest, engine.model.value if engine.model else None
    if model is None:
        return (f"--tensor-parallel-size {tp}",)
    changed = with_changes(engine.args, {"tensor_parallel_size": tp})
    judged = plan.judge(changed, model, engine.gpu.value if engine.gpu else None, env=engine.command.env)
    fits = divisible(model, tp, engine.args) and judged.verdict != "does-not-fit"
    return (f"--tensor-parallel-size {tp}",) if fits else ()
