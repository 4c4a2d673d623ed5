"""Reviews of the API server: the bytes of a review in, the bytes of its answer out, in time.

Outcome → what is sent. The API server treats every HTTP status except 200 as a failed call and follows `failurePolicy`.

| outcome                                            | HTTP | body                                                  |
| -------------------------------------------------- | ---- | ----------------------------------------------------- |
| nothing to judge, or all rules pass                | 200  | allowed                                               |
| findings that warn                                 | 200  | allowed, a warning each                               |
| a finding that denies (the object is bad)          | 200  | not allowed, status 403 Forbidden, a cause each       |
| fixes that the policy applies (/mutate)            | 200  | allowed, JSON Patch, a warning each                   |
| a rule or the core raised (we are bad)             | 200  | allowed, one warning; logged and counted              |
| it waited or took too long (we are too slow)       | 200  | allowed, one warning; logged and counted              |
| not enough memory to read it or to judge it        | 200  | allowed, one warning; logged and counted              |
| no AdmissionReview, or one that contradicts itself | 400  | `{"error": …}`, one line                              |
| no certificate of --client-ca                      | 403  | `{"error": …}`, one line                              |
| another method                                     | 405  | `{"error": …}`, one line                              |
| more than 8 MiB                                    | 413  | `{"error": …}`, one line                              |
| not application/json, or compressed                | 415  | `{"error": …}`, one line                              |
| the HTTP edge itself raised                        | 500  | `{"error": "internal error"}`; logged                 |
| too many large bodies at once                      | 503  | `{"error": …}`, one line                              |
"""

from __future__ import annotations

import gc
import json
import logging
import re
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Self

from podfit.base.printable import one_line
from podfit.base.secret import FORMS
from podfit.evaluation import review
from podfit.evaluation.policy import Policy
from podfit.evaluation.review import BadReview, Decision, Request, Webhook
from podfit.rules import all_rules
from podfit.server import deadline
from podfit.server.accesslog import AccessLog
from podfit.server.deadline import DeadlineWatch, OutOfTime
from podfit.server.decision_cache import DecisionCache
from podfit.server.metrics import Metrics
from podfit.vllm.facts import Facts

MAX_BODY = 8 << 20
"""Bytes. An object may have 3 MiB (k8s.io/apiserver MaxRequestBodyBytes), and an update's review carries two."""
LARGE = 256 << 10
"""Bytes of a body above which its decision is not remembered. The rules read little of such a body, and the search for
a remembered decision takes longer than the evaluation (3 MiB: 6 ms against 0.3)."""
ORDINARY = 64 << 10
"""Bytes of a body that may be evaluated in the event loop. A Pod with its `managedFields` has about 13,000."""
HERE = 0.05
"""Seconds of processor time that one evaluation may take in the event loop, fifty times the usual. Then it starts again
in a thread. All other requests wait meanwhile, and for up to `deadline.TICK` more."""
PATHS: dict[str, Webhook] = {"/validate": "validate", "/mutate": "mutate"}

_UID = re.compile(rb'"request":\s*\{\s*"uid":\s*"([0-9A-Za-z-]{1,64})"')
"""k8s.io/api admission/v1 AdmissionRequest: `uid` is its first field."""
_UID_BYTES = 4096
"""Bytes at the beginning of a body in which the uid is, as the API server writes it."""
_SCRIPT = re.compile(rb'"-[a-z]*c"')
"""The option of a shell that takes a script: `-c`, `-lc`, `-euxc`. Reading a script takes longer than all the rest."""

log = logging.getLogger(__name__)


class HttpRefusal(Exception):  # noqa: N818 - an answer, no error
    """The request gets this HTTP status, with the message in one line."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code

    @classmethod
    def too_large(cls) -> Self:
        """The error for a body that is too large: HTTP 413."""
        return cls(413, f"the body is larger than {MAX_BODY >> 20} MiB")


def declared(method: str, headers: Mapping[bytes, bytes]) -> int:
    """The body's length in bytes, by the headers (names in lower case); of a chunked body the largest allowed.

    Raises HttpRefusal if the request must not be answered.
    """
    if method != "POST":
        raise HttpRefusal(405, f"{method} is not allowed here")
    media = headers.get(b"content-type", b"").partition(b";")[0].strip().lower().decode("latin-1")
    if media != "application/json":
        raise HttpRefusal(415, f"the content type is {media!r}, expected 'application/json'")
    if headers.get(b"content-encoding", b"identity").strip().lower() not in (b"", b"identity"):
        raise HttpRefusal(415, "a compressed body is not supported")
    is_chunked = b"transfer-encoding" in headers  # its length is not known before it ends
    length = MAX_BODY if is_chunked else int(headers.get(b"content-length", b"0"))
    if length > MAX_BODY:
        raise HttpRefusal.too_large()
    return length


class _Elsewhere(Exception):  # noqa: N818 - a way, no error
    """The event loop is not the place for this review."""


class Reviews:
    """Answers the reviews of both webhooks; safe for threads."""

    def __init__(self, in_force: Callable[[], tuple[Policy, Facts]], metrics: Metrics, access: AccessLog) -> None:
        """`in_force`: returns the policy and the facts of this moment."""
        self._in_force = in_force
        self._metrics = metrics
        self._access = access
        self._remembered = DecisionCache()
        self._watch = DeadlineWatch(failed=lambda: metrics.rule_error("deadline"))

    def at_once(self, webhook: Webhook, body: bytes, query: str, arrived: float) -> bytes | None:
        """`answer` for the event loop; None if the decision is neither remembered nor quickly made, so that a thread
        must make it."""
        is_quick = len(body) <= ORDINARY and not _SCRIPT.search(body)
        try:
            return self._answer(webhook, body, query, arrived, HERE if is_quick else 0)
        except _Elsewhere:
            return None

    def answer(self, webhook: Webhook, body: bytes, query: str, arrived: float) -> bytes:
        """The AdmissionReview to send; raises BadReview if `body` is not an AdmissionReview.

        `query`: of the URL, with the API server's timeout; `arrived`: when the request did (time.monotonic).
        """
        with _no_collection() if len(body) > LARGE else nullcontext():
            try:
                return self._answer(webhook, body, query, arrived, None)
            except BadReview as error:
                reason = str(error)
        # A new error, since the frames in the traceback of the caught one keep the decoded object in memory.
        raise BadReview(reason)

    def failed(self, path: str, error: Exception) -> tuple[int, bytes]:
        """HTTP status and body after this error in reading or answering a request, which is counted and logged. Only
        the client's own errors are named to it."""
        message = FORMS.line(str(error))
        match error:
            case HttpRefusal():
                code = error.code
            case BadReview():
                code = 400
            case _:
                log.error("internal error at %s", path, exc_info=error)
                code, message = 500, "internal error"
        self._metrics.bad_request(code)
        self._access.refused(path, code, message)
        return code, json.dumps({"error": message}).encode() + b"\n"

    def _answer(self, webhook: Webhook, body: bytes, query: str, arrived: float, here: float | None) -> bytes:
        """The AdmissionReview that answers the one in `body`, decided within its deadline; then it is counted and
        logged. Without the memory to read it, it is allowed by its uid alone. Arguments as for `answer`; `here`: as for
        `_decide`. Raises BadReview, _Elsewhere, or MemoryError if not even the uid can be read."""
        begun = time.monotonic()
        waited = begun - arrived
        try:
            request = review.parse(body)
            left = deadline.patience(query) - waited
            remembered = self._remembered if len(body) <= LARGE else None
            decision = self._decide(webhook, request, left, remembered, here)
            answer = json.dumps(decision.answer).encode()
        except MemoryError as error:
            uid = _UID.search(body, 0, _UID_BYTES)
            if uid is None:  # there is nothing to answer to
                raise
            decision = review.failed(review.unread(uid[1].decode()), error)
            answer = json.dumps(decision.answer).encode()
        try:
            seconds = time.monotonic() - begun
            self._metrics.observe(webhook, decision, seconds, waited)
            self._access.review(webhook, decision, seconds, waited)
            _complain(webhook, decision)
        except Exception as error:  # the answer is sent anyway
            log.error("a decision could not be counted or logged", exc_info=error)
        return answer

    def _decide(
        self, webhook: Webhook, request: Request, left: float, remembered: DecisionCache | None, here: float | None
    ) -> Decision:
        """The decision, made within `left` seconds; allows the object if they are over. `remembered`: earlier
        decisions; None for a large body.

        `here`: seconds of processor time that the event loop has for an evaluation; 0: only a remembered decision is
        returned; None: the caller is a thread. Raises _Elsewhere if the event loop can't decide in this time.

        With any failurePolicy, a late answer delays the API server. A cluster that can't create Pods is worse than one
        vLLM Pod that was not checked."""
        if left <= 0:
            log.warning("%s not checked, allowed: %s waited too long", webhook, _subject(request))
            return review.allowed_without_time(request, "too much to do")
        policy, facts = self._in_force()

        def decide_in_time(reduced: Request) -> Decision:
            """The decision on the request, as the memory of decisions passes it on; raises OutOfTime, _Elsewhere."""
            if here == 0:
                raise _Elsewhere
            return self._watch.within(left, lambda: review.decide(webhook, reduced, policy, facts), here)

        try:
            if remembered is None:
                return decide_in_time(request)
            return remembered.decide(webhook, request, policy, facts, decide_in_time)
        except OutOfTime as error:
            if here is not None:
                raise _Elsewhere from None
            rule = _where(error)
            self._metrics.rule_error(rule)
            log.error("%s not checked, allowed: %s took too long, in %s", webhook, _subject(request), rule)
            return review.allowed_without_time(request, "it took too long")


@contextmanager
def _no_collection() -> Iterator[None]:
    """Pauses the garbage collector, which looks at each object of a large body several times while all threads wait.

    8 MiB of empty lists take 0.7 s to decode with it, 0.2 s without. A JSON text makes no cycles."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _complain(webhook: Webhook, decision: Decision) -> None:
    """Log the errors of a decision, with the object's name but no other value of the manifest."""
    if decision.error is not None:
        log.error("%s failed, allowed: %s", webhook, _subject(decision.request), exc_info=decision.error)
    for error in decision.errors:
        # Only the type: an exception's text may quote the manifest, and with it a secret in `env`.
        type_name = error.error.partition(":")[0]
        log.error("%s: %s raised %s: %s", webhook, error.rule, type_name, _subject(decision.request))


def _subject(request: Request) -> str:
    """Kind, namespace, name and uid of a request for a line of the log."""
    return one_line(f"{request.kind} {request.namespace or ''}/{request.name or '(generated)'}, uid {request.uid}")


def _where(error: BaseException) -> str:
    """The id of the outermost rule in which the error was raised; "review" if it was not in a rule. A rule's module has
    its id as its name, with underscores."""
    for frame in traceback.extract_tb(error.__traceback__):
        rule = Path(frame.filename).stem.replace("_", "-")
        if rule in all_rules():
            return rule
    return "review"
