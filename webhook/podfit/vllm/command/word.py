"""Text that is known in part: the values that the modules of this package exchange and return."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from podfit.kube.path import FieldPath

Change = Literal["vllm", "code", "packages"]
"""The kind of change that a command makes to the Python code that vLLM runs:

- "vllm": it installs vLLM itself, so the image's tag does not show the release.
- "code": it writes into installed packages, which include vLLM's and Transformers' own files.
- "packages": it installs something else, or may do so. That may be a plugin that adds to vLLM's registries."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of text with one origin."""

    text: str
    """The text; if it is unknown, as it was written (`$MODEL`)."""
    path: FieldPath | None = None
    """The field it came from; None: the field being read."""
    unknown: str | None = None
    """Why it is unknown, else None."""
    span: tuple[int, int] | None = field(default=None, compare=False)
    """Its position in the script of that field, quotes included, in bytes; None if it is not literally there."""

    def __eq__(self, other: object) -> bool:
        """Equal if text, field and reason are equal; a `Word` is equal to the piece that it was made of."""
        if not isinstance(other, Piece):
            return NotImplemented
        return (self.text, self.path, self.unknown) == (other.text, other.path, other.unknown)


Value = tuple[Piece, ...]
"""A string in pieces: `--model=$MODEL` is a known piece and an unknown one."""


def literal(text: str, path: FieldPath | None = None) -> Value:
    """A value that is known."""
    return (Piece(text, path),)


def mystery(text: str, why: str, path: FieldPath | None = None) -> Value:
    """A value that is not known, and why."""
    return (Piece(text, path, why),)


def text_of(value: Value) -> str:
    """The whole text, unknown pieces as written."""
    return value[0].text if len(value) == 1 else "".join([piece.text for piece in value])


def texts_of(values: Iterable[Value]) -> list[str]:
    """The text of each value."""
    return [value[0].text if len(value) == 1 else text_of(value) for value in values]


def reason_of(value: Value) -> str | None:
    """Why the value is unknown, None if it is known."""
    if len(value) == 1:  # the usual case
        return value[0].unknown
    return next((piece.unknown for piece in value if piece.unknown is not None), None)


def origin_of(value: Value) -> FieldPath | None:
    """The field that it came from, None if the value does not have one."""
    if len(value) == 1:
        return value[0].path
    return next((piece.path for piece in value if piece.path is not None), None)


def known(value: Value) -> str | None:
    """The text if all of it is known, else None."""
    if len(value) == 1:
        return value[0].text if value[0].unknown is None else None
    return None if reason_of(value) is not None else text_of(value)


def after(value: Value, count: int) -> Value:
    """A value without its first `count` characters; the empty text if it has no more."""
    pieces = []
    for piece in value:
        cut = min(count, len(piece.text))
        count -= cut
        if piece.text[cut:]:
            pieces.append(Piece(piece.text[cut:], piece.path, piece.unknown))
    return tuple(pieces) or literal("")


def joined(pieces: list[Piece]) -> Value:
    """Join adjacent known pieces of one origin."""
    joined: list[Piece] = []
    filled = (piece for piece in pieces if piece.text or piece.unknown is not None)
    for (unknown, path), run in itertools.groupby(filled, key=lambda piece: (piece.unknown, piece.path)):
        if unknown is None:
            joined.append(Piece("".join(piece.text for piece in run), path))
        else:
            joined += run
    return tuple(joined) or literal("")


def joined_list(values: Iterable[Value]) -> Value:
    """The values joined with a blank between them, as in `"$*"`."""
    pieces: list[Piece] = []
    for position, value in enumerate(values):
        pieces += [Piece(" "), *value] if position else value
    return joined(pieces)


def all_known(values: Mapping[str, Value]) -> dict[str, str]:
    """Name → text of the values that are known; the others are left out."""
    texts = {name: known(value) for name, value in values.items()}
    return {name: text for name, text in texts.items() if text is not None}


UNEXPANDED = "is not expanded outside of a shell"
"""End of the reason for an unknown word: a shell's reference outside of a shell."""
UNDEFINED = "is not in this container's env"
"""End of the reason for a Kubernetes reference to a variable that the manifest does not define."""


@dataclass(frozen=True, slots=True)
class Word(Piece):
    """One argument, as vLLM's process receives it: a complete piece with its field. `unknown` is for example "command
    substitution $(cat /model)"; `span` is a position in `Command.script`."""

    path: FieldPath
    """The field it came from (`…containers[0].args[3]`; the whole script's field for a word of a script)."""
    __eq__ = Piece.__eq__


def words_of(values: Iterable[Value], path: FieldPath) -> tuple[Word, ...]:
    """Values as words; `path` is the field for values without one of their own."""
    words = []
    for value in values:
        first = value[0] if len(value) == 1 else None
        words.append(first if isinstance(first, Word) else _word(value, path))
    return tuple(words)


def _word(value: Value, path: FieldPath) -> Word:
    """The value as one word: unknown if a part of it is."""
    if len(value) == 1:
        return Word(value[0].text, value[0].path or path, value[0].unknown, value[0].span)
    return Word(text_of(value), origin_of(value) or path, reason_of(value))


class Slip(NamedTuple):
    """A word before vLLM's arguments that keeps vLLM from starting, although the intention is clear."""

    text: str
    """The wrong word."""
    instead: tuple[str, ...]
    """The intended words."""
    why: str
    """The problem, for people."""
    path: FieldPath | None = None
    """The field it came from; None: the command as a whole."""
    unsplit: bool = False
    """Several words in one, which no shell splits."""


@dataclass(frozen=True, slots=True)
class Command:
    """How a container starts vLLM."""

    entry: str
    """"serve" (`vllm serve …`, also the image's own entrypoint), "module" (`python -m vllm.entrypoints…`, whose model
    is `--model`), or "worker" (a Ray or LWS worker that joins a leader, whose argv is empty)."""
    words: tuple[Word, ...]
    """The arguments after `vllm serve` or after the module's name."""
    path: FieldPath
    """The field that contains the command: findings about the whole command refer to it."""
    env: Mapping[str, str] = field(default_factory=dict)
    """The process's environment as far as it is known."""
    decided: frozenset[str] = frozenset()
    """Variables that the command line itself sets or removes, overriding Kubernetes; "*": it removes all."""
    shell: bool = False
    """Started by a shell script."""
    exec: bool = True
    """vLLM replaces the shell (so that it is PID 1 and gets SIGTERM)."""
    unforked: bool = False
    """There is no `exec`, but vLLM is the last command, so that some shells replace themselves by it. Since 5.1, bash
    does; dash 0.5.12 was observed not to, even if it is the only command."""
    exec_at: int | None = None
    """The character in the script at `words`' field before which `exec ` would make vLLM replace the shell. None if
    vLLM is not the script's last command, or the field does not have the script literally."""
    script_path: FieldPath | None = None
    """The field of the script, if there is one."""
    script: str | None = None
    """The text of the field that has the script, if only a shell expands it; for `edit`."""
    branched: bool = False
    """The script may take another branch, on which it starts another program, or vLLM with other arguments."""
    may_follow: bool = False
    """On some branch of the script it may not serve: it mentions `--headless` or joins a Ray cluster, or another branch
    starts no server."""
    lost: tuple[Word, ...] = ()
    """Words of the manifest that never reach vLLM (`sh -c 'vllm serve' --flag`)."""
    cut_off: tuple[Word, ...] = ()
    """Words on the next lines of the script that vLLM does not get, because the command ends before them."""
    config: Mapping[str, str] = field(default_factory=dict)
    """Path in the container → text, of the mounted files that `--config` names."""
    program: str = "vllm serve"
    """The program that it starts: "vllm serve", a module ("vllm.entrypoints.openai.api_server", "dynamo.vllm"), or a
    file."""
    own_flags: bool = False
    """`program` wraps vLLM and has flags of its own (dynamo.vllm), so an unknown flag is not an error."""
    other: str | None = None
    """The name of another server that takes vLLM's arguments and more of its own ("vLLM-Omni"); None: it is vLLM."""
    guessed: str | None = None
    """Why podfit assumes that this is vLLM although the manifest does not say so with certainty, else None."""
    complete: bool = True
    """False: more arguments may come from outside the manifest (a wrapper, an operator's preset), or there are more
    than are read."""
    changes: frozenset[Change] = frozenset()
    """Changes that the script may have made to the Python code that vLLM runs."""
    release: str = ""
    """The release of vLLM that the command itself installs (`uvx vllm@0.10.0`), if it names one."""
    slip: Slip | None = None
    """A mistake that keeps the command from starting vLLM at all; the rest is read as the author means it."""
    unclosed: str | None = None
    """The line of the script with an unclosed quote, because of which no shell runs the script."""
    long: tuple[tuple[FieldPath, int], ...] = ()
    """Words, also before vLLM's own, that are too long for Linux to pass to a process: field, and bytes at least."""
    unread: str | None = None
    """Why the script that may start vLLM is too complex to read, for people; then its words are unknown."""
    unnamed: bool = False
    """The text that was not read does not name vLLM: the only sign of vLLM is the GPU that the container requests."""
    survived: str | None = None
    """Why the container may serve although this command fails, for people; None: no sign of that."""
    then: tuple[Command, ...] = ()
    """The servers that the script starts one after another if this one, and each one before it, has failed."""
    repeated: bool = False
    """The image's entrypoint starts vLLM already, and the args start it once more: vLLM gets its own name as a word."""

    @property
    def serves(self) -> bool:
        """True if it answers HTTP: a joining worker and the batch runner do not."""
        return self.entry != "worker" and not self.program.replace("-", "_").endswith("run_batch")
