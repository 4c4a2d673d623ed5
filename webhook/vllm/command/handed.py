"""Text that one shell makes for another to read: a word (`sh -c "$CMD"`, `eval`), a here-document, a file."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from webhook.vllm.command.word import Piece, Value, text_of

if TYPE_CHECKING:
    from webhook.vllm.command.state import ShellState

_SUBSTITUTION = re.compile(r"\$\((?!\()|`")
_REFERENCE = re.compile(r"\$[({]?([A-Za-z_]\w*)")
_QUOTES = re.compile(r"['\\]|<<")
"""With these a text may hold a part where nothing is expanded."""


@dataclass(frozen=True)
class Handed:
    """A script as its reader sees it."""

    text: str
    variables: dict[str, Value]
    """Parts of the text that are not known, by the names that stand for them in it."""
    doubt: str | None = None
    """Why the reader may see another script, for people; None: it sees this one."""


def to_child(value: Value, state: ShellState) -> Handed:
    """A script for a shell that a shell with this state starts."""

    def same(text: str) -> bool:
        name = _REFERENCE.match(text)
        return name is not None and (name[1] in exports or name[1] not in state.variables)

    exports = state.exports()
    return _handed(value, lambda text: _SUBSTITUTION.match(text) is not None or same(text))


def to_itself(value: Value) -> Handed:
    """A script for the same shell: what it refers to is what it has."""
    return _handed(value, lambda text: text[:1] in ("$", "`"))


def _handed(value: Value, same: Callable[[str], bool]) -> Handed:
    """`same`: an unknown part is as unknown to the reader, who expands it as it is written."""
    whole = text_of(value)
    quoted = _QUOTES.search(whole) is not None
    texts, variables, doubt = [], dict[str, Value](), None
    for piece in value:
        text = piece.text
        if piece.unknown is not None and not same(text):
            if quoted:
                doubt = doubt or piece.unknown
            else:
                name = f"_part_{len(variables)}"
                variables[name] = (Piece(text, piece.path, piece.unknown),)
                text = f"${{{name}}}"
        texts.append(text)
    return Handed("".join(texts), variables, doubt)
