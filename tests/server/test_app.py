"""The HTTP edge: which outcome is which status, and that no answer is ever a traceback."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from podfit.base import data
from podfit.cli.doctor import DOOMED
from podfit.evaluation import review
from podfit.evaluation.policy import builtin, load
from podfit.server.app import create_app
from podfit.server.metrics import MAX_NAMESPACES, Metrics
from podfit.server.readiness import Readiness
from podfit.server.reviews import MAX_BODY
from podfit.vllm.facts import Facts
from tests.asgi import Answer, Client
from tests.reviews import UID, admission_review, doomed, without_shm

JSONDict = dict[str, Any]


class Ready:
    """Whether the server is ready: None, or why not."""

    why: str | None = None


@pytest.fixture(name="ready")
def _ready() -> Ready:
    return Ready()


@pytest.fixture(name="client")
def _client(ready: Ready) -> Client:
    return Client(create_app(builtin(), Facts(), Metrics("1.2.3", "policy", "facts"), Readiness(lambda: ready.why)))


def post(client: Client, body: JSONDict | bytes, path: str = "/validate") -> Answer:
    return client.post(path, body if isinstance(body, bytes) else json.dumps(body).encode())


def samples(client: Client) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Every sample of /metrics: (name, labels) → value."""
    text = client.get("/metrics").text
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_a_review_is_answered_with_200_and_its_uid(client: Client, pod: JSONDict) -> None:
    answer = post(client, admission_review(pod), "/validate?timeout=3s")

    assert (answer.status_code, answer.mimetype) == (200, "application/json")
    assert answer.get_json()["response"]["uid"] == UID
    assert answer.get_json()["response"]["allowed"] is True


def test_a_refusal_is_a_200_too(client: Client, pod: JSONDict) -> None:
    answer = post(client, admission_review(doomed(pod)))

    assert answer.status_code == 200
    assert answer.get_json()["response"]["status"]["code"] == 403


def test_mutate_patches_and_validate_does_not(client: Client, pod: JSONDict) -> None:
    body = admission_review(without_shm(pod))

    assert "patch" in post(client, body, "/mutate").get_json()["response"]
    assert "patch" not in post(client, body, "/validate").get_json()["response"]


BAD_REQUESTS: dict[str, tuple[int, dict[str, Any], str]] = {
    "no JSON": (400, {"data": b"{"}, "not JSON"),
    "no UTF-8": (400, {"data": b"\xff\xfe"}, "not UTF-8"),
    "nested 10,000 deep": (400, {"data": b"[" * 10_000 + b"]" * 10_000}, "nested too deep"),
    "10 MB": (413, {"data": b" " * 10_000_000}, "larger than 8 MiB"),
    "a form": (415, {"data": b"a=b", "content_type": "application/x-www-form-urlencoded"}, "application/json"),
    "no content type": (415, {"data": b"{}", "content_type": None}, "application/json"),
    "compressed": (415, {"data": b"{}", "headers": {"Content-Encoding": "gzip"}}, "compressed"),
}


@pytest.mark.parametrize("path", ["/validate", "/mutate"])
@pytest.mark.parametrize("case", BAD_REQUESTS)
def test_a_bad_request_is_told_in_one_line_of_json(case: str, path: str, client: Client) -> None:
    code, options, words = BAD_REQUESTS[case]

    answer = client.post(path, **options)

    assert answer.status_code == code
    assert answer.text.count("\n") == 1
    assert words in answer.get_json()["error"]
    assert samples(client)["podfit_bad_requests_total", (("code", str(code)),)] == 1


def test_a_body_without_a_length_is_cut_off_at_the_limit(client: Client) -> None:
    """A chunked body says no length; the server counts."""
    headers = {"content-type": "application/json"}

    assert client.open("POST", "/validate", headers, [b" " * (1 << 20)] * 9).status_code == 413


def test_the_largest_body_that_is_allowed_is_read(client: Client, pod: JSONDict) -> None:
    body = json.dumps(admission_review(pod)).encode()

    assert post(client, body + b" " * (MAX_BODY - len(body))).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "code"), [("GET", "/validate", 405), ("POST", "/healthz", 405), ("GET", "/nowhere", 404)]
)
def test_other_paths_and_methods_are_told_in_one_line(method: str, path: str, code: int, client: Client) -> None:
    answer = client.open(method, path)

    assert answer.status_code == code
    assert answer.get_json()["error"]


def test_an_error_of_the_edge_is_a_500_without_a_traceback(
    client: Client, pod: JSONDict, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(review, "parse", lambda _: 1 / 0)

    answer = post(client, admission_review(pod))

    assert (answer.status_code, answer.get_json()) == (500, {"error": "internal error"})


def test_an_error_of_the_core_allows_is_counted_and_its_text_is_not_sent(
    client: Client, pod: JSONDict, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(review, "lint", lambda *_, **__: 1 / 0)

    answer = post(client, admission_review(pod))

    assert answer.status_code == 200
    assert answer.get_json()["response"]["allowed"] is True
    assert samples(client)["podfit_rule_errors_total", (("rule", "review"),)] == 1


def test_it_is_ready_once_all_is_in_place_and_stays_so_when_something_is_lost(client: Client, ready: Ready) -> None:
    ready.why = "tls.crt: no such file or directory"
    assert client.get("/healthz").status_code == 200
    assert client.get("/readyz").status_code == 503
    assert client.get("/readyz").get_json() == {"error": "tls.crt: no such file or directory"}

    ready.why = None
    assert client.get("/readyz").text == f"ok\n{data.age()}\n"

    ready.why = "tls.crt: the certificate ended"
    assert (client.get("/readyz").status_code, client.get("/readyz").text) == (200, f"ok\n{ready.why}\n{data.age()}\n")


def test_metrics_count_reviews_findings_and_patches(client: Client, pod: JSONDict) -> None:
    post(client, admission_review(doomed(pod)))
    post(client, admission_review(without_shm(pod), dryRun=True), "/mutate")

    found = samples(client)
    review_labels = {"operation": "CREATE", "kind": "Pod"}

    def reviews(**labels: str) -> float:
        return found["podfit_reviews_total", tuple(sorted({**review_labels, **labels}.items()))]

    assert reviews(webhook="validate", decision="denied", dry_run="false") == 1
    assert reviews(webhook="mutate", decision="patched", dry_run="true") == 1
    finding = (("dry_run", "false"), ("mode", "deny"), ("rule", "unknown-flag"), ("would", "deny"))
    assert found["podfit_findings_total", finding] == 1
    assert found["podfit_patches_total", (("dry_run", "true"),)] == 1
    assert found["podfit_review_duration_seconds_count", (("webhook", "validate"),)] == 1
    build = (("facts_version", "facts"), ("policy_version", "policy"), ("version", "1.2.3"))
    assert found["podfit_build_info", build] == 1


OBSERVE = "apiVersion: podfit.dev/v1alpha1\nkind: Policy\nmetadata: {name: o}\nspec: {enforce: {mode: audit}}\n"


def test_what_enforcing_would_deny_is_counted_by_namespace_up_to_a_bound(pod: JSONDict) -> None:
    observed = Client(create_app(load([("observe.yaml", OBSERVE)]), Facts(), Metrics("1.2.3", "policy", "facts")))
    for number in range(MAX_NAMESPACES + 2):
        name = f"team-{number}"
        bad = doomed({**pod, "metadata": {**pod["metadata"], "namespace": name}})
        post(observed, admission_review(bad, namespace=name))
        post(observed, admission_review(bad, namespace=name, dryRun=True))
    post(observed, admission_review(pod))

    rows = {key: value for key, value in samples(observed).items() if key[0] == "podfit_would_deny_total"}
    real = {dict(labels)["namespace"]: value for (_, labels), value in rows.items() if ("dry_run", "false") in labels}

    assert len(real) == MAX_NAMESPACES + 1
    assert (real["team-0"], real["other"]) == (1, 2)
    assert sum(rows.values()) == 2 * (MAX_NAMESPACES + 2)


def test_the_faulty_pod_of_the_doctor_is_evaluated_and_not_counted(client: Client) -> None:
    answer = post(client, admission_review({**DOOMED}, dryRun=True, namespace="default"))
    assert answer.get_json()["response"]["allowed"] is False
    assert not {name for (name, _), value in samples(client).items() if value and name.startswith("podfit_reviews")}

    post(client, admission_review({**DOOMED}, namespace="default"))
    assert {value for (name, _), value in samples(client).items() if name == "podfit_reviews_total"} == {1}


def test_no_user_can_invent_a_metrics_label(client: Client) -> None:
    for number in range(3):
        kind = f"Kind{number}"
        obj = {"apiVersion": "example.com/v1", "kind": kind, "metadata": {"name": "a"}}
        body = admission_review({**obj, "kind": "Pod", "apiVersion": "v1"})
        body["request"] |= {
            "object": obj,
            "kind": {"group": "example.com", "version": "v1", "kind": kind},
            "resource": {"group": "example.com", "version": "v1", "resource": "kinds"},
        }
        assert post(client, body).status_code == 200

    kinds = {dict(labels).get("kind") for name, labels in samples(client) if name == "podfit_reviews_total"}

    assert kinds == {"other"}


def test_a_secret_in_env_is_never_logged(
    client: Client, pod: JSONDict, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod["spec"]["containers"][0]["env"] = [{"name": "HF_TOKEN", "value": "hf_secret"}]

    def broken(*_: Any, **__: Any) -> None:
        raise ValueError("hf_secret")

    with caplog.at_level(logging.DEBUG):
        post(client, admission_review(doomed(pod)))
        monkeypatch.setattr(review, "lint", broken)
        pod["metadata"]["name"] = "never-seen"
        post(client, admission_review(doomed(pod)))

    from podfit.server.log import OneLine

    lines = [OneLine().format(record) for record in caplog.records]
    assert any("failed, allowed" in line and "ValueError at " in line for line in lines)
    assert not any("hf_secret" in line or "\n" in line for line in lines)
