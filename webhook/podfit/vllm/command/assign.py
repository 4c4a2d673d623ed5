"""Assignments and declarations: `A=b`, `A+=(c d)`, `export A=b`, `unset A`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from podfit.vllm.command import builtin, dialect
from podfit.vllm.command.parameter import WordExpander
from podfit.vllm.command.state import Array, Status
from podfit.vllm.command.tree import source
from podfit.vllm.command.word import Value, joined, known, literal, mystery, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

_MOST_ELEMENTS = 4096
"""Elements of an array, or pieces of a value, that are kept. A choice, far above the scripts in the field."""


def assignment(expander: WordExpander, node: Node) -> Status:
    """Follow `A=b`, `A+=b`, `A=(b c)`. It ends as a command in its value does, else certainly with success."""
    name_node, value_node = node.child_by_field_name("name"), node.child_by_field_name("value")
    if name_node is None:
        return "yes"
    state, name = expander.state, source(name_node)
    if name_node.type == "subscript":
        name = name.partition("[")[0]
        state.assign(name, [mystery(f"${name}", f"{name} is assigned by element")])
        return "yes"
    if state.get(name) is None:
        state.variables[name] = literal("")  # in `ARGS="$ARGS --more"`, an unset variable is empty
    before = state.variables.get(name)
    append = any(child.type == "+=" for child in node.children)
    if value_node is not None and value_node.type == "array":
        state.assign(name, _array(expander, value_node, before if append else None))
        return "yes"
    value = expander.scalar(value_node)
    if append:
        first = (before[0] if before else ()) if isinstance(before, list) else before or ()
        value = joined([*first, *value])[:_MOST_ELEMENTS]
    state.assign(name, value)
    runs_command = value_node is not None and any(mark in source(value_node) for mark in ("$(", "`"))
    return "likely" if runs_command else "yes"


def _array(expander: WordExpander, node: Node, current: Value | Array | None) -> Array:
    """The elements of `NAME=(…)`, after those of `current` (`+=`). One unknown value if elements have indices."""
    elements = [field for child in node.children if child.is_named for field in expander.fields(child)]
    if any(source(child).startswith("[") or "$((" in source(child) for child in node.children):
        return [mystery(source(node)[:64], "its elements have indices of their own, or arithmetic that may fail")]
    if isinstance(current, list):
        elements = [*current, *elements]
    elif current and text_of(current):
        elements = [current, *elements]
    return elements[:_MOST_ELEMENTS]


def declaration(expander: WordExpander, node: Node, in_function: bool) -> Status:
    """Follow `export A=b`, `declare -a A`, `local A=b`, `export $(…)`; it ends like an ordinary command."""
    keyword = node.children[0].type if node.children else ""
    options = "".join(source(child) for child in node.children if child.type == "word" and source(child)[:1] in "-+")
    exports, state = keyword == "export" or "x" in options, expander.state
    is_understood = _KNOWN_ATTRIBUTES.issuperset(options) and (keyword != "local" or in_function)
    for child in node.children[1:]:
        assigns = child.type == "variable_assignment"
        target = child.child_by_field_name("name") if assigns else child
        name = source(target) if target is not None and target.type == "variable_name" else ""  # empty for other words
        if name[:1] == "-":
            continue  # `export --port=8000`: the grammar reads it as an assignment, the shell as an option
        if assigns:
            assignment(expander, child)
            if name and dialect.has_braces(source(child)):
                state.forget([name], f"{name} is assigned once for each word of the braces")
        elif child.is_named and child.type not in ("variable_name", "comment") and source(child)[:1] not in "-+":
            builtin.export_words(state, expander.fields(child), exported=exports)  # `export $(…)`, `export "A=b"`
        elif name and not exports and "a" in options:
            state.variables.setdefault(name, [])
        elif name and keyword in ("local", "declare", "typeset"):
            state.forget([name], f"bash and sh differ in the value of {keyword} {name}")
        if not name:
            continue
        if exports:
            (state.exported.discard if "n" in options else state.exported.add)(name)  # `export -n` ends the export
        if not is_understood:
            state.forget([name], f"{name} is declared with {keyword} {options}".rstrip())
        if not is_understood or keyword == "readonly" or "r" in options:
            state.computed.add(name)  # a later assignment fails, or sets another value
    if "n" in options and not exports:
        state.forget_all("a variable is a reference to another one")
    return "likely"


_KNOWN_ATTRIBUTES = frozenset("-axrgp") | {"n"}
"""Options of `declare` that do not change a value; `export -n` is one of them."""


def unset(expander: WordExpander, node: Node) -> Status:
    """Follow `unset A`, `unset $NAME` and `unset -f FUNCTION`."""
    state, names = expander.state, [source(child) for child in node.children[1:]]
    for child, word in zip(node.children[1:], names, strict=True):
        expands = "$" in word or "`" in word
        for name in map(known, expander.fields(child)) if expands else [word.strip("'\"")]:
            if name is None:
                state.forget_all(f"{word} may be any variable")
                state.removed |= state.variables.keys()
            elif "[" in name:
                state.forget([name.partition("[")[0]], f"an element of {name} is removed")
            else:
                if "-f" in names or name not in state.variables:
                    state.functions.pop(name, None)
                if "-f" not in names:
                    state.variables.pop(name, None)
                    state.removed.add(name)
    return "yes"
