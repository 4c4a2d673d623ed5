"""The types of all ledgers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import erf, log, sqrt
from typing import Literal, NamedTuple

from podfit.kube.quantity import human
from podfit.vllm.memory import kv_cache
from podfit.vllm.memory.estimate import DEVIATIONS, NOTHING, Estimate
from podfit.vllm.memory.kv_cache import Layout
from podfit.vllm.memory.line import Charge
from podfit.vllm.memory.lines import KV_CACHE
from podfit.vllm.memory.settings import ResolvedArguments
from podfit.vllm.model import Model, longest_max_model_len

Verdict = Literal["fits", "unsure", "does-not-fit"]
Cause = Literal["free-memory", "weights", "loading", "blocks", "layout", "request", "graphs"]
"""The first failure, in the order in which vLLM would fail (`podfit.vllm.memory.verdict`)."""

IN_WORDS: dict[Verdict, str] = {"fits": "fits", "unsure": "unsure", "does-not-fit": "does not fit"}
"""The words for each `Verdict`."""


USUAL_LENGTH = 4096
"""Tokens of a request if the model's context length is unknown (chosen)."""


class TokenRange(NamedTuple):
    """A number of tokens, and its 95 % interval."""

    low: int
    likely: int
    high: int


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuLedger:
    """One GPU's memory at start-up: the rank with the least room."""

    total: Estimate
    budget: Estimate
    charges: tuple[Charge, ...]
    """The lines, in the order of `lines.LINES`."""
    kv_cache: Estimate
    """Bytes left for the KV cache; negative if less than nothing is left. Here `floor` is the certain *maximum*: what
    is left if every line is at its floor, of the largest total ever measured. If it is negative, vLLM can't start."""
    loading: Estimate | None
    """The weights while they load, if they are larger then: compared with the total, not with the budget."""
    model: Model
    resolved: ResolvedArguments
    layout: Layout | None
    """The layout of the KV cache; None if it is unknown."""
    max_model_len: int | None
    """Tokens of the longest request that the engine accepts; with `auto`, the longest that fits."""

    def amount(self, name: str) -> Estimate:
        """The bytes of the line with this id, or one of "total", "budget" and "kv_cache"."""
        return self.amounts[name]

    @property
    def amounts(self) -> dict[str, Estimate]:
        """All bytes by name, in the order of `lines.AMOUNTS`."""
        lines = {charge.line.id: charge.amount for charge in self.charges}
        return {"total": self.total, "budget": self.budget, **lines, KV_CACHE: self.kv_cache}

    @property
    def charged(self) -> tuple[Charge, ...]:
        """The lines in the budget."""
        return tuple([charge for charge in self.charges if charge.in_budget])

    @property
    def outside(self) -> tuple[Charge, ...]:
        """The lines for which this release uses memory outside of the budget."""
        return tuple([charge for charge in self.charges if not charge.in_budget])

    @property
    def weights(self) -> Estimate:
        """The line of the weights."""
        return self.amount("weights")

    @property
    def activations(self) -> Estimate:
        """The line of the activations."""
        return self.amount("activations")

    @property
    def cuda_graphs(self) -> Estimate:
        """The line of the CUDA graphs."""
        return self.amount("cuda_graphs")

    @property
    def graphs_charged(self) -> bool:
        """True if the CUDA graphs count against the budget."""
        return any(charge.line.id == "cuda_graphs" for charge in self.charged)

    @property
    def left(self) -> str:
        """The arithmetic of `kv_cache`, for people."""
        budget, rest = self.budget.likely, self.kv_cache.likely
        return self.kv_cache.note or f"{human(budget)} − {human(budget - rest)}"

    # The capacity of the KV cache, as vLLM logs it. Computed only when it is read.

    @property
    def times_fewer(self) -> int:
        """The factor by which the bytes of a request may be fewer, because the model may have a single key-value head;
        1 if their number is known."""
        if self.model.kv_heads_known:
            return 1
        return max(1, (self.model.num_key_value_heads or 1) // self.resolved.settings.parallel.tp)

    @property
    def _countable(self) -> Layout | None:
        """The layout, if tokens can be counted with it; None if a part of it has no bound."""
        if self.layout is None or self.model.is_minimum:
            return None
        return self.layout if self.layout.is_described or not self.model.kv_heads_known else None

    @property
    def blocks(self) -> int:
        """Blocks of the pool (likely)."""
        return kv_cache.blocks(self.kv_cache.likely, self.layout) if self.layout else 0

    @property
    def kv_cache_bytes_per_token(self) -> int | None:
        """Bytes for each further token of a long request."""
        return self.layout.bytes_per_token if self.layout else None

    @property
    def kv_cache_bytes_per_request(self) -> int | None:
        """Bytes that this release's start-up check counts for one request of max_model_len."""
        if self.layout is None or not self.max_model_len:
            return None
        return self.layout.needed(self.max_model_len, self.resolved.settings)

    @property
    def least_kv_cache_bytes(self) -> int | None:
        """Bytes that vLLM must find at start-up: one request, and from 0.29 on the null block."""
        number = self.kv_cache_bytes_per_request
        return None if number is None or self.layout is None else number + self.layout.null

    @property
    def request_bytes(self) -> int | None:
        """Bytes that one request of max_model_len takes until it finishes: those of all groups. None if the layout or
        the length is unknown."""
        if self.layout is None or not self.max_model_len:
            return None
        if not self.layout.groups:
            return self.kv_cache_bytes_per_request
        return self.layout.bytes(self.max_model_len, self.resolved.settings)

    @property
    def checks_only(self) -> str:
        """For people, after `request_bytes`: what vLLM checks at start-up, if that is less; else empty."""
        needed, checked = self.request_bytes, self.kv_cache_bytes_per_request
        if needed is None or checked is None or checked >= needed:
            return ""
        return f" (vLLM {self.resolved.settings.release} checks {human(checked)} only)"

    @property
    def kv_cache_tokens(self) -> TokenRange | None:
        """The number in vLLM's log line "GPU KV cache size: N tokens"; None if the layout is not known. For a model of
        unknown length, it is that of requests of USUAL_LENGTH."""
        layout = self._countable
        if layout is None:
            return None
        length, settings = self.max_model_len or USUAL_LENGTH, self.resolved.settings
        return TokenRange(
            low=kv_cache.tokens(self.kv_cache.low, layout, length, settings),
            likely=kv_cache.tokens(self.kv_cache.likely, layout, length, settings),
            high=kv_cache.tokens(self.kv_cache.high, layout, length, settings),
        )

    @property
    def estimated_max_model_len(self) -> int | None:
        """The longest single request that fits (likely), up to max_model_len: the length that vLLM prints if a request
        does not fit. None if the layout or the length is unknown."""
        if (layout := self._countable) is None or not self.max_model_len:
            return None
        return kv_cache.longest(self.kv_cache.likely, layout, self.max_model_len, self.resolved.settings)

    @property
    def longest_request(self) -> int | None:
        """The longest request that likely finishes, up to the model's own length, in tokens; None if the layout or the
        length is unknown."""
        if (layout := self._countable) is None or not self.max_model_len:
            return None
        ceiling = max(self.max_model_len, self.model_length or 0)
        return kv_cache.longest_served(self.kv_cache.likely, layout, ceiling, self.resolved.settings)

    @property
    def model_length(self) -> int | None:
        """The longest context that the model's config allows; None if unknown."""
        return longest_max_model_len(self.model, self.resolved.settings.release)

    @property
    def max_concurrency(self) -> float | None:
        """The number in vLLM's log line "Maximum concurrency for N tokens per request" (likely), to two digits. These
        are requests of max_model_len. None if the layout or the length is unknown."""
        if (layout := self._countable) is None or not self.max_model_len:
            return None
        return round(kv_cache.concurrency(self.kv_cache.likely, layout, self.max_model_len, self.resolved.settings), 2)


class HostLedger(NamedTuple):
    """The container's host memory."""

    lines: tuple[tuple[str, Estimate], ...]
    """Name → line, e.g. ("processes", …), ("staged weights", …), ("/dev/shm", …), ("offload", …)."""
    steady: Estimate
    """Unreclaimable memory while serving."""
    peak: Estimate
    """Unreclaimable memory at its highest, usually while loading."""
    need: Estimate
    """The larger of both: on GPUs the peak."""
    shm: Estimate
    """Bytes that must be free in /dev/shm; with less than `floor`, this release does not start."""
    processes: int = 0
    """Number of processes."""
    busy: int = 0
    """Number of processes that may each keep a core busy."""
    in_shm: int = 0
    """Bytes that are likely in use in /dev/shm; they are in both totals."""
    ranks: int = 1
    """GPUs of the container's engines."""
    offloaded: Estimate = NOTHING
    """Bytes that arguments move from the GPU to the host."""

    def bound(self) -> HostLedger:
        """The ledger of which only the minimums are known."""
        return self._replace(
            lines=tuple([(name, line.bound()) for name, line in self.lines]),
            steady=self.steady.bound(),
            peak=self.peak.bound(),
            need=self.need.bound(),
            offloaded=self.offloaded.bound(),
        )


class Startup(NamedTuple):
    """Seconds from the container's start to the first successful response on /health."""

    floor: float
    low: float
    likely: float
    high: float
    parts: tuple[tuple[str, float], ...] = ()
    """Part of the start-up → its likely seconds: ("download", 95.0) …"""

    def without(self, name: str) -> Startup:
        """The start-up without the part of this name; unchanged without such a part. The range stays as wide in
        proportion."""
        part = dict(self.parts).get(name, 0.0)
        share = 1 - part / self.likely if self.likely else 1.0
        return Startup(
            floor=self.floor,
            low=self.low * share,
            likely=self.likely * share,
            high=self.high * share,
            parts=tuple([(other, seconds) for other, seconds in self.parts if other != name]),
        )

    def share_longer(self, seconds: float) -> float:
        """The probability that the start-up takes longer than `seconds`, from 0 to 1.

        The distribution is a split log-normal one: `likely` is its median, 2.5 % are below `low` and 2.5 % above
        `high`.
        """
        if seconds <= 0 or self.likely <= 0:
            return 1.0
        distance = log(seconds / self.likely)
        end_seconds = max(self.high if distance > 0 else self.low, 1e-9)  # above 0, for the logarithm
        end = log(end_seconds / self.likely)
        if end * distance <= 0:  # exactly the median, or a range without width on this side
            return 0.5 if distance == 0 else float(distance < 0)
        return 0.5 * (1 - erf(distance * DEVIATIONS / abs(end) / sqrt(2)))


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Will it start?"""

    verdict: Verdict
    """The estimate whether GPU memory is enough at start-up; nothing else is considered."""
    tell: Callable[[], str] = field(compare=False)
    """Builds the text of `why`; most plans that fit never need it."""
    gpu: GpuLedger | None
    host: HostLedger | None
    startup: Startup | None
    checkpoint: int | None = None
    """Bytes of all weights, as the files have them; None if unknown."""
    cause: Cause | None = None
    """The first failure, or possible failure; None if it fits or nothing is known."""
    resolved: ResolvedArguments | None = None
    """The arguments as the release resolves them; None if the model is unknown."""

    @property
    def why(self) -> str:
        """One line for people: the arithmetic behind `verdict`, or the missing information."""
        return self.tell()
