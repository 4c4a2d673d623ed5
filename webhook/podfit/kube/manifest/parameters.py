"""Texts with parameters in them → with their values: OpenShift's Templates, Argo's Workflows, envsubst, Flux."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from podfit.base import numbers
from podfit.base.lazy import regex
from podfit.kube.path import FieldPath, is_object, mapping

_NAMES = regex(r"\$\{(\w+)\}")
_JSON_PARAMETER = regex(r"\$\{\{(\w+)\}\}")
"""`${{NAME}}` alone is replaced by a value of any type, `${NAME}` anywhere by a text (openshift/library-go
pkg/template/templateprocessing.go)."""
_MOST = 1 << 20
"""Characters that all values of an object may take: what is written once can't grow without bound."""


_EACH = 64
"""The characters that each reference counts for in addition to its value."""


class Room:
    """The characters that are left for the values of one object's parameters, in all of its parts."""

    def __init__(self, left: int = _MOST) -> None:
        self.left = left

    def take(self, text: str) -> bool:
        """True if there was room for the text."""
        if len(text) > self.left:
            return False
        self.left -= len(text) + _EACH
        return True

    def spend(self) -> None:
        """Charge the work of a reference that has no value."""
        self.left -= _EACH


_MORE = "one of too many"
"""Stands for the parameters that are not looked up."""
_DEEPEST = 64
_NAMING = frozenset({"metadata", "labels", "annotations", "selector", "matchLabels"})
"""Fields that only name things: a parameter there does not make the check uncertain."""
_PROBES = frozenset({"livenessProbe", "readinessProbe", "startupProbe"})
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


def with_parameters_of(of: object, value: Any) -> Any:
    """`value` of the object `of`, with what is known of the parameters of that."""
    if not isinstance(of, Filled) or not isinstance(value, dict):
        return value
    own = value if isinstance(value, Filled) else None
    filled = Filled(value)
    filled.unfilled = tuple(dict.fromkeys((*of.unfilled, *(own.unfilled if own else ()))))
    filled.defaults = tuple(dict.fromkeys((*of.defaults, *(own.defaults if own else ()))))
    filled.aside = tuple(dict.fromkeys((*of.aside, *(own.aside if own else ()))))
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
        self.unfilled: dict[str, None] = {}
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
        `naming`: it is below a field that only names things; then it stays, and nothing is recorded. `aside`: below one
        that cannot change vLLM's command line. `depth`, `of`: the levels above, and the field above."""
        if isinstance(value, str):
            return self._text(value, naming=naming, aside=aside) if "{" in value or "$" in value else value
        if depth > _DEEPEST:
            return value
        if is_object(value):
            return {
                self._key(key, naming=naming) if isinstance(key, str) and "{" in key else key: self.fill(
                    item,
                    naming=naming or key in _NAMING,
                    aside=aside or _is_harmless_field(of, key, depth),
                    depth=depth + 1,
                    of=key,
                )
                for key, item in value.items()
            }
        if not isinstance(value, list):
            return value
        return [self.fill(item, naming=naming, aside=aside, depth=depth + 1) for item in value]

    def _text(self, text: str, *, naming: bool, aside: bool = False) -> Any:
        """A text with its parameters replaced: by a value of any type if `${{NAME}}` is all of it, else by texts.
        Without room for more values, the whole text becomes one unfilled parameter."""
        match = self.json_pattern.fullmatch(text) if self.json_pattern else None
        if match is not None and self._is_replaced(match):
            sentence = self._value(match, naming=naming, aside=aside)
            try:
                value = numbers.from_json(sentence)
            except (ValueError, RecursionError):
                return sentence
            return value if _is_shallow(value, _DEEPEST) else sentence
        if self._room.left <= 0:
            self.unfilled[_MORE] = None
            return f"$({variable(_MORE)})"
        end = text.rfind(self.end) + len(self.end)  # no name is behind it, and to look for one takes a turn for each
        filled_text = self.names.sub(
            lambda hit: self._value(hit, naming=naming, aside=aside) if self._is_replaced(hit) else hit[0], text[:end]
        )
        return filled_text + text[end:]

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
    """The field `key` of the field `of` does not change vLLM's command line."""
    return key in _PROBES or (of in ("limits", "requests") and key in _AMOUNTS) or (key == "replicas" and depth == 1)


def _is_shallow(value: Any, depth: int) -> bool:
    """Lists and objects are nested at most `depth` deep."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return depth > 0 and all(_is_shallow(item, depth - 1) for item in inner)


def variable(name: str) -> str:
    """A parameter's name as a valid name of a variable: `workflow.parameters.model` → `workflow_parameters_model`."""
    return re.sub(r"\W", "_", name)


def objects(template: Mapping[str, Any], held: list[Any]) -> list[tuple[FieldPath, Any]]:
    """(place, object) of each object that an OpenShift Template makes with its own values. A parameter with an empty
    value has none: it is generated, or required."""
    values: dict[str, str | None] = {}
    parameter_list = template.get("parameters")
    for entry in map(mapping, parameter_list if isinstance(parameter_list, list) else ()):
        value = entry.get("value")
        values[str(entry.get("name"))] = None if value in (None, "") else str(value)
    room = Room()
    return [(FieldPath(("objects", index)), _fill_item(item, values, room)) for index, item in enumerate(held)]


def _fill_item(item: Any, values: Mapping[str, str | None], room: Room) -> Any:
    """One object of a Template with its parameters replaced, and what is known of them."""
    parameters = Parameters(values, _NAMES, _JSON_PARAMETER, room=room)
    value = parameters.fill(item) if values else item
    if not isinstance(value, dict) or not values:
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
    """The object with the defaults of its placeholders, if one is where an API server accepts only a number: a file for
    envsubst or Flux. Others stay as they are. None for all other objects. `known`: it certainly is such a file."""
    if isinstance(obj, Filled):
        return None
    names: dict[str, str | None] = {}
    declared: set[str] = set()
    is_template = known
    stack: list[tuple[object, object, Any]] = [(None, None, obj)]  # field above, field, value
    while stack:
        parent, key, value = stack.pop()
        if isinstance(value, dict):
            if "name" in value and ("value" in value or "valueFrom" in value):
                declared.add(str(value["name"]))
            stack += [(key, name, item) for name, item in value.items() if name not in _TEXTS]
        elif isinstance(value, list):
            stack += [(parent, key, item) for item in value]
        elif isinstance(value, str) and "$" in value:
            for match in _PLACEHOLDER.finditer(value):
                names[match[1]] = match[2] or names.get(match[1])
                is_template = is_template or key in NUMBERS or parent in ("limits", "requests")
    if not is_template or not names:
        return None
    # A shell of the container expands the variables that the container has.
    defaults = {name: default for name, default in names.items() if default is not None and name not in declared}
    parameters = Parameters(defaults, _PLACEHOLDER, end="")
    filled = Filled(parameters.fill(obj))
    filled.unfilled = tuple([name for name in names if name not in defaults and name not in declared])
    filled.defaults = tuple(parameters.used)
    return filled
