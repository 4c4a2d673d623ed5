"""Statements with redirections: files that a script writes, and the input of its commands."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from webhook.vllm.command import output, tree
from webhook.vllm.command.flow import Status

if TYPE_CHECKING:
    from tree_sitter import Node

    from webhook.vllm.command.script import Shell


def statement(shell: Shell, node: Node, alone: bool = False) -> Status:
    """Follow a statement with its redirections: the file that it writes, and its input."""
    body = node.child_by_field_name("body")
    if body is None:
        return shell.block(node.children)
    written = output.written(shell, node, body)
    if written is not None:
        path, text, append = written
        path = posixpath.normpath(path)
        text = (shell.state.files.get(path, "") if append else "") + text
        shell.spend(len(text) // 16)
        shell.state.files[path] = text[: 2 * tree.MAX_SCRIPT_LENGTH]
    before, shell.stdin = shell.stdin, output.given(shell, node) or shell.stdin
    try:
        return _with_input(shell, node, body, alone)
    finally:
        shell.stdin = before


def _with_input(shell: Shell, node: Node, body: Node, alone: bool) -> Status:
    """A redirected statement, its input and output known."""
    if body.type == "command":
        # `vllm serve m 2>&1 --flag`: the grammar takes the words after a redirection for further destinations.
        redirects = [r for r in node.children_by_field_name("redirect") if r.type == "file_redirect"]
        status = shell.command(body, alone, [d for r in redirects for d in r.children_by_field_name("destination")[1:]])
    else:
        status = shell.statement(body, alone)
    for redirect in node.children_by_field_name("redirect"):
        if redirect.type == "heredoc_redirect":
            for child in redirect.children_by_field_name("right"):
                status = shell.statement(child)
            for child in redirect.children:
                if child.type == "pipeline":
                    status = shell.statement(child)
    return status
