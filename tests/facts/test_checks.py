"""The tables of facts/ are checked, and a planted wrong value is caught."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from scripts.facts import add_models, build, checks
from scripts.facts.table import FACTS, entries, write_entries

TODAY = datetime.now(UTC).date().isoformat()
LLAMA = "meta-llama/Llama-3.1-8B-Instruct"


def test_nothing_in_the_tables_contradicts_the_rest() -> None:
    assert checks.problems(TODAY) == []


def planted(tmp_path: Path, table: str, key: str, name: str, changes: Mapping[str, Any]) -> list[str]:
    """What is said of the tables with one entry changed; a changed config is merged."""
    for path in FACTS.glob("*.json*"):
        shutil.copy(path, tmp_path)
    (tmp_path / "releases").symlink_to(FACTS / "releases")
    rows = entries(table, tmp_path)
    row = next(row for row in rows if row[key] == name)
    row.update({one: {**row[one], **value} if isinstance(value, dict) else value for one, value in changes.items()})
    write_entries(table, rows, tmp_path)
    return checks.problems(TODAY, tmp_path)


@pytest.mark.parametrize(
    ("table", "key", "name", "changes", "said"),
    [
        ("models", "id", LLAMA, {"parameters": 803026124}, "20.00 bytes for each parameter, expected 2"),
        ("models", "id", LLAMA, {"weights_bytes": 32121044992}, "4.00 bytes for each parameter, expected 2"),
        (
            "models",
            "id",
            LLAMA,
            {"config": {"num_attention_heads": 30}},
            "expected a multiple of num_key_value_heads 8",
        ),
        (
            "models",
            "id",
            LLAMA,
            {"config": {"head_dim": 2048}},
            "heads × head size 32 × 2048, expected about hidden_size",
        ),
        ("models", "id", LLAMA, {"config": {"vocab_size": True}}, "vocab_size True, expected a whole number"),
        ("models", "id", LLAMA, {"config": {"vocab_size": 64128}}, "8,030,261,248 parameters, 7% off"),
        ("models", "id", LLAMA, {"stored_elements": 16060522496}, "stored_elements 16,060,522,496, expected at most"),
        (
            "models",
            "id",
            "deepseek-ai/DeepSeek-R1-0528",
            {"base": "nvidia/DeepSeek-V3.1-NVFP4"},
            "base nvidia/DeepSeek-V3.1-NVFP4, expected an original",
        ),
        ("models", "id", LLAMA, {"config": {"vocab_size": None}}, "config: vocab_size can't be read"),
        ("models", "id", LLAMA, {"config": {"num_key_value_heasd": 8}}, "'num_key_value_heasd', expected 'num_key_val"),
        ("models", "id", LLAMA, {"config": {"vocab_sise": 1}}, "config: 'vocab_sise', expected 'vocab_size'"),
        ("models", "id", LLAMA, {"config": {"sliding_window": -1}}, "sliding_window -1, expected a whole number"),
        ("models", "id", LLAMA, {"config": {"tie_word_embeddings": "false"}}, "'false', expected true or false"),
        ("models", "id", LLAMA, {"config": {"torch_dtype": "bfloat61"}}, "torch_dtype 'bfloat61', expected one of"),
        ("models", "id", LLAMA, {"config": {"rope_scaling": {"rope_type": "yran"}}}, "type 'yran', expected one of"),
        ("models", "id", LLAMA, {"config": {"rope_scaling": {"factor": "8"}}}, "factor '8', expected a number from 1"),
        ("models", "id", LLAMA, {"config": {"architectures": []}}, "architectures [], expected a list of names"),
        (
            "models",
            "id",
            "deepseek-ai/DeepSeek-V3",
            {"config": {"model_type": "deepsek_v3"}},
            "model_type 'deepsek_v3', expected 'deepseek_v3'",
        ),
        (
            "models",
            "id",
            "Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4",
            {"config": {"quantization_config": {"quant_method": "gtpq"}}},
            "quant_method 'gtpq', expected a quantization method of vLLM",
        ),
        (
            "models",
            "id",
            "Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4",
            {"config": {"hidden_size": 7168}},
            "hidden_size 7,168, expected 3,584 as in Qwen/Qwen2.5-7B-Instruct",
        ),
        (
            "models",
            "id",
            "RedHatAI/Meta-Llama-3.1-70B-Instruct-FP8-dynamic",
            {"config": {"num_hidden_layers": 60}},
            "num_hidden_layers 60, expected 80 as in ",
        ),
        (
            "models",
            "id",
            "RedHatAI/Mistral-Small-24B-Instruct-2501-quantized.w4a16",
            {"config": {"num_hidden_layers": 20}},
            "num_hidden_layers 20, expected 40 as in mistralai/Mistral-Small-24B-Instruct-2501",
        ),
        (
            "models",
            "id",
            "unsloth/gemma-3-1b-it",
            {"config": {"num_attention_heads": 8}},
            "num_attention_heads 8, expected 4 as in google/gemma-3-1b-it",
        ),
        ("models", "id", LLAMA, {"config": {"num_hidden_layers": 16}}, "8,030,261,248 parameters, "),
        ("models", "id", LLAMA, {"aliases": ["Qwen/Qwen3-8B"]}, "models: Qwen/Qwen3-8B: two entries have this name"),
        ("models", "id", LLAMA, {"date": "2999-01"}, "date '2999-01', expected YYYY-MM or YYYY-MM-DD, not after"),
        ("models", "id", LLAMA, {"date": "2026-02-31"}, "date '2026-02-31', expected YYYY-MM or YYYY-MM-DD, not after"),
        ("models", "id", LLAMA, {"id": f"{LLAMA} "}, ": id: string should match pattern"),
        ("models", "id", LLAMA, {"trusted": False}, "expected doubts if and only if trusted is false"),
        (
            "relatives",
            "base",
            "Qwen/Qwen3-8B",
            {"id": "acme/Qwen3-8B-AWQ", "scheme": "fp8"},
            "scheme 'fp8', expected awq as in its name",
        ),
        (
            "relatives",
            "base",
            "Qwen/Qwen3-8B",
            {"base": "Qwen/Qwen3-0.6B", "id": "acme/Qwen3-8B-x"},
            "base Qwen/Qwen3-0.6B, expected a model of about the 8,000,000,000 parameters in its name",
        ),
        ("images", "image", "*nvidia/vllm:25.10-*", {"release": "v0.10.2"}, "release: string should match pattern"),
        ("models", "id", LLAMA, {"source": []}, ": source: list should have at least 1 item"),
        ("models", "id", LLAMA, {"weight_bytes": 1}, ": weight_bytes: extra inputs are not permitted (1)"),
        ("models", "id", LLAMA, {"trusted": "false"}, ": trusted: input should be a valid boolean ('false')"),
        ("models", "id", LLAMA, {"base": "acme/none"}, f"{LLAMA}: no such model as its base acme/none"),
        (
            "models",
            "id",
            "tiiuae/falcon-40b",
            {"parameters": 418359705600},
            "expected about the 40,000,000,000 in its name",
        ),
        (
            "models",
            "id",
            LLAMA,
            {"config": {"architectures": ["LlamaForCasualLM"]}},
            "architectures 'LlamaForCasualLM', expected 'LlamaForCausalLM'",
        ),
        (
            "models",
            "id",
            "mistralai/Mixtral-8x7B-v0.1",
            {"config": {"num_experts_per_tok": 80}},
            "num_experts_per_tok 80, expected at most the 8 experts",
        ),
        (
            "checkpoints",
            "id",
            "Qwen/Qwen3-8B",
            {"param_count": 819073536},
            "param_count 819,073,536, expected 8,190,735,360",
        ),
        (
            "checkpoints",
            "id",
            "Qwen/Qwen3-8B",
            {"expert_bytes": 10**12},
            "expert_bytes 1,000,000,000,000, expected at most",
        ),
        (
            "corrections",
            "id",
            "01-ai/Yi-6B",
            {"changes": {"num_key_value_heads": 7}},
            "a multiple of num_key_value_heads 7",
        ),
        ("corrections", "id", "01-ai/Yi-6B", {"changes": {"max_positon": 7}}, "no config.json has 'max_positon'"),
        ("model_types", "model_type", "llama", {"defaults": {"vocab_size": 0}}, "vocab_size 0, expected 1 or more"),
        ("relatives", "base", "Qwen/Qwen3-8B", {"scheme": "fp9"}, "scheme: input should be 'mxfp4', 'fp8'"),
        ("checkpoints", "id", "Qwen/Qwen3-8B", {"weight_bytes": 8381470720}, "weight_bytes 8,381,470,720, expected"),
        ("checkpoints", "id", "Qwen/Qwen3-8B", {"dtype_params": {"F7": 1}}, "dtype F7, expected one of BF16"),
        ("corrections", "id", "01-ai/Yi-6B", {"id": "01-ai/Yi-600B"}, "corrections: 01-ai/Yi-600B: no such model"),
        ("gpus", "name", "NVIDIA A10G", {"cuda_mib": 45016}, "cuda_mib 45,016, expected 0.85 to 1.01 of 24 GB"),
        ("mig", "gpu", "NVIDIA A30", {"max": 7}, "7 × 5,836 MiB, expected at most the GPU's 24,064"),
        ("models", "id", LLAMA, {"config": {"max_position_embeddings": "131072"}}, "'131072', expected a whole number"),
        ("models", "id", LLAMA, {"config": {"max_position_embeddings": 13}}, "13, expected 128 to 16,777,216"),
        ("model_types", "model_type", "llama", {"defaults": {"hidden_size": -1}}, "hidden_size -1, expected a whole"),
        ("instances", "type", "g5.xlarge", {"gpu": "NVIDIA A10H"}, "gpu 'NVIDIA A10H', expected one of gpus.jsonl"),
        ("instances", "type", "g5.xlarge", {"count": 80}, "count 80, expected one of 0, 1, 2, 4, 8, 16"),
        (
            "images",
            "image",
            "*nvidia/vllm:25.10-*",
            {"release": "9.99.0"},
            "release '9.99.0', expected a release up to",
        ),
        ("relatives", "base", "Qwen/Qwen3-8B", {"base": "Qwen/Qwen3-80B"}, "no such model as its base Qwen/Qwen3-80B"),
        ("instances", "type", "g5.xlarge", {"type": "g5.2xlarge"}, "instances: g5.2xlarge: two entries have this name"),
    ],
)
def test_a_planted_wrong_value_is_caught(
    tmp_path: Path, table: str, key: str, name: str, changes: dict[str, Any], said: str
) -> None:
    found = planted(tmp_path, table, key, name, changes)

    assert any(said in line for line in found), found


CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64,
    "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 1000,
    "max_position_embeddings": 2048, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "_name_or_path": "x",
}  # fmt: skip
PARAMETERS = 202_048
"""2 × (64 × (64 + 32 + 32 + 64) + 3 × 64 × 128) + 2 × 1,000 × 64, and the norms' 320."""


def checkpoint(folder: Path, config: Mapping[str, Any], elements: int) -> Path:
    """A folder with a config.json and one safetensors file."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    tensor = {"dtype": "BF16", "shape": [elements], "data_offsets": [0, 2 * elements]}
    header = json.dumps({"model.weight": tensor}).encode()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    return folder


@pytest.fixture(name="tables")
def _tables(tmp_path: Path) -> Path:
    tables = tmp_path / "facts"
    tables.mkdir()
    for name in ("models", "checkpoints", "model_types"):
        shutil.copy(FACTS / f"{name}.jsonl", tables)
    (tables / "releases").symlink_to(FACTS / "releases")
    return tables


def test_a_model_is_read_from_its_files(tmp_path: Path, tables: Path) -> None:
    folder = checkpoint(tmp_path / "tiny", CONFIG, PARAMETERS)
    listed = tmp_path / "models.txt"
    listed.write_text(f"# ours\nacme/tiny={folder}\n")

    assert add_models.add([str(listed)], "2026-11-23", tables) == []

    (row,) = [row for row in entries("models", tables) if row["id"] == "acme/tiny"]
    assert row == {
        "id": "acme/tiny",
        "config": {key: value for key, value in CONFIG.items() if key != "_name_or_path"},
        "parameters": PARAMETERS,
        "weights_bytes": 2 * PARAMETERS,
        "confidence": "file",
        "trusted": True,
        "source": ["config.json and safetensors of acme/tiny"],
        "date": "2026-11-23",
    }
    (stored,) = [row for row in entries("checkpoints", tables) if row["id"] == "acme/tiny"]
    assert stored["dtype_params"] == {"BF16": PARAMETERS}


@pytest.mark.parametrize(
    ("name", "config", "elements", "said"),
    [
        ("acme/tiny", {**CONFIG, "num_hidden_layers": None}, PARAMETERS, "num_hidden_layers can't be read"),
        ("acme/tiny", {**CONFIG, "model_type": None}, PARAMETERS, "model_type is missing"),
        ("acme/tiny", CONFIG, 3 * PARAMETERS, "606,144 parameters, 67% off what its sizes give"),
        ("acme/tiny", {**CONFIG, "torch_dtype": "float32"}, PARAMETERS, "2.00 bytes for each parameter, expected 4"),
        (
            "acme/tiny",
            {**CONFIG, "architectures": ["LlamaForCasualLM"]},
            PARAMETERS,
            "acme/tiny: architectures 'LlamaForCasualLM', expected 'LlamaForCausalLM'",
        ),
        (
            "acme/tiny",
            {**CONFIG, "architectures": "LlamaForCausalLM"},
            PARAMETERS,
            "acme/tiny: architectures 'LlamaForCausalLM', expected a list of names",
        ),
        (
            "acme/tiny",
            {**CONFIG, "quantization_config": {"quant_method": "gtpq"}},
            PARAMETERS,
            "acme/tiny: quant_method 'gtpq', expected",
        ),
        ("tiny", CONFIG, PARAMETERS, "not an id such as acme/chat-9b. Fix: ID=FOLDER"),
        (LLAMA, CONFIG, PARAMETERS, "an entry has this name"),
    ],
)
def test_a_guess_or_a_contradiction_is_refused(
    tmp_path: Path, tables: Path, name: str, config: dict[str, Any], elements: int, said: str
) -> None:
    folder = checkpoint(tmp_path / "one", config, elements)
    before = (tables / "models.jsonl").read_text()

    wrong = add_models.add([f"{name}={folder}"], TODAY, tables)

    assert any(said in line for line in wrong), wrong
    assert (tables / "models.jsonl").read_text() == before


def indexed(folder: Path, config: Mapping[str, Any], size: int) -> Path:
    """A folder with a config.json and an index, as `hf download` leaves it with `--include '*.json'`."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    index = {"metadata": {"total_size": size}, "weight_map": {"model.weight": "model-00001-of-00001.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def test_an_index_is_enough(tmp_path: Path, tables: Path) -> None:
    folder = indexed(tmp_path / "one", CONFIG, 2 * PARAMETERS)

    assert add_models.add([f"acme/tiny={folder}"], "2026-11-23", tables) == []

    (row,) = [row for row in entries("models", tables) if row["id"] == "acme/tiny"]
    assert row["weights_bytes"] == 2 * PARAMETERS
    assert row["source"] == ["config.json and the safetensors index of acme/tiny"]
    assert "parameters" not in row


@pytest.mark.parametrize(
    ("config", "size", "said"),
    [
        (CONFIG, 20 * PARAMETERS, "weights_bytes 4,040,960, 90% off what its sizes give"),
        ({**CONFIG, "torch_dtype": None}, 2 * PARAMETERS, "no dtype: nothing to compare its bytes with"),
    ],
)
def test_an_index_that_contradicts_the_sizes_is_refused(
    tmp_path: Path, tables: Path, config: dict[str, Any], size: int, said: str
) -> None:
    (wrong,) = add_models.add([f"acme/tiny={indexed(tmp_path / 'one', config, size)}"], TODAY, tables)

    assert said in wrong


def test_weights_that_were_not_counted_are_not_guessed(tmp_path: Path, tables: Path) -> None:
    folder = checkpoint(tmp_path / "one", CONFIG, PARAMETERS)
    (folder / "model.safetensors").unlink()

    assert add_models.add([f"acme/tiny={folder}"], TODAY, tables) == [
        "acme/tiny: no safetensors files and no index: its bytes would be a guess"
    ]


def test_a_model_that_is_nowhere_is_refused(tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    (wrong,) = add_models.add([f"acme/tiny={tmp_path}"], TODAY, tables)

    assert "there is no config.json" in wrong


def test_nothing_is_built_from_fields_that_are_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(checks, "field_problems", lambda _: ["gpus: line 1: wrong"])
    monkeypatch.setattr(build, "tables", pytest.fail)

    assert build.main([]) == 1
    assert capsys.readouterr().err == "gpus: line 1: wrong\nnothing is written\n"


def test_a_contradiction_is_named_and_nothing_is_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(checks, "problems", lambda _: ["gpus: NVIDIA L4: wrong"])

    assert build.main([]) == build.main(["--check"]) == 1
    assert capsys.readouterr().err == "gpus: NVIDIA L4: wrong\ncorrect facts/\n" * 2
