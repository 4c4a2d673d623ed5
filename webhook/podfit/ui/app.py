"""The HTTP edge of the local page.

| path                 | answer                                                        |
| -------------------- | ------------------------------------------------------------- |
| /TOKEN/              | the page                                                      |
| /TOKEN/static/…      | its scripts and styles                                        |
| /TOKEN/models        | the ids of the catalog, originals and copies, as JSON         |
| /TOKEN/files         | the files of the command line, as JSON                        |
| /TOKEN/marks         | the findings of each of these files, counted → `check.marks`  |
| /TOKEN/plan          | POST: a configuration → `plan.answer`                         |
| /TOKEN/ways          | POST: the same → `plan.ways`                                  |
| /TOKEN/check         | POST: a file's name and text → `check.answer`                 |
| /TOKEN/effect        | POST: policies, perhaps a saved scan → `effect.answer`        |
| anything else        | `{"error": …}`                                                |

A request needs the token in its path, this server's own Host (another name for 127.0.0.1 is DNS rebinding) and, if it
is a POST, this server's own Origin. There is no CORS header. The page may load only from its own origin, and holds no
inline script or style.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from hmac import compare_digest
from typing import Any

from flask import Flask, Response, jsonify, render_template, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from podfit import __version__
from podfit.base import data
from podfit.base.near import nearest
from podfit.base.secret import FORMS
from podfit.ui import check, effect, plan
from podfit.ui.desk import Desk
from podfit.ui.question import QuestionError
from podfit.vllm.gpu.product import products
from podfit.vllm.model import catalog_ids

LARGEST = 8 << 20
"""Bytes of a request's body: more than an object of the API server, and room for a saved scan."""
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "object-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
log = logging.getLogger(__name__)


def create_app(token: str, desk: Desk) -> Flask:
    """The page's WSGI application."""
    app = Flask(__name__, static_url_path=f"/{token}/static")
    app.config["MAX_CONTENT_LENGTH"] = LARGEST
    app.jinja_options = {"autoescape": True, "trim_blocks": True, "lstrip_blocks": True}

    @app.before_request
    def guard() -> Response | None:
        """An error unless Host, Origin and token are this server's, so that no other page can use it; else None."""
        port = request.environ.get("SERVER_PORT")
        own = (f"127.0.0.1:{port}", f"localhost:{port}")
        if request.host not in own:
            return _error(421, f"Host {request.host!r} is not this server's ({' or '.join(own)})")
        origin = request.headers.get("Origin")
        if (origin is not None or request.method == "POST") and origin != f"http://{request.host}":
            return _error(403, f"Origin {origin!r} is not this page's")
        if not compare_digest(request.path.split("/")[1].encode(), token.encode()):
            return _error(404, "the URL lacks the token that `podfit ui` printed")
        return None

    @app.after_request
    def with_headers(response: Response) -> Response:
        response.headers.update(HEADERS)
        return response

    @app.get(f"/{token}/")
    def page() -> str:
        """The page, with releases from the newest and the whole GPUs."""
        releases = [str(release) for release in reversed(desk.policy.releases.table.releases)]
        gpus = sorted(name for name, row in products().items() if "mig" not in row)
        return render_template(
            "page.html",
            releases=releases,
            gpus=gpus,
            desk=desk,
            version=__version__,
            age=data.age(),
        )

    @app.get(f"/{token}/models")
    def models() -> Response:
        return jsonify(catalog_ids()._asdict())

    @app.get(f"/{token}/files")
    def files() -> Response:
        return jsonify(check.given(desk))

    @app.get(f"/{token}/marks")
    def marks() -> Response:
        return jsonify(check.marks(desk))

    def answers(path: str, fields: Collection[str], answer: Callable[[Mapping[str, Any]], dict[str, Any]]) -> None:
        """A POST of a question as JSON, answered as JSON; 422 with the field for one that is unknown, or a value that
        can't be used."""

        def view() -> Response:
            """`answer` to the JSON object of the request; 400 and 422 for one that it can't use."""
            value = request.get_json()
            if not isinstance(value, dict):
                return _error(400, f"expected a JSON object, got {type(value).__name__}")
            for field in value.keys() - fields:
                near = next(iter(nearest(field, fields)), None)
                hint = f"Did you mean {near!r}?" if near else f"Expected {', '.join(sorted(fields))}"
                return _error(422, FORMS.line(f"unknown field {field!r}. {hint}"), field)
            try:
                return jsonify(answer(value))
            except QuestionError as error:
                return _error(422, str(error), error.field)

        app.add_url_rule(f"/{token}/{path}", path, view, methods=["POST"])

    answers("plan", plan.FIELDS, lambda obj: plan.answer(obj, desk.policy, desk.facts))
    answers("ways", plan.FIELDS, lambda obj: plan.ways(obj, desk.policy, desk.facts))
    answers("check", check.FIELDS, lambda obj: check.answer(obj, desk))
    answers("effect", effect.FIELDS, lambda obj: effect.answer(obj, desk))

    @app.errorhandler(HTTPException)
    def http_error(error: HTTPException) -> Response:
        """An error answer in JSON that names what was expected."""
        words = {
            400: "the body is not valid JSON",
            404: f"no such path {request.path!r}",
            405: f"{request.method} is not allowed at this path (expected {' or '.join(_allowed(error))})",
            413: f"the text is larger than {LARGEST >> 20} MiB",
            415: f"not JSON (Content-Type {request.content_type!r}, expected 'application/json')",
        }
        code = error.code or 500
        return _error(code, words.get(code, error.description or error.name))

    @app.errorhandler(Exception)
    def internal_error(error: Exception) -> Response:
        log.error("internal error at %s", request.endpoint, exc_info=error)
        return _error(500, f"internal error: {type(error).__name__}")

    return app


def _allowed(error: HTTPException) -> list[str]:
    """The methods of the path, of a 405."""
    methods = error.valid_methods if isinstance(error, MethodNotAllowed) else None
    return sorted({*(methods or ())} - {"HEAD", "OPTIONS"})


def _error(code: int, message: str, field: str | None = None) -> Response:
    response = jsonify({"error": message, "field": field})
    response.status_code = code
    return response
