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
        entries: dict[tuple[str, snapshot.Key], dict[str, JSON]] = {}
        for file, _, obj in self.held:
            kind = snapshot.of_cluster(obj)
            if kind is not None:
                entries.setdefault((kind, snapshot.key(obj)), {})[file] = obj
        kept, texts, lost = [], [], set()
        for (kind, (_, name)), files in entries.items():
            reduced = {file: snapshot.from_objects([obj]).objects.get(kind) for file, obj in files.items()}
            first = next(iter(reduced.values()))
            other = next((file for file, item in reduced.items() if item != first), None)
            if other is not None:
                lost.add(kind)
                what = next(iter(files.values())).get("kind")
                texts.append(_contradiction(f"{what} {name}", next(iter(files)), other))
            else:
                kept.append((kind, next(iter(files.values()))))
        # Without one of the nodes, the others are not all nodes of the cluster: then none is known.
        return snapshot.from_objects(obj for kind, obj in kept if kind != "nodes" or kind not in lost), tuple(texts)

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
        asks = [(snapshot.key(obj)[0], config_map_names(obj)) for obj in objects] if self._config_maps else []
        missing = {name for _, names in asks for name in names} - own.keys()
        spaces = {space for space, names in asks if names}
        for name in sorted(missing):
            held = [
                placed_object
                for placed_object in self._config_maps.get(name, ())
                if _may_be_in(placed_object.object, spaces)
            ]
            near = [placed_object for placed_object in held if placed_object.folder == folder] or held
            other = next(
                (placed_object for placed_object in near if _data(placed_object.object) != _data(near[0].object)), None
            )
            if other is not None:
                texts.append(_contradiction(f"ConfigMap {name}", near[0].file, other.file))
            elif near:
                config_maps[name] = near[0].object
        return config_maps, texts


def _contradiction(what: str, text: str, other: str) -> str:
    """The line that says that an object is left out, since two files define it differently."""
    where = f"twice in {text}" if text == other else f"in {text} and {other}"
    return f"{what} is defined differently {where}: it is unknown to files without their own definition"


def _may_be_in(obj: JSON, spaces: Iterable[str]) -> bool:
    """True if the object names no namespace, or that of all `spaces`. A tool that applies a file may add the namespace
    to all of its objects, hardly to some."""
    own = snapshot.key(obj)[0]
    return not own or all(own == space for space in spaces)


def _data(obj: JSON) -> tuple[JSON, JSON]:
    """A ConfigMap's texts and bytes."""
    return mapping(obj.get("data")), mapping(obj.get("binaryData"))
