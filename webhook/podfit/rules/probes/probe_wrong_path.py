from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from podfit.kube.patch import Edit
from podfit.kube.path import FieldPath, mappings
from podfit.rules import probe_timing
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
        """Certain if vLLM's own server is alone in its Pod and the path is none of it in any release."""
        if engine.container.init or engine.port is None:
            return
        for name, action, item, port in probe_timing.probe_actions(engine):
            if action != "httpGet" or not (port == engine.port or probe_timing.misses(engine, port)):
                continue
            if item.get("path") not in OPEN:
                yield from _path(engine, name, item)
            if name == "livenessProbe" and item.get("path") in BLIND and probe_timing.is_vllm(engine):
                yield _blind(engine, str(item["path"]))
            speaks = "HTTPS" if probe_timing.tls(engine) else "HTTP"
            if str(item.get("scheme") or "HTTP").upper() != speaks:
                yield from _scheme(engine, name, item, speaks)


def _blind(engine: Engine, path: str) -> Finding:
    """The liveness probe asks a route that answers while the engine is dead."""
    return Finding(
        path=engine.at("livenessProbe", "httpGet", "path"),
        message=f"the livenessProbe asks {path}, which answers when the engine is dead; /health notices it",
        details=("no path notices an engine that hangs: alert on running requests with 0 tokens/s",),
        certainty="possible",
        suggestions=("path: /health",),
        presumes=probe_timing.presumed(engine, "livenessProbe"),
        fix=_set(engine, "livenessProbe", "path", "/health"),
    )


def _is_sure(engine: Engine, name: str) -> bool:
    return name != "readinessProbe" and probe_timing.alone(engine) and probe_timing.is_vllm(engine)


def _path(engine: Engine, name: str, obj: Mapping[str, Any]) -> Iterator[Finding]:
    """A probe's path that vLLM does not have, or that wants a key or POST."""
    given = obj.get("path")
    text = (str(given) if given else "/").partition("?")[0]
    path = "/" + text.strip("/")
    root = "/" + str(engine.args.get("root_path") or "").strip("/")
    if root != "/" and path.startswith(f"{root}/"):
        path = path[len(root) :]
    if path in ROUTES and (reason := _locked(engine, path, obj)) is None:
        return
    if path not in ROUTES:
        reason = "vLLM has no such path" if path not in ("/v1/completions", "/v1/chat/completions") else "it wants POST"
        sure = path in COMMON_SLIPS and not engine.args.get("middleware")
    else:
        sure = _keyed(engine) == "certain"
    yield Finding(
        path=engine.at(name, "httpGet", "path"),
        message=f"the {name} asks {text}: {reason}",
        certainty="certain" if sure and _is_sure(engine, name) else "likely",
        suggestions=("path: /health",),
        presumes=probe_timing.presumed(engine, name),
        fix=_set(engine, name, "path", "/health"),
    )


def _locked(engine: Engine, path: str, obj: Mapping[str, Any]) -> str | None:
    """Why vLLM answers 401: a key is asked for, and the probe brings none."""
    if not path.startswith("/v1") or obj.get("httpHeaders"):
        return None
    return "with an API key vLLM answers 401 there" if _keyed(engine) else None


def _keyed(engine: Engine) -> Certainty | None:
    """`--api-key`, else VLLM_API_KEY: an empty key is none (vLLM 0.33 entrypoints/serve/middleware/register.py, and in
    every release before), and what comes from a Secret may be empty. None: vLLM asks for no key."""
    if "api_key" in engine.args.unresolved:
        return "likely"
    given = engine.args.get("api_key")
    keys = given if isinstance(given, list | tuple) else [] if given is None else [given]
    if keys:
        return "certain" if any(keys) else None
    for item in mappings(engine.field("env")):
        if item.get("name") == "VLLM_API_KEY":
            source = FieldPath(("valueFrom", "secretKeyRef")).get(item)
            if isinstance(source, Mapping) and source.get("optional") is not True:
                return "likely"
    return "certain" if engine.command.env.get("VLLM_API_KEY") else None


def _scheme(engine: Engine, name: str, obj: Mapping[str, Any], speaks: str) -> Iterator[Finding]:
    """A probe's scheme that is not the server's."""
    if any(dest in engine.args.unresolved for dest in ("ssl_certfile", "ssl_keyfile")):
        return
    yield Finding(
        path=engine.at(name, "httpGet", "scheme"),
        message=f"the {name} speaks {str(obj.get('scheme') or 'HTTP').upper()}, vLLM {speaks}"
        + (
            f" ({'--ssl-certfile' if engine.args.get('ssl_certfile') else '--ssl-keyfile'})"
            if speaks == "HTTPS"
            else ""
        ),
        certainty="certain" if _is_sure(engine, name) else "likely",
        suggestions=(f"scheme: {speaks}",),
        presumes=probe_timing.presumed(engine, name),
        fix=_set(engine, name, "scheme", speaks),
    )


def _set(engine: Engine, name: str, field: str, value: str) -> tuple[Edit, ...]:
    """The field of the probe set, where vLLM alone could answer."""
    if not probe_timing.alone(engine) or not probe_timing.writable(engine, name):
        return ()
    return (Edit(engine.at(name, "httpGet", field), value),)
