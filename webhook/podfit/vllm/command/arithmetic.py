"""`$((…))` and `((…))`: integer arithmetic and its assignments, as far as their parts are known."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from podfit.base.numbers import LARGEST
from podfit.vllm.command.state import Array
from podfit.vllm.command.tree import Depth, source
from podfit.vllm.command.word import Value, known

if TYPE_CHECKING:
    from tree_sitter import Node

Scalar = Callable[["Node"], Value]
Lookup = Callable[[str], "Value | Array | None"]
Assign = Callable[[str, "int | None"], None]
_NAMES = 4
"""How many variables may name each other in a chain."""
_ASSIGNS = re.compile(r"([-+*/%&|^]|<<|>>)?=")


def value(node: Node, scalar: Scalar, lookup: Lookup, assign: Assign, depth: Depth) -> int | None:
    """The value of an expression, None if a part of it is unknown, or nested too deeply. `scalar` expands a word,
    `lookup` returns a variable's value, `assign` sets one (None: to an unknown value)."""

    def of(part: Node) -> int | None:
        if depth.full:
            return None
        with depth:
            return value(part, scalar, lookup, assign, depth)

    def maybe(part: Node) -> None:
        """Handle a part that may not be evaluated: its assignments make variables unknown."""
        if not depth.full:
            with depth:
                value(part, scalar, lookup, lambda name, _: assign(name, None), depth)

    kind = node.type
    if kind in ("number", "word", "variable_name"):
        return _number(source(node), lookup)
    if kind in ("simple_expansion", "expansion", "string", "concatenation", "command_substitution"):
        text = known(scalar(node))
        return _number(text, lookup) if text is not None else None
    named = [child for child in node.children if child.is_named]
    if kind == "parenthesized_expression" and len(named) == 1:
        return of(named[0])
    name = next((source(child) for child in named[:1] if child.type == "variable_name"), None)
    steps = [1 if child.type == "++" else -1 for child in node.children if child.type in ("++", "--")]
    if name is not None and steps:
        before = of(named[0])
        after = None if before is None else before + steps[0]
        assign(name, after)
        return before if kind == "postfix_expression" else after
    if kind == "unary_expression" and len(node.children) == 2:
        right = of(node.children[1])
        operator = source(node.children[0])
        if right is None or operator not in ("-", "+", "!", "~"):
            return None
        if _operator(node.children[1]) not in ("", *(("*", "/", "%") if operator == "-" else ())):
            return None  # the grammar reads `-5 >> 1` as `-(5 >> 1)`
        return {"-": -right, "+": right, "!": int(not right), "~": ~right}[operator]
    if kind == "ternary_expression" and len(named) == 3:
        condition = of(named[0])
        if condition is None:
            maybe(named[1])
            maybe(named[2])
            return None
        return of(named[1 if condition else 2])
    if kind == "binary_expression" and len(node.children) == 3:
        operator = source(node.children[1])
        left = of(node.children[0])
        if operator in ("&&", "||"):
            if left is None:
                maybe(node.children[2])
                return None
            if bool(left) == (operator == "||"):
                return int(bool(left))
        right = of(node.children[2])
        if operator == "**" and "**" in (_operator(node.children[0]), _operator(node.children[2])):
            return None  # it groups from the right, which the grammar does not do
        if _ASSIGNS.fullmatch(operator):
            if operator != "=" and left is not None and right is not None:
                right = _calculate(left, operator[:-1], right)
            elif operator != "=":
                right = None
            if name is not None:
                assign(name, right)
            return right
        return None if left is None or right is None else _calculate(left, operator, right)
    return None


def _operator(node: Node) -> str:
    """The operator of a binary expression."""
    return source(node.children[1]) if node.type == "binary_expression" and len(node.children) == 3 else ""


def _number(text: str, lookup: Lookup) -> int | None:
    """A number, or the value of the variable of that name, which may be the name of another variable."""
    for _ in range(_NAMES):
        text = text.strip()
        found = lookup(text) if text.isidentifier() else None
        inner = known(found) if isinstance(found, tuple) else None
        if inner is None:
            break
        text = inner
    if re.fullmatch(r"[+-]?(0[xX][0-9a-fA-F]{1,16}|\d{1,18})", text):
        sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text.lstrip("+"))
        octal = len(digits) > 1 and digits.startswith("0") and digits[1] not in "xX"
        try:
            return sign * int(digits, 8 if octal else 0)
        except ValueError:
            return None
    return None


def _calculate(left: int, operator: str, right: int) -> int | None:
    """The result; None if it is unknown, or beyond int64, where shells differ."""
    result = _unbounded(left, operator, right)
    return result if result is not None and abs(result) <= LARGEST else None


def _unbounded(left: int, operator: str, right: int) -> int | None:
    if operator in ("/", "%"):
        if right == 0:
            return None
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        return quotient if operator == "/" else left - quotient * right
    if operator in ("**", "<<", ">>"):
        if not 0 <= right < 64:
            return None
        value = left**right if operator == "**" else left << right if operator == "<<" else left >> right
        return value if value.bit_length() < 64 else None
    table: dict[str, Callable[[], int]] = {
        "+": lambda: left + right,
        "-": lambda: left - right,
        "*": lambda: left * right,
        "==": lambda: int(left == right),
        "!=": lambda: int(left != right),
        "<": lambda: int(left < right),
        "<=": lambda: int(left <= right),
        ">": lambda: int(left > right),
        ">=": lambda: int(left >= right),
        "&&": lambda: int(bool(left and right)),
        "||": lambda: int(bool(left or right)),
        "&": lambda: left & right,
        "|": lambda: left | right,
        "^": lambda: left ^ right,
    }
    return table[operator]() if operator in table else None
