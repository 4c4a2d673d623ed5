"""What is said of Helm's charts and values files: the command that checks them."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.kube import helm

CHART = ({"apiVersion": "v2", "name": "llm", "version": "0.1.0"}, "name: llm")
VALUES = ({"image": "vllm/vllm-openai"}, "image: vllm/vllm-openai")
PLAIN = ({"replicas": 1}, "replicas: 1")
POD = ({"apiVersion": "v1", "kind": "Pod"}, "kind: Pod, image: vllm/vllm-openai")


def notes(*folders: str, **files: tuple[dict[str, Any], str]) -> list[str]:
    """The notes about files; `__` in a name is a slash, and each ends in .yaml."""
    listed = [helm.ReadFile(f"{name.replace('__', '/')}.yaml", [obj], text) for name, (obj, text) in files.items()]
    return helm.notes(listed, folders)


IS_CHART = "a Helm chart, which is not rendered here: podfit check --helm"
IS_VALUES = "values for a Helm chart, which is not rendered here: podfit check --helm CHART --values"


def test_a_chart_has_one_note_with_its_command() -> None:
    assert notes(a__Chart=CHART, a__values=VALUES) == [f"a: {IS_CHART} a"]
    assert notes(Chart=CHART, values=VALUES) == [f".: {IS_CHART} ."]


def test_other_values_files_in_a_chart_are_named() -> None:
    (one,) = notes(a__Chart=CHART, a__values=VALUES, **{"a__values-dev": PLAIN, "a__values-prod": PLAIN})
    assert one == f"a: {IS_CHART} a --values a/values-dev.yaml (or a/values-prod.yaml)"


def test_a_chart_in_a_chart_has_no_note_of_its_own() -> None:
    assert notes(a__Chart=CHART, a__charts__b__Chart=CHART, a__charts__b__values=VALUES) == [f"a: {IS_CHART} a"]


def test_charts_that_do_not_name_vllm_share_a_note() -> None:
    assert notes(a__Chart=CHART, b__Chart=CHART, b__values=VALUES, c__Chart=CHART) == [
        f"b: {IS_CHART} b",
        "a and 1 more: Helm charts, which are not rendered here: podfit check --helm a",
    ]


def test_a_chart_above_the_files_counts() -> None:
    assert notes("a", a__values=VALUES) == [f"a: {IS_CHART} a"]


@pytest.mark.parametrize("name", ["values", "values-prod", "prod-values", "prod.values", "vllm_values"])
def test_values_without_a_chart_name_the_command(name: str) -> None:
    assert notes(**{f"a__{name}": VALUES}) == [f"a/{name}.yaml: {IS_VALUES} a/{name}.yaml"]


def test_the_keys_of_charts_for_vllm_make_a_values_file() -> None:
    stack: tuple[dict[str, Any], str] = ({"servingEngineSpec": {}}, "servingEngineSpec: {}")
    assert notes(a__prod=stack) == [f"a/prod.yaml: {IS_VALUES} a/prod.yaml"]


def test_other_files_have_no_note() -> None:
    assert not notes(a__values=PLAIN, a__pod=POD, a__values_of_a_pod=POD, a__compose=VALUES, a__invalues=VALUES)
