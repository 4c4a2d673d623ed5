"""What every answer keeps to, whichever rule found what: what kubectl, GitOps tools and API servers make of it."""

from __future__ import annotations

import copy
import json
import re
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.evaluation import denial, review
from podfit.evaluation.denial import wrapped
from podfit.evaluation.lint import lint
from podfit.evaluation.policy import Policy, builtin, load
from podfit.kube import manifest
from podfit.rules import all_rules
from podfit.rules.rule import Mode
from podfit.vllm.facts import Facts
from scripts.docs import EXAMPLES

JSONDict = dict[str, Any]
ESCAPES = "\x1b[31m\x07\x9b\r\u202e\u2028"
"""What a terminal obeys, and what turns or breaks a line."""
FILES = sorted(EXAMPLES.glob("*/bad*.yaml"))


def objects(name: str) -> Iterator[JSONDict]:
    """The objects of a rule's examples."""
    for path in FILES:
        if path.parent.name == name:
            yield from (dict(document.object) for document in manifest.read(path.read_bytes(), path.name).documents)


def hostile(obj: Any) -> Any:
    """The object, with names as long as they may be and words that a terminal would obey."""
    if isinstance(obj, list):
        return [hostile(one) for one in obj]
    if not isinstance(obj, dict):
        return obj
    changed = {key: hostile(value) for key, value in obj.items()}
    if isinstance(obj.get("metadata"), dict):
        changed["metadata"] |= {"name": "n" * 250 + ESCAPES, "namespace": "s" * 63}
    if isinstance(obj.get("args"), list):
        changed["name"] = "c" * 60 + ESCAPES
        changed["args"] = [f"{word}{ESCAPES}" if "-no-" in str(word) else word for word in obj["args"]]
        changed["args"].append(f"--no-such-{ESCAPES}flag")
    return changed


def owned(obj: JSONDict) -> JSONDict:
    """The object, made by a controller with a long name."""
    owner = {"apiVersion": "acme.io/v1", "kind": "A" * 60, "name": "r" * 250 + ESCAPES, "controller": True}
    return {**obj, "metadata": {**obj["metadata"], "ownerReferences": [owner]}}


def every_rule(mode: Mode) -> Policy:
    """Every rule in one mode, for Pods that controllers made, too."""
    spec = {"rules": {rule: {"mode": mode} for rule in all_rules()}, "enforce": {"ownedPods": "deny"}}
    policy = {"apiVersion": "podfit.dev/v1alpha1", "kind": "Policy", "metadata": {"name": mode}, "spec": spec}
    return load([("policy.yaml", json.dumps(policy))])


POLICIES = {"as it comes": builtin(), "all denied": every_rule("deny"), "all warned": every_rule("warn")}


def responses(obj: JSONDict) -> Iterator[JSONDict]:
    """What both webhooks say of an object's creation, under each policy."""
    group, _, version = obj["apiVersion"].rpartition("/")
    kind = {"group": group, "version": version, "kind": obj["kind"]}
    resource = {"group": group, "version": version, "resource": f"{obj['kind'].lower()}s"}
    request = {"uid": "1", "operation": "CREATE", "kind": kind, "resource": resource, "object": obj}
    body = {"apiVersion": review.API_VERSION, "kind": "AdmissionReview", "request": request}
    asked = review.parse(json.dumps(body).encode())
    for policy in POLICIES.values():
        for answer in (review.validate, review.mutate):
            yield answer(asked, policy, Facts())["response"]


def wrong(response: JSONDict) -> Iterator[str]:
    """How a response breaks what a reader or an API server needs."""
    warnings = response.get("warnings", [])
    for line in warnings:
        if len(line) > 120 or not line.isprintable() or not line.startswith("podfit"):
            yield f"a warning is no short line: {line!r}"
    if sum(map(len, warnings)) > 4096:
        yield "the API server cuts warnings that are longer together"
    for key, value in response.get("auditAnnotations", {}).items():
        if not re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", key) or not value.isprintable():
            yield f"an audit annotation that the API server drops: {key}: {value!r}"
    if response["allowed"]:
        if "status" in response:
            yield "an admission with a status"
        return
    status = response["status"]
    lines = status["message"].split("\n")
    if (status["code"], status["reason"]) != (403, "Forbidden"):
        yield f"kubectl shows {status['reason']} in another way"
    if len(lines[0]) > 200 or not lines[0].startswith(("vLLM would not", "the policy does not allow this")):
        yield f"the first line does not stand alone: {lines[0]!r}"
    if not lines[-1].startswith("next: podfit explain "):
        yield f"the last line does not say what to do: {lines[-1]!r}"
    if not all(line.isprintable() for line in lines) or any(line.startswith("\t") for line in lines):
        yield f"a control character: {status['message']!r}"
    causes = status["details"]["causes"]
    if not causes or any(set(cause) != {"reason", "field", "message"} for cause in causes):
        yield f"a cause lacks something: {causes}"
    for cause in causes:
        if not all(text and text.isprintable() for text in cause.values()) or cause["reason"] not in status["message"]:
            yield f"a cause that can't be read: {cause}"


@pytest.mark.parametrize("name", sorted({path.parent.name for path in FILES}))
def test_every_rules_answer_can_be_read_by_kubectl_argo_and_programs(name: str) -> None:
    found = list(objects(name))
    cases = [one for obj in found for one in (obj, hostile(copy.deepcopy(obj)), owned(hostile(copy.deepcopy(obj))))]

    broken = [line for case in cases for response in responses(case) for line in wrong(response)]

    assert found
    assert not broken
    hostile_denials = [one for case in cases[1:] for one in responses(case) if not one["allowed"]]
    assert hostile_denials or all_rules()[name].never_denies, "a case in which nothing is denied shows nothing"


def test_the_check_itself_finds_what_is_wrong() -> None:
    bad = {"allowed": False, "warnings": ["x" * 121], "auditAnnotations": {"a/b": "c"}}
    status = {"code": 422, "reason": "Invalid", "message": "\x1b[31m", "details": {"causes": [{"reason": "a"}]}}

    assert len(list(wrong(bad | {"status": status}))) == 8


def test_a_pods_refusal_names_its_owner_so_that_an_event_reads_alone(pod: JSONDict) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "llama-8b-7f", "controller": True}
    pod["metadata"]["ownerReferences"] = [{**owner, "kind": "Node", "controller": False}, owner]
    pod["spec"]["containers"][0]["args"].append("--no-such-flag")

    refused = [one for one in responses(pod) if not one["allowed"]]

    assert refused[0]["status"]["message"].splitlines()[0] == (
        'vLLM would not start: 1 problem (unknown-flag) in container "vllm" of Pod chat/llama-8b '
        "of ReplicaSet llama-8b-7f"
    )


def test_a_long_warning_begins_with_the_change(pod: JSONDict) -> None:
    container = pod["spec"]["containers"][0]
    container["args"] = ["unsloth/Llama-3.1-8B-Instruct", "--max-model-len=131072"]
    pod["spec"]["nodeSelector"] = {"nvidia.com/gpu.product": "NVIDIA-L4"}
    policy = load([("a.yaml", "apiVersion: podfit.dev/v1alpha1\nkind: Policy\nmetadata: {name: a}\n"
                              "spec: {enforce: {mode: warn}}\n")])  # fmt: skip

    lines = denial.warnings(lint(pod, policy, Facts()))

    (line,) = [one for one in lines if "kv-cache-too-small" in one]
    assert re.match(r"podfit kv-cache-too-small: change: --max-model-len[ =]\d+.*: one request of 131,072 tokens", line)
    assert len(line) <= 120
    assert line.endswith("…")


def test_a_headline_names_what_keeps_vllm_from_starting_and_no_practice(pod: JSONDict) -> None:
    pod["spec"]["containers"][0]["args"].append("--no-such-flag")
    pod["spec"]["nodeSelector"] = {}
    policy = load([("a.yaml", "apiVersion: podfit.dev/v1alpha1\nkind: Policy\nmetadata: {name: a}\n"
                              "spec: {rules: {unknown-gpu: {mode: deny}}}\n")])  # fmt: skip

    report = lint(pod, policy, Facts())

    assert {"unknown-flag", "unknown-gpu"} <= {one.rule for one in denial.denials(report)}
    assert "2 problems (unknown-flag and 1 more)" in denial.refusal_headline(report)


def test_what_keeps_vllm_from_starting_is_warned_of_first_and_the_rest_is_counted(pod: JSONDict) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "llama-8b-7f", "controller": True}
    pod["metadata"]["ownerReferences"] = [owner]
    container = pod["spec"]["containers"][0]
    del container["resources"]["limits"]["memory"]
    container["args"] += [f"--no-such-flag-{number}" for number in range(60)]

    first, *_ = responses(pod)

    assert len(first["warnings"]) == 34
    assert all("unknown-flag" in line for line in first["warnings"][:-1])
    assert first["warnings"][-1] == "podfit: 28 more warnings; podfit check shows all"


@given(
    st.lists(
        st.sampled_from(["a", "of", "42.4", "GiB", "%", "--max-model-len", "nodeSelector", "x" * 45, "·", "", "\t"])
    ),
    st.sampled_from(["", "  ", " " * 30]),
    st.sampled_from([None, "    ", " " * 30]),
    st.sampled_from([35, 60, 100]),
)
def test_lines_end_where_textwrap_would_end_them(words: list[str], first: str, rest: str | None, width: int) -> None:
    text = " ".join(words)
    kept = re.sub(r"(?<=\d) (?=GiB|%)| (?=·$)", "\N{NO-BREAK SPACE}", text)
    wrapper = textwrap.TextWrapper(width, first, first if rest is None else rest)
    wrapper.break_long_words = wrapper.break_on_hyphens = False
    lines = wrapper.wrap(kept)
    assert wrapped(text, first, rest, width) == [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]
