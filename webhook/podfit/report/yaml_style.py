"""Values as YAML or JSON text in the style of one document: its indentation, line breaks and quotes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import yaml
from yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode, SequenceNode

from podfit.kube.manifest import scalar

DEFAULT_INDENT = 2
"""Columns of indentation in a document that shows none: as in the examples of Kubernetes' documentation."""
_NO_FOLDING = 1 << 30
"""The width of a line for PyYAML, in characters: longer than any text, so that it never folds a line."""


class Dumper(yaml.SafeDumper):
    """Block style without anchors. A text is in quotes if PyYAML or kubectl would read it as another type (`y`,
    `1e3`)."""

    def ignore_aliases(self, data: Any) -> bool:
        """True: PyYAML writes equal objects out again instead of an anchor and an alias."""
        return True

    def represent_scalar(self, tag: str, value: Any, style: str | None = None) -> ScalarNode:
        """The scalar as PyYAML makes it, with single quotes around a text that kubectl would not read as one."""
        if tag == "tag:yaml.org,2002:str" and style is None and not scalar.is_text(value):
            style = "'"
        node: ScalarNode = super().represent_scalar(tag, value, style)
        return node


class _Indented(Dumper):
    """A YAML dumper that indents the dashes of a list below its key."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Indent always: PyYAML asks for `indentless` at each list below a key."""
        super().increase_indent(flow, False)


@dataclass(frozen=True, kw_only=True)
class Style:
    """How one document is written."""

    is_json: bool
    newline: str
    """The line break: "\\n" or "\\r\\n"."""
    field_indent: int
    """Columns from a key to the keys of the object below it."""
    dash_indent: int
    """Columns from a key to the dashes of the list below it; 0 if they are in the same column."""

    def inline(self, value: Any, quote: str | None = None) -> str:
        """The value on one line. `quote`: the quotation mark of the text that it replaces, if that had one."""
        if self.is_json or (isinstance(value, str) and (quote == '"' or "\n" in value)):
            return json.dumps(value, ensure_ascii=False)  # a JSON string is a YAML text in double quotes
        if isinstance(value, str) and quote == "'":
            return "'" + value.replace("'", "''") + "'"
        return self.flow(value)

    def flow(self, value: Any) -> str:
        """The value on one line in YAML's flow style (`{a: [1, 2]}`), or as JSON in a JSON document."""
        if self.is_json:
            return json.dumps(value, ensure_ascii=False)
        return _dumped(value, Dumper, default_flow_style=True)

    def block(self, value: Any) -> str:
        """The value as YAML in block style from column 0 on, indented as the document is; no line break at the end."""
        dumper = _Indented if self.dash_indent else Dumper
        return _dumped(value, dumper, default_flow_style=False, indent=self.field_indent)

    def after_key(self, value: Any, column: int) -> str:
        """The text after `key:`, with the space or line break that it begins with. `column`: that of the key, from 0.

        A scalar and an empty object or list follow on the key's line, all others are below it in block style."""
        if not isinstance(value, Mapping | list) or not value:
            return " " + self.inline(value)
        indent = column + (self.dash_indent if isinstance(value, list) else self.field_indent)
        lines = [" " * indent + line if line else "" for line in self.block(value).splitlines()]
        return self.newline + self.newline.join(lines)


def _dumped(value: Any, dumper: type[Dumper], **options: Any) -> str:
    """PyYAML's text without its last line break, and without the `...` after a scalar. `options`: of `yaml.dump`."""
    text = yaml.dump(value, Dumper=dumper, sort_keys=False, width=_NO_FOLDING, allow_unicode=True, **options)
    return str(text).removesuffix("\n").removesuffix("\n...")


class _Indents(NamedTuple):
    """Indentations in columns, breadth first."""

    fields: list[int]
    """From a key to the keys of the object below it."""
    dashes: list[int]
    """From a key to the dashes of the list below it."""


def measured_style(root: Node, newline: str, *, is_json: bool) -> Style:
    """The style of a document. It has the first indentation of an object below a key, and the most frequent one of the
    dashes of a list, which is at most as wide. `root`: the document's node with marks."""
    indents = _indents(root)
    field_indent = next((indent for indent in indents.fields if indent > 1), DEFAULT_INDENT)
    dash_indent = DEFAULT_INDENT
    if indents.dashes:
        most_frequent = max(set(indents.dashes), key=indents.dashes.count)
        dash_indent = min(most_frequent, field_indent)
    return Style(is_json=is_json, newline=newline, field_indent=field_indent, dash_indent=dash_indent)


def _indents(root: Node) -> _Indents:
    """The indentation of each object and list in block style below a key."""
    indents = _Indents([], [])
    queue, visited = [root], set()
    for node in queue:  # grows meanwhile
        if id(node) in visited or not is_block(node):
            continue
        visited.add(id(node))
        if isinstance(node, SequenceNode):
            queue += node.value
            continue
        for key, value in node.value:
            queue.append(value)
            is_alias = value.start_mark.index < key.end_mark.index  # its node is the one of the anchor
            if not is_block(value) or is_alias:
                continue
            if isinstance(value, MappingNode):
                first_key, _ = value.value[0]
                indents.fields.append(first_key.start_mark.column - key.start_mark.column)
            elif value.start_mark.line > key.start_mark.line:  # else the mark is that of an anchor after the key
                indents.dashes.append(value.start_mark.column - key.start_mark.column)
    return indents


def is_block(node: Node) -> bool:
    """True for an object or a list in block style; False for `{…}`, `[…]` and scalars."""
    return isinstance(node, CollectionNode) and not node.flow_style
