"""Comments in manifests that accept findings: `# podfit: ignore RULE -- reason`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from podfit.base.lazy import regex
from podfit.base.near import nearest

_COMMENT = regex(r"(?:^|\s)#\s*podfit:\s*ignore\s+(?P<rules>[a-z0-9-]+(?:\s*,\s*[a-z0-9-]+)*)(?P<reason>.*)$")
_SEPARATOR = regex(r"^[\s:—–-]+")
"""The signs between the rules and the reason."""


class Comment(NamedTuple):
    """The comments about one line."""

    rules: frozenset[str]
    """The ids that they silence there."""
    reason: str
    """The reasons of all of them."""


def read_comments(text: str) -> Mapping[int, Comment]:
    """Line (from 1) → the comments that silence rules there. A comment on its own line is about the next line that is
    not a comment. One without a reason silences nothing (`in_vain` reports it)."""
    comments: dict[int, Comment] = {}
    if "podfit:" not in text:
        return comments
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        match = _COMMENT.search(line)
        reason = _SEPARATOR.sub("", match["reason"]).strip() if match else ""
        if match is None or not reason:
            continue
        rules = frozenset(re.split(r"\s*,\s*", match["rules"]))
        target = _next_content(lines, number) if _is_comment(line) else number
        earlier = comments.get(target)
        comments[target] = (
            Comment(rules | earlier.rules, f"{earlier.reason}; {reason}") if earlier else Comment(rules, reason)
        )
    return comments


def _next_content(lines: Sequence[str], number: int) -> int:
    """The number of the first line after that one which is neither blank nor a comment; `number` if there is none."""
    for later, line in enumerate(lines[number:], number + 1):
        if line.strip() and not _is_comment(line):
            return later
    return number


def _is_comment(line: str) -> bool:
    """True if the line has only a comment."""
    return line.lstrip().startswith("#")


def in_vain(file: str, text: str, rule_ids: Collection[str]) -> Iterator[str]:
    """A note for each comment that silences nothing: it has no reason, or names a rule that is not in `rule_ids`."""
    if "podfit:" not in text:
        return
    for number, line in enumerate(text.split("\n"), 1):
        match = _COMMENT.search(line)
        if match is None:
            continue
        rules = match["rules"]
        for rule in re.split(r"\s*,\s*", rules):
            if rule not in rule_ids:
                near = next(iter(nearest(rule, rule_ids)), None)
                means = f"did you mean {near}?" if near else "`podfit explain` lists them"
                yield f"{file}:{number}: `podfit: ignore {rule}` silences nothing: there is no such rule; {means}"
        if not _SEPARATOR.sub("", match["reason"]).strip():
            yield f"{file}:{number}: `podfit: ignore {rules}` silences nothing without a reason: add ` -- why`"
