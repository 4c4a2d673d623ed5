"""Findings that several containers of one object have: people read each once, with all its places."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from podfit.kube.manifest.part import Mark
from podfit.report.checked import CheckedContainer, Item


def merged(containers: Iterable[CheckedContainer]) -> tuple[CheckedContainer, ...]:
    """The containers for people: a finding that several containers of one object have is shown in the first of them,
    with all its places."""
    items = list(containers)
    count = Counter(id(container.report) for container in items)
    marks: dict[object, list[Mark]] = {}
    kept = [
        container if count[id(container.report)] == 1 else _without_repeated(container, marks) for container in items
    ]
    return tuple(
        [container if count[id(container.report)] == 1 else _with_marks(container, marks) for container in kept]
    )


def _without_repeated(container: CheckedContainer, marks: dict[object, list[Mark]]) -> CheckedContainer:
    """The container without the findings of earlier ones; `marks` gets the places of all its findings."""
    own: list[Item] = []
    repeated: list[Item] = []
    for item in container.items:
        known = marks.setdefault(_same(item), [])
        (repeated if known and item.accepted is None else own).append(item)
        if item.accepted is None:
            known.append(item.mark)
    return container._replace(items=tuple(own), repeated=tuple(repeated))


def _same(item: Item) -> object:
    """A key that is equal for findings of other containers with the same text."""
    finding = item.finding.finding
    return (
        id(item.report),
        item.finding.rule,
        item.finding.heading,
        finding.message,
        finding.details,
        item.finding.suggestions,
    )


def _with_marks(container: CheckedContainer, marks: Mapping[object, Sequence[Mark]]) -> CheckedContainer:
    """The container whose findings have the places of the equal ones."""
    items = [
        item._replace(more_marks=_others(item, marks)) if item.accepted is None else item for item in container.items
    ]
    return container._replace(items=tuple(items))


def _others(item: Item, marks: Mapping[object, Sequence[Mark]]) -> tuple[Mark, ...]:
    return tuple(mark for mark in dict.fromkeys(marks[_same(item)]) if mark != item.mark)
