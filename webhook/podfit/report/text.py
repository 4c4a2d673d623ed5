"""Text for people: the denial, the warnings, and what `podfit check` prints."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Literal, NamedTuple

from podfit.base.lazy import regex
from podfit.base.printable import clean, one_line
from podfit.base.secret import Secrets
from podfit.evaluation import subject
from podfit.evaluation.denial import (
    HEADINGS,
    LEVELS,
    MIN_REMEDY_WIDTH,
    SHOWN_ADVICE,
    THREATS,
    WIDTH,
    block,
    importance,
    many,
    more_advice,
    place,
    quoted_rules,
    wrapped,
)
from podfit.evaluation.lint import GradedFinding
from podfit.kube.workload.kserve_runtime import RUNTIMES
from podfit.report import answers
from podfit.report.checked import Accepted, Checked, CheckedContainer, Item
from podfit.report.repeated import merged
from podfit.rules import gpu_set
from podfit.rules.engine import Engine
from podfit.rules.rule import Heading
from podfit.vllm import model
from podfit.vllm.memory.ledger import IN_WORDS
from podfit.vllm.release import newer_than_read


def summary(engine: Engine, secrets: Secrets, *, why: bool = True) -> str:
    """One line about a container: model, GPU, release, whether it fits and `why`. For the CPU backend: where its
    memory is; for a Ray worker: what it joins with."""
    return secrets.line(_summary(engine, secrets, why=why))


def _summary(engine: Engine, secrets: Secrets, *, why: bool) -> str:
    """One line: model, GPUs, release and if GPU memory suffices; `why`: with the arithmetic."""
    fact = engine.leader.model if engine.leader else engine.model
    guessed = model.guess(fact) if fact else None
    named = engine.model.value.id if engine.model and not guessed else _written_model(engine, secrets)
    count = engine.requested[1] if engine.requested and engine.requested[1] else None
    gpu = engine.gpu.value.name if engine.gpu else "GPU unknown"
    release = f"vLLM {engine.release}" if engine.release else "vLLM release unknown"
    if engine.on_processors:
        return f"{named} on CPUs, {release}: weights and KV cache are the container's memory"
    if engine.workload.kind in RUNTIMES and engine.model is None:
        return f"a runtime template, {release}: {_users(engine)}"
    many = f"{count} × " if count and engine.gpu else ""
    if engine.command.entry == "worker":
        if engine.leader is None:
            return f"joins a Ray cluster with {many}{gpu}, {release}: the model is named where vLLM serves"
        named = f"joins {_written_model(engine.leader, secrets)}"
    condition = ", if it is {} ({})".format(*guessed) if guessed else ""
    arithmetic = (f": {reason(engine)}" if guessed else f" ({reason(engine)})") if why else ""
    return f"{named} on {many}{gpu}, {release}: GPU memory {verdict(engine)}{condition}{arithmetic}"


def _users(engine: Engine) -> str:
    """Who names the model of a runtime."""
    services = engine.facts.companions.services_of_runtime(engine.workload)
    if not services:
        return "an InferenceService names its model, and none in this input names this runtime"
    return f"its model is that of InferenceService {', '.join(services[:3])}{' …' if len(services) > 3 else ''}"


def _written_model(engine: Engine, secrets: Secrets) -> str:
    """The model as the command names it."""
    args = engine.args
    written = args.model or args.written.get("model", args.written.get("model_tag"))
    return secrets.masked(written, is_value=True) if isinstance(written, str) else "no model named"


def reason(engine: Engine) -> str:
    """The reason for the `verdict`: the arithmetic, or if it depends on the GPU those on which it fits."""
    where = gpu_set.sentence(engine) if engine.gpu is None or gpu_set.differs(engine) else None
    return where or "; ".join([engine.plan.why, *([engine.v0_reason] if engine.v0_reason else [])])


def verdict(engine: Engine) -> str:
    """The plan's decision in words; no denial where it is doubtful how large the weights are. The plan itself covers
    what is unknown of their storage."""
    covered = engine.model is not None and not engine.model.value.storage_known
    if engine.plan.verdict == "does-not-fit" and engine.weights_doubtful and not covered:
        return f"unsure: how large the weights are is {engine.weights_doubtful}"
    return IN_WORDS[engine.plan.verdict]


def standing(findings: Iterable[GradedFinding]) -> str:
    """A summary of one container's findings: "DENIED: vLLM would not start (shm-missing)", "likely to fail:
    memory-limit-too-low; advice: unknown-gpu", "no findings"."""
    by_heading: dict[Heading, list[GradedFinding]] = {heading: [] for heading in HEADINGS}
    for finding in findings:
        if finding.is_reported:
            by_heading[finding.heading].append(finding)
    if denied := by_heading["denied"]:
        threat = next(threat for threat in THREATS if any(graded.threatens == threat for graded in denied))
        return f"DENIED: {THREATS[threat]} ({', '.join(quoted_rules(*denied))})"
    texts = [
        f"{HEADINGS[heading]}: {', '.join(quoted_rules(*group))}" for heading, group in by_heading.items() if group
    ]
    return "; ".join(texts) or "no findings"


Paint = Callable[[str, str], str]
"""Text and what it is (a level, "rule", "place", "mark", "clean") → the text as the terminal shows it."""


def plain(text: str, _: str) -> str:
    """Return the text without colors: the `Paint` of files and pipes."""
    return text


_COLOURS = {
    "denied": "1;31",
    "would_deny": "1;31",
    "likely": "1;33",
    "advice": "33",
    "rule": "1",
    "place": "36",
    "mark": "1;31",
    "clean": "32",
    "file": "1;4",
}


def coloured(text: str, what: str) -> str:
    """Return the text in the ANSI color of `what`: the `Paint` of terminals."""
    return f"\x1b[{_COLOURS[what]}m{text}\x1b[0m" if text and what in _COLOURS else text


_HIGHLIGHTS = regex(
    r"^(?P<indent>\s*)(?:"
    r"(?P<level>denied if enforced|denied|likely to fail|advice)(?P<gap> {2,})(?P<rule>[a-z][a-z0-9-]+)"
    r"|(?P<bad>DENIED|DOES NOT FIT|WILL NOT START|newly denied)\b|(?P<good>FITS)\b|(?P<unsure>UNSURE|warning(?=:))"
    r"|(?P<label>cause|why|remedy|evidence|also|more)(?= {4,}\S))",
    re.MULTILINE,
)
DENIED_NOW = "DENIED NOW"
"""The mark in a comparison of a container that was allowed before."""
_GROUPS = {"bad": "denied", "good": "clean", "unsure": "likely", "label": "place"}


def highlighted(text: str) -> str:
    """Text of any command with its decisions, levels and rules in color."""
    levels = {words: heading for heading, words in HEADINGS.items()}

    def painted(match: re.Match[str]) -> str:
        """The matched text with its level and rule, or its label, in color."""
        if words := match["level"]:
            painted_words = f"{coloured(words, levels[words])}{match['gap']}{coloured(match['rule'], 'rule')}"
        else:
            group = match.lastgroup or "label"
            painted_words = coloured(match[group], _GROUPS[group])
        return match["indent"] + painted_words

    sentence = _HIGHLIGHTS.sub(painted, text)
    return sentence.replace(DENIED_NOW, coloured(DENIED_NOW, "denied"))


_DIFF = (("+++", "rule"), ("---", "rule"), ("@@", "place"), ("+", "clean"), ("-", "mark"))


def highlighted_diff(text: str) -> str:
    """A unified diff in color."""
    paints = ((line, next((what for sign, what in _DIFF if line.startswith(sign)), "")) for line in text.split("\n"))
    return "\n".join(coloured(line, what) if what else line for line, what in paints)


Detail = Literal["quiet", "normal", "all"]
"""Quiet: only what makes the run fail. All: every piece of advice, and accepted findings, each with its reason."""


def check(
    checked: Checked, paint: Paint = plain, width: int = WIDTH, detail: Detail = "normal", *, source: bool = False
) -> str:
    """The text of `podfit check`: each container's findings, a file after the other. `source`: each with its line of
    the file.

    `width`: of the terminal, in characters; narrower than LEAST or wider than WIDTH is not written.
    """
    width = readable(width)
    quiet = detail == "quiet"
    containers = merged(
        [container for container in checked.containers if not quiet or any(map(checked.fails, container.items))]
    )
    return "\n".join(_container(container, checked, paint, width, detail, source=source) for container in containers)


def readable(width: int) -> int:
    """Characters of a line of text on a terminal of this width: not too few, and not more than eyes follow."""
    return max(MIN_REMEDY_WIDTH, min(width, WIDTH))


def tally(checked: Checked) -> str:
    """The number of files, containers and findings in one line."""
    accepted = len(checked.items) - len(checked.open)
    counts = checked.headings
    words = {**HEADINGS, "denied": "denied today", "would_deny": "would be if enforced"}
    entries = words if counts["would_deny"] else LEVELS
    tallied = ", ".join(f"{counts[heading]} {words}" for heading, words in entries.items())
    parts = [
        f"{many(len(checked.files), 'file')}, {many(len(checked.containers), 'vLLM container')}; findings: {tallied}"
    ]
    parts += [f"{many(accepted, 'finding')} accepted"] if accepted else []
    if checked.skipped:
        reasons = ", ".join(f"{reason} {number}" for reason, number in checked.skipped.items())
        files = len({note.file for note in checked.skips})
        parts.append(f"{many(files, 'file')} skipped in whole or in part ({reasons})")
    parts += [many(len(checked.problems), "error")] if checked.problems else []
    return "; ".join(parts)


def closing(checked: Checked) -> list[str]:
    """The last lines: the counts, how many containers have an answer about GPU memory, releases that are newer than
    podfit's facts, and what to do next."""
    answered = answers.line(container.result.engine for container in checked.containers)
    return [tally(checked), *([answered] if answered else []), *answers.newer_releases(checked), *next_command(checked)]


def next_command(checked: Checked) -> list[str]:
    """The last line: `podfit fix` if it repairs anything, else the page of the first finding's rule, else the memory of
    what has no finding; none if nothing was checked."""
    if checked.fix:
        command = shlex.join(["podfit", "fix", *checked.fix])
        total = many(len(checked.open), "finding")
        return [f"next: {one_line(command)}    # a repair for {checked.repairable} of {total}"]
    first = min(checked.open, key=lambda item: importance(item.finding), default=None)
    if first is not None:
        return [f"next: podfit explain {first.finding.rule}"]
    files = [
        container.file
        for container in checked.containers
        if container.file not in checked.printed and not container.file.startswith("<")
    ]
    return [f"next: {one_line(shlex.join(['podfit', 'explain', files[0]]))}    # what uses the memory"] if files else []


def _container(
    container: CheckedContainer, checked: Checked, paint: Paint, width: int, detail: Detail, *, source: bool
) -> str:
    """The section of one container: its state, summary and findings."""
    quiet = detail == "quiet"
    chosen = chosen_of(
        (item for item in container.items if not item.accepted and (checked.fails(item) or not quiet)),
        all_advice=detail == "all" or quiet,
    )
    above = [item for item in container.repeated if checked.fails(item) or not quiet]
    findings = sorted([item.finding for item in (*chosen.items, *above)], key=importance)
    worst = findings[0].heading if findings else None
    painted = paint(HEADINGS[worst] if worst else "no findings", worst or "clean")
    name = one_line(f"{subject.describe_object(container.report.object)}, {place(container.result.engine)}")
    head = f"{paint(one_line(container.file), 'file')}: {name}"
    is_explained = any(finding.plane == "gpu" and finding.would == "deny" for finding in findings)
    engine = container.result.engine
    is_explained = is_explained or (
        any(finding.rule == "unknown-gpu" for finding in findings) and engine.gpu is None and engine.gpus is not None
    )
    about = summary(engine, container.report.secrets, why=not is_explained)
    lines = [f"{head}: {painted}", *wrapped(about, "  ", width=width)]
    for item in chosen.items:
        page = checked.page(item.finding.rule) if checked.docs else None
        lines += ["", *_finding_text(item, page, paint, width, source=source).split("\n")]
    lines += ["", f"{many(len(above), 'finding')} as in an earlier container of the object"] if above else []
    for rule, (heading, left) in chosen.more.items():
        lines += ["", f"{paint(HEADINGS[heading], heading)}  {paint(rule, 'rule')}  {left}"]
    lines += ["", f"{more_advice(chosen.advice_left)}: -v"] if chosen.advice_left else []
    accepted = [
        f"  accepted {item.finding.rule}: {one_line(_why(item.accepted))}"
        for item in container.items
        if item.accepted and not quiet and (detail == "all" or item.accepted.by != "baseline")
    ]
    lines += ["", *accepted]
    return "\n".join(line for index, line in enumerate(lines) if line or lines[index - 1]).rstrip() + "\n"


MANY = 20
"""Findings of one rule in one container that text and Markdown show."""


class Chosen(NamedTuple):
    """The findings of one container that text and Markdown show."""

    items: tuple[Item, ...]
    """By importance."""
    more: Mapping[str, tuple[Heading, str]]
    """Rule → heading of its findings that are left out, and how many there are, as text."""
    advice_left: int
    """How many pieces of advice are left out, too."""


def chosen_of(items: Iterable[Item], *, all_advice: bool) -> Chosen:
    """Return all findings that are denied, would be or are likely, and the first pieces of advice, or all of them.

    Of one rule with more than MANY findings under one heading, the first are shown and the rest is counted."""
    count: Counter[tuple[Heading, str]] = Counter()
    rows: list[Item] = []
    advice = 0
    for item in sorted(items, key=lambda item: importance(item.finding)):
        key = item.finding.heading, item.finding.rule
        advice += item.finding.heading == "advice"
        if item.finding.heading == "advice" and advice > SHOWN_ADVICE and not all_advice:
            continue
        count[key] += 1
        if count[key] <= MANY:
            rows.append(item)
    more = {
        rule: (heading, f"and {number - MANY:,} more; --format json has all")
        for (heading, rule), number in count.items()
        if number > MANY
    }
    return Chosen(tuple(rows), more, 0 if all_advice else max(0, advice - SHOWN_ADVICE))


def _why(accepted: Accepted | None) -> str:
    return f"{accepted.by}: {accepted.reason}" if accepted else ""


def _finding_text(item: Item, page: str | None, paint: Paint, width: int, *, source: bool) -> str:
    """One finding with its place or its snippet, colored."""
    words, rule = HEADINGS[item.finding.heading], item.finding.rule
    head, _, rest = block(item.finding, f"{words}  ", width).partition("\n")
    head = head.replace(f"{words}  {rule}", f"{paint(words, item.finding.heading)}  {paint(rule, 'rule')}", 1)
    at = [f"  at {paint(f'{one_line(item.file)}:{item.mark.line}:{item.mark.column}', 'place')}"]
    also = wrapped(f"also in {places(item)}", "  ", width=width) if item.more_marks else []
    lines = [head, *((source and _snippet(item, paint, width)) or at), *also, *(rest.split("\n") if rest else [])]
    lines += wrapped(f"not denied: {why}", "  ", width=width) if (why := why_not_denied(item)) else []
    lines += [f"  see {one_line(page)}"] if page else []
    return "\n".join(lines)


def why_not_denied(item: Item) -> str | None:
    """The reason why a finding of a rule that denies is not denied. None without one, for a finding that is only not
    certain, and for a release that was not read, which the report says once."""
    why = item.finding.why_softened
    is_usual = why is None or why.endswith(", not certain") or why == newer_than_read(item.result.engine.release)
    return None if is_usual or item.finding.mode != "warn" else why


def places(item: Item) -> str:
    """The lines of the same finding in later containers: "lines 64, 99"."""
    numbers = list(dict.fromkeys(mark.line for mark in item.more_marks))
    more = f" and {len(numbers) - MANY:,} more" if len(numbers) > MANY else ""
    return f"{'line' if len(numbers) == 1 else 'lines'} {', '.join(map(str, numbers[:MANY]))}{more}"


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
    text = line[cut : cut + room] + ("…" if len(line) > cut + room else "")
    length = min(max(end - start, 1), max(min(room, len(text)) - (start - cut), 1))
    number = str(mark.line)
    gutter = " " * len(number)
    return [
        f"  {gutter} {paint('┌', 'place')} {paint(f'{one_line(item.file)}:{mark.line}:{mark.column}', 'place')}",
        f"  {paint(number, 'place')} {paint('│', 'place')} {'…' if cut and line[:cut].strip() else ''}{text}".rstrip(),
        f"  {gutter} {paint('│', 'place')} {' ' * (start - cut + (1 if cut and line[:cut].strip() else 0))}"
        f"{paint('^' * length, 'mark')}",
    ]
