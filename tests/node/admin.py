"""The administrator of the cluster: what a shell runs, and the release of podfit."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conftest import GOOD_POD
from tests.e2e.controlplane import Cluster
from tests.e2e.process import until
from tests.e2e.release import OWN, REGISTRATION, ROOT
from tests.node.cluster import Node
from tests.reviews import doomed

JSONDict = dict[str, Any]
GUIDE = (ROOT / "README.md").read_text()
CONFIGURATIONS = ("validatingwebhookconfigurations", "mutatingwebhookconfigurations")
ENFORCED = "policy.spec.enforce.mode=deny"
"""The value with which the chart enforces; without it nothing is denied."""
SECONDS = 180
"""The longest that a command may take."""


@dataclass(frozen=True)
class Admin:
    """Someone with kubectl, Helm and podfit on PATH, in the repository's folder."""

    node: Node

    @property
    def cluster(self) -> Cluster:
        """Where the API server is."""
        return self.node.cluster

    def types(self, command: str, exits: int | None = 0) -> str:
        """Runs a line of shell; returns what it printed. Fails if it exits with another code than `exits`."""
        programs = [Path(sys.executable).parent, Path(self.cluster.helm).parent, Path(self.cluster.kubectl).parent]
        env = {
            "PATH": ":".join([*map(str, programs), os.environ["PATH"]]),
            "HOME": self.cluster.folder,
            "KUBECONFIG": str(self.cluster.kubeconfig()),
        }
        done = subprocess.run(
            ["sh", "-c", command], cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, check=False, timeout=SECONDS,
        )  # fmt: skip
        assert exits in (None, done.returncode), f"$ {command}\n{done.stdout}(exit code {done.returncode})"
        return done.stdout

    def install(self) -> None:
        """podfit as the installation guide says, until it is ready, enforces, and the API server asks it."""
        self.types(guide("helm install"))
        self.types(guide("helm upgrade"))
        self.wait()

    def upgrade(self, *values: str) -> None:
        """Other values, on top of the guide's; it enforces."""
        sets = [f"--set {value}" for value in (ENFORCED, *values)]
        self.types(" ".join([guide("helm install").replace("helm install", "helm upgrade"), *sets]))
        self.wait()

    def wait(self) -> None:
        """Until the roll-out is complete, replaced Pods are gone, and the API server asks podfit."""
        self.types(f"kubectl -n {OWN} rollout status deployment/podfit --timeout {SECONDS}s")
        until("the API server to ask podfit", self.denies, self.describe)

    def denies(self, namespace: str = "default") -> bool:
        """Whether a Pod that can't start is denied."""
        return self.create(doomed(GOOD_POD), namespace)[0] == 403

    def create(self, pod: JSONDict, namespace: str = "default") -> tuple[int, Any]:
        """Creates a Pod as a dry run: status and answer."""
        pod = {**pod, "metadata": {**pod["metadata"], "namespace": namespace}}
        return self.cluster.call("POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", pod)

    def pods(self) -> list[JSONDict]:
        """podfit's own Pods, oldest first."""
        status, answer = self.cluster.call(
            "GET", f"/api/v1/namespaces/{OWN}/pods?labelSelector=app.kubernetes.io/name=podfit"
        )
        assert status == 200, answer
        return sorted(answer["items"], key=lambda pod: str(pod["metadata"]["creationTimestamp"]))

    def remaining(self) -> list[JSONDict]:
        """podfit's own Pods, without those that end."""
        return [pod for pod in self.pods() if "deletionTimestamp" not in pod["metadata"]]

    def two_ready(self) -> bool:
        """Whether there are two replicas, both ready, and none that ends."""
        pods = self.pods()
        return len(pods) == 2 and all(is_ready(pod) for pod in pods)

    def configurations(self, name: str = "podfit") -> list[JSONDict]:
        """A release's webhook configurations."""
        lists = [self.cluster.call("GET", f"{REGISTRATION}/{kind}")[1]["items"] for kind in CONFIGURATIONS]
        return [one for items in lists for one in items if one["metadata"]["name"].startswith(name)]

    def describe(self) -> str:
        """podfit's Pods, their logs and the events, for a failure."""
        return self.types(
            f"kubectl -n {OWN} get pods,endpointslices -o wide; kubectl -n {OWN} get events; "
            f"kubectl -n {OWN} logs --tail 2000 --prefix -l app.kubernetes.io/name=podfit | grep -v webhook | tail -40",
            exits=None,
        )  # fmt: skip


def is_ready(pod: JSONDict) -> bool:
    """Whether a Pod is ready and stays."""
    conditions = pod["status"].get("conditions", [])
    return "deletionTimestamp" not in pod["metadata"] and any(
        one["type"] == "Ready" and one["status"] == "True" for one in conditions
    )


def commands(page: str) -> list[str]:
    """The commands in the blocks of shell of a page, one each; continued lines are joined, comments are kept."""
    blocks = re.findall(r"(?ms)^```sh\n(.*?)^```$", (ROOT / page).read_text().replace("\\\n", " "))
    return [line for block in blocks for line in block.splitlines() if line and not line.startswith(("#", " "))]


def guide(begins: str) -> str:
    """The command of README.md that begins so; its continued lines are joined."""
    text = GUIDE.replace("\\\n", " ")
    (found,) = re.findall(rf"(?m)^{re.escape(begins)}.*$", text)
    return str(found)
