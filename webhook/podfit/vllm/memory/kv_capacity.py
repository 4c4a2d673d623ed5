"""The capacity of one rank's KV cache: requests, tokens, and the longest context, as vLLM logs them."""

from __future__ import annotations

from typing import NamedTuple

from podfit.vllm.memory import kv_cache
from podfit.vllm.memory.estimate import Estimate
from podfit.vllm.memory.kv_cache import Layout
from podfit.vllm.memory.settings import ResolvedArguments
from podfit.vllm.model import Model, longest_max_model_len


class KvCapacity(NamedTuple):
    """A KV cache with its layout. Its properties are computed only when they are read."""

    model: Model
    resolved: ResolvedArguments
    layout: Layout | None
    length: int | None
    """max_model_len in tokens; with `auto`, the longest that fits."""

    @property
    def times_fewer(self) -> int:
        """By how many times the bytes of a request may be fewer, because the model may have a single key-value head."""
        if self.model.kv_heads_known:
            return 1
        return max(1, (self.model.num_key_value_heads or 1) // self.resolved.settings.parallel.tp)

    @property
    def countable(self) -> Layout | None:
        """The layout, if tokens can be counted with it; None if a part of it has no bound."""
        if self.layout is None or self.model.is_minimum:
            return None
        return self.layout if self.layout.is_described or not self.model.kv_heads_known else None

    def blocks(self, left: Estimate) -> int:
        """Blocks of the pool (likely)."""
        return kv_cache.blocks(left.likely, self.layout) if self.layout else 0

    @property
    def bytes_per_request(self) -> int | None:
        """Bytes that this release's check counts for one request of max_model_len."""
        return self.layout.needed(self.length, self.resolved.settings) if self.layout and self.length else None

    @property
    def least_bytes(self) -> int | None:
        """Bytes that vLLM must find at start-up: one request, and from 0.29 on the null block."""
        number = self.bytes_per_request
        return None if number is None or self.layout is None else number + self.layout.null

    @property
    def request_bytes(self) -> int | None:
        """Bytes that one request of max_model_len takes until it finishes: those of all groups."""
        if self.layout is None or not self.length:
            return None
        return self.layout.bytes(self.length, self.resolved.settings) if self.layout.groups else self.bytes_per_request

    @property
    def model_length(self) -> int | None:
        """The longest context that the model's config allows; None if unknown."""
        return longest_max_model_len(self.model, self.resolved.settings.release)

    def tokens(self, left: Estimate) -> tuple[int, int, int] | None:
        """low, likely, high: "GPU KV cache size: N tokens"."""
        if (layout := self.countable) is None:
            return None
        low, likely, high = [
            kv_cache.tokens(size, layout, self.length or 4096, self.resolved.settings)
            for size in (left.low, left.likely, left.high)
        ]
        return low, likely, high

    def estimated(self, left: Estimate) -> int | None:
        """The longest single request that fits (likely), up to max_model_len."""
        if (layout := self.countable) is None or not self.length:
            return None
        return kv_cache.longest(left.likely, layout, self.length, self.resolved.settings)

    def longest(self, available: int) -> int | None:
        """The longest request that finishes with so many bytes, up to the model's own length."""
        if (layout := self.countable) is None or not self.length:
            return None
        ceiling = max(self.length, self.model_length or 0)
        return kv_cache.longest_served(available, layout, ceiling, self.resolved.settings)

    def concurrency(self, left: Estimate) -> float | None:
        """ "Maximum concurrency for N tokens per request" (likely)."""
        if (layout := self.countable) is None or not self.length:
            return None
        return round(kv_cache.concurrency(left.likely, layout, self.length, self.resolved.settings), 2)
