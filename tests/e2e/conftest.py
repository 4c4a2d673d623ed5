"""One control plane a session, one podfit, a namespace a test."""

from __future__ import annotations

import os
import re
import shutil
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import binaries
from tests.e2e.controlplane import Cluster, running
from tests.e2e.release import Podfit, installed, make_namespace
from tests.e2e.user import User

GOLDEN = Path(__file__).parent / "golden"
USERS = pytest.StashKey[list[User]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--update`: what the commands print now is what they must print."""
    parser.addoption("--update", action="store_true", help="accept the output as golden text")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failure shows every command, what it printed and what podfit logged."""
    report = yield
    if report.failed and (users := item.stash.get(USERS, [])):
        report.sections.append(("kubectl, and podfit's log", "\n".join(user.story for user in users)))
    return report


@pytest.fixture(name="cluster", scope="session")
def _cluster() -> Iterator[Cluster]:
    """The control plane."""
    with running() as cluster:
        yield cluster


@pytest.fixture(name="oldest", scope="session")
def _oldest() -> Iterator[Cluster]:
    """A control plane with the oldest API server that the chart allows."""
    if os.environ.get("KUBEBUILDER_ASSETS") and not shutil.which("go"):
        pytest.skip("there is no Go to build the oldest API server with")
    with running(binaries.OLDEST) as cluster:
        yield cluster


@pytest.fixture(name="podfit", scope="session")
def _podfit(cluster: Cluster) -> Iterator[Podfit]:
    """podfit with the chart's own values, for the tests that leave it as it is."""
    with installed(cluster, "podfit") as podfit:
        yield podfit


@pytest.fixture(name="install")
def _install(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Callable[..., Podfit]]:
    """Installs a podfit of the test's own, and others next to it; takes what `installed` takes."""
    with ExitStack() as stack:
        numbers = count(1)

        def install(values: dict[str, Any] | None = None, **options: Any) -> Podfit:
            name = f"podfit-{_slug(request)}" + (f"-{number}" if (number := next(numbers)) > 1 else "")
            return stack.enter_context(installed(cluster, name, values, **options))

        yield install


@pytest.fixture(name="user_of")
def _user_of(request: pytest.FixtureRequest) -> Callable[[Podfit], User]:
    """Makes a user of a namespace that this podfit evaluates."""
    users = request.node.stash.setdefault(USERS, [])

    def user_of(podfit: Podfit) -> User:
        namespace = f"ns-{_slug(request)}"
        make_namespace(podfit.cluster, namespace, podfit.name)
        folder = podfit.cluster.root / "users" / namespace
        folder.mkdir(parents=True)
        user = User(podfit, namespace, folder)
        users.append(user)
        return user

    return user_of


@pytest.fixture(name="user")
def _user(podfit: Podfit, user_of: Callable[[Podfit], User]) -> User:
    """A user of podfit with the chart's own values."""
    return user_of(podfit)


@pytest.fixture(name="golden")
def _golden(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Compares with `golden/NAME OF THE TEST.txt`."""
    path = GOLDEN / f"{request.node.name.removeprefix('test_')}.txt"

    def golden(text: str) -> None:
        if request.config.getoption("--update"):
            path.write_text(text)
        assert path.exists(), f"there is no {path.name}; `make e2e ARGS=--update` writes it"
        assert text == path.read_text(), f"golden/{path.name}; `make e2e ARGS=--update` accepts what is printed now"

    return golden


def _slug(request: pytest.FixtureRequest) -> str:
    """A short name for what belongs to the test: the same in every run, another for every test."""
    name = request.node.name.removeprefix("test_")
    words = re.sub("[^a-z0-9]+", "-", name.lower())[:24].strip("-")
    return f"{words}-{zlib.crc32(name.encode()) % 10_000:04}"
