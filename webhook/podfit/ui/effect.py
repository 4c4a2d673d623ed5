"""The tab Policy effect: policies over files or a saved scan → what changes against the default policy."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

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
PlacedObject = tuple[str, RehearsedObject, Facts]


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
                yield file.source.name, RehearsedObject.of(document.object), file.source.facts
            except review.BadReview as error:
                problems.append(f"{file.source.name}: {error}")


def _changed(desk: Desk, policy: Policy, problems: list[str]) -> Iterator[recorded.ObjectChanges]:
    """The changes of the policy, compared with the default, for each object in the files of the command line."""
    opened, default = desk.open(), builtin()
    items = [(candidate, desk.decisions.of(candidate, opened)) for candidate in (default, policy)]
    for number, (where, obj, facts) in enumerate(_objects(opened, problems)):
        for rules, known in items:
            if number not in known:
                known[number] = rehearse(obj, rules, facts)
        before, after = (known[number] for _, known in items)
        name = subject.describe_object(obj.object)
        rows = tuple(rule_changes(where, name, before, after))
        yield recorded.ObjectChanges(_namespace(obj), name, before.denied != after.denied, rows)


def _namespace(obj: RehearsedObject) -> str:
    return str(mapping(obj.object.get("metadata")).get("namespace") or obj.namespace or "")


def _scan(text: str) -> Mapping[str, Any]:
    """A saved `podfit scan --format json`."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise QuestionError("scan", f"not JSON: {error}") from error
    if not isinstance(value, dict) or not isinstance(value.get("results"), list):
        raise QuestionError("scan", "expected what `podfit scan --format json` wrote: an object with results")
    return value


def _tree(changed_objects: Iterable[recorded.ObjectChanges], note: str, problems: Iterable[str] = ()) -> dict[str, Any]:
    """Changes of each object, grouped by what changes, then by namespace and rule."""
    objects = list(changed_objects)
    rows = [(changed.namespace, rule_change) for changed in objects for rule_change in changed.rules]
    groups = []
    for what in ORDER:
        of_group = [(namespace, rule_change) for namespace, rule_change in rows if rule_change.what == what]
        counted = Counter((namespace, rule_change.rule) for namespace, rule_change in of_group)
        if of_group:
            groups.append({
                "what": what,
                "count": len(of_group),
                "objects": len({(rule_change.where, rule_change.object) for _, rule_change in of_group}),
                "counts": [
                    {"namespace": namespace, "rule": rule, "count": count}
                    for (namespace, rule), count in sorted(counted.items())
                ],
                "rows": [{"namespace": namespace, **_row(rule_change)} for namespace, rule_change in of_group],
            })  # fmt: skip
    changed = len({(rule_change.where, rule_change.object) for _, rule_change in rows})
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


def _row(rule_change: RuleChange) -> dict[str, Any]:
    return {**asdict(rule_change), "message": FORMS.line(rule_change.message)}
