"""Argo Workflows: each template of a Workflow is a Pod, with what all of them share beside it.

argo-workflows pkg/apis/workflow/v1alpha1/workflow_types.go, `Template` and `WorkflowSpec`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from webhook.manifest.parameters import Parameters
from webhook.path import FieldPath, is_object, mapping
from webhook.workload.template import JSON, Container, Refine, Workload, containers_of, listing

_TAG = re.compile(r"\{\{([^{}]+)\}\}")
_ARGUMENT = "workflow.parameters."
_OF_ALL = ("volumes", "nodeSelector", "tolerations", "affinity", "securityContext", "hostNetwork", "imagePullSecrets")
"""What stands in the Workflow's spec for all of its Pods."""
_OF_EACH = (*_OF_ALL, "metadata", "container", "containerSet", "script", "sidecars", "initContainers")
"""What of a template makes its Pod."""
_SHELLS = ("sh", "bash", "ash", "dash")


def workflow(at: FieldPath) -> Refine:
    """For a kind that has its WorkflowSpec there."""

    def refine(obj: JSON, found: list[Workload]) -> list[Workload]:
        spec = mapping(at.get(obj))
        values = {
            _ARGUMENT + str(one.get("name")): str(one["value"])
            for one in map(mapping, listing(mapping(spec.get("arguments")).get("parameters")))
            if one.get("value") is not None
        }
        templates = enumerate(listing(spec.get("templates")))
        return [*found, *(_pod(obj, spec, at.join("templates", n), values) for n, one in templates if _runs(one))]

    return refine


def _runs(template: object) -> bool:
    return is_object(template) and any(template.get(key) for key in ("container", "containerSet", "script"))


def _pod(obj: JSON, spec: JSON, at: FieldPath, values: dict[str, str]) -> Workload:
    """One template as a Pod. Tags that are no argument of the Workflow have no value before it runs."""
    template = {key: value for key, value in mapping(at.get(obj)).items() if key in _OF_EACH}
    tags = _TAG.findall(str(template))
    parameters = Parameters({tag: values.get(tag.strip()) for tag in tags}, _TAG)
    made = mapping(parameters.fill(template))
    pod = {key: one[key] for one in (spec, made) for key in (*_OF_ALL, "initContainers") if key in one}
    pod["volumes"] = [*listing(made.get("volumes")), *listing(spec.get("volumes"))]
    return Workload(
        object=obj,
        path=at,
        metadata=mapping(made.get("metadata")) or mapping(spec.get("podMetadata")),
        spec=pod,
        containers=tuple(_containers(made, at)),
        completes=frozenset({"startup-probe", "liveness-probe", "readiness-probe"}),  # it ends, or others wait for it
        unfilled=tuple(parameters.unfilled),
    )


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
