"""A watch: lists, follows, comes back, and says what it does not know."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.cluster import decoding
from podfit.cluster.access import StatusError
from podfit.cluster.watch import FIRST_PAUSE, FORGET, LONGEST_PAUSE, KindWatch, WatchState
from tests.cluster.script import (
    AWAY,
    CLAIM_TEMPLATES,
    FORBIDDEN,
    GONE,
    NODES,
    Clock,
    Pauses,
    Scripted,
    bookmark,
    event,
    follow,
    node,
    page,
)


def names(state: WatchState) -> set[str]:
    return {name for _, name in state.objects or {}}


def test_a_list_is_read_page_by_page_and_published_whole() -> None:
    states, client, _ = follow(page(node("a"), more="token"), page(node("b"), version="12"), [])

    assert names(states[0]) == {"a", "b"}
    (_, first), (_, second), (_, watch) = client.asked
    assert (first["limit"], second["limit"], second["continue"]) == ("500", "500", "token")
    assert (watch["resourceVersion"], watch["allowWatchBookmarks"]) == ("12", "true")


def test_events_add_change_and_remove() -> None:
    events = [
        event("ADDED", node("b", version="11")),
        event("MODIFIED", node("a", "Tesla-T4", version="12")),
        event("DELETED", node("b", version="13")),
    ]
    states, _, _ = follow(page(node("a")), events)

    assert [names(state) for state in states[2:5]] == [{"a", "b"}, {"a", "b"}, {"a"}]
    assert (states[-1].objects or {})["", "a"]["labels"]["nvidia.com/gpu.product"] == "Tesla-T4"


def test_what_nobody_reads_replaces_nothing() -> None:
    heartbeat = node("a", version="11")
    heartbeat["status"]["conditions"] = [{"type": "Ready", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}]
    states, _, _ = follow(page(node("a")), [event("MODIFIED", heartbeat), bookmark("12")])

    assert len({id(state.objects) for state in states}) == 1


def test_after_the_end_of_a_watch_it_goes_on_where_it_was() -> None:
    _, client, pauses = follow(page(node("a"), version="10"), [bookmark("25"), 290.0], [290.0], [])

    assert [query.get("resourceVersion") for _, query in client.asked] == [None, "10", "25", "25"]
    assert len(pauses.taken) == 2  # none before the last watch, which ends at once


@pytest.mark.parametrize(
    "round_of_it",
    [([],), ([1.0],), ([AWAY],), ([GONE], page()), (StatusError(410, "Expired"), page()), (FORBIDDEN, page()),
     (StatusError(429, "slow down"), page()), ([event("ERROR", {})], page())],
    ids=["ends in order", "after a second", "breaks", "410 event", "410", "403", "429", "an error without a code"],
)  # fmt: skip
def test_what_ends_a_watch_each_time_at_once_is_asked_less_and_less_often(round_of_it: tuple[Any, ...]) -> None:
    _, _, pauses = follow(page(), *round_of_it * 12)

    assert len(pauses.taken) >= 12
    assert pauses.taken[11] >= 0.75 * LONGEST_PAUSE
    assert sum(pauses.taken[:12]) > 4 * LONGEST_PAUSE


def test_a_connection_that_breaks_is_taken_up_again_without_a_new_list() -> None:
    states, client, pauses = follow(
        page(node("a"), version="10"), [event("ADDED", node("b", version="11")), AWAY], AWAY, [bookmark("12")]
    )

    assert [query.get("resourceVersion") for _, query in client.asked] == [None, "10", "11", "11"]
    assert "refused" in next(state.problem for state in states if state.problem)
    assert states[-1].problem == ""
    assert names(states[-1]) == {"a", "b"}
    assert len(pauses.taken) == 4


@pytest.mark.parametrize("gone", [[300.0, GONE], StatusError(410, "Expired")])
def test_a_place_that_the_server_has_forgotten_means_another_list(gone: object) -> None:
    states, client, pauses = follow(page(node("a")), gone, page(node("b"), version="90"), [])

    assert names(states[-1]) == {"b"}
    assert client.asked[3][1]["resourceVersion"] == "90"
    assert pauses.taken[0] <= 1.25 * FIRST_PAUSE


def test_a_refusal_is_told_and_tried_again() -> None:
    states, _, pauses = follow(FORBIDDEN, page(node("a")), [])

    assert states[0].objects is None
    assert "cannot list" in states[0].problem
    assert names(states[-1]) == {"a"}
    assert pauses.taken[0] <= 1.25 * FIRST_PAUSE


def test_a_server_that_has_just_started_and_refuses_everybody_takes_nothing_away() -> None:
    states, _, _ = follow(page(node("a")), FORBIDDEN, FORBIDDEN, page(node("a")), [])

    assert all(names(state) == {"a"} for state in states)


def test_rights_that_are_taken_away_take_the_objects_with_them() -> None:
    clock = Clock()
    stop, states = Pauses(script := [page(node("a")), FORBIDDEN, FORBIDDEN]), list[WatchState]()
    watch = KindWatch(NODES, Scripted(stop, script, clock), states.append, clock, stop)
    stop.pass_time = lambda: setattr(clock, "now", clock.now + FORGET + 1)
    watch.run()

    assert states[0].objects is not None
    assert states[-1].objects is None
    assert "forbidden" in states[-1].problem


def test_pauses_grow_while_the_server_is_away_and_start_anew_when_it_is_back() -> None:
    _, _, pauses = follow(*[AWAY] * 9, page(node("a")), [LONGEST_PAUSE + 1], StatusError(500, "etcd"), AWAY)
    grown, again = pauses.taken[:9], pauses.taken[9]

    assert all(
        0.75 * min(FIRST_PAUSE * 2**n, LONGEST_PAUSE) <= one <= 1.25 * LONGEST_PAUSE for n, one in enumerate(grown)
    )
    assert grown[8] > grown[0] * 10
    assert again <= 1.25 * FIRST_PAUSE


def test_a_server_that_asks_for_patience_gets_it() -> None:
    _, _, pauses = follow(StatusError(429, "too many requests", 7.0), page())

    assert pauses.taken[0] >= 0.75 * 7


def test_the_first_version_of_an_api_that_the_server_has_is_taken() -> None:
    missing = StatusError(404, "the server could not find the requested resource")
    states, client, _ = follow(missing, missing, page(), [], kind=CLAIM_TEMPLATES)

    assert [path.split("/")[3] for path, _ in client.asked[:3]] == ["v1", "v1beta2", "v1beta1"]
    assert states[-1].objects == {}


def test_a_kind_that_is_not_served_is_unknown_not_empty() -> None:
    missing = StatusError(404, "the server could not find the requested resource")
    states, _, _ = follow(missing, missing, missing, page(), kind=CLAIM_TEMPLATES)

    unknown, known = states[0], states[-1]
    assert (unknown.objects, unknown.served) == (None, False)
    assert "does not have it" in unknown.problem
    assert (known.objects, known.served) == ({}, True)


def test_a_kind_that_is_not_served_yet_is_asked_for_again_within_seconds() -> None:
    missing = StatusError(404, "the server could not find the requested resource")
    _, _, pauses = follow(*[missing] * 30)

    assert pauses.taken[0] <= 1.25 * FIRST_PAUSE
    assert max(pauses.taken) <= 1.25 * LONGEST_PAUSE


def template(name: str, spec: str = "{}") -> str:
    """The JSON of a claim template with this `spec`."""
    return f'{{"metadata": {{"namespace": "chat", "name": "{name}", "resourceVersion": "12"}}, "spec": {spec}}}'


def raw_page(*objects: str, more: str = "") -> str:
    """The JSON of a page."""
    return f'{{"metadata": {{"resourceVersion": "10", "continue": "{more}"}}, "items": [{", ".join(objects)}]}}'


TOO_LARGE = template("large", f'"{"<" * decoding.MAX_BYTES}"')
TOO_DEEP = template("large", "[" * 100_000 + "]" * 100_000)


@pytest.mark.parametrize("large", [TOO_LARGE, TOO_DEEP], ids=["large", "deep"])
def test_a_page_that_is_too_large_is_asked_for_again_with_half_as_many(
    large: str, caplog: pytest.LogCaptureFixture
) -> None:
    unread = [raw_page(template("a"), large, more="next")] * 8
    states, client, _ = follow(*unread, raw_page(large, more="2"), raw_page(template("b")), [], kind=CLAIM_TEMPLATES)

    asked = [(query.get("limit"), query.get("continue")) for _, query in client.asked[:10]]
    assert asked == [(f"{500 >> halves}", None) for halves in range(9)] + [("1", "2")]
    assert [(names(state), dict(state.unknown)) for state in states] == [({"b"}, {"chat": 1})] * len(states)
    assert [record.getMessage() for record in caplog.records] == [
        "resourceclaimtemplates chat/large is too large to be known"
    ]


def test_after_a_small_page_the_next_ones_grow() -> None:
    _, client, _ = follow(raw_page(TOO_LARGE), raw_page(more="1"), raw_page(more="2"), raw_page(), [])

    assert [query.get("limit") for _, query in client.asked[:4]] == ["500", "250", "500", "500"]


@pytest.mark.parametrize("large", [TOO_LARGE, TOO_DEEP], ids=["large", "deep"])
def test_an_object_that_becomes_too_large_is_unknown_until_it_shrinks(large: str) -> None:
    def changed(obj: str) -> str:
        return f'{{"type": "MODIFIED", "object": {obj}}}'

    states, client, _ = follow(
        raw_page(template("large"), template("a")),
        [changed(large), changed(template("large", '{"spec": {}}')), changed(large)],
        [event("DELETED", {"metadata": {"namespace": "chat", "name": "large"}})],
        kind=CLAIM_TEMPLATES,
    )  # fmt: skip

    seen = [(names(state), dict(state.unknown)) for state in states if not state.problem]
    known: Any = ({"a", "large"}, {})
    unknown: Any = ({"a"}, {"chat": 1})
    assert [one for index, one in enumerate(seen) if index == 0 or one != seen[index - 1]] == [
        known, unknown, known, unknown, ({"a"}, {}),
    ]  # fmt: skip
    assert client.asked[2][1]["resourceVersion"] == "12", "the watch goes on after it"


def test_what_is_no_json_is_told_and_tried_again() -> None:
    states, _, _ = follow("<html>", raw_page(), ["<html>"], raw_page())

    assert [bool(state.problem) for state in states if state.objects is None] == [True]
    assert "not the JSON" in next(state.problem for state in states if state.objects is not None and state.problem)


def test_an_object_that_makes_us_raise_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("podfit.cluster.store.key", lambda obj: obj["metadata"]["name"].upper())
    states, _, _ = follow(page({"metadata": {"name": None}}), page())

    assert "internal error" in next(state.problem for state in states if state.problem)


@pytest.mark.parametrize(
    "odd",
    [{}, {"metadata": None}, {"metadata": {"labels": [1]}, "spec": {"taints": "x"}, "status": {"allocatable": 3}},
     {"metadata": {"name": "n", "labels": {"gpu": None}}, "spec": None, "status": {"capacity": {"a/b": "many"}}}],
)  # fmt: skip
def test_odd_objects_are_kept_as_far_as_they_go(odd: dict[str, object]) -> None:
    states, _, _ = follow(page(odd, node("a")), [])

    assert "a" in names(states[-1])


def test_equal_objects_have_one_digest_in_whatever_order_they_came() -> None:
    one, _, _ = follow(page(node("a"), node("b")), [])
    other, _, _ = follow(page(node("b")), [event("ADDED", node("a"))])
    third, _, _ = follow(page(node("b")), [event("ADDED", node("a")), event("DELETED", node("a"))])

    assert one[-1].digest == other[-1].digest != third[-1].digest
    assert third[-1].digest == third[0].digest
