"""One vLLM container, read: what every rule looks at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from webhook import args, command, gpu, model, quantity, release
from webhook.args import EngineArgs
from webhook.command import Command
from webhook.facts import Fact, Facts
from webhook.gpu import Accelerator
from webhook.memory import parallel, plan, solve
from webhook.memory.ledger import MemoryPlan
from webhook.model import Model
from webhook.path import FieldPath
from webhook.release import Release
from webhook.workload import Container, Workload

SHM = "/dev/shm"


@dataclass(frozen=True)
class Engine:
    """A vLLM container with everything that is known of it; what is unknown is None."""

    workload: Workload
    container: Container
    command: Command
    release: Release | None
    args: EngineArgs
    model: Fact[Model] | None
    gpu: Fact[Accelerator] | None
    requested: tuple[str, int | None] | None
    """The accelerator resource that the container asks for, and how many (None: can't be known)."""
    plan: MemoryPlan
    facts: Facts

    def at(self, *parts: str | int) -> FieldPath:
        """Where a field of the container stands in the object: `at("resources", "limits", "memory")`."""
        if parts and (place := self.container.places.get(str(parts[0]))) is not None:
            return place.join(*parts[1:])
        if self.container.synthetic:
            return self.container.path
        return self.container.path.join(*parts)

    def argument(self, dest: str) -> FieldPath:
        """Where an argument stands, or the command where it is not given."""
        return self.args.places.get(dest, self.command.path)

    def field(self, *parts: str | int) -> Any:
        """A field of the container, None where absent: `field("livenessProbe", "httpGet", "port")`."""
        return FieldPath(parts).get(self.container.spec)

    def pod(self, *parts: str | int) -> Any:
        """A field of the PodSpec, None where absent."""
        return FieldPath(parts).get(self.workload.spec)

    @property
    def served(self) -> bool:
        """The container answers HTTP on a port (a follower or a joining worker does not)."""
        return self.command.serves and not self.args.get("headless")

    @property
    def world_size(self) -> int:
        """GPUs that one engine of this command line spans: TP × PP × PCP."""
        return parallel.world_size(self.args)

    @property
    def memory_limit(self) -> int | None:
        """Bytes of host memory the container may use: the smaller of its own and the Pod's limit (1.32+)."""
        own = quantity.try_parse(self.field("resources", "limits", "memory"))
        pod = quantity.try_parse(self.pod("resources", "limits", "memory"))
        return min((limit for limit in (own, pod) if limit is not None), default=None)

    @cached_property
    def shm(self) -> Shm:
        """What is at /dev/shm."""
        return _shm(self)

    @cached_property
    def port(self) -> int | None:
        """The HTTP port; None where it can't be known or there is none (`--uds`, `--grpc`)."""
        if "port" in self.args.unresolved or self.args.get("uds") or self.args.get("grpc") or not self.served:
            return None
        port = self.args.get("port")
        return port if isinstance(port, int) else 8000

    @cached_property
    def alternatives(self) -> tuple[str, ...]:
        """Changes that would fit the GPU, computed by the planner that refused: cheapest first."""
        if self.model is None or self.gpu is None:
            return ()
        return tuple(
            alternative.text + self._also(alternative)
            for alternative in solve.alternatives(
                self.args, self.model.value, self.gpu.value, gpu_memory=self.facts.gpu_memory, env=self.command.env
            )
        )

    def _also(self, alternative: solve.Alternative) -> str:
        """What must change with it, so that following the advice leads to no other refusal."""
        mig = self.requested is not None and "/mig-" in self.requested[0]
        if "product" in alternative.changes and mig and self.requested:
            return f" and nvidia.com/gpu instead of {self.requested[0]}"
        if int(alternative.changes.get("gpus") or 1) > 1 and not self.shm.mounted and self.world_size == 1:
            return " and a memory volume at /dev/shm"
        return ""


@dataclass(frozen=True)
class Shm:
    """What stands at /dev/shm in the container."""

    size: int | None
    """Bytes; None: no limit of its own (a memory volume without sizeLimit, the host's)."""
    mounted: bool
    """A volume is mounted there, or the Pod shares the host's."""
    path: FieldPath
    """The volume, or the place where one would be declared."""


CONTAINER_RUNTIME_SHM = 64 * quantity.MI
"""What containerd and CRI-O mount at /dev/shm where the Pod mounts nothing (containerd oci/mounts.go `size=65536k`)."""


def _shm(engine: Engine) -> Shm:
    volumes_at = engine.workload.path / "volumes"
    if engine.pod("hostIPC") is True:
        return Shm(None, True, engine.workload.path / "hostIPC")
    mounts = engine.field("volumeMounts")
    for mount in mounts if isinstance(mounts, list) else ():
        if not isinstance(mount, Mapping) or str(mount.get("mountPath", "")).rstrip("/") != SHM:
            continue
        volumes = engine.pod("volumes")
        for index, volume in enumerate(volumes if isinstance(volumes, list) else ()):
            if isinstance(volume, Mapping) and volume.get("name") == mount.get("name"):
                empty_dir = volume.get("emptyDir")
                size = quantity.try_parse(empty_dir.get("sizeLimit")) if isinstance(empty_dir, Mapping) else None
                return Shm(size, True, volumes_at / index)
        return Shm(None, True, volumes_at)
    return Shm(CONTAINER_RUNTIME_SHM, False, volumes_at)


def read(
    workload: Workload, container: Container, facts: Facts, assumed: Mapping[str, Any] | None = None
) -> Engine | None:
    """Reads one container; None where it does not run vLLM."""
    found = command.resolve(workload, container, facts.config_maps)
    if found is None:
        return None
    image = container.spec.get("image")
    running = release.from_image(image) if isinstance(image, str) else None
    engine_args = args.parse(found, running)
    its_model = model.find(engine_args, workload, container, facts)
    accelerator = gpu.find(workload, container, facts)
    return Engine(
        workload=workload,
        container=container,
        command=found,
        release=running,
        args=engine_args,
        model=its_model,
        gpu=accelerator,
        requested=gpu.requested(workload, container),
        plan=plan.plan(
            engine_args,
            its_model.value if its_model else None,
            accelerator.value if accelerator else None,
            gpu_memory=facts.gpu_memory,
            env=found.env,
        ),
        facts=facts,
    )
