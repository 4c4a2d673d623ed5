"""`podfit plan --fit` and `--sweep`, as a person types them."""

from __future__ import annotations

import json

import pytest

from podfit.cli import main

LLAMA = ("--", "vllm", "serve", "meta-llama/Llama-3.1-8B-Instruct")


def printed(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """Standard output of a run that must succeed."""
    assert main(["plan", *argv]) == 0
    return capsys.readouterr().out


def test_fit_lists_every_change_best_first(capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys, "--gpu", "l4", "--vllm-version", "0.20.0", "--fit", *LLAMA)
    assert "what would fit, each by itself, best first\n   1. --max-model-len " in out
    assert "GPUs with --tensor-parallel-size 2" in out


def test_fit_says_where_nothing_has_to_change(capsys: pytest.CaptureFixture[str]) -> None:
    assert "it fits as it is" in printed(capsys, "--gpu", "h200", "--fit", *LLAMA)


def test_fit_as_json_names_what_to_edit(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(printed(capsys, "--gpu", "l4", "--format", "json", "--fit", *LLAMA))["alternatives"]
    assert found[0]["changes"].keys() == {"max_model_len"}
    assert [one["changes_output"] for one in found] == sorted(one["changes_output"] for one in found)


@pytest.mark.parametrize(
    ("argv", "cause"),
    [
        (("--gpu", "l4"), "request"),
        (("--gpu", "t4", "--vllm-version", "0.20.0"), "blocks"),
        (("--gpu", "h200"), None),
        (("--gpu", "h100", "--vllm-version", "0.20.0"), None),
    ],
)
def test_the_json_says_what_fails_first(
    capsys: pytest.CaptureFixture[str], argv: tuple[str, ...], cause: str | None
) -> None:
    assert json.loads(printed(capsys, *argv, "--format", "json", *LLAMA))["cause"] == cause


def test_a_sweep_needs_no_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys, "--vllm-version", "0.20.0", "--sweep", *LLAMA)
    assert "1 × NVIDIA-L4 " in out
    assert "8 × NVIDIA-B200 " in out


def test_a_sweep_of_an_unknown_model_is_refused_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--sweep", "--", "vllm", "serve", "acme/none-of-ours"]) == 2
    assert "--model-config FILE gives one" in capsys.readouterr().err


def test_fit_without_a_gpu_asks_for_one(capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys, "--fit", *LLAMA)
    assert "what would fit: that can't be known here: no GPU is named: give --gpu, such as --gpu l4" in out
    assert "`podfit plan meta-llama/" in out
    assert "no simple change fits" not in out


def test_weights_of_doubtful_size_are_no_refusal(capsys: pytest.CaptureFixture[str]) -> None:
    large = ("--", "vllm", "serve", "mistralai/Mistral-Large-3-675B-Instruct-2512", "-tp", "8")
    out = printed(capsys, "--gpu", "h200:8", "--vllm-version", "0.27.1", *large)
    assert out.startswith("UNSURE: ")
    assert "how the weights are stored (4 to 16 bits each)" in out
    assert "DOES NOT FIT" not in out


def test_a_verdict_is_written_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    large = ("--", "vllm", "serve", "meta-llama/Llama-3.1-70B-Instruct")
    assert printed(capsys, "--gpu", "l4", *large).startswith("DOES NOT FIT: weights ")
    assert json.loads(printed(capsys, "--gpu", "l4", "--format", "json", *large))["verdict"] == "does-not-fit"


def test_a_name_keeps_its_organisation(capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys, "--gpu", "l4", "--", "vllm", "serve", "unsloth/Qwen3-8B-GGUF:Q4_K_M")
    assert "  model        unsloth/Qwen3-8B-GGUF:Q4_K_M, " in out


@pytest.mark.parametrize(
    ("release", "model", "is_explained"),
    [
        ("0.19.1", "google/gemma-3-27b-it", True),
        ("0.19.1", "openai/gpt-oss-20b", True),
        ("0.19.1", "Qwen/Qwen3-8B", False),
        ("0.27.1", "google/gemma-3-27b-it", False),  # this release counts tokens by the concurrency
    ],
)
def test_more_requests_than_the_tokens_allow_have_a_reason(
    capsys: pytest.CaptureFixture[str], release: str, model: str, is_explained: bool
) -> None:
    command = ["vllm", "serve", model, "--max-model-len", "32768"]
    main(["plan", "--gpu", "h100", "--vllm-version", release, "--", *command])

    out = capsys.readouterr().out
    assert ("more than the tokens allow: layers with a sliding window" in out) is is_explained
    assert ("per request in layers with a sliding window" in out) is (model != "Qwen/Qwen3-8B")
