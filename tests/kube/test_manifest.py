"""Text → objects: what is read, what is said about it, and what hostile text costs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from podfit.kube.manifest import list_items, load, read
from podfit.kube.manifest.part import MAX_DEPTH
from podfit.kube.manifest.yaml_text import MAX_ERRORS
from podfit.kube.path import FieldPath
from podfit.report.yaml_style import Dumper

PROPERTY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def objects(text: str | bytes) -> list[dict[str, Any]]:
    return [document.object for document in read(text, "f.yaml").documents]


def errors(text: str | bytes) -> list[str]:
    return [str(error) for error in read(text, "f.yaml").errors]


def notes(text: str | bytes) -> list[str]:
    found = read(text, "f.yaml")
    return [str(note) for note in (*(n for d in found.documents for n in d.notes), *found.notes)]


def test_a_stream_gives_each_object_with_its_line_and_its_index() -> None:
    found = read("# a comment\nkind: A\n---\n---\n# nothing\n---\nkind: B\n", "f.yaml")

    assert [(d.object, d.line, d.index) for d in found.documents] == [({"kind": "A"}, 2, 0), ({"kind": "B"}, 7, 3)]
    assert (found.errors, found.notes) == ((), ())


@pytest.mark.parametrize("text", ["", "---\n", "# only a comment\n", "\n\n---\n---\n", "~\n"])
def test_nothing_is_no_object_and_no_error(text: str) -> None:
    found = read(text, "f.yaml")

    assert (found.documents, found.errors, found.notes) == ((), (), ())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("017", 15),
        ("0x10", 16),
        ("-0b11", -3),
        ("1_000", 1000),
        ("1.5", 1.5),
        ("on", True),
        ("No", False),
        ("~", None),
        ("", None),
        ("'1'", "1"),
        *((word, True) for word in ("y", "Y", "yes", "true", "TRUE", "On")),
        *((word, False) for word in ("n", "N", "no", "False", "OFF")),
        ("oN", "oN"),
        ("0o17", 15),
        ("-0O17", -15),
        ("0o18", "0o18"),
        ("08", 8),
        ("018.5", 18.5),
        ("0X10", 16),
        ("0B11", 3),
        ("1e3", 1000),
        ("1e+06", 1000000),
        ("1e-3", 0.001),
        ("1.0", 1),
        ("-.5", -0.5),
        (".5e3", 500),
        ("1e", "1e"),
        ("1e400", "1e400"),
        ("inf", "inf"),
        ("2024-01-01", "2024-01-01"),  # a date would not be JSON
        ("12:30:45", "12:30:45"),  # base 60 in YAML 1.1, text to kubectl
        ("'.inf'", ".inf"),
        ("9" * 5000, "9" * 5000),
        ("!!str 1", "1"),
        ("!!int '3'", 3),
        ("!!timestamp 2024-01-01", "2024-01-01"),
        ("!Sub x", "x"),
        ("!!python/object:os.system x", "x"),
        ("'{{.Name}}'", "{{.Name}}"),
        ("[a, {b: 1}]", ["a", {"b": 1}]),
        ("|\n  a\n  b\n", "a\nb\n"),
    ],
)
def test_a_scalar_is_what_kubectl_makes_of_it(text: str, value: Any) -> None:
    assert objects(f"key: {text}") == [{"key": value}]


@pytest.mark.parametrize(("key", "name"), [("on", "true"), ("y", "true"), ("1", "1"), ("1.5", "1.5"), ("0x10", "16")])
def test_every_key_is_text(key: str, name: str) -> None:
    assert objects(f"{key}: x") == [{name: "x"}]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: .inf", "kubectl rejects .inf: JSON has no such number; quote what is text"),
        ("a: -.INF", "kubectl rejects -.INF: JSON has no such number; quote what is text"),
        ("a: .nan", "kubectl rejects .nan: JSON has no such number; quote what is text"),
        ("a: !!int 1.5", "kubectl rejects this value: it is not a valid !!int"),
        ("a: !!bool x", "kubectl rejects this value: it is not a valid !!bool"),
        ("~: 1", "not an object: a key is null, not text"),
    ],
)
def test_what_kubectl_has_no_json_for_is_an_error(text: str, reason: str) -> None:
    assert errors(text) == [f"f.yaml:1: {reason}"]


def test_merge_keys_give_way_to_the_object_s_own() -> None:
    text = "base: &b {a: 1, b: 1}\nother: &o {b: 2, c: 2}\nfull:\n  <<: [*b, *o]\n  a: 0\n  '<<': text\n"

    assert objects(text)[0]["full"] == {"a": 0, "b": 1, "c": 2, "<<": "text"}


def test_of_duplicate_keys_the_last_counts_and_a_note_says_where() -> None:
    text = "kind: Pod\nspec:\n  containers:\n  - name: a\n    args: [1]\n    args: [2]\n"

    assert objects(text)[0]["spec"]["containers"] == [{"name": "a", "args": [2]}]
    assert notes(text) == ["f.yaml:6: duplicate key spec.containers[0].args: the last one counts"]


def test_duplicate_keys_of_json_have_lines_too() -> None:
    text = '{"kind": "Pod",\n "spec": {"a": 1,\n\t"a": 2}}'

    assert objects(text) == [{"kind": "Pod", "spec": {"a": 2}}]
    assert notes(text) == ["f.yaml:3: duplicate key spec.a: the last one counts"]


def test_a_broken_document_does_not_hide_the_others() -> None:
    text = "kind: A\n---\nkind: B\n  x: 1\n---\nkind: C\n---\nkind: [\n---\nkind: D\n"
    found = read(text, "f.yaml")

    assert [(d.object["kind"], d.line, d.index) for d in found.documents] == [("A", 1, 0), ("C", 6, 2), ("D", 10, 4)]
    assert [error.line for error in found.errors] == [4, 9]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (b"a: 1\nb: \xff\n", "f.yaml:2: not UTF-8: byte 0xff"),
        (b"\xff\xfea", "f.yaml:1: not UTF-16-LE: byte 0x61"),
        ("a: 1\n\tb: 1\n", "f.yaml:2: not YAML: a tab in the indentation, where YAML wants spaces"),
        ("a: 1\nb: \x07\n", "f.yaml:2: not YAML: control characters are not allowed"),
        ("a: &x [*x]", "f.yaml:1: not YAML: the anchor 'x' contains itself"),
        ("a: *x", "f.yaml:1: not YAML: the anchor 'x' is not defined"),
        ("a: b: c", "f.yaml:1: not YAML: mapping values are not allowed in this context"),
        ("? [a]\n: b", "f.yaml:1: not an object: a key is a list or an object, not text"),
        ("a: &x [1]\n*x : b", "f.yaml:2: not an object: a key is a list or an object, not text"),
        ("a:\n  <<: 3", "f.yaml:2: not YAML: the merge key << wants an object or a list of objects"),
        ('{"kind": "A" "b"}', "f.yaml:1: not YAML: did not find expected ',' or '}'"),
    ],
)
def test_an_error_is_one_line_with_file_line_and_reason(text: str | bytes, error: str) -> None:
    assert errors(text) == [error]


@pytest.mark.parametrize(
    "text",
    ["[" * 10_000, "- " * 10_000 + "x", "{a: " * 10_000, '{"a":' * 10_000 + "1" + "}" * 10_000, "[" * 900 + "]" * 900],
    ids=["open", "block", "flow", "json", "json-that-python-can-read"],
)
def test_nesting_ten_thousand_deep_is_a_clear_error(text: str) -> None:
    assert errors(text) == [f"f.yaml:1: nested more than {MAX_DEPTH} levels deep"]


@pytest.mark.parametrize("kind", ["list", "object", "merge"])
def test_an_alias_bomb_is_counted_at_its_full_size(kind: str) -> None:
    use = {"list": "[{}]", "object": "{{a: [{}]}}", "merge": "{{<<: [{}]}}"}[kind]
    lines = ["a0: &a0 {x: 1}"]
    lines += [f"a{i}: &a{i} {use.format(', '.join([f'*a{i - 1}'] * 10))}" for i in range(1, 12)]
    (error,) = errors("\n".join(lines))

    assert "more than 1,000,000 values (or 61 MiB of text), aliases expanded" in error


def test_a_long_text_repeated_by_aliases_is_counted_by_its_length() -> None:
    (error,) = errors("a: &a " + "x" * 100_000 + "\nb: [" + "*a, " * 1000 + "]")

    assert "MiB of text" in error


def test_honest_aliases_are_read() -> None:
    assert objects("a: &a [1, 2]\nb: *a\nc: *a") == [{"a": [1, 2], "b": [1, 2], "c": [1, 2]}]


def test_ten_megabytes_of_text_are_read() -> None:
    assert objects("kind: A\ndata: " + "x" * 10_000_000)[0]["kind"] == "A"


def test_more_than_a_million_values_are_refused() -> None:
    (error,) = errors("a: [" + "1," * 1_000_000 + "]")

    assert "more than 1,000,000 values" in error


def test_after_many_broken_documents_the_rest_is_not_read() -> None:
    found = errors("---\n: [\n" * 1000)

    assert len(found) == MAX_ERRORS + 1
    assert found[-1].endswith("not read from here on: 20 documents are broken before")


@pytest.mark.parametrize(
    "text",
    [
        "{{- if .Values.enabled }}\nkind: A\n{{- end }}\n",
        "kind: A\nreplicas: {{ .Values.replicas }}\n",
        "kind: A\nspec:\n  {{- toYaml .Values.spec | nindent 2 }}\n",
        'kind: A\nmetadata:\n  name: {{ include "chart.name" . }}-vllm\n',
        "kind: A\nmetadata: {name: {{ .Release.Name }}}\nspec: {}\n",
        "kind: A\nargs: [--model, {{ .Values.model | quote }}]\n",
    ],
)
def test_a_helm_template_is_skipped_with_a_note(text: str) -> None:
    found = read(text, "f.yaml")

    assert (found.documents, found.errors) == ((), ())
    assert "skipped: a Helm template" in str(found.notes[0])


@pytest.mark.parametrize(
    "text", ["name: '{{.Name}}'", "args:\n- --served-model-name={{.Name}}", "run: |\n  {{- if .X }}\n  a\n  {{- end }}"]
)
def test_braces_inside_of_texts_are_no_helm_template(text: str) -> None:
    assert len(objects(text)) == 1
    assert notes(text) == []


def test_a_broken_file_with_braces_in_a_text_is_broken_not_a_template() -> None:
    assert len(errors("name: '{{.Name}}'\n  x: 1\n")) == 1
    assert len(errors("name: echo {{ .Name }}\n  x: 1\n")) == 1


def test_lists_and_templates_are_taken_apart() -> None:
    text = """
kind: List
items:
- kind: A
- kind: Template
  objects:
  - kind: B
  - 3
---
- kind: C
- text
"""
    found = read(text, "f.yaml")

    assert [(d.object, d.line, d.index, str(d.root)) for d in found.documents] == [
        ({"kind": "A"}, 4, 0, "items[0]"),
        ({"kind": "B"}, 7, 0, "items[1].objects[0]"),
        ({"kind": "C"}, 10, 1, "[0]"),
    ]
    assert notes(text) == [
        "f.yaml:2: items[1].objects[1]: skipped: the number 3 is not a Kubernetes object",
        "f.yaml:10: [1]: skipped: the text 'text' is not a Kubernetes object",
    ]


def test_the_items_of_a_typed_list_have_its_kind() -> None:
    listed = {"apiVersion": "apps/v1", "kind": "DeploymentList", "items": [{"metadata": {"name": "a"}}]}

    assert list_items(listed) == [
        (FieldPath(("items", 0)), {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}})
    ]
    assert list_items({"kind": "List", "items": "text"}) is None


def test_json_objects_may_follow_one_another() -> None:
    found = read('{"kind": "A"}\n{"kind": "B"}\n', "f.json")

    assert [(d.object["kind"], d.line) for d in found.documents] == [("A", 1), ("B", 2)]


def test_the_line_of_a_place_is_that_of_its_key_or_of_the_nearest_above() -> None:
    text = "kind: A\n---\nkind: List\nitems:\n- kind: B\n  spec:\n    args:\n    - a\n    - |\n      b\n  end: 1\n"
    first, second = read(text, "f.yaml").documents

    assert first.line_of(FieldPath(("spec", "args"))) == 1
    assert [second.line_of(FieldPath.parse(path)) for path in ("", "spec", "spec.args", "spec.args[1]", "end")] == [
        5, 6, 7, 9, 11,
    ]  # fmt: skip
    assert second.line_of(FieldPath.parse("spec.args[7].x")) == 7
    assert second.line_of(FieldPath.parse("status")) == 5


def test_the_line_of_a_place_in_json_with_tabs() -> None:
    (document,) = read('{\n\t"kind": "A",\n\t"spec": {\n\t\t"a": [1,\n\t\t2]}\n}', "f.json").documents

    assert [document.line_of(FieldPath.parse(path)) for path in ("kind", "spec.a", "spec.a[1]")] == [2, 4, 5]


def test_load_gives_the_first_document_or_none() -> None:
    assert load("a: [1]\n---\nb: 1") == {"a": [1]}
    assert load("a: [") is None
    assert load("") is None


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)  # the API server's; larger ones are clamped
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@PROPERTY
@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_json_is_read_as_json_reads_it(obj: dict[str, Any]) -> None:
    assert objects(json.dumps(obj)) == [obj]


@PROPERTY
@given(st.dictionaries(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"])), JSON))
def test_what_yaml_writes_is_read_back(obj: dict[str, Any]) -> None:
    assert objects("---\n" + yaml.dump(obj, Dumper=Dumper, allow_unicode=False)) == [obj]


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-be", "utf-8-sig"])
def test_a_byte_order_mark_says_how_a_file_is_written(codec: str) -> None:
    mark = "\ufeff" if codec == "utf-16-be" else ""

    (document,) = read(f"{mark}kind: Pod\nname: é\n".encode(codec), "f.yaml").documents
    assert document.object == {"kind": "Pod", "name": "é"}
    assert document.line_of(FieldPath(("name",))) == 2


@PROPERTY
@given(st.text(st.sampled_from("ab:-[]{},&*!|>'\"#%@\n\t \\?<~1.\x00\u2028{")) | st.text() | st.binary())
def test_read_never_raises(text: str | bytes) -> None:
    found = read(text, "f.yaml")

    json.dumps([document.object for document in found.documents], allow_nan=False)
    for error in found.errors:
        assert "\n" not in str(error)
    for document in found.documents:
        assert document.line_of(FieldPath(("spec",))) >= 1


def test_read_touches_no_file() -> None:
    """The name is only for messages."""
    assert not Path("no-such-file.yaml").exists()
    assert len(read("kind: A", "no-such-file.yaml").documents) == 1


@pytest.mark.parametrize("breaks", ["\r", "\x85", "\u2028", "\u2029"])
def test_a_field_that_is_absent_has_a_place_whatever_ends_the_lines(breaks: str) -> None:
    """Its key's nearest: a place that is not in lines that end with a line feed."""
    text = f"#{breaks}#{breaks}kind: Pod{breaks}spec:{breaks}  containers:{breaks}  - name: a{breaks}    image: b"
    (document,) = read(text, "pod.yaml").documents

    mark = document.mark_of(FieldPath(("spec", "containers", 0, "args")))

    assert mark.line == 6
