"""One YAML or JSON document as text, edited at the marks of its nodes: RFC 6902 `add`, `replace` and `remove`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from podfit.base.lazy import regex
from podfit.report.yaml_style import DEFAULT_INDENT, is_block, measured_style

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_ALIAS = regex(r"[\s:]*(\*[^\s,\]}]+)")
"""An alias (`*name`) after its key or dash."""
_MAX_DASH_WIDTH = 8
"""Columns from a dash to its item that a new item copies. A choice: a wider gap aligns one item, it is not a style."""


class Span(NamedTuple):
    """A part of the text."""

    start: int
    """Index of its first character."""
    end: int
    """Index after its last character."""


class _Child(NamedTuple):
    """A value in an object or in a list."""

    key: Node | None
    """The node of its key; None for an item of a list."""
    value: Node
    alias: Span | None
    """The alias that stands for the value here; None if the value itself is written here."""


class Marked:
    """A document's text and where its nodes are in it. An *index* is one of a character of the text."""

    def __init__(self, text: str) -> None:
        """Raises ValueError if the text is not YAML, or has no document."""
        self.text = text
        self.json = text.lstrip()[:1] in ("{", "[") and _is_json(text)
        try:
            # YAML forbids a tab between JSON's tokens. A space there is as long, so the marks stay right.
            root = yaml.compose(text.replace("\t", " ") if self.json else text, Loader=_LOADER)
        except yaml.YAMLError as error:
            raise ValueError(str(getattr(error, "problem", None) or error).splitlines()[0]) from error
        if root is None:
            raise ValueError("there is no document")
        self.root: Node = root
        newline = "\r\n" if "\r\n" in text else "\n"
        self.style = measured_style(root, newline, is_json=self.json)

    def change(self, operation: Mapping[str, Any], target: Any) -> str:
        """The text after one operation of a JSON Patch. `target`: the whole object after the operation.

        Where an alias or a merge key stands for a value on the way, a changed copy of the value is written in its
        place. Raises ValueError if the text has no such place."""
        path = tokens(operation["path"])
        *containers, last = path
        parent, changed = self.root, target
        for depth, name in enumerate(containers, 1):
            changed = changed[int(name)] if isinstance(changed, list) else changed[name]
            child = self._child(parent, name)
            if child is None:  # a merge key brings the field
                return self._add(parent, name, changed, path[:depth])
            if child.alias is not None:
                return self._replace_alias(parent, child.key, child.alias, changed)
            parent = child.value
        child = None if last == "-" else self._child(parent, last)
        if operation["op"] == "remove":
            return self._remove(parent, last, path)
        value = operation["value"]
        if last == "-":
            return self._append(parent, value)
        if operation["op"] == "add" and isinstance(parent, SequenceNode):
            return self._append(parent, value, int(last))
        if child is None:
            return self._add(parent, last, value, path)
        if child.alias is not None:
            return self._splice(*child.alias, self.style.inline(value))
        return self._replace(parent, child, value)

    # ── finding ──

    def _child(self, parent: Node, name: str) -> _Child | None:
        """The field `name` of an object (the last one of that name), or the item of a list at that index. None if the
        text has none there, also if a merge key brings it."""
        if isinstance(parent, MappingNode):
            for key, value in reversed(parent.value):
                if isinstance(key, ScalarNode) and key.value == name:
                    return _Child(key, value, self._alias(value, key.end_mark.index))
        elif isinstance(parent, SequenceNode) and name.isdigit() and int(name) < len(parent.value):
            item = parent.value[int(name)]
            return _Child(None, item, self._alias(item, self._item_start(parent, int(name))))
        return None

    def _alias(self, value: Node, after: int) -> Span | None:
        """The alias behind the index `after` if it stands for `value`; None if `value` itself is written there.

        PyYAML gives an alias the node of its anchor, whose mark is thus before `after`."""
        if value.start_mark.index >= after:
            return None
        match = _ALIAS.match(self.text, after)
        if match is None:
            raise ValueError("an alias that can't be found")
        return Span(*match.span(1))

    def _item_start(self, sequence: SequenceNode, index: int) -> int:
        """Index after the dash, bracket or comma before an item: the spaces before the item may follow."""
        if index == 0:
            opened = self.text.index("[" if sequence.flow_style else "-", sequence.start_mark.index) + 1
            first = sequence.value[0].start_mark.index
            # The mark of an aliased item is the anchor's, before the list: it is not a limit.
            return min(opened, first) if first > sequence.start_mark.index else opened
        return self.text.index("," if sequence.flow_style else "-", self._item_end(sequence, index - 1)) + 1

    def _item_end(self, sequence: SequenceNode, index: int) -> int:
        """Index after the last character of an item."""
        return self._end(sequence.value[index], self._item_start(sequence, index))

    def _end(self, node: Node, after: int) -> int:
        """Index after the last character of a value, without the comments and blank lines that follow.

        `after`: an index between its key or dash and the value; if an alias is there, its end is the result."""
        alias = self._alias(node, after)
        if alias is not None:
            return alias.end
        if isinstance(node, ScalarNode):
            end = int(node.end_mark.index)
            if node.style not in ("|", ">"):
                return end
            header = self.text[node.start_mark.index :].split("\n", 1)[0]
            keeps_blank_lines = "+" in header.split("#")[0]
            content = self.text[:end] if keeps_blank_lines else self.text[:end].rstrip()
            return len(content.removesuffix("\n").removesuffix("\r"))
        if not is_block(node):
            return int(node.end_mark.index)
        # PyYAML's end mark of a block collection is at the next token: its last value has the end.
        if isinstance(node, SequenceNode):
            return self._item_end(node, len(node.value) - 1)
        key, value = node.value[-1]
        return self._end(value, key.end_mark.index)

    # ── changing ──

    def _splice(self, start: int, end: int, new: str) -> str:
        """The text with `new` in place of the characters from index `start` to before `end`."""
        return self.text[:start] + new + self.text[end:]

    def _replace_alias(self, parent: Node, key: Node | None, alias: Span, value: Any) -> str:
        """The text with a value in place of an alias. `key`: None if the alias is an item of a list."""
        if key is not None and is_block(parent):
            before_space = alias.start - 1  # `after_key` writes the separator itself
            return self._splice(before_space, alias.end, self.style.after_key(value, key.start_mark.column))
        return self._splice(*alias, self.style.inline(value))

    def _add(self, parent: Node, name: str, value: Any, path: Sequence[str]) -> str:
        """The text with a new last field in an object. `path`: of the field, for an error message."""
        if not isinstance(parent, MappingNode):
            raise ValueError(f"{'/'.join(path[:-1]) or 'the document'} is not an object")
        if not is_block(parent):
            return self._add_to_flow(parent, {name: value})
        first_key, _ = parent.value[0]
        column = first_key.start_mark.column
        field = self.style.block({name: value})
        return self._add_lines(self._end(parent, parent.start_mark.index), field, column, column)

    def _append(self, parent: Node, value: Any, index: int | None = None) -> str:
        """The text with a new item in a list, so that it gets the `index`; None: at the end.

        At index 0 it is added at the end too: `rewrite` sees that the result is another one, and rejects it."""
        if not isinstance(parent, SequenceNode):
            raise ValueError("no list to append to")
        count = len(parent.value)
        items_before = index if index is not None and 0 < index < count else count
        if not is_block(parent):
            if items_before == count:
                return self._add_to_flow(parent, [value])
            end = self._item_end(parent, items_before - 1)
            return self._splice(end, end, f", {self.style.flow([value])[1:-1]}")
        first = parent.value[0]
        dash = self.text.rindex("-", 0, max(self._item_start(parent, 0), parent.start_mark.index + 1))
        column = dash - self._line_start(dash)
        is_on_dash_line = first.start_mark.line == self._line_number(dash)
        width = first.start_mark.column - column if is_on_dash_line else DEFAULT_INDENT
        width = width if 2 <= width <= _MAX_DASH_WIDTH else DEFAULT_INDENT  # at least a dash and a space
        item = f"-{' ' * (width - 1)}{self.style.block(value)}"
        return self._add_lines(self._item_end(parent, items_before - 1), item, column, column + width)

    def _add_lines(self, end: int, lines: str, first_column: int, other_columns: int) -> str:
        """The text with `lines` below the line in which the index `end` is: the first one indented by `first_column`,
        all others by `other_columns`."""
        line_end = self._line_end(end)
        first, *others = lines.splitlines()
        new = [" " * first_column + first, *(" " * other_columns + line if line else "" for line in others)]
        newline = self.style.newline
        return self._splice(line_end, line_end, newline + newline.join(new))

    def _add_to_flow(self, parent: Node, entry: Any) -> str:
        """The text with a new last entry in `{…}` or `[…]`, on a line of its own if the entry before it has one.

        `entry`: an object with the one new field, or a list with the one new item."""
        closing = parent.end_mark.index - 1
        if not parent.value:
            opening = self.text.rindex("{" if isinstance(parent, MappingNode) else "[", 0, closing)
            return self._splice(opening + 1, closing, self.style.flow(entry)[1:-1])
        if isinstance(parent, SequenceNode):
            start = parent.value[-1].start_mark.index
            end = self._item_end(parent, len(parent.value) - 1)
        else:
            key, value = parent.value[-1]
            start, end = key.start_mark.index, self._end(value, key.end_mark.index)
        indent = self.text[self._line_start(start) : start]
        has_own_line = not indent.strip() and self._line_start(start) > parent.start_mark.index
        if not has_own_line:
            return self._splice(end, end, f", {self.style.flow(entry)[1:-1]}")
        closing_indent = self._indentation(closing)
        step = indent[len(closing_indent) :] or " " * DEFAULT_INDENT
        rendered = json.dumps(entry, indent=step, ensure_ascii=False) if self.json else self.style.flow(entry)
        newline = self.style.newline
        inner = rendered[1:-1].strip("\n").replace("\n", newline + closing_indent)
        return self._splice(end, end, f",{newline}{indent}{inner.strip()}")

    def _replace(self, parent: Node, child: _Child, value: Any) -> str:
        """The text with another value of a field or an item that is written here (no alias).

        The new value keeps as much of the old one's style as it can. In this order: the old text with a part inserted,
        a block scalar, one line, lines below the key."""
        node = child.value
        start, end = node.start_mark.index, self._end(node, node.start_mark.index)
        if not self.json and isinstance(node, ScalarNode) and isinstance(value, str):
            longer = self._with_insertion(start, end, node.value, value)
            if longer is not None:
                return longer
        block = self._block_scalar(node, value, self.text[start:end])
        if block is not None:
            return self._splice(start, end, block)
        scalars = isinstance(node, ScalarNode) and not isinstance(value, Mapping | list)
        if not is_block(parent) or (scalars and "\n" not in str(value)):
            was_empty = start == end and self.text[start - 1 : start] in (":", "-")
            quote = node.style if isinstance(node, ScalarNode) and isinstance(value, str) else None
            return self._splice(start, end, (" " if was_empty else "") + self.style.inline(value, quote))
        begin = start
        while self.text[begin - 1 : begin] in (" ", "\n", "\r"):
            begin -= 1
        if child.key is None:
            return self._splice(begin, end, " " + self.style.inline(value))
        return self._splice(begin, end, self.style.after_key(value, child.key.start_mark.column))

    def _with_insertion(self, start: int, end: int, old: str, new: str) -> str | None:
        """The text with the scalar between the two indices changed from `old` to `new`, in the style that it has (a
        script's lines stay lines). None if `new` is not `old` with one part inserted before a word of it."""
        pairs = zip(old, new, strict=False)
        at = next((index for index, (before, after) in enumerate(pairs) if before != after), len(old))
        inserted = new[at : at + len(new) - len(old)]
        word = re.match(r"\S+", old[at:])
        if not inserted or word is None or old[:at] + inserted + old[at:] != new:
            return None
        written = self.text[start:end]
        # The word may be there several times: the place is right if YAML then reads `new`.
        for match in re.finditer(re.escape(word[0]), written):
            longer = written[: match.start()] + inserted + written[match.start() :]
            node = yaml.compose(longer if written[:1] not in "|>" else f"{longer}\n", Loader=_LOADER)
            if isinstance(node, ScalarNode) and node.value == new:
                return self._splice(start, end, longer)
        return None

    def _block_scalar(self, node: Node, value: Any, written: str) -> str | None:
        """The value as a block scalar whose lines are kept (`|`), in place of `written`, the text of `node`.

        None if `node` is not a block scalar, or if the value can't be one. It can't if it is not a text, or empty, if
        it has a carriage return, or if YAML would cut the spaces and line breaks at its ends."""
        if not isinstance(node, ScalarNode) or node.style not in ("|", ">") or not isinstance(value, str):
            return None
        body = value.removesuffix("\n")
        if not body or body[0] in " \n" or body[-1] in " \n\t" or "\r" in body:
            return None
        header, *lines = written.splitlines()
        header_match = re.fullmatch(r"[|>][-+]?([ \t].*)?", header)
        first_line = next((line for line in lines if line.strip()), None)
        if header_match is None or first_line is None:
            return None
        indent = " " * (len(first_line) - len(first_line.lstrip(" ")))
        chomp = "" if value.endswith("\n") else "-"
        new = [f"{indent}{line}" if line else "" for line in body.split("\n")]
        return self.style.newline.join([f"|{chomp}{header_match[1] or ''}", *new])

    def _remove(self, parent: Node, name: str, path: Sequence[str]) -> str:
        """The text without a field or an item. `path`: its path, for the error if the text does not have it here."""
        child = self._child(parent, name)
        if child is None:
            raise ValueError(f"{'/'.join(path)} is elsewhere (a merge key)")
        entries: list[Any] = parent.value
        if len(entries) == 1:
            start, end = parent.start_mark.index, self._end(parent, parent.start_mark.index)
            return self._splice(start, end, "{}" if isinstance(parent, MappingNode) else "[]")
        if isinstance(parent, MappingNode):
            index = next(i for i, (_, value) in enumerate(entries) if value is child.value)
            starts = [key.start_mark.index for key, _ in entries]
            end = self._end(child.value, entries[index][0].end_mark.index)
        elif isinstance(parent, SequenceNode):
            index = int(name)
            starts = [self._item_start(parent, i) for i in range(len(entries))]
            end = self._end(child.value, starts[index])
        start = starts[index]
        if not is_block(parent):
            if index + 1 < len(starts):
                return self._splice(start, starts[index + 1], "")
            return self._splice(self.text.rindex(",", 0, start), end, "")
        before = self.text[self._line_start(start) : start]
        if before.strip(" -" if isinstance(parent, SequenceNode) else " "):
            # The first field of an object in a list, on the line of its dash: the next field takes its place.
            return self._splice(start, starts[index + 1], "")
        return self._splice(self._line_start(start), min(self._line_end(end) + 1, len(self.text)), "")

    # ── lines ──

    def _line_start(self, index: int) -> int:
        """Index of the first character of the line in which `index` is."""
        return self.text.rfind("\n", 0, index) + 1

    def _line_number(self, index: int) -> int:
        """The number of the line in which `index` is, from 0 as in PyYAML's marks."""
        return self.text.count("\n", 0, index)

    def _line_end(self, index: int) -> int:
        """Index of the line break of the line in which `index` is, or of the text's end."""
        end = self.text.find("\n", index)
        end = len(self.text) if end < 0 else end
        return end - 1 if self.text[end - 1 : end] == "\r" else end

    def _indentation(self, index: int) -> str:
        """The spaces and tabs that begin the line in which `index` is."""
        line = self.text[self._line_start(index) :]
        return line[: len(line) - len(line.lstrip(" \t"))]


def tokens(pointer: str) -> list[str]:
    """The parts of a JSON Pointer, unescaped: "/a/b~1c" → ["a", "b/c"]; the empty pointer has none."""
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
