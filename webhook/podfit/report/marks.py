"""One YAML or JSON document as text, edited at the marks of its nodes: RFC 6902 `add`, `replace` and `remove`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml
from yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode, SequenceNode

from podfit.base.lazy import regex
from podfit.kube.manifest import scalar

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_ALIAS = regex(r"[\s:]*(\*[^\s,\]}]+)")
_WIDE = 1 << 30


class Dumper(yaml.SafeDumper):
    """Block style without anchors, in quotes also what is a text to PyYAML but not to kubectl (`y`, `1e3`)."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_scalar(self, tag: str, value: Any, style: str | None = None) -> ScalarNode:
        if tag == "tag:yaml.org,2002:str" and style is None and not scalar.is_text(value):
            style = "'"
        node: ScalarNode = super().represent_scalar(tag, value, style)
        return node


class _Indented(Dumper):
    """A YAML dumper that indents the dashes of a list below its key."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


class Marked:
    """A document's text and where its nodes are in it."""

    def __init__(self, text: str) -> None:
        """Raises ValueError where the text can't be read."""
        self.text = text
        self.json = text.lstrip()[:1] in ("{", "[") and _is_json(text)
        try:
            # A tab between JSON's words is nothing to YAML but as long as a space.
            root = yaml.compose(text.replace("\t", " ") if self.json else text, Loader=_LOADER)
        except yaml.YAMLError as error:
            raise ValueError(str(getattr(error, "problem", None) or error).splitlines()[0]) from error
        if root is None:
            raise ValueError("there is no document")
        self.root: Node = root
        self.newline = "\r\n" if "\r\n" in text else "\n"
        self.step, self.offset = 2, 2
        self._measure()

    def change(self, operation: Mapping[str, Any], target: Any) -> str:
        """The text with the operation made; `target` is the object after it. Raises ValueError where there is no such
        place."""
        path = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        at, done = self.root, target
        for index, part in enumerate(path[:-1]):
            done = done[int(part)] if isinstance(done, list) else done[part]
            key, child, alias = self._child(at, part)
            if child is None or alias is not None:
                # What is elsewhere (an alias, a merge key) is written out here, changed.
                return self._own(at, part, key, alias, done, path[: index + 1])
            at = child
        key, child, alias = self._child(at, path[-1]) if path[-1] != "-" else (None, None, None)
        if operation["op"] == "remove":
            return self._remove(at, path[-1], path)
        value = operation["value"]
        if path[-1] == "-":
            return self._append(at, value)
        if operation["op"] == "add" and isinstance(at, SequenceNode):
            return self._append(at, value, int(path[-1]))
        if child is None:
            return self._add(at, path[-1], value, path)
        if alias is not None:
            return self._splice(*alias, self._inline(value))
        return self._replace(at, key, child, value)

    # ── finding ──

    def _child(self, at: Node, part: str) -> tuple[Node | None, Node | None, tuple[int, int] | None]:
        """(key, value, (start, end) of the alias if the value is one); the key of an item of a list is None."""
        if isinstance(at, MappingNode):
            for key, value in reversed(at.value):
                if isinstance(key, ScalarNode) and key.value == part:
                    return key, value, self._alias(value, key.end_mark.index)
        elif isinstance(at, SequenceNode) and part.isdigit() and int(part) < len(at.value):
            item = at.value[int(part)]
            return None, item, self._alias(item, self._item_start(at, int(part)))
        return None, None, None

    def _alias(self, value: Node, after: int) -> tuple[int, int] | None:
        """(start, end) of the alias at `after` whose target is `value`; None if `value` itself is after `after`."""
        if value.start_mark.index >= after:
            return None
        match = _ALIAS.match(self.text, after)
        if match is None:
            raise ValueError("an alias that can't be found")
        return match.start(1), match.end(1)

    def _item_start(self, at: SequenceNode, index: int) -> int:
        """Somewhere between the item's dash or comma and the item."""
        if index == 0:
            opened = self.text.index("[" if at.flow_style else "-", at.start_mark.index) + 1
            first = at.value[0].start_mark.index
            return min(opened, first) if first > at.start_mark.index else opened
        end = self._end(at.value[index - 1], self._item_start(at, index - 1))
        mark = "," if at.flow_style else "-"
        return self.text.index(mark, end) + 1

    def _end(self, node: Node, after: int) -> int:
        """Right after the last character of what is there, comments and blank lines left out."""
        alias = self._alias(node, after)
        if alias is not None:
            return alias[1]
        if isinstance(node, ScalarNode):
            end = int(node.end_mark.index)
            if node.style not in ("|", ">"):
                return end
            header = self.text[node.start_mark.index :].split("\n", 1)[0]
            kept = self.text[:end] if "+" in header.split("#")[0] else self.text[:end].rstrip()
            return len(kept.removesuffix("\n").removesuffix("\r"))
        if isinstance(node, MappingNode) and not node.flow_style:
            key, value = node.value[-1]
            return self._end(value, key.end_mark.index)
        if isinstance(node, SequenceNode) and not node.flow_style:
            return self._end(node.value[-1], self._item_start(node, len(node.value) - 1))
        return int(node.end_mark.index)

    # ── changing ──

    def _splice(self, start: int, end: int, new: str) -> str:
        return self.text[:start] + new + self.text[end:]

    def _own(
        self, at: Node, part: str, key: Node | None, alias: tuple[int, int] | None, value: Any, path: Sequence[str]
    ) -> str:
        """The value, changed, where an alias or a merge key stood for it."""
        if alias is None:
            return self._add(at, part, value, path)
        if key is None:
            return self._splice(*alias, self._inline(value))
        if self._block(at):
            return self._splice(alias[0] - 1, alias[1], self._below(value, key.start_mark.column))
        return self._splice(*alias, self._inline(value))

    def _add(self, at: Node, part: str, value: Any, path: Sequence[str]) -> str:
        """The text with a new field in the object `at`."""
        if not isinstance(at, MappingNode):
            raise ValueError(f"{'/'.join(path[:-1]) or 'the document'} is not an object")
        if not self._block(at):
            return self._into_flow(at, {part: value})
        column = at.value[0][0].start_mark.column
        return self._after(self._end(at, at.start_mark.index), self._dump({part: value}), column, column)

    def _append(self, at: Node, value: Any, index: int | None = None) -> str:
        """An item at the end of a list, or after the item before `index`."""
        if not isinstance(at, SequenceNode):
            raise ValueError("no list to append to")
        here = index is not None and 0 < index < len(at.value)
        if not self._block(at):
            if here and index is not None:
                end = self._end(at.value[index - 1], self._item_start(at, index - 1))
                return self._splice(end, end, f", {self._flow_text([value])[1:-1]}")
            return self._into_flow(at, [value])
        first = at.value[0]
        dash = self.text.rindex("-", 0, max(self._item_start(at, 0), at.start_mark.index + 1))
        column = dash - self._line(dash)
        gap = first.start_mark.column - column if first.start_mark.line == self._number(dash) else 2
        gap = gap if 2 <= gap <= 8 else 2
        lines = self._dump(value)
        lines = f"-{' ' * (gap - 1)}{lines}"
        if here and index is not None:
            end = self._end(at.value[index - 1], self._item_start(at, index - 1))
        else:
            end = self._end(at, at.start_mark.index)
        return self._after(end, lines, column, column + gap)

    def _after(self, end: int, lines: str, first: int, rest: int) -> str:
        """Lines after the one in which `end` is."""
        at = self._line_end(end)
        head, *tail = lines.splitlines()
        new = [" " * first + head, *(" " * rest + line if line else "" for line in tail)]
        return self._splice(at, at, self.newline + self.newline.join(new))

    def _into_flow(self, at: Node, more: Any) -> str:
        """An entry at the end of `{…}` or `[…]`, on a line of its own where the last one has that."""
        close = at.end_mark.index - 1
        if not at.value:
            opened = self.text.rindex("{" if isinstance(at, MappingNode) else "[", 0, close)
            return self._splice(opened + 1, close, self._flow_text(more)[1:-1])
        last = at.value[-1]
        if isinstance(at, SequenceNode):
            start = last.start_mark.index
            end = self._end(last, self._item_start(at, len(at.value) - 1))
        else:
            start, end = last[0].start_mark.index, self._end(last[1], last[0].end_mark.index)
        before = self.text[self._line(start) : start]
        if before.strip() or self._line(start) <= at.start_mark.index:
            return self._splice(end, end, f", {self._flow_text(more)[1:-1]}")
        unit = before[len(self._lead(close)) :] or "  "
        rendered = json.dumps(more, indent=unit, ensure_ascii=False) if self.json else self._flow_text(more)
        inner = rendered[1:-1].strip("\n").replace("\n", self.newline + self._lead(close))
        return self._splice(end, end, f",{self.newline}{before}{inner.strip()}")

    def _lead(self, index: int) -> str:
        """The indentation of the line in which `index` is."""
        match = re.match(r"[ \t]*", self.text[self._line(index) :])
        return match[0] if match else ""

    def _replace(self, at: Node, key: Node | None, child: Node, value: Any) -> str:
        """The text with another value of a field."""
        start, end = child.start_mark.index, self._end(child, child.start_mark.index)
        if not self.json and isinstance(child, ScalarNode) and isinstance(value, str):
            longer = self._inserted(start, end, child.value, value)
            if longer is not None:
                return longer
        block = self._block_scalar(child, value, self.text[start:end])
        if block is not None:
            return self._splice(start, end, block)
        scalar = isinstance(child, ScalarNode) and not isinstance(value, Mapping | list)
        if not self._block(at) or (scalar and "\n" not in str(value)):
            space = " " if start == end and self.text[start - 1 : start] in (":", "-") else ""
            style = child.style if isinstance(child, ScalarNode) and isinstance(value, str) else None
            return self._splice(start, end, space + self._inline(value, style))
        column = key.start_mark.column if key is not None else at.start_mark.column
        begin = start
        while self.text[begin - 1 : begin] in (" ", "\n", "\r"):
            begin -= 1
        if key is None:
            return self._splice(begin, end, " " + self._inline(value))
        return self._splice(begin, end, self._below(value, column))

    def _inserted(self, start: int, end: int, old: str, new: str) -> str | None:
        """The scalar between the marks with a word more, in the style that it has (a script's lines stay lines); None
        where that is not the difference."""
        at = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), len(old))
        more = new[at : at + len(new) - len(old)]
        word = re.match(r"\S+", old[at:])
        if not more or word is None or old[:at] + more + old[at:] != new:
            return None
        before = self.text[start:end]
        for match in re.finditer(re.escape(word[0]), before):
            longer = before[: match.start()] + more + before[match.start() :]
            node = yaml.compose(longer if before[:1] not in "|>" else f"{longer}\n", Loader=_LOADER)
            if isinstance(node, ScalarNode) and node.value == new:
                return self._splice(start, end, longer)
        return None

    def _block_scalar(self, child: Node, value: Any, text: str) -> str | None:
        """The value as a block scalar, lines kept (`|`), where such a one is there; None where that can't be."""
        if not isinstance(child, ScalarNode) or child.style not in ("|", ">") or not isinstance(value, str):
            return None
        body = value.removesuffix("\n")
        header, *lines = text.splitlines()
        lead = next((re.match(r" *", line) for line in lines if line.strip()), None)
        match = re.fullmatch(r"[|>][-+]?([ \t].*)?", header)
        if lead is None or match is None or not body or body[0] in " \n" or body[-1] in " \n\t" or "\r" in body:
            return None
        chomp = "" if value.endswith("\n") else "-"
        new = [f"{lead[0]}{line}" if line else "" for line in body.split("\n")]
        return self.newline.join([f"|{chomp}{match[1] or ''}", *new])

    def _remove(self, at: Node, part: str, path: Sequence[str]) -> str:
        """The text without a field or item."""
        _, child, _ = self._child(at, part)
        if child is None:
            raise ValueError(f"{'/'.join(path)} is elsewhere (a merge key)")
        entries: list[Any] = at.value
        if len(entries) == 1:
            start, end = at.start_mark.index, self._end(at, at.start_mark.index)
            return self._splice(start, end, "{}" if isinstance(at, MappingNode) else "[]")
        if isinstance(at, MappingNode):
            index = next(i for i, (_, node) in enumerate(entries) if node is child)
            starts = [item.start_mark.index for item, _ in entries]
            end = self._end(child, entries[index][0].end_mark.index)
        elif isinstance(at, SequenceNode):
            index = int(part)
            starts = [self._item_start(at, i) for i in range(len(entries))]
            end = self._end(child, starts[index])
        start = starts[index]
        if not self._block(at):
            if index + 1 < len(starts):
                return self._splice(start, starts[index + 1], "")
            return self._splice(self.text.rindex(",", 0, start), end, "")
        before = self.text[self._line(start) : start]
        if before.strip(" -" if isinstance(at, SequenceNode) else " "):
            return self._splice(start, starts[index + 1], "")
        return self._splice(self._line(start), min(self._line_end(end) + 1, len(self.text)), "")

    # ── writing ──

    def _block(self, node: Node) -> bool:
        return isinstance(node, CollectionNode) and not node.flow_style

    def _inline(self, value: Any, style: str | None = None) -> str:
        """A value on one line, a text in the quotes that the one before it had."""
        if self.json or (isinstance(value, str) and (style == '"' or "\n" in value)):
            return json.dumps(value, ensure_ascii=False)
        if isinstance(value, str) and style == "'":
            return "'" + value.replace("'", "''") + "'"
        return self._flow_text(value)

    def _flow_text(self, value: Any) -> str:
        """A value in YAML's flow style, or as JSON."""
        if self.json:
            return json.dumps(value, ensure_ascii=False)
        out = yaml.dump(value, Dumper=Dumper, default_flow_style=True, sort_keys=False, width=_WIDE, allow_unicode=True)
        return str(out).removesuffix("\n").removesuffix("\n...")

    def _dump(self, value: Any) -> str:
        """The value as YAML in block style, with the indentation of the rest of the document."""
        dumper = _Indented if self.offset else Dumper
        return self._yaml(value, dumper, default_flow_style=False, indent=self.step)

    def _yaml(self, value: Any, dumper: type[Dumper], **style: Any) -> str:
        out = yaml.dump(value, Dumper=dumper, sort_keys=False, width=_WIDE, allow_unicode=True, **style)
        return str(out).removesuffix("\n").removesuffix("\n...")

    def _below(self, value: Any, column: int) -> str:
        """A value after `key:` whose key is in `column`."""
        if not isinstance(value, Mapping | list) or not value:
            return " " + self._inline(value)
        indent = column + (self.offset if isinstance(value, list) else self.step)
        lines = self._dump(value).splitlines()
        return self.newline + self.newline.join(" " * indent + line if line else "" for line in lines)

    # ── lines ──

    def _line(self, index: int) -> int:
        return self.text.rfind("\n", 0, index) + 1

    def _number(self, index: int) -> int:
        return self.text.count("\n", 0, index)

    def _line_end(self, index: int) -> int:
        """Before the line break of the line in which `index` is."""
        at = self.text.find("\n", index)
        at = len(self.text) if at < 0 else at
        return at - 1 if self.text[at - 1 : at] == "\r" else at

    def _measure(self) -> None:
        """How the document indents: objects below a key, and the dashes of a list below its key."""
        steps, offsets, queue, visited = [], [], [self.root], set()
        for node in queue:
            if id(node) in visited or not self._block(node):
                continue
            visited.add(id(node))
            if isinstance(node, SequenceNode):
                queue += node.value
                continue
            for key, value in node.value:
                queue.append(value)
                if not self._block(value) or value.start_mark.index < key.end_mark.index:
                    continue
                # With an anchor the mark is the anchor's, on the key's line.
                if isinstance(value, MappingNode):
                    steps.append(value.value[0][0].start_mark.column - key.start_mark.column)
                elif value.start_mark.line > key.start_mark.line:
                    offsets.append(value.start_mark.column - key.start_mark.column)
        self.step = next((step for step in steps if step > 1), 2)
        self.offset = min(max(set(offsets), key=offsets.count), self.step) if offsets else 2


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
