"""The table of options: which flags a release's parser has, and how each is read (`data/releases.json`, `flags`).

A policy may add releases to it (`Table.taught`).
"""

from __future__ import annotations

import itertools
import json
from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property, lru_cache
from typing import Any, NamedTuple

from podfit.base.data import load
from podfit.vllm.release import Images, Neighbours, Release, known_releases, neighbours


class Option(NamedTuple):
    """One `add_argument` of vLLM's parser."""

    dest: str
    flags: tuple[str, ...] = ()
    """All spellings; empty for the positional argument."""
    negative: tuple[str, ...] = ()
    """Spellings that switch it off: `--no-x`, and `--disable-x` for `--enable-x` if the release pairs them."""
    nargs: str | int | None = None
    const: Any = None
    type: str | None = None
    choices: tuple[Any, ...] | None = None
    default: Any = None
    action: str | None = None
    deprecated: bool = False
    only: str | None = None
    """The only entry point that has it ("serve" or "module"); None: all have it."""

    @property
    def name(self) -> str:
        """The option's name in argparse's messages."""
        return "/".join(self.flags) or self.dest


class Spelling(NamedTuple):
    """One flag of a release."""

    option: Option
    on: bool
    """False if the flag switches the option off (`Option.negative`)."""


class Flag(NamedTuple):
    """A word that argparse takes for a flag."""

    spelling: str
    """The flag as the release spells it; as it was written if the release does not know it."""
    option: Option | None
    """None if the release does not know it."""
    on: bool = True
    explicit: str | None = None
    """The value after `=`, or glued to a short flag; None without one."""
    candidates: tuple[str, ...] = ()
    """If there are several: the abbreviation is ambiguous."""


class Parser(NamedTuple):
    """The options of one release's parser, for one entry point."""

    release: Release
    entry: str
    table: Table
    """The table that it belongs to."""
    spellings: Mapping[str, Spelling]
    """By flag."""
    flags: dict[str, Flag]
    """The flags that command lines have used so far, spelled out and without values. They are added when they are
    first read, so that the first use of a release makes only a few."""
    ordered: tuple[str, ...]
    """The spellings in sorted order, so that those with the same beginning are adjacent."""
    positional: Option | None
    """The option of the word that is not a flag's value: the model. None if the release has none."""
    underscores: bool
    """True if `--some_flag` is `--some-flag`."""
    defaults: Mapping[str, Any]
    """dest → default."""
    dests: frozenset[str]
    plain: frozenset[str]
    """The spellings that carry no information beyond their option: `--max-model-len`, unlike 0.33's `--disable-x` for
    `--enable-x`."""

    def flags_beginning_with(self, text: str) -> list[str]:
        """The flags that begin with `text`."""
        from_text = itertools.islice(self.ordered, bisect_left(self.ordered, text), None)
        return list(itertools.takewhile(lambda flag: flag.startswith(text), from_text))


def is_plain_spelling(flag: str, dests: Container[str]) -> bool:
    """True if the flag has the same name as its option, or switches it off with `no-`."""
    name = name_of(flag)
    return not flag.startswith("--") or name in dests or name.startswith("no_")


def name_of(flag: str) -> str:
    """The argument's name of a flag: `--some-flag` → `some_flag`."""
    return flag.lstrip("-").replace("-", "_")


HELP = Option("help", ("-h", "--help"), nargs=0, action="help")
Row = Mapping[str, Any]
"""An option as `data/releases.json` writes it: `flags`, `negative`, `nargs`, `const`, `type`, `choices`, `default`,
`action`, `deprecated`, `only`; null values are left out."""


class Run(NamedTuple):
    """Adjacent releases of the table that know a flag."""

    first: Release
    last: Release
    option: Option
    """The flag's option in the first or the last of them, whichever is nearer to the release in question."""


class _Span(NamedTuple):
    """Adjacent releases of the table in which a flag has the same option; releases are indices, both included."""

    first: int
    last: int
    option: Option


class Table:
    """The options of all releases in the table; immutable."""

    def __init__(
        self,
        releases: Sequence[Release],
        definitions: Sequence[Row],
        spans: Mapping[str, Sequence[tuple[int, int, int]]],
        underscores: Release,
    ) -> None:
        self.releases = tuple(releases)
        """Oldest first."""
        self._definitions = definitions
        self._spans = spans
        """dest → the first and last release with this definition (indices, both included), and its index."""
        self._underscores = underscores
        """The first release in which `--some_flag` is `--some-flag`."""
        self._read_options: dict[tuple[str, int], Option] = {}
        """Options that were used, by dest and index of the definition."""
        self._parsers: dict[tuple[Release, str], Parser] = {}
        """Parsers that were used, by release and entry point."""
        # Bounded, because the keys are words and tags that an author writes.
        self._knowing = lru_cache(1024)(self._indices_by_prefix)
        self._around = lru_cache(1024)(lambda release: neighbours(release, self.releases))
        self._taught: tuple[str, ...] = ()
        """The text of each release that was added, in order."""

    def __repr__(self) -> str:
        """The releases that were added: two tables with the same text are equal."""
        return f"Table({', '.join(self._taught)})"

    def _option(self, dest: str, definition: int) -> Option:
        """The option of a definition, built once."""
        option = self._read_options.get((dest, definition))
        if option is None:
            row = dict(self._definitions[definition])
            for key in ("flags", "negative", "choices"):
                if key in row:
                    row[key] = tuple(row[key])
            option = self._read_options[dest, definition] = Option(dest, **row)
        return option

    def _options(self, number: int) -> Iterator[Option]:
        """The options of the release with this index in the table."""
        for dest, spans in self._spans.items():
            for first, last, definition in spans:
                if first <= number <= last:
                    yield self._option(dest, definition)

    def parser(self, release: Release, entry: str) -> Parser:
        """The parser of a release that is in the table, for `entry` ("serve" or "module")."""
        cached = self._parsers.get((release, entry))
        if cached is None:
            cached = self._parsers[release, entry] = self._parser(release, entry)
        return cached

    def _parser(self, release: Release, entry: str) -> Parser:
        """The parser of one release and entry point. A flag that is spelled as another's negative keeps its option."""
        spellings = dict.fromkeys(HELP.flags, Spelling(HELP, True))
        positional = None
        all_options = self._options(self.releases.index(release))
        options = [option for option in all_options if option.only in (None, entry)]
        for option in options:
            spelling = Spelling(option, True)
            for flag in option.flags:
                spellings[flag] = spelling
            if not option.flags:
                positional = option
        for option in options:
            for flag in option.negative:
                spellings.setdefault(flag, Spelling(option, False))
        if positional is None and entry == "serve":  # before 0.5.4 the table has only the module's options
            positional = Option("model_tag", type="str")
        dests = frozenset(option.dest for option in options)
        return Parser(
            release=release,
            entry=entry,
            table=self,
            spellings=spellings,
            flags={},
            ordered=tuple(sorted(spellings)),
            positional=positional,
            underscores=release >= self._underscores,
            defaults={option.dest: option.default for option in options},
            dests=dests,
            plain=frozenset(flag for flag in spellings if is_plain_spelling(flag, dests)),
        )

    def neighbours(self, release: Release) -> Neighbours:
        """The releases in the table around a release, as `podfit.vllm.release.neighbours` returns them."""
        return self._around(release)

    @cached_property
    def _spans_by_flag(self) -> Mapping[str, list[_Span]]:
        """Flag → the runs of releases that know it, one for each definition of its option."""
        entries: dict[str, list[_Span]] = {}
        for dest, spans in self._spans.items():
            for first, last, definition in spans:
                option = self._option(dest, definition)
                for flag in (*option.flags, *option.negative):
                    entries.setdefault(flag, []).append(_Span(first, last, option))
        return entries

    def nearest_releases_with(self, flag: str, release: Release) -> Run | None:
        """The nearest unbroken run of releases that know `flag`, for a `release` that does not.

        An earlier run comes first, because people still write flags that were removed. None: no release knows it.
        """
        if flag not in self._spans_by_flag:
            return None
        spans = sorted(self._spans_by_flag[flag], key=lambda span: span.first)
        at = self.releases.index(release)
        before = [span for span in spans if span.last < at]
        after = [span for span in spans if span.first > at]
        if before:
            first, last, option = before[-1]
            for earlier in reversed(before[:-1]):
                if earlier.last >= first - 1:  # adjacent, with another definition
                    first = min(first, earlier.first)
        elif after:
            first, last, option = after[0]
            for later in after[1:]:
                if later.first <= last + 1:
                    last = max(last, later.last)
        else:
            return None
        return Run(self.releases[first], self.releases[last], option)

    @cached_property
    def spellings(self) -> frozenset[str]:
        """All flags of all releases."""
        return frozenset(self._spans_by_flag)

    def choices(self, dest: str) -> frozenset[Any]:
        """The values that some release lists as choices of an option."""
        definitions = (self._definitions[span[2]] for span in self._spans.get(dest, ()))
        return frozenset(choice for row in definitions for choice in row.get("choices") or ())

    @cached_property
    def beginnings(self) -> frozenset[str]:
        """Words that argparse accepts for one or several flags of some release: each flag and all its beginnings.

        Beginnings have at least three characters, because `--` alone ends the flags.
        """
        beginnings = set[str]()
        for flag in self._spans_by_flag:
            beginnings.update(flag[:end] for end in range(min(3, len(flag)), len(flag) + 1))
        return frozenset(beginnings)

    def _indices_by_prefix(self, flag: str) -> frozenset[int]:
        """Indices of the releases that know `flag`, or a longer flag that begins with it."""
        indices = set[int]()
        for spelling, spans in self._spans_by_flag.items():
            if spelling.startswith(flag):
                for span in spans:
                    indices.update(range(span.first, span.last + 1))
        return frozenset(indices)

    def releases_accepting(self, flags: Iterable[str]) -> tuple[Release, ...]:
        """The releases whose parser accepts each of `flags`, spelled out or as a beginning (argparse takes both).

        A flag that no release knows is ignored. If no release knows all the others, all releases are returned.
        """
        accepting = frozenset(range(len(self.releases)))
        for flag in flags:
            knowing = self._knowing(flag)
            if knowing:
                accepting &= knowing
        if not accepting:
            return self.releases
        return tuple(release for number, release in enumerate(self.releases) if number in accepting)

    def rows(self, release: Release) -> dict[str, Row]:
        """dest → its definition in a release of the table."""
        number = self.releases.index(release)
        return {
            dest: self._definitions[definition]
            for dest, spans in self._spans.items()
            for first, last, definition in spans
            if first <= number <= last
        }

    def with_release(self, release: Release, rows: Mapping[str, Row]) -> Table:
        """The table with one more release, or with another definition of one that it has; `rows`: by dest."""
        known = {known_release: self.rows(known_release) for known_release in self.releases}
        known[release] = dict(rows)
        table = _build_table(known, self._underscores)
        table._taught = (*self._taught, f"{release}: {json.dumps(rows, sort_keys=True, default=str)}")
        return table


def _build_table(rows_of: Mapping[Release, Mapping[str, Row]], underscores: Release) -> Table:
    """The table built from the rows of each release; definitions that do not change are stored once."""
    releases = sorted(rows_of)
    definitions: list[Row] = []
    spans_of: dict[str, list[tuple[int, int, int]]] = {}
    for number, release in enumerate(releases):
        for dest, row in rows_of[release].items():
            spans = spans_of.setdefault(dest, [])
            first, last, definition = spans[-1] if spans else (number, -1, -1)
            if spans and last == number - 1 and definitions[definition] == row:
                spans[-1] = (first, number, definition)
            else:
                spans.append((number, number, len(definitions)))
                definitions.append(row)
    return Table(releases, definitions, spans_of, underscores)


@cache
def builtin() -> Table:
    """The table of the package."""
    data = load("releases")["flags"]
    return Table(known_releases(), data["definitions"], data["options"], known_releases()[data["underscores"]])


class Releases(NamedTuple):
    """The packaged tables about vLLM's releases, and what a policy adds to them."""

    images: Images = ()
    """The release that an image contains, for images whose tag does not name it."""
    make_table: Callable[[], Table] = builtin
    """Builds the table from the facts in use."""

    @property
    def table(self) -> Table:
        """The options of all known releases."""
        return self.make_table()
