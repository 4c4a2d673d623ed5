from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from podfit.kube.quantity import human
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule, parameter
from podfit.vllm import change


@dataclass(frozen=True)
class ConcurrencyTooLow(Rule):
    """The KV cache holds fewer long requests at once than it should.

    vLLM starts as soon as one request of `--max-model-len` tokens fits, and logs how many do:

        Maximum concurrency for 32,768 tokens per request: 1.13x

    Under load the requests beyond that wait or are preempted; vLLM computes a preempted request again:

        Sequence group … is preempted by PreemptionMode.RECOMPUTE mode because there is not enough KV cache space

    A shorter `--max-model-len`, an 8-bit KV cache or more GPU memory raises the number. Short requests share the cache
    as always: this counts requests of the full length.
    """

    plane = "gpu"
    event = "long requests are preempted and computed again"
    threatens = "practice"
    never_denies = "the manifest does not show the number of concurrent requests"
    needs = ("model", "gpu", "plan.gpu")

    minimum: float = parameter(2.0, "requests of the full length that should fit at once", ge=1)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Likely if it starts and the likely KV cache holds fewer than `minimum`, or than --max-num-seqs if that is
        less. None if it does not start, and with `--max-model-len auto`."""
        ledger = engine.plan.gpu
        many = ledger.max_concurrency if ledger else None
        if ledger is None or many is None or not 1 <= many < self.minimum:
            return  # below 1: kv-cache-too-small or request-never-finishes report that
        if engine.plan.verdict == "does-not-fit" or not ledger.max_model_len:
            return
        if str(engine.args.given.get("max_model_len")) == "-1":
            return  # `--max-model-len auto` takes the longest context that fits, so that one request does
        seqs = engine.args.given.get("max_num_seqs")
        needed = min(self.minimum, seqs) if isinstance(seqs, int) and seqs > 0 else self.minimum
        if many >= needed:
            return
        length = int(ledger.max_model_len * many / needed) // 1024 * 1024
        yield Finding(
            path=engine.argument("max_model_len"),
            message=f"the KV cache of {human(ledger.kv_cache.likely)} holds {many:.2f} requests of "
            f"{ledger.max_model_len:,} tokens at once; at least {needed:g} are advised",
            details=("more long requests at once are preempted and computed again",),
            certainty="likely",
            suggestions=(change.flags(f"--max-model-len {length}"),) if length >= 2048 else (),
        )
