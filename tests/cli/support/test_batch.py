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


@pytest.mark.parametrize(
    ("resource", "name"),
    [("nvidia.com/gpu", "NVIDIA-L4"), ("nvidia.com/gpu", "NVIDIA-H200"), ("amd.com/gpu", "mi300x")],
)
@pytest.mark.parametrize("version", ["0.27.1", None])
def test_a_resource_is_planned_for_every_gpu_each_as_by_its_name(resource: str, name: str, version: str | None) -> None:
    case = {"id": 1, "argv": ["vllm", "serve", "Qwen/Qwen3-8B", "--max-model-len", "8k"], "vllm_version": version}

    named, anywhere = (batch.answer({**case, "gpu": f"{gpu}:1"}, builtin()) for gpu in (name, resource))
    sets = anywhere["gpus"]

    assert (anywhere["verdict"], anywhere["accelerator"]) == ("unsure", None)
    assert [key for key in ("fits", "unsure", "does_not_fit") if named["accelerator"]["name"] in sets[key]] == [
        named["verdict"].replace("-", "_")
    ]
    assert named["gpus"][named["verdict"].replace("-", "_")] == [named["accelerator"]["name"]]
    assert sets["smallest"] in sets["fits"]
    assert 20e9 < sets["needs_bytes"]["likely"] < 25e9


@pytest.mark.parametrize("resource", ["google.com/tpu:8", "example.com/gpu:x", "nvidia.com/gpu:0"])
def test_without_a_resource_whose_memory_is_planned_there_is_no_partition(resource: str) -> None:
    argv = ["vllm", "serve", "Qwen/Qwen3-8B"]

    assert batch.answer({"id": 1, "argv": argv, "gpu": resource}, builtin())["gpus"] is None
