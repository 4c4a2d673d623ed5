"""What is remembered between Pods: answers about short texts, and only so many of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import _lru_cache_wrapper
from typing import Any

import pytest

from webhook.command import images
from webhook.facts import Facts
from webhook.gpu import by_name, find, labels, name
from webhook.model import by_id, catalogue
from webhook.workload import find as workloads

LONG = "x" * 5000


def gpu_of(product: str) -> object:
    """The GPU of a Pod whose node has that product."""
    spec = {"nodeSelector": {"nvidia.com/gpu.product": product}, "containers": [{"name": "vllm"}]}
    (pod,) = workloads({"apiVersion": "v1", "kind": "Pod", "spec": spec})
    found = find(pod, pod.containers[0], Facts())
    return found and found.value


ASKED: dict[str, tuple[Callable[[str], object], _lru_cache_wrapper[Any], str]] = {
    "a product's name": (by_name, name._known_name, "NVIDIA-L4"),
    "what a Pod demands of its node": (gpu_of, labels._known_terms, "NVIDIA-L4"),
    "a model's id": (by_id, catalogue._by_id, "Qwen/Qwen3-8B"),
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


def test_of_an_image_no_more_is_kept_than_is_read() -> None:
    images._repository.cache_clear()

    assert images.repository(f"{LONG}:a") == images.repository(f"{LONG}:b") == "x" * 512
    assert images._repository.cache_info().currsize == 1
