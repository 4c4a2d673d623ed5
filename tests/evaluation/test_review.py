"""What the webhooks answer to an AdmissionReview, before there is any HTTP."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from podfit.evaluation import review
from podfit.evaluation.lint import Report
from podfit.evaluation.policy import Policy, builtin, load
from podfit.evaluation.review import BadReview, Request
from podfit.kube import patch
from podfit.vllm.facts import Facts
from tests.reviews import UID, admission_review, deployment, doomed, without_shm

JSONDict = dict[str, Any]


def ask(body: JSONDict) -> Request:
    """The request in a review."""
    return review.parse(json.dumps(body).encode())


Answer = Callable[[review.Request, Policy, Facts], JSONDict]


def validate(body: JSONDict, policy: Policy | None = None) -> JSONDict:
    """The validating webhook's `response`."""
    response: JSONDict = review.validate(ask(body), policy or builtin(), Facts())["response"]
    return response


def mutate(body: JSONDict, policy: Policy | None = None) -> JSONDict:
    """The mutating webhook's `response`."""
    response: JSONDict = review.mutate(ask(body), policy or builtin(), Facts())["response"]
    return response


def decode(response: JSONDict) -> list[JSONDict]:
    """The JSON Patch in a response."""
    assert response["patchType"] == "JSONPatch"
    operations: list[JSONDict] = json.loads(base64.b64decode(response["patch"]))
    return operations


def policy_of(spec: str) -> Policy:
    """The policy with this `spec`, as YAML in one line."""
    head = "apiVersion: podfit.dev/v1alpha1\nkind: Policy\nmetadata: {name: test}\n"
    return load([("test.yaml", f"{head}spec: {spec}\n")])


def test_a_good_pod_is_allowed_without_a_word(pod: JSONDict) -> None:
    answer = review.validate(ask(admission_review(pod)), builtin(), Facts())

    assert answer["apiVersion"] == "admission.k8s.io/v1"
    assert answer["kind"] == "AdmissionReview"
    assert answer["response"] == {
        "uid": UID,
        "allowed": True,
        "auditAnnotations": {
            "decision": "allowed",
            "policy-version": builtin().version,
            "facts-version": Facts().version,
        },
    }


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ("{}", {"decision": "denied", "rules": "unknown-flag=deny"}),
        ("{enforce: {mode: warn}}", {
            "decision": "allowed", "rules": "unknown-flag=warn", "would": "denied",
            "would-rules": "unknown-flag=warn(deny)",
        }),
        ("{enforce: {mode: audit}}", {
            "decision": "allowed", "rules": "unknown-flag=audit", "would": "denied",
            "would-rules": "unknown-flag=audit(deny)",
        }),
        ("{enforce: {mode: audit}, rules: {unknown-flag: {mode: warn}}}", {
            "decision": "allowed", "rules": "unknown-flag=audit", "would-rules": "unknown-flag=audit(warn)",
        }),
        ("{rules: {unknown-flag: {mode: audit}}}", {"decision": "allowed", "rules": "unknown-flag=audit"}),
        ("{enforce: {mode: ignore}}", {"decision": "allowed"}),
    ],
)  # fmt: skip
def test_the_audit_log_has_what_is_decided_and_what_would_be_if_the_policy_enforced(
    pod: JSONDict, policy: str, said: JSONDict
) -> None:
    annotations = validate(admission_review(doomed(pod)), policy_of(policy))["auditAnnotations"]

    assert {key: value for key, value in annotations.items() if "version" not in key} == said


def test_an_update_would_be_denied_for_what_it_introduces_alone(pod: JSONDict) -> None:
    """Enforcing does not deny what ran before, so that observing does not announce it."""
    bad, observe = deployment(doomed(pod)), policy_of("{enforce: {mode: audit}}")
    scaled = copy.deepcopy(bad)
    scaled["spec"]["replicas"] = 3

    same = validate(admission_review(scaled, "UPDATE", old=bad), observe)["auditAnnotations"]
    worse = validate(admission_review(bad, "UPDATE", old=deployment(pod)), observe)["auditAnnotations"]

    assert "would" not in same
    assert worse["would"] == "denied"


def test_a_refusal_is_403_forbidden_with_a_cause_for_machines(pod: JSONDict) -> None:
    response = validate(admission_review(doomed(pod)))
    status = response["status"]

    assert response["allowed"] is False
    assert (status["code"], status["reason"]) == (403, "Forbidden")
    assert status["message"].startswith(
        'vLLM would not start: 1 problem (unknown-flag) in container "vllm" of Pod chat/llama-8b\n'
    )
    assert [(cause["reason"], cause["field"]) for cause in status["details"]["causes"]] == [
        ("unknown-flag", "spec.containers[0].args[4]")
    ]
    assert "--no-such-flag" in status["details"]["causes"][0]["message"]
    assert response["auditAnnotations"]["decision"] == "denied"
    assert response["auditAnnotations"]["rules"] == "unknown-flag=deny"


def test_a_workload_is_refused_with_the_field_paths_of_the_workload(pod: JSONDict) -> None:
    response = validate(admission_review(deployment(doomed(pod))))

    assert response["status"]["details"]["causes"][0]["field"] == "spec.template.spec.containers[0].args[4]"


def test_a_pod_of_a_controller_is_warned_about_and_not_refused(pod: JSONDict) -> None:
    bad = doomed(pod)
    bad["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "llama-1", "uid": "1", "controller": True}
    ]

    response = validate(admission_review(bad))
    strict = validate(admission_review(bad), policy_of("{enforce: {ownedPods: deny}}"))

    assert response["allowed"] is True
    assert any("unknown-flag" in line for line in response["warnings"])
    assert strict["allowed"] is False


OWNERS = [
    ("example.com/v1", "Anything"), ("serving.kserve.io/v1beta1", "InferenceService"),
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"),
]  # fmt: skip


@pytest.mark.parametrize(("api_version", "kind"), OWNERS)
@pytest.mark.parametrize(
    ("user", "allowed"),
    [
        ("jane@example.com", False),
        ("kubernetes-admin", False),
        ("oidc:system:serviceaccount:a:b", False),
        ("system:serviceaccount:kserve:kserve-controller-manager", True),
        ("system:kube-controller-manager", True),
        ("", True),  # no API server leaves it out; what is not known makes nothing stricter
    ],
)
def test_the_owner_of_a_workload_counts_only_if_a_controller_says_so(
    pod: JSONDict, user: str, allowed: bool, api_version: str, kind: str
) -> None:
    bad = deployment(doomed(pod))
    bad["metadata"]["ownerReferences"] = [
        {"apiVersion": api_version, "kind": kind, "name": "llama", "uid": "1", "controller": True}
    ]
    asked = admission_review(bad, userInfo={"username": user})

    response = validate(asked)

    assert response["allowed"] is allowed
    assert allowed or kind not in response["status"]["message"]
    bad_pod = {**doomed(pod), "metadata": {**pod["metadata"], "ownerReferences": bad["metadata"]["ownerReferences"]}}
    assert validate(admission_review(bad_pod, userInfo={"username": user}))["allowed"], "of a Pod it always counts"


def test_an_update_is_refused_only_for_what_it_introduces(pod: JSONDict) -> None:
    good, bad = deployment(pod), deployment(doomed(pod))
    scaled = copy.deepcopy(bad)
    scaled["spec"]["replicas"] = 0

    assert validate(admission_review(bad, "UPDATE", old=good))["allowed"] is False
    assert validate(admission_review(scaled, "UPDATE", old=bad))["allowed"] is True
    assert validate(admission_review(good, "UPDATE", old=bad))["allowed"] is True


def test_lowering_the_memory_limit_in_place_is_judged(pod: JSONDict) -> None:
    lowered = copy.deepcopy(pod)
    lowered["spec"]["containers"][0]["resources"]["limits"]["memory"] = "1Gi"

    response = validate(admission_review(lowered, "UPDATE", old=pod, subresource="resize"))

    assert "memory-limit-too-low" in response["auditAnnotations"]["rules"]


def changed(obj: JSONDict, **metadata: Any) -> JSONDict:
    """The object with other metadata."""
    return {**obj, "metadata": {**obj["metadata"], **metadata}}


SCALE: JSONDict = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": 3}}
PASSING: dict[str, Callable[[JSONDict], JSONDict]] = {
    "a deletion": lambda bad: admission_review(None, "DELETE", old=bad),
    "a label": lambda bad: admission_review(changed(bad, labels={"a": "b"}), "UPDATE", old=bad),
    "a finalizer": lambda bad: admission_review(changed(bad, finalizers=[]), "UPDATE", old=bad),
    "its status": lambda bad: admission_review({**bad, "status": {"phase": "Running"}}, "UPDATE", old=bad),
    "the status subresource": lambda bad: admission_review(bad, "UPDATE", old=bad, subresource="status"),
    "a debug container": lambda bad: admission_review(
        {**bad, "spec": {**bad["spec"], "ephemeralContainers": [{"name": "debug", "image": "busybox"}]}},
        "UPDATE",
        old=bad,
        subresource="ephemeralcontainers",
    ),
    "kubectl scale": lambda _: admission_review(
        SCALE,
        "UPDATE",
        old=SCALE,
        subresource="scale",
        resource={"group": "apps", "version": "v1", "resource": "deployments"},
    ),
    "an object that is being deleted": lambda bad: admission_review(
        changed(bad, deletionTimestamp="2026-01-01T00:00:00Z"), "UPDATE", old={**bad, "spec": {}}
    ),
    "a mirror Pod": lambda bad: admission_review(changed(bad, annotations={"kubernetes.io/config.mirror": "x"})),
    "kubectl exec": lambda bad: admission_review(bad, "CONNECT", subresource="exec"),
    "no vLLM at all": lambda bad: admission_review({**bad, "spec": {"containers": [{"name": "x", "image": "nginx"}]}}),
}


@pytest.mark.parametrize("webhook", [validate, mutate])
@pytest.mark.parametrize("case", PASSING)
def test_what_is_not_ours_to_judge_passes_without_a_word(
    case: str, webhook: Callable[[JSONDict], JSONDict], pod: JSONDict
) -> None:
    assert webhook(PASSING[case](doomed(without_shm(pod)))) == {"uid": UID, "allowed": True}


def test_a_pod_is_patched_at_its_creation_and_the_patch_is_announced(pod: JSONDict) -> None:
    bare = without_shm(pod)

    response = mutate(admission_review(bare))
    repaired = patch.apply(bare, decode(response))

    assert response["allowed"] is True
    assert response["auditAnnotations"]["decision"] == "patched"
    assert [line for line in response["warnings"] if line.startswith("podfit shm-missing: ")]
    *_, volume = repaired["spec"]["volumes"]
    assert volume["emptyDir"]["medium"] == "Memory"
    assert "patch" not in mutate(admission_review(repaired)), "a second pass changes nothing"


def test_the_mutating_webhook_never_refuses(pod: JSONDict) -> None:
    response = mutate(admission_review(doomed(pod)))

    assert response["allowed"] is True
    assert not response.keys() & {"patch", "patchType", "status", "warnings"}


def test_the_validating_webhook_never_patches(pod: JSONDict) -> None:
    assert not validate(admission_review(without_shm(pod))).keys() & {"patch", "patchType"}


def test_a_workload_is_patched_only_where_the_policy_says_so(pod: JSONDict) -> None:
    workload = deployment(without_shm(pod))

    assert mutate(admission_review(workload)) == {"uid": UID, "allowed": True}
    assert decode(mutate(admission_review(workload), policy_of("{mutate: {workloads: true}}")))


def test_a_pod_is_never_patched_by_an_update(pod: JSONDict) -> None:
    assert mutate(admission_review(without_shm(pod), "UPDATE", old=pod)) == {"uid": UID, "allowed": True}


def test_the_same_question_has_the_same_answer(pod: JSONDict) -> None:
    body = admission_review(without_shm(pod), dryRun=True)

    assert mutate(body) == mutate(copy.deepcopy(body))


def test_an_error_of_ours_allows_the_object_and_does_not_quote_it(
    pod: JSONDict, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> Report:
        raise RuntimeError("hf_secret")

    monkeypatch.setattr(review, "lint", broken)
    decision = review.decide("validate", ask(admission_review(pod)), builtin(), Facts())

    assert decision.outcome == "failed"
    assert isinstance(decision.error, RuntimeError)
    assert decision.answer["response"]["allowed"] is True
    (warning,) = decision.answer["response"]["warnings"]
    assert "hf_secret" not in warning


def test_words_of_the_manifest_reach_no_terminal_as_control_characters(pod: JSONDict) -> None:
    pod["spec"]["containers"][0]["args"].append("--no-such\x1b[31m-flag\r\n\tx")
    pod["metadata"]["name"] = "llama\x07"

    response = validate(admission_review(pod))

    texts = [*response.get("warnings", []), *(cause["message"] for cause in response["status"]["details"]["causes"])]
    assert all(text.isprintable() and len(text) <= 256 for text in texts)
    assert response["status"]["message"].replace("\n", "").isprintable()


def without(body: JSONDict, *place: str) -> JSONDict:
    """The review less one field."""
    at = body
    for name in place[:-1]:
        at = at[name]
    del at[place[-1]]
    return body


def with_(body: JSONDict, value: Any, *place: str) -> JSONDict:
    """The review with another value in one field."""
    at = body
    for name in place[:-1]:
        at = at[name]
    at[place[-1]] = value
    return body


BAD_BODIES = {
    "the body is not JSON: Expecting value at line 1 column 1": b"",
    "the body is not JSON: Expecting ',' delimiter at line 2 column 1": b'{"kind": 1\n"request": 2}',
    "the body is not JSON: Unterminated string starting at line 1 column 10": b'{"kind": "Adm',
    "the body is not JSON: NaN is not a JSON number": b'{"kind": NaN}',
    "the body is not JSON: a number is out of range": b'{"kind": ' + b"9" * 5000 + b"}",
    "the body is not UTF-8 at byte 9": b'{"kind":"\xff"}',
    "the body is nested too deep": b'{"request":' * 10_000 + b"1" + b"}" * 10_000,
    "the body is a JSON array, expected an AdmissionReview object": b"[1]",
    "kind is missing, expected AdmissionReview": b"{}",
    'kind is "Pod", expected AdmissionReview': b'{"kind": "Pod"}',
}


@pytest.mark.parametrize("message", BAD_BODIES)
def test_a_body_that_is_no_review_is_refused_in_one_line(message: str) -> None:
    with pytest.raises(BadReview) as error:
        review.parse(BAD_BODIES[message])

    assert str(error.value) == message


BAD_REVIEWS: dict[str, Callable[[JSONDict], JSONDict]] = {
    'apiVersion is "admission.k8s.io/v1beta1", expected admission.k8s.io/v1': lambda body: with_(
        body, "admission.k8s.io/v1beta1", "apiVersion"
    ),
    "request is missing": lambda body: without(body, "request"),
    "request.uid is missing": lambda body: without(body, "request", "uid"),
    "request.uid is a JSON number, expected a string": lambda body: with_(body, 7, "request", "uid"),
    "request.operation is missing": lambda body: without(body, "request", "operation"),
    'request.operation is "PATCH", expected one of CREATE, UPDATE, DELETE, CONNECT': lambda body: with_(
        body, "PATCH", "request", "operation"
    ),
    "request.kind is missing": lambda body: without(body, "request", "kind"),
    "request.object is missing in a CREATE": lambda body: with_(body, None, "request", "object"),
    "request.object is a JSON array, expected an object": lambda body: with_(body, [], "request", "object"),
    "request.object.metadata is a JSON null, expected an object": lambda body: with_(
        body, None, "request", "object", "metadata"
    ),
    'request.object is "v1" "Pod", request.kind says "v1" "Secret"': lambda body: with_(
        body, "Secret", "request", "kind", "kind"
    ),
    'request.object is missing missing, request.kind says "v1" "Pod"': lambda body: with_(
        body, {"metadata": {}}, "request", "object"
    ),
    'request.kind "Pod" is not the kind of request.resource "services"': lambda body: with_(
        body, "services", "request", "resource", "resource"
    ),
    'request.kind "Pod" is not the kind of request.resource "deployments"': lambda body: with_(
        body, {"group": "apps", "version": "v1", "resource": "deployments"}, "request", "resource"
    ),
}


@pytest.mark.parametrize("message", BAD_REVIEWS)
def test_a_review_that_contradicts_itself_is_refused_in_one_line(message: str, pod: JSONDict) -> None:
    with pytest.raises(BadReview) as error:
        ask(BAD_REVIEWS[message](admission_review(pod)))

    assert str(error.value) == message


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)


@given(st.binary(max_size=300))
def test_random_bytes_are_refused_and_nothing_else(body: bytes) -> None:
    with pytest.raises(BadReview) as error:
        review.parse(body)

    assert "\n" not in str(error.value)


@given(JSON_VALUES, st.sampled_from(["", "request", "object", "oldObject", "kind", "resource", "operation", "uid"]))
def test_random_json_anywhere_in_a_review_is_refused_or_answered(value: Any, place: str) -> None:
    """Whatever a field contains, `parse` raises BadReview and nothing else, or there is an answer with its uid."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": []}}
    body: Any = admission_review(pod, "UPDATE", old=pod)
    if place:
        body["request"][place] = value
    else:
        body = value
    try:
        asked = ask(body)
    except BadReview:
        return

    for answer in (review.validate(asked, builtin(), Facts()), review.mutate(asked, builtin(), Facts())):
        assert answer["response"]["uid"] == body["request"]["uid"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    field=st.sampled_from(["spec", "status", "labels", "annotations", "ownerReferences", "deletionTimestamp"]),
    value=JSON_VALUES,
)
def test_odd_values_in_an_object_are_answered_with_the_requests_uid(field: str, value: Any, pod: JSONDict) -> None:
    odd = {**pod, field: value} if field in ("spec", "status") else changed(pod, **{field: value})
    asked = ask(admission_review(odd))

    for decision in (
        review.decide("validate", asked, builtin(), Facts()),
        review.decide("mutate", asked, builtin(), Facts()),
    ):
        assert decision.error is None
        assert decision.answer["response"]["uid"] == UID
        assert decision.answer["response"]["allowed"] is True


def test_a_policy_of_podfits_own_is_refused_for_its_mistakes_alone() -> None:
    def reviewed(spec: JSONDict, answer: Answer = review.validate, **metadata: Any) -> JSONDict:
        kind = {"group": "podfit.dev", "version": "v1alpha1", "kind": "Policy"}
        policy = {"apiVersion": "podfit.dev/v1alpha1", "kind": "Policy", "metadata": {"name": "p", **metadata}}
        request = {
            "uid": "1",
            "kind": kind,
            "resource": {"group": "podfit.dev", "version": "v1alpha1", "resource": "policies"},
            "name": "p",
            "operation": "CREATE",
            "object": {**policy, "spec": spec},
        }
        body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
        response: JSONDict = answer(review.parse(json.dumps(body).encode()), builtin(), Facts())["response"]
        return response

    typo = {"rules": {"unpinned-imgae": {"mode": "deny"}}}
    refused = reviewed(typo)

    assert not refused["allowed"]
    assert refused["status"]["message"] == (
        "1 problem in Policy p\n\n"
        "spec.rules.unpinned-imgae: 'unpinned-imgae' is not a rule; did you mean 'unpinned-image'?\n\n"
        "next: podfit policy lint FILE says the same before anything is applied; docs/policies.md has every field"
    )
    assert refused["status"]["details"]["causes"][0]["field"] == "spec.rules.unpinned-imgae"
    assert reviewed({"rules": {"unpinned-image": {"mode": "deny"}}})["allowed"]
    assert reviewed(typo, review.mutate) == {"uid": "1", "allowed": True}, "the mutating webhook never refuses"
    assert reviewed(typo, deletionTimestamp="2026-11-21T12:00:00Z")["allowed"], "what is being deleted passes"
