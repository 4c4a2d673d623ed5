"""The oracle's command lines: the same for the same seed, of options that the release has."""

from __future__ import annotations

import pytest

from oracle.cases import BUILT, GPUS, MODELS, PLAIN, REQUIRING, VALUES, completed, configs, flags, generate, kinds
from podfit.vllm.args.flags import builtin
from podfit.vllm.release import Release

NEWEST = max(builtin().releases)


def test_the_same_seed_makes_the_same_cases() -> None:
    first, again, other = (list(generate(NEWEST, GPUS[0], seed, 10)) for seed in (1, 1, 2))
    assert first == again
    assert first != other


@pytest.mark.parametrize("release", [Release(0, 8), Release(0, 11), NEWEST])
def test_cases_use_options_of_the_release(release: Release) -> None:
    cases = [case for case in generate(release, GPUS[0], 1, 30) if case.stage != "parse"]
    written = {word for case in cases for word in case.arguments if word.startswith("--")}
    assert written
    assert written <= set(flags(release))


def test_each_stage_has_as_many_cases() -> None:
    cases = list(generate(NEWEST, GPUS[0], 1, 5))
    assert [case.stage for case in cases] == ["parse"] * 5 + ["config"] * 5 + ["kv"] * 5
    assert all((case.kv_cache_memory_bytes is not None) == (case.stage == "kv") for case in cases)


def test_the_newest_release_has_most_of_the_options() -> None:
    assert len(set(VALUES) & set(flags(NEWEST))) >= 0.75 * len(VALUES)
    assert set(VALUES) <= set().union(*map(flags, builtin().releases))
    assert set(PLAIN) <= set(VALUES)


def test_each_model_is_in_the_catalog_with_its_architecture() -> None:
    found = configs()
    assert list(found) == list(dict.fromkeys((*MODELS, *BUILT, *REQUIRING)))
    assert all(found[name]["architectures"] for name in MODELS)


@pytest.mark.parametrize(
    ("model", "counts"),
    [
        ("Qwen/Qwen2.5-7B-Instruct", {"full_attention": 28}),
        ("google/gemma-2-9b-it", {"sliding_attention": 21, "full_attention": 21}),
        ("google/gemma-3-27b-it", {"sliding_attention": 52, "full_attention": 10}),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", {"linear_attention": 36, "full_attention": 12}),
        ("ibm-granite/granite-4.0-h-small", {"mamba": 36, "attention": 4}),
        ("deepseek-ai/DeepSeek-V3", None),
    ],
)
def test_kinds_of_layers(model: str, counts: dict[str, int] | None) -> None:
    found = kinds(configs()[model])
    assert (None if found is None else {kind: found.count(kind) for kind in found}) == counts


def test_layer_types_repeat_the_pattern() -> None:
    config = completed({"text_config": {"num_hidden_layers": 5, "layer_pattern": ["a", "b"]}})
    assert config == {"text_config": {"num_hidden_layers": 5, "layer_types": ["a", "b", "a", "b", "a"]}}


def test_long_rope_has_a_factor_per_pair() -> None:
    config = {"rope_scaling": {"type": "longrope"}, "hidden_size": 64, "num_attention_heads": 4}
    ones = [1.0] * 8
    assert completed(config)["rope_scaling"] == {"type": "longrope", "short_factor": ones, "long_factor": ones}
