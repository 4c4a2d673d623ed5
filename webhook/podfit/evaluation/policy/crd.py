"""The CustomResourceDefinition `policies.podfit.dev`, from the same classes that check policy files.

Its schema is structural (k8s.io/apiextensions-apiserver pkg/apiserver/schema): no references, one type a node. Unknown
fields are kept, not pruned: `status` reports a typo that got past podfit's webhook.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podfit.evaluation.policy import shape

GROUP, PLURAL, VERSION = "podfit.dev", "policies", "v1alpha1"
_OPEN = "x-kubernetes-preserve-unknown-fields"
_KEPT = ("description", "minimum", "maximum", "minItems", "pattern", "minLength", "maxLength")


def definition() -> dict[str, Any]:
    """The whole object, as `kubectl apply` takes it."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Cluster",
            "names": {
                "kind": "Policy",
                "listKind": "PolicyList",
                "plural": PLURAL,
                "singular": "policy",
                "shortNames": ["pfp"],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": _printer_columns(),
                    "schema": {"openAPIV3Schema": _policy_schema()},
                }
            ],
        },
    }


def _printer_columns() -> list[dict[str, Any]]:
    """The columns of `kubectl get policies.podfit.dev`."""
    accepted = '.status.conditions[?(@.type=="Accepted")]'
    return [
        {"name": "Order", "type": "integer", "jsonPath": ".spec.order"},
        {"name": "At most", "type": "string", "jsonPath": ".spec.enforce.mode"},
        {"name": "Shadow", "type": "boolean", "jsonPath": ".spec.shadow"},
        {"name": "Accepted", "type": "string", "jsonPath": f"{accepted}.status"},
        {"name": "Why", "type": "string", "jsonPath": f"{accepted}.message", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]


def _policy_schema() -> dict[str, Any]:
    """The OpenAPI schema of a Policy object."""
    entries = shape.schema()
    spec = structural(entries["properties"]["spec"], entries["$defs"])
    return {
        "type": "object",
        "description": entries["description"],
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": _STATUS,
        },
    }


_TEXT: dict[str, Any] = {"type": "string"}
_STATUS: dict[str, Any] = {
    "type": "object",
    "description": "Whether podfit's servers took it over; written by them.",
    "properties": {
        "accepted": {
            "type": "string",
            "description": "The last spec that was accepted, as JSON: it holds while a newer one is broken.",
        },
        "conditions": {
            "type": "array",
            "description": "Accepted: True, or False with every mistake in its message. Ready is the same, for GitOps.",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
            "items": {
                "type": "object",
                "required": ["type", "status"],
                "properties": {
                    "type": _TEXT,
                    "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                    "reason": _TEXT,
                    "message": _TEXT,
                    "lastTransitionTime": {"type": "string", "format": "date-time"},
                    "observedGeneration": {"type": "integer", "format": "int64"},
                },
            },
        },
    },
}


def structural(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """A node of pydantic's JSON Schema as a node of a structural one."""
    if "$ref" in schema:
        entries = structural(definitions[schema["$ref"].rpartition("/")[2]], definitions)
        return {**entries, "description": schema.get("description", entries.get("description", ""))}
    if (options := schema.get("anyOf", schema.get("oneOf"))) is not None:
        return {**_one_of(options, definitions), **_kept_keywords(schema)}
    out = _kept_keywords(schema)
    for bound, word in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if bound in schema:
            out |= {word: schema[bound], bound: True}
    choices = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if choices is not None:
        out["enum"] = choices
    kind = schema.get("type")
    if kind == "object":
        out |= {"type": "object", **_children_schema(schema, definitions)}
    elif kind == "array":
        out |= {"type": "array", "items": structural(schema.get("items", {}), definitions)}
    elif kind is not None:
        out["type"] = kind
    else:  # values of several types, or of any
        out[_OPEN] = True
    return out


def _kept_keywords(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords of a JSON schema that a CRD may have."""
    return {word: schema[word] for word in _KEPT if word in schema}


def _children_schema(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """The structural schema of an object's fields or values."""
    if "properties" not in schema:
        values = schema.get("additionalProperties")
        return {"additionalProperties": structural(values, definitions)} if isinstance(values, dict) else {_OPEN: True}
    out: dict[str, Any] = {
        _OPEN: True,
        "properties": {name: structural(item, definitions) for name, item in schema["properties"].items()},
    }
    if schema.get("required"):
        out["required"] = schema["required"]
    return out


def _one_of(options: list[Mapping[str, Any]], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a field with several types: one type and null, a number and its text, or else any value."""
    left = [structural(option, definitions) for option in options if option.get("type") != "null"]
    if len(left) == 1:
        return left[0]
    if {item.get("type") for item in left} == {"integer", "string"}:
        return {"x-kubernetes-int-or-string": True}
    return {_OPEN: True}
