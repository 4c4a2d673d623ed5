"""A user with kubectl, a folder and a namespace."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.conftest import GOOD_POD
from tests.e2e.controlplane import Cluster
from tests.e2e.process import DEADLINE, die_with_parent, until
from tests.e2e.release import LABEL, Podfit
from tests.reviews import doomed

JSONDict = dict[str, Any]
UNMASKED = "chat"
"""What a test's namespace is called in golden text."""


@dataclass(frozen=True)
class Said:
    """What a command printed, both streams as on a screen."""

    command: str
    code: int
    output: str
    log: str
    """What podfit logged meanwhile."""

    @property
    def screen(self) -> str:
        """The command and its output."""
        return f"$ {self.command}\n{self.output}" + (f"(exit code {self.code})\n" if self.code else "")


@dataclass(frozen=True)
class User:
    """What a test does: kubectl, typed as a person types it."""

    podfit: Podfit
    namespace: str
    folder: Path
    said: list[Said] = field(default_factory=list)

    @property
    def cluster(self) -> Cluster:
        """Where the API server is."""
        return self.podfit.cluster

    def write(self, name: str, *objects: JSONDict) -> None:
        """A file in the folder; its objects name no namespace, so that kubectl's own holds."""
        bare = [deepcopy(obj) for obj in objects]
        for obj in bare:
            obj["metadata"].pop("namespace", None)
        (self.folder / name).write_text(yaml.safe_dump_all(bare, sort_keys=False))

    def kubectl(self, command: str, exits: int = 0) -> str:
        """Runs `kubectl COMMAND` in the folder; fails where it ends with another code. Returns what it printed."""
        said = self.attempt(command)
        assert said.code == exits, f"expected exit code {exits}\n{said.screen}"
        return said.output

    def attempt(self, command: str) -> Said:
        """Runs `kubectl COMMAND` in the folder, whatever its exit code is."""
        before = self.podfit.log.stat().st_size
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "TMPDIR": str(self.folder),
            "KUBECONFIG": str(self.cluster.kubeconfig(self.namespace)),
            "KUBECACHEDIR": str(self.cluster.root / "cache"),
            "LC_ALL": "C",
        }
        done = subprocess.run(
            [self.cluster.kubectl, *shlex.split(command)],
            cwd=self.folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=DEADLINE,
            preexec_fn=die_with_parent,
        )
        said = Said(f"kubectl {command}", done.returncode, done.stdout, self.podfit.said(before))
        self.said.append(said)
        return said

    @property
    def screen(self) -> str:
        """All commands and what they printed; the namespace has the same name in every run."""
        return "\n".join(said.screen for said in self.said).replace(self.namespace, UNMASKED)

    @property
    def story(self) -> str:
        """The screen with the server's log lines, for a failure."""
        return "\n".join(said.screen + _indented(said.log.splitlines()) for said in self.said)

    @contextmanager
    def before_podfit(self) -> Iterator[None]:
        """Objects made in the block are not evaluated: the namespace gets its label back when it ends."""
        self._judged(False)
        try:
            yield
        finally:
            self._judged(True)

    def _judged(self, wanted: bool) -> None:
        labels = {"metadata": {"labels": {LABEL: self.podfit.name if wanted else None}}}
        self.cluster.patch(f"/api/v1/namespaces/{self.namespace}", labels)
        probe = doomed(GOOD_POD) | {"metadata": {"name": "probe"}}

        def followed() -> bool:
            return (self.cluster.call("POST", self.path("pods") + "?dryRun=All", probe)[0] == 403) is wanted

        until("the API server to follow the namespace's label", followed, self.podfit.said)

    def path(self, resource: str, name: str = "") -> str:
        """Where the API has a resource: `pods`, `apps/deployments`."""
        group, _, plural = resource.rpartition("/")
        root = f"/apis/{group}/v1" if group else "/api/v1"
        return f"{root}/namespaces/{self.namespace}/{plural}" + (f"/{name}" if name else "")

    def get(self, resource: str, name: str) -> JSONDict:
        """An object as the API server shows it."""
        status, answer = self.cluster.call("GET", self.path(resource, name))
        assert status == 200, answer
        assert isinstance(answer, dict)
        return answer

    def stored(self, resource: str, name: str) -> JSONDict | None:
        """An object as etcd has it."""
        return self.cluster.stored(f"{resource.rpartition('/')[2]}/{self.namespace}/{name}")

    def listed(self, resource: str) -> list[JSONDict]:
        """All objects of a resource in the namespace."""
        status, answer = self.cluster.call("GET", self.path(resource))
        assert status == 200, answer
        items: list[JSONDict] = answer["items"]
        return items


def _indented(lines: Iterable[str]) -> str:
    return "".join(f"    podfit: {line}\n" for line in lines)
