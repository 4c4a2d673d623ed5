"""Whether what an API server takes as it is, it also takes as podfit patches it.

Each Pod is made twice as a dry run (`dryRun=All`): in a namespace that podfit evaluates and in its twin that it
does not. `python -m tests.e2e.accepted DIR…` asks this of every manifest of a folder.
"""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import urllib3

from podfit.kube import manifest, workload
from podfit.rules import all_rules
from tests.e2e.controlplane import ADMIN, HOST, Cluster, running
from tests.e2e.mutator import sidecars
from tests.e2e.process import until
from tests.e2e.release import Podfit, installed, make_namespace

JSONDict = dict[str, Any]
RESTRICTED = "pod-security.kubernetes.io/enforce"
SIDECAR = "sidecar"
"""A namespace's label: its Pods get one."""
LIMITS: Mapping[str, tuple[JSONDict, ...]] = {
    "no-limits": (),
    "each-container": ({"type": "Container", "max": {"memory": "48Gi"}, "defaultRequest": {"memory": "4Gi"}},),
    "whole-pod": ({"type": "Pod", "max": {"memory": "96Gi"}},),
    "ratio": ({"type": "Container", "default": {"memory": "8Gi"}, "maxLimitRequestRatio": {"memory": "3"}},),
    "quota": (),
    "restricted": (),
    "sidecar": (),
    "all-of-it": ({"type": "Container", "max": {"memory": "64Gi"}, "default": {"memory": "32Gi"}},),
}
"""Namespaces, and what their LimitRange says."""
POLICY: JSONDict = {
    "enforce": {"mode": "warn"},
    "mutate": {"workloads": True},
    "rules": {rule: {"fix": True} for rule, kind in all_rules().items() if kind.fix is not False},
}
"""Repairs all that can be repaired, and denies nothing."""


@dataclass(frozen=True)
class Asked:
    """What the API server said of one Pod in one kind of namespace."""

    namespace: str
    name: str
    plain: str
    """Why the API server rejects it without podfit; "" if it is accepted."""
    patched: str
    """The same with podfit."""
    changed: bool
    """podfit patched it."""
    stable: bool
    """Made again as it was patched, it is what it was."""


class Lab:
    """The namespaces, each with its twin, and one connection to the API server."""

    def __init__(self, podfit: Podfit) -> None:
        self.podfit = podfit
        ca = str(podfit.cluster.root / "ca.crt")
        self._http = urllib3.PoolManager(ca_certs=ca, headers={"Authorization": f"Bearer {ADMIN}"})

    def ask(self, namespace: str, pod: JSONDict) -> Asked:
        """Makes the Pod in both twins."""
        pod = restricted(pod) if namespace in ("restricted", "all-of-it") else pod
        plain = self._make(f"{namespace}-twin", pod)
        patched = self._make(namespace, pod)
        name, stable, changed = str(pod["metadata"]["name"]), True, False
        if patched[0] == 201 and plain[0] == 201:
            changed = _judged(patched[1]) != _judged(plain[1])
            again = self._make(namespace, {**pod, "spec": _judged(patched[1])}) if changed else patched
            stable = _judged(again[1]) == _judged(patched[1])
        return Asked(namespace, name, _why(plain), _why(patched), changed, stable)

    def _make(self, namespace: str, pod: JSONDict) -> tuple[int, JSONDict]:
        url = f"https://{HOST}:{self.podfit.cluster.port}/api/v1/namespaces/{namespace}/pods?dryRun=All"
        answer = self._http.request("POST", url, body=json.dumps(pod), headers={**self._http.headers, **_JSON})
        return answer.status, json.loads(answer.data)


_JSON = {"Content-Type": "application/json"}


def _why(answer: tuple[int, JSONDict]) -> str:
    return "" if answer[0] == 201 else str(answer[1].get("message"))


def _judged(pod: JSONDict) -> JSONDict:
    """The spec without what the ServiceAccount plugin adds under a name of chance."""
    spec: JSONDict = copy.deepcopy(pod.get("spec", {}))
    chance = {one["name"] for one in spec.get("volumes", []) if one["name"].startswith("kube-api-access-")}
    spec["volumes"] = [one for one in spec.get("volumes", []) if one["name"] not in chance]
    for container in (*spec.get("containers", []), *spec.get("initContainers", [])):
        container["volumeMounts"] = [one for one in container.get("volumeMounts", []) if one["name"] not in chance]
    return spec


def restricted(pod: JSONDict) -> JSONDict:
    """The Pod as the restricted Pod Security profile wants it, as far as its own words allow."""
    pod = copy.deepcopy(pod)
    spec = pod["spec"]
    spec["securityContext"] = {
        **(spec.get("securityContext") or {}), "runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"},
    }  # fmt: skip
    for container in (*spec.get("containers", []), *spec.get("initContainers", [])):
        container["securityContext"] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    return pod


def pods(paths: Iterable[Path]) -> Iterator[JSONDict]:
    """A Pod of each Pod template in these files."""
    for path in paths:
        try:
            documents = manifest.read(path.read_bytes(), path.name).documents
        except OSError:
            continue
        for number, document in enumerate(documents):
            for place, found in enumerate(workload.find(document.object)):
                if any(one.synthetic for one in found.containers) or "containers" not in found.spec:
                    continue  # its operator writes the Pod, not the API server
                metadata = {key: value for key, value in found.metadata.items() if key in ("labels", "annotations")}
                metadata["name"] = f"{path.stem[:40]}-{number}-{place}".lower().replace("_", "-").replace(".", "-")
                yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": dict(found.spec)}


@contextmanager
def lab(cluster: Cluster, name: str = "podfit-accepted", knows: bool = True) -> Iterator[Lab]:
    """podfit with a policy that repairs all, the namespaces, and another project's webhook. `knows`: it reads the
    namespaces' limits."""
    with ExitStack() as stack:
        for namespace, limits in LIMITS.items():
            for twin, judge in ((namespace, name), (f"{namespace}-twin", "nobody")):
                _prepare(cluster, twin, namespace, judge, limits)
        # Two of them: one is asked before podfit, the other after it, and podfit again after that.
        stack.enter_context(sidecars(cluster, f"a-{name}", {SIDECAR: "before"}))
        stack.enter_context(sidecars(cluster, f"z-{name}", {SIDECAR: "after"}))
        values = {"policy": {"spec": POLICY}, "watch": {"limitranges": knows, "resourcequotas": knows}}
        podfit = stack.enter_context(installed(cluster, name, values, reads=True))
        if knows:
            until(
                "podfit to know the limits",
                lambda: any("resourcequotas: 4, fresh" in line for line in podfit.ready()[1]),
            )
        yield Lab(podfit)


def _prepare(cluster: Cluster, name: str, namespace: str, judge: str, limits: Iterable[JSONDict]) -> None:
    make_namespace(cluster, name, judge)
    labels = {SIDECAR: {"sidecar": "after", "all-of-it": "before"}.get(namespace, "none")}
    if namespace in ("restricted", "all-of-it"):
        labels[RESTRICTED] = "restricted"
    cluster.patch(f"/api/v1/namespaces/{name}", {"metadata": {"labels": labels}})
    place = f"/api/v1/namespaces/{name}"
    made = [("limitranges", {"metadata": {"name": "team"}, "spec": {"limits": [item]}}) for item in limits]
    if namespace in ("quota", "all-of-it"):
        hard = {"limits.memory": "64Gi", "requests.memory": "64Gi", "pods": "100"}
        made.append(("resourcequotas", {"metadata": {"name": "team"}, "spec": {"hard": hard}}))
    for resource, obj in made:
        status, answer = cluster.call("POST", f"{place}/{resource}", obj)
        assert status == 201, answer
        if resource == "resourcequotas":  # what its controller would count; nothing is used
            answer["status"] = {"hard": answer["spec"]["hard"], "used": dict.fromkeys(answer["spec"]["hard"], "0")}
            status, answer = cluster.call("PUT", f"{place}/{resource}/team/status", answer)
            assert status == 200, answer


def main(folders: list[str]) -> int:
    """Prints what of the folders' Pods is taken and what not; 1 where a patch broke one."""
    paths = [path for folder in folders for path in sorted(Path(folder).rglob("*")) if path.is_file()]
    with running() as cluster, lab(cluster) as found:
        asked = [found.ask(namespace, pod) for pod in pods(paths) for namespace in LIMITS]
    for namespace in LIMITS:
        mine = [one for one in asked if one.namespace == namespace]
        taken = [one for one in mine if not one.plain]
        broken = [one for one in taken if one.patched]
        unstable = [one for one in taken if not one.stable]
        print(
            f"{namespace}: {len(mine)} Pods, {len(taken)} taken, {sum(one.changed for one in taken)} patched, "
            f"{len(broken)} broken, {len(unstable)} changed again"
        )
        for one in (*broken, *unstable):
            print(f"  {one.name}: {one.patched or 'patched twice'}")
    return 1 if any(not one.plain and (one.patched or not one.stable) for one in asked) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
