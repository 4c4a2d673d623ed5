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
    """A write to a file."""

    target: Value
    """The file's path."""
    text: Value | None
    """None if it is known only when the script runs."""
    appends: bool


def write(expander: WordExpander, node: Node, argv: Sequence[Value]) -> None:
    """Follow the writes to files of the statement `node`: their known texts are kept. `argv`: as in `_writes`."""
    state = expander.state
    for write in _writes(expander, node, argv):
        expander.budget.spend(len(state.files) // 4)
        path = posixpath.normpath(known(write.target) or "")
        before = state.files.get(path, ()) if write.appends else ()
        state.overwrite(write.target)
        if not known(write.target) or write.text is None or before is None:
            continue  # the file, or its new text, is unknown
        text = joined([*before, *write.text])
        size = sum(len(piece.text) for piece in text)
        expander.budget.spend(size // 16)
        state.files[path] = text if size <= MAX_SCRIPT_LENGTH else literal(text_of(text)[:_TOO_LONG])


def _writes(expander: WordExpander, node: Node, argv: Sequence[Value]) -> Iterator[_Write]:
    """The writes of `cat <<EOF > file`, `tee file <<EOF` and others. `argv`: empty without a simple command."""
    redirects = node.children_by_field_name("redirect")
    heredoc = _heredoc(node)
    name = text_of(argv[0]) if argv else ""
    text = heredoc_text(expander, heredoc) if heredoc is not None and name in ("cat", "tee") else None
    behind = heredoc.children if heredoc is not None else ()  # the grammar puts `> file` behind `<<EOF` into it
    for redirect in [*redirects, *behind]:
        operator = next((child.type for child in redirect.children if child.type in _INTO_A_FILE), None)
        destination = redirect.child_by_field_name("destination")
        if redirect.type != "file_redirect" or operator is None or destination is None:
            continue
        descriptor = redirect.child_by_field_name("descriptor")
        is_output = descriptor is None or source(descriptor) == "1"
        copies_input = name != "cat" or len(argv) == 1  # `cat FILE` writes another text than its input
        output = text if is_output and copies_input else None
        if not re.fullmatch(r"\d+|-|/dev/.*", source(destination)):  # not `2>&1`, `2>&-`, `> /dev/null`
            yield _Write(expander.scalar(destination), output, operator in (">>", "&>>"))
    if name == "tee":
        appends = any(text_of(word) == "-a" for word in argv)
        for word in argv[1:]:
            if not text_of(word).startswith("-"):
                yield _Write(word, text, appends)


def _heredoc(node: Node) -> Node | None:
    """The first here-document of a statement; None if there is none."""
    redirects = node.children_by_field_name("redirect")
    return next((redirect for redirect in redirects if redirect.type == "heredoc_redirect"), None)


def heredoc_of(expander: WordExpander, node: Node) -> Value | None:
    """The text of the here-document that is a statement's input; None if it has none."""
    heredoc = _heredoc(node)
    return heredoc_text(expander, heredoc) if heredoc is not None else None


def words_behind(redirects: Sequence[Node]) -> list[Node]:
    """`vllm serve m 2>&1 --flag`: a command's words behind redirections, which the grammar reads as destinations."""
    into_files = [redirect for redirect in redirects if redirect.type == "file_redirect"]
    return [word for redirect in into_files for word in redirect.children_by_field_name("destination")[1:]]


def heredoc_text(expander: WordExpander, node: Node) -> Value:
    """The text of a here-document, with its expansions unless its delimiter is quoted (`<<'EOF'`)."""
    delimiter = next((source(child) for child in node.children if child.type == "heredoc_start"), "")
    body = next((child for child in node.children if child.type == "heredoc_body"), None)
    if body is None:
        return literal("")
    if any(mark in delimiter for mark in "'\"\\"):
        return literal(source(body))
    raw, begin = body.text or b"", body.start_byte
    pieces, end = list[Piece](), 0  # `end`: of the last expansion, in bytes of the body
    for child in body.children:
        if child.is_named and child.type != "heredoc_content":
            pieces += (_unescaped(raw[end : child.start_byte - begin]), *expander.scalar(child))
            end = child.end_byte - begin
    return joined([*pieces, _unescaped(raw[end:])])


def _unescaped(raw: bytes) -> Piece:
    """The text between two expansions, without the backslashes that escape something."""
    return Piece(re.sub(r"\\([$`\\\n])", lambda m: "" if m[1] == "\n" else m[1], raw.decode(errors="replace")))


def overwrite(expander: WordExpander, argv: Sequence[Value], stdin: Value | None) -> None:
    """Make the files unknown whose names are in a program's words or in its input; None: it has no known input."""
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
