from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from podfit.base.near import nearest
from podfit.kube.path import FieldPath, mapping
from podfit.kube.workload import CachedObject
from podfit.rules.engine import Engine
from podfit.rules.rule import IGNORE, Finding, Rule
from podfit.vllm.model import ANNOTATION

PREFIX = "podfit.dev/"
KNOWN_ANNOTATIONS = (ANNOTATION,)
_LONGEST = 317
"""Characters of an annotation's key (k8s.io/apimachinery IsQualifiedName)."""
_COMPARED = 32
"""Annotations of one object that are compared with what is known."""


class UnknownAnnotation(Rule):
    """An annotation of podfit is misspelled, so it has no effect.

    podfit reads `podfit.dev/model` (docs/models.md) and `podfit.dev/ignore.<rule>: "why"` (docs/policies.md). Any other
    word after `podfit.dev/` was meant to be one of them. Without this finding it would be ignored silently, and the
    author would rely on an exemption that does not exist.
    """

    plane = "config"
    event = "an annotation has no effect"
    of_vllm = False
    threatens = "practice"

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain: nothing reads it."""
        workload = engine.workload
        template = workload.path.parts[-1:] == ("spec",) and workload.metadata is not workload.object.get("metadata")
        own, its = engine.cached_object.once(_own), _unread(workload.metadata) if template else ()
        for key in own:
            yield _finding(engine, FieldPath(), key)
        for key in its:
            if key not in own:
                yield _finding(engine, FieldPath(workload.path.parts[:-1]), key)


def _own(cached_object: CachedObject) -> Mapping[str, None]:
    """The unknown annotations of the object itself, which apply to all of its templates."""
    return _unread(mapping(cached_object.object.get("metadata")))


def _unread(metadata: Mapping[str, Any]) -> Mapping[str, None]:
    """Annotations of podfit's own that say nothing to it, in their order."""
    from podfit.rules import all_rules  # not before every rule is there

    own = [key for key in map(str, mapping(metadata.get("annotations"))) if key.startswith(PREFIX)]
    known = {*KNOWN_ANNOTATIONS, *(IGNORE + rule for rule in all_rules())} if own else ()
    return {key: None for key in own if key not in known}


def _finding(engine: Engine, where: FieldPath, key: str) -> Finding:
    """The finding for the annotation `key`, with the nearest names; `where`: path of the object's root."""
    from podfit.rules import all_rules

    key = key if len(key) <= _LONGEST else f"{key[:_LONGEST]}…"
    rule, ignores = key.removeprefix(IGNORE), key.startswith(IGNORE)
    compared = engine.cached_object.take_one_of(_COMPARED, "annotations")
    near = nearest(rule if ignores else key, all_rules() if ignores else _words(all_rules()), 2) if compared else []
    meant = [IGNORE + rule_name for rule_name in near] if ignores else near
    text = f"; did you mean {' or '.join(meant)}?" if meant else ""
    if ignores and not meant:
        text = f": no rule is called {rule}; docs/rules/README.md lists them"
    return Finding(
        where.join("metadata", "annotations", key),
        f"annotation {key} says nothing to podfit{text}",
        suggestions=tuple(meant),
    )


def _words(rules: Iterable[str]) -> list[str]:
    return [*KNOWN_ANNOTATIONS, *(IGNORE + rule for rule in rules)]
