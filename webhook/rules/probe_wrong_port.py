"""Rule probe-wrong-port."""

from __future__ import annotations

from collections.abc import Iterator

from webhook.engine import Engine
from webhook.patch import Edit
from webhook.path import FieldPath
from webhook.rule import Finding, Rule
from webhook.rules import _probe


class ProbeWrongPort(Rule):
    """A probe asks a port that vLLM does not listen on.

    vLLM listens on `--port` (8000 where it is not given). A startup or liveness probe on another port never succeeds,
    and the kubelet restarts a healthy container for ever:

        Startup probe failed: Get "http://10.0.0.7:8000/health": dial tcp 10.0.0.7:8000: connect: connection refused

    A `--headless` node, and a worker that joins a leader, serve no port at all; `--uds` listens on a socket in the
    file system, `--grpc` answers no HTTP. Where another container of the Pod listens there, the probe asks that one; so
    it may with `hostNetwork`, an injected sidecar, a postStart hook or a debugger: likely, not certain.
    """

    plane = "network"
    threatens = "uptime"
    mode = "deny"
    mute_for = ("args",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain where vLLM is alone in its Pod and nothing else could listen."""
        if engine.container.init:
            return
        silent = _silent(engine)
        for name in _probe.NAMES:
            for action, asked in _probe.asked(engine, name):
                port, where = _probe.number(engine, asked.get("port")), engine.at(name, action, "port")
                nobody = _probe.alone(engine) and not _probe.others_listen(engine, port)
                certain = nobody and name != "readinessProbe"
                if silent is not None and not (action != "httpGet" and "grpc" in silent):
                    yield Finding(
                        path=where,
                        message=f"the {name} asks port {asked.get('port')}, but {silent}",
                        certainty="certain" if certain else "likely",
                        suggestions=(f"no {name}",),
                        fix=_remove(engine, name) if nobody else (),
                    )
                elif engine.port is not None and port is not None and port != engine.port:
                    yield Finding(
                        path=where,
                        message=f"the {name} asks port {port}, vLLM listens on {engine.port}",
                        certainty="certain" if certain else "likely",
                        suggestions=(f"port: {engine.port}",),
                        fix=_fix(engine, where) if nobody else (),
                    )


def _silent(engine: Engine) -> str | None:
    """Why nothing answers HTTP here, None where vLLM does or that can't be known."""
    if engine.command.entry == "worker" or engine.args.open or not engine.command.complete:
        return None
    get = engine.args.get
    if get("headless"):
        return "a --headless node serves no port"
    if get("uds"):
        return "with --uds vLLM listens on no port"
    return "with --grpc vLLM answers no HTTP" if get("grpc") else None


def _remove(engine: Engine, name: str) -> tuple[Edit, ...]:
    """A probe that nothing can answer goes; one that gRPC could answer is the author's to write."""
    possible = engine.args.get("grpc") or not _probe.alone(engine) or not _probe.writable(engine, name)
    return () if possible else (Edit(engine.at(name), op="remove"),)


def _fix(engine: Engine, where: FieldPath) -> tuple[Edit, ...]:
    return (Edit(where, engine.port),) if not engine.container.synthetic else ()
