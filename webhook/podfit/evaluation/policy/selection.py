"""Matches that are valid and hardly intended: those that select nothing, and exceptions that tenants reach by a label.

Each check is sound: a match that is reported as empty selects no object, whatever is in the cluster.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from podfit.evaluation.policy import Policy
from podfit.evaluation.policy.layer import Layer
from podfit.evaluation.policy.match import NAMESPACE_NAME, Match
from podfit.evaluation.policy.words import nearest
from podfit.kube.selector import Requirement, Selector
from podfit.kube.workload.table import WORKLOAD_KINDS

Place = tuple[str | int, ...]


class DoubtfulMatch(NamedTuple):
    """A match that is valid and hardly intended."""

    place: str
    """ "file:line"."""
    path: str
    problem: str


def doubtful_matches(policy: Policy) -> Iterator[DoubtfulMatch]:
    """Each doubtful match of all policies."""
    kinds = {f"{kind}.{group}" if group else kind for group, kind in WORKLOAD_KINDS}
    kinds.update(kind for layer in policy.everything for kind in layer.kinds)
    for layer in policy.everything:
        for place, problem in _of_layer(layer, kinds):
            path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).lstrip(".")
            yield DoubtfulMatch(layer.place(*place), path, problem)


def _of_layer(layer: Layer, kinds: Iterable[str]) -> Iterator[tuple[Place, str]]:
    """(path, problem) of each doubtful match of one policy. A policy that selects nothing has no other."""
    if problem := nothing_selected((layer.match,), kinds):
        yield ("spec", "match"), problem
        return
    for index, exception in enumerate(layer.exceptions):
        matches = (layer.match, exception.match)
        place = ("spec", "exceptions", index)
        if problem := nothing_selected(matches, kinds):
            also = "" if nothing_selected((exception.match,), kinds) else ", since spec.match applies to exceptions too"
            yield (*place, "match"), f"{problem}{also}"
        elif has_labels_alone(matches):
            yield (
                (*place, "match", "objectSelector") if exception.match.object_selector else place,
                (
                    "selects by labels of the object alone, and tenants choose their own labels: add namespaces or a "
                    "namespaceSelector"
                ),
            )


def has_labels_alone(matches: Sequence[Match]) -> bool:
    """True if an author in any namespace can have an object selected by a label of it."""
    return not any(map(_limits_namespaces, matches)) and any(match.object_selector is not None for match in matches)


def _limits_namespaces(match: Match) -> bool:
    """True if a match names the namespaces in which it selects objects, by their names or by a label. A pattern such as
    `*` and the existence of the label that every namespace has do not limit it."""
    if match.namespaces is not None and not any(map(_is_any_name, match.namespaces)):
        return True
    conditions = match.namespace_selector.requirements if match.namespace_selector is not None else ()
    return any((condition.key, condition.operator) != (NAMESPACE_NAME, "Exists") for condition in conditions)


def _is_any_name(pattern: str) -> bool:
    """True if a pattern has wildcards alone, a `*` among them."""
    return "*" in pattern and not pattern.strip("*?")


def nothing_selected(matches: Sequence[Match], kinds: Iterable[str]) -> str | None:
    """Why no object can fulfil all of the matches; None if one may. `kinds`: those that podfit checks."""
    if problem := _no_kind(matches, frozenset(kinds)) or _no_labels([match.object_selector for match in matches]):
        return f"selects nothing: {problem}"
    if problem := _no_namespace(matches) or _no_labels([match.namespace_selector for match in matches]):
        return f"selects nothing in any namespace: {problem}"
    return None


def _no_kind(matches: Sequence[Match], kinds: frozenset[str]) -> str | None:
    """The reason why no kind is left; None if one is, or if no match has kinds. `kinds`: those that podfit checks."""
    left = kinds
    for match in matches:
        if match.kinds is None:
            continue
        if not any(_is_kind(kind, word) for kind in kinds for word in match.kinds):
            word = match.kinds[0]
            near = nearest(word, kinds)
            return f"podfit does not check the kind {word!r}, and no policy here has it in spec.kinds{near}"
        left = frozenset(kind for kind in left if any(_is_kind(kind, word) for word in match.kinds))
    if not left:
        return "no kind is in the kinds of both matches"
    named = any(hit.namespaces is not None for hit in matches)
    if named and all(kind.startswith("Cluster") for kind in left):
        return "objects of these kinds are in no namespace, and namespaces asks for one"
    return None


def _is_kind(kind: str, word: str) -> bool:
    """True if a word of `kinds` names the kind: with its API group or without (`Match.selects`)."""
    return word in (kind, kind.partition(".")[0])


def _no_labels(selectors: Sequence[Selector | None]) -> str | None:
    """The reason why no set of labels fulfills all selectors; None if one does. A selector that is None is fulfilled by
    any."""
    entries: dict[str, list[Requirement]] = {}
    for selector in selectors:
        for requirement in selector.requirements if selector is not None else ():
            entries.setdefault(requirement.key, []).append(requirement)
    for key, conditions in entries.items():
        # A label that is absent, each listed value, and one that no condition lists: label values have no blanks.
        names = (value for condition in conditions for value in condition.values)
        candidates = [{}, *({key: value} for value in (*names, "another value"))]
        if not any(all(condition.holds(labels) for condition in conditions) for labels in candidates):
            return f"no value of the label {key} fulfills all conditions"
    return None


def _no_namespace(matches: Sequence[Match]) -> str | None:
    """The reason why no namespace is left by its name; None if one may be."""
    names = [requirement for match in matches for requirement in _name_conditions(match.namespace_selector)]
    allowed = [match.namespaces for match in matches if match.namespaces is not None]
    allowed += [requirement.values for requirement in names if requirement.operator == "In"]
    excluded = [pattern for match in matches for pattern in match.excluded_namespaces or ()]
    excluded += [value for requirement in names if requirement.operator == "NotIn" for value in requirement.values]
    for patterns in allowed or [("*",)]:
        left = [glob for glob in patterns if not any(_covers(pattern, glob) for pattern in excluded)]
        if not any(all(any(_meet(text, glob) for glob in other) for other in allowed) for text in left):
            return "no name of a namespace fulfills all conditions"
    return None


def _name_conditions(selector: Selector | None) -> list[Requirement]:
    """The conditions of a namespace selector on the namespace's name."""
    requirements = selector.requirements if selector is not None else ()
    return [requirement for requirement in requirements if requirement.key == NAMESPACE_NAME]


@lru_cache(1 << 14)
def _meet(pattern: str, other: str) -> bool:
    """True if some name matches both patterns."""
    if not pattern or not other:
        return set(pattern + other) <= {"*"}
    if pattern[0] == "*":
        return _meet(pattern[1:], other) or _meet(pattern, other[1:])
    if other[0] == "*":
        return _meet(other, pattern)
    return (pattern[0] == other[0] or "?" in (pattern[0], other[0])) and _meet(pattern[1:], other[1:])


def _covers(pattern: str, other: str) -> bool:
    """True if everything that `other` matches is matched by `pattern`, if that shows without trying names.

    The wildcards of `other` are read as characters: its `*` needs one in `pattern`, since it may be any length."""
    words = {"*": ".*", "?": "[^*]"}
    return re.fullmatch("".join(words.get(text, re.escape(text)) for text in pattern), other) is not None
