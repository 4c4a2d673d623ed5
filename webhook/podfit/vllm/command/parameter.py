"""Words of a shell script → the fields they expand to: quotes, `$X`, `${X:-y}`, arrays, field splitting.

POSIX.1-2024 Shell Command Language 2.6 and bash(1) EXPANSION, as far as start scripts use them. Every other expansion
(`$(…)`, `$((…))`, `${X%y}`) stays as it is written, with the reason why its text is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from podfit.base.lazy import regex
from podfit.vllm.command import dialect
from podfit.vllm.command.state import Array, ShellState
from podfit.vllm.command.tree import WorkLimit, source
from podfit.vllm.command.word import Piece, Value, joined, joined_list, known, literal, mystery, reason_of, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_VALUE_LENGTH = 1 << 16
"""Longest value of a variable in characters: a script that doubles a value repeatedly must not fill podfit's memory."""

_EXPANSIONS = ("simple_expansion", "expansion", "arithmetic_expansion", "command_substitution")
_BRACED = regex(r"\$\{(\w+|[@*])(\[['\"]?[@*]['\"]?\])?(?:(:?)([-=+?])(.*))?\}", re.DOTALL)
"""The forms of `${…}` that are expanded: name, index, colon, operator, word."""
_NAME = regex(r"[A-Za-z_]\w*")
_FACTORS = regex(r"\$\(\(\s*([1-9]\d{0,8})\s*\*\s*([1-9]\d{0,8})\s*\)\)")
"""`$((40 * 1024))`: two decimal numbers, which every shell multiplies. A leading zero would make one octal."""
_SETS = regex(r"=|\+\+|--")
"""Signs that an arithmetic expression may set a variable."""
_SPECIAL = re.compile(rb"(?<!\\)\$[?#$!@*0-9-]|(?<!\\)`")
"""Expansions that the grammar leaves in the text of a default."""
DEFAULTED = regex(r"\$\{([A-Za-z_]\w*):?=")
"""`${X:=word}`, which assigns X."""
_TWO_DIGITS = regex(r"\$[0-9]{2,}")
_LEAD = regex(r"(?:\s|\\\n)+")
_FIELD_PARTS = regex(r"[ \t\n]+|[^ \t\n]+")
_MOST_PIECES, _BEGINNING = 4096, 64
"""Pieces of a value that is kept, and characters of one that is not: choices, far above the scripts in the field."""


class _Segment(NamedTuple):
    """A part of a word after its expansion."""

    value: Value
    split: bool
    """Unquoted and the result of an expansion: it is split at blanks, and disappears if it is empty."""


_BREAK = _Segment((), False)
"""The separator between the elements of `"$@"`."""


class WordExpander:
    """Expands the words of one script in a `ShellState`."""

    def __init__(self, state: ShellState, budget: WorkLimit) -> None:
        self.state = state
        self.budget = budget
        """Charges the work, so that a script that grows without end is given up."""

    def fields(self, node: Node) -> list[Value]:
        """The fields that a word expands to: none, one or more."""
        text = source(node)
        if "{" in text and dialect.has_braces(text):
            return [mystery(text, f"{text} is several words in bash")]
        if node.type in ("word", "concatenation") and (why := _file_names_of_word(node)) is not None:
            return [mystery(text, why)]
        segments = self._charged(self.segments(node, False))
        return _fields(self._separated(segments) if "IFS" in self.state.variables else segments)

    def _separated(self, segments: Iterator[_Segment]) -> Iterator[_Segment]:
        """The segments of a word after IFS was set: one that it may split is unknown."""
        for segment in segments:
            if segment.split and text_of(segment.value):
                segment = _Segment(mystery("", "IFS decides into which words it is split"), False)
            yield segment

    def scalar(self, node: Node | None) -> Value:
        """The value of an assignment: one text, without field splitting. None (`A=`) is the empty text."""
        pieces: list[Piece] = []
        for segment in self._charged(self.segments(node, False)) if node is not None else ():
            pieces += (Piece(" "),) if segment is _BREAK else segment.value
        return _bounded(joined(pieces))

    def _charged(self, segments: Iterator[_Segment]) -> Iterator[_Segment]:
        """The segments, each charged to the budget; a text that is split into fields costs 16 times as much."""
        for segment in segments:
            characters_per_unit = 2 if segment.split else 32
            self.budget.spend(2 + sum(1 + len(piece.text) // characters_per_unit for piece in segment.value))
            yield segment

    # ── the parts of a word ──

    def segments(self, node: Node, quoted: bool) -> Iterator[_Segment]:
        """The segments that a node of the grammar expands to. `quoted`: it is between double quotes."""
        text, depth = source(node), self.budget.word
        if depth.full:
            yield _Segment(mystery(text, "the word is nested too deeply to be read"), False)
            return
        with depth:
            # The grammar includes blanks before a `$` between quotes in the expansion.
            lead = _LEAD.match(text) if node.type in _EXPANSIONS else None
            if lead is not None:
                yield from self._gap(lead[0].encode(), quoted)
                text = text[lead.end() :]
            yield from self._segments_of_kind(node, text, quoted)

    def _segments_of_kind(self, node: Node, text: str, quoted: bool) -> Iterator[_Segment]:
        """The segments by the kind of the node; `text`: its source, without blanks before an expansion."""
        kind = node.type
        if kind == "string":
            if node.end_byte - node.start_byte <= 2:
                yield _Segment(literal(""), False)
            yield from self._range(node.children[1:-1], node.start_byte + 1, node.end_byte - 1, node, True)
        elif kind == "raw_string":
            yield _Segment(literal(text[1:-1]), False)
        elif kind == "ansi_c_string":
            yield _Segment(mystery(text, f"the escapes of {text} are not read"), False)
        elif kind in ("translated_string", "concatenation", "command_name"):
            for child in node.children:
                if child.type != "$":
                    yield from self.segments(child, quoted)
        elif kind == "simple_expansion" and _TWO_DIGITS.fullmatch(text):
            yield _Segment(mystery(text, f"{text} is ${text[1]} and {text[2:]}"), not quoted)
        elif kind == "simple_expansion":
            yield from self._parameter(text[1:], quoted, text)
        elif kind == "expansion":
            yield from self._expansion(node, text, quoted)
        elif kind == "arithmetic_expansion":
            yield _Segment(self._arithmetic(text), not quoted)
        elif kind == "command_substitution":
            yield _Segment(self._reference(text) or mystery(text, f"command substitution {text}"), not quoted)
        elif kind == "process_substitution":
            yield _Segment(mystery(text, f"process substitution {text}"), False)
        elif text[:1] == "~" and not quoted and _begins(node):
            yield _Segment(self._home(text), False)
        else:
            yield _Segment(literal(_unescape(text, quoted)), False)

    def _arithmetic(self, text: str) -> Value:
        """`$((40 * 1024))` is computed. Every other expression is unknown, as are the variables that it may set."""
        if factors := _FACTORS.fullmatch(text):
            return literal(str(int(factors[1]) * int(factors[2])))
        why = f"arithmetic {text} is known only when the script runs"
        if _SETS.search(text):
            self.state.forget(_NAME.findall(text), why)
        return mystery(text, why)

    def _range(self, children: list[Node], start: int, end: int, node: Node, quoted: bool) -> Iterator[_Segment]:
        """The segments of the script from byte `start` to `end`: of these children of `node`, and of the text between
        them, which the grammar leaves out."""
        base, text = node.start_byte, node.text or b""
        for child in children:
            if child.type == "string_content" or not child.is_named or child.start_byte < start:
                continue
            if child.type in ("word", "number") or (child.type == "raw_string" and quoted):
                continue  # it is part of the text between the nodes
            yield from self._gap(text[start - base : child.start_byte - base], quoted)
            if child.type == "concatenation" and not self.budget.word.full:
                with self.budget.word:
                    yield from self._range(child.children, child.start_byte, child.end_byte, child, quoted)
            else:
                yield from self.segments(child, quoted)
            start = child.end_byte
        yield from self._gap(text[start - base : end - base], quoted)

    def _gap(self, text: bytes, quoted: bool) -> Iterator[_Segment]:
        """The text between two nodes, none if it is empty. If the shell computes something in it (`$?`), it is unknown,
        and written as an expansion. Without quotes it is a part of a default word, which is split."""
        written = text.decode(errors="replace")
        if _SPECIAL.search(text):
            yield _Segment(mystery(f"${{{written}}}", f"{written} is known only when the script runs"), not quoted)
        elif text:
            yield _Segment(literal(_unescape(written, quoted)), not quoted)

    def _home(self, text: str) -> Value:
        """`~` and `~/x` (POSIX 2.6.1); unknown without a known HOME, and for another user (`~name`)."""
        home = self.state.get("HOME")
        folder = known(home) if isinstance(home, tuple) else None
        if folder is None or text[1:2] not in ("", "/"):
            return mystery(text, f"{text} is in a home directory that is not known")
        return literal(folder + _unescape(text[1:], False))

    def _reference(self, text: str) -> Value | None:
        """`$(VAR)` may be Kubernetes' reference instead of a command: the unknown value of that variable; else None."""
        name = text[2:-1].strip()
        value = self.state.variables.get(name)
        if name in self.state.functions or name not in self.state.exported or not isinstance(value, tuple):
            return None
        return value if known(value) is None else None

    # ── parameters ──

    def _parameter(self, name: str, quoted: bool, written: str, index: str = "") -> Iterator[_Segment]:
        """`$NAME`, written as `written`: `"$*"` is one word, `"$@"` one per element; unknown if not set. `index`:
        see `_lookup`."""
        value = self._lookup(name, index)
        if value is None:
            value = mystery(written, f"{written} is set neither in the container's env nor in the script")
        if isinstance(value, tuple):
            yield _Segment(value, not quoted)
        elif quoted and "*" in (name, index):
            by_ifs = "IFS" in self.state.variables
            yield _Segment(mystery(written, "it is joined by IFS") if by_ifs else joined_list(value), False)
        else:
            for position, element in enumerate(value):
                if position:
                    yield _BREAK
                yield _Segment(element or literal(""), not quoted)

    def _lookup(self, name: str, index: str = "") -> Value | Array | None:
        """The value of a parameter; None if it is certainly not set. `index`: "@" or "*" for all elements of an array,
        empty for the first one."""
        state = self.state
        if name in ("@", "*"):
            return state.positional
        if re.fullmatch(r"[0-9]{1,6}", name):
            return self._positional(int(name))
        if not (name[:1].isalpha() or name[:1] == "_"):
            return mystery(f"${name}", f"${name} is known only when the script runs")
        value = state.get(name)
        if isinstance(value, list) and not index:
            return value[0] if value else None
        return value

    def _positional(self, number: int) -> Value | None:
        """`$0`, `$1` and so on; None if it is not set. An unknown parameter before it may be any number of words."""
        if number == 0:  # `${00}` too
            return self.state.zero
        values = self.state.positional
        if any(reason_of(pieces) is not None for pieces in values[: number - 1]):
            return mystery(f"${number}", f"the parameters before ${number} are not known")
        return values[number - 1] if number <= len(values) else None

    def _expansion(self, node: Node, written: str, quoted: bool) -> Iterator[_Segment]:
        """`${X}`, `${X[@]}`, `${X:-word}`, `${X:=word}` and `${X:+word}`. Every other form is one unknown word."""
        match = _BRACED.fullmatch(written)
        if match is None:
            self.state.forget(DEFAULTED.findall(written), f"{written} may assign it")
            yield _Segment(mystery(written, f"{written} is known only when the script runs"), not quoted)
            return
        name, index, colon, operator, word = match.groups()
        index = (index or "").strip("[]'\"")
        if operator is None or operator == "?":
            yield from self._parameter(name, quoted, written, index)
            return
        empty = _is_empty(self._lookup(name, index), colon=bool(colon))
        if ("\\" in word and not quoted) or (empty is None and operator in "+="):
            self.state.forget(DEFAULTED.findall(written), f"{written} may assign it")
            yield _Segment(mystery(written, f"{written} depends on a value that is not known"), not quoted)
            return
        if operator in "-=" and not empty:
            yield from self._parameter(name, quoted, written, index)
            return
        if operator == "+" and empty:
            yield _Segment((), not quoted)
            return
        start = node.end_byte - 1 - len(word.encode())
        default = list(self._range(node.children, start, node.end_byte - 1, node, quoted))
        if operator == "=" and name.isidentifier():
            self.state.assign(name, tuple(piece for segment in default for piece in segment.value))
        yield from default


def _unescape(text: str, quoted: bool) -> str:
    """Remove backslashes outside of quotes, or between double ones (`quoted`), where they escape less."""
    if "\\" not in text:
        return text
    return re.sub(r'\\([$`"\\\n])' if quoted else r"\\(.|\n)", lambda m: "" if m[1] == "\n" else m[1], text)


def _begins(node: Node) -> bool:
    """True if the node is at the beginning of its word."""
    parent = node.parent
    return parent is None or parent.type != "concatenation" or parent.start_byte == node.start_byte


def _fields(segments: Iterator[_Segment]) -> list[Value]:
    """The words that the shell splits an expansion into."""
    done: list[Value] = []
    current: list[Piece] = []
    started = False

    def end() -> None:
        """Complete the current word, if one has begun."""
        nonlocal started
        if started:
            done.append(_bounded(joined(current)))
        current.clear()
        started = False

    for segment in segments:
        if segment is _BREAK:
            end()
        elif not segment.split:
            current += segment.value
            started = True
        else:
            for piece in segment.value:
                if piece.unknown is not None:
                    current.append(piece)
                    started = True
                    continue
                for part in _FIELD_PARTS.findall(piece.text):
                    if part[0] in " \t\n":
                        end()
                    else:
                        current.append(Piece(part, piece.path, file_name_doubt(part)))
                        started = True
    end()
    return done


def _bounded(value: Value) -> Value:
    """The value, or an unknown one if it is too long."""
    if sum(len(piece.text) for piece in value) <= MAX_VALUE_LENGTH and len(value) < _MOST_PIECES:
        return value
    return mystery(value[0].text[:_BEGINNING], "the text grows too long")


def _is_empty(value: Value | Array | None, *, colon: bool) -> bool | None:
    """True if `-` (or `:-` with `colon`) would use its default word; None if unknown. `value`: None is not set."""
    if value is None:
        return True
    pieces = [piece for word in (value if isinstance(value, list) else [value]) for piece in word]
    if not pieces:
        return True
    if any(piece.unknown is None and piece.text for piece in pieces):
        return False  # a known part is not empty, whatever the other parts are
    if isinstance(value, list) or known(value) is None:
        return None
    return colon  # the empty text: only `:-` replaces it


_ESCAPED = regex(r"\\.", re.DOTALL)


def file_name_doubt(text: str) -> str | None:
    """Why the shell may replace an unquoted text by file names; None if it does not. A pattern behind `-` or `=`
    matches no file in practice. Nor does a JSON list, which has no slash before its bracket."""
    name = text.partition("=")[0]
    has_range = -1 < name.find("/") < name.rfind("[")
    is_pattern = "*" in name or "?" in name or has_range
    return "it may be replaced by the names of files" if is_pattern and name[:1] != "-" else None


def _file_names_of_word(node: Node) -> str | None:
    """Why the shell may replace a word of the script by file names; None if it does not, as in `file_name_doubt`."""
    parts = [node] if node.type == "word" else node.children
    first = source(parts[0] if parts else node)
    if first[:1] == "-" or "=" in first:
        return None
    for part in parts:
        why = file_name_doubt(_ESCAPED.sub("", source(part))) if part.type == "word" else None
        if why is not None:
            return why
    return None
