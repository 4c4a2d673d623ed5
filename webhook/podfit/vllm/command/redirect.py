"""Redirections: here-documents, and the files that a script or its programs write."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from podfit.vllm.command.parameter import WordExpander
from podfit.vllm.command.tree import MAX_SCRIPT_LENGTH, source
from podfit.vllm.command.word import Piece, Value, joined, known, literal, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

_INTO_A_FILE = (">", ">>", ">|", "&>", "&>>", ">&")
_TOO_LONG = MAX_SCRIPT_LENGTH + 1
"""Characters that are kept of a longer text, so that readers still see that it is too long."""
_READERS = frozenset({"cat", "chmod", "chown", "echo", "egrep", "grep", "head", "ls", "stat", "tail", "vllm", "wc"})
"""Programs that do not change the files in their words."""
_WRITERS = frozenset({"cp", "dd", "install", "ln", "mv", "perl", "rsync", "sed", "sort", "tee", "truncate"})
"""Programs that write to the files in their words, even if a word is unknown."""


class _Write(NamedTuple):
    target: Value
    text: Value | None
    """None if it is known only when the script runs."""
    appends: bool


def write(expander: WordExpander, node: Node, argv: Sequence[Value]) -> None:
    """Follow the writes to files of a statement with the command `argv`."""
    state = expander.state
    for write in _writes(expander, node, argv):
        expander.budget.spend(len(state.files) // 4)
        path = known(write.target)
        before = state.files.get(posixpath.normpath(path), ()) if write.appends and path else ()
        state.overwrite(write.target)
        if path and write.text is not None and before is not None:
            text = joined([*before, *write.text])
            size = sum(len(piece.text) for piece in text)
            expander.budget.spend(size // 16)
            short = text if size <= MAX_SCRIPT_LENGTH else literal(text_of(text)[:_TOO_LONG])
            state.files[posixpath.normpath(path)] = short


def _writes(expander: WordExpander, node: Node, argv: Sequence[Value]) -> Iterator[_Write]:
    """The writes of `cat <<EOF > file`, `tee file <<EOF` and others."""
    redirects = node.children_by_field_name("redirect")
    heredoc = next((redirection for redirection in redirects if redirection.type == "heredoc_redirect"), None)
    name = text_of(argv[0]) if argv else ""
    text = heredoc_text(expander, heredoc) if heredoc is not None and name in ("cat", "tee") else None
    for redirect in [*redirects, *(heredoc.children if heredoc is not None else ())]:
        operator = next((child.type for child in redirect.children if child.type in _INTO_A_FILE), None)
        destination = redirect.child_by_field_name("destination")
        if redirect.type != "file_redirect" or operator is None or destination is None:
            continue
        descriptor = redirect.child_by_field_name("descriptor")
        plain = (descriptor is None or source(descriptor) == "1") and (name != "cat" or len(argv) == 1)
        if not re.fullmatch(r"\d+|-|/dev/.*", source(destination)):
            yield _Write(expander.scalar(destination), text if plain else None, operator in (">>", "&>>"))
    if name == "tee":
        appends = any(text_of(word) == "-a" for word in argv)
        yield from (_Write(word, text, appends) for word in argv[1:] if text_of(word)[:1] != "-")


def given(expander: WordExpander, node: Node) -> Value | None:
    """The here-document that is the input of a statement."""
    redirects = node.children_by_field_name("redirect")
    heredoc = next((redirect for redirect in redirects if redirect.type == "heredoc_redirect"), None)
    return heredoc_text(expander, heredoc) if heredoc is not None else None


def heredoc_text(expander: WordExpander, node: Node) -> Value:
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
            pieces += expander.scalar(child)
            at = child.end_byte
    return joined([*pieces, _unescaped(raw[at - body.start_byte :])])


def _unescaped(raw: bytes) -> Piece:
    return Piece(re.sub(r"\\([$`\\\n])", lambda m: "" if m[1] == "\n" else m[1], raw.decode(errors="replace")))


def overwrite(expander: WordExpander, argv: Sequence[Value], stdin: Value | None) -> None:
    """Make the files unknown whose names are in a program's words or in its input."""
    state, name = expander.state, posixpath.basename(text_of(argv[0]))
    if not state.files or name in _READERS:
        return
    if name in _WRITERS and known(argv[-1]) is None:
        state.overwrite(argv[-1])
    text = "\n".join(map(text_of, (*argv[1:], stdin or ())))
    expander.budget.spend(len(state.files) * (1 + len(text) // MAX_SCRIPT_LENGTH))
    for path in state.files.keys() - state.mounted:
        if posixpath.basename(path) in text:
            state.files[path] = None
