"""Mistakes on the command line: one line, with what was probably meant; and `--color`."""

from __future__ import annotations

import io
import re

import pytest

from webhook.cli import main
from webhook.cli.support import terminal

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
