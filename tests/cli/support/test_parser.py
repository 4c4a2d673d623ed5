"""Mistakes on the command line: one line, with what was probably meant; and `--color`."""

from __future__ import annotations

import io
import re

import pytest

from podfit.cli import main
from podfit.cli.support import terminal

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["chek", "x"], "unknown command 'chek'. Did you mean check?"),
        (["xyzzy"], "unknown command 'xyzzy'. Allowed: check, fix, "),
        (["policy", "shwo"], "unknown action 'shwo'. Did you mean show?"),
        (["check", "--polcy", "strict", "x"], "unrecognized arguments: --polcy. Did you mean --policy?"),
        (["check", "--polcy=strict", "x"], "unrecognized arguments: --polcy=strict. Did you mean --policy?"),
        (["policy", "show", "--formt"], "unrecognized arguments: --formt\n"),
        (["plan", "--format", "jsn", "x"], "--format: 'jsn' is not one of text, json, markdown. Did you mean json?"),
    ],
)
def test_a_mistake_is_told_with_what_was_meant(capsys: Capture, argv: list[str], said: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(argv)

    err = capsys.readouterr().err
    assert ended.value.code == 2
    assert err.startswith(f"error: {said}")
    assert re.search(r"\nnote: podfit .*--help shows the usage\n$", err)


def test_an_unknown_argument_shows_no_secret(capsys: Capture) -> None:
    with pytest.raises(SystemExit):
        main(["check", "--api-key=topsecret-0123456789", "x"])

    assert "topsecret" not in capsys.readouterr().err


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("choice", "variables", "on_terminal", "piped"),
    [
        ("auto", {}, True, False),
        ("auto", {"TERM": "dumb"}, False, False),
        ("auto", {"NO_COLOR": "1"}, False, False),
        ("auto", {"NO_COLOR": "", "FORCE_COLOR": ""}, True, False),
        ("auto", {"FORCE_COLOR": "1"}, True, True),
        ("auto", {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False, False),
        ("always", {"NO_COLOR": "1"}, True, True),
        ("never", {"FORCE_COLOR": "1"}, False, False),
    ],
)
def test_when_text_is_colored(
    monkeypatch: pytest.MonkeyPatch, choice: str, variables: dict[str, str], on_terminal: bool, piped: bool
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    before = terminal.CHOICE.set(choice)
    try:
        assert terminal.colors(_Terminal()) is on_terminal
        assert terminal.colors(io.StringIO()) is piped
    finally:
        terminal.CHOICE.reset(before)


@pytest.mark.parametrize("argv", [["--color", "always", "check"], ["check", "--color", "always"]])
def test_color_is_taken_before_and_after_the_command(capsys: Capture, argv: list[str]) -> None:
    assert main([*argv, "examples/good.yaml"]) == 0
    assert "\x1b[" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("error: one two three four", ["error: one two", "    three four"]),
        ("  a b c d e f g h i j k", ["  a b c d e f g", "      h i j k"]),
        ("  name   12 GiB   3 GiB   of all", ["  name   12 GiB   3 GiB   of all"]),
        ("averyveryverylongwordofmanyletters", ["averyveryverylongwordofmanyletters"]),
        ("short", ["short"]),
    ],
)
def test_a_line_is_broken_between_words_and_a_row_of_a_table_is_not(
    monkeypatch: pytest.MonkeyPatch, line: str, shown: list[str]
) -> None:
    monkeypatch.setattr(terminal, "LEAST", 10)

    assert terminal.wrapped(line, 15) == "\n".join(shown)


def test_standard_error_is_colored_by_its_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    before = terminal.CHOICE.set("always")
    try:
        assert terminal.message("error: x") == "\x1b[1;31merror:\x1b[0m x"
        assert terminal.message("pod.yaml: x") == "pod.yaml: x"
    finally:
        terminal.CHOICE.reset(before)


@pytest.mark.parametrize(
    "argv",
    [
        ["check", "examples/llama-8b-on-a-t4.yaml"],
        ["fix", "examples/qwen-7b-killed-by-its-probe.yaml"],
        ["explain", "examples/llama-8b-on-a-t4.yaml"],
        ["diff", "examples/good.yaml", "examples/llama-8b-on-a-t4.yaml"],
        ["diagnose", "tests/diagnose/no-gpu.txt"],
        ["plan", "--gpu", "l4", "--", "vllm", "serve", "Qwen/Qwen3-14B"],
        ["policy", "diff", "default", "strict", "--on", "examples/llama-8b-on-a-t4.yaml"],
    ],
    ids=lambda argv: argv[0],
)
def test_each_command_is_colored_and_says_the_same_without(capsys: Capture, argv: list[str]) -> None:
    main([*argv[:1], "--color", "always", *argv[1:]])
    colored = capsys.readouterr().out
    main([*argv[:1], "--color", "never", *argv[1:]])
    plain = capsys.readouterr().out

    assert "\x1b[" in colored
    assert re.sub(r"\x1b\[[\d;]*m", "", colored) == plain
