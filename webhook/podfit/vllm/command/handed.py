"""Text that one shell passes to another as a script: a word (`sh -c "$CMD"`, `eval`), a here-document, a file."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from podfit.base.lazy import regex
from podfit.vllm.command.word import Piece, Value, text_of

if TYPE_CHECKING:
    from podfit.vllm.command.state import ShellState

_SUBSTITUTION = regex(r"\$\((?!\()|`")
_REFERENCE = regex(r"\$[({]?([A-Za-z_]\w*)")
_QUOTES = regex(r"['\\]|<<")
"""Signs of quotes or here-documents, in which the text may not be expanded."""


class Handed(NamedTuple):
    """A script as the shell that gets it sees it."""

    text: str
    variables: dict[str, Value]
    """Placeholder → the unknown part of the text that it replaces."""
    doubt: str | None = None
    """Why that shell may see another text, for people; None if it sees this one."""


def to_child(value: Value, state: ShellState) -> Handed:
    """The script for a new shell that is started by a shell with this state."""
    exports = state.exports()

    def is_same(text: str) -> bool:
        """True if the new shell expands the unknown part to the same text."""
        name = _REFERENCE.match(text)
        is_inherited = name is not None and (name[1] in exports or name[1] not in state.variables)
        return is_inherited or _SUBSTITUTION.match(text) is not None

    return _handed(value, is_same)


def to_itself(value: Value) -> Handed:
    """The script for the same shell (`eval`): its references have the same values."""
    return _handed(value, lambda text: text[:1] in ("$", "`"))


def _handed(value: Value, is_same: Callable[[str], bool]) -> Handed:
    """The script for another shell. `is_same`: whether that shell expands an unknown part to the same text."""
    has_quotes = _QUOTES.search(text_of(value)) is not None
    texts, variables, doubt = [], dict[str, Value](), None
    for piece in value:
        text = piece.text
        if piece.unknown is not None and not is_same(text):
            if has_quotes:  # a placeholder might not be expanded
                doubt = doubt or piece.unknown
            else:
                name = f"_part_{len(variables)}"
                variables[name] = (Piece(text, piece.path, piece.unknown),)
                text = f"${{{name}}}"
        texts.append(text)
    return Handed("".join(texts), variables, doubt)
