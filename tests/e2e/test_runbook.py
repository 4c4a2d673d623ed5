"""docs/runbook.md, as it is typed: every command runs against a control plane whose Pods have what was recorded, and
prints what the page shows (`make e2e ARGS="-k runbook --update"` writes it again)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import GOOD_POD
from tests.e2e.controlplane import Cluster
from tests.e2e.kubelet import serving
from tests.e2e.process import DEADLINE, until
from tests.e2e.release import LABEL, ROOT, SOURCES, Podfit, make_namespace
from tests.e2e.site import still
from tests.reviews import doomed

PAGE = ROOT / "docs" / "runbook.md"
RECORDED = Path(__file__).parent / "runbook"
NAMESPACE, NODE = "chat", "gpu-1"
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
WHEN = "2026-05-04T10:01:12Z"
SAYS: dict[str, dict[str, Any]] = yaml.safe_load((RECORDED / "recorded.yml").read_text())


def sections() -> dict[str, list[str]]:
    """Heading → its blocks of commands with what they print."""
    parts = re.split(r"(?m)^## ", PAGE.read_text())[1:]
    return {title: BLOCK.findall(body) for title, _, body in (part.partition("\n") for part in parts)}


@pytest.fixture(name="desk", scope="module")
def _desk(podfit: Podfit, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the manifests, which were applied before podfit was there; and what became of their Pods."""
    cluster, folder = podfit.cluster, tmp_path_factory.mktemp("desk")
    for path in RECORDED.glob("*.yaml"):
        shutil.copy(path, folder)
    make_namespace(cluster, NAMESPACE, "nobody")
    logs = {f"{NAMESPACE}/{pod}/vllm": said["log"] for pod, said in SAYS.items() if "log" in said}
    with serving(cluster, NODE, logs, folder / ".kubelet"):
        for pod, said in SAYS.items():
            _typed(f"kubectl apply -f {pod.removesuffix('-0')}.yaml", folder, cluster)
            until(f"the Pod {pod}", partial(_there, cluster, pod))
            _record(cluster, pod, said)
        cluster.patch(f"/api/v1/namespaces/{NAMESPACE}", {"metadata": {"labels": {LABEL: podfit.name}}})
        yield folder
        until("podfit to judge, since the last section switches it off and on", partial(_judged, cluster))
        cluster.call("DELETE", f"/api/v1/namespaces/{NAMESPACE}")


def _judged(cluster: Cluster) -> bool:
    probe = doomed(GOOD_POD) | {"metadata": {"name": "probe"}}
    return cluster.call("POST", f"/api/v1/namespaces/{NAMESPACE}/pods?dryRun=All", probe)[0] == 403


def _there(cluster: Cluster, pod: str) -> bool:
    return cluster.call("GET", f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}")[0] == 200


def _post(cluster: Cluster, path: str, body: object) -> None:
    status, answer = cluster.call("POST", path, body)
    assert status == 201, answer


def _record(cluster: Cluster, pod: str, said: Mapping[str, Any]) -> None:
    """What a scheduler and a kubelet would have said."""
    pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
    if message := said.get("unschedulable"):
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        cluster.patch(f"{pods}/{pod}/status", {"status": {"phase": "Pending", "conditions": [condition]}})
        _event(cluster, pod, {"type": "Warning", "reason": "FailedScheduling", "message": message})
        return
    target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
    _post(cluster, f"{pods}/{pod}/binding", {"metadata": {"name": pod}, "target": target})
    back_off = f"back-off 5m0s restarting failed container=vllm pod={pod}_{NAMESPACE}"
    container = {
        "name": "vllm", "image": "", "imageID": "", "ready": False, "restartCount": said["restarts"],
        "lastState": {"terminated": {"startedAt": WHEN, "finishedAt": WHEN, **said["terminated"]}},
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": back_off}},
    }  # fmt: skip
    cluster.patch(f"{pods}/{pod}/status", {"status": {"phase": "Running", "containerStatuses": [container]}})
    for event in said["events"]:
        _event(cluster, pod, event)


def _event(cluster: Cluster, pod: str, event: Mapping[str, Any]) -> None:
    of = {"apiVersion": "v1", "kind": "Pod", "name": pod, "namespace": NAMESPACE}
    seen = {"firstTimestamp": WHEN, "lastTimestamp": WHEN, "source": {"component": "kubelet"}}
    body = {"metadata": {"name": f"{pod}.{event['reason'].lower()}"}, "involvedObject": of, **seen, **event}
    _post(cluster, f"/api/v1/namespaces/{NAMESPACE}/events", body)


def test_the_page_names_every_alert_and_every_recorded_pod() -> None:
    page = PAGE.read_text()
    groups = yaml.safe_load((ROOT / "charts" / "podfit" / "monitoring" / "alerts.yaml").read_text())["groups"]
    alerts = {rule["alert"] for group in groups for rule in group["rules"] if "alert" in rule}

    assert {alert for alert in alerts if f"`{alert}`" not in page} == set()
    assert {pod for pod in SAYS if pod not in page} == set()


@pytest.mark.parametrize("title", sections())
def test_every_command_prints_what_the_page_shows(
    title: str, desk: Path, cluster: Cluster, request: pytest.FixtureRequest
) -> None:
    for block in sections()[title]:
        printed = "".join(_typed(command, desk, cluster) for command in re.findall(r"(?m)^\$ (.*)$", block))
        if request.config.getoption("--update"):
            PAGE.write_text(PAGE.read_text().replace(f"```console\n{block}```", f"```console\n{printed}```"))
            continue
        assert still(printed) == still(block)


def _typed(command: str, desk: Path, cluster: Cluster) -> str:
    """The command and what a person sees of it."""
    programs = desk / ".bin"
    if not programs.exists():
        programs.mkdir()
        (programs / "kubectl").symlink_to(cluster.kubectl)
        (programs / "podfit").write_text(f'#!/bin/sh\nexec {sys.executable} -m podfit.cli "$@"\n')
        (programs / "podfit").chmod(0o755)
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=desk,
        env={
            "PATH": f"{programs}:{os.environ['PATH']}",
            "HOME": str(desk),
            "PYTHONPATH": SOURCES,
            "KUBECONFIG": str(cluster.kubeconfig()),
            "COLUMNS": "140",
            "LC_ALL": "C.UTF-8",
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=DEADLINE,
    )
    out = done.stdout.rstrip()
    return f"$ {command}\n" + (f"{out}\n" if out else "")
