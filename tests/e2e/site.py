"""An administrator's site: podfit as the pages install it with Helm, on a control plane without nodes.

The chart's objects are the cluster's own. No kubelet runs their Pods, so the server runs on this machine, with the
arguments and the policy of those objects. The API server gets its URL instead of the Service.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from podfit.cli.support import cluster_policy
from podfit.cluster.access import Client, from_kubeconfig
from tests.e2e import binaries
from tests.e2e.controlplane import HOST, Cluster, fetch
from tests.e2e.process import DEADLINE, kill, tail, until
from tests.e2e.release import (
    OWN,
    REGISTRATION,
    ROOT,
    SOURCES,
    Podfit,
    is_asked,
    make_namespace,
    port_of,
    secret_of,
    serve,
)

JSONDict = dict[str, Any]
CONFIGURATIONS = ("validatingwebhookconfigurations", "mutatingwebhookconfigurations")


@dataclass
class Site:
    """A person with kubectl, Helm, promtool and podfit on PATH, in a copy of the repository's root."""

    cluster: Cluster
    desk: Path
    podfit: Podfit | None = None
    services: dict[str, JSONDict] = field(default_factory=dict)
    """Path of a webhook in its configuration → the Service that the chart names."""

    def types(self, command: str) -> tuple[int, str]:
        """Runs a line of shell: exit code, and both streams as on a screen."""
        with self._with_services() if command.startswith("helm ") else _nothing():
            done = subprocess.run(
                ["bash", "-c", command], cwd=self.desk, env=self._environment(), stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=DEADLINE,
            )  # fmt: skip
        if self.podfit is not None:
            until("the server to have the policy of the cluster", self._follows, self.podfit.said)
        return done.returncode, done.stdout

    def creates(self, name: str, namespace: str) -> int:
        """Creates a copy of a Deployment, as a dry run: the API server's status."""
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
        obj = self._get(f"{path}/{name}") or {}
        copy = {**obj, "metadata": {"name": f"{name}-again", "namespace": namespace}}
        return self.cluster.call("POST", f"{path}?dryRun=All", copy)[0]

    def metrics(self) -> str:
        """What the server exports."""
        assert self.podfit is not None
        return fetch(f"https://{HOST}:{self.podfit.port}/metrics", self.podfit.ca)[1]

    def _environment(self) -> dict[str, str]:
        programs = self.desk / ".bin"
        if not programs.exists():
            programs.mkdir()
            for name, path in (("kubectl", self.cluster.kubectl), ("helm", self.cluster.helm),
                               ("promtool", binaries.tool("promtool"))):  # fmt: skip
                (programs / name).symlink_to(str(path))
            (programs / "podfit").write_text(f'#!/bin/sh\nexec {sys.executable} -m podfit.cli "$@"\n')
            (programs / "podfit").chmod(0o755)
        return {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "HOME": str(self.desk),
            "PYTHONPATH": SOURCES,
            "KUBECONFIG": str(self.cluster.kubeconfig()),
            "COLUMNS": "140",
            "LC_ALL": "C.UTF-8",
        }

    # ── The server ───────────────────────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def _with_services(self) -> Iterator[None]:
        """Helm finds the configurations as it left them; then the server is what the chart says."""
        for path in self.services:
            self._replace_clients(path, "service")
        yield
        if self._get(f"/apis/apps/v1/namespaces/{OWN}/deployments/podfit") is not None:
            if self.podfit is None:
                self._start()
            (self.desk.parent / "policy" / "policy.yaml").write_text(self._policy())
            for kind in CONFIGURATIONS:
                self._replace_clients(f"{REGISTRATION}/{kind}/podfit", "url")

    def _start(self) -> None:
        deployment = self._get(f"/apis/apps/v1/namespaces/{OWN}/deployments/podfit") or {}
        config_map = self._get(f"/api/v1/namespaces/{OWN}/configmaps/podfit-policy") or {}
        objects = [{**deployment, "kind": "Deployment"}, {**config_map, "kind": "ConfigMap"}]
        kubeconfig = f"--kubeconfig={self.cluster.kubeconfig(OWN)}"
        (self.desk.parent / "tls").mkdir()
        process, log = serve(objects, self.desk.parent, ("-m", "podfit.cli"), (f"--host={HOST}", kubeconfig))
        port = until("podfit to serve", lambda: port_of(process, log), lambda: tail(log))
        webhooks = tuple(
            {"kind": kind, **(self._get(f"{REGISTRATION}/{kind.lower()}s/podfit") or {})}
            for kind in ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")
        )
        podfit = Podfit("podfit", self.cluster, process, port, log, webhooks, lambda one: one, "podfit-certificates")
        self.podfit = podfit
        for kind in CONFIGURATIONS:
            self._replace_clients(f"{REGISTRATION}/{kind}/podfit", "url")
        until("podfit to keep its certificates", lambda: secret_of(podfit).get("tls.crt"), lambda: tail(log))
        until("podfit to serve its certificate", lambda: "serving the certificate" in podfit.said(), podfit.said)
        make_namespace(self.cluster, "podfit-probe", "podfit")
        until("the API server to ask podfit", partial(is_asked, podfit), lambda: tail(log))

    def _replace_clients(self, path: str, way: str) -> None:
        """Gives each webhook of a configuration the URL of the server, or the chart's Service again."""
        until("the API server to take a configuration", partial(self._has_replaced_clients, path, way))

    def _has_replaced_clients(self, path: str, way: str) -> bool:
        """Whether that worked: the server writes its CA into the same object."""
        assert self.podfit is not None
        configuration = self._get(path)
        if configuration is None:
            return True
        for hook in configuration["webhooks"]:
            client = hook["clientConfig"]
            if way == "url" and "service" in client:
                service = client.pop("service")
                self.services.setdefault(path, {})[hook["name"]] = service
                client["url"] = f"https://{HOST}:{self.podfit.port}{service['path']}"
            elif way == "service" and "url" in client:
                del client["url"]
                client["service"] = self.services[path][hook["name"]]
        status, answer = self.cluster.call("PUT", path, configuration)
        assert status in (200, 409), answer
        return status == 200

    def _policy(self) -> str:
        config_map = self._get(f"/api/v1/namespaces/{OWN}/configmaps/podfit-policy") or {}
        return str(config_map["data"]["policy.yaml"])

    def _follows(self) -> bool:
        """The server has the policy that a terminal reads as the one in force."""
        assert self.podfit is not None
        client = Client(from_kubeconfig(self.cluster.kubeconfig()))
        try:
            in_force = cluster_policy.in_force(client, ())
        finally:
            client.close()
        assert not in_force.unread
        return any(line.startswith(f"policy {in_force.policy.version}: ") for line in self.podfit.ready()[1])

    def _get(self, path: str) -> JSONDict | None:
        status, answer = self.cluster.call("GET", path)
        return answer if status == 200 else None


@contextmanager
def _nothing() -> Iterator[None]:
    yield


@contextmanager
def opened(cluster: Cluster, folder: Path) -> Iterator[Site]:
    """A desk with what the pages name, until the block ends."""
    desk = folder / "desk"
    desk.mkdir()
    for name in ("charts", "examples", "policies"):
        (desk / name).symlink_to(ROOT / name)
    shutil.copy(Path(__file__).parent / "rollout" / "workloads.yaml", desk)
    (desk / "audit.log").symlink_to(cluster.root / "audit.jsonl")
    site = Site(cluster, desk)
    try:
        yield site
    finally:
        if site.podfit is not None:
            kill(site.podfit.process)


# ── Pages ────────────────────────────────────────────────────────────────────────────────────────────────────────────

BLOCK = re.compile(
    r"^```(?P<language>\w+)\n(?P<text>.*?)^```$(?:\n+Saved as `(?P<file>[^`]+)`)?", re.MULTILINE | re.DOTALL
)
PASSING = re.compile(
    r"\b(?:\d+d)?(?:\d+h)?(?:\d+m)?\d+[smhd]\b(?: ago)?|\b\d{4}-\d\d-\d\d(?:[T ][\d:.]+(?:Z| UTC)?)?|127\.0\.0\.1:\d+"
    r"|\d+ (?:objects looked at|events)\b"
)
"""Ages, times, a port, and the numbers of objects and events, of which controllers make some later."""


def commands(text: str) -> list[str]:
    """The commands of a block of shell: lines that end in a backslash go on, and so do open quotes."""
    lines: list[str] = []
    for line in text.splitlines():
        if lines and (lines[-1].endswith("\\") or lines[-1].count("'") % 2):
            lines[-1] += f"\n{line}"
        elif line.strip() and not line.startswith("#"):
            lines.append(line)
    return lines


def still(screen: str) -> list[str]:
    """A screen without what passes: ages, and the width of their columns."""
    return [re.sub(r" {2,}", "  ", PASSING.sub("·", line)).rstrip() for line in screen.splitlines() if line.strip()]
