"""The tab Policy effect: policies over files or a saved scan → what changes against the default policy."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from podfit.base.secret import FORMS
from podfit.evaluation import review, subject
from podfit.evaluation.policy import Policy, PolicyError, builtin, load
from podfit.evaluation.rehearsal import RehearsedObject, recorded, rehearse
from podfit.evaluation.rehearsal.changes import ORDER, RuleChange, rule_changes, summary
from podfit.kube.path import mapping
from podfit.ui.desk import Desk, Opened
from podfit.ui.question import QuestionError, raw
from podfit.vllm.facts import Facts

PASTED = "pasted policy"
FIELDS = frozenset({"shipped", "policy", "scan"})
"""The fields of a question."""


class PlacedObject(NamedTuple):
    """An object of a file."""

    file: str
    object: RehearsedObject
    facts: Facts
    """The facts of its file."""


def answer(obj: Mapping[str, Any], desk: Desk) -> dict[str, Any]:
    """The answer for the chosen policies; raises QuestionError for a policy or a scan that can't be used."""
    policy, scan = _policy(obj, desk), raw(obj, "scan")
    if scan.strip():
        return _tree(recorded.changes(_scan(scan), builtin(), policy), _RECORDED)
    problems: list[str] = []
    return {**_tree(list(_changed(desk, policy, problems)), "", problems), "folder": desk.open().folder}


def prepare(desk: Desk) -> None:
    """Evaluate the files under the default, and load the reader of policies: the first answer need not wait for it."""
    answer({"shipped": list(desk.shipped)[:1]}, desk)


_RECORDED = (
    "A saved scan has findings, not objects. Parameters of rules and matches on labels are not evaluated again, and "
    "what only warned there may also stay a warning."
)


def _policy(obj: Mapping[str, Any], desk: Desk) -> Policy:
    """The chosen and pasted policies over the default."""
    names, pasted = obj.get("shipped") or [], raw(obj, "policy")
    if not isinstance(names, list) or not all(isinstance(name, str) and name in desk.shipped for name in names):
        raise QuestionError("shipped", f"expected names of {', '.join(desk.shipped)}")
    texts = [(name, desk.shipped[name].text) for name in names]
    texts += [(PASTED, pasted)] if pasted.strip() else []
    try:
        return load(texts).at(desk.now()) if texts else builtin()
    except PolicyError as error:
        raise QuestionError("policy", "\n".join(error.problems)) from error


def _objects(opened: Opened, problems: list[str]) -> Iterator[PlacedObject]:
    """Every object of the files, with what is known next to it; `problems` gets what can't be read."""
    problems += opened.problems
    for file in opened.files:
        problems += [str(error) for error in file.source.manifests.errors]
        for document in file.source.manifests.documents:
            try:
                yield PlacedObject(file.source.name, RehearsedObject.of(document.object), file.source.facts)
            except review.BadReview as error:
                problems.append(f"{file.source.name}: {error}")


def _changed(desk: Desk, policy: Policy, problems: list[str]) -> Iterator[recorded.ObjectChanges]:
    """The changes of the policy, compared with the default, for each object in the files of the command line.
    `problems` gets what can't be read. Decisions are kept by the object's number: the files are always in one order."""
    opened, default = desk.open(), builtin()
    decisions_before, decisions_after = desk.decisions.of(default, opened), desk.decisions.of(policy, opened)
    for number, placed in enumerate(_objects(opened, problems)):
        for rules, decisions in ((default, decisions_before), (policy, decisions_after)):
            if number not in decisions:
                decisions[number] = rehearse(placed.object, rules, placed.facts)
        before, after = decisions_before[number], decisions_after[number]
        name = subject.describe_object(placed.object.object)
        rows = tuple(rule_changes(placed.file, name, before, after))
        yield recorded.ObjectChanges(_namespace(placed.object), name, before.denied != after.denied, rows)


def _namespace(obj: RehearsedObject) -> str:
    """The object's own namespace, else the one that it is applied to; "" without either."""
    return str(mapping(obj.object.get("metadata")).get("namespace") or obj.namespace or "")


def _scan(text: str) -> Mapping[str, Any]:
    """The JSON of a saved `podfit scan --format json`; raises QuestionError if the text is not one."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise QuestionError("scan", f"not JSON: {error}") from error
    if not isinstance(value, dict) or not isinstance(value.get("results"), list):
        raise QuestionError("scan", "expected what `podfit scan --format json` wrote: an object with results")
    return value


def _tree(changed_objects: Iterable[recorded.ObjectChanges], note: str, problems: Iterable[str] = ()) -> dict[str, Any]:
    """The answer as plain JSON values: the changes in groups of one kind, and the counts of objects. `note`: a remark
    on the whole answer, or "". `problems`: what can't be read."""
    objects = list(changed_objects)
    changes = [NamespacedChange(changed.namespace, rule_change) for changed in objects for rule_change in changed.rules]
    groups = []
    for what in ORDER:
        if group := [change for change in changes if change.rule_change.what == what]:
            groups.append(_group(what, group))
    changed = _count_objects(changes)
    return {
        "objects": len(objects),
        "decided": sum(item.is_decided_otherwise for item in objects),
        "changed": changed,
        "summary": summary(len(objects), changed),
        "groups": groups,
        "note": note,
        "folder": "",
        "problems": [FORMS.line(problem) for problem in problems],
    }


class NamespacedChange(NamedTuple):
    """A change of one rule's finding in an object, with the object's namespace ("" if unknown)."""

    namespace: str
    rule_change: RuleChange


def _group(what: str, namespaced: Sequence[NamespacedChange]) -> dict[str, Any]:
    """The changes of one kind as plain JSON values, and how many there are per namespace and rule."""
    counts = Counter((change.namespace, change.rule_change.rule) for change in namespaced)
    return {
        "what": what,
        "count": len(namespaced),
        "objects": _count_objects(namespaced),
        "counts": [
            {"namespace": namespace, "rule": rule, "count": count}
            for (namespace, rule), count in sorted(counts.items())
        ],
        "rows": [{"namespace": change.namespace, **_row(change.rule_change)} for change in namespaced],
    }  # fmt: skip


def _count_objects(namespaced: Iterable[NamespacedChange]) -> int:
    """How many different objects have these changes."""
    return len({(change.rule_change.where, change.rule_change.object) for change in namespaced})


def _row(rule_change: RuleChange) -> dict[str, Any]:
    """The change as plain JSON values, its message masked."""
    return {**asdict(rule_change), "message": FORMS.line(rule_change.message)}
