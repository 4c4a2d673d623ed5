"""Lists in pages: what comes, in what order, and what happens if the API server forgets, is busy or forbids it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from podfit.cluster.access import StatusError, UnreachableError
from podfit.cluster.kubeconfig import AccessError
from podfit.cluster.listing import MAX_TRIES, group_resource, pages, served
from tests.evaluation.scan.cluster import Api, workload

PATH = "/apis/apps/v1/deployments"
NAMES = [f"llm-{number}" for number in range(5)]


def names(api: Api, path: str = PATH) -> list[str]:
    """What a list yields; the pauses take no time."""
    return [one["metadata"]["name"] for page in pages(api, path, wait=lambda _: None) for one in page]


@pytest.fixture(name="api")
def _api() -> Api:
    return Api(*(workload("Deployment", name) for name in NAMES))


def test_a_list_comes_page_by_page_and_whole(api: Api) -> None:
    assert names(api) == NAMES
    assert [query.get("continue") for _, query in api.asked] == [None, "2", "4"]
    assert all(query["limit"] == "250" for _, query in api.asked)


def test_a_forgotten_place_goes_on_with_the_token_of_the_refusal(api: Api) -> None:
    gone = [StatusError(410, "The provided continue parameter is too old", None, "4")]

    def fault(_: str, query: Mapping[str, str]) -> None:
        if query.get("continue") == "2" and gone:
            raise gone.pop()

    api.fault = fault

    assert names(api) == [*NAMES[:2], *NAMES[4:]]


def test_a_forgotten_place_without_a_token_starts_over_and_tells_nothing_twice(api: Api) -> None:
    gone = [StatusError(410, "too old")]

    def fault(_: str, query: Mapping[str, str]) -> None:
        if query.get("continue") == "2" and gone:
            raise gone.pop()

    api.fault = fault

    assert names(api) == NAMES
    assert [query.get("continue") for _, query in api.asked] == [None, "2", None, "2", "4"]


def test_a_list_that_is_forgotten_again_and_again_ends_with_the_refusal(api: Api) -> None:
    def fault(_: str, query: Mapping[str, str]) -> None:
        if query.get("continue") == "2":
            raise StatusError(410, "too old")

    api.fault = fault

    with pytest.raises(StatusError, match="too old"):
        names(api)


@pytest.mark.parametrize(
    "error", [StatusError(429, "busy", 7.0), StatusError(503, "starting"), UnreachableError("away")]
)
def test_a_busy_server_is_asked_again(api: Api, error: Exception) -> None:
    left = [error] * (MAX_TRIES - 1)
    paused: list[float] = []

    def fault(*_: object) -> None:
        if left:
            raise left.pop()

    api.fault = fault
    found = [one["metadata"]["name"] for page in pages(api, PATH, wait=paused.append) for one in page]

    assert found == NAMES
    assert paused == ([7.0] * 3 if isinstance(error, StatusError) and error.code == 429 else [0.5, 1.0, 2.0])


def test_a_server_that_stays_away_is_told(api: Api) -> None:
    def fault(*_: object) -> None:
        raise UnreachableError("away")

    api.fault = fault

    with pytest.raises(UnreachableError):
        names(api)


def test_a_refusal_is_not_asked_again(api: Api) -> None:
    api.refuse = {"deployments"}

    with pytest.raises(StatusError, match="403"):
        names(api)
    assert len(api.asked) == 1


def test_served_names_what_can_be_listed_in_the_version_that_has_it() -> None:
    api = Api(
        kinds={"serving.kserve.io/v1beta1": ("InferenceService",), "serving.kserve.io/v1alpha1": ("ServingRuntime",)}
    )

    found, silent = served(api, {"", "apps", "serving.kserve.io", "ray.io"})

    assert found["apps", "Deployment"].path("llama", "chat") == "/apis/apps/v1/namespaces/chat/deployments/llama"
    assert found["", "Pod"].path() == "/api/v1/pods"
    assert found["", "Node"].path(namespace="chat") == "/api/v1/nodes"
    assert found["serving.kserve.io", "InferenceService"].group_version == "serving.kserve.io/v1beta1"
    assert found["serving.kserve.io", "ServingRuntime"].group_version == "serving.kserve.io/v1alpha1"
    assert group_resource(found["apps", "Deployment"]) == "deployments.apps"
    assert not silent


def test_credentials_that_can_not_be_renewed_end_it() -> None:
    """A sign-in program that hangs would be waited for once per version."""
    api, asked = Api(), list[str]()

    def fault(path: str, _: Mapping[str, str]) -> None:
        asked.append(path)
        if path != "/apis":
            raise AccessError("no credentials")

    api.fault = fault
    with pytest.raises(AccessError, match="no credentials"):
        served(api, {"apps", "batch"})
    assert len([path for path in asked if path != "/apis"]) == 1


def test_a_group_whose_server_is_down_stops_no_other() -> None:
    api = Api(kinds={"metrics.example.com/v1": ("Thing",)})

    def fault(path: str, _: Mapping[str, str]) -> None:
        if "metrics" in path:
            raise StatusError(503, "service unavailable")

    api.fault = fault
    found, silent = served(api, {"apps", "metrics.example.com"})

    assert ("apps", "Deployment") in found
    assert {one: str(why) for one, why in silent.items()} == {"metrics.example.com/v1": "503: service unavailable"}
