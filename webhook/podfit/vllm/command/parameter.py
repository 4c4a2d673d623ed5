"""Words of a shell script → the fields they expand to: quotes, `$X`, `${X:-y}`, `$((…))`, arrays, field splitting.

POSIX.1-2024 Shell Command Language 2.6 and bash(1) EXPANSION, as far as start scripts use them. A text that only
running the script would show stays as it is written, with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from podfit.base.secret import gives
from podfit.vllm.command import arithmetic, dialect, file_names, transform
from podfit.vllm.command.state import Array, ShellState
from podfit.vllm.command.tree import WorkLimit, source
from podfit.vllm.command.word import Piece, Value, joined, joined_list, known, literal, mystery, reason_of, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_VALUE_LENGTH = 1 << 16
"""Longest value of a variable in characters: a script that doubles a value repeatedly must not fill podfit's memory."""

_OPERATORS = (
    *(":-", ":=", ":+", ":?", "-", "=", "+", "?"),
    *("##", "#", "%%", "%", "//", "/#", "/%", "/", ",,", ",", "^^", "^", ":", "@"),
)
_EXPANSIONS = ("simple_expansion", "expansion", "arithmetic_expansion", "command_substitution")
_KEY = re.compile(r"\[([^\]]{1,64})\]=")
_TWO_DIGITS = re.compile(r"\$[0-9]{2,}")
_QUOTED = re.compile(r"[\"'$]")
_GLOB = re.compile(r"[*?\[]")
_EXPANDS = re.compile(rb"[$`]")  # in a pattern, which the grammar leaves in one piece
_LEAD = re.compile(r"(?:\s|\\\n)+")


@dataclass(frozen=True, slots=True)
class _Segment:
    value: Value
    split: bool
    """Unquoted and the result of an expansion: it is split at blanks, and disappears if it is empty."""


_BREAK = _Segment((), False)
"""The separator between the elements of `"$@"`."""


class WordExpander:
    """Expands the words of one script in a `State`."""

    def __init__(self, state: ShellState, run: Callable[[Node], Value | None], budget: WorkLimit) -> None:
        self.state = state
        self.run = run
        """The output of a command substitution if it is certain, else None."""
        self.budget = budget
        """Charges the work, so that a script that grows without end is given up."""

    def fields(self, node: Node) -> list[Value]:
        """The fields that a word expands to: none, one or more."""
        text = source(node)
        if "{" in text and dialect.has_braces(text):
            return [mystery(text, f"{text} is several words in bash")]
        if node.type in ("word", "concatenation") and (why := file_names.of_word(node)) is not None:
            return [mystery(text, why)]
        segments = self._charged(self.segments(node, False))
        return _fields(self._separated(segments) if "IFS" in self.state.variables else segments)

    def _separated(self, segments: Iterator[_Segment]) -> Iterator[_Segment]:
        """The segments of a word after IFS was set: their splitting is unknown, except that an empty IFS splits
        nothing."""
        ifs = self.state.get("IFS")
        separators = known(ifs) if isinstance(ifs, tuple) else None
        for segment in segments:
            text = text_of(segment.value)
            if separators == "":
                yield _Segment(segment.value, False) if text else segment
            elif segment.split and separators != " \t\n" and not set(text).isdisjoint(f"{separators or text} \t\n"):
                yield _Segment(mystery(text, "IFS decides into which words it is split"), False)
            else:
                yield segment

    def scalar(self, node: Node | None) -> Value:
        """The value of an assignment: no field splitting."""
        if node is None:
            return literal("")
        segments = self._charged(self.segments(node, False))
        pieces = [piece for one in segments for piece in ((Piece(" "),) if one is _BREAK else one.value)]
        return _bounded(joined(pieces))

    def _charged(self, segments: Iterator[_Segment]) -> Iterator[_Segment]:
        """The segments, each charged to the budget."""
        for segment in segments:
            each = 2 if segment.split else 32
            self.budget.spend(2 + sum(1 + len(piece.text) // each for piece in segment.value))
            yield segment

    # ── the parts of a word ──

    def segments(self, node: Node, quoted: bool) -> Iterator[_Segment]:
        """The segments that a node of the grammar expands to."""
        kind, text, depth = node.type, source(node), self.budget.word
        if depth.full:
            yield _Segment(mystery(text, "the word is nested too deeply to be read"), False)
            return
        with depth:
            if kind in _EXPANSIONS:
                # The grammar includes blanks before a `$` between quotes in the expansion.
                lead = _LEAD.match(text)
                if lead is not None:
                    yield from self._gap(lead[0].encode(), quoted)
                    text = text[lead.end() :]
            if kind == "string":
                if node.end_byte - node.start_byte <= 2:
                    yield _Segment(literal(""), False)
                yield from self._range(node.children[1:-1], node.start_byte + 1, node.end_byte - 1, node, True)
            elif kind == "raw_string":
                yield _Segment(literal(text[1:-1]), False)
            elif kind == "ansi_c_string":
                yield _Segment(literal(transform.ansi_c(text[2:-1])), False)
            elif kind in ("translated_string", "concatenation", "command_name"):
                for child in node.children:
                    if child.type != "$":
                        yield from self.segments(child, quoted)
            elif kind == "simple_expansion" and _TWO_DIGITS.fullmatch(text):
                yield _Segment(mystery(text, f"{text} is ${text[1]} and {text[2:]}"), not quoted)
            elif kind == "simple_expansion":
                yield from self._parameter(text[1:], None, quoted, text)
            elif kind == "expansion":
                yield from self._expansion(node, text, quoted)
            elif kind == "arithmetic_expansion":
                inner = [child for child in node.children if child.is_named]
                number = self.arithmetic(inner[-1]) if inner else None
                why = f"arithmetic {text} over values that are not known"
                yield _Segment(literal(str(number)) if number is not None else mystery(text, why), not quoted)
            elif kind == "command_substitution":
                output = None if text[0] == "`" and "\\" in text else self.run(node)
                yield _Segment(output or mystery(text, f"command substitution {text}"), not quoted)
            elif kind == "process_substitution":
                yield _Segment(mystery(text, f"process substitution {text}"), False)
            elif text[:1] == "~" and not quoted and _begins(node):
                yield _Segment(self._home(text), False)
            else:
                yield _Segment(literal(transform.unescape(text, quoted)), False)

    def _range(self, children: list[Node], start: int, end: int, node: Node, quoted: bool) -> Iterator[_Segment]:
        """Nodes and the blank text between them, which the grammar leaves out."""
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
        if text:
            yield _Segment(literal(transform.unescape(text.decode(errors="replace"), quoted)), not quoted)

    def _home(self, text: str) -> Value:
        """`~` and `~/x` (POSIX 2.6.1)."""
        home = self.state.get("HOME")
        folder, rest = known(home) if isinstance(home, tuple) else None, text[1:]
        if folder is None or rest[:1] not in ("", "/"):
            return mystery(text, f"{text} is in a home directory that is not known")
        return literal(folder + transform.unescape(rest, False))

    # ── parameters ──

    def _parameter(self, name: str, index: str | None, quoted: bool, written: str) -> Iterator[_Segment]:
        value = self._lookup(name, index)
        if isinstance(value, list):
            if quoted and (name == "*" or index == "*"):
                by_ifs = "IFS" in self.state.variables
                yield _Segment(mystery(written, "it is joined by IFS") if by_ifs else joined_list(value), False)
                return
            for position, element in enumerate(value):
                if position:
                    yield _BREAK
                yield _Segment(element or literal(""), not quoted)
            if quoted and not value:
                return
        elif value is None:
            why = f"{written} is set neither in the container's env nor in the script"
            yield _Segment(mystery(written, why), not quoted)
        else:
            yield _Segment(value, not quoted)

    def _lookup(self, name: str, index: str | None = None) -> Value | Array | None:
        state = self.state
        if name in ("@", "*"):
            return state.positional
        if name == "#" and any(reason_of(one) is not None for one in state.positional):
            return mystery("$#", "$# depends on a value that is not known")
        if name == "#":
            return literal(str(len(state.positional)))
        if re.fullmatch(r"[0-9]{1,6}", name):
            position = int(name)
            if position == 0:  # `${00}` too
                return state.zero
            return state.positional[position - 1] if position <= len(state.positional) else None
        if not (name[:1].isalpha() or name[:1] == "_"):
            return mystery(f"${name}", f"${name} is known only when the script runs")
        value = state.get(name)
        return self._element(name, value, index) if isinstance(value, list) else value

    def _element(self, name: str, value: Array, index: str | None) -> Value | Array | None:
        """An array's element, or all of them; an associative array has its elements as `[key]=value`."""
        keyed = [(_KEY.match(text_of(one)), one) for one in value]
        if index in ("@", "*"):
            if sum(match is not None for match, _ in keyed) > 1:
                return [mystery(f"${{{name}[{index}]}}", f"the order of {name}'s elements is not known")]
            return (
                value
                if not any(match for match, _ in keyed)
                else [
                    literal(text_of(one)[match.end() :]) if match and known(one) is not None else one
                    for match, one in keyed
                ]
            )
        wanted = index or "0"
        if named := re.fullmatch(r"\$\{?([A-Za-z_]\w*)\}?", wanted):
            inner = self.state.get(named[1])
            wanted = (known(inner) if isinstance(inner, tuple) else None) or wanted
        for match, one in reversed(keyed):
            if match and match[1].strip("'\"") == wanted and known(one) is not None:
                return literal(text_of(one)[match.end() :])
        if not re.fullmatch(r"-?[0-9]{1,6}", wanted):
            return mystery(f"${{{name}[{index}]}}", f"element {index} of {name}")
        position = int(wanted)
        return value[position] if -len(value) <= position < len(value) else None

    def _expansion(self, node: Node, written: str, quoted: bool) -> Iterator[_Segment]:
        """`${…}` with every form of expansion in it."""
        match = re.match(r"\$\{([#!]?)(\w+|[@*#?$!-])(?:\[([^\]]*)\])?", written)
        if match is None:
            yield _Segment(mystery(written, f"{written} is not understood"), not quoted)
            return
        prefix, name, index = match.groups()
        if index is not None:
            index = index.strip("'\"")
        rest = written[match.end() : -1]
        operator = next((o for o in _OPERATORS if rest.startswith(o)), "")
        start = node.end_byte - len(written[match.end() + len(operator) :].encode())
        if prefix == "!" or (operator == "" and rest):
            inner = self._lookup(name, index) if prefix == "!" and not rest and index is None else None
            target = known(inner) if isinstance(inner, tuple) else None
            if target and target.isidentifier():
                yield from self._parameter(target, None, quoted, written)
            else:
                yield _Segment(mystery(written, f"{written} is known only when the script runs"), not quoted)
            return
        value = self._lookup(name, index)
        if prefix == "#":
            yield _Segment(_length(value, written), not quoted)
            return
        if operator in ("", ":-", ":=", "-", "=", ":?", "?", ":+", "+"):
            empty = _is_empty(value, colon=operator.startswith(":"))
            if "\\" in rest and not quoted and operator:
                yield _Segment(mystery(written, f"{written} is not understood"), True)
                return
            default = list(self._range(node.children, start, node.end_byte - 1, node, quoted))
            if operator in (":+", "+"):
                if empty is None:
                    why = f"{written} depends on a value that is not known"
                    yield _Segment(mystery(written, why), not quoted)
                elif not empty:
                    yield from default
                else:
                    yield _Segment((), not quoted)
                return
            if operator in ("", ":?", "?") or not empty:
                yield from self._parameter(name, index, quoted, written)
                return
            if operator in (":=", "=") and name.isidentifier():
                self.state.variables[name] = tuple(p for s in default for p in s.value)
            yield from default
            return
        if isinstance(value, list) and operator == ":":
            yield from self._slice(value, rest[1:], quoted, written)
            return
        if value is None:
            value = mystery(written, f"{written}: {name} is not set in the manifest")
        if isinstance(value, list):
            value = mystery(written, f"{written} is not understood")
        pattern = "".join(
            text_of(s.value) if reason_of(s.value) is None else "\0"
            for s in self._range(node.children, start, node.end_byte - 1, node, True)
        )
        expands = any(child.type == "regex" and _EXPANDS.search(child.text or b"") for child in node.children)
        text = known(value)
        literal_glob = _QUOTED.search(rest) is not None and _GLOB.search(pattern) is not None
        if text is None or expands or "\0" in pattern or (operator[0] in "#%/" and literal_glob):
            yield _Segment(mystery(written, reason_of(value) or f"{written} is not known"), not quoted)
            return
        self.budget.spend(min(len(text), 512) ** 2 // 32)
        changed = transform.apply(text, operator, pattern)
        if changed is None:
            yield _Segment(mystery(written, f"{written} is not understood"), not quoted)
        else:
            if gives(name):
                self.state.hidden.add(changed)
            yield _Segment(literal(changed), not quoted)

    def _slice(self, value: Array, rest: str, quoted: bool, written: str) -> Iterator[_Segment]:
        offset, _, length = rest.partition(":")
        if not re.fullmatch(r"\s*[0-9]{1,6}\s*", offset) or not re.fullmatch(r"\s*[0-9]{0,6}\s*", length):
            yield _Segment(mystery(written, f"{written} is not understood"), not quoted)
            return
        start = int(offset)
        elements = value if value is not self.state.positional else [self.state.zero, *value]
        chosen = elements[start : start + int(length) if length.strip() else None]
        for position, element in enumerate(chosen):
            if position:
                yield _BREAK
            yield _Segment(element, not quoted)

    def arithmetic(self, node: Node) -> int | None:
        """The value of an arithmetic expression, None if a part of it is unknown."""
        return arithmetic.value(node, self.scalar, self._lookup, self._computed, self.budget.word)

    def _computed(self, name: str, value: int | None) -> None:
        unknown = mystery(f"${name}", f"{name} is computed when the script runs")
        self.state.variables[name] = unknown if value is None else literal(str(value))


def _begins(node: Node) -> bool:
    """Whether the node is at the beginning of its word."""
    parent = node.parent
    return parent is None or parent.type != "concatenation" or parent.start_byte == node.start_byte


def _fields(segments: Iterator[_Segment]) -> list[Value]:
    """The words that the shell splits an expansion into."""
    done: list[Value] = []
    current: list[Piece] = []
    started = False

    def end() -> None:
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
                for part in re.findall(r"[ \t\n]+|[^ \t\n]+", piece.text):
                    if part[0] in " \t\n":
                        end()
                    else:
                        current.append(Piece(part, piece.path, file_names.doubt(part)))
                        started = True
    end()
    return done


def _bounded(value: Value) -> Value:
    """The value, or an unknown one if it is too long."""
    if sum(len(piece.text) for piece in value) <= MAX_VALUE_LENGTH and len(value) < 4096:
        return value
    return mystery(value[0].text[:64], "the text grows too long")


def _is_empty(value: Value | Array | None, *, colon: bool) -> bool | None:
    """Whether `-` (or `:-` with `colon`) would use its default word; None if unknown."""
    if value is None:
        return True
    if isinstance(value, list):
        return not value
    text = known(value)
    if text is None:
        # A word with a known part is not empty, whatever the other parts are.
        return False if any(p.unknown is None and p.text for p in value) else None
    return colon and not text


def _length(value: Value | Array | None, written: str) -> Value:
    if isinstance(value, list):
        return literal(str(len(value)))
    text = known(value) if value is not None else None
    return literal(str(len(text))) if text is not None else mystery(written, f"{written}: its value is not known")
