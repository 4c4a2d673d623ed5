"""Label selectors select what Kubernetes' own code selects, and reject what it rejects."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from podfit.evaluation.policy import PolicyError, load
from podfit.evaluation.policy.match import Match, Subject
from podfit.kube.selector import Requirement, Selector, parse

JSONDict = dict[str, Any]
TABLE = json.loads((Path(__file__).parent / "selectors.json").read_text())
VALID = [row for row in TABLE["selectors"] if row["selects"] is not None]
INVALID = [row["selector"] for row in TABLE["selectors"] if row["selects"] is None]


def policy(selector: object, field: str = "namespaceSelector") -> str:
    spec = {"match": {field: selector}, "rules": {"unpinned-image": {"mode": "deny"}}}
    return json.dumps(
        {"apiVersion": "podfit.dev/v1alpha1", "kind": "Policy", "metadata": {"name": "p"}, "spec": spec}, indent=1
    )


def test_the_table_is_large_enough() -> None:
    assert len(VALID) * len(TABLE["labels"]) + len(INVALID) >= 100


@pytest.mark.parametrize("row", VALID, ids=lambda row: json.dumps(row["selector"])[:70])
def test_it_selects_what_kubernetes_selects(row: JSONDict) -> None:
    of_namespace = load([("p.json", policy(row["selector"]))])
    of_object = load([("p.json", policy(row["selector"], "objectSelector"))])

    for labels, selects in zip(TABLE["labels"], row["selects"], strict=True):
        wanted = "deny" if selects else "warn"
        pod = Subject("Pod", "", "chat", {}, labels)
        assert of_namespace.of(pod).settings["unpinned-image"].mode == wanted, labels
        pod = Subject("Pod", "", "chat", labels)
        assert of_object.of(pod).settings["unpinned-image"].mode == wanted, labels


@pytest.mark.parametrize("selector", INVALID, ids=lambda selector: json.dumps(selector)[:70])
def test_it_refuses_what_kubernetes_refuses(selector: JSONDict) -> None:
    with pytest.raises(PolicyError, match=r"^p.json:\d+: spec\.match\.namespaceSelector\."):
        load([("p.json", policy(selector))])


def test_absent_is_no_condition_and_null_is_a_mistake() -> None:
    with pytest.raises(PolicyError, match=r"^p.json:9: spec.match.namespaceSelector: is empty"):
        load([("p.json", policy(None))])
    assert Match().selects(Subject("Pod", "", None, {})) is True


def test_what_is_not_known_is_neither_selected_nor_not() -> None:
    env = Selector((Requirement("env", "In", ("prod",)),))

    assert env.selects({}, is_complete=False) is None
    assert env.selects({"env": "dev"}, is_complete=False) is False
    assert env.selects({"env": "prod"}, is_complete=False) is True
    assert Selector().selects({}, is_complete=False) is True


def test_every_namespace_has_a_label_with_its_name() -> None:
    named = Match(namespace_selector=Selector((Requirement("kubernetes.io/metadata.name", "In", ("chat",)),)))

    assert named.selects(Subject("Pod", "", "chat", {})) is True
    assert named.selects(Subject("Pod", "", "search", {})) is False
    assert named.selects(Subject("Pod", "", None, {})) is None


@pytest.mark.parametrize(
    ("match", "namespace", "wanted"),
    [
        (Match(namespaces=("chat",)), "chat", True),
        (Match(namespaces=("chat",)), "chat-eu", False),
        (Match(namespaces=("chat-*", "search")), "chat-eu", True),
        (Match(namespaces=("chat-?",)), "chat-eu", False),
        (Match(namespaces=("*",)), "anything", True),
        (Match(namespaces=("chat",)), None, None),
        (Match(excluded_namespaces=("chat*",)), "chat", False),
        (Match(excluded_namespaces=("chat*",)), "search", True),
        (Match(excluded_namespaces=("chat*",)), None, None),
        (Match(namespaces=("*",), excluded_namespaces=("chat",)), "chat", False),
        (Match(namespaces=("chat",), kinds=("Job",)), None, False),
        (Match(kinds=("Pod",)), None, True),
        (Match(kinds=("Pod.v1.example.com",)), None, False),
    ],
)
def test_names_of_namespaces_and_kinds(match: Match, namespace: str | None, wanted: bool | None) -> None:
    assert match.selects(Subject("Pod", "", namespace, {})) is wanted


def test_an_object_outside_of_namespaces_is_selected_as_a_webhook_would() -> None:
    runtime = Subject("ClusterServingRuntime", "serving.kserve.io", None, {}, cluster_scoped=True)

    assert Match(namespace_selector=Selector((Requirement("env", "Exists"),))).selects(runtime) is True
    assert Match(namespaces=("*",)).selects(runtime) is False
    assert Match(excluded_namespaces=("chat",)).selects(runtime) is True
    assert Match(kinds=("ClusterServingRuntime.serving.kserve.io",)).selects(runtime) is True


@pytest.mark.parametrize(
    ("text", "labels", "selected"),
    [
        ("", {}, True),
        ("app=llama", {"app": "llama"}, True),
        ("app==llama", {"app": "qwen"}, False),
        ("app!=llama", {}, True),
        ("app!=llama", {"app": "llama"}, False),
        ("team", {"team": ""}, True),
        ("!team", {"team": "x"}, False),
        ("! team", {}, True),
        ("stage in (a, b)", {"stage": "b"}, True),
        ("stage notin (a,b),app=llama", {"app": "llama", "stage": "c"}, True),
        ("stage notin (a,b),app=llama", {"app": "llama", "stage": "a"}, False),
        ("app.kubernetes.io/name=x , team", {"app.kubernetes.io/name": "x", "team": "y"}, True),
        ("app=", {"app": ""}, True),
    ],
)
def test_a_selector_as_kubectl_takes_it(text: str, labels: dict[str, str], selected: bool) -> None:
    assert parse(text).selects(labels) is selected


@pytest.mark.parametrize("text", ["a=b=c", "=x", "a in b", "a in (b", "!a=b", "a b", "-a=b", "a,,b"])
def test_what_is_no_selector_is_refused_from_where_it_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="no label selector from"):
        parse(text)
