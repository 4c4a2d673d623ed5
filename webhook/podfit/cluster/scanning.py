"""Reads a whole cluster and evaluates what runs vLLM: only lists and gets, a page in memory at a time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from kubernetes.dynamic import Resource

from podfit.cluster import surroundings
from podfit.cluster.access import Client, StatusError, UnreachableError
from podfit.cluster.listing import Key, get, group_resource, pages, served, with_kind
from podfit.evaluation import rehearsal, scan
from podfit.evaluation.lint import lint
from podfit.evaluation.policy import Policy
from podfit.evaluation.scan import NewDenial, Owners, Ref, Scan, running
from podfit.kube import workload
from podfit.kube.companions import Companions, config_map_names
from podfit.kube.path import group_and_kind, mapping
from podfit.kube.selector import Selector
from podfit.kube.workload import JSON
from podfit.kube.workload.table import WORKLOAD_KINDS
from podfit.vllm.facts import Facts

ALSO_LISTED: tuple[Key, ...] = (
    ("", "Service"),
    ("autoscaling", "HorizontalPodAutoscaler"),
    ("keda.sh", "ScaledObject"),
    ("policy", "PodDisruptionBudget"),
    ("", "PersistentVolumeClaim"),
)
"""The objects that belong to a workload, as `podfit.kube.companions` knows them."""
RUNTIMES: tuple[Key, ...] = (("serving.kserve.io", "ServingRuntime"), ("serving.kserve.io", "ClusterServingRuntime"))
"""The kinds that InferenceServices name. Without the right to list them, the services are evaluated as they are."""
MAX_CONFIG_MAPS = 512
"""ConfigMaps that are remembered: a namespace's workloads often share one."""


@dataclass(frozen=True)
class WorkloadSelection:
    """The selection of a cluster's workloads to scan."""

    namespace: str | None = None
    """None: all."""
    selector: Selector | None = None
    """Selects workloads by their own labels."""
    kinds: frozenset[Key] | None = None
    """None: all that the API server has."""
    what_if: Callable[[Policy], Policy] | None = None
    """From the policy in force to another one: the scan reports what that one would deny."""
    pods: bool = False
    """Also record the workload of each running Pod."""


class Scanner:
    """One reading of one cluster; `run` it once."""

    def __init__(
        self,
        client: Client,
        workload_selection: WorkloadSelection,
        facts: Facts,
        policy: Policy,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`policy`: the policy in force; `tell` gets the progress."""
        self._client = client
        self._selection = workload_selection
        self._base = facts
        self._policy = policy
        self._tell = tell
        self._scan = Scan()
        self._owners = Owners()
        self._scanned_uids: set[str] = set()
        self._starts: dict[str, set[int]] = {}
        """uid of a workload → the hashes of how its vLLM containers start."""
        self._predictors: dict[str, list[JSON]] = {}
        """uid of a KServe service → its vLLM containers, which the controller completes."""
        self._maps: OrderedDict[tuple[str, str], JSON | None] = OrderedDict()
        self._maps_refused = False
        self._kinds: dict[Key, Resource] = {}
        self._silent: set[str] = set()
        """API groups of which not every version said what kinds it has."""

    def run(self) -> Scan:
        """Reads and evaluates everything; raises OSError, ValueError or StatusError if the API server can't be
        reached at all."""
        self._client.get_unreduced("/version")  # first, so that an API server that is away is reported at once
        policy = self._policy
        extra = {_parsed(name) for name in policy.kinds}
        self._discover({*WORKLOAD_KINDS, *scan.BETWEEN, *extra})
        self._scan.policy = policy.version
        other = self._selection.what_if(policy) if self._selection.what_if else None
        self._scan.what_if = None if other is None else []
        facts = self._facts()
        companions = self._companions()
        for resource in self._resources(extra):
            for obj in self._objects(resource):
                self._judge(obj, policy, other, facts, companions)
        return self._scan

    # ── What is read ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _discover(self, workloads: set[Key]) -> None:
        """Find which kinds exist. A kind may exist even if its API group does not list its resources."""
        groups = surroundings.GROUPS | {group for group, _ in (*workloads, *ALSO_LISTED)}
        self._kinds, silent = served(self._client, groups)
        for version, error in silent.items():
            group = version.rpartition("/")[0]
            self._silent.add(group)
            self._scan.kinds_missed |= {
                candidate for candidate in workloads if candidate[0] == group and candidate not in self._kinds
            }
            self._note_unread(version, error, "does not say what kinds it has")

    def _resources(self, extra: set[Key]) -> list[Resource]:
        """The kinds to read, owners first; nothing below the last one that is wanted."""
        here = [
            kind_key for kind_key in scan.order({*WORKLOAD_KINDS, *scan.BETWEEN, *extra}) if kind_key in self._kinds
        ]
        if self._selection.kinds is not None:
            last = max((place for place, kind_key in enumerate(here) if kind_key in self._selection.kinds), default=-1)
            here = [
                kind_key
                for place, kind_key in enumerate(here)
                if place <= last or (self._selection.pods and kind_key[1] == "Pod")
            ]
        return [
            resource for name in here if (resource := self._kinds[name]).namespaced or self._selection.namespace is None
        ]

    def _objects(self, resource: Resource) -> Iterator[dict[str, Any]]:
        """All objects of a kind; if the list ends early, that is reported and the other kinds continue."""
        count = 0
        try:
            for page in pages(self._client, resource.path(namespace=self._selection.namespace)):
                count += len(page)
                self._tell(f"{group_resource(resource)}: {count:,}; {len(self._scan.rows):,} vLLM containers so far")
                yield from (with_kind(resource, item) for item in page)
            self._scan.kinds_read.add((resource.group, resource.kind))
        except (StatusError, UnreachableError) as error:
            self._scan.kinds_missed.add((resource.group, resource.kind))
            self._note_unread(group_resource(resource), error)
        self._scan.looked_at += count

    def _note_unread(self, title: str, error: Exception, what: str = "the list ended early") -> None:
        """Records what could not be read: denied by the API server, or ended early. Raises UnreachableError if the API
        server answers nothing any more: each further list would wait, too."""
        if isinstance(error, UnreachableError):
            self._client.get_unreduced("/version")
        if isinstance(error, StatusError) and error.code in (401, 403, 404, 405):
            self._scan.not_read[title] = str(error)
        else:
            self._scan.cut_short = True
            self._scan.errors.append(f"{title}: {what}: {error}")

    def _facts(self) -> Facts:
        """The facts, with everything that the cluster has besides workloads."""
        namespace = self._selection.namespace
        around = surroundings.read(
            self._client, self._kinds, self._note_unread, namespaces=[namespace] if namespace else [], tell=self._tell
        )
        self._scan.errors += around.problems
        return around.facts(self._base)

    def _companions(self) -> Callable[[str], Companions]:
        """Namespace → the objects that belong to its workloads."""
        entries: dict[str, list[JSON]] = {}
        is_complete = True
        for name in (*ALSO_LISTED, *RUNTIMES):
            resource = self._kinds.get(name)
            if resource is None:
                is_complete = is_complete and (name in RUNTIMES or name[0] not in self._silent)
                continue  # the API server has no such kind, so that there is none of it, or does not say
            self._tell(group_resource(resource))
            try:
                for page in pages(self._client, resource.path(namespace=self._selection.namespace)):
                    for item in page:
                        kept = _reduced(resource, item)
                        entries.setdefault(str(kept["metadata"].get("namespace") or ""), []).append(kept)
            except (StatusError, UnreachableError) as error:
                self._note_unread(group_resource(resource), error)
                is_complete = is_complete and name in RUNTIMES
        shared = entries.get("", ())  # ClusterServingRuntimes
        by_namespace: dict[str, Companions] = {}

        def companions_of(namespace: str) -> Companions:
            """The objects of a namespace and those without one; made once per namespace."""
            if namespace not in by_namespace:
                by_namespace[namespace] = Companions(
                    (*entries.get(namespace, ()), *(shared if namespace else ())), is_complete=is_complete
                )
            return by_namespace[namespace]

        return companions_of

    def _config_maps(self, obj: JSON, namespace: str) -> dict[str, JSON]:
        """Name → each ConfigMap that the object's Pods refer to and that can be read. Each is read once, while it is
        among the last MAX_CONFIG_MAPS; after one that must not be read, no more are."""
        entries: dict[str, JSON] = {}
        resource = self._kinds.get(("", "ConfigMap"))
        if resource is None or not namespace:
            return entries
        for name in sorted(config_map_names(obj)):
            place = (namespace, name)
            if place not in self._maps and not self._maps_refused:
                self._maps[place] = self._config_map(resource, namespace, name)
                if len(self._maps) > MAX_CONFIG_MAPS:
                    self._maps.popitem(last=False)
            config_map = self._maps.get(place)
            if config_map is not None:
                entries[name] = config_map
        return entries

    def _config_map(self, resource: Resource, namespace: str, name: str) -> JSON | None:
        """The ConfigMap of this name. None if it is absent or can't be read; the scan notes the latter."""
        try:
            return {"apiVersion": "v1", "kind": "ConfigMap", **get(self._client, resource.path(name, namespace), {})}
        except (StatusError, UnreachableError) as error:
            code = error.code if isinstance(error, StatusError) else 0
            if code in (401, 403):
                self._maps_refused = True
                self._scan.not_read["configmaps (by name)"] = str(error)
            elif code != 404:
                self._note_unread(f"configmaps: {namespace}/{name}", error, "could not be read")
            return None

    # ── What is evaluated ────────────────────────────────────────────────────────────────────────────────────────────

    def _judge(
        self, obj: JSON, policy: Policy, other: Policy | None, facts: Facts, companions_of: Callable[[str], Companions]
    ) -> None:
        """Adds the findings about one object. Left out: one that was counted already, a retired ReplicaSet, one
        whose owner was, one that has ended, and one without vLLM or outside of the selection."""
        ref = Ref.of(obj)
        if ref.uid in self._scanned_uids or scan.retired(obj):
            return
        top = self._owners.top(obj)
        if top is not None:
            self._owners.add(obj, top)
            self._add_running_pod(obj, ref, top)
            return
        if scan.has_ended(obj) or (group_and_kind(obj) not in WORKLOAD_KINDS and not workload.find(obj, policy.kinds)):
            return
        here = replace(facts, companions=companions_of(ref.namespace))
        report = lint(obj, policy, here, where="scan")
        maps = self._config_maps(obj, ref.namespace) if report.results else {}
        if maps:  # variables of vLLM may be in them
            here = replace(here, config_maps=maps)
            report = lint(obj, policy, here, where="scan")
        self._scan.errors += [f"{ref}: {error.rule}: {error.error}" for error in report.errors]
        if not report.results:
            return
        self._owners.add(obj)
        self._scanned_uids.add(ref.uid)
        if not self._is_wanted(obj):
            return
        self._starts[ref.uid] = running.starts(result.engine.container.spec for result in report.results)
        if group_and_kind(obj)[0] == running.PREDICTORS:
            self._predictors[ref.uid] = [result.engine.container.spec for result in report.results]
        self._add_running_pod(obj, ref, ref.uid)
        self._scan.rows += scan.rows(report)
        if other is not None and self._scan.what_if is not None:
            self._scan.what_if += _new_denials(ref, obj, policy, other, facts)

    def _add_running_pod(self, obj: JSON, ref: Ref, top: str) -> None:
        """Remembers which workload (uid `top`) a running Pod belongs to, and that it is ready."""
        starts = self._starts.get(top) if ref.kind == "Pod" else None
        if starts and running.is_ready(obj):
            same = bool(starts & running.starts(mapping(obj.get("spec")).get("containers") or ()))
            if same or any(running.runs_predictor(item, obj) for item in self._predictors.get(top, ())):
                self._scan.ready.add(top)
        if self._selection.pods and ref.kind == "Pod" and mapping(obj.get("status")).get("phase") == "Running":
            self._scan.pods[ref.namespace, ref.name] = top

    def _is_wanted(self, obj: JSON) -> bool:
        """True if the object is of the selected kinds, and the selector certainly selects its labels."""
        if self._selection.kinds is not None and group_and_kind(obj) not in self._selection.kinds:
            return False
        if self._selection.selector is None:
            return True
        labels = mapping(mapping(obj.get("metadata")).get("labels"))
        return self._selection.selector.selects({str(word): str(item) for word, item in labels.items()}) is True


def _new_denials(ref: Ref, obj: JSON, policy: Policy, other: Policy, facts: Facts) -> Iterator[NewDenial]:
    """Why another policy would deny the object if it were applied again, and the one in force would not."""
    rehearsed = rehearsal.RehearsedObject(obj)
    after = rehearsal.rehearse(rehearsed, other, facts)
    if not after.denied or rehearsal.rehearse(rehearsed, policy, facts).denied:
        return
    for result in after.report.results:
        for finding in result.findings:
            if finding.mode == "deny":
                yield NewDenial(ref, result.engine.container.name, finding.rule, finding.finding.message)


def _reduced(resource: Resource, obj: JSON) -> dict[str, Any]:
    """A companion without what nothing here reads."""
    metadata = mapping(obj.get("metadata"))
    kept = {word: metadata[word] for word in ("namespace", "name") if word in metadata}
    return {
        "apiVersion": resource.group_version, "kind": resource.kind, "metadata": kept, "spec": mapping(obj.get("spec")),
    }  # fmt: skip


def _parsed(name: str) -> Key:
    """ "Kind.group" → (group, kind)."""
    kind, _, group = name.partition(".")
    return group, kind
