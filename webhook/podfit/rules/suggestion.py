"""A suggestion → the edits that follow it, where its text says exactly what to write."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from podfit.base.lazy import regex
from podfit.kube.patch import Edit
from podfit.kube.path import FieldPath
from podfit.rules._flags import parser_near
from podfit.rules.engine import Engine
from podfit.vllm.command import edit

_REMARK = regex(r"\s*\((?:probably fits|slower)\)$")
_FLAG = regex(r"--[a-z][\w.-]*")
_FLAGS = r"(?P<flags>--\S+ \S+(?: and --\S+ \S+)*)"
_GPUS_WITH_FLAGS = regex(rf"(?P<count>\d+) GPUs?(?: with {_FLAGS})?")
_FLAGS_WITH_GPUS = regex(rf"{_FLAGS} with (?P<count>\d+) GPUs?")
_LIMIT = regex(r"(?:resources\.limits )?(?P<name>memory|nvidia\.com/gpu|amd\.com/gpu): \"?(?P<value>[\w.]+)\"?")
_SELECTOR = regex(r"nodeSelector (?P<key>[\w./-]+): (?P<value>[\w.-]+)")
_LEFT_OUT = regex(r"leave it out(?:[:(].*| \(.*)?")
_FLAG_LEFT_OUT = regex(r"leave (?P<flag>--[\w-]+) out|without (?P<other>--[\w-]+)(?::.*)?")
_VALUE = regex(r'"(?P<value>[^"]*)"')
_RELEASE = regex(r"(?:an image of )?vLLM (?P<release>\d+\.\d+\.\d+)(?: or newer)?")
_TAG = regex(r"(?P<name>(?:docker\.io/)?vllm/vllm-openai):v\d+\.\d+\.\d+")


def edits(engine: Engine, path: FieldPath, suggestion: str) -> tuple[Edit, ...]:
    """The edits that write what a suggestion about the field at `path` says; none if its text leaves anything open."""
    text = _REMARK.sub("", suggestion)
    if _LEFT_OUT.fullmatch(text):
        return _without_variable(engine, path) or _without_flag(engine, _index_at(engine, path))
    if match := _FLAG_LEFT_OUT.fullmatch(text):
        return _without_flag(engine, _index_of(engine, match["flag"] or match["other"]))
    if match := _GPUS_WITH_FLAGS.fullmatch(text) or _FLAGS_WITH_GPUS.fullmatch(text):
        flags = _with_flags(engine, match["flags"]) if match["flags"] else ()
        gpus = _gpu_limit(engine, match["count"])
        return (*gpus, *flags) if gpus and bool(flags) == bool(match["flags"]) else ()
    if text.startswith("--"):
        return _with_flags(engine, text)
    if match := _LIMIT.fullmatch(text):
        return (_limit(engine, match["name"], match["value"]),)
    if match := _SELECTOR.fullmatch(text):
        return (Edit(engine.workload.path / "nodeSelector" / match["key"], match["value"]),)
    if (match := _VALUE.fullmatch(text)) and path.parts[-1] == "value":
        return (Edit(path, match["value"]),)
    if match := _RELEASE.fullmatch(text):
        return _with_release(engine, match["release"])
    return ()


def _with_flags(engine: Engine, text: str) -> tuple[Edit, ...]:
    """The command with these flags, each in the place of its own former value, the new ones at the end."""
    try:
        words = shlex.split(text)
    except ValueError:
        return ()
    replaced: list[Edit] = []
    added: list[str] = []
    for flag, values in _flags(words):
        if not _FLAG.fullmatch(flag) or "and" in values or not _takes(engine, flag, len(values)):
            return ()
        index = _index_of(engine, flag.replace("_", "-"))
        if index is None:
            added += (flag, *values)
        elif change := _replaced(engine, index, values):
            replaced += change
        else:
            return ()
    inserted = _inserted(engine, added) if added else ()
    return (*inserted, *replaced) if inserted or not added else ()  # the place of new words is that of the old command


def _flags(words: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Each flag with its values. `and` before a flag joins two changes."""
    flag, values = "", list[str]()
    for word in words:
        if word.startswith("--"):
            if flag:
                yield flag, values[:-1] if values[-1:] == ["and"] else values
            flag, values = word.partition("=")[0], [word.partition("=")[2]] if "=" in word else []
        else:
            values.append(word)
    if flag:
        yield flag, values


def _takes(engine: Engine, flag: str, count: int) -> bool:
    """True if vLLM's parser takes so many values after the flag: more words are a remark for people."""
    known = parser_near(engine)
    option = known.spellings.get(flag.replace("_", "-")) if known else None
    if option is None or option[0].nargs in ("+", "*"):
        return True
    return count == 0 if option[0].nargs == 0 else count < 2


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


def _gpu_limit(engine: Engine, count: str) -> tuple[Edit, ...]:
    """The edit that sets the limit of the GPU resource to `count`; none if the container requests none."""
    return (_limit(engine, engine.requested[0], count),) if engine.requested else ()


def _limit(engine: Engine, resource: str, value: str) -> Edit:
    return Edit(engine.container.path / "resources" / "limits" / resource, value)
