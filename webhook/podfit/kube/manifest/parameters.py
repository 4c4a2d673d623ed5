"""Texts with parameters in them → with their values: OpenShift's Templates, Argo's Workflows, envsubst, Flux."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from podfit.base import numbers
from podfit.base.lazy import regex
from podfit.kube.path import FieldPath, is_object, mapping

_NAMES = regex(r"\$\{(\w+)\}")
_JSON_PARAMETER = regex(r"\$\{\{(\w+)\}\}")
"""`${{NAME}}` alone is replaced by a value of any type, `${NAME}` anywhere by a text (openshift/library-go
pkg/template/templateprocessing.go)."""
MAX_FILLED_LENGTH = 1 << 20
"""Characters that all values of an object may take: what is written once can't grow without bound."""
REFERENCE_LENGTH = 64
"""Characters that each reference counts for in addition to its value, since it takes time, too."""


class Room:
    """The characters that are left for the values of one object's parameters, in all of its parts."""

    def __init__(self, left: int = MAX_FILLED_LENGTH) -> None:
        self.left = left

    def take(self, text: str) -> bool:
        """True if there was room for the text; then it is taken, with that of a reference."""
        if len(text) > self.left:
            return False
        self.left -= len(text) + REFERENCE_LENGTH
        return True

    def spend(self) -> None:
        """Charge the work of a reference that has no value."""
        self.left -= REFERENCE_LENGTH


_MORE = "one of too many"
"""Stands for the parameters that are not looked up."""
MAX_VALUE_DEPTH = 64
"""Levels of lists and objects that are filled, or that a value may have. A choice: Kubernetes' own objects stay below
50 (`part.MAX_DEPTH`)."""
_NAMING = frozenset({"metadata", "labels", "annotations", "selector", "matchLabels"})
"""Fields that only name things: a parameter there does not make the check uncertain."""
_PROBES = frozenset({"livenessProbe", "readinessProbe", "startupProbe"})
"""Fields that do not change vLLM's command line."""
_AMOUNTS = frozenset({"memory", "cpu", "ephemeral-storage"})
"""Resources that, like `spec.replicas`, do not change vLLM's command line: a parameter there does not make it
uncertain."""


class Filled(dict[str, Any]):
    """An object whose parameters are replaced."""

    unfilled: tuple[str, ...] = ()
    """Parameters without a value here, which are in the object as `$(NAME)` (`variable`)."""
    defaults: tuple[str, ...] = ()
    """Parameters whose value may be replaced when the object is made."""
    aside: tuple[str, ...] = ()
    """The parameters among these that do not change vLLM's command line."""


def with_parameters_of(outer: object, value: Any) -> Any:
    """`value`, a part of the object `outer`, with the parameters of `outer` before its own, each once. Unchanged if
    `outer` has no replaced parameters, or if `value` is not an object."""
    if not isinstance(outer, Filled) or not isinstance(value, dict):
        return value
    own = value if isinstance(value, Filled) else Filled()
    filled = Filled(value)
    filled.unfilled = tuple(dict.fromkeys((*outer.unfilled, *own.unfilled)))
    filled.defaults = tuple(dict.fromkeys((*outer.defaults, *own.defaults)))
    filled.aside = tuple(dict.fromkeys((*outer.aside, *own.aside)))
    return filled


class Parameters:
    """Names → values, or None for a parameter without a value here.

    With `every`, all other names count as parameters without a value, too; otherwise they are left unchanged."""

    def __init__(
        self,
        values: Mapping[str, str | None],
        names: re.Pattern[str],
        pattern: re.Pattern[str] | None = None,
        *,
        every: bool = False,
        end: str = "}",
        room: Room | None = None,
    ) -> None:
        """`values`: parameter → text, None without one; `names`, `pattern`: match a parameter within a text, and one
        that is a whole text and stands for JSON. `every`: also those that are not in `values`. `end`: what each match
        of `names` ends with. `room`: that of the object, if this is a part of it."""
        self.values, self.names, self.json_pattern, self.every, self.end = values, names, pattern, every, end
        # Dicts as sets that keep the order.
        self.unfilled: dict[str, None] = {}
        """Parameters without a value."""
        self.used: dict[str, None] = {}
        """Parameters with a value that do more than name things."""
        self.command_parameters: dict[str, None] = {}
        """The parameters among these that may change vLLM's command line."""
        self._room = room or Room()

    @property
    def aside(self) -> tuple[str, ...]:
        """The used parameters that do not change vLLM's command line."""
        return tuple(name for name in self.used if name not in self.command_parameters)

    def fill(self, value: Any, *, naming: bool = False, aside: bool = False, depth: int = 0, of: object = None) -> Any:
        """`value` with all its texts filled. A parameter without a value becomes `$(NAME)` and is added to `unfilled`.
        Below MAX_VALUE_DEPTH levels, `value` is returned as it is.

        - `naming`: it is below a field that only names things; then it stays, and nothing is recorded
        - `aside`: it is below a field that cannot change vLLM's command line
        - `depth`, `of`: the number of levels above, and the name of the field above; None in a list"""
        if isinstance(value, str):
            return self._text(value, naming=naming, aside=aside) if "{" in value or "$" in value else value
        if depth > MAX_VALUE_DEPTH:
            return value
        if isinstance(value, list):
            return [self.fill(item, naming=naming, aside=aside, depth=depth + 1) for item in value]
        if not is_object(value):
            return value
        filled: dict[Any, Any] = {}
        for key, item in value.items():
            filled_key = self._key(key, naming=naming) if isinstance(key, str) and "{" in key else key
            filled[filled_key] = self.fill(
                item,
                naming=naming or key in _NAMING,
                aside=aside or _is_harmless_field(of, key, depth),
                depth=depth + 1,
                of=key,
            )
        return filled

    def _text(self, text: str, *, naming: bool, aside: bool = False) -> Any:
        """A text with its parameters replaced: by a value of any type if `${{NAME}}` is all of it, else by texts.
        Without room for more values, the whole text becomes one unfilled parameter."""
        match = self.json_pattern.fullmatch(text) if self.json_pattern else None
        if match is not None and self._is_replaced(match):
            json_text = self._value(match, naming=naming, aside=aside)
            try:
                value = numbers.from_json(json_text)
            except (ValueError, RecursionError):
                return json_text
            return value if _is_shallow(value, MAX_VALUE_DEPTH) else json_text
        if self._room.left <= 0:
            self.unfilled[_MORE] = None
            return f"$({variable(_MORE)})"

        def replacement(hit: re.Match[str]) -> str:
            """The text for one match of `names`; itself if it is not one of these parameters."""
            return self._value(hit, naming=naming, aside=aside) if self._is_replaced(hit) else hit[0]

        # No parameter is behind the last `end`, and the pattern would try each `${` there up to the end of the text.
        end = text.rfind(self.end) + len(self.end)
        return self.names.sub(replacement, text[:end]) + text[end:]

    def _key(self, text: str, *, naming: bool) -> str:
        """A key with its parameters replaced by texts: a key is a text, whatever its value would be."""
        match = self.json_pattern.fullmatch(text) if self.json_pattern else None
        if match is not None and self._is_replaced(match):
            return self._value(match, naming=naming)
        return str(self._text(text, naming=naming))

    def _is_replaced(self, match: re.Match[str]) -> bool:
        """True if the match is one of these parameters; with `every`, any is."""
        return self.every or match[1] in self.values

    def _value(self, match: re.Match[str], *, naming: bool, aside: bool = False) -> str:
        """The text that replaces one parameter: its value, or `$(NAME)` without one, or unchanged if it only names
        things (`naming`). Records in `used`, `command_parameters` and `unfilled`, but not for names."""
        name = match[1].strip()
        value = self.values.get(name)
        if value is not None and self._room.take(value):
            if not naming:
                self.used[name] = None
                if not aside:
                    self.command_parameters[name] = None
            return value
        self._room.spend()
        if naming:
            return match[0]
        self.unfilled[name] = None
        return f"$({variable(name)})"


def _is_harmless_field(of: object, key: object, depth: int) -> bool:
    """True if the field `key` of the field `of` does not change vLLM's command line. That are probes, amounts of
    resources, and `spec.replicas`, which is one level below the object."""
    is_amount = of in ("limits", "requests") and key in _AMOUNTS
    is_replicas = key == "replicas" and depth == 1
    return key in _PROBES or is_amount or is_replicas


def _is_shallow(value: Any, depth: int) -> bool:
    """True if lists and objects are nested less than `depth` deep."""
    if depth <= 0:
        return False
    if isinstance(value, dict):
        return all(_is_shallow(item, depth - 1) for item in value.values())
    if isinstance(value, list):
        return all(_is_shallow(item, depth - 1) for item in value)
    return True


def variable(name: str) -> str:
    """A parameter's name as a valid name of a variable: `workflow.parameters.model` → `workflow_parameters_model`."""
    return re.sub(r"\W", "_", name)


def objects(template: Mapping[str, Any], items: list[Any]) -> list[tuple[FieldPath, Any]]:
    """(place, object) of each object that an OpenShift Template makes with its own values. `items`: its `objects`. A
    parameter with an empty value has none: it is generated, or required."""
    values: dict[str, str | None] = {}
    parameter_list = template.get("parameters")
    for entry in map(mapping, parameter_list if isinstance(parameter_list, list) else ()):
        value = entry.get("value")
        values[str(entry.get("name"))] = None if value in (None, "") else str(value)
    room = Room()
    return [(FieldPath(("objects", index)), _fill_item(item, values, room)) for index, item in enumerate(items)]


def _fill_item(item: Any, values: Mapping[str, str | None], room: Room) -> Any:
    """One object of a Template with its parameters replaced: a Filled, or another value if it is not an object. The
    item itself if the Template has no parameters."""
    if not values:
        return item
    parameters = Parameters(values, _NAMES, _JSON_PARAMETER, room=room)
    value = parameters.fill(item)
    if not isinstance(value, dict):
        return value
    filled = Filled(value)
    filled.unfilled, filled.defaults = tuple(parameters.unfilled), tuple(parameters.used)
    filled.aside = parameters.aside
    return filled


# ── Files for envsubst and Flux ──────────────────────────────────────────────────────────────────────────────────────

_PLACEHOLDER = regex(r"(?<!\$)\$(?=\{?([A-Za-z_]\w*))(?:\{\w+(?::?[-=]([^{}]*))?\}|\w+)")
"""`${NAME}`, `${NAME:-default}` or `$NAME`: group 1 is the name, group 2 the default (gettext's envsubst;
drone/envsubst, which Flux uses for `postBuild.substitute`)."""
NUMBERS = frozenset({
    "activeDeadlineSeconds", "backoffLimit", "completions", "containerPort", "failureThreshold", "hostPort",
    "initialDelaySeconds", "maxReplicas", "minReadySeconds", "minReplicas", "nodePort", "parallelism", "periodSeconds",
    "port", "progressDeadlineSeconds", "replicas", "revisionHistoryLimit", "runAsGroup", "runAsUser", "size",
    "sizeLimit", "storage", "successThreshold", "targetPort", "terminationGracePeriodSeconds", "timeoutSeconds",
})  # fmt: skip
"""Fields in which an API server accepts a number, a quantity or a port's name, and no `$`."""


_TEXTS = frozenset({"annotations", "data", "labels", "stringData"})
"""Fields in which every value is a text."""


def of_placeholders(obj: dict[str, Any], *, known: bool = False) -> Filled | None:
    """The object with the defaults of its placeholders, if it is of a file for envsubst or Flux; else None.

    It is if a placeholder is where an API server accepts only a number, or if the caller knows it (`known`).
    Placeholders without a default stay as they are, and are in `unfilled`."""
    if isinstance(obj, Filled):
        return None
    placeholders = _placeholders(obj)
    defaults = placeholders.defaults
    if not (known or placeholders.has_number) or not defaults:
        return None
    # A variable that the container declares is expanded by a shell in it.
    undeclared = [name for name in defaults if name not in placeholders.declared]
    values = {name: default for name in undeclared if (default := defaults[name]) is not None}
    parameters = Parameters(values, _PLACEHOLDER, end="")
    filled = Filled(parameters.fill(obj))
    filled.unfilled = tuple([name for name in undeclared if name not in values])
    filled.defaults = tuple(parameters.used)
    return filled


class _Placeholders(NamedTuple):
    """The placeholders in the texts of an object."""

    defaults: dict[str, str | None]
    """Name → default; None without one."""
    declared: frozenset[str]
    """Names of variables that a container of the object has (`env`)."""
    has_number: bool
    """True if one is where an API server accepts only a number or a quantity."""


def _placeholders(obj: dict[str, Any]) -> _Placeholders:
    """The placeholders of an object, without those in fields whose values are texts. Of several defaults of a name, the
    last one that is not empty counts."""
    defaults: dict[str, str | None] = {}
    declared: set[str] = set()
    has_number = False
    stack: list[tuple[object, object, Any]] = [(None, None, obj)]  # field above, field, value
    while stack:
        parent, key, value = stack.pop()
        if isinstance(value, dict):
            if "name" in value and ("value" in value or "valueFrom" in value):  # an item of `env`
                declared.add(str(value["name"]))
            stack += [(key, name, item) for name, item in value.items() if name not in _TEXTS]
        elif isinstance(value, list):
            stack += [(parent, key, item) for item in value]
        elif isinstance(value, str) and "$" in value:
            for match in _PLACEHOLDER.finditer(value):
                name, default = match[1], match[2]
                defaults[name] = default or defaults.get(name)
                has_number = has_number or key in NUMBERS or parent in ("limits", "requests")
    return _Placeholders(defaults, frozenset(declared), has_number)
