"""Which model is served, its shape in config.json's words, and the context length that vLLM derives from it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.kube import workload
from podfit.vllm import model
from podfit.vllm.args import EngineArgs
from podfit.vllm.facts import Counted, Fact, Facts, GivenModel
from podfit.vllm.model import Model, from_config
from podfit.vllm.release import Release

LLAMA = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
    "max_position_embeddings": 8192, "torch_dtype": "bfloat16", "tie_word_embeddings": False,
}  # fmt: skip


def known(name: str) -> Model:
    found = model.by_id(name)
    assert found is not None
    return found.value


# -------------------------------------------------------------------------------------------- config.json → Model


def test_a_plain_config_is_read_as_it_stands() -> None:
    shape = from_config("mine", LLAMA)

    assert (shape.num_hidden_layers, shape.num_key_value_heads, shape.head_dim) == (32, 8, 128)
    assert (shape.torch_dtype, shape.tie_word_embeddings, shape.layer_types) == ("bfloat16", False, ())


def test_transformers_defaults_stand_where_config_json_is_silent() -> None:
    silent = from_config("mine", {"model_type": "mistral", "hidden_size": 4096, "num_hidden_layers": 32})
    windowless = from_config("mine", {"model_type": "mistral", "hidden_size": 4096, "sliding_window": None})

    assert (silent.num_key_value_heads, silent.sliding_window) == (8, 4096)
    assert windowless.sliding_window is None, "an explicit null is an answer"


def test_a_row_that_may_lack_a_null_gets_no_window_assumed() -> None:
    row = {"model_type": "mistral", "hidden_size": 4096, "num_hidden_layers": 32}

    assert from_config("mine", row, complete=False).sliding_window is None


def test_the_language_model_of_a_multimodal_config_is_what_counts() -> None:
    shape = from_config(
        "mine",
        {"model_type": "llava", "architectures": ["X"], "text_config": LLAMA, "vision_config": {"hidden_size": 1024}},
    )

    assert (shape.model_type, shape.config["model_type"]) == ("llava", "llama")
    assert (shape.hidden_size, shape.vision_config) == (4096, {"hidden_size": 1024})


@pytest.mark.parametrize(
    ("config", "field", "value"),
    [
        ({"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12}, "num_hidden_layers", 12),
        ({"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12}, "head_dim", 64),
        ({"model_type": "chatglm", "num_attention_heads": 32, "multi_query_group_num": 2}, "num_key_value_heads", 2),
        ({"model_type": "falcon", "num_attention_heads": 71, "multi_query": True, "new_decoder_architecture": False},
         "num_key_value_heads", 1),
        ({"model_type": "mpt", "n_heads": 32, "d_model": 4096, "attn_config": {"kv_n_heads": 8}},
         "num_key_value_heads", 8),
        ({"model_type": "opt", "hidden_size": 768, "ffn_dim": 3072}, "intermediate_size", 3072),
        ({"model_type": "mixtral", "num_local_experts": 8}, "num_experts", 8),
        ({"model_type": "deepseek_v3", "n_routed_experts": 256}, "num_experts", 256),
        ({"model_type": "llama", "num_local_experts": 1}, "num_experts", None),
        ({"model_type": "qwen2", "sliding_window": 4096, "use_sliding_window": False}, "sliding_window", None),
        ({"model_type": "gemma2", "hidden_size": 2304, "num_attention_heads": 8}, "head_dim", 256),
        ({"model_type": "qwen3_5", "dtype": "bfloat16"}, "torch_dtype", "bfloat16"),
        ({"model_type": "llama", "torch_dtype": "torch.float16"}, "torch_dtype", "float16"),
        ({"model_type": "qwen3_next", "num_hidden_layers": 4, "mtp_num_hidden_layers": 1},
         "num_nextn_predict_layers", 1),
    ],
)  # fmt: skip
def test_a_familys_own_words_become_config_jsons(config: dict[str, Any], field: str, value: object) -> None:
    assert getattr(from_config("mine", config), field) == value


@pytest.mark.parametrize(
    ("config", "kinds"),
    [
        ({"model_type": "gemma2", "num_hidden_layers": 4}, "sfsf"),
        ({"model_type": "gemma3_text", "num_hidden_layers": 8, "sliding_window": 512}, "sssssfss"),
        ({"model_type": "x", "num_hidden_layers": 3, "layer_types": ["mamba", "attention", "mamba"]}, "mfm"),
        ({"model_type": "x", "num_hidden_layers": 4, "full_attention_interval": 4}, "lllf"),
        ({"model_type": "nemotron_h", "num_hidden_layers": 4, "hybrid_override_pattern": "M-*E"}, "mpfe"),
        ({"model_type": "jamba", "num_hidden_layers": 4, "attn_layer_period": 4, "attn_layer_offset": 1}, "mfmm"),
        ({"model_type": "minimax_text_01", "num_hidden_layers": 2, "attn_type_list": [0, 1]}, "lf"),
        ({"model_type": "lfm2", "num_hidden_layers": 3, "full_attn_idxs": [1]}, "cfc"),
        ({"model_type": "qwen2", "num_hidden_layers": 3, "use_sliding_window": True, "sliding_window": 64,
          "max_window_layers": 1}, "fss"),
        ({"model_type": "llama", "num_hidden_layers": 2, "layer_types": ["full_attention"] * 2}, ""),
        ({"model_type": "llama", "num_hidden_layers": 2}, ""),
        ({"model_type": "x", "num_hidden_layers": 9, "layer_types": ["mamba"]}, ""),
    ],
)  # fmt: skip
def test_layers_are_of_the_kinds_that_config_json_says(config: dict[str, Any], kinds: str) -> None:
    letters = {"full_attention": "f", "sliding_attention": "s", "linear_attention": "l", "mamba": "m", "mlp": "p",
               "moe": "e", "conv": "c"}  # fmt: skip

    assert "".join(letters[kind] for kind in from_config("mine", config).layer_types) == kinds


def test_latent_attention_has_its_own_sizes() -> None:
    r1 = known("deepseek-ai/DeepSeek-R1")

    assert (r1.kv_lora_rank, r1.qk_rope_head_dim, r1.v_head_dim) == (512, 64, 128)
    assert (r1.num_experts, r1.n_shared_experts, r1.first_k_dense_replace) == (256, 1, 3)


VALUES = (
    st.none() | st.booleans() | st.integers(-5, 100) | st.text(max_size=5) | st.lists(st.integers(0, 3), max_size=3)
)


@given(st.dictionaries(st.sampled_from([*LLAMA, "text_config", "layer_types", "hybrid_override_pattern", "rope_scaling",
                                        "block_configs", "attn_config", "sliding_window", "quantization_config"]),
                       VALUES | st.dictionaries(st.sampled_from(list(LLAMA)), VALUES)))  # fmt: skip
def test_no_config_raises(config: dict[str, Any]) -> None:
    shape = from_config("mine", config)

    assert shape.num_hidden_layers is None or shape.num_hidden_layers > 0
    model.derived_max_model_len(shape, Release(0, 20))


# ------------------------------------------------------------------------------------------- how long a context is

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}


@pytest.mark.parametrize(
    ("changes", "release", "length"),
    [
        ({}, Release(0, 20), 8192),
        ({"rope_scaling": {"type": "linear", "factor": 4.0}}, Release(0, 20), 32768),
        ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, Release(0, 6), 16384),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}, "max_position_embeddings": 131072}, None, 131072),
        ({"rope_scaling": YARN, "max_position_embeddings": 32768}, Release(0, 29), 131072),
        ({"rope_scaling": YARN, "max_position_embeddings": 32768}, Release(0, 30), 32768),
        ({"rope_scaling": YARN, "max_position_embeddings": 32768}, None, None),
        ({"rope_scaling": YARN, "max_position_embeddings": 131072}, None, 131072),
        ({"seq_length": 2048}, Release(0, 20), 2048),
        ({"model_type": "gemma3_text", "rope_scaling": {"rope_type": "linear", "factor": 8.0}}, None, 8192),
        ({"model_type": "cohere", "model_max_length": 131072}, Release(0, 20), 131072),
        ({"max_position_embeddings": None}, Release(0, 20), None),
    ],
)
def test_the_length_is_derived_as_that_release_derives_it(
    changes: dict[str, Any], release: Release | None, length: int | None
) -> None:
    assert model.derived_max_model_len(from_config("mine", {**LLAMA, **changes}), release) == length


def test_longrope_models_default_to_their_short_length_but_take_the_long_one() -> None:
    phi = known("microsoft/Phi-3.5-mini-instruct")

    assert model.derived_max_model_len(phi, Release(0, 10)) == 131072
    assert model.derived_max_model_len(phi, Release(0, 11)) == 131072
    assert model.derived_max_model_len(phi, Release(0, 11, 1)) == 4096
    assert model.longest_max_model_len(phi, Release(0, 11)) == 131072


# --------------------------------------------------------------------------------------------- which model is served


def find(
    name: str | None, facts: Facts | None = None, *, obj: dict[str, Any] | None = None, **given_: Any
) -> Fact[Model] | None:
    pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "vllm"}]}}
    one = workload.find(obj or pod)[0]
    arguments = EngineArgs(release=None, given={**({"model": name} if name else {}), **given_})
    return model.find(arguments, one, one.containers[0], facts or Facts())


@pytest.mark.parametrize("name", ["Qwen/Qwen3-8B", "qwen/qwen3-8b"])
def test_an_id_of_the_catalogue_is_known_in_any_case_and_may_deny(name: str) -> None:
    found = find(name)

    assert found is not None
    assert (found.value.id, found.may_deny) == ("Qwen/Qwen3-8B", True)
    assert "built-in catalog" in found.source


def test_a_doubtful_row_only_informs() -> None:
    found = find("openbmb/MiniCPM-SALA")

    assert found is not None
    assert not found.may_deny
    assert "doubtful" in found.source


@pytest.mark.parametrize(
    "name",
    [
        "/models/Qwen3-8B", "/mnt/models/qwen3-8b/", "s3://bucket/models/Qwen/Qwen3-8B", "gs://Qwen/Qwen3-8B",
        "/data/huggingface/hub/models--Qwen--Qwen3-8B/snapshots/9c925d64d72725edaf899c6cb9c377fd0709d9c5",
        "pvc://models/Qwen3-8B/", "oci://registry.example.com/models/qwen3-8b:1.0", "./Qwen3-8B", "my-copies/Qwen3-8B",
        "/data/Qwen3-8B/1",
    ],
)  # fmt: skip
def test_a_path_that_ends_in_a_model_names_it_but_may_not_deny(name: str) -> None:
    found = find(name)

    assert found is not None
    assert found.value.hidden_size == known("Qwen/Qwen3-8B").hidden_size
    assert not found.may_deny


@pytest.mark.parametrize(
    ("name", "base", "method"),
    [
        ("someone/Qwen3-32B-AWQ-custom", "Qwen/Qwen3-32B", "awq"),
        ("someone/Llama-3.1-8B-Instruct-GPTQ-Int4", "meta-llama/Llama-3.1-8B-Instruct", "gptq"),
        ("someone/Qwen2.5-14B-Instruct.w4a16", "Qwen/Qwen2.5-14B-Instruct", "compressed-tensors"),
        ("/models/mistral-7b-instruct-v0.3-finetuned", "mistralai/Mistral-7B-Instruct-v0.3", None),
        ("/models/Qwen3-8B-Q4_K_M.gguf", "Qwen/Qwen3-8B", "gguf"),
        ("someone/Qwen3-8B-GGUF:Q8_0", "Qwen/Qwen3-8B", "gguf"),
    ],
)
def test_a_name_tells_its_base_and_its_quantisation(name: str, base: str, method: str | None) -> None:
    found = find(name)

    assert found is not None
    assert found.value.num_hidden_layers == known(base).num_hidden_layers
    assert (found.value.quantization_config or {}).get("quant_method") == method
    assert not found.may_deny
    if method:
        assert found.value.weights_bytes is None, "the base's bytes are not the copy's"


@pytest.mark.parametrize(
    "name", ["acme/Unheard-Of", "/models/deepseek", "model", "", "/", "Qwen3-8B-GGUF", "Unheard-Of-7B-exl2", "llama"]
)
def test_what_names_no_model_is_unknown(name: str) -> None:
    assert find(name) is None


@pytest.mark.parametrize(
    ("name", "parameters", "method"),
    [
        ("acme/Unheard-Of-7B", 7_000_000_000, None),
        ("acme/unheard-of-0.6b-chat", 600_000_000, None),
        ("/models/unheard_of_72b_awq", 72_000_000_000, "awq"),
        ("acme/Unheard-8x7B", 45_920_000_000, None),
        ("acme/Unheard-235B-A22B-FP8", 235_000_000_000, "fp8"),
        ("acme/unheard-1T-A32B", 1_000_000_000_000, None),
        ("acme/unheard-2B-4T", 2_000_000_000, None),
        ("acme/unheard-3.1-24b-w4a16", 24_000_000_000, "compressed-tensors"),
        ("acme/unheard-2-1_6b", 1_600_000_000, None),
    ],
)
def test_a_name_alone_tells_a_size_and_a_quantisation(name: str, parameters: int, method: str | None) -> None:
    found = find(name)

    assert found is not None
    assert (found.value.parameters, found.value.num_hidden_layers, found.may_deny) == (parameters, None, False)
    assert found.source.startswith("name: ")
    assert (found.value.quantization_config or {}).get("quant_method") == method


def test_the_annotation_wins_over_the_name() -> None:
    pod = {
        "kind": "Pod",
        "metadata": {"name": "p", "annotations": {model.ANNOTATION: "Qwen/Qwen3-8B"}},
        "spec": {"containers": [{"name": "vllm"}]},
    }
    found = find("/models/ours", obj=pod)

    assert found is not None
    assert (found.value.id, found.may_deny) == ("Qwen/Qwen3-8B", True)
    assert model.ANNOTATION in found.source


def test_an_annotation_names_a_model_that_an_admin_taught() -> None:
    pod = {
        "kind": "Pod",
        "metadata": {"name": "p", "annotations": {model.ANNOTATION: "acme/ours"}},
        "spec": {"containers": [{"name": "vllm"}]},
    }
    found = find("/models/anything", Facts(models={"acme/ours": GivenModel(LLAMA, "ConfigMap ml/ours")}), obj=pod)

    assert found is not None
    assert (found.value.id, found.may_deny) == ("acme/ours", True)
    assert found.source == f"annotation {model.ANNOTATION}: ConfigMap ml/ours"


def test_a_taught_model_comes_before_the_catalogue_and_by_its_last_part_only_informs() -> None:
    taught = Facts(models={"Qwen/Qwen3-8B": GivenModel(LLAMA, "ConfigMap ml/ours", Counted(weights_bytes=7))})
    exact, path = find("Qwen/Qwen3-8B", taught), find("/models/Qwen3-8B/", taught)

    assert exact is not None
    assert path is not None
    assert (exact.value.weights_bytes, exact.may_deny) == (7, True)
    assert (path.value.weights_bytes, path.may_deny) == (7, False)
    assert path.source.startswith("path: ")


@pytest.mark.parametrize(
    ("path", "row"),
    [
        ("/models/gemma3-27b", "google/gemma-3-27b-it"), ("/models/llama3-70b", "meta-llama/Meta-Llama-3-70B"),
        ("s3://b/llama-3-70b-instruct/", "meta-llama/Meta-Llama-3-70B-Instruct"),
        ("/models/gpt-oss-120b", "openai/gpt-oss-120b"),
        ("/models/qwen3-coder-480b", "Qwen/Qwen3-Coder-480B-A35B-Instruct"),
        ("/models/Bielik-11B-v2.3-Instruct", "speakleash/Bielik-11B-v2.3-Instruct"),
    ],
)  # fmt: skip
def test_a_path_that_goes_on_to_models_of_one_shape_names_it(path: str, row: str) -> None:
    found = find(path)

    assert found is not None
    assert (found.value.num_hidden_layers, found.value.hidden_size) == (
        known(row).num_hidden_layers, known(row).hidden_size,
    )  # fmt: skip
    assert found.source.startswith("path: ")
    assert not found.may_deny


@pytest.mark.parametrize("path", ["/models/mistral-7b-instruct", "/models/llama3", "/models/qwen", "/models/deepseek"])
def test_a_path_that_goes_on_to_models_of_several_shapes_names_none(path: str) -> None:
    found = find(path)

    assert found is None or found.value.num_hidden_layers is None


def test_the_known_end_of_an_unknown_path_names_the_model() -> None:
    pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "vllm"}]}}
    one = workload.find(pod)[0]

    def read(written: str) -> Fact[Model] | None:
        arguments = EngineArgs(release=None, unresolved={"model": "$BUCKET is not set"}, written={"model": written})
        return model.find(arguments, one, one.containers[0], Facts())

    found = read("s3://$BUCKET/models/Qwen3-8B")

    assert found is not None
    assert (found.value.id, found.may_deny) == ("Qwen/Qwen3-8B", False)
    assert read("s3://models/Qwen3-$SIZE") is None


def test_a_hub_uri_is_an_id() -> None:
    service = {
        "apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "metadata": {"name": "s"},
        "spec": {"predictor": {"model": {"modelFormat": {"name": "vLLM"}, "storageUri": "hf://Qwen/Qwen3-8B:main"}}},
    }  # fmt: skip
    for found in (find("/mnt/models", obj=service), find("hf://Qwen/Qwen3-8B")):
        assert found is not None
        assert (found.value.id, found.may_deny) == ("Qwen/Qwen3-8B", True)


def test_a_config_handed_in_may_deny_and_carries_the_weights_counted() -> None:
    found = find("acme/ours", Facts(models={"*": GivenModel(LLAMA, "test")}, weights_bytes=123))

    assert found is not None
    assert (found.value.hidden_size, found.value.weights_bytes, found.may_deny) == (4096, 123, True)


def test_a_mount_is_explained_by_what_stands_elsewhere_in_the_object() -> None:
    served = find("/mnt/models", served_model_name=["qwen3-8b"])
    service = {
        "apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "metadata": {"name": "s"},
        "spec": {"predictor": {"model": {"modelFormat": {"name": "vLLM"}, "storageUri": "s3://b/Qwen3-8B"}}},
    }  # fmt: skip
    stored = find("/mnt/models", obj=service)

    for found in (served, stored):
        assert found is not None
        assert found.value.num_hidden_layers == 36
        assert not found.may_deny


def test_no_model_named_is_no_model() -> None:
    assert find(None) is None


def test_hf_overrides_change_the_shape_and_the_length() -> None:
    longer = find("Qwen/Qwen3-8B", hf_overrides={"rope_scaling": YARN})
    text = find("Qwen/Qwen3-8B", hf_overrides='{"max_position_embeddings": 4096}')
    shorter = find("Qwen/Qwen3-8B", hf_overrides={"num_hidden_layers": 4})

    assert longer is not None
    assert text is not None
    assert shorter is not None
    assert model.derived_max_model_len(longer.value, Release(0, 20)) == 131072
    assert longer.value.parameters == known("Qwen/Qwen3-8B").parameters
    assert model.derived_max_model_len(text.value, Release(0, 20)) == 4096
    assert (shorter.value.num_hidden_layers, shorter.value.parameters) == (4, None)


def test_an_override_reaches_a_nested_config_only_by_its_name() -> None:
    outer = find("google/gemma-3-12b-it", hf_overrides={"max_position_embeddings": 8192})
    inner = find("google/gemma-3-12b-it", hf_overrides={"text_config": {"max_position_embeddings": 8192}})

    assert outer is not None
    assert inner is not None
    assert outer.value.max_position_embeddings == known("google/gemma-3-12b-it").max_position_embeddings
    assert model.derived_max_model_len(inner.value, Release(0, 20)) == 8192


@given(st.text(max_size=60))
def test_no_name_raises(name: str) -> None:
    found = model.model_of_name(name)

    assert found is None or found.value.id


def test_a_copy_by_another_owner_is_another_checkpoint_where_it_is_quantised() -> None:
    plain, quantised = known("Qwen/Qwen3-14B"), known("Qwen/Qwen3-14B-AWQ")

    assert replace(plain, id="x").hidden_size == quantised.hidden_size
    assert (plain.quantization_config, (quantised.quantization_config or {})["quant_method"]) == (None, "awq")


@pytest.mark.parametrize(
    ("uri", "model_id"),
    [
        ("oci://registry.example.com/modelcar-catalog:llama-3.1-8b-instruct", "meta-llama/Llama-3.1-8B-Instruct"),
        ("oci://registry.example.com/modelcar-granite-3-1-8b-instruct:1.5", "ibm-granite/granite-3.1-8b-instruct"),
        ("oci://registry.example.com/models/qwen3-8b:v1", "Qwen/Qwen3-8B"),
        ("oci://registry.example.com:5000/models/qwen3-8b@sha256:0123", "Qwen/Qwen3-8B"),
        ("oci://registry.example.com/models:latest", None),
    ],
)
def test_an_image_with_a_model_is_named_by_its_repository_or_its_tag(uri: str, model_id: str | None) -> None:
    found = model.model_of_name(uri)
    assert (found and (found.value.id, found.may_deny)) == (model_id and (model_id, False))
