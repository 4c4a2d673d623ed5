"""Changes of a workload as values: what a suggestion says, for people and for the programs that write it."""

from __future__ import annotations

import shlex
from typing import NamedTuple

HERE = "."
"""In place of a flag: the flag or the variable at the finding's field."""


class Change(NamedTuple):
    """A change that a program can write, with its text for people. Programs read all other fields, and never the text.

    It is not tied to an object: `podfit.rules.suggestion` makes the edits of one. A suggestion that leaves a choice or
    a further step to its reader is a plain text instead."""

    text: str
    flags: tuple[str, ...] = ()
    """Flags with their values, quoted as in a shell. Each replaces the flag of that name, or is added."""
    without: str = ""
    """A flag that is left out, or HERE."""
    gpus: int = 0
    """The limit of the GPU resource that the container requests."""
    limit: tuple[str, str] | None = None
    """A resource of the container, and its limit."""
    selector: tuple[str, str] | None = None
    """A label, and its value in the Pod's nodeSelector."""
    value: str | None = None
    """The value of the variable at the finding's field."""
    release: str = ""
    """The release of vLLM's own image: `0.27.1`."""

    def __str__(self) -> str:
        return self.text


Suggestion = str | Change
"""A change for people alone, or one that programs can write, too."""


def flags(*texts: str, remark: str = "") -> Change:
    """Set flags, each with its value: `--max-model-len 4096`, `--enforce-eager`. `remark`: the end of the text."""
    return Change(" and ".join(texts) + remark, flags=texts)


def quoted_flag(*words: str) -> Change:
    """Set a flag to values that may need quotes in a shell. The text is without these."""
    return Change(" ".join(words), flags=(shlex.join(words),))


def leave_out(remark: str = "") -> Change:
    """Leave out the flag or the variable at the finding's field."""
    return Change(f"leave it out{remark}", without=HERE)


def without(flag: str, text: str = "leave {} out") -> Change:
    """Leave out a flag. `text`: for people, with `{}` for the flag."""
    return Change(text.format(flag), without=flag)


def limit(resource: str, value: object, text: str = "{}: {}") -> Change:
    """Set the container's limit of a resource. `text`: for people, with `{}` for the resource and the value."""
    return Change(text.format(resource, value), limit=(resource, str(value)))


def selector(label: str, value: str) -> Change:
    """Select nodes by a label."""
    return Change(f"nodeSelector {label}: {value}", selector=(label, value))


def value(text: str) -> Change:
    """Set the variable at the finding's field."""
    return Change(f'"{text}"', value=text)


def release(number: object, text: str = "vLLM {} or newer") -> Change:
    """Run another release of vLLM. `text`: for people, with `{}` for the number."""
    return Change(text.format(number), release=str(number))
