"""The texts of a decision: the denial, its problems, and the warnings that kubectl prints.

A denial: the first line can be read alone, because Argo CD, Flux and Events show only it. Then each problem with rule,
field, arithmetic, and the changes that would fit. The last line says what to do next, because it stays on the screen
after kubectl's output of a patch. Status code 403, reason `Forbidden`, one `details.causes` entry per finding. Warnings
are one line each, the most important first. The limits are in `bounds`; `tests/test_answers.py` checks every rule.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple, Protocol

from podfit.base.lazy import regex
from podfit.base.printable import one_line
from podfit.evaluation import bounds, subject
from podfit.evaluation.lint import GradedFinding, Report
from podfit.kube.workload import controller_of
from podfit.rules.engine import Engine
from podfit.rules.rule import IGNORE, Heading, Level
from podfit.vllm.release import newer_than_read

PLANES = {
    "gpu": "GPU memory",
    "host": "host memory",
    "config": "configuration",
    "network": "network",
    "storage": "storage",
    "cluster": "cluster",
}


MIN_REMEDY_WIDTH, WIDTH = 60, 100
"""Characters of a line of text for people: the least on a narrow terminal, and the default."""


_UNIT = regex(r"(?<=\d) (?=(?:[KMGT]i?B|B|s|%)\b|%)| (?=·$)")
"""The spaces at which no line ends: between a number and its unit, and before the "·" after a suggestion."""


REFUSAL_HEADLINE_LENGTH = 200
"""Characters of a denial that Argo CD, Flux and Events show without folding it."""


THREATS = {
    "start": "vLLM would not start",
    "uptime": "vLLM would not stay up",
    "practice": "the policy does not allow this",
}
"""`Rule.threatens` in words, the worst first."""


def place(engine: Engine) -> str:
    """'container "vllm"', 'template "serve", container "main"'."""
    template = f'template "{subject.printable_name(engine.workload.template)}", ' if engine.workload.template else ""
    return f'{template}container "{subject.printable_name(engine.container.name)}"'


def refusal_headline(report: Report) -> str:
    """The denial's first line, which stands alone in Events and GitOps tools: at most 200 characters.

    It names rules of the worst threat alone: one about practice (unknown-gpu) does not say why vLLM would not start.
    """
    denied: list[tuple[str, Problem]] = []
    for result in report.results:
        denied += [(result.engine.container.name, finding) for finding in result.findings if finding.mode == "deny"]
    return _headline(denied, _whose(report))


class Problem(Protocol):
    """A finding, as far as a headline needs it."""

    @property
    def rule(self) -> str:
        """The id of the rule that found the problem."""

    @property
    def threatens(self) -> str:
        """A key of THREATS."""


def headline(problems: Sequence[tuple[str, Problem]], kind: str, name: str) -> str:
    """The first line of a denial, for `problems` of a scan (container and finding) and the object's kind and name."""
    return _headline(problems, f"{_short(kind, MAX_KIND_LENGTH)} {_short(name, MAX_NAME_LENGTH)}")


MAX_KIND_LENGTH, MAX_NAME_LENGTH, MAX_CONTAINER_LENGTH = 24, 64, 24
"""Characters of a kind, of "namespace/name" and of a container in a headline. A choice: with the threat, the number of
problems and two rules, they fit into REFUSAL_HEADLINE_LENGTH."""
MAX_OWNED_NAME_LENGTH, MAX_OWNER_KIND_LENGTH, MAX_OWNER_NAME_LENGTH = 32, 16, 24
"""Characters of "namespace/name" of an object that a controller made, and of the controller's kind and name."""
HEADLINE_RULES, HEADLINE_CONTAINERS = 2, 1
"""Rules and containers that a headline names."""


def _headline(problems: Sequence[tuple[str, Problem]], whose: str) -> str:
    """One line: the worst threat, the number of problems, rules, containers; without the rules if it is too long.
    `problems`: at least one, each with its container; `whose`: the object, for people."""
    threats = {problem.threatens for _, problem in problems}
    worst = next(threat for threat in THREATS if threat in threats)
    containers = list(dict.fromkeys(f'"{_short(container, MAX_CONTAINER_LENGTH)}"' for container, _ in problems))
    all_rules = quoted_rules(*(problem for _, problem in problems))
    worst_rules = quoted_rules(*(problem for _, problem in problems if problem.threatens == worst))
    rules = _few(worst_rules, HEADLINE_RULES, len(all_rules))
    where = f"in container{'s' if len(containers) > 1 else ''} {_few(containers, HEADLINE_CONTAINERS)} of {whose}"
    start = f"{THREATS[worst]}: {many(len(problems), 'problem')}"
    line = one_line(f"{start} ({rules}) {where}")
    return line if len(line) <= REFUSAL_HEADLINE_LENGTH else one_line(f"{start} {where}")


def _whose(report: Report) -> str:
    """The object, and the controller that made it: an Event about a Pod is all that a Deployment's author sees. Each
    name is cut so that both fit into REFUSAL_HEADLINE_LENGTH with the problem."""
    kind, _, name = subject.describe_object(report.object).partition(" ")
    owner = controller_of(report.object)
    short_kind = _short(kind, MAX_KIND_LENGTH)
    if owner is None:
        return f"{short_kind} {_short(name, MAX_NAME_LENGTH)}"
    owner_kind = _short(str(owner.get("kind")), MAX_OWNER_KIND_LENGTH)
    owner_name = _short(str(owner.get("name")), MAX_OWNER_NAME_LENGTH)
    return f"{short_kind} {_short(name, MAX_OWNED_NAME_LENGTH)} of {owner_kind} {owner_name}"


def _short(text: str, length: int) -> str:
    """The text if it has at most `length` characters; else its beginning, "…" and its end, with at most as many."""
    half = (length - 1) // 2
    return text if len(text) <= length else f"{text[:half]}…{text[-half:]}"


def _few(words: list[str], count: int, total: int | None = None) -> str:
    """The first `count` words, separated by commas, and how many more there are of `total` (None: of all words)."""
    more = (len(words) if total is None else total) - len(words[:count])
    return ", ".join(words[:count]) + (f" and {more} more" if more > 0 else "")


def quoted_rules(*problems: Problem) -> list[str]:
    """Return the ids of the problems' rules, each once, in the order of the problems."""
    return list(dict.fromkeys(problem.rule for problem in problems))


def refusal(report: Report) -> str:
    """The whole message of a denial: what `kubectl apply` shows after `denied the request:`.

    The first line stands alone; the last one, what to do next, stays on screen after kubectl's dump of a patch.
    """
    denied = denials(report)
    then = bounds.join_bounded(
        [f"podfit explain {rule}" for rule in quoted_rules(*denied)], bounds.MAX_LAST_LINE_BYTES, " · "
    )
    return bounds.message(refusal_headline(report), map(block, denied), len(denied), f"next: {then}")


FEW_PROBLEMS = 3
"""Findings of one rule that a message shows before findings of other rules."""


def denials(report: Report) -> list[GradedFinding]:
    """Return all findings that deny: by threat, and within one the first FEW_PROBLEMS of each rule before the rest."""
    count: Counter[str] = Counter()
    ranked = []
    for finding in report.findings:
        if finding.mode == "deny":
            count[finding.rule] += 1
            ranked.append(((_THREAT_ORDER[finding.threatens], count[finding.rule] > FEW_PROBLEMS), finding))
    return [graded for _, graded in sorted(ranked, key=itemgetter(0))]


def block(finding: GradedFinding, mark: str = "", width: int = WIDTH) -> str:
    """One finding: rule, field, plane; the arithmetic; what would fit."""
    head = f"{mark}{finding.rule}  {finding.path}"
    plane = f"[{PLANES[finding.plane]}]"
    lines = [f"{head:<{width - len(plane) - 2}}  {plane}"]
    for text in (finding.finding.message, *finding.finding.details):
        lines += wrapped(text, "  ", width=width)
    lines += _suggestions(finding, width)
    return "\n".join(lines)


def lead(finding: GradedFinding) -> str:
    """The text before a finding's suggestions, each of which is enough by itself; "fits" is said only where the
    planner computed it."""
    computed = finding.unmasked.computed
    if len(finding.sure_suggestions) == 1:
        return "this fits" if computed else "change"
    return f"any one of these{' fits' if computed else ''}"


def advice(finding: GradedFinding) -> list[str]:
    """A finding's suggestions as lines: one in its line, several as a list of which one is enough; empty without."""
    if len(finding.suggestions) < 2:
        return [f"{lead(finding)}: {suggestion}" for suggestion in finding.suggestions]
    return [f"{lead(finding)}:", *(f"- {suggestion}" for suggestion in finding.suggestions)]


def _suggestions(finding: GradedFinding, width: int) -> list[str]:
    """The suggestions as wrapped lines."""
    return [
        *_suggestion_lines(lead(finding), finding.sure_suggestions, width),
        *_suggestion_lines("probably fits", finding.probable_suggestions, width),
    ]


def _suggestion_lines(lead: str, suggestions: Sequence[str], width: int) -> list[str]:
    """The suggestions as wrapped lines, one paragraph each, with the lead before the first."""
    if len(suggestions) < 2:
        return wrapped(f"{lead}: {suggestions[0]}", "  ", "    ", width) if suggestions else []
    first = f"  {lead}:  "
    out = []
    for index, text in enumerate(suggestions):
        end = " ·" if index < len(suggestions) - 1 else ""
        out += wrapped(text + end, first if index == 0 else " " * len(first), " " * len(first), width)
    return out


def wrapped(text: str, first: str, rest: str | None = None, width: int = WIDTH, *, cut: bool = False) -> list[str]:
    """The text in lines of at most `width` characters, none of which ends between a number and its unit. `first` and
    `rest` are the indents (default of `rest`: `first`). A word that is wider has its own line; `cut`: is broken."""
    rest = first if rest is None else rest
    has_plain_spaces = text == text.strip() != "" and text.isprintable() and "  " not in text
    if has_plain_spaces and not cut:
        return _broken(text, first, rest, width)
    lines = textwrap.wrap(
        _UNIT.sub("\N{NO-BREAK SPACE}", text),
        width,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=cut,
        break_on_hyphens=False,
    )
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]


def _broken(text: str, first: str, rest: str, width: int) -> list[str]:
    """Return `wrapped` of a text with single spaces alone, as most are: textwrap takes fifteen times as long for it."""
    lines, indent, start = [], first, 0
    breakable = _UNIT.sub("\N{NO-BREAK SPACE}", text) if len(first) + len(text) > width else text
    while True:
        room = width - len(indent)
        if start + room >= len(text):  # the rest fits
            break
        end = breakable.rfind(" ", start, start + max(0, room + 1))  # the last space that still leaves the line narrow
        if end < 0:
            end = breakable.find(" ", start)  # a single word is wider
        if end < 0:
            break
        lines.append(indent + text[start:end])
        start, indent = end + 1, rest
    return [*lines, indent + text[start:]]


def warnings(report: Report) -> list[str]:
    """The warnings of a decision: notes on what podfit has not read, one line per finding that warns, by importance,
    and one per rule that failed. Of the advice, which comes last, only the first SHOWN_ADVICE."""
    warned = sorted((finding for finding in report.findings if finding.mode == "warn"), key=importance)
    serious = sum(finding.level != "advice" for finding in warned)  # they come first
    printed = warned[: serious + SHOWN_ADVICE]
    notes: list[str | None] = [report.unread]
    if warned:
        notes += dict.fromkeys(newer_than_read(result.engine.release) for result in report.results)
    lines = [bounds.warning(f"podfit: {note}") for note in notes if note]
    lines += [warning(finding, _in_vain(finding)) for finding in printed]
    if len(printed) < len(warned):
        lines.append(
            bounds.warning(f"podfit: {more_advice(len(warned) - len(printed))} (podfit check shows all with -v)")
        )
    for error in report.errors:
        type_name = error.error.partition(":")[0]
        lines.append(bounds.warning(f"podfit: {error.rule} could not be checked ({type_name}); allowed"))
    return bounds.warnings(lines)


_THREAT_ORDER = {threat: number for number, threat in enumerate(THREATS)}


LEVELS: Mapping[Level, str] = {"denied": "denied", "likely": "likely to fail", "advice": "advice"}
"""The levels in words, the most important first."""
HEADINGS: Mapping[Heading, str] = {
    "denied": LEVELS["denied"], "would_deny": "denied if enforced", "likely": LEVELS["likely"],
    "advice": LEVELS["advice"],
}  # fmt: skip
"""The headings in words, the most important first."""


_SURE = {"certain": 0, "likely": 1, "possible": 2}
"""Certainty of a finding → its rank in a list."""


class Weight(NamedTuple):
    """A key that sorts warnings, the most important first."""

    is_not_softened: bool
    """Softened ones would deny, so they come first."""
    threat: int
    """The index in THREATS."""
    certainty: int
    """0 for a certain finding, 1 for a likely, 2 for a possible one."""


class Importance(NamedTuple):
    """A key that sorts findings in a list for people, the most important first."""

    heading: int
    """The index in HEADINGS."""
    is_not_about_memory: bool
    weight: Weight
    place: tuple[tuple[bool, int | str], ...]
    """Its field, with indices before keys, which Python can't compare with each other."""


def weight(finding: GradedFinding) -> Weight:
    """The weight of a finding, by which warnings are sorted."""
    return Weight(not finding.is_softened, _THREAT_ORDER[finding.threatens], _SURE[finding.certainty])


def importance(finding: GradedFinding) -> Importance:
    """The position of a finding in a list for people: by heading, memory before the rest, by weight, by path."""
    heading = list(HEADINGS).index(finding.heading)
    place = tuple((isinstance(part, str), part) for part in finding.field_path.parts)
    return Importance(heading, finding.plane not in ("gpu", "host"), weight(finding), place)


SHOWN_ADVICE = 3
"""Pieces of advice of one container that people are shown without being asked."""


def more_advice(left: int) -> str:
    """ "and 4 pieces of advice"."""
    return f"and {left} {'piece' if left == 1 else 'pieces'} of advice"


MAX_LEADING_CHANGE_LENGTH = 96
"""Characters of a warning up to which it begins with the change: some of the problem must be left."""


def warning(finding: GradedFinding, after: str = "") -> str:
    """One finding as a warning: with its place if that fits into the line. If the problem alone does not fit either, a
    short change comes first. `after`: a note that must stay on the line; then the problem is cut."""
    line = one_line(f"podfit {finding.rule}: {finding.message}")
    placed = f"{line} ({one_line(finding.path)}){after}"
    if bounds.warning(placed) == placed:
        return placed
    if after or bounds.warning(line) == line:
        return bounds.warning(line, after)
    suggestions = (*finding.sure_suggestions, *finding.probable_suggestions)
    change = one_line(f"podfit {finding.rule}: change: {suggestions[0]}") if suggestions else ""
    if not change or len(change) > MAX_LEADING_CHANGE_LENGTH:
        return bounds.warning(line)
    return bounds.warning(one_line(f"{change}: {finding.message}"))


def _in_vain(finding: GradedFinding) -> str:
    """A note that the author's annotation has no effect, and why; empty if the author has none for the rule."""
    for note in finding.notes:
        if note.startswith(f"annotation {IGNORE}"):
            _name, _, problem = note.removeprefix("annotation ").partition(" ")  # "NAME does not count: …"
            return f"; its annotation {problem}"
    return ""


def many(count: int, what: str) -> str:
    """ "1 file", "2 files"."""
    return f"{count} {what}{'' if count == 1 else 's'}"
