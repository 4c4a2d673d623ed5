"""All lines of the GPU's ledger, in the order in which people read them and in which charts draw them.

A new line is a module with its arithmetic and an entry here. Charts draw lines in the budget from the left, and lines
outside of it after the budget. The KV cache gets what the lines leave of the budget.
"""

from __future__ import annotations

from podfit.vllm.memory import activations, cuda_graphs, draft, non_torch, weights
from podfit.vllm.memory.estimate import Estimate, plus
from podfit.vllm.memory.line import SIZE, Charge, Line
from podfit.vllm.memory.settings import Settings
from podfit.vllm.memory.weights import Checkpoint
from podfit.vllm.model import Model


def _loaded(model: Model, settings: Settings, checkpoint: Checkpoint, stage: int) -> Estimate:
    """The model's weights and the drafter's."""
    return plus(weights.line(checkpoint, model, settings, stage), draft.line(model, settings, stage))


LINES = (
    Line(
        id="weights",
        title="weights",
        about="one rank's part, LoRA slots and a drafter included (draft.py)",
        reads=frozenset(
            {"release", "gpu", "parallel", "types", "kernels", "multimodal", "speculative", "lora", "cpu_offload",
             "pooling", "uses_mla"}
        ),
        amount=_loaded,
        printed=(
            rf"(?:Model loading|[Ll]oading model weights) took {SIZE}",
            rf"model weights take {SIZE};",
            rf"weights memory: {SIZE}",
            rf"Actual usage is {SIZE} for weight,",
        ),
        in_every_log=True,
    ),
    Line(
        id="activations",
        title="activations",
        about="the peak of one batch of max_num_batched_tokens, or of the sampler",
        reads=frozenset(
            {"release", "v1", "second_runner", "pooling", "eager", "warm", "gpu", "parallel", "batch", "types",
             "kernels", "multimodal", "lora"}
        ),
        amount=lambda model, settings, _, stage: activations.line(model, settings, stage),
        printed=(
            rf"PyTorch activation peak memory takes {SIZE}",
            rf"torch peak memory increase: {SIZE};",
            rf"for (?:weight|consumed memory \(weights \+ non-torch\)), {SIZE} for peak activation",
        ),
    ),
    Line(
        id="cuda_graphs",
        title="CUDA graphs",
        about="estimated inside the budget from 0.20; captured outside of it before",
        reads=frozenset({"release", "v1", "second_runner", "eager", "batch", "parallel", "kernels", "lora"}),
        amount=lambda model, settings, _, __: cuda_graphs.line(model, settings),
        is_charged=cuda_graphs.charged,
        printed=(rf"Estimated CUDA graph memory: {SIZE}",),
    ),
    Line(
        id="non_torch",
        title="non-torch",
        about="NCCL, all-reduce buffers, kernel workspaces",
        reads=frozenset({"release", "v1", "gpu", "parallel", "attention"}),
        amount=lambda _, settings, __, ___: non_torch.line(settings),
        grows_with_layers=False,
        printed=(
            rf"non_torch_memory takes {SIZE}",
            rf"non-torch forward increase memory: {SIZE};",
            rf"for peak activation, {SIZE} for non-torch memory",
        ),
    ),
)  # fmt: skip
KV_CACHE, KV_CACHE_TITLE = "kv_cache", "KV cache memory"
"""Id and title of the rest: what the lines leave of the budget."""
TITLES: dict[str, str] = {**{line.id: line.title for line in LINES}, KV_CACHE: KV_CACHE_TITLE}
"""Lines and the rest: id → title, in their order."""
AMOUNTS = ("total", "budget", *TITLES)
"""All bytes of a `GpuLedger`, in the order in which people read them."""


def charges(model: Model, settings: Settings, checkpoint: Checkpoint, stage: int) -> tuple[Charge, ...]:
    """The lines of a rank of one pipeline stage."""
    charged = []
    for line in LINES:
        amount = line.amount(model, settings, checkpoint, stage)
        if model.is_minimum and line.grows_with_layers:
            amount = amount.bound()
        charged.append(Charge(line=line, amount=amount, in_budget=line.is_charged(settings)))
    return tuple(charged)
