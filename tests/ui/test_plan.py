"""The tab Plan: the same numbers as `podfit plan`, and where each control stops fitting."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from podfit.cli import main
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


# ── Users ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def ways(**controls: object) -> dict[str, Any]:
    return plan.ways({**ASKED, **controls}, builtin(), Facts())


SIXTEEN = {"max_model_len": "16384", "users": "50"}


@pytest.mark.parametrize(
    ("controls", "state", "text"),
    [
        ({"gpu": "l40s"}, "does-not-fit", "holds 4 … 5 of 50 users"),
        ({"gpu": "l40s", "gpus": "4"}, "fits", "holds 50 users"),
        ({"gpu": "b200"}, "fits", "holds 50 users"),
        ({"gpu": "b200", "users": "1"}, "fits", "holds 1 user"),
        ({"gpu": "b200", "max_num_seqs": "16"}, "does-not-fit", "holds 16 of 50 users"),
    ],
)
def test_how_many_users_it_holds(controls: dict[str, str], state: str, text: str) -> None:
    users = answer(**SIXTEEN | controls)["users"]

    assert (users["state"], users["text"]) == (state, text)
    assert "16,384 tokens each" in users["room"]


def test_the_low_end_of_the_estimate_holds_the_users() -> None:
    """As many as the low end holds are held, one more than the high end holds are not, and between them is doubt."""
    room = answer(**SIXTEEN, gpu="b200")["users"]["room"]
    low, high = map(int, room.partition("KV cache for ")[2].partition(";")[0].split(" … "))

    states = [answer(**SIXTEEN | {"users": str(users), "gpu": "b200"})["users"]["state"] for users in (low, high + 1)]
    assert states == ["fits", "does-not-fit"]
    assert answer(**SIXTEEN | {"users": str(high), "gpu": "b200"})["users"]["state"] == "unsure"


def test_users_without_a_plan_that_fits() -> None:
    assert answer(**SIXTEEN, gpu="l4")["users"] is None
    assert answer(**SIXTEEN, model="acme/unknown")["users"] is None
    assert ways(**SIXTEEN, model="acme/unknown") == {"title": "", "rows": []}
    assert answer()["users"] is None


def test_users_set_the_sequences_as_podfit_plan_does() -> None:
    assert "--max-num-seqs 50" in answer(**SIXTEEN)["command"]
    assert "--max-num-seqs 16" in answer(**SIXTEEN, max_num_seqs="16")["command"]
    assert answer(users="90000")["headline"] == "fits"


def test_the_ways_are_those_of_podfit_plan(capsys: pytest.CaptureFixture[str]) -> None:
    main(["plan", "Qwen/Qwen3-14B", "--context", "16384", "--users", "50", "--format", "json"])
    offers = json.loads(capsys.readouterr().out)["offers"]

    shown = ways(**SIXTEEN)

    assert shown["title"] == "Ways to hold 50 users of 16,384 tokens"
    rows = {
        (row["controls"]["gpu"], int(row["controls"]["gpus"]), row["replicas"], row["holds"]) for row in shown["rows"]
    }
    listed = {
        (offer["product"], offer["gpus"], offer["replicas"], f"{offer['requests_at_once']:,}")
        for offer in offers
        if offer["gpu_memory_bytes"] <= 4 * min(offer["gpu_memory_bytes"] for offer in offers)
    }
    assert rows == listed
    assert {row["changes"] for row in shown["rows"]} >= {"", "--kv-cache-dtype fp8", "Qwen/Qwen3-14B-AWQ"}


def test_a_way_that_is_chosen_holds_its_users() -> None:
    rows = ways(**SIXTEEN)["rows"]

    for row in (row for row in rows if row["replicas"] == 1):
        chosen = answer(**SIXTEEN | row["controls"])
        assert (chosen["state"], chosen["users"]["state"]) == ("fits", "fits"), row


def test_a_secret_is_not_among_the_ways() -> None:
    rows = ways(other="--api-key sk-aSecretThatNobodyMaySee00")["rows"]

    assert rows
    assert "sk-aSecret" not in str(rows)


# ── Without a named GPU ──────────────────────────────────────────────────────────────────────────────────────────────


def test_each_gpu_is_on_a_side_without_a_named_one() -> None:
    shown = plan.answer({**ASKED, "gpu": ""}, builtin(), Facts(plans_table=True))

    sides = {side["verdict"]: side["gpus"] for side in shown["sides"]}
    assert "L40S (48 GB)" in sides["fits"]
    assert "A100 (40 GB)" in sides["unsure"]
    assert "L4 (24 GB)" in sides["does-not-fit"]
    assert shown["why"].startswith("fits whole GPUs of 48 GB and more")
    assert "gpu-missing" not in [finding["rule"] for finding in shown["findings"]]


def test_the_count_is_that_of_the_unnamed_gpus() -> None:
    shown = plan.answer({**ASKED, "gpu": "", "gpus": "2"}, builtin(), Facts(plans_table=True))

    assert "L4 (24 GB)" in next(side["gpus"] for side in shown["sides"] if side["verdict"] == "fits")


def test_a_gpu_that_lacks_something_is_on_no_other_side() -> None:
    shown = plan.answer({**ASKED, "model": "Qwen/Qwen3-0.6B", "gpu": "", "dtype": "bfloat16"}, builtin(),
                        Facts(plans_table=True))  # fmt: skip

    lacking = [side for side in shown["sides"] if side["verdict"] == "lacking"]
    assert any("T4 (16 GB)" in side["gpus"] and "no bfloat16" in side["words"] for side in lacking)
    assert "T4 (16 GB)" not in next(side["gpus"] for side in shown["sides"] if side["verdict"] == "fits")


def test_a_named_gpu_has_no_sides() -> None:
    assert answer()["sides"] == []


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"users": "0"}, "users"),
        ({"users": "-5"}, "users"),
        ({"users": "1" * 40}, "users"),
        ({"users": "many"}, "users"),
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
