"""A context that is too long, under a policy that denies it: what was read denies, else it is said why not."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from podfit.cli.support.hub_cache import CachedModels
from podfit.evaluation.lint import GradedFinding, Report, lint
from podfit.evaluation.policy import builtin, load
from podfit.vllm.facts import Facts, GivenModel
from podfit.vllm.model import by_id
from podfit.vllm.model.length import LENGTHS
from scripts.facts.table import entries
from tests.conftest import GOOD_POD

QWEN = "Qwen/Qwen2.5-7B-Instruct"
POLICY = (
    "apiVersion: podfit.dev/v1alpha1\nkind: Policy\nmetadata: {name: lengths}\n"
    "spec: {rules: {max-model-len-too-long: {mode: deny, believeCatalog: true}}}\n"
)
DENIES = load([("lengths.yaml", POLICY)])


def _judged(pod: dict[str, Any], words: list[str], facts: Facts | None = None, **also: Any) -> GradedFinding:
    container = pod["spec"]["containers"][0]
    container.update(also, args=[*words, "--max-model-len", "131072"])
    found = lint(pod, DENIES, facts or Facts(), where="check").findings
    return next(one for one in found if one.rule == "max-model-len-too-long")


def test_a_policy_denies_where_the_config_json_was_read(pod: dict[str, Any]) -> None:
    found = _judged(pod, [QWEN])
    assert (found.mode, found.why_softened) == ("deny", None)
    assert found.finding.message.endswith(f"that the config.json of {QWEN} allows: vLLM does not start")


def test_a_config_that_was_given_counts_as_read(pod: dict[str, Any]) -> None:
    config = {"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "max_position_embeddings": 4096}
    facts = Facts(models={"acme/ours": GivenModel(config, "models.yaml: config.json")})
    assert _judged(pod, ["acme/ours"], facts).mode == "deny"
    pod["spec"]["containers"][0]["args"] = ["acme/ours", "--max-model-len", "131072"]
    assert {one.mode for one in lint(pod, builtin(), facts).findings if one.rule == "max-model-len-too-long"} == {
        "deny"
    }


def test_of_the_catalog_it_is_a_warning_without_a_policy(pod: dict[str, Any]) -> None:
    pod["spec"]["containers"][0]["args"] = [QWEN, "--max-model-len", "131072"]
    (found,) = (one for one in lint(pod, builtin(), Facts()).findings if one.rule == "max-model-len-too-long")
    assert found.mode == "warn"
    assert "may allow more by now" in (found.why_softened or "")


@pytest.mark.parametrize(
    "models",
    [
        {"acme/ours": GivenModel({"max_position_embeddings": 4096}, "models.yaml: config.json")},
        CachedModels({}, reads_cache=False, asks_hub=False),
    ],
    ids=["a config.json of another model", "an empty cache"],
)
def test_files_of_other_models_do_not_make_the_catalog_certain(
    pod: dict[str, Any], models: Mapping[str, GivenModel]
) -> None:
    pod["spec"]["containers"][0]["args"] = [QWEN, "--max-model-len", "131072"]
    report = lint(pod, builtin(), Facts(models=models), where="check")
    (graded,) = (graded for graded in report.findings if graded.rule == "max-model-len-too-long")
    assert graded.mode == "warn"
    assert "may allow more by now" in (graded.why_softened or "")


@pytest.mark.parametrize(
    ("words", "also", "why"),
    [
        (["unsloth/Qwen2.5-7B-Instruct"], {}, "no config.json of unsloth/Qwen2.5-7B-Instruct was read"),
        (["/models/Qwen2.5-7B-Instruct"], {}, "no config.json of /models/Qwen2.5-7B-Instruct was read"),
        ([QWEN, "--revision", "main"], {}, "--revision names another file"),
        ([QWEN, "--trust-remote-code"], {}, "a config class of the model's own"),
        ([QWEN], {"envFrom": [{"secretRef": {"name": "s"}}]}, "VLLM_ALLOW_LONG_MAX_MODEL_LEN may have a value"),
        ([QWEN], {"image": "registry.acme.com/vllm:v0.27.1"}, "is none of vLLM's own"),
        (["--model", QWEN], {"image": "vllm/vllm-openai:v0.6.0"}, "how vLLM 0.6.0 derives the length"),
        (["mistralai/Mistral-7B-Instruct-v0.3"], {}, ""),
    ],
)
def test_what_may_be_otherwise_is_not_denied_and_says_why(
    pod: dict[str, Any], words: list[str], also: dict[str, Any], why: str
) -> None:
    found = _judged(pod, words, **also)
    assert found.mode == "warn"
    assert why in (found.why_softened or "")
    assert found.why_softened != "likely, not certain"
    assert "vLLM does not start" in found.finding.message
    assert ("config.json" in found.finding.message) == ("no config.json" not in (found.why_softened or ""))


@pytest.mark.parametrize(
    "name",
    [
        correction["id"]
        for correction in entries("corrections")
        if any(
            key in one
            for one in (correction["changes"], *correction["changes"].values())
            if isinstance(one, dict)
            for key in LENGTHS
        )
    ],
)
def test_a_corrected_length_is_none_that_was_read(name: str) -> None:
    row = by_id(name)
    assert row is not None
    assert not row.value.length_read


@pytest.mark.parametrize(("tag", "found"), [("v0.27.1", []), ("v0.33.0", ["deny"])])
def test_the_null_block_must_fit_too(judge: Callable[..., Report], tag: str, found: list[str]) -> None:
    """From 0.29 on one block of the KV cache stays empty (vLLM v1/core/block_pool.py). 8,192 tokens of Qwen3-8B take
    exactly 1,207,959,552 bytes."""
    words = ["Qwen/Qwen3-8B", "--max-model-len", "8192", "--kv-cache-memory-bytes", "1207959552"]
    pod = copy.deepcopy(GOOD_POD)
    pod["spec"]["containers"][0] |= {"image": f"vllm/vllm-openai:{tag}", "args": ["--model", *words]}

    modes = {judged.rule: judged.mode for judged in judge(pod).findings}

    assert [modes[rule] for rule in ("kv-cache-too-small",) if rule in modes] == found
    assert "request-never-finishes" not in modes
