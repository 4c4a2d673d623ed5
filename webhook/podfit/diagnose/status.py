"""The kubelet's status of a Pod's containers: as an object, by `kubectl describe`, by `kubectl get pods`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from podfit.diagnose.line import LogLine, per_shape
from podfit.diagnose.sighting import Sighting, matching_signatures
from podfit.kube.path import FieldPath, mapping, mappings


@dataclass(frozen=True)
class ContainerState:
    """One thing that a status says."""

    reason: str
    message: str
    evidence: tuple[str, ...]
    exit_code: int | None = None
    line: int | None = None
    log: bool = False
    """The message is the end of the container's log (a termination message)."""

    @property
    def text(self) -> str:
        """`Reason: message`, or with the exit code."""
        code = f" (exit code {self.exit_code})" if self.exit_code is not None else ""
        return f"{self.reason}: {self.message}{code}" if self.message else f"{self.reason}{code}"

    @property
    def speaks_against_health(self) -> bool:
        """The container ended with an error, or waits to be started again."""
        return self.exit_code not in (None, 0) or self.reason in ("CrashLoopBackOff", "Error", "Failed", "Unknown")


def is_well(pod: Mapping[str, Any]) -> bool:
    """All containers of a Pod are ready, and none was restarted."""
    containers = mappings(mapping(pod.get("status")).get("containerStatuses"))
    return bool(containers) and all(
        container.get("ready") is True and not container.get("restartCount") for container in containers
    )


def from_pod(pod: Mapping[str, Any]) -> Iterator[ContainerState]:
    """The states in a Pod's `status`: its own reason first, then its containers', then its bad conditions."""
    status = pod.get("status")
    if not isinstance(status, Mapping):
        return
    at = FieldPath(("status",))
    if status.get("reason"):
        message = str(status.get("message") or "")
        yield ContainerState(
            str(status["reason"]), message, (f"{at / 'reason'}: {status['reason']}", *_message_evidence(at, message))
        )
    for key in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"):
        held = status.get(key)
        for index, item in enumerate(held if isinstance(held, list) else ()):
            if isinstance(item, Mapping):
                yield from _container_states(item, at / key / index)
    conditions = status.get("conditions")
    for index, item in enumerate(conditions if isinstance(conditions, list) else ()):
        if isinstance(item, Mapping) and _is_bad_condition(item):
            reason, message = str(item.get("reason") or ""), str(item.get("message") or "")
            text = f"{item.get('type')} {reason}" if item.get("type") == "DisruptionTarget" else reason
            yield ContainerState(text, message, (f"{at / 'conditions' / index}: {reason}: {message}",))


def _is_bad_condition(condition: Mapping[str, Any]) -> bool:
    """True if a Pod condition reports that it is not scheduled or is being disrupted."""
    kind, value = condition.get("type"), condition.get("status")
    return (kind == "PodScheduled" and value == "False") or (kind == "DisruptionTarget" and value == "True")


def _message_evidence(at: FieldPath, message: str) -> tuple[str, ...]:
    """A status message as evidence, with its field path; nothing where it is empty."""
    return (f"{at / 'message'}: {message}",) if message else ()


def _container_states(container_status: Mapping[str, Any], at: FieldPath) -> Iterator[ContainerState]:
    """The terminated and waiting states of a container status."""
    for key in ("lastState", "state"):
        states = container_status.get(key)
        for kind in ("terminated", "waiting"):
            state = states.get(kind) if isinstance(states, Mapping) else None
            if not isinstance(state, Mapping):
                continue
            reason, message = str(state.get("reason") or ""), str(state.get("message") or "")
            code = state.get("exitCode")
            code = code if isinstance(code, int) else None
            place = at / key / kind
            text = f"{place}.reason: {reason}" + (f", exitCode {code}" if code is not None else "")
            log = kind == "terminated" and reason not in ("StartError", "ContainerCannotRun", "OOMKilled")
            yield ContainerState(
                reason, message, (text, *(() if log else _message_evidence(place, message))), code, log=log
            )


_FIELD = re.compile(r"^(\s*)([A-Z][A-Za-z ]+?):(?:\s+(.*))?$")
_TABLE = re.compile(r"^\s*(?:\S+\s+)?[a-z0-9][\w.-]*\s+\d+/\d+\s+(?P<status>[A-Z][\w:]+)\s+\d+(?:\s|$)")
"""`kubectl get pods`: NAME, READY, STATUS, RESTARTS, AGE."""


def from_lines(lines: Sequence[LogLine]) -> list[ContainerState]:
    """The states in the text of `kubectl describe pod`, where one is a block of lines, and of `kubectl get pods`."""
    words: list[ContainerState] = []
    block: list[tuple[str, str, LogLine]] = []
    is_row = per_shape(lambda line: (_TABLE.match(line.raw) or _FIELD.match(line.raw)) is not None)
    for line in lines:
        if not is_row(line):
            continue
        if (row := _TABLE.match(line.raw)) is not None:
            words.append(ContainerState(row["status"].removeprefix("Init:"), "", (line.raw.strip(),), line=line.number))
            continue
        field = _FIELD.match(line.raw)
        if field is None:
            continue
        name, value = field[2], (field[3] or "").strip()
        if name in ("State", "Last State") or (name == "Status" and not field[1]):
            words += _state_of_describe(block)
            block = [(name, value, line)]
        elif name in ("Reason", "Exit Code", "Message") and block:
            block.append((name, value, line))
        elif name in ("Ready", "Restart Count", "Containers", "Conditions", "Events", "IP"):
            words += _state_of_describe(block)
            block = []
    return words + list(_state_of_describe(block))


def _state_of_describe(block: Sequence[tuple[str, str, LogLine]]) -> Iterable[ContainerState]:
    """The state in a block of `kubectl describe`; nothing without a reason."""
    fields = {name: value for name, value, _ in block}
    if not fields.get("Reason"):
        return []
    code = fields.get("Exit Code", "")
    evidence = tuple(line.raw.strip() for name, _, line in block if name != "Message" or fields["Reason"] != "Error")
    return [
        ContainerState(
            fields["Reason"],
            fields.get("Message", ""),
            evidence,
            int(code) if code.isdigit() else None,
            block[0][2].number,
            log=fields["Reason"] in ("Error", "Completed"),
        )
    ]


def sightings(states: Iterable[ContainerState]) -> list[Sighting]:
    """The sighting of the first signature that each state fits. A message from the log is left out: `log` reads it."""
    items = []
    for word in states:
        text = ContainerState(word.reason, "", (), word.exit_code).text if word.log else word.text
        match = next(matching_signatures("status", text), None)
        if match is not None:
            items.append(Sighting(match.cause, match.signature, word.evidence, word.line, weak=match.signature.weak))
    return items
