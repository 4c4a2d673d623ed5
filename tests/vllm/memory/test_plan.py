"""Whether a plan fits: yes if it is likely, no only if it is certain, else unsure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.kube.quantity import human
from podfit.vllm.args.flags import builtin
from podfit.vllm.gpu import Gpu
from podfit.vllm.memory import (
    activations,
    generations,
    kv_cache,
    non_torch,
    quantisation,
    ranks,
    shape,
    startup,
    weights,
)
from podfit.vllm.memory.estimate import Estimate
from podfit.vllm.memory.ledger import GpuLedger, HostLedger, MemoryPlan
from podfit.vllm.memory.parallel import gpus_needed, world_size
from podfit.vllm.memory.plan import plan
from podfit.vllm.memory.verdict import subtraction
from podfit.vllm.model import Model
from podfit.vllm.release import Release, newest_read
from tests.vllm.memory.engines import (
    DEEPSEEK_V3,
    DEEPSEEK_V4_PRO,
    GEMMA3_27B,
    GPT_OSS_120B,
    LLAMA_8B,
    LLAMA_70B,
    QWEN35_35B,
    engine,
    gpu,
    model,
    on,
)

T4 = gpu(14.56, name="Tesla T4", capability=(7, 5), high=15.0)
L4 = gpu(22.03, name="NVIDIA L4", capability=(8, 9), high=22.49)
A100_40 = gpu(39.38, name="NVIDIA A100 40GB", capability=(8, 0), high=40.0)
A100_80 = gpu(79.14, name="NVIDIA A100 80GB", capability=(8, 0), high=80.0)
H100 = gpu(79.18, name="NVIDIA H100 80GB", high=79.65)


@pytest.mark.parametrize(
    ("config", "given_", "card", "verdict"),
    [
        pytest.param(LLAMA_8B, {}, T4, "does-not-fit", id="8B in 16 bits on a T4: the weights alone are too much"),
        pytest.param(LLAMA_8B, {"max_model_len": 512}, T4, "does-not-fit", id="a shorter context does not help"),
        pytest.param(LLAMA_8B, {}, L4, "does-not-fit", id="8B on an L4 with its own 131,072 tokens"),
        pytest.param(LLAMA_8B, {"max_model_len": 8192}, L4, "fits", id="8B on an L4 with 8,192"),
        pytest.param(LLAMA_8B, {"max_model_len": -1}, L4, "fits", id="8B on an L4, the length left to vLLM"),
        pytest.param(LLAMA_8B, {}, H100, "fits", id="8B on an H100"),
        pytest.param(LLAMA_70B, {"tensor_parallel_size": 4}, L4, "does-not-fit", id="70B over 4 L4"),
        pytest.param(LLAMA_70B, {"tensor_parallel_size": 4}, H100, "fits", id="70B over 4 H100"),
        pytest.param(DEEPSEEK_V3, {"tensor_parallel_size": 8}, H100, "does-not-fit", id="DeepSeek V3 over 8 H100"),
        pytest.param(GPT_OSS_120B, {"max_model_len": 8192}, H100, "fits", id="gpt-oss 120B on an H100"),
        pytest.param(QWEN35_35B, {"max_model_len": 8192}, A100_40, "does-not-fit", id="35B in 16 bits on 40 GB"),
    ],
)
def test_verdicts(config: Mapping[str, Any], given_: Mapping[str, Any], card: Gpu, verdict: str) -> None:
    assert plan(engine("0.20.0", **given_), model(**config), on(card)).verdict == verdict


def test_a_length_left_to_vllm_of_a_model_that_has_none_is_unsure() -> None:
    found = plan(engine("0.27.1", max_model_len=-1), model(max_position_embeddings=None), on(H100))
    assert (found.verdict, found.cause) == ("unsure", "request")


def test_a_weightless_answer_says_what_is_missing() -> None:
    no_model, no_gpu = plan(engine(), None, on(H100)), plan(engine(), model(), None)
    assert (no_model.verdict, no_model.gpu, no_model.why) == ("unsure", None, "the model's config is not known")
    assert (no_gpu.verdict, no_gpu.gpu, no_gpu.why) == ("unsure", None, "the GPU is not known")
    assert no_gpu.host is not None
    assert no_gpu.startup is not None


def test_memory_alone_is_enough_of_a_gpu() -> None:
    """`--gpu` names nothing that is known, but the process's total was measured."""
    assert plan(engine(), model(), None, gpu_memory=20 * 2**30).verdict == "does-not-fit"


def test_an_ambiguous_gpu_is_refused_only_where_none_fits() -> None:
    big = model(**{**LLAMA_8B, "num_hidden_layers": 128})
    assert plan(engine(max_model_len=4096), big, on(A100_40, A100_80)).verdict == "unsure"
    assert plan(engine(max_model_len=4096), big, on(T4, L4)).verdict == "does-not-fit"
    assert plan(engine(max_model_len=4096), model(), on(A100_40, A100_80)).verdict == "fits"


def test_an_unknown_release_is_refused_only_where_every_generation_fails() -> None:
    assert plan(engine(None), model(), on(T4)).verdict == "does-not-fit"
    assert plan(engine(None, max_model_len=4096), model(), on(H100)).verdict == "fits"
    edge = {"max_model_len": 8192, "max_num_seqs": 1024}  # 16 bits of 60 GiB: it hangs on the sampler's peak
    big = model(**{**LLAMA_8B, "num_hidden_layers": 148})
    verdicts = {plan(engine(one, **edge), big, on(H100)).verdict for one in ("0.16.0", "0.19.0")}
    assert len(verdicts) == 2
    assert plan(engine(None, **edge), big, on(H100)).verdict == "unsure"


def test_releases_that_cant_serve_a_model_have_no_say() -> None:
    """A Qwen 3.5 with an unknown release is not planned as V0, which never knew it."""
    assert generations.possible(model(**QWEN35_35B))[0] == Release(0, 18)
    assert generations.possible(model())[0] == generations.memory_generations()[0]


def test_releases_whose_check_differs_have_a_say_where_it_does() -> None:
    """0.13 where there are stages, 0.18 where layers are of several kinds."""
    plain, staged = generations.possible(model(), engine(None)), engine(None, pipeline_parallel_size=2)
    assert set(generations.memory_generations()) - set(plain) == {Release(0, 13), Release(0, 18)}
    assert set(generations.possible(model(), staged)) - set(plain) == {Release(0, 13)}
    assert Release(0, 18) in generations.possible(model(**GEMMA3_27B), engine(None))


QWEN3_CODER_480B: Mapping[str, Any] = {
    "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "torch_dtype": "bfloat16",
    "num_hidden_layers": 62, "hidden_size": 6144, "intermediate_size": 8192, "moe_intermediate_size": 2560,
    "num_attention_heads": 96, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936, "num_experts": 160,
    "num_experts_per_tok": 8, "max_position_embeddings": 262144, "tie_word_embeddings": False,
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}  # fmt: skip
DP8: Mapping[str, Any] = {"data_parallel_size": 8, "enable_expert_parallel": True, "gpu_memory_utilization": 0.95}


@pytest.mark.parametrize(
    ("given_", "env", "tokens"),
    [
        pytest.param(DP8, {}, 65_536, id="naive: all ranks' tokens"),
        pytest.param(DP8, {"VLLM_ALL2ALL_BACKEND": "deepep_low_latency"}, 8_192, id="its own alone"),
        pytest.param({**DP8, "max_num_batched_tokens": 1024}, {}, 8_192, id="a smaller batch"),
    ],
)
def test_the_experts_of_data_parallel_ranks_see_the_tokens_of_all(
    given_: Mapping[str, Any], env: Mapping[str, str], tokens: int
) -> None:
    """Qwen3 Coder 480B in FP8 over 8 H20 on 0.10.1: 55.65 GiB were printed, 62 asked."""
    card = gpu(139.72, name="NVIDIA H20-3e")
    coder = replace(model(**QWEN3_CODER_480B), parameters=480_154_875_392)
    found = plan(engine("0.10.1", **given_), coder, on(card, count=8), env=env)
    assert found.gpu is not None
    chunk = min(tokens, 32_768)
    certain = 2 * (chunk * 8 * (6144 + 2560) + tokens * 6144)  # gate and up or down, multiplied; hidden states
    assert found.gpu.activations.floor >= certain
    if tokens == 65_536:
        assert found.gpu.kv_cache.likely / 2**30 == pytest.approx(55.65, abs=0.5)
        assert (found.verdict, found.cause) == ("does-not-fit", "request")
    else:
        assert found.gpu.activations.floor < certain + 2**30


@pytest.mark.parametrize("dest", ["max_num_batched_tokens", "max_num_seqs", "all2all_backend"])
def test_a_peak_that_hangs_on_an_unknown_argument_refuses_nothing(dest: str) -> None:
    args = engine("0.10.1", **{key: value for key, value in DP8.items() if key != dest})
    unknown = replace(args, unresolved={dest: "$N is not set here"})
    found = plan(unknown, model(**QWEN3_CODER_480B), on(gpu(139.72), count=8))
    assert found.verdict == "unsure"
    assert f"the value of --{dest.replace('_', '-')} is unknown" in found.why
    small = plan(unknown, model(**QWEN3_CODER_480B), on(gpu(48.0), count=8))
    assert (small.verdict, small.cause) == ("does-not-fit", "weights")


QWEN3_30B: Mapping[str, Any] = {
    "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "torch_dtype": "bfloat16",
    "num_hidden_layers": 48, "hidden_size": 2048, "intermediate_size": 6144, "moe_intermediate_size": 768,
    "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 151936, "num_experts": 128,
    "num_experts_per_tok": 8, "max_position_embeddings": 262144, "tie_word_embeddings": False,
}  # fmt: skip


@pytest.mark.parametrize(
    ("release", "verdict"),
    [
        pytest.param("0.13.0", "fits", id="each stage's own"),
        pytest.param("0.14.0", "does-not-fit", id="all stages' layers against one"),
        pytest.param("0.16.0", "does-not-fit", id="still"),
        pytest.param("0.17.0", "fits", id="each stage's own again"),
    ],
)
def test_the_check_of_one_request_under_pipeline_parallelism(release: str, verdict: str) -> None:
    """Qwen3 30B-A3B, 262,144 tokens: 24 GiB for 48 layers, as 0.15 printed it, though a stage holds 24 of them."""
    card = gpu(52.0, capability=(8, 9))
    found = plan(engine(release, pipeline_parallel_size=2), model(**QWEN3_30B), on(card, count=2))
    assert found.verdict == verdict
    assert found.gpu is not None
    assert found.gpu.kv_cache_bytes_per_request == (24 if verdict == "does-not-fit" else 12) * 2**30
    if verdict == "does-not-fit":
        assert found.cause == "request"
        assert "one request of 262,144 tokens needs 24 GiB" in found.why
        assert "compares it with what the layers of all 2 pipeline stages need" in found.why
        longest = found.gpu.estimated_max_model_len or 0
        shorter = engine(release, pipeline_parallel_size=2, max_model_len=longest * 7 // 10)
        assert plan(shorter, model(**QWEN3_30B), on(card, count=2)).verdict == "fits"


def test_a_cache_that_is_only_partly_known_is_never_refused_for_a_long_request() -> None:
    partly = model(**{**LLAMA_8B, "compress_ratios": [4]})
    unsure = plan(engine("0.33.0", max_model_len=10**7), partly, on(H100))
    assert unsure.verdict == "unsure"
    assert unsure.gpu is not None
    assert unsure.gpu.kv_cache_tokens is None
    assert unsure.gpu.max_concurrency is None
    assert plan(engine("0.33.0", max_model_len=10**7), partly, on(T4)).verdict == "does-not-fit"


def test_an_unknown_drafter_with_a_bound_fits_where_even_its_largest_cache_does() -> None:
    head = {"method": "eagle3", "model": "example/unknown-head", "num_speculative_tokens": 3}
    llama = model(**LLAMA_8B)
    short = plan(engine("0.33.0", max_model_len=8192, speculative_config=head), llama, on(H100))
    assert short.verdict == "fits"
    assert short.gpu is not None
    assert short.gpu.kv_cache_tokens is not None
    fullest = short.gpu.kv_cache.low // short.gpu.kv_cache_bytes_per_token  # type: ignore[operator]
    long = plan(engine("0.33.0", max_model_len=fullest - 1000, speculative_config=head), llama, on(H100))
    assert long.verdict == "unsure"


def test_before_0_4_nothing_is_certain() -> None:
    assert plan(engine("0.2.7"), model(), on(T4)).verdict == "unsure"


def test_an_argument_that_cant_be_known_leaves_nothing_certain() -> None:
    args = engine()
    unknown = type(args)(release=args.release, unresolved={"tensor_parallel_size": "$GPUS is not set here"})
    found = plan(unknown, model(), on(T4))
    assert found.verdict == "unsure"
    assert found.why.startswith("the value of --tensor-parallel-size is unknown")


def test_a_shared_gpu_never_certainly_fits() -> None:
    accelerator = on(H100)
    shared = type(accelerator)(accelerator.gpus, 1, shared=True)
    assert plan(engine(), model(), shared).verdict == "unsure"


@pytest.mark.parametrize(
    ("release", "share", "verdict"),
    [
        pytest.param("0.33.0", 1.0, "does-not-fit", id="free memory is compared with the budget from 0.9.1"),
        pytest.param("0.9.0", 1.0, "unsure", id="before, the context just took its part"),
        pytest.param("0.33.0", 0.995, "unsure", id="a context of 0.4 GiB is usual, the smallest would still fit"),
        pytest.param("0.33.0", 1.7, "unsure", id="out of range: an error of the arguments, not of memory"),
    ],
)
def test_a_budget_that_leaves_nothing_to_the_cuda_context(release: str, share: float, verdict: str) -> None:
    card = gpu(79.18, name="NVIDIA H100 80GB")
    found = plan(engine(release, gpu_memory_utilization=share, max_model_len=4096), model(), on(card))
    assert found.verdict == verdict
    assert found.cause == ("free-memory" if verdict == "does-not-fit" else None if share > 1 else "graphs")


def test_a_card_with_memory_of_its_host_is_not_compared() -> None:
    spark = gpu(119.0, name="NVIDIA GB10", unified_memory=True)
    assert plan(engine(gpu_memory_utilization=1.0), model(), on(spark)).verdict == "unsure"


@pytest.mark.parametrize(
    ("flags", "oldest", "newest"),
    [
        ((), (0, 6, 3), newest_read()),
        (("--num-scheduler-steps",), (0, 6, 3), (0, 10, 2)),
        (("--kv-cache-memory-bytes",), (0, 10, 2), newest_read()),
        (("--swap-space", "--kv-cache-memory-bytes"), (0, 10, 2), (0, 19)),
        (("--a-flag-of-nobody",), (0, 6, 3), newest_read()),
        (("--use-v2-block-manager", "--kv-cache-memory-bytes"), (0, 6, 3), newest_read()),
    ],
)
def test_generations_that_would_not_get_beyond_their_arguments_have_no_say(
    flags: tuple[str, ...], oldest: tuple[int, ...], newest: tuple[int, ...]
) -> None:
    """The last row: no release knows both flags, so they say nothing about the release."""
    found = generations.possible(model(), replace(engine(None), releases=builtin().releases_accepting(flags)))
    assert (found[0], found[-1]) == (Release(*oldest), Release(*newest))


def test_kv_cache_memory_bytes_is_taken_as_given() -> None:
    small = plan(engine(kv_cache_memory_bytes=2**30), model(), on(H100))
    assert small.verdict == "does-not-fit"
    large = plan(engine(kv_cache_memory_bytes=20 * 2**30), model(), on(H100))
    assert large.gpu is not None
    assert large.gpu.kv_cache_tokens == (163_840,) * 3
    assert large.verdict == "fits"


def test_cuda_graphs_are_charged_to_the_budget_from_0_20() -> None:
    """The same start leaves less KV cache."""
    fixed = {"max_model_len": 8192, "gpu_memory_utilization": 0.9}
    before, after = (plan(engine(one, **fixed), model(), on(H100)).gpu for one in ("0.19.1", "0.20.0"))
    assert before is not None
    assert after is not None
    assert before.kv_cache.likely - after.kv_cache.likely == after.cuda_graphs.likely
    assert before.budget == after.budget


def test_the_default_utilisation_grew_in_0_20() -> None:
    before, after = (plan(engine(one), model(), on(H100)).gpu for one in ("0.19.1", "0.20.0"))
    assert before is not None
    assert after is not None
    assert (before.budget.likely, after.budget.likely) == (int(H100.memory * 0.9), int(H100.memory * 0.92))


@pytest.mark.parametrize(
    ("release", "seqs", "vocabulary", "printed"),
    [
        ("0.15.0", 1024, 151_936, 5.64),
        ("0.17.0", 1024, 151_936, 2.23),
        ("0.19.0", 1024, 128_256, 1.89),
        ("0.19.0", 1024, 49_155, 0.85),
        ("0.6.6", 256, 128_256, 1.26),
    ],
)
def test_the_activation_peak_is_the_samplers(release: str, seqs: int, vocabulary: int, printed: float) -> None:
    """What vLLM printed as its peak for models of 8B to 14B on an H100, 8,192 batched tokens."""
    args = engine(release, max_num_seqs=seqs, max_model_len=8192, max_num_batched_tokens=8192)
    ledger = plan(args, model(vocab_size=vocabulary), on(H100)).gpu
    assert ledger is not None
    assert ledger.activations.likely / 2**30 == pytest.approx(printed, abs=0.12)


@pytest.mark.parametrize(
    ("given_", "needed"),
    [
        ({}, 1),
        ({"tensor_parallel_size": 4}, 4),
        ({"tensor_parallel_size": 4, "pipeline_parallel_size": 2}, 8),
        ({"tensor_parallel_size": 2, "data_parallel_size": 4}, 8),
        ({"tensor_parallel_size": 2, "data_parallel_size": 4, "data_parallel_size_local": 2}, 4),
        ({"data_parallel_size": 4, "data_parallel_rank": 1}, 1),
        ({"tensor_parallel_size": 8, "nnodes": 2}, 4),
        ({"tensor_parallel_size": 8, "decode_context_parallel_size": 8}, 8),
    ],
)
def test_gpus_of_one_container(given_: Mapping[str, Any], needed: int) -> None:
    assert gpus_needed(engine(**given_)) == needed


def test_world_size_is_tensor_times_pipeline() -> None:
    assert world_size(engine(tensor_parallel_size=4, pipeline_parallel_size=2, data_parallel_size=3)) == 8


# ---------------------------------------------------------------------------------------------------- properties

CONFIGS = (LLAMA_8B, LLAMA_70B, DEEPSEEK_V3, GEMMA3_27B, QWEN35_35B, GPT_OSS_120B)
RELEASES = (
    None,
    "0.4.2",
    "0.6.3",
    "0.8.5",
    "0.9.1",
    "0.10.2",
    "0.11.0",
    "0.15.0",
    "0.19.0",
    "0.20.0",
    "0.27.1",
    "0.33.0",
)
ARGUMENTS: Mapping[str, st.SearchStrategy[Any]] = {
    "tensor_parallel_size": st.sampled_from([1, 2, 4, 8]),
    "pipeline_parallel_size": st.sampled_from([1, 2, 3]),
    "data_parallel_size": st.sampled_from([1, 2]),
    "enable_expert_parallel": st.booleans(),
    "max_model_len": st.sampled_from([-1, 1, 2048, 8192, 131072, 10**6]),
    "max_num_seqs": st.sampled_from([1, 16, 256, 1024]),
    "max_num_batched_tokens": st.sampled_from([512, 2048, 8192, 65536]),
    "gpu_memory_utilization": st.floats(0.05, 1.2),
    "kv_cache_dtype": st.sampled_from(["auto", "fp8", "bfloat16", "nvfp4", "int8_per_token_head"]),
    "enforce_eager": st.booleans(),
    "quantization": st.sampled_from(["fp8", "awq", "bitsandbytes"]),
    "cpu_offload_gb": st.sampled_from([0.0, 4.0, 100.0]),
    "enable_lora": st.booleans(),
    "kv_cache_memory_bytes": st.sampled_from([2**28, 2**33]),
    "speculative_config": st.sampled_from(
        [{"method": "mtp", "num_speculative_tokens": 2}, {"model": "a/draft"}, {"method": "ngram"}, "odd"]
    ),
    "kv_offloading_size": st.sampled_from([8.0]),
    "load_format": st.sampled_from(["auto", "pt", "runai_streamer", "dummy"]),
}
arguments = st.fixed_dictionaries({}, optional=dict(ARGUMENTS))


def lines(found: MemoryPlan) -> list[tuple[str, Estimate]]:
    """Every line of both ledgers."""
    host = [] if found.host is None else [*found.host.lines, *_sums(found.host)]
    return host + ([] if found.gpu is None else [*found.gpu.amounts.items(), *_loading(found.gpu)])


def _loading(ledger: GpuLedger) -> list[tuple[str, Estimate]]:
    return [] if ledger.loading is None else [("loading", ledger.loading)]


def _sums(ledger: HostLedger) -> list[tuple[str, Estimate]]:
    values = [(name, getattr(ledger, name)) for name in ledger._fields]
    return [(name, value) for name, value in values if isinstance(value, Estimate)]


@pytest.mark.parametrize("config", [LLAMA_8B, DEEPSEEK_V3])
@pytest.mark.parametrize(
    "dest", ["tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "max_model_len", "max_num_seqs"]
)
def test_absurd_numbers_are_planned_at_once(config: Mapping[str, Any], dest: str) -> None:
    """No list of so many stages is made, and no division overflows."""
    for number in (10**12, 10**400):
        found = plan(engine("0.10.0", **{dest: number}), model(**config), on(H100))
        assert found.verdict in ("fits", "unsure", "does-not-fit")
        assert found.why


@pytest.mark.parametrize(
    ("release", "read"), [("0.10.2", True), ("0.13.0", True), ("0.14.1", True), ("0.15.0", False), ("0.21.0", False)]
)
def test_the_variable_of_the_attention_backend_counts_where_it_is_read(release: str, *, read: bool) -> None:
    def non_torch_of(env: Mapping[str, str], **given_: object) -> Estimate:
        ledger = plan(engine(release, **given_), model(), on(H100), env=env).gpu
        assert ledger is not None
        return ledger.amount("non_torch")

    usual, named = non_torch_of({}), non_torch_of({"VLLM_ATTENTION_BACKEND": "FLASHINFER"})
    assert (named.likely > usual.likely) is read
    assert non_torch_of({}, attention_backend="FLASHINFER").likely > usual.likely
    assert non_torch_of({"VLLM_ATTENTION_BACKEND": "FLASHINFER"}, attention_backend="TRITON_ATTN") == usual


@pytest.mark.parametrize(
    ("given_", "env"),
    [
        ({"api_server_count": 10**400}, {}),
        ({"load_format": "runai_streamer"}, {"RUNAI_STREAMER_MEMORY_LIMIT": "9" * 5000}),
        ({"tensor_parallel_size": 2}, {"VLLM_PP_LAYER_PARTITION": "9" * 5000}),
        (
            {
                "kv_transfer_config": {
                    "kv_connector": "OffloadingConnector",
                    "kv_connector_extra_config": {"cpu_bytes_to_use": 10**400},
                }
            },
            {},
        ),
    ],
)
def test_absurd_numbers_elsewhere_are_planned_too(given_: Mapping[str, Any], env: Mapping[str, str]) -> None:
    found = plan(engine("0.20.0", **given_), model(), on(H100), env=env)
    assert found.host is not None
    assert found.why


MODELS = [model(**config) for config in CONFIGS]
"""Made once: what is remembered of a model is remembered by which it is."""
REMEMBERING = (activations, kv_cache, non_torch, quantisation, ranks, shape, startup, weights)


@given(
    st.sampled_from(MODELS), st.sampled_from(RELEASES), st.lists(arguments, min_size=2, max_size=4),
    st.sampled_from([T4, L4, A100_80, H100]),
)  # fmt: skip
def test_what_is_remembered_of_one_plan_changes_no_other(
    served: Model, release: str | None, several: list[Mapping[str, Any]], card: Gpu
) -> None:
    """Lines are remembered by what they hang on: with nothing remembered each plan is the same."""
    warm = [plan(engine(release, **one), served, on(card)) for one in several]
    for one, found in zip(several, warm, strict=True):
        for module in REMEMBERING:
            for function in vars(module).values():
                getattr(function, "cache_clear", bool)()
        assert _told(plan(engine(release, **one), served, on(card))) == _told(found)


def _told(found: MemoryPlan) -> list[Any]:
    """All that a plan says."""
    derived = [name for name, value in vars(GpuLedger).items() if isinstance(value, property) and name[0] != "_"]
    gpu = found.gpu and [found.gpu.loading, *(getattr(found.gpu, name) for name in derived)]
    return [gpu, found.verdict, found.why, found.cause, found.host, found.startup, found.checkpoint]


@given(st.sampled_from(CONFIGS), st.sampled_from(RELEASES), arguments, st.sampled_from([T4, L4, A100_80, H100]))
def test_every_line_is_ordered(
    config: Mapping[str, Any], release: str | None, given_: Mapping[str, Any], card: Gpu
) -> None:
    """floor ≤ low ≤ likely ≤ high; of the KV cache, which is what is left, the floor is the most."""
    found = plan(engine(release, **given_), model(**config), on(card))
    for name, line in lines(found):
        assert line.low <= line.likely <= line.high, name
        assert line.floor >= line.high if name == "kv_cache" else line.floor <= line.low, name
    assert found.startup is not None
    assert found.startup.floor <= found.startup.low <= found.startup.likely <= found.startup.high


@given(st.sampled_from(CONFIGS), st.sampled_from(RELEASES), arguments, st.integers(8, 200), st.integers(1, 64))
def test_more_memory_never_turns_a_fit_into_a_refusal(
    config: Mapping[str, Any], release: str | None, given_: Mapping[str, Any], gib: int, more: int
) -> None:
    args = engine(release, **{"max_num_seqs": 256, "max_num_batched_tokens": 8192, **given_})
    small, large = (plan(args, model(**config), on(gpu(size))).verdict for size in (gib, gib + more))
    assert (small, large) != ("fits", "does-not-fit")


@given(st.sampled_from(CONFIGS), st.sampled_from(RELEASES), arguments, st.integers(1, 300_000), st.integers(1, 300_000))
def test_a_shorter_context_never_turns_a_fit_into_a_refusal(
    config: Mapping[str, Any], release: str | None, given_: Mapping[str, Any], one: int, other: int
) -> None:
    short, long = sorted((one, other))
    shorter = plan(engine(release, **{**given_, "max_model_len": short}), model(**config), on(H100)).verdict
    longer = plan(engine(release, **{**given_, "max_model_len": long}), model(**config), on(H100)).verdict
    assert (longer, shorter) != ("fits", "does-not-fit")


@given(st.sampled_from(CONFIGS), st.sampled_from(RELEASES), arguments, st.integers(1, 2000), st.integers(1, 2000))
def test_fewer_sequences_never_turn_a_fit_into_a_refusal(
    config: Mapping[str, Any], release: str | None, given_: Mapping[str, Any], one: int, other: int
) -> None:
    few, many = sorted((one, other))
    fewer = plan(engine(release, **{**given_, "max_num_seqs": few}), model(**config), on(L4)).verdict
    more = plan(engine(release, **{**given_, "max_num_seqs": many}), model(**config), on(L4)).verdict
    assert (more, fewer) != ("fits", "does-not-fit")


odd = (
    st.none() | st.booleans() | st.integers(-5, 200_000) | st.text(max_size=8) | st.lists(st.integers(0, 3), max_size=3)
)


@given(st.dictionaries(st.sampled_from(sorted({key for config in CONFIGS for key in config})), odd), st.data())
def test_odd_configs_are_planned_or_unsure_but_never_raise(config: dict[str, Any], data: st.DataObject) -> None:
    """A config.json from a stranger: any key may hold anything."""
    base = data.draw(st.sampled_from([{}, *CONFIGS]))
    release = data.draw(st.sampled_from(RELEASES))
    assert plan(engine(release), model(**{**base, **config}), on(L4)).verdict in ("fits", "unsure", "does-not-fit")


@given(st.dictionaries(st.sampled_from([*ARGUMENTS, "block_size", "nnodes", "dtype", "swap_space"]), odd))
def test_odd_arguments_never_raise(given_: dict[str, Any]) -> None:
    assert plan(engine("0.33.0", **given_), model(), on(L4)).verdict in ("fits", "unsure", "does-not-fit")


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan"), 1e300])
def test_a_utilization_that_is_no_share_is_planned_as_the_default(value: float) -> None:
    """`invalid-flag-value` reports it; the other lines of the ledger are still worth reading."""
    usual = plan(engine(max_model_len=8192), model(**LLAMA_8B), on(L4))
    odd = plan(engine(max_model_len=8192, gpu_memory_utilization=value), model(**LLAMA_8B), on(L4))

    assert _told(odd) == _told(usual)


UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
AMOUNT = re.compile(r"([\d.]+) (B|[KMGT]iB)")


@given(
    release=st.sampled_from(("0.5.4", "0.6.6", "0.8.5", "0.10.2", "0.17.1", "0.19.0", "0.20.2", "0.27.1", "0.33.0")),
    gib=st.sampled_from((14.56, 22.03, 44.3, 79.2, 139.7)),
    share=st.sampled_from((0.5, 0.8, 0.9, 0.95)),
    seqs=st.sampled_from((16, 256, 1024)),
    eager=st.booleans(),
    estimated=st.sampled_from((None, "0", "1")),
)
def test_the_printed_parts_sum_to_the_printed_rest(
    release: str, gib: float, share: float, seqs: int, eager: bool, estimated: str | None
) -> None:
    """In every generation, whether or not the budget pays for the CUDA graphs."""
    args = engine(release, gpu_memory_utilization=share, max_num_seqs=seqs, enforce_eager=eager, max_model_len=4096)
    env = {} if estimated is None else {"VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS": estimated}
    ledger = plan(args, model(), on(gpu(gib)), env=env).gpu
    assert ledger is not None
    told = subtraction(ledger)
    sizes = [(float(number) * UNITS[unit], UNITS[unit]) for number, unit in AMOUNT.findall(told)]
    (budget, _), *parts, (rest, _) = sizes
    rest = -rest if "short by" in told else rest
    rounding = sum(0.05 * unit for _, unit in sizes)
    assert abs(budget - sum(size for size, _ in parts) - rest) <= rounding + 1
    assert ("CUDA graphs" in told) == (ledger.graphs_charged and not eager)
    assert "otherwise" not in told


def test_an_override_of_the_blocks_is_named_as_the_reason() -> None:
    told = plan(engine("0.27.1", num_gpu_blocks_override=500), model(), on(gpu(79.2))).why
    assert told.startswith("--num-gpu-blocks-override 500 sets the size of the KV cache")
    assert "laid out" not in told


def test_weights_that_exceed_the_gpu_are_told_as_the_finding_tells_them() -> None:
    found = plan(engine("0.27.1"), model(), on(gpu(12.0, high=12.5)))
    assert found.gpu is not None
    assert found.verdict == "does-not-fit"
    assert f"weights {human(found.gpu.weights.likely)} (at least " in found.why
    assert "exceed the GPU's 12 GiB (at most 12.5 GiB)" in found.why


def test_the_buffers_of_experts_stay_while_vllm_samples_from_0_14() -> None:
    """Printed for an MoE of Qwen3-30B's shape and 8,192 tokens: 0.5 GiB more on 0.14.1 than on 0.13."""
    config: dict[str, Any] = {
        "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "num_experts": 128,
        "num_experts_per_tok": 8, "moe_intermediate_size": 768, "hidden_size": 2048, "vocab_size": 151936,
    }  # fmt: skip
    before, after = (
        plan(engine(release, max_model_len=8192), model(**config), on(gpu(141))).gpu for release in ("0.13.0", "0.14.1")
    )
    assert before is not None
    assert after is not None
    assert (after.activations.likely - before.activations.likely) / 2**30 == pytest.approx(0.5, abs=0.02)


def test_residual_streams_of_deepseek_v4_are_mixed_by_pytorch_up_to_0_21() -> None:
    """A batch of 8,192 tokens, four streams of 7,168 elements: four sets in 32 bits and one in 16 are 3.9 GiB."""

    def peak(release: str) -> Estimate:
        """The activations with this release."""
        args = engine(release, tensor_parallel_size=8, max_model_len=8192, max_num_seqs=8, max_num_batched_tokens=8192)
        found = plan(args, model(**DEEPSEEK_V4_PRO), on(gpu(200), count=8)).gpu
        assert found is not None
        return found.activations

    before, since = peak("0.21.0"), peak("0.22.0")
    assert (before.likely - since.likely) / 2**30 == pytest.approx(3.9, abs=0.1)
    assert before.high - since.high > 3.9 * 2**30
    assert (before.floor, before.low) == (since.floor, since.low)


def test_the_peak_of_a_long_video_varies_by_gigabytes() -> None:
    """Qwen3.6-35B-A3B over 4 A100s with 256 sequences: the KV caches of 17 start-ups meant peaks of 1.4 to 5.7 GiB."""
    given = {"tensor_parallel_size": 4, "max_model_len": 262144, "max_num_seqs": 256}
    found = plan(engine("0.27.0", **given), model(**QWEN35_35B, vision_config={"depth": 27}), on(A100_40, count=4)).gpu
    assert found is not None
    assert found.activations.low < 1.4 * 2**30
    assert 5.7 * 2**30 < found.activations.high < 6.7 * 2**30
