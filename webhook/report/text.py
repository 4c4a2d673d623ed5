"""Text for people: the refusal, the warnings, and what `podfit check` prints."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable
from operator import itemgetter

from webhook.base.printable import clean, one_line
from webhook.base.secret import Secrets
from webhook.evaluation import subject
from webhook.evaluation.lint import Judged, Report
from webhook.kube.workload import controller_of
from webhook.report import bounds
from webhook.report.checked import Accepted, Checked, Container, Item
from webhook.rules.engine import Engine
from webhook.rules.rule import IGNORE, Finding
from webhook.vllm.memory.ledger import IN_WORDS
from webhook.vllm.model.name import BEGINS

PLANES = {
    "gpu": "GPU memory",
    "host": "host memory",
    "config": "configuration",
    "network": "network",
    "storage": "storage",
    "cluster": "cluster",
}
LEAST, WIDTH = 60, 100
_UNIT = re.compile(r"(?<=\d) (?=(?:[KMGT]i?B|B|s|%)\b|%)| (?=·$)")
"""The space between a number and its unit, and before what parts two suggestions, where no line ends."""
REFUSAL_HEADLINE_LENGTH = 200
"""What Argo CD, Flux and Events show of a refusal without folding it."""

_THREATS = {
    "start": "vLLM would not start",
    "uptime": "vLLM would not stay up",
    "practice": "the policy does not allow this",
}


def place(engine: Engine) -> str:
    """'container "vllm"', 'template "serve", container "main"'."""
    template = f'template "{subject.shown(engine.workload.template)}", ' if engine.workload.template else ""
    return f'{template}container "{subject.shown(engine.container.name)}"'


def refusal_headline(report: Report) -> str:
    """The refusal's first line, which stands alone in Events and GitOps tools: at most HEADLINE characters."""
    denied = [(result, judged) for result in report.results for judged in result.findings if judged.mode == "deny"]
    threat = next(threat for threat in _THREATS if any(judged.threatens == threat for _, judged in denied))
    containers = list(dict.fromkeys(f'"{_short(result.engine.container.name, 24)}"' for result, _ in denied))
    rules = _few(_rules(*(judged for _, judged in denied)), 2)
    where = f"in container{'s' if len(containers) > 1 else ''} {_few(containers, 1)} of {_whose(report)}"
    start = f"{_THREATS[threat]}: {many(len(denied), 'problem')}"
    line = one_line(f"{start} ({rules}) {where}")
    return line if len(line) <= REFUSAL_HEADLINE_LENGTH else one_line(f"{start} {where}")


def _whose(report: Report) -> str:
    """The object, and the controller that made it: an Event about a Pod is all that a Deployment's author sees."""
    kind, _, name = subject.describe_object(report.object).partition(" ")
    owner = controller_of(report.object)
    own = f"{_short(kind, 24)} {_short(name, 64 if owner is None else 32)}"
    if owner is None:
        return own
    return f"{own} of {_short(str(owner.get('kind')), 16)} {_short(str(owner.get('name')), 24)}"


def _short(text: str, length: int) -> str:
    """At most so many characters, the beginning and the end of longer ones."""
    half = (length - 1) // 2
    return text if len(text) <= length else f"{text[:half]}…{text[-half:]}"


def _few(words: list[str], count: int) -> str:
    more = len(words) - count
    return ", ".join(words[:count]) + (f" and {more} more" if more > 0 else "")


def _rules(*denied: Judged) -> list[str]:
    return list(dict.fromkeys(judged.rule for judged in denied))


def refusal(report: Report) -> str:
    """The whole message of a denial: what `kubectl apply` shows after `denied the request:`.

    The first line stands alone; the last one, what to do next, stays on screen after kubectl's dump of a patch.
    """
    denied = denials(report)
    then = bounds.listed([f"podfit explain {rule}" for rule in _rules(*denied)], bounds.LAST, " · ")
    return bounds.message(refusal_headline(report), map(block, denied), len(denied), f"next: {then}")


FEW = 3
"""Findings of one rule that a message shows before findings of other rules."""


def denials(report: Report) -> list[Judged]:
    """Return the findings that deny, the most important first: by threat, and the first few of each rule."""
    count: Counter[str] = Counter()
    ranked = []
    for judged in report.findings:
        if judged.mode == "deny":
            count[judged.rule] += 1
            ranked.append(((_THREATENS[judged.threatens], count[judged.rule] > FEW), judged))
    return [judged for _, judged in sorted(ranked, key=itemgetter(0))]


def block(judged: Judged, mark: str = "", width: int = WIDTH) -> str:
    """One finding: rule, field, plane; the arithmetic; what would fit."""
    head = f"{mark}{judged.rule}  {judged.path}"
    plane = f"[{PLANES[judged.plane]}]"
    lines = [f"{head:<{width - len(plane) - 2}}  {plane}"]
    for text in (judged.finding.message, *judged.finding.details):
        lines += wrapped(text, "  ", width=width)
    lines += _suggestions(judged, width)
    return "\n".join(lines)


def lead(finding: Finding) -> str:
    """What stands before a finding's suggestions, each of which is enough by itself; "fits" is said only where the
    planner computed it."""
    if len(finding.suggestions) == 1:
        return "this fits" if finding.computed else "change"
    return f"any one of these{' fits' if finding.computed else ''}"


def advice(finding: Finding) -> list[str]:
    """A finding's suggestions as lines: one in its line, several as a list of which one is enough."""
    if len(finding.suggestions) < 2:
        return [f"{lead(finding)}: {one}" for one in finding.suggestions]
    return [f"{lead(finding)}:", *(f"- {one}" for one in finding.suggestions)]


def _suggestions(judged: Judged, width: int) -> list[str]:
    suggestions = judged.finding.suggestions
    if not suggestions:
        return []
    if len(suggestions) == 1:
        return wrapped(f"{lead(judged.finding)}: {suggestions[0]}", "  ", "    ", width)
    first = f"  {lead(judged.finding)}:  "
    out = []
    for index, text in enumerate(suggestions):
        end = " ·" if index < len(suggestions) - 1 else ""
        out += wrapped(text + end, first if index == 0 else " " * len(first), " " * len(first), width)
    return out


def wrapped(text: str, first: str, rest: str | None = None, width: int = WIDTH, *, cut: bool = False) -> list[str]:
    """The text in lines of at most `width` characters, none of which ends between a number and its unit; `cut`: nor is
    wider where a single word is."""
    rest = first if rest is None else rest
    if text == text.strip() != "" and text.isprintable() and "  " not in text and not cut:
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
    """The same of a text without white space to mend, as most are: textwrap takes fifteen times as long for it."""
    lines, indent, start = [], first, 0
    unbroken = _UNIT.sub("\N{NO-BREAK SPACE}", text) if len(first) + len(text) > width else text
    while start + (room := width - len(indent)) < len(text):
        end = unbroken.rfind(" ", start, start + max(0, room + 1))
        end = unbroken.find(" ", start) if end < 0 else end  # a single word is wider
        if end < 0:
            break
        lines.append(indent + text[start:end])
        start, indent = end + 1, rest
    return [*lines, indent + text[start:]]


def warnings(report: Report) -> list[str]:
    """One line a finding that warns, the most important first: what only its certainty or its place keeps from being
    a refusal, then what keeps vLLM from starting; then what is surest."""
    warned = [judged for judged in report.findings if judged.mode == "warn"]
    lines = [warning(judged, _in_vain(judged)) for judged in sorted(warned, key=_weight)]
    lines += [
        bounds.warning(f"podfit: {error.rule} could not be checked ({error.error.partition(':')[0]}); allowed")
        for error in report.errors
    ]
    return bounds.warnings([bounds.warning(f"podfit: {report.unread}"), *lines] if report.unread else lines)


_THREATENS = {threat: number for number, threat in enumerate(_THREATS)}
_SURE = {"certain": 0, "likely": 1, "possible": 2}


def _weight(judged: Judged) -> tuple[bool, int, int]:
    """Where a finding stands among the warnings."""
    return (judged.why_softened is None, _THREATENS[judged.threatens], _SURE[judged.finding.certainty])


def warning(judged: Judged, after: str = "") -> str:
    """One finding as a warning: with its place where that fits into the line."""
    line = one_line(f"podfit {judged.rule}: {judged.finding.message}")
    placed = f"{line} ({one_line(judged.path)}){after}"
    return placed if bounds.warning(placed) == placed else bounds.warning(line, after)


def _in_vain(judged: Judged) -> str:
    """That its author's annotation does not count, and why."""
    for detail in judged.finding.details:
        if detail.startswith(f"annotation {IGNORE}"):
            return f"; its annotation {detail.partition(' ')[2].partition(' ')[2]}"
    return ""


def summary(engine: Engine, secrets: Secrets) -> str:
    """One line about a container: model, GPU, release, verdict; of the CPU backend, where its memory is; of a Ray
    worker, what it joins with."""
    return secrets.line(_summary(engine))


def _summary(engine: Engine) -> str:
    model = engine.model.value.id if engine.model else (engine.args.model or "no model named")
    begins = engine.model.source.partition(BEGINS)[2] if engine.model else ""
    model += f" (a guess: its name begins with {begins})" if begins else ""
    count = engine.requested[1] if engine.requested and engine.requested[1] else None
    gpu = engine.gpu.value.name if engine.gpu else "GPU unknown"
    release = f"vLLM {engine.release}" if engine.release else "vLLM release unknown"
    if engine.on_processors:
        return f"{model} on CPUs, {release}: weights and KV cache are the container's memory"
    many = f"{count} × " if count and engine.gpu else ""
    if engine.command.entry == "worker":
        return f"joins a Ray cluster with {many}{gpu}, {release}: the model is named where vLLM serves"
    return f"{model} on {many}{gpu}, {release}: GPU memory {verdict(engine)} ({engine.plan.why})"


def verdict(engine: Engine) -> str:
    """The plan's verdict in words; no refusal where it is doubtful how the weights are stored."""
    if engine.plan.verdict == "does-not-fit" and engine.weights_doubtful:
        return f"unsure: how large the weights are is {engine.weights_doubtful}"
    return IN_WORDS[engine.plan.verdict]


def standing(findings: Iterable[Judged]) -> str:
    """What the findings of one container come to: "DENIED: shm-missing", "allowed, with warnings: unknown-gpu"."""
    by_mode = {mode: [judged for judged in findings if judged.mode == mode] for mode in ("deny", "warn")}
    if denied := by_mode["deny"]:
        threat = next(threat for threat in _THREATS if any(judged.threatens == threat for judged in denied))
        return f"DENIED: {_THREATS[threat]} ({', '.join(_rules(*denied))})"
    if warned := by_mode["warn"]:
        return f"allowed, with warnings: {', '.join(_rules(*warned))}"
    return "allowed"


Paint = Callable[[str, str], str]
"""Text and what it is ("deny", "warn", "rule", "place", "mark", "clean") → the text as the terminal shows it."""


def plain(text: str, _: str) -> str:
    """No colours."""
    return text


_COLOURS = {"deny": "1;31", "warn": "1;33", "rule": "1", "place": "36", "mark": "1;31", "clean": "32", "file": "1;4"}


def coloured(text: str, what: str) -> str:
    """ANSI colours."""
    return f"\x1b[{_COLOURS[what]}m{text}\x1b[0m" if text and what in _COLOURS else text


def check(checked: Checked, paint: Paint = plain, width: int = WIDTH) -> str:
    """What `podfit check` prints for people: each container's findings with their lines, a file after the other.

    `width`: of the terminal, in characters; narrower than LEAST or wider than WIDTH is not written.
    """
    width = max(LEAST, min(width, WIDTH))
    return "\n".join(_container(one, paint, width) for one in checked.containers)


def tally(checked: Checked) -> str:
    """The last line."""
    accepted = len(checked.items) - len(checked.open)
    parts = [
        f"{many(len(checked.files), 'file')}, {many(len(checked.containers), 'vLLM container')}: "
        f"{checked.count('denied')} denied, {checked.count('warned')} with warnings, {checked.count('clean')} clean"
    ]
    parts += [f"{many(accepted, 'finding')} accepted"] if accepted else []
    parts += [many(len(checked.problems), "error")] if checked.problems else []
    return "; ".join(parts)


def many(count: int, what: str) -> str:
    """ "1 file", "2 files"."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def _container(one: Container, paint: Paint, width: int) -> str:
    state = {"denied": "DENIED", "warned": "allowed", "clean": "allowed"}[one.state]
    painted = paint(state, {"denied": "deny", "warned": "warn", "clean": "clean"}[one.state])
    name = clean(f"{subject.describe_object(one.report.object)}, {place(one.result.engine)}")
    head = f"{paint(clean(one.file), 'file')}: {name}"
    lines = [f"{head}: {painted}", *wrapped(summary(one.result.engine, one.report.secrets), "  ", width=width)]
    for mode in ("deny", "warn"):
        told, more = few_of_each(item for item in one.items if item.judged.mode == mode and not item.accepted)
        shown = [_shown(item, mode, paint, width) for item in told]
        shown += [f"{paint(mode, mode)}  {paint(rule, 'rule')}  {left}" for rule, left in more.items()]
        lines += ["", *("\n\n".join(shown).split("\n") if shown else [])]
    accepted = [
        f"  accepted {item.judged.rule}: {one_line(_why(item.accepted))}" for item in one.items if item.accepted
    ]
    lines += ["", *accepted]
    return "\n".join(line for index, line in enumerate(lines) if line or lines[index - 1]).rstrip() + "\n"


MANY = 20
"""Findings of one rule in one container that text and Markdown show."""


def few_of_each(items: Iterable[Item]) -> tuple[list[Item], dict[str, str]]:
    """Return the first findings of each rule, and for each rule with more how many there are."""
    count: Counter[str] = Counter()
    shown = []
    for item in items:
        count[item.judged.rule] += 1
        if count[item.judged.rule] <= MANY:
            shown.append(item)
    more = {rule: f"and {number - MANY:,} more; --format json has all" for rule, number in count.items()}
    return shown, {rule: left for rule, left in more.items() if count[rule] > MANY}


def _why(accepted: Accepted | None) -> str:
    return f"{accepted.by}: {accepted.reason}" if accepted else ""


def _shown(item: Item, mode: str, paint: Paint, width: int) -> str:
    head, _, rest = block(item.judged, f"{mode}  ", width).partition("\n")
    rule = item.judged.rule
    head = head.replace(f"{mode}  {rule}", f"{paint(mode, mode)}  {paint(rule, 'rule')}", 1)
    lines = [head, *_snippet(item, paint, width), *(rest.split("\n") if rest else [])]
    why = item.judged.why_softened
    if why and mode == "warn" and not why.endswith(", not certain"):
        lines += wrapped(f"not denied: {why}", "  ", width=width)
    return "\n".join(lines)


def _snippet(item: Item, paint: Paint, width: int) -> list[str]:
    """The line of the file with what is meant underlined."""
    mark, line = item.mark, clean(item.source.replace("\t", " "))
    if not line.strip():
        return []
    start, end = mark.column - 1, mark.end_column - 1 if mark.end_line == mark.line else len(line)
    cut = max(0, min(len(line) - len(line.lstrip()), start) - 4)
    if start - cut > width // 2:
        cut = start - width // 4
    room = width - 12
    shown = line[cut : cut + room] + ("…" if len(line) > cut + room else "")
    length = min(max(end - start, 1), max(min(room, len(shown)) - (start - cut), 1))
    number = str(mark.line)
    gutter = " " * len(number)
    return [
        f"  {gutter} {paint('┌', 'place')} {paint(f'{clean(item.file)}:{mark.line}:{mark.column}', 'place')}",
        f"  {paint(number, 'place')} {paint('│', 'place')} {'…' if cut and line[:cut].strip() else ''}{shown}".rstrip(),
        f"  {gutter} {paint('│', 'place')} {' ' * (start - cut + (1 if cut and line[:cut].strip() else 0))}"
        f"{paint('^' * length, 'mark')}",
    ]
