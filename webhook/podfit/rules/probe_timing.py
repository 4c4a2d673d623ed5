"""Helpers of the probe rules: the probes of a container, their time in seconds, and the probes that would be right."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from podfit.base import duration
from podfit.base.lazy import regex
from podfit.kube.patch import Edit
from podfit.kube.path import FieldPath, is_object
from podfit.rules import ports
from podfit.rules._flags import unsplit
from podfit.rules.engine import Engine
from podfit.rules.probes import _exec_probe
from podfit.vllm.memory.ledger import Startup
from podfit.vllm.release import is_official
from podfit.vllm.volumes import download_directory, mount_of_path

RUN_TO_COMPLETION_KINDS = ("Job", "CronJob", "JobSet", "RayJob")
"""Kinds whose Pods end: what asks a server there is in the same Pod or waits by itself."""
PERIOD = 10
"""Seconds between the suggested probes, Kubernetes' default of periodSeconds."""
PROBE_FIELDS = ("startupProbe", "livenessProbe", "readinessProbe")
ACTIONS = ("httpGet", "tcpSocket", "grpc")


class ProbeAction(NamedTuple):
    """The action of one of the container's probes."""

    probe: str
    """One of `PROBE_FIELDS`."""
    action: str
    """One of `ACTIONS`."""
    fields: Mapping[str, Any]
    """The action's fields, such as `path` and `port` of an httpGet."""
    port: int | None
    """The port's number; None if it has none, such as a name that the container does not declare."""


def setting(probe: Mapping[str, Any], name: str) -> int:
    """A probe's field of that name, one of `_DEFAULTS`: its number, or the default if it is not a number above 0."""
    value = probe.get(name)
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    return _DEFAULTS[name]


_DEFAULTS = {"initialDelaySeconds": 0, "periodSeconds": 10, "timeoutSeconds": 1, "failureThreshold": 3}
"""Kubernetes' values of fields that a probe does not set (API reference, Probe)."""


def window(probe: Mapping[str, Any]) -> int:
    """Seconds from the container's start until the kubelet kills it for this probe.

    initialDelaySeconds + periodSeconds × failureThreshold (kubernetes pkg/kubelet/prober/worker.go: the first probe
    runs after the delay, `failureThreshold` failures in a row kill).
    """
    return setting(probe, "initialDelaySeconds") + tolerance(probe)


def startup_window(engine: Engine) -> int | None:
    """Seconds from the container's start until the kubelet kills it for its startup probe; None without one that checks
    vLLM."""
    return engine.once(_startup_window)


def _startup_window(engine: Engine) -> int | None:
    """`startup_window`, computed."""
    startup = probe_of_vllm(engine, "startupProbe")
    return None if startup is None else window(startup)


def tolerance(probe: Mapping[str, Any]) -> int:
    """Seconds of silence that a probe forgives: periodSeconds × failureThreshold."""
    return setting(probe, "periodSeconds") * setting(probe, "failureThreshold")


def consequence(engine: Engine, name: str) -> tuple[str, ...]:
    """A detail: the fate of a container whose probe of that name, one of `PROBE_FIELDS`, never succeeds."""
    if name == "readinessProbe":
        return ("a probe that never succeeds: the Pod is never ready, and no Service sends it requests",)
    fields = probe(engine, name) or {}
    if name == "livenessProbe" and probe(engine, "startupProbe"):
        # It begins when the startup probe has succeeded. initialDelaySeconds is over by then, mostly.
        since, seconds = "after each startup probe's success", tolerance(fields)
    else:
        since, seconds = "after each start", window(fields)
    return (
        f"a probe that never succeeds: the kubelet restarts the container {duration.exact(seconds)} {since}, for ever",
    )


def probe(engine: Engine, name: str) -> Mapping[str, Any] | None:
    """The container's probe of that name, None if absent."""
    value = engine.container.spec.get(name)
    return value if value and is_object(value) else None


LONG_DELAY = 60
"""Seconds of a liveness probe's initialDelaySeconds from which on it replaces a startup probe (podfit's choice)."""


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
    """The httpGet, tcpSocket and grpc actions of this container's probes, in the order of `PROBE_FIELDS`.

    Left out are exec probes, which may check anything, and probes of another host (`host`)."""
    return engine.once(_read_probe_actions)


def _read_probe_actions(engine: Engine) -> tuple[ProbeAction, ...]:
    """`probe_actions`, computed."""
    actions = []
    for name in PROBE_FIELDS:
        obj = probe(engine, name) or {}
        for action in ACTIONS:
            fields = obj.get(action)
            if is_object(fields) and not fields.get("host"):
                port = ports.port_number(engine, fields.get("port"))
                actions.append(ProbeAction(probe=name, action=action, fields=fields, port=port))
    return tuple(actions)


def probe_of_vllm(engine: Engine, name: str) -> Mapping[str, Any] | None:
    """The probe of that name if it asks vLLM's own port: by HTTP, TCP or gRPC, or with curl or wget in the container.
    Also a probe of a port on which nothing listens (`misses`). None for other probes, and if vLLM's port is unknown."""
    obj = probe(engine, name)
    if obj is None or engine.port is None:
        return None
    if "exec" in obj and _exec_probe.port(obj) == engine.port:
        return obj
    for action in probe_actions(engine):
        if action.probe == name and (action.port == engine.port or misses(engine, action.port)):
            return obj
    return None


def misses(engine: Engine, port: int | None) -> bool:
    """True if vLLM listens on another port, and nothing else can listen on this one: the probe is meant for vLLM. False
    if one of the ports is unknown."""
    if port is None or engine.port is None or port == engine.port or not ports.is_port(engine.port):
        return False
    return ports.is_alone(engine) and not ports.others_may_listen(engine, port) and health(engine) is not None


def presumed(engine: Engine, name: str) -> str | None:
    """The rule whose finding hides one about this probe, because the probe asks a port on which nothing listens; else
    None."""
    if any(action.probe == name and misses(engine, action.port) for action in probe_actions(engine)):
        return "probe-wrong-port"
    return None


def is_vllm(engine: Engine) -> bool:
    """True if the server is that of vLLM's own image, not a wrapper's or a fork's, which may have other routes."""
    image = engine.field("image")
    return isinstance(image, str) and is_official(image) and not engine.command.own_flags


def tls(engine: Engine) -> bool:
    """True if vLLM serves HTTPS: a certificate or its key is set."""
    return bool(engine.args.get("ssl_certfile") or engine.args.get("ssl_keyfile"))


def health(engine: Engine) -> dict[str, Any] | None:
    """The `httpGet` of a probe that vLLM will answer, on /health; None if it is not certain that vLLM answers it."""
    if engine.port is None or not engine.served or engine.container.init:
        return None
    if engine.args.get("ssl_cert_reqs"):
        return None  # vLLM may require a client certificate, which the kubelet does not have
    if engine.command.branched or may_not_serve(engine):
        return None  # on another path through the script vLLM may listen on another port, or on none
    if any(_ADDRESS_FLAGS.search(word.text) for word in unsplit(engine).values()):
        return None  # the script sets a port that does not reach vLLM yet
    if any(dest in engine.args.unresolved for dest in ("ssl_certfile", "ssl_keyfile", "grpc", "uds")):
        return None
    if ports.another_declares(engine, engine.port):
        return None  # that container may be the one that answers
    scheme = {"scheme": "HTTPS"} if tls(engine) else {}
    return {"path": "/health", "port": _written_port(engine), **scheme}


def _written_port(engine: Engine) -> int | str | None:
    """vLLM's port as the author's other probes write it: its name in the container's ports, else the number."""
    for action in probe_actions(engine):
        port = action.fields.get("port")
        if action.port == engine.port and isinstance(port, str) and not port.isdigit():
            return port
    return engine.port


_ADDRESS_FLAGS = regex(r"--(port|uds|grpc|headless|ssl[_-]\w+)\b")
"""Flags that decide where, how and whether vLLM answers."""


STEP = 300
"""Seconds of which a suggested time is a multiple: five minutes, a number that people write."""
TIMES_HIGH = 2
"""A suggested time is so many times the high estimate of the start: podfit's choice, for slower hubs and disks."""


def threshold(seconds: float, period: int = PERIOD) -> int:
    """failureThreshold of a probe every `period` seconds that waits at least `seconds`, rounded up to `STEP`."""
    return math.ceil(_in_steps(seconds) / period)


def _in_steps(seconds: float) -> int:
    """The seconds, rounded up to a multiple of `STEP`."""
    return math.ceil(seconds / STEP) * STEP


def ample(startup: Startup) -> int:
    """Seconds to suggest for a limit on the start: `TIMES_HIGH` times the high estimate, rounded up to `STEP`."""
    return _in_steps(TIMES_HIGH * startup.high)


def enough(engine: Engine) -> float | None:
    """Seconds that a startup probe should wait, not rounded; None if the start can't be estimated."""
    return TIMES_HIGH * engine.plan.startup.high if engine.plan.startup else None


def startup_probe(engine: Engine) -> dict[str, Any] | None:
    """The startup probe to add: it waits `enough`, and no less than the liveness probe does now. None if vLLM's answer
    is not certain (`health`) or the start can't be estimated."""
    http, seconds = health(engine), enough(engine)
    if http is None or seconds is None:
        return None
    liveness = probe_of_vllm(engine, "livenessProbe")
    present = window(liveness) if liveness else 0
    return {"httpGet": http, "periodSeconds": PERIOD, "failureThreshold": threshold(max(seconds, present))}


LONGEST_REPAIR = 3600
"""Seconds. A probe that waits longer is suggested, but no fix adds it: a start of an hour should be made faster
instead (podfit's choice)."""


def startup_probe_fix(engine: Engine) -> tuple[Edit, ...]:
    """The edit that adds a startup probe; none without a probe to add, or if it would wait longer than
    `LONGEST_REPAIR`."""
    new = startup_probe(engine)
    if new is None or not writable(engine, "startupProbe") or window(new) > LONGEST_REPAIR:
        return ()
    return (Edit(engine.at("startupProbe"), new),)


def writable(engine: Engine, name: str) -> bool:
    """True if an edit may write the container's field `name`: it is in the object, or the container is. False for a
    field that an operator adds."""
    return not engine.container.synthetic or name in engine.container.places


def window_fix(engine: Engine) -> tuple[Edit, ...]:
    """The edit of failureThreshold with which the startup probe waits long enough; the rest of the probe stays. None
    without a probe or an estimate, for an engine over several Pods, and above `LONGEST_REPAIR`."""
    startup, seconds = probe(engine, "startupProbe"), enough(engine)
    if startup is None or seconds is None or not writable(engine, "startupProbe") or engine.spans_pods:
        return ()
    period = setting(startup, "periodSeconds")
    failures = threshold(seconds - setting(startup, "initialDelaySeconds"), period)
    if failures * period > LONGEST_REPAIR:
        return ()
    return (Edit(engine.at("startupProbe", "failureThreshold"), max(1, failures)),)


def advice(engine: Engine) -> tuple[str, ...]:
    """The startup probe to add, in words; empty if vLLM may not serve here, or the start can't be estimated."""
    return () if may_not_serve(engine) else in_words(engine)


def in_words(engine: Engine) -> tuple[str, ...]:
    """The startup probe that waits `enough`, in words; empty if the start can't be estimated."""
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

    If a volume is mounted at the download directory, an emptyDir too, it keeps the files of the first start, and the
    download is left out."""
    startup = engine.plan.startup
    if startup is None:
        return None
    mount = mount_of_path(engine.mounts, download_directory(engine.args, engine.command.env))
    keeps_files = mount is not None and not mount.read_only
    return startup.without("download").likely if keeps_files else startup.likely


def shorter_restart(engine: Engine, seconds: float) -> tuple[str, ...]:
    """A detail: the likely time of a restart. Empty unless the restarted container answers within `seconds` and the
    first start does not."""
    startup, restart = engine.plan.startup, likely_restart(engine)
    if startup is None or restart is None or not restart <= seconds < startup.likely:
        return ()
    return (f"once the files are in the volume, vLLM answers after about {duration.human(restart)}",)


def phases(engine: Engine) -> tuple[str, ...]:
    """Details: the phases of the start with their times, in one line; a second line if the size of the weights is
    uncertain. Empty if the start can't be estimated."""
    startup, doubt = engine.plan.startup, engine.weights_doubtful
    if startup is None:
        return ()
    parts = ", ".join(f"{name} {duration.human(seconds)}" for name, seconds in startup.parts)
    return (parts, f"how large the weights are is {doubt}") if doubt else (parts,)
