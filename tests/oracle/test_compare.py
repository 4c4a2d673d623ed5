"""What counts as a difference between podfit's plan and vLLM's own code."""

from __future__ import annotations

from typing import Any

import pytest

from oracle import compare as module
from oracle.cases import GPUS, Case
from oracle.compare import compare, first_line, near, report


def case(stage: str, *arguments: str) -> Case:
    return Case("1", stage, "0.33.0", GPUS[0], "acme/chat", arguments, 1 << 30 if stage == "kv" else None)


def plan(**more: Any) -> dict[str, Any]:
    return {"verdict": "fits", "engine": {"arguments": {}, "resolved": {}}, "findings": [], **more}


ACCEPTED: dict[str, Any] = {"accepted": True, "values": {}, "resolved": {"max_num_seqs": 256}}
REJECTED = {"accepted": False, "stage": "config", "error": "ValueError: max_model_len is too long"}
DENIED = {"rule": "conflicting-flags", "mode": "deny"}
KV: dict[str, Any] = {"passes": True, "error": None, "tokens": 1000.0, "concurrency": 2.0, "longest": None}


@pytest.mark.parametrize(
    ("stage", "vllm", "podfit", "kinds"),
    [
        ("parse", ACCEPTED, plan(), []),
        ("parse", ACCEPTED, plan(engine={"errors": ["--seed: 'x'"]}), ["denied, vLLM accepts"]),
        ("parse", {**ACCEPTED, "values": {"seed": 1}}, plan(engine={"arguments": {"seed": 2}}), ["argument"]),
        ("parse", {**ACCEPTED, "values": {"seed": 1}}, plan(engine={"arguments": {"seed": 1}}), []),
        ("parse", REJECTED, plan(), ["no finding, vLLM rejects"]),
        ("parse", REJECTED, plan(engine={"unknown": ["--x"]}), []),
        ("config", REJECTED, plan(), ["no finding, vLLM rejects"]),
        ("config", REJECTED, plan(findings=[{"rule": "max-model-len-too-long", "mode": "warn"}]), []),
        ("config", REJECTED, plan(findings=[{"rule": "gpu-memory-exceeded", "mode": "deny"}]),
         ["no finding, vLLM rejects"]),
        ("config", ACCEPTED, plan(findings=[DENIED]), ["denied, vLLM accepts"]),
        ("config", ACCEPTED, plan(findings=[{"rule": "gpu-lacks-dtype", "mode": "deny"}]), []),
        ("config", ACCEPTED, plan(engine={"resolved": {"max_num_seqs": 128}}), ["value"]),
        ("config", ACCEPTED, plan(engine={"resolved": {"max_num_seqs": 256}}), []),
        ("config", ACCEPTED, {"error": "not a command"}, ["argument"]),
        ("kv", {**ACCEPTED, "kv": KV}, plan(verdict="does-not-fit", gpu={}),
         ["denied, vLLM accepts", "KV cache", "KV cache"]),
        ("kv", {**ACCEPTED, "kv": KV}, plan(gpu={"kv_cache_tokens": {"likely": 1004}, "max_concurrency": 2.01}), []),
        ("kv", {**ACCEPTED, "kv": {**KV, "passes": False, "error": "4 GiB is needed"}}, plan(),
         ["fits, vLLM rejects"]),
        ("kv", {**ACCEPTED, "kv": {**KV, "passes": False, "error": "4 GiB is needed", "longest": 100}},
         plan(verdict="does-not-fit", gpu={"estimated_max_model_len": 200}), ["KV cache"]),
    ],
)  # fmt: skip
def test_differences(stage: str, vllm: dict[str, Any], podfit: dict[str, Any], kinds: list[str]) -> None:
    assert [one.kind for one in compare(case(stage), vllm, podfit)] == kinds


def test_names_that_are_looked_up_later_are_no_wrong_denials() -> None:
    denied = plan(findings=[DENIED])
    assert compare(case("config", "--tool-call-parser", "hermess"), ACCEPTED, denied) == []


def test_the_report_joins_releases_and_counts_known_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    differences = compare(case("config", "--seed", "1"), REJECTED, plan())
    text = report([*differences, *differences])
    assert text.count("max_model_len is too long") == 1
    assert text.count("0.33.0 on NVIDIA H100") == 2
    monkeypatch.setattr(module, "KNOWN", [("vLLM rejects: .*too long.*--seed 1", "podfit does not know the seed")])
    assert report(differences) == "known: 1 × podfit does not know the seed"
    assert report([]) == "no differences"


def test_the_line_of_an_error_that_says_something() -> None:
    pydantic = "ValidationError: 1 validation error for ModelConfig\n  Value error, too long\n  For further information"
    assert first_line(pydantic) == "Value error, too long"
    assert first_line("\n") == ""


@pytest.mark.parametrize(("one", "other", "same"), [(100, 100.4, True), (100, 101, False), (None, 1, False)])
def test_near(one: float | None, other: float, same: bool) -> None:
    assert near(one, other, 0.005) is same
