"""Check words and sentence lengths in docs, messages, help texts, docstrings and comments, and how docstrings begin.

    python -m scripts.style [PATH…]

Prints `file:line: problem (quoted). Say: …` per finding, and exits with 1 if there is one. Without PATH it checks all
Markdown and Python files that git tracks. `--count` prints the number of findings per package.

The word list is `scripts/Words.yml`.
Quoted text of another program is exempt: put `# style: quoted` on one of its lines in Python, and the text between
`<!-- style off -->` and `<!-- style on -->` in Markdown. Text in backticks is never checked.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

ROOT = Path(__file__).parent.parent
WORDS = ROOT / "scripts" / "Words.yml"
SENTENCE_WORDS = 25
"""The longest sentence in docs and messages."""
COMMENT_WORDS = 30
"""The longest sentence of a docstring or a comment."""
PROSE_WORDS = 4
"""A string literal with fewer words is a name or a value, not a message."""
QUOTED = "# style: quoted"
CLAUSE = re.compile(r"\s*(What|Which|Whether|The same|Of)\b")
"""The beginnings of a docstring that is a clause, or that can only be read after another docstring."""
EXCEPT = re.compile(r"^(?:webhook/podfit/data/|docs/rules/)")
"""Data and generated pages."""


@dataclass(frozen=True)
class Text:
    """One paragraph of prose and its first line."""

    line: int
    text: str
    limit: int

    @property
    def is_read_by_users(self) -> bool:
        """It is of a page or a message, and not of a docstring or a comment."""
        return self.limit == SENTENCE_WORDS


@dataclass(frozen=True)
class Finding:
    """One problem at one line."""

    line: int
    problem: str

    def __str__(self) -> str:
        return f"{self.line}: {self.problem}"


@cache
def words(*, is_read_by_users: bool) -> Sequence[tuple[re.Pattern[str], str]]:
    """Pattern and suggestion of each entry of Words.yml; those of `users` only for what users read."""
    entries = yaml.safe_load(WORDS.read_text("utf-8"))
    of_users = entries.pop("users")
    if is_read_by_users:
        entries |= of_users
    return [(re.compile(rf"\b(?:{old})\b", re.IGNORECASE), new) for old, new in entries.items()]


def findings(text: Text) -> Iterator[Finding]:
    """The words of the list and the long sentences of one paragraph."""
    prose = re.sub(r"(`+).+?\1", "`x`", text.text, flags=re.DOTALL)
    for pattern, better in words(is_read_by_users=text.is_read_by_users):
        for found in pattern.finditer(prose):
            line = text.line + prose[: found.start()].count("\n")
            yield Finding(line, f"private word ({' '.join(found[0].split())!r}). Say: {better}")
    for sentence in re.split(r"(?<=[.!?])[\"')]?\s+(?=[\"'(`*]*(?:[A-Z0-9`]|vLLM|podfit|kubectl))", prose):
        count = sum(bool(re.search(r"\w", word)) for word in sentence.split())
        if count > text.limit:
            start = " ".join(sentence.split()[:6])
            yield Finding(text.line, f"sentence of {count} words ({start!r} …). Say: at most {text.limit} words each")


def of_markdown(source: str) -> Iterator[Text]:
    """The paragraphs and list items of Markdown, without code, tables, headers of a page and exempt text."""
    source = re.sub(r"\A---\n.*?\n---\n", _blank, source, flags=re.DOTALL)
    source = re.sub(r"^( *)(```|~~~).*?^\1\2 *$", _blank, source, flags=re.DOTALL | re.MULTILINE)
    source = re.sub(r"<!-- style off -->.*?(?:<!-- style on -->|\Z)", _blank, source, flags=re.DOTALL)
    source = re.sub(r"<!--.*?-->", _blank, source, flags=re.DOTALL)
    source = re.sub(r"\]\([^)\s]*\)", "]", source)
    yield from paragraphs(source, 1, SENTENCE_WORDS)


def paragraphs(source: str, line: int, limit: int) -> Iterator[Text]:
    """Splits at empty lines, list items, headings and tables; skips tables and indented code."""
    held: list[str] = []
    start = line
    for number, each in enumerate([*source.split("\n"), ""], line):
        breaks = not each.strip() or re.match(r"\s*(?:[-*+]\s|\d+\.\s|#|\||>|!!!|\?\?\?)", each)
        if breaks and held:
            yield Text(start, "\n".join(held), limit)
            held = []
        if not each.strip() or re.match(r"\s*\|", each) or (not held and re.match(r" {4,}\S", each)):
            continue
        if not held:
            start = number
        held.append(re.sub(r"^\s*(?:[-*+]|\d+\.|#+|>)\s", "", each))


def of_python(source: str, *, messages: bool = True) -> Iterator[Text]:
    """Docstrings, comments, and the string literals that are prose."""
    lines = source.splitlines()
    tree = ast.parse(source)
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            skipped.add(id(node.value))
            if not _exempt(node, lines):
                yield from paragraphs(inspect.cleandoc(node.value.value), node.lineno, COMMENT_WORDS)
        elif isinstance(node, ast.JoinedStr | ast.Call):
            # A literal inside an f-string belongs to it; a regular expression is not prose.
            if isinstance(node, ast.JoinedStr) or _is_pattern(node):
                skipped |= {id(part) for part in ast.walk(node) if isinstance(part, ast.Constant)}
            if isinstance(node, ast.JoinedStr) and messages and not _exempt(node, lines):
                text = "".join(str(part.value) if isinstance(part, ast.Constant) else "`x`" for part in node.values)
                yield from _message(text, node.lineno)
        elif isinstance(node, ast.Constant) and id(node) not in skipped and messages and not _exempt(node, lines):
            yield from _message(node.value if isinstance(node.value, str) else "", node.lineno)
    yield from _comments(source)


def _message(text: str, line: int) -> Iterator[Text]:
    """A literal is prose if it has a few words of letters, and neither a pattern's nor a manifest's signs. The examples
    and the usage of a command's help are not prose."""
    text = re.sub(r"(?m)^(?:examples:|(?:usage:)?\s*(?:podfit|kubectl)\s.*|\s{8,}.*)$", "", text)
    count = len(re.findall(r"(?<!\S)[A-Za-z`][A-Za-z'’`-]*[,.:;]?(?!\S)", text))
    if count >= PROSE_WORDS and not re.search(r"\(\?|\\[bsdwS]|^\s*(?:apiVersion|<|def |import )", text):
        yield from (Text(line, each.text, each.limit) for each in paragraphs(text, line, SENTENCE_WORDS))


def _comments(source: str) -> Iterator[Text]:
    """Comments on consecutive lines are one paragraph."""
    held: list[tuple[int, str]] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT or token.string.startswith((QUOTED, "#!", "# type:", "# noqa")):
            continue
        number, alone = token.start[0], token.line.lstrip().startswith("#")
        if held and (not alone or number != held[-1][0] + 1):
            yield Text(held[0][0], "\n".join(text for _, text in held), COMMENT_WORDS)
            held = []
        held.append((number, token.string.lstrip("#: ")))
    if held:
        yield Text(held[0][0], "\n".join(text for _, text in held), COMMENT_WORDS)


def _is_pattern(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name) and node.func.value.id == "re"


def _exempt(node: ast.expr | ast.stmt, lines: Sequence[str]) -> bool:
    return any(QUOTED in line for line in lines[node.lineno - 1 : node.end_lineno])


def _blank(found: re.Match[str]) -> str:
    return "\n" * found[0].count("\n")


def check(path: str, source: str) -> list[Finding]:
    """All findings of one file, by line."""
    ours = path.startswith("webhook/")
    texts = of_markdown(source) if path.endswith(".md") else of_python(source, messages=ours)
    problems = {each for text in texts for each in findings(text)}
    problems |= {*clauses(source)} if ours and path.endswith(".py") else set()
    return sorted(problems, key=lambda each: (each.line, each.problem))


def clauses(source: str) -> Iterator[Finding]:
    """The docstrings that begin with a clause instead of a verb or a noun, also those of fields and constants."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Constant):
            continue
        if opening := CLAUSE.match(str(node.value.value)):
            yield Finding(node.lineno, f"docstring begins with {opening[1]!r}. Say: a verb or a noun phrase")


def files(paths: Iterable[str]) -> list[str]:
    """Markdown and Python files that git tracks, below the paths."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *paths],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    return [path for path in listed if path.endswith((".py", ".md")) and not EXCEPT.match(path)]


def package(path: str) -> str:
    """What --count counts by: webhook/podfit/rules, docs, scripts."""
    return "/".join(path.split("/")[: 3 if path.startswith("webhook/") else 1])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.style", description="Check words and sentence lengths.")
    parser.add_argument("path", nargs="*", help="files or folders; default: the repository")
    parser.add_argument("--count", action="store_true", help="print the number of findings per package")
    options = parser.parse_args(arguments)
    found = [(path, each) for path in files(options.path) for each in check(path, (ROOT / path).read_text("utf-8"))]
    if options.count:
        for name, count in sorted(Counter(package(path) for path, _ in found).items()):
            print(f"{count:6} {name}")
    else:
        for path, each in found:
            print(f"{path}:{each}")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
