"""The control plane itself: it is real, and it leaves nothing behind."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.controlplane import HOST, STRANGER, Cluster
from tests.e2e.process import DEADLINE, until
from tests.e2e.release import ROOT

OWNER = """
import signal
from tests.e2e.controlplane import running
from tests.e2e.release import installed
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it
with running() as cluster, installed(cluster, "podfit") as podfit:
    print(cluster.folder, cluster.port, podfit.port, flush=True)
    input()
"""
"""What a session of pytest does, without pytest."""


def processes(folder: str) -> list[int]:
    """Those that name the folder in their command line."""
    found = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = process.read_bytes()
        except OSError:
            continue  # gone meanwhile
        if folder.encode() in words:
            found.append(int(process.parent.name))
    return found


def listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex((HOST, port)) == 0


def test_the_api_server_is_new_enough_and_knows_its_version(cluster: Cluster) -> None:
    status, version = cluster.call("GET", "/version")

    assert status == 200
    assert (int(version["major"]), int(version["minor"])) >= (1, 34)


def test_who_has_no_rights_may_do_nothing(cluster: Cluster) -> None:
    """RBAC is on; the user whose request podfit reviews had the right to make it."""
    status, answer = cluster.call("GET", "/api/v1/namespaces/default/pods", user=STRANGER)

    assert (status, answer["reason"]) == (403, "Forbidden")
    assert 'User "stranger" cannot list resource "pods"' in answer["message"]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_an_interrupted_run_leaves_no_process_no_port_and_no_folder(number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as owner:
        assert owner.stdout
        folder, *ports = owner.stdout.readline().decode().split()
        assert len(processes(folder)) >= 3
        assert all(listens(int(port)) for port in ports)

        owner.send_signal(number)
        owner.wait(DEADLINE)

    until("the processes to end", lambda: not processes(folder), lambda: str(processes(folder)))
    until("the folder to go", lambda: not Path(folder).exists())
    assert not any(listens(int(port)) for port in ports)
