"""The pure function: object + policy + facts → Report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import islice

from podfit.base.lazy import cached_property
from podfit.base.secret import FORMS, Secrets
from podfit.evaluation.lint import steps
from podfit.evaluation.lint.consequence import Context, initial, soften
from podfit.evaluation.lint.containers import Containers, read_containers
from podfit.evaluation.lint.doubts import DOUBTS, DOUBTS_OF_UPDATE
from podfit.evaluation.lint.exemptions import invalid_exemptions
from podfit.evaluation.lint.fixes import unrepairable_rules, with_possible_fix
from podfit.evaluation.lint.results import GradedFinding, Report, Result, RuleError, Shadow
from podfit.evaluation.lint.update import Key, Update, finding_keys
from podfit.evaluation.policy import Policy, Setting, Subject, Terms
from podfit.evaluation.policy.layer import ApplicableRules, softer_mode
from podfit.kube.workload import JSON
from podfit.rules import releases
from podfit.rules.engine import Engine
from podfit.rules.reading import next_server
from podfit.rules.rule import FACT_GETTERS, Finding, Place
from podfit.vllm.facts import Assumed, Facts

MAX_FINDINGS_PER_OBJECT = 1024
"""Findings of one object that are reported. After them, each rule reports one finding in each container, since more of
them are the same mistake again."""
MAX_OLD_FINDINGS_PER_CONTAINER = 4 * MAX_FINDINGS_PER_OBJECT
"""Findings of each rule in a container of an object before its update: they excuse those of the new object."""


def lint(
    obj: JSON,
    policy: Policy,
    facts: Facts,
    *,
    where: Place = "admission",
    old: JSON | None = None,
    namespace: str | None = None,
) -> Report:
    """Evaluate every vLLM container of `obj`. Never raises: what fails in here is in `Report.errors`.

    `old`: the object before an UPDATE. What it had already is at most a warning: an old Deployment must still scale,
    roll back and lose a finalizer (kueue's ratchet). `namespace`: the namespace of an object that names none.
    """
    errors: list[RuleError] = []
    subject = Subject.of(obj, facts, namespace)
    evaluation = _Evaluation(object=obj, old_object=old, subject=subject, policy=policy, facts=facts, place=where)
    results = evaluation.results(policy.of(subject), errors)
    shadow_errors: list[RuleError] = []  # a policy that is only counted reports no errors
    shadows = tuple(Shadow(name, evaluation.results(terms, shadow_errors)) for name, terms in policy.shadowed(subject))
    masked_errors = tuple([error._replace(error=evaluation.secrets.line(error.error)) for error in errors])
    return Report(obj, results, masked_errors, shadows, evaluation.secrets, evaluation.unread)


@dataclass(frozen=True, kw_only=True)
class _Evaluation:
    """One object, to be evaluated under the terms of one or more policies."""

    object: JSON
    old_object: JSON | None
    subject: Subject
    policy: Policy
    facts: Facts
    place: Place
    _containers: list[Containers] = field(default_factory=list)
    """The containers of the object, and of the old one, that were read."""

    @property
    def secrets(self) -> Secrets:
        """The secrets of the object, after its containers are read."""
        return next((read.secrets for read in self._containers if read.object is self.object), FORMS)

    @property
    def unread(self) -> str | None:
        """The reason why a part of the object is not evaluated; None if all is."""
        return next((read.unread for read in self._containers if read.object is self.object), None)

    def containers(self, obj: JSON, assumed: Assumed) -> Containers:
        """Return the containers of the object, or of the old one. They are read once if the same is assumed."""
        for containers in self._containers:
            if containers.object is obj and containers.assumed == assumed:
                return containers
        containers = read_containers(obj, assumed, self.policy, self.facts)
        self._containers.append(containers)
        return containers

    @cached_property
    def update(self) -> Update | None:
        """The change from the old object; None if there is none."""
        if self.old_object is None:
            return None
        return Update(self.object, self.old_object, self.subject.namespace, self.facts.snapshot)

    def results(self, terms: Terms, errors: list[RuleError]) -> tuple[Result, ...]:
        """Return every container's findings, limited by `enforce.mode`."""
        results = self._unlimited_results(terms, errors)
        if terms.at_most == "deny":
            return results
        return tuple([
            result._replace(findings=tuple([self._limited(finding, terms) for finding in result.findings]))
            for result in results
        ])  # fmt: skip

    def _limited(self, finding: GradedFinding, terms: Terms) -> GradedFinding:
        """Return the finding with as much of its consequence as `enforce.mode` leaves."""
        limited = replace(
            finding.consequence,
            mode=softer_mode(finding.mode, terms.at_most),
            unlimited=finding.mode,
            applies=finding.applies and (terms.patches or self.place != "admission"),
        )
        return replace(finding, consequence=limited)

    def _unlimited_results(self, terms: Terms, errors: list[RuleError]) -> tuple[Result, ...]:
        """Return the findings without the limit of `enforce.mode`. They are graded again if a repair turns out to be
        one that the namespace may deny, since then a finding is not softened for its repair."""
        containers = self.containers(self.object, terms.assume)
        errors += containers.errors
        denied_before = cache(lambda: self._denied_before(terms))
        run = _Run(evaluation=self, terms=terms, containers=containers, denied_before=denied_before)
        results = run.results(errors)
        try:
            unrepairable = self._unrepairable_rules(results)
        except Exception as error:  # podfit's: then nothing of it is repaired
            errors.append(RuleError.of("limits", error))
            applied = [finding.rule for result in results for finding in result.findings if finding.applies]
            unrepairable = dict.fromkeys(applied, "an error in podfit")
        return replace(run, unrepairable=unrepairable).results([]) if unrepairable else results

    def _denied_before(self, terms: Terms) -> frozenset[Key]:
        """Return the keys of what was denied of the object before the update."""
        containers = self.containers(self.old_object or {}, terms.assume)
        run = _Run(evaluation=self, terms=terms, containers=containers, denied_before=frozenset)
        return frozenset([
            key
            for engine in containers.engines
            for finding in run.findings(engine, [], MAX_OLD_FINDINGS_PER_CONTAINER)
            if finding.mode == "deny"
            for key in finding_keys(finding.rule, finding.unmasked, finding.message, engine)
        ])  # fmt: skip

    def _unrepairable_rules(self, results: Sequence[Result]) -> Mapping[str, str]:
        """Return the rules whose repairs the namespace may deny at admission, each with the reason."""
        if self.place != "admission":
            return {}
        fixes = [
            (finding.rule, finding.unmasked.fix) for result in results for finding in result.findings if finding.applies
        ]
        return unrepairable_rules(fixes, self.subject, self.object, self.policy, self.facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """All containers of one object, checked with the rules of a policy's terms."""

    evaluation: _Evaluation
    terms: Terms
    containers: Containers
    denied_before: Callable[[], frozenset[Key]]
    """Evaluate the object before its update, once, and return the keys of its denied findings."""
    unrepairable: Mapping[str, str] = field(default_factory=dict)
    """Rules whose findings the webhook does not repair, each with the reason."""

    def results(self, errors: list[RuleError]) -> tuple[Result, ...]:
        """Return the findings of each container. Errors of rules are added to `errors`."""
        results = []
        findings_left = MAX_FINDINGS_PER_OBJECT
        for engine in self.containers.engines:
            findings = self.findings(engine, errors, max(1, findings_left))
            findings_left -= len(findings)
            if self.evaluation.update is not None:
                findings = [self._softened_by_update(finding, engine) for finding in findings]
            results.append(Result(engine, tuple(findings)))
        return tuple(results)

    def findings(
        self, engine: Engine, errors: list[RuleError], most: int = MAX_FINDINGS_PER_OBJECT
    ) -> Sequence[GradedFinding]:
        """Return the findings of all applicable rules in one container, at most `most` of each rule.

        An exception in a rule is added to `errors`; the other rules are checked nevertheless."""
        applicable = self._applicable_rules(engine)
        errors += [RuleError.of(rule, error) for rule, error in applicable.wrong]
        findings: list[GradedFinding] = []
        check, settings = releases.checker(engine), applicable.settings
        if engine.command.unnamed:  # the only sign of vLLM is a GPU: most rules would be about a guess
            settings = tuple(setting for setting in settings if setting.rule.of_unnamed)
        for setting in settings:
            try:
                reported = iter(check(setting.rule))
                first = next(reported, None)
                if first is None:  # as most rules: a context takes time
                    continue
                context = self._context(setting)
                findings += [_with_consequence(finding, engine, context) for finding in _bounded(first, reported, most)]
            except Exception as error:  # the rule's, or podfit's with its findings: the other rules are checked
                errors.append(RuleError.of(setting.rule.id(), error))
        return self._after_steps(findings, engine)

    def _after_steps(self, findings: Sequence[GradedFinding], engine: Engine) -> Sequence[GradedFinding]:
        """Return the findings after the steps over all of them. The last one is only for a denial of a server after
        which the script starts another one."""
        findings = steps.without_yielding(steps.limit_to_presumed(findings))
        if not engine.command.then or not _is_denied(findings):
            return findings
        other_server = next_server(engine)
        if other_server is None or _is_denied(self.findings(other_server, [])):
            return findings
        return steps.soften_for_next_server(findings)

    def _applicable_rules(self, engine: Engine) -> ApplicableRules:
        """Return the rules that may report something about the engine. If its release is not known, those that depend
        on it are the ones of the newest release that was read."""
        newest = releases.newest(engine)
        unknown = _unknown_facts(engine)
        by_release = unknown if newest is engine else _unknown_facts(newest)
        return self.terms.applicable_rules(self.evaluation.place, engine.workload.completes, unknown, by_release)

    def _context(self, setting: Setting) -> Context:
        """The context in which findings of one setting are graded."""
        evaluation, containers = self.evaluation, self.containers
        return Context(
            setting=setting,
            terms=self.terms,
            place=evaluation.place,
            subject=evaluation.subject,
            now=evaluation.policy.now,
            object=containers.object,
            secrets=containers.secrets,
            unrepairable=self.unrepairable.get(setting.rule.id()),
            update=evaluation.update,
            denied_before=self.denied_before,
        )

    def _softened_by_update(self, finding: GradedFinding, engine: Engine) -> GradedFinding:
        """Return the finding after the doubts of an update."""
        if finding.mode != "deny":
            return finding
        context = self._context(self.terms.settings[finding.rule])
        softened = soften(finding.consequence, DOUBTS_OF_UPDATE, finding.unmasked, engine, context)
        return replace(finding, consequence=softened)


def _bounded(finding: Finding, others: Iterator[Finding], most: int) -> Sequence[Finding]:
    """Return at most `most` findings of one rule, `finding` and `others`; the last one says so if there are more."""
    findings = [finding, *islice(others, most)]
    if len(findings) <= most:
        return findings
    last = findings[most - 1]
    more = f"there are more of these; the first {most} are reported"
    return [*findings[: most - 1], last._replace(details=(*last.details, more))]


def _is_denied(findings: Sequence[GradedFinding]) -> bool:
    """True if a finding is denied."""
    return any(finding.mode == "deny" for finding in findings)


def _with_consequence(finding: Finding, engine: Engine, context: Context) -> GradedFinding:
    """Return a rule's finding with its consequence, before the steps over all findings."""
    rule = context.rule
    finding = with_possible_fix(finding, context.object)
    consequence = soften(initial(finding, context), DOUBTS, finding, engine, context)
    notes = [] if context.unrepairable is None else [f"not repaired: {context.unrepairable}"]
    if consequence.exempted is None:
        notes += invalid_exemptions(engine, context)
    return GradedFinding(
        rule=rule.id(),
        plane=rule.plane,
        threatens=rule.threatens,
        consequence=consequence,
        unmasked=finding,
        object=context.object,
        secrets=context.secrets,
        unmasked_notes=tuple(notes),
    )


def _unknown_facts(engine: Engine) -> frozenset[str]:
    """Return the names of the facts that are unknown."""
    return frozenset([name for name, get in FACT_GETTERS.items() if get(engine) is None])
