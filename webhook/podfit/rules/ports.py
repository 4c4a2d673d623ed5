"""Ports of a Pod: the number of a port, and the processes that may listen on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podfit.base.lazy import regex
from podfit.kube.path import FieldPath, mappings
from podfit.kube.workload import Workload
from podfit.rules.engine import Engine


def port_number(engine: Engine, port: Any) -> int | None:
    """The number of a probe's port: a number, its digits, or the name of one of the container's ports. None for a name
    that the container does not declare, and for other values."""
    if isinstance(port, str) and not port.isdigit():
        numbers = [item.get("containerPort") for item in mappings(engine.field("ports")) if item.get("name") == port]
        port = numbers[0] if numbers else None
    if isinstance(port, str) and port.isascii() and port.isdigit() and len(port) <= MAX_PORT_DIGITS:
        port = int(port)
    return port if isinstance(port, int) and not isinstance(port, bool) else None


MAX_PORT_DIGITS = 5


def is_alone(engine: Engine) -> bool:
    """True if vLLM is all in the Pod that could listen: no other container, and no script that could start another
    program."""
    return len(engine.workload.containers) == 1 and not engine.command.shell


_INJECTED = regex(r"inject|sidecar|(^|\.)istio\.io/rev$|^dapr\.io/enabled$")
"""Labels and annotations that ask a webhook for another container: Istio's, Linkerd's, Vault's, Dapr's."""
_OF_A_MESH = (15000, 15020, 15021, 15090, 4191, 3500, 3501)
"""The ports of injected sidecars (Istio, Linkerd, Dapr). A namespace's label is enough to inject them."""
_SECOND_LISTENERS = ("debugpy", "ddtrace-run", "prometheus_client")
"""Programs that open a port of their own in vLLM's process."""


def others_may_listen(engine: Engine, port: int | None) -> bool:
    """True if something that the manifest does not show may listen on the port: the node's programs, a hook's, an
    injected sidecar, a debugger. None: a port without a number."""
    if engine.pod("hostNetwork") is True or port in _OF_A_MESH or engine.field("lifecycle", "postStart"):
        return True
    if _gets_a_sidecar(engine.workload):
        return True
    return any(word in engine.raw_command for word in _SECOND_LISTENERS)


def _gets_a_sidecar(workload: Workload) -> bool:
    """True if a label or an annotation of the Pod asks a webhook for another container."""
    for part in ("labels", "annotations"):
        entries = workload.metadata.get(part)
        for key, value in entries.items() if isinstance(entries, Mapping) else ():
            is_off = str(value).lower() in ("false", "disabled", "no", "")
            if _INJECTED.search(str(key)) and not is_off:
                return True
    return False


def another_declares(engine: Engine, port: int) -> bool:
    """True if another container of the Pod declares the port: it may be the one that answers."""
    return any(path != engine.container.path for path in engine.workload.once(_declaring_containers).get(port, ()))


def _declaring_containers(workload: Workload) -> dict[int, list[FieldPath]]:
    """Port → the paths of the first two containers that declare it: of two, one is not the engine's own. An init
    container that is not a sidecar has ended when probes begin, and is left out."""
    entries: dict[int, list[FieldPath]] = {}
    for container in workload.containers:
        if container.init and container.spec.get("restartPolicy") != "Always":
            continue
        for port in _declared_ports(container.spec):
            if len(paths := entries.setdefault(port, [])) < 2:
                paths.append(container.path)
    return entries


def _declared_ports(container: Mapping[str, Any]) -> set[int]:
    """The numbers in the container's `ports`."""
    ports = (item.get("containerPort") for item in mappings(container.get("ports")))
    return {port for port in ports if isinstance(port, int)}


def is_port(number: int) -> bool:
    """True for a TCP port; 0 lets the kernel choose one."""
    return 0 < number < 1 << 16
