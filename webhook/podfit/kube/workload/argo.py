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
"""Programs that take a script with `-c`."""


def workflow(at: FieldPath, *, final: bool = False) -> Refine:
    """The function that reads the Pods of a kind whose WorkflowSpec is at the path. `final`: it is submitted as it is,
    with the arguments it has."""

    def refine(obj: JSON, workloads: list[Workload]) -> list[Workload]:
        """The Pods of a Workflow: one for each template that runs a container."""
        spec = mapping(at.get(obj))
        shared = _Shared(obj, at, spec)
        templates = [index for index, item in enumerate(as_list(spec.get("templates"))) if _makes_a_pod(item)]
        evaluated = _evaluated(templates, spec, shared)
        pods = [_template_as_pod(shared, index) for index in evaluated]
        if len(evaluated) < len(templates):
            unevaluated = f"{len(templates) - len(evaluated)} of {len(templates)} templates are not evaluated"
            pods = [replace(workload, unevaluated=unevaluated) for workload in pods]
        if final:  # the Workflow's own arguments have no other value any more
            pods = [replace(workload, defaults=_inputs(workload.defaults)) for workload in pods]
        return [*workloads, *pods]

    return refine


class _Shared:
    """The fields that all templates of a Workflow share."""

    def __init__(self, obj: JSON, root: FieldPath, spec: JSON) -> None:
        """`root`: the place of the WorkflowSpec `spec` in the object."""
        self.object, self.root, self.spec = obj, root, spec
        self.values = {_ARGUMENT + name: value for name, value in _parameters(spec.get("arguments"))}
        """Tag → text, of the Workflow's arguments."""
        self.defaults = mapping(spec.get("templateDefaults"))
        self.room = Room()
        self._patches: dict[str, Any] = {}
        """Text of a podSpecPatch → its value."""

    @cached_property
    def size(self) -> int:
        """Number of values (`_size`) that each Pod has of the shared fields, with those of its podSpecPatch, about."""
        own = sum(_size(self.spec[key]) for key in (*_OF_ALL, "initContainers") if key in self.spec)
        text = self.spec.get("podSpecPatch")
        patch_length = min(len(text), manifest.MAX_INNER_LENGTH) if isinstance(text, str) else 0
        return own + _size(self.defaults) + patch_length // _CHARACTERS_PER_VALUE

    def patch(self, text: str) -> Any:
        """The podSpecPatch as parsed YAML. Cached, since most templates have the same."""
        if text not in self._patches:
            self._patches[text] = manifest.load(text)
        return self._patches[text]


_ROOM, _EACH = 1 << 17, 256
"""Maximum number of values in all Pods of a Workflow, and how many each Pod counts besides the shared ones. A choice: a
Workflow of many templates is evaluated in bounded time."""
_CHARACTERS_PER_VALUE = 8
"""Characters of a YAML text per value in it, at least, for an estimate."""


def _evaluated(templates: Sequence[int], spec: JSON, shared: _Shared) -> Sequence[int]:
    """The indices of the templates that are evaluated, in their order: all of `templates`, or as many as there is room
    for. Those that ask for a device come first, since vLLM runs there."""
    most = max(1, _ROOM // (_EACH + shared.size))
    if len(templates) <= most:
        return templates
    items = spec["templates"]
    with_device = [index for index in templates if _asks_for_a_device(items[index])]
    without_device = [index for index in templates if not _asks_for_a_device(items[index])]
    return sorted([*with_device, *without_device][:most])


def _asks_for_a_device(template: JSON) -> bool:
    """True if a container of the template has a limit of an extended resource, such as nvidia.com/gpu."""
    of_set = as_list(mapping(template.get("containerSet")).get("containers"))
    for container in map(mapping, (template.get("container"), template.get("script"), *of_set)):
        limits = mapping(mapping(container.get("resources")).get("limits"))
        if any("/" in str(resource) for resource in limits):
            return True
    return False


def _size(value: Any) -> int:
    """The number of values in a value: scalars, lists and objects, itself included."""
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
    """(name, value) of each parameter of `arguments` or `inputs` that has a value or a default."""
    for item in map(mapping, as_list(mapping(holder).get("parameters"))):
        value = item.get("value") if item.get("value") is not None else item.get("default")
        if value is not None:
            yield str(item.get("name")), str(value)


def _inputs(names: Sequence[str]) -> tuple[str, ...]:
    """Those of the tags that are inputs of a template: the step that calls it may give other values."""
    return tuple(name for name in names if name.startswith(_INPUT))


def _with_inputs(values: Mapping[str, str], spec: JSON, template: JSON, room: Room) -> Mapping[str, str]:
    """Tag → text: `values`, those of the Workflow's arguments, and the template's inputs that are known before it runs.
    The entrypoint's are the Workflow's arguments of the same name (argo-workflows workflow/common/util.go
    ProcessArgs)."""
    inputs: dict[str, str] = {}
    is_entrypoint = template.get("name") == spec.get("entrypoint")
    for name, text in _parameters(template.get("inputs")):
        if is_entrypoint:
            text = values.get(_ARGUMENT + name, text)
        parameters = Parameters(values, _TAG, every=True, end=_END, room=room)
        value = parameters.fill(text)
        has_tag = "{{" in value and _END in value
        if not parameters.unfilled and not has_tag:
            inputs[_INPUT + name] = value
    return ChainMap(inputs, values)  # type: ignore[arg-type]  # nothing is written


def _makes_a_pod(template: object) -> bool:
    """True if a template runs something itself, unlike one of steps or a DAG."""
    return is_object(template) and any(template.get(key) for key in _TYPES)


def _template_as_pod(shared: _Shared, index: int) -> Workload:
    """The template with this index as a Pod: with the defaults, the parameters, and the patches of the Workflow and of
    the template, in this order. Only tags for the Workflow's arguments have a value before it runs."""
    obj, spec, root, defaults = shared.object, shared.spec, shared.root, shared.defaults
    place = root.join("templates", index)
    written = mapping(place.get(obj))
    unread = None
    try:
        template = strategic_merge(_defaults_for(defaults, written), written) if defaults else written
    except Unmergeable:
        template, unread = written, "templateDefaults can't be read here"
    values = _with_inputs(shared.values, spec, template, shared.room)
    parameters = Parameters(values, _TAG, every=True, end=_END, room=shared.room)
    filled = mapping(parameters.fill({key: value for key, value in template.items() if key in _OF_EACH}))
    pod_fields = (*_OF_ALL, "initContainers")
    pod: JSON = {key: fields[key] for fields in (spec, filled) for key in pod_fields if key in fields}
    pod = {**pod, "volumes": [*as_list(filled.get("volumes")), *as_list(spec.get("volumes"))]}
    containers = _with_default_fields(_containers(filled, place), written, defaults, root / "templateDefaults")
    patches = [
        (root / "podSpecPatch", spec.get("podSpecPatch")),
        (place / "podSpecPatch", template.get("podSpecPatch")),
    ]
    for patch_place, patch in patches:
        if not patch:
            continue
        text = parameters.fill([patch])[0]
        try:
            value = shared.patch(text) if isinstance(text, str) else None
            pod, containers = _with_pod_spec_patch(pod, containers, value, patch_place)
        except Unmergeable:
            unread = _UNREAD
    return Workload(
        object=obj,
        path=place,
        metadata=mapping(filled.get("metadata")) or mapping(spec.get("podMetadata")),
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
    """The templateDefaults that apply to the template `written`: those of a container, a script or a container set only
    if it has one itself."""
    return {key: value for key, value in defaults.items() if key not in _TYPES or written.get(key)}


def _with_default_fields(
    containers: Iterator[Container], written: JSON, defaults: JSON, place: FieldPath
) -> list[Container]:
    """The containers of the template `written`; a field of the main one that only the defaults have gets its place in
    the defaults, which are at `place`."""
    completed: list[Container] = []
    for container in containers:
        key = container.path.parts[-1]
        if container.name == "main" and key in ("container", "script"):
            own_fields, default_fields = mapping(written.get(key)), mapping(defaults.get(key))
            places = {str(field): place.join(key, field) for field in default_fields if field not in own_fields}
            container = replace(container, places={**places, **container.places})
        completed.append(container)
    return completed


def _with_pod_spec_patch(
    pod: JSON, containers: Sequence[Container], patch: Any, place: FieldPath
) -> tuple[JSON, list[Container]]:
    """The Pod and its containers as a podSpecPatch, which is at `place`, makes them: merged strategically, containers
    by their names. A new one is added, but not one of Argo's own. Raises Unmergeable; also if `patch` is not an
    object."""
    if not is_object(patch):
        raise Unmergeable(_UNREAD)
    pod_fields = {key: value for key, value in patch.items() if key not in ("containers", "initContainers")}
    patched = list(containers)
    index_of: dict[tuple[str, bool], int] = {}  # (name, is an init container) → index of the first in `patched`
    for index, container in enumerate(patched):
        index_of.setdefault((container.name, container.init), index)
    for key, init in (("containers", False), ("initContainers", True)):
        for item in as_list(patch.get(key)):
            name = mapping(item).get("name")
            if not isinstance(name, str):
                raise Unmergeable(_UNREAD)
            known_index = index_of.get((name, init))
            if known_index is not None:
                before = patched[known_index]
                places = {**before.places, **{str(field): place for field in item}}
                patched[known_index] = replace(before, spec=strategic_merge(before.spec, item), places=places)
            elif name not in _EXECUTOR:
                index_of[name, init] = len(patched)
                patched.append(Container(name, place, strategic_merge({}, item), init, synthetic=True))
    return strategic_merge(pod, pod_fields), patched


def _containers(template: JSON, at: FieldPath) -> Iterator[Container]:
    """The containers of a template: its own, its script if a shell runs it, its container set, its sidecars and its
    init containers, with their places. `at`: the place of the template."""
    main, script = template.get("container"), template.get("script")
    if is_object(main):
        yield Container("main", at / "container", main)
    if is_object(script):
        command = as_list(script.get("command"))
        if command and str(command[0]).rpartition("/")[2] in _SHELLS:
            # Argo passes the source in a file; as an argument, podfit can read it.
            spec = {key: value for key, value in script.items() if key != "source"}
            spec["args"] = ["-c", script.get("source")]
            yield Container("main", at / "script", spec, places={"args": at.join("script", "source")})
    yield from containers_of(
        {"containers": mapping(template.get("containerSet")).get("containers")}, at / "containerSet"
    )
    for index, sidecar in enumerate(as_list(template.get("sidecars"))):
        if is_object(sidecar):
            yield Container(str(sidecar.get("name") or ""), at.join("sidecars", index), sidecar)
    yield from containers_of({"initContainers": template.get("initContainers")}, at)
