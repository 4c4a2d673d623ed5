"""Small reviews wait for nothing: not for large ones, not for scripts, not for a graded that hangs."""

from __future__ import annotations

import asyncio
import gc
import json
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from threading import Event, current_thread, main_thread
from traceback import walk_tb
from types import SimpleNamespace
from typing import Any

import pytest

from podfit.evaluation import review
from podfit.evaluation.policy import builtin
from podfit.evaluation.review import BadReview
from podfit.server import deadline, lanes, memory, reviews
from podfit.server.accesslog import AccessLog
from podfit.server.certs.serving import Scope
from podfit.server.lanes import Lanes
from podfit.server.metrics import Metrics
from podfit.server.reviews import LARGE, Reviews
from podfit.vllm.facts import Facts
from tests.conftest import GOOD_POD
from tests.reviews import UID, admission_review, doomed

DEADLINE = 30.0
"""Seconds after which a test fails instead of waiting for ever."""


def pod(**container: Any) -> dict[str, Any]:
    """Ours, with something else in its container."""
    copy: dict[str, Any] = json.loads(json.dumps(GOOD_POD))
    copy["spec"]["containers"][0] |= container
    return copy


SCRIPT = pod(command=["sh", "-c", "exec vllm serve Qwen/Qwen3-8B"], args=[])


def padded(size: int) -> bytes:
    """A review of so many bytes."""
    body = json.dumps(admission_review(GOOD_POD)).encode()
    return body + b" " * (size - len(body))


@pytest.fixture(name="threads")
def _threads(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the event loop's thread has decided, for each decision."""
    seen: list[bool] = []
    decide = review.decide

    def seeing(*asked: Any) -> review.Decision:
        seen.append(current_thread() is main_thread())
        return decide(*asked)

    monkeypatch.setattr(review, "decide", seeing)
    return seen


@pytest.fixture(name="answers")
def _answers() -> Reviews:
    return Reviews(lambda: (builtin(), Facts()), Metrics("", "", ""), AccessLog(None))


@pytest.fixture(name="app")
def _app(answers: Reviews, monkeypatch: pytest.MonkeyPatch) -> Lanes:
    monkeypatch.setattr(reviews, "HERE", deadline.JUDGING)  # the first graded imports modules

    async def rest(*_: object) -> None:
        raise AssertionError

    return Lanes(answers, rest, 1)


Post = Callable[[bytes], Awaitable[tuple[int, Any]]]


def run(app: Lanes, test: Callable[[Post], Awaitable[None]]) -> None:
    """Calls it in an event loop, with what posts a body."""

    async def post(body: bytes, arrives: int | None = None) -> tuple[int, Any]:
        """`arrives`: so many bytes, and no end."""
        sent: list[Scope] = []
        parts = [body] if arrives is None else [body[:arrives]]

        async def receive() -> Scope:
            if not parts:
                await asyncio.Event().wait()
            return {"type": "http.request", "body": parts.pop(), "more_body": arrives is not None}

        async def send(message: Scope) -> None:
            sent.append(message)

        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        scope = {"type": "http", "path": "/validate", "method": "POST", "query_string": b"", "headers": headers}
        await app(scope, receive, send)
        return sent[0]["status"], json.loads(sent[1]["body"])

    async def limited() -> None:
        await asyncio.wait_for(test(post), DEADLINE)

    asyncio.run(limited())


def small(obj: dict[str, Any] = GOOD_POD) -> bytes:
    """A review of it."""
    return json.dumps(admission_review(obj)).encode()


@pytest.mark.parametrize(
    ("body", "here"),
    [(small(), True), (small(SCRIPT), False), (padded(reviews.ORDINARY + 1), False), (padded(LARGE + 1), False)],
    ids=["ordinary", "script", "not quite small", "large"],
)
def test_what_is_ordinary_is_decided_in_the_event_loop(
    body: bytes, here: bool, app: Lanes, threads: list[bool]
) -> None:
    async def test(post: Post) -> None:
        status, answer = await post(body)
        assert (status, answer["response"]["uid"]) == (200, UID)

    run(app, test)
    assert threads == [here]


def test_a_remembered_script_takes_no_thread(app: Lanes, threads: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(post: Post) -> None:
        first = await post(small(SCRIPT))
        monkeypatch.setattr(Reviews, "answer", lambda *_: 1 / 0)
        assert await post(small(SCRIPT)) == first

    run(app, test)
    assert threads == [False]


def test_small_reviews_are_answered_while_a_large_one_and_a_script_are_judged(
    app: Lanes, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = Event()
    decide = review.decide

    def slow(*asked: Any) -> review.Decision:
        if current_thread() is not main_thread():
            assert go_on.wait(DEADLINE)
        return decide(*asked)

    monkeypatch.setattr(review, "decide", slow)

    async def test(post: Post) -> None:
        waiting = [asyncio.ensure_future(post(body)) for body in (padded(LARGE + 1), small(SCRIPT), padded(LARGE + 2))]
        try:
            for obj in (GOOD_POD, doomed(GOOD_POD), GOOD_POD):
                assert (await post(small(obj)))[0] == 200
            assert not any(one.done() for one in waiting)
        finally:
            go_on.set()
        assert [status for status, _ in await asyncio.gather(*waiting)] == [200] * 3

    run(app, test)


def test_a_judgement_that_hangs_in_the_event_loop_is_made_in_a_thread(
    app: Lanes, monkeypatch: pytest.MonkeyPatch, threads: list[bool]
) -> None:
    monkeypatch.setattr(reviews, "HERE", 0.01)
    decide = review.decide

    def hangs(*asked: Any) -> review.Decision:
        decision = decide(*asked)
        end = time.monotonic() + DEADLINE
        while current_thread() is main_thread() and time.monotonic() < end:
            pass
        return decision

    monkeypatch.setattr(review, "decide", hangs)

    async def test(post: Post) -> None:
        status, answer = await post(small(doomed(GOOD_POD)))
        assert (status, answer["response"]["allowed"]) == (200, False)

    run(app, test)
    assert threads == [True, False]


def test_bodies_that_do_not_come_take_no_room_from_small_reviews(app: Lanes) -> None:
    async def test(post: Any) -> None:
        waiting = [asyncio.ensure_future(post(padded(256 << 10), arrives=1)) for _ in range(200)]
        await asyncio.sleep(0)
        try:
            assert (await post(padded(128 << 10)))[0] == 200
        finally:
            for one in waiting:
                one.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    run(app, test)


@pytest.mark.parametrize(("size", "budget"), [(1 << 20, 64 << 20), (128 << 10, 32 << 20)], ids=["large", "small"])
def test_each_lane_has_a_budget_and_the_usual_review_needs_none(size: int, budget: int, app: Lanes) -> None:
    async def test(post: Any) -> None:
        waiting = [asyncio.ensure_future(post(padded(size), arrives=size - 1)) for _ in range(budget // size)]
        await asyncio.sleep(0)
        try:
            assert await post(padded(size)) == (
                503,
                {"error": f"more than {budget >> 20} MiB of such reviews at once"},
            )
            other = {1 << 20: 128 << 10, 128 << 10: 1 << 20}[size]
            assert (await post(padded(other)))[0] == 200
            assert (await post(padded(lanes.SMALL)))[0] == 200
        finally:
            for one in waiting:
                one.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        assert (await post(padded(size)))[0] == 200

    run(app, test)


def test_in_a_container_the_budgets_are_shares_of_its_memory(app: Lanes, monkeypatch: pytest.MonkeyPatch) -> None:
    shares = memory.divide(320 << 20, 60 << 20)
    monkeypatch.setattr(memory, "shares", lambda: shares)

    async def test(post: Any) -> None:
        waiting = [asyncio.ensure_future(post(padded(8 << 20), arrives=1)) for _ in range(4)]
        await asyncio.sleep(0)
        try:
            assert await post(padded(1 << 20)) == (503, {"error": "more than 32 MiB of such reviews at once"})
            assert (await post(padded(128 << 10)))[0] == 200
        finally:
            for one in waiting:
                one.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    run(app, test)


@pytest.mark.parametrize(("size", "collects"), [(LARGE, True), (LARGE + 1, False)])
@pytest.mark.parametrize("fails", [False, True])
def test_the_garbage_collector_does_not_run_during_a_large_review(
    size: int, collects: bool, fails: bool, answers: Reviews, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    parse = review.parse

    def seeing(body: bytes) -> review.Request:
        seen.append(gc.isenabled())
        return parse(b"{}" if fails else body)

    monkeypatch.setattr(review, "parse", seeing)
    with pytest.raises(review.BadReview) if fails else nullcontext():
        answers.answer("validate", padded(size), "", time.monotonic())

    assert (seen, gc.isenabled()) == ([collects], True)


def test_between_large_reviews_is_a_pause_for_all_others(app: Lanes, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as the review before it took, also if that failed."""
    now, pauses = 100.0, list[float]()

    def pass_time(seconds: float) -> None:
        nonlocal now
        now += seconds

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        pass_time(seconds)

    durations = iter((0.5, 0.25, 9.0, 1.0))

    def answer(*_: object) -> bytes:
        pass_time(next(durations))
        raise BadReview("no review")

    monkeypatch.setattr(lanes, "time", SimpleNamespace(monotonic=lambda: now, sleep=sleep))
    monkeypatch.setattr(Reviews, "answer", answer)

    async def test(post: Post) -> None:
        for _ in range(2):
            assert (await post(padded(LARGE + 1)))[0] == 400
        pass_time(0.125)
        for _ in range(2):
            assert (await post(padded(LARGE + 1)))[0] == 400

    run(app, test)
    assert pauses == [0, 0.5, 0.125, lanes.MAX_PAUSE]


@pytest.mark.parametrize("size", [0, LARGE + 1])
def test_an_error_of_a_body_does_not_keep_what_the_body_contains(size: int, answers: Reviews) -> None:
    """The garbage collector would go through all of a large body in the event loop."""
    body = json.dumps({"kind": "AdmissionReview", "list": [[]]}).encode()
    with pytest.raises(BadReview) as caught:
        answers.answer("validate", body + b" " * (size - len(body)), "", time.monotonic())

    error = caught.value
    assert (error.__cause__, error.__context__) == (None, None)
    frames = [frame.f_locals for frame, _ in walk_tb(error.__traceback__)]
    assert not any(isinstance(value, dict) and "list" in value for variables in frames for value in variables.values())


def test_who_has_gone_gets_no_answer(app: Lanes) -> None:
    async def test(_: Post) -> None:
        async def receive() -> Scope:
            return {"type": "http.disconnect"}

        async def send(message: Scope) -> None:
            raise AssertionError(message)

        headers = [(b"content-type", b"application/json"), (b"content-length", b"5")]
        scope = {"type": "http", "path": "/validate", "method": "POST", "query_string": b"", "headers": headers}
        await app(scope, receive, send)

    run(app, test)
