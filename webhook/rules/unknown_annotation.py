"""Rule unknown-annotation."""

from __future__ import annotations

from collections.abc import Iterator

from webhook.engine import Engine
from webhook.path import FieldPath, mapping
from webhook.rule import Finding, Rule

PREFIX = "podfit.dev/"
IGNORE = "podfit.dev/ignore."
KNOWN = ("podfit.dev/model",)


class UnknownAnnotation(Rule):
    """An annotation of podfit's own is misspelt, so that it says nothing.

    podfit reads `podfit.dev/model` (docs/models.md) and `podfit.dev/ignore.<rule>: "why"` (docs/policies.md). Any other
    word after `podfit.dev/` was meant to be one of them, and would be passed over in silence: the author believes in
    an exemption that does not exist.
    """

    plane = "config"
    threatens = "practice"
    mode = "warn"

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain: nothing reads it."""
        from webhook.rules import all_rules  # not before every rule is there

        workload = engine.workload
        template = workload.path.parts[-1:] == ("spec",) and workload.metadata is not workload.object.get("metadata")
        own = mapping(mapping(workload.object.get("metadata")).get("annotations"))
        for key in workload.annotations:
            if not key.startswith(PREFIX) or key in KNOWN:
                continue
            rule = key.removeprefix(IGNORE)
            if key.startswith(IGNORE) and rule in all_rules():
                continue
            where = FieldPath() if key in own or not template else FieldPath(workload.path.parts[:-1])
            near = _nearest(key, [*KNOWN, *(IGNORE + one for one in all_rules())])
            yield Finding(
                where.join("metadata", "annotations", key),
                f"annotation {key} says nothing to podfit" + (f"; did you mean {near}?" if near else ""),
                suggestions=(near,) if near else (),
            )


def _nearest(key: str, known: list[str]) -> str | None:
    import difflib

    return next(iter(difflib.get_close_matches(key, known, 1)), None)
