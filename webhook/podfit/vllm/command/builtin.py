"""Builtins that change a shell's state. Those that fill variables when the script runs make them unknown."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from podfit.base.lazy import regex
from podfit.vllm.command.state import Exit, ShellState, Status
from podfit.vllm.command.tree import GiveUp
from podfit.vllm.command.word import Value, after, known, reason_of, text_of

_NAME = regex(r"[A-Za-z_]\w*")


def _set(state: ShellState, argv: list[Value]) -> Status:
    """`set -e`, `set -a`, `set -o NAME`, `set -- A B`; `+` switches an option off. Other options do not matter."""
    before = ""
    for position, word in enumerate(argv):
        text = text_of(word)
        if text == "--":
            state.positional = argv[position + 1 :]
            return "yes"
        is_option = text.startswith(("-", "+"))
        if not is_option and not before.endswith("o"):  # not the name in `set -o pipefail`, `set -euo pipefail`
            state.positional = argv[position:]
            return "yes"
        on = (text if is_option else before).startswith("-")
        if (is_option and "e" in text) or text == "errexit":
            state.errexit = on
        if (is_option and "a" in text) or text == "allexport":
            state.export_all(on)
        before = text
    return "yes"


def _shift(state: ShellState, argv: list[Value]) -> Status:
    """`shift` and `shift N`; fails if there are fewer parameters. An N that is not a number is ignored."""
    count = known(argv[0]) if argv else "1"
    if count is None or any(reason_of(pieces) is not None for pieces in state.positional):
        state.forget_positional("shift removes parameters that are not known")
    elif re.fullmatch(r"[0-9]{1,6}", count):
        if int(count) > len(state.positional):
            return "no"
        state.positional = state.positional[int(count) :]
    return "yes"


def export_words(state: ShellState, argv: list[Value], *, exported: bool = True) -> Status:
    """`export "A=b" C`; an unknown word may set any variable (`export $(cat FILE)`)."""
    for word in argv:
        if word and word[0].unknown is not None:
            state.forget_all(f"{text_of(word)} may export any variable")
            continue
        name, equals, _ = text_of(word).partition("=")
        if not name.isidentifier():
            continue
        if exported:
            state.exported.add(name)
        if equals:
            state.assign(name, after(word, len(name) + 1))
    return "yes"


def _fill(state: ShellState, argv: list[Value]) -> Status:
    """`read`, `mapfile`, `printf -v`, `let` and others: all variables that their words may name become unknown."""
    if any(reason_of(word) is not None for word in argv):
        state.forget_all("which variable is filled is known only when the script runs")
    names = [name for word in argv for name in _NAME.findall(text_of(word)[:_LONGEST])]
    state.forget([*names, "REPLY", "MAPFILE", "OPTARG", "OPTIND"], "its value is known only when the script runs")
    return "maybe"


_LONGEST = 1000
"""Characters of a word in which names of variables are looked for."""


def _printf(state: ShellState, argv: list[Value]) -> Status:
    """`printf -v NAME …` fills a variable; any other `printf` only prints."""
    if argv and text_of(argv[0]).startswith("-v"):
        _fill(state, argv[:2])
    return "likely"


_CHANGES_READING = frozenset({"expand_aliases", "failglob", "lastpipe", "nocasematch", "nullglob"})
"""Options of `shopt` that change how words are expanded or commands are run."""


def _shopt(shell_state: ShellState, argv: list[Value]) -> Status:
    """`shopt -s NAME`: raises GiveUp if the option changes how the rest of a script is read."""
    texts = [text_of(word) for word in argv]
    if "-s" in texts[:1] and not _CHANGES_READING.isdisjoint(texts):
        raise GiveUp(f"shopt {' '.join(texts[:4])} changes what the rest means")
    return "likely"


_ASSIGNED = regex(r"(?:^|[\s;&|{(])([A-Za-z_]\w*)\+?=")
"""The variables that the text of a trap assigns."""


def _trap(state: ShellState, argv: list[Value]) -> Status:
    """`trap COMMANDS SIGNAL …`: what they assign is unknown, except at the end; raises GiveUp for `DEBUG`."""
    if any(text_of(word) == "DEBUG" for word in argv[1:]):
        raise GiveUp("a trap runs before each command")
    if argv and any(text_of(word) not in ("EXIT", "0") for word in argv[1:]):
        names = _ASSIGNED.findall(text_of(argv[0]))
        state.forget(names, "a trap may assign it")
        state.computed.update(names)
    return "likely"


def _exit(shell_state: ShellState, argv: list[Value]) -> Status:
    """`exit N`: only a known N above 0 is a failure. Without N, the status is that of the last command."""
    status = known(argv[0]) if argv else None
    raise Exit(failed=re.fullmatch(r"0*[1-9]\d{0,2}", status or "") is not None)


BUILTINS: Mapping[str, Callable[[ShellState, list[Value]], Status]] = {
    ":": lambda state, argv: "yes",
    "true": lambda state, argv: "yes",
    "false": lambda state, argv: "no",
    "[": lambda state, argv: "maybe",
    "test": lambda state, argv: "maybe",
    "set": _set,
    "shift": _shift,
    "export": export_words,
    **dict.fromkeys(("read", "mapfile", "readarray", "getopts", "let"), _fill),
    "printf": _printf,
    "shopt": _shopt,
    "trap": _trap,
    "exit": _exit,
}
"""Builtin → the function that applies it."""
