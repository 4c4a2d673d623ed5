"""Kubernetes Events, as tables (`kubectl get events`, the end of `kubectl describe`) and as objects → what they say."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from podfit.diagnose.line import LogLine
from podfit.diagnose.sighting import Sighting, matching_signatures


@dataclass(frozen=True)
class Event:
    """Something that the cluster says of an object."""

    reason: str
    message: str
    subject: str
    """ "pod/vllm-0"; empty where the table is of one object."""
    first: float
    """When it was first seen, in seconds since the epoch, or before now (negative); 0 if that is unknown."""
    last: float
    """When it was last seen, on the same clock."""
    evidence: str
    line: int | None = None

    @property
    def text(self) -> str:
        """The Event in one line: `Reason: message`."""
        return f"{self.reason}: {self.message}"

    def is_after(self, event: Event) -> bool:
        """It was seen after `event` began, as far as that is known: times of two clocks are not compared."""
        known = self.last and event.first and (self.last < 0) == (event.first < 0)
        return not known or self.last >= event.first


_AGE = r"(?:<\w+>|\d+[smhdy](?:\d+[smhd])*)(?:\s+\(x\d+ over [\w<>]+\))?"
_ROW = re.compile(
    rf"^\s*(?:(?P<space>[a-z0-9-]+)\s+)?(?P<age>{_AGE})\s+(?:Normal|"
    rf"Warning)\s+(?P<reason>[A-Z]\w+)\s+(?P<subject>[\w.-]+/\S+)\s+(?P<message>\S.*)$"
)
"""`kubectl get events`: LAST SEEN, TYPE, REASON, OBJECT, MESSAGE (and what -o wide puts between)."""
_DESCRIBED = re.compile(
    rf"^\s*(?:Normal|Warning)\s+(?P<reason>[A-Z]\w+)\s+(?P<age>{_AGE})\s+(?P<sender>[\w./, "
    rf"-]+?)\s{{2,}}(?P<message>\S.*)$"
)
"""The end of `kubectl describe`: Type, Reason, Age, From, Message."""
_LOOSE = re.compile(
    r"^\s*(?:(?P<age>" + _AGE + r")\s+)?(?:Normal|Warning)\s+(?P<reason>[A-Z][a-z]\w+)\s+(?P<message>\S.*)$"
)
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "y": 31536000}

_STARTED = {"Pulling", "Pulled", "Created", "Started"}
"""The Pod has a node and its volumes."""
_GOOD = _STARTED | {
    "Scheduled",
    "SuccessfulAttachVolume",
    "SuccessfulMountVolume",
    "TriggeredScaleUp",
    "SuccessfulCreate",
    "Nominated",
}
_IMAGE = re.compile(r"image \"([^\"]+)\"")


def from_lines(lines: Sequence[LogLine]) -> tuple[list[Event], set[int]]:
    """The rows of event tables, and which lines (by index) they are."""
    events, taken = [], set()
    for index, line in enumerate(lines):
        text = line.raw
        if "Normal" not in text and "Warning" not in text:
            continue
        match = _ROW.match(text) or _DESCRIBED.match(text) or _LOOSE.match(text)
        if match is None:
            continue
        groups = match.groupdict()
        last, _, over = (groups.get("age") or "").partition("over ")
        events.append(
            Event(
                reason=match["reason"],
                message=match["message"].strip(),
                subject=groups.get("subject") or "",
                first=-_seconds(over or last),  # "5s (x3 over 2m)"
                last=-_seconds(last.partition("(")[0]),
                evidence=text.strip(),
                line=line.number,
            )
        )
        taken.add(index)
    return events, taken


def _seconds(age: str) -> float:
    """An age as kubectl prints it: `3m12s`."""
    return float(sum(int(number) * _UNITS[unit] for number, unit in re.findall(r"(\d+)([smhdy])", age)))


def from_object(obj: Mapping[str, Any]) -> Event | None:
    """An Event of either API group (v1, events.k8s.io/v1); None if it has neither reason nor message."""
    of = obj.get("involvedObject") or obj.get("regarding")
    of = of if isinstance(of, Mapping) else {}
    subject = f"{str(of.get('kind', '')).lower()}/{of.get('name', '')}" if of else ""
    message = str(obj.get("message") or obj.get("note") or "")
    reason = str(obj.get("reason") or "")
    if not reason and not message:
        return None
    first = _time(obj, "firstTimestamp", "eventTime", "deprecatedFirstTimestamp", "lastTimestamp")
    series = obj.get("series")
    repeated = _time(series, "lastObservedTime") if isinstance(series, Mapping) else 0.0
    last = repeated or _time(obj, "lastTimestamp", "deprecatedLastTimestamp", "eventTime", "firstTimestamp")
    return Event(reason, message, subject, first, last, f"{reason}: {message}".strip())


def _time(obj: Mapping[str, Any], *keys: str) -> float:
    """The first of these times that the Event has; 0 if it has none."""
    return _timestamp(next((obj[key] for key in keys if obj.get(key)), ""))


def _timestamp(text: object) -> float:
    """Seconds since the epoch of an RFC 3339 time; 0 where it is none."""
    try:
        return datetime.fromisoformat(str(text).replace("Z", "+00:00")).timestamp()
    except ValueError:
        return 0.0


def sightings(events: Iterable[Event]) -> list[Sighting]:
    """The problems that no later Event resolves, the oldest first."""
    events = distinct(events)
    items = []
    for event in events:
        if event.reason in _GOOD or _is_solved(event, events):
            continue
        match = next(matching_signatures("event", event.text), None)
        if match is not None:
            items.append(
                Sighting(
                    match.cause, match.signature, (event.evidence,), event.line, event.first, weak=match.signature.weak
                )
            )
    return sorted(items, key=lambda sighting: sighting.at)


_UNWELL = frozenset({"BackOff", "Unhealthy", "Failed", "Killing", "CrashLoopBackOff"})
"""Reasons that speak against health, whatever their message is."""


def unresolved(events: Sequence[Event]) -> list[Event]:
    """The Events that speak against health and that no later Event resolves."""
    events = distinct(events)
    return [event for event in events if event.reason in _UNWELL and not _is_solved(event, events)]


def distinct(events: Iterable[Event]) -> list[Event]:
    """Each Event once, as it was first printed: each is compared with all others."""
    first: dict[str, Event] = {}
    for event in events:
        first.setdefault(event.evidence, event)
    return list(first.values())


def show_health(events: Sequence[Event]) -> bool:
    """True if Events show a container that was started, and nothing that speaks against its health."""
    return any(event.reason == "Started" for event in events) and not unresolved(events)


def _is_solved(event: Event, events: Sequence[Event]) -> bool:
    """True if a later Event of the same object shows that the problem is solved. Only later ones count, since an
    earlier Pod of the same name may have started, as a StatefulSet's does. False for a reason that none refutes."""
    mine = [
        later for later in events if later.subject == event.subject and later is not event and later.is_after(event)
    ]
    reasons = {later.reason for later in mine}
    if event.reason in ("FailedScheduling", "NotTriggerScaleUp", "Unschedulable"):
        return bool(reasons & (_STARTED | {"Scheduled"}))
    if event.reason in ("FailedAttachVolume", "FailedMount", "FailedMapVolume", "ProvisioningFailed"):
        return bool(reasons & (_STARTED | {"SuccessfulAttachVolume"}))
    if event.reason in ("FailedCreatePodSandBox", "FailedCreate", "NodeNotReady"):
        return bool(reasons & (_STARTED | {"SuccessfulCreate", "NodeReady"}))
    if event.reason in ("Failed", "BackOff", "InspectFailed", "ErrImageNeverPull"):
        failed = {
            image
            for later in [*mine, event]
            if later.reason in ("Failed", "BackOff")
            for image in _IMAGE.findall(later.message)
        }
        pulled = {image for later in mine if later.reason == "Pulled" for image in _IMAGE.findall(later.message)}
        return bool(failed) and failed <= pulled
    return False
