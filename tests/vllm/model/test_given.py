"""A model's own files, as an admin gives them: ConfigMaps, folders, one file; each error names the file."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given as always
from hypothesis import strategies as st

from podfit.vllm.facts import Counted
from podfit.vllm.model import given

CONFIG = {"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64}
INDEX = {
    "metadata": {"total_size": 1234},
    "weight_map": {"model.embed_tokens.weight": "model-00001-of-00001.safetensors"},
}


def config_map(data: object, **metadata: Any) -> dict[str, Any]:
    labels = {given.LABEL: "true"}
    return {"kind": "ConfigMap", "metadata": {"name": "ours", "labels": labels, **metadata}, "data": data}


def test_a_labelled_config_map_teaches_the_model_that_its_annotation_names() -> None:
    obj = config_map(
        {given.CONFIG: json.dumps(CONFIG), given.INDEX: json.dumps(INDEX), "tokenizer_config.json": "{}"},
        namespace="ml", annotations={given.MODEL_ANNOTATION: "acme/ours, /models/ours/"},
    )  # fmt: skip
    found, errors = given.of_config_map(obj)

    assert not errors
    assert set(found) == {"acme/ours", "/models/ours"}
    assert found["acme/ours"].config == CONFIG
    assert found["acme/ours"].counted == Counted(weights_bytes=1234, files=1)
    assert found["acme/ours"].source == "ConfigMap ml/ours: config.json"


def test_without_an_annotation_its_own_name_is_the_models() -> None:
    assert set(given.of_config_map(config_map({given.CONFIG: json.dumps(CONFIG)}))[0]) == {"ours"}


def test_one_config_map_may_teach_several() -> None:
    found, _ = given.of_config_map(config_map({"acme--a.json": json.dumps(CONFIG), "acme--b.json": json.dumps(CONFIG)}))

    assert set(found) == {"acme/a", "acme/b"}


@pytest.mark.parametrize(
    "obj", [{}, {"kind": "Pod"}, {"kind": "ConfigMap", "metadata": {"name": "x", "labels": {"a": "b"}}}]
)
def test_other_objects_teach_nothing(obj: dict[str, Any]) -> None:
    assert given.of_config_map(obj) == ({}, [])


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (None, "ConfigMap ours: labeled podfit.dev/model-config, but has no data"),
        ({"notes": "x"}, "but has neither config.json nor ORG--NAME.json"),
        ({given.CONFIG: "{"}, "ConfigMap ours: config.json: not JSON"),
        ({given.CONFIG: "[]"}, "ConfigMap ours: config.json: expected a JSON object, is a list"),
        ({given.CONFIG: '{"a": 1}'}, "ConfigMap ours: config.json: no config.json of a model"),
        (
            {given.CONFIG: json.dumps(CONFIG), given.INDEX: "x"},
            "ConfigMap ours: model.safetensors.index.json: not JSON",
        ),
    ],
)
def test_what_can_not_be_read_is_told_with_its_file(data: object, said: str) -> None:
    found, (error,) = given.of_config_map(config_map(data))

    assert not found
    assert said in error


def test_a_bad_file_stops_no_other() -> None:
    found, errors = given.read({"a/one/config.json": json.dumps(CONFIG), "a--two.json": "{"}, "models")

    assert set(found) == {"a/one"}
    assert len(errors) == 1


def test_what_stands_beside_a_checkpoint_and_adapters_are_not_read() -> None:
    entries = {
        "acme/ours/config.json": json.dumps(CONFIG), "acme/ours/tokenizer.json": "[",
        "acme/lora/adapter_config.json": "{}",
        "acme/ours/hf_quant_config.json": json.dumps({"quantization": {"quant_algo": "FP8"}}),
    }  # fmt: skip
    found, errors = given.read(entries, "models")

    assert not errors
    assert set(found) == {"acme/ours"}
    assert found["acme/ours"].config["quantization_config"] == {"quant_method": "modelopt", "quant_algo": "FP8"}


def test_a_hugging_face_cache_holds_ids() -> None:
    found, _ = given.read({"hub/models--acme--ours/snapshots/0f1e/config.json": json.dumps(CONFIG)}, "cache")

    assert set(found) == {"acme/ours"}


def test_headers_are_counted_and_what_was_counted_is_read_again() -> None:
    headers: list[dict[str, Any]] = [
        {
            "__metadata__": {"format": "pt"},
            "model.layers.0.mlp.experts.1.up_proj.weight": {"dtype": "BF16", "shape": [4, 8], "data_offsets": [0, 64]},
            "model.norm.weight": {"dtype": "F32", "shape": [8], "data_offsets": [64, 96]},
        },
        {"lm_head.weight": {"dtype": "BF16", "shape": [2, 2], "data_offsets": [0, 8]}},
    ]
    found = given.of_headers(headers)
    again, errors = given.read({"acme--ours.json": json.dumps(given.one_file(CONFIG, found))}, "models")

    assert found == Counted(44, 104, {"BF16": 36, "F32": 8}, 64, 2)
    assert not errors
    assert again["acme/ours"].counted == found


def test_packed_words_are_no_parameters() -> None:
    header = {"q.qweight": {"dtype": "I32", "shape": [2, 2], "data_offsets": [0, 16]}}

    assert given.of_headers([header]).parameters is None


def test_the_config_map_written_is_the_config_map_read() -> None:
    obj = given.config_map("acme/Our_Model", given.one_file(CONFIG, Counted(weights_bytes=5)), ["acme/Our_Model"])
    found, errors = given.of_config_map(obj)

    assert obj["metadata"]["name"] == "podfit-model-acme-our-model"
    assert not errors
    assert found["acme/Our_Model"].counted.weights_bytes == 5


WORDS = [
    "kind",
    "metadata",
    "labels",
    "annotations",
    "data",
    "name",
    given.LABEL,
    given.MODEL_ANNOTATION,
    given.CONFIG,
    given.INDEX,
]


@always(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4),
        max_leaves=12,
    )
)
def test_no_object_raises(value: object) -> None:
    given.of_config_map({"kind": "ConfigMap", "metadata": value if isinstance(value, dict) else {}, "data": value})
