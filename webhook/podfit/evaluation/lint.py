"""The pure function behind the webhook, `podfit check` and everything else: object + policy + facts → Report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache
from itertools import islice
from operator import attrgetter, itemgetter
from typing import Any, Literal, NamedTuple

from podfit.base.lazy import cached_property
from podfit.base.printable import LONGEST, clean, one_line, shortened
from podfit.base.secret import FORMS, SHOWN, Secrets
from podfit.evaluation.policy import Policy, Setting, Subject, Terms
from podfit.evaluation.policy.layer import ApplicableRules, softer_mode
from podfit.evaluation.quoting import quotable
from podfit.kube import namespace_limits, revisions, workload
from podfit.kube.patch import Edit, edited, fits, shrinks
from podfit.kube.path import FieldPath, mapping
from podfit.kube.workload import JSON, Container, Whole, Workload
from podfit.kube.workload.kserve_runtime import with_runtimes
from podfit.rules import all_rules, engine, releases
from podfit.rules.engine import Engine
from podfit.rules.rule import FACTS, IGNORE, Certainty, Finding, Heading, Level, Mode, Place, Rule
from podfit.vllm.command import ALL_WORK, WorkLimit
from podfit.vllm.facts import Assumed, Fact, Facts
from podfit.vllm.release import newer_than_read

_FACT = {name: attrgetter(name) for name in FACTS}
"""A name of FACTS → what the engine knows of it."""
LONGEST_CHANGE = 4000
"""Maximum characters of a suggestion, which can be a whole command."""


@dataclass(frozen=True)
class Judged:
    """A finding with its consequence. Each text is masked when it is first read, since most are never printed."""

    rule: str
    plane: str
    threatens: str
    mode: Mode
    """What follows from it here: the policy's mode, softened where the finding is not certain."""
    applies: bool
    """The finding's fix is applied here: by the webhook where the policy says so, by `podfit fix` unless it forbids."""
    _unmasked: Finding = field(repr=False)
    """The finding as its rule yields it."""
    _reason: str | None = field(repr=False)
    _secrets: Secrets = field(repr=False, compare=False)
    _is_withheld: Callable[[], bool] = field(repr=False, compare=False)
    _notes: tuple[str, ...] = field(default=(), repr=False)
    """Further details: why it is not repaired, and which exemption does not count."""
    exempted: Literal["exception", "annotation"] | None = None
    """Why a finding is only audited: a policy's exception, or its author's annotation; `why_softened` says whose."""
    unlimited: Mode | None = None
    """The mode without the limit of the policy's `enforce.mode`; None where that limits nothing."""

    @cached_property
    def message(self) -> str:
        """The finding's message, masked, printable and bounded."""
        return self._printable(self._unmasked.message)

    @cached_property
    def why_softened(self) -> str | None:
        """Why a finding of a denying rule is only a warning, for people; None where nothing was softened."""
        return self._printable(self._reason or "") or None

    @cached_property
    def finding(self) -> Finding:
        """The finding with texts that can be printed: masked, without control characters, bounded."""
        unmasked, suggestions = self._unmasked, self._suggestions
        return replace(
            unmasked,
            message=self.message,
            details=tuple(map(self._printable, self._details)),
            suggestions=tuple([shortened(clean(self._secrets.masked(text)), LONGEST_CHANGE) for text in suggestions]),
            propose=None,
            fix=() if self.withheld else unmasked.fix,
        )

    @property
    def withheld(self) -> bool:
        """It has no fix, since the fix would rewrite a text that contains a secret."""
        return self._is_withheld()

    @property
    def masked(self) -> bool:
        """Its texts contain stars in place of secrets."""
        texts = (self._unmasked.message, *self._details, *self._suggestions, self._reason or "")
        return any(map(self._secrets.holds, texts))

    @property
    def notes(self) -> Sequence[str]:
        """The last of the finding's details."""
        return [self._printable(note) for note in self._notes]

    @property
    def _details(self) -> Sequence[str]:
        withheld = ("not repaired: the text contains a secret",) if self.withheld else ()
        return (*self._unmasked.details, *withheld, *self._notes)

    @cached_property
    def _suggestions(self) -> Sequence[str]:
        finding = self._unmasked
        return finding.suggestions if finding.propose is None else (*finding.suggestions, finding.propose())

    def _printable(self, text: str) -> str:
        masked = self._secrets.masked(text)
        return masked if len(masked) <= LONGEST and masked.isprintable() else _bounded(masked)

    @property
    def is_softened(self) -> bool:
        """There is a `why_softened`."""
        return self._reason is not None

    @property
    def certainty(self) -> Certainty:
        """The finding's certainty."""
        return self._unmasked.certainty

    @property
    def topic(self) -> str | None:
        """The finding's subject, of a rule with several."""
        return self._unmasked.topic

    @property
    def field_path(self) -> FieldPath:
        """The place of the finding."""
        return self._unmasked.path

    @property
    def level(self) -> Level:
        """The level of the finding under the policy in force.

        `likely` means that by podfit's own numbers the container more probably fails (start, restart, eviction, denied
        requests) than not. What may happen is advice."""
        if self.mode == "deny":
            return "denied"
        threatens = self.threatens in ("start", "uptime")
        return "likely" if threatens and self.certainty in ("certain", "likely") else "advice"

    @property
    def would(self) -> Mode:
        """What would follow from it if the policy enforced: its mode without the limit of `enforce.mode`."""
        return self.unlimited or self.mode

    @property
    def heading(self) -> Heading:
        """The heading under which reports show it."""
        return "would_deny" if self.would == "deny" != self.mode else self.level

    @property
    def shown(self) -> bool:
        """It is reported without being asked for: it denies or warns, or would if the policy enforced."""
        return self.would in ("deny", "warn")

    @property
    def path(self) -> str:
        """The field path, for people."""
        return shortened(clean(str(self.field_path)))


@dataclass(frozen=True, slots=True)
class RuleError:
    """A rule, or the reading of a container, raised: our fault, never the user's."""

    rule: str
    error: str


@dataclass(frozen=True, slots=True)
class Result:
    """One vLLM container, evaluated."""

    engine: Engine
    findings: tuple[Judged, ...]

    @property
    def denied(self) -> bool:
        """Something here is denied."""
        return any(judged.mode == "deny" for judged in self.findings)

    @property
    def edits(self) -> tuple[Edit, ...]:
        """The fixes that the policy applies."""
        return tuple(edit for judged in self.findings if judged.applies for edit in judged._unmasked.fix)


@dataclass(frozen=True, slots=True)
class Shadow:
    """The same object under a policy that is only counted."""

    policy: str
    results: tuple[Result, ...]

    @property
    def denied(self) -> bool:
        """The object would be denied."""
        return any(result.denied for result in self.results)

    @property
    def would_deny(self) -> bool:
        """The object would be denied without the limit of `enforce.mode`."""
        return any(judged.would == "deny" for judged in self.findings)

    @property
    def findings(self) -> tuple[Judged, ...]:
        """All findings of all containers."""
        return tuple(judged for result in self.results for judged in result.findings)


@dataclass(frozen=True)
class Report:
    """One object, evaluated."""

    object: JSON
    results: tuple[Result, ...]
    errors: tuple[RuleError, ...]
    shadows: tuple[Shadow, ...] = ()
    secrets: Secrets = field(default=FORMS, compare=False)
    """The secrets of the object and of its containers' commands, to mask every other text about it."""
    unread: str | None = None
    """The part of the object that is not evaluated, for people: it is larger than any that runs. None if all is."""

    @property
    def metadata(self) -> JSON:
        """The object's metadata; empty where it is not a mapping."""
        metadata = self.object.get("metadata")
        return metadata if isinstance(metadata, Mapping) else {}

    @property
    def denied(self) -> bool:
        """The object is denied."""
        return "deny" in [judged.mode for judged in self.findings]

    @property
    def would_deny(self) -> bool:
        """The object is denied, or only `enforce.mode` keeps it from being denied."""
        return "deny" in [judged.would for judged in self.findings]

    @property
    def edits(self) -> tuple[Edit, ...]:
        """All fixes that the policy applies."""
        return tuple(edit for result in self.results for edit in result.edits)

    @cached_property
    def findings(self) -> tuple[Judged, ...]:
        """All findings of all containers."""
        return tuple([judged for result in self.results for judged in result.findings])


def lint(
    obj: JSON,
    policy: Policy,
    facts: Facts,
    *,
    where: Place = "admission",
    old: JSON | None = None,
    namespace: str | None = None,
) -> Report:
    """Evaluates every vLLM container of `obj`. Never raises: what goes wrong in here is in `Report.errors`.

    `old`: the object before an UPDATE. What it had already is at most a warning: an old Deployment must still scale,
    roll back and lose a finalizer (kueue's ratchet). `namespace`: where the object goes, in case it does not say so.
    """
    errors: list[RuleError] = []
    subject = Subject.of(obj, facts, namespace)
    judge = _Judge(obj, old, subject, policy, facts, where)
    results = judge.results(policy.of(subject), errors)
    unheard: list[RuleError] = []
    shadows = tuple(Shadow(name, judge.results(terms, unheard)) for name, terms in policy.shadowed(subject))
    told = tuple([replace(one, error=_bounded(judge.secrets.masked(one.error))) for one in errors])
    return Report(obj, results, told, shadows, judge.secrets, judge.unread)


MOST_FINDINGS = 1024
"""Findings of one object that are reported. After them, each rule reports one finding in each container, since more of
them are the same mistake again. Four times as many are searched in the object before an update, whose old findings
excuse the new object's."""
_NOTHING: Mapping[str, str] = {}
_Before = Callable[[], frozenset[tuple[str, ...]]]
"""What was denied before an update: reading and evaluating the old object is left out where nothing is denied now."""


@dataclass(frozen=True, slots=True)
class _Read:
    """The containers of the object, or of the old one."""

    object: JSON
    assume: Assumed
    engines: Sequence[Engine]
    problems: Sequence[RuleError]
    secrets: Secrets
    beyond: str | None
    """What may run vLLM and is not read, for people."""


@dataclass(frozen=True)
class _Judge:
    """One object, to be evaluated under one or more terms."""

    obj: JSON
    old: JSON | None
    subject: Subject
    policy: Policy
    facts: Facts
    where: Place
    _read: list[_Read] = field(default_factory=list)

    def results(self, terms: Terms, errors: list[RuleError]) -> tuple[Result, ...]:
        """Every container's findings, limited by `enforce.mode`."""
        found = self._unlimited(terms, errors)
        if terms.at_most == "deny":
            return found
        return tuple([replace(one, findings=tuple([self._limited(of, terms) for of in one.findings])) for one in found])

    def _limited(self, judged: Judged, terms: Terms) -> Judged:
        """The finding with as much of its consequence as `enforce.mode` leaves."""
        applies = judged.applies and (terms.patches or self.where != "admission")
        return replace(judged, mode=softer_mode(judged.mode, terms.at_most), unlimited=judged.mode, applies=applies)

    def _unlimited(self, terms: Terms, errors: list[RuleError]) -> tuple[Result, ...]:
        """The findings without the limit of `enforce.mode`."""
        read = self._engines(self.obj, terms.assume)
        errors += read.problems
        before: _Before = cache(lambda: self._denied_before(terms)) if self.old is not None else frozenset
        found = self._judged(read, terms, before, errors)
        try:
            spared = self._unrepairable_rules(found)
        except Exception as error:  # ours: then nothing of it is repaired
            errors.append(_rule_error("limits", error))
            spared = {one.rule: "an error in podfit" for result in found for one in result.findings if one.applies}
        if spared:
            found = self._judged(read, terms, before, [], spared)
        return found

    @property
    def secrets(self) -> Secrets:
        """The secrets of the object, after its containers are read."""
        return next((one.secrets for one in self._read if one.object is self.obj), FORMS)

    @property
    def unread(self) -> str | None:
        """What is not evaluated of the object."""
        return next((one.beyond for one in self._read if one.object is self.obj), None)

    def _denied_before(self, terms: Terms) -> frozenset[tuple[str, ...]]:
        """What was denied of the object before the update, as `_keys` has it."""
        unheard = list[RuleError]()
        read = self._engines(self.old or {}, terms.assume)
        return frozenset(
            key
            for found in read.engines
            for one in self._findings(found, read, terms, unheard, most=4 * MOST_FINDINGS)
            if one.mode == "deny"
            for key in _keys(one, found)
        )

    def _judged(
        self,
        read: _Read,
        terms: Terms,
        before: _Before,
        errors: list[RuleError],
        spared: Mapping[str, str] = _NOTHING,
    ) -> tuple[Result, ...]:
        """A result for each engine: its findings under these terms."""
        results = []
        room = MOST_FINDINGS
        for found in read.engines:
            judged = self._findings(found, read, terms, errors, spared, max(1, room))
            room -= len(judged)
            if self.old is not None:
                judged = [self._softened_if_not_new(one, found, before) for one in judged]
            results.append(Result(found, tuple(judged)))
        return tuple(results)

    def _unrepairable_rules(self, found: Iterable[Result]) -> Mapping[str, str]:
        """Rules whose repairs of resources the namespace may deny at admission, and why: a mutation must never
        break what was accepted without it. All repairs of one rule together, since all of them are made."""
        spared: dict[str, str] = {}
        if self.where != "admission":
            return spared
        edits: dict[str, list[Edit]] = {}
        for judged in [judged for one in found for judged in one.findings if judged.applies]:
            fix = judged._unmasked.fix
            if any("resources" in edit.path.parts for edit in fix):
                edits.setdefault(judged.rule, []).extend(fix)
        for rule, its in edits.items():
            after, _ = edited(self.obj, [its])
            namespace = self.subject.namespace
            if why := namespace_limits.refusal(self.obj, after, namespace, self.facts.snapshot, self.policy.kinds):
                spared[rule] = why
        return spared

    def _softened_if_not_new(self, judged: Judged, found: Engine, before: _Before) -> Judged:
        """An update is denied for what it introduces, and not where it returns to what ran before."""
        if judged.mode != "deny":
            return judged
        if _keys(judged, found) & before():
            return replace(judged, mode="warn", _reason="the object had this before the update")
        if revision := self._revision:
            return replace(judged, mode="warn", _reason=f"the update returns to {revision}, which ran before")
        keeper = revisions.kept_by(self.obj)
        if self._has_new_template and self.facts.snapshot.has_unknown(keeper, self.subject.namespace):
            why = f"the update may return to what ran before: not all {keeper} of the namespace can be known"
            return replace(judged, mode="warn", _reason=why)
        return judged

    @cached_property
    def _has_new_template(self) -> bool:
        return self.old is not None and _template(self.old) != _template(self.obj)

    @cached_property
    def _revision(self) -> str | None:
        """The former template that an update returns to, where it is seen."""
        if not self._has_new_template:
            return None
        return revisions.returned_to(self.obj, self.subject.namespace, self.facts.snapshot.objects)

    def _engines(self, obj: JSON, assume: Assumed) -> _Read:
        """The containers of the object, or of the old one; read once where the same is assumed."""
        for one in self._read:
            if one.object is obj and one.assume == assume:
                return one
        facts = self.facts if assume == self.facts.assume else replace(self.facts, assume=assume)
        engines, problems, beyond = _engines(obj, self.policy, facts)
        secrets = Secrets.of(obj, *map(_told, engines))
        secrets = SHOWN if facts.show_secrets else replace(secrets, make_quotable=lambda: quotable(obj, engines))
        read = _Read(obj, assume, engines, problems, secrets, beyond)
        self._read.append(read)
        return read

    def _findings(
        self,
        found: Engine,
        read: _Read,
        terms: Terms,
        errors: list[RuleError],
        spared: Mapping[str, str] = _NOTHING,
        most: int = MOST_FINDINGS,
    ) -> list[Judged]:
        """The findings of all applicable rules for one engine; an exception in a rule becomes an error, not a
        failure."""
        asked = self._applicable(found, terms)
        errors += [_rule_error(rule, error) for rule, error in asked.wrong]
        all_judged: list[Judged] = []
        check, unnamed = releases.checker(found), found.command.unnamed
        for setting in asked.settings:
            if unnamed and not setting.rule.of_unnamed:
                continue
            try:
                checked = iter(check(setting.rule))
                if (first := next(checked, None)) is None:  # most rules have nothing to say
                    continue
                findings = [first, *islice(checked, most)]
                if len(findings) > most:
                    findings = [*findings[: most - 1], _and_more(findings[most - 1], most)]
                why = spared.get(setting.rule.id())
                judged = [_judge_finding(one, found, read, setting, terms, self.where, why) for one in findings]
                all_judged += [_exempt(one, found, terms, self.subject, self.policy.now) for one in judged]
            except Exception as error:  # the rule's, or ours with what it found: it says nothing, the others go on
                errors.append(_rule_error(setting.rule.id(), error))
        all_judged = _without_yielding(_with_presumed(all_judged))
        if found.command.then and any(judged.mode == "deny" for judged in all_judged):
            return self._softened_if_another_serves(all_judged, found, read, terms)
        return all_judged

    def _applicable(self, found: Engine, terms: Terms) -> ApplicableRules:
        """The rules that may report something about the engine. If its release is not known, those that depend on it
        are the ones of the newest release that was read."""
        newest = releases.newest(found)
        unknown = _unknown_facts(found)
        by_release = unknown if newest is found else _unknown_facts(newest)
        return terms.asked(self.where, found.workload.completes, unknown, by_release)

    def _softened_if_another_serves(
        self, findings: Sequence[Judged], found: Engine, read: _Read, terms: Terms
    ) -> list[Judged]:
        """A script goes on after a server that has failed: it is denied only if the next one is, too."""
        following = engine.next_server(found)
        if following is None or any(one.mode == "deny" for one in self._findings(following, read, terms, [])):
            return [*findings]
        why = "the script starts another server when this one has failed"
        failing = {rule_id for rule_id, rule in all_rules().items() if not rule.forbids}
        return [
            replace(one, mode="warn", _reason=why) if one.mode == "deny" and one.rule in failing else one
            for one in findings
        ]


_STRENGTH: Mapping[Mode, int] = {"ignore": 0, "audit": 1, "warn": 2, "deny": 3}


def _with_presumed(findings: list[Judged]) -> list[Judged]:
    """The findings, each at most as strong as the rule that it presumes (`Finding.presumes`)."""
    if not any(one._unmasked.presumes for one in findings):
        return findings
    modes: dict[str, Mode] = {}
    for one in findings:
        modes[one.rule] = max(modes.get(one.rule, "ignore"), one.mode, key=_STRENGTH.__getitem__)
    kept = []
    for one in findings:
        rule = one._unmasked.presumes
        mode = modes.get(rule, "ignore") if rule else one.mode
        if _STRENGTH[mode] < _STRENGTH[one.mode]:
            one = replace(one, mode=mode, _reason=f"it matters only with {rule}, whose mode is {mode}")
        kept.append(one)
    return kept


def _without_yielding(findings: list[Judged]) -> list[Judged]:
    """The findings without those that another rule's finding stands in for (`Finding.yields_to`)."""
    if not any(one._unmasked.yields_to for one in findings):
        return findings
    strength = {one.rule: 0 for one in findings}
    for one in findings:
        strength[one.rule] = max(strength[one.rule], _STRENGTH[one.mode])
    return [
        one
        for one in findings
        if not any(strength.get(other, -1) >= _STRENGTH[one.mode] for other in one._unmasked.yields_to)
    ]


_ROOM, _EACH, _OTHER = 1 << 15, 64, 4
"""What the containers of one object may cost together, and what each costs at least, with vLLM and without. 512 with
vLLM (a Ray cluster has a group for each), or 8,192 without: no object that runs has more."""
_WORD, _RELEASES, _REFUSED, _STEPS = 2, 12, 48, 8
"""The cost of a word of vLLM's command. The factor if the release is not known, since the parsers of
many releases may read it. The factor if all of them reject its values. How many steps of a script
(`WorkLimit`) cost 1."""
_LAYERS, _LAYER, _GENERATIONS = 128, 2, 4
"""The layers of a model that cost nothing, what each of the others costs 1 for, and the factor if the release is not
known."""


def _price(read: Engine) -> int:
    """What a container with vLLM costs, with the servers that start when the first has failed."""
    times = 1 if read.release is not None else _REFUSED if read.args.errors else _RELEASES
    each = _WORD * times
    layers = read.model.value.described_layers - _LAYERS if read.model is not None else 0
    planned = max(0, layers) // _LAYER * (1 if read.release is not None else _GENERATIONS)
    return planned + sum([_EACH + each * len(one.words) for one in (read.command, *read.command.then)])


def _engines(obj: JSON, policy: Policy, facts: Facts) -> tuple[Sequence[Engine], Sequence[RuleError], str | None]:
    """The vLLM containers of an object, what went wrong, and what of the object is not read."""
    try:
        workloads = with_runtimes(workload.find(obj, policy.kinds), facts.companions.serving_runtime)
    except Exception as error:
        return (), [_rule_error("workload", error)], None
    wholes = {id(obj): Whole(obj, workloads)}
    pods = [_Pod(one, wholes.setdefault(id(one.object), Whole(one.object)), [], []) for one in workloads]
    listed = [_Listed(pod, container) for pod in pods for container in pod.workload.containers]
    order = [n for n, one in enumerate(listed) if _asks_for_a_device(one.container)]
    order += sorted({*range(len(listed))} - {*order})
    budget, room, left = WorkLimit(ALL_WORK), _ROOM, 0
    found: dict[int, Engine] = {}
    errors: list[RuleError] = []
    for n in order:
        if room <= 0:
            left += 1
            continue
        one = listed[n]
        pod, before = one.pod, budget.spent
        try:
            read = engine.read(pod.workload, one.container, facts, policy.releases, budget, pod.siblings, pod.whole)
        except Exception as error:
            errors.append(_rule_error("engine", error))
            room -= _EACH
            continue
        room -= (budget.spent - before) // _STEPS
        room -= _OTHER if read is None else _price(read)
        if read is not None:
            errors += [_rule_error(stage, error) for stage, error in read.errors]
            found[n] = read
            pod.numbers.append(n)
    for pod in pods:
        numbered = sorted(zip(pod.numbers, pod.siblings, strict=True), key=itemgetter(0))
        pod.siblings[:] = [sibling for _, sibling in numbered]
    beyond = next((one.beyond for one in workloads if one.beyond), None)
    if left:
        beyond = f"{left} of {len(listed)} containers are not evaluated: the object has too many"
    engines: Sequence[Engine] = [found[n] for n in sorted(found)]
    try:
        engines = engine.with_leaders(engines)
    except Exception as error:  # ours: then a worker has no model
        errors.append(_rule_error("leader", error))
    return engines, errors, beyond


def _asks_for_a_device(container: Container) -> bool:
    """Such containers are read first: others must not use up the room."""
    resources = mapping(container.spec.get("resources"))
    return bool(resources.get("claims")) or any("/" in str(name) for name in mapping(resources.get("limits")))


class _Pod(NamedTuple):
    """A Pod template of an object, to be read."""

    workload: Workload
    whole: Whole
    siblings: list[engine.Sibling]
    """The engines of the Pod that are read."""
    numbers: list[int]
    """Which of the object's containers each of them is."""


class _Listed(NamedTuple):
    """A container of an object, to be read."""

    pod: _Pod
    container: Container


def _and_more(last: Finding, most: int) -> Finding:
    """The last finding that is shown of a rule that has more."""
    return replace(last, details=(*last.details, f"there are more of these; the first {most} are reported"))


def _rule_error(rule: str, error: Exception) -> RuleError:
    """An exception of ours, as it is logged and counted."""
    return RuleError(rule, f"{type(error).__name__}: {error}")


def _told(found: Engine) -> list[Any]:
    """Return the parts of a container's command that can contain secrets: words and variables after expansion by a
    shell and by Kubernetes, and arguments by name."""
    args = found.args
    misspelt = {
        flag.suggestion: args.written.get(flag.flag.lstrip("-").replace("-", "_"))
        for flag in (*args.unknown, *args.unheard)
    }
    words = [word.text for word in found.command.words]
    return [words, found.command.env, args.given, args.written, misspelt]


def _unknown_facts(found: Engine) -> frozenset[str]:
    """The names in FACTS whose value is unknown."""
    return frozenset([name for name, fact in _FACT.items() if fact(found) is None])


def _judge_finding(
    finding: Finding,
    found: Engine,
    read: _Read,
    setting: Setting,
    terms: Terms,
    where: Place,
    spared: str | None = None,
) -> Judged:
    """A rule's finding with its consequence. `spared`: why the webhook does not repair it."""
    rule = setting.rule
    if finding.fix and not fits(read.object, finding.fix):
        finding = replace(finding, fix=())  # malformed next to it: there is nothing to hold on to
    if finding.fix and (less := shrinks(read.object, finding.fix)) is not None:
        finding = replace(finding, fix=(), details=(*finding.details, f"not repaired: {less}"))
    fix = finding.fix
    is_withheld = cache(lambda: any(_rewrites(edit, read) for edit in fix))
    mode: Mode = setting.mode
    why: str | None = None
    if mode == "deny":
        mode, why = _soften(rule, finding, found, terms, where)
    elif mode == "warn" and finding.advice:
        mode = "audit"
    by_webhook = setting.fix is True or (setting.fix == "certain" and finding.certainty == "certain")
    mutated = by_webhook and spared is None and bool(fix) and not is_withheld()
    applies = mutated or (where == "check" and setting.fix is not False and bool(fix) and not is_withheld())
    if mode == "deny" and mutated and terms.trust_mutation:
        mode, why = "warn", "the mutating webhook repairs it"
    notes = () if spared is None else (f"not repaired: {spared}",)
    return Judged(rule.id(), rule.plane, rule.threatens, mode, applies, finding, why, read.secrets, is_withheld, notes)


def _rewrites(edit: Edit, read: _Read) -> bool:
    """Return whether the edit rewrites a text that contains a secret."""
    if edit.op == "remove":
        return False
    now = edit.path.get(read.object)
    return read.secrets.hold(edit.value) or (isinstance(now, str) and read.secrets.holds(now))


def _bounded(text: str) -> str:
    return shortened(one_line(text))


def _soften(rule: Rule, finding: Finding, found: Engine, terms: Terms, where: Place) -> tuple[Mode, str | None]:
    """A denial rests only on certain findings and on facts that may deny."""
    if finding.certainty != "certain":
        uncertain = finding.uncertain or rule.never_denies
        because = f": {uncertain}" if uncertain else ""
        return "warn", f"{finding.certainty}, not certain{because}"
    if finding.fillable and where == "check":
        return "warn", finding.fillable
    of_vllm = rule.of_vllm if finding.of_vllm is None else finding.of_vllm
    newer = newer_than_read(found.release)
    if rule.of_parser and not found.args.parser_known:
        return "warn", newer or f"vLLM {found.release} may take more flags and values"
    if of_vllm and not rule.of_parser and newer:
        return "warn", newer
    if of_vllm and found.informs:
        return "warn", f"vLLM {found.release} is read from a part of the image's name"
    if found.workload.unfilled:
        return "warn", f"the parameter {found.workload.unfilled[0]} has no value here"
    if found.workload.unread:
        return "warn", found.workload.unread
    defaults = found.workload.defaults
    if defaults and _of_words(rule, finding, found):
        defaults = tuple(one for one in defaults if one not in found.workload.aside)
    if defaults:
        return "warn", f"the parameter {defaults[0]} has a default here, which may be replaced"
    if found.command.survived and not rule.forbids:
        return "warn", found.command.survived
    if found.command.guessed:
        return "warn", f"that this is vLLM is a guess: {found.command.guessed}"
    if (found.args.open or not found.command.complete) and not rule.forbids:
        why = f": {found.args.open}" if found.args.open else ""
        return "warn", f"vLLM may get more arguments than can be seen here{why}"
    rests_on = rule.needs if finding.rests_on is None else finding.rests_on
    computed = any(name.startswith("plan.") for name in (*rule.needs, *rests_on))
    if computed and (doubt := found.doubt if rests_on else found.unseen):
        return "warn", doubt
    if "plan.host" in rule.needs and found.spans_pods:
        return "warn", "the engine spans several Pods, and which of its processes run in this one is unknown"
    facts = [_FACT[fact](found) for name in rests_on for fact in FACTS[name]]
    informing = [fact.source for fact in facts if isinstance(fact, Fact) and not fact.may_deny]
    if informing:
        return "warn", f"rests on {informing[0]}, which may inform but not deny"
    if found.workload.replicas == 0 and not rule.forbids:
        return "warn", "replicas: 0: nothing starts now, and the next scale-up would"
    if where == "admission" and found.workload.owned and terms.owned_pods != "deny":
        return "warn", "a controller made this object: what it would be denied for is denied at its owner"
    return "deny", None


def _of_words(rule: Rule, finding: Finding, found: Engine) -> bool:
    """The finding is about vLLM's arguments, alone or with model and GPU, and about nothing else."""
    told = [found.at(name).parts for name in ("command", "args")]
    here = any(finding.path.parts[: len(one)] == one for one in told)
    return here and rule.plane in ("config", "gpu") and not found.container.synthetic


def _keys(judged: Judged, found: Engine) -> set[tuple[str, ...]]:
    """How a finding is recognized after an edit: by its topic, else by its place or, where list indices moved, by its
    words."""
    where = (judged.rule, str(found.workload.path), found.container.name)
    if topic := judged.topic:
        return {(*where, "about", topic)}
    return {(*where, "at", str(judged.field_path)), (*where, "says", judged.message)}


def _template(obj: JSON) -> object:
    return mapping(mapping(obj.get("spec")).get("template"))


def _exempt(judged: Judged, found: Engine, terms: Terms, subject: Subject, now: datetime | None) -> Judged:
    """An accepted finding is audited: not denied, shown or repaired, but never lost.

    An exemption that does not count is reported with its finding.
    """
    said: list[str] = []
    for exception in terms.exceptions:
        if not exception.covers(judged.rule) or exception.match.selects(subject) is False:
            continue
        if exception.holds(now):
            whose = f"{exception.owner} in policy {exception.policy}"
            why = f"excepted until {exception.until} by {whose}: {exception.reason}"
            return replace(judged, mode="audit", _reason=why, applies=False, exempted="exception")
        if now is not None:
            said.append(f"the exception in policy {exception.policy} ({exception.owner}) ended: {exception.until}")
    key = f"{IGNORE}{judged.rule}"
    reason = found.workload.annotations.get(key)
    if reason is not None:
        if reason.strip() and terms.may_ignore(judged.rule):
            why = f"ignored by its author: {reason.strip()}"
            return replace(judged, mode="audit", _reason=why, applies=False, exempted="annotation")
        why = "the policy does not allow it" if reason.strip() else "it gives no reason"
        said.append(f"annotation {key} does not count: {why}")
    if not said:
        return judged
    return replace(judged, _notes=(*judged._notes, *said))
