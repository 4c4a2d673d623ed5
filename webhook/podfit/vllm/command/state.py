"""The state of a shell: variables, positional parameters and files, as far as they are known."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from podfit.vllm.command.word import Value, known, mystery

if TYPE_CHECKING:
    from tree_sitter import Node

Array = list[Value]
"""The elements of an array. It is never changed in place."""
Text = TypeVar("Text")


@dataclass
class ShellState:
    """A shell's variables, parameters and known files."""

    variables: dict[str, Value | Array] = field(default_factory=dict)
    exported: set[str] = field(default_factory=set)
    unexported: dict[str, Value | Array] | None = None
    """The variables before `set -a`, which exports every variable that is assigned later; None if it is off."""
    computed: set[str] = field(default_factory=set)
    """Variables whose values the shell may change after an assignment (`declare -i`, `readonly`, a trap)."""
    positional: Array = field(default_factory=list)
    zero: Value = field(default_factory=lambda: mystery("$0", "$0 is the shell's own name"))
    files: dict[str, Value | None] = field(default_factory=dict)
    """Path → text of the files that are mounted or that the script has written; None if a text is unknown."""
    mounted: frozenset[str] = frozenset()
    """Paths of files that no process in the container can write."""
    functions: dict[str, tuple[Node, ...]] = field(default_factory=dict)
    """Name → body; several, if different parts of the script define the function."""
    removed: set[str] = field(default_factory=set)
    """Variables that the script may have unset."""
    errexit: bool = False
    """The script certainly exits at the first command that fails (`set -e`)."""
    rest: str | None = None
    """Why there may be variables beyond these."""

    def copy(self) -> ShellState:
        """A copy that can be changed independently."""
        return replace(
            self, variables=dict(self.variables), exported=set(self.exported), computed=set(self.computed),
            files=dict(self.files), functions=dict(self.functions), removed=set(self.removed),
        )  # fmt: skip

    def assign(self, name: str, value: Value | Array) -> None:
        """Set a variable, or the first element of an array; its value is unknown if the shell may change it."""
        before = self.variables.get(name)
        if isinstance(before, list) and not isinstance(value, list):
            # An unknown element stands for any number of elements, so it stays, and covers those after it.
            is_known = bool(before) and known(before[0]) is not None
            value = [value, *(before[1:] if is_known else before[:1])]
        self.variables[name] = value
        if name in self.computed:
            self.forget([name], f"its value is not the one that {name} is assigned")

    def forget(self, names: Iterable[str], why: str) -> None:
        """Make variables unknown: their known values may have been replaced."""
        for name in names:
            lost = mystery(f"${name}", why)
            self.variables[name] = [lost] if isinstance(self.variables.get(name), list) else lost

    def forget_all(self, why: str) -> None:
        """Make every variable unknown, including those that are not set."""
        self.forget(list(self.variables), why)
        self.rest = self.rest or why

    def forget_positional(self, why: str) -> None:
        """Make the positional parameters unknown, and their number too."""
        self.positional = [mystery("$@", why)]

    def export_all(self, on: bool) -> None:
        """Apply `set -a` or `set +a`."""
        self.exported = self.exports()
        self.unexported = dict(self.variables) if on else None

    def exports(self) -> set[str]:
        """The variables that a program gets from the shell."""
        before = self.unexported
        if before is None:
            return self.exported
        return self.exported | {name for name, value in self.variables.items() if value is not before.get(name)}

    def assigned(self, other_state: ShellState) -> set[str]:
        """Variables that were assigned or unset since one state was copied from the other, even to the same value."""
        names = {**self.variables, **other_state.variables}
        return {name for name in names if self.variables.get(name) is not other_state.variables.get(name)}

    def may_be(self, other_state: ShellState, why: str) -> None:
        """Make unknown what differs from `other_state`, after another way through the script to this place."""
        for name in self.assigned(other_state):
            value, other_value = self.variables.get(name), other_state.variables.get(name)
            if isinstance(value, list) or isinstance(other_value, list):
                self.variables[name] = _common(_elements(value), _elements(other_value), name, why)
            else:
                self.forget([name], why)
        if self.positional is not other_state.positional:
            self.positional = _common(self.positional, other_state.positional, "@", why)
        self.exported |= other_state.exported
        self.unexported = other_state.unexported if self.unexported is None else self.unexported
        self.computed |= other_state.computed
        self.removed |= other_state.removed
        self.errexit = self.errexit and other_state.errexit
        self.rest = self.rest or other_state.rest
        self.unsettle(other_state.files)
        for name, bodies in other_state.functions.items():
            have = self.functions.get(name, ())
            self.functions[name] = (*have, *(body for body in bodies if body not in have))

    def unsettle(self, files: Mapping[str, Value | None]) -> None:
        """Make files unknown that differ, or are missing, in the files after another part of the script."""
        if files != self.files:
            for path in {**self.files, **files}:
                if path not in self.files or path not in files or self.files[path] != files[path]:
                    self.files[path] = None

    def overwrite(self, target: Value) -> None:
        """Make the written file at the path `target` unknown, and all files that may be the same one."""
        text = known(target)
        path = posixpath.normpath(text) if text else ""
        end = target[-1].text if target and target[-1].unknown is None else ""  # "/run.sh" of "$DIR/run.sh"
        name = posixpath.basename(path or (end if "/" in end else ""))
        for other in self.files.keys() - self.mounted:
            may_have_name = not name or posixpath.basename(other) == name
            both_absolute = other[:1] == path[:1] == "/"  # then only equal paths are the same file
            if may_have_name and not both_absolute:
                self.files[other] = None
        if path:
            self.files[path] = None

    def get(self, name: str) -> Value | Array | None:
        """A variable's value; None if both the manifest and the script certainly leave it unset."""
        if name in self.variables:
            return self.variables[name]
        return mystery(f"${name}", self.rest) if self.rest else None


def _elements(value: Value | Array | None) -> Array:
    """The elements of a variable: one for a text, none if it is not set."""
    if isinstance(value, list):
        return value
    return [] if value is None else [value]


def _common(array: Array, other_array: Array, name: str, why: str) -> Array:
    """The first elements of the array `name` that both lists have in common, and an unknown one for any others."""
    same = 0
    while array[same : same + 1] == other_array[same : same + 1] != []:
        same += 1
    return [*array[:same], mystery(f"${name}", why)]


def contents(files: Mapping[str, Text], path: str) -> Text | None:
    """The text of a file of `files` (path → text); None if unknown. A relative path names the only one that ends so."""
    path = posixpath.normpath(path)
    if path in files or path[:1] == "/":
        return files.get(path)
    ends = [text for name, text in files.items() if name.endswith("/" + path)]
    return ends[0] if len(ends) == 1 else None


Status = Literal["yes", "no", "likely", "maybe"]
"""How a command ends: "yes" or "no" is certain success or failure, "likely" is an ordinary command's success, "maybe"
is unknown."""


class Visited(NamedTuple):
    """The report of a visitor about a command of the script."""

    fails: bool = False
    """It certainly fails, so that the commands after it may matter."""
    follows_writes: bool = False
    """It is a script, and its writes to files are in the state already."""


class Exit(Exception):  # noqa: N818 - a way out of the walk, not an error
    """The script ends here."""

    def __init__(self, *, failed: bool = False) -> None:
        self.failed = failed
        """True if the exit status is a failure."""
