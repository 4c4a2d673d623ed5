"""Objects that apply to every manifest of one input, in any folder.

Objects of the cluster (nodes, namespaces, classes) apply in all folders; a ConfigMap is found by its namespace and
name. Folders may define the same object differently, as overlays do. Then each folder uses its own definition; for
other folders the object is unknown, and a note reports that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from podfit.kube import snapshot
from podfit.kube.companions import config_map_names
from podfit.kube.path import mapping
from podfit.kube.snapshot import Snapshot
from podfit.kube.workload import JSON


class PlacedObject(NamedTuple):
    """An object with its file and folder."""

    file: str
    folder: str
    object: JSON


@dataclass(frozen=True)
class Everywhere:
    """All objects of the input."""

    held: Sequence[PlacedObject]

    @property
    def snapshot(self) -> Snapshot:
        """The cluster's objects that nothing contradicts."""
        return self._snapshot_and_contradictions[0]

    @property
    def contradictions(self) -> Sequence[str]:
        """A line per object that is left out of the snapshot, with the reason."""
        return self._snapshot_and_contradictions[1]

    @cached_property
    def _snapshot_and_contradictions(self) -> tuple[Snapshot, tuple[str, ...]]:
        """The cluster's objects of all files, without those that files define differently, and a line about each of
        these."""
        definitions: dict[tuple[str, snapshot.Key], dict[str, JSON]] = {}  # kind, key → file → object
        for file, _, obj in self.held:
            kind = snapshot.of_cluster(obj)
            if kind is not None:
                definitions.setdefault((kind, snapshot.key(obj)), {})[file] = obj
        kept: list[tuple[str, JSON]] = []
        texts: list[str] = []
        is_node_lost = False
        for (kind, (_, name)), by_file in definitions.items():
            first_file, first_object = next(iter(by_file.items()))
            first_reduced = snapshot.from_objects([first_object]).objects.get(kind)
            other_files = [
                file for file, obj in by_file.items() if snapshot.from_objects([obj]).objects.get(kind) != first_reduced
            ]
            if not other_files:
                kept.append((kind, first_object))
                continue
            is_node_lost = is_node_lost or kind == "nodes"
            texts.append(_contradiction(f"{first_object.get('kind')} {name}", first_file, other_files[0]))
        if is_node_lost:  # the others are not all nodes of the cluster, so none is known
            kept = [(kind, obj) for kind, obj in kept if kind != "nodes"]
        return snapshot.from_objects(obj for _, obj in kept), tuple(texts)

    @cached_property
    def _config_maps(self) -> Mapping[str, Sequence[PlacedObject]]:
        """Name → the ConfigMaps of that name."""
        entries: dict[str, list[PlacedObject]] = {}
        for placed_object in self.held:
            if placed_object.object.get("kind") == "ConfigMap" and placed_object.object.get("apiVersion") == "v1":
                entries.setdefault(snapshot.key(placed_object.object)[1], []).append(placed_object)
        return entries

    def config_maps(
        self, folder: str, objects: Sequence[JSON], own: Mapping[str, JSON]
    ) -> tuple[dict[str, JSON], list[str]]:
        """Name → ConfigMap for the `objects` of a file, including its `own`; and notes on those that other files define
        differently, which are left out. A ConfigMap in the file's folder comes before others."""
        config_maps, texts = dict(own), list[str]()
        if not self._config_maps:
            return config_maps, texts
        missing: set[str] = set()
        namespaces: set[str] = set()  # of the objects that refer to a ConfigMap
        for obj in objects:
            names = config_map_names(obj)
            if names:
                missing |= names - own.keys()
                namespaces.add(snapshot.key(obj)[0])
        for name in sorted(missing):
            candidates = [placed for placed in self._config_maps.get(name, ()) if _may_be_in(placed.object, namespaces)]
            candidates = [placed for placed in candidates if placed.folder == folder] or candidates
            if not candidates:
                continue
            first = candidates[0]
            different = [placed for placed in candidates if _data(placed.object) != _data(first.object)]
            if different:
                texts.append(_contradiction(f"ConfigMap {name}", first.file, different[0].file))
            else:
                config_maps[name] = first.object
        return config_maps, texts


def _contradiction(title: str, file: str, other_file: str) -> str:
    """The line that says that an object ("ConfigMap env") is left out, since two files define it differently, or one
    does twice."""
    where = f"twice in {file}" if file == other_file else f"in {file} and {other_file}"
    return f"{title} is defined differently {where}: it is unknown to files without their own definition"


def _may_be_in(obj: JSON, namespaces: Iterable[str]) -> bool:
    """True if the object names no namespace, or the only one of `namespaces`. A tool that applies a file may add the
    namespace to all of its objects, hardly to some."""
    own = snapshot.key(obj)[0]
    return not own or all(own == namespace for namespace in namespaces)


def _data(obj: JSON) -> tuple[JSON, JSON]:
    """A ConfigMap's texts and bytes."""
    return mapping(obj.get("data")), mapping(obj.get("binaryData"))
