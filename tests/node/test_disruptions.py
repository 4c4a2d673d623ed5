"""Whatever happens to the replicas, the node and the release, no decision fails, is wrong or is missing.

One stream of Pods runs through all tests of a failure policy.
"""

from __future__ import annotations

import base64
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from benchmarks.cluster import BAD, GOOD
from podfit.server import certs
from tests.conftest import GOOD_POD
from tests.e2e.process import until
from tests.e2e.release import OWN, make_namespace
from tests.node.admin import Admin, is_ready
from tests.node.cluster import GATEWAY, PORT
from tests.node.stream import CALLERS, THROUGH, Stream, streaming
from tests.reviews import doomed

JSONDict = dict[str, Any]
SECRET = f"/api/v1/namespaces/{OWN}/secrets/podfit-certificates"
LIMIT = 320 << 20
"""The chart's limit of memory, in bytes."""
IN_FLIGHT = ("connection reset by peer", "EOF", "broken pipe", "server closed idle connection")
"""How the API server's call ends if the process that has its request ends."""
REFUSED = "connect: connection refused"
"""How it ends if the container is gone and the Service does not know it yet."""
DETECTION = 25
"""The most decisions of the stream that may be lost when a container ends without notice. Measured: 2 to 10 in six
runs, 0 to 2 of them in flight, the others without a connection within 1.5 s. The kubelet looks at its containers every
second (pkg/kubelet: plegRelistPeriod); until then every second connection to the Service goes to the dead container."""
EAT = """
import os, sys
open(sys.argv[1], "w").write(str(os.getpid()))
kept = []
while True:
    kept.append(bytearray(1 << 20))
"""
"""Joins a cgroup and takes memory. The container's processes have a higher score: the kernel ends them first."""
LARGE = 2_800_000
"""Characters of one variable: as much as an API server takes in one object (3 MiB)."""


@pytest.fixture(name="stream", scope="module", params=["Fail", "Ignore"])
def _stream(podfit: Admin, request: pytest.FixtureRequest) -> Iterator[Stream]:
    """Pods that are created during all tests of this failure policy; the API server waits as long as it can."""
    policy = request.param
    podfit.upgrade(f"webhooks.failurePolicy={policy}", "webhooks.timeoutSeconds=10")
    until("two replicas", podfit.two_ready, podfit.describe)
    namespace = f"stream-{policy.lower()}"
    make_namespace(podfit.cluster, namespace, "podfit")
    until("the namespace to be judged", lambda: podfit.denies(namespace))
    with streaming(podfit.cluster, namespace, failure_policy=policy) as stream:
        podfit.cluster.call("DELETE", SECRET)  # the first of the disruptions runs along with the others
        yield stream
    print(f"\nfailurePolicy {policy}: {stream}", file=sys.stderr)
    assert stream.unexcused(Counter(), stream.excused) == {}, stream


@pytest.fixture(name="excused", autouse=True)
def _excused(podfit: Admin, stream: Stream) -> Iterator[Counter[str]]:
    """What a test adds is forgiven by `unharmed`."""
    with unharmed(podfit, stream) as excused:
        yield excused


@contextmanager
def unharmed(podfit: Admin, stream: Stream) -> Iterator[Counter[str]]:
    """The block ends with two ready replicas, fifty more decisions, and none that is not as it should be, but for so
    many as the block adds to the counter."""
    excused: Counter[str] = Counter()
    before = Counter(stream.seen)
    yield excused
    until("two replicas", podfit.two_ready, podfit.describe)
    until("fifty more decisions", _more(stream, 50), podfit.describe)
    since = stream.seen - before
    stream.excused += excused
    assert stream.unexcused(before, excused) == {}, stream
    assert since[GOOD] > 0
    assert since[BAD] > 0


def test_a_rolling_update_and_its_rollback(podfit: Admin, stream: Stream) -> None:
    before = _names(podfit.pods())

    podfit.types(f"helm upgrade podfit charts/podfit -n {OWN} --reuse-values --set podAnnotations.trial=update --wait")
    changed = _names(podfit.pods())
    until("fifty decisions by the new Pods", _more(stream, 50), podfit.describe)
    podfit.types(f"helm rollback podfit -n {OWN} --wait")

    until("the Pods of the update to be replaced", lambda: not _names(podfit.pods()) & changed)
    assert not changed <= before


@pytest.mark.parametrize("process", ["kubelet", "containerd", "kube-proxy"])
def test_a_restart_of(process: str, podfit: Admin) -> None:
    before = {pod["metadata"]["uid"]: (_container(pod), _restarts(pod)) for pod in podfit.pods()}
    beat = podfit.node.heartbeat()

    podfit.node.restart(process)
    if process == "kubelet":
        until("a heartbeat of the new kubelet", lambda: podfit.node.heartbeat() > beat, podfit.node.logs)
    until("the node to be ready", podfit.node.ready, podfit.node.logs)

    assert {pod["metadata"]["uid"]: (_container(pod), _restarts(pod)) for pod in podfit.pods()} == before


def test_an_eviction(podfit: Admin) -> None:
    name = podfit.pods()[0]["metadata"]["name"]

    status, answer = podfit.cluster.call(
        "POST", f"/api/v1/namespaces/{OWN}/pods/{name}/eviction",
        {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}},
    )  # fmt: skip

    assert status == 201, answer

    def replaced() -> bool:
        assert any(is_ready(pod) for pod in podfit.pods()), (
            "no replica is ready: the Service relies on the one that ends"
        )
        return name not in _names(podfit.pods()) and podfit.two_ready()

    until("another Pod", replaced, podfit.describe)


def test_a_deleted_pod_of_which_the_service_hears_late(podfit: Admin, stream: Stream) -> None:
    """Until kube-proxy knows, the replica serves on: `preStopSeconds`, and then --drain."""
    name = podfit.pods()[0]["metadata"]["name"]

    with podfit.node.paused("kube-proxy"):
        podfit.types(f"kubectl -n {OWN} delete pod {name} --wait=false")
        until("a hundred decisions", _more(stream, 100), podfit.describe)

    until("another Pod", lambda: name not in _names(podfit.pods()) and podfit.two_ready(), podfit.describe)


def test_a_replica_without_the_api_server(podfit: Admin, stream: Stream) -> None:
    rule = f"INPUT -s {podfit.pods()[0]['status']['podIP']} -d {GATEWAY} -p tcp --dport {PORT} -j DROP"
    subprocess.run(["iptables", "-w", "-I", *rule.split()], check=True)
    try:
        until("three hundred decisions", _more(stream, 300), podfit.describe)
        assert all(is_ready(pod) for pod in podfit.pods())
    finally:
        subprocess.run(["iptables", "-w", "-D", *rule.split()], check=True)


def test_large_objects_do_not_reach_the_memory_limit(podfit: Admin) -> None:
    """The worker bounds itself below the container's limit, whatever it is asked."""
    cgroups = [podfit.node.cgroup(_container(pod)) for pod in podfit.pods()]
    before = [_processes(cgroup) for cgroup in cgroups]
    pod = doomed(GOOD_POD)
    pod["spec"]["containers"][0]["env"] = [{"name": "LARGE", "value": "x" * LARGE}]

    with ThreadPoolExecutor(8) as callers:
        answers = list(callers.map(lambda _: podfit.create(pod), range(32)))

    assert {status for status, _ in answers} == {403}, [answer for status, answer in answers if status != 403][:1]
    assert [_processes(cgroup) for cgroup in cgroups] == before
    for cgroup, (_, worker) in zip(cgroups, before, strict=True):
        (bound,) = re.findall(r"Max data size +(\S+)", Path(f"/proc/{worker}/limits").read_text())
        assert bound != "unlimited"
        assert int((cgroup / "memory.max_usage_in_bytes").read_text()) < LIMIT
        assert "oom_kill 0\n" in (cgroup / "memory.oom_control").read_text()


def test_a_killed_worker(podfit: Admin, stream: Stream, excused: Counter[str]) -> None:
    """As the kernel kills the largest process at the limit. gunicorn's first process keeps the socket: what comes next
    waits for another worker. What was in flight is lost: the API server repeats no call of a webhook."""
    pod, told = podfit.pods()[0], len(stream.told)
    cgroup = podfit.node.cgroup(_container(pod))
    _, worker = _processes(cgroup)

    os.kill(worker, signal.SIGKILL)

    excused[stream.missing] = CALLERS
    until("another worker", lambda: len(now := _processes(cgroup)) == 2 and now[1] != worker, podfit.describe)
    until("fifty more decisions", _more(stream, 50), podfit.describe)
    assert [why for why in stream.told[told:] if not _is_lost(stream, why, *IN_FLIGHT)] == []
    assert _restarts(podfit.pods()[0]) == _restarts(pod)


def test_a_container_out_of_memory(podfit: Admin, stream: Stream, excused: Counter[str]) -> None:
    """All its processes end at once, as with cgroup v2 (memory.oom.group). Only what was in flight is lost, and what
    the Service sends to its address before it knows."""
    pod, told, before = podfit.pods()[0], len(stream.told), Counter(stream.seen)
    cgroup = podfit.node.cgroup(_container(pod))
    assert (cgroup / "memory.limit_in_bytes").read_text().strip() == str(LIMIT)

    subprocess.run([sys.executable, "-c", EAT, cgroup / "cgroup.procs"], check=False)
    until("the Service to know", lambda: not podfit.node.serves(pod["status"]["podIP"]), podfit.describe)

    until("the calls before that to end", _more(stream, CALLERS))
    excused[stream.missing] = (stream.seen - before)[stream.missing]
    lost = stream.told[told:]
    assert len(lost) <= DETECTION, lost
    assert [why for why in lost if not _is_lost(stream, why, *IN_FLIGHT, REFUSED)] == []
    assert len([why for why in lost if any(cause in why for cause in IN_FLIGHT)]) <= CALLERS
    until("the container to be OOM-killed", lambda: _reason(podfit, pod) == "OOMKilled", podfit.describe)


def test_deleted_certificates_are_replaced(podfit: Admin) -> None:
    """A new CA signs only after both configurations have trusted it for a minute (docs/security.md, Certificates)."""

    def replaced() -> bool:
        data = podfit.cluster.call("GET", SECRET)[1].get("data", {})
        hooks = [hook for configuration in podfit.configurations() for hook in configuration["webhooks"]]
        bundles = [certs.split(base64.b64decode(hook["clientConfig"]["caBundle"])) for hook in hooks]
        cas = certs.split(base64.b64decode(data.get("ca.crt", "")))
        return "tls.crt" in data and all(set(cas) <= set(bundle) for bundle in bundles)

    until("another certificate, with its CA in both configurations", replaced, podfit.describe, seconds=120)


def _more(stream: Stream, number: int) -> Callable[[], bool]:
    """Whether the stream has so many more decisions than now."""
    rest = stream.seen.total()
    return lambda: stream.seen.total() >= rest + number


def _is_lost(stream: Stream, why: str, *causes: str) -> bool:
    """Whether a decision is missing for one of these causes. `Ignore` lets the Pod through, without a cause."""
    through = stream.missing == THROUGH and why.startswith("201")
    return through or any(cause in why for cause in causes)


def _container(pod: JSONDict) -> str:
    (status,) = pod["status"]["containerStatuses"]
    return str(status["containerID"])


def _processes(cgroup: Path) -> list[int]:
    """gunicorn's first process and its worker."""
    return sorted(map(int, (cgroup / "cgroup.procs").read_text().split()))


def _reason(podfit: Admin, pod: JSONDict) -> str | None:
    (now,) = [one for one in podfit.pods() if one["metadata"]["uid"] == pod["metadata"]["uid"]]
    (status,) = now["status"]["containerStatuses"]
    states = (status["state"], status.get("lastState", {}))
    return next((state["terminated"]["reason"] for state in states if "terminated" in state), None)


def _restarts(pod: JSONDict) -> int:
    return sum(status["restartCount"] for status in pod["status"]["containerStatuses"])


def _names(pods: list[JSONDict]) -> set[str]:
    return {pod["metadata"]["name"] for pod in pods}
