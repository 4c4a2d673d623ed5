from __future__ import annotations

import re
from collections.abc import Iterator

from podfit.base.lazy import regex
from podfit.kube.patch import Edit
from podfit.kube.path import FieldPath
from podfit.rules import ports, probe_timing
from podfit.rules.engine import Engine
from podfit.rules.probe_timing import ProbeAction
from podfit.rules.rule import Certainty, Finding, Rule
from podfit.vllm import change


class ProbeWrongPort(Rule):
    """A probe asks a port that vLLM does not listen on.

    vLLM listens on `--port` (default 8000). A startup or liveness probe on another port never succeeds, and the kubelet
    restarts a healthy container forever:

        Startup probe failed: Get "http://10.0.0.7:8000/health": dial tcp 10.0.0.7:8000: connect: connection refused

    A `--headless` node, and a worker that joins a leader, serve no port at all. With `--uds` vLLM listens on a socket
    in the file system, and with `--grpc` it does not answer HTTP. If another container of the Pod declares the port,
    the probe reaches that one, and nothing is reported. With `hostNetwork`, an injected sidecar, a postStart hook or a
    debugger the same may happen, so the finding is likely, not certain.

    A probe also fails if it speaks gRPC to vLLM's HTTP port, or names a port that the container does not declare. With
    `--host 127.0.0.1` vLLM does not listen on the Pod's address, so the kubelet's requests to that address fail, too.
    """

    plane = "network"
    event = "the kubelet restarts the container, or the Pod is never ready"
    threatens = "uptime"
    mode = "deny"
    mute_for = ("args",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain if vLLM is alone in its Pod and nothing else could listen; at most one finding for each probe."""
        if engine.container.init:
            return
        silent = _silent(engine)
        for action in probe_timing.probe_actions(engine):
            if _is_undeclared_name(engine, action.action, action.fields.get("port")):
                yield _undeclared_name(engine, action)
                continue
            asks_vllm = silent is None and action.port == engine.port
            if action.port is not None and not asks_vllm and ports.another_declares(engine, action.port):
                continue  # the other container answers
            if silent is not None and not (action.action != "httpGet" and silent == SERVES_GRPC):
                yield _no_server(engine, action, silent)
            elif _has_port(engine) and action.port is not None:
                yield from _of_ports(engine, action, action.port)


def _undeclared_name(engine: Engine, action: ProbeAction) -> Finding:
    """The finding on a port name that the container does not declare."""
    name = action.probe
    return Finding(
        path=engine.at(name, action.action, "port"),
        message=f"the {name} asks port {action.fields['port']!r}, and no port of this container is called that",
        certainty="certain" if name == "startupProbe" and _runs_as_written(engine) else "likely",
        suggestions=(f"port: {engine.port}",) if _has_port(engine) else (),
    )


def _no_server(engine: Engine, action: ProbeAction, silent: str) -> Finding:
    """The finding on a probe of a vLLM that does not answer it; `silent`: why, for people."""
    return Finding(
        path=engine.at(action.probe, action.action, "port"),
        message=f"the {action.probe} asks port {action.fields.get('port')}, but {silent}",
        details=probe_timing.consequence(engine, action.probe),
        certainty=_certainty(engine, action.probe, action.port),
        suggestions=(f"no {action.probe}",),
        fix=_remove(engine, action.probe) if _is_alone(engine, action.port) else (),
    )


def _of_ports(engine: Engine, action: ProbeAction, port: int) -> Iterator[Finding]:
    """The finding on a probe of `port` that vLLM does not answer: it listens on another port, speaks another protocol,
    or listens on loopback. None if vLLM or another server of the script may answer."""
    name = action.probe
    where = engine.at(name, action.action, "port")
    host = engine.args.given.get("host")
    if port != engine.port:
        if not _by_another_server(engine, port):
            yield Finding(
                path=where,
                message=f"the {name} asks port {port}, vLLM listens on {engine.port}",
                details=probe_timing.consequence(engine, name),
                certainty=_certainty(engine, name, port),
                suggestions=(f"port: {engine.port}",),
                fix=_fix(engine, where) if _is_alone(engine, port) else (),
            )
    elif action.action == "grpc":
        yield Finding(
            path=engine.at(name, "grpc"),
            message=f"the {name} speaks gRPC to port {port}, where vLLM answers HTTP",
            details=probe_timing.consequence(engine, name),
            certainty=_certainty(engine, name, port) if probe_timing.is_vllm(engine) else "likely",
            suggestions=(f"httpGet: {{path: /health, port: {port}}}",),
        )
    elif host in _LOOPBACK and not engine.pod("hostNetwork"):
        yield Finding(
            path=where,
            message=f"the {name} asks the Pod's address, but with --host {host} vLLM listens on loopback only",
            details=probe_timing.consequence(engine, name),
            certainty=_certainty(engine, name, port),
            suggestions=(change.flags("--host 0.0.0.0"),),
        )


def _is_alone(engine: Engine, port: int | None) -> bool:
    """True if nothing but vLLM can listen on the port; None: a port without a number."""
    return ports.is_alone(engine) and not ports.others_may_listen(engine, port)


def _certainty(engine: Engine, name: str, port: int | None) -> Certainty:
    """The certainty that the probe fails and restarts the container, which a readiness probe never does."""
    return "certain" if name != "readinessProbe" and _is_alone(engine, port) else "likely"


_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def _has_port(engine: Engine) -> bool:
    """True if the port on which vLLM listens is known."""
    return engine.port is not None and ports.is_port(engine.port)


def _is_undeclared_name(engine: Engine, action: str, port: object) -> bool:
    """True if the probe's port is a name that this container's own ports lack.

    The kubelet looks the name up only there (kubernetes pkg/probe/util.go). If it is missing, a startup probe never
    passes, and the Pod is never ready (pkg/kubelet/prober/worker.go discards the result)."""
    if action == "grpc" or not isinstance(port, str) or not _PORT_NAME.fullmatch(port) or port.isdigit():
        return False
    return not engine.container.synthetic and ports.port_number(engine, port) is None


_PORT_NAME = regex(r"[a-z0-9-]{1,15}")
"""Any other name is a template's placeholder, or the API server rejects it."""


def _runs_as_written(engine: Engine) -> bool:
    """True if the container is in the object as it will run; an operator may add ports to what it makes."""
    return str(engine.workload.object.get("apiVersion")) in ("v1", "apps/v1", "batch/v1")


def _by_another_server(engine: Engine, port: int) -> bool:
    """True if the script starts several servers, and another one listens there: it has the port's number, or the port
    is vLLM's default."""
    if len(_SERVER.findall(engine.raw_command)) < 2:
        return False
    return port == DEFAULT_PORT or re.search(rf"(?<!\d){port}(?!\d)", engine.raw_command) is not None


DEFAULT_PORT = 8000
_SERVER = regex(r"vllm\s+serve\b|vllm\.entrypoints\.[\w.]*api_server")


def _silent(engine: Engine) -> str | None:
    """Why nothing answers HTTP here, for people; None if vLLM does, or that can't be known."""
    if engine.command.entry == "worker" or engine.args.open or not engine.command.complete:
        return None
    get = engine.args.get
    if get("headless"):
        return "a --headless node serves no port"
    if get("uds"):
        return "with --uds vLLM listens on no port"
    return SERVES_GRPC if get("grpc") else None


SERVES_GRPC = "with --grpc vLLM answers no HTTP"
"""Then a tcpSocket or grpc probe succeeds."""


def _remove(engine: Engine, name: str) -> tuple[Edit, ...]:
    """The edit that removes a probe that nothing can answer. None with --grpc, where the author should write a gRPC
    probe instead, if another process may answer, and for a probe that an operator adds."""
    if engine.args.get("grpc") or not ports.is_alone(engine) or not probe_timing.writable(engine, name):
        return ()
    return (Edit(engine.at(name), op="remove"),)


def _fix(engine: Engine, where: FieldPath) -> tuple[Edit, ...]:
    """The edit that sets the probe's port, at `where`, to vLLM's; none for a container that an operator makes."""
    return (Edit(where, engine.port),) if not engine.container.synthetic else ()
