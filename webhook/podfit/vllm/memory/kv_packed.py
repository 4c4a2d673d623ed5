"""Groups of layers with pages of different sizes: a block has the pages of one group, one after the other.

vLLM 0.20 … 0.28 v1/core/kv_cache_utils.py group_and_unify_kv_cache_specs, _get_kv_cache_groups_uniform_groups; from
0.29 _get_packed_kv_cache_groups (0.33 kv_cache_planning.py). The models that have such groups, DeepSeek-V4, have full
layers of several sizes, whose number decides how the layers with a window are split.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

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


class _Bucket(NamedTuple):
    """The properties that layers of one bucket have in common; the sizes of their pages may differ."""

    kind: str
    block_size: int
    window: int


def groups(layers: Layers, release: Release) -> list[Layers]:
    """The layers of each group. The full layers are the first group, however many they are; the other layers with the
    same kind, block size and window are split into groups of the same depth."""
    buckets: dict[_Bucket, list[tuple[int, Spec]]] = {}
    for index, spec in layers:
        buckets.setdefault(_Bucket(spec.kind, spec.block_size, spec.window), []).append((index, spec))
    full = [layer for bucket, members in buckets.items() if bucket.kind == FULL for layer in members]
    others = [members for bucket, members in buckets.items() if bucket.kind != FULL]
    if release < DENSE:
        others = [_padded(members, full) for members in others]
    depth = _depth(full, others, release)
    if depth is None:
        return [full, *others]
    split = [_split(members, -(-_repeats(members) // depth)) for members in others]
    return [full, *(part for parts in split for part in parts)]


def _depth(full: Layers, others: Sequence[Layers], release: Release) -> int | None:
    """The number of layers of one size that a group has at most, but for the full ones. None: nothing is split.

    Up to BY_REPEATS, at least as many as the full layers have. From then on, only buckets with as many layers of each
    size count, and it is at least the most that one of several sizes has."""
    if release < BY_REPEATS:
        at_least = _repeats(full)
        return _least_padding([at_least, *map(_repeats, others)], at_least)
    balanced = [members for members in (full, *others) if len(set(_pages(members).values())) == 1]
    at_least = max([_repeats(members) for members in balanced if len(_pages(members)) > 1], default=0)
    return _least_padding([_repeats(members) for members in balanced], at_least) if at_least else None


def bytes_per_block(parts: Sequence[Layers], release: Release) -> int:
    """Bytes of a block, in which the layers of each group have a page.

    From DENSE on, those of the largest group. In between, from SLOTS on, each size of a page has as many slots as the
    group with the most layers of this size."""
    if release >= DENSE:
        return max(sum(spec.page for _, spec in part) for part in parts)
    if release < SLOTS:
        return checked_bytes_per_block(parts, release)
    slots: Counter[int] = Counter()  # bytes of a page → slots
    for part in parts:
        slots |= _pages(part)  # the larger number for each size
    return sum(page * count for page, count in slots.items())


def checked_bytes_per_block(parts: Sequence[Layers], release: Release) -> int:
    """Bytes that the check of one request counts for a block (_max_memory_usage_bytes_from_groups). Before BY_REPEATS:
    one page of each size of the first group, times the most layers of one size in any group."""
    if release >= BY_REPEATS:
        return bytes_per_block(parts, release)
    sizes_of_first_group = _pages(parts[0]).keys()
    return sum(sizes_of_first_group) * max(map(_repeats, parts))


def _pages(layers: Layers) -> Counter[int]:
    """Size of a page → number of layers."""
    return Counter(spec.page for _, spec in layers)


def _repeats(layers: Layers) -> int:
    """Number of layers of the most frequent size."""
    return max(_pages(layers).values(), default=0)


def _padded(layers: Layers, full: Layers) -> list[tuple[int, Spec]]:
    """The layers, each page as large as the next larger one of a full layer; unchanged if no full layer has as large a
    page."""
    sizes = sorted(_pages(full))

    def padded_page(page: int) -> int:
        """Bytes of the page after padding."""
        return min([size for size in sizes if size >= page], default=page)

    return [(index, spec._replace(page=padded_page(spec.page))) for index, spec in layers]


def _split(layers: Layers, parts: int) -> list[Layers]:
    """The layers in `parts` groups that have as many layers of each size: a repeat is one layer of each size, and every
    group gets each `parts`-th repeat. Layers of a size beyond the last complete repeat are left out."""
    by_size = [[(index, spec) for index, spec in layers if spec.page == page] for page in _pages(layers)]
    repeats = list(zip(*by_size, strict=False))
    return [[layer for repeat in repeats[start::parts] for layer in repeat] for start in range(parts)]


def _least_padding(counts: Sequence[int], at_least: int) -> int:
    """The depth from `at_least` on with the least padding, the largest of several (_approximate_gcd). Padding: the
    layers by which each of the `counts` is short of a multiple of the depth."""
    depths = range(max(1, at_least), max(at_least, *counts) + 1)

    def padding(depth: int) -> int:
        """Layers of padding in all."""
        return sum(-count % depth for count in counts)

    return min(depths, key=lambda depth: (padding(depth), -depth))
