"""What podfit computes, under the real kubelet and the kernel: a stand-in for vLLM (`vllm.py`) starts as the manifest
says, with the limits, probes and volumes that podfit denies, and with those that it writes in their place.

Pods run in a namespace that podfit does not evaluate. `podfit diagnose` reads what became of them from the cluster.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.manifests import EXAMPLES
from tests.e2e.process import until
from tests.node import image
from tests.node.admin import Admin, is_ready
from tests.node.cluster import NODE
from webhook.cli import main
from webhook.kube.quantity import parse

JSONDict = dict[str, Any]
NAMESPACE = "kube-public"
"""One that the chart excludes."""
GPU = "nvidia.com/gpu"
Start = Callable[..., JSONDict]


@pytest.fixture(name="start", scope="module")
def _start(podfit: Admin) -> Iterator[Start]:
    """Starts an example's Pod; the node reports GPUs that it does not have."""
    node = f"/api/v1/nodes/{NODE}"
    podfit.cluster.patch(f"{node}/status", {"status": {"capacity": {GPU: "64"}}})

    def allocatable() -> bool:
        return GPU in podfit.cluster.call("GET", node)[1]["status"]["allocatable"]

    until("the GPUs to be allocatable", allocatable)

    def start(name: str, manifest: Path, scale: int = 1, seconds: int = 0) -> JSONDict:
        pod = runnable(yaml.safe_load(manifest.read_text()), name, scale, seconds)
        status, answer = podfit.cluster.call("POST", _path(), pod)
        assert status == 201, answer
        return pod

    yield start
    podfit.types(f"kubectl -n {NAMESPACE} delete pods --all --grace-period=0 --force")


def runnable(workload: JSONDict, name: str, scale: int, seconds: int) -> JSONDict:
    """The workload's Pod for this node: the stand-in's image, memory divided by `scale`, claims as empty volumes."""
    spec = deepcopy(workload["spec"]["template"]["spec"])
    spec.pop("nodeSelector")
    spec["terminationGracePeriodSeconds"] = 1
    for volume in spec["volumes"]:
        if volume.pop("persistentVolumeClaim", None):
            volume["emptyDir"] = {}
    (container,) = spec["containers"]
    container["image"] = image.VLLM
    container["env"] = [
        {"name": "STANDIN_SCALE", "value": str(scale)},
        {"name": "STANDIN_SECONDS", "value": str(seconds)},
    ]
    for resources in container["resources"].values():
        if "memory" in resources:
            resources["memory"] = str(int(parse(resources["memory"]) / scale))
    container["readinessProbe"] = {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 1}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def _path(name: str = "") -> str:
    return f"/api/v1/namespaces/{NAMESPACE}/pods" + (f"/{name}" if name else "")


def _get(podfit: Admin, name: str) -> JSONDict:
    status, pod = podfit.cluster.call("GET", _path(name))
    assert status == 200, pod
    return dict(pod)


def _ended(podfit: Admin, name: str) -> JSONDict | None:
    """How the container ended first."""
    for status in _get(podfit, name)["status"].get("containerStatuses", []):
        for state in (status["lastState"], status["state"]):
            if "terminated" in state:
                return dict(state["terminated"])
    return None


@pytest.fixture(name="fixed")
def _fixed(tmp_path: Path) -> Callable[[str], Path]:
    """An example as `podfit fix --write` repairs it."""

    def fixed(name: str) -> Path:
        path = tmp_path / name
        shutil.copy(EXAMPLES / name, path)
        main(["fix", "--write", str(path)])
        assert main(["check", str(path)]) == 0
        return path

    return fixed


def _ready(podfit: Admin, name: str) -> bool:
    pod = _get(podfit, name)
    assert not _ended(podfit, name), pod["status"]
    return is_ready(pod)


def test_limits(podfit: Admin, start: Start, fixed: Callable[[str], Path]) -> None:
    """70B weights on four GPUs, 16 GiB of each rank's in host memory: 76 GiB, of which a fortieth is 1.9 GiB."""
    example = "llama-70b-with-32gi.yaml"
    assert main(["check", str(EXAMPLES / example)]) == 1

    start("denied-limit", EXAMPLES / example, scale=40)
    start("computed-limit", fixed(example), scale=40)

    ended = until("the container to end", lambda: _ended(podfit, "denied-limit"), podfit.describe)
    assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")
    assert "oom-killed" in podfit.types(f"podfit diagnose denied-limit -n {NAMESPACE} --format json", exits=None)
    until("the other to be ready", lambda: _ready(podfit, "computed-limit"), podfit.describe)


def test_probes(podfit: Admin, start: Start, fixed: Callable[[str], Path]) -> None:
    """A start of 20 s, shorter than any of a 7B model, and longer than the nine seconds of the example's probe."""
    example = "qwen-7b-killed-by-its-probe.yaml"
    assert main(["check", str(EXAMPLES / example)]) == 1

    start("denied-probe", EXAMPLES / example, scale=10, seconds=20)
    start("computed-probe", fixed(example), scale=10, seconds=20)

    until("the container to be killed", lambda: _ended(podfit, "denied-probe"), podfit.describe)
    assert "probe-killed" in podfit.types(f"podfit diagnose denied-probe -n {NAMESPACE} --format json", exits=None)
    until("the other to be ready", lambda: _ready(podfit, "computed-probe"), podfit.describe)


def test_shared_memory(podfit: Admin, start: Start, fixed: Callable[[str], Path]) -> None:
    """Two ranks need rings of 160 MiB; without a volume there are 64 MiB."""
    example = "llama-70b-without-shm.yaml"
    assert main(["check", str(EXAMPLES / example)]) == 1

    start("denied-shm", EXAMPLES / example, scale=20)
    start("patched-shm", fixed(example), scale=20)

    ended = until("the container to end", lambda: _ended(podfit, "denied-shm"), podfit.describe)
    assert ended["exitCode"] == 1
    told = podfit.types(f"podfit diagnose denied-shm -n {NAMESPACE}", exits=None)
    assert "shm-too-small" in told, told
    until("the other to be ready", lambda: _ready(podfit, "patched-shm"), podfit.describe)
