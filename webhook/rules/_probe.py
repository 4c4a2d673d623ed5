"""What the probe rules share: how long a probe waits, and the startup probe that would be long enough."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from webhook.engine import Engine
from webhook.patch import Edit

PERIOD = 10


def window(probe: Mapping[str, Any]) -> int:
    """Seconds from the container's start until the kubelet kills it for this probe.

    initialDelaySeconds + periodSeconds × failureThreshold (kubernetes pkg/kubelet/prober/worker.go: the first probe
    runs after the delay, `failureThreshold` failures in a row kill). Defaults 0, 10, 3 (API reference, Probe).
    """
    delay, period, failures = (
        _number(probe.get(name), default)
        for name, default in (("initialDelaySeconds", 0), ("periodSeconds", 10), ("failureThreshold", 3))
    )
    return delay + period * failures


def _number(value: object, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else default


def probe(engine: Engine, name: str) -> Mapping[str, Any] | None:
    """The container's probe of that name, None where absent."""
    value = engine.field(name)
    return value if isinstance(value, Mapping) and value else None


def kills(engine: Engine, name: str) -> Mapping[str, Any] | None:
    """The probe, where it asks vLLM's own port: what another container or host answers says nothing of vLLM, and an
    exec probe may know better."""
    found = probe(engine, name)
    for action in ("httpGet", "tcpSocket", "grpc"):
        asked = found.get(action) if found else None
        if isinstance(asked, Mapping) and not asked.get("host") and engine.port is not None:
            return found if number(engine, asked.get("port")) == engine.port else None
    return None


def number(engine: Engine, port: Any) -> int | None:
    """A probe's port, a name looked up in the container's ports."""
    if isinstance(port, str) and not port.isdigit():
        ports = engine.field("ports")
        listed = ports if isinstance(ports, list) else ()
        named = (one for one in listed if isinstance(one, Mapping) and one.get("name") == port)
        port = next((one.get("containerPort") for one in named), None)
    if isinstance(port, str) and port.isascii() and port.isdigit() and len(port) < 6:
        port = int(port)
    return port if isinstance(port, int) and not isinstance(port, bool) else None


def threshold(seconds: float) -> int:
    """failureThreshold of a probe every PERIOD seconds that waits at least `seconds`, in steps of 30."""
    return math.ceil(seconds / PERIOD / 30) * 30


def startup_probe(engine: Engine) -> dict[str, Any] | None:
    """A startup probe with a window of at least twice the high estimate; None where port or scheme can't be known."""
    if engine.port is None or engine.plan.startup is None:
        return None
    http = {"path": "/health", "port": engine.port}
    if engine.args.get("ssl_certfile") or engine.args.get("ssl_keyfile"):
        http["scheme"] = "HTTPS"
    return {
        "httpGet": http,
        "periodSeconds": PERIOD,
        "failureThreshold": threshold(2 * engine.plan.startup.high),
    }


def startup_probe_fix(engine: Engine) -> tuple[Edit, ...]:
    """The edit that adds it."""
    new = startup_probe(engine)
    return () if new is None or engine.container.synthetic else (Edit(engine.at("startupProbe"), new),)


def estimate(engine: Engine) -> str:
    """ "vLLM answers after about 95 s (60 … 310 s)"."""
    startup = engine.plan.startup
    if startup is None:
        return ""
    return f"vLLM answers after about {startup.likely:.0f} s ({startup.low:.0f} … {startup.high:.0f} s)"
