"""A review is answered in time, whatever happens: allowed with a warning if there is no time to evaluate it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from podfit.evaluation.policy import builtin
from podfit.rules.engine import Engine
from podfit.rules.host_memory.shm_missing import ShmMissing
from podfit.rules.rule import Finding
from podfit.server import deadline, reviews
from podfit.server.app import create_app
from podfit.server.lanes import ARRIVED
from podfit.server.metrics import Metrics
from podfit.vllm.facts import Facts
from tests.asgi import Client
from tests.conftest import GOOD_POD
from tests.reviews import UID, admission_review, doomed

JSONDict = dict[str, Any]


@pytest.fixture(name="app")
def _app() -> Client:
    return Client(create_app(builtin(), Facts(), Metrics("", "", "")))


def ask(app: Client, pod: JSONDict, query: str = "timeout=10s", arrived: float | None = None) -> JSONDict:
    scope = {} if arrived is None else {ARRIVED: arrived}
    answer = app.post(f"/validate?{query}", json=admission_review(pod), scope=scope)
    assert answer.status_code == 200
    response: JSONDict = answer.get_json()["response"]
    return response


def total(app: Client, name: str, **labels: str) -> float:
    families = text_string_to_metric_families(app.get("/metrics").text)
    samples = [sample for family in families for sample in family.samples]
    return sum(one.value for one in samples if one.name == name and labels.items() <= one.labels.items())


def test_a_review_that_waited_too_long_is_allowed_and_told(app: Client) -> None:
    response = ask(app, doomed(GOOD_POD), "timeout=5s", time.monotonic() - 4.5)

    assert (response["uid"], response["allowed"]) == (UID, True)
    assert response["warnings"] == ["podfit could not check this in time (too much to do); allowed"]
    assert response["auditAnnotations"] == {"decision": "late"}
    assert total(app, "podfit_reviews_total", decision="late") == 1
    assert total(app, "podfit_review_wait_seconds_sum") > 4


def test_the_same_wait_is_no_matter_where_the_api_server_is_patient(app: Client) -> None:
    assert ask(app, doomed(GOOD_POD), "timeout=30s", time.monotonic() - 4.5)["allowed"] is False


def test_a_rule_that_hangs_is_ended_named_and_the_review_allowed(app: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(deadline, "JUDGING", 0.05)
        patch.setattr(reviews, "HERE", 0.01)
        patch.setattr("podfit.rules.host_memory.shm_missing.ShmMissing.check", hanging())
        response = ask(app, doomed(GOOD_POD))

    assert (response["allowed"], response["warnings"]) == (
        True,
        ["podfit could not check this in time (it took too long); allowed"],
    )
    assert total(app, "podfit_rule_errors_total", rule="shm-missing") == 1
    assert ask(app, doomed(GOOD_POD), "timeout=30s")["allowed"] is False, "nothing of it was remembered"


def hanging() -> object:
    """`hang` as if it stood in the rule's own file."""
    source = "def check(self, engine):\n    while True:\n        yield from ()\n"
    names: dict[str, Any] = {}
    exec(compile(source, "webhook/podfit/rules/host_memory/shm_missing.py", "exec"), names)  # noqa: S102 - ours
    return names["check"]


def test_a_rule_that_eats_memory_is_an_error_of_that_rule(app: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def hungry(_: ShmMissing, engine: Engine) -> Iterator[Finding]:
        raise MemoryError

    monkeypatch.setattr("podfit.rules.host_memory.shm_missing.ShmMissing.check", hungry)
    response = ask(app, doomed(GOOD_POD))

    assert response["allowed"] is False, "the other rules have judged"
    assert total(app, "podfit_rule_errors_total", rule="shm-missing") == 1


def test_a_review_that_memory_is_not_enough_to_read_is_allowed(app: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def hungry(_: bytes) -> None:
        raise MemoryError

    monkeypatch.setattr("podfit.evaluation.review.parse", hungry)
    body = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {"uid": UID, "kind": {}}}
    response = app.post("/validate", json=body).get_json()["response"]

    assert (response["uid"], response["allowed"]) == (UID, True)
    assert "an error in podfit (MemoryError)" in response["warnings"][0]
    assert total(app, "podfit_rule_errors_total", rule="review") == 1


def test_a_large_body_is_judged_and_not_remembered(app: Client) -> None:
    small, large = doomed(GOOD_POD), doomed(GOOD_POD)
    large["metadata"] = {**large["metadata"], "annotations": {"note": "x" * reviews.LARGE}}

    for pod in (small, small, large, large):
        assert ask(app, pod)["allowed"] is False
    assert total(app, "podfit_remembered_reviews_total") == 1


def test_what_was_decided_is_answered_though_it_can_not_be_told(app: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Metrics, "observe", lambda *_: 1 / 0)

    assert ask(app, doomed(GOOD_POD))["allowed"] is False
