"""The access log: a line a review, bounded, and never a value from a manifest."""

from __future__ import annotations

import errno
import io
import json
from datetime import UTC, datetime
from threading import Event
from typing import Any

import pytest

from podfit.evaluation import review
from podfit.evaluation.policy import Policy, builtin, load
from podfit.server import lines as lines_
from podfit.server.accesslog import MAX_NAME_LENGTH, AccessLog
from podfit.server.app import create_app
from podfit.server.metrics import Metrics
from podfit.vllm.facts import Facts
from tests.asgi import Client
from tests.conftest import GOOD_POD
from tests.reviews import UID, admission_review, doomed

NOW = datetime(2026, 11, 21, 12, 0, 0, 123456, tzinfo=UTC)


def lines(
    *bodies: bytes | dict[str, Any], path: str = "/validate?timeout=10s", policy: Policy | None = None
) -> list[dict[str, Any]]:
    """What is logged of these requests."""
    stream = io.BytesIO()
    policy = policy or builtin()
    access = AccessLog(stream, lambda: NOW)
    app = create_app(policy, Facts(), Metrics("", "", ""), access=access)
    for body in bodies:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        Client(app).post(path, data)
    access.close(30)
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_says_what_was_asked_and_decided() -> None:
    first, second = lines(*[admission_review(doomed(GOOD_POD))] * 2)

    assert first.pop("seconds") > 0
    assert first.pop("waited") >= 0
    assert first.pop("policy") == builtin().version
    assert "unknown-flag=deny" in first.pop("rules").split(",")
    assert first == {
        "time": "2026-11-21T12:00:00.123+00:00",
        "webhook": "validate",
        "uid": UID,
        "user": "kubernetes-admin",
        "operation": "CREATE",
        "group": "",
        "kind": "Pod",
        "subresource": "",
        "namespace": GOOD_POD["metadata"]["namespace"],
        "name": GOOD_POD["metadata"]["name"],
        "dry_run": False,
        "decision": "denied",
        "exempted": "",
        "would": "",
        "would_rules": "",
        "remembered": False,
    }
    assert (second["decision"], second["remembered"]) == ("denied", True)


def test_a_line_says_who_asked_what_is_accepted_and_what_enforcing_would_deny() -> None:
    """Also of a decision that is remembered from another user's review."""
    pod = doomed(GOOD_POD)
    pod["spec"]["containers"][0]["args"] += ["--gpu-memory-utilization", "0.99"]
    pod["metadata"] = {
        **pod["metadata"],
        "annotations": {"podfit.dev/ignore.gpu-memory-utilization-too-high": "a trial"},
    }
    users = ("system:serviceaccount:argocd:argocd", "jane@example.com")
    policy = load([("observe.yaml", OBSERVE)])

    found = lines(*[admission_review(pod, userInfo={"username": user}) for user in users], policy=policy)

    assert [(line["user"], line["remembered"]) for line in found] == [(users[0], False), (users[1], True)]
    for line in found:
        assert (line["decision"], line["would"]) == ("allowed", "denied")
        assert line["exempted"] == "gpu-memory-utilization-too-high=annotation"
        assert "unknown-flag=audit" in line["rules"].split(",")
        assert line["would_rules"] == "unknown-flag=audit(deny)"


OBSERVE = """
apiVersion: podfit.dev/v1alpha1
kind: Policy
metadata: {name: observe}
spec: {enforce: {mode: audit}, allowIgnore: [gpu-memory-utilization-too-high]}
"""


def test_what_is_no_review_is_a_line_too() -> None:
    (line,) = lines(b"{")

    assert (line["path"], line["status"]) == ("/validate", 400)
    assert "not JSON" in line["error"]


def test_a_line_is_a_line_and_is_bounded_and_holds_no_secret() -> None:
    pod = json.loads(json.dumps(GOOD_POD))
    pod["metadata"]["name"] = "a\nb\x1b[31m" + "x" * 1000
    pod["spec"]["containers"][0]["env"] = [{"name": "HF_TOKEN", "value": "hf_secretsecretsecret"}]
    pod["spec"]["containers"][0]["args"] += [
        "--hf-token",
        "hf_secretsecretsecret",
        "--nonsense",
        "hf_secretsecretsecret",
    ]

    (line,) = lines(admission_review(pod, name=pod["metadata"]["name"], uid="u" * 5000))

    assert (len(line["name"]), len(line["uid"])) == (MAX_NAME_LENGTH, MAX_NAME_LENGTH)
    assert line["decision"] == "denied"
    assert "secretsecret" not in json.dumps(line)
    assert len(json.dumps(line)) < 4096


class Stuck(io.BytesIO):
    """The process that reads has stopped."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = Event()

    def write(self, text: Any) -> int:
        self.reads.wait(30)
        return super().write(text)


def say(access: AccessLog, uid: str = UID) -> None:
    request = review.parse(json.dumps(admission_review(GOOD_POD, uid=uid)).encode())
    access.review("validate", review.Decision(request, "allowed"), 0.1, 0.0)


def test_reviews_do_not_wait_for_who_reads_and_what_has_no_room_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_, "QUEUE", 4)
    stream = Stuck()
    access, metrics = AccessLog(stream), Metrics("", "", "")
    metrics.watch_access_log(access)
    for number in range(80):  # four wait, and no more than a batch is in the writer's hands
        say(access, f"u{number}")
    lost = access.dropped

    assert lost >= 80 - 4 - lines_.LINES_PER_WRITE
    assert f"podfit_access_log_dropped_lines_total {float(lost)}" in metrics.text().decode()
    stream.reads.set()
    access.close(30)
    assert len(stream.getvalue().splitlines()) == 80 - lost


def test_an_error_loses_lines_and_does_not_end_the_log(caplog: pytest.LogCaptureFixture) -> None:
    class Full(io.BytesIO):
        full = True

        def write(self, text: Any) -> int:
            if self.full:
                raise OSError(errno.ENOSPC, "no space left on device")
            return super().write(text)

    stream = Full()
    access = AccessLog(stream)
    say(access)
    say(access)
    access.close(30)
    stream.full = False
    say(access, "afterwards")
    access.close(30)

    assert access.dropped == 2
    assert json.loads(stream.getvalue())["uid"] == "afterwards"
    assert [one.message for one in caplog.records] == [
        "lines of the access log are lost: [Errno 28] no space left on device"
    ]


def test_a_line_that_is_written_in_pieces_is_whole() -> None:
    class Pieces(io.BytesIO):
        tries = 0

        def write(self, text: Any) -> Any:
            self.tries += 1
            return None if self.tries == 1 else super().write(bytes(text[:7]))

    stream = Pieces()
    access = AccessLog(stream)
    say(access)
    access.close(30)

    assert json.loads(stream.getvalue())["uid"] == UID


def test_a_line_that_comes_while_the_thread_ends_is_written() -> None:
    """The thread has looked for the last time, and still seems to be there."""
    written = io.BytesIO()
    lines = lines_.Lines(written, "lines")
    taken = lines._next_batch

    def late() -> list[bytes]:
        batch = taken()
        if not batch and b"late" not in written.getvalue():
            lines.put(b"late")
        return batch

    lines._next_batch = late  # type: ignore[method-assign]
    lines.put(b"first,")
    lines.close(10)

    assert written.getvalue() == b"first,late"


def test_where_no_thread_can_be_had_the_next_line_tries_again(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    lines = lines_.Lines(written, "lines")
    with monkeypatch.context() as without:
        without.setattr(lines_, "Thread", lambda **_: 1 / 0)
        lines.put(b"first,")
    lines.put(b"second")
    lines.close(10)

    assert written.getvalue() == b"first,second"
