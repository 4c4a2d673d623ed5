"""Branches and loops: where a condition is not known, every way is followed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from webhook.vllm.command import condition
from webhook.vllm.command.flow import Break, Exit, Status, negate
from webhook.vllm.command.tree import source
from webhook.vllm.command.word import Value, known

if TYPE_CHECKING:
    from tree_sitter import Node

    from webhook.vllm.command.script import Shell

_ITERATIONS = 64
"""Rounds of one loop that are followed; of a longer one, the first."""


def if_statement(shell: Shell, node: Node) -> Status:
    """`if … then … elif … else … fi`."""
    return _branch(shell, node.children)


def _branch(shell: Shell, children: Sequence[Node]) -> Status:
    """`if`/`elif` and what follows it up to `fi`."""
    question: list[Node] = []
    body: list[Node] = []
    others: list[Node] = []
    part = question
    for child in children:
        if child.type in ("elif_clause", "else_clause"):
            others.append(child)
        elif child.type in ("if", "elif", "fi"):
            continue
        elif child.type == "then":
            part = body
        else:
            part.append(child)
    status = shell.asked(question)
    if status == "yes":
        return shell.block(body)
    if status == "no":
        return _else_part(shell, others)
    why = " ".join(source(c) for c in question if c.is_named)
    return shell.either([lambda: shell.block(body), lambda: _else_part(shell, others)], why)


def _else_part(shell: Shell, clauses: Sequence[Node]) -> Status:
    """Runs the `elif` and `else` clauses of an `if`."""
    if not clauses:
        return "yes"
    if clauses[0].type == "else_clause":
        return shell.block(clauses[0].children[1:])
    with shell.budget:
        return _branch(shell, [*clauses[0].children, *clauses[1:]])


def case_statement(shell: Shell, node: Node) -> Status:
    """`case … in … esac`."""
    subject = node.child_by_field_name("value")
    value = known(shell.words.scalar(subject)) if subject is not None else None
    bodies: list[Callable[[], Status]] = []
    certain = value is not None
    for item in (child for child in node.children if child.type == "case_item"):
        patterns = [shell.words.scalar(p) for p in item.children_by_field_name("value")]
        closing = next((i for i, c in enumerate(item.children) if c.type == ")"), 0)
        body = functools.partial(shell.block, item.children[closing + 1 :])
        if value is None:
            bodies.append(body)
            continue
        texts = [known(p) for p in patterns]
        answers = [None if t is None else condition.matches(shell, value, t.strip("\"'")) for t in texts]
        if True in answers:
            if certain:
                return body()
            bodies.append(body)
            break
        if None in answers:
            certain = False
            bodies.append(body)
    if not bodies:
        return "yes"
    return shell.either([*bodies, lambda: "yes"], f"case {source(subject) if subject else ''}")


def for_statement(shell: Shell, node: Node) -> Status:
    """`for X in …; do …; done`."""
    name_node, body = node.child_by_field_name("variable"), node.child_by_field_name("body")
    if name_node is None or body is None:
        return "likely"
    name = source(name_node)
    skips, listed = shell.skips, node.children_by_field_name("value")
    values = [f for v in listed for f in shell.words.fields(v)] if listed else list(shell.state.positional)
    if len(values) > _ITERATIONS or any(known(v) is None for v in values):
        values = values[:1]
        shell.either([functools.partial(_round, shell, name, v, body) for v in values] + [lambda: "yes"], source(body))
        shell.skips = skips
        return "likely"
    for value in values:
        try:
            _round(shell, name, value, body)
        except Break:
            break
    shell.skips = skips
    return "likely"


def _round(shell: Shell, name: str, value: Value, body: Node) -> Status:
    shell.state.variables[name] = value
    return shell.statement(body)


def c_style_for_statement(shell: Shell, node: Node) -> Status:
    """`for ((…)); do …; done`."""
    body, skips = node.child_by_field_name("body"), shell.skips
    if body is not None:
        shell.either([lambda: shell.statement(body), lambda: "yes"], source(node).partition("do")[0])
    shell.skips = skips
    return "likely"


def while_statement(shell: Shell, node: Node) -> Status:
    """`while …; do …; done` and `until`."""
    question, body = node.children_by_field_name("condition"), node.child_by_field_name("body")
    skips, status = shell.skips, shell.asked(question)
    if node.children and node.children[0].type == "until":
        status = negate(status)
    if status == "no" or body is None:
        return "yes"
    branches: list[Callable[[], Status]] = [functools.partial(shell.statement, body)]
    if status != "yes":
        branches.append(lambda: "yes")
    try:
        shell.either(branches, " ".join(source(c) for c in question))
    except Exit:
        if status != "yes":
            raise
    shell.skips = skips
    return "likely"


def and_or(shell: Shell, node: Node) -> Status:
    """`A && B || C`: one after the other, though the grammar has what comes before in each operator's left side."""
    chain: list[tuple[Node, str, Node]] = []
    while node.type == "list":
        named = [child for child in node.children if child.is_named]
        if len(named) != 2:
            break
        operator = next((c.type for c in node.children if c.type in ("&&", "||")), "&&")
        chain.append((named[0], operator, named[1]))
        node = named[0]
    # What stands left of an `||` may fail, however much of it there is.
    branches, caught = shell.branches, sum(operator == "||" for _, operator, _ in chain)
    try:
        shell.branches = branches + caught
        status = shell.statement(node) if chain else shell.block(node.children)
        for left, operator, right in reversed(chain):
            caught -= operator == "||"
            shell.branches = branches + caught
            status = _then(shell, status, left, operator, right)
        return status
    finally:
        shell.branches = branches


def _then(shell: Shell, status: Status, left: Node, operator: str, right: Node) -> Status:
    """`left && right` or `left || right`, where it is known how `left` ended."""
    if operator == "&&":
        if status == "no":
            return "no"
        if status == "maybe":
            shell.either([functools.partial(shell.statement, right), lambda: "no"], source(left))
            return "maybe"
        return shell.statement(right)
    if status == "yes":
        return "yes"
    if status == "no":
        return shell.statement(right)
    shell.either([lambda: "yes", functools.partial(shell.statement, right)], f"! {source(left)}")
    return "likely"
