"""Which releases know a model's architecture: what the sources say, and what is only likely."""

from __future__ import annotations

import pytest

from podfit.vllm.model import Model, architectures, by_id, from_config
from podfit.vllm.release import parse

QWEN35 = {"architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5"}
GPT_OSS = {"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss"}


def unserved(model: Model, release: str, *, remote_code: bool = False) -> bool:
    found = parse(release)
    assert found is not None
    return architectures.is_unserved(model, found, remote_code=remote_code)


@pytest.mark.parametrize(
    ("config", "release", "remote_code", "answer"),
    [
        (QWEN35, "0.11.0", False, True),
        (QWEN35, "0.11.0", True, False),  # the checkpoint's own code may serve it
        (QWEN35, "0.16.0", False, False),  # Transformers had it by then
        (QWEN35, "0.16.1", False, False),  # between what was read
        (QWEN35, "0.27.1", False, False),
        (GPT_OSS, "0.6.6.post1", True, True),  # no fallback yet
        (GPT_OSS, "0.8.5", False, True),
        (GPT_OSS, "0.10.1", False, False),
        ({"architectures": ["OursForCausalLM"], "model_type": "ours"}, "0.6.6", False, False),
        ({"architectures": ["OursForCausalLM", "GptOssForCausalLM"], "model_type": "ours"}, "0.6.6", False, False),
        ({"architectures": ["Qwen3ForSequenceClassification"], "model_type": "qwen3"}, "0.6.6", False, False),
        ({"architectures": ["Mistral3ForConditionalGeneration"], "model_type": "mistral3"}, "0.6.6", False, False),
        ({"model_type": "qwen3_5"}, "0.6.6", False, False),
    ],
    ids=str,
)
def test_only_what_the_sources_prove_is_refused(
    config: dict[str, object], release: str, remote_code: bool, answer: bool
) -> None:
    assert unserved(from_config("acme/ours", config), release, remote_code=remote_code) is answer


def test_old_models_are_served_by_all() -> None:
    llama = by_id("meta-llama/Llama-3.1-8B-Instruct")
    assert llama is not None
    assert architectures.architecture_of(llama.value) is None


QWEN = {"architectures": ["QWenLMHeadModel"], "model_type": "qwen"}
BAMBA = {"architectures": ["BambaForCausalLM"], "model_type": "bamba"}


@pytest.mark.parametrize(
    ("config", "release", "remote_code", "went", "answer"),
    [
        (QWEN, "0.20.2", False, False, False),
        (QWEN, "0.22.0", False, False, False),  # not read
        (QWEN, "0.27.1", False, True, True),
        (QWEN, "0.27.1", True, True, False),  # the checkpoint's own code may serve it
        (BAMBA, "0.27.1", False, True, False),  # Transformers has it
        ({**QWEN, "architectures": ["QWenLMHeadModel", "Qwen2ForCausalLM"]}, "0.27.1", False, False, False),
        ({"architectures": ["GritLM"], "model_type": "mistral"}, "0.33.0", False, False, False),
        ({"model_type": "qwen"}, "0.27.1", False, False, False),
    ],
    ids=str,
)
def test_what_was_removed_is_refused_where_nothing_else_serves_it(
    config: dict[str, object], release: str, remote_code: bool, went: bool, answer: bool
) -> None:
    model, found = from_config("acme/ours", config), parse(release)
    assert found is not None

    assert (architectures.removed_architecture(model, found) is not None) is went
    assert architectures.is_removed(model, found, remote_code=remote_code) is answer
