"""One cluster a session, with podfit installed as the installation guide says."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.e2e.manifests import EXAMPLES
from tests.node import namespaces, standins
from tests.node.admin import Admin
from tests.node.cluster import running
from tests.node.renewal import Renewal, renewed


@pytest.fixture(name="admin", scope="session")
def _admin() -> Iterator[Admin]:
    """The cluster's administrator."""
    if namespaces.FOLDER not in os.environ:
        pytest.exit("tests/node runs in namespaces of its own: `make node`", returncode=2)
    with running() as node:
        yield Admin(node)


@pytest.fixture(name="standins", scope="session")
def _standins(admin: Admin, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Starts the stand-ins for vLLM; the folder of the repaired manifests."""
    folder = tmp_path_factory.mktemp("fixed")
    standins.start(admin, folder)
    return folder


@pytest.fixture(name="_early", scope="session", autouse=True)
def _start_early(request: pytest.FixtureRequest) -> None:
    """Starts what runs along with other tests, if a test needs it."""
    if any("renewal" in getattr(item, "fixturenames", ()) for item in request.session.items):
        request.getfixturevalue("renewal")


@pytest.fixture(name="renewal", scope="session")
def _renewal(podfit: Admin) -> Iterator[Future[Renewal]]:
    """The renewal of a certificate, while other tests run."""
    with ThreadPoolExecutor(1) as beside:
        yield beside.submit(renewed, podfit)


LEFT = "crd,clusterroles,clusterrolebindings,validatingwebhookconfigurations,mutatingwebhookconfigurations,namespaces"


@pytest.fixture(name="tried", scope="session")
def _tried(request: pytest.FixtureRequest, admin: Admin) -> str:
    """The output of the script of docs/try.md, and what it leaves; empty if no test asks for it."""
    if not any("first_try" in item.nodeid for item in request.session.items):
        return ""
    image = "REPOSITORY=registry.example.com/podfit TAG=0.2.0"
    shown = admin.types(f"{image} sh examples/try/try.sh loaded")
    left = admin.types(f"kubectl get {LEFT} -o name | grep -E 'podfit|chat' || true")
    return f"{shown}\nLEFT: {left}\n"


@pytest.fixture(name="podfit", scope="session")
def _podfit(admin: Admin, tried: str) -> Admin:
    """The same, with podfit, and the namespaces that the examples are for."""
    admin.install()
    texts = [path.read_text() for path in EXAMPLES.glob("*.yaml")]
    for namespace in {found for text in texts for found in re.findall(r"(?m)^ +namespace: (\S+)$", text)}:
        admin.types(f"kubectl create namespace {namespace}")
    return admin
