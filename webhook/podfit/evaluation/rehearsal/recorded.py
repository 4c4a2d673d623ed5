"""The effect of another policy on the findings of a saved scan: the modes alone, since the objects are gone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from podfit.base.printable import clean, shortened
from podfit.evaluation import subject
from podfit.evaluation.policy import Policy, Subject
from podfit.evaluation.policy.layer import harder_mode
from podfit.evaluation.rehearsal.changes import RuleChange, kind_of_change
from podfit.kube.path import mapping
from podfit.kube.workload import JSON, as_list
from podfit.rules import all_rules
from podfit.rules.rule import Mode
from podfit.vllm.facts import Facts


class ObjectChanges(NamedTuple):
    """The effect of another policy on one object."""

    namespace: str
    """Empty if it has none."""
    name: str
    """Kind, namespace and name, for people."""
    is_decided_otherwise: bool
    """It is denied under one of the two policies only."""
    rules: tuple[RuleChange, ...]


def changes(scan: Mapping[str, Any], policy: Policy, new: Policy) -> Iterator[ObjectChanges]:
    """Yield the changes of each object in a scan's JSON, also of one with none."""
    objects: dict[str, JSON] = {}  # name for people → object
    findings_of: dict[str, list[Mapping[str, Any]]] = {}  # name → the findings of all of its containers
    for row in map(mapping, as_list(scan.get("results"))):
        obj = _object(mapping(row.get("object")))
        name = subject.describe_object(obj)
        objects.setdefault(name, obj)
        findings_of.setdefault(name, []).extend(mapping(item) for item in as_list(row.get("findings")))
    for name, obj in objects.items():
        before, after = _modes(obj, findings_of[name], policy), _modes(obj, findings_of[name], new)
        otherwise = _is_denied(before) != _is_denied(after)
        namespace = str(mapping(obj["metadata"]).get("namespace") or "")
        yield ObjectChanges(namespace, name, otherwise, tuple(_changes(name, before, after)))


def _object(reference: Mapping[str, Any]) -> JSON:
    """The object of a scan's row, as far as a policy's `match` needs it: without labels."""
    metadata = {word: str(reference[word]) for word in ("namespace", "name") if reference.get(word)}
    return {"apiVersion": str(reference.get("apiVersion") or ""), "kind": str(reference.get("kind") or ""),
            "metadata": metadata}  # fmt: skip


class _RuleMode(NamedTuple):
    """The hardest mode of a rule about an object."""

    mode: Mode
    message: str
    """Field and message of the finding with that mode."""


_Modes = Mapping[str, _RuleMode]
"""Rule → its hardest mode."""


def _modes(obj: JSON, findings: Sequence[Mapping[str, Any]], policy: Policy) -> _Modes:
    """Rule → its hardest mode under a policy. A recorded finding that is uncertain or softened denies nothing; left
    out are accepted ones, and rules that this podfit does not have."""
    terms = policy.of(Subject.of(obj, Facts(), None))
    modes: dict[str, _RuleMode] = {}
    for finding in findings:
        rule = str(finding.get("rule"))
        if rule not in all_rules() or finding.get("accepted"):
            continue
        mode = terms.mode(rule)
        is_softened = finding.get("certainty") != "certain" or bool(finding.get("why"))
        if mode == "deny" and (is_softened or all_rules()[rule].never_denies):
            mode = "warn"
        hardest = modes.get(rule)
        if hardest is None or harder_mode(mode, hardest.mode) != hardest.mode:
            message = shortened(clean(f"{finding.get('path')}: {finding.get('message')}"))
            modes[rule] = _RuleMode(mode, message)
    return modes


def _is_denied(modes: _Modes) -> bool:
    """True if a rule denies the object."""
    return any(rule_mode.mode == "deny" for rule_mode in modes.values())


def _changes(name: str, modes: _Modes, after: _Modes) -> Iterator[RuleChange]:
    """The rules whose mode differs, by id. Both mappings have the same rules."""
    for rule in sorted(modes):
        old, new = modes[rule], after[rule]
        if old.mode != new.mode:
            yield RuleChange(
                what=kind_of_change(old.mode, new.mode),
                where="scan",
                object=name,
                rule=rule,
                before=old.mode,
                after=new.mode,
                message=old.message,
            )
