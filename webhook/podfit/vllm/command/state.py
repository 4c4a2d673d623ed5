"""The state of a shell, and what two branches of a script leave in common."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from podfit.base.secret import gives
from podfit.vllm.command.word import Piece, Value, known, mystery, origin_of, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

Array = list[Value]
_MOST_BODIES = 8
"""Maximum number of bodies of one function that are followed."""


@dataclass
class ShellState:
    """A shell's variables, parameters and known files."""

    variables: dict[str, Value | Array] = field(default_factory=dict)
    exported: set[str] = field(default_factory=set)
    unexported: dict[str, Value | Array] | None = None
    """The variables before `set -a`, which exports every variable that is assigned later; None if it is off."""
    computed: set[str] = field(default_factory=set)
    """Variables whose values bash or a trap may change after an assignment (`declare -i`, `-l`, `-u`)."""
    positional: Array = field(default_factory=list)
    zero: Value = field(default_factory=lambda: mystery("$0", "$0 is the shell's own name"))
    files: dict[str, Value | None] = field(default_factory=dict)
    """Path → text of the files that are mounted or that the script has written; None if a text is unknown."""
    mounted: frozenset[str] = frozenset()
    """Paths of files that no process in the container can write."""
    functions: dict[str, tuple[Node | None, ...]] = field(default_factory=dict)
    """Name → body; several, if different branches define the function, and None if one of them does not."""
    removed: set[str] = field(default_factory=set)
    """Variables that the script has unset on at least one branch."""
    errexit: bool = False
    """The script exits at the first command that fails (`set -e`), on every branch so far."""
    rest: str | None = None
    """Why there may be variables beyond these."""
    hidden: set[str] = field(default_factory=set)
    """Values, and parts of values, of variables with the name of a secret, to be masked. Shared by a script's
    shells."""

    def copy(self) -> ShellState:
        """A copy that can be changed independently."""
        return ShellState(
            {k: list(v) if isinstance(v, list) else v for k, v in self.variables.items()},
            set(self.exported),
            self.unexported,
            set(self.computed),
            list(self.positional),
            self.zero,
            dict(self.files),
            self.mounted,
            dict(self.functions),
            set(self.removed),
            self.errexit,
            self.rest,
            self.hidden,
        )

    def forget(self, names: Iterable[str], why: str) -> None:
        """Make variables unknown: their known values may have been replaced."""
        for name in names:
            value = self.variables.get(name)
            if isinstance(value, list):
                self.variables[name] = [_doubtful(one, why) for one in value]
            else:
                self.variables[name] = mystery(text_of(value) if value else f"${name}", why)

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

    def hide(self, variables: Mapping[str, Value | Array]) -> None:
        """Add the values of variables with the name of a secret to `hidden`."""
        for name, value in variables.items():
            if gives(name):
                self.hidden.update(map(text_of, value) if isinstance(value, list) else (text_of(value),))

    def changed(self, before: ShellState) -> set[str]:
        """Variables whose value has changed."""
        names = {**self.variables, **before.variables}
        return {name for name in names if self.variables.get(name) != before.variables.get(name)}

    def unsettle(self, files: Mapping[str, Value | None]) -> None:
        """Make files unknown that differ, or are missing, in the files after another branch of the script."""
        if files != self.files:
            for path in {**self.files, **files}:
                if path not in self.files or path not in files or self.files[path] != files[path]:
                    self.files[path] = None

    def overwrite(self, target: Value) -> None:
        """Make a written file unknown, and all files that may be the same one."""
        text = known(target)
        path = posixpath.normpath(text) if text else ""
        ends = target[-1].text if target and target[-1].unknown is None else ""
        name = posixpath.basename(path or (ends if "/" in ends else ""))
        for other in self.files.keys() - self.mounted:
            if (not name or posixpath.basename(other) == name) and not other[:1] == path[:1] == "/":
                self.files[other] = None
        if path:
            self.files[path] = None

    def get(self, name: str) -> Value | Array | None:
        """A variable's value; None if both the manifest and the script certainly leave it unset."""
        if name in self.variables:
            return self.variables[name]
        return mystery(f"${name}", self.rest) if self.rest else None


def merge(one: ShellState, two: ShellState, why: str) -> ShellState:
    """The state after two branches; `why` is the condition that chose between them."""
    merged = one.copy()
    for name in {**one.variables, **two.variables}:
        a, b = one.variables.get(name), two.variables.get(name)
        if a == b:
            continue
        if isinstance(a, list) or isinstance(b, list):
            merged.variables[name] = _merge_lists(_as_list(a), _as_list(b), why)
        else:
            merged.variables[name] = _merge_values(name, a, b, why)
    if one.positional != two.positional:
        merged.positional = _merge_lists(one.positional, two.positional, why)
    merged.exported |= two.exported
    merged.unexported = two.unexported if one.unexported is None else one.unexported
    merged.computed |= two.computed
    merged.removed |= two.removed
    merged.errexit = one.errexit and two.errexit
    merged.rest = one.rest or two.rest
    merged.unsettle(two.files)
    if one.functions != two.functions:
        for name in {**one.functions, **two.functions}:
            bodies = one.functions.get(name, (None,))
            new = [body for body in two.functions.get(name, (None,)) if body not in bodies]
            merged.functions[name] = (*bodies, *new)[:_MOST_BODIES]
    return merged


def _as_list(value: Value | Array | None) -> Array:
    return value if isinstance(value, list) else [] if value is None else [value]


def _merge_values(name: str, a: Value | None, b: Value | None, why: str) -> Value:
    short, long = sorted((text_of(a or ()), text_of(b or ())), key=len)
    base, more = (a, b) if text_of(a or ()) == short else (b, a)
    added = long[len(short) :]
    certain = base is not None and more is not None and known(base) is not None and known(more) is not None
    # `ARGS="$ARGS --more"` in one branch: the text from before stays known.
    if certain and long.startswith(short) and (not short or added[:1].isspace() or short[-1:].isspace()):
        pieces = list(base or ())
        for word in re.findall(r"\s+|\S+", added):
            pieces.append(Piece(word) if word.isspace() else Piece(word, unknown=f"only if {why}"))
        return tuple(pieces)
    return mystery(f"${name}", f"{name} depends on {why}")


def _merge_lists(a: Array, b: Array, why: str) -> Array:
    short, long = (a, b) if len(a) <= len(b) else (b, a)
    if long[: len(short)] != short:
        same = sum(1 for _ in _common_prefix(short, long))
        return long[:same] + [_doubtful(v, f"depends on {why}") for v in long[same:]]
    return long[: len(short)] + [_doubtful(v, f"only if {why}") for v in long[len(short) :]]


def _common_prefix(a: Array, b: Array) -> list[Value]:
    """The first items that two arrays have in common."""
    same: list[Value] = []
    for one, two in zip(a, b, strict=False):
        if one != two:
            break
        same.append(one)
    return same


def _doubtful(value: Value, why: str) -> Value:
    return mystery(text_of(value), why, origin_of(value))
