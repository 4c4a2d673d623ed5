"""Any Kubernetes object → the Pod templates in it, and the containers of each.

A table has for each kind the places of its Pod templates, and the fields that its operator fills in later. If a kind
has no container of its own (a KServe model, a RayService's engine), this package makes the operator's container.
Nothing here plans memory or reads vLLM's flags.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from podfit.base.lazy import cached_property
from podfit.kube import manifest
from podfit.kube.manifest.parameters import Filled
from podfit.kube.path import FieldPath, group_and_kind, is_object, mapping, value_at
from podfit.kube.workload.controller import controller_of
from podfit.kube.workload.table import WORKLOAD_KINDS, KindRow, Pods
from podfit.kube.workload.template import JSON, Container, Workload, as_list, containers_of, replica_count

__all__ = ["JSON", "CachedObject", "Container", "Workload", "as_list", "controller_of", "find", "replica_count"]

T = TypeVar("T")
MAX_LIST_DEPTH = 8
"""Levels of Lists in Lists that are read. A choice: tools write one."""


class CachedObject:
    """An object, and values that are computed once for all of its Pod templates.

    It may have hundreds of templates, and each container may need a value of the whole object."""

    def __init__(self, obj: JSON, workloads: list[Workload] | None = None) -> None:
        """`workloads`: its Pod templates, for a caller who has them."""
        self.object = obj
        self._given_workloads = workloads
        self._known: dict[object, Any] = {}
        """Key → value, as `once` has computed it."""
        self._counted: Counter[str] = Counter()
        """Number of uses, as `take_one_of` counts them."""

    @cached_property
    def workloads(self) -> list[Workload]:
        """Every Pod template of the object."""
        return find(self.object) if self._given_workloads is None else self._given_workloads

    def once(self, of: Callable[[CachedObject], T], key: object = None) -> T:
        """Return `of(self)`, computed once and cached by `key`, or by the function itself. `key`: for a lambda or a
        bound method, which is a new object each time."""
        key = key or of
        if key not in self._known:
            self._known[key] = of(self)
        return self._known[key]  # type: ignore[no-any-return]

    def take_one_of(self, limit: int, what: str) -> bool:
        """Count one more use of `what`; True for the first `limit` uses, whichever of the containers makes them."""
        self._counted[what] += 1
        return self._counted[what] <= limit


def find(obj: JSON, kinds: Mapping[str, Sequence[str]] | None = None) -> list[Workload]:
    """Every Pod template of `obj`; empty for kinds that make no Pods. Never raises on odd shapes.

    `kinds`: further kinds, "Kind.group" ("Kind" for the core group) → where their PodSpecs are, as field paths in which
    `*` stands for every item ("spec.roles.*.template.spec").
    """
    workloads_of_all: list[Workload] = []
    for root, item in _objects(obj, _ROOT, 0):
        group, kind = group_and_kind(item)
        row = WORKLOAD_KINDS.get((group, kind))
        if row is None and kinds is not None:
            paths = kinds.get(f"{kind}.{group}" if group else kind) or ()
            row = KindRow(tuple(Pods(path) for path in ([paths] if isinstance(paths, str) else paths)))
        if row is not None:
            workloads = _workloads(item, row)
            workloads_of_all += [_with_root(root, workload) for workload in workloads] if root.parts else workloads
    return workloads_of_all


_ROOT = FieldPath()


def _workloads(obj: JSON, kind_row: KindRow) -> list[Workload]:
    """The Pod templates of one object, by the row of its kind; paths are relative to the object. A place without a
    PodSpec has none. Each gets the object's parameters, and whether a controller owns the object."""
    metadata = mapping(obj.get("metadata"))
    workloads = []
    for pods in kind_row.pods:
        for path, keys in _matching_places(obj, pods.path):
            spec = path.get(obj)
            if not is_object(spec):
                continue
            replicas = _fill_stars(pods.replicas, keys).get(obj) if pods.replicas else None
            size = _fill_stars(pods.size, keys).get(obj) if pods.size else None
            workloads.append(
                Workload(
                    object=obj,
                    path=path,
                    metadata=_pod_metadata(obj, path, metadata),
                    spec=spec,
                    containers=tuple(containers_of(spec, path)),
                    completes=kind_row.completes,
                    pods_per_replica=1 if size is None else replica_count(size),
                    replicas=replica_count(replicas),
                )
            )
    if kind_row.refine is not None:
        workloads = kind_row.refine(obj, workloads)
    if isinstance(obj, Filled):
        workloads = [
            replace(
                workload,
                unfilled=(*obj.unfilled, *workload.unfilled),
                defaults=(*obj.defaults, *workload.defaults),
                aside=(*obj.aside, *workload.aside),
            )
            for workload in workloads
        ]
    owned = metadata.get("ownerReferences") is not None and controller_of(obj) is not None
    return [_with_owner_fields(workload, kind_row.main, owned) for workload in workloads]


def _with_owner_fields(workload: Workload, main: str, owned: bool) -> Workload:
    """The workload with `completes` less the fields that the object sets itself, and with `owned`. `main`: the name of
    the container that the operator completes."""
    completes = _fields_left_to_operator(workload, main) if workload.completes else workload.completes
    if completes == workload.completes and owned == workload.owned:  # of most: a copy takes time
        return workload
    return replace(workload, completes=completes, owned=owned)


def _pod_metadata(obj: JSON, path: FieldPath, own: JSON) -> JSON:
    """The `metadata` next to a PodSpec, empty if there is none; the object's own (`own`) if the PodSpec is not the
    `spec` of a template."""
    if path.parts[-1:] != ("spec",):
        return own
    return mapping(value_at(obj, (*path.parts[:-1], "metadata")))


_GIVEN = {
    "image": FieldPath(("image",)),
    "startup-probe": FieldPath(("startupProbe",)),
    "liveness-probe": FieldPath(("livenessProbe",)),
    "readiness-probe": FieldPath(("readinessProbe",)),
    "memory-limit": FieldPath(("resources", "limits", "memory")),
}
"""Word of `Workload.completes` → the field of a container that the object may set itself."""


def _fields_left_to_operator(workload: Workload, main: str) -> frozenset[str]:
    """The fields that the operator completes, without those that the object sets itself in the container `main`, or in
    the first one if none has this name."""
    containers = [container for container in workload.containers if not container.init]
    if not containers:
        return workload.completes
    completed = next((container for container in containers if container.name == main), containers[0])
    set_by_object = {word for word, path in _GIVEN.items() if path.get(completed.spec)}
    return workload.completes - set_by_object


def _objects(obj: object, path: FieldPath, depth: int) -> Iterator[tuple[FieldPath, JSON]]:
    """(place, object) of `obj`, or of each object in a List or an OpenShift Template, in up to MAX_LIST_DEPTH levels of
    them. Nothing for a value that is not an object. `path`, `depth`: the place of `obj`, and the Lists that it is
    in."""
    if not is_object(obj) or depth > MAX_LIST_DEPTH:
        return
    inner = manifest.list_items(obj)
    if inner is None:
        yield path, obj
        return
    for place, item in inner:
        yield from _objects(item, path.join(*place.parts), depth + 1)


def _with_root(root: FieldPath, workload: Workload) -> Workload:
    """The workload of an item of a List, with all paths relative to the List: `root` is the item's place in it."""
    return replace(
        workload,
        path=root.join(*workload.path.parts),
        containers=tuple(
            replace(
                container,
                path=root.join(*container.path.parts),
                places={key: root.join(*place.parts) for key, place in container.places.items()},
            )
            for container in workload.containers
        ),
    )


class _Place(NamedTuple):
    """A place that fits a pattern."""

    path: FieldPath
    keys: tuple[str | int, ...] = ()
    """The keys and indices in the place of the `*` of the pattern, in their order."""


def _matching_places(obj: Any, pattern: str) -> Sequence[_Place]:
    """Each place that fits `pattern` ("spec.jobs.*.template"); every item of `obj` there stands for a `*`. The place of
    a pattern without `*` may not exist."""
    if "*" not in pattern:
        return _single_place(pattern)
    places = [_Place(_ROOT)]
    for part in _pattern_path(pattern).parts:
        if part != "*":
            places = [_Place(path / part, keys) for path, keys in places]
        else:
            places = [_Place(path / key, (*keys, key)) for path, keys in places for key in _child_keys(path.get(obj))]
    return places


@lru_cache(1024)  # the table's patterns, and a policy's
def _single_place(pattern: str) -> Sequence[_Place]:
    """The one place that a pattern without `*` names."""
    return (_Place(_pattern_path(pattern)),)


@lru_cache(1024)
def _pattern_path(pattern: str) -> FieldPath:
    """A pattern ("spec.jobs.*.template") as a path, `*` included."""
    return FieldPath(tuple(pattern.split(".")))


def _fill_stars(pattern: str, keys: tuple[str | int, ...]) -> FieldPath:
    """`pattern` with its `*` replaced by `keys`, in their order; a `*` for which no key is left stays."""
    if not keys:
        return _pattern_path(pattern)
    remaining_keys = iter(keys)
    parts = [next(remaining_keys, part) if part == "*" else part for part in _pattern_path(pattern).parts]
    return FieldPath(tuple(parts))


def _child_keys(value: object) -> Iterable[str | int]:
    """The keys of an object or the indices of a list; none for other values."""
    if isinstance(value, Mapping):
        return [str(key) for key in value]
    return range(len(value)) if isinstance(value, list) else ()
