"""Words that a shell may replace by names of files, which are unknown to podfit."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from podfit.vllm.command.tree import source

if TYPE_CHECKING:
    from tree_sitter import Node

_ESCAPED = re.compile(r"\\.", re.DOTALL)


def doubt(text: str) -> str | None:
    """Why the shell may replace an unquoted text by file names; None if it does not. A pattern behind `-` or `=`
    matches no file in practice. Nor does a JSON list, which has no slash before its bracket."""
    name = text.partition("=")[0]
    if name[:1] == "-" or not ("*" in name or "?" in name or -1 < name.find("/") < name.rfind("[")):
        return None
    return "it may be replaced by the names of files"


def of_word(node: Node) -> str | None:
    """Why the shell may replace a word of the script by file names; None if it does not."""
    parts = [node] if node.type == "word" else node.children
    first = parts[0] if parts else node
    if source(first)[:1] == "-" or "=" in source(first):
        return None
    return next((why for p in parts if p.type == "word" and (why := doubt(_ESCAPED.sub("", source(p))))), None)
