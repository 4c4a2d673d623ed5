"""`env -S STRING`: replace the string by the words that env makes of it (GNU coreutils 9.5, src/env.c).

busybox's env has no such option, and exits with an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from podfit.vllm.command.tree import GiveUp
from podfit.vllm.command.word import Piece, Value, after, literal, mystery, text_of

Argv = Sequence[Value]

_TIMES = 4
"""How many nested strings are split."""
_TAKE = "uCa"
"""Letters with a value: `--unset`, `--chdir`, `--argv0`."""
_LONG = ("--unset", "--chdir", "--argv0")
_SPLIT = "--split-string"

_ORDINARY = re.compile(r"[^\s'\"\\$#]+")
_NAME = re.compile(r"\{([A-Za-z_]\w*)\}")
_ESCAPES = {"_": " ", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"} | {char: char for char in "\"#$'\\"}


def split(argv: Argv, variables: Mapping[str, Value], spend: Callable[[int], None]) -> Argv:
    """The argv of an `env` command, with the words in its `-S` strings split. `variables`: those of the process that
    starts it; `spend` charges the work."""
    for _ in range(_TIMES):
        found = _string(argv)
        if found is None:
            return argv
        start, end, before, value = found
        spend(len(text_of(value)) // 2)
        words = _words(value, variables)
        if words is None:
            return argv
        argv = [*argv[:start], *before, *words, *argv[end:]]
    if _string(argv) is not None:
        raise GiveUp(f"its strings of env -S are more than {_TIMES} deep")
    return argv


def _string(argv: Argv) -> tuple[int, int, list[Value], Value] | None:
    """(start and end of the option with its string, the options written in one word with it, the string)."""
    index = 1
    while index < len(argv):
        word, text = argv[index], text_of(argv[index])
        if text == _SPLIT and index + 1 < len(argv):
            return index, index + 2, [], argv[index + 1]
        if text.startswith(f"{_SPLIT}="):
            return index, index + 1, [], after(word, len(_SPLIT) + 1)
        if not text.startswith("-") or text in ("-", "--"):
            return None  # the program, or a variable: options come before it
        at = next((n for n, letter in enumerate(text) if letter in f"S{_TAKE}"), 0) if text[1] != "-" else 0
        if at and text[at] == "S":
            before = [literal(text[:at], word[0].path)] if at > 1 else []
            if text[at + 1 :]:
                return index, index + 1, before, after(word, at + 1)
            return (index, index + 2, before, argv[index + 1]) if index + 1 < len(argv) else None
        index += 2 if text in _LONG or (at and not text[at + 1 :]) else 1
    return None


def _words(value: Value, variables: Mapping[str, Value]) -> list[Value] | None:
    """The words of a string; None if env rejects it. Its unknown parts are not split."""
    path = value[0].path
    words: list[Value] = []
    word: list[Piece] | None = None
    quote = ""

    def end() -> None:
        nonlocal word
        if word is not None:
            words.append(_joined(word))
        word = None

    for piece in value:
        if piece.unknown is not None:
            word = [] if word is None else word
            word.append(piece)
            continue
        text, at = piece.text, 0
        while at < len(text):
            char = text[at]
            run = _ORDINARY.match(text, at)
            at = run.end() if run else at + 1
            added: Value
            if run:
                added = literal(run[0], path)
            elif char in "'\"" and quote in ("", char):
                quote, added = "" if quote else char, ()
            elif char.isspace() and not quote:
                end()
                continue
            elif char == "#" and word is None:
                return words
            elif char == "\\" and (quote != "'" or text[at : at + 1] in ("\\", "'")):
                follower, at = text[at : at + 1], at + 1
                if follower == "c" and quote != '"':
                    end()
                    return words
                if follower == "_" and not quote:
                    end()
                    continue
                if follower not in _ESCAPES:
                    return None
                added = literal(_ESCAPES[follower], path)
            elif char == "$" and quote != "'":
                named = _NAME.match(text, at)
                if named is None:
                    return None
                at = named.end()
                missing = mystery(f"${named[0]}", f"{named[1]} is not set in the manifest", path)
                added = variables.get(named[1], missing)
            else:
                added = literal(char, path)
            word = [] if word is None else word
            word += added
    end()
    return None if quote else words


def _joined(pieces: list[Piece]) -> Value:
    """A word from pieces, with adjacent known pieces joined into one."""
    if pieces and all(piece.unknown is None for piece in pieces):
        return literal("".join([piece.text for piece in pieces]), pieces[0].path)
    return tuple(pieces) or literal("")
