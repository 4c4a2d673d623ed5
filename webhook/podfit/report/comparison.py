"""The comparison of two sides: as text, as Markdown for a merge request's comment, and as plain JSON values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from json import dumps
from typing import Any, cast

from podfit.base.printable import one_line, shortened
from podfit.evaluation import subject
from podfit.evaluation.compare import ContainerComparison, Difference, EstimateChange, Side
from podfit.evaluation.denial import HEADINGS, PLANES, many
from podfit.evaluation.lint import GradedFinding
from podfit.kube.quantity import human, left
from podfit.report.markdown import escaped
from podfit.report.paint import DENIED_NOW
from podfit.rules.rule import Heading
from podfit.vllm.memory.estimate import Estimate
from podfit.vllm.memory.ledger import IN_WORDS, Verdict
from podfit.vllm.memory.lines import TITLES

ABSENT = "–"
LINE_NAMES = {
    **TITLES,
    "kv_cache_tokens": "GPU KV cache size, tokens",
    "max_concurrency": "Maximum concurrency",
    "longest_request": "longest request, tokens",
    "startup_seconds": "start-up, s",
    "engine_generation": "engine",
}
UNCHANGED = "no argument and no resolved value changes"
SETTINGS = {**LINE_NAMES, "cuda_graphs": "place of CUDA graphs"}
"""Titles of settings that a release derives from the arguments: there the CUDA graphs are a place, in a ledger an
amount."""


# ── JSON ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def render_json(changes: Sequence[ContainerComparison]) -> str:
    """The comparison as JSON text (docs/schemas/diff.json)."""
    return dumps({"changes": [_tree(comparison) for comparison in changes]}, indent=1, default=str) + "\n"


def _tree(change: ContainerComparison) -> dict[str, Any]:
    """One container's comparison as in docs/schemas/diff.json; sizes in bytes."""
    return {
        "object": subject.object_reference(change.side.report.object),
        "container": change.side.engine.container.name,
        "state": change.state,
        **{
            difference.name: _pair(*_masked_values(change, difference))
            for difference in change.facts
            if difference.name != "vLLM"
        },
        "vllm": _pair(change.facts[0].before, change.facts[0].after),
        "settings": {difference.name: _pair(difference.before, difference.after) for difference in change.settings},
        "arguments": {difference.name: _pair(*_masked_values(change, difference)) for difference in change.flags},
        "masked": [difference.name for difference in change.flags if _is_masked(change, difference)],
        "defaults": {difference.name: _pair(difference.before, difference.after) for difference in change.defaults},
        "new_arguments": list(change.new_flags),
        "dropped_arguments": list(change.dropped_flags),
        "new_variables": list(change.gained_variables),
        "dropped_variables": list(change.lost_variables),
        "gpu": {line.name: _pair(_bytes(line.before), _bytes(line.after)) for line in change.gpu},
        "host": {line.name: _pair(_bytes(line.before), _bytes(line.after)) for line in change.host},
        "numbers": {difference.name: _pair(difference.before, difference.after) for difference in change.numbers},
        "appeared": [_finding(finding) for finding in change.appeared],
        "gone": [_finding(finding) for finding in change.gone],
        "newly_denied": bool(change.newly_denied),
    }


def _pair(before: Any, after: Any) -> dict[str, Any]:
    return {"before": before, "after": after}


def _bytes(line: Estimate | None) -> dict[str, int | None] | None:
    return line.json() if line else None


def _finding(finding: GradedFinding) -> dict[str, Any]:
    """One finding as in docs/schemas/diff.json."""
    return {
        "rule": finding.rule,
        "level": finding.level,
        "mode": finding.mode,
        "would": finding.would,
        "plane": finding.plane,
        "path": str(finding.finding.path),
        "message": finding.finding.message,
        "masked": finding.masked,
    }


def _masked_values(change: ContainerComparison, difference: Difference) -> tuple[Any, Any]:
    """The values before and after, with stars for secrets."""
    return _masked(change.before, difference.name, difference.before), _masked(
        change.after, difference.name, difference.after
    )


def _is_masked(change: ContainerComparison, difference: Difference) -> bool:
    values = [value if value is None else str(value) for value in (difference.before, difference.after)]
    return values != [value if value is None else str(value) for value in _masked_values(change, difference)]


def _masked(side: Side | None, name: str, value: Any) -> Any:
    """The value of a field with stars for secrets; numbers and None stay, all else becomes text."""
    if side is None or value is None:
        return value
    masked_value = side.report.secrets.masked_value(value, name)
    return masked_value if isinstance(masked_value, bool | int | float) else str(masked_value)


# ── Text ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def render_text(changes: Sequence[ContainerComparison]) -> str:
    """For people; a container that stays as it is gets no block, and one line if its release changes."""
    blocks = [_text(change) for change in changes if change.state != "unchanged"]
    bumps = [_bump(change) for change in changes if change.state == "unchanged" and not change.facts[0].same]
    return "\n".join([*blocks, *bumps, _tally(changes)]) + "\n"


def _bump(change: ContainerComparison) -> str:
    return f"{_name(change)}: vLLM {_arrow(change.facts[0])}: {UNCHANGED}"


def _text(change: ContainerComparison) -> str:
    """The comparison of one container as text, with a section for the release and for all else that differs."""
    out = [f"{_name(change)}{_state(change)}"]
    if change.before and change.after:
        out.append(f"  {'your command':<14}{_for_you(change)}")
    for difference in change.facts:
        if not difference.same or difference.name in ("vLLM", "verdict"):
            out.append(f"  {difference.name:<14}{_arrow(difference, *_masked_values(change, difference))}")
    out += _section(
        "what the release makes of it",
        [_line(other_difference) for other_difference in (*change.settings, *change.defaults)],
    )
    out += _section("command line", [_line(flag, *_masked_values(change, flag)) for flag in change.flags])
    out += _section("options of vLLM", _changed_options(change))
    for title, amounts in (("GPU memory of one GPU", change.gpu), ("host memory", change.host)):
        out += _ledger(title, [amount for amount in amounts if _counts(amount)])
    numbers = [number for number in change.numbers if number.before is not None or number.after is not None]
    out += _section("what follows", [_line(number) for number in numbers if not number.same])
    out += _section("findings", _findings(change))
    return "\n".join(line.rstrip() for line in out) + "\n"


def _for_you(change: ContainerComparison) -> str:
    """The options and variables of the command that one of the two releases does not have, then the arguments and the
    settings that differ; UNCHANGED if there are none."""
    vllm, *_ = change.facts
    parts = [f"{_spelt(name)} is not an option of vLLM {vllm.after}" for name in change.lost_flags]
    parts += [f"{_spelt(name)} is not an option of vLLM {vllm.before}" for name in change.gained_flags]
    parts += [f"{name} is not a variable of vLLM {vllm.after}" for name in change.lost_variables]
    parts += [f"{name} is not a variable of vLLM {vllm.before}" for name in change.gained_variables]
    parts += [f"{_spelt(flag.name)} {_arrow(flag, *_masked_values(change, flag))}" for flag in change.flags]
    parts += [f"{_spelt(setting.name)} {_arrow(setting)}" for setting in change.settings]
    return "; ".join(parts) or UNCHANGED


def _ledger(title: str, changes: Sequence[EstimateChange]) -> list[str]:
    """The lines that change; the others, if there are any, by name."""
    moved = [row for row in changes if not row.same]
    if not changes:
        return []
    if not moved:
        return ["", f"{title}: the same"]
    head = f"  {'':<20}{'likely':>11}{'':>13}{'change':>13}   certain"
    same = ", ".join(LINE_NAMES.get(change.name, change.name) for change in changes if change not in moved)
    return ["", title, head, *map(_row, moved), *([f"  the same: {same}"] if same else [])]


def _name(change: ContainerComparison) -> str:
    """The object and its container for people; with the file if several have that name."""
    side = change.side
    container = subject.printable_name(side.engine.container.name)
    name = f'{subject.describe_object(side.report.object)}, container "{container}"'
    return f"{name} ({shortened(one_line(side.file))})" if change.is_one_of_many and side.file else name


def _state(change: ContainerComparison) -> str:
    word = {"added": ": added", "removed": ": removed"}.get(change.state, "")
    return word + (f": {DENIED_NOW}" if change.newly_denied else "")


def _section(title: str, lines: Iterable[str]) -> list[str]:
    names = [f"  {line}" for line in lines]
    return ["", title, *names] if names else []


def _arrow(difference: Difference, before: Any = None, after: Any = None) -> str:
    """`old → new`, or the value alone if both are equal. `before` and `after` replace those of the difference."""
    old, new = (
        _value(difference.before if before is None else before),
        _value(difference.after if after is None else after),
    )
    return old if old == new else f"{old} → {new}"


def _line(difference: Difference, before: Any = None, after: Any = None) -> str:
    by = "" if difference.given or difference.name in LINE_NAMES else "  (default)"
    return f"{_spelt(difference.name):<27} {_arrow(difference, before, after)}{by}"


def _spelt(name: str) -> str:
    """`max_model_len` → `--max-model-len`; what is not an argument stays."""
    if name in SETTINGS:
        return SETTINGS[name]
    if name in ("vLLM", "model", "accelerator", "verdict"):
        return name
    flag, dot, key = name.partition(".")
    return shortened(one_line(f"{'--' if len(flag) > 1 else '-'}{flag.replace('_', '-')}{dot}{key}"))


def _value(value: Any) -> str:
    """A value for people: integers with separators, floats with four digits, None as ABSENT."""
    if value is None:
        return ABSENT
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}"
    text = str(value)
    return shortened(one_line(IN_WORDS.get(cast(Verdict, text), text)))


def _changed_options(change: ContainerComparison) -> list[str]:
    """How many options the other release adds and drops, and which of them this command line has."""
    counts = {"new": change.new_flags, "gone": change.dropped_flags}
    text = ", ".join(f"{len(names)} {word}" for word, names in counts.items() if names)
    used = [_spelt(name) for name in (*change.gained_flags, *change.lost_flags)]
    return [f"{text}; in this command: {', '.join(used) or 'none of them'}"] if text else []


def _counts(change: EstimateChange) -> bool:
    """A line that is there, on one side at least, and not nothing on both."""
    return any(line is not None and line.likely for line in (change.before, change.after))


def _row(change: EstimateChange) -> str:
    """One line of a memory table: likely before and after, the change, and what is certain."""
    name = LINE_NAMES.get(change.name, change.name)
    before, after = change.before, change.after
    floors = " → ".join(dict.fromkeys(left(line.floor) if line else ABSENT for line in (before, after)))
    floors = f"at {'most' if change.name == 'kv_cache' else 'least'} {floors}"  # what is left has a certain maximum
    return (
        f"  {name:<20}{left(before.likely) if before else ABSENT:>11} →{left(after.likely) if after else ABSENT:>11}"
        f"{_delta(change):>13}   {floors}"
    )


def _delta(change: EstimateChange) -> str:
    """The change of an estimate with its sign; empty if one side is unknown."""
    if change.before is None or change.after is None:
        return ""
    moved = change.after.likely - change.before.likely
    return "same" if not moved else f"{'+' if moved > 0 else '−'}{human(abs(moved))}"


def _findings(change: ContainerComparison) -> list[str]:
    """A line for each new finding (+), then for each that is gone (-)."""
    lines = [
        f"+ {HEADINGS[finding.heading]}  {finding.rule}: {one_line(finding.finding.message)}"
        for finding in change.appeared
    ]
    return lines + [
        f"- {HEADINGS[finding.heading]}  {finding.rule}: {one_line(finding.finding.message)}" for finding in change.gone
    ]


def _tally(changes: Sequence[ContainerComparison]) -> str:
    """The last line: how many containers changed, and new denials."""
    count = {
        state: sum(comparison.state == state for comparison in changes)
        for state in ("changed", "added", "removed", "unchanged")
    }
    text = ", ".join(f"{number} {state}" for state, number in count.items() if number) or "nothing in either"
    denied = sum(len(comparison.newly_denied) for comparison in changes)
    end = f"; {many(denied, 'new denial')}" if denied else ""
    would = sum(len(comparison.would_newly_deny) for comparison in changes)
    end += f"; {many(would, 'new denial')} if enforced" if would else ""
    return f"{many(len(changes), 'vLLM container')}: {text}{end}"


# ── Markdown ─────────────────────────────────────────────────────────────────────────────────────────────────────────


SIGNS: Mapping[Heading, str] = {"denied": "🔴", "would_deny": "🔴", "likely": "🟠", "advice": "🟡"}


def render_markdown(changes: Sequence[ContainerComparison]) -> str:
    """The comparisons in Markdown, for a comment on a merge request; without containers that do not change."""
    out = [f"### podfit: {_tally(changes)}"]
    for change in changes:
        if change.state == "unchanged":
            continue
        out += ["", f"#### {escaped(_name(change))}{_state(change)}", "", "| | before | after |", "| --- | --- | --- |"]
        rows = [fact for fact in change.facts if not fact.same or fact.name in ("vLLM", "verdict")]
        numbers = [number for number in change.numbers if not number.same]
        for difference in (*rows, *change.settings, *numbers, *change.flags):
            out.append(_tabled(_spelt(difference.name), *map(_value, _masked_values(change, difference))))
        for amount in (*change.gpu, *change.host):
            if _counts(amount) and not amount.same:
                sides = (left(line.likely) if line else ABSENT for line in (amount.before, amount.after))
                out.append(_tabled(LINE_NAMES.get(amount.name, amount.name), *sides))
        names = [
            f"- {SIGNS[finding.heading]} new, {HEADINGS[finding.heading]}: {_finding_text(finding)}"
            for finding in change.appeared
        ]
        names += [f"- 🟢 gone: {_finding_text(appeared)}" for appeared in change.gone]
        out += ["", *names] if names else []
        if change.lost_flags or change.gained_flags or change.lost_variables or change.gained_variables:
            out += ["", f"your command: {escaped(_for_you(change))}"]
        if change.defaults:
            title = f"{many(len(change.defaults), 'default')} of options that you do not set"
            out += ["", f"<details><summary>{title}</summary>", "", "| | before | after |", "| --- | --- | --- |"]
            out += [
                _tabled(_spelt(default.name), *map(_value, _masked_values(change, default)))
                for default in change.defaults
            ]
            out += ["", "</details>"]
    return "\n".join(out) + "\n"


def _tabled(name: str, before: str, after: str) -> str:
    text = escaped(after) if before == after else f"**{escaped(after)}**"
    return f"| {escaped(name)} | {escaped(before)} | {text} |"


def _finding_text(finding: GradedFinding) -> str:
    return f"`{finding.rule}` ({PLANES[finding.plane]}): {escaped(finding.finding.message)}"


FORMATS: dict[str, Callable[[Sequence[ContainerComparison]], str]] = {
    "text": render_text,
    "json": render_json,
    "markdown": render_markdown,
}
