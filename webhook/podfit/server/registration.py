"""podfit's own webhook configurations, as objects: off, and on again.

Off is one more match condition on every webhook, which is false for every object. The API server then calls no webhook
of podfit, with any failurePolicy. Nothing else changes, so nothing must be remembered to undo it; an annotation shows
since when and why. `kubectl apply` and `helm upgrade` leave both alone, since neither knows of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

ROOT = "/apis/admissionregistration.k8s.io/v1"
WEBHOOK_CONFIGURATIONS = ("validatingwebhookconfigurations", "mutatingwebhookconfigurations")
OFF_ANNOTATION = "podfit.dev/off"
"""The annotation."""
OFF_UNTIL_ANNOTATION = "podfit.dev/off-until"
"""When a server that may change the configurations switches on again, in RFC 3339; absent: never by itself."""
DOMAIN = ".podfit.dev"
"""How the names of our webhooks end, whatever the release and its labels are called (`nameOverride`)."""
CONDITION: Mapping[str, str] = {"name": "podfit-is-off", "expression": "false"}

JSON = Mapping[str, Any]
State = Literal["on", "off", "partly off"]


def is_ours(configuration: JSON) -> bool:
    """True if it is a podfit's own."""
    return any(str(hook.get("name")).endswith(DOMAIN) for hook in configuration.get("webhooks") or ())


def state(configuration: JSON) -> State:
    """Report if API servers ask."""
    off_ = [_is_off(hook) for hook in configuration.get("webhooks") or ()]
    return "on" if not any(off_) else "off" if all(off_) else "partly off"


def note(configuration: JSON) -> str:
    """Since when and why it is off; empty without the annotation."""
    return str(((configuration.get("metadata") or {}).get("annotations") or {}).get(OFF_ANNOTATION) or "")


def ends(configuration: JSON) -> datetime | None:
    """When it is to be switched on again; None if it is on, or has no end."""
    text = ((configuration.get("metadata") or {}).get("annotations") or {}).get(OFF_UNTIL_ANNOTATION)
    if state(configuration) == "on" or not text:
        return None
    try:
        end = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return end if end.tzinfo else None


def off(configuration: JSON, reason: str, at: str, until: str | None = None) -> dict[str, Any] | None:
    """The merge patch that switches it off, with annotations that show since when (`at`), why, and until when.

    The API server rejects it if another client has changed the object meanwhile. If it is off already, the patch only
    sets another reason and end; None: there is nothing to change."""
    before, since = note(configuration), f"since {at}"
    if state(configuration) == "off":
        since = before.partition(": ")[0] or since
        end = ((configuration.get("metadata") or {}).get("annotations") or {}).get(OFF_UNTIL_ANNOTATION)
        if end == until and (not reason or before == f"{since}: {reason}"):
            return None
        reason = reason or before.partition(": ")[2]
    text = f"{since}: {reason or 'no reason given'}"
    hooks = [
        hook if _is_off(hook) else {**hook, "matchConditions": [*(hook.get("matchConditions") or ()), dict(CONDITION)]}
        for hook in configuration.get("webhooks") or ()
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
    version = (configuration.get("metadata") or {}).get("resourceVersion")
    annotations = {OFF_ANNOTATION: text, OFF_UNTIL_ANNOTATION: until}
    return {"metadata": {"resourceVersion": version, "annotations": annotations}, "webhooks": hooks}


def _is_off(hook: JSON) -> bool:
    return any(_ours(item) for item in hook.get("matchConditions") or ())


def _ours(condition: JSON) -> bool:
    return condition.get("name") == CONDITION["name"]
