"""`podfit plan --batch`: arguments come back as they were given, unless they hold a secret."""

from __future__ import annotations

import pytest

from podfit.cli.support import batch
from podfit.evaluation.policy import builtin

KEY = "sk-not-a-key-9f27c1d0a4b8"


@pytest.mark.parametrize(
    ("given", "shown", "masked"),
    [
        (["abc", "x-y_z"], ["abc", "x-y_z"], []),
        ([KEY], ["*" * len(KEY)], ["api_key"]),
        (["abc", KEY], ["abc", "*" * len(KEY)], ["api_key"]),
    ],
)
def test_only_what_is_long_enough_for_a_secret_is_masked(given: list[str], shown: list[str], masked: list[str]) -> None:
    case = {"id": 1, "argv": ["vllm", "serve", "org/name", "--api-key", *given], "vllm_version": "0.27.1"}

    engine = batch.answer(case, builtin())["engine"]

    assert engine["arguments"]["api_key"] == shown
    assert engine["masked"] == masked


def test_a_value_that_equals_a_short_key_is_not_masked() -> None:
    argv = ["vllm", "serve", "org/name", "--hf-token", "abc", "--revision", "abc"]

    engine = batch.answer({"id": 1, "argv": argv, "vllm_version": "0.27.1"}, builtin())["engine"]

    assert engine["arguments"]["revision"] == "abc"
