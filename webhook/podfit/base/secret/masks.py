"""Masks: stars in place of secrets, in text for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from podfit.base.lazy import cached_property
from podfit.base.printable import one_line, shortened
from podfit.base.quotable import Quotable, canonical
from podfit.base.secret.names import is_secret_name
from podfit.base.secret.objects import Place, TooLargeError, leaves
from podfit.base.secret.texts import MAX_SECRETS, STARTS, Span, forms, is_sparse, named, secrets_in
from podfit.base.secret.values import bare, is_loose, is_secret, is_weak, spellings

LONG = 1 << 16
"""Maximum length, in characters, of a text that is searched. A longer text is withheld."""
WITHHELD = (
    "(not shown: the object is too large to search for secrets, or more than "
    f"{MAX_SECRETS} of its values look like secrets)"
)


_HEAD, _FAR, _TRIES = 12, 256, 16
"""For a secret of which a text shows only the beginning: characters that identify it, characters that are compared, and
places that are tried."""


class _Spelling(NamedTuple):
    """One spelling of a secret."""

    text: str
    """In canonical form, as texts are compared."""
    is_loose: bool
    """True if it is masked inside other words, too."""
    head: str
    """Its first _HEAD characters, which most texts do not contain."""


@dataclass(frozen=True)
class Secrets:
    """The secrets in objects, texts and lists of words. The search runs when the first text is masked."""

    trees: tuple[Any, ...] = field(default=(), compare=False)
    show: bool = False
    """Mask nothing."""
    make_quotable: Callable[[], Quotable | None] = field(default=Quotable, compare=False)
    """Make what texts about the objects may quote."""

    @classmethod
    def of(cls, *trees: Any) -> Secrets:
        """Return the secrets in `trees`: JSON values. A list of texts in them can be the words of a command."""
        return cls(trees)

    @cached_property
    def quotable(self) -> Quotable | None:
        """The parts of the objects that texts may quote; None if they are too large."""
        return self.make_quotable()

    @cached_property
    def values(self) -> frozenset[str] | None:
        """The secrets; None if the trees are too large to search."""
        texts: list[str] = []
        try:
            secret_values = (bare(value) for _, value in leaves(self.trees, texts) if is_secret(value))
            values = _at_most(MAX_SECRETS, secret_values)
        except TooLargeError:
            return None
        if values is None:
            return None
        text = "\0".join(dict.fromkeys([text for text in texts if len(text) <= LONG]))
        if not is_sparse(text):
            return None
        return secrets_in(text) | values

    @cached_property
    def places(self) -> tuple[tuple[str | int, ...], ...]:
        """The places of values in the first tree that are secrets as a whole; at most MAX_SECRETS."""
        if self.show:
            return ()
        try:
            secret_values = leaves(self.trees[:1], [])
        except TooLargeError:  # then all is withheld
            return ()
        places = (place for place, value in secret_values if place is not None and is_secret(value))
        return tuple([_parts(place) for place in islice(places, MAX_SECRETS)])

    @cached_property
    def _known(self) -> tuple[_Spelling, ...]:
        """The spellings of the secrets, longest first, without weak ones."""
        is_loose_of: dict[str, bool] = {}
        for value in self.values or ():
            if is_weak(value):
                continue
            for spelling in spellings(value):
                if not is_weak(spelling) and is_secret(spelling):
                    is_loose_of[canonical(spelling)] = is_loose(spelling)
        longest_first = sorted(is_loose_of, key=len, reverse=True)
        return tuple([_Spelling(text, is_loose_of[text], text[:_HEAD]) for text in longest_first])

    @cached_property
    def _weak(self) -> frozenset[str]:
        """The secrets that are so short that they are masked only after a name."""
        return frozenset([value for value in self.values or () if is_weak(value)])

    def masked(self, text: str, *, quoted: bool = False, is_value: bool = False) -> str:
        """Return `text` with a star for each character of a secret and of what texts may not quote.

        `quoted`: the text comes from a log or a file and is not a message of podfit, so the value after the name of a
        secret is one. `is_value`: it is a value of the object.
        """
        if self.show or not text:
            return text
        if self.values is None or len(self.values) > MAX_SECRETS or (self.quotable is None and not quoted):
            return WITHHELD
        if len(text) > LONG and not quoted:
            return f"(not shown: {len(text):,} characters)"
        spans = [*self._spans(text), *forms(text), *named(text, joined=not quoted)]
        if self._weak and not quoted:
            spans += [span for span in named(text) if text[slice(*span)] in self._weak]
        if self.quotable is not None and not quoted:
            spans += self.quotable.spans(text, is_value=is_value)
        return _starred(text, spans) if spans else text

    def source_line(self, line: str) -> str:
        """Return a line of the objects' file with stars for secrets, comments, and all else that may not be quoted.
        WITHHELD if the whole line is masked, or if it is unknown what may be quoted."""
        if self.show or not line:
            return line
        masked = self.masked(line, quoted=True)
        if self.quotable is None or len(masked) != len(line):
            return WITHHELD
        return _starred(masked, self.quotable.spans_of_source(line))

    def line(self, text: str, *, quoted: bool = False) -> str:
        """Return the masked text as one line without control characters and of bounded length."""
        return shortened(one_line(self.masked(text, quoted=quoted)))

    def masked_value(self, value: Any, name: str = "") -> Any:
        """Return a JSON value with masked texts. `name`: the argument, variable or key of the value."""
        if self.show:
            return value
        if isinstance(value, Mapping):
            return {self.masked(str(key)): self.masked_value(item, str(key)) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.masked_value(item, name) for item in value]
        if value is None or isinstance(value, bool):
            return value
        if name and is_secret_name(name) and is_secret(str(value)):
            return "*" * len(str(value))
        return self.masked(value, is_value=True) if isinstance(value, str) else value

    def holds(self, text: str) -> bool:
        """Return whether `masked` changes the text."""
        return self.masked(text) != text

    def hold(self, value: Any) -> bool:
        """Return whether a text in `value`, a JSON value, contains a secret, or cannot be searched.

        A word that a message may not quote, but that is not a secret, does not count: its author gets the patch."""
        texts: list[str] = []
        try:
            leaves((value,), texts)
        except TooLargeError:
            return True
        joined = "\0".join(texts)  # one search for all
        return self._has_secret(joined) and (len(texts) == 1 or any(map(self._has_secret, texts)))

    def _has_secret(self, text: str) -> bool:
        """Return whether `masked` changes a text of a file."""
        return self.masked(text, quoted=True) != text

    def _spans(self, text: str) -> Iterator[Span]:
        """Places of known secrets in a text, also of the beginnings of long ones; short ones only as whole words."""
        if not self._known:
            return
        written = canonical(text)
        for secret, loose, head in self._known:
            if head not in written:
                continue
            at = written.find(secret)
            while at >= 0:
                end = at + len(secret)
                if loose or not (_in_word(written, at - 1) or _in_word(written, end)):
                    yield at, end
                at = written.find(secret, end)
            if loose and len(secret) > _HEAD:
                yield from _beginnings(written, secret)


def _beginnings(text: str, secret: str) -> Iterator[Span]:
    """Yield the places at which a word ends with the first half of the secret or more of it."""
    at = -1
    for _ in range(_TRIES):
        at = text.find(secret[:_HEAD], at + 1)
        if at < 0:
            return
        end = at + _common(text[at : at + _FAR], secret[:_FAR])
        if (end - at == _FAR or 2 * (end - at) >= len(secret)) and not _in_word(text, end):
            yield at, end


def _common(text: str, other: str) -> int:
    """Return the length of the common prefix."""
    for length, (character, other_character) in enumerate(zip(text, other, strict=False)):
        if character != other_character:
            return length
    return min(len(text), len(other))


def _parts(place: Place) -> tuple[str | int, ...]:
    """The keys and indices of a place from the root, which is linked from its end."""
    parts: list[str | int] = []
    while place is not None:
        place, part = place
        parts.append(part)
    return tuple(reversed(parts))


def _in_word(text: str, at: int) -> bool:
    """Return whether a letter, a digit or a dash is at this place; False outside of the text."""
    return 0 <= at < len(text) and (text[at].isalnum() or text[at] == "-")


def _starred(text: str, spans: Iterable[Span]) -> str:
    """The text with `*` for each character of these places, which may overlap."""
    parts: list[str] = []
    done = 0  # characters of the text that are in `parts`
    for start, end in sorted(spans):
        if end > done:
            start = max(start, done)
            parts += [text[done:start], "*" * (end - start)]
            done = end
    return "".join([*parts, text[done:]])


def has_form(text: str) -> bool:
    """Return whether the text contains the prefix of a known kind of token."""
    return any(start in text for start in STARTS)


FORMS = Secrets()
"""Masks texts that have the form of a secret, without an object."""
UNMASKED = Secrets(show=True)
"""Masks nothing, for users who ask to see secrets."""


def _at_most(most: int, values: Iterable[str]) -> set[str] | None:
    """Return the different values; None if there are more."""
    different = set[str]()
    for value in values:
        different.add(value)
        if len(different) > most:
            return None
    return different
