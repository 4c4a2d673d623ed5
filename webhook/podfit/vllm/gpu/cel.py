"""The part of CEL that DRA selectors use, with three results: true, false, and None for unknown.

Kubernetes evaluates a selector against each device (KEP-4381, k8s.io/dynamic-resource-allocation cel). This module
evaluates it against the known attributes of each GPU model: `device.attributes['gpu.nvidia.com'].productName` is a name
in the table. What a table can't have (a UUID, a PCI address) is None, and a result of None excludes no GPU model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from podfit.base.lazy import regex
from podfit.kube import quantity

Device = Mapping[str, Any]
"""{"driver": str, "attributes": {domain: {name: value}}, "capacity": {domain: {name: bytes}}}; absent: unknown."""
_Value = Callable[[Device], Any]
_TOKEN = regex(
    r"""\s*(?:(?P<string>r?"(?:[^"\\]|\\.)*"|r?'(?:[^'\\]|\\.)*')|(?P<number>\d+(?:\.\d+)?)|(?P<word>[A-Za-z_]\w*)"""
    r"""|(?P<sign>&&|\|\||[=!<>]=|\.\?|\[\?|[-!<>()\[\].,?:+*/%]))"""
)
_LONGEST = 4096
_DEEPEST = 32
"""Depth of nested expressions: parentheses, lists, arguments, negations and fields of fields."""
_QUANTIFIERS, _REPEATS, _LONGEST_TEXT = 6, 3, 128
"""Limits of a pattern: its quantifiers, those of them that repeat, and the characters of the text that it is matched
against. Beyond them, or with a quantifier after a group, Python's backtracking matcher could take very long; Go's is
linear. Names of GPUs have up to 60 characters."""
_FOLLOWING = regex(r"[*+}]\??(?:\\.|\[[^\]]*\]|.)[*+{]")
"""Two adjacent repeats: the matcher tries each length of one with each of the other."""


class _UnreadableError(Exception):
    """The expression is outside the part of the language that is read here."""


def read(expression: str) -> Callable[[Device], bool | None]:
    """The expression as a function of a device, which returns None for an expression outside this part of CEL.

    Neither this function nor the returned one raises.
    """
    try:
        value = _Parser(expression).expression()
    except _UnreadableError:
        return lambda _: None

    def select(device: Device) -> bool | None:
        """True if a device matches; None if unknown."""
        answer = value(device)
        return answer if isinstance(answer, bool) else None

    return select


class _Parser:
    """Recursive descent over `||`, `&&`, `!`, comparisons, `in`, fields, indices and calls."""

    def __init__(self, text: str) -> None:
        if len(text) > _LONGEST:
            raise _UnreadableError
        self._tokens: list[tuple[str, str]] = []
        at, text = 0, text.strip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None or match.lastgroup is None:
                raise _UnreadableError
            self._tokens.append((match.lastgroup, match[match.lastgroup]))
            at = match.end()
        self._at = 0
        self._depth = 0

    def expression(self) -> _Value:
        """The whole expression; raises _UnreadableError if text is left after it."""
        result = self._disjunction()
        if self._at != len(self._tokens):
            raise _UnreadableError
        return result

    def _next(self) -> tuple[str, str]:
        """The next token: its kind and text."""
        return self._tokens[self._at] if self._at < len(self._tokens) else ("end", "")

    def _take(self, *signs: str) -> str | None:
        """Consume and return the next token if it is one of these signs or words; else None."""
        kind, text = self._next()
        if kind in ("sign", "word") and text in signs:
            self._at += 1
            return text
        return None

    def _enter(self) -> None:
        """Go one level of nesting deeper; raises _UnreadableError if it is too deep."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _UnreadableError

    def _need(self, sign: str) -> None:
        """Consume the sign; raises _UnreadableError if another token is next."""
        if self._take(sign) is None:
            raise _UnreadableError

    def _disjunction(self) -> _Value:
        """Parse `a || b`, or the operand if there is no operator, into a function of a device."""
        self._enter()
        parts = [self._conjunction()]
        while self._take("||"):
            parts.append(self._conjunction())
        self._depth -= 1
        return parts[0] if len(parts) == 1 else lambda device: _or([part(device) for part in parts])

    def _conjunction(self) -> _Value:
        """Parse `a && b`, or the operand if there is no operator, into a function of a device."""
        parts = [self._comparison()]
        while self._take("&&"):
            parts.append(self._comparison())
        return parts[0] if len(parts) == 1 else lambda device: _not(_or([_not(part(device)) for part in parts]))

    def _comparison(self) -> _Value:
        """`a == b`, `a in b` and the other relations."""
        left = self._unary()
        sign = self._take("==", "!=", "<", "<=", ">", ">=", "in")
        if sign is None:
            return left
        right = self._unary()
        return lambda device: _compare(sign, left(device), right(device))

    def _unary(self) -> _Value:
        """`!a`, `-1`, or a member chain."""
        if self._take("!"):
            self._enter()
            inner = self._unary()
            self._depth -= 1
            return lambda device: _not(inner(device))
        if self._take("-"):
            kind, text = self._next()
            self._at += 1
            if kind != "number":
                raise _UnreadableError
            return _constant(-float(text))
        return self._member_chain(self._atom())

    def _atom(self) -> _Value:
        """A literal, a name, a list, a function call or an expression in parentheses."""
        kind, text = self._next()
        self._at += 1
        if kind == "string":
            raw = text.startswith("r")
            body = text[2:-1] if raw else text[1:-1]
            return _constant(body if raw else re.sub(r"\\(.)", r"\1", body))
        if kind == "number":
            return _constant(float(text))
        if kind == "word":
            if text in ("true", "false"):
                return _constant(text == "true")
            if text == "device":
                return lambda device: device
            if self._take("("):
                return _function_call(text, self._arguments(")"))
        elif text == "(":
            inner = self._disjunction()
            self._need(")")
            return inner
        elif text == "[":
            items = self._arguments("]")
            return lambda device: [item(device) for item in items]
        raise _UnreadableError

    def _member_chain(self, value: _Value) -> _Value:
        """`.field`, `.method(…)` and `[index]` after a value."""
        before = self._depth
        while sign := self._take(".", ".?", "[", "[?"):
            self._enter()
            if sign.startswith("["):
                (index,) = self._arguments("]")
                value = _field_access(value, index)
                continue
            kind, name = self._next()
            self._at += 1
            if kind != "word":
                raise _UnreadableError
            value = (
                _method_call(name, value, self._arguments(")"))
                if self._take("(")
                else _field_access(value, _constant(name))
            )
        self._depth = before
        return value

    def _arguments(self, end: str) -> list[_Value]:
        """Expressions separated by commas, up to `end`."""
        items: list[_Value] = []
        while not self._take(end):
            if items:
                self._need(",")
            items.append(self._disjunction())
        return items


def _constant(value: Any) -> _Value:
    """The function that returns this value for every device."""
    return lambda _: value


def _field_access(value: _Value, name: _Value) -> _Value:
    """The field of an object; None if unknown."""

    def read(device: Device) -> Any:
        holder, key = value(device), name(device)
        return holder.get(key) if isinstance(holder, Mapping) and isinstance(key, str) else None

    return read


def _function_call(name: str, arguments: list[_Value]) -> _Value:
    """One of the functions quantity, semver, string, dyn and has; raises _UnreadableError for others."""
    if len(arguments) != 1:
        raise _UnreadableError
    (argument,) = arguments
    if name == "quantity":
        return lambda device: quantity.try_parse(argument(device))
    if name in ("semver", "string", "dyn"):
        return argument
    if name == "has":  # a device may have a field that the table lacks
        return lambda device: True if argument(device) is not None else None
    raise _UnreadableError


_TEXT: Mapping[str, Callable[..., Any]] = {
    "lowerAscii": lambda text: text.lower(),
    "upperAscii": lambda text: text.upper(),
    "trim": lambda text: text.strip(),
    "contains": lambda text, part: part in text,
    "startsWith": lambda text, part: text.startswith(part),
    "endsWith": lambda text, part: text.endswith(part),
    "matches": lambda text, pattern: _matches_pattern(text, pattern),
}
_ORDER: Mapping[str, Callable[[int], Any]] = {
    "compareTo": float,
    "isGreaterThan": lambda order: order > 0,
    "isLessThan": lambda order: order < 0,
}


def _method_call(name: str, value: _Value, arguments: list[_Value]) -> _Value:
    """A method of a value, such as `compareTo` or `startsWith`."""

    def call(device: Device) -> Any:
        """The method's result for a device; None if the value or an argument is unknown."""
        target, given = value(device), [argument(device) for argument in arguments]
        if name in ("orValue", "value"):
            return target
        if target is None or None in given:
            return None
        if name in _ORDER and len(given) == 1:
            order = _order(target, given[0])
            return None if order is None else _ORDER[name](order)
        if name in _TEXT and all(isinstance(item, str) for item in (target, *given)):
            try:
                return _TEXT[name](target, *given)
            except TypeError:  # the number of arguments is wrong
                return None
        return None

    return call


def _matches_pattern(text: str, pattern: str) -> bool | None:
    """True if the text matches the pattern; None for patterns that may be slow or that Python does not support."""
    quantified, repeats = len(re.findall(r"[*+?{]", pattern)), len(re.findall(r"[*+{]", pattern))
    if len(pattern) > 200 or len(text) > _LONGEST_TEXT or quantified > _QUANTIFIERS or repeats > _REPEATS:
        return None
    if _FOLLOWING.search(pattern) or re.search(r"\)[*+?{]", pattern.replace("(?", "(")):
        return None
    try:
        return re.search(pattern, text) is not None
    except re.error:
        return None


def _order(left: Any, right: Any) -> int | None:
    """-1, 0, 1; versions ("9.0.0") by their numbers. None if the two cannot be compared."""
    if isinstance(left, str) and isinstance(right, str):
        left, right = ([int(part) for part in re.findall(r"\d+", text)[:3]] for text in (left, right))
        left, right = left + [0] * (3 - len(left)), right + [0] * (3 - len(right))
    if type(left) is not type(right) and not (isinstance(left, int | float) and isinstance(right, int | float)):
        return None
    return int(left > right) - int(left < right)


def _compare(sign: str, left: Any, right: Any) -> bool | None:
    """The relation of two values; None if one of them is unknown or they can't be ordered."""
    if sign == "in":
        if left is None or not isinstance(right, list):
            return None
        return _or([_compare("==", left, item) for item in right])
    if left is None or right is None:
        return None
    if sign in ("==", "!="):
        return (left == right) is (sign == "==")
    order = _order(left, right)
    if order is None:
        return None
    return {"<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0}[sign]


def _or(parts: list[Any]) -> bool | None:
    """The disjunction of results that may be unknown (None): one True is enough."""
    if any(part is True for part in parts):
        return True
    return False if all(part is False for part in parts) else None


def _not(value: Any) -> bool | None:
    """The negation; None for a value that is not a boolean."""
    return not value if isinstance(value, bool) else None
