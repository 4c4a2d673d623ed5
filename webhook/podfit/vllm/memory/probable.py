"""Changes that likely fit, though not certainly: what people choose first, next to what `solve` proves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podfit.vllm.args import EngineArgs
from podfit.vllm.gpu import Accelerator
from podfit.vllm.memory import plan
from podfit.vllm.memory.ledger import GpuLedger
from podfit.vllm.memory.search import with_changes
from podfit.vllm.memory.solve import DEEPEST, LEAST_CONTEXT, SHARES, Alternative, share_of
from podfit.vllm.model import Model

PROBABLE = 0.52
"""The least probability with which a larger share of the GPU is said to fit probably: better than even odds. The
steps are small, and the next one costs little."""


def probable_changes(
    args: EngineArgs,
    model: Model,
    accelerator: Accelerator,
    *,
    gpu_memory: int | None = None,
    env: Mapping[str, str] | None = None,
) -> list[Alternative]:
    """The usual changes after which the KV cache likely holds a request, though not certainly.

    A larger share of the GPU, and the length that vLLM would print as its estimate. Costs at most as many plans as
    there are shares, and one.
    """
    if accelerator.shared or model.described_layers > DEEPEST or args.given.get("kv_cache_memory_bytes"):
        return []

    def ledger_with(changes: Mapping[str, Any]) -> GpuLedger | None:
        changed = with_changes(args, changes)
        return plan.judge(changed, model, accelerator, gpu_memory=gpu_memory, env=env).ledger

    found: list[Alternative] = []
    now = share_of(args)
    for share in SHARES:
        ledger = ledger_with({"gpu_memory_utilization": share}) if share > now else None
        if ledger is not None and 1 - ledger.kv_cache.share_below(ledger.kv_capacity.least_bytes or 1) >= PROBABLE:
            found.append(
                Alternative(f"--gpu-memory-utilization {share:g}", {"gpu_memory_utilization": share}, loss=share - now)
            )
            break
    here = ledger_with({})
    longest = here.estimated_max_model_len if here is not None else None
    if longest is not None and (tokens := longest // 1024 * 1024) >= LEAST_CONTEXT:
        found.append(Alternative(f"--max-model-len {tokens}", {"max_model_len": tokens}))
    return found
