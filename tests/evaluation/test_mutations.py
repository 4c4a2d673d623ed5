"""What the mutating webhook sends, under a policy that repairs all that can be: on every rule's examples."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from podfit.evaluation import review
from podfit.evaluation.policy import load
from podfit.kube.patch import apply
from podfit.kube.quantity import try_parse
from podfit.vllm.facts import Facts
from scripts.docs import EXAMPLES
from tests.e2e.accepted import POLICY, pods

JSONDict = dict[str, Any]
FILES = [path for path in sorted(EXAMPLES.glob("*/bad*.yaml")) if (path.parent / "fixed.yaml").exists()]
REPAIRS = load([("p.yaml", json.dumps({
    "apiVersion": "podfit.dev/v1alpha1", "kind": "Policy", "metadata": {"name": "repairs"}, "spec": POLICY,
}))])  # fmt: skip


def mutated(pod: JSONDict) -> tuple[list[JSONDict], JSONDict]:
    """The patch of a Pod's creation, and the Pod with it."""
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    resource = {"group": "", "version": "v1", "resource": "pods"}
    request = {
        "uid": "1",
        "operation": "CREATE",
        "kind": kind,
        "resource": resource,
        "namespace": "chat",
        "object": pod,
    }
    body = json.dumps({"apiVersion": review.API_VERSION, "kind": "AdmissionReview", "request": request})
    response = review.mutate(review.parse(body.encode()), REPAIRS, Facts())["response"]
    assert ("patch" in response) == ("patchType" in response) == bool(response.get("warnings"))
    patch: list[JSONDict] = json.loads(base64.b64decode(response.get("patch", "W10=")))
    return patch, apply(pod, patch)


def lopsided(pod: JSONDict) -> list[str]:
    """Resources of which a container requests more than its limit."""
    found = []
    for container in pod["spec"].get("containers") or []:
        given = container.get("resources") or {}
        for name, value in (given.get("limits") or {}).items():
            least, most = try_parse((given.get("requests") or {}).get(name)), try_parse(value)
            if least is not None and most is not None and least > most:
                found.append(f"{container['name']}: {name}")
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_patch_says_the_same_each_time_and_leaves_nothing_for_a_second(path: Path) -> None:
    for pod in pods([path]):
        patch, after = mutated(pod)

        assert mutated(pod)[0] == patch
        assert mutated(after)[0] == [], "an API server asks again where another webhook changed the Pod"
        assert set(lopsided(after)) <= set(lopsided(pod))
        for operation in patch:
            assert operation["op"] in ("add", "replace", "remove")
            assert not operation["path"].startswith(("/metadata/labels", "/metadata/name")), "others select by them"


def test_most_examples_are_patched() -> None:
    asked = [mutated(pod)[0] for pod in pods(FILES)]

    assert sum(map(bool, asked)) > 40


def test_a_sidecar_that_comes_meanwhile_is_not_taken_for_vllm() -> None:
    """Another webhook may put a container first: what was patched keeps its meaning, and nothing is patched twice."""
    for pod in pods(FILES):
        _, after = mutated(pod)
        proxy = {"name": "proxy", "image": "registry.example.com/proxy:1.0"}
        after["spec"]["containers"] = [proxy, *after["spec"]["containers"]]

        assert mutated(after)[0] == []
