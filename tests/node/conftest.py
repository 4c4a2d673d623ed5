"""One cluster a session, with podfit installed as the installation guide says."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.manifests import EXAMPLES
from tests.node import namespaces, standins
from tests.node.admin import Admin
from tests.node.cluster import running


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


@pytest.fixture(name="podfit", scope="session")
def _podfit(admin: Admin) -> Admin:
    """The same, with podfit, and the namespaces that the examples are for."""
    admin.install()
    texts = [path.read_text() for path in EXAMPLES.glob("*.yaml")]
    for namespace in {found for text in texts for found in re.findall(r"(?m)^ +namespace: (\S+)$", text)}:
        admin.types(f"kubectl create namespace {namespace}")
    return admin
