"""A change that a rule suggests → the edits that write it into the object."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Sequence

from podfit.base.lazy import regex
from podfit.kube.patch import Edit
from podfit.kube.path import FieldPath
from podfit.rules._flags import parser_near
from podfit.rules.engine import Engine
from podfit.vllm.change import HERE, Change
from podfit.vllm.command import edit

_TAG = regex(r"(?P<name>(?:docker\.io/)?vllm/vllm-openai):v\d+\.\d+\.\d+")


def edits(engine: Engine, path: FieldPath, change: Change) -> tuple[Edit, ...]:
    """The edits of a change that the finding at `path` suggests; none if a part of it can't be written."""
    parts: list[tuple[Edit, ...]] = []
    if change.without == HERE:
        parts.append(_without_variable(engine, path) or _without_flag(engine, _index_at(engine, path)))
    elif change.without:
        parts.append(_without_flag(engine, _index_of(engine, change.without)))
    if change.gpus:
        parts.append(_limit(engine, engine.requested[0], str(change.gpus)) if engine.requested else ())
    if change.flags:
        parts.append(_with_flags(engine, change.flags))
    if change.limit:
        parts.append(_limit(engine, *change.limit))
    if change.selector:
        label, value = change.selector
        parts.append((Edit(engine.workload.path / "nodeSelector" / label, value),))
    if change.value is not None:
        parts.append((Edit(path, change.value),) if path.parts[-1] == "value" else ())
    if change.release:
        parts.append(_with_release(engine, change.release))
    return tuple(itertools.chain(*parts)) if all(parts) else ()


def _with_flags(engine: Engine, flags: Sequence[str]) -> tuple[Edit, ...]:
    """The command with these flags, each in the place of its own former value, the new ones at the end."""
    replaced: list[Edit] = []
    added: list[str] = []
    for flag, *values in map(shlex.split, flags):
        index = _index_of(engine, flag)
        if index is None:
            added += (flag, *values)
        elif change := _replaced(engine, index, values):
            replaced += change
        else:
            return ()
    inserted = _inserted(engine, added) if added else ()
    return (*inserted, *replaced) if inserted or not added else ()  # the place of new words is that of the old command


def _replaced(engine: Engine, index: int, values: Sequence[str]) -> tuple[Edit, ...]:
    """The flag at an index with other values."""
    command, obj = engine.command, engine.workload.object
    word = command.words[index].text
    if "=" in word:
        return edit.substitute(obj, command, index, 1, [f"{word.partition('=')[0]}={' '.join(values)}"])
    return edit.substitute(obj, command, index, 1 + _values_after(engine, index), [word, *values])


def _inserted(engine: Engine, words: Sequence[str]) -> tuple[Edit, ...]:
    """More words: before the last flag that has a word before it, else at the end of a list."""
    command = engine.command
    at = next((n for n in range(len(command.words) - 1, 0, -1) if command.words[n].text.startswith("--")), None)
    if at is not None:
        before, flag = command.words[at - 1], command.words[at]
        return edit.substitute(engine.workload.object, command, at - 1, 2, (before.text, *words, flag.text))
    path = command.words[-1].path if command.words and not command.shell else None
    if path is None or not isinstance(path.parts[-1], int):
        return ()
    return tuple(Edit(FieldPath(path.parts[:-1]), word, "append") for word in words)


def _name(word: str) -> str:
    return word.partition("=")[0].replace("_", "-")


def _values_after(engine: Engine, index: int) -> int:
    """How many words after a flag are its values, by vLLM's parser."""
    known = parser_near(engine)
    option = known.spellings.get(_name(engine.command.words[index].text)) if known else None
    after = engine.command.words[index + 1 :]
    until = next((n for n, word in enumerate(after) if word.text.startswith("-")), len(after))
    if option is None or option[0].nargs in ("+", "*"):
        return until
    return 0 if option[0].nargs == 0 else min(1, len(after))


def _index_at(engine: Engine, path: FieldPath) -> int | None:
    """The flag that is the item of a list at a field."""
    words = engine.command.words
    return next((n for n, word in enumerate(words) if word.path == path and word.text.startswith("--")), None)


def _index_of(engine: Engine, flag: str) -> int | None:
    """The first word that is a flag."""
    return next((n for n, word in enumerate(engine.command.words) if _name(word.text) == flag), None)


def _without_flag(engine: Engine, index: int | None) -> tuple[Edit, ...]:
    """The command without a flag and its values."""
    words = engine.command.words
    if index is None or (engine.command.shell and not words[index].span):
        return ()
    count = 1 if "=" in words[index].text else 1 + _values_after(engine, index)
    return edit.substitute(engine.workload.object, engine.command, index, count, [])


def _without_variable(engine: Engine, path: FieldPath) -> tuple[Edit, ...]:
    """The container without a variable that is written in it."""
    env = engine.container.path / "env"
    count = len(env.parts)
    return (Edit(FieldPath(path.parts[: count + 1]), op="remove"),) if path.parts[:count] == env.parts else ()


def _with_release(engine: Engine, release: str) -> tuple[Edit, ...]:
    """vLLM's own image in another release."""
    image = engine.field("image")
    match = _TAG.fullmatch(image) if isinstance(image, str) else None
    return (Edit(engine.container.path / "image", f"{match['name']}:v{release}"),) if match else ()


def _limit(engine: Engine, resource: str, value: str) -> tuple[Edit, ...]:
    return (Edit(engine.container.path / "resources" / "limits" / resource, value),)
