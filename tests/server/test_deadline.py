"""How long the API server waits, and graded_findings that take too long."""

from __future__ import annotations

import subprocess
import sys
import time
from threading import Event, Thread
from types import SimpleNamespace

import pytest

from podfit.server import deadline
from podfit.server.deadline import DEFAULT_TIMEOUT, LONGEST_TIMEOUT, REVIEW_SHARE, DeadlineWatch, OutOfTime


@pytest.mark.parametrize(
    ("query", "seconds"),
    [
        ("timeout=10s", 10),
        ("timeout=1m0s", 30),
        ("timeout=500ms", 0.5),
        ("dryRun=All&timeout=1.5s", 1.5),
        ("timeout=30s&timeout=1s", 30),
        ("", DEFAULT_TIMEOUT),
        ("timeout=", DEFAULT_TIMEOUT),
        ("timeout=0s", DEFAULT_TIMEOUT),
        ("timeout=-3s", DEFAULT_TIMEOUT),
        ("timeout=3", DEFAULT_TIMEOUT),
        ("timeout=3s;drop", DEFAULT_TIMEOUT),
        ("timeout=1h", LONGEST_TIMEOUT),
    ],
)
def test_a_share_of_the_api_servers_timeout_may_pass(query: str, seconds: float) -> None:
    assert deadline.patience(query) == pytest.approx(REVIEW_SHARE * seconds)


def spin() -> None:
    """Loops until it is ended; by itself after half a minute, so that a test of what is broken fails."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        pass


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(name="clock")
def _clock() -> Clock:
    return Clock()


@pytest.fixture(name="watch")
def _watch(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> DeadlineWatch:
    """One that only looks when a test says so."""
    monkeypatch.setattr(DeadlineWatch, "_start", lambda self: None)
    return DeadlineWatch(clock)


def test_a_call_in_time_is_left_alone(watch: DeadlineWatch, clock: Clock) -> None:
    def call() -> int:
        clock.now = 1.9
        watch.look()
        return 42

    assert watch.within(2.0, call) == 42
    clock.now = 9.0
    watch.look()  # it is over: nothing is raised


def test_a_call_that_loops_is_ended_and_its_thread_goes_on(watch: DeadlineWatch, clock: Clock) -> None:
    looping, said = Event(), []

    def forever() -> None:
        looping.set()
        spin()

    def work() -> None:
        try:
            watch.within(2.0, forever)
        except OutOfTime:
            said.append("ended")
        said.append(watch.within(2.0, lambda: "next"))

    thread = Thread(target=work)
    thread.start()
    assert looping.wait(30)
    clock.now = 2.0
    watch.look()
    thread.join(30)

    assert said == ["ended", "next"]


def test_nobody_who_guards_a_rule_catches_it(watch: DeadlineWatch, clock: Clock) -> None:
    def guarded() -> str:
        try:
            clock.now += 3
            watch.look()
            return "".join(str(number) for number in range(1000))
        except Exception:
            return "caught"

    with pytest.raises(OutOfTime):
        watch.within(2.0, guarded)


def test_a_profiler_works_after_an_evaluation_that_was_ended() -> None:
    """CPython 3.11 loops forever if it believes that an exception is still to be raised: a process of its own."""
    program = (
        "import sys, time\n"
        "from podfit.server.deadline import DeadlineWatch, OutOfTime\n"
        "def spin():\n"
        "    end = time.monotonic() + 30\n"
        "    while time.monotonic() < end: pass\n"
        "try: DeadlineWatch().within(0.01, spin)\n"
        "except OutOfTime: print('ended')\n"
        "sys.setprofile(lambda *event: None)\n"
        "(lambda: None)()\n"
        "sys.setprofile(None)\n"
        "print('profiled')\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)

    assert ran.stdout.split() == ["ended", "profiled"]


def test_it_looks_by_itself() -> None:
    with pytest.raises(OutOfTime):
        DeadlineWatch().within(0.01, spin)


def test_a_call_that_burns_a_processor_is_ended_before_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadline, "JUDGING", 0.01)
    with pytest.raises(OutOfTime):
        DeadlineWatch().within(3600, spin)


def test_a_look_that_fails_is_told_and_not_the_last(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failed: list[int] = []
    look = DeadlineWatch.look

    def fails_first(self: DeadlineWatch) -> None:
        if not failed:
            raise OSError("no such thread")
        look(self)

    monkeypatch.setattr(DeadlineWatch, "look", fails_first)
    with pytest.raises(OutOfTime):
        DeadlineWatch(failed=lambda: failed.append(1)).within(0.01, spin)

    assert failed == [1]
    assert [one.message for one in caplog.records] == ["deadlines can't be watched now"]


def test_a_thread_that_could_not_start_is_started_with_the_next_call(monkeypatch: pytest.MonkeyPatch) -> None:
    failed: list[int] = []
    watch = DeadlineWatch(failed=lambda: failed.append(1))

    def none(_: Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(Thread, "start", none)
        assert watch.within(1.0, lambda: 42) == 42
    assert failed == [1]

    with pytest.raises(OutOfTime):
        watch.within(0.01, spin)


def test_a_thread_that_is_gone_is_replaced() -> None:
    watch = DeadlineWatch()
    watch._thread = Thread(target=lambda: None)  # as after a fork

    with pytest.raises(OutOfTime):
        watch.within(0.01, spin)


def test_without_the_clock_of_another_thread_the_deadline_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """macOS has no pthread_getcpuclockid."""
    told = SimpleNamespace(monotonic=time.monotonic, sleep=time.sleep, thread_time=time.thread_time)
    monkeypatch.setattr(deadline, "time", told)

    with pytest.raises(OutOfTime):
        DeadlineWatch().within(0.01, spin)
