"""What podfit sees of a live cluster: nodes, models and claims; and what it does while it sees nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from tests.conftest import GOOD_POD
from tests.e2e.controlplane import STRANGER, Cluster
from tests.e2e.process import until
from tests.e2e.release import OWN, Podfit, installed, make_own_namespace
from tests.e2e.user import User

JSONDict = dict[str, Any]
UserOf = Callable[[Podfit], User]
RBAC = "/apis/rbac.authorization.k8s.io/v1"
PRODUCT = "nvidia.com/gpu.product"


@contextmanager
def nodes(cluster: Cluster, **products: str) -> Iterator[None]:
    """Nodes of four GPUs each, until the block ends."""
    with ExitStack() as stack:
        for name, product in products.items():
            node = {
                "metadata": {"name": name, "labels": {PRODUCT: product}},
                "status": {"allocatable": {"nvidia.com/gpu": "4"}, "capacity": {"nvidia.com/gpu": "4"}},
            }
            status, answer = cluster.call("POST", "/api/v1/nodes", node)
            assert status == 201, answer
            stack.callback(cluster.call, "DELETE", f"/api/v1/nodes/{name}")
        yield


@pytest.fixture(name="watching", scope="module")
def _watching(cluster: Cluster) -> Iterator[Podfit]:
    """podfit with the rights that its chart grants, and no others."""
    with installed(cluster, "podfit-watching", reads=True) as podfit:
        yield podfit


def seen(podfit: Podfit, *lines: str) -> list[str]:
    """Waits until /readyz says these lines, and returns all of them."""

    def said() -> list[str] | None:
        status, told = podfit.ready()
        return told if status == 200 and all(any(one.startswith(line) for one in told) for line in lines) else None

    return until(f"/readyz to say {lines}", said, lambda: "\n".join(podfit.ready()[1]))


def eight_billion(name: str, **spec: Any) -> JSONDict:
    """A model of 15 GiB, for a GPU that nothing names."""
    container = {**GOOD_POD["spec"]["containers"][0]}
    container["args"] = ["unsloth/Llama-3.1-8B-Instruct", "--max-model-len", "8192"]
    pod = {**GOOD_POD["spec"], "containers": [container], **spec}
    pod.pop("nodeSelector", None)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": pod}


def test_the_charts_rights_are_enough_and_nodes_narrow_and_warn(watching: Podfit, user_of: UserOf) -> None:
    user = user_of(watching)
    with nodes(watching.cluster, t4="Tesla-T4", l4="NVIDIA-L4"):
        told = seen(watching, "nodes: 2, fresh")
        user.write("mixed.yaml", eight_billion("mixed"))
        shown = user.kubectl("apply -f mixed.yaml")

    assert not [line for line in told if "not seen" in line], told
    assert "it does not fit Tesla T4 (1 node such as t4)" in shown
    assert user.stored("pods", "mixed")


def test_a_kind_that_may_not_be_read_stops_no_other(cluster: Cluster) -> None:
    make_own_namespace(cluster)
    rule = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]}
    role = {"metadata": {"name": "nodes-only"}, "rules": [rule]}
    binding = {
        "metadata": {"name": "nodes-only"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "nodes-only"},
        "subjects": [{"kind": "User", "name": STRANGER, "apiGroup": "rbac.authorization.k8s.io"}],
    }
    with ExitStack() as stack:
        for path, obj in (("clusterroles", role), ("clusterrolebindings", binding)):
            status, answer = cluster.call("POST", f"{RBAC}/{path}", obj)
            assert status == 201, answer
            stack.callback(cluster.call, "DELETE", f"{RBAC}/{path}/nodes-only")
        arguments = (f"--kubeconfig={cluster.kubeconfig(OWN, STRANGER)}",)
        podfit = stack.enter_context(installed(cluster, "podfit-nodes-only", arguments=arguments))
        told = seen(podfit, "nodes: 0, fresh", "configmaps: not seen (403")

    assert "storageclasses.storage.k8s.io is forbidden" in " ".join(told)


def test_after_a_restart_of_the_api_server_what_happened_meanwhile_is_known(watching: Podfit) -> None:
    cluster = watching.cluster
    with nodes(cluster, a="Tesla-T4"):
        seen(watching, "nodes: 1, fresh")
        cluster.restart()
        with nodes(cluster, b="NVIDIA-L4"):
            seen(watching, "nodes: 2, fresh")
    told = seen(watching, "nodes: 0, fresh")

    assert told[0] == "ok"


def test_a_model_that_a_labelled_config_map_teaches_is_known_at_once(watching: Podfit, user_of: UserOf) -> None:
    user = user_of(watching)
    config = (
        '{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 8192, "num_hidden_layers": 80,'
        ' "num_attention_heads": 64, "num_key_value_heads": 8, "intermediate_size": 28672, "vocab_size": 128256,'
        ' "max_position_embeddings": 131072, "torch_dtype": "bfloat16"}'
    )
    taught: JSONDict = {
        "metadata": {
            "name": "ours",
            "labels": {"podfit.dev/model-config": "true"},
            "annotations": {"podfit.dev/model": "acme/ours"},
        },
        "data": {"config.json": config},
    }
    other: JSONDict = {"metadata": {"name": "others"}, "data": {"config.json": config}}
    place = f"/api/v1/namespaces/{OWN}/configmaps"
    for obj in (taught, other):
        status, answer = watching.cluster.call("POST", place, obj)
        assert status == 201, answer
    seen(watching, "configmaps: 1, fresh")
    pod = eight_billion("ours", nodeSelector={PRODUCT: "NVIDIA-L4"})
    pod["spec"]["nodeSelector"] = {PRODUCT: "NVIDIA-L4"}
    pod["spec"]["containers"][0]["args"][0] = "acme/ours"
    user.write("ours.yaml", pod)
    shown = user.kubectl("apply -f ours.yaml", exits=1)
    for obj in (taught, other):
        watching.cluster.call("DELETE", f"{place}/{obj['metadata']['name']}")

    assert "gpu-memory-exceeded" in shown


def test_a_claim_template_says_which_gpu_is_claimed(watching: Podfit, user_of: UserOf) -> None:
    user = user_of(watching)
    selector = "device.attributes['gpu.nvidia.com'].productName == 'Tesla T4'"
    template = {
        "metadata": {"name": "one-t4"},
        "spec": {"spec": {"devices": {"requests": [
            {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com",
                                        "selectors": [{"cel": {"expression": selector}}]}},
        ]}}},
    }  # fmt: skip
    place = f"/apis/resource.k8s.io/v1/namespaces/{user.namespace}/resourceclaimtemplates"
    status, answer = watching.cluster.call("POST", place, template)
    assert status == 201, answer
    seen(watching, "resourceclaimtemplates: 1, fresh")
    pod = eight_billion("claims", resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one-t4"}])
    pod["spec"]["containers"][0]["resources"] = {"limits": {"memory": "48Gi"}, "claims": [{"name": "gpu"}]}
    user.write("claims.yaml", pod)

    shown = user.kubectl("apply -f claims.yaml", exits=1)

    assert "gpu-memory-exceeded" in shown
    assert "Tesla T4" in shown
