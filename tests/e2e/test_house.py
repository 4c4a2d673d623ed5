"""The policies of docs/house-rules.md on a real API server: forty Pods are applied, and each is decided right."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.controlplane import Cluster
from tests.e2e.process import until
from tests.e2e.release import LABEL, Podfit, fetch_ready
from tests.e2e.test_cluster import nodes
from tests.e2e.user import User
from tests.house import CASES, FOLDER, NODES, RULES, Case

JSONDict = dict[str, Any]
UserOf = Callable[[Podfit], User]
Install = Callable[..., Podfit]
PAGE = Path(__file__).parents[2] / "docs" / "house-rules.md"


@pytest.fixture(name="user")
def _user(install: Install, user_of: UserOf) -> Iterator[User]:
    """A user of a cluster with an L4 and an H100, and of a namespace with the name sandbox."""
    podfit = install(reads=True)
    with nodes(podfit.cluster, **NODES):
        until("podfit to see the nodes", lambda: "nodes: 2, fresh" in fetch_ready(podfit))
        user = user_of(podfit)
        podfit.cluster.call("POST", "/api/v1/namespaces", {"metadata": {"name": "sandbox"}})
        podfit.cluster.patch("/api/v1/namespaces/sandbox", {"metadata": {"labels": {LABEL: podfit.name}}})
        yield user


def _answer(user: User, case: Case, number: int) -> tuple[int, str]:
    """Status and text of the API server's answer to a dry run of the case's object."""
    obj = deepcopy(case.object)
    obj["metadata"]["name"] = f"case-{number}"
    namespace = obj["metadata"]["namespace"]
    obj["metadata"]["namespace"] = namespace = namespace if namespace == "sandbox" else user.namespace
    user.write("case.yaml", obj)
    shown = user.attempt(f"apply -n {namespace} --dry-run=server -f case.yaml")
    return shown.code, shown.output


@pytest.mark.parametrize("policy", CASES)
def test_each_pod_is_decided_right(user: User, policy: str) -> None:
    rule = RULES.get(policy, "house-limits")
    layer = yaml.safe_load((FOLDER / f"{policy}.yaml").read_text())
    user.write("policy.yaml", layer)
    user.kubectl("apply -f policy.yaml")
    until("the policy to be in force", lambda: " 2 policies" in fetch_ready(user.podfit))
    try:
        for number, case in enumerate(CASES[policy]):
            code, output = _answer(user, case, number)
            assert (code != 0) is (case.admitted == "deny"), f"{case.name}: {output}"
            assert (rule in output) is (case.admitted is not None), f"{case.name}: {output}"
    finally:
        user.kubectl("delete -f policy.yaml")


def _manifests(language: str) -> list[JSONDict]:
    """The ValidatingAdmissionPolicies of the page."""
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    documents = [one for block in blocks for one in yaml.safe_load_all(block)]
    return [one for one in documents if str(one.get("apiVersion")).startswith(language)]


def test_the_pages_admission_policies_deny_what_they_say(cluster: Cluster, user: User) -> None:
    policies = _manifests("admissionregistration.k8s.io/")
    user.write("vap.yaml", *policies)
    user.kubectl("apply -f vap.yaml")
    good: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "good"},
        "spec": {
            "containers": [
                {
                    "name": "vllm",
                    "image": "registry.example.com/vllm/vllm-openai:v0.27.1",
                    "resources": {"limits": {"nvidia.com/gpu": "4"}},
                }
            ]
        },
    }
    registry, many = deepcopy(good), deepcopy(good)
    registry["spec"]["containers"][0]["image"] = "docker.io/vllm/vllm-openai:v0.27.1"
    many["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = "8"
    user.write("good.yaml", good)
    user.write("registry.yaml", registry)
    user.write("many.yaml", many)

    def denied(name: str) -> bool:
        return user.attempt(f"apply --dry-run=server -f {name}.yaml").code != 0

    try:
        until("the API server to enforce the policies", lambda: denied("registry") and denied("many"))
        assert not denied("good")
    finally:
        user.kubectl("delete -f vap.yaml")
