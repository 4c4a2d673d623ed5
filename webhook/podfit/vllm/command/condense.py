"""Shorten long commands and long words so that vLLM would read the rest in the same way.

People write at most a few hundred words, but an object can have half a million. Reading each would take seconds, and
dropping the last ones would let padding hide a problem. Most of them are irrelevant to argparse. The last value
of a flag wins, and a word without a dash is a value of the flag before it, or the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import filterfalse, islice
from operator import itemgetter, sub
from typing import NamedTuple

from podfit.kube.path import FieldPath
from podfit.vllm.command.word import Value, Word, mystery

_VALUES = 8
"""Values of one flag that are kept. For no option do more values make an engine smaller or a rejected command valid."""
_UNKNOWN = 16
"""Unknown flags that are kept, of those with dashes and of all others: vLLM already rejects the first one."""
_DOTTED = 128
"""Keys of one JSON argument that are kept (`--compilation-config.key=value`). No class has as many keys, so a class
that accepts no other keys already rejects one of these."""
NAME = 100
"""Characters of a word that can be the name of a flag; no flag has more."""
_MORE = "…"


class Left(NamedTuple):
    """A word that is kept."""

    at: int
    """The index of the word, or of the first of the words that it replaces."""
    text: str | None = None
    """The text that replaces it; None: the word itself."""
    unknown: str | None = None
    """Why the text is not known."""


def condensed(words: Sequence[str]) -> list[Left]:
    """The words that are kept of a long list, in their order.

    These are the last occurrence of each known flag, with the first few of its values, and the first few of all others.
    """
    from podfit.vllm.args import settings  # here, because `args` imports this package
    from podfit.vllm.args.flags import builtin

    table, end = builtin(), len(words)
    if "--" in words:  # there are no flags after it
        end = words.index("--")
    flags, names = list[int](), list[str]()  # the index of each flag, and the flag as it is written, without its value
    for n in dashed(words):
        name = words[n].partition("=")[0]
        if n < end and name[1:2] not in _NUMBER and " " not in name:
            flags.append(n)
            names.append(name)
    ends = [*flags[1:], end][: len(flags)]
    # A flag as it is written → its last index.
    places = dict(zip(names, range(len(names)), strict=True))
    last: dict[str, int] = {}
    dotted: dict[str, int] = {}
    full = set[str]()  # flags as they are written, of which enough keys were kept
    left: list[Left] = []
    known = table.beginnings  # argparse accepts the beginning of a flag
    others: list[int] = []
    read = [name for name in places if name in known or "_" in name or "." in name or name[1:2] != "-"]
    unknown = [flags[places[name]] for name in islice(filterfalse(frozenset(read).__contains__, places), _UNKNOWN)]
    for written in read:
        place, name, key = places[written], written, ""
        if written not in known:
            beginning, dot, _ = written.partition(".")
            if dot and beginning in full:
                continue
            name, key, _ = written.replace("_", "-").partition(".")
            if name[1:2] != "-":
                name = name[:2]
            if name not in known:
                if len(others) < 2 * _UNKNOWN:
                    others.append(flags[place])
                continue
        if not key:
            last[name] = max(place, last.get(name, 0))
            continue
        dotted[name] = many = dotted.get(name, 0) + 1
        if many <= _DOTTED:
            left += _group(words, flags[place], max(ends[place], min(flags[place] + 2, end)))  # its value may be a flag
            continue
        full.add(beginning)
        if many == _DOTTED + 1 and not settings.is_strict(name[2:].replace("-", "_")):
            left.append(Left(flags[place], f"{name}.{_MORE}=", "only the first of its keys are read"))
    left += map(Left, [*unknown, *others[: 2 * _UNKNOWN - len(unknown)]])
    for place in last.values():
        left += _group(words, flags[place], ends[place])
    most = max(map(sub, ends, flags), default=1)  # most words of a flag, up to the next one
    first = flags[0] if flags else end
    left += _run(words, 0, first)
    if (most > 2 or (most > 1 and not table.switches.isdisjoint(last))) and first <= _VALUES:
        left.append(Left(first - 1, _MORE, "more words are not read"))
    left += _run(words, end, len(words))
    return sorted(dict.fromkeys(left), key=_INDEX)


def dashed(words: Sequence[str]) -> list[int]:
    """The indices of the words that begin with a dash. One search over the joined text finds them all."""
    joined = "\0".join(["", *words])
    if joined.count("\0") > len(words):
        return [n for n, text in enumerate(words) if text[:1] == "-"]
    found, at = list[int](), -1
    for before in joined.split("\0-")[:-1]:
        at += before.count("\0") + 1
        found.append(at)
    return found


_NUMBER = frozenset((*"0123456789.", ""))
"""Second characters of words that begin with a dash but are not a flag."""
_INDEX = itemgetter(0)


def _group(words: Sequence[str], n: int, until: int) -> list[Left]:
    """A flag and its values."""
    return [Left(n), *_run(words, n + 1, until)]


def _run(words: Sequence[str], start: int, end: int) -> list[Left]:
    """The first few of consecutive words that are not flags, and one of the others that may expand to a flag."""
    left = [Left(n) for n in range(start, min(end, start + _VALUES))]
    rest = range(start + len(left), end)
    return [*left, *(Left(n) for n in islice((n for n in rest if words[n][:2] == "$("), 1))]


def unread(text: str, path: FieldPath) -> Value:
    """What is kept of a word that is too long to read: its flag, with an unknown value."""
    why = f"a word of {len(text):,} characters is not read"
    name, equals, _ = text[:NAME].partition("=")
    if name[:1] != "-" or name[1:2] in _NUMBER or " " in name:
        return mystery(_MORE, why, path)
    # No release has a flag with so long a name.
    return mystery(f"{name}={_MORE}", why, path) if equals else (Word(name + _MORE, path),)
