"""Exemptions: findings that an admin or an author accepts.

An accepted finding is audited: it is not denied, shown or repaired, but never lost.
"""

from __future__ import annotations

from collections.abc import Iterator

from podfit.evaluation.lint.consequence import Context
from podfit.evaluation.policy.layer import PolicyException
from podfit.rules.engine import Engine
from podfit.rules.rule import IGNORE


def valid_exception(context: Context) -> PolicyException | None:
    """Return the first exception that covers the rule and the object and has not ended; None if there is none."""
    return next((exception for exception in _exceptions(context) if exception.holds(context.now)), None)


def exempting_annotation(engine: Engine, context: Context) -> str | None:
    """Return the reason in the author's annotation; None without one, or if the policy does not allow the
    annotation."""
    reason = engine.workload.annotations.get(f"{IGNORE}{context.rule.id()}")
    if reason is None or not reason.strip() or not context.terms.may_ignore(context.rule.id()):
        return None
    return reason.strip()


def invalid_exemptions(engine: Engine, context: Context) -> Iterator[str]:
    """Yield a note on each exemption that does not count. Only for a finding that is not exempted: each exception that
    covers it has ended, and its annotation is not valid."""
    if context.now is not None:
        for exception in _exceptions(context):
            yield f"the exception in policy {exception.policy} ({exception.owner}) ended: {exception.until}"
    annotation = f"{IGNORE}{context.rule.id()}"
    reason = engine.workload.annotations.get(annotation)
    if reason is not None:
        problem = "the policy does not allow it" if reason.strip() else "it gives no reason"
        yield f"annotation {annotation} does not count: {problem}"


def _exceptions(context: Context) -> Iterator[PolicyException]:
    """Yield the exceptions that cover the rule and may select the object."""
    for exception in context.terms.exceptions:
        if exception.covers(context.rule.id()) and exception.match.selects(context.subject) is not False:
            yield exception
