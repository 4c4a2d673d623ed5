"""Assignments and declarations: `A=b`, `A+=(c d)`, `export A=b`, `unset A`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from podfit.vllm.command import builtin, dialect
from podfit.vllm.command.flow import Status
from podfit.vllm.command.state import Array
from podfit.vllm.command.tree import source
from podfit.vllm.command.word import Value, known, literal, mystery, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

    from podfit.vllm.command.script import Shell


def assignment(shell: Shell, node: Node) -> Status:
    """`A=b`, `A+=b`, `A=(b c)`."""
    name_node, value_node = node.child_by_field_name("name"), node.child_by_field_name("value")
    if name_node is None:
        return "yes"
    name = source(name_node)
    append = any(child.type == "+=" for child in node.children)
    variables = shell.state.variables
    if name_node.type == "subscript":
        array, _, key = name.partition("[")
        before = variables.get(array)
        if isinstance(before, list) and not append and not re.match(r"['\"]?[\d$]", key):
            variables[array] = [*before, _concatenated(literal(f"[{key}="), shell.words.scalar(value_node))][:4096]
            return "yes"
        variables[array] = mystery(f"${{{name}}}", f"{name} is assigned by element")
        return "yes"
    if shell.state.get(name) is None:
        variables[name] = literal("")  # in `ARGS="$ARGS --more"`, an unset variable is empty
    before = variables.get(name)
    if value_node is not None and value_node.type == "array":
        elements: Array = [f for child in value_node.children if child.is_named for f in shell.words.fields(child)]
        if append and isinstance(before, list):
            elements = before + elements
        elif append and isinstance(before, tuple) and text_of(before):
            elements = [before, *elements]
        variables[name] = elements[:4096]
        return "yes"
    value = shell.words.scalar(value_node)
    if append and isinstance(before, list):
        variables[name] = [_concatenated(before[0], value), *before[1:]] if before else [value]
    elif append:
        variables[name] = _concatenated(before if isinstance(before, tuple) else literal(""), value)
    else:
        variables[name] = value
    if name in shell.state.computed:
        shell.state.forget([name], f"its value is not the one that {name} is assigned")
    return "likely" if value_node is not None and _RUNS.search(source(value_node)) else "yes"


def declaration(shell: Shell, node: Node) -> Status:
    """`export A=b`, `declare -a A`, `local A=b`, `export $(…)`."""
    keyword = node.children[0].type if node.children else ""
    flags = "".join(source(child) for child in node.children if child.type == "word" and source(child)[:1] == "-")
    exports = keyword == "export" or "x" in flags
    local = keyword in ("local", "declare", "typeset") and "g" not in flags and bool(shell.locals)
    for child in node.children[1:]:
        target = child.child_by_field_name("name") if child.type == "variable_assignment" else child
        name = source(target) if target is not None and target.type == "variable_name" else ""
        if local and name:
            _make_local(shell, name, array="a" in flags.lower())
        if child.type == "variable_assignment":
            assignment(shell, child)
            if name and dialect.has_braces(source(child)):
                shell.state.forget([name], f"{name} is assigned once for each word of the braces")
        elif name and not exports and "a" in flags.lower():
            shell.state.variables.setdefault(name, [])
        elif child.is_named and child.type not in _NAMED and source(child)[:1] != "-":
            builtin.assign_words(shell, shell.words.fields(child), exported=exports)
        if exports and name:
            (shell.state.exported.discard if "n" in flags else shell.state.exported.add)(name)
        if name and keyword == "local" and not shell.locals:
            shell.state.forget([name], "local is an error outside of functions")
        if name and not _KNOWN_ATTRIBUTES.issuperset(flags):
            shell.state.forget([name], f"{name} is declared with {flags}")
            if not _COMPUTES.isdisjoint(flags):
                shell.state.computed.add(name)
    if "n" in flags and not exports:
        shell.state.forget_all("a variable is a reference to another one")
    return "yes" if _ASKS.isdisjoint(flags) else "maybe"


_RUNS = re.compile(r"\$\((?!\()|`")
"""A command substitution: its status is also that of the assignment."""
_NAMED = ("variable_name", "variable_assignment", "comment")
_KNOWN_ATTRIBUTES = frozenset("-aAxrgp")
"""Options of `declare` that do not change a value."""
_ASKS = frozenset("pfF")
"""Options of `declare` that only show a variable or a function."""
_COMPUTES = frozenset("iluc")
"""Options of `declare` after which every assigned value is changed."""


def _make_local(shell: Shell, name: str, *, array: bool) -> None:
    """Make a variable local to the function: its former value comes back when the function ends."""
    before = shell.state.variables.get(name)
    shell.locals[-1].setdefault(name, before)
    if array:
        shell.state.variables[name] = []
    elif before is None:
        shell.state.variables[name] = literal("")
    # Otherwise bash unsets it, and dash keeps the value: usually an assignment follows.


def unset(shell: Shell, node: Node) -> Status:
    """Follow `unset A`, `unset $NAME` and `unset -f FUNCTION`."""
    words = [source(child) for child in node.children[1:]]
    for child, word in zip(node.children[1:], words, strict=True):
        if any(mark in word.partition("[")[0] for mark in "$`"):
            names = [known(field) for field in shell.words.fields(child)]
            if None in names:
                shell.state.forget_all(f"{word} may be any variable")
        else:
            names = [word]
        for name in names:
            _unset(shell, name or "", function="-f" in words)
    return "yes"


def _unset(shell: Shell, word: str, *, function: bool) -> None:
    name, element, _ = word.strip("'\"").partition("[")
    if element:
        shell.state.forget([name], f"an element of {name} is removed")
        return
    if function or name not in shell.state.variables:
        shell.state.functions.pop(name, None)
    if not function:
        shell.state.variables.pop(name, None)
        shell.state.removed.add(name)


def _concatenated(left: Value, right: Value) -> Value:
    """Two values joined; adjacent literals of one path become one piece."""
    joined = tuple(p for p in (*left, *right) if p.text or p.unknown is not None)
    if len(joined) > 1 and all(p.unknown is None and p.path == joined[0].path for p in joined):
        joined = literal("".join(p.text for p in joined), joined[0].path)
    return joined[:4096] or literal("")
