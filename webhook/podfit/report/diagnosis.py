"""Diagnosis → the JSON that `podfit diagnose --format json` promises, and text for people."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from podfit.base.printable import clean, one_line, shortened
from podfit.base.secret import FORMS, Secrets
from podfit.diagnose import Diagnosis, contradiction, window
from podfit.diagnose.contradiction import Contradiction
from podfit.evaluation import denial, subject
from podfit.evaluation.lint import Judged, Report, lint
from podfit.evaluation.policy import Policy
from podfit.evaluation.repair import repair
from podfit.kube.workload import JSON
from podfit.report import plan
from podfit.report.json import finding
from podfit.report.json import patch as patch_of
from podfit.rules import all_rules
from podfit.rules.engine import Engine
from podfit.vllm.facts import Facts


@dataclass(frozen=True)
class DiagnosedPod:
    """A diagnosis next to the Pod it is about."""

    file: str
    diagnosis: Diagnosis
    report: Report | None
    """The Pod or its workload, evaluated; None where none is known."""
    patch: list[dict[str, Any]] | None
    """What podfit would change in it; None where that would show a secret."""
    engines: tuple[Engine, ...] = ()
    """The planned engines: with what the log prints of the start, where it prints that."""
    contradictions: tuple[Contradiction, ...] = ()
    """Where the log and the manifest differ."""

    @property
    def secrets(self) -> Secrets:
        """The secrets of the Pod."""
        return self.report.secrets if self.report else FORMS

    @property
    def evidence(self) -> tuple[str, ...]:
        """The lines that say what it died of, with stars for secrets."""
        return tuple(clean(self.secrets.masked(line, quoted=True)) for line in self.diagnosis.evidence)

    @property
    def remedy(self) -> str | None:
        """What helps, with the values of the log and of the manifest."""
        judged, engine = self.judged, next(iter(self.engines), None)
        more: list[str] = []
        if judged is not None and judged.finding.suggestions:
            more = [f"In the manifest, {denial.lead(judged.finding)}: {'; '.join(judged.finding.suggestions)}."]
        elif engine is not None and self.diagnosis.plane == "gpu" and (fits := engine.changes(most=MOST_CHANGES)):
            more = [f"Each of these fits: {'; '.join(one.text for one in fits)}."]
        if engine is not None and self.diagnosis.cause and self.diagnosis.cause.id == "probe-killed":
            more = [*([said] if (said := window.remedy(self.diagnosis, engine)) else []), *more]
        said = self.diagnosis.remedy_for(engine, more)
        return said and self.secrets.line(said)

    @property
    def judged(self) -> Judged | None:
        """The finding of the rule in the manifest."""
        return next((one for one in self.report.findings if one.rule == self.rule), None) if self.report else None

    @property
    def rule(self) -> str | None:
        """The rule that would have caught it: the one that finds it in the Pod, else the likeliest."""
        known = [rule for rule in self.diagnosis.rules if rule in all_rules()]
        found = {judged.rule for judged in self.report.findings} if self.report else set()
        return next((rule for rule in known if rule in found), next(iter(known), None))


def case(file: str, diagnosis: Diagnosis, pod: JSON | None, policy: Policy, facts: Facts) -> DiagnosedPod:
    """The diagnosis with the plan of `pod`, and of the object in the file itself where none is given. What the log says
    of the start is measured, and takes the place of what the manifest says or lets expect."""
    shown = pod or diagnosis.pod
    if shown is None:
        return DiagnosedPod(file, diagnosis, None, [])
    start = diagnosis.start
    report = lint(shown, policy, facts, where="check")
    engines = [result.engine for result in report.results]
    if start is None or not engines:
        return _case(file, diagnosis, shown, report, policy, facts, engines)
    ran = next((one for one in engines if one.args.model == start.model), engines[0])
    found = tuple(contradiction.find(start, ran))
    facts = replace(facts, gpu_memory=start.sizes.get("total") or facts.gpu_memory)
    logged = contradiction.as_logged(shown, ran, start)
    measured = lint(logged, policy, replace(facts, kv_cache_memory=start.sizes.get("kv_cache")), where="check")
    engines = [result.engine for result in measured.results] or engines
    return _case(file, diagnosis, shown, lint(shown, policy, facts, where="check"), policy, facts, engines, found)


def _case(
    file: str,
    diagnosis: Diagnosis,
    shown: JSON,
    report: Report,
    policy: Policy,
    facts: Facts,
    engines: Sequence[Engine],
    contradictions: tuple[Contradiction, ...] = (),
) -> DiagnosedPod:
    diagnosis = window.with_probe(diagnosis, engines[0]) if engines else diagnosis
    patch = patch_of(report, repair(shown, policy, facts, audited=False).edits)
    return DiagnosedPod(file, diagnosis, report if report.results else None, patch, tuple(engines), contradictions)


def tree(one: DiagnosedPod) -> dict[str, Any]:
    """Plain JSON values."""
    found = one.diagnosis
    out: dict[str, Any] = {
        "file": one.file,
        "object": _object(one),
        "plane": found.plane,
        "cause": found.cause.id if found.cause else None,
        "evidence": list(one.evidence),
        "rule": one.rule if found.cause else None,
        "certainty": found.certainty,
        "line": found.line,
        "title": found.cause.title if found.cause else _outcome(found),
        "phase": found.phase if found.cause else None,
        "remedy": one.remedy,
        "then": list(found.then),
        "log": _log(found),
        "contradictions": [
            {"name": item.name, "log": one.secrets.line(item.log), "manifest": one.secrets.line(item.manifest)}
            for item in one.contradictions
        ],
    }
    if one.report is not None:
        report = one.report
        out["plans"] = [
            {"container": engine.container.name, **plan.tree(engine, report.secrets)} for engine in one.engines
        ]
        out["findings"] = [finding(report, judged) for judged in report.findings if judged.shown]
        out["patch"] = one.patch
    return out


def _log(found: Diagnosis) -> dict[str, Any] | None:
    """What the log prints of the start that the manifest, or a plan, can be compared with."""
    start = found.start
    if start is None:
        return None
    return {
        "vllm_version": str(start.release) if start.release else None,
        "model": start.model,
        "gpu_memory_bytes": start.sizes.get("total"),
        "kv_cache_memory_bytes": start.sizes.get("kv_cache"),
        "max_model_len": start.max_model_len,
        "longest_max_model_len": start.longest,
    }


def _object(one: DiagnosedPod) -> dict[str, Any] | None:
    """What the input says the Pod or workload is called."""
    found = one.diagnosis.pod
    if found is None:
        return None
    metadata = found.get("metadata")
    named = metadata if isinstance(metadata, Mapping) else {}
    return {"kind": found.get("kind"), "namespace": named.get("namespace"), "name": named.get("name")}


def _where(one: DiagnosedPod) -> str:
    """ "pods.json: Pod chat/vllm-0", "crash.log:17"."""
    named = _object(one)
    if named is not None:
        place = "/".join(str(part) for part in (named["namespace"], named["name"]) if part)
        return one_line(f"{one.file}: {named['kind']} {place or '(no name)'}")
    return clean(f"{one.file}:{one.diagnosis.line}" if one.diagnosis.line else one.file)


def text(one: DiagnosedPod, *, verbose: bool = False, width: int = denial.WIDTH) -> str:
    """What people read: where the log contradicts the manifest, the cause, why, what helps and the line that says so.
    `verbose`: all of the evidence, the plan, the other findings and the changes. `width`: of a line, in characters."""
    found = one.diagnosis
    differs = _contradicted(one, width)
    if found.cause is None or found.plane is None:
        return "\n".join([*differs, *_without_cause(one, width)]) + "\n"
    plane = f"[{denial.PLANES[found.plane]}]"
    sure = "" if found.certainty == "certain" else " (likely: only a symptom was seen)"
    head = [f"{_where(one)}: {found.cause.title}{sure}  {plane}", f"  cause     {found.cause.id}"]
    why = _labelled("why", _rule(one), width) if one.rule else []
    helps = one.remedy or ""
    remedy = _labelled("remedy", helps, width)
    also = _labelled("also", "other causes in the log: " + ", ".join(found.then), width) if found.then else []
    sections = [differs, head, why, remedy, also, _pod(one, width) if verbose else _rest(one, width)]
    if not verbose:
        _shorten(sections, (also, why, differs), MAX_LINES - MIN_EVIDENCE)
    room = max(MIN_EVIDENCE, MAX_LINES - sum(map(len, sections)))
    evidence = _evidence(one.evidence, width) if verbose else _first(one.evidence, helps, room, width)
    sections.insert(4, evidence)
    return "\n".join(line for section in sections for line in section) + "\n"


MOST_CHANGES = 3
"""Computed changes that a remedy names."""
MAX_LINES = 12
"""Lines of a diagnosis without -v."""


MIN_EVIDENCE = 3
"""Lines of them that show the evidence, if the remedy leaves room."""


def _shorten(sections: Sequence[list[str]], spare: Sequence[list[str]], most: int) -> None:
    """Cuts `spare` sections, each to one line at least, until all are at most `most` lines long."""
    for section in spare:
        over = sum(map(len, sections)) - most
        if over > 0 and len(section) > 1:
            del section[max(1, len(section) - over) :]
            section[-1] = section[-1].rstrip(" ,;.0123456789") + " … (-v shows all)"  # no number without its unit


def _contradicted(one: DiagnosedPod, width: int) -> list[str]:
    if not one.contradictions:
        return []
    named = "; ".join(one_line(one.secrets.line(str(item))) for item in one.contradictions)
    said = f"warning: {one.file} is not the log of this manifest: {named}. The plan uses the values of the log."
    return textwrap.wrap(clean(said), width, break_long_words=False, break_on_hyphens=False)


def _rest(one: DiagnosedPod, width: int) -> list[str]:
    """What is there to see besides."""
    if one.report is None:
        return []
    others = sum(judged.shown and judged.rule != one.rule for judged in one.report.findings)
    counts = [f"{others} other finding{'s' * (others != 1)}"] if others else []
    if one.patch:
        counts.append(f"{len(one.patch)} change{'s' * (len(one.patch) != 1)} that `podfit fix` makes")
    return _labelled("more", f"-v shows the plan{''.join(f', {one}' for one in counts)}", width)


def _without_cause(one: DiagnosedPod, width: int) -> list[str]:
    """A Pod for which no known cause was found."""
    found, where = one.diagnosis, _where(one)
    if not found.evidence and found.foreign:
        said = f"{where}: no line of vLLM, an Event or a container's status. Fix: give the log of the container that "
        return textwrap.wrap(f"{said}failed, as in kubectl logs --previous POD -c CONTAINER", width)
    out = textwrap.wrap(f"{where}: {_outcome(found)}", width)
    if found.healthy:
        return out
    out += _evidence(one.evidence, width)
    out += _labelled("remedy", WITHOUT_CAUSE, width) if found.line is None else []
    if any("137" in line for line in found.evidence):
        out += _labelled(
            "",
            (
                "137 is SIGKILL: the kubelet's, after a probe failed, as well as the kernel's. See the Pod's "
                "Events (kubectl describe pod)."
            ),
            width,
        )
    return out


WITHOUT_CAUSE = (
    "The log of the run that failed has it: kubectl logs --previous POD -c CONTAINER, from its first line. "
    "Events and exit code: kubectl describe pod POD."
)


def _outcome(found: Diagnosis) -> str:
    """What is known without a cause, in one line."""
    if found.healthy:
        return "no failure seen"
    return "an error that podfit does not know" if found.line else "this text shows no cause"


def _evidence(lines: Sequence[str], width: int) -> list[str]:
    """All lines, whole."""
    return [
        row for index, line in enumerate(lines) for row in _labelled("" if index else "evidence", one_line(line), width)
    ]


_PREFIX = re.compile(r"^(?:\([\w ]+=?[\w= ]*\) )?(?:ERROR|CRITICAL|WARNING|INFO) \d\d-\d\d [\d:]+ \[[\w./]+:\d+\] ")
"""What vLLM's logger puts before a message: process, level, time and place."""


def _first(lines: Sequence[str], remedy: str, room: int, width: int) -> list[str]:
    """The first line's message in `room` lines of a terminal; of a longer one its beginning, and its last number that
    the remedy uses."""
    whole = _PREFIX.sub("", one_line(lines[0])) if lines else ""
    shown, length = _labelled("evidence", whole, width), room * (width - 12)
    end = max((whole.rfind(number) + len(number) for number in re.findall(r"\d{2,}", remedy)), default=0)
    while len(shown) > room:
        length -= 10
        cut = f"{whole[:length]}…"
        if end > length:
            tail = whole[end - length // 2 : end].partition(" ")[2]
            cut = f"{whole[: length // 2].rpartition(' ')[0]} … {tail}…"
        shown = _labelled("evidence", cut, width)
    return shown


def _labelled(label: str, words: str, width: int) -> list[str]:
    """Text in the column after its label."""
    return textwrap.wrap(
        words, width, initial_indent=f"  {label:<10}", subsequent_indent=" " * 12,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def _rule(one: DiagnosedPod) -> str:
    """What the rule says of the Pod, where it is known and says something."""
    if (judged := one.judged) is not None:
        return f"{one.rule} reports it in the manifest: {one_line(judged.finding.message)} ({judged.path})"
    if one.report is not None:
        return (
            f"{one.rule} checks for this cause but reports no problem in the given manifest (podfit explain {one.rule})"
        )
    return f"{one.rule} reports this in a manifest (podfit explain {one.rule})"


def _pod(one: DiagnosedPod, width: int) -> list[str]:
    if one.report is None:
        return []
    out = []
    for engine in one.engines:
        name = subject.shown(engine.container.name)
        table = plan.table(engine, one.secrets)
        out += ["", f"plan of container '{name}' of {subject.describe_object(one.report.object)}"]
        out += textwrap.indent(table.rstrip(), "  ").splitlines()
    for result in one.report.results:
        for judged in result.findings:
            if judged.shown:
                out += [
                    "",
                    textwrap.indent(denial.block(judged, f"{denial.HEADINGS[judged.heading]}  ", width - 2), "  "),
                ]
    if one.patch:
        out += ["", "what `podfit fix` would change:", *(f"  {line}" for line in _changes(one))]
    return out


def _changes(one: DiagnosedPod) -> list[str]:
    """The patch as a person reads it: place and value."""
    from json import dumps

    return [
        f"{operation['op']:<8}{shortened(clean(operation['path']))}"
        + (f"  {shortened(clean(dumps(operation['value'], ensure_ascii=False)))}" if "value" in operation else "")
        for operation in one.patch or ()
    ]
