from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from podfit.kube.quantity import human
from podfit.rules._flags import spoilt
from podfit.rules.engine import Engine
from podfit.rules.gpu_memory._length import not_given
from podfit.rules.rule import Finding, Rule, parameter
from podfit.vllm.model import derived_max_model_len, is_default


@dataclass(frozen=True)
class MaxModelLenUnset(Rule):
    """The context length is left at the model's own, very long one.

    Without `--max-model-len` vLLM takes the longest context in the model's config.json, for many models 131,072
    tokens. It must then be able to hold one request of that length, and a few long requests can take the whole KV
    cache from all other requests. State the length that your users need; `--max-model-len auto` (v0.14 and newer) takes
    what fits. If the GPU is unknown, the finding is only audited.
    """

    plane = "gpu"
    event = "the KV cache is planned for the model's longest context"
    threatens = "practice"
    needs = ("model", "vllm_args")

    above: int = parameter(40_960, "tokens; a model's own length up to this is not reported", ge=0)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Reports a default context length above `above`; says nothing if another length may be set elsewhere."""
        if engine.model is None or "max_model_len" in (*engine.args.given, *engine.args.unresolved) or engine.args.open:
            return
        if is_default(engine.model) or spoilt(engine, "max_model_len"):
            return
        ledger = engine.plan.gpu
        length = ledger.max_model_len if ledger else derived_max_model_len(engine.model.value, engine.release)
        if length is None or length <= self.above:
            return
        number = ledger.request_bytes if ledger else None
        holds = f", {human(number)} of KV cache on each GPU for one request" if number else ""
        many = f" ({ledger.max_concurrency:.1f} such requests fit at once)" if ledger and ledger.max_concurrency else ""
        yield Finding(
            path=engine.command.path,
            message=f"{not_given(engine)}, so the model's default of {length:,} tokens applies{holds}{many}",
            advice=ledger is None,
            yields_to=("gpu-memory-exceeded", "kv-cache-too-small", "concurrency-too-low"),
            suggestions=("--max-model-len 8192, or what the longest prompt and answer together need",),
        )
