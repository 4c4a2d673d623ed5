from __future__ import annotations

import re
from collections.abc import Iterator

from podfit.base.lazy import regex
from podfit.kube.patch import Edit
from podfit.kube.path import FieldPath
from podfit.rules import probe_timing
from podfit.rules.engine import Engine
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
        """Certain if vLLM is alone in its Pod and nothing else could listen."""
        if engine.container.init:
            return
        silent = _silent(engine)
        for name, action, item, port in probe_timing.probe_actions(engine):
            where = engine.at(name, action, "port")
            if _unnamed(engine, action, item.get("port")):
                yield Finding(
                    path=where,
                    message=f"the {name} asks port {item['port']!r}, and no port of this container is called that",
                    certainty="certain" if name == "startupProbe" and _runs_as_written(engine) else "likely",
                    suggestions=(f"port: {engine.port}",) if _usual(engine) else (),
                )
            elif port is not None and (silent or port != engine.port) and probe_timing.another_declares(engine, port):
                continue
            elif silent is not None and not (action != "httpGet" and "grpc" in silent):
                yield Finding(
                    path=where,
                    message=f"the {name} asks port {item.get('port')}, but {silent}",
                    details=probe_timing.consequence(engine, name),
                    certainty=_certainty(engine, name, port),
                    suggestions=(f"no {name}",),
                    fix=_remove(engine, name) if _is_alone(engine, port) else (),
                )
            elif not _usual(engine) or port is None:
                continue
            elif port != engine.port:
                if not _by_another_server(engine, port):
                    yield Finding(
                        path=where,
                        message=f"the {name} asks port {port}, vLLM listens on {engine.port}",
                        details=probe_timing.consequence(engine, name),
                        certainty=_certainty(engine, name, port),
                        suggestions=(f"port: {engine.port}",),
                        fix=_fix(engine, where) if _is_alone(engine, port) else (),
                    )
            elif action == "grpc":
                yield Finding(
                    path=engine.at(name, "grpc"),
                    message=f"the {name} speaks gRPC to port {port}, where vLLM answers HTTP",
                    details=probe_timing.consequence(engine, name),
                    certainty=_certainty(engine, name, port) if probe_timing.is_vllm(engine) else "likely",
                    suggestions=(f"httpGet: {{path: /health, port: {port}}}",),
                )
            elif (host := engine.args.given.get("host")) in _LOOPBACK and not engine.pod("hostNetwork"):
                yield Finding(
                    path=where,
                    message=f"the {name} asks the Pod's address, but with --host {host} vLLM listens on loopback only",
                    details=probe_timing.consequence(engine, name),
                    certainty=_certainty(engine, name, port),
                    suggestions=(change.flags("--host 0.0.0.0"),),
                )


def _is_alone(engine: Engine, port: int | None) -> bool:
    return probe_timing.alone(engine) and not probe_timing.others_listen(engine, port)


def _certainty(engine: Engine, name: str, port: int | None) -> Certainty:
    return "certain" if name != "readinessProbe" and _is_alone(engine, port) else "likely"


_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def _usual(engine: Engine) -> bool:
    """True if vLLM's port is known, and a port (0 is one of the kernel's choice)."""
    return engine.port is not None and 0 < engine.port < 1 << 16


def _unnamed(engine: Engine, action: str, port: object) -> bool:
    """True if the probe's port is a name that this container's own ports lack.

    The kubelet looks the name up only there (kubernetes pkg/probe/util.go). If it is missing, a startup probe never
    passes, and the Pod is never ready (pkg/kubelet/prober/worker.go discards the result)."""
    if action == "grpc" or not isinstance(port, str) or not _PORT_NAME.fullmatch(port) or port.isdigit():
        return False
    return not engine.container.synthetic and probe_timing.port_number(engine, port) is None


_PORT_NAME = regex(r"[a-z0-9-]{1,15}")
"""Any other name is a template's placeholder, or the API server rejects it."""


def _runs_as_written(engine: Engine) -> bool:
    """True if the container is in the object as it will run; an operator may add ports to what it makes."""
    return str(engine.workload.object.get("apiVersion")) in ("v1", "apps/v1", "batch/v1")


def _by_another_server(engine: Engine, port: int) -> bool:
    """True if the script starts several servers, and another one listens there."""
    if len(_SERVER.findall(engine.raw_command)) < 2:
        return False
    return port == 8000 or re.search(rf"(?<!\d){port}(?!\d)", engine.raw_command) is not None


_SERVER = regex(r"vllm\s+serve\b|vllm\.entrypoints\.[\w.]*api_server")


def _silent(engine: Engine) -> str | None:
    """Why nothing answers HTTP here, None if vLLM does or that can't be known."""
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
    possible = engine.args.get("grpc") or not probe_timing.alone(engine) or not probe_timing.writable(engine, name)
    return () if possible else (Edit(engine.at(name), op="remove"),)


def _fix(engine: Engine, where: FieldPath) -> tuple[Edit, ...]:
    return (Edit(where, engine.port),) if not engine.container.synthetic else ()
