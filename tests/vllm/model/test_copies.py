"""Quantized copies of a model in the catalog."""

from __future__ import annotations

import pytest

from podfit.vllm.model import by_id, quantised_copies
from podfit.vllm.model.name import shape


@pytest.mark.parametrize(
    ("name", "copy"),
    [
        ("meta-llama/Llama-3.3-70B-Instruct", "nvidia/Llama-3.3-70B-Instruct-FP8"),
        ("meta-llama/Llama-3.1-8B-Instruct", "RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8"),
        ("Qwen/Qwen2.5-32B-Instruct", "Qwen/Qwen2.5-32B-Instruct-AWQ"),
        ("google/gemma-3-27b-it", "RedHatAI/gemma-3-27b-it-FP8-dynamic"),
    ],
)
def test_a_models_copies_have_its_shape(name: str, copy: str) -> None:
    row = by_id(name)
    assert row is not None
    found = quantised_copies(row.value)
    assert copy in {one.id for one in found}
    assert {shape(one)[:-1] for one in found} == {shape(row.value)[:-1]}
    assert all(one.quantization_config for one in found)


def test_makers_known_to_serve_with_vllm_come_first() -> None:
    row = by_id("meta-llama/Llama-3.3-70B-Instruct")
    assert row is not None
    owners = [one.id.partition("/")[0].lower() for one in quantised_copies(row.value)]
    assert owners.index("redhatai") < owners.index("casperhansen")


def test_a_quantised_model_has_no_copies_to_go_to() -> None:
    row = by_id("Qwen/Qwen2.5-32B-Instruct-AWQ")
    assert row is not None
    assert quantised_copies(row.value) == ()
