"""Numbers that an author writes cost no work: not as loops, lists or texts, and no rule is silenced by them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from typing import Any

import pytest

from podfit.base import numbers
from podfit.evaluation.lint import Report, lint
from podfit.evaluation.policy import builtin
from podfit.kube import manifest
from podfit.vllm.args.flags import builtin as flags
from podfit.vllm.args.settings import bounded, variables
from podfit.vllm.facts import Facts
from tests.conftest import GOOD_POD

HUGE = ("1000000", "1000000000", "9" * 4000)
OTHER = "--no-such-flag"
"""A mistake next to the number, whose rule must still report it."""
JSONDict = dict[str, Any]


def pod(*args: str) -> JSONDict:
    """The good Pod as a Deployment, with a mistake."""
    obj = deepcopy(GOOD_POD)
    obj["spec"]["containers"][0]["args"] = ["Qwen/Qwen3-8B", OTHER, *args]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "llama", "namespace": "default"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": obj["spec"]},
        },
    }


def work(obj: JSONDict) -> tuple[Report, int]:
    """The report, and the number of calls that it took."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        report = lint(obj, builtin(), Facts(), where="check")
    finally:
        sys.setprofile(None)
    return report, calls


@cache
def usual_work() -> int:
    """The calls that the Pod takes without the number, with all tables loaded."""
    lint(pod(), builtin(), Facts(), where="check")
    return work(pod())[1]


def check(make: Callable[[str], JSONDict]) -> None:
    """Every huge number costs little more than none, ends no rule, and makes no long text."""
    lint(make("8"), builtin(), Facts(), where="check")  # loads what the field needs
    for number in HUGE:
        report, more = work(make(number))

        assert report.errors == (), number
        assert "unknown-flag" in {judged.rule for judged in report.findings}, number
        assert more < 4 * usual_work() + 40_000, number
        assert max(len(judged.finding.message) for judged in report.findings) <= 1100


PARSER = flags().parser(flags().releases[-1], "serve")
NUMERIC = sorted(
    flag
    for flag, (option, on) in PARSER.spellings.items()
    if on and flag.startswith("--") and any(kind in (option.type or "") for kind in ("int", "float"))
)


@pytest.mark.parametrize("flag", NUMERIC)
def test_the_number_of_an_argument(flag: str) -> None:
    check(lambda number: pod(flag, number))


OVERRIDES = (
    "num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "head_dim",
    "vocab_size", "num_experts", "num_local_experts", "num_experts_per_tok", "moe_intermediate_size",
    "n_routed_experts", "num_nextn_predict_layers", "max_position_embeddings", "sliding_window", "max_window_layers",
    "full_attention_interval", "first_k_dense_replace", "kv_lora_rank", "mamba_d_state", "num_kv_shared_layers",
)  # fmt: skip


@pytest.mark.parametrize("key", OVERRIDES)
@pytest.mark.parametrize("place", ["{}", "text_config"])
def test_a_number_of_the_model(key: str, place: str) -> None:
    def make(number: str) -> JSONDict:
        inner = f'{{"{key}": {number}}}'
        return pod("--hf-overrides", inner if place == "{}" else f'{{"{place}": {inner}}}')

    check(make)


@pytest.mark.parametrize(
    "text",
    [
        '{{"num_speculative_tokens": {0}, "method": "ngram"}}',
        '{{"num_speculative_tokens": 2, "method": "ngram", "prompt_lookup_max": {0}}}',
        '{{"num_speculative_tokens": 2, "method": "eagle", "model": "a/b", "draft_tensor_parallel_size": {0}}}',
    ],
)
def test_a_number_of_speculative_decoding(text: str) -> None:
    check(lambda number: pod("--speculative-config", text.format(number)))


@pytest.mark.parametrize("name", sorted(variables()))
def test_the_number_of_a_variable(name: str) -> None:
    def make(number: str) -> JSONDict:
        obj = pod()
        obj["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": name, "value": number}]
        return obj

    check(make)


FIELDS = (
    ("spec", "replicas"),
    ("spec", "progressDeadlineSeconds"),
    ("spec", "minReadySeconds"),
    ("spec", "template", "spec", "terminationGracePeriodSeconds"),
    *(
        ("spec", "template", "spec", "containers", 0, probe, field)
        for probe in ("startupProbe", "livenessProbe", "readinessProbe")
        for field in ("periodSeconds", "failureThreshold", "initialDelaySeconds", "timeoutSeconds", "successThreshold")
    ),
    *(
        ("spec", "template", "spec", "containers", 0, "resources", kind, name)
        for kind in ("limits", "requests")
        for name in ("cpu", "memory", "nvidia.com/gpu", "ephemeral-storage")
    ),
    ("spec", "template", "spec", "containers", 0, "ports", 0, "containerPort"),
)


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: ".".join(map(str, field)))
@pytest.mark.parametrize("written", [int, str])
def test_the_number_of_a_field(field: tuple[str | int, ...], written: type) -> None:
    def make(number: str) -> JSONDict:
        obj = pod()
        container = obj["spec"]["template"]["spec"]["containers"][0]
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            container[probe] = {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 10}
        container.setdefault("ports", [{}])
        container.setdefault("resources", {}).setdefault("requests", {})
        node: Any = obj
        for part in field[:-1]:
            node = node[part]
        node[field[-1]] = numbers.bounded(int(number)) if written is int else number  # as all readers do
        return obj

    check(make)


@pytest.mark.parametrize("digits", [400, 4000])
def test_a_manifest_of_json_has_no_number_beyond_int64(digits: int) -> None:
    (document,) = manifest.read(f'{{"kind": "Pod", "spec": {{"a": {"9" * digits}}}}}'.encode(), "pod.json").documents

    assert document.object["spec"]["a"] == numbers.LARGEST


def test_every_bounded_argument_is_tried() -> None:
    """The arguments with bounds in vLLM's classes are numbers, which the table above has."""
    tried = {PARSER.spellings[flag][0].dest for flag in NUMERIC}

    assert {dest for dest in bounded() if dest in PARSER.dests} <= tried
