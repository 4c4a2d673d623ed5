"""Argo Workflows: each template of a Workflow is a Pod, with what all of them share beside it.

argo-workflows pkg/apis/workflow/v1alpha1/workflow_types.go, `Template` and `WorkflowSpec`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from webhook.kube import manifest
from webhook.kube.manifest.parameters import Parameters
from webhook.kube.path import FieldPath, is_object, mapping
from webhook.kube.workload.merge import Unmergeable, merged
from webhook.kube.workload.template import JSON, Container, Refine, Workload, containers_of, listing

_TAG = re.compile(r"\{\{(.+?)\}\}", re.DOTALL)
"""From two braces to the next two, whatever is between them (valyala/fasttemplate, which Argo uses)."""
_ARGUMENT = "workflow.parameters."
_INPUT = "inputs.parameters."
_OF_ALL = ("volumes", "nodeSelector", "tolerations", "affinity", "securityContext", "hostNetwork", "imagePullSecrets")
"""What stands in the Workflow's spec for all of its Pods."""
_OF_EACH = (*_OF_ALL, "metadata", "container", "containerSet", "script", "sidecars", "initContainers")
"""What of a template makes its Pod."""
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
        spec = mapping(at.get(obj))
        values = {_ARGUMENT + name: value for name, value in _parameters(spec.get("arguments"))}
        templates = enumerate(listing(spec.get("templates")))
        pods = [_pod(obj, spec, at, n, values) for n, one in templates if _runs(one)]
        return [*found, *(replace(one, defaults=_inputs(one.defaults)) if final else one for one in pods)]

    return refine


def _parameters(said: Any) -> Iterator[tuple[str, str]]:
    """Name and value of each parameter of `arguments` or `inputs` that has one."""
    for one in map(mapping, listing(mapping(said).get("parameters"))):
        value = one.get("value") if one.get("value") is not None else one.get("default")
        if value is not None:
            yield str(one.get("name")), str(value)


def _inputs(names: Sequence[str]) -> tuple[str, ...]:
    """Of these, the inputs of a template: the step that calls it may give others."""
    return tuple(one for one in names if one.startswith(_INPUT))


def _with_inputs(values: dict[str, str], spec: JSON, template: JSON) -> dict[str, str]:
    """The values, and those of the template's inputs as far as they are known here; the entrypoint's are the
    Workflow's arguments of the same name (argo-workflows workflow/common/util.go ProcessArgs)."""
    found = dict(values)
    for name, said in _parameters(template.get("inputs")):
        if template.get("name") == spec.get("entrypoint") and _ARGUMENT + name in values:
            said = values[_ARGUMENT + name]
        made = _TAG.sub(lambda tag: values.get(tag[1].strip(), tag[0]), said)
        if not _TAG.search(made):
            found[_INPUT + name] = made
    return found


def _runs(template: object) -> bool:
    return is_object(template) and any(template.get(key) for key in _TYPES)


def _pod(obj: JSON, spec: JSON, root: FieldPath, index: int, values: dict[str, str]) -> Workload:
    """One template as a Pod. Tags that are no argument of the Workflow have no value before it runs."""
    at, defaults = root.join("templates", index), mapping(spec.get("templateDefaults"))
    written = mapping(at.get(obj))
    unread = None
    try:
        whole = merged(_alike(defaults, written), written) if defaults else written
    except Unmergeable:
        whole, unread = written, "templateDefaults can't be read here"
    template = {key: value for key, value in whole.items() if key in _OF_EACH}
    patches = [(at / "podSpecPatch", whole["podSpecPatch"])] if whole.get("podSpecPatch") else []
    if spec.get("podSpecPatch"):
        patches.insert(0, (root / "podSpecPatch", spec["podSpecPatch"]))
    texts = [text for _, text in patches]
    parameters = Parameters(_with_inputs(values, spec, whole), _TAG, every=True)
    made = mapping(parameters.fill(template))
    pod: JSON = {key: one[key] for one in (spec, made) for key in (*_OF_ALL, "initContainers") if key in one}
    pod = {**pod, "volumes": [*listing(made.get("volumes")), *listing(spec.get("volumes"))]}
    containers = _inherited(_containers(made, at), written, defaults, root / "templateDefaults")
    for (place, _), text in zip(patches, parameters.fill(texts), strict=True):
        try:
            pod, containers = _patched(pod, containers, text, place)
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


def _alike(defaults: JSON, written: JSON) -> JSON:
    """Defaults for a template that runs what this one runs."""
    return {key: value for key, value in defaults.items() if key not in _TYPES or written.get(key)}


def _inherited(containers: Iterator[Container], written: JSON, defaults: JSON, place: FieldPath) -> list[Container]:
    """The containers; fields that only the defaults have stand there."""
    found = []
    for one in containers:
        key = one.path.parts[-1]
        if one.name == "main" and key in ("container", "script"):
            own, given = mapping(written.get(key)), mapping(defaults.get(key))
            places = {str(field): place.join(key, field) for field in given if field not in own}
            one = replace(one, places={**places, **one.places})
        found.append(one)
    return found


def _patched(pod: JSON, containers: Sequence[Container], text: Any, place: FieldPath) -> tuple[JSON, list[Container]]:
    """The Pod as a podSpecPatch makes it: YAML or JSON text, merged strategically. Raises Unmergeable."""
    patch = manifest.load(text) if isinstance(text, str) else None
    if not is_object(patch):
        raise Unmergeable(_UNREAD)
    rest = {key: value for key, value in patch.items() if key not in ("containers", "initContainers")}
    found = list(containers)
    for key in ("containers", "initContainers"):
        for one in listing(patch.get(key)):
            name = mapping(one).get("name")
            if not isinstance(name, str):
                raise Unmergeable(_UNREAD)
            at = next((n for n, c in enumerate(found) if c.name == name and c.init == (key != "containers")), None)
            if at is not None:
                before = found[at]
                places = {**before.places, **{str(field): place for field in one}}
                found[at] = replace(before, spec=merged(before.spec, one), places=places)
            elif name not in _EXECUTOR:
                found.append(Container(name, place, merged({}, one), key != "containers", synthetic=True))
    return merged(pod, rest), found


def _containers(template: JSON, at: FieldPath) -> Iterator[Container]:
    if is_object(main := template.get("container")):
        yield Container("main", at / "container", main)
    if is_object(script := template.get("script")):
        command = listing(script.get("command"))
        if command and str(command[0]).rpartition("/")[2] in _SHELLS:  # Argo gives it the source in a file
            spec = {key: value for key, value in script.items() if key != "source"} | {
                "args": ["-c", script.get("source")]
            }
            yield Container("main", at / "script", spec, places={"args": at.join("script", "source")})
    for key in ("containerSet", ""):
        inside = mapping(template.get(key)) if key else {"containers": listing(template.get("sidecars"))}
        below = at / key if key else at
        for one in containers_of({"containers": inside.get("containers")}, below):
            place = one.path if key else at.join("sidecars", one.path.parts[-1])
            yield Container(one.name, place, one.spec)
    yield from containers_of({"initContainers": template.get("initContainers")}, at)
