"""A script's text → its syntax tree, with limited work. The grammar is tree-sitter-bash's."""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, NamedTuple

from podfit.base.lazy import regex
from podfit.vllm.command.word import Value, mystery

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Parser

WORK = 50_000
"""Work that one script may cost, in units of some 3 microseconds: a command costs 10, each of its words 2. The
costliest of 188 start scripts in the field costs 1,170."""
ALL_WORK = WORK
"""The limit of work for all scripts of one object, which may have hundreds of containers. A review of 3 MiB of scripts
takes less than 20 times as long as parsing its JSON (`benchmarks/hostile.py`)."""
MAX_SCRIPT_LENGTH = 1 << 14
"""Characters of a script. Longer ones are not read, because each character costs an admission request time."""
NESTING = 50
"""Depth of nested statements that are followed, including those of functions, shells and files that they run. The most
in the field is 11. Each takes up to 9 frames of Python's 1,000 (`benchmarks/fuzz_scripts.py` measures them)."""
WORD_NESTING = 24
"""Depth of nested parts of a word, an arithmetic expression or a condition that are read; deeper ones are unknown."""
_SHORT = 512
"""Bytes that are parsed without a trial: at worst they take 3 ms. After errors the parser reads on to the end of the
text from each word, so the worst case grows with the square of the length. A text of 16 KiB takes two seconds."""
_STEP = 30
"""Cost of a hundred steps of the parser, plus one per 256 bytes of the text so far. After errors it is one per 2
bytes, because every error goes through them."""
_READ = 8, 512
"""Cost of reading from a position to the end, and the number of bytes that cost one more."""

_OPENINGS, _OPENED = regex(rb"(?:[!~+(\[{-]\s*+)++"), 1000
"""Consecutive signs that may each open something, and how many are read: the parser recurses once for each of them
(`podfit.server.memory.STACK`)."""
_BLANKS = regex(
    rb"(?<=[\s=])<[A-Za-z][\w -]*>(?=\s|$)|\{\{[^{}\n]*\}\}|(?<=\s)=[=~](?=[\s;]|$)|(?<!\\)\\[ \t](?=[ \t]*[#\n])"
)
"""`<MODEL>` and `{{ .Values.model }}`. `==` and `=~` too: the grammar reads them as operators of a command. And a
backslash with a blank: after it the grammar sees a comment, or no end of the line."""
_TEXTS = frozenset({
    "string", "string_content", "raw_string", "ansi_c_string", "heredoc_body", "heredoc_content", "comment", "regex",
})  # fmt: skip
"""Nodes in which a backslash has another meaning."""


class GiveUp(Exception):  # noqa: N818
    """The script is too complex to be read to its end; the text is the reason, for people."""


TOO_LONG = f"it is longer than the {MAX_SCRIPT_LENGTH:,} characters that are read"
TOO_DEEP = f"its statements are nested more than {NESTING} deep"
TOO_MUCH = "it takes too many steps to follow"
NUL = "it has a NUL character"


class Depth:
    """Depth in the nested parts of a word; in a `with` block, one level deeper."""

    def __init__(self) -> None:
        self._level = 0

    @property
    def full(self) -> bool:
        """True if the deepest level that is read is reached."""
        return self._level >= WORD_NESTING

    def __enter__(self) -> None:
        self._level += 1

    def __exit__(self, *_: object) -> None:
        self._level -= 1


class WorkLimit:
    """The work that one script may cost, with all shells that it starts, or that all scripts of an object may cost. In
    a `with` block, a statement is followed one level deeper."""

    def __init__(self, limit: int = WORK, work_limit: WorkLimit | None = None) -> None:
        self.limit = limit
        """In the units of `WORK`, as `spent`."""
        self.spent = 0
        self.object_limit = work_limit
        """The limit of the whole object, of which this one is a part."""
        self.level = 0
        """Depth of the nested statements that are being followed."""
        self.word = Depth()
        """Depth in the word of the innermost statement."""

    def take(self, work: int) -> bool:
        """Take work from the limit; whether there was enough."""
        self.spent += work
        return (self.object_limit is None or self.object_limit.take(work)) and self.spent <= self.limit

    def spend(self, work: int) -> None:
        """Take work from the limit; raises GiveUp if there was not enough."""
        if not self.take(work):
            raise GiveUp(TOO_MUCH)

    def __enter__(self) -> None:
        """Go a level deeper; raises GiveUp beyond the deepest level that is followed."""
        if self.level >= NESTING:
            raise GiveUp(TOO_DEEP)
        self.level += 1

    def __exit__(self, *_: object) -> None:
        self.level -= 1


@functools.cache
def _grammar() -> Language:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Language(tree_sitter_bash.language())


def _parser() -> Parser:
    """A new parser: it has state, and the server's threads parse at the same time."""
    import tree_sitter

    return tree_sitter.Parser(_grammar())


_HELD: list[bytearray] = []
"""Buffers that the parsers of trials read, one per trial that ran at the same time. They are reused because tree-sitter
0.26 never releases an object that a function has passed to it."""


def _tree(text: bytes, budget: WorkLimit) -> Node:
    """The tree of a text; the parser's work counts as the script's."""
    if len(text) > _SHORT:
        budget.spend(_trial(text, budget))
    else:
        budget.spend(len(text) ** 2 // 256)
    return _parser().parse(text).root_node


def _trial(text: bytes, budget: WorkLimit) -> int:
    """Cost of parsing a text, taken from the budget; raises GiveUp if that is more than the budget has left.
    The parser can be stopped only while it requests its text from a function. The tree of such a parse is not usable:
    its nodes would request their texts in the same way, and the process would end if the function raises."""
    before = budget.spent
    held = _HELD.pop() if _HELD else bytearray()
    each, per = _READ

    def read(offset: int, _: object) -> bytes | bytearray:
        if not budget.take(each + (len(text) - offset) // per):
            return b""
        held[:] = text[offset:]
        return held

    def stop(offset: int, error: bool) -> bool:
        return not budget.take(_STEP + offset // (2 if error else 256))

    try:
        _parser().parse(read, progress_callback=stop)
    except ValueError:  # `stop` has stopped the parser
        raise GiveUp(TOO_MUCH) from None
    finally:
        _HELD.append(held)
    return budget.spent - before


_ASIDE = regex(rb"(?<=\s)`#[^`\n'\"]{0,200}`(?=\s)")
"""A comment between two lines of one command, which the grammar does not see the end of."""


def parse(script: str, budget: WorkLimit) -> tuple[Node, dict[str, Value]]:
    """The tree of a script. Placeholders that another program fills in before a shell reads it are replaced. Each
    placeholder becomes a variable of its own in the tree; these are returned with why their values are unknown."""
    if len(script) > MAX_SCRIPT_LENGTH:
        raise GiveUp(TOO_LONG)
    if "\0" in script:  # no process can receive it
        raise GiveUp(NUL)
    text = raw = _ASIDE.sub(lambda comment: b" " * len(comment[0]), script.encode(errors="replace"))
    if any(len(b"".join(signs[0].split())) > _OPENED for signs in _OPENINGS.finditer(raw)):
        raise GiveUp(TOO_DEEP)
    root = _tree(raw, budget)
    blanks: dict[str, Value] = {}
    # From the last one on, so that the positions of the others stay valid.
    for match in reversed(list(itertools.islice(_BLANKS.finditer(raw), _MOST_BLANKS))):
        replacement = _replacement(match[0], root.descendant_for_byte_range(match.start(), match.start() + 1))
        if replacement is None:
            name = f"_template_{match.start()}"
            written = match[0].decode(errors="replace")
            blanks[name] = mystery(written, f"{written} is filled in by a template")
            replacement = b"${%s}" % name.encode()
        text = text[: match.start()] + replacement + text[match.end() :]
    return (root if text == raw else _tree(text, budget)), blanks


def _replacement(blank: bytes, node: Node | None) -> bytes | None:
    """The text that replaces one of the `_BLANKS`, for the grammar; None for a template action with a value. `node`:
    the part of the tree at its first byte."""
    kind = node.type if node is not None else ""
    if blank.startswith(b"\\"):
        return blank if kind in _TEXTS else b"'%s'" % blank[1:]
    if blank.startswith(b"="):
        parent = node.parent if node is not None else None
        in_command = kind in ("==", "=~") and parent is not None and parent.type in ("command", "ERROR")
        return b"'%s'" % blank if in_command else blank
    if blank.startswith(b"<"):
        return b"'%s'" % blank if kind == "<" else blank  # a placeholder, and not two redirections
    if kind in ("raw_string", "heredoc_body", "heredoc_content", "comment"):
        return blank
    return b"" if _CONTROLS.match(blank) else None


_CONTROLS = regex(rb"\{\{-?\s*(if|else|end|with|range|define|/\*)\b")
"""A template action that has no value."""
_MOST_BLANKS = 1000
"""Blanks of one script that are replaced. A choice: each costs a copy of the text."""
_MARKS = regex(r"[\\'\"()}#]|\$[({]")
"""Signs that open or close something, or that hide such a sign."""


def unclosed(script: str) -> str | None:
    """The line on which an unclosed quote begins; None if there is none, or if that is uncertain."""
    if len(script) > MAX_SCRIPT_LENGTH or any(mark in script for mark in ("<<", "`", "$'")):
        return None
    opened: list[_Opened] = []
    at = 0
    while (match := _MARKS.search(script, at)) is not None:
        at, mark, closing = match.start(), match[0], opened[-1].closing if opened else ""
        if closing == "'":
            at = script.find("'", at)
            if at < 0:
                break
            opened.pop()
        elif mark == "\\":
            at += 1  # and the character that it escapes
        elif mark == closing:
            opened.pop()
        elif mark == '"' or (mark == "'" and closing != '"'):
            opened.append(_Opened(mark, at))
        elif mark in ("$(", "${"):
            opened.append(_Opened(")" if mark == "$(" else "}", at))
            at += 1
        elif mark == "(" and closing == ")":
            opened.append(_Opened(")", at))
        elif mark == "#" and closing in ("", ")") and (at == 0 or script[at - 1] in " \t\n;&|("):
            at = script.find("\n", at)  # a comment
            if at < 0:
                break
        at += 1
    quotes = [mark.position for mark in opened if mark.closing in "'\""]
    if not quotes:
        return None
    return script[script.rfind("\n", 0, quotes[0]) + 1 :].partition("\n")[0].strip()


class _Opened(NamedTuple):
    """A quote or a bracket that is open: the sign that closes it, and where it begins."""

    closing: str
    position: int


def source(node: Node) -> str:
    """The text of a node in the script."""
    return (node.text or b"").decode(errors="replace")


def last_command(root: Node) -> Node | None:
    """The simple command that a script ends with, also after `&&`; None for another end (`&`, a pipe, `fi`)."""
    node: Node | None = root
    while node is not None and node.type in ("program", "list", "redirected_statement"):
        if node.type == "redirected_statement":
            node = node.child_by_field_name("body")
            continue
        children = [child for child in node.children if child.type != "comment" and source(child).strip(" ;\n")]
        node = children[-1] if children else None
    return node if node is not None and node.type == "command" else None


def is_at_end(command: Node) -> bool:
    """True if only the end of the line follows, not even a redirection: `bash -c` starts such a command without
    forking (bash 5.2, measured; builtins/evalstring.c should_suppress_fork)."""
    root = command
    while root.parent is not None:
        root = root.parent
    return (root.text or b"")[command.end_byte - root.start_byte :].strip(b" ;") in (b"", b"\n")


def words_cut_off(command: Node) -> list[str]:
    """The words on the lines after a command that look like its next arguments. A comment between two lines of a
    command, or a blank after a backslash, ends the command. A shell reads the next line as a command of its own."""
    statement = command  # the whole statement that the command is in
    while statement.parent is not None and statement.parent.type in ("redirected_statement", "list", "pipeline"):
        statement = statement.parent
    words: list[str] = []
    following = statement.next_named_sibling
    while following is not None:
        if following.type == "command" and source(following).startswith("-"):  # no program has such a name
            words += [source(child) for child in following.children]
        elif following.type != "comment":
            break
        following = following.next_named_sibling
    return words


_LITERAL = frozenset({"word", "number", "string", "string_content", "raw_string", "concatenation"})


def is_literal(node: Node) -> bool:
    """True if nothing in the word is expanded."""
    return node.type in _LITERAL and all(is_literal(child) for child in node.children if child.is_named)


def only_command(root: Node) -> bool:
    """True if the script is one simple command, which shells start without forking."""
    statements = [node for node in root.children if node.type != "comment" and source(node).strip() not in ("", ";")]
    if len(statements) != 1:
        return False
    only = statements[0]
    body = only.child_by_field_name("body") if only.type == "redirected_statement" else only
    return body is not None and body.type == "command"
