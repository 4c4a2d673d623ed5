"""Facts that change while the server runs: a good set is in use at once, a broken one changes nothing."""

from __future__ import annotations

import errno
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from podfit.base.data import PACKAGED
from podfit.base.facts_set import FactsError
from podfit.evaluation.policy import PolicyError
from podfit.server.app import create_app
from podfit.server.live import Live
from podfit.server.live_facts import LiveFacts, read
from podfit.server.metrics import Metrics
from podfit.vllm.facts import Facts
from tests.asgi import Client
from tests.evaluation.test_newer_facts import TRUSTING, pod, with_gpu
from tests.facts import sets
from tests.reviews import admission_review
from tests.server.test_server import serving, until


def test_without_a_folder_the_packaged_facts_are_in_use() -> None:
    live = LiveFacts(Facts(), None)

    assert live.facts.tables is PACKAGED
    assert live.report() == [PACKAGED.age()]


def test_a_changed_set_is_in_use_after_the_next_look(tmp_path: Path) -> None:
    sets.write(tmp_path / "set", sets.NEW, sets.LARGE, "one")
    live = LiveFacts(Facts(), tmp_path / "set")
    assert live.facts.tables.name == "one"

    sets.write(tmp_path / "set", sets.NEW, sets.SMALL, "two")
    live.look()

    assert live.facts.tables.name == "two"
    assert live.report() == [live.facts.tables.age()]


def test_what_is_not_changed_is_not_read_again(tmp_path: Path) -> None:
    sets.write(tmp_path, sets.NEW, sets.LARGE, "one")
    judged: list[Facts] = []
    live = LiveFacts(Facts(), tmp_path, judged.append)
    tables = live.facts.tables

    live.look()

    assert live.facts.tables is tables
    assert len(judged) == 1


def test_a_folder_that_is_replaced_by_a_symlink_is_seen(tmp_path: Path) -> None:
    """As kubelets and deployments swap folders."""
    for name, like in (("one", sets.LARGE), ("two", sets.SMALL)):
        sets.write(tmp_path / name, sets.NEW, like, name)
    (tmp_path / "current").symlink_to("one")
    live = LiveFacts(Facts(), tmp_path / "current")

    (tmp_path / "next").symlink_to("two")
    (tmp_path / "next").replace(tmp_path / "current")
    live.look()

    assert live.facts.tables.name == "two"


@pytest.mark.parametrize("what", ["no folder", "a file is missing", "a file was changed", "judging fails"])
def test_a_broken_set_changes_nothing_and_is_told_once(
    what: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "set"
    sets.write(folder, sets.NEW, sets.LARGE, "good")
    broken = False

    def judge(_: Facts) -> None:
        if broken:
            raise KeyError("NVIDIA L4")

    live = LiveFacts(Facts(), folder, judge)
    caplog.clear()

    broken = True
    match what:
        case "no folder":
            folder.rename(tmp_path / "elsewhere")
        case "a file is missing":
            (folder / "gpus.json").unlink()
        case "a file was changed":
            (folder / "gpus.json").write_bytes(b"{}")
        case _:
            sets.write(folder, sets.NEW, sets.SMALL, "other")
    live.look()
    live.look()

    said = {
        "no folder": f"{folder}/digests.json: no such file or directory",
        "a file is missing": f"{folder}/gpus.json: no such file or directory",
        "a file was changed": f"{folder}/gpus.json: its SHA-256 is not that of digests.json",
        "judging fails": f"{folder}: the set can't be used (KeyError)",
    }[what]
    assert live.facts.tables.name == "good"
    assert live.problem == said
    assert live.report() == [live.facts.tables.age(), f"facts not used, good stays in use: {said}"]
    assert [one.getMessage() for one in caplog.records if one.levelno == logging.ERROR] == [live.report()[1]]


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def link(to: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        path.unlink()
        path.symlink_to(to)

    return change


UNREADABLE: dict[str, tuple[Callable[[Path], object], str]] = {
    "a pipe that nobody writes to": (fifo, "not a regular file"),
    "a device without an end": (link("/dev/zero"), "not a regular file"),
    "a folder": (folder, "is a directory"),
    "a link to itself": (link("models.json"), "too many levels of symbolic links"),
    "a link to another file": (link("/etc/passwd"), "its SHA-256 is not that of digests.json"),
    "500 MB": (lambda path: os.truncate(path, 500 << 20), "with the files before it larger than 16 MiB"),
}


@pytest.mark.parametrize("what", UNREADABLE)
def test_what_is_no_file_of_a_set_is_refused_at_once(what: str, tmp_path: Path) -> None:
    change, said = UNREADABLE[what]
    sets.write(tmp_path, sets.NEW, sets.LARGE, "one")
    change(tmp_path / "models.json")

    with pytest.raises(FactsError) as raised:
        read(tmp_path)

    assert str(raised.value) == f"{tmp_path}/models.json: {said}"


def test_a_file_that_may_be_read_again_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """chmod changes neither the time nor the size nor the inode of a file. (Root may read any file: the error is
    made here.)"""
    sets.write(tmp_path, sets.NEW, sets.LARGE, "one")
    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refuse)
        live = LiveFacts(Facts(), tmp_path)
    assert live.report()[1].endswith(f"{tmp_path}/digests.json: permission denied")

    (tmp_path / "digests.json").chmod(0o604)
    live.look()

    assert (live.facts.tables.name, live.problem) == ("one", None)


def refuse(*_: object, **__: object) -> int:
    raise PermissionError(errno.EACCES, "Permission denied")


def test_a_folder_that_changes_while_it_is_read_is_no_broken_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kubelet swaps the folder when the first file has been read: files of two sets."""
    for name, like in (("one", sets.LARGE), ("two", sets.SMALL)):
        sets.write(tmp_path / name, sets.NEW, like, name)
    (tmp_path / "current").symlink_to("one")
    opened: list[Path] = []
    really = os.open

    def swapping(path: Path, flags: int) -> int:
        found = really(path, flags)
        if not opened:
            (tmp_path / "next").symlink_to("two")
            (tmp_path / "next").replace(tmp_path / "current")
        opened.append(path)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", swapping)
        live = LiveFacts(Facts(), tmp_path / "current")
    assert live.report() == [PACKAGED.age()]

    live.look()

    assert (live.facts.tables.name, live.problem) == ("two", None)


def test_a_set_that_is_mended_is_in_use(tmp_path: Path) -> None:
    live = LiveFacts(Facts(), tmp_path)
    assert live.facts.tables is PACKAGED
    assert live.report()[1].startswith("facts not used, the packaged ones stay in use: ")

    sets.write(tmp_path, sets.NEW, sets.LARGE, "one")
    live.look()

    assert (live.facts.tables.name, live.problem) == ("one", None)


def test_what_was_given_beside_stays(tmp_path: Path) -> None:
    sets.write(tmp_path, sets.NEW, sets.LARGE, "one")

    assert LiveFacts(Facts(gpu_memory=1), tmp_path).facts.gpu_memory == 1


def test_decisions_and_metrics_follow_the_set(tmp_path: Path) -> None:
    """Also decisions that are remembered."""
    sets.write(tmp_path, sets.NEW, sets.LARGE, "large")
    live = LiveFacts(Facts(), tmp_path)
    metrics = Metrics("1.2.3", TRUSTING.version, live.facts.version)
    metrics.watch_facts(live)
    client = Client(create_app(TRUSTING, live, metrics))
    body = json.dumps(admission_review(pod(sets.NEW))).encode()

    def decision() -> tuple[bool, str]:
        said = json.loads(client.post("/validate", body).text)["response"]
        return said["allowed"], said["auditAnnotations"]["facts-set"]

    assert [decision(), decision()] == [(False, "large")] * 2
    sets.write(tmp_path, sets.NEW, sets.SMALL, "small")
    live.look()
    assert [decision(), decision()] == [(True, "small")] * 2
    text = client.get("/metrics").text
    assert f'facts_version="{live.facts.version}"' in text
    assert "podfit_facts_up_to_date 1.0" in text
    (tmp_path / "gpus.json").unlink()
    live.look()
    assert decision() == (True, "small")
    assert "podfit_facts_up_to_date 0.0" in client.get("/metrics").text
    assert "facts not used, small stays in use" in client.get("/readyz").text


def test_the_real_server_changes_its_facts_without_a_restart(tmp_path: Path) -> None:
    folder, policy = tmp_path / "set", tmp_path / "policy.yaml"
    head = "apiVersion: podfit.dev/v1alpha1\nkind: Policy\nmetadata: {name: p}\nspec: {trustFacts: "
    policy.write_text(f"{head}true}}\n")
    sets.write(folder, sets.NEW, sets.LARGE, "large")
    obj = admission_review(pod(sets.NEW))
    with serving(tmp_path, "--facts", str(folder), "--policy", str(policy)) as server:
        first = server.review("/validate", obj)
        assert (first["allowed"], first["auditAnnotations"]["facts-set"]) == (False, "large")
        assert b"\nfacts large (" in server.request("GET", "/readyz")[1]

        policy.write_text(f"{head}false}}\n")
        until(lambda: server.review("/validate", obj)["allowed"])
        policy.write_text(f"{head}true}}\n")
        until(lambda: not server.review("/validate", obj)["allowed"])

        (folder / "flags.json").write_bytes(b"{}")
        until(lambda: b"facts not used, large stays in use" in server.request("GET", "/readyz")[1])
        assert not server.review("/validate", obj)["allowed"]

        sets.write(folder, sets.NEW, sets.SMALL, "small")
        until(lambda: server.review("/validate", obj)["allowed"])
        assert server.review("/validate", obj)["auditAnnotations"]["facts-set"] == "small"
        assert b"facts not used" not in server.request("GET", "/readyz")[1]


def test_a_server_with_a_broken_set_serves_the_packaged_facts(tmp_path: Path) -> None:
    with serving(tmp_path, "--facts", str(tmp_path / "none")) as server:
        assert not server.review("/validate", admission_review(pod(sets.LARGE)))["allowed"]
        said = server.request("GET", "/readyz")[1].decode()

    assert f"facts not used, the packaged ones stay in use: {tmp_path}/none/digests.json: no such file" in said


def test_a_live_policy_is_read_by_the_set_in_use(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(
        "apiVersion: podfit.dev/v1alpha1\nkind: Policy\nmetadata: {name: p}\nspec: {assume: {gpu: NVIDIA L5}}\n"
    )
    with pytest.raises(PolicyError):
        Live([file])

    assert Live([file], tables=lambda: with_gpu("NVIDIA L5", "NVIDIA L4")).problems == ()
