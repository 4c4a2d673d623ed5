"""Expand a container's text as the kubelet does before it starts: `env`, `envFrom`, `$(VAR)`, mounted ConfigMaps.

Kubernetes v1.34: pkg/kubelet/kubelet_pods.go (makeEnvironmentVariables) and
third_party/forked/golang/expansion/expand.go.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterator, Mapping
from typing import Any

from podfit.base.lazy import regex
from podfit.kube.manifest.parameters import variable
from podfit.kube.path import FieldPath, mapping
from podfit.kube.workload import JSON, Container, Workload
from podfit.vllm.command.word import UNDEFINED, Piece, Value, known, literal, mystery

MAX_EXPANDED_LENGTH = 1 << 17
"""Length in bytes, with the NUL at its end, at which Linux rejects an argument or a variable (MAX_ARG_STRLEN: 32 pages,
of 4 KiB except on some Arm servers). The references in one text are expanded only up to this length: a variable that
doubles itself must not fill podfit's memory."""
_REFERENCE, _BEGINNING = 512, 64
"""The cost of a reference, in characters of the text that is expanded in a container (64 times MAX_EXPANDED_LENGTH), so
that 16,384 references in a container are read. The second number is how many characters are kept of a text that is not
expanded."""
_PIECE = 256
"""The cost of a piece of a value, in the same characters: many short pieces must not fill podfit's memory either."""
_LONGEST_NAME = 80
"""Characters of a variable's name in a reason, a choice for one line of text."""
TOO_LONG = "the text grows too long"
"""Why a text is not known: no process could receive it."""
TOO_MUCH = "too much text is expanded in this container"

_LWS = ("LWS_LEADER_ADDRESS", "LWS_GROUP_SIZE", "LWS_WORKER_INDEX")
_RAY = ("KUBERAY_GEN_RAY_START_CMD", "RAY_ADDRESS", "RAY_IP", "FQ_RAY_IP", "RAY_PORT", "RAY_CLUSTER_NAME")
_STORM = ("STORM_SERVICE_NAME", "ROLESET_NAME", "ROLESET_INDEX", "ROLE_NAME", "ROLE_REPLICA_INDEX", "POD_GROUP_INDEX")
_GROVE = (  # grove operator/internal/constants/constants.go
    "GROVE_PCS_NAME", "GROVE_PCS_INDEX", "GROVE_PCLQ_NAME", "GROVE_PCLQ_POD_INDEX", "GROVE_PCSG_NAME",
    "GROVE_PCSG_INDEX", "GROVE_PCSG_POD_INDEX", "GROVE_PCSG_TEMPLATE_NUM_PODS", "GROVE_HEADLESS_SERVICE",
)  # fmt: skip
_INJECTED: Mapping[str, tuple[str, ...]] = {
    "ModelServing": ("ENTRY_ADDRESS", "WORKER_INDEX", "GROUP_SIZE"),  # kthena pkg/apis/workload/v1alpha1
    "LeaderWorkerSet": _LWS,  # lws docs/reference/labels-annotations-and-environment-variables
    "LLMInferenceService": _LWS,  # KServe makes LeaderWorkerSets for it if it spans several Pods
    "LLMInferenceServiceConfig": _LWS,
    "RayCluster": _RAY,  # kuberay ray-operator/controllers/ray/utils/constant.go
    "RayService": _RAY,
    "RayJob": _RAY,
    "RayClusterFleet": _RAY,
    "StormService": _STORM,  # aibrix pkg/constants/model.go
    "RoleSet": _STORM,
    "PodCliqueSet": _GROVE,
    "Job": ("JOB_COMPLETION_INDEX", "VC_TASK_INDEX", "VK_TASK_INDEX"),  # completionMode: Indexed; Volcano's plug-in env
    "CronJob": ("JOB_COMPLETION_INDEX",),
    "JobSet": ("JOB_COMPLETION_INDEX",),
}
"""Kind → variables that its operator sets in every container."""
_RUNTIME = ("HOME", "HOSTNAME", "PATH", "PWD", "USER", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT")
"""Variables that every container has: from the runtime, the image or the kubelet."""
_SET_AT_START = {name: mystery(f"${name}", f"{name} is set when the container starts") for name in _RUNTIME}


class Environment(Mapping[str, Value]):
    """A container's environment variables, by name. Most are plain texts whose origin no rule needs, so each value is
    built only when it is first read."""

    def __init__(self, place: FieldPath) -> None:
        """`place`: the field of the list `env`."""
        self.rest: str | None = None
        """Why there may be more variables than these (an `envFrom` that podfit can't read), else None."""
        self.later: set[str] | None = None
        """Variables of `env` below the present one; None until one refers to another."""
        self.grown = 0
        """Number of characters that have been expanded so far."""
        self.known: dict[str, str] = {}
        """The variables with a known value."""
        self.held: dict[str, Value | int] = dict(_SET_AT_START)
        """Name → value; for a plain text, which is in `known`, its index in `env`."""
        self._place = place

    @property
    def full(self) -> bool:
        """True if the limit is reached, so that no more text is expanded."""
        return self.grown > 64 * MAX_EXPANDED_LENGTH

    def set(self, name: str, value: Value) -> None:
        """Set a variable, regardless of an earlier value."""
        self.held[name] = value
        text = known(value)
        if text is None:
            self.known.pop(name, None)
        else:
            self.known[name] = text

    def __getitem__(self, name: str) -> Value:
        value = self.held[name]
        if isinstance(value, int):
            value = self.held[name] = literal(self.known[name], self._place.join(value, "value"))
        return value

    def __contains__(self, name: object) -> bool:
        return name in self.held

    def __iter__(self) -> Iterator[str]:
        return iter(self.held)

    def __len__(self) -> int:
        return len(self.held)


def items(value: Any) -> list[Any]:
    """A list; a single string or object becomes a list of one, any other value an empty list."""
    if isinstance(value, list):
        return value
    if isinstance(value, tuple):
        return list(value)
    return [value] if isinstance(value, str | dict) else []


def string(value: Any) -> str:
    """A scalar as its author would write it in YAML; the API server accepts only strings, but files have any type."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return str(value) if type(value) is int else json.dumps(value, default=str)


def environment(workload: Workload, container: Container, config_maps: Mapping[str, JSON]) -> Environment:
    """The variables in Kubernetes' order: the operator's, `envFrom`, `env`; later ones may refer to earlier ones."""
    place = container.place("env")
    env = Environment(place)
    for name, value in _injected(workload):
        if name not in _SET_AT_START:
            env.set(name, value)
    for index, source in enumerate(items(container.spec.get("envFrom"))):
        _env_from(env, mapping(source), container.place("envFrom") / index, config_maps)
    entries = items(container.spec.get("env"))
    for index, entry in enumerate(entries):
        if not isinstance(entry, dict):
            entry = mapping(entry)
        name = entry.get("name")
        if not isinstance(name, str) or not name:
            continue
        if env.later is not None:
            env.later.discard(name)
        written = entry.get("value")
        if entry.get("valueFrom"):
            referenced = _value_from(name, mapping(entry["valueFrom"]), workload, place / index, config_maps)
            if referenced is not None:
                env.set(name, referenced)
        elif isinstance(written, str) and "$" not in written:  # the usual case
            env.held[name], env.known[name] = index, written
        else:
            if env.later is None:
                env.later = {string(mapping(below).get("name")) for below in entries[index + 1 :]}
            text = string(written)
            if env.full:
                env.set(name, mystery(text[:_BEGINNING], TOO_MUCH, place))
            else:
                env.set(name, expanded(text, env, place.join(index, "value")))
    return env


def _injected(workload: Workload) -> Iterator[tuple[str, Value]]:
    """(name, value) of each variable that an operator sets, and of each template parameter without a value."""
    kind = workload.kind
    for name in _names_injected(workload, kind):
        yield name, mystery(f"${name}", f"{name} is set by the {kind} operator")
    for parameter in workload.unfilled:
        written = variable(parameter)
        yield written, mystery(f"${written}", f"the parameter {parameter} has no value here")
    if kind == "LeaderWorkerSet":
        template = mapping(mapping(workload.object.get("spec")).get("leaderWorkerTemplate"))
        size = template.get("size", 1)
        if isinstance(size, int):
            yield "LWS_GROUP_SIZE", literal(str(size))


def _names_injected(workload: Workload, kind: str) -> tuple[str, ...]:
    """Names of the variables that LeaderWorkerSet, KubeRay or another operator adds to the workload's containers."""
    labels = mapping(workload.metadata.get("labels"))
    if "leaderworkerset.sigs.k8s.io/name" in labels:
        return _LWS
    if "ray.io/cluster" in labels:
        return _RAY
    return _INJECTED.get(kind, ())


def _env_from(env: Environment, source: JSON, path: FieldPath, config_maps: Mapping[str, JSON]) -> None:
    """Add an `envFrom` entry to `env`: a known ConfigMap's variables, else the reason why any variable may be set."""
    prefix = string(source.get("prefix"))
    ref = mapping(source.get("configMapRef"))
    name = string(ref.get("name"))
    if name and name in config_maps:
        for key, value in mapping(mapping(config_maps[name]).get("data")).items():
            env.set(prefix + str(key), literal(string(value), path))
    elif name:
        env.rest = f"envFrom ConfigMap {name}"
    elif source.get("secretRef"):
        env.rest = env.rest or f"envFrom Secret {string(mapping(source['secretRef']).get('name'))}"


def _value_from(
    name: str, source: JSON, workload: Workload, path: FieldPath, config_maps: Mapping[str, JSON]
) -> Value | None:
    """The value of one `valueFrom`; None if the variable stays unset."""
    if ref := mapping(source.get("configMapKeyRef")):
        key, config_map = string(ref.get("key")), string(ref.get("name"))
        why = f"{name} comes from key {key} of ConfigMap {config_map}"
        if config_map not in config_maps:
            return mystery(f"$({name})", why, path)
        data = mapping(mapping(config_maps[config_map]).get("data"))
        if key in data:
            return literal(string(data[key]), path)
        return None if ref.get("optional") else mystery(f"$({name})", why, path)
    if ref := mapping(source.get("secretKeyRef")):
        return mystery(f"$({name})", f"{name} comes from Secret {string(ref.get('name'))}", path)
    if ref := mapping(source.get("fieldRef")):
        field_path = string(ref.get("fieldPath"))
        for kind in ("labels", "annotations"):
            start = f"metadata.{kind}['"
            held = mapping(workload.metadata.get(kind))
            key = field_path.removeprefix(start).removesuffix("']")
            if field_path.startswith(start) and key in held:
                return literal(string(held[key]), path)
        if field_path == "metadata.namespace" and workload.namespace:
            return literal(workload.namespace, path)
        return mystery(f"$({name})", f"{name} comes from the Pod's {field_path}", path)
    return mystery(f"$({name})", f"{name} comes from {next(iter(source), 'nowhere')}", path)


_UNEXPANDED = regex(r"(?:[^$]+|\$\$|\$(?![$(]))++")
"""A text without a reference. Both dollar signs of `$$` are in it."""


def expanded(text: str, env: Environment, path: FieldPath | None = None) -> Value:
    """`$(VAR)` as Kubernetes expands it in `command`, `args` and `env[].value`; `$$` is an escaped `$`. A reference to
    a variable that is not in the container's env stays as it is, and is unknown: an operator or another webhook may
    still add the variable."""
    if "$" not in text:
        return literal(text, path)
    env.grown += _REFERENCE * text.count("$")
    if env.full:
        return mystery(_beginning(text, env), TOO_MUCH, path)
    pieces: list[Piece] = []
    plain: list[str] = []  # the known text of the next piece
    at = length = 0  # `length`: characters of the references' values
    size = 0  # the same with the cost of their pieces
    last = text.rfind(")")
    while at < len(text):
        run = _UNEXPANDED.match(text, at)
        if run is not None:
            plain.append(run[0].replace("$$", "$"))
            at = run.end()
            continue
        close = text.find(")", at) if at < last else -1
        if close < 0:
            plain.append("$(")
            at += 2
            continue
        name, at = text[at + 2 : close], close + 1
        value = env[name] if name in env.held else _undefined(name, env, path)
        characters = sum([len(piece.text) for piece in value])
        length, size = length + characters, size + characters + _PIECE * len(value)
        env.grown += size
        if size > MAX_EXPANDED_LENGTH or env.full:
            start = "".join(plain) or (_beginning(text, env) if not pieces else "")
            why = TOO_LONG if length >= MAX_EXPANDED_LENGTH else TOO_MUCH
            return (*pieces, *([Piece(start, path)] if start else []), Piece("…", path, why))
        for piece in value:
            if piece.unknown is None:
                plain.append(piece.text)
            else:
                if plain:
                    pieces.append(Piece("".join(plain), path))
                    plain.clear()
                pieces.append(Piece(piece.text, path, piece.unknown))
    if plain:
        pieces.append(Piece("".join(plain), path))
    return tuple(pieces) or literal("", path)


def _undefined(name: str, env: Environment, path: FieldPath | None) -> Value:
    """A reference to a variable that is not defined, or not yet: an unknown text."""
    text = name[:_LONGEST_NAME]
    if env.later is not None and name in env.later:
        why = f"{text} is defined further down in env, and Kubernetes expands only variables defined above"
    else:
        why = env.rest or f"$({text}) {UNDEFINED}"
    return mystery(f"$({name})", why, path)


def _beginning(text: str, env: Environment) -> str:
    """The first characters of what a text expands to: they are enough to see whether it is a flag."""
    if not text.startswith("$("):
        return "…" if text.startswith("$") else text[:_BEGINNING]
    reference = text[: text.find(")", 0, 256) + 1]  # empty if the name is longer than any real one
    value = env.get(reference[2:-1]) if reference else None
    if value and value[0].unknown is None:
        return value[0].text[:_BEGINNING]
    return reference or text[:_BEGINNING]


def mounts(workload: Workload, container: Container, config_maps: Mapping[str, JSON]) -> dict[str, str]:
    """Path in the container → text, of every known ConfigMap that is mounted into it."""
    if not config_maps:
        return {}
    volumes = map(mapping, items(workload.spec.get("volumes")))
    sources = {string(volume.get("name")): mapping(volume.get("configMap")) for volume in volumes}
    files: dict[str, str] = {}
    for mount in map(mapping, items(container.spec.get("volumeMounts"))):
        source = sources.get(string(mount.get("name")), {})
        data = mapping(mapping(config_maps.get(string(source.get("name")))).get("data"))
        folder, sub_path = string(mount.get("mountPath")), string(mount.get("subPath"))
        selected = map(mapping, items(source.get("items")))
        names = [(string(item.get("key")), string(item.get("path"))) for item in selected]
        for key, name in names or [(str(key), str(key)) for key in data]:
            if key in data and (not sub_path or sub_path == name):
                path = folder if sub_path else posixpath.join(folder, name)
                files[posixpath.normpath(path)] = string(data[key])
    return files
