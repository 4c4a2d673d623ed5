"""Whatever happens to the replicas, the node and the release, no decision fails, is wrong or is missing.

One stream of Pods runs through all tests of a failure policy.
"""

from __future__ import annotations

import base64
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks.cluster import BAD, GOOD, LOST, WRONG
from tests.e2e.process import until
from tests.e2e.release import OWN, make_namespace
from tests.node.admin import Admin, is_ready
from tests.node.cluster import GATEWAY, PORT
from tests.node.stream import THROUGH, Stream, streaming
from webhook.server import certs

JSONDict = dict[str, Any]
SECRET = f"/api/v1/namespaces/{OWN}/secrets/podfit-certificates"
DETECTION = 20
"""Decisions that may fail, or be let through, when a container ends without notice: those in flight, and those that
reach its address before the kubelet, which looks every second, has taken it out of the Service."""
EAT = """
import os, sys
open(sys.argv[1], "w").write(str(os.getpid()))
kept = []
while True:
    kept.append(bytearray(1 << 20))
"""
"""Joins a cgroup and takes memory. The container's processes have a higher score: the kernel ends them first."""


@pytest.fixture(name="stream", scope="module", params=["Fail", "Ignore"])
def _stream(podfit: Admin, request: pytest.FixtureRequest) -> Iterator[Stream]:
    """Pods that are created during all tests of this failure policy; the API server waits as long as it can."""
    policy = request.param
    podfit.upgrade(f"webhooks.failurePolicy={policy}", "webhooks.timeoutSeconds=10")
    until("two replicas", podfit.two_ready, podfit.describe)
    namespace = f"stream-{policy.lower()}"
    make_namespace(podfit.cluster, namespace, "podfit")
    until("the namespace to be judged", lambda: podfit.denies(namespace))
    with streaming(podfit.cluster, namespace) as stream:
        podfit.cluster.call("DELETE", SECRET)  # the first of the disruptions goes on beside the others
        yield stream
    print(f"\nfailurePolicy {policy}: {stream}", file=sys.stderr)


@pytest.fixture(name="unharmed", autouse=True)
def _unharmed(podfit: Admin, stream: Stream) -> Iterator[Counter[str]]:
    """Each test ends with two ready replicas, fifty more decisions, and none that is not as it should be. What a test
    adds is forgiven."""
    excused: Counter[str] = Counter()
    before = Counter(stream.seen)
    yield excused
    until("two replicas", podfit.two_ready, podfit.describe)
    rest = stream.seen.total()
    until("fifty more decisions", lambda: stream.seen.total() >= rest + 50, podfit.describe)
    since = stream.seen - before
    assert {what: since[what] for what in (LOST, WRONG, THROUGH) if since[what] > excused[what]} == {}, stream
    assert since[GOOD] > 0
    assert since[BAD] > 0


def test_a_rolling_update_and_its_rollback(podfit: Admin) -> None:
    before = _names(podfit.pods())

    podfit.types(f"helm upgrade podfit charts/podfit -n {OWN} --reuse-values --set podAnnotations.changed=yes --wait")
    changed = _names(podfit.pods())
    podfit.types(f"helm rollback podfit -n {OWN} --wait")

    until("the Pods of the update to be replaced", lambda: not _names(podfit.pods()) & changed)
    assert not changed <= before


@pytest.mark.parametrize("process", ["kubelet", "containerd", "kube-proxy"])
def test_a_restart_of(process: str, podfit: Admin) -> None:
    before = {pod["metadata"]["uid"]: _restarts(pod) for pod in podfit.pods()}

    podfit.node.restart(process)
    until("the node to be ready", podfit.node.ready, podfit.node.logs)

    assert {pod["metadata"]["uid"]: _restarts(pod) for pod in podfit.pods()} == before


def test_an_eviction(podfit: Admin) -> None:
    name = podfit.pods()[0]["metadata"]["name"]

    status, answer = podfit.cluster.call(
        "POST", f"/api/v1/namespaces/{OWN}/pods/{name}/eviction",
        {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}},
    )  # fmt: skip

    assert status == 201, answer
    until("another Pod", lambda: name not in _names(podfit.pods()) and podfit.two_ready(), podfit.describe)


def test_a_replica_without_the_api_server(podfit: Admin, stream: Stream) -> None:
    rule = f"INPUT -s {podfit.pods()[0]['status']['podIP']} -d {GATEWAY} -p tcp --dport {PORT} -j DROP"
    subprocess.run(["iptables", "-w", "-I", *rule.split()], check=True)
    try:
        rest = stream.seen.total()
        until("three hundred decisions", lambda: stream.seen.total() >= rest + 300, podfit.describe)
        assert all(is_ready(pod) for pod in podfit.pods())
    finally:
        subprocess.run(["iptables", "-w", "-D", *rule.split()], check=True)


def test_a_replica_out_of_memory(podfit: Admin, unharmed: Counter[str]) -> None:
    pod = podfit.pods()[0]
    (status,) = pod["status"]["containerStatuses"]
    cgroup = podfit.node.cgroup(status["containerID"])
    assert (cgroup / "memory.limit_in_bytes").read_text().strip() == str(320 << 20)

    subprocess.run([sys.executable, "-c", EAT, cgroup / "cgroup.procs"], check=False)

    unharmed[LOST] = unharmed[THROUGH] = DETECTION
    until("the container to be OOM-killed", lambda: _reason(podfit, pod) == "OOMKilled", podfit.describe)


def test_deleted_certificates_are_replaced(podfit: Admin) -> None:
    """A new CA signs only after both configurations have trusted it for a minute (docs/production.md, Certificates)."""

    def replaced() -> bool:
        data = podfit.cluster.call("GET", SECRET)[1].get("data", {})
        hooks = [hook for configuration in podfit.configurations() for hook in configuration["webhooks"]]
        bundles = [certs.split(base64.b64decode(hook["clientConfig"]["caBundle"])) for hook in hooks]
        cas = certs.split(base64.b64decode(data.get("ca.crt", "")))
        return "tls.crt" in data and all(set(cas) <= set(bundle) for bundle in bundles)

    until("another certificate, with its CA in both configurations", replaced, podfit.describe, seconds=120)


def _reason(podfit: Admin, pod: JSONDict) -> str | None:
    (now,) = [one for one in podfit.pods() if one["metadata"]["uid"] == pod["metadata"]["uid"]]
    (status,) = now["status"]["containerStatuses"]
    states = (status["state"], status.get("lastState", {}))
    return next((state["terminated"]["reason"] for state in states if "terminated" in state), None)


def _restarts(pod: JSONDict) -> int:
    return sum(status["restartCount"] for status in pod["status"]["containerStatuses"])


def _names(pods: list[JSONDict]) -> set[str]:
    return {pod["metadata"]["name"] for pod in pods}
