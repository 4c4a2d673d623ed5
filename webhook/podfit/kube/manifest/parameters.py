"""Texts with parameters in them → with their values: OpenShift's Templates, Argo's Workflows, envsubst, Flux."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from podfit.base import numbers
from podfit.kube.path import FieldPath, is_object, mapping

_NAMES = re.compile(r"\$\{(\w+)\}")
_WHOLE = re.compile(r"\$\{\{(\w+)\}\}")
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
        """Whether there was room for the text."""
        if len(text) > self.left:
            return False
        self.left -= len(text) + _EACH
        return True

    def spend(self) -> None:
        """What a reference costs that has no value."""
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


def with_parameters_of(of: object, made: Any) -> Any:
    """`made` of the object `of`, with what is known of the parameters of that."""
    if not isinstance(of, Filled) or not isinstance(made, dict):
        return made
    own = made if isinstance(made, Filled) else None
    found = Filled(made)
    found.unfilled = tuple(dict.fromkeys((*of.unfilled, *(own.unfilled if own else ()))))
    found.defaults = tuple(dict.fromkeys((*of.defaults, *(own.defaults if own else ()))))
    found.aside = tuple(dict.fromkeys((*of.aside, *(own.aside if own else ()))))
    return found


class Parameters:
    """Names → values, or None for a parameter without a value here.

    With `every`, all other names count as parameters without a value, too; otherwise they are left unchanged."""

    def __init__(
        self,
        values: Mapping[str, str | None],
        names: re.Pattern[str],
        whole: re.Pattern[str] | None = None,
        *,
        every: bool = False,
        end: str = "}",
        room: Room | None = None,
    ) -> None:
        """`end`: what each of `names` ends with; `room`: of the object, where this is a part of it."""
        self.values, self.names, self.whole, self.every, self.end = values, names, whole, every, end
        self.unfilled: dict[str, None] = {}
        self.used: dict[str, None] = {}
        """Parameters with a value that do more than name things."""
        self.told: dict[str, None] = {}
        """The parameters among these that may change vLLM's command line."""
        self._room = room or Room()

    @property
    def aside(self) -> tuple[str, ...]:
        """The used parameters that do not change vLLM's command line."""
        return tuple(name for name in self.used if name not in self.told)

    def fill(self, value: Any, *, naming: bool = False, aside: bool = False, depth: int = 0, of: object = None) -> Any:
        """`value` with all its texts filled; what has no value becomes `$(NAME)`, and is noted unless it only names."""
        if isinstance(value, str):
            return self._text(value, naming, aside) if "{" in value or "$" in value else value
        if depth > _DEEPEST:
            return value
        if is_object(value):
            return {
                self._key(key, naming) if isinstance(key, str) and "{" in key else key: self.fill(
                    one,
                    naming=naming or key in _NAMING,
                    aside=aside or _is_harmless_field(of, key, depth),
                    depth=depth + 1,
                    of=key,
                )
                for key, one in value.items()
            }
        if not isinstance(value, list):
            return value
        return [self.fill(one, naming=naming, aside=aside, depth=depth + 1) for one in value]

    def _text(self, text: str, naming: bool, aside: bool = False) -> Any:
        """A text with its parameters replaced: by a value of any type where `${{NAME}}` is all of it, else by texts."""
        whole = self.whole.fullmatch(text) if self.whole else None
        if whole is not None and self._is_one(whole):
            said = self._value(whole, naming, aside)
            try:
                value = numbers.from_json(said)
            except (ValueError, RecursionError):
                return said
            return value if _is_shallow(value, _DEEPEST) else said
        if self._room.left <= 0:
            self.unfilled[_MORE] = None
            return f"$({variable(_MORE)})"
        end = text.rfind(self.end) + len(self.end)  # no name is behind it, and to look for one takes a turn for each
        made = self.names.sub(
            lambda found: self._value(found, naming, aside) if self._is_one(found) else found[0], text[:end]
        )
        return made + text[end:]

    def _key(self, text: str, naming: bool) -> str:
        """Keys are texts, whatever a value would be."""
        whole = self.whole.fullmatch(text) if self.whole else None
        if whole is not None and self._is_one(whole):
            return self._value(whole, naming)
        return str(self._text(text, naming))

    def _is_one(self, found: re.Match[str]) -> bool:
        return self.every or found[1] in self.values

    def _value(self, found: re.Match[str], naming: bool, aside: bool = False) -> str:
        """The text that replaces one parameter; `$(NAME)` where it has no value. Records what was used and what is
        unfilled."""
        name = found[1].strip()
        value = self.values.get(name)
        if value is not None and self._room.take(value):
            if not naming:
                self.used[name] = None
                if not aside:
                    self.told[name] = None
            return value
        self._room.spend()
        if naming:
            return found[0]
        self.unfilled[name] = None
        return f"$({variable(name)})"


def _is_harmless_field(of: object, key: object, depth: int) -> bool:
    """The field `key` of the field `of` does not change vLLM's command line."""
    return key in _PROBES or (of in ("limits", "requests") and key in _AMOUNTS) or (key == "replicas" and depth == 1)


def _is_shallow(value: Any, depth: int) -> bool:
    """Lists and objects are nested at most `depth` deep."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return depth > 0 and all(_is_shallow(one, depth - 1) for one in inner)


def variable(name: str) -> str:
    """A parameter's name as a valid name of a variable: `workflow.parameters.model` → `workflow_parameters_model`."""
    return re.sub(r"\W", "_", name)


def objects(template: Mapping[str, Any], held: list[Any]) -> list[tuple[FieldPath, Any]]:
    """The objects that an OpenShift Template makes with its own values, each with its place."""
    values: dict[str, str | None] = {}
    listed = template.get("parameters")
    for one in map(mapping, listed if isinstance(listed, list) else ()):
        value = one.get("value")
        values[str(one.get("name"))] = None if value in (None, "") else str(value)
    room = Room()
    return [(FieldPath(("objects", index)), _fill_item(item, values, room)) for index, item in enumerate(held)]


def _fill_item(item: Any, values: Mapping[str, str | None], room: Room) -> Any:
    """One object of a Template with its parameters replaced, and what is known of them."""
    parameters = Parameters(values, _NAMES, _WHOLE, room=room)
    made = parameters.fill(item) if values else item
    if not isinstance(made, dict) or not values:
        return made
    found = Filled(made)
    found.unfilled, found.defaults = tuple(parameters.unfilled), tuple(parameters.used)
    found.aside = parameters.aside
    return found


# ── Files for envsubst and Flux ──────────────────────────────────────────────────────────────────────────────────────

_PLACEHOLDER = re.compile(r"(?<!\$)\$(?=\{?([A-Za-z_]\w*))(?:\{\w+(?::?[-=]([^{}]*))?\}|\w+)")
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
    stack: list[tuple[object, object, Any]] = [(None, None, obj)]
    while stack:
        parent, key, value = stack.pop()
        if isinstance(value, dict):
            if "name" in value and ("value" in value or "valueFrom" in value):
                declared.add(str(value["name"]))
            stack += [(key, name, one) for name, one in value.items() if name not in _TEXTS]
        elif isinstance(value, list):
            stack += [(parent, key, one) for one in value]
        elif isinstance(value, str) and "$" in value:
            for found in _PLACEHOLDER.finditer(value):
                names[found[1]] = found[2] or names.get(found[1])
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
