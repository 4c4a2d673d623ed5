"""Loops: rounds are followed while it is certain that there is another one; after that, their changes become
unknown."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from podfit.vllm.command.flow import Break, Exit, Status, negate
from podfit.vllm.command.tree import source
from podfit.vllm.command.word import Value, known

if TYPE_CHECKING:
    from tree_sitter import Node

    from podfit.vllm.command.script import Shell

_ITERATIONS = 64
"""Rounds of one loop that are followed; their later changes are unknown."""
_PASSES = 3
"""How often a round is followed again to find what it may change when its input is unknown."""


def for_statement(shell: Shell, node: Node) -> Status:
    """`for X in …; do …; done`."""
    name_node, body = node.child_by_field_name("variable"), node.child_by_field_name("body")
    if name_node is None or body is None:
        return "likely"
    name, skips, before = source(name_node), shell.skips, shell.copy()
    listed = node.children_by_field_name("value")
    values = [f for v in listed for f in shell.words.fields(v)] if listed else list(shell.state.positional)
    if len(values) > _ITERATIONS or any(known(v) is None for v in values):
        follow = functools.partial(_turn, shell, name, values[0], body)
        _some_rounds(shell, [follow, lambda: "yes"], follow, f"for {name} in {' '.join(map(source, listed))}")
    else:
        for value in values:
            if not _round(shell, functools.partial(_turn, shell, name, value, body)):
                break
        if shell.skips > skips:
            shell.state.forget(shell.state.changed(before), f"the loop over {name} may have ended before")
            shell.state.unsettle(before.files)
    shell.skips = skips
    return "likely"


def _turn(shell: Shell, name: str, value: Value, body: Node) -> Status:
    shell.state.variables[name] = value
    return shell.statement(body)


def c_style_for_statement(shell: Shell, node: Node) -> Status:
    """`for ((…)); do …; done`."""
    body, skips = node.child_by_field_name("body"), shell.skips
    if body is not None:
        follow = functools.partial(shell.statement, body)
        _some_rounds(shell, [follow, lambda: "yes"], follow, source(node).partition("do")[0])
    shell.skips = skips
    return "likely"


def while_statement(shell: Shell, node: Node) -> Status:
    """`while …; do …; done` and `until`."""
    question, body = node.children_by_field_name("condition"), node.child_by_field_name("body")
    if body is None:
        return "yes"
    until, skips, why = node.children[0].type == "until", shell.skips, " ".join(map(source, question))

    def ask() -> Status:
        return negate(shell.asked(question)) if until else shell.asked(question)

    def follow() -> Status:
        shell.branches += 1  # the loop continues after a failure
        try:
            return shell.statement(body)
        finally:
            shell.branches -= 1

    def again() -> Status:
        ask()
        return follow()

    status, count = ask(), 0
    for count in range(0 if shell.blind else _ITERATIONS):  # a loop inside of a loop's round is followed once
        if status != "yes" or shell.skips > skips:
            break
        before = shell.copy()
        with shell.unseen(count > 0):  # the first round has already visited the commands
            more = _round(shell, follow)
            status = ask() if more else "no"
        if more and not shell.state.changed(before) and shell.state.positional == before.positional:
            status = "no"  # certainly no further round
    if status != "no":
        with shell.unseen(count > 0):
            _some_rounds(shell, [follow, lambda: "yes"], again, why)
    shell.skips = skips
    return "yes" if count == 0 and status == "no" else "likely"


def _round(shell: Shell, follow: Callable[[], Status]) -> bool:
    """Follow one round; returns whether another one may follow."""
    try:
        follow()
    except Break as end:
        if end.levels > 1:
            raise Break(end.levels - 1, goes_on=end.goes_on) from None
        return end.goes_on
    return True


def _some_rounds(shell: Shell, branches: Sequence[Callable[[], Status]], again: Callable[[], Status], why: str) -> None:
    """Follows a first round that may not happen, and makes unknown what further rounds may change."""
    before = shell.copy()
    _either(shell, branches, why)
    if shell.blind:
        _forget(shell, shell.state.changed(before), before.positional, why)
        return
    with shell.unseen():
        for _ in range(_PASSES):
            changed = shell.state.changed(before)
            _forget(shell, changed, before.positional, why)
            before = shell.copy()
            _either(shell, [again, lambda: "yes"], why)
            if shell.state.changed(before) <= changed:
                break
    _forget(shell, shell.state.changed(before) | changed, before.positional, why)


def _forget(shell: Shell, names: set[str], positional: Sequence[Value], why: str) -> None:
    """Make variables unknown, and the positional parameters if they differ from those before."""
    said = f"it depends on the rounds of {why}"
    shell.state.forget(names, said)
    if shell.state.positional != positional:
        shell.state.forget_positional(said)


def _either(shell: Shell, branches: Sequence[Callable[[], Status]], why: str) -> None:
    """Follow the branches of a loop; `break` and `exit` in them end only the loop."""
    with contextlib.suppress(Break, Exit):
        shell.either(branches, why)
