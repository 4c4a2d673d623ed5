"""podfit's own webhook configurations, as objects: off, and on again.

Off is one more match condition on every webhook, which is false for every object. The API server then calls no webhook
of podfit, with any failurePolicy. Nothing else changes, so nothing must be remembered to undo it; an annotation shows
since when and why. `kubectl apply` and `helm upgrade` leave both alone, since neither knows of them.

With an end, the condition is false for objects that were written before it. The API server notes in `managedFields` who
wrote what, and when, before it asks webhooks, so it needs neither podfit nor a right of podfit to ask again.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

ROOT = "/apis/admissionregistration.k8s.io/v1"
WEBHOOK_CONFIGURATIONS = ("validatingwebhookconfigurations", "mutatingwebhookconfigurations")
OFF_ANNOTATION = "podfit.dev/off"
"""Since when and why the webhooks are off, for people."""
OFF_UNTIL_ANNOTATION = "podfit.dev/off-until"
"""When it ends by itself, in RFC 3339; absent: never. A server that may change the configurations then cleans up."""
DOMAIN = ".podfit.dev"
"""How the names of our webhooks end, whatever the release and its labels are called (`nameOverride`)."""
CONDITION_NAME = "podfit-is-off"
MAX_WRITERS = 1000
"""Entries of `managedFields` that the condition reads; an object with more is not sent."""

JSON = Mapping[str, Any]
State = Literal["on", "off", "partly off"]


def is_ours(configuration: JSON) -> bool:
    """True if a webhook of the configuration has a name of podfit's."""
    return any(str(hook.get("name")).endswith(DOMAIN) for hook in configuration.get("webhooks") or ())


def state(configuration: JSON, now: datetime | None = None) -> State:
    """ "on" if API servers call all webhooks, "off" if they call none, else "partly off". `now`: a pause that ended
    before this moment does not count, although its condition is still there; None: every condition counts."""
    ended_condition = None
    if now is not None:
        end = ends(configuration)
        if end is not None and end <= now:
            ended_condition = condition(_until(configuration))
    are_off = [_is_off(hook, ended_condition) for hook in configuration.get("webhooks") or ()]
    if not any(are_off):
        return "on"
    return "off" if all(are_off) else "partly off"


def note(configuration: JSON) -> str:
    """Since when and why it is off; empty without the annotation."""
    return str(((configuration.get("metadata") or {}).get("annotations") or {}).get(OFF_ANNOTATION) or "")


def ends(configuration: JSON) -> datetime | None:
    """The time at which it is switched on again; None if it is on, or has no end, or one that is not a time with a
    zone."""
    text = _until(configuration)
    if state(configuration) == "on" or not text:
        return None
    try:
        end = datetime.fromisoformat(text)
    except ValueError:
        return None
    return end if end.tzinfo else None


def condition(until: str | None) -> dict[str, str]:
    """The match condition of a webhook that is off, in CEL. `until`: the end in RFC 3339; None: until it is removed.

    With an end, the webhook is called only for objects that were written after it (see the module)."""
    expression = "false"
    if until:
        writers = "object.metadata.managedFields"
        is_after_end = f"has(writer.time) && timestamp(writer.time) >= timestamp('{until}')"
        expression = f"has({writers}) && {writers}.size() <= {MAX_WRITERS} && {writers}.exists(writer, {is_after_end})"
    return {"name": CONDITION_NAME, "expression": expression}


def off(
    configuration: JSON, reason: str, at: str, until: str | None = None, now: datetime | None = None
) -> dict[str, Any] | None:
    """The merge patch that switches it off, with annotations that show since when (`at`), why, and until when (RFC
    3339; None: no end).

    The API server rejects it if another client has changed the object meanwhile. If it is off already, the patch only
    sets another reason and end; an empty `reason` keeps the earlier one. None: there is nothing to change. `now`: an
    end before this moment is over."""
    since = f"since {at}"
    if state(configuration, now) == "off":
        earlier_note = note(configuration)  # "since TIME: REASON", as written below
        earlier_since, _, earlier_reason = earlier_note.partition(": ")
        since = earlier_since or since
        is_same_note = not reason or earlier_note == f"{since}: {reason}"
        if is_same_note and _until(configuration) == until:
            return None
        reason = reason or earlier_reason
    hooks = [
        {**hook, "matchConditions": [*hook["matchConditions"], condition(until)]}
        for hook in _switched_on(configuration)
    ]
    return _patch(configuration, f"{since}: {reason or 'no reason given'}", until, hooks)


def on(configuration: JSON) -> dict[str, Any] | None:
    """The merge patch that undoes `off`; None: there is nothing to undo."""
    if state(configuration) == "on":
        return None
    return _patch(configuration, None, None, _switched_on(configuration))


def switched_on(configuration: JSON) -> dict[str, Any]:
    """The whole object as `on` leaves it: for a server, which may update and not patch."""
    metadata = configuration.get("metadata") or {}
    annotations = {
        key: value
        for key, value in (metadata.get("annotations") or {}).items()
        if key not in (OFF_ANNOTATION, OFF_UNTIL_ANNOTATION)
    }
    return {
        **configuration,
        "metadata": {**metadata, "annotations": annotations},
        "webhooks": _switched_on(configuration),
    }


def _switched_on(configuration: JSON) -> list[Any]:
    """The webhooks without the condition."""
    return [
        {**hook, "matchConditions": [item for item in hook.get("matchConditions") or () if not _ours(item)]}
        for hook in configuration.get("webhooks") or ()
    ]


def _patch(configuration: JSON, text: str | None, until: str | None, hooks: list[Any]) -> dict[str, Any]:
    """The merge patch that sets the two annotations (None: removes one) and the webhooks. With the version that was
    read, so that the API server rejects it if another client has changed the object."""
    version = (configuration.get("metadata") or {}).get("resourceVersion")
    annotations = {OFF_ANNOTATION: text, OFF_UNTIL_ANNOTATION: until}
    return {"metadata": {"resourceVersion": version, "annotations": annotations}, "webhooks": hooks}


def _until(configuration: JSON) -> str | None:
    """The end in the annotation; None if it is absent."""
    text = ((configuration.get("metadata") or {}).get("annotations") or {}).get(OFF_UNTIL_ANNOTATION)
    return str(text) if text else None


def _is_off(hook: JSON, ended_condition: JSON | None) -> bool:
    """True if a condition of `condition` keeps API servers from calling the webhook. `ended_condition`: one whose end
    is over, which does not count; None: all count."""
    return any(_ours(item) and item != ended_condition for item in hook.get("matchConditions") or ())


def _ours(match_condition: JSON) -> bool:
    """True for the condition of `condition`."""
    return match_condition.get("name") == CONDITION_NAME
