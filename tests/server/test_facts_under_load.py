"""Sets of facts that are replaced while clients send reviews: no answer fails, is wrong, or is of two sets."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from itertools import count, groupby, pairwise
from pathlib import Path
from threading import Event

from podfit.base import facts_set
from tests.conftest import GOOD_POD
from tests.evaluation.test_newer_facts import pod
from tests.facts import sets
from tests.reviews import admission_review
from tests.server.test_server import Server, serving, until

CLIENTS = 4
MODELS = {"one": sets.LARGE, "two": sets.SMALL, "three": sets.LARGE, "four": sets.SMALL, "five": sets.LARGE}
"""Set → the packaged model that `sets.NEW` equals in it."""
Files = dict[str, bytes]


def truncated(files: Files) -> str:
    files["models.json"] = files["models.json"][: len(files["models.json"]) // 2]
    return "models.json: its SHA-256 is not that of digests.json"


def of_two_sets(files: Files) -> str:
    files["models.json"] = sets.files(sets.NEW, sets.SMALL, "other")["models.json"]
    files["digests.json"] = sets.files(sets.NEW, sets.LARGE, "other")["digests.json"]
    return "models.json: its SHA-256 is not that of digests.json"


def of_another_schema(files: Files) -> str:
    newer = f'"schema": {facts_set.SCHEMA + 1}'.encode()
    files["digests.json"] = files["digests.json"].replace(f'"schema": {facts_set.SCHEMA}'.encode(), newer, 1)
    return f"digests.json: schema version {facts_set.SCHEMA + 1}, expected {facts_set.SCHEMA}"


def incomplete(files: Files) -> str:
    del files["gpus.json"]
    return "gpus.json: no such file or directory"


BROKEN: Sequence[Callable[[Files], str]] = (truncated, of_two_sets, of_another_schema, incomplete)
"""Breaks the files of a set; returns the reason for which the server rejects it."""


@dataclass
class Volume:
    """A folder whose files a kubelet swaps: links to `..data`, which is a link to the folder of one version."""

    folder: Path
    versions: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        self.folder.mkdir()
        for name in (facts_set.DIGESTS, *(f"{table}.json" for table in facts_set.NAMES)):
            (self.folder / name).symlink_to(f"..data/{name}")

    def swap(self, files: Files) -> None:
        """Replaces all files at once."""
        version = self.folder / f"..{next(self.versions)}"
        version.mkdir()
        for name, content in files.items():
            (version / name).write_bytes(content)
        (self.folder / "..data_tmp").symlink_to(version.name)
        (self.folder / "..data_tmp").replace(self.folder / "..data")


@dataclass
class Caller:
    """A client that sends reviews over one connection, as an API server does."""

    server: Server
    answers: list[tuple[str, str, bool]] = field(default_factory=list)
    """(set, Pod, whether it was allowed) of each answer."""

    def run(self, stop: Event) -> None:
        """Sends reviews until it is stopped; raises for an answer that is not a decision."""
        with closing(self.server.connect()) as connection:
            for number in count():
                for what, body in reviews(number):
                    connection.request("POST", "/validate?timeout=30s", body, {"Content-Type": "application/json"})
                    answer = connection.getresponse()
                    content = answer.read()
                    assert answer.status == 200, content
                    said = json.loads(content)["response"]
                    audited = said["auditAnnotations"]
                    assert audited["decision"] not in ("failed", "late"), said
                    self.answers.append((audited["facts-set"], what, said["allowed"]))
                if stop.is_set():
                    return


def reviews(number: int) -> Iterator[tuple[str, bytes]]:
    """Four Pods; the server has no remembered decision for `other`."""
    other = pod(sets.NEW)
    other["spec"]["containers"][0]["env"] = [{"name": "NUMBER", "value": str(number)}]
    for what, obj in (("new", pod(sets.NEW)), ("other", other), ("good", GOOD_POD), ("large", pod(sets.LARGE))):
        yield what, json.dumps(admission_review(obj)).encode()


def test_a_set_that_is_replaced_under_load_fails_no_review(tmp_path: Path) -> None:
    volume, policy = Volume(tmp_path / "set"), tmp_path / "policy.yaml"
    policy.write_text("apiVersion: podfit.dev/v1alpha1\nkind: Policy\nmetadata: {name: p}\nspec: {trustFacts: true}\n")
    good = {name: sets.files(sets.NEW, like, name) for name, like in MODELS.items()}
    volume.swap(good["one"])
    options = ("--facts", str(volume.folder), "--policy", str(policy), "--threads", "2")
    stop = Event()
    with ExitStack() as stack:
        server = stack.enter_context(serving(tmp_path, *options, patch="live_facts.INTERVAL = 0.05"))
        pool = stack.enter_context(ThreadPoolExecutor(CLIENTS))
        stack.callback(stop.set)
        callers = [Caller(server) for _ in range(CLIENTS)]
        running = [pool.submit(caller.run, stop) for caller in callers]

        def ready(text: str) -> None:
            """Waits until /readyz has the text and each client has then got all its answers again."""
            until(lambda: text in server.request("GET", "/readyz")[1].decode())
            before = [len(caller.answers) for caller in callers]
            until(
                lambda: (
                    any(one.done() for one in running)  # the assertion of one failed
                    or all(len(caller.answers) > seen + 5 for caller, seen in zip(callers, before, strict=True))
                )
            )

        ready("\nfacts one (")
        for (last, name), damage in zip(pairwise(good), BROKEN, strict=True):
            broken = dict(good[name])
            reason = damage(broken)
            volume.swap(broken)
            ready(f"\nfacts not used, {last} stays in use: {volume.folder}/{reason}")
            volume.swap(good[name])
            ready(f"\nfacts {name} (")
        for name, content in sets.files(sets.NEW, sets.SMALL, "in-place").items():
            (volume.folder / name).write_bytes(content)
        ready("\nfacts in-place (")
        stop.set()
        for one in running:
            one.result()

    for caller in callers:
        assert [name for name, _ in groupby(name for name, _, _ in caller.answers)] == [*good, "in-place"]
        assert [answer for answer in caller.answers if answer[2] != is_allowed(*answer[:2])] == []


def is_allowed(name: str, what: str) -> bool:
    """Whether the facts of a set allow a Pod."""
    small = MODELS.get(name, sets.SMALL) == sets.SMALL
    return {"new": small, "other": small, "good": True, "large": False}[what]
