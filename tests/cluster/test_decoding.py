"""What an API server sends is decoded an object at a time, and no object is too odd for the next one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.cluster import decoding
from podfit.cluster.decoding import UnreadableError

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(), VALUES, max_size=3)
DEEP = "[" * 100_000 + "]" * 100_000
DIGITS = "7" * 5000


def listed(text: str | bytes) -> tuple[Any, list[Any]]:
    """The metadata and the objects of a list."""
    objects: list[Any] = []
    return decoding.page(text.encode() if isinstance(text, str) else text, objects.append), objects


@given(st.lists(OBJECTS, max_size=4), OBJECTS, st.sampled_from([None, 1, "\t"]), st.booleans())
def test_a_list_is_what_json_says(objects: list[Any], metadata: Any, indent: Any, last: bool) -> None:
    fields = {"kind": "NodeList", "metadata": metadata, "items": objects}
    text = json.dumps(dict(reversed(fields.items())) if last else fields, indent=indent)

    assert listed(text) == (metadata, objects)


@given(OBJECTS)
def test_an_event_is_what_json_says(obj: Any) -> None:
    assert decoding.event(json.dumps({"type": "ADDED", "object": obj}).encode(), lambda *event: event) == ("ADDED", obj)


def test_lists_that_nothing_reads_are_left_out() -> None:
    obj = {"metadata": {"name": "a", "managedFields": [1]}, "status": {"images": [1], "conditions": "not a list"}}

    assert listed(json.dumps({"metadata": {}, "items": [obj]}))[1] == [
        {"metadata": {"name": "a"}, "status": {"conditions": "not a list"}}
    ]


@pytest.mark.parametrize("text", ['{"metadata":{},"items":null}', '{"metadata":{},"items":[]}', '{"metadata":{}}'])
def test_an_empty_list(text: str) -> None:
    assert listed(text) == ({}, [])


@pytest.mark.parametrize(
    "text", ["", "<html>", "[]", "null", '{"a": 1', '{"items": [{}', '{"metadata": {}', '{"metadata": {}, "items": 1}'],
)  # fmt: skip
def test_what_is_no_list_is_told(text: str) -> None:
    with pytest.raises((ValueError, UnreadableError)):
        listed(text)


@pytest.mark.parametrize("spec", [DEEP, DIGITS, '"' + "<" * decoding.MAX_BYTES + '"', '"cut off'])
def test_of_an_object_that_cannot_be_decoded_its_name_is_known_and_the_place_after_it(spec: str) -> None:
    obj = '{"metadata":{"name":"a","namespace":"b"},"spec":' + spec + "}"
    with pytest.raises(UnreadableError) as page:
        listed('{"kind":"L","metadata":{"continue":"next"},"items":[' + obj + "]}")
    with pytest.raises(UnreadableError) as event:
        decoding.event(b'{"type":"ADDED","object":%b}' % obj.encode(), lambda *_: None)

    assert page.value.fields == {"kind": "L", "metadata": {"continue": "next"}}
    assert event.value.fields == {"type": "ADDED"}
    assert page.value.metadata == event.value.metadata == {"name": "a", "namespace": "b"}


def test_the_objects_before_it_were_taken() -> None:
    objects: list[Any] = []
    text = '{"metadata":{},"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"},"spec":' + DEEP + "}]}"
    with pytest.raises(UnreadableError):
        decoding.page(text.encode(), objects.append)

    assert objects == [{"metadata": {"name": "a"}}]


LINES = st.lists(st.binary(max_size=5).filter(lambda line: b"\n" not in line), max_size=5)


@given(LINES, st.integers(1, 7))
def test_lines_are_the_same_in_whatever_pieces_they_come(lines: list[bytes], size: int) -> None:
    text = b"".join(line + b"\n" for line in lines)
    pieces = [text[at : at + size] for at in range(0, len(text), size)]

    assert list(decoding.lines(pieces)) == [line for line in lines if line.strip()]


def test_of_a_long_line_no_more_is_kept_than_can_be_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "MAX_BYTES", 4)

    assert list(decoding.lines([b"123", b"456", b"789\n1", b"234\n", b"an end is missing"])) == [b"12345", b"1234"]
