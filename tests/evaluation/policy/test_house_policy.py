"""What a policy may say under house-limits: one value or a list by GPU, and what is wrong is said at its place."""

from __future__ import annotations

import re

import pytest

from podfit.evaluation.policy import PolicyError, Subject, load
from podfit.rules.operations.house_limits import (
    FactorLimit,
    HouseLimits,
    LengthLimit,
    ModelLimit,
    ReleaseLimit,
    ShareLimit,
    WhenUnknown,
)  # fmt: skip
from podfit.vllm.facts import Facts
from podfit.vllm.gpu import whole_name
from tests.conftest import GOOD_POD

HEAD = "apiVersion: podfit.dev/v1alpha1\nkind: Policy\nmetadata: {name: p}\nspec:\n  rules:\n    house-limits: "


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("{maxModelLen: 8192}", HouseLimits(max_model_len=(LengthLimit(8192),))),
        (
            "{maxModelLen: [{value: 8192, gpus: [l4, Tesla-T4]}, {value: 32768}]}",
            HouseLimits(max_model_len=(LengthLimit(8192, ("l4", "Tesla-T4")), LengthLimit(32768))),
        ),
        ("{gpuMemoryUtilization: {maximum: 0.9}}", HouseLimits(gpu_memory_utilization=(ShareLimit(maximum=0.9),))),
        ("{memoryFactor: 2}", HouseLimits(memory_factor=(FactorLimit(2),))),
        ('{releases: {allowed: ["0.27"]}}', HouseLimits(releases=ReleaseLimit(allowed=("0.27",)))),
        ("{models: {allowed: [Qwen/*]}}", HouseLimits(models=ModelLimit(("Qwen/*",)))),
        ("{whenUnknown: {releases: deny}}", HouseLimits(when_unknown=WhenUnknown(releases="deny"))),
    ],
)
def test_a_limit_is_one_value_or_a_list(text: str, rule: HouseLimits) -> None:
    (layer,) = load([("p.yaml", HEAD + text)]).everything

    assert HouseLimits(**layer.rules["house-limits"].parameters) == rule


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{maxModelLen: 32k}", "maxModelLen: expected a whole number, got '32k'"),
        ("{maxModelLen: []}", "maxModelLen: is empty: leave it out, or name at least one"),
        ("{maxModelLen: {value: 1}}", 'maxModelLen: expected a whole number, got {"value": 1}'),
        ("{maxModelLen: [8192]}", "maxModelLen[0]: expected an object, got 8192"),
        ("{maxModelLen: [{gpus: [l4]}]}", "maxModelLen[0].value: required, but absent"),
        ("{maxModelLen: [{value: 1, gpu: l4}]}", "maxModelLen[0].gpu: unknown field; did you mean 'gpus'?"),
        ("{maxModelLen: [{value: 1, gpus: [l5]}]}", "maxModelLen[0].gpus[0]: no GPU is known by the name 'l5'"),
        ("{maxModelLen: [{value: 1, gpus: [h100:8]}]}", "maxModelLen[0].gpus[0]: no GPU is known by the name 'h100:8'"),
        ("{gpuMemoryUtilization: {}}", "gpuMemoryUtilization: required: minimum, maximum or both"),
        (
            "{gpuMemoryUtilization: {minimum: 0.9, maximum: 0.5}}",
            "gpuMemoryUtilization: minimum 0.9 is above maximum 0.5: nothing is allowed",
        ),
        ("{releases: {allowed: [0.27]}}", "releases.allowed[0]: expected text, in quotes"),
        ("{releases: {minimum: latest}}", "releases.minimum: 'latest' is not a vLLM release such as 0.27.1"),
        ("{models: {allowed: []}}", "models.allowed: is empty"),
        ("{memoryFactor: 0.5}", "memoryFactor: input should be greater than or equal to 1, got 0.5"),
        (
            "{whenUnknown: {maxModelLength: deny}}",
            "whenUnknown.maxModelLength: unknown field; did you mean 'maxModelLen'?",
        ),
        ("{whenUnknown: {releases: audit}}", "whenUnknown.releases: input should be 'deny' or 'warn'"),
    ],
)
def test_what_is_wrong_is_reported_once_and_at_its_place(text: str, problem: str) -> None:
    with pytest.raises(PolicyError) as error:
        load([("p.yaml", HEAD + text)])

    (told,) = error.value.problems
    assert re.match(rf"p\.yaml:6: spec\.rules\.house-limits\.{re.escape(problem)}", told), told


def test_a_later_policy_overrides_limit_by_limit() -> None:
    first = HEAD + "{mode: deny, maxModelLen: 8192, memoryFactor: 1.5}"
    second = (HEAD + "{maxModelLen: 4096}").replace("name: p", "name: q")

    policy = load([("p.yaml", first), ("q.yaml", second)])

    setting = policy.of(Subject.of(GOOD_POD, Facts())).settings["house-limits"]
    assert setting.rule == HouseLimits(max_model_len=(LengthLimit(4096),), memory_factor=(FactorLimit(1.5),))
    assert setting.mode == "deny"


@pytest.mark.parametrize(
    ("name", "whole"),
    [
        ("NVIDIA L4", "NVIDIA L4"),
        ("NVIDIA A100 80GB SXM4 MIG 1g.10gb", "NVIDIA A100 80GB SXM4"),
        ("an unknown GPU", "an unknown GPU"),
    ],
)
def test_a_slice_is_a_part_of_the_gpu_that_its_name_begins_with(name: str, whole: str) -> None:
    assert whole_name(name) == whole
