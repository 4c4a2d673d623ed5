"""Which GPU a release's quantization kernels need: numbers read from its sources, and never a number too high."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from podfit.vllm.gpu import kernels
from podfit.vllm.model import from_config
from podfit.vllm.release import Release, newest_read, parse


def least(method: str, release: str) -> tuple[int, int] | None:
    known = parse(release)
    assert known is not None
    return kernels.least_capability(method, known)


@pytest.mark.parametrize(
    ("method", "release", "capability"),
    [
        ("awq", "0.4.3", (7, 5)),
        ("awq", "0.33.0", (7, 5)),
        ("fp8", "0.5.0", (8, 9)),
        ("fp8", "0.5.2", (8, 0)),  # not read: the lower of its neighbours
        ("fp8", "0.13.0", (8, 0)),
        ("fp8", "0.14.0", (7, 5)),
        ("modelopt", "0.11.0", (8, 9)),
        ("modelopt_fp4", "0.8.5", (10, 0)),
        ("modelopt_fp4", "0.9.0", (8, 0)),
        ("gptq", "0.10.0", (6, 0)),
        ("gptq_marlin", "0.12.0", (8, 0)),
        ("mxfp4", "0.11.0", (8, 0)),
        ("mxfp4", "0.10.1", None),
        ("bitsandbytes", "0.9.0", (7, 0)),
        ("compressed-tensors integers", "0.11.0", (8, 0)),
        ("compressed-tensors integers", "0.12.0", (7, 5)),
        ("compressed-tensors FP8", "0.10.0", (8, 0)),
        ("awq", "0.4.2", None),
        ("awq", "0.99.0", (7, 5)),
        ("squeezellm", "0.10.0", None),
    ],
)
def test_a_release_asks_for_this(method: str, release: str, capability: tuple[int, int] | None) -> None:
    assert least(method, release) == capability


def test_numbers_only_ever_fell() -> None:
    for steps in kernels.STEPS.values():
        assert [one.least for one in steps] == sorted((one.least for one in steps), reverse=True)
        assert all(one.after < one.first for one in steps if one.after)
        assert all(one.first <= newest_read() for one in steps)


def test_the_first_release_that_runs_on_an_older_card_is_one_that_was_read() -> None:
    assert kernels.first_release("fp8", (7, 5)) == Release(0, 14)
    assert kernels.first_release("fp8", (8, 6)) == Release(0, 5, 4)
    assert kernels.first_release("awq", (7, 0)) is None


def group(bits: int, kind: str, **more: Any) -> dict[str, Any]:
    return {"weights": {"num_bits": bits, "type": kind, **more.pop("weights", {})}, **more}


@pytest.mark.parametrize(
    ("config", "given", "method"),
    [
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, None, ("awq", True)),
        ({"quant_method": "awq", "bits": 4}, None, ("awq", False)),
        ({"quant_method": "gptq", "bits": 4, "desc_act": False}, "gptq_marlin", ("gptq_marlin", True)),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, "moe_wna16", None),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, None, ("fp8", True)),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "config_groups": {}}, None, ("modelopt_fp4", True)),
        ({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}, None, None),
        ({"quant_method": "compressed-tensors", "config_groups": {"a": group(4, "int")}}, None,
         ("compressed-tensors integers", True)),
        ({"quant_method": "compressed-tensors", "config_groups": {"a": group(8, "int", input_activations={"b": 1})}},
         None, ("compressed-tensors INT8", True)),
        ({"quant_method": "compressed-tensors", "config_groups": {"a": group(4, "int"), "b": group(8, "float")}}, None,
         None),
        ({"quant_method": "compressed-tensors", "_scheme": "W4A16"}, None, None),
        ({"quant_method": "compressed-tensors",
          "config_groups": {"a": group(4, "float", weights={"group_size": 16})}}, None,
         ("compressed-tensors NVFP4", True)),
        ({"quant_method": "unheard-of"}, None, None),
        (None, "experts_int8", ("experts_int8", True)),
        (None, "compressed-tensors", None),
        (None, None, None),
    ],
)  # fmt: skip
def test_the_method_is_the_checkpoints_own(
    config: dict[str, Any] | None, given: str | None, method: tuple[str, bool] | None
) -> None:
    assert kernels.method(from_config("a/model", {"quantization_config": config}), given) == method


def test_a_scheme_guessed_from_an_id_is_not_certain() -> None:
    model = from_config(
        "a/model-FP8", {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}
    )

    assert kernels.method(replace(model, scheme_guessed=True), None) == ("fp8", False)
