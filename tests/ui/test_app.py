"""The HTTP edge of the page: who may ask, what a browser gets, what is too large."""

from __future__ import annotations

from pathlib import Path

import pytest
from flask.testing import FlaskClient

import podfit.ui
from podfit.ui.app import LARGEST, create_app
from tests.ui.desks import desk

BASE = "http://127.0.0.1:4321"
OWN = {"Origin": BASE}
FOLDER = Path(podfit.ui.__file__).parent


@pytest.fixture(name="client")
def _client() -> FlaskClient:
    return create_app("token", desk()).test_client()


def test_the_page(client: FlaskClient) -> None:
    page = client.get("/token/", base_url=BASE)

    assert page.status_code == 200
    assert "podfit" in page.text
    assert page.headers["Content-Security-Policy"].startswith("default-src 'self';")
    assert "unsafe" not in page.headers["Content-Security-Policy"]
    assert page.headers["Cache-Control"] == "no-store"
    assert page.headers["Referrer-Policy"] == "no-referrer"
    assert "Access-Control-Allow-Origin" not in page.headers


@pytest.mark.parametrize("path", ["/", "/other/", "/other/models", "/other/marks", "/token2/", "/static/page.js"])
def test_nothing_without_the_token(client: FlaskClient, path: str) -> None:
    assert client.get(path, base_url=BASE).status_code == 404


@pytest.mark.parametrize("host", ["evil.example:4321", "127.0.0.1.nip.io:4321", "127.0.0.1:1", "127.0.0.1"])
def test_another_host_is_rebinding(client: FlaskClient, host: str) -> None:
    found = client.get("/token/", base_url=BASE, headers={"Host": host})

    assert found.status_code == 421
    assert "not this server's" in found.get_json()["error"]


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1:4321", "http://127.0.0.1:1"])
def test_another_origin_may_not_ask(client: FlaskClient, origin: str) -> None:
    for found in (
        client.get("/token/models", base_url=BASE, headers={"Origin": origin}),
        client.post("/token/plan", base_url=BASE, headers={"Origin": origin}, json={"model": "Qwen/Qwen3-8B"}),
    ):
        assert found.status_code == 403


def test_a_question_without_an_origin_is_not_the_pages(client: FlaskClient) -> None:
    assert client.post("/token/plan", base_url=BASE, json={"model": "Qwen/Qwen3-8B"}).status_code == 403


def test_a_question(client: FlaskClient) -> None:
    asked = {"model": "Qwen/Qwen3-8B", "gpu": "l40s", "release": "0.33.0"}
    found = client.post("/token/plan", base_url=BASE, headers=OWN, json=asked)

    assert found.status_code == 200
    assert found.get_json()["state"] == "fits"


def test_the_ways_are_an_answer_of_their_own(client: FlaskClient) -> None:
    controls = {"model": "Qwen/Qwen3-8B", "gpu": "l40s", "release": "0.33.0", "users": "9", "max_model_len": "8192"}
    ways = client.post("/token/ways", base_url=BASE, headers=OWN, json=controls).get_json()

    assert ways["title"] == "Ways to hold 9 users of 8,192 tokens"
    assert "NVIDIA-L40S" in [row["controls"]["gpu"] for row in ways["rows"]]


def test_a_field_that_can_not_be_used_is_named(client: FlaskClient) -> None:
    found = client.post("/token/plan", base_url=BASE, headers=OWN, json={"model": "Qwen/Qwen3-8B", "gpu": "l40x"})

    assert found.status_code == 422
    assert found.get_json()["field"] == "gpu"
    assert "l40x" in found.get_json()["error"]


@pytest.mark.parametrize(("body", "code"), [("[]", 400), ("{", 400), ('{"model": 3}', 422), ("{}", 422)])
def test_what_is_not_a_question(client: FlaskClient, body: str, code: int) -> None:
    found = client.post("/token/plan", base_url=BASE, headers=OWN, data=body, content_type="application/json")

    assert found.status_code == code
    assert found.get_json()["error"]


def test_a_form_of_another_page_is_no_question(client: FlaskClient) -> None:
    found = client.post("/token/plan", base_url=BASE, headers=OWN, data="{}", content_type="text/plain")

    assert found.status_code == 415
    assert found.get_json()["error"] == "not JSON (Content-Type 'text/plain', expected 'application/json')"


def test_a_wrong_method_names_the_right_one(client: FlaskClient) -> None:
    found = client.get("/token/plan", base_url=BASE)

    assert found.status_code == 405
    assert found.get_json()["error"] == "GET is not allowed at this path (expected POST)"


@pytest.mark.parametrize(
    ("path", "asked", "error"),
    [
        ("plan", {"model": "Qwen/Qwen3-8B", "max_model_length": "8192"}, "Did you mean 'max_model_len'?"),
        ("check", {"txt": ""}, "unknown field 'txt'. Did you mean 'text'?"),
        ("effect", {"everything": True}, "unknown field 'everything'. Expected policy, scan, shipped"),
    ],
)
def test_an_unknown_field_is_named(client: FlaskClient, path: str, asked: dict[str, object], error: str) -> None:
    found = client.post(f"/token/{path}", base_url=BASE, headers=OWN, json=asked)

    assert found.status_code == 422
    assert error in found.get_json()["error"]


def test_a_body_is_bounded(client: FlaskClient) -> None:
    body = b'{"model": "' + b"x" * LARGEST + b'"}'
    found = client.post("/token/plan", base_url=BASE, headers=OWN, data=body, content_type="application/json")

    assert found.status_code == 413
    assert "8 MiB" in found.get_json()["error"]


def test_the_catalog(client: FlaskClient) -> None:
    models = client.get("/token/models", base_url=BASE).get_json()

    assert "meta-llama/Llama-3.3-70B-Instruct" in models["originals"]
    assert {"unsloth/Llama-3.3-70B-Instruct", "nvidia/Llama-3.3-70B-Instruct-FP8"} <= set(models["copies"])
    assert "NousResearch/Hermes-4-14B" in models["originals"]  # its own model, although it mirrors others


def test_the_marks_of_no_files(client: FlaskClient) -> None:
    marks = client.get("/token/marks", base_url=BASE).get_json()

    assert marks["files"] == []
    assert marks["tally"].startswith("0 files, 0 vLLM containers")


@pytest.mark.parametrize("path", sorted(FOLDER.glob("static/*")), ids=lambda path: path.name)
def test_each_file_is_served_with_the_policy(client: FlaskClient, path: Path) -> None:
    with client.get(f"/token/static/{path.name}", base_url=BASE) as found:
        assert found.data == path.read_bytes()
        assert "default-src 'self'" in found.headers["Content-Security-Policy"]


@pytest.mark.parametrize("path", sorted([*FOLDER.glob("static/*"), *FOLDER.glob("templates/*")]), ids=lambda p: p.name)
def test_no_file_names_another_host_or_parses_text_as_html(path: Path) -> None:
    text = path.read_text().replace("http://www.w3.org/2000/svg", "")

    assert "://" not in text
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "style=", "onclick="):
        assert word not in text
