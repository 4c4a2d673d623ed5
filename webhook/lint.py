"""The pure function behind the webhook, `podfit check` and everything else: object + policy + facts → Report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from webhook import engine, workload
from webhook.engine import Engine
from webhook.facts import Fact, Facts
from webhook.patch import Edit, fits
from webhook.policy import Policy, Setting
from webhook.rule import Finding, Mode, Place, Rule
from webhook.workload import JSON, Workload


@dataclass(frozen=True)
class Judged:
    """A finding with its consequence."""

    rule: str
    plane: str
    threatens: str
    mode: Mode
    """What follows from it here: the policy's mode, softened where the finding is not certain."""
    why_softened: str | None
    """Why a finding of a denying rule is only a warning, for people; None where nothing was softened."""
    finding: Finding
    applies: bool
    """The finding's fix is applied here: by the webhook where the policy says so, by `podfit fix` unless it forbids."""


@dataclass(frozen=True)
class RuleError:
    """A rule, or the reading of a container, raised: our fault, never the user's."""

    rule: str
    error: str


@dataclass(frozen=True)
class Result:
    """One vLLM container, judged."""

    engine: Engine
    findings: tuple[Judged, ...]

    @property
    def denied(self) -> bool:
        """Something here is denied."""
        return any(judged.mode == "deny" for judged in self.findings)

    @property
    def edits(self) -> tuple[Edit, ...]:
        """The fixes that the policy applies."""
        return tuple(edit for judged in self.findings if judged.applies for edit in judged.finding.fix)


@dataclass(frozen=True)
class Report:
    """One object, judged."""

    object: JSON
    results: tuple[Result, ...]
    errors: tuple[RuleError, ...]

    @property
    def metadata(self) -> JSON:
        """The object's metadata; empty where it is no mapping."""
        metadata = self.object.get("metadata")
        return metadata if isinstance(metadata, Mapping) else {}

    @property
    def denied(self) -> bool:
        """The object is refused."""
        return any(result.denied for result in self.results)

    @property
    def edits(self) -> tuple[Edit, ...]:
        """All fixes that the policy applies."""
        return tuple(edit for result in self.results for edit in result.edits)

    @property
    def findings(self) -> tuple[Judged, ...]:
        """All findings of all containers."""
        return tuple(judged for result in self.results for judged in result.findings)


def lint(obj: JSON, policy: Policy, facts: Facts, *, where: Place = "admission", old: JSON | None = None) -> Report:
    """Judges every vLLM container of `obj`. Never raises: what goes wrong in here is in `Report.errors`.

    `old`: the object before an UPDATE. What it had already is at most a warning: an old Deployment must still scale,
    roll back and lose a finalizer (kueue's ratchet).
    """
    errors: list[RuleError] = []
    facts = replace(
        facts,
        assumed_gpu=policy.assume.gpu,
        nodes_are_all=policy.assume.nodes == "closed",
        download_rate=policy.assume.download_rate or facts.download_rate,
    )
    before = _known(old, policy, facts, where) if old is not None else frozenset()
    results = []
    for found in _engines(obj, policy, facts, errors):
        judged = [
            one for setting in policy.settings.values() for one in _judge(found, obj, setting, policy, where, errors)
        ]
        results.append(Result(found, tuple(_ratchet(one, found, before) for one in judged)))
    return Report(obj, tuple(results), tuple(errors))


def _engines(obj: JSON, policy: Policy, facts: Facts, errors: list[RuleError]) -> Iterator[Engine]:
    try:
        workloads: list[Workload] = workload.find(obj)
    except Exception as error:
        errors.append(_error("workload", error))
        return
    for one in workloads:
        for container in one.containers:
            try:
                found = engine.read(one, container, facts, policy.releases)
            except Exception as error:
                errors.append(_error("engine", error))
                continue
            if found is not None:
                yield found


def _error(rule: str, error: Exception) -> RuleError:
    return RuleError(rule, f"{type(error).__name__}: {error}")


def _judge(
    found: Engine, obj: JSON, setting: Setting, policy: Policy, where: Place, errors: list[RuleError]
) -> Iterator[Judged]:
    rule = setting.rule
    if setting.mode == "ignore" or where not in rule.where or set(rule.mute_for) & found.workload.completes:
        return
    needed = [_fact(found, name) for name in rule.needs]
    if any(fact is None for fact in needed):
        return
    try:
        findings = list(rule.check(found))
    except Exception as error:
        errors.append(_error(rule.id(), error))
        return
    informing = [fact.source for fact in needed if isinstance(fact, Fact) and not fact.may_deny]
    for finding in findings:
        if finding.fix and not fits(obj, finding.fix):
            finding = replace(finding, fix=())  # malformed beside it: there is nothing to hold on to
        mode: Mode = setting.mode
        why: str | None = None
        if mode == "deny":
            mode, why = _soften(rule, finding, informing, found, policy, where)
        elif mode == "warn" and finding.advice:
            mode = "audit"
        mutated = bool(finding.fix) and (
            setting.fix is True or (setting.fix == "certain" and finding.certainty == "certain")
        )
        applies = mutated or (bool(finding.fix) and where == "check" and setting.fix is not False)
        if mode == "deny" and mutated and policy.trust_mutation:
            mode, why = "warn", "the mutating webhook repairs it"
        yield Judged(rule.id(), rule.plane, rule.threatens, mode, why, finding, applies)


def _soften(
    rule: Rule, finding: Finding, informing: list[str], found: Engine, policy: Policy, where: Place
) -> tuple[Mode, str | None]:
    """A denial rests only on certain findings and on facts that may deny."""
    if finding.certainty != "certain":
        return "warn", f"{finding.certainty}, not certain"
    if found.command.guessed:
        return "warn", f"that this is vLLM is a guess: {found.command.guessed}"
    if found.args.open or not found.command.complete:
        why = f": {found.args.open}" if found.args.open else ""
        return "warn", f"vLLM may get more arguments than can be seen here{why}"
    computed = any(name.startswith("plan.") for name in rule.needs)
    if computed and found.doubt:
        return "warn", found.doubt
    if "plan.host" in rule.needs and found.spans_pods:
        return "warn", "the engine spans several Pods, and which of its processes run in this one can't be told"
    if informing:
        return "warn", f"rests on {informing[0]}, which may inform but not deny"
    if where == "admission" and found.workload.owned and policy.enforce.owned_pods != "deny":
        return "warn", "a controller made this Pod: what it would be denied for is denied at its workload"
    return "deny", None


def _fact(found: Engine, name: str) -> object | None:
    """The attribute that a rule needs: "model", "plan.gpu" …; None where it is unknown."""
    value: object = found
    for part in name.split("."):
        value = getattr(value, part)
        if value is None:
            return None
    return value


def _keys(judged: Judged, found: Engine) -> set[tuple[str, ...]]:
    """How a finding is recognised after an edit: by its place or, where list indices moved, by its words."""
    where = (judged.rule, str(found.workload.path), found.container.name)
    return {(*where, "at", str(judged.finding.path)), (*where, "says", judged.finding.message)}


def _known(old: JSON, policy: Policy, facts: Facts, where: Place) -> frozenset[tuple[str, ...]]:
    ours: list[RuleError] = []
    return frozenset(
        key
        for found in _engines(old, policy, facts, ours)
        for setting in policy.settings.values()
        for judged in _judge(found, old, setting, policy, where, ours)
        if judged.mode == "deny"
        for key in _keys(judged, found)
    )


def _ratchet(judged: Judged, found: Engine, before: frozenset[tuple[str, ...]]) -> Judged:
    if judged.mode != "deny" or not _keys(judged, found) & before:
        return judged
    return Judged(
        judged.rule, judged.plane, judged.threatens, "warn", "the object had this before the update", judged.finding,
        judged.applies,
    )  # fmt: skip
