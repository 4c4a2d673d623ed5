"""Groups of layers with pages of different sizes: a block has the pages of one group, one after the other.

vLLM 0.20 … 0.28 v1/core/kv_cache_utils.py group_and_unify_kv_cache_specs, _get_kv_cache_groups_uniform_groups; from
0.29 _get_packed_kv_cache_groups (0.33 kv_cache_planning.py). The models that have such groups, DeepSeek-V4, have full
layers of several sizes, whose number decides how the layers with a window are split.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from podfit.vllm.memory.kv_specs import FULL, Spec
from podfit.vllm.release import Release

Layers = Sequence[tuple[int, Spec]]
"""(index of the layer, its cache), in the order of the model."""
DENSE = Release(0, 27)
"""Pages lie one after the other (_get_packed_kv_cache_layout). Before, each layer with a window is padded to the next
larger page of a full layer, and all groups have the same slots."""
SLOTS = Release(0, 23)
"""Before, each size has as many slots as the group with the most layers of one size (_pool_bytes_per_block)."""
BY_REPEATS = Release(0, 29)
"""Groups have the same number of repeats of a pattern of sizes, and the check counts real blocks."""


def groups(layers: Layers, release: Release) -> list[Layers]:
    """The layers of each group; the full layers are one group."""
    buckets: dict[tuple[str, int, int], list[tuple[int, Spec]]] = {}
    for index, spec in layers:
        buckets.setdefault((spec.kind, spec.block_size, spec.window), []).append((index, spec))
    full = [layer for key, bucket in buckets.items() if key[0] == FULL for layer in bucket]
    others = [bucket for key, bucket in buckets.items() if key[0] != FULL]
    if release < DENSE:
        others = [_padded(bucket, full) for bucket in others]
    if release < BY_REPEATS:
        at_least = _repeats(full)
        depth = _least_padding([at_least, *map(_repeats, others)], at_least)
    else:
        balanced = [bucket for bucket in (full, *others) if len(set(_pages(bucket).values())) == 1]
        at_least = max((_repeats(bucket) for bucket in balanced if len(_pages(bucket)) > 1), default=0)
        if not at_least:
            return [full, *others]
        depth = _least_padding(list(map(_repeats, balanced)), at_least)
    return [full, *(part for bucket in others for part in _split(bucket, -(-_repeats(bucket) // depth)))]


def bytes_per_block(parts: Sequence[Layers], release: Release) -> int:
    """Bytes of a block, in which the layers of each group have a page."""
    if release >= DENSE:
        return max(sum(spec.page for _, spec in part) for part in parts)
    if release < SLOTS:
        return checked_bytes_per_block(parts, release)
    slots: Counter[int] = Counter()
    for part in parts:
        slots |= _pages(part)
    return sum(page * count for page, count in slots.items())


def checked_bytes_per_block(parts: Sequence[Layers], release: Release) -> int:
    """Bytes that the check of one request counts for a block (_max_memory_usage_bytes_from_groups)."""
    if release >= BY_REPEATS:
        return bytes_per_block(parts, release)
    return sum(_pages(parts[0])) * max(map(_repeats, parts))


def _pages(layers: Layers) -> Counter[int]:
    """Size of a page → number of layers."""
    return Counter(spec.page for _, spec in layers)


def _repeats(layers: Layers) -> int:
    """Number of layers of the most frequent size."""
    return max(_pages(layers).values(), default=0)


def _padded(layers: Layers, full: Layers) -> list[tuple[int, Spec]]:
    """(index of the layer, spec) with each page as large as the next larger one of a full layer."""
    sizes = sorted(_pages(full))
    return [
        (index, spec._replace(page=min((size for size in sizes if size >= spec.page), default=spec.page)))
        for index, spec in layers
    ]


def _split(layers: Layers, parts: int) -> list[Layers]:
    """The layers in groups that have as many layers of each size."""
    by_size = [[layer for layer in layers if layer[1].page == page] for page in _pages(layers)]
    repeats = list(zip(*by_size, strict=False))
    return [[layer for repeat in repeats[start::parts] for layer in repeat] for start in range(parts)]


def _least_padding(counts: Sequence[int], at_least: int) -> int:
    """The depth from `at_least` on with the least padding, the largest of several (_approximate_gcd)."""
    depths = range(max(1, at_least), max(at_least, *counts) + 1)
    return min(depths, key=lambda depth: (sum(-count % depth for count in counts), -depth))
