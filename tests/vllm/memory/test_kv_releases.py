"""The KV cache by release, compared with the answers of vLLM's own code.

`kv_answers.jsonl`: answers of the unmodified KV-cache code of 29 releases for the shapes below on a CPU: whether
the engine starts with this memory. Also what it prints, and the longest request that it suggests.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from podfit.kube.quantity import GI
from podfit.vllm.memory import kv_cache, kv_releases, kv_specs, settings
from podfit.vllm.memory.plan import plan
from podfit.vllm.model import Model
from podfit.vllm.model.config import from_config
from podfit.vllm.release import Release, parse
from tests.vllm.memory.engines import GPT_OSS_20B, GPT_OSS_120B, QWEN35_35B, engine, gpu, model, on

ANSWERS = [json.loads(line) for line in Path(__file__).with_name("kv_answers.jsonl").read_text().splitlines()]
KINDS = {
    "f": "full_attention", "w": "sliding_attention", "c": "chunked_attention", "l": "linear_attention",
    "a": "attention", "m": "mamba",
}  # fmt: skip
COMMON: Mapping[str, Any] = {
    "hidden_size": 2048, "num_attention_heads": 16, "intermediate_size": 8192, "vocab_size": 32000,
    "max_position_embeddings": 1 << 18, "torch_dtype": "bfloat16", "tie_word_embeddings": False,
}  # fmt: skip


def shape(kinds: str, heads: int, width: int, architecture: str, model_type: str, **config: Any) -> Model:
    """A model of these kinds of layers; without kinds of their own where all are alike."""
    own = {} if len(set(kinds)) == 1 else {"layer_types": [KINDS[one] for one in kinds]}
    return from_config(
        f"example/{model_type}",
        {
            **COMMON, **own, "num_hidden_layers": len(kinds), "num_key_value_heads": heads, "head_dim": width,
            "architectures": [architecture], "model_type": model_type, **config,
        },
    )  # fmt: skip


def windows(kinds: str, heads: int, width: int, window: int, **config: Any) -> Model:
    """Layers with and without a sliding window."""
    return shape(kinds, heads, width, "Gemma3ForCausalLM", "gemma3_text", sliding_window=window, **config)


def gemma4(kinds: str, heads: int, width: int, window: int, full_heads: int, full_width: int) -> Model:
    """Full layers have sizes of their own."""
    return shape(
        kinds, heads, width, "Gemma4ForCausalLM", "gemma4_text", sliding_window=window,
        num_global_key_value_heads=full_heads, global_head_dim=full_width,
    )  # fmt: skip


SHAPES = {
    "full": shape("f" * 20, 4, 128, "LlamaForCausalLM", "llama"),
    "window": shape("w" * 20, 4, 128, "MistralForCausalLM", "mistral", sliding_window=4096),
    "five-to-one": windows("wwwwwf" * 4 + "ww", 4, 128, 1024),
    "one-to-one": windows("wf" * 10, 8, 64, 128),
    "four-to-three": windows("wfwfwfw" * 3, 4, 128, 512),
    "wide-full": gemma4("wwwwwf" * 4, 8, 128, 1024, 4, 512),
    "odd-full": gemma4("wwwf" * 4, 2, 128, 512, 2, 192),
    "chunks": shape("cccf" * 4, 8, 128, "Llama4ForCausalLM", "llama4_text", attention_chunk_size=8192),
    "delta-net": shape(
        "lllf" * 4, 2, 128, "Qwen3NextForCausalLM", "qwen3_next", linear_num_key_heads=8, linear_num_value_heads=16,
        linear_key_head_dim=128, linear_value_head_dim=128, linear_conv_kernel_dim=4,
    ),
    "mamba2": shape(
        "mmmmammmmmma", 4, 128, "GraniteMoeHybridForCausalLM", "granitemoehybrid", mamba_expand=2, mamba_n_groups=1,
        mamba_n_heads=64, mamba_d_head=64, mamba_d_state=128, mamba_d_conv=4, mamba_chunk_size=256,
    ),
    "nemotron": shape(
        "f" * 17, 4, 128, "NemotronHForCausalLM", "nemotron_h", hybrid_override_pattern="M-M-M*-M-M-M*-M-M",
        attention_head_dim=128, expand=2, mamba_num_heads=32, mamba_head_dim=64, n_groups=8, ssm_state_size=128,
        conv_kernel=4, chunk_size=128,
    ),
    "mamba1": shape(
        "f" * 16, 4, 128, "JambaForCausalLM", "jamba", attn_layer_period=8, attn_layer_offset=4, mamba_expand=2,
        mamba_d_state=16, mamba_d_conv=4,
    ),
}  # fmt: skip
H100 = on(gpu(79.19, name="NVIDIA H100 80GB HBM3"), count=8)


@pytest.mark.parametrize(
    "answer", ANSWERS, ids=[f"{number} {one['release']} {one['shape']}" for number, one in enumerate(ANSWERS)]
)
def test_the_kv_cache_is_what_vllm_makes_of_it(answer: Mapping[str, Any]) -> None:
    """To the byte, the token and the hundredth; where vLLM can't lay the cache out, podfit may be unsure of it."""
    asked = engine(answer["release"], **answer["given"])
    found = plan(asked, SHAPES[answer["shape"]], H100, kv_cache_memory=answer["memory"])
    ledger = found.gpu
    assert ledger is not None
    assert ledger.kv_cache_bytes_per_request == answer["needed"]
    if answer["starts"]:
        tokens = ledger.kv_cache_tokens
        assert tokens is not None
        assert (found.verdict, tokens[1], ledger.max_concurrency) == ("fits", answer["tokens"], answer["concurrency"])
    else:
        assert found.verdict == "does-not-fit" or (found.verdict, found.cause) == ("unsure", "layout")
        if answer["longest"] is not None:
            assert ledger.estimated_max_model_len == answer["longest"]


def test_the_answers_are_of_every_behavior() -> None:
    """Each release in the table of behaviors has an answer from it or a later one, and one from before it."""
    there = sorted({parse(one["release"]) or Release(0, 0) for one in ANSWERS})
    behaviors = {value for value in vars(kv_releases).values() if isinstance(value, Release)}
    assert {one for one in behaviors if not there[0] < one <= there[-1]} == set()
    between = [sum(1 for one in there if one < behavior) for behavior in sorted(behaviors)]
    assert len(set(between)) == len(behaviors)  # no two behaviors begin between the same two releases


@pytest.mark.parametrize(
    ("release", "config", "on"),
    [
        ("0.21.0", {"kv_connector": "NixlConnector"}, False),
        ("0.22.0", {"kv_connector": "NixlConnector"}, True),
        ("0.33.0", {"kv_connector": "LMCacheConnectorV1"}, False),
        ("0.29.0", {"kv_connector": "MoRIIOConnector"}, False),
        ("0.30.0", {"kv_connector": "MoRIIOConnector"}, True),
        ("0.33.0", {"kv_connector": "Own", "kv_connector_module_path": "own.connector"}, None),
        (
            "0.33.0",
            {
                "kv_connector": "MultiConnector",
                "kv_connector_extra_config": {
                    "connectors": [{"kv_connector": "NixlConnector"}, {"kv_connector": "LMCacheConnectorV1"}]
                },
            },
            False,
        ),
    ],
)
def test_a_connector_that_supports_it_leaves_the_manager_on(release: str, config: Any, on: bool | None) -> None:
    assert resolved(release, kv_transfer_config=config).attention.manager is on


@pytest.mark.parametrize(
    ("release", "given", "on"),
    [
        ("0.9.0", {}, False),
        ("0.9.1", {}, True),
        ("0.9.1", {"disable_hybrid_kv_cache_manager": True}, False),
        ("0.19.1", {"kv_events_config": {"enable_kv_cache_events": True}}, False),
        ("0.20.0", {"kv_events_config": {"enable_kv_cache_events": True}}, True),
        ("0.12.0", {"disable_hybrid_kv_cache_manager": False, "kv_transfer_config": {"kv_connector": "X"}}, False),
        ("0.13.0", {"disable_hybrid_kv_cache_manager": False, "kv_transfer_config": {"kv_connector": "X"}}, True),
    ],
)
def test_the_hybrid_manager(release: str, given: Mapping[str, Any], on: bool) -> None:
    assert resolved(release, **given).attention.manager is on


@pytest.mark.parametrize(
    ("release", "variable", "given", "on"),
    [
        ("0.10.0", None, {}, True),
        ("0.10.1", None, {}, False),
        ("0.10.1", "1", {}, True),
        ("0.14.0", None, {}, True),
        ("0.14.0", "0", {}, False),
        ("0.33.0", None, {"speculative_config": {"method": "eagle", "model": "example/eagle"}}, False),
    ],
)
def test_chunks_may_switch_it_off(release: str, variable: str | None, given: Mapping[str, Any], on: bool) -> None:
    env = {"VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE": variable} if variable else {}
    assert resolved(release, SHAPES["chunks"], env, **given).attention.manager is on


def resolved(release: str, of: Model = SHAPES["one-to-one"], env: Mapping[str, str] = {}, **given: Any) -> Any:
    """The settings on an H100."""
    number = parse(release)
    assert number is not None
    return settings.resolve(engine(release, **given), of, gpu(79.19), 79 * GI, number, env).settings


def test_an_unknown_connector_makes_a_mixed_cache_unsure() -> None:
    """It may or may not switch the manager off: nothing is denied for it, and nothing surely fits."""
    own = {"kv_connector": "Own", "kv_connector_module_path": "own.connector", "kv_role": "kv_both"}
    asked = engine("0.33.0", max_model_len=131_072, kv_transfer_config=own)
    mixed = plan(asked, model(**GPT_OSS_120B), H100, kv_cache_memory=8 * GI)
    plain = plan(asked, SHAPES["full"], H100, kv_cache_memory=8 * GI)
    assert (mixed.verdict, plain.verdict) == ("unsure", "fits")


@pytest.mark.parametrize(
    ("release", "given", "states"),
    [
        ("0.27.1", {}, 1),
        ("0.28.0", {}, 2),
        ("0.28.0", {"enable_prefix_caching": False}, 1),
        ("0.32.0", {}, 2),
        ("0.33.0", {}, 3),
        ("0.33.0", {"speculative_config": {"method": "ngram", "num_speculative_tokens": 4}}, 7),
        ("0.14.0", {"speculative_config": {"method": "mtp", "num_speculative_tokens": 4}}, 1),
        ("0.15.0", {"speculative_config": {"method": "mtp", "num_speculative_tokens": 4}}, 5),
    ],
)
def test_states_of_a_request(release: str, given: Mapping[str, Any], states: int) -> None:
    found = kv_cache.layout(SHAPES["delta-net"], resolved(release, SHAPES["delta-net"], **given))
    assert found is not None
    assert {group.spec.states for group in found.groups if group.spec.is_state} == {states}


@pytest.mark.parametrize(
    ("release", "given", "mode"),
    [
        ("0.11.0", {"enable_prefix_caching": True}, "none"),
        ("0.11.1", {"enable_prefix_caching": True}, "all"),
        ("0.20.0", {"enable_prefix_caching": True, "speculative_config": {"method": "ngram"}}, "align"),
        ("0.27.1", {"enable_prefix_caching": True, "mamba_cache_mode": "align"}, "align"),
        ("0.28.0", {"mamba_cache_mode": "all"}, "all"),
        ("0.28.0", {}, "align"),
        ("0.32.0", {"mamba_cache_mode": "all"}, "align"),
    ],
)
def test_the_mode_of_state_caching(release: str, given: Mapping[str, Any], mode: str) -> None:
    of = SHAPES["mamba2"]
    assert kv_specs.state_mode(of, kv_specs.stored(resolved(release, of, **given))) == mode


@pytest.mark.parametrize(
    ("capability", "states", "block"),
    [
        pytest.param((9, 0), 3, 1088, id="Hopper: FlashInfer prefills, blocks of 64 tokens"),
        pytest.param((10, 0), 3, 1088, id="Blackwell"),
        pytest.param((8, 0), 2, 1056, id="Ampere: Triton"),
    ],
)
def test_gated_delta_nets_on_each_gpu(capability: tuple[int, int], states: int, block: int) -> None:
    """Qwen3.5 35B-A3B in 0.33 over one GPU."""
    number, of = parse("0.33.0"), model(**QWEN35_35B)
    assert number is not None
    card = gpu(79.19, capability=capability)
    found = kv_cache.layout(of, settings.resolve(engine(), of, card, 79 * GI, number, {}).settings)
    assert found is not None
    assert {(group.spec.states, found.groups[-1].spec.block_size) for group in found.groups[:-1]} == {(states, block)}


@pytest.mark.parametrize(
    ("release", "given", "batches"),
    [
        ("0.25.1", {}, 1),
        ("0.26.0", {}, 2),
        ("0.26.0", {"async_scheduling": False}, 1),
        ("0.26.0", {"runner": "pooling"}, 1),
        ("0.26.0", {"speculative_config": {"method": "ngram", "num_speculative_tokens": 2}}, 1),
        ("0.26.0", {"distributed_executor_backend": "ray"}, 1),
        ("0.26.0", {"pipeline_parallel_size": 2}, 2),
        ("0.29.0", {"pipeline_parallel_size": 2}, 3),
    ],
)
def test_windows_keep_the_batches_in_flight(release: str, given: Mapping[str, Any], batches: int) -> None:
    found = resolved(release, max_num_batched_tokens=1000, **given)
    assert kv_cache.in_flight(found) == batches * 1000


def test_states_without_the_manager_are_a_layout_that_vllm_refuses() -> None:
    asked = engine("0.27.1", disable_hybrid_kv_cache_manager=True, max_model_len=4096)
    found = plan(asked, SHAPES["mamba2"], H100, kv_cache_memory=70 * GI)
    assert (found.verdict, found.cause) == ("does-not-fit", "layout")
    assert found.why.startswith("vLLM 0.27.1 cannot lay out the KV cache: without the hybrid KV cache manager")


@pytest.mark.parametrize("release", ["0.11.0", "0.16.0", "0.33.0"])
def test_all_stages_use_as_many_blocks_as_the_one_with_the_fewest(release: str) -> None:
    """Four groups of three layers: a block takes three pages of 32 KiB on the first stage, and two on the second."""
    asked = engine(release, pipeline_parallel_size=2, max_model_len=4096)
    ledger = plan(asked, windows("fff" + "w" * 9, 4, 128, 512), H100, kv_cache_memory=120_000_000).gpu
    assert ledger is not None
    assert ledger.blocks == 120_000_000 // (3 * 32 * 1024)


PACKAGED = {"kv_connector": "LMCacheMPConnector", "kv_role": "kv_both"}


@pytest.mark.parametrize(
    ("release", "connector", "env", "manager"),
    [
        ("0.27.0", PACKAGED, {}, False),
        ("0.27.1", PACKAGED, {}, None),  # the lmcache package's class, if it is in the image
        ("0.27.1", PACKAGED, {"LMCACHE_USE_UPSTREAM_MP": "1"}, False),
        ("0.27.1", PACKAGED, {"LMCACHE_USE_UPSTREAM_MP": ""}, None),
        ("0.27.1", {"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"}, {}, False),
        ("0.27.1", {"kv_connector": "MultiConnector", "kv_connector_extra_config": {"connectors": [PACKAGED]}}, {},
         None),
    ],
)  # fmt: skip
def test_a_connector_of_another_package_may_leave_the_manager_on(
    release: str, connector: Mapping[str, Any], env: Mapping[str, str], manager: bool | None
) -> None:
    args = engine(release, kv_transfer_config=connector)
    running = args.release or Release(0, 27)
    resolved = settings.resolve(args, model(), gpu(79.19), 79 * GI, running, env)

    assert resolved.settings.attention.manager is manager


@pytest.mark.parametrize(
    ("release", "checks"), [("0.14.1", "part"), ("0.16.0", "part"), ("0.18.0", "part"), ("0.19.0", "all")]
)
def test_a_request_takes_the_blocks_of_all_groups_whatever_the_release_checks(release: str, checks: str) -> None:
    """gpt-oss: half of the layers keep a window of 128 tokens. vLLM 0.14 to 0.18 check the first group alone."""
    windowed = model(**GPT_OSS_20B)
    ledger = plan(engine(release, max_model_len=131_072), windowed, on(gpu(79.19))).gpu
    assert ledger is not None
    assert ledger.request_bytes is not None
    assert ledger.request_bytes / GI == pytest.approx(3.1, rel=0.05)
    assert (ledger.kv_cache_bytes_per_request == ledger.request_bytes) == (checks == "all")
    assert bool(ledger.checks_only) == (checks == "part")


def test_the_longest_request_finishes_with_the_memory_that_is_left() -> None:
    args = engine("0.14.1", max_model_len=131_072, kv_cache_memory_bytes=GI)
    ledger = plan(args, model(**GPT_OSS_20B), on(gpu(79.19))).gpu
    assert ledger is not None
    longest = ledger.longest_request or 0
    assert ledger.layout is not None

    assert ledger.estimated_max_model_len == 131_072
    assert (
        ledger.layout.bytes(longest, ledger.resolved.settings)
        <= GI
        < ledger.layout.bytes(longest + 17, ledger.resolved.settings)
    )
