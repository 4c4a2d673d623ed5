from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from podfit.kube.patch import Edit
from podfit.kube.path import FieldPath
from podfit.rules.engine import Engine
from podfit.rules.rule import Certainty, Finding, Rule
from podfit.vllm import change


class UnquotedValue(Rule):
    """A number or a boolean is in a place where Kubernetes requires a string.

    The items of `command` and `args` and the values of `env` are strings. Without quotes YAML reads `8000`, `0.9` and
    `true` as numbers or booleans, and the API server rejects the object:

        Deployment in version "v1" cannot be handled as a Deployment: json: cannot unmarshal number into Go struct field
        EnvVar.spec.template.spec.containers.env.value of type string
    """

    plane = "config"
    event = "the API server denies the object"
    of_vllm = False
    mode = "deny"
    where = frozenset({"check"})

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain for Kubernetes' own kinds; likely for a custom resource, whose operator may take other types."""
        group = str(engine.workload.object.get("apiVersion") or "").rpartition("/")[0]
        certainty: Certainty = "certain" if group in ("", "apps", "batch") else "likely"
        for path, value in _string_fields(engine):
            if value is None or isinstance(value, str):
                continue
            if isinstance(value, bool | int | float):
                yield _of_scalar(path, value, certainty)
            else:
                yield _of_collection(path, value, certainty)


def _of_scalar(path: FieldPath, value: bool | int | float, certainty: Certainty) -> Finding:
    """The finding on a number or a boolean, whose fix is quotes."""
    is_boolean = isinstance(value, bool)
    text = str(value).lower() if is_boolean else str(value)  # as in YAML: true, not True
    return Finding(
        path=path,
        message=f"{text} is a {'boolean' if is_boolean else 'number'}: Kubernetes requires a string",
        certainty=certainty,
        suggestions=(change.value(text),),
        fix=(Edit(path, text),),
    )


def _of_collection(path: FieldPath, value: object, certainty: Certainty) -> Finding:
    """The finding on a list or a mapping, which has no fix: the text that was meant is unknown."""
    return Finding(
        path=path,
        message=f"a {'list' if isinstance(value, list) else 'mapping'}: Kubernetes requires a string",
        certainty=certainty,
        suggestions=("less indentation, or quotes around all of it",),
    )


def _string_fields(engine: Engine) -> Iterator[tuple[FieldPath, Any]]:
    """(path, value) of every item of the container's `command` and `args` and every value of its `env`.

    Only lists that are in the object as such count: a text that an operator splits into words has no items."""
    for name in ("command", "args"):
        value = engine.field(name)
        if isinstance(value, list) and engine.at(name).get(engine.workload.object) is value:
            yield from ((engine.at(name) / n, item) for n, item in enumerate(value))
    value = engine.field("env")
    if isinstance(value, list) and engine.at("env").get(engine.workload.object) is value:
        for n, entry in enumerate(value):
            if isinstance(entry, dict):
                yield engine.at("env") / n / "value", entry.get("value")
