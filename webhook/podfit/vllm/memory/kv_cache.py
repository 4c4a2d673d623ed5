"""The KV cache of one rank: groups of layers, blocks, the check of one request, and the numbers that vLLM logs.

It mirrors vLLM's v1/core/kv_cache_utils.py (from 0.33 kv_cache_planning.py). Layers of one kind form groups, and every
group has its own blocks from one pool. A block takes as many bytes as the layers of the largest group need for it.
Differences between releases are in `kv_releases`, the bytes that a layer stores in `kv_specs`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import NamedTuple

from podfit.vllm.memory import kv_packed, kv_specs
from podfit.vllm.memory import kv_releases as since
from podfit.vllm.memory.kv_packed import Layers
from podfit.vllm.memory.kv_specs import CHUNKED, CROSS, FULL, SLIDING, Spec, Stored, stored
from podfit.vllm.memory.remembered import remembered
from podfit.vllm.memory.settings import Settings
from podfit.vllm.model import Model
from podfit.vllm.release import Release

SOURCE = "vLLM 0.33 v1/kv_cache_interface.py, v1/core/kv_cache_planning.py"


class KvCacheGroup(NamedTuple):
    """Layers that share block ids."""

    spec: Spec
    """The spec of each layer; of the first one, if they differ in size."""
    layers: int
    """Number of these layers on this rank."""
    page: int
    """Bytes of a block in all layers of the group."""


class LayoutError(Exception):
    """vLLM raises: these layers can't be managed together. `certain`: with every attention backend."""

    def __init__(self, why: str, *, certain: bool) -> None:
        super().__init__(why)
        self.certain = certain


class CheckedBlocks(NamedTuple):
    """The blocks of a spec in the check of one request."""

    spec: Spec
    """How many blocks a request takes."""
    size: int
    """Bytes that the check counts for each of them."""


@dataclass(frozen=True, eq=False)
class Layout:
    """The layout of one rank's KV cache."""

    groups: tuple[KvCacheGroup, ...]
    bytes_per_block: int
    checked: tuple[CheckedBlocks, ...]
    """The blocks that this release's check of one request counts, one entry per spec."""
    known: bool
    """False if some layer's cache is not described here, so that only a part is counted."""
    sure_blocks: bool
    """False: the attention backend, which is unknown, decides how many tokens a block has."""
    null: int = 0
    """Bytes that the check leaves out of the memory: the block that represents "no block"."""
    refusal: LayoutError | None = None
    """The error that vLLM raises; then there are no groups."""
    of_all_stages: bool = False
    """The check counts the layers of every pipeline stage."""
    unknown_per_token: int | None = None
    """Bytes per token that unknown layers take at most, if they alone make the layout unknown; else None."""
    by_bytes: bool = False
    """The printed concurrency counts the bytes of groups with pages of different sizes, not their blocks."""

    @property
    def is_described(self) -> bool:
        """True if the capacity in tokens can be estimated: all layers are known, or the unknown ones have a bound."""
        return self.known or self.unknown_per_token is not None

    @property
    def bytes_per_token(self) -> int:
        """Bytes for each further token of a request that is longer than all windows: a block of each group that grows,
        divided by its tokens."""
        block_sizes = [
            group.spec.block_size for group in self.groups if group.spec.kind == FULL or _is_per_block(group.spec)
        ]
        return sum([-(-self.bytes_per_block // tokens) for tokens in block_sizes if tokens])

    def blocks(self, tokens: int, settings: Settings) -> int:
        """Block ids that one request of `tokens` takes. With `by_bytes`, as many blocks of the first group as have the
        bytes of all groups."""
        flight, context = in_flight(settings), settings.parallel.context
        if self.by_bytes:
            taken = sum([_blocks(group.spec, tokens, flight, context) * group.page for group in self.groups])
            return -(-taken // self.groups[0].page)
        return sum([count * _blocks(spec, tokens, flight, context) for spec, count in self._groups_of_spec.items()])

    @cached_property
    def _groups_of_spec(self) -> Mapping[Spec, int]:
        """Number of groups per spec. Cached, because a search for changes reads it often."""
        return Counter(group.spec for group in self.groups)

    def bytes(self, tokens: int, settings: Settings) -> int:
        """Bytes that one request of `tokens` takes on this rank."""
        return self.blocks(tokens, settings) * self.bytes_per_block

    def needed(self, tokens: int, settings: Settings) -> int:
        """Bytes that the check of one request of `tokens` compares with the KV cache memory less `null`."""
        flight, context = in_flight(settings), settings.parallel.context
        return sum([_blocks(spec, tokens, flight, context) * size for spec, size in self.checked])

    @property
    def rounding(self) -> int:
        """Bytes by which blocks of another size may lower the needed memory: one block of each spec. 0 if their size is
        known."""
        return 0 if self.sure_blocks else sum([blocks.size for blocks in self.checked])


def _is_per_block(spec: Spec) -> bool:
    """True if it is a state layer that keeps a state for each block."""
    return spec.is_state and spec.per_block


def in_flight(settings: Settings) -> int:
    """Tokens that are scheduled but not finished: until then, a window keeps their blocks."""
    return settings.batch.max_num_batched_tokens * (
        settings.batch.batches if settings.release >= since.IN_FLIGHT else 1
    )


def _blocks(spec: Spec, tokens: int, flight: int, context: int) -> int:
    """Blocks of one request of `tokens` in one group (`max_memory_usage_bytes` of the spec, in pages), at least those
    of one token. `flight`: as `in_flight` returns it; `context`: ranks over which a request is divided."""
    kind, block, _, window, states, per_block, _ = spec  # unpacked: a search for changes runs this often
    tokens = tokens if tokens > 1 else 1
    if kind == FULL:
        tokens = -(-tokens // context)
        return -(-tokens // block)
    if kind == SLIDING:  # the window may begin in the middle of a block, hence one block more
        return -(-min(window - 1 + flight, tokens) // block) + 1
    if kind == CHUNKED:
        return -(-min(window + flight, tokens) // block)
    if kind == CROSS:
        return -(-window // block)
    return states + (-(-tokens // block) if per_block else 0)


def layout(model: Model, settings: Settings, first: int = 0, last: int | None = None) -> Layout | None:
    """The layout of the layers `first … last` of one rank; None if they store nothing or are unknown."""
    return _layout(model, stored(settings), first, last)


def state_block(model: Model, settings: Settings) -> int | None:
    """Tokens of a block of states. None if the model has no states, if a request has one state only, or if the size is
    unknown."""
    of_all_layers = layout(model, settings)
    if of_all_layers is None or not of_all_layers.known or not of_all_layers.sure_blocks:
        return None
    for group in of_all_layers.groups:
        if group.spec.is_state:
            return group.spec.block_size or None
    return None


@remembered(256)
def _layout(model: Model, how: Stored, first: int, last: int | None) -> Layout | None:
    """`layout`, cached: the layers from `first` up to, but without, `last` (None: to the end). None if they store
    nothing or are unknown."""
    specs = kv_specs.of(model, how)
    if specs is None:
        return None
    layer_count, release = model.num_hidden_layers or 0, how.release
    end = layer_count if last is None else last

    def is_in_stage(index: int) -> bool:
        """True if the layer is on this rank. A drafter's layers come after the last one, on the last stage."""
        return first <= index and (index < end or end == layer_count)

    layers = [(index, spec) for index, spec in specs.layers if is_in_stage(index)]
    if not layers:
        return None
    known = specs.known and model.kv_heads_known
    layers_of_spec = Counter(spec for _, spec in layers)
    checked = tuple(CheckedBlocks(spec, count * spec.page) for spec, count in layers_of_spec.items())
    try:
        layer_groups = _groups(specs.layers if release >= since.SIZES else layers, how, packed=specs.packed)
    except LayoutError as error:
        page = max(spec.page for _, spec in layers)
        return Layout((), page, checked, known, specs.sure_blocks, refusal=error)
    groups = [_projected(group, is_in_stage, release) for group in layer_groups]
    per_block = max(group.page for group in groups)
    of_all_stages = how.v1 and since.ALL_STAGES <= release < since.OWN_STAGE and len(layers) < len(specs.layers)
    if specs.packed:
        parts = [[(index, spec) for index, spec in group if is_in_stage(index)] for group in layer_groups]
        per_block = kv_packed.bytes_per_block(parts, release)
        checked = _of_groups(groups, kv_packed.checked_bytes_per_block(parts, release))
    elif how.v1 and release >= since.FIRST_GROUP:
        whole_groups = [_projected(group, lambda _: True, release) for group in layer_groups]
        checked_groups = whole_groups if of_all_stages else groups
        counted = checked_groups if release >= since.ALL_GROUPS else checked_groups[:1]
        checked = _of_groups(counted, max(group.page for group in checked_groups))
    return Layout(
        groups=tuple(groups),
        bytes_per_block=per_block,
        checked=checked,
        known=known,
        sure_blocks=specs.sure_blocks,
        null=per_block if release >= since.NULL_BLOCK else 0,
        of_all_stages=of_all_stages,
        by_bytes=specs.packed and release < kv_packed.DENSE,
        unknown_per_token=specs.unknown_per_token if len(layer_groups) == 1 and model.kv_heads_known else None,
    )


def _of_groups(groups: Sequence[KvCacheGroup], bytes_per_block: int) -> tuple[CheckedBlocks, ...]:
    """The blocks of these groups, one entry per spec, as in vLLM's _max_memory_usage_bytes_from_groups."""
    groups_of_spec = Counter(group.spec for group in groups)
    return tuple(CheckedBlocks(spec, count * bytes_per_block) for spec, count in groups_of_spec.items())


def _groups(layers: Layers, how: Stored, *, packed: bool) -> Sequence[Layers]:
    """get_kv_cache_groups: the layers of each group. Raises LayoutError if vLLM raises."""
    release = how.release
    if not how.v1:
        return [layers]
    if packed:
        return kv_packed.groups(layers, release)
    if how.manager is False or release < since.MANAGER:
        layers = _promoted(layers, release)
    if _is_uniform(layers, release):
        return [layers]
    return _of_one_page(_unified(layers, release), release)


def _is_uniform(layers: Layers, release: Release) -> bool:
    """True if the layers are of one kind: is_kv_cache_spec_uniform, and from 0.11 UniformTypeKVCacheSpecs.
    is_uniform_type, for which their sizes may differ."""
    specs = {spec for _, spec in layers}
    if release >= since.SIZES:
        specs = {spec._replace(page=0, heads=0) for spec in specs}
    return len(specs) == 1


def _promoted(layers: Layers, release: Release) -> Layers:
    """unify_hybrid_kv_cache_specs: without the manager, windows and chunks next to full layers are stored in full.
    Raises LayoutError if the layers are of several kinds even then."""
    if any(spec.kind == FULL for _, spec in layers):
        layers = [
            (index, spec._replace(kind=FULL, window=0) if spec.kind in (SLIDING, CHUNKED) else spec)
            for index, spec in layers
        ]
    if not _is_uniform(layers, release):
        stateful = any(spec.is_state for _, spec in layers)
        raise LayoutError(
            "without the hybrid KV cache manager its layers cannot be stored as one kind", certain=stateful
        )
    return layers


def _unified(layers: Layers, release: Release) -> Layers:
    """unify_kv_cache_spec_page_size: larger blocks, or padding, if pages are smaller than the largest."""
    largest = max(spec.page for _, spec in layers)

    def grown(spec: Spec) -> Spec:
        """The spec with a page as large as the largest; raises LayoutError if this release cannot do that."""
        if spec.page == largest:
            return spec
        if spec.is_state and release >= since.STATE_PAGES:
            return spec._replace(page=largest)
        if release >= since.PAGES and largest % spec.page == 0:
            return spec._replace(page=largest, block_size=spec.block_size * (largest // spec.page))
        if release >= since.PADDED or (release >= since.STRIDES and not spec.is_state):
            return spec._replace(page=largest)
        raise LayoutError(
            f"its layers' pages of {spec.page:,} and {largest:,} bytes cannot be made equal", certain=False
        )

    return [(index, grown(spec)) for index, spec in layers]


def _of_one_page(layers: Layers, release: Release) -> list[Layers]:
    """_get_kv_cache_groups_uniform_page_size: equal layers in groups of the same depth, the last ones padded. The depth
    is the largest number of equal layers if that is below the release's ratio times the smallest, else the smallest."""
    layers_of_spec: dict[Spec, list[tuple[int, Spec]]] = {}
    for index, spec in layers:
        layers_of_spec.setdefault(spec, []).append((index, spec))
    counts = [len(equal_layers) for equal_layers in layers_of_spec.values()]
    depth = max(counts) if max(counts) < since.ratio(release) * min(counts) else min(counts)
    groups: list[Layers] = []
    for equal_layers in layers_of_spec.values():
        count = -(-len(equal_layers) // depth)
        groups += [equal_layers[start::count] for start in range(count)]
    return groups


def _projected(group: Layers, is_here: Callable[[int], bool], release: Release) -> KvCacheGroup:
    """_project_kv_cache_groups_to_worker: the layers of a group that are on this rank. `is_here`: index of a layer →
    True if it is."""
    _, first_spec = group[0]
    pages = [spec.page for index, spec in group if is_here(index)]
    page = sum(pages)
    if since.SIZES <= release < since.OWN_STAGE and len({spec for _, spec in group}) > 1:
        page = sum(spec.page for _, spec in group)  # a block counts the layers of every stage
    return KvCacheGroup(first_spec, layers=len(pages), page=page)


def blocks(available: int, layout: Layout) -> int:
    """Blocks of the pool (`num_gpu_blocks`)."""
    return max(0, available) // layout.bytes_per_block


def tokens(available: int, layout: Layout, length: int, settings: Settings) -> int:
    """Tokens that vLLM prints as "GPU KV cache size"; 0 without groups. `available`: bytes; `length`: tokens of a
    request."""
    count = blocks(available, layout)
    if not layout.groups:
        return 0
    if settings.release >= since.BY_CONCURRENCY:
        return int(count / layout.blocks(length, settings) * length)
    smallest = min(group.spec.block_size or length for group in layout.groups)
    return count // len(layout.groups) * smallest * settings.parallel.context


def concurrency(available: int, layout: Layout, length: int, settings: Settings) -> float:
    """Requests of `length` tokens that vLLM prints as "Maximum concurrency"; 0 without groups. `available`: bytes."""
    if not layout.groups:
        return 0.0
    if settings.release < since.MANAGER:
        return tokens(available, layout, length, settings) / length
    return blocks(available, layout) / layout.blocks(length, settings)


def longest(available: int, layout: Layout, ceiling: int, settings: Settings) -> int:
    """Tokens that vLLM prints as "the estimated maximum model length": of the longest single request that fits, up to
    `ceiling`; 0 if none fits. `available`: bytes."""
    if layout.refusal and settings.release >= since.FIRST_GROUP:  # in earlier releases, this check comes first
        return 0
    step = gcd(*(spec.block_size for spec, _ in layout.checked)) or 1
    return _largest(ceiling, step, lambda length: layout.needed(length, settings) <= available - layout.null)


def longest_served(available: int, layout: Layout, ceiling: int, settings: Settings) -> int:
    """Tokens of the longest single request that starts and finishes, up to `ceiling`: the blocks of all its groups
    fit, whatever the release checks."""
    checked = longest(available, layout, ceiling, settings)
    if not layout.groups:
        return checked
    step = gcd(*(group.spec.block_size for group in layout.groups)) or 1
    return _largest(checked, step, lambda length: layout.bytes(length, settings) <= available - layout.null)


def _largest(ceiling: int, step: int, fits: Callable[[int], bool]) -> int:
    """The largest length up to `ceiling` that fits: `ceiling` itself, else a multiple of `step`, 0 if none fits.
    Lengths within a block of `step` tokens take as much memory, so a bisection over blocks is enough."""
    if fits(ceiling):
        return ceiling
    low, high = 0, ceiling // step
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle * step) else (low, middle - 1)
    return low * step
