"""Every row of the packaged tables is usable: properties that hold for all of them."""

from __future__ import annotations

import re

import pytest

from podfit.base import data
from podfit.vllm import gpu, model
from podfit.vllm.facts import GivenModel
from podfit.vllm.memory import shape, tower
from podfit.vllm.model import by_id, catalogue, given_model
from podfit.vllm.release import Release
from scripts.facts.settle import scaled_lengths

MODELS = data.load("models")["models"]
ALIASES = data.load("models")["aliases"]
SOURCES = data.load("models")["sources"]
PRODUCTS = {row["name"]: row for row in data.load("gpus")["products"]}
AMBIGUOUS = data.load("gpus")["ambiguous"]
INSTANCES = data.load("instances")["instance_types"]
RELEASES = [None, Release(0, 6, 3), Release(0, 11), Release(0, 29), Release(0, 33)]


def known(name: str) -> model.Model:
    found = model.by_id(name)
    assert found is not None, name
    return found.value


def test_every_row_is_a_model_of_positive_sizes_with_a_source() -> None:
    for name, row in MODELS.items():
        found = model.by_id(name)
        assert found is not None, name
        shape = found.value
        assert shape.id == name
        assert found.may_deny == row["trusted"]
        assert found.source
        assert SOURCES[row["source"]]
        assert model.source(name) == SOURCES[row["source"]]
        sizes = [shape.num_hidden_layers, shape.hidden_size, shape.num_attention_heads, shape.num_key_value_heads,
                 shape.head_dim, shape.intermediate_size, shape.vocab_size, shape.max_position_embeddings,
                 shape.sliding_window, shape.num_experts, shape.parameters, shape.weights_bytes]  # fmt: skip
        assert all(size is None or size > 0 for size in sizes), (name, sizes)
        assert len(shape.layer_types) in (0, shape.num_hidden_layers), name
        assert row["trusted"] or row.get("doubts"), name


def test_a_trusted_row_has_the_whole_shape() -> None:
    for name, row in MODELS.items():
        shape = known(name)
        if row["trusted"]:
            wanted = [shape.num_hidden_layers, shape.hidden_size, shape.vocab_size, shape.max_position_embeddings]
            if set(shape.layer_types) != {"mamba"}:
                wanted += [shape.num_attention_heads, shape.head_dim, shape.num_key_value_heads]
            assert None not in wanted, (name, wanted)


def test_every_length_that_vllm_would_derive_is_plausible() -> None:
    for name in MODELS:
        for release in RELEASES:
            length = model.derived_max_model_len(known(name), release)
            longest = model.longest_max_model_len(known(name), release)
            assert length is None or 64 <= length <= 1 << 26, (name, release, length)
            assert length is None or longest is None or length <= longest, (name, release)


def test_no_language_model_has_a_length_that_a_compiler_cut_to_its_own() -> None:
    encoders = {"bert", "roberta", "xlm-roberta", "whisper", "gpt2", "mpnet"}
    for name in MODELS:
        length = model.derived_max_model_len(known(name), Release(0, 33))
        assert length is None or length >= 2048 or known(name).model_type in encoders, (name, length)


def test_every_alias_names_a_row_and_no_row() -> None:
    rows = {name.lower() for name in MODELS}
    for alias, name in ALIASES.items():
        assert name in MODELS
        assert alias == alias.lower()
        assert alias not in rows
        assert known(alias.upper()).id == name


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("deepseek-ai/DeepSeek-R1-0528", "fp8"), ("deepseek-ai/DeepSeek-V3-0324", "fp8"),
        ("deepseek-ai/DeepSeek-V3.1-Terminus", "fp8"), ("deepseek-ai/DeepSeek-V3.2-Exp", "fp8"),
        ("moonshotai/Kimi-K2-Instruct-0905", "fp8"), ("moonshotai/Kimi-K2-Thinking", "compressed-tensors"),
        ("MiniMaxAI/MiniMax-M2", "fp8"), ("unsloth/gpt-oss-20b", "mxfp4"), ("RedHatAI/gpt-oss-120b", "mxfp4"),
        ("microsoft/MAI-DS-R1", None), ("unsloth/gpt-oss-20b-BF16", None), ("Qwen/Qwen3.5-122B-A10B", None),
        ("deepseek-ai/DeepSeek-V2.5", None), ("zai-org/GLM-4.6", None),
    ],
)  # fmt: skip
def test_what_its_makers_store_quantised_is_known_to_be(name: str, method: str | None) -> None:
    assert (known(name).quantization_config or {}).get("quant_method") == method


@pytest.mark.parametrize(
    ("name", "method", "guessed"),
    [
        ("zai-org/GLM-4.6-FP8", "compressed-tensors", False),  # a correction with a source
        ("zai-org/GLM-4.5-Air-FP8", "compressed-tensors", False),
        ("MiniMaxAI/MiniMax-M3-MXFP8", "mxfp8", False),
        ("Qwen/Qwen3-8B-FP8", "fp8", False),  # as the files of other sizes
        ("Qwen/Qwen3-32B-FP8", "fp8", False),  # its own file
        ("unsloth/GLM-4.7-Flash-FP8-Dynamic", "compressed-tensors", True),
        ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4", "gptq", True),
    ],
)
def test_a_scheme_that_only_an_id_tells_is_marked(name: str, method: str, guessed: bool) -> None:
    found = catalogue.model_of_row(name)

    assert (found.quantization_config or {})["quant_method"] == method
    assert found.scheme_guessed is guessed


def test_a_doubtful_sibling_of_quantised_models_only_informs() -> None:
    found = model.by_id("mistralai/Mistral-Large-3-675B-Instruct-2512")

    assert found is not None
    assert not found.may_deny
    assert "siblings" in found.source


def test_no_more_rows_are_doubtful() -> None:
    """Lower the numbers when rows are proved; a new row comes with its config.json."""
    doubts = [row["doubts"] for row in MODELS.values() if not row["trusted"]]
    unread = sum(doubt == "its config.json was not read" for doubt in doubts)

    defaults = sum(doubt == "its sizes are Transformers' defaults" for doubt in doubts)

    assert len(doubts) - unread - defaults <= 362
    assert unread <= 54
    assert defaults <= 3


@pytest.mark.parametrize(
    ("name", "billions", "trusted"),
    [
        ("inclusionAI/Ling-lite-1.5", 16.8, False),  # no counted model of its family
        ("Qwen/Qwen3-ASR-1.7B", 2.03, False),  # the encoder of sound included
        ("PaddlePaddle/PaddleOCR-VL", 0.9, False),
        ("nomic-ai/nomic-embed-text-v1.5", 0.137, False),
    ],
)
def test_sizes_of_rows_without_a_count_are_those_that_their_makers_name(
    name: str, billions: float, trusted: bool
) -> None:
    found = model.by_id(name)

    assert found is not None
    assert found.may_deny is trusted
    counted = shape.of(found.value)
    assert counted is not None
    assert (counted.elements + tower.parameters(found.value)) / 1e9 == pytest.approx(billions, rel=0.03)


def test_every_relative_names_a_row_and_informs_only() -> None:
    for name, (written, base, _) in catalogue.relatives().items():
        found = model.by_id(written)
        assert found is not None, name
        assert base in MODELS, (name, base)
        assert not found.may_deny
        assert found.value.id == written
        assert found.value.num_hidden_layers == known(base).num_hidden_layers


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("THUDM/GLM-4-32B-0414", "zai-org/GLM-4-32B-0414"), ("CohereForAI/aya-23-8B", "CohereLabs/aya-23-8B"),
        ("neuralmagic/Meta-Llama-3.1-8B-Instruct-FP8", "RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8"),
        ("unsloth/Qwen3-14B", "Qwen/Qwen3-14B"),
        ("RedHatAI/granite-3.1-8b-instruct", "ibm-granite/granite-3.1-8b-instruct"),
    ],
)  # fmt: skip
def test_an_old_owner_and_a_mirror_are_their_originals(name: str, row: str) -> None:
    found, original = model.by_id(name), model.by_id(row)

    assert found is not None
    assert original is not None
    assert found.may_deny == original.may_deny
    assert found.value.weights_bytes == original.value.weights_bytes
    assert found.value.num_hidden_layers == original.value.num_hidden_layers


def test_the_catalogue_holds_what_people_serve_most() -> None:
    for name in ("meta-llama/Llama-3.1-8B-Instruct", "Qwen/Qwen2.5-7B-Instruct", "deepseek-ai/DeepSeek-R1",
                 "openai/gpt-oss-120b", "mistralai/Mistral-7B-Instruct-v0.3", "Qwen/Qwen3-30B-A3B"):  # fmt: skip
        found = model.by_id(name)
        assert found is not None
        assert found.may_deny


def test_memory_is_never_above_the_largest_ever_seen() -> None:
    for product in gpu.all_products():
        assert 0 < product.memory <= product.memory_high, product.name
        for profile in PRODUCTS[product.name].get("mig", ()):
            assert 0 < profile["memory"] <= profile["memory_high"] <= product.memory_high, (product.name, profile)


def test_every_product_has_a_source_a_confidence_and_a_name() -> None:
    for name, row in PRODUCTS.items():
        assert row["source"], name
        assert row["confidence"] in ("high", "medium", "low"), name
        assert any(row["names"].values()), name


@pytest.mark.parametrize("place", sorted({place for row in PRODUCTS.values() for place in row["names"]}))
def test_every_name_means_its_product_where_it_is_used(place: str) -> None:
    for product, row in PRODUCTS.items():
        for name in row["names"].get(place, ()):
            found = [one.name for one in gpu.by_name(name, (place,))]
            assert product in found, (name, found)
            assert len(found) == 1 or name.lower() in AMBIGUOUS or place == "other", (name, found)


@pytest.mark.parametrize("suffix", ["", "-SHARED"])
def test_every_gfd_label_means_the_products_that_carry_it_and_no_others(suffix: str) -> None:
    owners: dict[str, set[str]] = {}
    for product, row in PRODUCTS.items():
        for label in row["names"].get("gfd", ()):
            owners.setdefault(label, set()).add(product)
    for label, products in owners.items():
        assert {one.name for one in gpu.by_name(label + suffix, ("gfd",))} == products, label
        assert len(products) == 1 or set(AMBIGUOUS[label.lower()]) == products, label


def test_every_mig_profile_is_a_slice_of_its_card() -> None:
    for product, row in PRODUCTS.items():
        for label in row["names"].get("gfd", ())[:1] if row.get("mig") else ():
            for profile in row["mig"]:
                found = gpu.by_name(f"{label}-MIG-{profile['profile']}", ("gfd",))
                assert [one.name for one in found] == [f"{product} MIG {profile['profile']}"]
                assert found[0].memory == profile["memory"]


def test_every_machine_type_has_a_known_card_or_none() -> None:
    unknown = {row["gpu"] for row in INSTANCES.values()} - set(PRODUCTS)
    assert unknown <= {"Qualcomm AI100"}
    assert all(row.get("host_ram_gib", 1) > 0 and row["source"] for row in INSTANCES.values())


def test_defaults_are_of_language_models_and_never_of_lengths_by_themselves() -> None:
    for model_type, row in data.load("model_defaults")["model_types"].items():
        assert re.fullmatch(r"[\w.-]+", model_type)
        assert {"hidden_size", "d_model", "n_embd", "n_layers", "decoder_layers"} & set(row), model_type


def test_a_length_that_only_a_table_tells_may_be_several_times_the_true_one() -> None:
    table, file = ["llmfit 1.1.17 hf_models table"], ["owner/repository:config.json"]

    def row(name: str, source: list[str], family: str, length: int) -> dict[str, object]:
        return {"id": name, "source": source, "config": {"model_type": family, "max_position_embeddings": length}}

    rows = [
        row("read", file, "gemma3", 131_072),
        row("eight times as long", table, "gemma3_text", 1_048_576),
        row("as long as one that was read", table, "gemma3", 131_072),
        row("no power of two", table, "apertus", 200_000),
        row("nothing to compare with", table, "apertus", 65_536),
        row("MiniMaxAI/MiniMax-M3", file, "minimax_m3", 1_048_576),
    ]

    assert scaled_lengths(rows) == {"eight times as long", "nothing to compare with", "MiniMaxAI/MiniMax-M3"}


@pytest.mark.parametrize(
    ("name", "method", "heads", "tokens"),
    [
        ("mistralai/Mistral-Medium-3.5-128B", "fp8", 8, 262144),
        ("XiaomiMiMo/MiMo-V2.5", "fp8", 4, 1048576), ("XiaomiMiMo/MiMo-V2.5-Pro", "fp8", 8, 1048576),
        ("stepfun-ai/Step-3.5-Flash", None, 8, 262144), ("stepfun-ai/Step-3.5-Flash-FP8", "fp8", 8, 262144),
        ("meta-llama/Llama-2-70b-chat-hf", None, 8, 4096),
    ],
)  # fmt: skip
def test_what_a_table_left_out_is_corrected_from_a_source(
    name: str, method: str | None, heads: int, tokens: int
) -> None:
    found = known(name)

    assert (found.quantization_config or {}).get("quant_method") == method
    assert (found.num_key_value_heads, found.max_position_embeddings) == (heads, tokens)


def test_a_bare_config_has_the_doubts_of_its_catalog_entry() -> None:
    """A config.json without sizes proves no more of its formulas than the catalog does."""
    unconfirmed = next(
        name for name in catalogue.ids() if (fact := by_id(name)) is not None and not fact.value.sizes_confirmed
    )
    known = by_id(unconfirmed)
    assert known is not None

    given = given_model(known.value.id, GivenModel(known.value.config, "a file"))

    assert given.sizes_confirmed is False


@pytest.mark.parametrize("name", ["acme/tiny", "acme/chat", "models/small", "/models/nemo"])
def test_one_word_without_a_number_names_no_model(name: str) -> None:
    assert model.model_of_name(name) is None
