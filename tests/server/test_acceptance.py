"""What the status of Policy objects says, and how often podfit writes it."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.cluster.access import Client, StatusError
from podfit.server.acceptance import PAUSE, Acceptance, conditions
from tests.cluster.script import access

JSONDict = dict[str, Any]
PROBLEM = "policies.podfit.dev/mine: spec.rules.a: 'a' is not a rule"


class Server:
    """An API server's Policy objects, and what is asked of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.status: dict[str, JSONDict] = {}
        self.written: list[str] = []
        self.refuses: StatusError | None = None
        monkeypatch.setattr(Client, "get_unreduced", self._whole)
        monkeypatch.setattr(Client, "patch", self._patch)

    def _whole(self, path: str) -> JSONDict:
        return {"status": self.status.get(path.split("/")[-2], {})}

    def _patch(self, path: str, change: JSONDict) -> None:
        if self.refuses:
            raise self.refuses
        name = path.split("/")[-2]
        self.written.append(name)
        self.status[name] = change["status"]

    def accepted(self, name: str) -> JSONDict:
        found: JSONDict
        (found,) = [one for one in self.status[name]["conditions"] if one["type"] == "Accepted"]
        return found


@pytest.fixture(name="server")
def _server(monkeypatch: pytest.MonkeyPatch) -> Server:
    return Server(monkeypatch)


def acceptance(times: list[float] | None = None) -> Acceptance:
    return Acceptance(access(), lambda: (times or [0.0])[0])


def obj(generation: int) -> JSONDict:
    return {"metadata": {"name": "mine", "generation": generation}, "spec": {"order": generation}}


def test_it_is_written_once_and_again_when_something_changes(server: Server) -> None:
    ours = acceptance()

    for _ in range(3):
        ours.tell({"mine": obj(1)}, {})
    assert server.written == ["mine"]
    assert server.accepted("mine") | {"lastTransitionTime": ""} == {
        "type": "Accepted",
        "status": "True",
        "reason": "Accepted",
        "message": "in use",
        "observedGeneration": 1,
        "lastTransitionTime": "",
    }

    ready = {**server.accepted("mine"), "type": "Ready"}
    assert server.status["mine"]["conditions"] == [server.accepted("mine"), ready], "GitOps tools wait for Ready"

    ours.tell({"mine": obj(2)}, {"mine": (PROBLEM,)})
    assert server.accepted("mine")["status"] == "False"
    assert server.status["mine"]["accepted"] == '{"order": 1}', "what holds until it is mended"
    assert server.accepted("mine")["message"] == "not taken over: spec.rules.a: 'a' is not a rule"
    assert server.accepted("mine")["observedGeneration"] == 2


def test_another_replica_writes_nothing_that_stands_there(server: Server) -> None:
    acceptance().tell({"mine": obj(1)}, {})
    acceptance().tell({"mine": obj(1)}, {})

    assert server.written == ["mine"]


def test_other_conditions_stay_and_the_time_is_that_of_the_change(server: Server) -> None:
    other = {"type": "Reviewed", "status": "True"}
    before, _ = conditions("mine", 1, (), "2026-11-01T00:00:00Z")
    server.status["mine"] = {"conditions": [other, before], "accepted": "{}"}

    acceptance().tell({"mine": obj(2)}, {})

    assert server.status["mine"]["conditions"][0] == other
    assert server.accepted("mine")["lastTransitionTime"] == "2026-11-01T00:00:00Z"
    assert server.accepted("mine")["observedGeneration"] == 2


def test_a_refusal_is_logged_and_tried_again_later(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    times = [0.0]
    ours = acceptance(times)
    server.refuses = StatusError(403, "forbidden")

    ours.tell({"mine": obj(1)}, {})
    ours.tell({"mine": obj(1)}, {})
    assert len(caplog.records) == 1
    server.refuses, times[0] = None, PAUSE
    ours.tell({"mine": obj(1)}, {})

    assert server.written == ["mine"]


def test_an_object_that_is_gone_again_is_no_trouble(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    server.refuses = StatusError(404, "not found")

    acceptance().tell({"mine": obj(1)}, {})

    assert not caplog.records
