"""Assignments and declarations: `A=b`, `A+=(c d)`, `export A=b`, `unset A`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from webhook.vllm.command.flow import Status
from webhook.vllm.command.state import Array
from webhook.vllm.command.tree import source
from webhook.vllm.command.word import Value, literal, mystery, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

    from webhook.vllm.command.script import Shell


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
        variables[name] = literal("")  # `ARGS="$ARGS --more"` starts from nothing
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
    return "yes"


def declaration(shell: Shell, node: Node) -> Status:
    """`export A=b`, `declare -a A`, `local A=b`."""
    exports = bool(node.children) and node.children[0].type == "export"
    flags = [source(child) for child in node.children if child.type == "word"]
    exports = exports or any(flag.startswith("-") and "x" in flag for flag in flags)
    for child in node.children:
        name = ""
        if child.type == "variable_assignment":
            assignment(shell, child)
            target = child.child_by_field_name("name")
            name = source(target) if target is not None else ""
        elif child.type == "variable_name":
            name = source(child)
            if not exports and any(flag in ("-a", "-A") for flag in flags):
                shell.state.variables.setdefault(name, [])
        if exports and name:
            shell.state.exported.add(name)
    return "yes"


def unset(shell: Shell, node: Node) -> Status:
    """`unset A`."""
    for child in node.children[1:]:
        shell.state.variables.pop(source(child), None)
        shell.state.removed.add(source(child))
    return "yes"


def _concatenated(left: Value, right: Value) -> Value:
    """Two values joined; literal neighbors of one path become one piece."""
    joined = tuple(p for p in (*left, *right) if p.text or p.unknown is not None)
    if len(joined) > 1 and all(p.unknown is None and p.path == joined[0].path for p in joined):
        joined = literal("".join(p.text for p in joined), joined[0].path)
    return joined[:4096] or literal("")
