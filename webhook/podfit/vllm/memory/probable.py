"""Changes that likely fit, though not certainly: what people choose first, next to what `solve` proves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from podfit.vllm.args import EngineArgs
from podfit.vllm.gpu import Accelerator
from podfit.vllm.memory import plan
from podfit.vllm.memory.ledger import GpuLedger
from podfit.vllm.memory.search import with_changes
from podfit.vllm.memory.solve import DEEPEST, LEAST_CONTEXT, SHARES, STEP, Alternative, by_flags, share_of
from podfit.vllm.model import Model

PROBABLE = 0.52
"""The least probability with which a larger share of the GPU is said to fit probably: better than even odds. The
steps are small, and the next one costs little."""
WORTH_A_RISK = 1.1
"""A probable length is offered if it is so many times as long as a certain one."""


def probable_changes(
    args: EngineArgs,
    model: Model,
    accelerator: Accelerator,
    *,
    certain: Sequence[Alternative] = (),
    gpu_memory: int | None = None,
    env: Mapping[str, str] | None = None,
    warm: bool = False,
) -> list[Alternative]:
    """The usual changes after which the KV cache likely holds a request, though not certainly.

    A larger share of the GPU, and the length that vLLM would print as its estimate, in steps of STEP. Left out is what
    `certain` has already, or nearly as long. It costs at most one plan, and one for each share. None on a shared GPU,
    for a model deeper than DEEPEST, and if the size of the KV cache is given.
    """
    if accelerator.shared or model.described_layers > DEEPEST or args.given.get("kv_cache_memory_bytes"):
        return []

    def ledger_with(changes: Mapping[str, Any]) -> GpuLedger | None:
        """The ledger with these arguments changed. None if the plan is unknown, or if the GPU has no room for the CUDA
        graphs outside of the budget."""
        changed = with_changes(args, changes)
        release_plan = plan.judge(changed, model, accelerator, gpu_memory=gpu_memory, env=env, warm=warm)
        return None if release_plan.cause == "graphs" else release_plan.ledger

    certain_values: dict[str, Any] = {}  # argument → its value in a certain change of this argument alone
    for alternative in certain:
        if len(alternative.changes) == 1:
            certain_values.update(alternative.changes)
    alternatives: list[Alternative] = []
    now = share_of(args)
    larger_shares = [share for share in SHARES if share > now] if "gpu_memory_utilization" not in certain_values else []
    for share in larger_shares:
        ledger = ledger_with({"gpu_memory_utilization": share})
        if ledger is not None and 1 - ledger.kv_cache.share_below(ledger.least_kv_cache_bytes or 1) >= PROBABLE:
            alternatives.append(by_flags({"gpu_memory_utilization": share}, loss=share - now))
            break
    unchanged = ledger_with({})
    estimated = (unchanged.estimated_max_model_len or 0) if unchanged is not None else 0
    tokens = estimated // STEP * STEP
    if tokens >= LEAST_CONTEXT and tokens > WORTH_A_RISK * certain_values.get("max_model_len", 0):
        alternatives.append(by_flags({"max_model_len": tokens}))
    return alternatives
