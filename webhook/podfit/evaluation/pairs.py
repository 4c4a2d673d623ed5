"""Pairs of vLLM containers of two sides: before and after a change."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from podfit.evaluation.lint import GradedFinding, Report, Result
from podfit.rules.engine import Engine


class Key(NamedTuple):
    """An object, as far as both sides name it, and one of its containers."""

    kind: str
    namespace: str
    """Empty if the object names none."""
    name: str
    container: str
    """The path of its Pod template, and its name."""


class Placed(NamedTuple):
    """A report, and the file of its object, relative to the folder that is compared."""

    file: str
    report: Report


class Side(NamedTuple):
    """One container, before or after."""

    report: Report
    result: Result
    file: str = ""

    @property
    def engine(self) -> Engine:
        """The engine of the container."""
        return self.result.engine

    @property
    def findings(self) -> tuple[GradedFinding, ...]:
        """The reported findings: those that are only audited are left out."""
        return tuple(finding for finding in self.result.findings if finding.is_reported)


class Pair(NamedTuple):
    """One container, before and after; None if a side does not have it."""

    before: Side | None
    after: Side | None
    is_one_of_many: bool
    """Several objects have this kind, namespace and name, as overlays do: only their files differ."""


def pairs(placed_objects: Iterable[Placed], new: Iterable[Placed]) -> list[Pair]:
    """Match the vLLM containers of both sides by kind, namespace, name and container, then by file.

    Those of the new side come first, in its order, then those that are gone."""
    after = _sides_by_key(new)
    before = _with_renamed_container(_sides_by_key(placed_objects), after)
    keys_of_many = {key for sides_by_key in (before, after) for key, sides in sides_by_key.items() if len(sides) > 1}
    of_new_side: list[Pair] = []
    gone: list[Pair] = []
    for key, new_sides in after.items():
        for old, side in _matched(before.get(key, []), new_sides):
            pair = Pair(old, side, key in keys_of_many)
            (gone if side is None else of_new_side).append(pair)
    for key, old_sides in before.items():
        if key not in after:
            gone += [Pair(old, None, key in keys_of_many) for old in old_sides]
    return of_new_side + gone


def _sides_by_key(placed: Iterable[Placed]) -> dict[Key, list[Side]]:
    """Return the vLLM containers of the reports, by kind, namespace, name and container."""
    sides: dict[Key, list[Side]] = {}
    for file, report in placed:
        metadata = report.metadata
        name = str(metadata.get("name") or metadata.get("generateName") or "")
        for result in report.results:
            container = f"{result.engine.workload.path}/{result.engine.container.name}"
            key = Key(str(report.object.get("kind")), str(metadata.get("namespace") or ""), name, container)
            sides.setdefault(key, []).append(Side(report, result, file))
    return sides


def _with_renamed_container(
    sides_before: dict[Key, list[Side]], after: Mapping[Key, list[Side]]
) -> dict[Key, list[Side]]:
    """Return the old side with the only container under its new name, if each side has only one in the same object."""
    if len(sides_before) == len(after) == 1 and sides_before.keys() != after.keys():
        (old,), (new,) = sides_before, after
        if old._replace(container=new.container) == new:
            return {new: sides_before[old]}
    return sides_before


def _matched(sides: Sequence[Side], new: Sequence[Side]) -> list[tuple[Side | None, Side | None]]:
    """Return the pairs of containers of one key: those of one file, then the others in their order. First every new
    side, with None if no old one is left; then (old side, None)."""
    old_of_file: dict[str, deque[int]] = {}
    for old_index, side in enumerate(sides):
        old_of_file.setdefault(side.file, deque()).append(old_index)
    partners: dict[int, int] = {}  # index in `new` → index in `sides`
    for index, side in enumerate(new):
        if old_of_file.get(side.file):
            partners[index] = old_of_file[side.file].popleft()
    taken = set(partners.values())
    remaining = deque(old for old_index, old in enumerate(sides) if old_index not in taken)
    matched: list[tuple[Side | None, Side | None]] = []
    for index, side in enumerate(new):
        if index in partners:
            matched.append((sides[partners[index]], side))
        else:
            matched.append((remaining.popleft() if remaining else None, side))
    return matched + [(old, None) for old in remaining]
