"""A place in an object, in Kubernetes' spelling and in JSON Patch's."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from podfit.kube.path import FieldPath

PROPERTY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

OBJECT = {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": 2}}, "name": "vllm"}], "none": None}}
KEYS = st.one_of(
    st.integers(min_value=0, max_value=99),
    st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]*", fullmatch=True),
    st.from_regex(r"[a-z0-9.]+/[a-z0-9-]+", fullmatch=True),
)


@pytest.mark.parametrize(
    ("parts", "spelling", "pointer"),
    [
        ((), "", ""),
        (("spec", "containers", 0, "args", 3), "spec.containers[0].args[3]", "/spec/containers/0/args/3"),
        (("limits", "nvidia.com/gpu"), "limits[nvidia.com/gpu]", "/limits/nvidia.com~1gpu"),
        (("a~b", "c"), "[a~b].c", "/a~0b/c"),
        ((0, "kind"), "[0].kind", "/0/kind"),
    ],
)
def test_a_path_has_two_spellings(parts: tuple[str | int, ...], spelling: str, pointer: str) -> None:
    path = FieldPath(parts)

    assert (str(path), path.pointer()) == (spelling, pointer)


@PROPERTY
@given(st.lists(KEYS).map(tuple))
def test_parse_reads_back_what_str_writes(parts: tuple[str | int, ...]) -> None:
    assert FieldPath.parse(str(FieldPath(parts))) == FieldPath(parts)


@PROPERTY
@given(st.lists(KEYS).map(tuple), st.sampled_from([0, 1, 31, 32, 33, 200]), st.booleans())
def test_the_places_of_items_follow_each_other(parts: tuple[str | int, ...], count: int, long: bool) -> None:
    place = FieldPath((*parts, "x" * 300) if long else parts)

    assert list(place.items(count))[:count] == [place / index for index in range(count)]


@pytest.mark.parametrize("text", ["a[", "a[]", "a]b", "a b", ".", "[0", "é"])
def test_parse_refuses_other_text(text: str) -> None:
    with pytest.raises(ValueError, match="is not a field path"):
        FieldPath.parse(text)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("", OBJECT),
        ("spec.containers[0].name", "vllm"),
        ("spec.containers[0].resources.limits[nvidia.com/gpu]", 2),
        ("spec.none", None),
        ("spec.containers[1].name", "absent"),
        ("spec.containers.name", "absent"),
        ("spec.containers[0].name[0]", "absent"),  # a text is not a list of letters
        ("spec.none.deeper", "absent"),
        ("spec[0]", "absent"),
    ],
)
def test_get_finds_a_place_or_the_default(path: str, value: Any) -> None:
    assert FieldPath.parse(path).get(OBJECT, "absent") == value


def test_paths_are_built_by_division_and_join() -> None:
    assert FieldPath() / "spec" / 0 == FieldPath().join("spec", 0) == FieldPath(("spec", 0))
