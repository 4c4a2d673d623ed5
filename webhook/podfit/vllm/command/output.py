"""Output of commands, if it is certain: into a file (`cat <<EOF > FILE`), or for `$(…)`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from podfit.vllm.command.tree import source
from podfit.vllm.command.word import Piece, Value, joined, known, literal, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

    from podfit.vllm.command.script import Shell


_INTO_A_FILE = (">", ">>", ">|", "&>", "&>>", ">&")


@dataclass(frozen=True)
class Write:
    """One write of a statement to a file."""

    target: Value
    text: Value | None
    """None if it is known only when the script runs."""
    appends: bool


def writes(shell: Shell, node: Node, body: Node | None) -> list[Write]:
    """All writes to files by a statement: `cat <<EOF > file`, `tee file <<EOF`, `echo … > file` and others."""
    while body is not None and body.type == "list" and body.children:
        body = body.children[-1]
    redirects = node.children_by_field_name("redirect")
    heredoc = next((r for r in redirects if r.type == "heredoc_redirect"), None)
    files = [r for r in redirects if r.type == "file_redirect"]
    if heredoc is not None:
        files += [r for r in heredoc.children if r.type == "file_redirect"]
    argv = shell.argv(body) if body is not None and body.type == "command" else []
    text = literal("") if body is None else _printed(shell, argv, heredoc)
    found: list[Write] = []
    for redirect in files:
        operator = next((c.type for c in redirect.children if c.type in _INTO_A_FILE), None)
        destination = redirect.child_by_field_name("destination")
        if operator is None or destination is None or re.fullmatch(r"\d+|-|/dev/.*", source(destination)):
            continue
        descriptor = redirect.child_by_field_name("descriptor")
        plain = descriptor is None or source(descriptor) == "1"
        target = shell.words.scalar(destination)
        found.append(Write(target, text if plain else None, operator in (">>", "&>>")))
    if argv and text_of(argv[0]) == "tee":
        appends = any(text_of(word) == "-a" for word in argv)
        found += [Write(word, text, appends) for word in argv[1:] if text_of(word)[:1] != "-"]
    return found


def _printed(shell: Shell, argv: list[Value], heredoc: Node | None) -> Value | None:
    """The text that a command prints, or passes through."""
    name = text_of(argv[0]) if argv else ""
    if name in ("cat", "tee") and heredoc is not None:
        return heredoc_text(shell, heredoc)
    texts = [text for word in argv if (text := known(word)) is not None]
    return literal(_echo(texts)) if name in ("echo", "printf") and len(texts) == len(argv) else None


def given(shell: Shell, node: Node) -> Value | None:
    """The input from a statement's redirections: `<<EOF`, `<<< text`, `< file`."""
    for redirect in node.children_by_field_name("redirect"):
        if redirect.type == "heredoc_redirect":
            return heredoc_text(shell, redirect)
        words = [child for child in redirect.children if child.is_named]
        if redirect.type == "herestring_redirect" and words:
            text = known(shell.words.scalar(words[-1]))
            return None if text is None else literal(f"{text}\n")
        if redirect.type == "file_redirect" and redirect.children[0].type == "<" and words:
            path = known(shell.words.scalar(words[-1]))
            return shell.contents(path) if path else None
    return None


def plain(shell: Shell, node: Node) -> Value | None:
    """The output of a command, if it is certain; None if only running the command would show it."""
    if node.type != "command":
        return None
    words = shell.argv(node)
    argv = [text for word in words if (text := known(word)) is not None]
    if len(argv) < len(words) or not argv:
        return None
    if argv[0] in ("echo", "printf"):
        return literal(_echo(argv))
    return shell.contents(argv[1]) if argv[0] == "cat" and len(argv) == 2 else None


def heredoc_text(shell: Shell, node: Node) -> Value:
    """The text of a here-document."""
    start = next((source(c) for c in node.children if c.type == "heredoc_start"), "")
    body = next((c for c in node.children if c.type == "heredoc_body"), None)
    if body is None:
        return literal("")
    if any(mark in start for mark in "'\"\\"):
        return literal(source(body))
    pieces, at = list[Piece](), body.start_byte
    raw = body.text or b""
    for child in body.children:
        if child.is_named and child.type != "heredoc_content":
            pieces.append(_unescaped(raw[at - body.start_byte : child.start_byte - body.start_byte]))
            pieces += shell.words.scalar(child)
            at = child.end_byte
    return joined([*pieces, _unescaped(raw[at - body.start_byte :])])


def _unescaped(raw: bytes) -> Piece:
    return Piece(re.sub(r"\\([$`\\\n])", lambda m: "" if m[1] == "\n" else m[1], raw.decode(errors="replace")))


def substitute(shell: Shell, node: Node) -> Value | None:
    """The output of a command substitution; its changes to variables are lost outside of it."""
    if b"=" not in (node.text or b""):
        return _output(shell, node)
    variables = shell.state.variables
    shell.state.variables = dict(variables)
    try:
        return _output(shell, node)
    finally:
        shell.state.variables = variables  # the same object, because an assignment of the output is in progress
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
        return stripped(shell.contents(path)) if path else None
    if inner[0].type == "redirected_statement":
        body = inner[0].child_by_field_name("body")
        redirects = inner[0].children_by_field_name("redirect")
        alone = [r.type for r in redirects] == ["heredoc_redirect"] and not _goes_on(redirects[0])
        if body is not None and source(body) == "cat" and alone:
            return stripped(heredoc_text(shell, redirects[0]))
        return None
    if inner[0].type != "command":
        return None
    argv = shell.argv(inner[0])
    texts = [known(word) for word in argv]
    if texts[:1] == ["cat"] and len(texts) == 2 and texts[1]:
        return stripped(shell.contents(texts[1]))
    if texts[:1] in (["which"], ["command"], ["type"]) and texts[-1] and not texts[-1].startswith("-"):
        return literal(texts[-1]) if len(texts) == 2 + (texts[0] != "which") else None  # the program's own path
    if texts[:1] == ["echo"] and any("\\" in text_of(word) for word in argv):
        return None  # dash's echo interprets escapes
    if texts[:1] == ["echo"] and not any(t is not None and t.startswith("-") for t in texts[1:2]):
        pieces: list[Piece] = []
        for position, word in enumerate(argv[1:]):
            pieces += [Piece(" "), *word] if position else word
        return tuple(pieces) or literal("")
    return None


def _goes_on(heredoc: Node) -> bool:
    """Whether more follows the here-document's start: `cat <<EOF | grep …`."""
    return any(child.is_named and not child.type.startswith("heredoc_") for child in heredoc.children)


def stripped(value: Value | None) -> Value | None:
    """A text without its final line ends, as `$(…)` returns it."""
    if not value or value[-1].unknown is not None:
        return value
    last = value[-1]
    return joined([*value[:-1], Piece(last.text.rstrip("\n"), last.path)])


def _echo(argv: list[str]) -> str:
    name, *rest = argv
    while name == "echo" and rest and re.fullmatch(r"-[neE]+", rest[0]):
        rest = rest[1:]
    if name == "printf":
        return "\n".join(r.replace("\\n", "\n") for r in rest if r != "%s\\n") + "\n"
    return " ".join(rest) + "\n"
