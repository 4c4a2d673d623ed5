"""`[ … ]`, `[[ … ]]` and `test`: their results, as far as they are known."""

from __future__ import annotations

import fnmatch
import glob
import re
from typing import TYPE_CHECKING

from podfit.vllm.command import dialect
from podfit.vllm.command.flow import Status, status_of
from podfit.vllm.command.tree import source
from podfit.vllm.command.word import Value, known, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

    from podfit.vllm.command.script import Shell


_DECIMAL = re.compile(r"-?(?:0|[1-9]\d{0,17})")
"""A number that `[` and `[[` read in the same way: for `[[`, 010 is octal."""


def command(shell: Shell, node: Node) -> Status:
    """`[ … ]` and `[[ … ]]`."""
    inner = [child for child in node.children if child.is_named]
    if node.children and node.children[0].type == "((":
        return shell.compound(node)
    answer = _test(shell, inner[0], node.children[0].type == "[[") if len(inner) == 1 else None
    return status_of(answer)


def _test(shell: Shell, node: Node, extended: bool) -> bool | None:
    """The result of `[ … ]` and `[[ … ]]`; None if it is unknown, or nested too deeply."""
    depth = shell.budget.word
    if depth.full:
        return None
    with depth:
        return _answer(shell, node, extended)


def _answer(shell: Shell, node: Node, extended: bool) -> bool | None:
    """The result of a test expression; None if it depends on something unknown."""
    children = node.children
    if node.type == "parenthesized_expression":
        inner = [child for child in children if child.is_named]
        return _test(shell, inner[0], extended) if inner else None
    if node.type == "negation_expression" or (node.type == "unary_expression" and source(children[0]) == "!"):
        answer = _test(shell, children[-1], extended)
        return None if answer is None else not answer
    if node.type == "unary_expression" and len(children) == 2:
        if not extended and _splits(shell, children[1]):
            return None
        return _unary_test(shell, source(children[0]), shell.words.scalar(children[1]))
    if node.type == "binary_expression" and len(children) > 3:
        operator, compared = source(children[1]), known(shell.words.scalar(children[0]))
        if operator not in ("=", "==", "!=") or compared is None or not extended or children[0].type in _NESTED:
            return None
        same = fits(shell, compared, *children[2:])  # `*" a "*`: several parts of one pattern
        return same if operator != "!=" or same is None else not same
    if node.type == "binary_expression" and len(children) == 3:
        operator = source(children[1])
        if operator in ("-a", "-o"):
            return None  # the grammar groups them in another way than shells
        if operator in ("&&", "||"):
            if any(_joins(child) not in ("", operator) for child in (children[0], children[2])):
                return None  # the same for these two without parentheses
            left, right = _test(shell, children[0], extended), _test(shell, children[2], extended)
            decisive = operator == "||"
            if left is decisive or right is decisive:
                return decisive
            return None if left is None or right is None else not decisive
        if not _NESTED.isdisjoint((children[0].type, children[2].type)):
            return None
        if not extended and (_splits(shell, children[0]) or _splits(shell, children[2])):
            return None
        left_value, right_value = shell.words.scalar(children[0]), shell.words.scalar(children[2])
        if extended and operator in ("=", "==", "!="):
            text = known(left_value)
            same = None if text is None else fits(shell, text, children[2])
            return same if operator != "!=" or same is None else not same
        return _compare(shell, left_value, operator, right_value, octal=extended)
    if node.type == "binary_expression" or (not extended and _splits(shell, node)):
        return None
    text = known(shell.words.scalar(node))
    return None if text is None else bool(text)


def _joins(node: Node) -> str:
    """The `&&` or `||` of an expression without parentheses."""
    if node.type != "binary_expression" or len(node.children) != 3:
        return ""
    operator = source(node.children[1])
    return operator if operator in ("&&", "||") else ""


_NESTED = frozenset({"binary_expression", "unary_expression", "negation_expression"})
"""Nodes that the grammar makes of the operands in `[ a = b -o c = d ]`."""
_EXPANDS = frozenset({"simple_expansion", "expansion", "command_substitution", "concatenation"})


def _splits(shell: Shell, node: Node) -> bool:
    """Whether an operand without quotation marks may be several words for `[`."""
    if node.type in ("word", "concatenation") and dialect.has_braces(source(node)):
        return True
    return node.type in _EXPANDS and len(shell.words.fields(node)) != 1


def _unary_test(shell: Shell, operator: str, value: Value) -> bool | None:
    """`-n`, `-z`, `-f` … of a value; None if it is unknown."""
    text = known(value)
    if operator in ("-n", "-z"):
        if text is None:
            filled = any(p.unknown is None and p.text for p in value)
            return (operator == "-n") if filled else None
        return bool(text) if operator == "-n" else not text
    if operator in ("-f", "-e", "-r", "-s", "-x") and text is not None and shell.file(text) is not None:
        return True
    return None


def _compare(shell: Shell, left: Value, operator: str, right: Value, *, octal: bool = False) -> bool | None:
    """The result of a comparison, None if unknown. `octal`: inside of `[[`, whose numbers are arithmetic."""
    one, two = known(left), known(right)
    if one is None or two is None:
        return None
    if operator in ("=", "==", "!="):
        return (one == two) is (operator != "!=")
    if operator in ("-eq", "-ne", "-lt", "-le", "-gt", "-ge"):
        if not (_DECIMAL.fullmatch(one.strip()) and _DECIMAL.fullmatch(two.strip())):
            return None
        if octal and any(text.strip().lstrip("-").startswith("0") and len(text.strip("-")) > 1 for text in (one, two)):
            return None
        a, b = int(one), int(two)
        return {"-eq": a == b, "-ne": a != b, "-lt": a < b, "-le": a <= b, "-gt": a > b, "-ge": a >= b}[operator]
    return None


def builtin(shell: Shell, argv: list[Value]) -> Status:
    """Follow `test …`, and `[ …` if the grammar takes it for a command."""
    answer: bool | None = None
    negated = bool(argv) and text_of(argv[0]) == "!"
    argv = argv[1:] if negated else argv
    if len(argv) == 1:
        text = known(argv[0])
        answer = None if text is None else bool(text)
    elif len(argv) == 2:
        answer = _unary_test(shell, text_of(argv[0]), argv[1])
    elif len(argv) == 3:
        answer = _compare(shell, argv[0], text_of(argv[1]), argv[2])
    if answer is None:
        return "maybe"
    return "yes" if answer != negated else "no"


_GLOB = re.compile(r"[*?\[\\]")
_UNLIKE_PYTHON = re.compile(r"\[\^|\[\[?[:.=]|[?*+@!]\(")
"""Patterns that a shell reads in another way than `fnmatch`: `[^a]`, `[[:alpha:]]`, `@(a|b)`."""


def fits(shell: Shell, text: str, node: Node, *more: Node) -> bool | None:
    """Whether the pattern in a node, or in several in a row, matches the whole text; None if unknown."""
    if more:
        parts = [_part(shell, one) for one in (node, *more)]
        return None if None in parts else matches(shell, text, "".join([part or "" for part in parts]))
    pattern, written = known(shell.words.scalar(node)), source(node)
    if pattern is None:
        return None
    if node.type in ("string", "raw_string"):
        return text == pattern
    if _expands(node) or _UNLIKE_PYTHON.search(written) is not None:
        return None
    if _GLOB.search(pattern) is None and _GLOB.search(written) is None:
        return text == pattern
    if any(mark in written for mark in "\"'\\") or _UNLIKE_PYTHON.search(pattern) is not None:
        return None
    return matches(shell, text, pattern)


def _part(shell: Shell, node: Node) -> str | None:
    """A part of a pattern as `fnmatch` reads it; None if unknown."""
    part, written = known(shell.words.scalar(node)), source(node)
    if part is None or node.type in ("string", "raw_string"):
        return None if part is None else glob.escape(part)
    unlike = any(mark in written for mark in "\"'\\") or _UNLIKE_PYTHON.search(part) is not None
    return None if unlike or _expands(node) else part


def _expands(node: Node) -> bool:
    """Whether the grammar does not separate the expansions in a pattern from its text."""
    return node.has_error or (node.type in ("extglob_pattern", "regex") and any(mark in source(node) for mark in "$`"))


def matches(shell: Shell, text: str, pattern: str) -> bool | None:
    """Whether a pattern matches the whole text; None if matching would take long."""
    if len(text) > 1024 or len(pattern) > 128:
        return text == pattern or None
    shell.spend(len(text) * len(pattern) // 64)
    return fnmatch.fnmatchcase(text, pattern)
