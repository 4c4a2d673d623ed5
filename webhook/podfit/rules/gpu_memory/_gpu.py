"""Helpers of the rules about GPU memory: the servers that may be on one GPU."""

from __future__ import annotations

from podfit.rules.engine import Engine
from podfit.vllm import release
from podfit.vllm.memory.settings import default_utilization
from podfit.vllm.release import Release


def share_of(given: object, running: Release | None) -> float:
    """The share of a GPU that vLLM takes: as given, else the release's default (the newest's if unknown)."""
    if isinstance(given, int | float) and not isinstance(given, bool):
        return float(given)
    return default_utilization(running or release.known_releases()[-1])


def servers_on_one_card(engine: Engine) -> tuple[tuple[str, float], ...]:
    """(container, share) of every vLLM of this Pod that may be given the same shared GPU, this one among them.

    Time-slicing and MPS hand one GPU to several containers that ask for the same resource; whole GPUs and MIG slices
    are handed out once.
    """
    if engine.gpu is None or not engine.gpu.value.shared or engine.requested is None:
        return ()
    return tuple(
        (sibling.container, share_of(sibling.args.given.get("gpu_memory_utilization"), sibling.release))
        for sibling in engine.siblings
        if sibling.requested is not None
        and sibling.requested[0] == engine.requested[0]
        and not sibling.args.given.get("kv_cache_memory_bytes")
    )
