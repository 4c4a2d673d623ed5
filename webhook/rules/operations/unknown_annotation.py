"""Rule unknown-annotation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from webhook.kube.path import FieldPath, mapping
from webhook.rules.engine import Engine
from webhook.rules.rule import IGNORE, Finding, Rule
from webhook.vllm.model import ANNOTATION

PREFIX = "podfit.dev/"
KNOWN = (ANNOTATION,)


class UnknownAnnotation(Rule):
    """An annotation of podfit's own is misspelt, so that it says nothing.

    podfit reads `podfit.dev/model` (docs/models.md) and `podfit.dev/ignore.<rule>: "why"` (docs/policies.md). Any other
    word after `podfit.dev/` was meant to be one of them, and would be passed over in silence: the author believes in
    an exemption that does not exist.
    """

    plane = "config"
    threatens = "practice"
    mode = "warn"
    about = ("annotations",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain: nothing reads it."""
        workload = engine.workload
        unsure = [key for key in workload.annotations if key.startswith(PREFIX) and key not in KNOWN]
        if not unsure:
            return
        from webhook.rules import all_rules  # not before every rule is there

        template = workload.path.parts[-1:] == ("spec",) and workload.metadata is not workload.object.get("metadata")
        own = mapping(mapping(workload.object.get("metadata")).get("annotations"))
        for key in unsure:
            rule = key.removeprefix(IGNORE)
            if key.startswith(IGNORE) and rule in all_rules():
                continue
            where = FieldPath() if key in own or not template else FieldPath(workload.path.parts[:-1])
            near = _nearest(rule, all_rules()) if key.startswith(IGNORE) else _nearest(key, _words(all_rules()))
            meant = [IGNORE + one for one in near] if key.startswith(IGNORE) else near
            said = f"; did you mean {' or '.join(meant)}?" if meant else ""
            if key.startswith(IGNORE) and not meant:
                said = f": no rule is called {rule}; docs/rules/README.md lists them"
            yield Finding(
                where.join("metadata", "annotations", key),
                f"annotation {key} says nothing to podfit{said}",
                suggestions=tuple(meant),
            )


def _words(rules: Iterable[str]) -> list[str]:
    return [*KNOWN, *(IGNORE + one for one in rules)]


def _nearest(word: str, known: Iterable[str]) -> list[str]:
    """The known words that this one may have been meant for, the nearest first."""
    import difflib

    return difflib.get_close_matches(word, list(known), 2)
