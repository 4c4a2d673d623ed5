"""Argo Workflows: each template of a Workflow is a Pod, which also gets the fields that all templates share.

argo-workflows pkg/apis/workflow/v1alpha1/workflow_types.go, `Template` and `WorkflowSpec`.
"""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from podfit.base.lazy import cached_property
from podfit.kube import manifest
from podfit.kube.manifest.parameters import Parameters, Room
from podfit.kube.path import FieldPath, is_object, mapping
from podfit.kube.workload.merge import Unmergeable, strategic_merge
from podfit.kube.workload.template import JSON, Container, Refine, Workload, as_list, containers_of

_TAG = re.compile(r"\{\{(.+?)\}\}", re.DOTALL)
"""From two braces to the next two, whatever is between them (valyala/fasttemplate, which Argo uses)."""
_END = "}}"
_ARGUMENT = "workflow.parameters."
_INPUT = "inputs.parameters."
_OF_ALL = ("volumes", "nodeSelector", "tolerations", "affinity", "securityContext", "hostNetwork", "imagePullSecrets")
"""Fields of the Workflow's spec that apply to all of its Pods."""
_OF_EACH = (*_OF_ALL, "metadata", "container", "containerSet", "script", "sidecars", "initContainers")
"""Fields of a template that make up its Pod."""
_TYPES = ("container", "containerSet", "script")
"""What a template runs; templateDefaults change nothing of which (workflow/controller/operator.go
mergedTemplateDefaultsInto)."""
_EXECUTOR = frozenset({"wait", "init"})
"""Containers of Argo's own."""
_UNREAD = "podSpecPatch can't be read here"
_SHELLS = ("sh", "bash", "ash", "dash")


def workflow(at: FieldPath, *, final: bool = False) -> Refine:
    """For a kind that has its WorkflowSpec there. `final`: it is submitted as it is, with the arguments it has."""

    def refine(obj: JSON, found: list[Workload]) -> list[Workload]:
        """The Pods of a Workflow: one for each template that runs a container."""
        spec = mapping(at.get(obj))
        shared = _Shared(obj, at, spec)
        templates = [n for n, one in enumerate(as_list(spec.get("templates"))) if _makes_a_pod(one)]
        read = _first(templates, spec, shared)
        pods = [_template_as_pod(shared, n) for n in read]
        if len(read) < len(templates):
            beyond = f"{len(templates) - len(read)} of {len(templates)} templates are not evaluated"
            pods = [replace(one, beyond=beyond) for one in pods]
        return [*found, *(replace(one, defaults=_inputs(one.defaults)) if final else one for one in pods)]

    return refine


class _Shared:
    """What all templates of a Workflow share."""

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
        """A podSpecPatch, read: most are the same for all."""
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
    listed = spec["templates"]
    return sorted(sorted(templates, key=lambda n: not _asks_for_a_device(listed[n]))[:most])


def _asks_for_a_device(template: JSON) -> bool:
    several = as_list(mapping(template.get("containerSet")).get("containers"))
    ones = [mapping(one) for one in (template.get("container"), template.get("script"), *several)]
    asked = [mapping(mapping(one.get("resources")).get("limits")) for one in ones]
    return any("/" in str(name) for names in asked for name in names)


def _size(value: Any) -> int:
    """How many values it holds, itself too."""
    count, left = 0, [value]
    while left:
        one = left.pop()
        count += 1
        if isinstance(one, list):
            left += one
        elif is_object(one):
            left += one.values()
    return count


def _parameters(said: Any) -> Iterator[tuple[str, str]]:
    """Name and value of each parameter of `arguments` or `inputs` that has one."""
    for one in map(mapping, as_list(mapping(said).get("parameters"))):
        value = one.get("value") if one.get("value") is not None else one.get("default")
        if value is not None:
            yield str(one.get("name")), str(value)


def _inputs(names: Sequence[str]) -> tuple[str, ...]:
    """The names that are inputs of a template: the step that calls it may give other values."""
    return tuple(one for one in names if one.startswith(_INPUT))


def _with_inputs(values: Mapping[str, str], spec: JSON, template: JSON, room: Room) -> Mapping[str, str]:
    """The values, and those of the template's inputs as far as they are known here; the entrypoint's are the
    Workflow's arguments of the same name (argo-workflows workflow/common/util.go ProcessArgs)."""
    found: dict[str, str] = {}
    for name, said in _parameters(template.get("inputs")):
        if template.get("name") == spec.get("entrypoint") and _ARGUMENT + name in values:
            said = values[_ARGUMENT + name]
        parameters = Parameters(values, _TAG, every=True, end=_END, room=room)
        made = parameters.fill(said)
        if not parameters.unfilled and not ("{{" in made and _END in made):
            found[_INPUT + name] = made
    return ChainMap(found, values)  # type: ignore[arg-type]  # nothing is written


def _makes_a_pod(template: object) -> bool:
    """Whether a template runs something itself, unlike one of steps or a DAG."""
    return is_object(template) and any(template.get(key) for key in _TYPES)


def _template_as_pod(shared: _Shared, index: int) -> Workload:
    """One template as a Pod. Only tags for the Workflow's arguments have a value before it runs."""
    obj, spec, root, defaults = shared.object, shared.spec, shared.root, shared.defaults
    at = root.join("templates", index)
    written = mapping(at.get(obj))
    unread = None
    try:
        whole = strategic_merge(_defaults_for(defaults, written), written) if defaults else written
    except Unmergeable:
        whole, unread = written, "templateDefaults can't be read here"
    template = {key: value for key, value in whole.items() if key in _OF_EACH}
    patches = [(at / "podSpecPatch", whole["podSpecPatch"])] if whole.get("podSpecPatch") else []
    if spec.get("podSpecPatch"):
        patches.insert(0, (root / "podSpecPatch", spec["podSpecPatch"]))
    texts = [text for _, text in patches]
    values = _with_inputs(shared.values, spec, whole, shared.room)
    parameters = Parameters(values, _TAG, every=True, end=_END, room=shared.room)
    made = mapping(parameters.fill(template))
    pod: JSON = {key: one[key] for one in (spec, made) for key in (*_OF_ALL, "initContainers") if key in one}
    pod = {**pod, "volumes": [*as_list(made.get("volumes")), *as_list(spec.get("volumes"))]}
    containers = _with_default_fields(_containers(made, at), written, defaults, root / "templateDefaults")
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
        metadata=mapping(made.get("metadata")) or mapping(spec.get("podMetadata")),
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
    found = []
    for one in containers:
        key = one.path.parts[-1]
        if one.name == "main" and key in ("container", "script"):
            own, given = mapping(written.get(key)), mapping(defaults.get(key))
            places = {str(field): place.join(key, field) for field in given if field not in own}
            one = replace(one, places={**places, **one.places})
        found.append(one)
    return found


def _with_pod_spec_patch(
    pod: JSON, containers: Sequence[Container], patch: Any, place: FieldPath
) -> tuple[JSON, list[Container]]:
    """The Pod as a podSpecPatch makes it, merged strategically. Raises Unmergeable."""
    if not is_object(patch):
        raise Unmergeable(_UNREAD)
    rest = {key: value for key, value in patch.items() if key not in ("containers", "initContainers")}
    found = list(containers)
    there = {(one.name, one.init): n for n, one in reversed([*enumerate(found)])}
    for key in ("containers", "initContainers"):
        for one in as_list(patch.get(key)):
            name = mapping(one).get("name")
            if not isinstance(name, str):
                raise Unmergeable(_UNREAD)
            at = there.get((name, key != "containers"))
            if at is not None:
                before = found[at]
                places = {**before.places, **{str(field): place for field in one}}
                found[at] = replace(before, spec=strategic_merge(before.spec, one), places=places)
            elif name not in _EXECUTOR:
                there[name, key != "containers"] = len(found)
                found.append(Container(name, place, strategic_merge({}, one), key != "containers", synthetic=True))
    return strategic_merge(pod, rest), found


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
        for one in containers_of({"containers": inside.get("containers")}, below):
            place = one.path if key else at.join("sidecars", one.path.parts[-1])
            yield Container(one.name, place, one.spec)
    yield from containers_of({"initContainers": template.get("initContainers")}, at)
