"""The first start with a claim that is created with the workload downloads the model."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from podfit.evaluation.lint import lint
from podfit.evaluation.policy import builtin
from podfit.kube.companions import Companions
from podfit.vllm.facts import Facts

POD = """
apiVersion: v1
kind: Pod
metadata: {name: a}
spec:
  nodeSelector: {nvidia.com/gpu.product: NVIDIA-L40S}
  volumes: [{name: hf, persistentVolumeClaim: {claimName: hf}}]
  containers:
  - name: vllm
    image: vllm/vllm-openai:v0.24.0
    args: [--model=Qwen/Qwen3-14B, --max-model-len=8192]
    volumeMounts: [{name: hf, mountPath: /root/.cache/huggingface}]
    resources: {limits: {nvidia.com/gpu: 1, memory: 64Gi}}
"""
CLAIM = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: hf}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 100Gi}}}
"""
COPIED = CLAIM.replace("spec: {", "spec: {dataSource: {kind: VolumeSnapshot, name: x}, ")
OTHER = CLAIM.replace("{name: hf}", "{name: other}")
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: download}
spec: {template: {spec: {volumes: [{name: hf, persistentVolumeClaim: {claimName: hf}}], containers: []}}}
"""


def parts(*texts: str) -> dict[str, float]:
    """The parts of the start-up time of the first object."""
    objects: list[dict[str, Any]] = [yaml.safe_load(text) for text in texts]
    (result,) = lint(objects[0], builtin(), Facts(companions=Companions(tuple(objects))), where="check").results
    assert result.engine.plan.startup is not None
    return dict(result.engine.plan.startup.parts)


def test_a_new_claim_is_empty() -> None:
    assert "download" in parts(POD, CLAIM)


@pytest.mark.parametrize("others", [(), (OTHER,), (COPIED,), (CLAIM, JOB)], ids=["none", "other", "copied", "filled"])
def test_other_claims_may_have_the_model(others: tuple[str, ...]) -> None:
    assert "download" not in parts(POD, *others)


def test_a_mount_that_is_read_only_is_filled_elsewhere() -> None:
    assert "download" not in parts(POD.replace("huggingface}]", "huggingface, readOnly: true}]"), CLAIM)
