"""Secrets in an object, by the place of their values."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from podfit.base.lazy import regex
from podfit.base.secret.names import MAX_NAME_LENGTH, VALUE_KEYS, gives, names_secret
from podfit.base.secret.texts import DASHES
from podfit.base.secret.values import LOOSE

MAX_VALUES = 1 << 16
"""Maximum number of values in one object. A text about an object with more is withheld."""

_BLANK = regex(r"\s")
_ANOTHER = regex(r"\s--?[A-Za-z]")
"""Another flag of a command line."""
Place = tuple[Any, Any] | None
"""The place of the parent, and the key or index in it; None for the object itself. A linked list, so that the cost of a
place does not grow with its depth."""
_LISTS, _MAPPINGS, _NUMBERS = (list, tuple), (dict, Mapping), (int, float)
_TREES = (dict, list, tuple, Mapping)
"""Mapping comes last: to ask an abstract class takes ten times as long."""
_Queue = list[tuple[Place, Any, bool]]
"""Values to look at, each with its place and whether it is in a secret."""


class TooLargeError(Exception):
    """More than MAX_VALUES values."""


def leaves(trees: Iterable[Any], texts: list[str]) -> list[tuple[Place, str]]:
    """Return the scalars that are secrets because of their place. Appends every text to `texts`.

    Raises TooLargeError.
    """
    secret_leaves: list[tuple[Place, str]] = []
    queue: _Queue = [(None, tree, False) for tree in trees]
    left = MAX_VALUES
    while queue:
        place, tree, secret = queue.pop()
        left -= len(tree) if isinstance(tree, _TREES) else 1
        if left < 0:
            raise TooLargeError
        if isinstance(tree, _LISTS):
            _of_list(place, tree, secret, queue, texts, secret_leaves)
        elif isinstance(tree, _MAPPINGS):
            _of_mapping(place, tree, secret, queue, texts, secret_leaves)
        elif isinstance(tree, str):
            texts.append(tree)
            if secret:
                secret_leaves.append((place, tree))
    return secret_leaves


def _of_mapping(
    place: Place,
    tree: Mapping[Any, Any],
    secret: bool,
    queue: _Queue,
    texts: list[str],
    secret_leaves: list[tuple[Place, str]],
) -> None:
    """Queue the values of a mapping. Append its texts to `texts`, and secrets with their places to `secret_leaves`."""
    named = tree.get("name") or tree.get("key")
    own: tuple[str, ...] = VALUE_KEYS if isinstance(named, str) and gives(named) else ()
    held = ("data", "stringData") if tree.get("kind") == "Secret" else ()
    own += held
    for key, value in tree.items():
        if type(value) is dict:
            queue.append(((place, key), value, secret or key in held))
            continue
        hides = secret or key in own or (isinstance(key, str) and len(key) <= MAX_NAME_LENGTH and names_secret(key))
        if isinstance(value, str):
            texts.append(value)
            if hides:
                secret_leaves.append(((place, key), value))
        elif isinstance(value, _LISTS):
            queue.append(((place, key), value, hides))
        elif isinstance(value, _NUMBERS):
            if hides and not isinstance(value, bool):
                secret_leaves.append(((place, key), str(value)))
        elif isinstance(value, Mapping):
            queue.append(((place, key), value, secret or key in held))
        elif hides and value is not None:
            secret_leaves.append(((place, key), str(value)))


def _of_list(
    place: Place,
    tree: Collection[Any],
    secret: bool,
    queue: _Queue,
    texts: list[str],
    secret_leaves: list[tuple[Place, str]],
) -> None:
    """Find also the words of a command: the word after a flag, and the part after its `=`."""
    follows = given = False
    for index, value in enumerate(tree):
        if not isinstance(value, str):
            follows = given = False
            if isinstance(value, _TREES):
                queue.append(((place, index), value, secret))
            elif secret and value is not None and not isinstance(value, bool):
                secret_leaves.append(((place, index), str(value)))
            continue
        texts.append(value)
        name, joined, rest = value.partition("=")
        follows = follows and (value[:1] != "-" or (value[:2] != "--" and len(value) >= LOOSE))
        given = secret or follows or (given and _KEY.fullmatch(value) is not None)
        if given:
            secret_leaves.append(((place, index), value))
        elif joined and gives(name) and not (_BLANK.search(name) or _is_line(name, rest)):
            secret_leaves.append((None, rest))
        follows = value[:1] in DASHES and not rest and gives(name) if value else False


_KEY = regex(r"(?=\D*\d)[A-Za-z0-9+=]{16,}")
"""One more key after the first (`--api-key KEY KEY`). The names of models have dashes, dots or slashes."""


def _is_line(name: str, rest: str) -> bool:
    """Return whether more of a command line follows the value."""
    return (_ANOTHER if name[0] in DASHES else _BLANK).search(rest) is not None
