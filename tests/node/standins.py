"""Stand-ins for vLLM (`vllm.py`): what the examples start, as they are and as podfit repairs them, scaled to this node.

All start at once, and go on while podfit is replaced (test_upgrade.py): they need it no more.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from podfit.cli import main
from podfit.kube.quantity import parse
from tests.e2e.manifests import EXAMPLES
from tests.node import image
from tests.node.admin import Admin

JSONDict = dict[str, Any]
NAMESPACE = "kube-public"
"""One that the chart excludes."""
PATH = f"/api/v1/namespaces/{NAMESPACE}/pods"


@dataclass(frozen=True)
class Scaled:
    """An example whose memory is divided by `scale`, with a start of so many seconds."""

    example: str
    scale: int
    seconds: int = 0

    @property
    def path(self) -> Path:
        """Its manifest, which podfit denies."""
        return EXAMPLES / self.example


STARTED: Mapping[str, Scaled] = {
    "limit": Scaled("llama-70b-with-32gi.yaml", scale=40),
    "probe": Scaled("qwen-7b-killed-by-its-probe.yaml", scale=10, seconds=20),
    "shm": Scaled("llama-70b-without-shm.yaml", scale=40),
}
"""Each runs twice: Pods `denied-NAME` and `fixed-NAME`. Their requests, 16 GiB, leave room for podfit's replicas."""


def start(admin: Admin, folder: Path) -> None:
    """Creates all Pods. `folder`: for the repaired manifests."""
    for name, scaled in STARTED.items():
        fixed = folder / scaled.example
        shutil.copy(scaled.path, fixed)
        main(["fix", "--write", str(fixed)])
        for kind, path in (("denied", scaled.path), ("fixed", fixed)):
            pod = runnable(yaml.safe_load(path.read_text()), f"{kind}-{name}", scaled)
            status, answer = admin.cluster.call("POST", PATH, pod)
            assert status == 201, answer


def runnable(workload: JSONDict, name: str, scaled: Scaled) -> JSONDict:
    """The workload's Pod for this node: the stand-in's image, memory divided by its scale, claims as empty volumes."""
    spec = deepcopy(workload["spec"]["template"]["spec"])
    spec.pop("nodeSelector")
    spec["terminationGracePeriodSeconds"] = 1
    for volume in spec["volumes"]:
        if volume.pop("persistentVolumeClaim", None):
            volume["emptyDir"] = {}
    (container,) = spec["containers"]
    container["image"] = image.VLLM
    container["env"] = [
        {"name": "STANDIN_SCALE", "value": str(scaled.scale)},
        {"name": "STANDIN_SECONDS", "value": str(scaled.seconds)},
    ]
    for resources in container["resources"].values():
        if "memory" in resources:
            resources["memory"] = str(int(parse(resources["memory"]) / scaled.scale))
    container["readinessProbe"] = {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 1}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
