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
    """The edits of a change that the finding at `path` suggests; empty if a part of it can't be written, or it has no
    part that is an edit."""
    parts: list[tuple[Edit, ...]] = []  # the edits of each part; an empty one can't be written
    if change.without == HERE:
        parts.append(_without_variable(engine, path) or _without_flag(engine, _index_at(engine, path)))
    elif change.without:
        parts.append(_without_flag(engine, _index_of(engine, change.without)))
    if change.gpus:
        parts.append(_with_limit(engine, engine.requested[0], str(change.gpus)) if engine.requested else ())
    if change.flags:
        parts.append(_with_flags(engine, change.flags))
    if change.limit:
        resource, quantity = change.limit
        parts.append(_with_limit(engine, resource, quantity))
    if change.selector:
        label, value = change.selector
        parts.append((Edit(engine.workload.path / "nodeSelector" / label, value),))
    if change.value is not None:
        parts.append((Edit(path, change.value),) if path.parts[-1] == "value" else ())
    if change.release:
        parts.append(_with_release(engine, change.release))
    return tuple(itertools.chain(*parts)) if all(parts) else ()


def _with_flags(engine: Engine, flags: Sequence[str]) -> tuple[Edit, ...]:
    """Edits that set each of these flags, such as "--max-num-seqs 64": a flag that the command has in its place, the
    others at the end. Empty if one of them can't be written."""
    replaced: list[Edit] = []
    added: list[str] = []
    for flag, *values in map(shlex.split, flags):
        index = _index_of(engine, flag)
        if index is None:
            added += (flag, *values)
            continue
        edits_of_flag = _replaced(engine, index, values)
        if not edits_of_flag:
            return ()
        replaced += edits_of_flag
    if not added:
        return tuple(replaced)
    inserted = _inserted(engine, added)
    if not inserted:
        return ()
    return (*inserted, *replaced)  # first those whose places are found in the command as it is written now


def _replaced(engine: Engine, index: int, values: Sequence[str]) -> tuple[Edit, ...]:
    """Edits that give the flag at an index of the command's words these values; empty if that is not safe."""
    command, obj = engine.command, engine.workload.object
    word = command.words[index].text
    if "=" in word:
        return edit.substitute(obj, command, index, 1, [f"{word.partition('=')[0]}={' '.join(values)}"])
    return edit.substitute(obj, command, index, 1 + _values_after(engine, index), [word, *values])


def _inserted(engine: Engine, words: Sequence[str]) -> tuple[Edit, ...]:
    """Edits that add words to the command: before the last flag that has a word before it, else at the end of a list.
    Empty if neither is possible."""
    command = engine.command
    for index in range(len(command.words) - 1, 0, -1):
        if command.words[index].text.startswith("--"):
            before, flag = command.words[index - 1].text, command.words[index].text
            return edit.substitute(engine.workload.object, command, index - 1, 2, (before, *words, flag))
    path = command.words[-1].path if command.words and not command.shell else None
    if path is None or not isinstance(path.parts[-1], int):
        return ()
    return tuple(Edit(FieldPath(path.parts[:-1]), word, "append") for word in words)


def _name(word: str) -> str:
    """The flag in a word, with dashes: "--max_num_seqs=64" → "--max-num-seqs"."""
    return word.partition("=")[0].replace("_", "-")


def _values_after(engine: Engine, index: int) -> int:
    """The number of words after the flag at an index that are its values, by vLLM's parser.

    Of a flag that takes several, or is unknown, they are all words up to the next flag."""
    known = parser_near(engine)
    option = known.spellings.get(_name(engine.command.words[index].text)) if known else None
    after = engine.command.words[index + 1 :]
    if option is None or option[0].nargs in ("+", "*"):
        return sum(1 for _ in itertools.takewhile(lambda word: not word.text.startswith("-"), after))
    return 0 if option[0].nargs == 0 else min(1, len(after))


def _index_at(engine: Engine, path: FieldPath) -> int | None:
    """The index of the flag that is written at `path`, an item of a list; None if no flag is."""
    words = engine.command.words
    return next((n for n, word in enumerate(words) if word.path == path and word.text.startswith("--")), None)


def _index_of(engine: Engine, flag: str) -> int | None:
    """The index of the first word that sets `flag`; None if there is none."""
    return next((n for n, word in enumerate(engine.command.words) if _name(word.text) == flag), None)


def _without_flag(engine: Engine, index: int | None) -> tuple[Edit, ...]:
    """Edits that remove the flag at an index with its values; empty without an index, and if that is not safe."""
    words = engine.command.words
    if index is None or (engine.command.shell and not words[index].span):
        return ()
    count = 1 if "=" in words[index].text else 1 + _values_after(engine, index)
    return edit.substitute(engine.workload.object, engine.command, index, count, [])


def _without_variable(engine: Engine, path: FieldPath) -> tuple[Edit, ...]:
    """The edit that removes the entry of `env` in which `path` is; empty for a path that is not in the container's
    `env`."""
    env = engine.container.path / "env"
    count = len(env.parts)
    if path.parts[:count] != env.parts:
        return ()
    entry = FieldPath(path.parts[: count + 1])
    return (Edit(entry, op="remove"),)


def _with_release(engine: Engine, release: str) -> tuple[Edit, ...]:
    """The edit that gives vLLM's own image the tag of another release, such as "0.27.1"; empty for other images."""
    image = engine.field("image")
    match = _TAG.fullmatch(image) if isinstance(image, str) else None
    return (Edit(engine.container.path / "image", f"{match['name']}:v{release}"),) if match else ()


def _with_limit(engine: Engine, resource: str, value: str) -> tuple[Edit, ...]:
    """The edit that sets the container's limit of a resource."""
    return (Edit(engine.container.path / "resources" / "limits" / resource, value),)
