from __future__ import annotations

from collections.abc import Iterator

from podfit.kube.quantity import human
from podfit.rules import _shortage
from podfit.rules._flags import spoilt
from podfit.rules.engine import Engine
from podfit.rules.gpu_memory._length import is_short
from podfit.rules.rule import Finding, Rule, lines


class RequestNeverFinishes(Rule):
    """vLLM starts, but a request of the maximum length never finishes.

    From v0.14 to v0.18, the check at start-up counts only the first group of layers of a hybrid model (sliding windows,
    Mamba, Gated DeltaNet). So vLLM starts with a KV cache that is smaller than one request of `--max-model-len` tokens
    and logs, for example:

        Maximum concurrency for 131,072 tokens per request: 0.66x

    A request that outgrows the KV cache is preempted, computed again, and preempted again. It gets no answer, and the
    requests behind it wait. v0.19 and newer count all groups and do not start. A shorter `--max-model-len` rejects such
    a request at once.
    """

    plane = "gpu"
    event = "requests of the maximum length never finish"
    threatens = "uptime"
    never_denies = "vLLM starts, and requests that are short enough are answered"
    needs = ("model", "gpu", "plan.gpu")

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Likely or possible, by the range of the KV cache. Possible if the length is only the model's default, which
        the author's requests need not reach. Reports nothing if vLLM does not start, or with `--max-model-len auto`."""
        ledger = engine.plan.gpu
        if ledger is None or engine.plan.verdict == "does-not-fit" or spoilt(engine, "max_model_len"):
            return
        needed, left = ledger.request_bytes, ledger.kv_cache
        if needed is None or left.likely <= 0 or ledger.resolved.budget.auto_len:
            return
        if is_short(engine):  # too small for vLLM's own check: kv-cache-too-small reports it
            return
        if not ledger.checks_only:  # that check counts as much as a request takes
            return
        certainty, limited = _shortage.of_kv_cache(engine, ledger, needed)
        if certainty is None:  # the KV cache surely holds a request
            return
        yield Finding(
            path=engine.argument("max_model_len"),
            message=f"vLLM starts, but a request of {ledger.max_model_len:,} tokens never finishes: it needs "
            f"{human(needed)} of KV cache{ledger.checks_only}, about {human(left.likely)} are left on each GPU",
            details=lines(limited, _longest_text(ledger.longest_request)),
            certainty="likely" if certainty == "likely" and "max_model_len" in engine.args.given else "possible",
            suggestions=engine.alternatives,
            computed=True,
        )


def _longest_text(tokens: int | None) -> str:
    """A detail about the longest request that finishes, in tokens; empty if it is unknown."""
    return "" if tokens is None else f"the longest request that finishes has {tokens:,} tokens"
