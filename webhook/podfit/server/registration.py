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
    """Return whether API servers call the webhooks: all of them, none or some. `now`: an end before this moment is
    over, though the condition is still there; None: the condition alone counts."""
    end = ends(configuration) if now else None
    over = condition(_until(configuration)) if now and end and end <= now else None
    states = [_is_off(hook, over) for hook in configuration.get("webhooks") or ()]
    if not any(states):
        return "on"
    return "off" if all(states) else "partly off"


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
    """The match condition of a webhook that is off, until a moment in RFC 3339; without one, until it is removed."""
    expression = "false"
    if until:
        written = f"has(writer.time) && timestamp(writer.time) >= timestamp('{until}')"
        fields = "object.metadata.managedFields"
        expression = f"has({fields}) && {fields}.size() <= {MAX_WRITERS} && {fields}.exists(writer, {written})"
    return {"name": CONDITION_NAME, "expression": expression}


def off(
    configuration: JSON, reason: str, at: str, until: str | None = None, now: datetime | None = None
) -> dict[str, Any] | None:
    """The merge patch that switches it off, with annotations that show since when (`at`), why, and until when.

    The API server rejects it if another client has changed the object meanwhile. If it is off already, the patch only
    sets another reason and end; None: there is nothing to change. `now`: an end before this moment is over."""
    before, since = note(configuration), f"since {at}"
    if state(configuration, now) == "off":
        since = before.partition(": ")[0] or since
        if _until(configuration) == until and (not reason or before == f"{since}: {reason}"):
            return None
        reason = reason or before.partition(": ")[2]
    text = f"{since}: {reason or 'no reason given'}"
    hooks = [
        {**hook, "matchConditions": [*hook["matchConditions"], condition(until)]}
        for hook in _switched_on(configuration)
    ]
    return _patch(configuration, text, until, hooks)


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


def _is_off(hook: JSON, over: JSON | None = None) -> bool:
    """True if a condition other than `over` keeps API servers from asking."""
    return any(_ours(item) and item != over for item in hook.get("matchConditions") or ())


def _ours(match_condition: JSON) -> bool:
    """True for the condition of `condition`."""
    return match_condition.get("name") == CONDITION_NAME
