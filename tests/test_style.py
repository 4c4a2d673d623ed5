"""The checker of words and sentence lengths: what it reports, and what it leaves alone."""

from __future__ import annotations

import re

import pytest

from scripts import style

LONG = "One " + "word " * 25 + "ends.\n"


def problems(path: str, source: str) -> list[str]:
    return [str(each) for each in style.check(path, source)]


@pytest.mark.parametrize(
    ("path", "source", "wanted"),
    [
        ("docs/a.md", "The rule\nis told twice.\n", "2: private word ('told'). Say: report, show or print"),
        ("docs/a.md", LONG, "1: sentence of 27 words"),
        ("docs/a.md", "- It is\n- a verdict.\n", "2: private word ('verdict')"),
        ("webhook/a.py", '"""Mend it."""\n', "1: private word ('Mend'). Say: fix"),
        ("webhook/a.py", "x = 1  # Nobody reads it\n", "1: private word ('Nobody')"),
        ("webhook/a.py", "x = f'{y} is no number, but a word'\n", "1: private word ('is no number')"),
        ("webhook/a.py", f"x = '{LONG.strip()}'\n", "1: sentence of 27 words"),
        ("webhook/a.py", f'"""{LONG}One {"more " * 30}."""\n', "1: sentence of 31 words"),
        ("docs/a.md", "Both ledgers.\n", "1: private word ('ledgers'). Say: memory table"),
        ("webhook/a.py", "x = f'it is another plane than {y}'\n", "1: private word ('plane')"),
        ("webhook/a.py", "x = 'the rule threatens the start'\n", "1: private word ('threatens')"),
        ("tests/a.py", "# The behaviour of it\n# is refused.\n", "1: private word ('behaviour'). Say: behavior"),
        (
            "webhook/a.py",
            'def f():\n    """What it reads."""\n',
            "2: docstring begins with 'What'. Say: a verb or a noun",
        ),
        ("webhook/a.py", 'X = 1\n"""The same in bytes."""\n', "2: docstring begins with 'The same'"),
        ("webhook/a.py", 'class C:\n    x: int\n    """Whether it fits."""\n', "3: docstring begins with 'Whether'"),
    ],
)
def test_reports(path: str, source: str, wanted: str) -> None:
    assert problems(path, source)[0].startswith(wanted)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("docs/a.md", "```sh\nmend\n```\nRun `mend` twice.\n"),
        ("docs/a.md", f"| nobody | shall |\n\n    {LONG}"),
        ("docs/a.md", "<!-- style off -->\nvLLM refuses it.\n<!-- style on -->\n"),
        ("docs/a.md", "There is no GPU: connection refused. See the model card and wildcards.\n"),
        ("docs/a.md", "[the page](https://example.com/nobody-shall)\n"),
        ("webhook/a.py", "x = 'vLLM refuses it, whoever asks'  # style: quoted\n"),
        ("webhook/a.py", "x = re.compile('nobody knows any of it')\n"),
        ("webhook/a.py", "x = 'verdict'\n"),
        ("webhook/a.py", "x = 'examples:\\n  podfit check deploy/    nobody stands beside it'\n"),
        ("webhook/a.py", '"""Reads.\n\nAs in:\n\n    an example\n      that nobody reads\n"""\n'),
        ("webhook/a.py", '"""Reads.\n\nAs in:\n\n    nobody: an example\n"""\n'),
        ("tests/a.py", "x = 'a manifest that nobody reads any more'\n"),
        ("tests/a.py", 'def f():\n    """What it reads."""\n'),
        ("webhook/a.py", '"""Whatever the file has.\n\nOf each line, the first word. The same for commands."""\n'),
        ("webhook/a.py", '"""A line of the ledger."""\n\nx = 1  # of this plane\n'),
        ("docs/a.md", "Every finding has a `plane`. The control plane runs.\n"),
    ],
)
def test_leaves_alone(path: str, source: str) -> None:
    assert problems(path, source) == []


def test_counts_words_in_backticks_as_one() -> None:
    assert problems("docs/a.md", f"Run `{LONG.strip()}` once.\n") == []


def test_pages_of_rules_have_the_words_of_users() -> None:
    for page in (style.ROOT / "docs" / "rules").glob("*.md"):
        prose = re.sub(r"`[^`]*`", "", page.read_text())
        assert not re.search(r"\b(?:planes?|threats?|ledgers?)\b", prose), page.name


def test_exits_with_1_for_a_finding(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(style, "check", lambda path, _: [style.Finding(1, path)] if path == "README.md" else [])
    assert style.main(["README.md"]) == 1
    assert capsys.readouterr().out == "README.md:1: README.md\n"
    assert style.main(["LICENSE"]) == 0
