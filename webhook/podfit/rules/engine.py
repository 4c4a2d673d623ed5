"""One vLLM container, read: what every rule looks at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from podfit.base.lazy import cached_property
from podfit.kube import quantity
from podfit.kube.path import FieldPath, is_object, value_at
from podfit.kube.workload import CachedObject, Container, Workload
from podfit.kube.workload.template import as_list
from podfit.rules.devices import is_on_processors, vendor_of
from podfit.rules.shm import Shm, shm_of
from podfit.vllm import change, gpu, group, release, volumes
from podfit.vllm.args import EngineArgs, Releases
from podfit.vllm.change import Change, Suggestion
from podfit.vllm.command import Command
from podfit.vllm.facts import Fact, Facts
from podfit.vllm.gpu import Accelerator, Placement
from podfit.vllm.group import Replica
from podfit.vllm.measured import HARMLESS
from podfit.vllm.memory import doubt, parallel, solve, v0_fallback
from podfit.vllm.memory.ledger import MemoryPlan
from podfit.vllm.memory.partition import Candidate, Partition, partition
from podfit.vllm.memory.probable import probable_changes
from podfit.vllm.memory.search import with_changes
from podfit.vllm.model import Model
from podfit.vllm.release import Release, is_official
from podfit.vllm.volumes import Mount

T = TypeVar("T")
PARALLEL = frozenset({
    "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "data_parallel_rank", "nnodes",
})  # fmt: skip
"""Arguments that decide how many processes run, and where."""
_SEARCHES = 32
"""Searches for changes that fit, of all containers of one object: more suggestions do not help."""
DEFAULT_PORT = 8000
"""vLLM's default of `--port`."""
NVIDIAS = "nvcr.io/nvidia/vllm:"
"""An image whose release notes say "effectively --gpu-memory-utilization≈1.0" by default
(docs.nvidia.com/deeplearning/frameworks/vllm-release-notes/rel-25-10.html, Known Issues)."""


_NO_VARIABLES: Mapping[str, str] = {}


class Variable(NamedTuple):
    """An entry of a container's `env`."""

    position: int
    """Its index in the list, whose items without a name have no `Variable`."""
    name: str
    value: Any
    """As it is written, a text if the object is valid; None if it comes from elsewhere (`valueFrom`)."""


class Sibling(NamedTuple):
    """The fields of an engine that the other engines of its Pod use.

    It is not an `Engine`: an engine that held itself would be a cycle. Each review would then leave some hundred
    objects to Python's garbage collector, whose runs delay the slowest reviews."""

    container: str
    args: EngineArgs
    release: Release | None
    requested: tuple[str, int | None] | None
    """As `Engine.requested`."""
    port: int | None = None
    """The port on which it answers HTTP on every path through its script; None if there is none or it is unknown."""
    host: object = None
    """The value of `--host`; None if it is not set."""
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
    cached_object: CachedObject = field(compare=False, repr=False)
    """The object that it is in."""
    placement: Placement | None = None
    """The live nodes on which the Pod may run; None if nodes are not known."""
    mounts: tuple[Mount, ...] = ()
    """The mounts of the container."""
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
        """Return `of(self)`, computed once and cached by the function: for helpers that several rules share."""
        results = self._once
        if of in results:
            return results[of]  # type: ignore[no-any-return]
        value = results[of] = of(self)
        return value

    def at(self, *parts: str | int) -> FieldPath:
        """The path in the object of a field of the container: `at("resources", "limits", "memory")`.

        Of a container that an operator makes, it is where the object sets the field, else the part of the object from
        which the container is made."""
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
        return _value_at(self.container.spec, parts)

    def pod(self, *parts: str | int) -> Any:
        """A field of the PodSpec, None if absent."""
        return _value_at(self.workload.spec, parts)

    @cached_property
    def raw_command(self) -> str:
        """`command` and `args` as one text, for rules that look for a word wherever it is. Of each only the first
        `MAX_SEARCHED_CHARACTERS` count, which are more than a person writes."""
        return f"{_first_characters(self.field('command'))} {_first_characters(self.field('args'))}"

    @cached_property
    def variables(self) -> list[Variable]:
        """The entries of the container's `env` that have a name."""
        env_list = enumerate(as_list(self.container.spec.get("env")))
        return [
            Variable(index, name, item.get("value"))
            for index, item in env_list
            if (isinstance(item, dict) or is_object(item)) and isinstance(name := item.get("name"), str)
        ]

    @cached_property
    def declared(self) -> frozenset[str]:
        """The names of the variables in the container's `env`, whether or not their values can be seen."""
        return frozenset([variable.name for variable in self.variables])

    @cached_property
    def served(self) -> bool:
        """True if the container answers HTTP on a port (a follower or a joining worker does not)."""
        return self.command.serves and not self.args.get("headless")

    @property
    def pulls_newest(self) -> bool:
        """True if the image names no release, and is replaced with each one (`latest`)."""
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
        vendors = {gpu.vendor.lower() for gpu in self.gpu.value.gpus} if self.gpu else set()
        return vendors.pop() if len(vendors) == 1 else vendor_of(self.requested, self.field("image"))

    @cached_property
    def memory_limit(self) -> int | None:
        """Bytes of host memory that the container may use: the smaller of its own and the Pod's limit (Kubernetes 1.32
        and newer). None without a limit."""
        own = quantity.try_parse(self.field("resources", "limits", "memory"))
        pod = quantity.try_parse(self.pod("resources", "limits", "memory"))
        return min((limit for limit in (own, pod) if limit), default=None)  # 0 is not a limit

    @cached_property
    def memory_request(self) -> int | None:
        """Bytes of host memory that are reserved for the container: the request, or the limit if only that is given.
        None without either, and for a value that is not a quantity."""
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
        """The mount or default at /dev/shm, and its size."""
        return shm_of(self.workload, self.mounts)

    @cached_property
    def port(self) -> int | None:
        """The HTTP port; None if it can't be known or there is none.

        vLLM's default is only taken where vLLM itself is the program: a wrapper or a foreign image's entrypoint may
        have a default of its own.
        """
        get = self.args.get
        if not self.served or get("uds") or get("grpc") or get("data_parallel_multi_port_external_lb"):
            return None
        if self.args.open or "port" in self.args.unresolved or self.command.own_flags:
            return None
        port = self.args.given.get("port")
        if port is not None:
            return port if isinstance(port, int) else None
        image = self.field("image")
        is_vllms = self.field("command") or (isinstance(image, str) and is_official(image))
        return DEFAULT_PORT if is_vllms else None

    @cached_property
    def spans_pods(self) -> bool:
        """True if the engine's processes are, or may be, in more than one Pod: the object, Ray or `--nnodes` says so,
        or an argument of `PARALLEL` has an unknown value."""
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
        return group.group_of(self.workload, self.container, self.cached_object)

    @cached_property
    def alone(self) -> bool:
        """True if the whole engine runs in this one Pod, and no other Pod can join it.

        It does not span Pods, or its group is closed and has this Pod alone."""
        get = self.args.get
        if not self.spans_pods:
            return True
        if self.group is None or self.group.pods != 1 or not self.group.closed:
            return False
        return (
            get("distributed_executor_backend") != "external_launcher"
            and (get("nnodes") or 1) == 1
            and not get("headless")
            and "RAY_ADDRESS" not in self.command.env
            and PARALLEL.isdisjoint(self.args.unresolved)
        )

    @property
    def unseen(self) -> str | None:
        """The reason why even a number that follows from the arguments alone, such as that of the processes, is not
        certain; None if such numbers are."""
        unknown = [dest for dest in self.args.unresolved if dest not in HARMLESS]
        if unknown:
            return f"--{unknown[0].replace('_', '-')} can't be known: {self.args.unresolved[unknown[0]]}"
        return doubt.of_arguments(self.args)

    @cached_property
    def doubt(self) -> str | None:
        """The reason why nothing that is computed from the arguments and the model is certain; None if it is."""
        if why := self.unseen:
            return why
        if why := doubt.reason_unplannable(self.args, self.model.value if self.model else None, self.command.env):
            return why
        if "vllm" in self.command.changes and self.release is not None:
            return f"whether the vLLM that runs is {self.release} is the script's matter"  # it may install another
        image = self.field("image")
        if isinstance(image, str) and NVIDIAS in image and "gpu_memory_utilization" not in self.args.given:
            return "NVIDIA's build of vLLM may use another share of the GPU memory by default"
        return None

    @cached_property
    def v0_reason(self) -> str | None:
        """The reason why vLLM starts its V0 engine although V1 is the default, for people; None if it does not, or the
        plan is unknown."""
        resolved = self.plan.resolved
        if resolved is None or resolved.settings.v1 or self.model is None:
            return None
        gpu = self.gpu.value.gpus[0] if self.gpu and self.gpu.value.gpus else None
        return v0_fallback.reason(self.args, self.model.value, self.command.env, self.release, gpu)

    @property
    def weights_doubtful(self) -> str | None:
        """The reason why the model's size or format is uncertain, as "doubtful: …"; None if both are certain.

        None, too, if only the context length or the KV heads are uncertain, and if the model is unknown."""
        if self.model is None:
            return None
        if not self.model.value.storage_known:
            return f"doubtful: {self.model.value.unknown}"
        why = self.model.source.partition("; doubtful: ")[2]  # "" if the source has no doubt
        is_of_cache = why.startswith(("its length", "num_key_value_heads"))
        return f"doubtful: {why}" if why and not is_of_cache else None

    @cached_property
    def on_processors(self) -> bool:
        """True if it is vLLM's CPU backend, which the ledger of GPU memory does not describe."""
        return is_on_processors(self.field("image"), self.requested, self.args, self.command.env)

    @cached_property
    def candidates(self) -> tuple[Candidate, ...]:
        """The GPUs that the container may get: as named, else those of nodes whose labels name one, else the table's.

        The table's are left out while a review waits (`Facts.plans_table`), as they take long to plan: the result is
        then empty."""
        if self.gpu is not None:
            kinds = gpu.on_nodes(self.gpu, self.placement, self.workload)
            return tuple([Candidate(product, kind.shared) for kind, _ in kinds for product in kind.gpus])
        if self.placement is not None and self.placement.kinds:
            return tuple([Candidate(product, kind.shared) for kind in self.placement.kinds for product in kind.gpus])
        if not self.facts.plans_table:
            return ()
        request = gpu.device_request(self.workload, self.container, self.facts.snapshot)
        build = gpu.maker.of_build(self.field("image"), self.command.env, self.args.given.get("device"))
        shared = gpu.shared_by_resource(self.requested[0] if self.requested else None, self.workload)
        return tuple(
            [Candidate(product, shared) for product in gpu.of_table(self.workload, self.container, request, build)]
        )

    @cached_property
    def gpus(self) -> Partition | None:
        """The candidates by their plans, with one release (`planned_gpus`)."""
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
            measured_starts=self.facts.measured,
            kv_cache_memory=self.facts.kv_cache_memory,
        )

    @cached_property
    def alternatives(self) -> tuple[Suggestion, ...]:
        """Changes that would fit the GPU, computed by the planner that found no fit: best first."""
        return self.describe(self._certain)

    @cached_property
    def _certain(self) -> tuple[solve.Alternative, ...]:
        """The changes that certainly fit, best first, without texts for people; empty as for `changes`."""
        return tuple(self.changes())

    @cached_property
    def probable(self) -> tuple[Change, ...]:
        """Changes that likely fit the GPU, though not certainly, and give up less than those of `alternatives`. Empty
        as for `changes`."""
        if self.model is None or self.gpu is None or self.facts.kv_cache_memory is not None:
            return ()
        if not self.cached_object.take_one_of(_SEARCHES, "searches"):
            return ()
        alternatives = probable_changes(
            self.args, self.model.value, self.gpu.value,
            certain=self._certain, gpu_memory=self.facts.gpu_memory, env=self.command.env,
            warm=volumes.keeps_compiled(self.mounts, self.command.env),
        )  # fmt: skip
        return tuple(change.flags(*alternative.flags) for alternative in alternatives)

    def describe(self, changes: Iterable[solve.Alternative]) -> tuple[Suggestion, ...]:
        """Changes as suggestions: in the words of this Pod, and with what must change besides."""
        suggestions = map(self._suggestion, changes)
        return tuple([suggestion for suggestion in suggestions if suggestion is not None])

    def _suggestion(self, alternative: solve.Alternative) -> Suggestion | None:
        """The change with this Pod's own selectors; None if its cloud has no machine with so many GPUs. It is a
        `Change` if programs can make it, else a text."""
        product, count = alternative.changes.get("product"), int(alternative.changes.get("gpus") or 0)
        also = self._accompanying_change(alternative)
        by_claim = self.requested is not None and gpu.CLAIM in self.requested[0]  # a claim selects the GPU
        if product:
            return self._of_product(alternative, product, count, by_claim=by_claim)
        if count and self.gpu is not None and not by_claim:
            machine = gpu.advice.of_count(self.workload.spec, self.gpu.value.gpus, count)
            if machine is None:
                return None
            also = machine + also
        if also or alternative.changes_output:
            return alternative.text + also
        return Change(alternative.text, flags=alternative.flags, gpus=count)

    def _of_product(self, alternative: solve.Alternative, product: str, count: int, *, by_claim: bool) -> Suggestion:
        """The suggestion of another GPU: its label `product`, with `count` GPUs (0: as many as now), and the other
        changes of the alternative. `by_claim`: the Pod has a resource claim in place of a node selector."""
        amount = count or (self.requested[1] if self.requested else None) or 1
        node = f"a claim for {product}" if by_claim else gpu.advice.of_product(self.workload.spec, product, amount)
        also = self._accompanying_change(alternative)
        if not alternative.flags and not also:
            return node
        texts = [
            str(node) if dest == "product" else solve.flag(dest, value)
            for dest, value in alternative.changes.items()
            if dest != "gpus"
        ]
        gpus = f"{count} GPUs with " if count else ""
        return f"{gpus}{' and '.join(texts)}{also}"

    def changes(
        self, *, most: int = solve.MAX_SUGGESTIONS, steps: int = solve.MAX_PLANS, also: Mapping[str, Any] | None = None
    ) -> list[solve.Alternative]:
        """At most `most` changes that would fit, best first, found with at most `steps` plans. `also`: changes (dest →
        value) that are made with each of them.

        Empty if the model or the GPU is unknown, for a measured KV cache, and after `_SEARCHES` searches."""
        if self.model is None or self.gpu is None or self.facts.kv_cache_memory is not None:
            return []  # the KV cache memory that one engine had does not apply to another
        if not self.cached_object.take_one_of(_SEARCHES, "searches"):
            return []
        args = with_changes(self.args, also or {})
        return solve.alternatives(
            args, self.model.value, self.gpu.value, gpu_memory=self.facts.gpu_memory, env=self.command.env,
            products=self.products, most=most, steps=steps,
        )  # fmt: skip

    @property
    def products(self) -> tuple[str, ...]:
        """Values of the label nvidia.com/gpu.product to suggest: those that the Pod names itself, then those of the
        cluster's nodes. GPUs that clusters usually have follow, unless the cluster adds no other nodes."""
        spec = self.workload.spec
        usual = gpu.advice.nameable(spec, solve.PRODUCTS)
        if not self.facts.snapshot.nodes and "affinity" not in spec:
            return usual
        of_nodes = self._products_of_nodes()
        labels = (*self.workload.once(_own_labels), *of_nodes)
        if not (of_nodes and self.facts.nodes_closed):
            labels = (*labels, *usual)
        return tuple(dict.fromkeys(labels))

    def _products_of_nodes(self) -> list[str]:
        """The labels (nvidia.com/gpu.product) of the cluster's nodes with whole GPUs that podfit knows, least memory
        first."""
        sizes: dict[str, int] = {}  # label → bytes
        for alike in self.facts.snapshot.alike(frozenset({gpu.advice.PRODUCT})):
            label = alike.node.labels.get(gpu.advice.PRODUCT, "")
            known = gpu.by_name(label) if label and not label.endswith("-SHARED") else ()  # time slices of a GPU
            if known and not any(product.mig for product in known):
                sizes[label] = min(product.memory for product in known)
        return sorted(sizes, key=lambda label: (sizes[label], label))

    def _accompanying_change(self, alternative: solve.Alternative) -> str:
        """The text of a change that must be made together with an alternative to avoid another denial; empty if
        none."""
        resource = self.requested[0] if self.requested else ""
        if "product" in alternative.changes and "/mig-" in resource:
            return f" and nvidia.com/gpu instead of {resource}"
        becomes_parallel = int(alternative.changes.get("gpus") or 1) > 1 and self.world_size == 1
        if becomes_parallel and not self.shm.mounted:
            return " and a memory volume at /dev/shm"
        return ""


MAX_SEARCHED_CHARACTERS = 1 << 16
"""Characters of a container's command that are searched for a word, so that a review of a huge one stays fast."""
_SEPARATOR_CHARACTERS = 4
"""Characters that each item of a list adds to its text: two quotes, a comma and a blank."""


def _first_characters(value: Any) -> Any:
    """Return a text, or the first items of a list, cut to about `MAX_SEARCHED_CHARACTERS` in all; other values as they
    are."""
    if isinstance(value, str):
        return value[:MAX_SEARCHED_CHARACTERS]
    if not isinstance(value, list):
        return value
    left, first = MAX_SEARCHED_CHARACTERS, []
    for word in value:
        if left <= 0:
            break
        first.append(word[:left] if isinstance(word, str) else word)
        left -= _SEPARATOR_CHARACTERS + (len(word) if isinstance(word, str) else 0)
    return first


def _own_labels(workload: Workload) -> tuple[str, ...]:
    """The GPU labels that the Pod names itself."""
    return gpu.advice.own_labels(workload.spec)


def _value_at(value: Any, parts: tuple[str | int, ...]) -> Any:
    """The value at a path of keys and indices below `value`; None if a part is missing."""
    for part in parts:
        if isinstance(value, dict):
            value = value.get(part)
        elif value is None:
            return None
        else:
            value = value_at(value, (part,))
    return value
