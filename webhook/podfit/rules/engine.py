"""One vLLM container, read: what every rule looks at."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

from podfit.base.lazy import cached_property
from podfit.kube import quantity
from podfit.kube.path import FieldPath, is_object, value_at
from podfit.kube.workload import Container, Whole, Workload
from podfit.kube.workload.template import as_list
from podfit.rules.rule import PROBABLY
from podfit.vllm import args, command, gpu, group, model, release, volumes
from podfit.vllm.args import EngineArgs, Releases
from podfit.vllm.command import Command, WorkLimit, images
from podfit.vllm.facts import Fact, Facts
from podfit.vllm.gpu import Accelerator, Placement
from podfit.vllm.group import Replica
from podfit.vllm.measured import HARMLESS
from podfit.vllm.memory import cpu, doubt, parallel, plan, solve, v0_fallback
from podfit.vllm.memory.ledger import HostLedger, MemoryPlan
from podfit.vllm.memory.partition import Candidate, Partition, partition
from podfit.vllm.memory.probable import probable_changes
from podfit.vllm.memory.search import with_changes
from podfit.vllm.model import Model
from podfit.vllm.release import Release, is_official
from podfit.vllm.volumes import Mount

T = TypeVar("T")
SHM = "/dev/shm"
PARALLEL = frozenset({
    "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "data_parallel_rank", "nnodes",
})  # fmt: skip
_SEARCHES = 32
"""Containers of one object for which changes that fit are searched: more suggestions do not help."""
_COMPARED = 64
"""Unknown flags of one object that are compared with the known ones, which takes a millisecond for each."""
NVIDIAS = "nvcr.io/nvidia/vllm:"
"""An image whose release notes say "effectively --gpu-memory-utilization≈1.0" by default
(docs.nvidia.com/deeplearning/frameworks/vllm-release-notes/rel-25-10.html, Known Issues)."""


_NO_VARIABLES: Mapping[str, str] = {}


class Sibling(NamedTuple):
    """The fields of an engine that the other engines of its Pod use.

    It is not an `Engine`: an engine that held itself would be a cycle. Each review would then leave some hundred
    objects to Python's garbage collector, whose runs delay the slowest reviews."""

    container: str
    args: EngineArgs
    release: Release | None
    requested: tuple[str, int | None] | None
    port: int | None = None
    """The port on which it answers HTTP on every path through its script; None if there is none or it is unknown."""
    host: object = None
    model: Fact[Model] | None = None
    env: Mapping[str, str] = _NO_VARIABLES


@dataclass(frozen=True)
class Engine:
    """A vLLM container with everything that is known of it; what is unknown is None."""

    workload: Workload
    container: Container
    command: Command
    release: Release | None
    vouched: bool
    """The policy says which release the image holds, so its flags are that release's."""
    args: EngineArgs
    model: Fact[Model] | None
    gpu: Fact[Accelerator] | None
    requested: tuple[str, int | None] | None
    """The accelerator resource that the container asks for, and how many (None: can't be known)."""
    plan: MemoryPlan
    facts: Facts
    whole: Whole = field(compare=False, repr=False)
    """The object that it is in."""
    placement: Placement | None = None
    """The live nodes on which the Pod may run; None if nodes are not known."""
    mounts: tuple[Mount, ...] = ()
    """What is mounted into the container."""
    errors: tuple[tuple[str, Exception], ...] = field(default=(), compare=False, repr=False)
    """The stages of reading in which podfit failed, each with its error; what they give is unknown."""
    parsers: Releases | None = field(default=None, compare=False, repr=False)
    """The policy's settings about vLLM releases."""
    informs: bool = False
    """The release is read from a part of the image's name: nothing that rests on it is certain."""
    supposed: bool = False
    """The release is one that the image may contain: its tag names none (`podfit.rules.releases`)."""
    leader: Engine | None = field(default=None, compare=False, repr=False)
    """The engine that a joining worker belongs to: its model is the worker's."""
    siblings: Sequence[Sibling] = field(default=(), compare=False, repr=False)
    """All engines of its Pod, itself too, as they were read; whole once all its containers are."""
    _once: dict[Callable[[Engine], Any], Any] = field(default_factory=dict, init=False, compare=False, repr=False)

    def once(self, of: Callable[[Engine], T]) -> T:
        """What a helper that several rules share says of this engine: it is asked once."""
        known = self._once
        if of in known:
            return known[of]  # type: ignore[no-any-return]
        found = known[of] = of(self)
        return found

    def at(self, *parts: str | int) -> FieldPath:
        """Where a field of the container is in the object: `at("resources", "limits", "memory")`."""
        places = self.container.places
        if places and parts and (place := places.get(str(parts[0]))) is not None:
            return place.join(*parts[1:])
        if self.container.synthetic:
            return self.container.path
        return self.container.path.join(*parts)

    def argument(self, dest: str) -> FieldPath:
        """The path of an argument, or of the command if the argument is not given."""
        return self.args.places.get(dest, self.command.path)

    def field(self, *parts: str | int) -> Any:
        """A field of the container, None if absent: `field("livenessProbe", "httpGet", "port")`."""
        return _field(self.container.spec, parts)

    def pod(self, *parts: str | int) -> Any:
        """A field of the PodSpec, None if absent."""
        return _field(self.workload.spec, parts)

    @cached_property
    def raw_command(self) -> str:
        """`command` and `args` as one text, for rules that look for a word wherever it is: as much of them as a
        person writes."""
        return f"{_first_characters(self.field('command'))} {_first_characters(self.field('args'))}"

    @cached_property
    def variables(self) -> list[tuple[int, str, Any]]:
        """The container's `env`: each entry's index, name, and value (None if it comes from elsewhere)."""
        listed = enumerate(as_list(self.container.spec.get("env")))
        return [
            (index, name, one.get("value"))
            for index, one in listed
            if (isinstance(one, dict) or is_object(one)) and isinstance(name := one.get("name"), str)
        ]

    @cached_property
    def declared(self) -> frozenset[str]:
        """The names of the variables in the container's `env`, whether or not their values can be seen."""
        return frozenset([name for _, name, _ in self.variables])

    @cached_property
    def served(self) -> bool:
        """The container answers HTTP on a port (a follower or a joining worker does not)."""
        return self.command.serves and not self.args.get("headless")

    @property
    def pulls_newest(self) -> bool:
        """The image names no release, and is replaced with each one (`latest`)."""
        image = self.field("image")
        return self.release is None and isinstance(image, str) and release.pulls_newest(image)

    @property
    def vllm_args(self) -> EngineArgs | None:
        """The arguments, for rules about what vLLM does with them; None if another server reads them."""
        return None if self.command.other else self.args

    @property
    def world_size(self) -> int:
        """GPUs that one engine of this command line spans: TP × PP × PCP."""
        return parallel.world_size(self.args)

    @property
    def vendor(self) -> str:
        """The GPUs' vendor: from the known GPU, else from the resource or the image; "nvidia" by default."""
        makers = {gpu.vendor.lower() for gpu in self.gpu.value.gpus} if self.gpu else set()
        return makers.pop() if len(makers) == 1 else _vendor(self.requested, self.field("image"))

    @cached_property
    def memory_limit(self) -> int | None:
        """Bytes of host memory the container may use: the smaller of its own and the Pod's limit (1.32+)."""
        own = quantity.try_parse(self.field("resources", "limits", "memory"))
        pod = quantity.try_parse(self.pod("resources", "limits", "memory"))
        return min((limit for limit in (own, pod) if limit), default=None)  # 0 is not a limit

    @cached_property
    def memory_request(self) -> int | None:
        """Bytes of host memory that are reserved for the container: the request, or the limit if only that is given."""
        given = self.field("resources", "requests", "memory")
        return quantity.try_parse(self.field("resources", "limits", "memory") if given is None else given)

    @property
    def memory_at(self) -> FieldPath:
        """The path of the effective limit: the container's own, or the Pod's if that is smaller."""
        own = quantity.try_parse(self.field("resources", "limits", "memory"))
        pod = quantity.try_parse(self.pod("resources", "limits", "memory"))
        if pod and (not own or pod < own):
            return self.workload.path.join("resources", "limits", "memory")
        return self.at("resources", "limits", "memory")

    @cached_property
    def shm(self) -> Shm:
        """What is at /dev/shm."""
        return _shm(self)

    @cached_property
    def port(self) -> int | None:
        """The HTTP port; None if it can't be known or there is none.

        vLLM's default is only taken where vLLM itself is the program: a wrapper or a foreign image's entrypoint may
        have a default of its own.
        """
        get = self.args.get
        elsewhere = get("uds") or get("grpc") or get("data_parallel_multi_port_external_lb")
        if not self.served or elsewhere or self.args.open or "port" in self.args.unresolved or self.command.own_flags:
            return None
        port = self.args.given.get("port")
        if port is None:
            image = self.field("image")
            ours = self.field("command") or (isinstance(image, str) and is_official(image))
            return 8000 if ours else None
        return port if isinstance(port, int) else None

    @cached_property
    def spans_pods(self) -> bool:
        """The engine's processes are, or may be, in more than one Pod, or can't be counted from this command line."""
        get = self.args.get
        return (
            self.workload.pods_per_replica != 1
            or get("distributed_executor_backend") in ("ray", "external_launcher")
            or get("data_parallel_backend") == "ray"
            or (get("nnodes") or 1) != 1
            or bool(get("headless") or get("worker_use_ray"))
            or "RAY_ADDRESS" in self.command.env
            or not PARALLEL.isdisjoint(self.args.unresolved)
        )

    @cached_property
    def group(self) -> Replica | None:
        """The Pods that serve the model together, seen from the one that leads; None if that can't be known."""
        return group.group_of(self.workload, self.container, self.whole)

    @cached_property
    def alone(self) -> bool:
        """The whole engine runs in this one Pod, and no other Pod can join it."""
        get = self.args.get
        if not self.spans_pods:
            return True
        return (
            self.group is not None
            and self.group.pods == 1
            and self.group.closed
            and get("distributed_executor_backend") != "external_launcher"
            and (get("nnodes") or 1) == 1
            and not get("headless")
            and "RAY_ADDRESS" not in self.command.env
            and PARALLEL.isdisjoint(self.args.unresolved)
        )

    @property
    def unseen(self) -> str | None:
        """Why not even what the arguments alone show is certain, such as how many processes run; None if it is."""
        unknown = [dest for dest in self.args.unresolved if dest not in HARMLESS]
        if unknown:
            return f"--{unknown[0].replace('_', '-')} can't be known: {self.args.unresolved[unknown[0]]}"
        return doubt.of_arguments(self.args)

    @cached_property
    def doubt(self) -> str | None:
        """Why nothing that is computed from the arguments and the model is certain, None if it is."""
        if why := self.unseen:
            return why
        if why := doubt.reason_unplannable(self.args, self.model.value if self.model else None, self.command.env):
            return why
        if "vllm" in self.command.changes and self.release is not None:
            return f"whether the vLLM that runs is {self.release} is the script's matter"
        image = self.field("image")
        if isinstance(image, str) and NVIDIAS in image and "gpu_memory_utilization" not in self.args.given:
            return "NVIDIA's build of vLLM may use another share of the GPU memory by default"
        return None

    @cached_property
    def v0_reason(self) -> str | None:
        """Why vLLM starts its V0 engine although V1 is the default, for people; None if it does not."""
        resolved = self.plan.resolved
        if resolved is None or resolved.settings.v1 or self.model is None:
            return None
        gpu = self.gpu.value.gpus[0] if self.gpu and self.gpu.value.gpus else None
        return v0_fallback.reason(self.args, self.model.value, self.command.env, self.release, gpu)

    @property
    def weights_doubtful(self) -> str | None:
        """Why the model's size or format is uncertain; None if both are certain."""
        if self.model is not None and not self.model.value.storage_known:
            return f"doubtful: {self.model.value.unknown}"
        why = self.model.source.partition("; doubtful: ")[2] if self.model else ""
        of_the_cache = ("its length", "num_key_value_heads")
        return f"doubtful: {why}" if why and not why.startswith(of_the_cache) else None

    @cached_property
    def on_processors(self) -> bool:
        """It is vLLM's CPU backend: the ledger of GPU memory says nothing of it."""
        return _on_processors(self.field("image"), self.requested, self.args, self.command.env)

    @cached_property
    def candidates(self) -> tuple[Candidate, ...]:
        """The GPUs that the container may get: as named, else those of nodes whose labels name one, else the table's.

        Empty if none is known: nothing plans the whole table while a review waits (`Facts.plans_table`)."""
        if self.gpu is not None:
            kinds = gpu.on_nodes(self.gpu, self.placement, self.workload)
            return tuple([Candidate(one, kind.shared) for kind, _ in kinds for one in kind.gpus])
        if self.placement is not None and self.placement.kinds:
            return tuple([Candidate(one, kind.shared) for kind in self.placement.kinds for one in kind.gpus])
        if not self.facts.plans_table:
            return ()
        request = gpu.device_request(self.workload, self.container, self.facts.snapshot)
        build = gpu.maker.of_build(self.field("image"), self.command.env, self.args.given.get("device"))
        shared = gpu.shared_by_resource(self.requested[0] if self.requested else None, self.workload)
        return tuple([Candidate(one, shared) for one in gpu.of_table(self.workload, self.container, request, build)])

    @cached_property
    def gpus(self) -> Partition | None:
        """The candidates by their plans, with one release."""
        return self.planned_gpus()

    def planned_gpus(self, *, one_release: bool = True) -> Partition | None:
        """The candidates by their plans; None if the model or the GPUs are unknown, or if the memory was measured.

        `one_release`: as for `podfit.vllm.memory.partition.partition`."""
        served = self.leader or self
        if served.model is None or self.on_processors or self.command.other or not self.candidates:
            return None
        if self.facts.gpu_memory is not None:
            return None
        return partition(
            served.args,
            served.model.value,
            self.candidates,
            env=served.command.env,
            one_release=one_release,
            known=self.facts.measured,
            kv_cache_memory=self.facts.kv_cache_memory,
        )

    @cached_property
    def alternatives(self) -> tuple[str, ...]:
        """Changes that would fit the GPU, computed by the planner that found no fit: best first."""
        return self.describe(self._certain)

    @cached_property
    def _certain(self) -> tuple[solve.Alternative, ...]:
        return tuple(self.changes())

    @cached_property
    def probable(self) -> tuple[str, ...]:
        """Changes that likely fit the GPU, though not certainly, and give up less than those of `alternatives`."""
        if self.model is None or self.gpu is None or self.facts.kv_cache_memory is not None:
            return ()
        if not self.whole.is_among(_SEARCHES, "searches"):
            return ()
        found = probable_changes(
            self.args, self.model.value, self.gpu.value,
            certain=self._certain, gpu_memory=self.facts.gpu_memory, env=self.command.env,
            warm=volumes.keeps_compiled(self.mounts, self.command.env),
        )  # fmt: skip
        return tuple(f"{one.text}{PROBABLY}" for one in found)

    def describe(self, changes: Iterable[solve.Alternative]) -> tuple[str, ...]:
        """Changes for people: in the words of this Pod, and with what must change besides."""
        return tuple(
            text + self._accompanying_change(one) for one in changes if (text := self._written(one)) is not None
        )

    def _written(self, one: solve.Alternative) -> str | None:
        """The change as text, with this Pod's own selectors; None if its cloud has no such machine."""
        product, count = one.changes.get("product"), int(one.changes.get("gpus") or 0)
        if self.requested is not None and gpu.CLAIM in self.requested[0]:  # the claim selects the GPU, not a selector
            return one.text.replace("nodeSelector nvidia.com/gpu.product:", "a claim for")
        if product:
            asked = count or (self.requested[1] if self.requested else None) or 1
            usual = f"nodeSelector {gpu.advice.PRODUCT}: {product}"
            return one.text.replace(usual, gpu.advice.of_product(self.workload.spec, product, asked))
        if count and self.gpu is not None:
            also = gpu.advice.of_count(self.workload.spec, self.gpu.value.gpus, count)
            return None if also is None else one.text + also
        return one.text

    def changes(
        self, *, most: int = solve.MAX_SUGGESTIONS, steps: int = solve.MAX_PLANS, also: Mapping[str, Any] | None = None
    ) -> list[solve.Alternative]:
        """At most `most` changes that would fit, best first, found with at most `steps` plans; `also`: what is changed
        in any case."""
        if self.model is None or self.gpu is None or self.facts.kv_cache_memory is not None:
            return []  # the KV cache memory that one engine had does not apply to another
        if not self.whole.is_among(_SEARCHES, "searches"):
            return []
        args = with_changes(self.args, also or {})
        return solve.alternatives(
            args, self.model.value, self.gpu.value, gpu_memory=self.facts.gpu_memory, env=self.command.env,
            products=self.products, most=most, steps=steps,
        )  # fmt: skip

    @property
    def products(self) -> tuple[str, ...]:
        """Whole GPUs that the cluster's nodes have (values of the label nvidia.com/gpu.product), least memory first.
        GPUs that clusters usually have follow, unless the cluster adds no other nodes."""
        spec = self.workload.spec
        if not self.facts.snapshot.nodes and "affinity" not in spec:
            return gpu.advice.nameable(spec, solve.PRODUCTS)
        sizes: dict[str, int] = {}
        sorts = self.facts.snapshot.alike(frozenset({gpu.advice.PRODUCT}))
        for label in {one.node.labels.get(gpu.advice.PRODUCT, "") for one in sorts}:
            known = gpu.by_name(label) if label and not label.endswith("-SHARED") else ()
            if known and not any(one.mig for one in known):
                sizes[label] = min(one.memory for one in known)
        there = tuple(sorted(sizes, key=lambda label: (sizes[label], label)))
        closed = bool(there) and self.facts.nodes_closed
        there = tuple(dict.fromkeys((*self.workload.once(_own_labels), *there)))
        others = () if closed else gpu.advice.nameable(spec, solve.PRODUCTS)
        return (*there, *(label for label in others if label not in there))

    def _accompanying_change(self, alternative: solve.Alternative) -> str:
        """What must change together with an alternative, so that following the advice leads to no other denial."""
        mig = self.requested is not None and "/mig-" in self.requested[0]
        if "product" in alternative.changes and mig and self.requested:
            return f" and nvidia.com/gpu instead of {self.requested[0]}"
        if int(alternative.changes.get("gpus") or 1) > 1 and not self.shm.mounted and self.world_size == 1:
            return " and a memory volume at /dev/shm"
        return ""


_SAID = 1 << 16
"""Characters of a container's words that are looked at for one of them, wherever it is."""


def _first_characters(words: Any) -> Any:
    """A text, or the items of a list, cut to `_SAID` characters in all; 4 per item are its quotes and comma."""
    if not isinstance(words, list):
        return words[:_SAID] if isinstance(words, str) else words
    room, found = _SAID, []
    for word in words:
        if room <= 0:
            break
        found.append(word[:room] if isinstance(word, str) else word)
        room -= 4 + (len(word) if isinstance(word, str) else 0)
    return found


def _own_labels(workload: Workload) -> tuple[str, ...]:
    return gpu.advice.own_labels(workload.spec)


@dataclass(frozen=True, slots=True)
class Shm:
    """What is at /dev/shm in the container."""

    size: int | None
    """Bytes; None: no limit of its own (a memory volume without sizeLimit, the host's)."""
    mounted: bool
    """A volume is mounted there, or the Pod shares the host's."""
    path: FieldPath
    """The volume, or the place where one would be declared."""
    mount: Mount | None = None
    """The container's mount, None if none is or the host's is shared."""


CONTAINER_RUNTIME_SHM = 64 * quantity.MI
"""The size that containerd and CRI-O mount at /dev/shm by default (containerd oci/mounts.go `size=65536k`)."""


_CRIO_SIZE = "io.kubernetes.cri-o.ShmSize"
"""The annotation with which CRI-O sizes a Pod's /dev/shm (cri-o pkg/annotations)."""


def _shm(engine: Engine) -> Shm:
    """What is mounted at /dev/shm: its limit and where it comes from."""
    at = engine.workload.path
    if engine.pod("hostIPC") is True or _CRIO_SIZE in engine.workload.annotations:
        return Shm(None, True, at)
    for mount in engine.mounts:
        if mount.path not in (SHM, "/dev"):
            continue
        # On disk, sizeLimit is not a size of the file system but a reason for an eviction.
        limit = (mount.empty_dir or {}).get("sizeLimit") if mount.memory else None
        # 0 is not a limit of its own (kubernetes pkg/volume/emptydir/empty_dir.go, calculateEmptyDirMemorySize).
        return Shm(quantity.try_parse(limit) or None, True, mount.at, mount)
    return Shm(CONTAINER_RUNTIME_SHM, False, at / "volumes")


def read(
    workload: Workload,
    container: Container,
    facts: Facts,
    releases: Releases | None = None,
    budget: WorkLimit | None = None,
    siblings: list[Sibling] | None = None,
    whole: Whole | None = None,
) -> Engine | None:
    """Reads one container; None if it does not run vLLM.

    - `releases`: the policy's settings about vLLM releases
    - `budget`: the limit on the cost of reading the object's scripts
    - `siblings`: the engines of the same Pod that were read before; this one is added
    - `whole`: the whole object
    """
    siblings, whole = [] if siblings is None else siblings, whole or Whole(workload.object)
    read = _read(workload, container, facts, releases, budget, siblings, whole)
    if read is not None:
        port = None if read.command.branched or read.command.guessed else read.port
        host = read.args.get("host")
        known = (read.args, read.release, read.requested, port, host, read.model, read.command.env)
        siblings.append(Sibling(container.name, *known))
    return read


def _read(
    workload: Workload,
    container: Container,
    facts: Facts,
    releases: Releases | None,
    budget: WorkLimit | None,
    siblings: list[Sibling],
    whole: Whole,
) -> Engine | None:
    """The engine of a container; None if it does not start vLLM."""
    found = command.resolve(workload, container, facts.config_maps, budget, whole)
    return None if found is None else _of_command(found, workload, container, facts, releases, siblings, whole)


def with_leaders(engines: Sequence[Engine]) -> list[Engine]:
    """The engines of one object, each joining worker with the one that it joins and with the plan of that on its GPU.

    The leader is the serving engine whose Pod template is nearest in the object. If several are equally near and
    differ in what they serve, it is unknown."""
    if all(one.command.entry != "worker" for one in engines):
        return list(engines)
    serving = [one for one in engines if one.command.entry != "worker" and one.served and one.model is not None]
    return [_joined(one, serving) if one.command.entry == "worker" else one for one in engines]


def _joined(worker: Engine, serving: Sequence[Engine]) -> Engine:
    own = worker.container.path.parts

    def shared(engine: Engine) -> int:
        """How many parts of the two containers' paths are equal; items of one list share nothing more than others."""
        pairs = zip(own, engine.container.path.parts, strict=False)
        equal = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
        return equal - (equal < len(own) and isinstance(own[equal], int))

    most = max(map(shared, serving), default=0)
    nearest = [one for one in serving if shared(one) == most]
    if not nearest or any((one.args.given, one.model) != (nearest[0].args.given, nearest[0].model) for one in nearest):
        return worker
    leader = nearest[0]
    planned = plan.plan(
        leader.args,
        leader.model.value if leader.model else None,
        worker.gpu.value if worker.gpu else None,
        gpu_memory=worker.facts.gpu_memory,
        env=leader.command.env,
        known=worker.facts.measured,
        warm=volumes.keeps_compiled(worker.mounts, worker.command.env),
        vendor=worker.vendor,
    )
    return replace(worker, leader=leader, plan=replace(worker.plan, verdict=planned.verdict, tell=planned.tell))


def next_server(engine: Engine) -> Engine | None:
    """The engine that the script starts when this one has failed; None if it starts no other."""
    if not engine.command.then:
        return None
    first, *then = engine.command.then
    found = replace(first, then=tuple(then))
    read = (engine.workload, engine.container, engine.facts, engine.parsers, engine.siblings, engine.whole)
    return _of_command(found, *read)


def supposing(engine: Engine, release: Release, *, suggests: bool = False) -> Engine:
    """The engine as if its image contained this release: its arguments are read by that release's parser.

    Its plan is still the one of the unknown release, for each way to count memory. `suggests`: unknown flags are
    compared with the known ones."""
    compared, running = engine.whole, engine.command
    if running.program == images.SERVE and release <= images.LAST_WITH_MODULE and not engine.field("command"):
        running = replace(running, entry="module", program=images.MODULE)
    read, given = engine.args, engine.args.given
    if running is engine.command and read.read_as == release:
        read = replace(read, release=release, releases=())
    else:
        read = args.parse(
            running, release, engine.parsers, suggests=lambda: suggests and compared.is_among(_COMPARED, "flags")
        )
        read = replace(read, unheard=engine.args.unheard)  # no release knows them
    its_model = engine.model
    if read.given != given:
        its_model = model.find(read, engine.workload, engine.container, engine.facts)
    return replace(engine, command=running, release=release, args=read, model=its_model, supposed=True)


def _of_command(
    found: Command,
    workload: Workload,
    container: Container,
    facts: Facts,
    releases: Releases | None,
    siblings: Sequence[Sibling],
    whole: Whole,
) -> Engine:
    """A container with this command."""
    image = container.spec.get("image")
    running, vouched, informs = None, False, False
    if found.other:
        pass  # its version numbers are its own
    elif "vllm" in found.changes:
        running = release.parse(found.release) if found.release else None
    elif isinstance(image, str):
        named = release.release_of_image(image, releases.images) if releases and releases.images else None
        if facts.assume.registries:
            named = named or release.in_registry(image, facts.assume.registries)
        running, vouched = named or release.from_image(image), named is not None
        if running is None:
            running = release.named_within(image)
            informs = running is not None
    errors: list[tuple[str, Exception]] = []
    engine_args = _stage(
        "arguments",
        errors,
        lambda: args.parse(found, running, releases, suggests=lambda: whole.is_among(_COMPARED, "flags")),
        EngineArgs(running, open="podfit could not read the arguments"),
    )
    its_model = _stage("model", errors, lambda: model.find(engine_args, workload, container, facts), None)
    placement = gpu.find_placement(
        workload, container, facts.snapshot, adds_tolerations=facts.assume.extended_resource_toleration
    )
    asked = gpu.device_request(workload, container, facts.snapshot)
    requested = asked.resource_and_count
    on_processors = _on_processors(image, requested, engine_args, found.env)
    build = gpu.maker.of_build(image, found.env, engine_args.given.get("device"))
    accelerator = _stage(
        "gpu",
        errors,
        lambda: None if on_processors else gpu.find(workload, container, facts, placement, asked, build),
        None,
    )
    mounted = volumes.mounts(workload, container)
    files = volumes.files(
        workload,
        container,
        engine_args,
        found.env,
        facts.assume.download_bandwidth,
        mounted,
        partial(facts.companions.is_new_claim, workload),
    )
    planned = _stage(
        "plan",
        errors,
        lambda: plan.plan(
            engine_args,
            its_model.value if its_model else None,
            accelerator.value if accelerator else None,
            gpu_memory=facts.gpu_memory,
            env=found.env,
            files=files._replace(disk_rate=rate) if (rate := facts.assume.disk_bandwidth) else files,
            known=facts.measured,
            kv_cache_memory=facts.kv_cache_memory,
            warm=volumes.keeps_compiled(mounted, found.env),
            vendor="" if on_processors else _vendor(requested, image),
        ),
        MemoryPlan("unsure", lambda: "an error in podfit: the memory is not computed", None, None, None),
    )
    made = Engine(
        workload=workload,
        container=container,
        command=found,
        release=running,
        vouched=vouched,
        args=engine_args,
        model=its_model,
        gpu=accelerator,
        requested=requested,
        plan=planned,
        facts=facts,
        placement=placement,
        mounts=mounted,
        siblings=siblings,
        whole=whole,
        errors=tuple(errors),
        parsers=releases,
        informs=informs,
    )
    if found.other:
        why = f"{found.other} is another server, whose memory is not computed"
        return replace(made, plan=MemoryPlan("unsure", lambda: why, None, None, None))
    if on_processors:
        return replace(made, plan=replace(planned, host=_on_host(made), startup=None))
    if _on_gpus(workload, container, made) and not model.is_default(its_model):  # of that, whether it starts will do
        return made
    return replace(made, plan=replace(planned, host=None, startup=None))


def _stage(name: str, errors: list[tuple[str, Exception]], compute: Callable[[], T], fallback: T) -> T:
    """The result of one stage of reading. A bug in it is kept in `errors`, and the rules that do not need it still
    run."""
    try:
        return compute()
    except Exception as error:
        errors.append((name, error))
        return fallback


def _vendor(requested: tuple[str, int | None] | None, image: object) -> str:
    """The maker of the GPUs that the resource names, or that an image of vLLM's ROCm build is for."""
    resource = requested[0] if requested else ""
    if resource.startswith(("amd.com/", "nvidia.com/", "gpu.intel.com/")):
        return resource.removeprefix("gpu.").partition(".")[0]
    return "amd" if gpu.maker.of_image(image) == "amd" else "nvidia"


def _on_host(found: Engine) -> HostLedger | None:
    """The host ledger of the CPU backend."""
    if found.plan.host is None or found.model is None:
        return None
    return cpu.ledger(
        found.plan.host, found.args, found.model.value, found.release, found.command.env, certain=found.model.may_deny
    )


def _on_processors(
    image: object, requested: tuple[str, int | None] | None, args: EngineArgs, env: Mapping[str, str]
) -> bool:
    """It is vLLM's CPU backend, and no device is asked for: then weights and KV cache are host memory."""
    if requested is not None:
        return False
    name = image[: release.LONGEST] if isinstance(image, str) else ""
    told = args.given.get("device") == "cpu" or args.written.get("device") == "cpu"
    told = told or env.get("VLLM_TARGET_DEVICE") == "cpu" or cpu.SPACE in env
    told = told or _CPU_IMAGE.search(name.rpartition(":")[0] or name) is not None
    return told and not any(variable in env for variable in gpu.maker.JAX)


_GPUS = ("nvidia.com/", "amd.com/", "gpu.intel.com/")
_CPU_IMAGE = re.compile(r"(^|[/_-])cpu([/_:.-]|$)")
"""vLLM's builds for processors: vllm-cpu, vllm-openai-cpu, vllm-cpu-release-repo, llm-d-cpu."""


def _on_gpus(workload: Workload, container: Container, found: Engine) -> bool:
    """Processes, memory and start-up time are known of vLLM on GPUs. A TPU's, a Gaudi's or a Neuron core's runtime
    compiles for half an hour and has other processes. Where no device is asked for, a claim, a node's label, an
    operator that brings the resources, or vLLM's own image speak for one."""
    if found.requested is not None:
        return found.requested[0].startswith(_GPUS) or "gpu" in found.requested[0]
    image = container.spec.get("image")
    name = image if isinstance(image, str) else ""
    if any(variable in found.command.env for variable in gpu.maker.JAX):
        return False
    claims = found.field("resources", "claims")
    unsaid = "resources" in workload.completes and not found.field("resources", "limits")
    return bool(claims or found.gpu or unsaid or is_official(name))


def _field(found: Any, parts: tuple[str | int, ...]) -> Any:
    for part in parts:
        if isinstance(found, dict):
            found = found.get(part)
        elif found is None:
            return None
        else:
            found = value_at(found, (part,))
    return found
