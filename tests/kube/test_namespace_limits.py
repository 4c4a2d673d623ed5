"""What a repair may do to a Pod's resources in a namespace that limits them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from podfit.evaluation.lint import Report
from podfit.evaluation.policy import Policy, load
from podfit.kube import namespace_limits
from podfit.kube.namespace_limits import refusal
from podfit.kube.patch import apply, json_patch
from podfit.kube.snapshot import Snapshot, from_objects
from podfit.vllm.facts import Facts
from tests.reviews import deployment

JSONDict = dict[str, Any]
Judge = Callable[..., Report]


def limit_range(**item: Any) -> JSONDict:
    spec = {"limits": [{"type": "Container", **item}]}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "team", "namespace": "chat"}, "spec": spec}


def quota(*hard: str, **spec: Any) -> JSONDict:
    spec["hard"] = dict.fromkeys(hard, "100Gi")
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "all", "namespace": "chat"}, "spec": spec}


def with_memory(pod: JSONDict, limit: str | None, request: str | None = None) -> JSONDict:
    changed = copy.deepcopy(pod)
    resources = changed["spec"]["containers"][0]["resources"]
    resources["limits"].pop("memory", None)
    if limit:
        resources["limits"]["memory"] = limit
    if request:
        resources["requests"] = {"memory": request}
    return changed


CASES: dict[str, tuple[JSONDict, tuple[str | None, str | None], tuple[str | None, str | None], str | None]] = {
    "nothing is known of the namespace": (
        {"kind": "ConfigMap", "metadata": {"name": "a"}}, ("4Gi", None), ("64Gi", None), None,
    ),
    "above the most": (
        limit_range(max={"memory": "32Gi"}), ("4Gi", None), ("64Gi", None),
        "LimitRange team: max memory 32Gi for a container",
    ),
    "at the most": (limit_range(max={"memory": "32Gi"}), ("4Gi", None), ("32Gi", None), None),
    "above the most before, too": (limit_range(max={"memory": "2Gi"}), ("4Gi", None), ("64Gi", None), None),
    "a default that would hold is replaced by more": (
        limit_range(max={"memory": "32Gi"}, default={"memory": "32Gi"}), (None, None), ("64Gi", None),
        "LimitRange team: max memory 32Gi for a container",
    ),
    "the request below the least": (
        limit_range(min={"memory": "16Gi"}), ("64Gi", "16Gi"), ("64Gi", "8Gi"),
        "LimitRange team: min memory 16Gi for a container",
    ),
    "too far above the request": (
        limit_range(maxLimitRequestRatio={"memory": "2"}), ("16Gi", "8Gi"), ("64Gi", "8Gi"),
        "LimitRange team: maxLimitRequestRatio memory 2 for a container",
    ),
    "all containers together above the most": (
        limit_range(type="Pod", max={"memory": "32Gi"}), ("30Gi", None), ("33Gi", None),
        "LimitRange team: max memory 32Gi for a pod",
    ),
    "a volume's limits are others'": (
        limit_range(type="PersistentVolumeClaim", max={"storage": "1Gi"}), ("4Gi", None), ("64Gi", None), None,
    ),
    "counted by a quota": (
        quota("limits.memory"), ("4Gi", None), ("64Gi", None), "ResourceQuota all: it counts limits.memory",
    ),
    "its request counted by a quota": (
        quota("memory"), ("4Gi", None), ("64Gi", None), "ResourceQuota all: it counts memory",
    ),
    "less than before": (quota("memory"), ("64Gi", None), ("4Gi", None), None),
    "refused by the quota as it was": (quota("limits.memory"), (None, None), ("64Gi", None), None),
    "a quota on something else": (quota("pods", "limits.cpu"), ("4Gi", None), ("64Gi", None), None),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("wrap", [copy.deepcopy, deployment], ids=["pod", "deployment"])
def test_a_change_that_the_namespace_may_refuse_is_told(
    case: str, wrap: Callable[[JSONDict], JSONDict], pod: JSONDict
) -> None:
    obj, before, after, why = CASES[case]
    seen = from_objects([obj])

    said = refusal(wrap(with_memory(pod, *before)), wrap(with_memory(pod, *after)), "chat", seen)

    assert said == why
    assert refusal(wrap(with_memory(pod, *before)), wrap(with_memory(pod, *after)), "other", seen) is None


def test_a_pod_that_leaves_the_best_effort_ones_is_counted_elsewhere(pod: JSONDict) -> None:
    bare = with_memory(pod, None)
    bare["spec"]["containers"][0]["resources"] = {}
    seen = from_objects([quota("pods", scopes=["NotBestEffort"])])

    assert refusal(bare, with_memory(pod, "4Gi"), "chat", seen) == (
        "ResourceQuota all: a Pod that requests something is counted by another quota"
    )
    assert refusal(with_memory(pod, "2Gi"), with_memory(pod, "4Gi"), "chat", seen) is None


def raising() -> Policy:
    """A policy that raises a limit that is too low."""
    spec = "{rules: {memory-limit-too-low: {fix: true}}, trustMutation: true}"
    head = "apiVersion: podfit.dev/v1alpha1\nkind: Policy\nmetadata: {name: raising}\n"
    return load([("raising.yaml", f"{head}spec: {spec}\n")])


def test_a_repair_that_the_namespace_would_refuse_is_not_made_and_says_why(pod: JSONDict, judge: Judge) -> None:
    low = with_memory(pod, "512Mi")
    made = judge(low, policy=raising())
    spared = judge(low, policy=raising(), facts=Facts(cluster=from_objects([limit_range(max={"memory": "1Gi"})])))
    (finding,) = spared.findings

    assert made.edits
    assert not made.denied, "the mutating webhook repairs it"
    assert refusal(
        low, apply(low, json_patch(low, made.edits)), "chat", from_objects([limit_range(max={"memory": "1Gi"})])
    )
    assert not spared.edits
    assert spared.denied, "nobody repairs it"
    assert finding.finding.details[-1] == "not repaired: LimitRange team: max memory 1Gi for a container"


def test_an_error_of_ours_repairs_nothing_and_is_told(
    pod: JSONDict, judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> str:
        raise RuntimeError("a bug")

    monkeypatch.setattr(namespace_limits, "refusal", broken)
    report = judge(with_memory(pod, "512Mi"), policy=raising())

    assert not report.edits
    assert [error.rule for error in report.errors] == ["limits"]


def test_podfit_fix_writes_what_fits_whatever_one_cluster_says(pod: JSONDict, judge: Judge) -> None:
    seen = Facts(cluster=from_objects([limit_range(max={"memory": "1Gi"})]))

    assert judge(with_memory(pod, "512Mi"), policy=raising(), facts=seen, where="check").edits


@pytest.mark.parametrize(
    ("kind", "namespace", "why"),
    [
        ("limitranges", "chat", "the LimitRanges of the namespace are too large or too many to be known"),
        ("resourcequotas", "chat", "the ResourceQuotas of the namespace are too large or too many to be known"),
        ("limitranges", "another", None),
    ],
)
def test_limits_that_cannot_be_known_may_reject_any_repair(
    kind: str, namespace: str, why: str | None, pod: JSONDict
) -> None:
    seen = Snapshot({kind: {}}, unknown={kind: frozenset({namespace})})

    assert refusal(with_memory(pod, "4Gi"), with_memory(pod, "64Gi"), "chat", seen) == why
