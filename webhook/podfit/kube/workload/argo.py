"""Argo Workflows: each template of a Workflow is a Pod, which also gets the fields that all templates share.

argo-workflows pkg/apis/workflow/v1alpha1/workflow_types.go, `Template` and `WorkflowSpec`.
"""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from podfit.base.lazy import cached_property, regex
from podfit.kube import manifest
from podfit.kube.manifest.parameters import Parameters, Room
from podfit.kube.path import FieldPath, is_object, mapping
from podfit.kube.workload.merge import Unmergeable, strategic_merge
from podfit.kube.workload.template import JSON, Container, Refine, Workload, as_list, containers_of

_TAG = regex(r"\{\{(.+?)\}\}", re.DOTALL)
"""From two braces to the next two, whatever is between them (valyala/fasttemplate, which Argo uses)."""
_END = "}}"
_ARGUMENT = "workflow.parameters."
_INPUT = "inputs.parameters."
_OF_ALL = ("volumes", "nodeSelector", "tolerations", "affinity", "securityContext", "hostNetwork", "imagePullSecrets")
"""Fields of the Workflow's spec that apply to all of its Pods."""
_OF_EACH = (*_OF_ALL, "metadata", "container", "containerSet", "script", "sidecars", "initContainers")
"""Fields of a template that make up its Pod."""
_TYPES = ("container", "containerSet", "script")
"""The fields with a template's program; templateDefaults do not change them (workflow/controller/operator.go
mergedTemplateDefaultsInto)."""
_EXECUTOR = frozenset({"wait", "init"})
"""Containers of Argo's own."""
_UNREAD = "podSpecPatch can't be read here"
_SHELLS = ("sh", "bash", "ash", "dash")


def workflow(at: FieldPath, *, final: bool = False) -> Refine:
    """The function that reads the Pods of a kind whose WorkflowSpec is at the path. `final`: it is submitted as it is,
    with the arguments it has."""

    def refine(obj: JSON, workloads: list[Workload]) -> list[Workload]:
        """The Pods of a Workflow: one for each template that runs a container."""
        spec = mapping(at.get(obj))
        shared = _Shared(obj, at, spec)
        templates = [n for n, item in enumerate(as_list(spec.get("templates"))) if _makes_a_pod(item)]
        read = _first(templates, spec, shared)
        pods = [_template_as_pod(shared, n) for n in read]
        if len(read) < len(templates):
            unevaluated = f"{len(templates) - len(read)} of {len(templates)} templates are not evaluated"
            pods = [replace(workload, unevaluated=unevaluated) for workload in pods]
        if final:  # the Workflow's own arguments have no other value any more
            pods = [replace(workload, defaults=_inputs(workload.defaults)) for workload in pods]
        return [*workloads, *pods]

    return refine


class _Shared:
    """The fields that all templates of a Workflow share."""

    def __init__(self, obj: JSON, root: FieldPath, spec: JSON) -> None:
        self.object, self.root, self.spec = obj, root, spec
        self.values = {_ARGUMENT + name: value for name, value in _parameters(spec.get("arguments"))}
        self.defaults = mapping(spec.get("templateDefaults"))
        self.room = Room()
        self._patches: dict[str, Any] = {}

    @cached_property
    def size(self) -> int:
        """How many values each Pod has of it."""
        own = sum(_size(self.spec[key]) for key in (*_OF_ALL, "initContainers") if key in self.spec)
        text = self.spec.get("podSpecPatch")
        return own + _size(self.defaults) + (min(len(text), manifest.LONGEST) // 8 if isinstance(text, str) else 0)

    def patch(self, text: str) -> Any:
        """The podSpecPatch as parsed YAML. Cached, since most templates have the same."""
        if text not in self._patches:
            self._patches[text] = manifest.load(text)
        return self._patches[text]


_ROOM, _EACH = 1 << 17, 256
"""Maximum number of values in all Pods of a Workflow, and how many each Pod counts besides the shared ones."""


def _first(templates: Sequence[int], spec: JSON, shared: _Shared) -> Sequence[int]:
    """The templates that are read: all, or as many as there is room for, first of those that ask for a device."""
    most = max(1, _ROOM // (_EACH + shared.size))
    if len(templates) <= most:
        return templates
    value = spec["templates"]
    return sorted(sorted(templates, key=lambda n: not _asks_for_a_device(value[n]))[:most])


def _asks_for_a_device(template: JSON) -> bool:
    """True if a container of the template has a limit of an extended resource, such as nvidia.com/gpu."""
    several = as_list(mapping(template.get("containerSet")).get("containers"))
    ones = [mapping(item) for item in (template.get("container"), template.get("script"), *several)]
    items = [mapping(mapping(item.get("resources")).get("limits")) for item in ones]
    return any("/" in str(name) for names in items for name in names)


def _size(value: Any) -> int:
    """The number of values in it, with itself."""
    count, left = 0, [value]
    while left:
        node = left.pop()
        count += 1
        if isinstance(node, list):
            left += node
        elif is_object(node):
            left += node.values()
    return count


def _parameters(holder: Any) -> Iterator[tuple[str, str]]:
    """Name and value of each parameter of `arguments` or `inputs` that has one."""
    for item in map(mapping, as_list(mapping(holder).get("parameters"))):
        value = item.get("value") if item.get("value") is not None else item.get("default")
        if value is not None:
            yield str(item.get("name")), str(value)


def _inputs(names: Sequence[str]) -> tuple[str, ...]:
    """The names that are inputs of a template: the step that calls it may give other values."""
    return tuple(name for name in names if name.startswith(_INPUT))


def _with_inputs(values: Mapping[str, str], spec: JSON, template: JSON, room: Room) -> Mapping[str, str]:
    """Tag → text: the values, and those of the template's inputs that are known before it runs. The entrypoint's are
    the Workflow's arguments of the same name (argo-workflows workflow/common/util.go ProcessArgs)."""
    entries: dict[str, str] = {}
    for name, text in _parameters(template.get("inputs")):
        if template.get("name") == spec.get("entrypoint") and _ARGUMENT + name in values:
            text = values[_ARGUMENT + name]
        parameters = Parameters(values, _TAG, every=True, end=_END, room=room)
        value = parameters.fill(text)
        if not parameters.unfilled and not ("{{" in value and _END in value):
            entries[_INPUT + name] = value
    return ChainMap(entries, values)  # type: ignore[arg-type]  # nothing is written


def _makes_a_pod(template: object) -> bool:
    """True if a template runs something itself, unlike one of steps or a DAG."""
    return is_object(template) and any(template.get(key) for key in _TYPES)


def _template_as_pod(shared: _Shared, index: int) -> Workload:
    """One template as a Pod. Only tags for the Workflow's arguments have a value before it runs."""
    obj, spec, root, defaults = shared.object, shared.spec, shared.root, shared.defaults
    at = root.join("templates", index)
    written = mapping(at.get(obj))
    unread = None
    try:
        merged = strategic_merge(_defaults_for(defaults, written), written) if defaults else written
    except Unmergeable:
        merged, unread = written, "templateDefaults can't be read here"
    template = {key: value for key, value in merged.items() if key in _OF_EACH}
    patches = [(at / "podSpecPatch", merged["podSpecPatch"])] if merged.get("podSpecPatch") else []
    if spec.get("podSpecPatch"):
        patches.insert(0, (root / "podSpecPatch", spec["podSpecPatch"]))
    texts = [text for _, text in patches]
    values = _with_inputs(shared.values, spec, merged, shared.room)
    parameters = Parameters(values, _TAG, every=True, end=_END, room=shared.room)
    entries = mapping(parameters.fill(template))
    pod: JSON = {key: item[key] for item in (spec, entries) for key in (*_OF_ALL, "initContainers") if key in item}
    pod = {**pod, "volumes": [*as_list(entries.get("volumes")), *as_list(spec.get("volumes"))]}
    containers = _with_default_fields(_containers(entries, at), written, defaults, root / "templateDefaults")
    for (place, _), text in zip(patches, parameters.fill(texts), strict=True):
        try:
            pod, containers = _with_pod_spec_patch(
                pod, containers, shared.patch(text) if isinstance(text, str) else None, place
            )
        except Unmergeable:
            unread = _UNREAD
    return Workload(
        object=obj,
        path=at,
        metadata=mapping(entries.get("metadata")) or mapping(spec.get("podMetadata")),
        spec=pod,
        containers=tuple(containers),
        completes=frozenset({"startup-probe", "liveness-probe", "readiness-probe"}),  # it ends, or others wait for it
        unfilled=tuple(parameters.unfilled),
        defaults=tuple(parameters.used),
        aside=parameters.aside,
        unread=unread,
        template=str(written.get("name") or ""),
    )


def _defaults_for(defaults: JSON, written: JSON) -> JSON:
    """Defaults for a template that runs what this one runs."""
    return {key: value for key, value in defaults.items() if key not in _TYPES or written.get(key)}


def _with_default_fields(
    containers: Iterator[Container], written: JSON, defaults: JSON, place: FieldPath
) -> list[Container]:
    """The containers; a field that only the defaults have gets its place in the defaults."""
    items = []
    for container in containers:
        key = container.path.parts[-1]
        if container.name == "main" and key in ("container", "script"):
            own, given = mapping(written.get(key)), mapping(defaults.get(key))
            places = {str(field): place.join(key, field) for field in given if field not in own}
            container = replace(container, places={**places, **container.places})
        items.append(container)
    return items


def _with_pod_spec_patch(
    pod: JSON, containers: Sequence[Container], patch: Any, place: FieldPath
) -> tuple[JSON, list[Container]]:
    """The Pod and its containers as a podSpecPatch makes them, merged strategically; containers by their names. A new
    one is added, but not one of Argo's own. Raises Unmergeable."""
    if not is_object(patch):
        raise Unmergeable(_UNREAD)
    rest = {key: value for key, value in patch.items() if key not in ("containers", "initContainers")}
    items = list(containers)
    there = {(container.name, container.init): n for n, container in reversed([*enumerate(items)])}
    for key in ("containers", "initContainers"):
        for item in as_list(patch.get(key)):
            name = mapping(item).get("name")
            if not isinstance(name, str):
                raise Unmergeable(_UNREAD)
            at = there.get((name, key != "containers"))
            if at is not None:
                before = items[at]
                places = {**before.places, **{str(field): place for field in item}}
                items[at] = replace(before, spec=strategic_merge(before.spec, item), places=places)
            elif name not in _EXECUTOR:
                there[name, key != "containers"] = len(items)
                items.append(Container(name, place, strategic_merge({}, item), key != "containers", synthetic=True))
    return strategic_merge(pod, rest), items


def _containers(template: JSON, at: FieldPath) -> Iterator[Container]:
    """The containers of a template: its own, its script, its container set and its sidecars, with their places."""
    if is_object(main := template.get("container")):
        yield Container("main", at / "container", main)
    if is_object(script := template.get("script")):
        command = as_list(script.get("command"))
        if command and str(command[0]).rpartition("/")[2] in _SHELLS:  # Argo gives it the source in a file
            spec = {key: value for key, value in script.items() if key != "source"} | {
                "args": ["-c", script.get("source")]
            }
            yield Container("main", at / "script", spec, places={"args": at.join("script", "source")})
    for key in ("containerSet", ""):
        inside = mapping(template.get(key)) if key else {"containers": as_list(template.get("sidecars"))}
        below = at / key if key else at
        for container in containers_of({"containers": inside.get("containers")}, below):
            place = container.path if key else at.join("sidecars", container.path.parts[-1])
            yield Container(container.name, place, container.spec)
    yield from containers_of({"initContainers": template.get("initContainers")}, at)
