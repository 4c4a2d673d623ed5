"""Readiness: what must be in place before the first review, and what is only reported afterwards."""

from __future__ import annotations

import socket
from threading import Event

import pytest

from podfit.server import readiness
from podfit.server.readiness import Readiness, SelfCall


class _Once(Event):
    """Says that it is time to end when it is first waited for."""

    def wait(self, timeout: float | None = None) -> bool:
        """Waits for nothing."""
        self.set()
        return True


def test_it_is_ready_when_all_checks_pass_together() -> None:
    first, second = ["no certificate"], ["no policy"]
    ready = Readiness(lambda: first[0] if first else None, lambda: second[0] if second else None)

    assert ready.why_not() == "no certificate"
    first.clear()
    assert (ready.why_not(), ready.problems()) == ("no policy", ["no policy"])
    second.clear()
    assert (ready.why_not(), ready.problems()) == (None, [])


def test_what_is_lost_later_is_told_and_takes_no_replica_out() -> None:
    lost: list[str] = []
    ready = Readiness(lambda: lost[0] if lost else None)
    assert ready.why_not() is None

    lost.append("the API server is away")

    assert (ready.why_not(), ready.problems()) == (None, ["the API server is away"])


def test_what_is_only_told_keeps_no_server_from_being_ready() -> None:
    ready = Readiness()
    ready.tell(lambda: "the Secret can't be written")

    assert (ready.problems(), ready.why_not()) == (["the Secret can't be written"], None)


def test_draining_is_for_good() -> None:
    ready = Readiness()
    ready.drain()

    assert ready.why_not() == "the server is stopping"
    assert ready.why_not() == "the server is stopping"


def test_a_call_that_fails_says_why_and_is_made_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    call = SelfCall()
    assert call() == "no TLS call to this server itself was answered yet"

    call.run("127.0.0.1", port, _Once())

    assert call() == "a TLS call to this server itself failed: ConnectionRefusedError"


@pytest.mark.parametrize(
    ("host", "answers"),
    [("::", "127.0.0.1"), ("::", "::1"), ("0.0.0.0", "127.0.0.1"), ("10.0.0.7", "10.0.0.7")],  # noqa: S104
)
def test_a_wildcard_is_called_at_either_loopback(host: str, answers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """IPv6 may be switched off, and a socket bound to it all the same."""

    def called(at: str, port: int) -> str | None:
        if at != answers:
            raise OSError(99, "cannot assign requested address")
        return None

    monkeypatch.setattr(readiness, "_call", called)
    call = SelfCall()
    call.run(host, 8443, _Once())

    assert call() is None


def test_whatever_goes_wrong_it_is_called_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[str] = []

    def called(at: str, port: int) -> str | None:
        tries.append(at)
        if len(tries) == 1:
            raise ValueError("odd")
        return None

    monkeypatch.setattr(readiness, "_call", called)
    monkeypatch.setattr(readiness, "PAUSE", 0)
    call = SelfCall()
    call.run("127.0.0.1", 8443, Event())

    assert (call(), len(tries)) == (None, 2)
