"""What is remembered between Pods: answers about short texts, and only so many of them."""

from __future__ import annotations

import copy
import gc
import json
from collections.abc import Callable, Iterator
from functools import _lru_cache_wrapper
from itertools import islice
from random import Random
from types import ModuleType
from typing import Any

import pytest

from benchmarks import mutations
from podfit.evaluation import review
from podfit.evaluation.policy import builtin
from podfit.kube import path
from podfit.vllm import release
from podfit.vllm.facts import Facts
from podfit.vllm.gpu import by_name, name
from podfit.vllm.model import by_id, catalogue
from tests import reviews

LONG = "x" * 5000


ASKED: dict[str, tuple[Callable[[str], object], Any, str]] = {
    "a product's name": (by_name, name._known_name, "NVIDIA-L4"),
    "a model's id": (by_id, catalogue._by_id, "Qwen/Qwen3-8B"),
    "an image": (release.is_official, release._is_official, "vllm/vllm-openai:v0.11.0"),
    "an image's release": (release.from_image, release._from_image, "vllm/vllm-openai:v0.11.0"),
}


@pytest.mark.parametrize("what", ASKED)
def test_a_short_text_is_looked_up_once(what: str) -> None:
    ask, memory, text = ASKED[what]
    memory.cache_clear()

    first, second = ask(text), ask(text)

    assert first == second
    assert first
    assert memory.cache_info().hits >= 1
    assert memory.cache_info().maxsize is not None


@pytest.mark.parametrize("what", ASKED)
def test_a_long_text_is_answered_alike_and_not_kept(what: str) -> None:
    ask, memory, text = ASKED[what]
    memory.cache_clear()

    assert not ask(LONG + text)
    assert memory.cache_info().currsize == 0


def test_the_places_behind_a_long_key_are_not_kept() -> None:
    path._first_items.cache_clear()

    assert list(path.FieldPath((LONG,)).items(1)) == [path.FieldPath((LONG, 0))]
    assert path._first_items.cache_info().currsize == 0


LONGEST = 20_000
"""Characters: no two hundred short texts have so many."""
MARK = "\N{SNOWMAN}"
"""Appears in no table and in no message of podfit: an object that contains it came with a Pod."""
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "labels": {"app": "a"}, "annotations": {"podfit.dev/model": "Qwen/Qwen3-8B"}},
    "spec": {
        "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-L4"},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "nvidia.com/gpu.memory", "operator": "Gt", "values": ["20000"]}]},
        ]}}},
        "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}],
        "containers": [{
            "name": "vllm",
            "image": "vllm/vllm-openai:v0.11.0",
            "command": ["vllm", "serve"],
            "args": [
                "Qwen/Qwen3-8B", "--max-model-len", "8192", "--quantization", "fp8", "--kv-cache-dtype", "fp8",
                "--mamba-ssm-cache-dtype", "float32", "--all2all-backend", "naive",
                "--speculative-config", '{"method": "eagle", "model": "a/b", "num_speculative_tokens": 2}',
            ],
            "env": [{"name": "VLLM_PP_LAYER_PARTITION", "value": "18,18"}, {"name": "VLLM_USE_V1", "value": "1"}],
            "resources": {"limits": {"nvidia.com/gpu": "1", "memory": "32Gi"}},
            "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
        }],
    },
}  # fmt: skip
OVERRIDES: tuple[dict[str, Any], ...] = (
    {"architectures": ["Foo"]},
    {"model_type": "qwen3"},
    {"layer_types": ["full_attention"]},
    {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}},
    {"quantization_config": {"quant_method": "fp8", "ignored_layers": ["lm_head"]}},
)


def grown(whole: Any, at: Any, most: int = LONGEST) -> Iterator[Any]:
    """`whole`, once for each place in `at`, a part of it, where a text or a list can be long: with so much there."""
    for key in list(at if isinstance(at, dict) else range(len(at))):
        before = at[key]
        if isinstance(before, str):
            at[key] = before + MARK * most
            yield copy.deepcopy(whole)
            at[key] = before
        elif isinstance(before, list):
            last = before[-1]
            more = f"{last}{MARK}" * 5 if isinstance(last, str) else {**last, next(iter(last)): MARK * 100}
            at[key] = [*before, *[more] * (most // 100)]
            yield copy.deepcopy(whole)
            at[key] = before
        if isinstance(at, dict):
            at[key + MARK * most] = at.pop(key)
            yield copy.deepcopy(whole)
            at[key] = at.pop(key + MARK * most)
        if isinstance(before, dict | list):
            yield from grown(whole, before, most)


def reviewed() -> Iterator[Any]:
    """Pods with something long somewhere."""
    for image in ("vllm/vllm-openai:v0.11.0", "acme/vllm:main"):
        pod = copy.deepcopy(POD)
        container = pod["spec"]["containers"][0]
        container["image"] = image
        yield from grown(pod, pod["metadata"])
        yield from grown(pod, pod["spec"])
        yield from grown(pod, container["args"])
        for overrides in copy.deepcopy(OVERRIDES):
            for longer in grown(overrides, overrides):
                mine = copy.deepcopy(pod)
                mine["spec"]["containers"][0]["args"] += ["--hf-overrides", json.dumps(longer, ensure_ascii=False)]
                yield mine


def memories() -> list[_lru_cache_wrapper[Any]]:
    """Everything that remembers, but for what is as large as its table."""
    found = [one for one in gc.get_objects() if isinstance(one, _lru_cache_wrapper)]
    ours = [one for one in found if str(one.__module__).startswith("podfit.")]
    return [one for one in ours if one.cache_info().maxsize is not None]


def kept(memory: _lru_cache_wrapper[Any]) -> int:
    """Characters that came with Pods, in a memory's questions and answers; a reference is one, too."""
    left, seen, found = list(gc.get_referents(memory)), set[int](), 0
    while left:
        one = left.pop()
        if isinstance(one, str):
            found += len(one) if MARK in one else 0
        elif id(one) not in seen and not isinstance(one, type | ModuleType) and not callable(one):
            seen.add(id(one))
            left += gc.get_referents(one)
    return found


def test_whoever_writes_pods_fills_no_memory() -> None:
    """Whatever is long in a Pod, wherever: what is remembered of it is short."""
    facts, policy = Facts(), builtin()

    def decide(pod: Any) -> None:
        review.decide("validate", review.parse(json.dumps(reviews.admission_review(pod)).encode()), policy, facts)

    decide(POD)  # loads what is loaded late
    found = memories()
    assert found
    pods = reviewed()
    while some := list(islice(pods, 50)):  # no more than the smallest memory has room for
        for pod in some:
            decide(pod)
        assert {f"{one.__module__}.{one.__qualname__}" for one in found if kept(one) >= LONGEST} == set()


def test_a_review_leaves_nothing_to_the_collector() -> None:
    """Objects that hold each other in a circle live until Python's collector finds them, while a review waits."""
    random, policy, facts = Random(0), builtin(), Facts()
    asked = [review.parse(json.dumps(mutations.review(random, one)).encode()) for one in mutations.corpus()]

    def decide_all() -> None:
        for one in asked:
            review.decide("validate", one, policy, facts)
            review.decide("mutate", one, policy, facts)

    decide_all()
    gc.collect()
    gc.disable()
    try:
        decide_all()
        assert gc.collect() < len(asked), "every engine is in a circle"
    finally:
        gc.enable()
