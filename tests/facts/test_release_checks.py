"""A wrong value of a release's extract, or of an image, is caught."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from podfit.vllm.release import Release
from scripts.facts.release_checks import extract_problems, image_problems
from scripts.facts.table import Extract, entries, extracts

NEWEST = {release: one for release, one in extracts().items() if release >= Release(0, 30)}
TODAY = "2026-11-23"


def option(dest: str, **changes: Any) -> Callable[[Extract], object]:
    """A change of an option."""
    return lambda extract: extract["options"][dest].update(changes)


@pytest.mark.parametrize(
    ("release", "change", "said"),
    [
        ("0.32.0", lambda one: one.update(date="2026-09-01"), "date '2026-09-01', expected YYYY-MM-DD, from 2026-10"),
        ("0.33.0", lambda one: one.update(date="2999-01-01"), "0.33.0: date '2999-01-01', expected YYYY-MM-DD, from"),
        ("0.33.0", lambda one: one.update(release="0.32.0"), "0.33.0: release '0.32.0', expected the name of its file"),
        ("0.33.0", lambda one: one.update(source=""), "0.33.0: no source"),
        ("0.32.0", lambda one: one["options"].pop("max_model_len"), "max_model_len: gone in this release alone"),
        ("0.33.0", lambda one: one["options"].pop("max_num_seqs"), "max_num_seqs: bounds or fields of an option"),
        ("0.32.0", option("max_num_seqs", type="str"), "0.32.0: max_num_seqs: another in this release alone"),
        ("0.33.0", option("tensor_parallel_size", default="one"), "tensor_parallel_size: default 'one', expected int"),
        ("0.33.0", option("port", flags=["port"]), "port: flag 'port', expected -f or --flag"),
        ("0.33.0", option("port", flags=["--host"]), "--host is a flag of host and of port"),
        ("0.33.0", option("port", typ="int"), "port: unknown field 'typ'"),
        ("0.33.0", option("headless", nargs="?"), "headless: nargs '?', expected 0 as _StoreTrueAction takes no value"),
        ("0.33.0", option("load_format", choices=["auto"], default="out"), "default 'out', expected one of its"),
        ("0.33.0", lambda one: one["minimum_capability"].update(fp8=8), "minimum_capability of fp8 8, expected one of"),
        ("0.33.0", lambda one: one["architectures"].append("A"), "architectures: expected each name once, in"),
        ("0.33.0", lambda one: one["names"]["quantization"].append("awq"), "names.quantization: expected each"),
    ],
)  # fmt: skip
def test_a_wrong_value_of_a_release_is_caught(release: str, change: Callable[[Extract], object], said: str) -> None:
    assert not [*extract_problems(NEWEST, TODAY)]
    changed = {one: copy.deepcopy(extract) if str(one) == release else extract for one, extract in NEWEST.items()}
    change(next(one for key, one in changed.items() if str(key) == release))

    found = [*extract_problems(changed, TODAY)]

    assert any(said in one for one in found), found


@pytest.mark.parametrize(
    ("image", "release", "said"),
    [
        (
            "*ai-dynamo/vllm-runtime:1.5.0",
            "0.18.0",
            "release 0.18.0, expected at least the 0.26.0 of *ai-dynamo/vllm-ru",
        ),
        ("*nvidia/vllm:25.10-*", "0.1.9", "release '0.1.9', expected a release up to"),
        ("*nvidia/vllm:25.10-*", "9.99.0", "release '9.99.0', expected a release up to"),
        ("*nvidia/vllm:25.10-*", "25.10", "release '25.10', expected a release up to"),
        ("*nvidia/vllm:25.10-*", "latest", "release 'latest', expected a release up to"),
    ],
)
def test_a_wrong_release_of_an_image_is_caught(image: str, release: str, said: str) -> None:
    rows, known = entries("images"), extracts()
    assert not [*image_problems(rows, known)]
    next(row for row in rows if row["image"] == image).update(release=release)

    found = [*image_problems(rows, known)]

    assert any(said in one for one in found), found
