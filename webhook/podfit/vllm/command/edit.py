"""Words of a command → the edits that replace them: in a list, or inside the script of `sh -c`.

An edit is returned only if it is safe: the words appear in the object literally (nothing in them is expanded), and next
to each other. Otherwise there is no edit, and the finding describes the change in words.
"""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Sequence
from typing import Any

from podfit.base.lazy import regex
from podfit.kube.patch import Edit, apply, json_patch
from podfit.kube.path import FieldPath
from podfit.vllm.command.word import Command, Word

_LONGEST = 512
"""Most items of a list that is edited; lists written by people are shorter."""
_BLANK = re.compile(rb"(?:[ \t]|\\\n)+")
_GAP = re.compile(rb"(?:[ \t]|\\\n)+\Z")
_PLAIN = regex(r"[^'\"$`\\\n]*")


def substitute(obj: Any, command: Command, first: int, count: int, words: Sequence[str]) -> tuple[Edit, ...]:
    """Edits that write `words` instead of `count` words of the command from `first` on; none if that is not safe.
    `obj`: the object that the command's fields are in. `first`: below 0 if the words are not in the command."""
    old = command.words[first : first + count] if first >= 0 else ()
    if len(old) < count or not old or any(word.unknown for word in old):
        return ()
    if any("$$" in word or "$(" in word for word in words):
        return ()  # Kubernetes would expand it
    if command.shell:
        return _in_script(obj, command, old, words)
    return _in_list(obj, old, words)


def _in_list(obj: Any, old: Sequence[Word], words: Sequence[str]) -> tuple[Edit, ...]:
    """The edit that replaces adjacent items of `command` or `args`; none if the object has other items there."""
    path, at = FieldPath(old[0].path.parts[:-1]), old[0].path.parts[-1]
    value = path.get(obj)
    if not isinstance(at, int) or not isinstance(value, list) or len(value) > _LONGEST:
        return ()
    texts = [word.text for word in old]
    are_adjacent = [word.path for word in old] == [path / (at + n) for n in range(len(old))]
    if not are_adjacent or value[at : at + len(old)] != texts:
        return ()
    return _swap(value, path, texts, list(words))


def _in_script(obj: Any, command: Command, old: Sequence[Word], words: Sequence[str]) -> tuple[Edit, ...]:
    """The edit that replaces adjacent words inside of the container's script; none if anything is between them. The
    blanks before them are replaced, too, so that words that are left out leave none behind."""
    spans = [word.span for word in old if word.span is not None]
    path = old[0].path
    if len(spans) < len(old) or command.script is None or path.get(obj) != command.script:
        return ()
    text = command.script.encode()
    for (_, end), (start, _) in itertools.pairwise(spans):
        if not _BLANK.fullmatch(text[end:start]):
            return ()
    start, end = spans[0][0], spans[-1][1]
    gap = _GAP.search(text[:start])
    if gap is None:
        return ()
    quote = text[start : start + 1] if text[start : start + 1] in (b"'", b'"') else b""
    new = b" ".join(_quoted(word, quote) for word in words)
    old_text, new_text = text[gap.start() : end].decode(), (gap[0] + new if words else b"").decode()
    return _swap(command.script, path, old_text, new_text)


def _swap(now: Any, path: FieldPath, old: Any, new: Any) -> tuple[Edit, ...]:
    """The edit that replaces `old` by `new` in the field's present value; none if it does not apply, or applies twice.
    An edit that applies a second time would replace words of its own, or others than the intended ones."""
    edit = Edit(FieldPath(("field",)), (old, new), "swap")
    once = json_patch({"field": now}, [edit])
    again = json_patch(apply({"field": now}, once), [edit])
    return (Edit(path, (old, new), "swap"),) if once and not again else ()


def _quoted(word: str, quote: bytes) -> bytes:
    """The word in the former quotes, if they are enough for it."""
    if quote and _PLAIN.fullmatch(word):
        return quote + word.encode() + quote
    return shlex.quote(word).encode()
