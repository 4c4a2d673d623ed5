"""The cause of a Pod's failure, from its log, its Events and its status: the first cause, not its consequences.

Input is read line by line, in any mixture of logs, Events, `kubectl describe` and objects. A cause is data
(`causes/`): its plane, its remedy, the rules that find it in a manifest, and its texts, each with its source.
The kubelet's status of the container is the first proof (`OOMKilled` is proof, exit code 137 is not). Next is the first
error in the log that the process did not survive. (It survives a retry, a warning, and any error before `Application
startup complete`.) Then come Events that no later Event resolves; last, symptoms that fit one cause better than others.
Unknown causes stay unknown, with their line.

Here also `calibrate`: a start-up log compared with the plan. Not here: requests to a cluster.
`tests/diagnose/CAUSE.txt` has what the programs print; each log is read again as eight collectors would wrap it.
Imports `base` to `evaluation`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from podfit.diagnose import calibrate, events, line, log, remedy, status
from podfit.diagnose.calibrate import Start
from podfit.diagnose.cause import Cause, Signature
from podfit.diagnose.phase import Phase
from podfit.diagnose.sighting import MAX_EVIDENCE, Sighting
from podfit.diagnose.status import ContainerState
from podfit.kube import manifest
from podfit.kube.path import mapping, mappings
from podfit.kube.workload import JSON
from podfit.rules.engine import Engine
from podfit.rules.rule import Plane
from podfit.vllm.args.flags import builtin

_KILLED = (137, 143)
"""Exit codes of a process that ended by SIGKILL or SIGTERM: 128 and the signal's number."""
AFTER_ENGINE_DEATH = "engine-dead-exit-zero"
"""The cause of which exit code 0 is a sign only if the log shows that the engine died."""
CONTAINER_SHM = 64
"""MiB at /dev/shm where nothing is mounted there (containerd oci/mounts.go)."""


@dataclass(frozen=True)
class Diagnosis:
    """The diagnosis of one file, or of one Pod."""

    cause: Cause | None
    signature: Signature | None
    evidence: tuple[str, ...]
    """The lines that say so; without a cause, an unknown error, or an exit code, which proves nothing."""
    line: int | None = None
    then: tuple[str, ...] = ()
    """Other causes that were seen and follow from the first, or are weaker."""
    pod: JSON | None = None
    """The Pod (or the workload) that the input holds."""
    start: Start | None = None
    """The values that the log prints on the start that failed, else of the last one; None without a log of vLLM."""

    foreign: bool = False
    """The input is text without a line of vLLM, an Event or a container's status."""
    phase: Phase | None = None
    """The phase in which vLLM failed, if the log shows it."""
    weak: bool = False
    """The cause is only a symptom's."""
    stop: log.Stop | None = None
    """A signal that ended the start before it came up."""
    healthy: bool = False
    """Without a cause: something shows that the container is well, and nothing speaks against it."""

    @property
    def plane(self) -> Plane | None:
        """Where the cause lies."""
        return self.signature.plane or self.cause.plane if self.cause and self.signature else None

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules that find the cause in a manifest, those that its line names first; empty without a cause."""
        if self.cause is None or self.signature is None:
            return ()
        rules = self.signature.rules or self.cause.rules
        return tuple(
            sorted(rules, key=lambda rule: rule not in _rules_named_by_line(" ".join(self.evidence[:1]), rules))
        )

    @property
    def remedy(self) -> str | None:
        """The remedy, and the meaning of the evidence's words: with the values of the log, else in general."""
        return self.remedy_for(None)

    def remedy_for(self, engine: Engine | None, more: Sequence[str] = ()) -> str | None:
        """The remedy with the values of the container too, and with further changes (`more`)."""
        if self.cause is None:
            return None
        text = " ".join(self.evidence)
        meant = (meaning for word, meaning in self.cause.meanings if re.search(word, text))
        specific = [*remedy.specific(self.cause.id, remedy.Known(text, self.start, engine, self.phase)), *more]
        return " ".join((*(specific or [self.cause.remedy]), *meant))

    @property
    def certainty(self) -> Literal["certain", "likely"] | None:
        """Likely: only a symptom was seen."""
        if self.signature is None:
            return None
        return "likely" if self.weak or self.signature.ambiguous else "certain"


def _rules_named_by_line(line: str, rules: Sequence[str]) -> tuple[str, ...]:
    """The rules that this line distinguishes from the others."""
    if "unknown-flag" in rules and (flag := re.search(r"unrecognized arguments?:? (--[\w-]+)", line)):
        known = flag[1].replace("_", "-") in builtin().spellings
        return ("removed-flag" if known else "unknown-flag",)
    if "shm-too-small" in rules and (free := re.search(r"(\d+) MiB free", line)):
        return ("shm-missing" if int(free[1]) <= CONTAINER_SHM else "shm-too-small",)
    return ()


_OF_VLLM = re.compile(r"vllm|\b(?:DEBUG|INFO|WARNING|ERROR) \d\d-\d\d \d\d:\d\d:\d\d", re.IGNORECASE)
"""Its name, or how it begins a line (vllm/logging_utils/formatter.py, vllm/envs.py VLLM_LOGGING_PREFIX)."""
_OBJECT = re.compile(r"^\s*\"?(?:kind|apiVersion)\"?\s*:|\"kind\"\s*:\s*\"", re.MULTILINE)


def is_object(text: str) -> bool:
    """The text looks like Kubernetes objects, not like a log."""
    return _OBJECT.search(text) is not None


def diagnose(text: str) -> list[Diagnosis]:
    """Diagnose `text`: a log, Events, `kubectl describe`, or objects as JSON or YAML. One diagnosis; one a Pod where
    the objects are several Pods."""
    if is_object(text):
        documents = [document.object for document in manifest.read(text, "").documents if document.object.get("kind")]
        if documents:
            return of_objects(documents)
    return [of_logs([text])]


def of_logs(texts: Sequence[str], words: Sequence[ContainerState] = (), more: Sequence[events.Event] = ()) -> Diagnosis:
    """Diagnose logs of several runs or containers of one Pod, the likeliest to have the cause first. `words`, `more`:
    states and Events of the Pod that are known already; those in the logs are added."""
    states, rows, rests = [*words], [*more], []
    for text in texts:
        lines = line.read(text)
        items, taken = events.from_lines(lines)
        rows += items
        states += status.from_lines(lines)
        rests.append([log_line for index, log_line in enumerate(lines) if index not in taken])
    readings = [log.read(rest) for rest in rests]
    diagnosis = _choose_cause(states, readings, rows)
    begun = [start for rest in rests for start in calibrate.starts(rest) if _is_before(start, diagnosis, len(texts))]
    foreign = not (states or rows or any(_OF_VLLM.search(text) for text in texts))
    stop = next((reading.stop for reading in readings if reading.stop), None)
    return replace(diagnosis, start=begun[-1] if begun else None, foreign=foreign, stop=stop)


def _is_before(start: Start, diagnosis: Diagnosis, logs: int) -> bool:
    """True if a start may be the one that the diagnosis is of; the lines of several logs are not compared."""
    return logs > 1 or diagnosis.line is None or start.line <= diagnosis.line


def of_objects(objects: Sequence[JSON]) -> list[Diagnosis]:
    """Diagnose each Pod by its status and the Events about it. With at most one Pod, one diagnosis by all Events, of
    that Pod, or of the first object with a spec."""
    pods = [item for item in objects if item.get("kind") == "Pod" and isinstance(item.get("status"), Mapping)]
    items = [event for item in objects if item.get("kind") == "Event" and (event := events.from_object(item))]
    items += [event for item in objects for event in _replica_failures(item)]
    others = [item for item in objects if item.get("kind") not in ("Pod", "Event")]
    if len(pods) <= 1:
        pod = pods[0] if pods else None
        return [of_pod(pod, "", items, pod or next((item for item in (*objects, *others) if item.get("spec")), None))]
    return [
        of_pod(pod, "", [event for event in items if _name(pod) in ("", event.subject.partition("/")[2])])
        for pod in pods
    ]


def of_pod(
    pod: JSON | None, logs: str | Sequence[str], rows: Sequence[events.Event] = (), value: JSON | None = None
) -> Diagnosis:
    """Diagnose one Pod by its status, its logs and its Events (`rows`). `pod` None: its status is unknown; `value`: the
    workload to which the diagnosis belongs instead of the Pod."""
    words = list(status.from_pod(pod)) if pod is not None else []
    tail = "\n".join(word.message for word in words if word.log and word.message)
    texts = [text for text in (tail, *([logs] if isinstance(logs, str) else logs)) if text]
    diagnosis = of_logs(texts, words, rows)
    healthy = diagnosis.cause is None and status.is_well(pod) if pod is not None else diagnosis.healthy
    foreign = diagnosis.foreign and pod is None and value is None
    return replace(diagnosis, line=None, pod=value or pod, foreign=foreign, healthy=healthy)


def _name(pod: JSON) -> str:
    metadata = pod.get("metadata")
    return str(metadata.get("name") or "") if isinstance(metadata, Mapping) else ""


def _replica_failures(obj: JSON) -> Iterator[events.Event]:
    """A workload's conditions that show Pods that could not be made."""
    conditions = mappings(mapping(obj.get("status")).get("conditions")) if obj.get("kind") != "Pod" else []
    for item in conditions:
        if item.get("type") == "ReplicaFailure" and item.get("status") == "True":
            reason, message = str(item.get("reason") or ""), str(item.get("message") or "")
            yield events.Event(reason, message, "", 0.0, 0.0, f"{reason}: {message}")


def _choose_cause(
    states: Sequence[ContainerState], readings: Sequence[log.LogReading], rows: Sequence[events.Event]
) -> Diagnosis:
    """The diagnosis of the strongest sighting in `_by_strength`. Without one, the first error that no cause explains;
    else no cause: what speaks against health, or that the container is healthy."""
    engine_died = any(reading.engine_died for reading in readings)
    logged = [sighting for reading in readings for sighting in reading.sightings]
    proofs = status.sightings(states)
    if not engine_died:
        proofs = [sighting for sighting in proofs if sighting.cause.id != AFTER_ENGINE_DEATH]
        logged = [sighting for sighting in logged if sighting.cause.id != AFTER_ENGINE_DEATH]
    is_killed = any(word.exit_code in _KILLED and word.reason == "Error" for word in states)
    order = _by_strength(proofs, logged, events.sightings(rows), is_killed=is_killed)
    if order:
        return _diagnosis_of(order)
    unexplained = next((reading.unexplained for reading in readings if reading.unexplained), None)
    if unexplained is not None:
        return Diagnosis(None, None, (unexplained.raw.strip(),), unexplained.number)
    against = [
        *(evidence for word in states if word.speaks_against_health for evidence in word.evidence[:1]),
        *(event.evidence for event in events.unresolved(rows)),
        *(log_line.raw.strip() for reading in readings for log_line in reading.unwell),
    ]
    well = any(reading.serves for reading in readings) or events.show_health(rows)
    return Diagnosis(None, None, tuple(dict.fromkeys(against))[:MAX_EVIDENCE], healthy=well and not against)


def _by_strength(
    proofs: Sequence[Sighting], logged: Sequence[Sighting], reported: Sequence[Sighting], *, is_killed: bool
) -> list[Sighting]:
    """The sightings in the order of evidence: what the kubelet proves (`proofs`), errors that end vLLM, Events
    (`reported`), errors while it serves, then weak ones. `is_killed`: a container ended by a signal, so that a weak
    Event, such as of a failed probe, may be the reason; else those are left out."""
    logged_weak = [sighting for sighting in logged if sighting.weak]
    logged_strong = [sighting for sighting in logged if not sighting.weak]
    return [
        *(sighting for sighting in proofs if not sighting.weak),
        *(sighting for sighting in logged_strong if not sighting.signature.running),
        *(sighting for sighting in reported if not sighting.weak),
        *(sighting for sighting in reported if sighting.weak and is_killed),
        *(sighting for sighting in logged_strong if sighting.signature.running),
        *(sighting for sighting in logged_weak if sighting.cause.id == AFTER_ENGINE_DEATH),
        *(sighting for sighting in logged_weak if sighting.cause.id != AFTER_ENGINE_DEATH),
        *(sighting for sighting in proofs if sighting.weak),
    ]


def _diagnosis_of(order: Sequence[Sighting]) -> Diagnosis:
    """The diagnosis whose cause is the first sighting's, with its evidence and the other causes."""
    first = order[0]
    mine = [line for sighting in order if sighting.cause is first.cause for line in sighting.evidence]
    then = dict.fromkeys(sighting.cause.id for sighting in order if sighting.cause is not first.cause)
    return Diagnosis(
        cause=first.cause,
        signature=first.signature,
        evidence=tuple(dict.fromkeys(mine))[:MAX_EVIDENCE],
        line=first.line,
        then=tuple(then),
        phase=first.phase,
        weak=first.weak,
    )
