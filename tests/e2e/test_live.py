"""`podfit check KIND/NAME`: what runs in a cluster already, asked with the caller's own rights."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.conftest import GOOD_POD
from tests.e2e.process import DEADLINE
from tests.e2e.release import SOURCES
from tests.e2e.user import User
from tests.reviews import deployment, doomed


def checked(user: User, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`podfit check` on a machine without kubectl."""
    return subprocess.run(
        [sys.executable, "-m", "podfit.cli", "check", *arguments],
        env={
            **os.environ,
            "PATH": "",
            "KUBECONFIG": str(user.cluster.kubeconfig(user.namespace)),
            "PYTHONPATH": SOURCES,
        },
        cwd=user.folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE,
    )


def test_a_live_deployment_is_judged_as_its_manifest_would_be(user: User) -> None:
    with user.before_podfit():
        user.write("llama-8b.yaml", deployment(doomed(GOOD_POD)))
        user.kubectl("apply -f llama-8b.yaml")

    done = checked(user, "deploy/llama-8b", "-n", user.namespace)

    assert done.returncode == 1, done.stderr
    assert f"Deployment {user.namespace}/llama-8b" in done.stdout
    assert "unknown-flag" in done.stdout


def test_an_object_that_is_not_there_is_told(user: User) -> None:
    done = checked(user, "deploy/nobody", "-n", user.namespace)

    assert done.returncode == 3
    assert 'deployments.apps "nobody" not found' in done.stderr
