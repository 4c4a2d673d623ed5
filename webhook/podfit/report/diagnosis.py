"""Diagnosis → the JSON that `podfit diagnose --format json` promises, and text for people."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from podfit.base.lazy import regex
from podfit.base.printable import clean, one_line, shortened
from podfit.base.secret import FORMS, Secrets
from podfit.diagnose import Diagnosis, contradiction, window
from podfit.diagnose.contradiction import Contradiction
from podfit.evaluation import denial, subject
from podfit.evaluation.lint import GradedFinding, Report, lint
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
    """The JSON Patch of podfit's repair; None if it would show a secret."""
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
        """The remedy, with the values of the log and of the manifest; None if there is none."""
        engine = next(iter(self.engines), None)
        more = [*self._probe_remedy(engine), *self._suggested_changes(engine)]
        sentence = self.diagnosis.remedy_for(engine, more)
        return sentence and self.secrets.line(sentence)

    def _probe_remedy(self, engine: Engine | None) -> list[str]:
        """A sentence on the probe whose window is too short (`window.remedy`); empty for another cause, or without
        one."""
        if engine is None or self.diagnosis.cause is None or self.diagnosis.cause.id != "probe-killed":
            return []
        sentence = window.remedy(self.diagnosis, engine)
        return [sentence] if sentence else []

    def _suggested_changes(self, engine: Engine | None) -> list[str]:
        """A sentence with the suggestions of the manifest's finding about the cause; without them, for a cause on the
        GPU, with the changes that fit. Empty if there are none."""
        graded = self.manifest_finding
        if graded is not None and graded.suggestions:
            return [f"In the manifest, {denial.lead(graded)}: {'; '.join(graded.suggestions)}."]
        fits = engine.changes(most=MOST_CHANGES) if engine is not None and self.diagnosis.plane == "gpu" else []
        return [f"Each of these fits: {'; '.join(alternative.text for alternative in fits)}."] if fits else []

    @property
    def manifest_finding(self) -> GradedFinding | None:
        """The finding of the rule in the manifest."""
        return (
            next((graded for graded in self.report.findings if graded.rule == self.rule), None) if self.report else None
        )

    @property
    def rule(self) -> str | None:
        """The rule that would have caught it: the one that finds it in the Pod, else the likeliest."""
        known = [rule for rule in self.diagnosis.rules if rule in all_rules()]
        names = {graded.rule for graded in self.report.findings} if self.report else set()
        return next((rule for rule in known if rule in names), next(iter(known), None))


def case(file: str, diagnosis: Diagnosis, pod: JSON | None, policy: Policy, facts: Facts) -> DiagnosedPod:
    """The diagnosis with the plan of `pod`, or without it of the object in the file itself; without either, the
    diagnosis alone. The plans are those of the logged start if there is one: its model, settings and measured sizes
    take the place of what the manifest says. The findings stay the manifest's."""
    entries = pod or diagnosis.pod
    if entries is None:
        return DiagnosedPod(file, diagnosis, None, [])
    start = diagnosis.start
    report = lint(entries, policy, facts, where="check")
    engines = [result.engine for result in report.results]
    if start is None or not engines:
        return _case(file, diagnosis, entries, report, policy, facts, engines)
    ran = next((engine for engine in engines if engine.args.model == start.model), engines[0])
    contradictions = tuple(contradiction.find(start, ran))
    facts = replace(facts, gpu_memory=start.sizes.get("total") or facts.gpu_memory)
    logged = contradiction.as_logged(entries, ran, start)
    measured = lint(logged, policy, replace(facts, kv_cache_memory=start.sizes.get("kv_cache")), where="check")
    engines = [result.engine for result in measured.results] or engines
    return _case(
        file, diagnosis, entries, lint(entries, policy, facts, where="check"), policy, facts, engines, contradictions
    )


def _case(
    file: str,
    diagnosis: Diagnosis,
    value: JSON,
    report: Report,
    policy: Policy,
    facts: Facts,
    engines: Sequence[Engine],
    contradictions: tuple[Contradiction, ...] = (),
) -> DiagnosedPod:
    diagnosis = window.with_probe(diagnosis, engines[0]) if engines else diagnosis
    patch = patch_of(report, repair(value, policy, facts, audited=False).edits)
    return DiagnosedPod(file, diagnosis, report if report.results else None, patch, tuple(engines), contradictions)


def tree(case: DiagnosedPod) -> dict[str, Any]:
    """The diagnosis of one Pod as plain JSON values."""
    diagnosis = case.diagnosis
    out: dict[str, Any] = {
        "file": case.file,
        "object": _object(case),
        "plane": diagnosis.plane,
        "cause": diagnosis.cause.id if diagnosis.cause else None,
        "evidence": list(case.evidence),
        "rule": case.rule if diagnosis.cause else None,
        "certainty": diagnosis.certainty,
        "line": diagnosis.line,
        "title": diagnosis.cause.title if diagnosis.cause else _outcome(diagnosis),
        "phase": diagnosis.phase if diagnosis.cause else None,
        "remedy": case.remedy,
        "then": list(diagnosis.then),
        "log": _log(diagnosis),
        "contradictions": [
            {"name": item.name, "log": case.secrets.line(item.log), "manifest": case.secrets.line(item.manifest)}
            for item in case.contradictions
        ],
    }
    if case.report is not None:
        report = case.report
        out["plans"] = [
            {"container": engine.container.name, **plan.tree(engine, report.secrets)} for engine in case.engines
        ]
        out["findings"] = [finding(report, graded) for graded in report.findings if graded.is_reported]
        out["patch"] = case.patch
    return out


def _log(diagnosis: Diagnosis) -> dict[str, Any] | None:
    """The values of the logged start that a manifest or a plan can be compared with, as JSON; None without one."""
    start = diagnosis.start
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


def _object(case: DiagnosedPod) -> dict[str, Any] | None:
    """The kind, namespace and name of the Pod or workload in the input, as JSON."""
    entries = case.diagnosis.pod
    if entries is None:
        return None
    metadata = entries.get("metadata")
    named = metadata if isinstance(metadata, Mapping) else {}
    return {"kind": entries.get("kind"), "namespace": named.get("namespace"), "name": named.get("name")}


def _where(case: DiagnosedPod) -> str:
    """ "pods.json: Pod chat/vllm-0", "crash.log:17"."""
    named = _object(case)
    if named is not None:
        place = "/".join(str(part) for part in (named["namespace"], named["name"]) if part)
        return one_line(f"{case.file}: {named['kind']} {place or '(no name)'}")
    return clean(f"{case.file}:{case.diagnosis.line}" if case.diagnosis.line else case.file)


def text(case: DiagnosedPod, *, verbose: bool = False, width: int = denial.WIDTH) -> str:
    """The diagnosis as text: contradictions of log and manifest, the cause, its reason, the remedy and the evidence.
    `verbose`: all of the evidence, the plan, the other findings and the changes. `width`: of a line, in characters."""
    diagnosis = case.diagnosis
    differs = _contradicted(case, width)
    if diagnosis.cause is None or diagnosis.plane is None:
        return "\n".join([*differs, *_without_cause(case, width)]) + "\n"
    plane = f"[{denial.PLANES[diagnosis.plane]}]"
    sure = "" if diagnosis.certainty == "certain" else " (likely: only a symptom was seen)"
    head = [f"{_where(case)}: {diagnosis.cause.title}{sure}  {plane}", f"  cause     {diagnosis.cause.id}"]
    why = _labelled("why", _rule(case), width) if case.rule else []
    helps = case.remedy or ""
    remedy = _labelled("remedy", helps, width)
    also = _labelled("also", "other causes in the log: " + ", ".join(diagnosis.then), width) if diagnosis.then else []
    sections = [differs, head, why, remedy, also, _pod(case, width) if verbose else _rest(case, width)]
    if not verbose:
        _shorten(sections, (also, why, differs), MAX_LINES - MIN_EVIDENCE)
    room = max(MIN_EVIDENCE, MAX_LINES - sum(map(len, sections)))
    evidence = _evidence(case.evidence, width) if verbose else _first(case.evidence, helps, room, width)
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


def _contradicted(case: DiagnosedPod, width: int) -> list[str]:
    """A wrapped warning if the log is not of this manifest; none if it may be."""
    if not case.contradictions:
        return []
    named = "; ".join(one_line(case.secrets.line(str(item))) for item in case.contradictions)
    sentence = f"warning: {case.file} is not the log of this manifest: {named}. The plan uses the values of the log."
    return textwrap.wrap(clean(sentence), width, break_long_words=False, break_on_hyphens=False)


def _rest(case: DiagnosedPod, width: int) -> list[str]:
    """Lines about the rest: other findings and the repair."""
    if case.report is None:
        return []
    others = sum(graded.is_reported and graded.rule != case.rule for graded in case.report.findings)
    counts = [f"{others} other finding{'s' * (others != 1)}"] if others else []
    if case.patch:
        counts.append(f"{len(case.patch)} change{'s' * (len(case.patch) != 1)} that `podfit fix` makes")
    return _labelled("more", f"-v shows the plan{''.join(f', {count}' for count in counts)}", width)


def _without_cause(case: DiagnosedPod, width: int) -> list[str]:
    """The lines on a Pod without a known cause: that the log is not vLLM's, or the outcome; and unless that is good,
    the evidence and what to do next."""
    diagnosis, where = case.diagnosis, _where(case)
    if not diagnosis.evidence and diagnosis.foreign:
        sentence = (
            f"{where}: no line of vLLM, an Event or a container's status. Fix: give the log of the container that "
        )
        return textwrap.wrap(f"{sentence}failed, as in kubectl logs --previous POD -c CONTAINER", width)
    out = textwrap.wrap(f"{where}: {_outcome(diagnosis)}", width)
    if diagnosis.healthy:
        return out
    out += _evidence(case.evidence, width)
    out += _labelled("remedy", WITHOUT_CAUSE, width) if diagnosis.line is None else []
    if any("137" in line for line in diagnosis.evidence):
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


def _outcome(diagnosis: Diagnosis) -> str:
    """The outcome without a known cause, in one line."""
    if diagnosis.healthy:
        return "no failure seen"
    return "an error that podfit does not know" if diagnosis.line else "this text shows no cause"


def _evidence(lines: Sequence[str], width: int) -> list[str]:
    """The evidence, wrapped and not shortened: text lines of at most `width` characters."""
    return [
        row for index, line in enumerate(lines) for row in _labelled("" if index else "evidence", one_line(line), width)
    ]


_PREFIX = regex(r"^(?:\([\w ]+=?[\w= ]*\) )?(?:ERROR|CRITICAL|WARNING|INFO) \d\d-\d\d [\d:]+ \[[\w./]+:\d+\] ")
"""The prefix of vLLM's logger before a message: process, level, time and place."""


def _first(lines: Sequence[str], remedy: str, room: int, width: int) -> list[str]:
    """The first line's message in `room` lines of a terminal. A longer one is cut. Its first half stays, and the text
    before the last number that the remedy quotes, so that readers see where that is from."""
    sentence = _PREFIX.sub("", one_line(lines[0])) if lines else ""
    texts, length = _labelled("evidence", sentence, width), room * (width - 12)
    end = max((sentence.rfind(number) + len(number) for number in re.findall(r"\d{2,}", remedy)), default=0)
    while len(texts) > room:
        length -= 10
        cut = f"{sentence[:length]}…"
        if end > length:
            tail = sentence[end - length // 2 : end].partition(" ")[2]
            cut = f"{sentence[: length // 2].rpartition(' ')[0]} … {tail}…"
        texts = _labelled("evidence", cut, width)
    return texts


def _labelled(label: str, words: str, width: int) -> list[str]:
    """Text in the column after its label."""
    return textwrap.wrap(
        words, width, initial_indent=f"  {label:<10}", subsequent_indent=" " * 12,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def _rule(pod: DiagnosedPod) -> str:
    """A sentence on the rule that would have reported the cause, and whether it reports it in the Pod."""
    if (graded := pod.manifest_finding) is not None:
        return f"{pod.rule} reports it in the manifest: {one_line(graded.finding.message)} ({graded.path})"
    if pod.report is not None:
        return (
            f"{pod.rule} checks for this cause but reports no problem in the given manifest (podfit explain {pod.rule})"
        )
    return f"{pod.rule} reports this in a manifest (podfit explain {pod.rule})"


def _pod(case: DiagnosedPod, width: int) -> list[str]:
    """The plans of the Pod's containers, the reported findings, and the changes of a repair; none without a Pod."""
    if case.report is None:
        return []
    out = []
    for engine in case.engines:
        name = subject.printable_name(engine.container.name)
        table = plan.table(engine, case.secrets)
        out += ["", f"plan of container '{name}' of {subject.describe_object(case.report.object)}"]
        out += textwrap.indent(table.rstrip(), "  ").splitlines()
    for result in case.report.results:
        for graded in result.findings:
            if graded.is_reported:
                out += [
                    "",
                    textwrap.indent(denial.block(graded, f"{denial.HEADINGS[graded.heading]}  ", width - 2), "  "),
                ]
    if case.patch:
        out += ["", "what `podfit fix` would change:", *(f"  {line}" for line in _changes(case))]
    return out


def _changes(case: DiagnosedPod) -> list[str]:
    """The patch as a person reads it: place and value."""
    from json import dumps

    return [
        f"{operation['op']:<8}{shortened(clean(operation['path']))}"
        + (f"  {shortened(clean(dumps(operation['value'], ensure_ascii=False)))}" if "value" in operation else "")
        for operation in case.patch or ()
    ]
