"""The chart as Helm installs it: taken by the API server in every variant, upgraded, rolled back, and gone again."""

from __future__ import annotations

import base64
import json
import os
import shlex
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from podfit.server import certs, registration
from tests.chart.test_chart import CHART, SCANNING, VARIANTS, container, only, render
from tests.conftest import GOOD_POD
from tests.e2e.controlplane import HOST, Cluster, running
from tests.e2e.process import repeated, until
from tests.e2e.release import OWN, Podfit

JSONDict = dict[str, Any]
Helm = Callable[..., str]
FOREIGN = {
    "issuers.cert-manager.io": "Issuer",
    "certificates.cert-manager.io": "Certificate",
    "prometheusrules.monitoring.coreos.com": "PrometheusRule",
    "servicemonitors.monitoring.coreos.com": "ServiceMonitor",
}
"""Kinds of others that the chart may render."""
JUDGED = {"podfit": "podfit"}
"""Labels of the namespaces that the release evaluates."""
REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
POLICIES = "/apis/podfit.dev/v1alpha1/policies"
CONFIGURATIONS = ("validatingwebhookconfigurations", "mutatingwebhookconfigurations")
BUNDLE = base64.b64encode(certs.issue_ca(datetime.now(UTC)).certificate).decode()
"""A CA, as the server writes one."""
LEFT = (
    "all,secrets,configmaps,serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings,networkpolicies,"
    "poddisruptionbudgets,customresourcedefinitions,validatingwebhookconfigurations,mutatingwebhookconfigurations"
)


@pytest.fixture(name="fresh", scope="module")
def _fresh() -> Iterator[Cluster]:
    """A control plane of its own, whose CRD no other podfit uses; the release's namespace is restricted."""
    with running() as cluster:
        prepare(cluster)
        yield cluster


def prepare(cluster: Cluster) -> None:
    """Makes the release's namespace, and the kinds of others that the chart may render."""
    label = {"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/warn": "restricted"}
    cluster.call("POST", "/api/v1/namespaces", {"metadata": {"name": OWN, "labels": label}})
    for name, kind in FOREIGN.items():
        plural, _, group = name.partition(".")
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        versions = [{"name": "v1", "served": True, "storage": True, "schema": schema}]
        spec = {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural},
            "versions": versions,
        }
        crd = {"metadata": {"name": name}, "spec": spec}
        status, answer = cluster.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
        assert status == 201, answer


def run(cluster: Cluster, program: str, command: str, stdin: str = "") -> str:
    """Runs kubectl or Helm; what it printed."""
    env = {
        "PATH": os.environ["PATH"],
        "HOME": cluster.folder,
        "TMPDIR": cluster.folder,
        "KUBECONFIG": str(cluster.kubeconfig(OWN)),
    }
    done = subprocess.run(
        [getattr(cluster, program), *shlex.split(command)],
        input=stdin, env=env, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, f"$ {program} {command}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def test_every_variant_is_taken_by_the_api_server_and_restricted(fresh: Cluster) -> None:
    check_every_variant(fresh)


def check_every_variant(cluster: Cluster) -> None:
    """Strictly: no field that it does not know. Only the host's network is not allowed in a restricted Pod."""
    for name, values in {**VARIANTS, "a scanner": SCANNING}.items():
        objects = render(**values)

        said = run(cluster, "kubectl", "apply --dry-run=server --validate=strict -f -", yaml.safe_dump_all(objects))

        assert said.count("(server dry run)") == len(objects), name
        warnings = [line for line in said.splitlines() if line.startswith("Warning")]
        assert all("host namespaces (hostNetwork=true)" in line or "hostPort" in line for line in warnings), warnings
        assert bool(warnings) == bool(values.get("hostNetwork")), name


@pytest.fixture(name="helm")
def _helm(fresh: Cluster) -> Iterator[Helm]:
    """Helm in that cluster; what is left of the release goes with the test."""

    def helm(command: str, **values: Any) -> str:
        values.setdefault("image", {"repository": "registry.example.com/podfit"})
        values.setdefault("webhooks", {"namespaceSelector": {"matchLabels": JUDGED}, "timeoutSeconds": 1})
        stdin = json.dumps(values) if "--values" in command else ""
        return run(fresh, "helm", f"{command} --namespace {OWN}", stdin)

    yield helm
    run(fresh, "helm", f"uninstall podfit --ignore-not-found --namespace {OWN}")


def written(cluster: Cluster) -> JSONDict:
    """What a client wrote: everything of the release except status and bookkeeping."""
    found = json.loads(run(cluster, "kubectl", f"get {LEFT} -l app.kubernetes.io/instance=podfit -o json"))["items"]
    return {
        f"{obj['kind']}/{obj['metadata']['name']}": {
            **{key: value for key, value in obj.items() if key not in ("metadata", "status")},
            "labels": obj["metadata"].get("labels"),
            "generation": obj["metadata"].get("generation"),
        }
        for obj in found
        if obj["kind"] not in ("Pod", "ReplicaSet")
    }


def test_install_upgrade_roll_back_and_uninstall(fresh: Cluster, helm: Helm) -> None:
    """What the server writes itself survives all of it, and nothing is left at the end but the CRD."""
    helm(f"install podfit {CHART} --values -")
    until("the Pods, which a restricted namespace takes", lambda: pods(fresh) == 2 or not fresh.controllers)
    first = written(fresh)
    helm(f"upgrade podfit {CHART} --values -")
    assert written(fresh) == first, "the same values change nothing"

    for configuration in CONFIGURATIONS:
        path = f"{REGISTRATION}/{configuration}/podfit"
        obj = fresh.call("GET", path)[1]
        for hook in obj["webhooks"]:
            hook["clientConfig"]["caBundle"] = BUNDLE
        assert fresh.call("PUT", path, obj)[0] == 200
    fresh.patch(f"/api/v1/namespaces/{OWN}/secrets/podfit-certificates", {"data": {"ca.crt": BUNDLE}})
    helm(f"upgrade podfit {CHART} --values -", replicaCount=3)
    assert (replicas(fresh), kept(fresh)) == (3, True)
    helm("rollback podfit 1")
    assert (replicas(fresh), kept(fresh)) == (2, True)

    with passing(fresh) as answers:
        helm("uninstall podfit")

    assert set(answers) == {201}, "vLLM's Pods go on while Helm takes the Service away, and the configurations after it"
    until("no more to be left", lambda: left(fresh) == [CRD], lambda: "\n".join(left(fresh)), seconds=420)


def test_off_survives_helms_upgrade_and_roll_back(fresh: Cluster, helm: Helm) -> None:
    """Helm changes the same webhooks meanwhile, and knows nothing of the condition."""

    def timeouts() -> set[int]:
        return {hook["timeoutSeconds"] for hook in hooks_of(fresh)}

    def are_off() -> bool:
        return all("podfit-is-off" in {one["name"] for one in hook["matchConditions"]} for hook in hooks_of(fresh))

    helm(f"install podfit {CHART} --values -")
    for configuration in CONFIGURATIONS:
        path = f"{REGISTRATION}/{configuration}/podfit"
        switched = registration.off(fresh.call("GET", path)[1], "a false alarm", "now")
        fresh.patch(path, switched)

    slower = {"namespaceSelector": {"matchLabels": JUDGED}, "timeoutSeconds": 2}
    helm(f"upgrade podfit {CHART} --values -", webhooks=slower)
    assert (timeouts(), are_off()) == ({2}, True)
    helm("rollback podfit 1")
    assert (timeouts(), are_off()) == ({1}, True)


def hooks_of(cluster: Cluster) -> list[JSONDict]:
    found = (cluster.call("GET", f"{REGISTRATION}/{name}/podfit")[1]["webhooks"] for name in CONFIGURATIONS)
    return [hook for hooks in found for hook in hooks]


def test_policy_objects_survive_all_that_the_chart_does(fresh: Cluster, helm: Helm) -> None:
    """docs/operations.md, Remove podfit: Kubernetes deletes a CRD's objects with it."""
    ours = {"apiVersion": "podfit.dev/v1alpha1", "kind": "Policy", "metadata": {"name": "chat"}}
    ours["spec"] = {"rules": {"unpinned-image": {"mode": "deny"}}}

    def kept_policies() -> list[JSONDict]:
        return [one["spec"] for one in fresh.call("GET", POLICIES)[1]["items"]]

    notes = helm(f"install podfit {CHART} --values -")
    until("the CRD to be served", lambda: served(fresh))
    run(fresh, "kubectl", "apply -f -", json.dumps(ours))

    helm(f"upgrade podfit {CHART} --values -", watch={"policies": False})
    assert kept_policies() == [ours["spec"]], "it is not watched any more"
    helm("uninstall podfit")
    assert kept_policies() == [ours["spec"]]
    helm(f"install second {CHART} --values - --take-ownership")
    helm("uninstall second")
    assert kept_policies() == [ours["spec"]]
    helm(f"install podfit {CHART} --values - --take-ownership")
    saved = run(fresh, "kubectl", "get policies.podfit.dev -o yaml")
    helm("uninstall podfit")

    assert "kubectl delete crd policies.podfit.dev" in notes
    run(fresh, "kubectl", "delete crd policies.podfit.dev")
    helm(f"install podfit {CHART} --values -")
    until("the CRD to be served", lambda: served(fresh))
    assert kept_policies() == []
    run(fresh, "kubectl", "apply -f -", saved)
    assert kept_policies() == [ours["spec"]]


def served(cluster: Cluster) -> bool:
    return cluster.call("GET", POLICIES)[0] == 200


@contextmanager
def passing(cluster: Cluster) -> Iterator[list[int]]:
    """Makes Pods that the release evaluates meanwhile; the API server's answer to each."""
    namespace = cluster.call("POST", "/api/v1/namespaces", {"metadata": {"name": "chat", "labels": JUDGED}})
    assert namespace[0] == 201, namespace
    account = "/api/v1/namespaces/chat/serviceaccounts/default"
    until("the service account", lambda: cluster.call("GET", account)[0] == 200)
    answers: list[int] = []
    with repeated(lambda: answers.append(cluster.call("POST", "/api/v1/namespaces/chat/pods?dryRun=All", GOOD_POD)[0])):
        yield answers


def pods(cluster: Cluster) -> int:
    return len(cluster.call("GET", f"/api/v1/namespaces/{OWN}/pods")[1]["items"])


def replicas(cluster: Cluster) -> int:
    status, deployment = cluster.call("GET", f"/apis/apps/v1/namespaces/{OWN}/deployments/podfit")
    assert status == 200
    return int(deployment["spec"]["replicas"])


def kept(cluster: Cluster) -> bool:
    """Whether the CA that the server wrote is everywhere."""
    secret = cluster.call("GET", f"/api/v1/namespaces/{OWN}/secrets/podfit-certificates")[1]
    hooks = [hook["clientConfig"].get("caBundle") for hook in hooks_of(cluster)]
    return {(secret.get("data") or {}).get("ca.crt"), *hooks} == {BUNDLE}


CRD = "customresourcedefinition.apiextensions.k8s.io/policies.podfit.dev"


def left(cluster: Cluster) -> list[str]:
    """Everything of the release, of all kinds and namespaces."""
    found = {
        line
        for key in ("instance", "name")
        for line in run(cluster, "kubectl", f"get {LEFT} -A -o name -l app.kubernetes.io/{key}=podfit").splitlines()
        if "No resources found" not in line
    }
    return sorted(found)


def test_what_helm_test_runs_finds_a_server_that_is_ready(podfit: Podfit) -> None:
    (asking,) = only(render(), "Job")["spec"]["template"]["spec"]["containers"]
    env = {"HOST": HOST, "PORT": str(podfit.port), "CA": podfit.ca.read_text()}

    done = subprocess.run(
        [*asking["command"], *asking["args"]], env={**os.environ, **env}, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("ok\n")
    assert container(render())["image"] == asking["image"]
