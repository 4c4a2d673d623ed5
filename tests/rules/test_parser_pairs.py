"""Pairs of a model and a parser: those that read what the model writes, and those that do not."""

from __future__ import annotations

import pytest

from podfit.base import data
from podfit.cli import main
from podfit.evaluation.lint import lint
from podfit.evaluation.policy import load
from podfit.vllm.facts import Facts
from podfit.vllm.model import recipes

RIGHT = """
Qwen/Qwen3-8B hermes | Qwen/Qwen3-235B-A22B-FP8 hermes | Qwen/Qwen2.5-72B-Instruct-AWQ hermes | Qwen/QwQ-32B hermes
Qwen/Qwen3-Coder-30B-A3B-Instruct qwen3_coder | Qwen/Qwen3-Coder-480B-A35B-Instruct qwen3_xml
Qwen/Qwen3.5-35B-A3B qwen3_coder | Qwen/Qwen3.6-27B qwen3_xml | Qwen/Qwen3-Next-80B-A3B-Instruct hermes
meta-llama/Llama-3.1-8B-Instruct llama3_json | meta-llama/Llama-3.2-3B-Instruct pythonic
meta-llama/Llama-3.3-70B-Instruct llama3_json | meta-llama/Llama-4-Scout-17B-16E-Instruct llama4_pythonic
mistralai/Mistral-7B-Instruct-v0.3 mistral | mistralai/Mistral-Small-3.2-24B-Instruct-2506 mistral
mistralai/Ministral-3-8B-Instruct-2512 mistral | deepseek-ai/DeepSeek-V3-0324 deepseek_v3
deepseek-ai/DeepSeek-R1-0528 deepseek_v3 | deepseek-ai/DeepSeek-V3.1 deepseek_v31
deepseek-ai/DeepSeek-V4-Flash deepseek_v4 | zai-org/GLM-4.5-Air-FP8 glm45 | zai-org/GLM-4.7 glm47
zai-org/GLM-4.7-Flash glm45 | openai/gpt-oss-20b openai | moonshotai/Kimi-K2-Instruct-0905 kimi_k2
MiniMaxAI/MiniMax-M2 minimax_m2 | google/gemma-4-31B-it gemma4 | ibm-granite/granite-3.1-8b-instruct granite
NousResearch/Hermes-3-Llama-3.1-8B hermes | microsoft/Phi-4-mini-instruct phi4_mini_json
nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-FP8 qwen3_coder | LiquidAI/LFM2.5-1.2B-Instruct lfm2
"""
WRONG = """
Qwen/Qwen3-8B mistral | Qwen/Qwen3-235B-A22B-FP8 llama3_json | Qwen/Qwen2.5-72B-Instruct-AWQ llama3_json
Qwen/QwQ-32B deepseek_v3 | Qwen/Qwen3-Coder-30B-A3B-Instruct hermes | Qwen/Qwen3-4B qwen3_coder
Qwen/Qwen3.5-35B-A3B hermes | Qwen/Qwen3.6-27B mistral | Qwen/Qwen3-Next-80B-A3B-Instruct pythonic
meta-llama/Llama-3.1-8B-Instruct hermes | meta-llama/Llama-3.2-3B-Instruct mistral
meta-llama/Llama-3.3-70B-Instruct mistral | meta-llama/Llama-4-Scout-17B-16E-Instruct hermes
mistralai/Mistral-7B-Instruct-v0.3 hermes | mistralai/Mistral-Small-3.2-24B-Instruct-2506 llama3_json
mistralai/Ministral-3-8B-Instruct-2512 hermes | deepseek-ai/DeepSeek-V3-0324 hermes
deepseek-ai/DeepSeek-R1-0528 qwen3_coder | deepseek-ai/DeepSeek-V3.1 deepseek_v3
deepseek-ai/DeepSeek-V4-Flash deepseek_v32 | zai-org/GLM-4.5-Air-FP8 hermes | zai-org/GLM-4.7 qwen3_coder
openai/gpt-oss-20b hermes | openai/gpt-oss-120b llama3_json | moonshotai/Kimi-K2-Instruct-0905 hermes
MiniMaxAI/MiniMax-M2 hermes | google/gemma-4-31B-it pythonic | ibm-granite/granite-3.1-8b-instruct hermes
NousResearch/Hermes-3-Llama-3.1-8B llama3_json | microsoft/Phi-4-mini-instruct mistral
nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-FP8 hermes | LiquidAI/LFM2.5-1.2B-Instruct hermes
"""


def pairs(text: str) -> list[tuple[str, str]]:
    """(model, parser) of each pair of a table."""
    words = [pair.split() for line in text.splitlines() for pair in line.split("|") if pair.strip()]
    return [(model, parser) for model, parser in words]


def reported(model: str, *arguments: str) -> list[str]:
    """The messages of the rule for a Pod that serves this model."""
    container = {"name": "vllm", "image": "vllm/vllm-openai:v0.33.0", "args": [f"--model={model}", *arguments],
                 "resources": {"limits": {"nvidia.com/gpu": "1"}}}  # fmt: skip
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "chat"}, "spec": {"containers": [container]}}
    found = lint(pod, load([]), Facts(), where="check").findings
    return [judged.finding.message for judged in found if judged.rule == "parser-for-another-model"]


@pytest.mark.parametrize(("model", "parser"), pairs(RIGHT))
def test_a_parser_that_reads_the_models_format_is_not_reported(model: str, parser: str) -> None:
    assert recipes.parsers_of(model, "tool_call_parser")
    assert not reported(model, "--enable-auto-tool-choice", f"--tool-call-parser={parser}")


@pytest.mark.parametrize(("model", "parser"), pairs(WRONG))
def test_a_parser_for_another_format_is_reported_once(model: str, parser: str) -> None:
    (message,) = reported(model, "--enable-auto-tool-choice", f"--tool-call-parser={parser}")
    assert f"--tool-call-parser {parser} does not read the tool calls of {model}" in message


@pytest.mark.parametrize(
    "more",
    ["--chat-template=/t.jinja", "--tool-parser-plugin=/p.py", '--hf-overrides={"rope_theta": 1}', "--tokenizer=a/b"],
)
def test_an_argument_that_may_change_the_format_silences_the_rule(more: str) -> None:
    assert not reported("Qwen/Qwen3-8B", "--enable-auto-tool-choice", "--tool-call-parser=mistral", more)


@pytest.mark.parametrize(
    "model", ["/models/Qwen3-8B", "acme/qwen3-8b-support", "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B"]
)
def test_a_path_and_a_fine_tune_are_not_reported(model: str) -> None:
    assert not reported(model, "--enable-auto-tool-choice", "--tool-call-parser=mistral")


def test_reasoning_in_other_tags_is_reported_and_the_same_tags_are_not() -> None:
    assert not reported("Qwen/Qwen3-8B", "--reasoning-parser=deepseek_r1")
    (message,) = reported("Qwen/Qwen3-8B", "--reasoning-parser=openai_gptoss")
    assert "does not read the reasoning of Qwen/Qwen3-8B; its recipe names qwen3" in message


def test_a_family_of_which_two_recipes_differ_has_no_parsers(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {
        f"acme/echo-{size}b": f'{{"id": "acme/echo-{size}b", "tool_call_parsers": ["{parser}"], "source": "x"}}'
        for size, parser in ((8, "hermes"), (70, "mistral"))
    }
    monkeypatch.setattr(data, "rows", lambda name: rows)
    recipes.families.cache_clear()
    try:
        assert recipes.parsers_of_family("acme/echo-3b", "tool_call_parser") == ()
        assert recipes.parsers_of("acme/echo-8b", "tool_call_parser") == ("hermes",)
    finally:
        recipes.families.cache_clear()


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("Qwen/Qwen3-235B-A22B-Instruct-2507-FP8", "qwen3"),
        ("meta-llama/Meta-Llama-3.1-8B-Instruct", "llama-3.1"),
        ("Qwen/Qwen3-Coder-30B-A3B-Instruct", "qwen3-coder"),
        ("acme/qwen3-8b-support", "qwen3-support"),
    ],
)
def test_a_family_has_the_name_without_sizes_dates_and_tunings(model: str, family: str) -> None:
    assert recipes.family(model) == family


def test_a_recipe_is_one_line_of_a_plan(capsys: pytest.CaptureFixture[str]) -> None:
    main(["plan", "--no-config", "--gpu", "h200:8", "--vllm-version", "0.33.0", "--", "vllm", "serve",
          "zai-org/GLM-4.7", "--tensor-parallel-size=8"])  # fmt: skip
    assert "  recipe       vLLM 0.11.0 or newer, --tool-call-parser glm47, --reasoning-parser glm45  (" in (
        capsys.readouterr().out
    )
