"""The table of options: which flags a release's parser has, and how each is read (`data/flags.json`)."""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from webhook.data import load
from webhook.release import Release, known


@dataclass(frozen=True, slots=True)
class Option:
    """One `add_argument` of vLLM's parser."""

    dest: str
    flags: tuple[str, ...] = ()
    """Its spellings; empty for the positional."""
    negative: tuple[str, ...] = ()
    """Spellings that switch it off: `--no-x`, and `--disable-x` for `--enable-x` where the release pairs them."""
    nargs: str | int | None = None
    const: Any = None
    type: str | None = None
    choices: tuple[Any, ...] | None = None
    default: Any = None
    action: str | None = None
    deprecated: bool = False
    only: str | None = None
    """The only entry point that has it ("serve" or "module"); None: every one."""

    @property
    def name(self) -> str:
        """How argparse names it in a message."""
        return "/".join(self.flags) or self.dest


@dataclass(frozen=True)
class Parser:
    """What one release's parser knows, for one entry point."""

    release: Release
    entry: str
    spellings: Mapping[str, tuple[Option, bool]]
    """Flag → its option, and whether this spelling switches it on."""
    ordered: tuple[str, ...]
    """The spellings in order, so that those with one beginning stand together."""
    positional: Option | None
    underscores: bool
    """`--some_flag` is `--some-flag`."""
    defaults: Mapping[str, Any]
    dests: frozenset[str]

    def beginning(self, text: str) -> list[str]:
        """The flags that begin with `text`."""
        found = itertools.islice(self.ordered, bisect_left(self.ordered, text), None)
        return list(itertools.takewhile(lambda flag: flag.startswith(text), found))


HELP = Option("help", ("-h", "--help"), nargs=0, action="help")


@cache
def _definition(dest: str, index: int) -> Option:
    row: dict[str, Any] = dict(load("flags")["definitions"][index])
    for key in ("flags", "negative", "choices"):
        if key in row:
            row[key] = tuple(row[key])
    return Option(dest, **row)


def _options(number: int) -> Iterator[Option]:
    for dest, spans in load("flags")["options"].items():
        for first, last, index in spans:
            if first <= number <= last:
                yield _definition(dest, index)


@cache
def parser(release: Release, entry: str) -> Parser:
    """The parser of a release that is in the table, for `entry` ("serve" or "module")."""
    number = known().index(release)
    spellings = dict.fromkeys(HELP.flags, (HELP, True))
    positional = None
    options = [option for option in _options(number) if option.only in (None, entry)]
    for option in options:
        spellings.update(dict.fromkeys(option.flags, (option, True)))
        if not option.flags:
            positional = option
    for option in options:
        for flag in option.negative:
            spellings.setdefault(flag, (option, False))
    if positional is None and entry == "serve":  # before 0.5.4 the table knows the module alone
        positional = Option("model_tag", type="str")
    return Parser(
        release=release,
        entry=entry,
        spellings=spellings,
        ordered=tuple(sorted(spellings)),
        positional=positional,
        underscores=number >= load("flags")["underscores"],
        defaults={option.dest: option.default for option in options if option.default is not None},
        dests=frozenset(option.dest for option in options),
    )


@cache
def _lives() -> Mapping[str, list[tuple[int, int, Option]]]:
    found: dict[str, list[tuple[int, int, Option]]] = {}
    for dest, spans in load("flags")["options"].items():
        for first, last, index in spans:
            option = _definition(dest, index)
            for flag in (*option.flags, *option.negative):
                found.setdefault(flag, []).append((first, last, option))
    return found


def elsewhere(flag: str, release: Release) -> tuple[Release, Release, Option] | None:
    """The nearest unbroken run of releases that know `flag`, which `release` does not, and how it is read there.

    An earlier run comes first, since a flag that was removed is what people still write. None: no release knows it.
    """
    spans = sorted(_lives().get(flag, ()), key=lambda span: span[0])
    at = known().index(release)
    before = [span for span in spans if span[1] < at]
    after = [span for span in spans if span[0] > at]
    if before:
        first, last, option = before[-1]
        for earlier, ended, _ in reversed(before[:-1]):
            if ended >= first - 1:
                first = min(first, earlier)
    elif after:
        first, last, option = after[0]
        for begun, later, _ in after[1:]:
            if begun <= last + 1:
                last = max(last, later)
    else:
        return None
    return known()[first], known()[last], option


@lru_cache(1024)
def _knowing(flag: str) -> frozenset[int]:
    spans = [span for spelling, lives in _lives().items() if spelling.startswith(flag) for span in lives]
    return frozenset(number for first, last, _ in spans for number in range(first, last + 1))


def knowing(flags: Iterable[str]) -> tuple[Release, ...]:
    """The releases of the table whose parser accepts each of `flags`, spelled out or as a beginning (argparse takes
    both). A flag that no release knows tells nothing; where no release knows them all, nothing is told either."""
    found = frozenset(range(len(known())))
    for flag in flags:
        found &= _knowing(flag) or found
    return tuple(release for number, release in enumerate(known()) if number in found) or known()
