"""What the API server asks, as a WSGI application: a review in, its answer out, in time.

It stands before Flask, whose dispatching takes longer (0.15 ms) than all that is done for a remembered review.

Outcome → what is sent. The API server takes every HTTP status but 200 as a failed call and follows `failurePolicy`.

| outcome                                            | HTTP | body                                                  |
| -------------------------------------------------- | ---- | ----------------------------------------------------- |
| nothing to judge, or all rules pass                | 200  | allowed                                               |
| findings that warn                                 | 200  | allowed, a warning each                               |
| a finding that denies (the object is bad)          | 200  | not allowed, status 403 Forbidden, a cause each       |
| fixes that the policy applies (/mutate)            | 200  | allowed, JSON Patch, a warning each                   |
| a rule or the core raised (we are bad)             | 200  | allowed, one warning; logged and counted              |
| it waited or took too long (we are too slow)       | 200  | allowed, one warning; logged and counted              |
| no memory is left to read it or to judge it        | 200  | allowed, one warning; logged and counted              |
| no AdmissionReview, or one that contradicts itself | 400  | `{"error": …}`, one line                              |
| another method                                     | 405  | `{"error": …}`, one line                              |
| more than 8 MiB                                    | 413  | `{"error": …}`, one line                              |
| not application/json, or compressed                | 415  | `{"error": …}`, one line                              |
| the HTTP edge itself raised                        | 500  | `{"error": "internal error"}`; logged                 |
"""

from __future__ import annotations

import json
import logging
import re
import time
import traceback
from collections.abc import Callable, Iterable
from http import HTTPStatus
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from webhook.base.printable import one_line
from webhook.base.secret import FORMS
from webhook.evaluation import review
from webhook.evaluation.policy import Policy
from webhook.evaluation.review import BadReview, Decision, Request, Webhook
from webhook.rules import all_rules
from webhook.server import deadline
from webhook.server.accesslog import AccessLog
from webhook.server.deadline import OutOfTime, Watch
from webhook.server.decision_cache import DecisionCache
from webhook.server.metrics import Metrics
from webhook.vllm.facts import Facts

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

MAX_BODY = 8 << 20
"""Bytes. An object may have 3 MiB (k8s.io/apiserver MaxRequestBodyBytes) and a review holds the old one beside it."""
DRAIN = 4 * MAX_BODY
"""Bytes of a larger body that are read and thrown away before the answer."""
LARGE = 256 << 10
"""Bytes of a body whose verdict is not remembered: most of it is nothing that is judged, and to look whether it was
seen takes longer than to judge it (3 MiB: 6 ms against 0.3)."""
HEAD = 4096
"""Bytes that are read first: the request's uid is in there, as the API server writes it."""
ARRIVED = "podfit.arrived"
"""The environment's key for when a request came (time.monotonic): it may have waited for a thread since."""
PATHS: dict[str, Webhook] = {"/validate": "validate", "/mutate": "mutate"}

_UID = re.compile(rb'"request":\s*\{\s*"uid":\s*"([0-9A-Za-z-]{1,64})"')
"""k8s.io/api admission/v1 AdmissionRequest: `uid` is its first field."""

log = logging.getLogger(__name__)


class _Refused(Exception):  # noqa: N818 - an answer, no error
    """The request gets this HTTP status."""

    def __init__(self, code: int, words: str) -> None:
        super().__init__(words)
        self.code = code


class Reviews:
    """Answers POST /validate and /mutate; everything else is for `rest`."""

    def __init__(
        self,
        rest: WSGIApplication,
        holding: Callable[[], tuple[Policy, Facts]],
        metrics: Metrics,
        access: AccessLog,
    ) -> None:
        """`holding`: the policy and the facts of this moment."""
        self._rest = rest
        self._holding = holding
        self._metrics = metrics
        self._access = access
        self._remembered = DecisionCache()
        self._watch = Watch(failed=lambda: metrics.rule_error("deadline"))

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """One request."""
        path = environ["PATH_INFO"]
        webhook = PATHS.get(path)
        if webhook is None:
            return self._rest(environ, start_response)
        try:
            code, answer = 200, self._answer(webhook, environ)
        except (_Refused, BadReview) as refused:
            code, answer = refused.code if isinstance(refused, _Refused) else 400, _error(str(refused))
            self._refused(path, code, str(refused))
        except OSError:  # the peer is gone, or stalls: nobody waits for an answer
            raise
        except Exception as error:
            log.error("internal error at %s", path, exc_info=error)
            code, answer = 500, _error("internal error")
            self._refused(path, code, "internal error")
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(answer)))]
        start_response(_STATUS[code], headers)
        return [answer]

    def _refused(self, path: str, code: int, words: str) -> None:
        self._metrics.bad_request(code)
        self._access.refused(path, code, FORMS.line(words))

    def _answer(self, webhook: Webhook, environ: WSGIEnvironment) -> bytes:
        begun = time.monotonic()
        waited = begun - environ.get(ARRIVED, begun)
        _acceptable(environ)
        head = _head(environ)
        try:
            body = _body(environ, head)
            asked = review.parse(body)
            left = deadline.patience(environ.get("QUERY_STRING", "")) - waited
            decision = self._decide(webhook, asked, left, self._remembered if len(body) <= LARGE else None)
            answer = json.dumps(decision.answer).encode()
        except MemoryError as error:
            if (uid := _UID.search(head)) is None:
                raise
            decision = review.failed(review.unread(uid[1].decode()), error)
            answer = json.dumps(decision.answer).encode()
        try:
            seconds = time.monotonic() - begun
            self._metrics.observe(webhook, decision, seconds, waited)
            self._access.review(webhook, decision, seconds, waited)
            _complain(webhook, decision)
        except Exception as error:  # what was decided is answered all the same
            log.error("what was decided could not be told", exc_info=error)
        return answer

    def _decide(self, webhook: Webhook, asked: Request, left: float, remembered: DecisionCache | None) -> Decision:
        """The decision, or that there was no time for one: in whatever mode the API server asks, who does not answer
        it in time stops it, and a cluster that can't create Pods is worse than one vLLM Pod that was not checked."""
        if left <= 0:
            log.warning("%s not judged, allowed: %s waited too long", webhook, _subject(asked))
            return review.allowed_without_time(asked, "too much to do")
        policy, facts = self._holding()

        def judged(request: Request) -> Decision:
            return self._watch.within(left, lambda: review.decide(webhook, request, policy, facts))

        try:
            return remembered.decide(webhook, asked, policy, facts, judged) if remembered is not None else judged(asked)
        except OutOfTime as ended:
            rule = _where(ended)
            self._metrics.rule_error(rule)
            log.error("%s not judged, allowed: %s took too long, in %s", webhook, _subject(asked), rule)
            return review.allowed_without_time(asked, "it took too long")


def _acceptable(environ: WSGIEnvironment) -> None:
    if environ["REQUEST_METHOD"] != "POST":
        raise _Refused(405, f"{environ['REQUEST_METHOD']} is not allowed here")
    media = environ.get("CONTENT_TYPE", "").partition(";")[0].strip().lower()
    if media != "application/json":
        raise _Refused(415, f"the content type is {media!r}, expected 'application/json'")
    if environ.get("HTTP_CONTENT_ENCODING", "identity").strip().lower() not in ("", "identity"):
        raise _Refused(415, "a compressed body is not supported")


def _head(environ: WSGIEnvironment) -> bytes:
    """The body's first bytes."""
    length = environ.get("CONTENT_LENGTH")
    if not length and not environ.get("wsgi.input_terminated"):
        return b""
    head: bytes = environ["wsgi.input"].read(min(int(length), HEAD) if length else HEAD)
    return head


def _body(environ: WSGIEnvironment, head: bytes) -> bytes:
    """The whole body, of which the `head` was read."""
    if len(head) < HEAD:
        return head
    length = environ.get("CONTENT_LENGTH")
    stream = environ["wsgi.input"]
    body: bytes
    if isinstance(stream, BytesIO):  # it is there in one piece: no copy of it
        body = stream.getvalue()
        stream.seek(len(body))
    else:
        # What is asked for is allocated at once (io.RawIOBase.read), so not all 8 MiB where the client says how much
        # comes.
        body = head + stream.read(min(int(length), MAX_BODY + 1) - HEAD if length else MAX_BODY + 1 - HEAD)
    if len(body) <= MAX_BODY:
        return body
    left = min(int(length) - len(body), DRAIN) if length else DRAIN
    while left > 0 and (more := stream.read(min(left, 1 << 20))):  # who is still sending does not read: the answer
        left -= len(more)  # would be lost in a reset
    raise _Refused(413, f"the body is larger than {MAX_BODY >> 20} MiB")


def _complain(webhook: Webhook, decision: Decision) -> None:
    """What went wrong in here; never a value from the manifest beyond the object's name."""
    if decision.error is not None:
        log.error("%s failed, allowed: %s", webhook, _subject(decision.request), exc_info=decision.error)
    for error in decision.errors:
        # Only the type: an exception's text may quote the manifest, and with it a secret in `env`.
        kind = error.error.partition(":")[0]
        log.error("%s: %s raised %s: %s", webhook, error.rule, kind, _subject(decision.request))


def _subject(asked: Request) -> str:
    return one_line(f"{asked.kind} {asked.namespace or ''}/{asked.name or '(generated)'}, uid {asked.uid}")


def _where(error: BaseException) -> str:
    """The rule in which it was raised, "review" where it was none."""
    modules = (Path(frame.filename).stem for frame in traceback.extract_tb(error.__traceback__))
    return next((rule for module in modules if (rule := module.replace("_", "-")) in all_rules()), "review")


def _error(message: str) -> bytes:
    return json.dumps({"error": FORMS.line(message)}).encode() + b"\n"


_STATUS: dict[int, Any] = {status.value: f"{status.value} {status.phrase}" for status in HTTPStatus}
