"""Updates of an object: what was denied before, and whether the new template ran before."""

from __future__ import annotations

from dataclasses import dataclass

from podfit.base.lazy import cached_property
from podfit.kube import revisions
from podfit.kube.path import mapping
from podfit.kube.snapshot import Snapshot
from podfit.kube.workload import JSON
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding

Key = tuple[str, ...]
"""Name under which a finding is recognized in another version of its object."""


def finding_keys(rule: str, finding: Finding, message: str, engine: Engine) -> frozenset[Key]:
    """Return the keys of a finding: its topic, else its place and, since list indices move, its message.

    `message`: the finding's message, masked, since a secret may have changed."""
    container = (rule, str(engine.workload.path), engine.container.name)
    if finding.topic:
        return frozenset([(*container, "about", finding.topic)])
    return frozenset([(*container, "at", str(finding.path)), (*container, "says", message)])


@dataclass(frozen=True)
class Update:
    """The change from an old object to a new one. Nothing is read before it is needed."""

    object: JSON
    old_object: JSON
    namespace: str | None
    snapshot: Snapshot

    @cached_property
    def has_new_template(self) -> bool:
        """The Pod template differs."""
        return _template(self.old_object) != _template(self.object)

    @cached_property
    def revision(self) -> str | None:
        """The former template that the update returns to, if the snapshot has it."""
        if not self.has_new_template:
            return None
        return revisions.returned_to(self.object, self.namespace, self.snapshot.objects)

    @cached_property
    def unknown_revisions(self) -> str | None:
        """The kind of the former templates, if one that is not known may be the new template."""
        keeper = revisions.kept_by(self.object)
        if self.has_new_template and self.snapshot.has_unknown(keeper, self.namespace):
            return keeper
        return None


def _template(obj: JSON) -> object:
    return mapping(mapping(obj.get("spec")).get("template"))
