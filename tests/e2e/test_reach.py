"""What is sent to podfit, and what passes whatever podfit thinks of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from tests.conftest import GOOD_POD
from tests.e2e.manifests import named, workloads
from tests.e2e.process import until
from tests.e2e.release import Podfit, make_namespace
from tests.e2e.user import User
from tests.reviews import deployment, doomed

JSONDict = dict[str, Any]
Golden = Callable[[str], None]
UserOf = Callable[[Podfit], User]
Install = Callable[..., Podfit]
NGINX: JSONDict = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {"containers": [{"name": "web", "image": "nginx:1.29", "args": ["nginx", "-g", "daemon off;"]}]},
}


def everything(webhook: JSONDict) -> None:
    """Sends all that can be sent, so that the server alone decides."""
    del webhook["matchConditions"]
    if webhook["name"].startswith("serving"):
        return
    for rule in webhook["rules"]:
        if not any("/" in resource for resource in rule["resources"]):
            rule["operations"] = ["*"]
            rule["resources"] = [each for resource in rule["resources"] for each in (resource, f"{resource}/*")]
    webhook["rules"] = [rule for rule in webhook["rules"] if rule["operations"] == ["*"]]


def test_a_pod_without_vllm_never_reaches_the_server_and_one_with_vllm_does(install: Install, user_of: UserOf) -> None:
    podfit = install()
    user = user_of(podfit)
    user.write("web.yaml", NGINX, named(deployment(NGINX), "web"))
    user.write("llama-8b.yaml", GOOD_POD)
    before = podfit.reviews()

    user.kubectl("apply -f web.yaml")
    until("the Deployment's Pod", lambda: len(user.listed("pods")) == 2 or not user.cluster.controllers)
    assert podfit.reviews() == before
    assert podfit.said().count("serving on") == 1

    user.kubectl("apply -f llama-8b.yaml")
    assert podfit.reviews() == before + 2, "mutate, then validate"


def test_a_pod_without_vllm_passes_the_server_too(install: Install, user_of: UserOf) -> None:
    user = user_of(install(change=everything))
    user.write("web.yaml", NGINX)

    user.kubectl("apply -f web.yaml")

    assert user.podfit.reviews(webhook="validate", decision="skipped", kind="Pod") == 1


@pytest.mark.parametrize("resource", workloads(GOOD_POD))
def test_each_of_kubernetes_own_kinds_is_refused(resource: str, user: User) -> None:
    user.write("bad.yaml", workloads(doomed(GOOD_POD))[resource])

    shown = user.kubectl("apply -f bad.yaml", exits=1)

    webhook = "pods" if resource == "pods" else "workloads"
    assert f'admission webhook "{webhook}.podfit.dev" denied the request: vLLM would not start' in shown
    assert user.listed(resource) == []


@pytest.mark.parametrize("resource", workloads(GOOD_POD))
def test_each_of_kubernetes_own_kinds_is_made_where_it_is_good(resource: str, user: User) -> None:
    user.write("good.yaml", workloads(GOOD_POD)[resource])

    shown = user.kubectl("apply -f good.yaml")

    assert "Warning" not in shown
    assert shown.endswith(" created\n")


def test_a_custom_resource_is_refused(user: User, golden: Golden) -> None:
    user.write("crd.yaml", LEADER_WORKER_SET)
    user.kubectl("create -f crd.yaml")
    user.kubectl("wait --for=condition=Established crd/leaderworkersets.leaderworkerset.x-k8s.io")
    template = {"spec": doomed(GOOD_POD)["spec"]}
    bad = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "llama-8b"},
        "spec": {"replicas": 1, "leaderWorkerTemplate": {"size": 1, "workerTemplate": template}},
    }
    user.write("llama-8b.yaml", bad)

    user.kubectl("apply -f llama-8b.yaml", exits=1)

    golden(user.screen)


@pytest.mark.parametrize("change", [None, everything], ids=["by-the-charts-conditions", "by-the-server-alone"])
def test_scale_label_restart_and_delete_of_an_existing_bad_deployment_pass(
    change: Callable[[JSONDict], None] | None, install: Install, user_of: UserOf
) -> None:
    user = user_of(install(change=change) if change else install())
    user.write("llama-8b.yaml", deployment(doomed(GOOD_POD)) | {"metadata": {"name": "llama-8b"}})
    with user.before_podfit():
        user.kubectl("apply -f llama-8b.yaml")

    for command in (
        "scale deployment llama-8b --replicas=0",
        "label deployment llama-8b team=chat",
        "annotate deployment llama-8b owner=somebody",
        'patch deployment llama-8b -p \'{"metadata": {"finalizers": ["podfit.dev/test"]}}\'',
    ):
        assert "Warning" not in user.kubectl(command)
    assert "Warning: podfit unknown-flag" in user.kubectl("rollout restart deployment llama-8b")
    assert "Warning" not in user.kubectl("delete deployment llama-8b --wait=false")
    assert user.stored("apps/deployments", "llama-8b"), "its finalizer keeps it"
    user.kubectl('patch deployment llama-8b --type=merge -p \'{"metadata": {"finalizers": null}}\'')

    assert user.stored("apps/deployments", "llama-8b") is None


@pytest.mark.parametrize("change", [None, everything], ids=["by-the-charts-conditions", "by-the-server-alone"])
def test_what_is_being_deleted_is_not_judged(
    change: Callable[[JSONDict], None] | None, install: Install, user_of: UserOf
) -> None:
    user = user_of(install(change=change) if change else install())
    user.write("llama-8b.yaml", deployment(GOOD_POD))
    user.kubectl("apply -f llama-8b.yaml")
    user.kubectl('patch deployment llama-8b -p \'{"metadata": {"finalizers": ["podfit.dev/test"]}}\'')
    edit = [{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--no-such-flag"}]
    (user.folder / "worse.json").write_text(json.dumps(edit))

    user.kubectl("patch deployment llama-8b --type=json --patch-file worse.json", exits=1)
    user.kubectl("delete deployment llama-8b --wait=false")
    user.kubectl("patch deployment llama-8b --type=json --patch-file worse.json")


@pytest.mark.parametrize("change", [None, everything], ids=["by-the-charts-conditions", "by-the-server-alone"])
def test_label_debug_and_delete_of_an_existing_bad_pod_pass(
    change: Callable[[JSONDict], None] | None, install: Install, user_of: UserOf
) -> None:
    user = user_of(install(change=change) if change else install())
    user.write("llama-8b.yaml", doomed(GOOD_POD))
    with user.before_podfit():
        user.kubectl("apply -f llama-8b.yaml")

    assert "Warning" not in user.kubectl("label pod llama-8b team=chat")
    debug = user.kubectl("debug llama-8b --image=busybox:1.37 --profile=general --attach=false")
    assert "podfit" not in debug
    assert "ephemeralContainers" in user.get("pods", "llama-8b")["spec"]
    assert "Warning" not in user.kubectl("delete pod llama-8b --now --wait=false")


def test_an_update_of_a_bad_deployment_that_makes_it_no_worse_passes_with_a_warning(user: User, golden: Golden) -> None:
    bad = deployment(doomed(GOOD_POD))
    user.write("llama-8b.yaml", bad)
    with user.before_podfit():
        user.kubectl("apply -f llama-8b.yaml")
    bad["spec"]["template"]["spec"]["containers"][0]["env"].append({"name": "VLLM_LOGGING_LEVEL", "value": "DEBUG"})
    user.write("llama-8b.yaml", bad)

    user.kubectl("apply -f llama-8b.yaml")

    golden(user.screen)


def test_a_resize_below_what_vllm_needs_is_refused(user: User, golden: Golden) -> None:
    user.write("llama-8b.yaml", GOOD_POD)
    user.kubectl("apply -f llama-8b.yaml")
    small = {"limits": {"memory": "512Mi"}, "requests": {"memory": "512Mi"}}
    patch = {"spec": {"containers": [{"name": "vllm", "resources": small}]}}
    (user.folder / "small.json").write_text(json.dumps(patch))

    user.kubectl("patch pod llama-8b --subresource=resize --patch-file small.json", exits=1)

    golden(user.screen)
    assert user.get("pods", "llama-8b")["spec"]["containers"][0]["resources"]["limits"]["memory"] == "64Gi"


def test_the_mirror_of_a_static_pod_passes(install: Install, user_of: UserOf) -> None:
    """Its kubelet runs it already; the API server only shows it."""
    user = user_of(install(change=everything))
    mirror = doomed(GOOD_POD)
    mirror["metadata"] = {"name": "llama-8b", "annotations": {"kubernetes.io/config.mirror": "0"}}
    mirror["spec"]["nodeName"] = "node-1"
    user.write("mirror.yaml", mirror)

    user.kubectl("create -f mirror.yaml")


def test_an_excluded_namespace_is_not_judged(install: Install, user_of: UserOf) -> None:
    podfit = install({"webhooks": {"excludedNamespaces": ["quiet"]}})
    user = user_of(podfit)
    make_namespace(podfit.cluster, "quiet", podfit.name)
    user.write("llama-8b.yaml", doomed(GOOD_POD))

    user.kubectl("apply -f llama-8b.yaml", exits=1)
    user.kubectl("apply -n quiet -f llama-8b.yaml")


def test_a_huge_pod_is_still_judged(user: User) -> None:
    """The API server gives up on conditions that cost too much, and an object then passes unseen."""
    huge = doomed(GOOD_POD)
    vllm = huge["spec"]["containers"].pop()
    for number in range(20):
        env = [{"name": f"SETTING_{index}", "value": "x" * 100} for index in range(300)]
        sidecar = {"name": f"s-{number}", "image": "registry.example.com/a/rather/long/path/sidecar:1.0", "env": env}
        huge["spec"]["containers"].append({**sidecar, "args": ["sh", "-c", "echo " + "y" * 20_000]})
    huge["spec"]["containers"].append(deepcopy(vllm))
    user.write("huge.yaml", huge)

    shown = user.kubectl("create -f huge.yaml", exits=1)

    assert "--no-such-flag" in shown


LEADER_WORKER_SET: JSONDict = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": "leaderworkersets.leaderworkerset.x-k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved, a test"},
    },
    "spec": {
        "group": "leaderworkerset.x-k8s.io",
        "scope": "Namespaced",
        "names": {"kind": "LeaderWorkerSet", "plural": "leaderworkersets", "singular": "leaderworkerset"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
