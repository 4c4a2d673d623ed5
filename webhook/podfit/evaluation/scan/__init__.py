"""The vLLM workloads of a whole cluster, evaluated one after the other: what is kept of each, and what counts once.

Objects come page by page and go; a `ScannedContainer` of a few kilobytes stays. Nothing here sends a request.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from podfit.base.secret import Secrets
from podfit.evaluation.denial import HEADINGS
from podfit.evaluation.lint import GradedFinding, Report, Result
from podfit.evaluation.scan.planned import Planned, Span, planned_lines
from podfit.kube.path import mapping, mappings
from podfit.kube.workload import JSON
from podfit.kube.workload.table import WORKLOAD_KINDS
from podfit.rules.engine import Engine
from podfit.rules.rule import Heading, Level, Mode
from podfit.vllm.memory.ledger import Verdict

Key = tuple[str, str]
"""(API group, kind)."""
State = Literal["denied", "would_deny", "warned", "clean"]
"""The state of a workload by its findings. would_deny: only `enforce.mode` of a policy keeps it from being denied."""

BELOW: tuple[Key, ...] = (
    ("serving.kserve.io", "InferenceService"),
    ("serving.kserve.io", "LLMInferenceService"),
    ("inference.llmaz.io", "Service"),
    ("serving.knative.dev", "Service"),
    ("serving.knative.dev", "Configuration"),
    ("serving.knative.dev", "Revision"),
    ("nvidia.com", "DynamoGraphDeployment"),
    ("nvidia.com", "DynamoComponentDeployment"),
    ("workload.serving.volcano.sh", "ModelServing"),
    ("grove.io", "PodCliqueSet"),
    ("grove.io", "PodCliqueScalingGroup"),
    ("grove.io", "PodClique"),
    ("orchestration.aibrix.ai", "StormService"),
    ("orchestration.aibrix.ai", "RoleSet"),
    ("orchestration.aibrix.ai", "PodSet"),
    ("orchestration.aibrix.ai", "RayClusterFleet"),
    ("orchestration.aibrix.ai", "RayClusterReplicaSet"),
    ("ray.io", "RayService"),
    ("ray.io", "RayJob"),
    ("ray.io", "RayCluster"),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"),
    ("jobset.x-k8s.io", "JobSet"),
    ("apps.openshift.io", "DeploymentConfig"),
    ("argoproj.io", "Rollout"),
    ("argoproj.io", "CronWorkflow"),
    ("argoproj.io", "Workflow"),
    ("apps.kruise.io", "CloneSet"),
    ("apps.kruise.io", "StatefulSet"),
    ("batch.volcano.sh", "Job"),
    ("apps", "Deployment"),
    ("apps", "StatefulSet"),
    ("apps", "DaemonSet"),
    ("batch", "CronJob"),
    ("batch", "Job"),
    ("apps", "ReplicaSet"),
    ("", "ReplicationController"),
    ("", "Pod"),
)
"""Kinds that make others, each before those that it makes; kinds that are not here make none, and come first."""

BETWEEN: frozenset[Key] = frozenset(BELOW) - WORKLOAD_KINDS.keys()
"""Kinds that are only looked at for who owns them: a workload's Pods are found through them."""

OLD = frozenset((("extensions", "Deployment"), ("extensions", "ReplicaSet"), ("extensions", "DaemonSet")))
"""Kinds whose objects are those of `apps`, under another name."""


def order(kinds: Iterable[Key]) -> list[Key]:
    """Kinds in the order in which they are read: owners before what they own."""
    places = {key: place for place, key in enumerate(BELOW)}
    return sorted((key for key in kinds if key not in OLD), key=lambda key: (places.get(key, -1), key))


class Ref(NamedTuple):
    """An object, as a report names it."""

    api_version: str
    kind: str
    namespace: str
    """Empty where the kind has none."""
    name: str
    uid: str

    @classmethod
    def of(cls, obj: JSON) -> Ref:
        """The reference to an object: apiVersion, kind, namespace, name and uid."""
        metadata = mapping(obj.get("metadata"))
        namespace, name, uid = (str(metadata.get(field) or "") for field in ("namespace", "name", "uid"))
        return cls(str(obj.get("apiVersion") or ""), str(obj.get("kind") or ""), namespace, name, uid)

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


class ScannedFinding(NamedTuple):
    """A finding, as far as it is shown."""

    rule: str
    mode: Mode
    level: Level
    plane: str
    threatens: str
    path: str
    message: str
    details: tuple[str, ...]
    certainty: str
    suggestions: tuple[str, ...]
    computed: bool
    """The planner computed that each suggestion fits."""
    why: str | None
    """Why a denying rule's finding is not a denial, or who accepts it."""
    softened_by: tuple[str, ...]
    """The names of the doubts that lowered its mode (docs/decisions.md)."""
    accepted: bool
    """A policy's exception, or its author's annotation, covers it."""
    would: Mode
    """The mode without the limit of `enforce.mode`."""

    @property
    def is_reported(self) -> bool:
        """It denies or warns, or would if the policy enforced."""
        return self.would in ("deny", "warn")

    @property
    def heading(self) -> Heading:
        """The heading under which reports list it."""
        return "would_deny" if self.would == "deny" and self.mode != "deny" else self.level


class ScannedContainer(NamedTuple):
    """One vLLM container of one workload."""

    object: Ref
    container: str
    model: str | None
    gpu: str | None
    gpus: int | None
    """The GPUs that the container requests; None if that is unknown."""
    release: str | None
    replicas: int | None
    verdict: Verdict
    why: str
    planned: Planned
    tokens: Span | None
    """Tokens in the KV cache: "GPU KV cache size: N tokens"."""
    findings: tuple[ScannedFinding, ...]
    template: str = ""
    """A digest of the PodSpec, by which an edit is recognized."""

    @property
    def state(self) -> State:
        """The state by the worst of its reported findings."""
        headings = {finding.heading for finding in self.findings if finding.is_reported}
        if "denied" in headings or "would_deny" in headings:
            return "denied" if "denied" in headings else "would_deny"
        return "warned" if headings else "clean"


class NewDenial(NamedTuple):
    """A rule's finding that would deny an object under another policy, which today's lets pass."""

    object: Ref
    container: str
    rule: str
    message: str


@dataclass
class Scan:
    """The result of one reading of a cluster."""

    rows: list[ScannedContainer] = field(default_factory=list)
    looked_at: int = 0
    """Objects of all kinds that make Pods."""
    errors: list[str] = field(default_factory=list)
    """Faults in podfit, and lists that ended early: what is here is not everything."""
    not_read: dict[str, str] = field(default_factory=dict)
    """Kind → why it could not be read."""
    what_if: list[NewDenial] | None = None
    """None: not requested."""
    policy: str = ""
    """Whose decisions these are, for people."""
    pods: dict[tuple[str, str], str] = field(default_factory=dict)
    """Namespace and name of each Pod that is up → the uid of the workload that it comes of."""
    ready: set[str] = field(default_factory=set)
    """The uids of workloads with a running, ready Pod whose vLLM has the workload's present image and command."""
    cut_short: bool = False
    """The API server failed before the end: another reading may have more."""
    kinds_read: set[Key] = field(default_factory=set)
    """Kinds of workloads of which everything was seen."""
    kinds_missed: set[Key] = field(default_factory=set)
    """Kinds of which the cluster may have more workloads than were seen."""

    def workloads(self, state: State | None = None) -> int:
        """The number of workloads in this state (`states`); None: of all."""
        return sum(state in (None, value) for value in self.states.values())

    @property
    def ready_and_denied(self) -> list[Ref] | None:
        """Workloads that run and are ready, and that the policy in force would deny if it enforced: its false denials,
        as far as what runs shows them. None where not all Pods were seen."""
        if ("", "Pod") not in self.kinds_read:
            return None
        denied = (ref for ref, state in self.states.items() if state in ("denied", "would_deny"))
        return [ref for ref in denied if ref.uid in self.ready]

    @property
    def states(self) -> dict[Ref, State]:
        """Workload → the worst state of its containers."""
        entries: dict[Ref, State] = {}
        for row in self.rows:
            entries[row.object] = min(row.state, entries.get(row.object, "clean"), key=DECISION_ORDER.__getitem__)
        return entries

    def namespaces(self) -> list[tuple[str, Counter[State]]]:
        """(namespace, number of its workloads per state), the namespace with the most denied ones first."""
        entries: dict[str, Counter[State]] = {}
        for ref, state in self.states.items():
            entries.setdefault(ref.namespace, Counter())[state] += 1

        def severity(entry: tuple[str, Counter[State]]) -> tuple[int, int, int, str]:
            namespace, count = entry
            return -count["denied"], -count["would_deny"], -count["warned"], namespace

        return sorted(entries.items(), key=severity)

    @property
    def findings(self) -> Iterator[tuple[ScannedContainer, ScannedFinding]]:
        """Each finding that denies or warns, or would if the policy enforced, with its container."""
        return ((row, finding) for row in self.rows for finding in row.findings if finding.is_reported)

    def rules(self) -> list[FindingsByMode]:
        """The reported findings by mode and rule: denials first, then the most frequent."""
        entries: dict[tuple[Mode, Mode, str], list[tuple[ScannedContainer, ScannedFinding]]] = {}
        for row, finding in self.findings:
            entries.setdefault((finding.mode, finding.would, finding.rule), []).append((row, finding))

        def rank(group: FindingsByMode) -> tuple[bool, bool, int, str, str, str]:
            return (group.mode != "deny", group.would != "deny", -len(group.rows), group.mode, group.would, group.rule)

        return sorted([FindingsByMode(*key, rows) for key, rows in entries.items()], key=rank)

    def headings(self) -> list[FindingsByHeading]:
        """The reported findings by heading and rule, in the order of `HEADINGS`, then the most frequent first."""
        entries: dict[tuple[Heading, str], list[tuple[ScannedContainer, ScannedFinding]]] = {}
        for row, finding in self.findings:
            entries.setdefault((finding.heading, finding.rule), []).append((row, finding))
        order = list(HEADINGS)
        groups = [FindingsByHeading(*key, rows) for key, rows in entries.items()]
        return sorted(groups, key=lambda group: (order.index(group.heading), -len(group.rows), group.rule))


class FindingsByMode(NamedTuple):
    """The findings of one rule with one mode, each with its container."""

    mode: Mode
    would: Mode
    """The mode without the limit of `enforce.mode`."""
    rule: str
    rows: list[tuple[ScannedContainer, ScannedFinding]]


class FindingsByHeading(NamedTuple):
    """The findings of one rule under one heading, each with its container."""

    heading: Heading
    rule: str
    rows: list[tuple[ScannedContainer, ScannedFinding]]


DECISION_ORDER: Mapping[State, int] = {"denied": 0, "would_deny": 1, "warned": 2, "clean": 3}
"""State → its place in lists: the worst first."""


class Owners:
    """The owners of objects: of a workload and all objects that it creates, only the top one counts.

    An object whose owner is not known as a vLLM workload (an operator's own kind, a model server that
    names no command), counts itself.
    """

    def __init__(self) -> None:
        self._tops: dict[str, str] = {}  # uid of an object → uid of the workload that it comes of, or is
        self._groups: dict[tuple[str, str], str] = {}
        """Namespace and name of a LeaderWorkerSet → the workload that it comes of."""

    def top(self, obj: JSON) -> str | None:
        """The uid of the workload that the object comes of, by an owner that was added before; None if it comes of
        none. Pods own what belongs to a LeaderWorkerSet, which is known by its label."""
        owners = mappings(mapping(obj.get("metadata")).get("ownerReferences"))
        for owner in owners:
            if (top := self._tops.get(str(owner.get("uid")))) is not None:
                return top
        if any(owner.get("kind") == "Pod" for owner in owners):
            return self._groups.get((Ref.of(obj).namespace, _pod_group(obj)))
        return None

    def add(self, obj: JSON, top: str | None = None) -> None:
        """Add an object that may own others. `top`: the uid of the workload that it comes of; None: it is one."""
        uid = mapping(obj.get("metadata")).get("uid")
        if uid:
            self._tops[str(uid)] = str(uid) if top is None else top
            if obj.get("kind") == "LeaderWorkerSet":
                ref = Ref.of(obj)
                self._groups[ref.namespace, ref.name] = self._tops[ref.uid]


_GROUP = "leaderworkerset.sigs.k8s.io/name"
"""The label of all that comes of a LeaderWorkerSet. Its workers' StatefulSet is owned by the leader's Pod (lws
pkg/controllers/pod_controller.go), which is read later."""


def _pod_group(obj: JSON) -> str:
    """The name of the LeaderWorkerSet that the object comes of, by its labels or its selector; empty without one."""
    labels = mapping(mapping(obj.get("metadata")).get("labels"))
    selector = mapping(mapping(mapping(obj.get("spec")).get("selector")).get("matchLabels"))
    return str(labels.get(_GROUP) or selector.get(_GROUP) or "")


def retired(obj: JSON) -> bool:
    """Return whether the object is a ReplicaSet of an earlier roll-out: it has an owner, and no Pods."""
    is_owned = bool(mapping(obj.get("metadata")).get("ownerReferences"))
    return obj.get("kind") == "ReplicaSet" and mapping(obj.get("spec")).get("replicas") == 0 and is_owned


def has_ended(obj: JSON) -> bool:
    """Return whether nothing will start there again: a Pod or Job that has ended, or any object being deleted."""
    if mapping(obj.get("metadata")).get("deletionTimestamp"):
        return True
    status = mapping(obj.get("status"))
    if obj.get("kind") == "Pod":
        return status.get("phase") in ("Succeeded", "Failed")
    return obj.get("kind") == "Job" and bool(status.get("completionTime"))


def rows(report: Report) -> list[ScannedContainer]:
    """The vLLM containers of one object."""
    ref = Ref.of(report.object)
    return [_scanned_container(ref, result, report.secrets) for result in report.results]


def _scanned_container(ref: Ref, result: Result, secrets: Secrets) -> ScannedContainer:
    """The record that a scan keeps of one container's result, with secrets masked."""
    engine: Engine = result.engine
    model = engine.model.value.id if engine.model else engine.args.model
    _resource, gpus = engine.requested or (None, None)
    tokens = engine.plan.gpu.kv_cache_tokens if engine.plan.gpu else None
    return ScannedContainer(
        object=ref,
        container=engine.container.name,
        model=model and secrets.line(secrets.masked(model, is_value=True)),
        gpu=engine.gpu.value.name if engine.gpu else None,
        gpus=gpus,
        release=str(engine.release) if engine.release else None,
        replicas=engine.workload.replicas,
        verdict=engine.plan.verdict,
        why=secrets.line(engine.plan.why),
        planned=planned_lines(engine.plan),
        tokens=Span(*tokens) if tokens else None,
        findings=tuple(_scanned_finding(finding) for finding in result.findings if finding.mode != "ignore"),
        template=_digest(engine.workload.spec),
    )


def _digest(spec: JSON) -> str:
    """The first 64 bits of a PodSpec's SHA-256, in hex."""
    return hashlib.sha256(json.dumps(spec, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _scanned_finding(graded: GradedFinding) -> ScannedFinding:
    """The record that a scan keeps of one finding."""
    finding = graded.finding
    return ScannedFinding(
        rule=graded.rule,
        mode=graded.mode,
        level=graded.level,
        plane=graded.plane,
        threatens=graded.threatens,
        path=graded.path,
        message=finding.message,
        details=finding.details,
        certainty=finding.certainty,
        suggestions=graded.suggestions,
        computed=finding.computed,
        why=graded.why_softened,
        softened_by=graded.softened_by,
        accepted=graded.exempted is not None,
        would=graded.would,
    )
