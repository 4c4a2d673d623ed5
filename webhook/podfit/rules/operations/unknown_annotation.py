from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from podfit.base.near import nearest
from podfit.kube.path import FieldPath, mapping
from podfit.kube.workload import CachedObject
from podfit.rules.engine import Engine
from podfit.rules.rule import IGNORE, Finding, Rule
from podfit.vllm.model import ANNOTATION

PREFIX = "podfit.dev/"
KNOWN_ANNOTATIONS = (ANNOTATION,)
_MAX_KEY_CHARACTERS = 317
"""The longest key of an annotation: a prefix of 253, a slash and a name of 63 (k8s.io/apimachinery
IsQualifiedName)."""
_MAX_COMPARED = 32
"""Annotations of one object for which similar names are searched, so that many of them do not delay a review."""
_MAX_SUGGESTIONS = 2


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
        """Certain: nothing reads it. One finding for each unknown annotation of the object, and for each further one of
        the Pod template."""
        workload = engine.workload
        of_object = engine.cached_object.once(_of_object)
        yield from (_finding(engine, FieldPath(), key) for key in of_object)
        has_template = workload.path.parts[-1:] == ("spec",) and workload.metadata is not workload.object.get(
            "metadata"
        )
        if not has_template:
            return
        for key in _unknown_annotations(workload.metadata):
            if key not in of_object:
                yield _finding(engine, FieldPath(workload.path.parts[:-1]), key)


def _of_object(cached_object: CachedObject) -> Mapping[str, None]:
    """The unknown annotations of the object itself, which apply to all of its templates."""
    return _unknown_annotations(mapping(cached_object.object.get("metadata")))


def _unknown_annotations(metadata: Mapping[str, Any]) -> Mapping[str, None]:
    """The keys of annotations with podfit's prefix that podfit does not read: a set in the order of `metadata`."""
    own = [key for key in map(str, mapping(metadata.get("annotations"))) if key.startswith(PREFIX)]
    known = frozenset(_known_annotations()) if own else frozenset()
    return dict.fromkeys([key for key in own if key not in known])


def _known_annotations() -> list[str]:
    """The keys of the annotations that podfit reads: the model's, and one for each rule that may be ignored."""
    return [*KNOWN_ANNOTATIONS, *(IGNORE + rule for rule in _rule_ids())]


def _rule_ids() -> list[str]:
    """The ids of all rules."""
    from podfit.rules import all_rules  # this module is one of those that `podfit.rules` imports

    return list(all_rules())


def _finding(engine: Engine, parent: FieldPath, key: str) -> Finding:
    """The finding on the annotation `key` of the object or template at `parent`. It suggests the most similar keys."""
    key = key if len(key) <= _MAX_KEY_CHARACTERS else f"{key[:_MAX_KEY_CHARACTERS]}…"
    meant = _similar(key) if engine.cached_object.take_one_of(_MAX_COMPARED, "annotations") else []
    text = f"; did you mean {' or '.join(meant)}?" if meant else ""
    if key.startswith(IGNORE) and not meant:
        text = f": no rule is called {key.removeprefix(IGNORE)}; docs/rules/README.md lists them"
    return Finding(
        parent.join("metadata", "annotations", key),
        f"annotation {key} says nothing to podfit{text}",
        suggestions=tuple(meant),
    )


def _similar(key: str) -> list[str]:
    """The known keys that the author may have meant, the most similar first; empty if none is similar."""
    if key.startswith(IGNORE):
        return [IGNORE + rule for rule in nearest(key.removeprefix(IGNORE), _rule_ids(), _MAX_SUGGESTIONS)]
    return nearest(key, _known_annotations(), _MAX_SUGGESTIONS)
