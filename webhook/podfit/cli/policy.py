"""`podfit policy`: is a policy usable, does it do what is expected of it, and what would another one change?"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from podfit.base.printable import one_line
from podfit.cli.support import edge, fleet, policies, terminal
from podfit.cli.support.edge import UnusableError
from podfit.evaluation import denial
from podfit.evaluation.denial import many
from podfit.evaluation.policy import Policy, PolicyError, load
from podfit.evaluation.policy.selection import doubtful_matches
from podfit.kube.path import FieldPath
from podfit.report import paint
from podfit.rules import all_rules

if TYPE_CHECKING:
    from podfit.evaluation.rehearsal import RehearsedObject
    from podfit.evaluation.rehearsal.changes import RuleChange
    from podfit.vllm.facts import Facts

EXPIRY_WARNING = timedelta(days=14)
"""Time before an exception's end from which podfit reports it."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "policy",
        help="show, check, test and compare policies",
        description="Shows, checks, tests and compares policies (docs/policies.md).",
        epilog=edge.examples(
            "podfit policy show strict > ours.yaml",
            "podfit policy lint policies/",
            "podfit policy test tests/",
            "podfit policy diff default ours.yaml --on deploy/",
        ),
    )
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    show = actions.add_parser(
        "show",
        help="print a policy that podfit ships, or list them",
        description="Prints a policy that podfit ships as YAML, to be copied and changed; without NAME, lists them.",
    )
    show.add_argument("name", nargs="?", metavar="NAME", help=", ".join(policies.SHIPPED))
    show.set_defaults(run=run_show)
    lint = actions.add_parser("lint", help="report what is wrong in policy files as FILE:LINE: path: message")
    lint.add_argument("files", nargs="+", metavar="FILE|DIR|NAME")
    lint.set_defaults(run=run)
    test = actions.add_parser("test", help="run cases: objects, and what policies are expected to make of them")
    test.add_argument("files", nargs="+", metavar="FILE|DIR", help="files of kind PolicyTest")
    policies.add_argument(test)
    test.set_defaults(run=run_test)
    diff = actions.add_parser("diff", help="show what another policy would change")
    diff.add_argument(
        "old", metavar="OLD", help="a policy file, a folder of them, or a name, such as strict; `default` adds none"
    )
    diff.add_argument("new", metavar="NEW")
    on = diff.add_mutually_exclusive_group(required=True)
    on.add_argument("--on", nargs="+", metavar="FILE|DIR|-", help="manifests, or AdmissionReviews")
    on.add_argument("--on-audit-log", metavar="FILE", help="an API server's audit log (JSON lines, level Request)")
    on.add_argument("--cluster", action="store_true", help="the workloads of the cluster of the current kubeconfig")
    diff.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
    diff.set_defaults(run=run_diff)


# ── show ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def run_show(args: argparse.Namespace) -> int:
    """Prints the policy's text, or a line for each shipped policy with the first line of its comment."""
    if args.name is not None:
        if args.name not in policies.SHIPPED:
            policies.unknown(args.name, "")
        print(policies.shipped_text(args.name), end="")
        return 0
    width = max(map(len, policies.SHIPPED))
    for name in policies.SHIPPED:
        print(f"{name:<{width}}  {policies.title(name)}")
    return 0


# ── lint ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def run(args: argparse.Namespace) -> int:
    """0 if every file is usable, and the files together; else 2 with a line per problem on standard error.

    An exception that has ended, or will within two weeks, a `mode: deny` that can only warn, a field that is ignored
    and a doubtful match are warnings.
    """
    for name in args.files:
        if not policies.path(name).exists():
            policies.unknown(name, "")
    texts = policies.texts(args.files)
    problems: list[str] = []
    for source in texts:
        try:
            load([source])
        except PolicyError as error:
            problems += error.problems
    try:
        policy = None if problems else load(texts).at(edge.now())
    except PolicyError as error:
        policy, problems = None, list(error.problems)
    for problem in problems:
        edge.tell(f"error: {problem}")
    if policy is not None:
        _tell_of_exceptions(policy)
        _tell_of_denials(policy)
        _tell_of_ignored_fields(policy)
        for doubt in doubtful_matches(policy):
            edge.tell(f"warning: {doubt.place}: {doubt.path}: {doubt.problem}")
        print(f"ok: {denial.many(len(texts), 'policy file')}")
    return 2 if problems else 0


def _tell_of_exceptions(policy: Policy) -> None:
    """Warn of each exception of a policy that has ended or soon ends (EXPIRY_WARNING)."""
    for exception in (entry for layer in policy.everything for entry in layer.exceptions):
        if exception in policy.expired:
            edge.tell(f"warning: {exception.place}: expires: ended on {exception.until}: it no longer applies")
        elif policy.now and exception.expires - policy.now < EXPIRY_WARNING:
            edge.tell(f"warning: {exception.place}: expires: ends on {exception.until}, in less than two weeks")


def _tell_of_denials(policy: Policy) -> None:
    """Rules that a policy wants to deny, and that never or only partly do; and what a rule's parameters deny."""
    rules = all_rules()
    for layer in policy.everything:
        for rule_id, rule_settings in layer.rules.items():
            rule, place = rules[rule_id], layer.place("spec", "rules", rule_id, "mode")
            for effect, why in (("it only warns", rule.never_denies), ("some findings only warn", rule.partly_denies)):
                if rule_settings.mode == "deny" and why:
                    edge.tell(f"warning: {place}: spec.rules.{rule_id}.mode: {effect}, also with deny: {why}")
            for path, remark in rule(**rule_settings.parameters).remarks():
                place = layer.place("spec", "rules", rule_id, *path)
                edge.tell(f"warning: {place}: spec.rules.{'.'.join((rule_id, *path))}: {remark}")


def _tell_of_ignored_fields(policy: Policy) -> None:
    """Fields that earlier versions read."""
    for layer in policy.everything:
        if place := layer.places.get(FieldPath(("spec", "trustFacts"))):
            why = "facts are part of podfit, and podfit 0.4 will not accept this field"
            edge.tell(f"warning: {place}: spec.trustFacts: ignored: {why}. Fix: remove it")


# ── test ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def run_test(args: argparse.Namespace) -> int:
    """0 if every case is as expected, 1 if one is not, 2 if a file of cases can't be used."""
    from podfit.evaluation.rehearsal import cases

    count = failed = 0
    for name in edge.files(args.files):
        read = edge.read_manifests(name)
        if read.errors:
            raise UnusableError([str(error) for error in read.errors], 3)
        for document in read.documents:
            if document.object.get("kind") != cases.KIND:
                continue  # a manifest that a case names
            folder = Path(name).parent
            try:
                cases_shape = cases.shape_of(document, name)
            except PolicyError as error:
                raise UnusableError(error.problems) from error
            policy = policies.load(
                [*(policies.relative_to(folder, source) for source in cases_shape.policies), *args.policy]
            )
            for outcome in cases.run(cases_shape, document, policy, partial(_object, folder), partial(_nodes, folder)):
                count += 1
                failed += bool(outcome.wrong)
                if outcome.wrong:
                    terminal.write(one_line(f"{name}:{outcome.line}: {outcome.name}"))
                    terminal.write("\n".join(f"  {one_line(line)}" for line in outcome.wrong))
    if not count:
        raise UnusableError(f"no case: expected files of kind {cases.KIND}")
    print(f"{count} cases: {count - failed} as expected, {failed} not")
    return int(failed > 0)


def _object(folder: Path, name: str) -> Mapping[str, Any]:
    """The first object in a file of a test; raises ValueError if there is none."""
    path = folder / name
    manifests = edge.read_manifests(str(path))
    if manifests.errors or not manifests.documents:
        raise ValueError(str(manifests.errors[0]) if manifests.errors else f"{path}: no object in it")
    return manifests.documents[0].object


def _nodes(folder: Path, name: str) -> Facts:
    """The facts with the nodes that a file of a test describes."""
    from podfit.vllm.facts import Facts

    nodes = fleet.read(fleet.relative_to(folder, name))
    return Facts(fleet=nodes.snapshot, fleet_complete=nodes.complete)


# ── diff ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def run_diff(args: argparse.Namespace) -> int:
    """1 if something is newly denied, else 0."""
    from podfit.evaluation.rehearsal import changes

    old, new = (policies.load([] if name == "default" else [name], "") for name in (args.old, args.new))
    count, rule_changes = 0, list["RuleChange"]()
    for _, of_one in changes.changes(_rehearsed_objects(args), old, new):
        count += 1
        rule_changes += of_one
    if args.format == "json":
        terminal.write(
            json.dumps({"objects": count, "changes": [asdict(rule_change) for rule_change in rule_changes]}, indent=1)
        )
    else:
        for what in changes.ORDER:
            terminal.show(
                _changes_text(what, [rule_change for rule_change in rule_changes if rule_change.what == what]),
                paint.highlighted,
            )
        changed = len({(rule_change.where, rule_change.object) for rule_change in rule_changes})
        print(changes.summary(count, changed))
    return int(any(rule_change.what == "newly denied" for rule_change in rule_changes))


def _changes_text(what: str, rule_changes: list[RuleChange]) -> str:
    """The changes of one kind; empty if there are none."""
    if not rule_changes:
        return ""
    out = [f"{what}: {len(rule_changes)}"]
    for rule_change in rule_changes:
        modes = f"{rule_change.before} → {rule_change.after}, " if rule_change.before else ""
        out.append(f"  {one_line(rule_change.object)} ({rule_change.where}): {rule_change.rule}")
        out.append(f"    {modes}{one_line(rule_change.message)}")
    return "\n".join(out) + "\n\n"


def _rehearsed_objects(args: argparse.Namespace) -> Iterator[tuple[str, RehearsedObject, Facts]]:
    """(place in the input, object, facts about its surroundings) of every object."""
    from podfit.evaluation import review
    from podfit.evaluation.rehearsal import RehearsedObject
    from podfit.vllm.facts import Facts

    if args.on:
        sources, errors = edge.read(args.on, Facts())
        errors += [str(error) for source in sources for error in source.manifests.errors]
        if errors:
            raise UnusableError(errors, 3)
        for source in sources:
            for document in source.manifests.documents:
                try:
                    yield source.name, RehearsedObject.of(document.object), source.facts
                except review.BadReview as error:
                    raise UnusableError(f"{source.name}: {error}", 3) from error
    elif args.on_audit_log:
        for line, obj in _recorded(edge.read_input(args.on_audit_log)):
            yield f"{args.on_audit_log}:{line}", RehearsedObject.of(obj), Facts()
    else:
        yield from _of_cluster()


def _recorded(log: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """(line number, object) created or replaced, in an audit log or recorded AdmissionReviews, a line each; raises
    UnusableError if there are only events without their objects."""
    held, bare = 0, 0
    for number, line in enumerate(log.splitlines(), 1):
        try:
            event = json.loads(line) if line.strip() else {}
        except ValueError as error:
            raise UnusableError(f"line {number}: not JSON: {error}", 3) from error
        if event.get("kind") == "AdmissionReview":
            held += 1
            yield number, event
            continue
        # A patch is not an object; the object it made is in the log's response (audit level RequestResponse).
        value = event.get("responseObject") if event.get("verb") == "patch" else event.get("requestObject")
        reference = event.get("objectRef") or {}
        is_write = event.get("verb") in ("create", "update", "patch") and not reference.get("subresource")
        if is_write and isinstance(value, dict) and value.get("kind"):
            held += 1
            yield number, _named(value, reference)
        elif is_write and (reference.get("apiGroup") or "", reference.get("resource")) in _plurals():
            bare += 1
    if bare and not held:
        raise UnusableError(f"{_NEEDED}: none of {many(bare, 'event')} holds its object", 3)
    if bare:
        edge.tell(f"note: {_NEEDED}: {many(bare, 'event')} without an object left out")


_NEEDED = "--on-audit-log: level Request is needed, RequestResponse for patches"


def _plurals() -> set[tuple[str, str]]:
    """(API group, resource) of the table's kinds, as events name them."""
    from podfit.kube.workload.table import WORKLOAD_KINDS

    return {(group, f"{kind.lower()}s") for group, kind in WORKLOAD_KINDS}


def _named(obj: Mapping[str, Any], reference: Mapping[str, Any]) -> Mapping[str, Any]:
    """With the namespace that the request's path says."""
    metadata = obj.get("metadata") or {}
    if metadata.get("namespace") or not reference.get("namespace"):
        return obj
    return {**obj, "metadata": {**metadata, "namespace": reference["namespace"]}}


def _of_cluster() -> Iterator[tuple[str, RehearsedObject, Facts]]:
    """("cluster", object, facts) of each workload that no controller made, of the kinds in WORKLOAD_KINDS, with the
    user's own rights. A kind that must not be read is a note."""
    from podfit.cli.support import user_cluster
    from podfit.cluster import surroundings
    from podfit.cluster.access import StatusError
    from podfit.cluster.listing import pages, served, with_kind
    from podfit.evaluation.rehearsal import RehearsedObject
    from podfit.evaluation.scan import order
    from podfit.kube.workload import controller_of
    from podfit.kube.workload.table import WORKLOAD_KINDS
    from podfit.vllm.facts import Facts

    with (
        user_cluster.client(argparse.Namespace(context=None)) as client,
        user_cluster.errors_reported("the cluster can't be read"),
    ):
        kinds, _ = served(client, surroundings.GROUPS | {group for group, _ in WORKLOAD_KINDS})
        around = surroundings.read(client, kinds, lambda name, error: edge.tell(f"note: {name}: not read: {error}"))
        for problem in around.problems:
            edge.tell(f"note: {problem}")
        facts = around.facts(Facts())
        for resource in (kinds[name] for name in order(WORKLOAD_KINDS) if name in kinds):
            try:
                for item in (entry for page in pages(client, resource.path()) for entry in page):
                    obj = with_kind(resource, item)
                    if controller_of(obj) is None:
                        yield "cluster", RehearsedObject(obj), facts
            except StatusError as error:
                edge.tell(f"note: {resource.name}: {error}")
