from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule, parameter


@dataclass(frozen=True)
class LongAndShortContextMixed(Rule):
    """A few long requests can take the whole KV cache from all short ones.

    `--max-model-len` limits what one request may take. If the KV cache holds only two or three requests of that length,
    one long document makes dozens of chats wait. `vllm:num_requests_waiting` rises and vLLM preempts running requests
    (`vllm:num_preemptions`), although the average prompt is short. Nothing crashes. Two pools behind a router keep long
    and short requests apart: one with a short `--max-model-len` and many sequences, one with a long one and few.
    """

    plane = "gpu"
    event = "short requests wait while long ones hold the KV cache"
    threatens = "practice"
    mode = "audit"
    never_denies = "the manifest does not show the lengths of the requests"
    needs = ("plan.gpu", "vllm_args")

    min_length: int = parameter(32768, "contexts shorter than this are not called long", ge=1)
    max_long_requests: float = parameter(4.0, "fewer requests of the full length than this crowd the others out", gt=0)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Possible: the manifest does not show the lengths of the requests. None for a context shorter than
        `min_length`, and if less than one request, or at least `max_long_requests` of them, fit the KV cache."""
        ledger = engine.plan.gpu
        if ledger is None or engine.container.init or not engine.served or engine.args.get("max_num_seqs") == 1:
            return
        length = ledger.max_model_len
        if length is None or length < self.min_length:
            return
        full_requests = ledger.max_concurrency  # requests of `length` tokens that the KV cache holds at once
        if full_requests is None or not 1 <= full_requests < self.max_long_requests:
            return
        yield Finding(
            path=engine.argument("max_model_len"),
            message=f"the KV cache holds {full_requests:.1f} requests of {length:,} tokens: "
            "a few long ones stop all others",
            certainty="possible",
            suggestions=(
                "two Deployments behind a router: a short --max-model-len for most requests, the long one for the rest",
                f"--max-model-len {length // 4}, if that is enough",
            ),
        )
