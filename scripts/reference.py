"""Reference pages: docs/policy-fields.md from the policy's schema, docs/chart-values.md from values.yaml."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from podfit.evaluation.policy import shape

ROOT = Path(__file__).parents[1]
_EXAMPLE = re.compile(r"#( {2,}|\s*- )")
"""A comment that is an example in YAML, not a sentence."""


def policy_fields() -> str:
    """docs/policy-fields.md."""
    schema = shape.schema()
    out = [
        "# Policy fields",
        "",
        "Every field of a policy. [The guide](policies.md) explains how",
        "policies combine, and [the rules](rules/README.md) list their own parameters.",
        "`kubectl explain policies.podfit.dev.spec --recursive` prints the same from a cluster.",
    ]
    for title, name in _sections(schema):
        described = schema["$defs"][name]
        out += [
            "",
            f"## {title}",
            "",
            described["description"],
            "",
            "| field | type | meaning |",
            "| --- | --- | --- |",
        ]
        for field, value in described.get("properties", {}).items():
            required = ", required" if field in described.get("required", ()) else ""
            out.append(f"| `{field}` | {_type(value, schema)}{required} | {_cell(value.get('description', ''))} |")
    return "\n".join(out) + "\n"


def _sections(schema: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The heading and the definition of each object, breadth first from `spec`."""
    waiting, seen = [("spec", "SpecShape")], set()
    while waiting:
        path, name = waiting.pop(0)
        if name in seen:
            continue
        seen.add(name)
        yield path, name
        for field, value in schema["$defs"][name].get("properties", {}).items():
            below = re.search(r"#/\$defs/(\w+)", json.dumps(value)) if field != "rules" else None
            if below:
                listed = (
                    "[]" if '"array"' in json.dumps(value) else ".<name>" if "additionalProperties" in value else ""
                )
                waiting.append((f"{path}.{field}{listed}", below[1]))


def _type(value: dict[str, Any], schema: dict[str, Any]) -> str:
    """What may be written: "string", "list of strings", "deny, warn"."""
    if "anyOf" in value:
        return " or ".join(_type(one, schema) for one in value["anyOf"] if one != {"type": "null"})
    if "enum" in value:
        return ", ".join(f"`{one}`" for one in value["enum"])
    if value.get("type") == "array":
        item = _type(value.get("items", {}), schema)
        return f"list of {item}s" if item in ("string", "object") else "list"
    if value.get("type") == "object" or "$ref" in value:
        below = value.get("additionalProperties")
        return "map" if isinstance(below, dict) else "object"
    return str(value.get("type", "any value"))


def chart_values() -> str:
    """docs/chart-values.md."""
    text = (ROOT / "charts" / "podfit" / "values.yaml").read_text()
    out = [
        "# Chart values",
        "",
        "Every value of the Helm chart, with its default and the comment in `charts/podfit/values.yaml`.",
        "Helm checks values against the chart's schema, and the chart rejects combinations that are not safe.",
        "",
        "| value | default | meaning |",
        "| --- | --- | --- |",
    ]
    for path, default, comment in _values(yaml.compose(text), text.splitlines(), ()):
        out.append(f"| `{'.'.join(path)}` | {_cell(default)} | {_cell(comment)} |")
    return "\n".join(out) + "\n"


def _values(node: Any, lines: list[str], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """Path, default and comment of each value; of an object with a comment, one row of its own."""
    for key, value in node.value:
        below = (*path, key.value)
        comment = _comment(lines, key.start_mark.line)
        if isinstance(value, yaml.MappingNode) and value.value and below != ("policy",):
            if comment:
                yield below, "", comment
            yield from _values(value, lines, below)
        else:
            plain = yaml.safe_load(yaml.serialize(value))
            yield below, "a policy that only observes" if below == ("policy",) else f"`{json.dumps(plain)}`", comment


def _comment(lines: list[str], number: int) -> str:
    """The sentences directly above a line, and none of the examples among them."""
    above: list[str] = []
    while number and lines[number - 1].lstrip().startswith("#"):
        number -= 1
        above.insert(0, lines[number].strip())
    return " ".join(line.lstrip("# ") for line in above if not _EXAMPLE.match(line))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
