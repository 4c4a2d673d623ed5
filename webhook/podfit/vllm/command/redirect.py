"""Statements with redirections: files that a script writes, and the input of its commands."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from podfit.vllm.command import output
from podfit.vllm.command.flow import Status
from podfit.vllm.command.tree import MAX_SCRIPT_LENGTH
from podfit.vllm.command.word import joined, known, literal, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

    from podfit.vllm.command.script import Shell


def statement(shell: Shell, node: Node, alone: bool = False) -> Status:
    """Follow a statement with its redirections: the file that it writes, and its input."""
    body = node.child_by_field_name("body")
    if body is None:
        _write(shell, node, None)
        return shell.block(node.children)
    before, shell.stdin = shell.stdin, output.given(shell, node) or shell.stdin
    try:
        return _with_input(shell, node, body, alone)
    finally:
        shell.stdin = before


def _write(shell: Shell, node: Node, body: Node | None) -> None:
    """Follow a statement's writes to files."""
    files = shell.state.files
    for one in output.writes(shell, node, body):
        shell.spend(len(files) // 4)
        path = known(one.target)
        before = files.get(posixpath.normpath(path), ()) if one.appends and path else ()
        shell.state.overwrite(one.target)
        if path and one.text is not None and before is not None:
            text = joined([*before, *one.text])
            size = sum(len(piece.text) for piece in text)
            shell.spend(size // 16)
            files[posixpath.normpath(path)] = text if size <= MAX_SCRIPT_LENGTH else literal(text_of(text)[:_TOO_LONG])


_TOO_LONG = MAX_SCRIPT_LENGTH + 1
"""Characters that are kept of a longer text, so that readers still see that it is too long."""


def _with_input(shell: Shell, node: Node, body: Node, alone: bool) -> Status:
    """Follow a redirected statement whose input is known."""
    if body.type == "command":
        # `vllm serve m 2>&1 --flag`: the grammar reads the words after a redirection as further destinations.
        redirects = [r for r in node.children_by_field_name("redirect") if r.type == "file_redirect"]
        status = shell.command(body, alone, [d for r in redirects for d in r.children_by_field_name("destination")[1:]])
    else:
        status = shell.statement(body, alone)
    before = dict(shell.state.files) if body.type == "list" else {}
    _write(shell, node, body)
    if body.type == "list" and (status in ("maybe", "no") or any(c.type == "||" for c in body.children)):
        shell.state.unsettle(before)  # `A && B > FILE`: B may not run
    for redirect in node.children_by_field_name("redirect"):
        if redirect.type == "heredoc_redirect":
            for child in redirect.children_by_field_name("right"):
                status = shell.statement(child)
            for child in redirect.children:
                if child.type == "pipeline":
                    status = shell.statement(child)
    return status
