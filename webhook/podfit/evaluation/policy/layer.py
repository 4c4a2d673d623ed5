"""One policy as a layer, and the terms that apply when it is laid over the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal, NamedTuple

from podfit.evaluation.policy.match import Match
from podfit.kube.path import FieldPath
from podfit.rules.rule import Fix, Mode, Place, Rule
from podfit.vllm.facts import Assumed
from podfit.vllm.release import Images

OwnedPods = Literal["warn", "deny"]


class _EngineSort(NamedTuple):
    """An engine, as far as the choice of its rules needs it (`Terms.applicable_rules`)."""

    place: Place
    completes: frozenset[str]
    unknown: frozenset[str]
    unknown_by_release: frozenset[str]


_REMEMBERED = 1024
"""Sorts of engines whose rules are kept. A cluster has some dozens."""

STRENGTH: Mapping[Mode, int] = {"ignore": 0, "audit": 1, "warn": 2, "deny": 3}


def softer_mode(first: Mode, other: Mode) -> Mode:
    """The softer of two modes."""
    return min(first, other, key=lambda mode: STRENGTH[mode])


def harder_mode(first: Mode, other: Mode) -> Mode:
    """The stricter of two modes."""
    return max(first, other, key=lambda mode: STRENGTH[mode])


def _by_hand(fix: Fix) -> Fix:
    """The fix limited to `podfit fix`, without the mutating webhook."""
    return fix if fix is False else "manual"


class PolicyError(ValueError):
    """A policy that can't be used; `problems` are lines `file:line: path: message`."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class Setting(NamedTuple):
    """The terms of one rule."""

    rule: Rule
    """The rule with its parameters."""
    mode: Mode
    fix: Fix


class ApplicableRules(NamedTuple):
    """The rules that have a say about one sort of engine."""

    settings: tuple[Setting, ...]
    wrong: tuple[tuple[str, Exception], ...] = ()
    """Rules with an invalid declaration, whose terms are unknown; a bug in one stops no other."""

    @classmethod
    def of(cls, settings: Iterable[Setting], sort: _EngineSort) -> ApplicableRules:
        """The rules that are not ignored, and for which `Rule.has_a_say` is true."""
        chosen, wrong = list[Setting](), list[tuple[str, Exception]]()
        for setting in settings:
            unknown = sort.unknown_by_release if setting.rule.by_release else sort.unknown
            try:
                if setting.mode != "ignore" and setting.rule.has_a_say(sort.place, unknown, sort.completes):
                    chosen.append(setting)
            except Exception as error:
                wrong.append((setting.rule.id(), error))
        return cls(tuple(chosen), tuple(wrong))


@dataclass(frozen=True)
class PolicyException:
    """Findings of some rules that an admin accepts for some objects, for a while."""

    rules: tuple[str, ...]
    """Rule ids; "*" is every rule."""
    match: Match
    reason: str
    owner: str
    expires: datetime
    """The instant from which it no longer holds."""
    until: str
    """The end as it was written."""
    policy: str
    place: str = field(compare=False, repr=False)
    """Where it is: "file:line"."""

    def covers(self, rule: str) -> bool:
        """It is about this rule."""
        return rule in self.rules or "*" in self.rules

    def holds(self, now: datetime | None) -> bool:
        """It has not expired; without a clock none holds, so that callers must pass one."""
        return now is not None and now < self.expires


@dataclass(frozen=True)
class Terms:
    """The terms that apply to one object: all that the rules are evaluated by."""

    settings: Mapping[str, Setting]
    """Rule id → setting; every rule is there."""
    at_most: Mode = "deny"
    """No finding has a stronger mode; with "audit" nothing is patched either."""
    owned_pods: OwnedPods = "warn"
    """A Pod that a controller made: denied only where a policy wants a node drain to be able to become an outage."""
    mutate_workloads: bool = False
    """Patch workloads too, not only Pods (GitOps tools compare workloads with their source)."""
    trust_mutation: bool = False
    """A workload whose Pods the mutating webhook would repair is not denied."""
    assume: Assumed = field(default_factory=Assumed)
    allow_ignore: tuple[str, ...] = ()
    """Rules that an author may silence with an annotation; "*" is every rule."""
    exceptions: tuple[PolicyException, ...] = ()

    _applicable_rules: dict[_EngineSort, ApplicableRules] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    def applicable_rules(
        self, where: Place, completes: frozenset[str], unknown: frozenset[str], unknown_by_release: frozenset[str]
    ) -> ApplicableRules:
        """The rules that apply at a place to an engine. `completes`: what its operator fills in. `unknown`: facts of
        the engine that are not known (words of `rule.FACTS`). `unknown_by_release`: those for rules that depend on the
        release. Cached, since most engines are equal in these."""
        sort = _EngineSort(where, completes, unknown, unknown_by_release)
        applicable_rules = self._applicable_rules.get(sort)
        if applicable_rules is None:
            if len(self._applicable_rules) >= _REMEMBERED:
                self._applicable_rules.clear()
            applicable_rules = self._applicable_rules[sort] = ApplicableRules.of(self.settings.values(), sort)
        return applicable_rules

    def mode(self, rule: str) -> Mode:
        """The strongest mode that a finding of the rule can have."""
        return softer_mode(self.settings[rule].mode, self.at_most)

    def may_ignore(self, rule: str) -> bool:
        """An author's annotation against this rule is honoured."""
        return rule in self.allow_ignore or "*" in self.allow_ignore

    def capped(self) -> Terms:
        """The terms with what `at_most` leaves of them before any rule is evaluated: "ignore" turns every rule off, and
        "audit" the patches. All else is a limit of the findings, which `lint` reports with and without it."""
        if self.patches:
            return self
        settings = self.settings
        if self.at_most == "ignore":
            settings = {rule_id: setting._replace(mode="ignore") for rule_id, setting in settings.items()}
        return replace(self, settings=settings, mutate_workloads=False)

    @property
    def patches(self) -> bool:
        """The mutating webhook may patch."""
        return self.at_most in ("deny", "warn")


@dataclass(frozen=True)
class RuleSettings:
    """The values that a policy sets for one rule; None: not set."""

    mode: Mode | None = None
    fix: Fix | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Field of the rule → value."""


class KnownRelease(NamedTuple):
    """A vLLM release that the package's table lacks, as `args.taught.teach_release` takes it."""

    name: str
    like: str | None
    removed: tuple[str, ...]
    options: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Layer:
    """One policy; what it does not speak of is None."""

    name: str
    order: int = 0
    match: Match = field(default_factory=Match)
    shadow: bool = False
    """Evaluated next to the others, and only counted."""
    rules: Mapping[str, RuleSettings] = field(default_factory=dict)
    at_most: Mode | None = None
    owned_pods: OwnedPods | None = None
    mutate_workloads: bool | None = None
    trust_mutation: bool | None = None
    assume: Mapping[str, Any] = field(default_factory=dict)
    """Field of `Assumed` → value."""
    kinds: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Further kinds, as `workload.find` takes them. Like what is said of releases, true of every object."""
    images: Images = ()
    known: tuple[KnownRelease, ...] = ()
    allow_ignore: tuple[str, ...] | None = None
    exceptions: tuple[PolicyException, ...] = ()
    places: Mapping[FieldPath, str] = field(default_factory=dict, compare=False, repr=False)
    """Place in the document → "file:line", of everything it says."""

    def place(self, *parts: str | int) -> str:
        """Where a field is, "file:line"; the policy's name where that is not known."""
        return self.places.get(FieldPath(parts), self.name)

    def over(self, terms: Terms) -> Terms:
        """The terms that apply when this policy applies: what it says, rule by rule, parameter by parameter."""
        settings = dict(terms.settings)
        for rule_id, rule_settings in self.rules.items():
            before = settings[rule_id]
            settings[rule_id] = Setting(
                rule=replace(before.rule, **rule_settings.parameters) if rule_settings.parameters else before.rule,
                mode=rule_settings.mode or before.mode,
                fix=before.fix if rule_settings.fix is None else rule_settings.fix,
            )
        return replace(
            terms,
            settings=settings,
            at_most=self.at_most or terms.at_most,
            owned_pods=self.owned_pods or terms.owned_pods,
            mutate_workloads=terms.mutate_workloads if self.mutate_workloads is None else self.mutate_workloads,
            trust_mutation=terms.trust_mutation if self.trust_mutation is None else self.trust_mutation,
            assume=terms.assume._replace(**self.assume) if self.assume else terms.assume,
            allow_ignore=terms.allow_ignore if self.allow_ignore is None else self.allow_ignore,
            exceptions=terms.exceptions + self.exceptions,
        )

    def perhaps_over(self, terms: Terms) -> Terms:
        """The terms if it is unknown whether this policy applies: the softer of both answers, each time.

        A rule whose parameters depend on it is at most a warning, and nothing is patched that one answer leaves alone.
        """
        if_so = self.over(terms)
        settings = dict(terms.settings)
        for rule_id, rule_settings in self.rules.items():
            before, after = terms.settings[rule_id], if_so.settings[rule_id]
            mode = softer_mode(before.mode, after.mode)
            settings[rule_id] = Setting(
                rule=before.rule,
                mode=softer_mode(mode, "warn") if rule_settings.parameters and before.rule != after.rule else mode,
                fix=before.fix if before.fix == after.fix else _by_hand(before.fix),
            )
        return replace(
            terms,
            settings=settings,
            at_most=softer_mode(terms.at_most, if_so.at_most),
            owned_pods="deny" if terms.owned_pods == if_so.owned_pods == "deny" else "warn",
            mutate_workloads=terms.mutate_workloads and if_so.mutate_workloads,
            trust_mutation=terms.trust_mutation or if_so.trust_mutation,
            allow_ignore=tuple(dict.fromkeys(terms.allow_ignore + if_so.allow_ignore)),
            exceptions=if_so.exceptions,
        )
