"""The ledger of one rank → will it start? Checked in the order in which vLLM would fail, so that the first is named.

1. free memory: from 0.9.1 vLLM compares free memory with the budget before it loads anything (gpu_worker.py
   request_memory: "Free memory on device … is less than desired GPU memory utilization"). A busy GPU is a temporary
   state that can't support a denial. A budget that leaves no memory for the process's own CUDA context can.
2. weights: what must be on the GPU is more than the GPU has; or (loading) was so until vLLM quantized it.
3. blocks: the budget is used up before the KV cache ("No available memory for the cache blocks").
4. layout: the layers can't be stored together ("Hybrid KV cache manager is disabled but failed to convert …").
5. one request: the KV cache is smaller than one request of max_model_len ("To serve at least one request …").
6. graphs: before 0.20, CUDA graphs, the context and NCCL use GPU memory outside the budget.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from podfit.kube.quantity import human
from podfit.vllm.args import EngineArgs
from podfit.vllm.memory import activations, budget, leaning
from podfit.vllm.memory.estimate import Estimate, plus
from podfit.vllm.memory.kv_cache import Layout
from podfit.vllm.memory.ledger import Cause, GpuLedger, Verdict
from podfit.vllm.memory.settings import ResolvedArguments
from podfit.vllm.memory.weights import Checkpoint

DECIDING_ARGUMENTS = (
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "data_parallel_size",
    "quantization",
    "dtype",
    "kv_cache_dtype",
    "gpu_memory_utilization",
    "cpu_offload_gb",
    "kv_cache_memory_bytes",
    "enable_expert_parallel",
    "load_format",
    "speculative_config",
    "hf_overrides",
    "model",
)
"""Arguments that decide the sizes: if one is unknown, nothing about the sizes is certain."""

PEAKS = ("max_num_batched_tokens", "max_num_seqs", "all2all_backend")
"""Arguments that decide the activation peak: if one is unknown, only the weights are certain."""


class PlannedRelease(NamedTuple):
    """One GPU and one release."""

    verdict: Verdict
    tell: Callable[[], str]
    """Builds the text of `why`; a search checks many plans and needs the text of few."""
    ledger: GpuLedger | None
    cause: Cause | None = None
    """The failure, or possible failure; None if it fits."""
    resolved: ResolvedArguments | None = None
    """The arguments as the release resolves them, on that GPU."""
    checkpoint: Checkpoint | None = None
    """The checkpoint as it is loaded."""

    @property
    def why(self) -> str:
        """One line for people: the arithmetic behind `verdict`, or the missing information."""
        return self.tell()


class _Outcome(NamedTuple):
    """The result of the checks of one rank."""

    verdict: Verdict
    tell: Callable[[], str]
    """Builds `why`."""
    cause: Cause | None = None
    """The check that fails or may fail first; None if it fits, or if something else is unknown."""


def of_rank(
    args: EngineArgs, resolved: ResolvedArguments, checkpoint: Checkpoint, ledger: GpuLedger, *, cache_reported: bool
) -> PlannedRelease:
    """Check if one rank fits, with the arithmetic behind it. `cache_reported`: vLLM reported the memory of the KV
    cache, so all earlier steps have succeeded."""
    outcome = _of_cache_alone(resolved, ledger) if cache_reported else _of_rank(args, resolved, ledger)
    return PlannedRelease(
        verdict=outcome.verdict,
        tell=outcome.tell,
        ledger=ledger,
        cause=outcome.cause,
        resolved=resolved,
        checkpoint=checkpoint,
    )


def fits(args: EngineArgs, resolved: ResolvedArguments, ledger: GpuLedger) -> bool:
    """True if the rank's `verdict` is `fits`."""
    return _of_rank(args, resolved, ledger).verdict == "fits"


def _of_cache_alone(resolved: ResolvedArguments, ledger: GpuLedger) -> _Outcome:
    """The outcome by the KV cache memory that vLLM reported; the weights are loaded by then."""
    left, layout = ledger.kv_cache.likely, ledger.layout
    if layout is None:
        return _Outcome("unsure", lambda: "the layout of this model's KV cache is unknown", "blocks")
    if left <= 0:
        return _Outcome("does-not-fit", lambda: "nothing is left for the KV cache", "blocks")
    return _with_cache(resolved, ledger, layout, None, lambda: f"{human(left)} of KV cache are given")


def _of_rank(args: EngineArgs, resolved: ResolvedArguments, ledger: GpuLedger) -> _Outcome:
    """The outcome for one rank, in the order of the module's docstring: the first check that fails, or that an unknown
    argument keeps from being certain, decides."""
    outside = budget.context(resolved.settings)
    outcome = _of_loading(args, resolved, ledger, outside) or _of_blocks(args, resolved, ledger)
    if outcome is not None:
        return outcome
    layout = ledger.layout
    if layout is None:
        return _Outcome(
            "unsure",
            lambda: f"the layout of this model's KV cache is unknown; {arithmetic(ledger, resolved)}",
            "blocks",
        )

    def why() -> str:
        """The arithmetic, and which layers the KV cache is compared with if those of all stages count."""
        text = arithmetic(ledger, resolved)
        if layout.of_all_stages:
            stages = resolved.settings.parallel.pp
            needs = f"what the layers of all {stages} pipeline stages need"
            text += f"; vLLM {resolved.settings.release} compares it with {needs}"
        return text

    return _with_cache(resolved, ledger, layout, outside, why)


def _of_loading(args: EngineArgs, resolved: ResolvedArguments, ledger: GpuLedger, outside: Estimate) -> _Outcome | None:
    """The outcome if vLLM fails, or may fail, before it profiles: free memory, weights, loading. None if it does not.

    `outside`: bytes of the CUDA context and NCCL."""
    loaded, share = ledger.weights, resolved.budget.utilization
    if not 0 < share <= 1:
        return _Outcome("unsure", lambda: f"--gpu-memory-utilization {share:g} is out of range")
    doubts = unresolved(args, DECIDING_ARGUMENTS)
    if doubts:
        return _Outcome("unsure", lambda: f"the value of {doubts} is unknown; {arithmetic(ledger, resolved)}")
    rest = ledger.total.high - ledger.budget.high
    if rest < outside.floor and not resolved.budget.kv_cache_memory and budget.checked(resolved.settings):
        return _Outcome(
            "does-not-fit",
            lambda: (
                f"--gpu-memory-utilization {share:g} requests {human(ledger.budget.likely)} of "
                f"{human(ledger.total.likely)}. The process's own CUDA context needs more than the rest, and vLLM "
                f"{resolved.settings.release} checks free memory before it loads the model"
            ),
            "free-memory",
        )
    if loaded.floor > ledger.total.high:
        return _Outcome(
            "does-not-fit",
            lambda: (
                f"weights {human(loaded.likely)} (at least {human(loaded.floor)}) exceed the GPU's "
                f"{human(ledger.total.likely)} (at most {human(ledger.total.high)})"
            ),
            "weights",
        )
    peak = ledger.loading
    if peak is not None and peak.floor > ledger.total.high:
        return _Outcome("does-not-fit", lambda: _too_much_to_load(resolved, ledger, peak), "loading")
    return None


def _of_blocks(args: EngineArgs, resolved: ResolvedArguments, ledger: GpuLedger) -> _Outcome | None:
    """The outcome if the budget leaves nothing for the KV cache, if an argument other than the budget decides its size,
    or if an encoder needs none. None if the KV cache decides."""
    left, loaded = ledger.kv_cache, ledger.weights
    peaks = unresolved(args, PEAKS)
    if peaks and loaded.floor <= ledger.budget.high:
        return _Outcome("unsure", lambda: f"the value of {peaks} is unknown; {arithmetic(ledger, resolved)}")
    overridden = args.given.get("num_gpu_blocks_override")
    if overridden and not resolved.settings.v1:  # V0 applies it before the checks (vLLM 0.6 engine/llm_engine.py)
        return _Outcome(
            "unsure",
            lambda: (
                f"--num-gpu-blocks-override {overridden} replaces the calculated number of blocks; "
                f"{arithmetic(ledger, resolved)}"
            ),
        )
    if left.floor <= 0:
        types = resolved.settings.types
        wide = " in float32" if types.dtype == 4 and types.scheme is None else ""
        return _Outcome(
            "does-not-fit",
            lambda: (
                f"weights take {human(loaded.likely)}{wide} (at least {human(loaded.floor)}) of the "
                f"{human(ledger.budget.likely)} that vLLM may use: nothing is left for the KV cache"
            ),
            "blocks",
        )
    if ledger.layout is None and resolved.settings.pooling and left.low > 0:
        return _Outcome(
            "fits",
            lambda: f"{arithmetic(ledger, resolved).replace('of KV cache', 'free')}; an encoder stores no KV cache",
        )
    if overridden:
        return _Outcome(
            "unsure",
            lambda: (
                f"--num-gpu-blocks-override {overridden} sets the size of the KV cache, regardless of the memory left; "
                f"{arithmetic(ledger, resolved)}"
            ),
            "blocks",
        )
    return None


def _too_much_to_load(resolved: ResolvedArguments, ledger: GpuLedger, line: Estimate) -> str:
    """The sentence for weights that exceed the GPU's memory until vLLM quantizes them. `line`: the peak while they
    load."""
    scheme = resolved.settings.types.scheme
    streamed = scheme.streamed if scheme else None
    later = f" From v{streamed.major}.{streamed.minor} on, each layer is quantized as it is filled." if streamed else ""
    return (
        f"vLLM {resolved.settings.release} loads all weights in 16 bits before it quantizes them: "
        f"{human(line.likely)} (at least {human(line.floor)}) exceed the GPU's {human(ledger.total.likely)} (at most "
        f"{human(ledger.total.high)}). Quantized they take {human(ledger.weights.likely)}.{later} A checkpoint that is "
        "stored in FP8 takes 8 bits per weight from the start"
    )


def unresolved(args: EngineArgs, which: Sequence[str]) -> str:
    """The ones of these arguments whose values are unknown, as flags joined by "and"; "" if all are known."""
    return " and ".join(f"--{dest.replace('_', '-')}" for dest in which if dest in args.unresolved)


def _with_cache(
    resolved: ResolvedArguments, ledger: GpuLedger, layout: Layout, outside: Estimate | None, why: Callable[[], str]
) -> _Outcome:
    """The outcome for a rank with a known KV cache: can it be laid out, does one request fit, and is there enough
    memory outside the budget? First the certain failures, then the possible ones.

    `outside`: bytes of the CUDA context and NCCL; None if vLLM has already allocated them. `why`: the arithmetic.
    """
    left, length, release = ledger.kv_cache, ledger.max_model_len, resolved.settings.release
    refusal = layout.refusal
    if refusal is not None and refusal.certain and layout.known:
        return _Outcome("does-not-fit", lambda: f"vLLM {release} cannot lay out the KV cache: {refusal}", "layout")
    request_length = 1 if resolved.budget.auto_len or length is None else length
    needed = layout.needed(request_length, resolved.settings)
    certain = needed - layout.rounding + layout.null if layout.known else layout.bytes_per_block
    if left.floor < certain:

        def short() -> str:
            """`why`, and by how much one request does not fit, even at the favorable end."""
            estimate = ledger.estimated_max_model_len
            text = f"{why()}; one request of {request_length:,} tokens needs {human(certain)}"
            return f"{text}; the estimated maximum model length is {estimate:,}" if estimate else text

        return _Outcome("does-not-fit", short, "request")
    if outside is not None and not resolved.budget.kv_cache_memory:
        outcome = _of_memory_outside(resolved, ledger, outside, why)
        if outcome is not None:
            return outcome
    if length is None:
        return _Outcome("unsure", lambda: f"{why()}; the context length is not known", "request")
    if refusal is not None:
        return _Outcome("unsure", lambda: f"vLLM {release} may not lay out the KV cache: {refusal}; {why()}", "layout")
    if not layout.is_described:
        of_heads = not ledger.model.kv_heads_known
        unknown = "the number of key-value heads is unknown" if of_heads else "only a part of the KV cache is described"
        return _Outcome("unsure", lambda: f"{unknown}; {why()}", "request")

    def request() -> str:
        """`why`, and the bytes that one request of the context length needs."""
        if resolved.budget.auto_len:
            return f"{why()}; --max-model-len auto takes the longest that fits, about {length:,} tokens"
        taken = f"{human(ledger.request_bytes or needed)}{ledger.checks_only}"
        return f"{why()}; one request of {length:,} tokens needs {taken}"

    unknown_bytes = (layout.unknown_per_token or 0) * (length if resolved.budget.auto_len else request_length)
    most = needed + unknown_bytes + layout.null
    if left.low >= most:
        return _Outcome("fits", request)
    cause: Cause = "request" if left.likely > 0 else "blocks"
    if left.likely < needed:
        return _Outcome("unsure", lambda: f"{request()}{_as_clause(of_compile_cache(ledger, needed))}", cause)
    deficit = most - left.low

    def low() -> str:
        """`request`, and why it may not fit."""
        cold = of_compile_cache(ledger, needed) or f"the low end of the estimate is short by {human(deficit)}"
        return f"{request()}; {cold}; {leaning.sentence(left, needed)}"

    return _Outcome("unsure", low, cause)


def _of_memory_outside(
    resolved: ResolvedArguments, ledger: GpuLedger, outside: Estimate, why: Callable[[], str]
) -> _Outcome | None:
    """The outcome if the memory outside the budget is likely too small for the context, NCCL (`outside`) and the lines
    that are charged there; None if it is not."""
    taken = outside
    for charge in ledger.outside:
        taken = plus(taken, charge.amount)
    rest = ledger.total.likely - ledger.budget.likely
    if rest >= taken.likely:
        return None
    users = ", ".join(["CUDA context", *(charge.line.title for charge in ledger.outside)])
    return _Outcome(
        "unsure",
        lambda: (
            f"--gpu-memory-utilization {resolved.budget.utilization:g} leaves {human(rest)} of the GPU "
            f"outside the budget; {users} and NCCL take about {human(taken.likely)} "
            f"({human(taken.low)} … {human(taken.high)}) there; {why()}"
        ),
        "graphs",
    )


def _as_clause(sentence: str) -> str:
    """The sentence as a further clause; "" for none."""
    return f"; {sentence}" if sentence else ""


def of_compile_cache(ledger: GpuLedger, needed: int) -> str:
    """A sentence that the compile cache decides whether `needed` bytes are left for the KV cache; "" if it does not.

    A start that compiles has less room than the next one (`activations.COMPILED_SINCE`). Without a volume for the
    cache, every container compiles again."""
    left = ledger.kv_cache.likely
    saved = activations.saved_when_warm(ledger.model, ledger.resolved.settings, ledger.activations)
    warm = ledger.resolved.settings.warm
    cold, later = (left - saved, left) if warm else (left, left + saved)
    if not cold < max(needed, 1) <= later:
        return ""
    if warm:
        return f"the first start compiles and has {_room(cold)}; later starts load the compiled graphs from the volume"
    return (
        f"with a warm compile cache {_room(later)} would be left: a persistent volume at VLLM_CACHE_ROOT "
        "(~/.cache/vllm) keeps it"
    )


def _room(size: int) -> str:
    """Bytes of KV cache for people."""
    return human(size) if size > 0 else "nothing for the KV cache"


def arithmetic(ledger: GpuLedger, resolved: ResolvedArguments) -> str:
    """The ledger in one line, or the size of the KV cache if an argument sets it."""
    if resolved.budget.kv_cache_memory:
        return f"--kv-cache-memory-bytes gives {human(resolved.budget.kv_cache_memory)} of KV cache"
    return subtraction(ledger)


def subtraction(ledger: GpuLedger) -> str:
    """The lines that are subtracted from the budget and the rest, all likely: exactly those that `podfit explain`
    draws."""
    charged = ledger.charged
    text = "".join(
        f" − {human(charge.amount.likely)} {charge.line.title}" for charge in charged if charge.amount.likely
    )
    left = ledger.kv_cache.likely
    more = ledger.budget.likely - sum([charge.amount.likely for charge in charged]) - left
    if more:  # lines of a log are rounded
        text += f" {'−' if more > 0 else '+'} {human(abs(more))} otherwise measured"
    rest = f"{human(left)} of KV cache" if left > 0 else f"nothing (short by {human(-left)})"
    return f"{human(ledger.budget.likely)} budget{text} leave {rest}"
