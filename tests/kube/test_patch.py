"""Edits become one JSON Patch, and the patch does what the edits say."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from podfit.kube.patch import Edit, apply, fits, json_patch
from podfit.kube.path import FieldPath

PROPERTY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def at(text: str) -> FieldPath:
    return FieldPath.parse(text)


def test_missing_parents_are_created_once_and_whole() -> None:
    edits = [
        Edit(at("spec.resources.limits.memory"), "64Gi"),
        Edit(at("spec.resources.limits[nvidia.com/gpu]"), 2),
        Edit(at("spec.resources.requests.memory"), "64Gi"),
    ]

    assert json_patch({"spec": {}}, edits) == [
        {
            "op": "add",
            "path": "/spec/resources",
            "value": {"limits": {"memory": "64Gi", "nvidia.com/gpu": 2}, "requests": {"memory": "64Gi"}},
        }
    ]


def test_append_creates_the_list_and_then_grows_it() -> None:
    volumes = [{"name": "dshm"}, {"name": "cache"}]
    edits = [Edit(at("spec.volumes"), volume, "append") for volume in volumes]

    assert json_patch({"spec": {}}, edits) == [{"op": "add", "path": "/spec/volumes", "value": volumes}]
    assert json_patch({"spec": {"volumes": [{"name": "a"}]}}, edits) == [
        {"op": "add", "path": "/spec/volumes/-", "value": volume} for volume in volumes
    ]


@pytest.mark.parametrize(
    ("obj", "edit", "patch"),
    [
        ({"a": 1}, Edit(at("a"), 1), []),
        ({"a": 1}, Edit(at("a"), True), [{"op": "replace", "path": "/a", "value": True}]),
        ({"a": None}, Edit(at("a.b"), 1), [{"op": "replace", "path": "/a", "value": {"b": 1}}]),
        ({"a": None}, Edit(at("a"), 1, "append"), [{"op": "replace", "path": "/a", "value": [1]}]),
        ({}, Edit(at("a[0].b"), 1), [{"op": "add", "path": "/a", "value": [{"b": 1}]}]),
        ({"a": [1]}, Edit(at("a[7]"), 2), [{"op": "add", "path": "/a/-", "value": 2}]),
        ({"a": [1]}, Edit(at("a[0]"), 2), [{"op": "replace", "path": "/a/0", "value": 2}]),
        ({"a": [1]}, Edit(at("a"), 1, "append"), []),
        ({"a": {"b": 1}}, Edit(at("a.b"), op="remove"), [{"op": "remove", "path": "/a/b"}]),
        ({"a": {}}, Edit(at("a.b"), op="remove"), []),
        ({"a": {}}, Edit(at("x.y"), op="remove"), []),
        ({"x~/y": {}}, Edit(FieldPath(("x~/y", "z")), 1), [{"op": "add", "path": "/x~0~1y/z", "value": 1}]),
        ({"a": 1}, Edit(FieldPath(), {"b": 2}), [{"op": "replace", "path": "", "value": {"b": 2}}]),
    ],
)
def test_one_edit(obj: Any, edit: Edit, patch: list[dict[str, Any]]) -> None:
    assert json_patch(obj, [edit]) == patch


def test_the_last_of_two_edits_of_a_field_counts() -> None:
    edits = [Edit(at("a"), 2), Edit(at("a"), 3)]

    assert json_patch({"a": 1}, edits) == [{"op": "replace", "path": "/a", "value": 3}]


@pytest.mark.parametrize(
    ("obj", "edit"),
    [
        ({"a": "text"}, Edit(at("a.b"), 1)),
        ({"a": [1]}, Edit(at("a.b"), 1)),
        ({"a": {}}, Edit(at("a[0]"), 1)),
        ({"a": "text"}, Edit(at("a"), 1, "append")),
        (["x"], Edit(at("a"), 1)),
    ],
)
def test_what_stands_in_the_way_is_an_error_not_overwritten(obj: Any, edit: Edit) -> None:
    with pytest.raises(ValueError, match="holds"):
        json_patch(obj, [edit])


SCALARS = st.one_of(st.none(), st.booleans(), st.integers(0, 3), st.text("ab/~", max_size=2))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b/c", "d~e"]), inner),
    max_leaves=8,
)
PARTS: list[str | int] = ["a", "b/c", "d~e", 0, 1]
PATHS = st.lists(st.sampled_from(PARTS), min_size=1, max_size=4).map(lambda parts: FieldPath(tuple(parts)))
EDITS = st.lists(st.builds(Edit, PATHS, VALUES, st.sampled_from(["set", "append", "remove"])), max_size=4)


@PROPERTY
@given(VALUES, EDITS)
def test_the_patch_applies_and_the_object_stays_as_it_was(obj: Any, edits: list[Edit]) -> None:
    before = deepcopy(obj)
    try:
        patch = json_patch(obj, edits)
    except ValueError:
        return
    after = apply(obj, patch)

    assert obj == before
    # What the edits say, one by one: each next edit sees what the ones before it left.
    step = deepcopy(obj)
    for edit in edits:
        step = apply(step, json_patch(step, [edit]))
    assert after == step


@PROPERTY
@given(VALUES, PATHS, VALUES)
def test_a_field_that_was_set_has_the_value(obj: Any, path: FieldPath, value: Any) -> None:
    try:
        after = apply(obj, json_patch(obj, [Edit(path, value)]))
    except ValueError:
        return
    if 1 not in path.parts:  # a value beyond the end of a list is appended, so its place differs
        assert path.get(after) == value


@PROPERTY
@given(VALUES, PATHS, VALUES, st.sampled_from(["set", "append", "remove"]))
def test_an_edit_made_twice_changes_nothing_more(obj: Any, path: FieldPath, value: Any, op: Any) -> None:
    if op == "remove" and isinstance(path.parts[-1], int):
        return  # the next item of the list moved there
    edit = Edit(path, value, op)
    try:
        after = apply(obj, json_patch(obj, [edit]))
    except ValueError:
        return
    if 1 in path.parts:
        return  # a value beyond the end of a list is appended, so its place differs

    assert json_patch(after, [edit]) == []


@PROPERTY
@given(VALUES, PATHS, VALUES, st.sampled_from(["set", "append", "remove"]))
def test_what_fits_can_be_made_and_what_does_not_can_not(obj: Any, path: FieldPath, value: Any, op: Any) -> None:
    edit = Edit(path, value, op)
    try:
        json_patch(obj, [edit])
    except ValueError:
        assert not fits(obj, [edit])
    else:
        assert fits(obj, [edit])


@pytest.mark.parametrize(
    ("now", "old", "new", "patch"),
    [
        ("a b c", " b", "", [{"op": "replace", "path": "/x", "value": "a c"}]),
        ("a b c", " b", " d", [{"op": "replace", "path": "/x", "value": "a d c"}]),
        ("a b b", " b", "", []),  # which one?
        ("a c", " b", "", []),
        (["a", "b", "c"], ["b"], [], [{"op": "remove", "path": "/x/1"}]),
        (["a", "b", "c"], ["b", "c"], [], [{"op": "remove", "path": "/x/2"}, {"op": "remove", "path": "/x/1"}]),
        (["a", "b", "c"], ["b"], ["d"], [{"op": "replace", "path": "/x/1", "value": "d"}]),
        (
            ["a", "b", "c"],
            ["b", "c"],
            ["d"],
            [{"op": "replace", "path": "/x/1", "value": "d"}, {"op": "remove", "path": "/x/2"}],
        ),
        (["a"], ["a"], ["b", "c"], [{"op": "replace", "path": "/x", "value": ["b", "c"]}]),
        (["a", "b", "a"], ["a"], [], []),
        ("b", ["b"], [], []),
        (None, ["b"], [], []),
    ],
)
def test_swap_changes_a_part_and_only_where_it_is_clear_which(
    now: Any, old: Any, new: Any, patch: list[dict[str, Any]]
) -> None:
    """In a text and in a list."""
    obj = {"x": now}
    found = json_patch(obj, [Edit(FieldPath(("x",)), (old, new), "swap")])
    assert found == patch
    if isinstance(now, str) and patch:
        assert apply(obj, found) == {"x": now.replace(old, new)}


def test_swaps_of_one_field_do_not_undo_each_other() -> None:
    """What two rules take out of one script, and out of one list."""
    path = FieldPath(("x",))
    text = [Edit(path, (" --a 1", ""), "swap"), Edit(path, (" --b", " --c"), "swap")]
    assert apply({"x": "run --a 1 --b --d"}, json_patch({"x": "run --a 1 --b --d"}, text)) == {"x": "run --c --d"}
    items = [Edit(path, (["--a", "1"], []), "swap"), Edit(path, (["--b"], ["--c"]), "swap")]
    obj = {"x": ["--a", "1", "--b", "--d"]}
    assert apply(obj, json_patch(obj, items)) == {"x": ["--c", "--d"]}
