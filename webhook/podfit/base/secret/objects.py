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
SecretLeaf = tuple[Place, str]
"""A scalar that is a secret because of its place, as a text. Its place is None if it is only a part of a value."""
_Queue = list[tuple[Place, Any, bool]]
"""Values to look at: place, value, and True if all scalars in it are secrets. Plain tuples, since an object has
thousands."""


class TooLargeError(Exception):
    """More than MAX_VALUES values."""


def leaves(trees: Iterable[Any], texts: list[str]) -> list[SecretLeaf]:
    """Return the scalars of JSON values that are secrets because of their place. Appends every text to `texts`.

    Raises TooLargeError.
    """
    secret_leaves: list[SecretLeaf] = []
    queue: _Queue = [(None, tree, False) for tree in trees]
    values_left = MAX_VALUES
    while queue:
        place, tree, secret = queue.pop()
        values_left -= len(tree) if isinstance(tree, _TREES) else 1
        if values_left < 0:
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
    secret_leaves: list[SecretLeaf],
) -> None:
    """Append the texts of a mapping to `texts`, its secret scalars to `secret_leaves`, and its lists and mappings to
    `queue`. `secret`: all scalars in it are secrets.

    A value is a secret by its key (`apiKey: …`), or by the name next to it (`name: HF_TOKEN, value: …`). A mapping
    below such a key is not, since its own keys say what its values are; but all values of a Secret's `data` are."""
    name = tree.get("name") or tree.get("key")
    named_keys: tuple[str, ...] = VALUE_KEYS if isinstance(name, str) and gives(name) else ()
    data_keys = ("data", "stringData") if tree.get("kind") == "Secret" else ()
    secret_keys = named_keys + data_keys
    for key, value in tree.items():
        if type(value) is dict:  # first, since most values are
            queue.append(((place, key), value, secret or key in data_keys))
            continue
        is_secret = (
            secret or key in secret_keys or (isinstance(key, str) and len(key) <= MAX_NAME_LENGTH and names_secret(key))
        )
        if isinstance(value, str):
            texts.append(value)
            if is_secret:
                secret_leaves.append(((place, key), value))
        elif isinstance(value, _LISTS):
            queue.append(((place, key), value, is_secret))
        elif isinstance(value, _NUMBERS):
            if is_secret and not isinstance(value, bool):
                secret_leaves.append(((place, key), str(value)))
        elif isinstance(value, Mapping):
            queue.append(((place, key), value, secret or key in data_keys))
        elif is_secret and value is not None:  # a date, which YAML has
            secret_leaves.append(((place, key), str(value)))


def _of_list(
    place: Place,
    tree: Collection[Any],
    secret: bool,
    queue: _Queue,
    texts: list[str],
    secret_leaves: list[SecretLeaf],
) -> None:
    """Append the texts of a list to `texts`, its secret scalars to `secret_leaves`, and its lists and mappings to
    `queue`. `secret`: all scalars in it are secrets.

    The list may be the words of a command. Then the word after a secret's flag is one (`--api-key`, `KEY`), further
    keys after it, and the part after `=` in `--api-key=KEY`."""
    follows_flag = previous_is_secret = False
    for index, value in enumerate(tree):
        if not isinstance(value, str):
            follows_flag = previous_is_secret = False
            if isinstance(value, _TREES):
                queue.append(((place, index), value, secret))
            elif secret and value is not None and not isinstance(value, bool):
                secret_leaves.append(((place, index), str(value)))
            continue
        texts.append(value)
        name, equals_sign, assigned = value.partition("=")
        # A word with dashes is another flag, but a key may begin with one dash.
        is_flag = value.startswith("--") or (value.startswith("-") and len(value) < LOOSE)
        is_further_key = previous_is_secret and _KEY.fullmatch(value) is not None
        previous_is_secret = secret or (follows_flag and not is_flag) or is_further_key
        if previous_is_secret:
            secret_leaves.append(((place, index), value))
        elif equals_sign and gives(name) and not _BLANK.search(name) and not _is_line(name, assigned):
            secret_leaves.append((None, assigned))
        follows_flag = value != "" and value[0] in DASHES and not assigned and gives(name)


_KEY = regex(r"(?=\D*\d)[A-Za-z0-9+=]{16,}")
"""One more key after the first (`--api-key KEY KEY`). The names of models have dashes, dots or slashes."""


def _is_line(name: str, assigned: str) -> bool:
    """Return whether more of a command line follows the value in `NAME=VALUE`: another flag after a flag's value, or
    any white space after a variable's."""
    pattern = _ANOTHER if name[0] in DASHES else _BLANK
    return pattern.search(assigned) is not None
