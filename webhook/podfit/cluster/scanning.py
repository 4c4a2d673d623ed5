"""Reads a whole cluster and evaluates what runs vLLM: only lists and gets, a page in memory at a time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from kubernetes.dynamic import Resource

from podfit.cluster import surroundings
from podfit.cluster.access import Client, StatusError, UnreachableError
from podfit.cluster.listing import Key, get, group_resource, pages, served, with_kind
from podfit.evaluation import rehearsal, scan
from podfit.evaluation.lint import Report, lint
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
UNREADABLE = (401, 403, 404, 405)
"""HTTP codes of a list that the user must not read, or that the API server no longer has."""


@dataclass(frozen=True)
class WorkloadSelection:
    """The selection of a cluster's workloads to scan."""

    namespace: str | None = None
    """None: all."""
    selector: Selector | None = None
    """Selects workloads by their own labels; None: all."""
    kinds: frozenset[Key] | None = None
    """None: all that the API server has."""
    what_if: Callable[[Policy], Policy] | None = None
    """From the policy in force to another one: the scan reports what that one would deny."""
    pods: bool = False
    """True: also record the workload of each running Pod, in `Scan.pods`."""


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
        """`policy`: the policy in force; `tell` gets lines of progress, which are dropped by default."""
        self._client = client
        self._selection = workload_selection
        self._base = facts
        self._policy = policy
        self._tell = tell
        self._scan = Scan()
        self._owners = Owners()
        self._scanned_uids: set[str] = set()
        """uids of the objects that were added: a list that starts again may return one twice."""
        self._starts: dict[str, set[int]] = {}
        """uid of a workload → the hashes of how its vLLM containers start."""
        self._predictors: dict[str, list[JSON]] = {}
        """uid of a KServe service → its vLLM containers, which the controller completes."""
        self._maps: OrderedDict[tuple[str, str], JSON | None] = OrderedDict()
        """Namespace and name → the ConfigMap, None if it is absent or can't be read; the first one was read first."""
        self._maps_refused = False
        """True once the API server has denied a ConfigMap: no more are read."""
        self._kinds: dict[Key, Resource] = {}
        """The kinds that the API server can list, set by `_discover`."""
        self._silent: set[str] = set()
        """API groups of which not every version said what kinds it has."""

    def run(self) -> Scan:
        """Reads and evaluates everything; raises OSError, ValueError or StatusError if the API server can't be
        reached at all. What can't be read is recorded in the result."""
        self._client.get_unreduced("/version")  # first, so that an API server that is away is reported at once
        policy = self._policy
        extra = {_parsed(name) for name in policy.kinds}  # kinds of an admin's own, with a Pod template
        self._discover({*WORKLOAD_KINDS, *scan.BETWEEN, *extra})
        self._scan.policy = policy.version
        other = self._selection.what_if(policy) if self._selection.what_if else None
        self._scan.what_if = None if other is None else []
        facts = self._facts()
        companions = self._companions()
        for resource in self._resources(extra):
            for obj in self._objects(resource):
                self._evaluate(obj, policy, other, facts, companions)
        return self._scan

    # ── What is read ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _discover(self, workloads: set[Key]) -> None:
        """Sets the kinds that exist. In an API group that does not answer, a kind may exist that is not listed, so the
        missing ones of `workloads` are recorded as missed."""
        groups = surroundings.GROUPS | {group for group, _ in (*workloads, *ALSO_LISTED)}
        self._kinds, silent = served(self._client, groups)
        missing = workloads - self._kinds.keys()
        for version, error in silent.items():
            silent_group = version.rpartition("/")[0]
            self._silent.add(silent_group)
            self._scan.kinds_missed |= {(group, kind) for group, kind in missing if group == silent_group}
            self._note_unread(version, error, "does not say what kinds it has")

    def _resources(self, extra: set[Key]) -> list[Resource]:
        """The kinds to read, owners before what they own. `extra`: further kinds with a Pod template.

        With a selection of kinds, only these and the kinds before them are read: an object counts only if its owner
        does not. Pods are read in addition if their workloads are to be recorded."""
        selected, order = self._selection.kinds, scan.order({*WORKLOAD_KINDS, *scan.BETWEEN, *extra})
        keys = [key for key in order if key in self._kinds]
        if selected is not None:
            places = [place for place, key in enumerate(keys) if key in selected]
            end = places[-1] + 1 if places else 0
            below = keys[end:] if self._selection.pods else []
            keys = keys[:end] + [(group, kind) for group, kind in below if kind == "Pod"]
        resources = [self._kinds[key] for key in keys]
        if self._selection.namespace is not None:
            return [resource for resource in resources if resource.namespaced]
        return resources

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
        """Records what could not be read: denied by the API server, or ended early. `title`: what, for people; `what`:
        the problem. Raises UnreachableError if the API server answers nothing any more: each further list would wait,
        too."""
        if isinstance(error, UnreachableError):
            self._client.get_unreduced("/version")  # raises if the API server itself is away
        if isinstance(error, StatusError) and error.code in UNREADABLE:
            self._scan.not_read[title] = str(error)
        else:
            self._scan.cut_short = True
            self._scan.errors.append(f"{title}: {what}: {error}")

    def _facts(self) -> Facts:
        """The facts with the cluster's nodes, claims, classes, namespaces and models; raises as `_note_unread`."""
        namespace = self._selection.namespace
        around = surroundings.read(
            self._client, self._kinds, self._note_unread, namespaces=[namespace] if namespace else [], tell=self._tell
        )
        self._scan.errors += around.problems
        return around.facts(self._base)

    def _companions(self) -> Callable[[str], Companions]:
        """Lists the objects that belong to workloads, and returns a function: namespace → those of its workloads.

        They are complete unless a list of ALSO_LISTED is missing. RUNTIMES do not count: without them, services are
        evaluated as they are."""
        objects: dict[str, list[JSON]] = {}  # namespace → its objects
        is_complete = True
        for group, kind in (*ALSO_LISTED, *RUNTIMES):
            is_needed = (group, kind) in ALSO_LISTED
            resource = self._kinds.get((group, kind))
            if resource is None:
                # Either the API server has no such kind, and so no objects of it, or the group did not say.
                if is_needed and group in self._silent:
                    is_complete = False
                continue
            self._tell(group_resource(resource))
            try:
                for page in pages(self._client, resource.path(namespace=self._selection.namespace)):
                    for item in page:
                        kept = _reduced(resource, item)
                        objects.setdefault(str(kept["metadata"].get("namespace") or ""), []).append(kept)
            except (StatusError, UnreachableError) as error:
                self._note_unread(group_resource(resource), error)
                if is_needed:
                    is_complete = False
        of_all_namespaces = objects.get("", [])  # ClusterServingRuntimes

        @cache
        def companions_of(namespace: str) -> Companions:
            """The objects of a namespace and those without one; for "", only the latter."""
            own = objects.get(namespace, []) if namespace else []
            return Companions((*own, *of_all_namespaces), is_complete=is_complete)

        return companions_of

    def _config_maps(self, obj: JSON, namespace: str) -> dict[str, JSON]:
        """Name → each ConfigMap that the object's Pods refer to and that can be read; none without a namespace. Each is
        read once, while it is among the last MAX_CONFIG_MAPS; after one that must not be read, no more are."""
        config_maps: dict[str, JSON] = {}
        resource = self._kinds.get(("", "ConfigMap"))
        if resource is None or not namespace:
            return config_maps
        for name in sorted(config_map_names(obj)):
            key = (namespace, name)
            if key not in self._maps and not self._maps_refused:
                self._maps[key] = self._config_map(resource, namespace, name)
                if len(self._maps) > MAX_CONFIG_MAPS:
                    self._maps.popitem(last=False)
            config_map = self._maps.get(key)
            if config_map is not None:
                config_maps[name] = config_map
        return config_maps

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

    def _evaluate(
        self, obj: JSON, policy: Policy, other: Policy | None, facts: Facts, companions_of: Callable[[str], Companions]
    ) -> None:
        """Adds the findings about one object. Left out: one that was counted already, a retired ReplicaSet, one
        whose owner was, one that has ended, and one without vLLM or outside of the selection.

        `other`: the policy of which the new denials are recorded; None: no comparison."""
        ref = Ref.of(obj)
        if ref.uid in self._scanned_uids or scan.retired(obj):
            return
        top = self._owners.top(obj)
        if top is not None:  # owners are read first: this object is part of a workload that was added
            self._owners.add(obj, top)
            self._add_running_pod(obj, ref, top)
            return
        if scan.has_ended(obj):
            return
        if group_and_kind(obj) not in WORKLOAD_KINDS and not workload.find(obj, policy.kinds):
            return
        report = self._lint(obj, policy, replace(facts, companions=companions_of(ref.namespace)), ref.namespace)
        self._scan.errors += [f"{ref}: {error.rule}: {error.error}" for error in report.errors]
        if not report.results:  # no container runs vLLM
            return
        self._owners.add(obj)
        self._scanned_uids.add(ref.uid)
        if not self._is_selected(obj):
            return
        containers = [result.engine.container.spec for result in report.results]
        self._starts[ref.uid] = running.starts(containers)
        if group_and_kind(obj)[0] == running.PREDICTORS:
            self._predictors[ref.uid] = containers
        self._add_running_pod(obj, ref, ref.uid)
        self._scan.rows += scan.rows(report)
        if other is not None and self._scan.what_if is not None:
            self._scan.what_if += _new_denials(ref, obj, policy, other, facts)

    def _lint(self, obj: JSON, policy: Policy, facts: Facts, namespace: str) -> Report:
        """The report on one object, with the ConfigMaps that it refers to: variables of vLLM may be in them. They are
        read only if the first evaluation finds vLLM, because most workloads do not run it."""
        report = lint(obj, policy, facts, where="scan")
        config_maps = self._config_maps(obj, namespace) if report.results else {}
        return lint(obj, policy, replace(facts, config_maps=config_maps), where="scan") if config_maps else report

    def _add_running_pod(self, obj: JSON, ref: Ref, top: str) -> None:
        """Records the workload (uid `top`) of a running Pod, if that was asked for, and the workload as ready if the
        Pod is, and runs the workload's present template. Does nothing for another object than a Pod."""
        if ref.kind != "Pod":
            return
        starts = self._starts.get(top)  # None: the workload is not selected
        if starts and running.is_ready(obj):
            runs_template = bool(starts & running.starts(mapping(obj.get("spec")).get("containers") or ()))
            predictors = self._predictors.get(top, ())
            if runs_template or any(running.runs_predictor(container, obj) for container in predictors):
                self._scan.ready.add(top)
        if self._selection.pods and mapping(obj.get("status")).get("phase") == "Running":
            self._scan.pods[ref.namespace, ref.name] = top

    def _is_selected(self, obj: JSON) -> bool:
        """True if the object is of the selected kinds, and the selector certainly selects its labels."""
        if self._selection.kinds is not None and group_and_kind(obj) not in self._selection.kinds:
            return False
        if self._selection.selector is None:
            return True
        labels = mapping(mapping(obj.get("metadata")).get("labels"))
        texts = {str(name): str(value) for name, value in labels.items()}
        return self._selection.selector.selects(texts) is True  # None: it can't be known


def _new_denials(ref: Ref, obj: JSON, policy: Policy, other: Policy, facts: Facts) -> Iterator[NewDenial]:
    """The findings for which `other` would deny the object if it were applied again, each once per container. None if
    it would allow it, or the policy in force denies it, too."""
    rehearsed = rehearsal.RehearsedObject(obj)
    after = rehearsal.rehearse(rehearsed, other, facts)
    if not after.denied or rehearsal.rehearse(rehearsed, policy, facts).denied:
        return
    for result in after.report.results:
        for finding in result.findings:
            if finding.mode == "deny":
                yield NewDenial(ref, result.engine.container.name, finding.rule, finding.finding.message)


def _reduced(resource: Resource, obj: JSON) -> dict[str, Any]:
    """An item of a list as an object with only its namespace, name and spec, which is all that companions are read
    for."""
    metadata = mapping(obj.get("metadata"))
    kept = {field: metadata[field] for field in ("namespace", "name") if field in metadata}
    return {
        "apiVersion": resource.group_version, "kind": resource.kind, "metadata": kept, "spec": mapping(obj.get("spec")),
    }  # fmt: skip


def _parsed(name: str) -> Key:
    """ "Kind.group" → (group, kind); without a dot, the group is ""."""
    kind, _, group = name.partition(".")
    return group, kind
