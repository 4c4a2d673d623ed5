"""Programs that run a command line elsewhere: tmux, screen, GNU parallel → the command that they run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from podfit.vllm.command.word import Value, known, literal, mystery, text_of

Argv = Sequence[Value]

_OPENS = frozenset(
    {"new", "new-session", "neww", "new-window", "splitw", "split-window", "respawnp", "respawn-pane", "respawnw"}
)
_TYPES = frozenset({"send", "send-keys"})


def _tmux(argv: Argv) -> Argv | None:
    """`tmux new -d COMMAND`, `tmux send-keys COMMAND Enter` (tmux(1))."""
    at = next((n for n, word in enumerate(argv) if text_of(word) in _OPENS | _TYPES), len(argv))
    rest = _behind_options(argv[at + 1 :], "cefFlnNpstxy")
    alone = len(rest) == 1 or (at < len(argv) and text_of(argv[at]) in _TYPES)
    return _by_shell(rest[0]) if rest and alone else rest


def _screen(argv: Argv) -> Argv | None:
    """`screen -dmS NAME COMMAND` (screen(1))."""
    return _behind_options(argv[1:], "ceEhpSstT")


def _parallel(argv: Argv) -> Argv | None:
    """`parallel COMMAND ::: A B`: only the first of the commands that it runs (parallel(1))."""
    end = next((n for n, word in enumerate(argv) if text_of(word).startswith(":::")), len(argv))
    first = argv[end + 1] if end + 1 < len(argv) else mystery("", "parallel adds what it reads")
    words = _behind_options(argv[1:end], "aCdIjlLnNPSs")
    if not words:
        return _by_shell(first)
    if not any("{}" in text_of(word) for word in words):
        words = [*words, first]
    texts, value = [known(word) for word in words], known(first)
    if value is not None and all(text is not None for text in texts):
        return _by_shell(literal(" ".join(map(str, texts)).replace("{}", value), words[0][0].path))
    return [mystery(text_of(word), "parallel fills in {}") if "{}" in text_of(word) else word for word in words]


def _by_shell(text: Value) -> Argv:
    return [literal("sh"), literal("-c"), text]


def _behind_options(argv: Argv, takes: str) -> Argv:
    """The words after the options. Options that end with one of the letters in `takes` take a value."""
    index = 0
    while index < len(argv) and (option := text_of(argv[index])).startswith("-") and option != "-":
        valued = option[-1] in takes if option[1:2] != "-" else option in ("--jobs", "--max-procs", "--arg-file")
        index += 2 if valued else 1
    return argv[index:]


MULTIPLEXERS: Mapping[str, Callable[[Argv], Argv | None]] = {"tmux": _tmux, "screen": _screen, "parallel": _parallel}
"""Program → the function that returns the command it runs."""
