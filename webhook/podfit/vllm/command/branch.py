"""Branches of a script: if a condition is unknown, every branch is followed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from podfit.vllm.command import condition
from podfit.vllm.command.flow import Status, either_of
from podfit.vllm.command.state import ShellState, merge
from podfit.vllm.command.tree import GiveUp, source
from podfit.vllm.command.word import known

if TYPE_CHECKING:
    from tree_sitter import Node

    from podfit.vllm.command.script import Shell


def if_statement(shell: Shell, node: Node) -> Status:
    """`if … then … elif … else … fi`."""
    return _branch(shell, node.children)


def _branch(shell: Shell, children: Sequence[Node]) -> Status:
    """Follow `if`/`elif`, with everything up to `fi`."""
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
        if any(child.type in (";&", ";;&") for child in item.children):
            raise GiveUp("a case continues with the next one")
        patterns = _patterns(item)
        closing = next((i for i, c in enumerate(item.children) if c.type == ")"), 0)
        body = functools.partial(shell.block, item.children[closing + 1 :])
        if value is None:
            bodies.append(body)
            continue
        answers = [condition.fits(shell, value, *pattern) for pattern in patterns]
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


def _patterns(item: Node) -> list[list[Node]]:
    """The patterns of one item of a `case`, each with the parts that the grammar makes of it."""
    patterns: list[list[Node]] = [[]]
    for position, child in enumerate(item.children):
        if item.field_name_for_child(position) == "value" or child.type == "ERROR":
            patterns[-1].append(child)
        elif child.type == "|":
            patterns.append([])
        elif child.type == ")":
            break
    return [pattern for pattern in patterns if pattern]


def and_or(shell: Shell, node: Node) -> Status:
    """Follow `A && B || C` from left to right. In the grammar, each operator's left side has all that comes before."""
    chain: list[tuple[Node, str, Node]] = []
    while node.type == "list":
        named = [child for child in node.children if child.is_named]
        if len(named) != 2:
            break
        operator = next((c.type for c in node.children if c.type in ("&&", "||")), "&&")
        chain.append((named[0], operator, named[1]))
        node = named[0]
    # The command on the left of `||` may fail without ending the script, even if it is a long chain itself.
    branches, caught = shell.branches, sum(operator == "||" for _, operator, _ in chain)
    failed: list[ShellState] = []
    try:
        shell.branches = branches + caught
        status = shell.statement(node) if chain else shell.block(node.children)
        for left, operator, right in reversed(chain):
            caught -= operator == "||"
            shell.branches = branches + caught
            if operator == "||" and failed:
                _rejoin(shell, failed, left)
                status = either_of([status, "likely"])
            if operator == "&&" and status == "likely" and _last(left) not in _SURE:
                shell.spend(sum(len(v) for v in (shell.state.positional, *shell.state.variables.values())) // 8)
                failed.append(shell.state.copy())
            status = _then(shell, status, left, operator, right)
        return status
    finally:
        shell.branches = branches
        _rejoin(shell, failed, node)


_SURE = frozenset({"date", "echo", "printf", "sleep"})
"""Commands that practically never fail."""


def _last(node: Node) -> str:
    """The name of the last command of a list."""
    while node.type == "list" and node.children:
        node = node.children[-1]
    name = node.child_by_field_name("name") if node.type == "command" else None
    return source(name) if name is not None else ""


def _rejoin(shell: Shell, failed: list[ShellState], left: Node) -> None:
    """Merge the states of the shell: the commands after `A && B` also run if A has failed."""
    for state in failed:
        shell.spend(len(state.variables) // 8)
        shell.state.__dict__.update(merge(shell.state, state, f"how {source(left)[:80]} ends").__dict__)
    failed.clear()


def _then(shell: Shell, status: Status, left: Node, operator: str, right: Node) -> Status:
    """Follow `left && right` or `left || right`, with the status of `left`."""
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
