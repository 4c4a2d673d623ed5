"""Events on workloads that would not start: what they say, under which name, and how many are sent."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from unittest.mock import Mock

import pytest

from podfit.cli import main
from podfit.cluster.access import Client, StatusError
from podfit.cluster.events import PER_MINUTE, EventWriter
from podfit.evaluation.scan import Scan, ScannedContainer
from podfit.report.events import MAX_MESSAGE_BYTES, events
from tests.evaluation.scan.cluster import DOOMED, workload
from tests.evaluation.scan.test_drift import scanned

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


def scan() -> Scan:
    """A workload that is denied, and one without a finding that matters."""
    return scanned(workload("Deployment", "doomed", args=DOOMED), workload("Deployment", "llama"))


def changed(found: Scan, **fields: Any) -> Scan:
    """The same scan with other fields of each container."""
    return replace(found, rows=[row._replace(**fields) for row in found.rows])


def names(found: Scan) -> list[str]:
    return [one["metadata"]["name"] for one in events(found, NOW)]


def test_a_workload_that_would_not_start_gets_one_event() -> None:
    (event,) = events(scan(), NOW)

    assert event["message"].startswith("vLLM would not start: 1 problem (unknown-flag) in container ")
    assert event["message"].endswith(" of Deployment chat/doomed")
    assert (event["reason"], event["type"]) == ("PodfitWouldNotStart", "Warning")
    target = event["involvedObject"]
    assert (target["apiVersion"], target["kind"], target["name"]) == ("apps/v1", "Deployment", "doomed")
    assert target["namespace"] == event["metadata"]["namespace"] == "chat"
    assert target["uid"]


def test_a_repeat_has_the_same_name_and_another_template_or_rule_has_another() -> None:
    first = scan()
    finding = next(one for row in first.rows for one in row.findings if one.mode == "deny")
    others = [
        changed(first, template="another"),
        changed(first, findings=(finding._replace(rule="kv-cache-too-small"),)),
    ]

    assert names(first) == names(scan())
    assert not set(names(first)) & {name for other in others for name in names(other)}


def test_what_only_the_policys_limit_keeps_from_denying_is_an_event_and_advice_is_none() -> None:
    first = scan()
    finding = next(one for row in first.rows for one in row.findings if one.mode == "deny")
    observed = changed(first, findings=(finding._replace(mode="audit", level="advice"),))
    advised = changed(first, findings=(finding._replace(mode="warn", would="warn", level="advice"),))
    likely = changed(first, findings=(finding._replace(mode="warn", would="warn", level="likely"),))

    assert [one["message"][:20] for one in events(observed, NOW)] == ["vLLM would not start"] * 2
    assert not names(advised)
    assert {one["message"][:8] for one in events(likely, NOW)} == {"likely: "}


def test_a_message_is_one_bounded_line_of_printable_text() -> None:
    def row(one: ScannedContainer) -> ScannedContainer:
        return one._replace(container="c\n" * 2000, object=one.object._replace(name="x\n" * 2000))

    found = scan()
    for event in events(replace(found, rows=[row(one) for one in found.rows]), NOW):
        assert len(event["message"].encode()) <= MAX_MESSAGE_BYTES
        assert event["message"].isprintable()


def made(count: int, first: int = 0) -> list[dict[str, Any]]:
    return [{"metadata": {"name": f"e{number}", "namespace": "chat"}} for number in range(first, first + count)]


def client(**behavior: Any) -> Mock:
    return Mock(spec=Client, send=Mock(**behavior))


def test_at_most_twenty_a_minute_are_sent_and_the_rest_is_counted_and_sent_first_next_time() -> None:
    now = [0.0]
    writer, api = EventWriter(lambda: now[0]), client()

    writer.write(api, made(25))
    assert api.send.call_count == writer.counts["created"] == PER_MINUTE
    assert writer.counts["left"] == 5
    writer.write(api, made(25))
    assert api.send.call_count == PER_MINUTE

    now[0], before = 60.0, api.send.call_count
    writer.write(api, made(25))
    sent = [call.args[2]["metadata"]["name"] for call in api.send.call_args_list[before:]]
    assert sent[:5] == [f"e{number}" for number in range(20, 25)]
    assert len(sent) == PER_MINUTE


@pytest.mark.parametrize(("code", "outcome", "is_error"), [(409, "repeated", False), (403, "failed", True),
                                                             (404, "failed", False)])  # fmt: skip
def test_an_event_that_exists_is_no_error_and_a_missing_right_is_one(code: int, outcome: str, is_error: bool) -> None:
    writer = EventWriter()

    error = writer.write(client(side_effect=StatusError(code, "no")), made(2))

    assert bool(error) is is_error
    assert writer.counts[outcome] == 2


def test_events_are_for_the_exporter_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scan", "--write-events"]) != 0
    assert "--write-events belongs to --serve" in capsys.readouterr().err
