"""The findings of a text as diagnostics, hovers, code actions and code lenses."""

from __future__ import annotations

import difflib
import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate

from lsprotocol import types
from pygls.workspace import PositionCodec, ServerTextPosition, ServerTextRange

from podfit.evaluation import denial
from podfit.evaluation.lint import Report, Result
from podfit.kube.manifest.part import Mark
from podfit.lsp.document import CheckedText
from podfit.report import explained, text
from podfit.report.checked import RULE_PAGES, CheckedContainer, Item
from podfit.report.explained import markdown
from podfit.rules import gpu_set
from podfit.rules.rule import Level

SOURCE = "podfit"
SEVERITIES: dict[Level, types.DiagnosticSeverity] = {
    "denied": types.DiagnosticSeverity.Error,
    "likely": types.DiagnosticSeverity.Warning,
    "advice": types.DiagnosticSeverity.Information,
}


_LINE = re.compile(r"[^\r\n]*(?:\r\n|[\r\n])|[^\r\n]+")
"""A line of an editor (the protocol's EOL). YAML, as `str.splitlines`, also ends one at U+0085, U+2028 and U+2029."""


class Places:
    """Marks of a text, which count characters and YAML's lines, as positions of an editor, which mostly count UTF-16
    units, and have lines of their own."""

    def __init__(self, text: str, codec: PositionCodec) -> None:
        self.lines: list[str] = _LINE.findall(text)
        self.codec = codec
        self._starts = [0, *accumulate(map(len, self.lines))]
        self._starts_of_marks = [0, *accumulate(map(len, text.splitlines(keepends=True)))]

    def range(self, mark: Mark) -> types.Range:
        """The range of a mark; at most to the end of the text."""
        start = self._position(mark.line, mark.column - 1)
        return self.codec.range_to_client_units(
            self.lines, ServerTextRange(start, self._position(mark.end_line, mark.end_column - 1))
        )

    def line(self, number: int) -> int:
        """The editor's line, from 0, at which a line of a mark, from 1, begins."""
        return self._position(number, 0).line

    def lines_of(self, first: int, last: int) -> types.Range:
        """Whole lines, from 0, without the one at `last`."""
        return types.Range(types.Position(first, 0), types.Position(last, 0))

    def _position(self, line: int, column: int) -> ServerTextPosition:
        offset = self._starts_of_marks[min(line, len(self._starts_of_marks)) - 1] + column
        at = bisect_right(self._starts, offset) - 1
        return ServerTextPosition(at, offset - self._starts[at])


def diagnostics(checked: CheckedText, places: Places) -> list[types.Diagnostic]:
    """The diagnostics of a text: its findings, its problems in their lines, and in the first line those of the
    settings."""
    items = [diagnostic(item, places) for item in checked.items]
    for problem in checked.checked_file.problems:
        line = places.line(problem.line or 1)
        items.append(
            types.Diagnostic(
                places.lines_of(line, line + 1), problem.message, types.DiagnosticSeverity.Error, source=SOURCE
            )
        )
    for text_of_settings, severity in (
        (checked.settings.problem, types.DiagnosticSeverity.Error),
        (checked.settings.note, types.DiagnosticSeverity.Information),
    ):
        if text_of_settings:
            items.append(types.Diagnostic(places.lines_of(0, 1), text_of_settings, severity, source=SOURCE))
    return items


def not_checked(characters: int, limit: int) -> types.Diagnostic:
    """A note on a text that is too long to be checked, in place of its findings."""
    start = types.Range(types.Position(0, 0), types.Position(1, 0))
    message = f"not checked: {characters:,} characters, more than {limit:,}. `podfit check FILE` checks it"
    return types.Diagnostic(start, message, types.DiagnosticSeverity.Information, source=SOURCE)


def diagnostic(item: Item, places: Places) -> types.Diagnostic:
    """One finding at its place."""
    finding = item.finding.finding
    lines = (finding.message, *finding.details, *denial.advice(item.finding))
    return types.Diagnostic(
        range=places.range(item.mark),
        message="\n".join(lines),
        severity=SEVERITIES[item.finding.level],
        code=item.finding.rule,
        code_description=types.CodeDescription(RULE_PAGES.format(rule=item.finding.rule)),
        source=SOURCE,
    )


def actions(checked: CheckedText, places: Places, uri: str, selection: types.Range) -> list[types.CodeAction]:
    """The code actions that repair the findings in a range; a change that repairs several of them once."""
    entries: dict[str, types.CodeAction] = {}
    for item in checked.items:
        if not _meets(places.range(item.mark), selection):
            continue
        for repair in checked.repairs_of(item):
            if repair.text in entries:
                entries[repair.text].diagnostics = [*(entries[repair.text].diagnostics or ()), diagnostic(item, places)]
                continue
            entries[repair.text] = types.CodeAction(
                title=repair.title,
                kind=types.CodeActionKind.QuickFix,
                diagnostics=[diagnostic(item, places)],
                is_preferred=repair.is_preferred,
                edit=types.WorkspaceEdit(changes={uri: list(_changes(repair.text, places))}),
            )
    return list(entries.values())


def _meets(first: types.Range, other: types.Range) -> bool:
    return first.start.line <= other.end.line and other.start.line <= first.end.line


def _changes(after: str, places: Places) -> Iterator[types.TextEdit]:
    """The lines that differ from those of the places."""
    old, new = places.lines, _LINE.findall(after)
    for kind, first, last, start, end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind != "equal":
            yield types.TextEdit(places.lines_of(first, last), "".join(new[start:end]))


def hover(checked: CheckedText, places: Places, position: types.Position) -> types.Hover | None:
    """The memory of the container whose command is there."""
    for container in checked.checked_file.containers:
        if place := _command(container, places, position):
            sentence = markdown.memory(explained.explain(container.report, container.result))
            return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, sentence), place)
    return None


def _command(container: CheckedContainer, places: Places, position: types.Position) -> types.Range | None:
    """The range of the container's arguments or command, if the position is within."""
    for field in ("args", "command"):
        mark = container.document.value_at(container.result.engine.container.path / field)
        if mark is not None:
            place = places.range(mark)
            if place.start.line <= position.line <= place.end.line:
                return place
    return None


def lenses(checked: CheckedText, places: Places) -> list[types.CodeLens]:
    """One line above each container that runs vLLM: whether it fits, and how many requests."""
    items = []
    for container in checked.checked_file.containers:
        line = places.line(container.document.line_of(container.result.engine.container.path))
        title = _lens(container.report, container.result)
        items.append(types.CodeLens(places.lines_of(line, line), types.Command(title, "")))
    return items


def _lens(report: Report, result: Result) -> str:
    """The text above a container's arguments: GPU memory, requests at once and the GPU."""
    engine = result.engine
    ledger = engine.plan.gpu
    gpu = f" on {gpu_set.planned_name(engine)}" if engine.gpu else ""
    requests = (
        f": {ledger.max_concurrency:.1f} requests of {ledger.max_model_len:,} tokens"
        if ledger is not None and ledger.max_concurrency is not None and ledger.max_model_len
        else ""
    )
    return report.secrets.line(f"{text.verdict(engine)}{requests}{gpu}")
