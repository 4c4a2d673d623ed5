"""A Pod template and its containers, in any kind of object."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from podfit.base.lazy import cached_property
from podfit.kube.path import FieldPath, is_object, mapping

T = TypeVar("T")
JSON = Mapping[str, Any]
"""A Kubernetes object or a part of one: objects stay dicts, so that no field is lost."""


@dataclass(frozen=True)
class Container:
    """One container of a Pod template."""

    name: str
    """Its name; if the kind has no container of its own, the name that the Pod's container will have."""
    path: FieldPath
    """Its place in the object, or the place that stands for it."""
    spec: JSON
    """The container as in a PodSpec. For kinds without one it is made from the object's fields: `command`, `args`,
    `env`, `resources` as the operator would write them."""
    init: bool = False
    """True for an init container (a restartable one, `restartPolicy: Always`, is a sidecar and still True here)."""
    synthetic: bool = False
    """True if podfit made `spec`: the place of its arguments is `path`, not `path.args[i]`."""
    places: Mapping[str, FieldPath] = field(default_factory=dict)
    """Field of `spec` ("args", "resources", "env", "image" …) → its real place, for the fields that are not under
    `path`. A container that the operator only completes is not synthetic, but has such fields too."""
    inherited_args: int = 0
    """How many items at the beginning of `args` are those of another object, which the field `runtime` names."""
    accelerator: str | None = None
    """The accelerator that the kind demands by a name of its own (Ray's `accelerator_type`)."""

    def place(self, field: str) -> FieldPath:
        """The place of a field of `spec`, in `places` or else under `path`."""
        return self.places.get(field) or self.path / field

    @cached_property
    def resources(self) -> Mapping[str, object]:
        """Resource → its limit, or its request if it has no limit: an extended resource needs its limit, and an absent
        request follows it. The values are as written ("8", 8)."""
        written = mapping(self.spec.get("resources"))
        amounts = {str(name): value for name, value in mapping(written.get("limits")).items()}
        for name, value in mapping(written.get("requests")).items():
            amounts.setdefault(str(name), value)
        return amounts


@dataclass(frozen=True)
class Workload:
    """One Pod template of an object."""

    object: JSON
    """The whole object, unchanged; for a List or a Template, the item."""
    path: FieldPath
    """The place of the PodSpec (`spec` of a Pod, `spec.template.spec` of a Deployment)."""
    metadata: JSON
    """The Pod's metadata: labels and annotations of the template (of the object itself if there is no template)."""
    spec: JSON
    """The PodSpec (`volumes`, `nodeSelector` …). Its containers are in `containers`."""
    containers: tuple[Container, ...]
    completes: frozenset[str] = frozenset()
    """The fields that this kind's operator fills in, so that their absence here means nothing: any of "shm",
    "startup-probe", "liveness-probe", "readiness-probe", "image", "args", "model", "resources", "memory-limit",
    "home", "volumes". What the object gives itself is not in it."""
    pods_per_replica: int | None = 1
    """Pods that serve one model together (LeaderWorkerSet size, Ray head + workers); None if it can't be known."""
    replicas: int | None = None
    """The number of requested replicas; None if the kind has none."""
    owned: bool = False
    """A controller made the object (`controller_of`); its contents were checked at the controller's own object."""
    unfilled: tuple[str, ...] = ()
    """Parameters of a template that have no value here; the fields that use them have `$(NAME)`."""
    defaults: tuple[str, ...] = ()
    """Parameters of a template whose value is a default here: another one may be given when the object is made."""
    aside: tuple[str, ...] = ()
    """The parameters among these that do not change vLLM's command line: replicas, probes, host memory."""
    unread: str | None = None
    """Why fields of the Pod may be others than they seem: something that changes them can't be read."""
    unevaluated: str | None = None
    """A text about the part of a too large object that is not read; None if all is read."""
    template: str = ""
    """Its name, if an object has several named Pod templates."""
    model_uri: str | None = None
    """The source of the weights, if the kind has it outside the container ("hf://Qwen/Qwen3-8B", "pvc://…", "s3://…").
    KServe mounts them at /mnt/models, and vLLM gets only that path."""

    @property
    def kind(self) -> str:
        """The object's kind."""
        return str(self.object.get("kind") or "")

    @property
    def name(self) -> str:
        """The object's name, or its generateName."""
        metadata = mapping(self.object.get("metadata"))
        return str(metadata.get("name") or metadata.get("generateName") or "")

    @property
    def namespace(self) -> str | None:
        """The object's namespace, None if it does not say."""
        namespace = mapping(self.object.get("metadata")).get("namespace")
        return str(namespace) if namespace else None

    @cached_property
    def _once(self) -> dict[Callable[[Workload], Any], Any]:
        return {}

    def once(self, of: Callable[[Workload], T]) -> T:
        """Return `of(self)`, computed once and cached by the function: the workload may have many containers."""
        known = self._once
        if of not in known:
            known[of] = of(self)
        return known[of]  # type: ignore[no-any-return]

    @cached_property
    def annotations(self) -> Mapping[str, str]:
        """The annotations of the object and of its Pod, whose value wins if both have one."""
        of_object = mapping(mapping(self.object.get("metadata")).get("annotations"))
        of_pod = mapping(self.metadata.get("annotations"))
        return Annotations(of_object, of_pod) if of_object or of_pod else {}

    @cached_property
    def volumes(self) -> Mapping[str, int]:
        """Name of a volume → its index in the list `volumes`; of several with one name, the first."""
        entries: dict[str, int] = {}
        for index, volume in enumerate(as_list(self.spec.get("volumes"))):
            if isinstance(name := mapping(volume).get("name"), str):
                entries.setdefault(name, index)
        return entries

    @cached_property
    def claims(self) -> Mapping[str, FieldPath]:
        """Name → place of each of a StatefulSet's volumeClaimTemplates; empty for other kinds. A claim takes precedence
        over the template's volume of the same name."""
        templates = mapping(self.object.get("spec")).get("volumeClaimTemplates")
        if self.path.parts[-2:] != ("template", "spec") or not isinstance(templates, list):
            return {}
        place = FieldPath(self.path.parts[:-2]) / "volumeClaimTemplates"
        names = [str(mapping(mapping(template).get("metadata")).get("name")) for template in templates]
        return {name: place / index for index, name in enumerate(names)}

    @cached_property
    def resource_claims(self) -> Mapping[str, JSON]:
        """Name of a claim → its entry in the list `resourceClaims`."""
        items = [item for item in as_list(self.spec.get("resourceClaims")) if is_object(item)]
        return {str(item.get("name")): item for item in items}

    @cached_property
    def by_name(self) -> Mapping[str, Container]:
        """Name of a container → the first that has it."""
        return {container.name: container for container in reversed(self.containers)}

    @cached_property
    def init(self) -> bool:
        """There are init containers."""
        return any(container.init for container in self.containers)


class Annotations(Mapping[str, str]):
    """An object's own annotations beneath its Pod's: looked up one by one, since an object may have thousands of them
    and hundreds of templates."""

    def __init__(self, own: JSON, its: JSON) -> None:
        self._own, self._its = own, its

    def __getitem__(self, key: str) -> str:
        return str(self._its[key] if key in self._its else self._own[key])

    def __contains__(self, key: object) -> bool:
        return key in self._its or key in self._own

    def __iter__(self) -> Iterator[str]:
        yield from map(str, self._its)
        yield from (str(key) for key in self._own if key not in self._its)

    def __len__(self) -> int:
        return len({*self._own, *self._its})

    def __bool__(self) -> bool:
        return bool(self._own or self._its)


PROBES = frozenset({"startup-probe", "liveness-probe", "readiness-probe"})
"""Words of `Workload.completes` that go together."""
MAX_COUNT_DIGITS = 9
"""Digits of a count: all numbers of nine digits are in int32."""

Refine = Callable[[JSON, list[Workload]], list[Workload]]
"""Code for what a table can't express: (object, its Pod templates by the table) → the operator's Pod templates."""


def containers_of(spec: JSON, path: FieldPath) -> Iterator[Container]:
    """The containers and init containers of a PodSpec at `path`."""
    for key, init in (("containers", False), ("initContainers", True)):
        if items := as_list(spec.get(key)):
            for at, container in zip((path / key).items(len(items)), items, strict=False):
                if is_object(container):
                    yield Container(str(container.get("name") or ""), at, container, init)


def as_list(value: object) -> list[Any]:
    """The value if it is a list, else an empty list."""
    return value if isinstance(value, list) else []


def replica_count(value: object) -> int | None:
    """A count in a manifest, also as a text. None if it is not a count (a placeholder, a negative number), or has more
    digits than MAX_COUNT_DIGITS."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    text = str(value)
    is_count = text.isascii() and text.isdigit() and len(text) <= MAX_COUNT_DIGITS
    return int(text) if is_count else None
