"""What `podfit plan -o NAME` writes is taken as it is: by the API server, strictly, and by podfit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from podfit.cli import main
from tests.e2e.release import ROOT
from tests.e2e.user import User

WRITTEN = ROOT / "tests" / "generate"


def _object(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields}


TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
BEHAVIOR = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
TRIGGER = _object(type=TEXT, metricType=TEXT, metadata={"type": "object", "additionalProperties": TEXT})
SPEC = _object(
    scaleTargetRef=_object(apiVersion=TEXT, kind=TEXT, name=TEXT),
    minReplicaCount=NUMBER,
    maxReplicaCount=NUMBER,
    pollingInterval=NUMBER,
    advanced=_object(horizontalPodAutoscalerConfig=_object(behavior=BEHAVIOR)),
    triggers={"type": "array", "items": TRIGGER},
)
SCALED_OBJECTS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "scaledobjects.keda.sh"},
    "spec": {
        "group": "keda.sh",
        "scope": "Namespaced",
        "names": {"plural": "scaledobjects", "singular": "scaledobject", "kind": "ScaledObject"},
        "versions": [
            {"name": "v1alpha1", "served": True, "storage": True, "schema": {"openAPIV3Schema": _object(spec=SPEC)}}
        ],
    },
}
"""The fields of KEDA's own that are written; any other field would be rejected."""


@pytest.mark.parametrize("output", ["hpa", "keda"])
def test_a_workload_with_its_autoscaler_is_taken(output: str, user: User) -> None:
    path = WRITTEN / f"{output}.yaml"
    if output == "keda":
        user.write("crd.yaml", SCALED_OBJECTS)
        user.kubectl("create -f crd.yaml")
        user.kubectl("wait --for=condition=Established crd/scaledobjects.keda.sh")

    shown = user.kubectl(f"apply --validate=strict -f {path}")

    assert "Warning" not in shown
    kinds = [line.partition(".")[0].partition("/")[0] for line in shown.splitlines()]
    scaler = {"hpa": "horizontalpodautoscaler", "keda": "scaledobject"}[output]
    assert kinds == ["persistentvolumeclaim", "service", "poddisruptionbudget", "deployment", scaler]


def test_applied_again_the_number_of_replicas_is_the_autoscalers(user: User) -> None:
    path = Path(WRITTEN / "hpa.yaml")
    user.kubectl(f"apply -f {path}")
    user.kubectl("scale deploy/qwen3-14b --replicas=3")
    user.kubectl(f"apply -f {path}")

    assert user.get("apps/deployments", "qwen3-14b")["spec"]["replicas"] == 3


@pytest.mark.parametrize(
    "asked",
    [
        "Qwen/Qwen3-8B --context 8192 --users 4",
        "meta-llama/Llama-3.3-70B-Instruct --context 16384 --users 40 --gpu h100",
        "google/gemma-3-27b-it --users 2 --gpu l40s",
        "openai/gpt-oss-120b --context 8192 --users 100 --vllm-version 0.27.1",
        "BAAI/bge-m3 --users 32",
    ],
)
def test_what_a_model_needs_is_taken_as_it_is_written(
    asked: str, user: User, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", *asked.split(), "-o", "yaml"]) == 0
    (user.folder / "vllm.yaml").write_text(capsys.readouterr().out)

    shown = user.kubectl("apply --validate=strict -f vllm.yaml")

    assert "Warning" not in shown
    assert shown.count(" created") in (3, 4)
    assert user.kubectl("diff -f vllm.yaml") == "", "nothing that the API server would not keep"
