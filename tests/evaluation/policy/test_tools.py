"""`podfit policy test` and `diff`, and the policies that are shipped, on their cases."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from podfit.cli import main
from tests.conftest import GOOD_POD
from tests.reviews import admission_review, deployment, doomed

JSONDict = dict[str, Any]
Capture = pytest.CaptureFixture[str]
ROOT = Path(__file__).parents[3]
HEAD = "apiVersion: podfit.dev/v1alpha1\nkind: Policy\nmetadata: {name: mine}\n"


def cases(folder: Path, *listed: JSONDict, policies: tuple[str, ...] = ()) -> str:
    said = {
        "apiVersion": "podfit.dev/v1alpha1",
        "kind": "PolicyTest",
        "policies": list(policies),
        "cases": list(listed),
    }
    (folder / "cases.yaml").write_text(yaml.safe_dump(copy.deepcopy(said), sort_keys=False))
    return str(folder)


def case(name: str, obj: JSONDict, expect: JSONDict, **more: Any) -> JSONDict:
    return {"name": name, "object": copy.deepcopy(obj), "expect": expect, **more}


def test_the_shipped_policies_do_what_their_cases_expect(capsys: Capture) -> None:
    folders = [str(ROOT / "policies" / "tests"), str(ROOT / "policies" / "house" / "tests")]
    assert main(["policy", "test", *folders]) == 0, capsys.readouterr().out


def test_every_shipped_policy_but_the_default_has_cases() -> None:
    tested = {path.name for path in (ROOT / "policies").glob("*.yaml")} - {"default.yaml"}
    texts = [path.read_text() for path in (ROOT / "policies" / "tests").glob("*.yaml")]

    assert not [name for name in tested if not any(f"policies: [../{name}]" in text for text in texts)]


def test_a_difference_is_told_with_its_line_and_reason(tmp_path: Path, capsys: Capture) -> None:
    bad = doomed(GOOD_POD)
    folder = cases(
        tmp_path,
        case("a typo is fine", bad, {"rules": {"unknown-flag": "warn"}}),
        case("nothing is wrong", bad, {"denied": False}),
        case("refused", bad, {"denied": True, "patched": []}),
    )

    assert main(["policy", "test", folder]) == 1

    out = capsys.readouterr().out
    assert (
        f"{tmp_path}/cases.yaml:5: a typo is fine\n  unknown-flag: expected warn, got deny: spec.containers[0]" in out
    )
    assert "nothing is wrong\n  unknown-flag: expected nothing, got deny" in out
    assert "  denied: expected false, got true\n" in out
    assert out.endswith("3 cases: 1 as expected, 2 not\n")


def test_a_case_has_labels_of_the_namespace_a_time_and_an_admission_review(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "policy.yaml").write_text(
        HEAD + "spec:\n  match: {namespaceSelector: {matchLabels: {env: prod}}}\n  exceptions:\n"
        "  - {rules: [unknown-flag], reason: a fork, owner: chat, expires: 2026-11-21}\n"
    )
    bad = deployment(doomed(GOOD_POD))
    review = admission_review(bad, "UPDATE", old=bad)
    prod, on_time, late = {"env": "prod"}, "2026-11-21T12:00:00Z", "2026-11-22T00:00:00Z"
    audited, warned = {"rules": {"unknown-flag": "audit"}}, {"rules": {"unknown-flag": "warn"}}
    folder = cases(
        tmp_path,
        case("excepted", bad, audited, namespaceLabels=prod, now=on_time),
        case("no longer", bad, {"denied": True}, namespaceLabels=prod, now=late),
        case("elsewhere", bad, {"denied": True}, namespaceLabels={}, now=on_time),
        case("an update that brings nothing", review, warned, namespaceLabels=prod, now=late),
        policies=("policy.yaml",),
    )

    assert main(["policy", "test", folder]) == 0, capsys.readouterr().out


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"name": "x", "expect": {"rules": {"unknown-flg": "deny"}}}, "expect.rules.unknown-flg: 'unknown-flg' is no"),
        ({"name": "x", "expect": {"denid": True}}, "expect.denid: unknown field; did you mean 'denied'?"),
        ({"name": "x"}, "cases[0].expect: required, but absent"),
    ],
)
def test_a_broken_case_is_told_as_a_broken_policy_is(
    said: JSONDict, problem: str, tmp_path: Path, capsys: Capture
) -> None:
    assert main(["policy", "test", cases(tmp_path, said)]) == 2

    told = capsys.readouterr().err
    assert told.startswith(f"error: {tmp_path}/cases.yaml:")
    assert problem in told


def test_a_diff_tells_what_would_newly_be_denied_warned_and_patched(tmp_path: Path, capsys: Capture) -> None:
    pod = copy.deepcopy(GOOD_POD)
    pod["spec"]["containers"][0]["image"] = "vllm/vllm-openai:latest"
    manifest, new = tmp_path / "pod.yaml", tmp_path / "new.yaml"
    manifest.write_text(yaml.safe_dump(pod))
    new.write_text(HEAD + "spec: {rules: {unpinned-image: {mode: deny}}}\n")

    assert main(["policy", "diff", "default", str(new), "--on", str(manifest)]) == 1
    out = capsys.readouterr().out
    assert f"newly denied: 1\n  Pod chat/llama-8b ({manifest}): unpinned-image\n    warn → deny, " in out
    assert out.endswith("1 object: 1 would get another decision\n")
    assert main(["policy", "diff", str(new), "default", "--on", str(manifest), "--format", "json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert [(one["what"], one["rule"]) for one in said["changes"]] == [("no longer denied", "unpinned-image")]


def test_a_diff_replays_recorded_admissions(tmp_path: Path, capsys: Capture) -> None:
    bad = doomed(GOOD_POD)
    bare = {**bad, "metadata": {"name": "bare"}}
    events = [
        {"verb": "create", "objectRef": {"namespace": "chat"}, "requestObject": bare},
        {"verb": "patch", "objectRef": {"namespace": "search"}, "requestObject": {"spec": {}}, "responseObject": bare},
        {"verb": "create", "objectRef": {"namespace": "chat", "subresource": "eviction"}, "requestObject": bare},
        {"verb": "get", "objectRef": {"namespace": "chat"}},
        admission_review(bad),
    ]
    log, new = tmp_path / "audit.jsonl", tmp_path / "new.yaml"
    log.write_text("\n".join(json.dumps(event) for event in events))
    new.write_text(HEAD + "spec: {match: {namespaces: [chat]}, enforce: {mode: audit}}\n")

    assert main(["policy", "diff", "default", str(new), "--on-audit-log", str(log)]) == 0

    out = capsys.readouterr().out
    assert "no longer denied: 2\n" in out
    assert f"Pod chat/bare ({log}:1): unknown-flag" in out
    assert out.endswith("3 objects: 2 would get another decision\n")


def test_a_log_without_objects_is_told_and_one_with_some_is_noted(tmp_path: Path, capsys: Capture) -> None:
    where = {"namespace": "chat", "apiGroup": "apps", "resource": "deployments"}
    bare = {"verb": "create", "level": "Metadata", "objectRef": where}
    other = {"verb": "update", "objectRef": {**where, "apiGroup": "coordination.k8s.io", "resource": "leases"}}
    log = tmp_path / "audit.jsonl"
    words = ["policy", "diff", "default", "default", "--on-audit-log", str(log)]

    log.write_text("\n".join(map(json.dumps, [bare, other, bare])))
    assert main(words) == 3
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == (
        "error: --on-audit-log: level Request is needed, RequestResponse for patches: none of 2 events holds its "
        "object\n"
    )

    log.write_text("\n".join(map(json.dumps, [bare, {**bare, "requestObject": GOOD_POD}])))
    assert main(words) == 0
    told = capsys.readouterr()
    assert told.out == "1 object: 0 would get another decision\n"
    assert "patches: 1 event without an object left out" in told.err


def test_lint_tells_of_exceptions_that_end(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "p.yaml"
    exception = "  - {rules: [unknown-flag], reason: a fork, owner: chat, expires: 2020-01-01}\n"
    path.write_text(HEAD + "spec:\n  exceptions:\n" + exception)

    assert main(["policy", "lint", str(path)]) == 0
    assert capsys.readouterr().err == f"warning: {path}:6: expires: ended on 2020-01-01: it no longer applies\n"


def test_check_takes_the_namespace_of_manifests_that_name_none(tmp_path: Path, capsys: Capture) -> None:
    bare, policy = tmp_path / "pod.yaml", tmp_path / "policy.yaml"
    bare.write_text(yaml.safe_dump(doomed(GOOD_POD) | {"metadata": {"name": "bare"}}))
    policy.write_text(HEAD + "spec: {match: {namespaces: [dev]}, enforce: {mode: warn}}\n")

    codes = [main(["check", str(bare), "--policy", str(policy), *more]) for more in ([], ["-n", "dev"], ["-n", "prod"])]

    assert codes == [0, 0, 1], "not known is no harder than either answer"


def test_explain_shows_which_line_decided(tmp_path: Path, capsys: Capture) -> None:
    strict, prod, observe = (tmp_path / f"{name}.yaml" for name in ("strict", "prod", "observe"))
    strict.write_text(HEAD + "spec:\n  rules:\n    max-model-len-unset:\n      mode: deny\n      above: 16384\n")
    prod.write_text(
        HEAD.replace("mine", "prod") + "spec:\n  order: 5\n  match: {namespaces: [prod-*]}\n  rules:\n"
        "    max-model-len-unset:\n      above: 4096\n"
    )
    observe.write_text(HEAD.replace("mine", "observe") + "spec: {enforce: {mode: audit}}\n")
    (tmp_path / "pod.yaml").write_text(yaml.safe_dump(GOOD_POD))

    assert main(["explain", "--policy", str(strict), "--policy", str(prod)]) == 0
    assert capsys.readouterr().out == (
        "max-model-len-unset\n"
        f"  mode           deny       {strict}:7, policy mine (over warn, built in)\n"
        "  fix            manual     built in\n"
        f"  above          4096       {prod}:9, policy prod (over 16384, {strict}:8)\n"
    )

    policies = [word for path in (strict, prod, observe) for word in ("--policy", str(path))]
    assert main(["explain", "max-model-len-unset", *policies, "--on", str(tmp_path / "pod.yaml")]) == 0
    assert capsys.readouterr().out == (
        f"Pod chat/llama-8b ({tmp_path}/pod.yaml)\n"
        f"  no mode is stronger than audit: {observe}:4, policy observe\n\n"
        "  max-model-len-unset\n"
        f"    mode           audit      {observe}:4, policy observe (deny: {strict}:7, policy mine)\n"
        "    fix            manual     built in\n"
        f"    above          16384      {strict}:8, policy mine (over 40960, built in)\n"
        '  container "vllm": no finding\n'
    )


def test_lint_tells_of_a_denial_that_can_only_warn(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "ours.yaml"
    file.write_text(HEAD + "spec:\n  rules:\n    gpu-idle: {mode: deny}\n    unpinned-image: {mode: deny}\n")

    assert main(["policy", "lint", str(file)]) == 0
    told = "it only warns, also with deny: another process of the container may use them"
    assert capsys.readouterr().err == f"warning: {file}:6: spec.rules.gpu-idle.mode: {told}\n"


def test_lint_tells_of_a_denial_that_applies_to_some_findings(tmp_path: Path, capsys: Capture) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text(f"{HEAD}spec:\n  rules:\n    shm-missing: {{mode: deny}}\n    unpinned-image: {{mode: deny}}\n")

    assert main(["policy", "lint", str(mine)]) == 0

    (line,) = capsys.readouterr().err.splitlines()
    where = f"warning: {mine}:6: spec.rules.shm-missing.mode"
    why = "before vLLM 0.27 the failure depends on how NCCL moves data: over NVLink it starts"
    assert line == f"{where}: some findings only warn, also with deny: {why}"


def test_lint_tells_what_is_denied_when_it_is_unknown(tmp_path: Path, capsys: Capture) -> None:
    mine = tmp_path / "mine.yaml"
    limits = "      releases: {minimum: 0.27.0}\n      whenUnknown:\n        releases: deny\n        models: warn\n"
    mine.write_text(f"{HEAD}spec:\n  rules:\n    house-limits:\n{limits}")

    assert main(["policy", "lint", str(mine)]) == 0

    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"warning: {mine}:9: spec.rules.house-limits.whenUnknown.releases: also denies images whose")


def test_a_diff_shows_what_is_newly_denied_when_it_is_unknown(tmp_path: Path, capsys: Capture) -> None:
    head = f"{HEAD}spec:\n  rules:\n    house-limits:\n      mode: deny\n      releases: {{minimum: 0.21.0}}\n"
    (tmp_path / "old.yaml").write_text(head)
    (tmp_path / "new.yaml").write_text(f"{head}      whenUnknown: {{releases: deny}}\n")
    pod = copy.deepcopy(GOOD_POD)
    pod["spec"]["containers"][0]["image"] = "vllm/vllm-openai:latest"
    (tmp_path / "pod.yaml").write_text(yaml.safe_dump(pod))

    old, new, on = (str(tmp_path / name) for name in ("old.yaml", "new.yaml", "pod.yaml"))
    assert main(["policy", "diff", old, new, "--on", on]) == 1

    assert "house-limits" in capsys.readouterr().out.partition("newly denied: 1")[2]


def test_lint_tells_of_a_field_that_is_ignored(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "ours.yaml"
    file.write_text(HEAD + "spec:\n  trustFacts: true\n")

    assert main(["policy", "lint", str(file)]) == 0
    why = "ignored: facts are part of podfit, and podfit 0.4 will not accept this field. Fix: remove it"
    assert capsys.readouterr().err == f"warning: {file}:5: spec.trustFacts: {why}\n"


EMPTY = {
    "match: {namespaces: [chat], excludedNamespaces: [chat]}": "in any namespace: no name of a namespace fulfills all",
    "match: {namespaces: [chat-a, chat-*], excludedNamespaces: ['chat*']}": "no name of a namespace fulfills all",
    "match: {excludedNamespaces: ['*']}": "no name of a namespace fulfills all conditions",
    "match: {namespaces: [a], namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: b}}}": "no name of a",
    "match: {objectSelector: {matchExpressions: [{key: a, operator: Exists}, {key: a, operator: DoesNotExist}]}}":
        "nothing: no value of the label a fulfills all conditions",
    "match: {objectSelector: {matchLabels: {a: x}, matchExpressions: [{key: a, operator: NotIn, values: [x]}]}}":
        "no value of the label a",
    "match: {namespaceSelector: {matchLabels: {a: x}, matchExpressions: [{key: a, operator: In, values: [z]}]}}":
        "in any namespace: no value of the label a",
    "match: {kinds: [Deployment.batch]}": "podfit does not check the kind 'Deployment.batch', and no policy",
    "match: {kinds: [Model.example.com]}": "podfit does not check the kind 'Model.example.com'",
    "match: {kinds: [ClusterServingRuntime], namespaces: [chat]}": "objects of these kinds are in no namespace",
}  # fmt: skip
FULL = [
    "match: {namespaces: ['chat-*'], excludedNamespaces: [chat-a, 'chat-?']}",
    "match: {namespaces: [chat, legacy], excludedNamespaces: [legacy]}",
    "match: {namespaces: [a], namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: a, team: x}}}",
    "match: {objectSelector: {matchExpressions: [{key: a, operator: NotIn, values: [x]}, {key: a, operator: Exists}]}}",
    "match: {objectSelector: {matchExpressions: [{key: a, operator: In, values: [x, z]},"
    " {key: a, operator: NotIn, values: [x]}]}}",
    "match: {kinds: [Deployment.apps, Nothing.example.com]}",
    "kinds: {Model.example.com: [spec.template.spec]}\n  match: {kinds: [Model.example.com], namespaces: [chat]}",
    "match: {kinds: [ServingRuntime], namespaces: [chat]}",
]


def _linted(tmp_path: Path, capsys: Capture, spec: str) -> str:
    """What `podfit policy lint` prints of a policy with this spec, which can be used."""
    file = tmp_path / "ours.yaml"
    file.write_text(f"{HEAD}spec:\n  {spec}\n")
    assert main(["policy", "lint", str(file)]) == 0
    return capsys.readouterr().err


@pytest.mark.parametrize("spec", EMPTY)
def test_lint_reports_a_match_that_selects_nothing(tmp_path: Path, capsys: Capture, spec: str) -> None:
    (line,) = _linted(tmp_path, capsys, spec).splitlines()

    assert line.startswith(f"warning: {tmp_path}/ours.yaml:5: spec.match: selects nothing")
    assert EMPTY[spec] in line


@pytest.mark.parametrize("spec", FULL)
def test_lint_has_nothing_to_say_of_a_match_that_may_select_something(
    tmp_path: Path, capsys: Capture, spec: str
) -> None:
    assert not _linted(tmp_path, capsys, spec)


def _excepted(match: str, of_policy: str = "{}") -> str:
    """A policy's match and exceptions: one with that match."""
    return (
        f"match: {of_policy}\n  exceptions:\n  - {{rules: [gpu-idle], reason: a, owner: b, expires: '2999-01-01',"
        f" match: {match}}}"
    )


@pytest.mark.parametrize(
    "match", ["{objectSelector: {matchLabels: {a: b}}}", "{objectSelector: {matchLabels: {a: b}}, namespaces: ['*']}",
              "{objectSelector: {matchLabels: {a: b}}, excludedNamespaces: [prod], kinds: [Pod]}"]
)  # fmt: skip
def test_lint_warns_of_an_exception_that_tenants_reach_by_a_label(tmp_path: Path, capsys: Capture, match: str) -> None:
    line = _linted(tmp_path, capsys, _excepted(match))

    assert "spec.exceptions[0].match.objectSelector: selects by labels of the object alone" in line
    assert "tenants choose their own labels" in line


@pytest.mark.parametrize(
    ("match", "of_policy"),
    [
        ("{objectSelector: {matchLabels: {a: b}}, namespaces: [chat]}", "{}"),
        ("{objectSelector: {matchLabels: {a: b}}, namespaceSelector: {matchLabels: {team: x}}}", "{}"),
        ("{objectSelector: {matchLabels: {a: b}}}", "{namespaces: [chat]}"),
        ("{kinds: [Pod]}", "{}"),
    ],
)
def test_an_exception_for_namespaces_that_the_admin_chooses_is_no_doubt(
    tmp_path: Path, capsys: Capture, match: str, of_policy: str
) -> None:
    assert not _linted(tmp_path, capsys, _excepted(match, of_policy))


def test_lint_reads_the_match_of_an_exception_with_that_of_its_policy(tmp_path: Path, capsys: Capture) -> None:
    said = _linted(tmp_path, capsys, _excepted("{namespaces: [chat]}", "{namespaces: [prod-*]}"))

    assert "spec.exceptions[0].match: selects nothing in any namespace: no name of a namespace" in said
    assert said.rstrip().endswith(", since spec.match applies to exceptions too")
