"""When this server may get reviews: the requirements before the first one, and the end.

The body of /readyz and a metric report a later loss (a certificate's file, the policies' source), but the status never
becomes 503. All replicas would lose it at once, and a webhook without a ready replica is an outage.
"""

from __future__ import annotations

import http.client
import logging
import ssl
from collections.abc import Callable
from threading import Event, Thread

Check = Callable[[], str | None]
"""A check of one requirement: returns why it is not met, in one line, or None if it is met."""

PAUSE = 0.2
"""Seconds between two calls to ourselves."""
WORKER_TIMEOUT = 5.0
"""Seconds that such a call may take."""
_LOOPBACK = {"0.0.0.0": ("127.0.0.1",), "::": ("127.0.0.1", "::1")}  # noqa: S104 - compared with, not bound to
"""Wildcard address of a listener → the addresses to call. IPv6 may be switched off although a socket could be bound to
it, so both are tried."""

log = logging.getLogger(__name__)


class Readiness:
    """Ready once all checks have passed together, until `drain` is called."""

    def __init__(self, *checks: Check) -> None:
        self._checks = checks
        self._added_checks: list[Check] = []
        self._was_ready = False
        self._draining = False

    def tell(self, check: Check) -> None:
        """Adds a check that `problems` reports, but that does not keep the server from being ready."""
        self._added_checks.append(check)

    def drain(self) -> None:
        """No more reviews: the server is about to end. For good."""
        self._draining = True

    def problems(self) -> list[str]:
        """Why each requirement is not met now, a line each, even if the server was ready before."""
        reasons = [check() for check in (*self._checks, *self._added_checks)]
        return [reason for reason in reasons if reason]

    def why_not(self) -> str | None:
        """Why no review may come, by the first check that fails; None if the server is ready. After all checks have
        passed once, they are not made again."""
        if self._draining:
            return "the server is stopping"
        if self._was_ready:
            return None
        for check in self._checks:
            reason = check()
            if reason:
                return reason
        self._was_ready = True
        return None


class SelfCall:
    """A check: this server has answered a call to itself over TLS, as the API server will make it."""

    def __init__(self) -> None:
        self._why: str | None = "no TLS call to this server itself was answered yet"

    def __call__(self) -> str | None:
        """The reason why it is not proven that the server answers; None once it has."""
        return self._why

    def start(self, host: str, port: int) -> None:
        """Calls in the background until an answer came."""
        Thread(target=self.run, args=(host, port, Event()), name="self-call", daemon=True).start()

    def run(self, host: str, port: int, stop: Event) -> None:
        """Calls each address of `host` in turn until an answer came, or `stop` is set. Never raises."""
        while self._why is not None and not stop.is_set():
            for address in _LOOPBACK.get(host, (host,)):
                try:
                    self._why = _call(address, port)
                except Exception as error:
                    self._why = f"a TLS call to this server itself failed: {type(error).__name__}"
                    if not isinstance(error, OSError | http.client.HTTPException):  # a bug in podfit
                        log.exception("the call to this server itself failed")
                if self._why is None:
                    return
            stop.wait(PAUSE)


def _call(host: str, port: int) -> str | None:
    """Calls /healthz of this server. Returns why the answer is not the expected one; None if it is. Raises OSError or
    HTTPException if there is no answer within WORKER_TIMEOUT."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # only this server answers on its own port
    connection = http.client.HTTPSConnection(host, port, timeout=WORKER_TIMEOUT, context=context)
    try:
        connection.request("GET", "/healthz")
        status = connection.getresponse().status
    finally:
        connection.close()
    return None if status == 200 else f"a TLS call to this server itself was answered {status}"
