"""The tab Plan: the same numbers as `podfit plan`, and where each control stops fitting."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from podfit.evaluation.policy import builtin
from podfit.report import plan as as_plan
from podfit.report.command_line import judged_as
from podfit.ui import plan
from podfit.ui.question import QuestionError
from podfit.vllm import gpu
from podfit.vllm.facts import Facts

ASKED = {"model": "Qwen/Qwen3-14B", "gpu": "l40s", "gpus": "1", "release": "0.33.0"}


def answer(**asked: object) -> dict[str, Any]:
    return plan.answer({**ASKED, **asked}, builtin(), Facts())


def test_the_numbers_are_those_of_the_command() -> None:
    argv = ["vllm", "serve", "Qwen/Qwen3-14B", "--max-model-len", "16384"]
    report = judged_as(argv, "0.33.0", Facts(gpu=gpu.parse("l40s:1")), builtin())
    tree = as_plan.tree(report.results[0].engine, report.secrets)

    found = answer(max_model_len="16384")

    sizes = {bar["name"]: bar["size"] for bar in found["charts"][0]["bars"]}
    assert found["state"] == tree["verdict"] == "fits"
    assert sizes["weights"] == tree["gpu"]["weights"]["likely"]
    assert sizes["KV cache"] == tree["gpu"]["kv_cache"]["likely"]
    assert found["command"] == "vllm serve Qwen/Qwen3-14B --max-model-len 16384"


def test_a_bar_has_its_range_where_it_stands() -> None:
    bars = {bar["name"]: bar for bar in answer()["charts"][0]["bars"]}

    assert bars["weights"]["from"] < bars["weights"]["size"] < bars["weights"]["to"]
    kv_cache = bars["KV cache"]
    assert kv_cache["from"] < kv_cache["start"] < kv_cache["to"]
    assert bars["one request"]["from"] is None


def test_each_slider_says_where_it_stops_fitting() -> None:
    found = answer(model="meta-llama/Llama-3.1-8B-Instruct", gpu="l4")["sliders"]["max_model_len"]

    last = int(found["fits"].removeprefix("fits up to ").replace(",", ""))
    assert answer(model="meta-llama/Llama-3.1-8B-Instruct", gpu="l4", max_model_len=str(last))["state"] == "fits"
    assert answer(model="meta-llama/Llama-3.1-8B-Instruct", gpu="l4", max_model_len=str(last + 16))["state"] != "fits"
    order = [{"fits": 0, "unsure": 1, "does-not-fit": 2}[one] for one in found["verdicts"]]
    assert order == sorted(order)
    assert set(order) == {0, 1, 2}
    assert found["value"] == found["stops"][-1] == 131072


def test_a_share_that_is_too_small_does_not_fit() -> None:
    found = answer()["sliders"]["gpu_memory_utilization"]

    assert found["verdicts"][0] == "does-not-fit"
    assert found["fits"].startswith("fits from 0.8")


def test_which_gpus_hold_it() -> None:
    rows = {row["product"]: {cell["gpus"]: cell["verdict"] for cell in row["cells"]} for row in answer()["gpus"]}

    assert rows["NVIDIA-L4"][1] == "does-not-fit"
    assert rows["NVIDIA-L4"][4] == "fits"
    assert rows["NVIDIA-H200"][1] == "fits"


def test_several_gpus_are_a_tensor_parallel_engine() -> None:
    assert "--tensor-parallel-size 2" in answer(gpus="2")["command"]
    assert "--tensor-parallel-size 4" in answer(gpus="8", tensor_parallel_size="4")["command"]


def test_the_manifest_is_that_of_the_command() -> None:
    documents = list(yaml.safe_load_all(answer()["manifest"]))

    assert [one["kind"] for one in documents] == ["PersistentVolumeClaim", "Service", "Deployment"]


def test_without_a_manifest_what_is_missing_is_said() -> None:
    found = answer(gpu="mi300x")

    assert found["manifest"] is None
    assert "NVIDIA" in found["manifest_missing"]


def test_a_denied_argument_is_shown_at_its_control() -> None:
    found = answer(max_num_seqs="many")

    assert found["headline"] == "does not start"
    assert [(one["field"], one["level"]) for one in found["findings"] if one["level"] == "denied"] == [
        ("max_num_seqs", "denied")
    ]


def test_an_unknown_model_has_a_hint_and_no_marks() -> None:
    found = answer(model="mistralai/Mixtrl")

    assert found["hints"]["model"]["wrong"]
    assert "unknown model 'mistralai/Mixtrl'" in found["hints"]["model"]["text"]
    assert set(found["sliders"]["max_num_seqs"]["verdicts"]) == {None}
    assert found["gpus"] == []


def test_a_config_that_is_pasted_is_the_model() -> None:
    config = """{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096,
      "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
      "vocab_size": 128256, "max_position_embeddings": 8192, "torch_dtype": "bfloat16"}"""

    found = answer(model="acme/ours", config=config)

    assert "pasted config.json" in found["hints"]["model"]["text"]
    assert found["state"] == "fits"


def test_a_secret_is_masked_where_it_is_told() -> None:
    found = answer(other="--api-key sk-aSecretThatNobodyMaySee00 --max-num-seqs sk-aSecretThatNobodyMaySee00")

    assert found["command"].count("sk-aSecret") == 2  # to be copied, as it was typed
    assert "sk-aSecret" not in str({key: value for key, value in found.items() if key not in ("command", "manifest")})


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"model": ""}, "model"),
        ({"model": "--help"}, "model"),
        ({"model": "two words"}, "model"),
        ({"gpu": "l40x"}, "gpu"),
        ({"gpus": "0"}, "gpus"),
        ({"gpus": "9" * 5000}, "gpus"),
        ({"gpus": "²"}, "gpus"),
        ({"release": "newest"}, "release"),
        ({"config": "{"}, "config"),
        ({"config": "{}"}, "config"),
        ({"other": "--name 'open"}, "other"),
        ({"max_model_len": 4096}, "max_model_len"),
    ],
)
def test_each_error_is_at_its_control(asked: dict[str, Any], field: str) -> None:
    with pytest.raises(QuestionError) as raised:
        answer(**asked)

    assert raised.value.field == field
