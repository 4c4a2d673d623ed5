from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from podfit.kube.patch import Edit
from podfit.kube.path import FieldPath, mappings
from podfit.rules import ports, probe_timing
from podfit.rules.engine import Engine
from podfit.rules.rule import Certainty, Finding, Rule

ROUTES = frozenset(
    {
        "/health", "/ping", "/load", "/version", "/v1/models", "/metrics", "/docs", "/docs/oauth2-redirect", "/redoc",
        "/openapi.json", "/server_info", "/is_sleeping", "/is_paused",
    }
)  # fmt: skip
"""The paths that vLLM's API server answers to GET (vLLM 0.33 entrypoints/openai/api_server.py and
entrypoints/serve/)."""
BLIND = ("/version", "/v1/models")
"""Routes that vLLM's API server answers without its engine (vllm-project/vllm#39863)."""
OPEN = ("/health", "/ping", "/metrics", "/version", "/load")
"""Routes that need no key, whatever --root-path is: none lies below another."""
COMMON_SLIPS = frozenset(
    {
        "/", "/healthz", "/readyz", "/livez", "/ready", "/live", "/readiness", "/liveness", "/health/ready",
        "/health/live", "/v1/health", "/v1/health/ready", "/v1/health/live", "/v2/health/ready", "/v2/health/live",
        "/api/health", "/healthcheck", "/health_check", "/status", "/generate", "/v1/completions",
        "/v1/chat/completions",
    }
)  # fmt: skip
"""Other servers' health paths, and vLLM's that answer POST alone: 404 or 405 in every release."""


POST_ROUTES = ("/v1/completions", "/v1/chat/completions")
"""vLLM's own routes among `COMMON_SLIPS` that answer 405 to a GET."""


class ProbeWrongPath(Rule):
    """A probe uses a path or a scheme that vLLM does not answer, or lacks the API key.

    vLLM answers GET on /health (and /ping), /v1/models, /metrics and a few more; another path is `404 Not Found`, which
    fails the probe forever:

        Startup probe failed: HTTP probe failed with statuscode: 404

    A liveness probe on /version or /v1/models never asks the engine: both answer after the engine has died. /health
    notices a dead engine. None of them notices one that hangs: alert on running requests with 0 tokens per second.

    With `--ssl-certfile` the port speaks TLS and needs `scheme: HTTPS` (`malformed HTTP response`, `EOF` without it).
    With `--api-key` or VLLM_API_KEY everything under /v1 needs the key (`statuscode: 401`); /health never does.
    """

    plane = "network"
    event = "the kubelet restarts the container, or the Pod is never ready"
    threatens = "uptime"
    mode = "deny"
    mute_for = ("args",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain for a startup or liveness probe of vLLM's own server, alone in its Pod; else likely.

        The path must be one of `COMMON_SLIPS`, or one that wants a key that certainly exists. Possible for a route that
        answers without the engine."""
        if engine.container.init or engine.port is None:
            return
        for name, action, fields, port in probe_timing.probe_actions(engine):
            if action != "httpGet" or not (port == engine.port or probe_timing.misses(engine, port)):
                continue
            if fields.get("path") not in OPEN:
                yield from _wrong_path(engine, name, fields)
            if name == "livenessProbe" and fields.get("path") in BLIND and probe_timing.is_vllm(engine):
                yield _blind(engine, str(fields["path"]))
            yield from _wrong_scheme(engine, name, fields)


def _blind(engine: Engine, path: str) -> Finding:
    """The finding on a liveness probe of a route that answers while the engine is dead."""
    return Finding(
        path=engine.at("livenessProbe", "httpGet", "path"),
        message=f"the livenessProbe asks {path}, which answers when the engine is dead; /health notices it",
        details=("no path notices an engine that hangs: alert on running requests with 0 tokens/s",),
        certainty="possible",
        suggestions=("path: /health",),
        presumes=probe_timing.presumed(engine, "livenessProbe"),
        fix=_set(engine, "livenessProbe", "path", "/health"),
    )


def _is_answered_by_vllm(engine: Engine, name: str) -> bool:
    """True if vLLM's own server certainly answers the probe, and a failure restarts the container. A readiness probe
    restarts nothing."""
    return name != "readinessProbe" and ports.is_alone(engine) and probe_timing.is_vllm(engine)


def _wrong_path(engine: Engine, name: str, fields: Mapping[str, Any]) -> Iterator[Finding]:
    """The finding on a probe's path that vLLM does not have, or that wants a key or POST; none for other paths.
    `fields`: those of its httpGet."""
    given = fields.get("path")
    text = (str(given) if given else "/").partition("?")[0]
    path = _below_root(engine, text)
    if path not in ROUTES:
        reason = "it wants POST" if path in POST_ROUTES else "vLLM has no such path"
        sure = path in COMMON_SLIPS and not engine.args.get("middleware")  # which may add a route
    elif _lacks_key(engine, path, fields):
        reason = "with an API key vLLM answers 401 there"
        sure = _key_certainty(engine) == "certain"
    else:
        return
    yield Finding(
        path=engine.at(name, "httpGet", "path"),
        message=f"the {name} asks {text}: {reason}",
        certainty="certain" if sure and _is_answered_by_vllm(engine, name) else "likely",
        suggestions=("path: /health",),
        presumes=probe_timing.presumed(engine, name),
        fix=_set(engine, name, "path", "/health"),
    )


def _below_root(engine: Engine, text: str) -> str:
    """A path as vLLM's routes have it: with a slash at its start alone, and without the prefix of --root-path."""
    path = "/" + text.strip("/")
    root = "/" + str(engine.args.get("root_path") or "").strip("/")
    return path[len(root) :] if root != "/" and path.startswith(f"{root}/") else path


def _lacks_key(engine: Engine, path: str, fields: Mapping[str, Any]) -> bool:
    """True if vLLM wants a key at the path, and the probe sends no headers: vLLM answers 401."""
    return path.startswith("/v1") and not fields.get("httpHeaders") and _key_certainty(engine) is not None


def _key_certainty(engine: Engine) -> Certainty | None:
    """The certainty that vLLM wants a key: of `--api-key`, else of VLLM_API_KEY. None if it wants none.

    An empty key is none (vLLM 0.33 entrypoints/serve/middleware/register.py, and in every release before). The value of
    a Secret may be empty, so it is only likely."""
    if "api_key" in engine.args.unresolved:
        return "likely"
    given = engine.args.get("api_key")
    keys = given if isinstance(given, list | tuple) else [given]
    if given is not None and len(keys) > 0:
        return "certain" if any(keys) else None
    for item in mappings(engine.field("env")):
        if item.get("name") == "VLLM_API_KEY":
            source = FieldPath(("valueFrom", "secretKeyRef")).get(item)
            if isinstance(source, Mapping) and source.get("optional") is not True:
                return "likely"
    return "certain" if engine.command.env.get("VLLM_API_KEY") else None


def _wrong_scheme(engine: Engine, name: str, fields: Mapping[str, Any]) -> Iterator[Finding]:
    """The finding on a probe's scheme that is not the server's; none if they agree, or the server's is unknown.
    `fields`: those of its httpGet."""
    if any(dest in engine.args.unresolved for dest in ("ssl_certfile", "ssl_keyfile")):
        return
    own = "HTTPS" if probe_timing.tls(engine) else "HTTP"
    scheme = str(fields.get("scheme") or "HTTP").upper()
    if scheme == own:
        return
    flag = "--ssl-certfile" if engine.args.get("ssl_certfile") else "--ssl-keyfile"
    cause = f" ({flag})" if own == "HTTPS" else ""
    yield Finding(
        path=engine.at(name, "httpGet", "scheme"),
        message=f"the {name} speaks {scheme}, vLLM {own}{cause}",
        certainty="certain" if _is_answered_by_vllm(engine, name) else "likely",
        suggestions=(f"scheme: {own}",),
        presumes=probe_timing.presumed(engine, name),
        fix=_set(engine, name, "scheme", own),
    )


def _set(engine: Engine, name: str, field: str, value: str) -> tuple[Edit, ...]:
    """The edit that sets a field of the probe's httpGet; none if another process than vLLM may answer the probe, or an
    operator adds the probe."""
    if not ports.is_alone(engine) or not probe_timing.writable(engine, name):
        return ()
    return (Edit(engine.at(name, "httpGet", field), value),)
