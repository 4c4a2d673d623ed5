"""The shell's builtins, as far as they change what vLLM gets."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from podfit.vllm.command import changes, condition, handed, python
from podfit.vllm.command.flow import Break, Exit, Return, Status
from podfit.vllm.command.tree import GiveUp
from podfit.vllm.command.word import Value, joined_list, known, literal, mystery, reason_of, text_of

if TYPE_CHECKING:
    from podfit.vllm.command.script import Shell


def _set(shell: Shell, argv: list[Value]) -> Status:
    for position, word in enumerate(argv):
        text = text_of(word)
        if text == "--":
            shell.state.positional = argv[position + 1 :]
            return "yes"
        if not text.startswith(("-", "+")):
            if position and text_of(argv[position - 1]).endswith("o"):
                on = text_of(argv[position - 1]).startswith("-")
                if text == "errexit":
                    shell.state.errexit = on
                elif text == "allexport":
                    shell.state.export_all(on)
                continue  # set -o pipefail
            shell.state.positional = argv[position:]
            return "yes"
        if "e" in text:
            shell.state.errexit = text.startswith("-")
        if "a" in text:
            shell.state.export_all(text.startswith("-"))
    return "yes"


def _shift(shell: Shell, argv: list[Value]) -> Status:
    count = known(argv[0]) if argv else "1"
    if count and re.fullmatch(r"[0-9]{1,6}", count):
        if int(count) > len(shell.state.positional):
            return "no"
        shell.state.positional = shell.state.positional[int(count) :]
    return "yes"


def assign_words(shell: Shell, argv: list[Value], *, exported: bool = True) -> Status:
    """`export A=b C`; an unknown word may set any variable (`export $(cat FILE)`)."""
    for word in argv:
        if word and word[0].unknown is not None:
            shell.state.forget_all(f"{text_of(word)} may export any variable")
            continue
        name, equals, value = text_of(word).partition("=")
        if not name.isidentifier():
            continue
        if exported:
            shell.state.exported.add(name)
        if equals:
            why = next((p.unknown for p in word if p.unknown is not None), None)
            shell.state.variables[name] = mystery(value, why) if why else literal(value)
    return "yes"


def _cd(shell: Shell, argv: list[Value]) -> Status:
    to = argv[-1] if argv else None
    shell.elsewhere = shell.elsewhere or python.went_elsewhere(known(to) if to is not None else None)
    return "likely"


def _eval(shell: Shell, argv: list[Value]) -> Status:
    status = _follow(shell, joined_list(argv))
    if any(reason_of(word) is not None for word in argv):
        shell.state.forget_all(f"eval {' '.join(map(text_of, argv))} may set any variable")
    return status


def _follow(shell: Shell, script: Value) -> Status:
    """Follow a script that the shell itself reads (`eval`, `source`)."""
    given, doubt = handed.to_itself(script), shell.doubt
    shell.state.variables.update(given.variables)
    shell.doubt = doubt or given.doubt
    try:
        with shell.deeper():
            return shell.block(shell.parse(given.text).children)
    finally:
        shell.doubt = doubt


_SETS_PATHS = re.compile(r"/bin/activate$|/(conda|mamba)\.sh$|/(nvm|sdkman-init|setvars|vars)\.sh$")
"""Files of known programs that set PATH and variables of their own."""


def _source(shell: Shell, argv: list[Value]) -> Status:
    path = known(argv[0]) if argv else None
    text = shell.contents(path) if path else None
    if text is None:
        shell.changes.add(changes.sourced(path))
        if path is None or not _SETS_PATHS.search(path):
            shell.state.forget_all(f"{path or 'a file'} may set any variable when it is sourced")
        return "likely"
    try:
        return _follow(shell, text)
    except Return:
        return "likely"


_TAKES = frozenset("dinNptu")
"""Options of `read` that take a value."""


def _read(shell: Shell, argv: list[Value]) -> Status:
    letters, names = "", [text_of(word) for word in argv]
    while names and re.fullmatch(r"-[a-zA-Z]+", names[0]):
        letters += names.pop(0)[1:]
        if letters[-1] in _TAKES and names:
            names.pop(0)
    separator = shell.state.variables.get("IFS")
    by = known(separator) if isinstance(separator, tuple) else " "
    stdin = known(shell.stdin) if shell.stdin is not None else None
    raw = stdin is not None and ("r" in letters or "\\" not in stdin)
    plain = raw and not set(letters) & _TAKES and all(map(str.isidentifier, names)) and by
    if plain and names and stdin is not None and by is not None:
        line = stdin.partition("\n")[0]
        words = line.split() if by.isspace() else line.removesuffix(by).split(by) if len(by) == 1 else None
        if words is not None and ("a" in letters or len(names) >= len(words) > 0):
            shell.spend(2 * len(words))
            found = [literal(word) for word in words]
            if "a" in letters:
                shell.state.variables[names[0]] = found
            else:
                shell.state.variables.update(zip(names, [*found, *[literal("")] * len(names)], strict=False))
            return "likely"
    if any(reason_of(word) is not None for word in argv):
        shell.state.forget_all("which variable is read is known when the script runs")
    for name in names:
        if name.isidentifier():
            shell.state.variables[name] = mystery(f"${name}", f"{name} is read when the script runs")
    return "maybe"


def _mapfile(shell: Shell, argv: list[Value]) -> Status:
    """`mapfile -t LINES < FILE`: the name comes last, after the options, some of which take a value."""
    names, takes = ["MAPFILE"], False
    for word in map(text_of, argv):
        if not takes and not word.startswith("-"):
            names = [word]
        takes = not takes and re.fullmatch(r"-\w*[dnOsuCc]", word) is not None
    return _read(shell, [literal(name) for name in names])


def _printf(shell: Shell, argv: list[Value]) -> Status:
    if len(argv) > 1 and text_of(argv[0]) == "-v":
        return _read(shell, argv[1:2])
    return "likely"


_SUM = re.compile(r"[\w\s=+*/%<>&|^~!?:,()-]{1,200}")


def _let(shell: Shell, argv: list[Value]) -> Status:
    """`let EXPRESSION`: plain arithmetic is evaluated; any other expression makes its variable unknown."""
    status: Status = "likely"
    for word in argv:
        text = known(word) or ""
        if _SUM.fullmatch(text):
            with shell.deeper():
                status = shell.block(shell.parse(f"(( {text} ))").children)
        else:
            _read(shell, [literal(re.split(r"\W", text_of(word))[0])])
    return status


def _exit(shell: Shell, argv: list[Value]) -> Status:
    raise Exit(failed=bool(argv) and re.fullmatch(r"0*[1-9]\d{0,2}", known(argv[0]) or "") is not None)


def _return(shell: Shell, argv: list[Value]) -> Status:
    if not argv:
        raise Return("likely")
    status = re.fullmatch(r"0*(\d{1,3})", known(argv[0]) or "")
    raise Return("maybe" if status is None else "no" if int(status[1]) % 256 else "yes")


def _break(shell: Shell, argv: list[Value]) -> Status:
    raise Break(_levels(argv))


def _continue(shell: Shell, argv: list[Value]) -> Status:
    raise Break(_levels(argv), goes_on=True)


def _levels(argv: list[Value]) -> int:
    """The number of loops that `break 2` ends."""
    count = known(argv[0]) if argv else None
    return int(count) if count and re.fullmatch(r"[1-9]\d{0,2}", count) else 1


_CHANGES_READING = frozenset({"failglob", "lastpipe", "nocasematch", "nullglob"})


def _shopt(shell: Shell, argv: list[Value]) -> Status:
    """`shopt`: its options change how the rest of a script is read."""
    texts = [text_of(word) for word in argv]
    if "-s" in texts[:1] and not _CHANGES_READING.isdisjoint(texts):
        raise GiveUp(f"shopt {' '.join(texts[:4])} changes what the rest means")
    return "likely"


def _trap(shell: Shell, argv: list[Value]) -> Status:
    """A trap runs at the end, or before each command (`DEBUG`)."""
    if any(text_of(word) == "DEBUG" for word in argv[1:]):
        raise GiveUp("a trap runs before each command")
    if argv and any(text_of(word) not in ("EXIT", "0") for word in argv[1:]):
        names = _ASSIGNED.findall(text_of(argv[0]))
        shell.state.forget(names, "a trap may assign it")
        shell.state.computed.update(names)
    return "likely"


_ASSIGNED = re.compile(r"(?:^|[\s;&|{(])([A-Za-z_]\w*)\+?=")
"""The variables that the text of a trap assigns."""


BUILTINS: Mapping[str, Callable[[Shell, list[Value]], Status]] = {
    ":": lambda shell, argv: "yes",
    "true": lambda shell, argv: "yes",
    "false": lambda shell, argv: "no",
    "[": lambda shell, argv: condition.builtin(shell, argv[:-1]),
    "test": condition.builtin,
    ".": _source,
    "source": _source,
    "eval": _eval,
    "cd": _cd,
    "set": _set,
    "shift": _shift,
    "export": assign_words,
    "read": _read,
    "mapfile": _mapfile,
    "readarray": _mapfile,
    "printf": _printf,
    "shopt": _shopt,
    "trap": _trap,
    "let": _let,
    "exit": _exit,
    "return": _return,
    "break": _break,
    "continue": _continue,
}
"""Builtin → the function that follows it."""
