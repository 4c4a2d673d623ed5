"""Text for people: the denial, the warnings, and what `podfit check` prints."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

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
from podfit.report.checked import Checked, CheckedContainer, Item
from podfit.report.paint import Paint, plain
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
    """One line: model, GPUs, release and if GPU memory suffices, not masked; `why`: with the arithmetic."""
    fact = engine.leader.model if engine.leader else engine.model
    guessed = model.guess(fact) if fact else None
    name = engine.model.value.id if engine.model and not guessed else _written_model(engine, secrets)
    release = f"vLLM {engine.release}" if engine.release else "vLLM release unknown"
    gpus = _requested_gpus(engine)
    if engine.on_processors:
        return f"{name} on CPUs, {release}: weights and KV cache are the container's memory"
    if engine.workload.kind in RUNTIMES and engine.model is None:
        return f"a runtime template, {release}: {_users(engine)}"
    if engine.command.entry == "worker":
        if engine.leader is None:
            return f"joins a Ray cluster with {gpus}, {release}: the model is named where vLLM serves"
        name = f"joins {_written_model(engine.leader, secrets)}"
    head = f"{name} on {gpus}, {release}: GPU memory {verdict(engine)}"
    if guessed:
        likely_model, grounds = guessed
        head += f", if it is {likely_model} ({grounds})"
        return f"{head}: {reason(engine)}" if why else head
    return f"{head} ({reason(engine)})" if why else head


def _requested_gpus(engine: Engine) -> str:
    """Number and name of the container's GPUs ("2 × NVIDIA L4"), without a number that is not known."""
    if engine.gpu is None:
        return "GPU unknown"
    count = engine.requested[1] if engine.requested else None
    return f"{count} × {engine.gpu.value.name}" if count else engine.gpu.value.name


def _users(engine: Engine) -> str:
    """The InferenceServices that name the model of a runtime, the first three of them, or that the input has none."""
    services = engine.facts.companions.services_of_runtime(engine.workload)
    if not services:
        return "an InferenceService names its model, and none in this input names this runtime"
    more = " …" if len(services) > 3 else ""
    return f"its model is that of InferenceService {', '.join(services[:3])}{more}"


def _written_model(engine: Engine, secrets: Secrets) -> str:
    """The model as the command names it, with stars for secrets; "no model named" if it names none."""
    args = engine.args
    written = args.model or args.written.get("model", args.written.get("model_tag"))
    return secrets.masked(written, is_value=True) if isinstance(written, str) else "no model named"


def reason(engine: Engine) -> str:
    """The reason for the `verdict`: the plan's arithmetic, and why vLLM runs its V0 engine if it does.

    Without a GPU, or where the possible ones differ in it, it is the GPUs on which it fits, if known."""
    if engine.gpu is None or gpu_set.differs(engine):
        by_gpu = gpu_set.sentence(engine)
        if by_gpu:
            return by_gpu
    return "; ".join(filter(None, (engine.plan.why, engine.v0_reason)))


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
        threats = {graded.threatens for graded in denied}
        worst = next(threat for threat in THREATS if threat in threats)  # THREATS has the worst one first
        return f"DENIED: {THREATS[worst]} ({', '.join(quoted_rules(*denied))})"
    texts = [
        f"{HEADINGS[heading]}: {', '.join(quoted_rules(*group))}" for heading, group in by_heading.items() if group
    ]
    return "; ".join(texts) or "no findings"


Detail = Literal["quiet", "normal", "all"]
"""Quiet: only what makes the run fail. All: every piece of advice, and accepted findings, each with its reason."""


def check(
    checked: Checked, paint: Paint = plain, width: int = WIDTH, detail: Detail = "normal", *, source: bool = False
) -> str:
    """The text of `podfit check`: each container's findings, a file after the other. `source`: each with its line of
    the file. `width`: of the terminal, in characters; lines are as wide as `readable` allows. Empty without containers,
    and for `quiet` if nothing fails."""
    width = readable(width)
    containers = merged(
        container for container in checked.containers if detail != "quiet" or any(map(checked.fails, container.items))
    )
    return "\n".join(_container(container, checked, paint, width, detail, source=source) for container in containers)


def readable(width: int) -> int:
    """Characters of a line of text on a terminal of this width: at least MIN_REMEDY_WIDTH, so that a remedy has room,
    and at most WIDTH, which eyes can follow."""
    return max(MIN_REMEDY_WIDTH, min(width, WIDTH))


def tally(checked: Checked) -> str:
    """The number of files, containers and findings in one line."""
    accepted = len(checked.items) - len(checked.open)
    counts = checked.headings
    # Levels are headings without "would be if enforced": without such findings there is nothing to distinguish.
    with_would_deny = {**HEADINGS, "denied": "denied today", "would_deny": "would be if enforced"}
    titles = with_would_deny if counts["would_deny"] else LEVELS
    tallied = ", ".join(f"{counts[heading]} {title}" for heading, title in titles.items())
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
    first = min(checked.open, key=lambda item: importance(item.finding), default=None)  # the most important one
    if first is not None:
        return [f"next: podfit explain {first.finding.rule}"]
    for container in checked.containers:
        is_file = container.file not in checked.printed and not container.file.startswith("<")  # "<stdin>"
        if is_file:
            command = shlex.join(["podfit", "explain", container.file])
            return [f"next: {one_line(command)}    # what uses the memory"]
    return []


def _container(
    container: CheckedContainer, checked: Checked, paint: Paint, width: int, detail: Detail, *, source: bool
) -> str:
    """The section of one container: its state, summary and findings, and what is left out or accepted. `quiet` has only
    the findings that fail the run, with all of their advice."""
    quiet = detail == "quiet"
    chosen = chosen_of(
        (item for item in container.items if not item.accepted and (checked.fails(item) or not quiet)),
        all_advice=detail == "all" or quiet,
    )
    repeated = [item for item in container.repeated if checked.fails(item) or not quiet]
    findings = sorted([item.finding for item in (*chosen.items, *repeated)], key=importance)
    lines = _container_head(container, findings, paint, width)
    for item in chosen.items:
        page = checked.page(item.finding.rule) if checked.docs else None
        lines += ["", *_finding_text(item, page, paint, width, source=source).split("\n")]
    if repeated:
        lines += ["", f"{many(len(repeated), 'finding')} as in an earlier container of the object"]
    for rule, more in chosen.more.items():
        lines += ["", f"{paint(HEADINGS[more.heading], more.heading)}  {paint(rule, 'rule')}  {more.sentence}"]
    if chosen.advice_left:
        lines += ["", f"{more_advice(chosen.advice_left)}: -v"]
    accepted = [] if quiet else _accepted_lines(container.items, with_baseline=detail == "all")
    lines += ["", *accepted]
    single_spaced = (line for index, line in enumerate(lines) if line or lines[index - 1])
    return "\n".join(single_spaced).rstrip() + "\n"


def _container_head(
    container: CheckedContainer, findings: Sequence[GradedFinding], paint: Paint, width: int
) -> list[str]:
    """The file, the object and the worst heading in one line, then the summary. `findings`: the most important first.

    The summary leaves its arithmetic out if a finding has it: on GPU memory, or on a GPU that is not named."""
    engine = container.result.engine
    name = one_line(f"{subject.describe_object(container.report.object)}, {place(engine)}")
    state = paint(HEADINGS[findings[0].heading], findings[0].heading) if findings else paint("no findings", "clean")
    memory_is_explained = any(finding.plane == "gpu" and finding.would == "deny" for finding in findings)
    gpus_are_explained = (
        any(finding.rule == "unknown-gpu" for finding in findings) and engine.gpu is None and engine.gpus is not None
    )
    about = summary(engine, container.report.secrets, why=not (memory_is_explained or gpus_are_explained))
    return [f"{paint(one_line(container.file), 'file')}: {name}: {state}", *wrapped(about, "  ", width=width)]


def _accepted_lines(items: Iterable[Item], *, with_baseline: bool) -> list[str]:
    """A line for each accepted finding, with the reason. `with_baseline`: also for those that the baseline accepts."""
    return [
        f"  accepted {item.finding.rule}: {one_line(f'{item.accepted.by}: {item.accepted.reason}')}"
        for item in items
        if item.accepted and (with_baseline or item.accepted.by != "baseline")
    ]


MANY = 20
"""Findings of one rule in one container that text and Markdown show."""


class LeftOut(NamedTuple):
    """Findings of one rule that are left out."""

    heading: Heading
    sentence: str
    """How many there are, and where to see them."""


class Chosen(NamedTuple):
    """The findings of one container that text and Markdown show."""

    items: tuple[Item, ...]
    """By importance."""
    more: Mapping[str, LeftOut]
    """Rule → its findings beyond MANY, which are left out."""
    advice_left: int
    """How many pieces of advice are left out, too."""


def chosen_of(items: Iterable[Item], *, all_advice: bool) -> Chosen:
    """Return all findings that are denied, would be or are likely, and the first SHOWN_ADVICE pieces of advice, or all
    of them.

    Of one rule with more than MANY findings under one heading, the first MANY are shown, and the others counted."""
    by_importance = sorted(items, key=lambda item: importance(item.finding))
    advice = [item for item in by_importance if item.finding.heading == "advice"]
    advice_left = 0 if all_advice else len(advice[SHOWN_ADVICE:])
    considered = by_importance
    if advice_left:
        hidden = set(map(id, advice[SHOWN_ADVICE:]))
        considered = [item for item in by_importance if id(item) not in hidden]
    count: Counter[tuple[Heading, str]] = Counter()
    chosen: list[Item] = []
    for item in considered:
        key = item.finding.heading, item.finding.rule
        count[key] += 1
        if count[key] <= MANY:
            chosen.append(item)
    more = {
        rule: LeftOut(heading, f"and {number - MANY:,} more; --format json has all")
        for (heading, rule), number in count.items()
        if number > MANY
    }
    return Chosen(tuple(chosen), more, advice_left)


def _finding_text(item: Item, page: str | None, paint: Paint, width: int, *, source: bool) -> str:
    """One finding in color: its first line, its place, its other lines, and why it is not denied. `source`: with its
    line of the file instead of the place, if that is not blank. `page`: the URL of the rule's page; None: without."""
    title, rule = HEADINGS[item.finding.heading], item.finding.rule
    first_line, _, other_lines = block(item.finding, f"{title}  ", width).partition("\n")
    painted_title = f"{paint(title, item.finding.heading)}  {paint(rule, 'rule')}"
    lines = [first_line.replace(f"{title}  {rule}", painted_title, 1)]
    snippet = _snippet(item, paint, width) if source else []
    lines += snippet or [f"  at {paint(_position(item), 'place')}"]
    if item.more_marks:
        lines += wrapped(f"also in {places(item)}", "  ", width=width)
    if other_lines:
        lines += other_lines.split("\n")
    if why := why_not_denied(item):
        lines += wrapped(f"not denied: {why}", "  ", width=width)
    if page:
        lines.append(f"  see {one_line(page)}")
    return "\n".join(lines)


def _position(item: Item) -> str:
    """FILE:LINE:COLUMN, as editors and terminals link it."""
    return f"{one_line(item.file)}:{item.mark.line}:{item.mark.column}"


def why_not_denied(item: Item) -> str | None:
    """The reason why a finding of a rule that denies is not denied. None without one, for a finding that is only not
    certain, and for a release that was not read, which the report says once."""
    why = item.finding.why_softened
    if why is None or item.finding.mode != "warn":
        return None
    is_usual = why.endswith(", not certain") or why == newer_than_read(item.result.engine.release)
    return None if is_usual else why


def places(item: Item) -> str:
    """The lines of the same finding in later containers, MANY at most: "lines 64, 99"."""
    numbers = list(dict.fromkeys(mark.line for mark in item.more_marks))
    more = f" and {len(numbers) - MANY:,} more" if len(numbers) > MANY else ""
    noun = "line" if len(numbers) == 1 else "lines"
    return f"{noun} {', '.join(map(str, numbers[:MANY]))}{more}"


def _snippet(item: Item, paint: Paint, width: int) -> list[str]:
    """The place, the line of the file and the marks under what is meant; no lines if the file's line is blank."""
    mark, line = item.mark, clean(item.source.replace("\t", " "))
    if not line.strip():
        return []
    start = mark.column - 1
    end = mark.end_column - 1 if mark.end_line == mark.line else len(line)
    indent = len(line) - len(line.lstrip())
    cut = max(0, min(indent, start) - 4)  # characters left out at the begin: 4 of the indentation stay
    if start - cut > width // 2:
        cut = start - width // 4  # the mark is then in the second quarter
    room = width - 12  # for the indent, the line's number and the border
    ends_early = len(line) > cut + room
    text = line[cut : cut + room] + ("…" if ends_early else "")
    before = "…" if line[:cut].strip() else ""
    length = min(max(end - start, 1), max(min(room, len(text)) - (start - cut), 1))  # at least one, within the text
    number = str(mark.line)
    gutter = " " * len(number)
    corner, border = paint("┌", "place"), paint("│", "place")
    return [
        f"  {gutter} {corner} {paint(_position(item), 'place')}",
        f"  {paint(number, 'place')} {border} {before}{text}".rstrip(),
        f"  {gutter} {border} {' ' * (len(before) + start - cut)}{paint('^' * length, 'mark')}",
    ]
