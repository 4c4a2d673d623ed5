"""Fixes of findings that can be applied to their object, and the reasons why others are not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from podfit.base.secret import Secrets
from podfit.evaluation.policy import Policy, Subject
from podfit.kube import namespace_limits
from podfit.kube.patch import Edit, edited, fits, shrinks
from podfit.kube.workload import JSON
from podfit.rules.rule import Finding
from podfit.vllm.facts import Facts


def with_possible_fix(finding: Finding, obj: JSON) -> Finding:
    """Return the finding without its fix, if the object has no place for it or a written number would become
    smaller."""
    if not finding.fix:
        return finding
    if not fits(obj, finding.fix):
        return finding._replace(fix=())
    shrunk = shrinks(obj, finding.fix)
    if shrunk is None:
        return finding
    return finding._replace(fix=(), details=(*finding.details, f"not repaired: {shrunk}"))


def rewrites_secret(fix: Iterable[Edit], obj: JSON, secrets: Secrets) -> bool:
    """Return whether an edit rewrites a text that contains a secret."""
    return any(_rewrites_secret(edit, obj, secrets) for edit in fix)


def _rewrites_secret(edit: Edit, obj: JSON, secrets: Secrets) -> bool:
    """True if the new value, or the text that it replaces, contains a secret; removal rewrites nothing."""
    if edit.op == "remove":
        return False
    old = edit.path.get(obj)
    return secrets.hold(edit.value) or (isinstance(old, str) and secrets.hold(old))


def unrepairable_rules(
    fixes: Iterable[tuple[str, tuple[Edit, ...]]], subject: Subject, obj: JSON, policy: Policy, facts: Facts
) -> Mapping[str, str]:
    """Return the rules whose repairs of resources the namespace may deny at admission, each with the reason.

    A mutation must never break what was accepted without it. `fixes`: rule ids, each with a fix that the webhook
    applies. All fixes of one rule are tried together, since all of them are applied.
    """
    edits: dict[str, list[Edit]] = {}
    for rule, fix in fixes:
        if any("resources" in edit.path.parts for edit in fix):
            edits.setdefault(rule, []).extend(fix)
    return dict(_refusals(edits, subject, obj, policy, facts))


def _refusals(
    edits: Mapping[str, list[Edit]], subject: Subject, obj: JSON, policy: Policy, facts: Facts
) -> Iterator[tuple[str, str]]:
    """(rule, reason) for each rule after whose repairs the namespace may deny the object."""
    for rule, its_edits in edits.items():
        repaired, _ = edited(obj, [its_edits])
        reason = namespace_limits.refusal(obj, repaired, subject.namespace, facts.snapshot, policy.kinds)
        if reason:
            yield rule, reason
