"""What makes an engine smaller than its ledger says: a 70B model on an L4 is then not denied."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.vllm.memory.ledger import Verdict
from podfit.vllm.memory.plan import plan
from tests.vllm.memory.engines import LLAMA_70B, engine, gpu, model, on

L4 = gpu(22.03, name="NVIDIA L4", capability=(8, 9))


def verdict(release: str = "0.33.0", env: dict[str, str] | None = None, **given: Any) -> Verdict:
    return plan(engine(release, max_model_len=4096, **given), model(**LLAMA_70B), on(L4), env=env).verdict


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"revision": "main"},
        {"quantization": "fp8"},
        {"quantization": "fp8_per_channel"},
        {"quantization": "int8_per_channel_weight_only"},  # experts alone: this model has none
        {"quantization": "nvfp4_per_token"},
        {"ec_transfer_config": {"ec_role": "ec_consumer"}},
        {"mm_encoder_only": False},
    ],
    ids=str,
)
def test_what_is_in_the_ledger_is_refused(given: dict[str, Any]) -> None:
    assert verdict(**given) == "does-not-fit"


@pytest.mark.parametrize(
    ("release", "given"),
    [
        ("0.11.0", {"quantization": "rtn"}),
        ("0.33.0", {"quantization": "online"}),
        ("0.33.0", {"quantization_config": {"linear": "fp8_per_tensor"}}),
        ("0.33.0", {"quantization": "mxfp4"}),
        ("0.33.0", {"quantization": "humming"}),
        ("0.33.0", {"quantization": "torchao"}),
        ("0.33.0", {"quantization": "compressed-tensors"}),
        ("0.33.0", {"mm_encoder_only": True}),
        ("0.33.0", {"ec_transfer_config": {"ec_role": "ec_producer"}}),
        ("0.33.0", {"revision": "gptq-4bit-32g"}),
        ("0.33.0", {"offload_backend": "prefetch"}),
        ("0.33.0", {"hf_config_path": "/config"}),
    ],
    ids=str,
)
def test_what_is_not_in_the_ledger_is_not(release: str, given: dict[str, Any]) -> None:
    assert verdict(release, **given) == "unsure"


def test_what_a_variable_quantises_is_not_refused() -> None:
    assert verdict(env={"VLLM_HUMMING_ONLINE_QUANT_CONFIG": '{"dtype": "int4"}'}) == "unsure"


@pytest.mark.parametrize("method", ["aqlm", "exl3", "torchao"])
def test_a_checkpoint_quantised_in_an_unknown_way_is_not_refused(method: str) -> None:
    config = {**LLAMA_70B, "quantization_config": {"quant_method": method}}
    assert plan(engine(max_model_len=4096), model(**config), on(L4)).verdict == "unsure"


def test_v0_takes_the_given_number_of_blocks_before_it_checks() -> None:
    """Llama 8B in 16 bits leaves nothing of the budget; V0 starts all the same if the weights fit the GPU."""
    small = gpu(16.2, name="Example", capability=(8, 0))
    plain: dict[str, Any] = {"max_model_len": 4096}
    given = {**plain, "num_gpu_blocks_override": 300}
    assert plan(engine("0.6.6", **plain), model(), on(small)).verdict == "does-not-fit"
    assert plan(engine("0.6.6", **given), model(), on(small)).verdict == "unsure"


def test_the_second_model_runner_samples_from_less() -> None:
    args, v2 = engine("0.15.0", max_num_seqs=1024), {"VLLM_USE_V2_MODEL_RUNNER": "1"}
    old, new = (plan(args, model(), on(gpu(79.18)), env=env).gpu for env in ({}, v2))
    assert old is not None
    assert new is not None
    assert new.activations.floor < old.activations.floor / 5
