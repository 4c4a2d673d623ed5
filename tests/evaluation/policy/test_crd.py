"""The CustomResourceDefinition is structural, and says what the classes say. tests/e2e asks a real API server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from podfit.evaluation.policy import shape
from podfit.evaluation.policy.crd import definition, structural
from podfit.rules import all_rules
from podfit.vllm.facts import Assumed

JSONDict = dict[str, Any]
SCHEMA: JSONDict = definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
ALLOWED = {
    "type", "description", "properties", "additionalProperties", "items", "required", "enum", "format", "minimum",
    "maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems", "pattern", "minLength", "maxLength",
    "x-kubernetes-preserve-unknown-fields", "x-kubernetes-int-or-string", "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
}  # fmt: skip


def nodes(schema: JSONDict, path: str = "") -> Iterator[tuple[str, JSONDict]]:
    yield path, schema
    for name, one in schema.get("properties", {}).items():
        yield from nodes(one, f"{path}.{name}")
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            yield from nodes(schema[word], f"{path}.{word}")


def test_every_node_has_one_type_and_no_word_that_a_structural_schema_may_not_have() -> None:
    for path, node in nodes(SCHEMA):
        assert set(node) <= ALLOWED, path
        typed = "type" in node, node.get("x-kubernetes-int-or-string"), node.get("x-kubernetes-preserve-unknown-fields")
        assert any(typed), path
        assert not {"properties", "additionalProperties"} <= set(node), path


def test_each_assumption_that_a_policy_may_state_is_one_that_rules_read() -> None:
    """A new field is written into both: CONTRIBUTING.md, "Eight typical changes"."""
    assert {*shape.AssumeShape.model_fields} == {*Assumed._fields}


def test_every_field_is_there_and_explained() -> None:
    spec = SCHEMA["properties"]["spec"]["properties"]

    assert list(spec) == shape.field_names(shape.SpecShape)
    assert spec["rules"]["properties"].keys() == all_rules().keys()
    parts = [path for path, node in nodes(SCHEMA["properties"]["spec"]) if "description" not in node]
    assert not [path for path in parts if not path.endswith((".items", ".additionalProperties"))]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"x-kubernetes-int-or-string": True}),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, {"type": "integer"}),
        ({"type": "number", "exclusiveMinimum": 0}, {"type": "number", "minimum": 0, "exclusiveMinimum": True}),
        ({"const": "x", "type": "string"}, {"type": "string", "enum": ["x"]}),
        ({}, {"x-kubernetes-preserve-unknown-fields": True}),
    ],
)
def test_a_node(given: JSONDict, wanted: JSONDict) -> None:
    assert structural(given, {}) == wanted
