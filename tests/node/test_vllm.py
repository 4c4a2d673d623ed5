"""What podfit computes, under the real kubelet and the kernel. A stand-in for vLLM (`vllm.py`) starts as the manifest
says: with the limits, probes and volumes that podfit denies, and with those of its repairs.

Pods run in a namespace that podfit does not evaluate. `podfit diagnose` reads what became of them from the cluster.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from podfit.cli import main
from tests.e2e.process import until
from tests.node.admin import Admin, is_ready
from tests.node.standins import NAMESPACE, PATH, STARTED

JSONDict = dict[str, Any]


def _get(admin: Admin, name: str) -> JSONDict:
    status, pod = admin.cluster.call("GET", f"{PATH}/{name}")
    assert status == 200, pod
    return dict(pod)


def _ended(admin: Admin, name: str) -> JSONDict | None:
    """How the container ended."""
    for status in _get(admin, name)["status"].get("containerStatuses", []):
        for state in (status["lastState"], status["state"]):
            if "terminated" in state:
                return dict(state["terminated"])
    return None


def _ready(admin: Admin, name: str) -> bool:
    pod = _get(admin, name)
    assert not _ended(admin, name), pod["status"]
    return is_ready(pod)


def _is_denied_then_fixed(name: str, folder: Path) -> None:
    scaled = STARTED[name]
    assert main(["check", str(scaled.path)]) == 1
    assert main(["check", str(folder / scaled.example)]) == 0


def _diagnosed(admin: Admin, name: str) -> str:
    return admin.types(f"podfit diagnose {name} -n {NAMESPACE}", exits=None)


def test_limits(admin: Admin, standins: Path) -> None:
    """70B weights on four GPUs, 16 GiB of each rank's in host memory: 76 GiB, of which a fortieth is 1.9 GiB."""
    _is_denied_then_fixed("limit", standins)

    ended = until("the container to end", lambda: _ended(admin, "denied-limit"), admin.describe)
    assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")
    assert "oom-killed" in _diagnosed(admin, "denied-limit")
    until("the other to be ready", lambda: _ready(admin, "fixed-limit"), admin.describe)


def test_probes(admin: Admin, standins: Path) -> None:
    """A start of 20 s, shorter than any of a 7B model, and longer than the nine seconds of the example's probe."""
    _is_denied_then_fixed("probe", standins)

    until("the container to be killed", lambda: _ended(admin, "denied-probe"), admin.describe)
    assert "probe-killed" in _diagnosed(admin, "denied-probe")
    until("the other to be ready", lambda: _ready(admin, "fixed-probe"), admin.describe)


def test_shared_memory(admin: Admin, standins: Path) -> None:
    """Four ranks need rings of 160 MiB; without a volume there are 64 MiB."""
    _is_denied_then_fixed("shm", standins)

    ended = until("the container to end", lambda: _ended(admin, "denied-shm"), admin.describe)
    assert ended["exitCode"] == 1
    assert "shm-too-small" in _diagnosed(admin, "denied-shm")
    until("the other to be ready", lambda: _ready(admin, "fixed-shm"), admin.describe)
