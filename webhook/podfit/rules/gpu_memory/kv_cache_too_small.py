from __future__ import annotations

from collections.abc import Iterator

from podfit.kube.quantity import human
from podfit.rules import _shortage, gpu_set
from podfit.rules._flags import certainty, spoilt, uncertain
from podfit.rules.engine import Engine
from podfit.rules.gpu_memory._length import is_short, not_given, too_long, within
from podfit.rules.rule import Finding, Rule, lines
from podfit.vllm import change
from podfit.vllm.change import Suggestion
from podfit.vllm.memory.ledger import GpuLedger
from podfit.vllm.memory.verdict import of_compile_cache, subtraction


class KvCacheTooSmall(Rule):
    """The KV cache is too small for one request of the maximum length.

    vLLM does not start when the KV cache can't hold a single request of `--max-model-len` tokens:

        ValueError: To serve at least one request with the models's max seq len (131072), (16.00 GiB KV cache is
        needed, which is larger than the available KV cache memory (7.13 GiB). Based on the available memory, the
        estimated maximum model length is 58400. …

    (before v0.8: "The model's max seq len (N) is larger than the maximum number of tokens that can be stored in KV
    cache"). The default of `--max-model-len` is the model's own length, often 131,072. A shorter length has no
    disadvantage if requests do not need the full one; more GPUs, or a smaller KV cache type, make room.

    A model with state layers (Mamba, Gated DeltaNet) needs the hybrid KV cache manager to get a KV cache at all, and
    `--disable-hybrid-kv-cache-manager` and some KV connectors switch it off:

        ValueError: Hybrid KV cache manager is disabled but failed to convert the KV cache specs to one unified type.
    """

    plane = "gpu"
    event = "vLLM exits after it has loaded the model"
    mode = "deny"
    needs = ("model",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain if the largest KV cache that could be left is smaller than one request; else likely or possible, by
        the estimate's range."""
        yield from gpu_set.on_each(engine, self._check)

    def _check(self, engine: Engine) -> Iterator[Finding]:
        """The findings for a known GPU: that vLLM can't lay out the KV cache, or that it is too small. None if another
        rule reports a rejected --max-model-len (`spoilt`)."""
        if engine.plan.cause == "layout":
            yield from _layout(engine)
            return
        ledger = engine.plan.gpu
        if ledger is None or not is_short(engine) or spoilt(engine, "max_model_len"):
            return
        least = ledger.least_kv_cache_bytes or 0  # never None here: `is_short` compared it
        is_fixed = bool(engine.args.given.get("kv_cache_memory_bytes"))
        is_certain = engine.plan.verdict == "does-not-fit" and engine.plan.cause != "loading"
        likelihood, limited = _shortage.of_kv_cache(engine, ledger, least)
        is_length_allowed = too_long(engine) is None
        yield Finding(
            path=engine.argument("kv_cache_memory_bytes" if is_fixed else "max_model_len"),
            message=_message(ledger, least, is_fixed=is_fixed),
            details=lines(
                "" if is_certain else limited,
                engine.v0_reason or "",
                of_compile_cache(ledger, least),
                *_length(engine, ledger),
                "--kv-cache-memory-bytes holds, and not the share of the GPU" if is_fixed else subtraction(ledger),
            ),
            certainty="certain" if is_certain else likelihood or "possible",
            suggestions=engine.alternatives if is_length_allowed else engine.describe(engine.once(within)),
            probable=engine.probable if is_length_allowed else (),
            computed=True,
            rests_on=gpu_set.RESTS_ON,
            yields_to=gpu_set.reported_by(engine),
        )


def _message(ledger: GpuLedger, least: int, *, is_fixed: bool) -> str:
    """The sentence on what one request needs and what there is. `least`: bytes of the smallest KV cache with which vLLM
    starts. `is_fixed`: --kv-cache-memory-bytes sets the size of the KV cache."""
    request_bytes, cache_bytes = ledger.request_bytes or least, ledger.kv_cache.likely
    size = f"--kv-cache-memory-bytes gives {human(cache_bytes)}"
    if not is_fixed:
        size = f"about {human(cache_bytes)} are left on each GPU"
    shortage = f" (short by {human(request_bytes - cache_bytes)})" if request_bytes > cache_bytes >= 0 else ""
    return (
        f"one request of {ledger.max_model_len:,} tokens needs {human(request_bytes)} of KV cache"
        f"{ledger.checks_only}, {size}{shortage}"
    )


def _length(engine: Engine, ledger: GpuLedger) -> Iterator[str]:
    """The lines on the context length: that it is the model's default, and the longest that the KV cache holds."""
    if "max_model_len" not in engine.args.given:
        yield f"{not_given(engine)}; the model's default of {ledger.max_model_len:,} tokens applies"
    if ledger.estimated_max_model_len:
        yield f"the estimated maximum model length is {ledger.estimated_max_model_len:,}"


MANAGERS = ("disable_hybrid_kv_cache_manager", "kv_transfer_config", "kv_events_config")
"""The arguments that switch the hybrid KV cache manager off (`memory/settings.py`)."""


def _layout(engine: Engine) -> Iterator[Finding]:
    """The finding that vLLM can't lay out the KV cache (vLLM 0.9.1 … 0.33 v1/core/kv_cache_utils.py
    unify_hybrid_kv_cache_specs); none if no argument of `MANAGERS` is the cause."""
    causes = [dest for dest in MANAGERS if engine.args.given.get(dest)]
    if not causes:
        return
    cause = causes[0]
    flag = f"--{cause.replace('_', '-')}"
    suggestions: tuple[Suggestion, ...] = (change.without(flag),)
    if cause == "kv_transfer_config":  # whose connectors may keep the manager since then (SupportsHMA)
        suggestions += ("vLLM 0.22 or later, and a connector such as NixlConnector",)
    yield Finding(
        path=engine.argument(cause),
        message=f"{flag} switches off the hybrid KV cache manager: a model with state layers can't start without it",
        certainty=certainty(engine) if engine.plan.verdict == "does-not-fit" else "likely",
        uncertain=uncertain(engine),
        rests_on=("model",),
        suggestions=suggestions,
    )
