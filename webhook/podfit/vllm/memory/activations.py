"""The activation peak of the profile run: one batch of max_num_batched_tokens, then the sampler for max_num_seqs rows.

vLLM profiles with dummy inputs before it sizes the KV cache (v1/worker/gpu_model_runner.py profile_run). The result is
the larger of the two peaks, plus the hidden states that stay alive. The sampler works on the whole vocabulary of every
sequence and is not divided by TP. Its bytes per (sequence × vocabulary entry) are below by release, read from
v1/sample/sampler.py and v1/sample/ops/topk_topp_sampler.py and compared with printed peaks.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from podfit.kube.quantity import GI, MI, human
from podfit.vllm.memory import shape
from podfit.vllm.memory.estimate import Estimate
from podfit.vllm.memory.parallel import Parallel
from podfit.vllm.memory.quantisation import Scheme
from podfit.vllm.memory.settings import Settings
from podfit.vllm.model import Model
from podfit.vllm.release import Release

SOURCE = "vLLM 0.33 v1/worker/gpu_model_runner.py, profile_run"


class Sampler(NamedTuple):
    """Bytes for each sequence and vocabulary entry alive at the peak."""

    floor: float
    """The certain minimum."""
    low: float
    likely: float
    high: float
    """The end of the 95 % interval that begins with `low`."""


class Peak(NamedTuple):
    """Bytes of one step of the profile run, and their 95 % interval."""

    low: float
    likely: float
    high: float


LOGITS = 6.0
"""Logits in 16 bits and one float32 copy: in no release the sampler uses less."""
SAMPLERS = {
    # Triton kernels read the unchanged logits, in blocks (0.33 v1/worker/gpu/sample). Printed with a warm compile
    # cache: 0.15 GiB in all for 256 × 151,936 on 0.27.1, 0.27 for 256 × 262,144 on 0.28
    "Model Runner V2": Sampler(2.0, 3.5, 4.0, 14.0),
    # the same sort as on NVIDIA up to 0.16; one build of 0.13 for ROCm had 14
    "AMD to 0.16": Sampler(LOGITS, 13.0, 38.0, 40.0),
    "AMD from 0.17": Sampler(LOGITS, 13.0, 14.0, 20.0),
    "neither NVIDIA nor AMD": Sampler(LOGITS, 13.0, 14.0, 40.0),
    # PyTorch's sort of the whole vocabulary with its scratch: 1.26 GiB for 256 × 128,256
    "V0": Sampler(LOGITS, 20.0, 38.0, 40.0),
    # the sort, or FlashInfer (14) if it was installed: 0.49 GiB in all for 256 × 152,064 on 0.10.1
    "V1 before 0.11": Sampler(10.0, 12.0, 38.0, 40.0),
    "FlashInfer asked for, before 0.17": Sampler(10.0, 13.0, 14.0, 38.0),
    "0.11.0": Sampler(12.0, 14.0, 15.0, 38.0),
    # the sort again: 5.64 GiB for 1,024 × 151,936 on 0.15 and 0.16
    "0.11.1 to 0.16": Sampler(30.0, 37.0, 38.0, 39.0),
    # float32 copy, top-k/top-p in place, softmax, noise. Printed on an H100: 0.66 of 0.75 GiB (granite, 49,155
    # entries), 1.71 of 1.89 (Llama 3.1), 2.03 of 2.21 (Qwen 3), 3.50 of 3.89 (Gemma 3)
    "0.17 to 0.20": Sampler(12.5, 13.5, 14.0, 15.0),
    # FlashInfer by default, Model Runner V2 for more and more models; 1.04 GiB in all for 256 × 152,064 on 0.28. The
    # floor: logits in 16 bits, and half as much again
    "from 0.21": Sampler(3.0, 10.0, 14.0, 27.0),
}
"""Class → bytes, as start-up logs printed them; `benchmarks/accuracy.py` compares them, and can fit them again."""


def sampler(settings: Settings) -> str:
    """The class of SAMPLERS that this engine belongs to."""
    release = settings.release
    if settings.second_runner:
        return "Model Runner V2"
    if settings.kernels.variable("VLLM_USE_FLASHINFER_SAMPLER") == "1" and settings.v1 and release < (0, 17):
        return "FlashInfer asked for, before 0.17"
    if settings.gpu.vendor == "amd":
        return "AMD to 0.16" if release < (0, 17) else "AMD from 0.17"
    if settings.gpu.vendor != "nvidia":
        return "neither NVIDIA nor AMD"
    if not settings.v1:
        return "V0"
    if release < (0, 11):
        return "V1 before 0.11"
    if release < (0, 11, 1):
        return "0.11.0"
    if release < (0, 17):
        return "0.11.1 to 0.16"
    return "0.17 to 0.20" if release < (0, 21) else "from 0.21"


class Run(NamedTuple):
    """The settings that decide the peak of the profile run."""

    release: Release
    v1: bool
    cut: Parallel
    width: int
    """Bytes of an activation."""
    max_num_seqs: int
    max_num_batched_tokens: int
    pooling: bool
    sampler: Sampler
    scheme: Scheme | None
    capability: tuple[int, int] | None
    vendor: str
    vision_profiled: bool
    no_video: bool
    long_videos: bool
    compiled: bool
    """torch.compile runs."""
    warm: bool
    """Most starts find its results in a volume."""
    adapted: bool
    """LoRA adapters are loaded."""
    all2all: str | None
    chunk: int | None
    """VLLM_FUSED_MOE_CHUNK_SIZE."""
    other_kernels: bool
    """A variable chooses another kernel for the experts."""


def _run(model: Model, settings: Settings) -> Run:
    """The settings that the activations depend on. A chunk is used only if the model has experts, and if it is a number
    of at most 18 digits, which fits into 64 bits."""
    chunk = settings.kernels.variable("VLLM_FUSED_MOE_CHUNK_SIZE") if model.num_experts else None
    is_number = chunk is not None and chunk.isdecimal() and len(chunk) <= 18
    types, batch, gpu, multimodal = settings.types, settings.batch, settings.gpu, settings.multimodal
    return Run(
        release=settings.release,
        v1=settings.v1,
        cut=settings.parallel,
        width=types.dtype,
        max_num_seqs=batch.max_num_seqs,
        max_num_batched_tokens=batch.max_num_batched_tokens,
        pooling=settings.pooling,
        sampler=SAMPLERS[sampler(settings)],
        scheme=types.scheme,
        capability=gpu.capability,
        vendor=gpu.vendor,
        vision_profiled=multimodal.vision_profiled,
        no_video=multimodal.no_video,
        long_videos=multimodal.long_videos,
        compiled=not settings.eager,
        warm=settings.warm,
        adapted=settings.lora is not None,
        all2all=settings.kernels.all2all,
        chunk=int(chunk) if chunk is not None and is_number else None,
        other_kernels=settings.kernels.other_kernels,
    )


def multiprocessors(run: Run) -> int:
    """Number of streaming multiprocessors, an H100's 132 or an A100's 108: the Triton sampler has a row of the
    vocabulary for each."""
    return 132 if run.capability and run.capability >= (9, 0) else 108


CHUNKED, UNCHUNKED = Release(0, 6, 6), Release(0, 20)
"""Between them, the experts process VLLM_FUSED_MOE_CHUNK_SIZE tokens at once: 32,768 in 0.6.6 … 0.11, 16,384 in
0.13 … 0.17; 0.20.2 has no such setting."""


def gathered(model: Model, run: Run) -> int:
    """Tokens that reach the experts of a rank: those of all data-parallel ranks, each with a full batch in the profile
    run (vLLM 0.10 fused_moe/layer.py, do_naive_dispatch_combine; from 0.11 all-gather).

    Without experts, and with a backend that sends each expert its own tokens in chunks, they are those of one batch.
    vLLM uses such a backend only if an argument or a variable names it (`run.all2all`).
    """
    is_gathered = model.num_experts and run.all2all in (None, "naive", "allgather_reducescatter")
    return run.max_num_batched_tokens * (run.cut.dp if is_gathered else 1)


def has_triton_experts(run: Run) -> bool:
    """True if the format of the experts is one of Triton's kernels: 16 bits or 8. Marlin's kernels are for 4 bits."""
    return run.scheme is None or run.scheme.name in ("FP8", "online fp8", "INT8", "experts_int8")


def at_once(model: Model, run: Run) -> int:
    """Tokens, of the gathered ones, that the experts process at once: a chunk, or all of them.

    All outside of the releases that have chunks (see CHUNKED), and in Marlin's kernel, for 4 bits."""
    tokens = gathered(model, run)
    if not has_triton_experts(run) or not CHUNKED <= run.release < UNCHUNKED:
        return tokens
    usual = 32_768 if run.release < (0, 12) else 16_384
    return min(tokens, usual if run.chunk is None else run.chunk)


def expert_width(model: Model, run: Run) -> int:
    """Width of one routed expert on a rank: whole with expert parallelism, else cut over TP × DP. 0 if unknown."""
    width = model.moe_intermediate_size or model.intermediate_size or 0
    return width // (1 if run.cut.expert else run.cut.experts)


WORKSPACE_SINCE = Release(0, 14)
"""Since then the experts' buffers stay allocated after the first batch (vLLM 0.14.1 v1/worker/workspace.py). 0.14.1
printed 0.5 GiB more than 0.13 for Qwen3-VL-30B-A3B and Nemotron-3-Nano, and 1.7 for DeepSeek-R1 over 8 GPUs."""
MODELOPT_ELSEWHERE = Release(0, 17)
"""Since then ModelOpt's FP8 experts have a kernel without these buffers: none with Nemotron-3 on 0.17.1 … 0.19."""


class ExpertWorkspace(NamedTuple):
    """Bytes of the buffers of Triton's kernel for experts, which are still there while vLLM samples."""

    likely: float
    most: float


def expert_workspace(model: Model, run: Run) -> ExpertWorkspace:
    """The buffers of Triton's kernel for experts; likely 0 if the experts probably have another kernel, and 0 at most
    if they certainly have.

    tokens × experts per token × (the larger of the activation's result and the hidden states, and the larger of gate
    and up and the hidden states): vLLM 0.18 fused_moe/fused_moe.py workspace_shapes. Float32 is computed in 16 bits.
    """
    if not model.num_experts or not has_triton_experts(run) or run.release < WORKSPACE_SINCE:
        return ExpertWorkspace(likely=0.0, most=0.0)
    hidden, inner = shape.routed_width(model), expert_width(model, run)
    gate_and_up = inner if shape.is_ungated(model) else 2 * inner
    widths = max(inner, hidden) + max(gate_and_up, hidden)
    size = float(at_once(model, run) * (model.num_experts_per_tok or 1) * widths * min(run.width, 2))
    return ExpertWorkspace(likely=0.0 if _has_other_kernel(model, run) else size, most=size)


def _has_other_kernel(model: Model, run: Run) -> bool:
    """True if experts in FP8 likely have another kernel on an NVIDIA GPU: FlashInfer's on Blackwell, Marlin's before
    Ada. With expert parallelism no buffers were seen either (MiniMax-M2.5 on an H200, 0.18)."""
    if run.vendor != "nvidia" or run.scheme is None or run.scheme.name != "FP8":
        return False
    config = model.quantization_config or {}
    method = str(config.get("quant_method") or config.get("producer"))
    is_modelopt = "modelopt" in method or model.id.startswith("nvidia/")
    is_ada_or_hopper = run.capability is not None and (8, 9) <= run.capability < (10, 0)
    return not is_ada_or_hopper or run.cut.expert or (is_modelopt and run.release >= MODELOPT_ELSEWHERE)


def forward(model: Model, run: Run) -> float:
    """Bytes at the peak of one layer on a full batch: the MLP's or the attention's tensors over TP, whichever are
    wider, hidden states and residual. With routed experts, their inputs and results are added."""
    hidden, inner = model.hidden_size or 0, model.intermediate_size or 0
    tokens, routed = run.max_num_batched_tokens, 0
    if model.num_experts:
        # per token and expert: the input, and gate, up and their elementwise result
        each = (model.num_experts_per_tok or 1) * (shape.routed_width(model) + 3 * expert_width(model, run))
        from_other_ranks = gathered(model, run) - tokens
        routed = at_once(model, run) * each + from_other_ranks * hidden
        inner = 0 if model.moe_intermediate_size else inner  # then `intermediate_size` is that of dense layers
    heads = (model.num_attention_heads or 0) * (model.head_dim or 0)
    mlp, attention = 3 * inner, 3 * heads  # gate, up and result; queries, keys and values
    widest = max(mlp, attention) // run.cut.tp
    return (tokens * (widest + 2 * hidden) + routed) * run.width


def least_experts(model: Model, run: Run) -> int:
    """Bytes that the Triton kernel of routed experts certainly uses, 0 if another kernel may run.

    These are the gathered hidden states. For the tokens of a chunk there is also the output of gate and up (or, in the
    same buffer, of down), and the activation's result. Source: vLLM 0.8.5 … 0.10.2 fused_moe/fused_moe.py, cache13 and
    intermediate_cache2.
    """
    if not model.num_experts or not _certainly_has_triton_experts(model, run):
        return 0
    hidden, width = model.hidden_size or 0, expert_width(model, run)
    each = (model.num_experts_per_tok or 1) * (max(2 * width, hidden) + width)
    return (at_once(model, run) * each + gathered(model, run) * hidden) * min(run.width, 2)


def _certainly_has_triton_experts(model: Model, run: Run) -> bool:
    """True if no other kernel can run the experts. That is so in V1 of the releases that were read, in 16 bits or in
    FP8 as stored, on the NVIDIA GPUs for which vLLM chooses Triton."""
    if not run.v1 or not (0, 8, 5) <= run.release < (0, 11):
        return False
    method = (model.quantization_config or {}).get("quant_method")
    is_16_bit = run.scheme is None and method is None
    is_fp8 = run.scheme is not None and run.scheme.name == "FP8" and method == "fp8"
    least = (8, 0) if is_16_bit else (8, 9)  # before, Marlin's kernel; from Blackwell CUTLASS'
    has_usual_gpu = run.vendor == "nvidia" and run.capability is not None and least <= run.capability < (10, 0)
    return (is_16_bit or is_fp8) and has_usual_gpu and not run.other_kernels


RESIDUAL_STREAMS = 4
"""Residual streams of DeepSeek-V4 (`hc_mult` in its config.json)."""
STREAMS_FUSED = Release(0, 22)
"""Since then one kernel mixes them (vLLM 0.22 model_executor/kernels/mhc/tilelang.py). Releases 0.20 and 0.21 were not
read: DeepSeek-V4-Pro over 8 H200 took 4.8 GiB more on 0.20.2 than all other lines; PyTorch takes 3.9 GiB to mix."""


def mixed_streams(model: Model, run: Run) -> float:
    """Bytes with which PyTorch mixes the residual streams of DeepSeek-V4; 0 for other models and once a kernel does.

    Four sets are in float32: the streams, the mixed ones, the layer's part and the sum. One is as stored (vLLM 0.22
    model_executor/kernels/mhc/torch.py, mhc_post_torch)."""
    if model.model_type != "deepseek_v4" or run.release >= STREAMS_FUSED:
        return 0.0
    bytes_of_sets = 4 * 4 + run.width  # four in float32, one in the model's dtype
    return float(run.max_num_batched_tokens * (model.hidden_size or 0) * RESIDUAL_STREAMS * bytes_of_sets)


LATENT_TOKENS = 65_536
"""Tokens of the longest part of a prefill from which latent attention makes keys and values at once
(v1/attention/backends/mla/common.py, `_compute_prefill_context`)."""
LATENT_KEPT = int(0.2 * GI)
"""Bytes of this workspace that are still there while vLLM samples: 0.15 … 0.28 GiB were printed."""


def latent_workspace(model: Model, run: Run) -> float:
    """Bytes of keys and values that latent attention makes from LATENT_TOKENS, for the heads of a rank, once while vLLM
    profiles. 0 for other attention, and in V0."""
    if not model.kv_lora_rank or not run.v1:
        return 0.0
    width = (model.qk_nope_head_dim or 0) + (model.v_head_dim or 0)
    return LATENT_TOKENS * (model.num_attention_heads or 0) / run.cut.tp * width * run.width


def least_forward(model: Model, run: Run) -> float:
    """Bytes that a dense layer certainly uses at once: the output of gate and up, of the activation, and the residual.

    SiluAndMul writes to its own tensor (layers/activation.py), in 8 bits if it is fused with the quantization of the
    next layer. So gate and up are two widths of the MLP, and its result is half of one; without a gate, there is one
    width. Routed experts work in chunks and are left out.
    """
    inner = 0 if model.num_experts else model.intermediate_size or 0
    widths = 1.0 if shape.is_ungated(model) else 2.5
    return run.max_num_batched_tokens * (widths * inner / run.cut.tp + (model.hidden_size or 0)) * min(run.width, 2)


HUGE_IMAGES = ("qwen2_vl", "qwen2_5_vl", "qwen2_5_omni", "qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe")
"""Families whose largest image is profiled at 16,384 tokens (65,536 patches)."""


NO_TOWER = Peak(0.0, 0.0, 0.0)
USUAL_TOWER = Peak(0.0, 0.1 * GI, 0.6 * GI)
HUGE_IMAGE = Peak(0.1 * GI, 0.7 * GI, 5.0 * GI)
HUGE_VIDEO = Peak(1.0 * GI, 2.55 * GI, 4.4 * GI)
"""The vision tower's profile on top of one batch. Printed: 2.5 GiB with Qwen3-VL-30B and 32B and Qwen3.6-35B-A3B, over
1 to 4 GPUs; 0.8 without video; 0.4 with Qwen2.5-VL-7B on 0.9."""


def vision(model: Model, run: Run) -> Peak:
    """The vision tower's profile of one item of the largest size; zeros if no tower is profiled."""
    if not model.vision_config or not run.vision_profiled:
        return NO_TOWER
    if model.model_type not in HUGE_IMAGES:
        return USUAL_TOWER
    return HUGE_VIDEO if _has_long_videos(model, run) else HUGE_IMAGE


def _has_long_videos(model: Model, run: Run) -> bool:
    """True if the profile run of one of HUGE_IMAGES has a video: from 0.11, for Qwen 3's kind, unless videos are
    forbidden."""
    return run.release >= (0, 11) and not str(model.model_type).startswith("qwen2") and not run.no_video


def waiting(model: Model, run: Run) -> float:
    """Likely bytes of the largest image or video that are still there while vLLM samples: pixels, and the vectors that
    the language model will read (vLLM 0.18 v1/worker/gpu_model_runner.py profile_run, `encoder_cache`).

    0 if no tower is profiled, and for families with smaller images. Printed: 0.4 GiB with Qwen3-VL-30B-A3B and a
    context of 8,192 tokens, 2.6 with 65,536: a video may fill the context.
    """
    if not model.vision_config or not run.vision_profiled or model.model_type not in HUGE_IMAGES:
        return 0.0
    return (2.4 if run.long_videos and _has_long_videos(model, run) else 0.4) * GI


LARGEST_WAITING = 1.8
"""The most that waits, in likely ones. Of 17 start-ups of Qwen3.6-35B-A3B over 4 A100s, the largest peak was 2.4 GiB
above the likely one, the least 1.4 GiB below it."""


COMPILED_SINCE = Release(0, 19)
"""The first release on which it was measured: the first start compiles, and a compiled graph that begins with token ids
holds a second table of embeddings while vLLM profiles. A start with a warm compile cache does not.

Printed, first start and warm one: 0.27.1, 4090, Qwen3-8B 1.18 GiB, table 1.16; Qwen3-4B 0.74 and 0.15, table 0.72;
0.23, Qwen2.5-7B 0.8 more than warm, table 1.02. On a first stage 1.1 GiB for 0.98 (Llama 3.1 8B, 0.19), and 2.6 for
2.62 (Gemma 4 31B, 0.21)."""


WITH_ADAPTERS = 1.5
"""The most that compiling takes with LoRA, in tables: 0.80, 0.83, 0.87 and 1.09 GiB for 1, 8, 16 and 64 adapters of
Qwen3-4B (0.27.1, 4090), whose table is 0.72. Each of their warm starts printed 0.15."""


def compiled_embedding(model: Model, run: Run, stage: int) -> float:
    """Bytes of the second table of embeddings (COMPILED_SINCE) on a rank of a stage. 0 on later stages, for pooling
    models, and if nothing is compiled.

    0 also for models that accept images, which compile a graph of vectors instead of token ids."""
    takes_vectors = model.vision_config and run.vision_profiled
    compiles = run.compiled and run.v1 and run.release >= COMPILED_SINCE
    if stage > 0 or not compiles or run.pooling or takes_vectors:
        return 0.0
    return (model.vocab_size or 0) * (model.hidden_size or 0) * run.width / run.cut.tp


def saved_when_warm(model: Model, settings: Settings, peak: Estimate) -> int:
    """Bytes by which the likely `peak` of a start that compiles is larger than that of one with a warm compile cache.

    0 for measured peaks and for ranks of later stages, which have no table of embeddings: `peak` is then not the line
    of the first stage."""
    if line(model, settings, 0) != peak:
        return 0
    cold = line(model, replace(settings, warm=False), 0).likely
    return cold - line(model, replace(settings, warm=True), 0).likely


def line(model: Model, settings: Settings, stage: int) -> Estimate:
    """The peak on one rank of a pipeline stage: only the last stage samples, only the first one processes images."""
    return _line(model, _run(model, settings), stage)


FRAGMENTS, MOST_FRAGMENTS = 50 * MI, 150 * MI
"""Bytes of each peak beyond the formulas, likely and at most (assumed)."""
LEAST_OF_BATCH, MOST_OF_BATCH = 0.5, 1.6
"""The 95 % interval of one batch through the layers, relative to the formulas (assumed)."""


@lru_cache(256)
def _line(model: Model, run: Run, stage: int) -> Estimate:
    """`line`, cached: the largest of one batch through the layers, sampling from the vocabulary, and compiling."""
    hidden_states = _hidden_states(model, run)
    entries = _sampled_entries(model, run, stage)
    tower = vision(model, run) if stage == 0 else NO_TOWER
    one_batch = _one_batch(model, run, tower)
    sampled = _sampling(model, run, stage, entries)
    table = compiled_embedding(model, run, stage)
    compiling = table + hidden_states if table else 0.0
    routed = least_experts(model, run)
    floor = max(least_forward(model, run), routed, entries * run.sampler.floor + hidden_states)
    low = max(routed, one_batch.low, sampled.low)
    likely = max(one_batch.likely, sampled.likely, 0.0 if run.warm else compiling) + FRAGMENTS
    high = max(one_batch.high, sampled.high, compiling * (WITH_ADAPTERS if run.adapted else 1)) + MOST_FRAGMENTS
    if not run.warm and compiling > max(one_batch.likely, sampled.likely):
        note = f"a second table of embeddings while torch.compile runs first: {human(table)}"
    elif one_batch.likely > sampled.likely or not entries:
        note = f"one batch of {run.max_num_batched_tokens:,} tokens"
        if tower.likely:
            note += f", vision tower about {human(tower.likely)}"
    else:
        per_entry = f"{run.sampler.likely:g} B"
        note = f"{run.max_num_seqs} sequences × {model.vocab_size or 0:,} vocabulary entries × {per_entry}"
    return Estimate(
        floor=int(min(floor, low)),
        low=int(min(low, likely)),
        likely=int(likely),
        high=int(max(high, likely)),
        note=note,
        source=SOURCE,
    )


def _hidden_states(model: Model, run: Run) -> int:
    """Bytes of the hidden states of a full batch, which are there in each step."""
    return run.max_num_batched_tokens * (model.hidden_size or 0) * run.width


def _sampled_entries(model: Model, run: Run, stage: int) -> int:
    """Sequences × vocabulary entries from which a rank of a stage samples; 0 for poolers and on all stages but the
    last."""
    if run.pooling or stage != run.cut.pp - 1:
        return 0
    return min(run.max_num_seqs, run.max_num_batched_tokens) * (model.vocab_size or 0)


def _one_batch(model: Model, run: Run, tower: Peak) -> Peak:
    """A full batch through the layers, and the vision tower's profile (`tower`). The low end assumes that a kernel
    mixes the residual streams of DeepSeek-V4."""
    fused = forward(model, run) + latent_workspace(model, run)
    unfused = fused + mixed_streams(model, run)
    return Peak(
        low=LEAST_OF_BATCH * fused + tower.low,
        likely=unfused + tower.likely,
        high=MOST_OF_BATCH * unfused + tower.high,
    )


SCRATCH_SINCE, SCRATCH_UNTIL = Release(0, 17), Release(0, 21)
"""Between them, the Triton sampler has a row of the vocabulary in float32 for each multiprocessor."""
PASSED_ON = 3
"""Tensors as large as the hidden states that a pipeline stage keeps: its own, and those that it passes on."""


def _sampling(model: Model, run: Run, stage: int, entries: int) -> Peak:
    """The sampler for `entries` (sequences × vocabulary), and what stays alive next to it: hidden states, workspaces
    and on the first stage images."""
    sampler, wider = run.sampler, run.width - 2  # SAMPLERS are of 16 bits; logits are as wide as activations
    kept = _hidden_states(model, run) * (PASSED_ON if run.cut.pp > 1 else 1)
    if model.kv_lora_rank:
        kept += LATENT_KEPT
    has_scratch = entries and SCRATCH_SINCE <= run.release < SCRATCH_UNTIL
    scratch = multiprocessors(run) * (model.vocab_size or 0) * 4 if has_scratch else 0
    images = waiting(model, run) if stage == 0 else 0.0
    workspace = expert_workspace(model, run)
    return Peak(
        low=entries * (sampler.low + wider) + scratch + kept,
        likely=entries * (sampler.likely + wider) + scratch + kept + images + workspace.likely,
        high=entries * (sampler.high + wider) + scratch + kept + LARGEST_WAITING * images + workspace.most,
    )
