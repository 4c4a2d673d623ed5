"""What is sent to podfit, and what passes whatever podfit thinks of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from tests.conftest import GOOD_POD
from tests.e2e.manifests import named
from tests.e2e.process import until
from tests.e2e.release import LABEL, OWN, Podfit, make_namespace, make_own_namespace
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


@pytest.mark.parametrize("change", [None, everything], ids=["by-the-charts-conditions", "by-the-server-alone"])
def test_the_mirror_of_a_static_pod_passes(
    change: Callable[[JSONDict], None] | None, install: Install, user_of: UserOf
) -> None:
    """Its kubelet runs it already; the API server only shows it."""
    user = user_of(install(change=change) if change else install())
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


def test_system_namespaces_and_podfits_own_are_exempt_whatever_their_labels_say(
    install: Install, user_of: UserOf
) -> None:
    podfit = install()
    user = user_of(podfit)
    make_own_namespace(podfit.cluster)
    user.write("llama-8b.yaml", doomed(GOOD_POD))
    user.kubectl("apply --dry-run=server -f llama-8b.yaml", exits=1)

    for namespace in ("kube-system", OWN):
        podfit.cluster.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": {LABEL: podfit.name}}})
        path = f"/api/v1/namespaces/{namespace}/podtemplates?dryRun=All"
        template = {"metadata": {"name": "llama-8b"}, "template": {"spec": doomed(GOOD_POD)["spec"]}}
        status, answer = podfit.cluster.call("POST", path, template)
        podfit.cluster.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": {LABEL: None}}})
        assert status == 201, answer


EVERYDAY: dict[str, JSONDict] = {
    "nginx": {"image": "nginx:1.29"},
    "postgres": {"image": "postgres:17", "env": [{"name": "POSTGRES_PASSWORD", "value": "x"}]},
    "a chat in front of vLLM": {
        "image": "ghcr.io/open-webui/open-webui:main",
        "env": [{"name": "OPENAI_API_BASE_URL", "value": "http://vllm.chat:8000/v1"}],
    },
    "training": {"image": "pytorch/pytorch:2.8.0", "command": ["python", "train.py"], "args": ["--model", "llama"]},
    "a CNI": {"image": "quay.io/cilium/cilium:v1.18.0", "command": ["cilium-agent"]},
    "sglang": {"image": "lmsysorg/sglang:v0.5.0", "command": ["python3", "-m", "sglang.launch_server"]},
    "nothing but a name": {"image": "registry.example.com/app"},
    "triton": {"image": "nvcr.io/nvidia/tritonserver:25.08-py3", "args": ["tritonserver", "--model-repository=/m"]},
}
"""What runs in clusters, and is none of podfit's business."""


def counted(user: User, metric: str, webhook: str) -> float:
    """A metric of the API server, for one of podfit's webhooks."""
    status, text = user.cluster.call("GET", "/metrics")
    assert status == 200
    lines = [line for line in str(text).splitlines() if line.startswith(f"{metric}{{") and f'"{webhook}"' in line]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


def test_no_creation_without_vllm_reaches_podfit(install: Install, user_of: UserOf) -> None:
    """Counted where it is decided: each Pod is excluded twice, from the mutating and from the validating webhook."""
    user = user_of(install())
    metric = "apiserver_admission_match_condition_exclusions_total"
    before, asked = counted(user, metric, "pods.podfit.dev"), user.podfit.reviews()
    pods: list[JSONDict] = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"pod-{n}"},
            "spec": {"containers": [{"name": "a", **one}]},
        }
        for n, one in enumerate(EVERYDAY.values())
    ]
    user.write("pods.yaml", *pods)
    user.write("deployments.yaml", *(named(deployment(pod), pod["metadata"]["name"]) for pod in pods))

    user.kubectl("apply -f pods.yaml")
    user.kubectl("apply -f deployments.yaml")
    made = 2 * len(EVERYDAY) if user.cluster.controllers else len(EVERYDAY)
    until("the Deployments' Pods", lambda: len(user.listed("pods")) >= made)

    assert user.podfit.reviews() == asked
    assert counted(user, metric, "pods.podfit.dev") >= before + 2 * made


def test_an_image_that_does_not_say_vllm_is_sent_for_its_arguments(podfit: Podfit, user: User) -> None:
    pod = deepcopy(GOOD_POD)
    pod["spec"]["containers"][0]["image"] = "registry.example.com/llm-serving:1"
    user.write("llama-8b.yaml", pod)
    before = podfit.reviews(kind="Pod", decision="allowed", dry_run="false")

    user.kubectl("apply -f llama-8b.yaml")

    assert podfit.reviews(kind="Pod", decision="allowed", dry_run="false") == before + 2
