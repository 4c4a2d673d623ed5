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
Asked = tuple[str, RehearsedObject, Facts]


def answer(asked: Mapping[str, Any], desk: Desk) -> dict[str, Any]:
    """The answer for the chosen policies; raises QuestionError for a policy or a scan that can't be used."""
    policy, scan = _policy(asked, desk), raw(asked, "scan")
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


def _policy(asked: Mapping[str, Any], desk: Desk) -> Policy:
    """The chosen and pasted policies over the default."""
    names, pasted = asked.get("shipped") or [], raw(asked, "policy")
    if not isinstance(names, list) or not all(isinstance(name, str) and name in desk.shipped for name in names):
        raise QuestionError("shipped", f"expected names of {', '.join(desk.shipped)}")
    texts = [(name, desk.shipped[name].text) for name in names]
    texts += [(PASTED, pasted)] if pasted.strip() else []
    try:
        return load(texts).at(desk.now()) if texts else builtin()
    except PolicyError as error:
        raise QuestionError("policy", "\n".join(error.problems)) from error


def _objects(opened: Opened, problems: list[str]) -> Iterator[Asked]:
    """Every object of the files, with what is known next to it; `problems` gets what can't be read."""
    problems += opened.problems
    for one in opened.files:
        problems += [str(error) for error in one.source.manifests.errors]
        for document in one.source.manifests.documents:
            try:
                yield one.source.name, RehearsedObject.of(document.object), one.source.facts
            except review.BadReview as error:
                problems.append(f"{one.source.name}: {error}")


def _changed(desk: Desk, policy: Policy, problems: list[str]) -> Iterator[recorded.Changed]:
    """What the policy changes, compared with the default, for each object in the files of the command line."""
    opened, default = desk.open(), builtin()
    made = [(one, desk.decisions.of(one, opened)) for one in (default, policy)]
    for number, (where, one, facts) in enumerate(_objects(opened, problems)):
        for rules, known in made:
            if number not in known:
                known[number] = rehearse(one, rules, facts)
        before, after = (known[number] for _, known in made)
        name = subject.describe_object(one.object)
        found = tuple(rule_changes(where, name, before, after))
        yield _namespace(one), name, before.denied != after.denied, found


def _namespace(one: RehearsedObject) -> str:
    return str(mapping(one.object.get("metadata")).get("namespace") or one.namespace or "")


def _scan(text: str) -> Mapping[str, Any]:
    """A saved `podfit scan --format json`."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise QuestionError("scan", f"not JSON: {error}") from error
    if not isinstance(found, dict) or not isinstance(found.get("results"), list):
        raise QuestionError("scan", "expected what `podfit scan --format json` wrote: an object with results")
    return found


def _tree(found: Iterable[recorded.Changed], note: str, problems: Iterable[str] = ()) -> dict[str, Any]:
    """Changes of each object, grouped by what changes, then by namespace and rule."""
    objects = list(found)
    rows = [(namespace, one) for namespace, _, _, of_one in objects for one in of_one]
    groups = []
    for what in ORDER:
        of_group = [(namespace, one) for namespace, one in rows if one.what == what]
        counted = Counter((namespace, one.rule) for namespace, one in of_group)
        if of_group:
            groups.append({
                "what": what,
                "count": len(of_group),
                "objects": len({(one.where, one.object) for _, one in of_group}),
                "counts": [
                    {"namespace": namespace, "rule": rule, "count": count}
                    for (namespace, rule), count in sorted(counted.items())
                ],
                "rows": [{"namespace": namespace, **_row(one)} for namespace, one in of_group],
            })  # fmt: skip
    changed = len({(one.where, one.object) for _, one in rows})
    return {
        "objects": len(objects),
        "decided": sum(otherwise for _, _, otherwise, _ in objects),
        "changed": changed,
        "summary": summary(len(objects), changed),
        "groups": groups,
        "note": note,
        "folder": "",
        "problems": [FORMS.line(one) for one in problems],
    }


def _row(one: RuleChange) -> dict[str, Any]:
    return {**asdict(one), "message": FORMS.line(one.message)}
