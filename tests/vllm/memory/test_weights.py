"""Weights per rank, against what vLLM printed as "Model loading took N GiB"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from podfit.kube.quantity import GI
from podfit.vllm.memory import quantisation, shape
from podfit.vllm.memory import tower as tower_of
from podfit.vllm.memory.estimate import Estimate
from podfit.vllm.memory.parallel import Parallel
from podfit.vllm.memory.plan import plan
from podfit.vllm.model import from_config
from tests.vllm.memory import engines
from tests.vllm.memory.engines import (
    DEEPSEEK_V3,
    DEEPSEEK_V4_PRO,
    GPT_OSS_120B,
    LLAMA_8B,
    LLAMA_70B,
    engine,
    gpu,
    model,
    on,
)


@pytest.mark.parametrize(
    ("config", "elements"),
    [
        pytest.param(LLAMA_8B, 8_030_261_248, id="Llama 3.1 8B"),
        pytest.param(LLAMA_70B, 70_553_706_496, id="Llama 3.1 70B"),
        pytest.param(DEEPSEEK_V3, 671_026_419_200, id="DeepSeek V3 without its MTP layer"),
        pytest.param(engines.GEMMA3_27B, 27_009_346_304, id="Gemma 3 27B, text alone"),
        pytest.param(engines.QWEN35_35B, 34_660_610_688, id="Qwen 3.5 35B-A3B, text alone"),
        pytest.param(GPT_OSS_120B, 116_829_156_672, id="gpt-oss 120B"),
    ],
)
def test_the_parts_of_a_model_add_up_to_its_parameters(config: Mapping[str, Any], elements: int) -> None:
    counted = shape.of(model(**config))
    assert counted is not None
    assert counted.known
    assert counted.elements == pytest.approx(elements, rel=0.003)


@pytest.mark.parametrize(
    ("config", "given", "printed"),
    [
        pytest.param(LLAMA_8B, {}, 14.99, id="8B, with 32 MiB of rotary table"),
        pytest.param(LLAMA_8B, {"tensor_parallel_size": 2}, 7.51, id="halved by TP, the table is not"),
        pytest.param(LLAMA_8B, {"tensor_parallel_size": 4}, 3.77, id="quartered"),
        pytest.param(LLAMA_8B, {"pipeline_parallel_size": 2}, 7.51, id="embedding on one stage, head on the other"),
        pytest.param(LLAMA_8B, {"pipeline_parallel_size": 4}, 4.26, id="the end stages are the heaviest"),
        pytest.param(LLAMA_8B, {"dtype": "float32"}, 29.98, id="float32"),
        pytest.param(LLAMA_8B, {"quantization": "fp8"}, 8.49, id="quantised while loading, embeddings are not"),
        pytest.param(GPT_OSS_120B, {}, 64.38, id="MXFP4 experts, padded from 2,880 to 3,072"),
    ],
)
def test_weights_are_what_vllm_printed(config: Mapping[str, Any], given: Mapping[str, Any], printed: float) -> None:
    found = plan(engine("0.19.0", max_model_len=8192, **given), model(**config), on(gpu(79.19)))
    assert found.gpu is not None
    assert found.gpu.weights.likely / GI == pytest.approx(printed, rel=0.005)


@pytest.mark.parametrize(
    ("quantization", "low", "high"),
    [
        pytest.param({"quant_method": "fp8"}, 8.3, 8.7, id="FP8"),
        pytest.param({"quant_method": "awq", "bits": 4, "group_size": 128}, 5.2, 5.6, id="AWQ: 5.38 printed"),
        pytest.param({"quant_method": "gptq", "bits": 8, "group_size": 32}, 8.6, 9.3, id="GPTQ in 8 bits"),
        pytest.param({"quant_method": "bitsandbytes", "load_in_4bit": True}, 5.2, 5.9, id="bitsandbytes"),
        pytest.param({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {
            "num_bits": 4, "type": "float", "group_size": 16}}}, "ignore": ["lm_head"]}, 5.4, 5.9, id="NVFP4"),
        pytest.param({"quant_method": "fp8", "ignored_layers": ["re:.*self_attn.*"]}, 9.4, 10.2, id="attention kept"),
        pytest.param(
            {"quant_method": "fp8", "modules_to_not_convert": ["model.layers.*.post_attention_layernorm", "lm_head"]},
            8.3, 8.7, id="a norm that is named for attention is none",
        ),
    ],
)  # fmt: skip
def test_a_quantised_checkpoint_keeps_its_embeddings_in_16_bits(
    quantization: Mapping[str, Any], low: float, high: float
) -> None:
    found = plan(engine(), model(quantization_config=quantization), on(gpu(79.19)))
    assert found.gpu is not None
    assert low < found.gpu.weights.likely / GI < high


def test_a_language_models_own_quantisation_leaves_the_tower_alone() -> None:
    """Kimi K2.5: `quantization_config` is in `text_config`, and the tower is loaded in 16 bits."""
    four = {"weights": {"num_bits": 4, "type": "int", "group_size": 32}}
    quantised = {"quant_method": "compressed-tensors", "ignore": ["lm_head"], "config_groups": {"group_0": four}}
    tower = {"hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27, "patch_size": 14}
    text = dict(LLAMA_8B)
    whole = {"model_type": "llava", "architectures": ["LlavaForConditionalGeneration"], "vision_config": tower}
    inside = from_config("example/eyes", {**whole, "text_config": {**text, "quantization_config": quantised}})
    beside = from_config("example/eyes", {**whole, "text_config": text, "quantization_config": quantised})
    ledgers = [plan(engine("0.19.0", max_model_len=8192), one, on(gpu(79.19))).gpu for one in (inside, beside)]
    assert ledgers[0] is not None
    assert ledgers[1] is not None
    elements = tower_of.parameters(inside)
    assert ledgers[0].weights.likely - ledgers[1].weights.likely == pytest.approx(elements * (2 - 0.5625), rel=0.01)


def test_fp8_in_blocks_is_certain_to_a_percent_and_a_half() -> None:
    """All linear layers but router, head and embedding: what DeepSeek, MiniMax and Qwen 3 publish."""
    known = replace(model(**DEEPSEEK_V3), parameters=671_026_419_200)
    found = plan(engine("0.10.1", tensor_parallel_size=8), known, on(gpu(139.7), count=8))
    assert found.gpu is not None
    assert 0.98 <= found.gpu.weights.floor / found.gpu.weights.likely < 1


def test_experts_are_shared_over_tensor_and_data_parallel_ranks() -> None:
    """61 layers of 256 experts take 58 layers × 256 × 3 × 7168 × 2048 bytes in FP8: 608 GiB over 16 ranks."""
    one = plan(engine("0.11.0", tensor_parallel_size=8), model(**DEEPSEEK_V3), on(gpu(139.72)))
    two = plan(engine("0.11.0", tensor_parallel_size=8, data_parallel_size=2), model(**DEEPSEEK_V3), on(gpu(139.72)))
    assert one.gpu is not None
    assert two.gpu is not None
    assert (one.gpu.weights.likely - two.gpu.weights.likely) / GI == pytest.approx(608.9 / 16, rel=0.01)


DATA_PARALLEL = {"data_parallel_size": 8, "enable_expert_parallel": True, "max_model_len": 8192}


def weights_of(config: Mapping[str, Any], parameters: int | None = None, **given: Any) -> Estimate:
    found = plan(engine("0.25.0", **given), replace(model(**config), parameters=parameters), on(gpu(139.7), count=8))
    assert found.gpu is not None
    return found.gpu.weights


def test_deepseek_v4_with_data_parallelism_has_low_rank_attention_on_every_gpu() -> None:
    """61 layers × 300 million elements in FP8 are 17 GiB; an eighth of the experts in 4 bits is 95.5 GiB."""
    assert weights_of(DEEPSEEK_V4_PRO, **DATA_PARALLEL).likely / GI == pytest.approx(121, rel=0.02)


def test_an_nvfp4_copy_of_an_fp8_checkpoint_keeps_fp8_where_it_ignores() -> None:
    """`ignore` lists what stays as it was: in 16 bits, attention would take 17 GiB more on each GPU."""
    four = {"weights": {"dynamic": False, "group_size": 16, "num_bits": 4, "type": "float"}, "targets": ["Linear"]}
    nvfp4 = {
        **DEEPSEEK_V4_PRO["quantization_config"],
        "quant_algo": "MIXED_PRECISION",
        "config_groups": {"group_0": four},
        "ignore": ["*.attn.*", "*.ffn.shared_experts.*", "head", "mtp.*"],
    }
    copy = weights_of({**DEEPSEEK_V4_PRO, "quantization_config": nvfp4}, **DATA_PARALLEL).likely

    assert copy == pytest.approx(weights_of(DEEPSEEK_V4_PRO, **DATA_PARALLEL).likely * 1.045, rel=0.01)


def test_a_division_that_no_count_confirms_is_no_certain_minimum() -> None:
    """If formulas are not confirmed, what they take for whole on every rank may be cut as often as the experts."""
    confirmed = weights_of(DEEPSEEK_V3, 671_026_419_200, **DATA_PARALLEL)
    alone = weights_of(DEEPSEEK_V3, **DATA_PARALLEL)
    everything_cut = 671_026_419_200 / 8

    assert alone.likely == pytest.approx(confirmed.likely, rel=0.001)
    assert alone.floor < everything_cut * 1.03 < confirmed.floor
    assert alone.low < everything_cut * 1.03 < confirmed.low


@pytest.mark.parametrize(
    ("given", "least"),
    [pytest.param({}, 0.27, id="stored in 4 bits"), pytest.param({"quantization": "fp8"}, 0.27, id="online FP8")],
)
def test_unknown_storage_is_16_bits_at_most_and_4_at_least(given: Mapping[str, Any], least: float) -> None:
    found = plan(engine(**given), replace(model(), storage_known=False), on(gpu(79.19))).gpu
    known = plan(engine(**given), model(), on(gpu(79.19))).gpu
    assert found is not None
    assert known is not None
    assert found.weights.likely == known.weights.likely
    assert found.weights.floor < found.weights.low == pytest.approx(least * known.weights.likely, rel=0.01)


def test_a_checkpoint_whose_storage_is_unknown_is_not_denied_for_its_size_in_16_bits() -> None:
    """141 GB in 16 bits exceed 79 GiB for certain, 4 bits would fit."""
    whole = model(**LLAMA_70B)
    verdicts = [
        plan(engine(max_model_len=4096), one, on(gpu(79.19))).verdict
        for one in (whole, replace(whole, storage_known=False))
    ]

    assert verdicts == ["does-not-fit", "unsure"]


def test_formulas_that_no_count_confirms_may_be_twice_too_large() -> None:
    """Llama 70B in 16 bits on two GPUs of 79 GiB: 65.7 GiB each by the formulas, of which 26.3 are certain."""
    args = engine(max_model_len=4096, gpu_memory_utilization=0.7, tensor_parallel_size=2)
    both = [replace(model(**LLAMA_70B), sizes_confirmed=confirmed) for confirmed in (True, False)]
    known, unknown = [plan(args, one, on(gpu(79.19), count=2)) for one in both]
    assert known.gpu is not None
    assert unknown.gpu is not None

    assert (known.verdict, unknown.verdict) == ("does-not-fit", "unsure")
    assert unknown.gpu.weights.low == pytest.approx(0.45 * known.gpu.weights.likely, rel=0.01)


def test_unknown_key_value_heads_are_one_to_all() -> None:
    """One request of 131,072 tokens takes 16 GiB with 8 key-value heads, 2 GiB with one: 7.5 GiB are left."""
    args = engine(max_model_len=131_072, gpu_memory_utilization=0.3)
    alike = [replace(model(), kv_heads_known=known) for known in (True, False)]
    known, unknown = [plan(args, one, on(gpu(79.19))) for one in alike]

    assert (known.verdict, unknown.verdict) == ("does-not-fit", "unsure")
    assert "the number of key-value heads is unknown" in unknown.why


def test_counted_bytes_win_over_the_formula() -> None:
    """A checkpoint of 9 GB whose scheme says 8.5: the 9 GB are believed."""
    counted = model(weights_bytes=9_400_000_000, quantization_config={"quant_method": "fp8"})
    found = plan(engine(), counted, on(gpu(79.19)))
    assert found.gpu is not None
    assert found.gpu.weights.likely / GI == pytest.approx(9.4e9 / GI + 0.03, rel=0.002)


def test_a_name_that_tells_a_quantisation_is_not_planned_as_16_bits() -> None:
    """A table's row may lack quantization_config; a checkpoint called w4a16 must not be denied for its 16-bit size."""
    found = plan(engine(), model("someone/Llama-8B-w4a16"), on(gpu(79.19)))
    assert found.gpu is not None
    assert found.gpu.weights.floor / GI < 5


def test_cpu_offload_moves_weights_off_the_gpu() -> None:
    whole = plan(engine(), model(), on(gpu(79.19))).gpu
    less = plan(engine(cpu_offload_gb=5.0), model(), on(gpu(79.19))).gpu
    assert whole is not None
    assert less is not None
    assert whole.weights.likely - less.weights.likely == 5 * GI


def test_lora_slots_are_part_of_the_weights() -> None:
    whole = plan(engine(), model(), on(gpu(79.19))).gpu
    more = plan(engine(enable_lora=True, max_loras=4, max_lora_rank=64), model(), on(gpu(79.19))).gpu
    assert whole is not None
    assert more is not None
    assert 0.5 < (more.weights.likely - whole.weights.likely) / GI < 2


@pytest.mark.parametrize(
    ("layers", "pp", "sizes"),
    [(32, 1, [32]), (32, 4, [8, 8, 8, 8]), (61, 2, [31, 30]), (62, 4, [15, 16, 16, 15]), (10, 4, [2, 3, 3, 2])],
)
def test_the_remainder_of_layers_goes_to_the_stages_before_the_last(layers: int, pp: int, sizes: list[int]) -> None:
    cut = Parallel(pp=pp)
    stages = [cut.stage(index, layers) for index in range(pp)]
    assert [last - first for first, last in stages] == sizes
    assert (cut.fullest(layers), cut.emptiest(layers)) == (sizes.index(max(sizes)), sizes.index(min(sizes)))


def test_a_layer_partition_of_the_environment_is_obeyed() -> None:
    found = plan(engine(pipeline_parallel_size=2), model(), on(gpu(79.19)), env={"VLLM_PP_LAYER_PARTITION": "8,24"})
    assert found.gpu is not None
    assert found.gpu.weights.likely / GI == pytest.approx(24 * 0.40625 + 0.98 + 0.03, rel=0.01)


@pytest.mark.parametrize("field", ["engram_layer_ids", "ple_layer_ids"])
def test_tables_of_n_grams_stand_in_host_memory_and_are_no_reason_to_refuse(field: str) -> None:
    """vLLM 0.33 config/engram.py: `cpu_offload` is on by default."""
    config: dict[str, Any] = {field: [1, 17]}
    with_tables = model(weights_bytes=200 * GI, **config)

    planned = plan(engine(), with_tables, on(gpu(79.1)))

    assert (planned.verdict, planned.gpu) == ("unsure", None)


QWEN3_VL_30B: Mapping[str, Any] = {
    "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "torch_dtype": "bfloat16",
    "num_hidden_layers": 48, "hidden_size": 2048, "intermediate_size": 6144, "moe_intermediate_size": 768,
    "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "num_experts": 128, "num_experts_per_tok": 8,
    "vocab_size": 151936, "max_position_embeddings": 40960, "tie_word_embeddings": False,
}  # fmt: skip
"""The language model of Qwen3-VL-30B-A3B."""


@pytest.mark.parametrize(
    ("given", "env", "more"),
    [
        pytest.param({}, {}, 20.3 + 1.0, id="both matrices padded, the block of the first one stays"),
        pytest.param({"tensor_parallel_size": 4}, {}, 0.6 + 1.0, id="rows of 384 B are not padded"),
        pytest.param({}, {"VLLM_ROCM_MOE_PADDING": "0"}, 1.0, id="switched off"),
        pytest.param({}, {"VLLM_ROCM_USE_AITER": "1"}, 1.0, id="AITER has contiguous copies"),
    ],
)
def test_experts_in_16_bits_are_heavier_on_amd(given: dict[str, Any], env: dict[str, str], more: float) -> None:
    """Printed for Qwen3-VL-30B-A3B: 79.3 GiB on an MI300X, 58.2 on an H200."""
    ours, theirs = (
        plan(engine("0.18.0", **given), model(**QWEN3_VL_30B), on(card, count=8), env=env).gpu
        for card in (gpu(192, vendor="amd", capability=None), gpu(141))
    )
    assert ours is not None
    assert theirs is not None
    assert (ours.weights.likely - theirs.weights.likely) / GI == pytest.approx(more, abs=0.3)
    assert ours.weights.floor == theirs.weights.floor


@pytest.mark.parametrize(
    ("name", "release", "whole"),
    [
        ("mistralai/Ministral-3-14B-Reasoning-2512", "0.11.2", False),
        ("mistralai/Ministral-3-14B-Reasoning-2512", "0.13.0", True),
        ("mistralai/Ministral-3-14B-Reasoning-2512", "0.22.0", False),
        ("example/Mistral-Small-quantized", "0.13.0", False),
    ],
)
def test_every_rank_has_the_tower_of_mistrals_own_format(name: str, release: str, whole: bool) -> None:
    """Printed over 8 GPUs on 0.13: 4.03 GiB where the eighth part is 3.3."""
    vision = {"model_type": "pixtral", "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24}
    config = {**LLAMA_8B, "model_type": "mistral3", "architectures": ["Mistral3ForConditionalGeneration"]}
    found = plan(
        engine(release, tensor_parallel_size=8), model(name, **config, vision_config=vision), on(gpu(141), count=8)
    ).gpu
    assert found is not None
    tower = 0.4 * 2 * 1e9
    shared = tower / 8
    expected = 15.0 * GI / 8 + (tower if whole else shared)
    assert found.weights.likely == pytest.approx(expected, rel=0.06)
    assert found.weights.low <= 15.0 * GI / 8 + shared


@pytest.mark.parametrize(
    ("config", "kept"),
    [
        ({"model_type": "llama4_text", "num_local_experts": 128}, {"attention", "linear", "mlp", "shared"}),
        (
            {"model_type": "nemotron_h", "n_routed_experts": 512, "moe_latent_size": 1024},
            {"attention", "linear", "mlp", "shared"},
        ),
        ({"model_type": "nemotron_h", "n_routed_experts": 128}, {"attention"}),
        ({"model_type": "qwen3_moe", "num_experts": 128}, set()),
    ],
    ids=("Llama 4", "Nemotron-3-Super", "Nemotron-3-Nano", "a family that keeps none"),
)
def test_the_layers_that_a_family_leaves_in_16_bits(config: Mapping[str, Any], kept: set[str]) -> None:
    fp8 = {"quantization_config": {"quant_method": "compressed-tensors", "format": "float-quantized", "_scheme": "FP8"}}
    found = quantisation.scheme(model(**{**config, **fp8}), None)
    assert found is not None
    assert {group for group in ("attention", "linear", "mlp", "shared") if found.share_kept(group) == 1.0} == kept
    assert found.share_kept("experts") == 0.0


@pytest.mark.parametrize(
    ("config", "above"),
    [
        pytest.param({}, 0.05, id="a dense model for text"),
        pytest.param({"num_experts": 64, "moe_intermediate_size": 1024}, 0.30, id="experts"),
    ],
)
def test_a_checkpoint_in_4_bits_may_be_heavier_than_computed(config: dict[str, Any], above: float) -> None:
    awq = {"quantization_config": {"quant_method": "awq", "bits": 4}}
    found = plan(engine("0.19.0"), model(**{**config, **awq}), on(gpu(80))).gpu
    assert found is not None
    line = found.weights
    assert (line.high - line.likely) / line.likely >= above * 0.95
    assert (line.likely - line.low) / line.likely < 0.2
