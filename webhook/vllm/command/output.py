"""Output of commands, if it is certain: into a file (`cat <<EOF > FILE`), or for `$(…)`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from webhook.vllm.command.tree import source
from webhook.vllm.command.word import Piece, Value, known, literal, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

    from webhook.vllm.command.script import Shell


def written(shell: Shell, node: Node, body: Node) -> tuple[str, str, bool] | None:
    """The file that `cat <<EOF > file`, `tee file <<EOF` or `echo … > file` writes: path, text, appended."""
    while body.type == "list" and body.children:
        body = body.children[-1]
    if body.type != "command":
        return None
    redirects = node.children_by_field_name("redirect")
    heredoc = next((r for r in redirects if r.type == "heredoc_redirect"), None)
    files = [r for r in redirects if r.type == "file_redirect"]
    if heredoc is not None:
        files += [r for r in heredoc.children if r.type == "file_redirect"]
    argv = [known(w) for w in shell.argv(body)]
    target, append = None, False
    for redirect in files:
        operator = next((c.type for c in redirect.children if c.type in (">", ">>", ">|", "&>")), None)
        destination = redirect.child_by_field_name("destination")
        if operator and destination is not None and redirect.child_by_field_name("descriptor") is None:
            target, append = known(shell.words.scalar(destination)), operator == ">>"
    if argv[:1] == ["tee"]:
        append = "-a" in argv
        target = next((a for a in argv[1:] if a and not a.startswith("-")), None)
    if target is None or not argv:
        return None
    if heredoc is not None and argv[0] in ("cat", "tee"):
        return target, heredoc_text(shell, heredoc), append
    if argv[0] in ("echo", "printf") and None not in argv:
        return target, _echo([a for a in argv if a is not None]), append
    return None


def given(shell: Shell, node: Node) -> str | None:
    """The input from a statement's redirections: `<<EOF`, `<<< text`, `< file`."""
    for redirect in node.children_by_field_name("redirect"):
        if redirect.type == "heredoc_redirect":
            return heredoc_text(shell, redirect)
        words = [child for child in redirect.children if child.is_named]
        if redirect.type == "herestring_redirect" and words:
            text = known(shell.words.scalar(words[-1]))
            return None if text is None else f"{text}\n"
        if redirect.type == "file_redirect" and redirect.children[0].type == "<" and words:
            path = known(shell.words.scalar(words[-1]))
            return shell.file(path) if path else None
    return None


def plain(shell: Shell, node: Node) -> str | None:
    """The output of a command, if it is certain; None if only running the command would show it."""
    if node.type != "command":
        return None
    words = shell.argv(node)
    argv = [text for word in words if (text := known(word)) is not None]
    if len(argv) < len(words) or not argv:
        return None
    if argv[0] in ("echo", "printf"):
        return _echo(argv)
    return shell.file(argv[1]) if argv[0] == "cat" and len(argv) == 2 else None


def heredoc_text(shell: Shell, node: Node) -> str:
    """The text of a here-document."""
    start = next((source(c) for c in node.children if c.type == "heredoc_start"), "")
    body = next((c for c in node.children if c.type == "heredoc_body"), None)
    if body is None:
        return ""
    text = source(body)
    if any(mark in start for mark in "'\"\\"):
        return text
    pieces, at = [], body.start_byte
    raw = body.text or b""
    for child in body.children:
        if child.is_named and child.type != "heredoc_content":
            pieces.append(raw[at - body.start_byte : child.start_byte - body.start_byte].decode(errors="replace"))
            pieces.append(text_of(shell.words.scalar(child)))
            at = child.end_byte
    pieces.append(raw[at - body.start_byte :].decode(errors="replace"))
    return re.sub(r"\\([$`\\\n])", lambda m: "" if m[1] == "\n" else m[1], "".join(pieces))


def substitute(shell: Shell, node: Node) -> Value | None:
    """The output of a command substitution; its changes to variables are lost outside of it."""
    if b"=" not in (node.text or b""):
        return _output(shell, node)
    variables = shell.state.variables
    shell.state.variables = dict(variables)
    try:
        return _output(shell, node)
    finally:
        shell.state.variables = variables  # the same object: an assignment of the output is under way
        shell.spend(len(variables) // 8)


def _output(shell: Shell, node: Node) -> Value | None:
    """The output of `$(echo …)`, `$(cat file)` and of a Kubernetes `$(VAR)`; None if only running it would show it."""
    inner = [child for child in node.children if child.is_named]
    if len(inner) != 1:
        return None
    name = source(node).strip()[2:-1]
    if name.isidentifier() and name not in shell.state.functions:
        value = shell.state.variables.get(name)
        if name in shell.state.exported and isinstance(value, tuple) and known(value) is None:
            return value
    if inner[0].type == "file_redirect":
        destination = inner[0].child_by_field_name("destination")
        path = known(shell.words.scalar(destination)) if destination is not None else None
        text = shell.file(path) if path else None
        return literal(text.rstrip("\n")) if text is not None else None
    if inner[0].type == "redirected_statement":
        body = inner[0].child_by_field_name("body")
        redirects = inner[0].children_by_field_name("redirect")
        if body is not None and source(body) == "cat" and [r.type for r in redirects] == ["heredoc_redirect"]:
            return literal(heredoc_text(shell, redirects[0]).rstrip("\n"))
        return None
    if inner[0].type != "command":
        return None
    argv = shell.argv(inner[0])
    texts = [known(word) for word in argv]
    if texts[:1] == ["cat"] and len(texts) == 2 and texts[1]:
        text = shell.file(texts[1])
        return literal(text.rstrip("\n")) if text is not None else None
    if texts[:1] in (["which"], ["command"], ["type"]) and texts[-1] and not texts[-1].startswith("-"):
        return literal(texts[-1]) if len(texts) == 2 + (texts[0] != "which") else None  # the path of that program
    if texts[:1] == ["echo"] and any("\\" in text_of(word) for word in argv):
        return None  # dash's echo reads escapes
    if texts[:1] == ["echo"] and not any(t is not None and t.startswith("-") for t in texts[1:2]):
        pieces: list[Piece] = []
        for position, word in enumerate(argv[1:]):
            pieces += [Piece(" "), *word] if position else word
        return tuple(pieces) or literal("")
    return None


def _echo(argv: list[str]) -> str:
    name, *rest = argv
    while name == "echo" and rest and re.fullmatch(r"-[neE]+", rest[0]):
        rest = rest[1:]
    if name == "printf":
        return "\n".join(r.replace("\\n", "\n") for r in rest if r != "%s\\n") + "\n"
    return " ".join(rest) + "\n"
