"""docs/tutorial.md: a cluster with podfit prints what the page shows. `make lint` checks the other commands."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from scripts import console
from tests.e2e.process import DEADLINE
from tests.e2e.user import User


def test_the_tutorials_kubectl_prints_what_the_page_shows(user: User) -> None:
    def apply(path: Path) -> str:
        command = [user.cluster.kubectl, "apply", "-f", path.name]
        done = subprocess.run(
            command, cwd=path.parent, env={"KUBECONFIG": str(user.cluster.kubeconfig(user.namespace))},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=DEADLINE,
        )  # fmt: skip
        return done.stdout

    page = console.TUTORIAL.read_text().replace("namespace: chat", f"namespace: {user.namespace}")
    page = page.replace("Deployment chat/", f"Deployment {user.namespace}/")
    shown = re.compile(r"^\$ kubectl .*?^```$", re.MULTILINE | re.DOTALL)

    assert len(shown.findall(page)) == 2
    assert shown.findall(console.rendered(page, apply)) == shown.findall(page)
