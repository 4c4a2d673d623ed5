"""Helpers of the probe rules: the port of a probe, its time in seconds, and the probes that would be right."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from podfit.base import duration
from podfit.base.lazy import regex
from podfit.kube.patch import Edit
from podfit.kube.path import FieldPath, is_object, mappings
from podfit.kube.workload import Workload
from podfit.rules._flags import unsplit
from podfit.rules.engine import Engine
from podfit.rules.probes import _exec_probe
from podfit.vllm.release import is_official
from podfit.vllm.volumes import download_directory, mount_of_path

RUN_TO_COMPLETION_KINDS = ("Job", "CronJob", "JobSet", "RayJob")
"""Kinds whose Pods end: what asks a server there is in the same Pod or waits by itself."""
PERIOD = 10
PROBE_FIELDS = ("startupProbe", "livenessProbe", "readinessProbe")
ACTIONS = ("httpGet", "tcpSocket", "grpc")


class ProbeAction(NamedTuple):
    """The action of one of the container's probes."""

    probe: str
    """One of `PROBE_FIELDS`."""
    action: str
    """One of `ACTIONS`."""
    fields: Mapping[str, Any]
    port: int | None
    """None if it has no number."""


def setting(probe: Mapping[str, Any], name: str) -> int:
    """A probe's number of that name, or its default (API reference, Probe)."""
    value = probe.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else _DEFAULTS[name]


_DEFAULTS = {"initialDelaySeconds": 0, "periodSeconds": 10, "timeoutSeconds": 1, "failureThreshold": 3}
"""Kubernetes' values of fields that a probe does not set (API reference, Probe)."""


def window(probe: Mapping[str, Any]) -> int:
    """Seconds from the container's start until the kubelet kills it for this probe.

    initialDelaySeconds + periodSeconds × failureThreshold (kubernetes pkg/kubelet/prober/worker.go: the first probe
    runs after the delay, `failureThreshold` failures in a row kill).
    """
    return setting(probe, "initialDelaySeconds") + tolerance(probe)


def startup_window(engine: Engine) -> int | None:
    """Seconds that the startup probe allows; None without one that checks vLLM."""
    return engine.once(_startup_window)


def _startup_window(engine: Engine) -> int | None:
    """`startup_window`, computed."""
    entries = probe_of_vllm(engine, "startupProbe")
    return None if entries is None else window(entries)


def tolerance(probe: Mapping[str, Any]) -> int:
    """Seconds of silence that a probe forgives: periodSeconds × failureThreshold."""
    return setting(probe, "periodSeconds") * setting(probe, "failureThreshold")


def consequence(engine: Engine, name: str) -> tuple[str, ...]:
    """Sentences on the fate of a container whose probe of that name never succeeds, with the time."""
    entries = probe(engine, name) or {}
    if name == "readinessProbe":
        return ("a probe that never succeeds: the Pod is never ready, and no Service sends it requests",)
    since = "after each start"
    seconds = window(entries)
    if name == "livenessProbe" and probe(engine, "startupProbe"):
        since, seconds = "after each startup probe's success", tolerance(entries)
    return (
        f"a probe that never succeeds: the kubelet restarts the container {duration.exact(seconds)} {since}, for ever",
    )


def probe(engine: Engine, name: str) -> Mapping[str, Any] | None:
    """The container's probe of that name, None if absent."""
    value = engine.container.spec.get(name)
    return value if value and is_object(value) else None


LONG_DELAY = 60
"""Seconds of initialDelaySeconds from which on it stands in for a startup probe."""


def follows(engine: Engine) -> bool:
    """True if the Pod is a worker next to a leader that is spelled out (LeaderWorkerSet): requests go to the leader."""
    parts = engine.workload.path.parts
    if "workerTemplate" not in parts:
        return False
    group = FieldPath(parts[: parts.index("workerTemplate")])
    return isinstance((group / "leaderTemplate").get(engine.workload.object), Mapping)


def may_not_serve(engine: Engine) -> bool:
    """True if the container may serve nothing in another of its Pods, or on another path through its script.

    There a probe would restart it forever. If several Pods make up the engine, unknown arguments may be `--headless`.
    """
    return engine.command.may_follow or (engine.spans_pods and engine.args.open is not None)


def unreachable(engine: Engine) -> bool:
    """True if no probe of the kubelet can ask vLLM, which listens on a socket in the file system."""
    return bool(engine.args.get("uds"))


def probe_actions(engine: Engine) -> tuple[ProbeAction, ...]:
    """The actions of this container's probes. Left out are exec probes, which may check anything, and probes of another
    host."""
    return engine.once(_read_probe_actions)


def _read_probe_actions(engine: Engine) -> tuple[ProbeAction, ...]:
    """`probe_actions`, computed: without exec probes, and without probes of another host (`host`)."""
    actions = []
    for name in PROBE_FIELDS:
        written = probe(engine, name) or {}
        for action in ACTIONS:
            fields = written.get(action)
            if is_object(fields) and not fields.get("host"):
                port = port_number(engine, fields.get("port"))
                actions.append(ProbeAction(probe=name, action=action, fields=fields, port=port))
    return tuple(actions)


def probe_of_vllm(engine: Engine, name: str) -> Mapping[str, Any] | None:
    """The probe of that name if it asks vLLM's own port: by HTTP or TCP, or with curl or wget in the container. Also a
    probe of a port on which nothing listens (`presumed`). None for other probes."""
    entries = probe(engine, name)
    if entries is None or engine.port is None:
        return None
    if "exec" in entries and _exec_probe.port(entries) == engine.port:
        return entries
    for action in probe_actions(engine):
        if action.probe == name and (action.port == engine.port or misses(engine, action.port)):
            return entries
    return None


def misses(engine: Engine, port: int | None) -> bool:
    """True if vLLM listens on another port, and nothing else can listen on this one: the probe is meant for vLLM."""
    if port is None or engine.port is None or port == engine.port or not 0 < engine.port < 1 << 16:
        return False
    return alone(engine) and not others_listen(engine, port) and health(engine) is not None


def presumed(engine: Engine, name: str) -> str | None:
    """The rule whose finding hides one about this probe, because the probe asks a port on which nothing listens; else
    None."""
    if any(action.probe == name and misses(engine, action.port) for action in probe_actions(engine)):
        return "probe-wrong-port"
    return None


def port_number(engine: Engine, port: Any) -> int | None:
    """A probe's port, a name looked up in the container's ports. None if it has no number."""
    if isinstance(port, str) and not port.isdigit():
        named = (item for item in mappings(engine.field("ports")) if item.get("name") == port)
        port = next((item.get("containerPort") for item in named), None)
    if isinstance(port, str) and port.isascii() and port.isdigit() and len(port) < 6:
        port = int(port)
    return port if isinstance(port, int) and not isinstance(port, bool) else None


def alone(engine: Engine) -> bool:
    """True if vLLM is all that could listen: no other container in the Pod, no script that could start something
    else."""
    return len(engine.workload.containers) == 1 and not engine.command.shell


_INJECTED = regex(r"inject|sidecar|(^|\.)istio\.io/rev$|^dapr\.io/enabled$")
"""Labels and annotations that ask a webhook for another container: Istio's, Linkerd's, Vault's, Dapr's."""
_OF_A_MESH = (15000, 15020, 15021, 15090, 4191, 3500, 3501)
"""The ports of injected sidecars (Istio, Linkerd, Dapr). A namespace's label is enough to inject them."""
_SECOND_LISTENERS = ("debugpy", "ddtrace-run", "prometheus_client")
"""Programs that open a port of their own in vLLM's process."""


def others_listen(engine: Engine, port: int | None) -> bool:
    """True if something else than this container's vLLM may listen on the port: the node's programs, a hook's, an
    injected sidecar, a debugger."""
    if engine.pod("hostNetwork") is True or port in _OF_A_MESH or engine.field("lifecycle", "postStart"):
        return True
    metadata = engine.workload.metadata
    for part in ("labels", "annotations"):
        entries = metadata.get(part)
        for key, value in entries.items() if isinstance(entries, Mapping) else ():
            if _INJECTED.search(str(key)) and str(value).lower() not in ("false", "disabled", "no", ""):
                return True
    return any(word in engine.raw_command for word in _SECOND_LISTENERS)


def is_vllm(engine: Engine) -> bool:
    """True if the server is vLLM's own, not a wrapper's or a fork's that may have other routes."""
    image = engine.field("image")
    return isinstance(image, str) and is_official(image) and not engine.command.own_flags


def tls(engine: Engine) -> bool:
    """True if vLLM serves HTTPS: a certificate or its key is set."""
    return bool(engine.args.get("ssl_certfile") or engine.args.get("ssl_keyfile"))


def health(engine: Engine) -> dict[str, Any] | None:
    """An httpGet of /health that vLLM will answer; None if port, scheme or role is unknown.

    On another path through the script vLLM may listen on another port, or on none. Another container that declares the
    port may be the one that answers. The kubelet has no client certificate, if vLLM requires one.
    """
    if engine.port is None or not engine.served or engine.container.init or engine.args.get("ssl_cert_reqs"):
        return None
    if engine.command.branched or may_not_serve(engine):
        return None
    if any(_OF_A_PORT.search(word.text) for word in unsplit(engine).values()):
        return None  # the script sets a port that does not reach vLLM yet
    if any(dest in engine.args.unresolved for dest in ("ssl_certfile", "ssl_keyfile", "grpc", "uds")):
        return None
    if another_declares(engine, engine.port):
        return None
    scheme = {"scheme": "HTTPS"} if tls(engine) else {}
    return {"path": "/health", "port": _written_port(engine), **scheme}


def _written_port(engine: Engine) -> int | str | None:
    """vLLM's port as the author's other probes write it: its name in the container's ports, else the number."""
    named = (action.fields.get("port") for action in probe_actions(engine) if action.port == engine.port)
    return next((name for name in named if isinstance(name, str) and not name.isdigit()), engine.port)


_OF_A_PORT = regex(r"--(port|uds|grpc|headless|ssl[_-]\w+)\b")
"""Flags that say where, how and whether vLLM answers."""


def another_declares(engine: Engine, port: int) -> bool:
    """True if another container of the Pod declares the port: it may be the one that answers."""
    return any(path != engine.container.path for path in engine.workload.once(_declaring).get(port, ()))


def _declaring(workload: Workload) -> dict[int, list[FieldPath]]:
    """Port → the first two containers that declare it. An init container that is not a sidecar has ended by then."""
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


def threshold(seconds: float, period: int = PERIOD) -> int:
    """failureThreshold of a probe every `period` seconds that waits at least `seconds`, in steps of five minutes."""
    return math.ceil(math.ceil(seconds / 300) * 300 / period)


def enough(engine: Engine) -> float | None:
    """Seconds that a startup probe should wait: twice the high estimate. None if the start can't be estimated."""
    return 2 * engine.plan.startup.high if engine.plan.startup else None


def startup_probe(engine: Engine) -> dict[str, Any] | None:
    """A startup probe that waits long enough; None if the port can't be known or the time not be estimated."""
    http, seconds = health(engine), enough(engine)
    if http is None or seconds is None:
        return None
    granted = probe_of_vllm(engine, "livenessProbe")
    seconds = max(seconds, window(granted) if granted else 0)
    return {"httpGet": http, "periodSeconds": PERIOD, "failureThreshold": threshold(seconds)}


LONGEST_REPAIR = 3600
"""Seconds. A probe that waits longer is only suggested: so long, the start should be made faster."""


def startup_probe_fix(engine: Engine) -> tuple[Edit, ...]:
    """The edit that adds a startup probe; none without a probe to add, or if it would wait longer than
    `LONGEST_REPAIR`."""
    new = startup_probe(engine)
    if new is None or not writable(engine, "startupProbe") or window(new) > LONGEST_REPAIR:
        return ()
    return (Edit(engine.at("startupProbe"), new),)


def writable(engine: Engine, name: str) -> bool:
    """True if the field is in the object, or may."""
    return not engine.container.synthetic or name in engine.container.places


def window_fix(engine: Engine) -> tuple[Edit, ...]:
    """The edit of failureThreshold with which the startup probe waits long enough; the rest of the probe stays. None
    without a probe or an estimate, for an engine over several Pods, and above `LONGEST_REPAIR`."""
    startup, seconds = probe(engine, "startupProbe"), enough(engine)
    if startup is None or seconds is None or not writable(engine, "startupProbe") or engine.spans_pods:
        return ()
    count = threshold(seconds - setting(startup, "initialDelaySeconds"), setting(startup, "periodSeconds"))
    if count * setting(startup, "periodSeconds") > LONGEST_REPAIR:
        return ()
    return (Edit(engine.at("startupProbe", "failureThreshold"), max(1, count)),)


def advice(engine: Engine) -> tuple[str, ...]:
    """The startup probe to add, in words; none if nothing may be there to answer it."""
    return () if may_not_serve(engine) else in_words(engine)


def in_words(engine: Engine) -> tuple[str, ...]:
    """The startup probe that waits long enough, in words; empty if the start can't be estimated."""
    seconds = enough(engine)
    if seconds is None:
        return ()
    return (f"a startupProbe on /health with periodSeconds {PERIOD} and failureThreshold {threshold(seconds)}",)


def estimate(engine: Engine) -> str:
    """The time of a start, for people: "vLLM answers after about 8 min (2–44 min)"; empty if it can't be estimated."""
    startup = engine.plan.startup
    if startup is None:
        return ""
    return f"vLLM answers after about {duration.estimate(startup.likely, startup.low, startup.high)}"


def likely_restart(engine: Engine) -> float | None:
    """Likely seconds of a start after the kubelet has restarted the container; None if they can't be estimated.

    A volume keeps the files that the start before it has downloaded, an emptyDir too."""
    startup = engine.plan.startup
    if startup is None:
        return None
    mount = mount_of_path(engine.mounts, download_directory(engine.args, engine.command.env))
    keeps = mount is not None and not mount.read_only
    return startup.without("download").likely if keeps else startup.likely


def shorter_restart(engine: Engine, seconds: float) -> tuple[str, ...]:
    """A sentence on the restarted container, if it answers within `seconds` and the first start does not."""
    startup, restart = engine.plan.startup, likely_restart(engine)
    if startup is None or restart is None or not restart <= seconds < startup.likely:
        return ()
    return (f"once the files are in the volume, vLLM answers after about {duration.human(restart)}",)


def phases(engine: Engine) -> tuple[str, ...]:
    """The phases of the start in one line, and a second line if the size of the weights is uncertain."""
    startup, doubt = engine.plan.startup, engine.weights_doubtful
    if startup is None:
        return ()
    parts = ", ".join(f"{name} {duration.human(seconds)}" for name, seconds in startup.parts)
    return (parts, f"how large the weights are is {doubt}") if doubt else (parts,)
