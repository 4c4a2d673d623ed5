"""Remembered decisions: the same as computed ones, and never those of another object."""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import mutations
from podfit.evaluation import review
from podfit.evaluation.policy import Layer, Policy, builtin, of_layers
from podfit.evaluation.review import Request, Webhook
from podfit.server import decision_cache as verdicts_
from podfit.server.decision_cache import DecisionCache
from podfit.vllm.facts import Facts
from tests.conftest import GOOD_POD
from tests.reviews import admission_review, deployment, doomed, without_shm

JSONDict = dict[str, Any]
POLICY, FACTS = builtin(), Facts()


def asked(obj: JSONDict, operation: str = "CREATE", **more: Any) -> Request:
    return review.parse(json.dumps(admission_review(obj, operation, **more)).encode())


def generated(pod: JSONDict, letters: str) -> JSONDict:
    """A Pod of a ReplicaSet as the validating webhook sees it."""
    made = copy.deepcopy(pod)
    name = made["metadata"].pop("name")
    made["metadata"] |= {
        "generateName": f"{name}-7d9f8-",
        "name": f"{name}-7d9f8-{letters}",
        "uid": f"uid-of-{letters}",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "managedFields": [{"time": letters}],
    }
    made["spec"].setdefault("volumes", []).append({"name": f"kube-api-access-{letters}", "projected": {"sources": []}})
    mount = {"name": f"kube-api-access-{letters}", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    made["spec"]["containers"][0].setdefault("volumeMounts", []).append(mount)
    made["status"] = {"phase": "Pending", "qosClass": letters}
    return made


def test_the_pods_of_one_template_are_one_computation() -> None:
    cache = DecisionCache()
    one, two = (asked(generated(doomed(GOOD_POD), letters), uid=letters) for letters in ("abcde", "x2x9z"))

    first = cache.decide("validate", one, POLICY, FACTS)
    second = cache.decide("validate", two, POLICY, FACTS)

    assert (first.remembered, second.remembered) == (False, True)
    assert (first.outcome, first.request, second.request) == ("denied", one, two)
    assert second.answer["response"] == first.answer["response"] | {"uid": "x2x9z"}
    assert "abcde" not in json.dumps(second.answer)


@pytest.mark.parametrize("webhook", ["validate", "mutate"])
def test_each_webhook_has_its_own_memory(webhook: Webhook) -> None:
    cache = DecisionCache()
    request = asked(without_shm(GOOD_POD))
    cache.decide("mutate" if webhook == "validate" else "validate", request, POLICY, FACTS)

    decision = cache.decide(webhook, request, POLICY, FACTS)

    assert not decision.remembered
    assert decision.answer == review.decide(webhook, request, POLICY, FACTS).answer


def test_another_policy_and_other_facts_are_another_question() -> None:
    cache = DecisionCache()
    request = asked(without_shm(GOOD_POD))
    cache.decide("validate", request, POLICY, FACTS)

    other_policy = of_layers([Layer("other", trust_mutation=True)])
    other_facts = replace(FACTS, gpu_memory=8 << 30)

    assert not cache.decide("validate", request, other_policy, FACTS).remembered
    assert not cache.decide("validate", request, POLICY, other_facts).remembered


def _others() -> Iterator[tuple[str, Request, Request]]:
    """What differs, and two requests that must not share a decision."""
    pod = generated(GOOD_POD, "abcde")
    for field, value in {"namespace": "prod", "labels": {"a": "b"}, "annotations": {"podfit.dev/model": "x"}}.items():
        yield field, asked(pod), asked({**pod, "metadata": {**pod["metadata"], field: value}})
    yield "name", asked(GOOD_POD), asked({**GOOD_POD, "metadata": {**GOOD_POD["metadata"], "name": "other"}})
    yield (
        "owner",
        asked(pod),
        asked(
            {**pod, "metadata": {**pod["metadata"], "ownerReferences": [{"kind": "ReplicaSet", "controller": True}]}}
        ),
    )
    yield "spec", asked(pod), asked({**pod, "spec": {**pod["spec"], "nodeSelector": {"a": "b"}}})
    mine, theirs = (generated(GOOD_POD, "abcde") for _ in range(2))
    for one, letters in ((mine, "abcde"), (theirs, "fghij")):
        one["spec"]["volumes"].append({"name": "kube-api-access-fghij", "emptyDir": {}})
        one["spec"]["containers"][0]["volumeMounts"].append({"name": f"kube-api-access-{letters}", "mountPath": "/x"})
    yield "volume that only looks made up", asked(mine), asked(theirs)
    new, old = deployment(doomed(GOOD_POD)), deployment(GOOD_POD)
    owner = {"apiVersion": "example.com/v1", "kind": "Anything", "name": "a", "uid": "1", "controller": True}
    owned = {**new, "metadata": {**new["metadata"], "ownerReferences": [owner]}}
    controller = {"username": "system:serviceaccount:operators:operator"}
    yield "who names the owner", asked(owned, userInfo=controller), asked(owned)
    yield "operation", asked(new), asked(new, "UPDATE", old=old)
    yield "old object", asked(new, "UPDATE", old=old), asked(new, "UPDATE", old=deployment(without_shm(GOOD_POD)))
    yield "subresource", asked(GOOD_POD), asked(GOOD_POD, subresource="resize")


@pytest.mark.parametrize(("what", "one", "other"), list(_others()), ids=[case[0] for case in _others()])
def test_what_makes_a_difference_is_judged_anew(what: str, one: Request, other: Request) -> None:
    cache = DecisionCache()
    cache.decide("validate", one, POLICY, FACTS)

    assert not cache.decide("validate", other, POLICY, FACTS).remembered, what


def test_what_makes_no_difference_is_remembered() -> None:
    cache = DecisionCache()
    cache.decide("validate", asked(GOOD_POD), POLICY, FACTS)

    again = asked(GOOD_POD, uid="another", dryRun=True, userInfo={"username": "somebody-else"})
    decision = cache.decide("validate", again, POLICY, FACTS)

    assert decision.remembered
    assert (decision.request.uid, decision.request.dry_run) == ("another", True)


def test_an_error_of_ours_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = DecisionCache()
    request = asked(GOOD_POD)
    with monkeypatch.context() as patch:
        patch.setattr(review, "lint", lambda *_, **__: 1 / 0)
        assert cache.decide("validate", request, POLICY, FACTS).outcome == "failed"

    assert cache.decide("validate", request, POLICY, FACTS).outcome == "allowed"


def test_memory_is_bounded_by_bytes_and_keeps_what_was_asked_last() -> None:
    cache = DecisionCache(size=1 << 18)
    pods = [{**GOOD_POD, "metadata": {"name": f"pod-{number}", "namespace": "chat"}} for number in range(300)]
    for pod in pods:
        cache.decide("validate", asked(pod), POLICY, FACTS)

    assert cache.decide("validate", asked(pods[-1]), POLICY, FACTS).remembered
    assert not cache.decide("validate", asked(pods[0]), POLICY, FACTS).remembered


def test_an_object_deeper_than_memory_goes_is_judged_all_the_same() -> None:
    deep: JSONDict = {}
    for _ in range(5000):
        deep = {"a": deep}
    request = asked(GOOD_POD)._replace(object={**GOOD_POD, "spec": {**GOOD_POD["spec"], "deep": deep}})

    decision = DecisionCache().decide("validate", request, POLICY, FACTS)

    assert decision.outcome == "allowed"


SHARED = DecisionCache()
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 200_000), st.sampled_from(["", "8", "64Gi", "vllm", "--max-model-len"])
)


@st.composite
def changed(draw: st.DrawFn) -> JSONDict:
    """A Pod with a few of its values replaced, removed or repeated: those that the API server makes up too."""
    pod: JSONDict = generated(draw(st.sampled_from([GOOD_POD, doomed(GOOD_POD), without_shm(GOOD_POD)])), "abcde")
    for _ in range(draw(st.integers(0, 3))):
        place: Any = pod
        while True:
            keys = sorted(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            below = place[key]
            if isinstance(below, dict | list) and below and draw(st.integers(0, 4)):
                place = below
                continue
            if place is not pod or key not in ("apiVersion", "kind", "metadata"):
                place[key] = draw(LEAVES)
            break
    return pod


@settings(max_examples=300)
@given(changed(), st.sampled_from(["validate", "mutate"]))
def test_remembered_and_computed_decisions_are_the_same(pod: JSONDict, webhook: Webhook) -> None:
    try:
        request = asked(pod)
    except review.BadReview:
        return

    remembered = SHARED.decide(webhook, request, POLICY, FACTS)

    assert remembered.answer == DecisionCache().decide(webhook, request, POLICY, FACTS).answer
    if not pod["metadata"].get("generateName"):
        assert remembered.answer == review.decide(webhook, request, POLICY, FACTS).answer


METADATA: tuple[dict[str, Any], ...] = (
    {"namespace": "other"}, {"name": "other"}, {"generateName": "other-"}, {"labels": {"app": "other"}},
    {"annotations": {"a": "b"}}, {"annotations": {"podfit.dev/model": "Qwen/Qwen3-8B"}}, {"uid": "u"},
    {"annotations": {"podfit.dev/ignore.unpinned-image": "known"}}, {"resourceVersion": "7"},
    {"managedFields": [{"manager": "x"}]}, {"creationTimestamp": "2026-01-01T00:00:00Z"},
    {"ownerReferences": [{"kind": "ReplicaSet", "name": "x", "controller": True}]},
    {"deletionTimestamp": "2026-01-01T00:00:00Z"}, {},
)  # fmt: skip
"""Changes at the edge of the cache's key."""
OTHER_POLICY = of_layers([Layer("other", trust_mutation=True, owned_pods="deny")])


@settings(max_examples=300, deadline=None)
@given(
    st.integers(0, 2**32).map(Random), st.sampled_from(METADATA), st.sampled_from(["validate", "mutate"]),
    st.sampled_from([POLICY, OTHER_POLICY]), st.booleans(),
)  # fmt: skip
def test_an_object_that_hardly_differs_gets_its_own_decision(
    random: Random, metadata: dict[str, Any], webhook: Webhook, policy: Policy, is_update: bool
) -> None:
    """An example of a rule and a copy with other metadata and, sometimes, another value."""
    first = random.choice(mutations.corpus())
    second = {**first, "metadata": {**(first.get("metadata") or {}), **metadata}}
    if random.random() < 0.5:
        second = mutations.mutated(random, second, 1)
    for obj in (first, second):
        try:
            request = review.parse(json.dumps(mutations.review(random, obj, first if is_update else None)).encode())
        except review.BadReview:
            continue
        cached = SHARED.decide(webhook, request, policy, FACTS)

        assert cached.answer == DecisionCache().decide(webhook, request, policy, FACTS).answer


def test_every_finding_counts() -> None:
    """One body may hold hundreds of containers, each with findings of its own."""
    decision = review.decide("validate", asked(doomed(GOOD_POD)), POLICY, FACTS)
    pairs = [(str(number), "annotation") for number in range(1000)]
    more = decision._replace(exempted=tuple(pairs))

    assert verdicts_._weight(more) - verdicts_._weight(decision) >= 1000 * sys.getsizeof(pairs[0])
