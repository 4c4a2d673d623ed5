"""The HTTP edge: a Flask application around `review.decide`.

Outcome → what is sent. The API server takes every HTTP status but 200 as a failed call and follows `failurePolicy`.

| outcome                                            | HTTP | body                                                  |
| -------------------------------------------------- | ---- | ----------------------------------------------------- |
| nothing to judge, or all rules pass                | 200  | allowed                                               |
| findings that warn                                 | 200  | allowed, a warning each                               |
| a finding that denies (the object is bad)          | 200  | not allowed, status 403 Forbidden, a cause each       |
| fixes that the policy applies (/mutate)            | 200  | allowed, JSON Patch, a warning each                   |
| a rule or the core raised (we are bad)             | 200  | allowed, one warning; logged and counted              |
| no AdmissionReview, or one that contradicts itself | 400  | `{"error": …}`, one line                              |
| another path, another method                       | 404, 405 | `{"error": …}`, one line                          |
| more than 8 MiB                                    | 413  | `{"error": …}`, one line                              |
| not application/json, or compressed                | 415  | `{"error": …}`, one line                              |
| the HTTP edge itself raised                        | 500  | `{"error": "internal error"}`; logged                 |
| /readyz before all is in place, or when stopping   | 503  | `{"error": …}`, one line                              |
"""

from __future__ import annotations

import json
import logging
import time

from flask import Flask, Response, request
from prometheus_client import CONTENT_TYPE_LATEST
from werkzeug.exceptions import HTTPException, RequestEntityTooLarge, UnsupportedMediaType

from webhook import review
from webhook.cluster import Cluster
from webhook.facts import Facts
from webhook.live import Live
from webhook.metrics import Metrics
from webhook.policy import Policy
from webhook.readiness import Readiness
from webhook.report.text import one_line
from webhook.review import BadReview, Decision, Webhook
from webhook.verdicts import Verdicts

MAX_BODY = 8 << 20
"""Bytes. An object may have 3 MiB (k8s.io/apiserver MaxRequestBodyBytes) and a review holds the old one beside it."""
DRAIN = 4 * MAX_BODY
"""Bytes of a larger body that are read and thrown away before the answer."""

log = logging.getLogger(__name__)


def create_app(
    policy: Policy | Live,
    facts: Facts,
    metrics: Metrics,
    ready: Readiness | None = None,
    cluster: Cluster | None = None,
) -> Flask:
    """The application; `ready` says whether reviews may come (None: always).

    What `cluster` knows is added to `facts` at every request, and told by /readyz, whose status does not change for it:
    a server that has lost its view of the cluster still knows its tables. So is a broken change of a live policy: the
    last good one goes on.
    """
    app = Flask("podfit", static_folder=None)
    verdicts = Verdicts()

    def holding() -> Policy:
        return policy.policy if isinstance(policy, Live) else policy

    def known() -> Facts:
        return cluster.facts(facts) if cluster is not None else facts

    @app.post("/validate")
    def validate() -> Response:
        return _answer("validate", holding(), known(), metrics, verdicts)

    @app.post("/mutate")
    def mutate() -> Response:
        return _answer("mutate", holding(), known(), metrics, verdicts)

    @app.get("/healthz")
    def healthz() -> Response:
        return Response("ok\n", mimetype="text/plain")

    @app.get("/readyz")
    def readyz() -> Response:
        why = ready.why_not() if ready else None
        told = [
            *(ready.problems() if ready else ()),
            *(policy.report() if isinstance(policy, Live) else ()),
            *(cluster.report() if cluster else ()),
        ]
        lines = ["ok", *told]
        text = "".join(f"{one_line(line)}\n" for line in lines)
        return _error(503, why) if why else Response(text, mimetype="text/plain")

    @app.get("/metrics")
    def scrape() -> Response:
        return Response(metrics.text(), content_type=CONTENT_TYPE_LATEST)

    @app.errorhandler(BadReview)
    def bad_review(error: BadReview) -> Response:
        metrics.bad_request(400)
        return _error(400, str(error))

    @app.errorhandler(HTTPException)
    def http_error(error: HTTPException) -> Response:
        code = error.code or 500
        metrics.bad_request(code)
        words = {
            404: f"no such path {request.path!r}; there are /validate, /mutate, /healthz, /readyz and /metrics",
            405: f"{request.method} is not allowed here",
            413: f"the body is larger than {MAX_BODY >> 20} MiB",
            500: "internal error",
        }
        return _error(code, words.get(code, error.description or error.name))

    @app.errorhandler(Exception)
    def internal_error(error: Exception) -> Response:
        log.error("internal error at %s", request.path, exc_info=error)
        metrics.bad_request(500)
        return _error(500, "internal error")

    return app


def _answer(webhook: Webhook, policy: Policy, facts: Facts, metrics: Metrics, verdicts: Verdicts) -> Response:
    if request.mimetype != "application/json":
        raise UnsupportedMediaType(f"the content type is {request.mimetype!r}, expected 'application/json'")
    if request.content_encoding not in (None, "identity"):
        raise UnsupportedMediaType("a compressed body is not supported")
    asked = review.parse(_body())
    start = time.perf_counter()
    decision = verdicts.decide(webhook, asked, policy, facts)
    answer = json.dumps(decision.answer)
    metrics.observe(webhook, decision, time.perf_counter() - start)
    _log(webhook, decision)
    return Response(answer, mimetype="application/json")


def _body() -> bytes:
    # What is asked for is allocated at once (io.RawIOBase.read), so not all 8 MiB where the client says how much comes.
    body = request.stream.read(min(request.content_length or MAX_BODY, MAX_BODY) + 1)
    if len(body) <= MAX_BODY:
        return body
    for _ in range(DRAIN >> 20):  # who is still sending does not read: the answer would be lost in a reset
        if not request.stream.read(1 << 20):
            break
    raise RequestEntityTooLarge


def _log(webhook: Webhook, decision: Decision) -> None:
    """One line for what an operator asks about later; never a value from the manifest beyond the object's name."""
    asked = decision.request
    subject = one_line(f"{asked.kind} {asked.namespace or ''}/{asked.name or '(generated)'}, uid {asked.uid}")
    if decision.error is not None:
        log.error("%s failed, allowed: %s", webhook, subject, exc_info=decision.error)
    for error in decision.errors:
        # Only the type: an exception's text may quote the manifest, and with it a secret in `env`.
        log.error("%s: %s raised %s: %s", webhook, error.rule, error.error.partition(":")[0], subject)
    if decision.outcome in ("denied", "patched"):
        rules = decision.answer["response"]["auditAnnotations"].get("rules", "")
        log.info("%s %s: %s (%s)", webhook, decision.outcome, subject, rules)


def _error(code: int, message: str) -> Response:
    return Response(json.dumps({"error": one_line(message)}) + "\n", code, mimetype="application/json")
