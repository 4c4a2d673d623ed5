"""The access log: a line a review, bounded, and never a value from a manifest."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.conftest import GOOD_POD
from tests.reviews import UID, admission_review, doomed
from webhook import review
from webhook.accesslog import LONGEST, AccessLog
from webhook.app import create_app
from webhook.facts import Facts
from webhook.metrics import Metrics
from webhook.policy import builtin

NOW = datetime(2026, 11, 21, 12, 0, 0, 123456, tzinfo=UTC)


def lines(*bodies: bytes | dict[str, Any], path: str = "/validate?timeout=10s") -> list[dict[str, Any]]:
    """What is logged of these requests."""
    stream = io.StringIO()
    policy = builtin()
    app = create_app(policy, Facts(), Metrics("", "", ""), access=AccessLog(stream, lambda: NOW))
    for body in bodies:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        app.test_client().post(path, data=data, content_type="application/json")
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_says_what_was_asked_and_decided() -> None:
    first, second = lines(*[admission_review(doomed(GOOD_POD))] * 2)

    assert first.pop("seconds") > 0
    assert first.pop("waited") == 0
    assert first.pop("policy") == builtin().version
    assert "unknown-flag=deny" in first.pop("rules").split(",")
    assert first == {
        "time": "2026-11-21T12:00:00.123+00:00",
        "webhook": "validate",
        "uid": UID,
        "operation": "CREATE",
        "group": "",
        "kind": "Pod",
        "subresource": "",
        "namespace": GOOD_POD["metadata"]["namespace"],
        "name": GOOD_POD["metadata"]["name"],
        "dry_run": False,
        "decision": "denied",
        "remembered": False,
    }
    assert (second["decision"], second["remembered"]) == ("denied", True)


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

    assert (len(line["name"]), len(line["uid"])) == (LONGEST, LONGEST)
    assert line["decision"] == "denied"
    assert "secretsecret" not in json.dumps(line)
    assert len(json.dumps(line)) < 4096


def test_reviews_go_on_when_nobody_reads_the_log(caplog: pytest.LogCaptureFixture) -> None:
    class Gone(io.StringIO):
        def write(self, _: str) -> int:
            raise BrokenPipeError("nobody reads")

    access = AccessLog(Gone())
    request = review.parse(json.dumps(admission_review(GOOD_POD)).encode())
    for _ in range(2):
        access.review("validate", review.Decision(request, "allowed"), 0.1, 0.0)

    assert [record.message for record in caplog.records] == ["the access log can't be written and ends: nobody reads"]
