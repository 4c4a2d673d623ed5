from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from podfit.kube.patch import Edit
from podfit.kube.path import FieldPath
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule
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
        """Certain for Kubernetes' own kinds; a custom resource's schema may leave it to its operator."""
        group = str(engine.workload.object.get("apiVersion") or "").rpartition("/")[0]
        own = group in ("", "apps", "batch")
        for path, value in _string_fields(engine):
            if isinstance(value, str) or value is None:
                continue
            text = str(value).lower() if isinstance(value, bool) else str(value)
            plain = isinstance(value, bool | int | float)
            what = (
                "boolean"
                if isinstance(value, bool)
                else "number"
                if plain
                else "list"
                if isinstance(value, list)
                else "mapping"
            )
            yield Finding(
                path=path,
                message=f"{text} is a {what}: Kubernetes requires a string"
                if plain
                else f"a {what}: Kubernetes requires a string",
                certainty="certain" if own else "likely",
                suggestions=(change.value(text),) if plain else ("less indentation, or quotes around all of it",),
                fix=(Edit(path, text),) if plain else (),
            )


def _string_fields(engine: Engine) -> Iterator[tuple[FieldPath, Any]]:
    """Path and value of every item of the container's command, args and env that must be a string.

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
