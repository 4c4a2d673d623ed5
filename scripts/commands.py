"""The pages in docs/commands/ and the man page docs/podfit.1, made of the command line's own parser.

Not argparse's printed help: that differs between Python versions, and a generated file has to be the same on each.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass

from podfit.cli import parser


@dataclass(frozen=True)
class Argument:
    """One option or operand."""

    name: str
    """ "-n, --namespace NAME", "FILE…"."""
    meaning: str


@dataclass(frozen=True)
class Command:
    """One command, and those below it."""

    name: str
    """ "podfit policy lint"."""
    title: str
    usage: tuple[str, ...]
    description: str
    arguments: tuple[Argument, ...]
    examples: tuple[str, ...]
    notes: str
    """The other text at the end of its help."""
    actions: tuple[Command, ...]


def commands() -> Iterator[Command]:
    """Every command, in the order of `podfit --help`."""
    yield from _below(parser(), "podfit")


def _below(top: argparse.ArgumentParser, name: str) -> Iterator[Command]:
    for action in top._actions:
        if isinstance(action, argparse._SubParsersAction):
            titles = {one.dest: one.help or "" for one in action._choices_actions}
            for word, one in action.choices.items():
                yield _command(one, f"{name} {word}", titles.get(word, ""))


def _command(one: argparse.ArgumentParser, name: str, title: str) -> Command:
    arguments = tuple(_argument(action) for action in one._actions if _is_told(action))
    examples, notes = _examples(one.epilog or "")
    actions = tuple(_below(one, name))
    usage = tuple(line.removeprefix("       ") for line in one.usage.split("\n")) if one.usage else (_usage(one, name),)
    description = " ".join((one.description or title).split()).rstrip(".")
    description = f"{description[:1].upper()}{description[1:]}{'' if description.endswith('?') else '.'}"
    return Command(name, title, usage, description, arguments, examples, notes, actions)


def _is_told(action: argparse.Action) -> bool:
    hidden = isinstance(action, argparse._SubParsersAction | argparse._HelpAction) or action.help == argparse.SUPPRESS
    everywhere = action.dest == "color"  # of every command: the index says it
    return not (hidden or everywhere)


def _usage(one: argparse.ArgumentParser, name: str) -> str:
    operands = [_operand(action) for action in one._actions if not action.option_strings and _is_told(action)]
    nested = ["ACTION …"] if any(isinstance(action, argparse._SubParsersAction) for action in one._actions) else []
    required = [
        f"{action.option_strings[-1]} {_metavar(action)}".strip()
        for action in one._actions
        if action.option_strings and action.required
    ]
    options = ["[OPTION …]"] if any(action.option_strings and _is_told(action) for action in one._actions) else []
    return " ".join([name, *required, *options, *nested, *operands])


def _operand(action: argparse.Action) -> str:
    many = action.nargs in ("*", "+", argparse.REMAINDER)
    shown = f"{_metavar(action)} …" if many and "…" not in _metavar(action) else _metavar(action)
    return f"[{shown}]" if action.nargs in ("*", "?") else shown


def _metavar(action: argparse.Action) -> str:
    if action.nargs == 0:
        return ""
    if action.metavar is not None:
        return action.metavar if isinstance(action.metavar, str) else " ".join(action.metavar)
    if action.choices is not None:
        return "|".join(map(str, action.choices))
    return action.dest.upper().replace("_", "-")


def _argument(action: argparse.Action) -> Argument:
    value = _metavar(action)
    name = f"{', '.join(action.option_strings)} {value}".strip() if action.option_strings else _operand(action)
    meaning = (action.help or "").replace("%(default)s", str(action.default)).replace("%%", "%")
    return Argument(name, " ".join(meaning.split()))


def _examples(epilog: str) -> tuple[tuple[str, ...], str]:
    """The lines that one types, and the others; a line of prose that ends in a colon announces what follows."""
    typed: list[str] = []
    said: list[str] = []
    for line in epilog.split("\n"):
        text = re.sub(r"^examples:\s*", "", line.strip())
        if text:
            (typed if re.search(r"\bpodfit [a-z]", text) and not text.endswith(":") else said).append(text)
    return tuple(typed), " ".join(said)


# ── docs/commands/ ───────────────────────────────────────────────────────────────────────────────────────────────────


def page(command: Command) -> str:
    """One command's Markdown."""
    out = [f"# {command.name}", "", *_section(command)]
    for action in command.actions:
        out += ["", f"## {action.name}", "", *_section(action)]
    return "\n".join(out) + "\n"


def _section(command: Command) -> list[str]:
    out = ["```", *command.usage, "```", "", command.description]
    if command.arguments:
        out += ["", "| argument | what |", "| --- | --- |"]
        out += [f"| `{_cell(one.name)}` | {_cell(one.meaning)} |" for one in command.arguments]
    if command.examples:
        out += ["", "```sh", *command.examples, "```"]
    if command.notes:
        out += ["", command.notes]
    return out


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;") if "`" in text else text.replace("|", "\\|")


def index() -> str:
    """docs/commands/README.md."""
    out = ["# Commands", "", "| command | what |", "| --- | --- |"]
    for one in commands():
        out.append(f"| [{one.name}]({one.name.split()[1]}.md) | {_cell(one.title)} |")
    out += [
        "",
        "Exit codes are the same for every command and format. 0: nothing denied (warnings allowed).",
        "1: something denied.",
        "2: wrong usage, an unknown name (command, model, GPU, policy, rule, release) or an invalid policy.",
        "3: unreadable input or an internal error.",
        "`man docs/podfit.1` has all of it; `podfit completion SHELL` prints what bash, zsh or fish",
        "complete; `kubectl podfit …` is the same program.",
        "",
        "Every command takes `--color auto|always|never`. With auto, the default, text on a terminal is colored;",
        "`NO_COLOR` turns colors off, `FORCE_COLOR` on. Lines on standard error begin with `error:`, `warning:` or",
        "`note:`.",
    ]
    return "\n".join(out) + "\n"


# ── docs/podfit.1 ────────────────────────────────────────────────────────────────────────────────────────────────────


def manual() -> str:
    """The man page (groff_man(7))."""
    out = [
        '.\\" Generated by `make docs`.',
        ".TH PODFIT 1",
        ".ad l",
        ".SH NAME",
        "podfit \\- will this vLLM Pod start, and will it stay up?",
        ".SH SYNOPSIS",
        ".B podfit",
        ".I COMMAND",
        "[\\fIOPTION\\fR ...]",
        ".SH DESCRIPTION",
        "Reads manifests of Pods that run vLLM, parses their command line as vLLM would, computes whether weights and",
        "KV cache fit the GPUs and whether host memory, /dev/shm and probes are adequate, and says what would fit.",
        ".SH COMMANDS",
    ]
    for command in commands():
        out += _manual(command)
        for action in command.actions:
            out += _manual(action)
    out += [
        ".SH EXIT STATUS",
        "0 clean (warnings allowed), 1 something denied, 2 usage, 3 unreadable input or an internal error; the same",
        "for every format.",
        ".SH ENVIRONMENT",
        ".TP",
        ".B NO_COLOR",
        "no colors, as --color never.",
        ".TP",
        ".B FORCE_COLOR",
        "colors also where there is no terminal, as --color always.",
        ".TP",
        ".B PODFIT_DEBUG",
        "an internal error is shown with its traceback.",
    ]
    return "\n".join(out) + "\n"


def _manual(command: Command) -> list[str]:
    out = [f".SS {_roff(command.name)}", *(line for one in command.usage for line in (_roff(one), ".br")), ".PP"]
    out.append(_roff(command.description))
    for one in command.arguments:
        out += [".TP", f".B {_roff(one.name)}", _roff(one.meaning) or "\\&"]
    if command.examples:
        out += [".PP", ".nf", ".RS", *map(_roff, command.examples), ".RE", ".fi"]
    if command.notes:
        out += [".PP", _roff(command.notes)]
    return out


def _roff(text: str) -> str:
    """Backslashes, hyphens and a line's first character mean something to roff."""
    plain = text.replace("\\", "\\e").replace("-", "\\-")
    plain = "".join(sign if sign.isascii() else f"\\[u{ord(sign):04X}]" for sign in plain)
    return f"\\&{plain}" if plain.startswith((".", "'")) else plain
