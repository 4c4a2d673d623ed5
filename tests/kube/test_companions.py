"""Which objects belong to a workload."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from podfit.cli.support import edge
from podfit.kube import manifest, workload
from podfit.kube.companions import Companions, can_be_one_release, describe, replicas
from podfit.kube.workload import Workload
from podfit.vllm.facts import Facts

RELEASE = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: llama, namespace: chat}
spec:
  selector: {matchLabels: {app: llama}}
  template:
    metadata: {labels: {app: llama, tier: gpu}}
    spec: {containers: [{name: vllm, image: 'vllm/vllm-openai:v0.27.1'}]}
---
apiVersion: v1
kind: Service
metadata: {name: llama}
spec: {selector: {app: llama}}
---
apiVersion: v1
kind: Service
metadata: {name: other, namespace: chat}
spec: {selector: {app: other}}
---
apiVersion: serving.knative.dev/v1
kind: Service
metadata: {name: knative, namespace: chat}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: llama, namespace: chat}
spec: {minReplicas: 2, maxReplicas: 5, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: llama}}
---
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: llama-queue, namespace: chat}
spec: {minReplicaCount: 1, scaleTargetRef: {name: llama}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: elsewhere, namespace: batch}
spec: {scaleTargetRef: {kind: Deployment, name: llama}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: models, namespace: chat}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {A: b}
"""


def read(text: str) -> tuple[Companions, Workload]:
    objects = tuple(document.object for document in manifest.read(text, "release.yaml").documents)
    return Companions(objects), workload.find(objects[0])[0]


def names(found: list[Any]) -> list[str]:
    return [describe(one) for one in found]


def test_what_belongs_to_a_workload() -> None:
    beside, llama = read(RELEASE)

    assert names(beside.services(llama)) == ["Service llama"]
    assert names(beside.autoscalers(llama)) == ["HorizontalPodAutoscaler llama", "ScaledObject llama-queue"]
    assert [replicas(one) for one in beside.autoscalers(llama)] == [(2, 5), (1, None)]
    assert beside.claim(llama, "models") is not None
    assert beside.claim(llama, "absent") is None
    assert list(beside.config_maps) == ["settings"]


@pytest.mark.parametrize(
    ("selector", "selects"),
    [
        ({"matchLabels": {"app": "llama"}}, True),
        ({"matchLabels": {"app": "llama", "tier": "web"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["llama", "qwen"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["llama"]}]}, False),
        ({"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}, True),
        ({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}, False),
        ({"matchExpressions": [{"key": "app", "operator": "Equals", "values": ["qwen"]}]}, False),
        ({"matchExpressions": [{"key": "app"}]}, False),
        ({}, True),
    ],
)
def test_a_budget_selects_as_kubernetes_does(selector: dict[str, Any], selects: bool) -> None:
    _, llama = read(RELEASE)
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}}

    found = Companions(({**budget, "spec": {"selector": selector}},)).disruption_budgets(llama)

    assert bool(found) == selects


def test_what_is_absent_is_unknown_until_something_addresses_the_workload() -> None:
    beside, llama = read(RELEASE)

    assert beside.holds_release(llama)
    assert not Companions(beside.objects[:1]).holds_release(llama)
    assert Companions((), is_complete=True).holds_release(llama)


def test_an_autoscaler_of_the_deployment_that_kserve_makes() -> None:
    service = {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "metadata": {"name": "qwen"}}
    predictor = {"containers": [{"name": "kserve-container", "image": "vllm/vllm-openai:v0.27.1"}]}
    hpa = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "qwen"},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "qwen-predictor"}},
    }
    (qwen,) = workload.find({**service, "spec": {"predictor": predictor}})

    assert names(Companions((hpa,)).autoscalers(qwen)) == ["HorizontalPodAutoscaler qwen"]


def test_objects_that_would_overwrite_each_other_are_no_release() -> None:
    beside, _ = read(RELEASE)

    assert can_be_one_release(beside.objects)
    assert not can_be_one_release((*beside.objects, beside.objects[0]))


def test_a_directory_is_one_release_unless_its_files_contradict_each_other(tmp_path: Path) -> None:
    first, *rest = RELEASE.split("---\n")
    (tmp_path / "deployment.yaml").write_text(first)
    (tmp_path / "rest.yaml").write_text("---\n".join(rest))

    sources, errors = edge.read([str(tmp_path)], Facts())
    assert not errors
    assert {len(source.facts.companions.objects) for source in sources} == {9}

    (tmp_path / "copy.yaml").write_text(first)
    sources, _ = edge.read([str(tmp_path)], Facts())
    assert sorted(len(source.facts.companions.objects) for source in sources) == [1, 1, 8]
