"""The server's routes: an ASGI application for what the API server asks (`server.lanes`), and Flask behind it for
what people, kubelets and Prometheus ask.

| path                                              | HTTP     | body                                              |
| ------------------------------------------------- | -------- | ------------------------------------------------- |
| /validate, /mutate                                |          | see `reviews`                                     |
| /healthz                                          | 200      | ok                                                |
| /readyz                                           | 200      | ok, and what is known of policies and cluster     |
| /readyz before all is in place, or when stopping  | 503      | `{"error": …}`, one line                          |
| /metrics                                          | 200      | Prometheus' text                                  |
| another path, another method                      | 404, 405 | `{"error": …}`, one line                          |
| the HTTP edge itself raised                       | 500      | `{"error": "internal error"}`; logged             |
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

from a2wsgi import WSGIMiddleware
from flask import Flask, Response, request
from prometheus_client import CONTENT_TYPE_LATEST
from werkzeug.exceptions import HTTPException

from podfit.base import data
from podfit.base.printable import one_line
from podfit.evaluation.policy import Policy
from podfit.server.accesslog import AccessLog
from podfit.server.certs.serving import Application
from podfit.server.lanes import Lanes
from podfit.server.live import Live
from podfit.server.metrics import Metrics
from podfit.server.readiness import Readiness
from podfit.server.reviews import Reviews
from podfit.vllm.facts import Facts

if TYPE_CHECKING:
    from podfit.cluster import Cluster

PEOPLE_THREADS = 2
"""Threads for what people, kubelets and Prometheus ask. A choice: one slow client does not block the others."""

log = logging.getLogger(__name__)


def create_app(
    policy: Policy | Live,
    facts: Facts,
    metrics: Metrics,
    ready: Readiness | None = None,
    cluster: Cluster | None = None,
    access: AccessLog | None = None,
    threads: int = 4,
) -> Application:
    """Create the HTTP application of both webhooks, /metrics and the health checks.

    `ready`: whether reviews may come (None: always); `access`: None writes no access log; `threads`: the number of
    threads for small reviews that the event loop does not answer.

    Each request uses `facts` together with the snapshot of `cluster`. The body of /readyz shows a stale snapshot or an
    invalid change of a live policy. Its status does not change, since the tables are still known, and the last good
    policy stays in force.
    """
    app = Flask("podfit", static_folder=None)

    def in_force() -> tuple[Policy, Facts]:
        """The policy and the facts of this moment."""
        policy_now = policy.policy if isinstance(policy, Live) else policy
        facts_now = facts if cluster is None else cluster.facts(facts)
        return policy_now, facts_now

    if access is not None:
        metrics.watch_access_log(access)
    reviews = Reviews(in_force, metrics, access or AccessLog(None))

    @app.get("/healthz")
    def healthz() -> Response:
        return Response("ok\n", mimetype="text/plain")

    @app.get("/readyz")
    def readyz() -> Response:
        """200 with notes on what is stale or wrong; 503 with the reason while the server must not get reviews."""
        why_not = ready.why_not() if ready else None
        if why_not:
            return _error(503, why_not)
        lines = ["ok"]
        if ready:
            lines += ready.problems()
        if isinstance(policy, Live):
            lines += policy.report()
        if cluster:
            lines += cluster.report()
        lines.append(data.age())
        return Response("".join(f"{one_line(line)}\n" for line in lines), mimetype="text/plain")

    @app.get("/metrics")
    def scrape() -> Response:
        return Response(metrics.text(), content_type=CONTENT_TYPE_LATEST)

    @app.errorhandler(HTTPException)
    def http_error(error: HTTPException) -> Response:
        """An answer in JSON, counted by code."""
        code = error.code or 500
        metrics.bad_request(code)
        words = {
            404: f"no such path {request.path!r}; there are /validate, /mutate, /healthz, /readyz and /metrics",
            405: f"{request.method} is not allowed here",
            500: "internal error",
        }
        return _error(code, words.get(code, error.description or error.name))

    @app.errorhandler(Exception)
    def internal_error(error: Exception) -> Response:
        log.error("internal error at %s", request.path, exc_info=error)
        metrics.bad_request(500)
        return _error(500, "internal error")

    people: Any = WSGIMiddleware(app, PEOPLE_THREADS)  # type: ignore[arg-type]  # Flask has wsgiref's types
    return Lanes(reviews, people, threads)


def _error(code: int, message: str) -> Response:
    """An answer with this HTTP status, and the message as one line in JSON."""
    return Response(json.dumps({"error": one_line(message)}) + "\n", code, mimetype="application/json")
