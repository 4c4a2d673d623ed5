"""The arguments as one release resolves them: its defaults for everything that affects memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from podfit.kube.quantity import GI
from podfit.vllm.args import EngineArgs
from podfit.vllm.gpu import Gpu
from podfit.vllm.memory import arguments, kv_releases, media, model_runner, v0_fallback
from podfit.vllm.memory.arguments import Lora, MemoryArguments, Speculative
from podfit.vllm.memory.dtype import is_widened
from podfit.vllm.memory.parallel import Parallel
from podfit.vllm.memory.quantisation import Scheme
from podfit.vllm.model import Model, derived_max_model_len
from podfit.vllm.release import Release

BACKEND_UNREAD = Release(0, 15)
"""From then on, vLLM ignores VLLM_ATTENTION_BACKEND (the last release that reads it: 0.14.1 config/attention.py)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BudgetSettings:
    """The settings that decide the size of the KV cache and the longest request; two plans of one model mostly differ
    in these alone."""

    utilization: float
    kv_cache_memory: int | None
    """`--kv-cache-memory-bytes`; if it is set, the utilization is not used."""
    max_model_len: int | None
    """Tokens; None if unknown."""
    auto_len: bool
    """`--max-model-len auto`: vLLM uses the longest that fits."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuSettings:
    """The properties of the GPU model that the ledger's lines read."""

    vendor: str
    capability: tuple[int, int] | None
    """The GPU's compute capability, rounded down to one of KERNEL_STEPS; None if unknown."""
    unified_memory: bool
    """The GPU's memory is the host's (GB10, Jetson)."""
    instinct: bool
    """An AMD GPU for data centers, by its memory: its libraries take more than those of a Radeon."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchSettings:
    """How much vLLM processes at once."""

    max_num_seqs: int
    max_num_batched_tokens: int
    chunked: bool
    """Chunked prefill: a prompt need not fit into one batch."""
    whole_prompts: bool
    """The pooler needs a whole prompt at once."""
    batches: int
    """Batches that are in flight at once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TypeSettings:
    """The data types of weights, activations and the KV cache."""

    dtype: int
    """Bytes of an activation and of an unquantized weight."""
    scheme: Scheme | None
    kv_cache_dtype: str
    state_dtypes: tuple[str | None, str | None]
    """`--mamba-cache-dtype` and `--mamba-ssm-cache-dtype`, None if the model decides."""
    skipped_layers: bool
    """`--kv-cache-dtype-skip-layers`: some layers keep the model's dtype, and pages are padded to a common size."""
    index_dtype: str | None
    """`indexer_kv_dtype` of `--attention-config`, None if vLLM decides."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AttentionSettings:
    """The attention backend, and how it divides the KV cache."""

    flashinfer: bool
    """FlashInfer's attention, with its workspace."""
    backend_named: bool
    """True if an argument or a variable names the attention backend, instead of vLLM choosing it."""
    manager: bool | None
    """The hybrid KV cache manager is on, so that layers with a window keep only the window; None: unknown."""
    block_size: int | None
    prefix_caching: bool | None
    state_mode: str | None
    """`--mamba-cache-mode`, None if vLLM decides."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MultimodalSettings:
    """The parts of a multimodal model that are loaded and profiled for images and videos."""

    vision: bool
    """The vision tower is loaded, and profiled."""
    vision_profiled: bool
    vision_replicated: bool
    """`--mm-encoder-tp-mode data`: every tensor-parallel rank has the whole tower."""
    no_video: bool
    """Videos are not accepted, so no video is profiled."""
    long_videos: bool
    """The model has a vision tower, and a context of LONG_VIDEO tokens and more, which a video may fill."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KernelSettings:
    """Kernels that arguments and variables choose."""

    all2all: str | None
    """`--all2all-backend` or VLLM_ALL2ALL_BACKEND: how tokens reach other data-parallel ranks' experts."""
    other_kernels: bool
    """A variable chooses another kernel for the experts."""
    variables: tuple[tuple[str, str], ...]
    """The VARIABLES that are set in the environment, with their values."""

    def variable(self, name: str) -> str | None:
        """The variable's value in the environment; None if it is not set."""
        return dict(self.variables).get(name) if self.variables else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """The settings that decide the lines of a rank and the layout of its KV cache: all but those of the budget. Two
    engines with equal settings and the same model have equal ranks, so this is the key of their cache."""

    release: Release
    v1: bool
    """The engine generation (vLLM CHANGES: V1 by default from 0.8.0, V1 only from 0.11.0)."""
    second_runner: bool
    """The engine has the second model runner (`memory.model_runner`)."""
    pooling: bool
    """Pooling model: no logits, no sampler, no LM head."""
    eager: bool
    warm: bool
    """A volume keeps what torch.compile made, so most starts do not compile (`volumes.keeps_compiled`)."""
    cpu_offload: int
    """Bytes of weights for each rank in host memory."""
    gpu: GpuSettings
    parallel: Parallel
    batch: BatchSettings
    types: TypeSettings
    attention: AttentionSettings
    kernels: KernelSettings
    multimodal: MultimodalSettings
    speculative: Speculative | None
    lora: Lora | None

    @property
    def uses_mla(self) -> bool:
        """True if the cache stores latents: from 0.7.1; before, and with VLLM_MLA_DISABLE=1, whole heads."""
        return self.release >= (0, 7, 1) and self.kernels.variable("VLLM_MLA_DISABLE") != "1"


@dataclass(frozen=True, kw_only=True, slots=True)
class ResolvedArguments:
    """The arguments of one engine, resolved for one release and one GPU."""

    budget: BudgetSettings
    settings: Settings


def resolve(
    args: EngineArgs, model: Model, gpu: Gpu | None, memory: int, release: Release, env: Mapping[str, str]
) -> ResolvedArguments:
    """Resolve the arguments for `release` on a GPU of `memory` bytes."""
    return of(arguments.read(args, model, env), gpu, memory, release)


def of(memory_arguments: MemoryArguments, gpu: Gpu | None, memory: int, release: Release) -> ResolvedArguments:
    """Resolve arguments that are read already, for `release` on a GPU of `memory` bytes. `gpu` None: only its memory is
    known; it is taken for one of NVIDIA."""
    model, rare, utilization = memory_arguments.model, memory_arguments.rare, memory_arguments.utilization
    capability = gpu.compute_capability if gpu else None
    vendor = gpu.vendor.lower() if gpu else "nvidia"
    v1 = is_v1(release, capability, memory_arguments)
    auto = memory_arguments.auto and release >= AUTO_LENGTH_SINCE
    length = _length(memory_arguments, release, auto=auto)
    pooling = is_pooling(memory_arguments, release)
    whole_prompts = _pools_whole_prompts(memory_arguments, release, pooling)
    chunked = _chunked(memory_arguments, release, v1=v1, length=length, pooling=pooling, whole_prompts=whole_prompts)
    batch = _batch_sizes(memory_arguments, gpu, memory, release, v1=v1, chunked=chunked, length=length, auto=auto)
    leaves_tower_out = (model.model_type or "").startswith("qwen") and release >= TOWER_LEFT_OUT_SINCE
    backend_named, flashinfer = _backend(memory_arguments, capability, release)
    return ResolvedArguments(
        budget=BudgetSettings(
            utilization=default_utilization(release) if utilization is None else utilization,
            kv_cache_memory=rare.kv_cache_memory,
            max_model_len=length,
            auto_len=auto,
        ),
        settings=Settings(
            release=release,
            v1=v1,
            second_runner=model_runner.is_second(memory_arguments, release, pooling=pooling, vendor=vendor),
            pooling=pooling,
            eager=memory_arguments.eager,
            warm=memory_arguments.warm,
            cpu_offload=rare.cpu_offload,
            gpu=GpuSettings(
                vendor=vendor,
                capability=_kernel_step(capability),
                unified_memory=gpu is not None and gpu.unified_memory,
                instinct=vendor == "amd" and memory >= LARGE_GPU,
            ),
            parallel=memory_arguments.parallel,
            batch=BatchSettings(
                max_num_seqs=batch.seqs,
                max_num_batched_tokens=batch.tokens,
                chunked=chunked,
                whole_prompts=whole_prompts,
                batches=_batches(memory_arguments, release),
            ),
            types=TypeSettings(
                dtype=4 if is_widened(memory_arguments.dtype, model, gpu, release) else memory_arguments.width,
                scheme=memory_arguments.scheme,
                kv_cache_dtype=memory_arguments.kv_cache_dtype,
                state_dtypes=rare.state_dtypes,
                skipped_layers=rare.skipped_layers,
                index_dtype=rare.index_dtype,
            ),
            attention=AttentionSettings(
                flashinfer=flashinfer,
                backend_named=backend_named,
                manager=v1 and _manager(memory_arguments, release),
                block_size=rare.block_size,
                prefix_caching=rare.prefix_caching,
                state_mode=rare.state_mode,
            ),
            kernels=KernelSettings(
                all2all=memory_arguments.all2all,
                other_kernels=memory_arguments.other_kernels,
                variables=memory_arguments.variables,
            ),
            multimodal=MultimodalSettings(
                vision=memory_arguments.images or not (memory_arguments.text_only or leaves_tower_out),
                vision_profiled=memory_arguments.images and memory_arguments.profiled,
                vision_replicated=rare.vision_replicated,
                no_video=rare.no_video,
                long_videos=model.vision_config is not None and (length or 0) >= media.LONG_VIDEO,
            ),
            speculative=rare.speculative,
            lora=rare.lora,
        ),
    )


AUTO_LENGTH_SINCE = Release(0, 14)
"""The first release that takes `--max-model-len auto`."""
TOWER_LEFT_OUT_SINCE = Release(0, 11)
"""From this release on, Qwen's models do not load the vision tower if images and videos are forbidden."""
FLASHINFER_ON_BLACKWELL = Release(0, 11)
"""From this release on, vLLM prefers FlashInfer's attention on Blackwell for data centers (10.x)."""
LARGE_GPU, HUGE_GPU = 70 * GI, 160 * GI
"""Bytes of GPU memory from which vLLM's defaults for batches are larger (engine/arg_utils.py). AMD's GPUs for data
centers have more than the first, its others less."""


def _length(memory_arguments: MemoryArguments, release: Release, *, auto: bool) -> int | None:
    """Tokens of the longest request: as set, else the model's own; None if that is unknown, or if this release does not
    know `auto`. `auto`: the argument is `auto`, and the release knows it."""
    is_unknown_auto = auto is not memory_arguments.auto
    if memory_arguments.length is not None or not memory_arguments.own_length or is_unknown_auto:
        return memory_arguments.length
    within_window = bool(memory_arguments.args.given.get("disable_sliding_window"))
    return derived_max_model_len(memory_arguments.model, release, within_window)


class _Backend(NamedTuple):
    """The attention backend."""

    is_named: bool
    """An argument or a variable names it."""
    flashinfer: bool


def _backend(memory_arguments: MemoryArguments, capability: tuple[int, int] | None, release: Release) -> _Backend:
    """The attention backend: the one that the argument names, or the variable in releases that read it; else the one
    that vLLM prefers on this GPU."""
    named = memory_arguments.flashinfer
    if named is None and release < BACKEND_UNREAD:
        named = memory_arguments.flashinfer_by_variable
    if named is not None:
        return _Backend(is_named=True, flashinfer=named)
    is_blackwell = capability is not None and (10, 0) <= capability < (11, 0)
    return _Backend(is_named=False, flashinfer=is_blackwell and release >= FLASHINFER_ON_BLACKWELL)


class _BatchSizes(NamedTuple):
    """How much vLLM processes at once."""

    seqs: int
    """max_num_seqs."""
    tokens: int
    """max_num_batched_tokens."""


def _batch_sizes(
    memory_arguments: MemoryArguments,
    gpu: Gpu | None,
    memory: int,
    release: Release,
    *,
    v1: bool,
    chunked: bool,
    length: int | None,
    auto: bool,
) -> _BatchSizes:
    """The batch sizes as set, else the release's defaults (engine/arg_utils.py).

    `length`: tokens of the longest request, None if unknown; `auto`: vLLM shortens it later, after these defaults."""
    seqs, tokens = memory_arguments.max_num_seqs, memory_arguments.max_num_batched_tokens
    factor = 2 if memory_arguments.throughput else 1
    if seqs is None:
        seqs = factor * default_max_num_seqs(release, v1, gpu, memory)
    if tokens is None:
        tokens = factor * default_max_num_batched_tokens(release, v1, gpu, memory, memory_arguments)
        if not chunked:
            tokens = _whole_prompt(release, v1, memory_arguments, length, tokens)
        tokens = max(tokens, media.least_default(memory_arguments.model, release))
        if v1 and length and not auto and release >= TOKENS_CUT:
            tokens = min(tokens, seqs * length)
    if memory_arguments.max_num_seqs is None and v1 and release >= SEQS_CUT:
        seqs = min(seqs, tokens)
    return _BatchSizes(seqs, tokens)


KERNEL_STEPS = ((12, 0), (11, 0), (10, 0), (9, 0), (8, 9), (8, 0), (7, 0))
"""Compute capabilities that the lines of the ledger distinguish: between two steps all lines are equal, and are
computed once."""


def _kernel_step(capability: tuple[int, int] | None) -> tuple[int, int] | None:
    """The largest of KERNEL_STEPS that is not above a compute capability; the lowest one stands for all that are older.
    None if the capability is unknown."""
    if capability is None:
        return None
    for step in KERNEL_STEPS:  # from the newest on
        if step <= capability:
            return step
    return KERNEL_STEPS[-1]


@lru_cache(1024)
def gpu_class(gpu: Gpu, memory: int) -> tuple[object, ...]:
    """The key of a class of GPUs of `memory` bytes: everything that `of` reads of a GPU. An engine has equal settings
    on every GPU of one class. The parts have no names, because the key is only compared."""
    capability = gpu.compute_capability
    is_b200 = capability == (10, 0)  # `v0_fallback` distinguishes it from 10.3, which is of the same step
    return (_kernel_step(capability), is_b200, gpu.vendor, gpu.unified_memory, gpu.supports_bf16,
            _is_h100(gpu), _is_a100(gpu), memory >= LARGE_GPU, memory >= HUGE_GPU)  # fmt: skip


def _manager(memory_arguments: MemoryArguments, release: Release) -> bool | None:
    """True if the hybrid KV cache manager is on (config/vllm.py __post_init__); None if unknown, because
    --kv-transfer-config or its connector is unknown."""
    given, flag = memory_arguments.args.given, memory_arguments.manager
    if release < kv_releases.MANAGER or flag is False or _chunks_forbid_manager(memory_arguments, release):
        return False
    if given.get("kv_events_config") is not None and release < kv_releases.EVENTS:
        return False
    if flag is True and release >= kv_releases.FLAG_OF_THREE:
        return True
    connector = given.get("kv_transfer_config")
    if connector is None:
        return None if "kv_transfer_config" in memory_arguments.args.unresolved else True
    built_in = bool(dict(memory_arguments.variables).get(kv_releases.BUILT_IN))
    return kv_releases.supports_manager(connector if isinstance(connector, Mapping) else {}, release, built_in=built_in)


def _chunks_forbid_manager(memory_arguments: MemoryArguments, release: Release) -> bool:
    """True if vLLM switches the hybrid KV cache manager off because the model's attention works in chunks (Llama 4). It
    does so by a variable, whose default differs between releases, or for drafters like EAGLE."""
    if memory_arguments.model.config.get("attention_chunk_size") is None:
        return False
    off_by_default, on_by_default = kv_releases.CHUNKS_OFF
    allowed = dict(memory_arguments.variables).get("VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE")
    if off_by_default <= release < on_by_default and allowed != "1":
        return True
    if release >= on_by_default and allowed == "0":
        return True
    drafter = memory_arguments.rare.speculative
    return release >= kv_releases.CHUNKS and drafter is not None and drafter.method in EAGLES


EAGLES = ("eagle", "eagle3", "mtp", "dflash", "extract_hidden_states")
"""Methods for which vLLM's `use_eagle` is true, as `arguments` names them."""


def _batches(memory_arguments: MemoryArguments, release: Release) -> int:
    """max_concurrent_batches (vLLM 0.26 … 0.33 config/vllm.py). More than one with asynchronous scheduling, which is
    the default from 0.14, or with pipeline stages. With ngram, draft models, poolers and Ray, batches are scheduled one
    after the other."""
    given, stages = memory_arguments.args.given, memory_arguments.parallel.pp
    asynchronous = given.get("async_scheduling")
    if not isinstance(asynchronous, bool):
        drafted = memory_arguments.rare.speculative
        asynchronous = (
            not memory_arguments.pooling
            and (drafted is None or drafted.method in (*EAGLES, "dspark", "ngram_gpu"))
            and given.get("distributed_executor_backend") != "ray"
        )
    return stages + 1 if asynchronous and (stages == 1 or release >= SECOND_RUNNER) else stages


SECOND_RUNNER = Release(0, 29)
"""Model runner V2 is the default for every model; only V2 schedules asynchronously over pipeline stages."""


def is_v1(release: Release, capability: tuple[int, int] | None, memory_arguments: MemoryArguments) -> bool:
    """True if the V1 engine runs: with VLLM_USE_V1=1 from 0.6.6, by default from 0.8.0, always from 0.11."""
    if release >= v0_fallback.LAST:
        return True
    if release < v0_fallback.FIRST:
        return memory_arguments.v1 == "1" and release >= (0, 6, 6)
    if memory_arguments.v1 in ("0", "1"):
        return memory_arguments.v1 == "1"
    return not v0_fallback.falls_back(memory_arguments, release, capability)


def default_utilization(release: Release) -> float:
    """`--gpu-memory-utilization`: 0.9, from 0.20.0 0.92."""
    return 0.92 if release >= (0, 20) else 0.9


def default_max_num_seqs(release: Release, v1: bool, gpu: Gpu | None, memory: int) -> int:
    """The API server's default (engine/arg_utils.py _set_default_args_v1).

    V0 has 256. V1 has 1024 up to 0.8.3; in 0.8.4 only on an H100 or H200, else 256. From 0.8.5 it has 1024 on a GPU of
    70 GiB and more, else 256; from 0.9 an A100 has 256 too.
    """
    if not v1:
        return 256
    if release < (0, 8, 4):
        return 1024
    if release < (0, 8, 5):
        return 1024 if _is_h100(gpu) else 256
    return 1024 if memory >= LARGE_GPU and not (release >= (0, 9) and _is_a100(gpu)) else 256


def default_max_num_batched_tokens(
    release: Release, v1: bool, gpu: Gpu | None, memory: int, memory_arguments: MemoryArguments
) -> int:
    """The API server's default, with chunked prefill (vLLM engine/arg_utils.py of each release).

    V0 has 512, from 0.6.6 2,048. V1 has 8,192 on a large GPU (up to 0.8.4 an H100 or H200), else 2,048: so has an A100
    from 0.9, and unified memory from 0.33. From 0.28 a huge GPU has 16,384. See BATCHED_EXPERTS for 256."""
    if not v1:
        return 512 if release < (0, 6, 6) else 2048
    if release < (0, 8, 5):
        return 8192 if _is_h100(gpu) else 2048
    exchanges_batches = memory_arguments.all2all in ("deepep_low_latency", "nixl_ep")
    is_expert_parallel = memory_arguments.args.given.get("enable_expert_parallel") and memory_arguments.parallel.dp > 1
    if release >= BATCHED_EXPERTS and exchanges_batches and is_expert_parallel:
        return 256
    if release >= (0, 28) and memory >= HUGE_GPU:
        return 16384
    if gpu is not None and gpu.unified_memory and release >= (0, 33):
        return 2048
    return 8192 if memory >= LARGE_GPU and not (release >= (0, 9) and _is_a100(gpu)) else 2048


BATCHED_EXPERTS = Release(0, 20)
"""Since then a default batch is 256 tokens with an all-to-all backend that exchanges batches of experts (vLLM 0.20
config/parallel.py use_batched_dp_moe)."""
SEQS_CUT = Release(0, 10, 1)
"""Since then the default of max_num_seqs is at most max_num_batched_tokens (vLLM 0.10.1 engine/arg_utils.py
_set_default_args_v1)."""
TOKENS_CUT = Release(0, 11, 1)
"""Since then the default of max_num_batched_tokens is at most what all sequences of the longest length have."""
ALWAYS_CHUNKED_UNTIL = Release(0, 11, 1)
"""Before, V1 chunks the prompts of every model that generates, regardless of the flag ("V1 always uses chunked
prefills": vLLM 0.8.5, 0.9.2, 0.10.2, 0.11.0 engine/arg_utils.py _set_default_args)."""
BY_POOLER = Release(0, 12)
"""Since then a pooling type other than the last token's may be chunked, if it is not one of MEAN, CLS and STEP. The
given value counts (vLLM 0.12 config/model.py is_chunked_prefill_supported). Before, such a pooler switches both chunked
prefill and prefix caching off (0.11.0 config/__init__.py, 0.11.1 config/vllm.py)."""
CONVERT_POOLS = Release(0, 22)
"""Since then `--convert embed` alone makes a pooling model (vLLM 0.22 config/model.py _get_runner_type)."""


def is_pooling(memory_arguments: MemoryArguments, release: Release) -> bool:
    """True if the runner is vLLM's `pooling`."""
    given = memory_arguments.args.given
    converted = release >= CONVERT_POOLS and given.get("convert") not in (None, "auto", "none")
    return memory_arguments.pooling or (converted and given.get("runner") in (None, "auto"))


POOLED = 32768
"""Least default batch of a pooling model in V0 (vLLM 0.6.3 … 0.9.1 config.py POOLING_MODEL_MAX_NUM_BATCHED_TOKENS).
Later releases that switch chunked prefill off for a pooler also replace the batch (0.9.2 config.py VllmConfig)."""


def _whole_prompt(release: Release, v1: bool, memory_arguments: MemoryArguments, length: int | None, usual: int) -> int:
    """Tokens of a batch that must contain a whole prompt of at most `length` tokens (None: unknown): up to 0.11.0, V1
    uses only the length. `usual`: the default with chunked prefill, which V0 replaces."""
    if v1:
        return length if length and release < ALWAYS_CHUNKED_UNTIL else max(length or 2048, usual)
    if memory_arguments.pooling and release < v0_fallback.POOLERS:
        least = POOLED
    elif memory_arguments.model.vision_config:
        least = 5120 if release >= (0, 6, 3) else 4096  # config.py _MULTIMODAL_MODEL_MAX_NUM_BATCHED_TOKENS
    else:
        least = 2048
    return max(length or 2048, least)


def _is_h100(gpu: Gpu | None) -> bool:
    """True for an H100 or H200, by name."""
    return gpu is not None and any(name in gpu.name.lower() for name in ("h100", "h200"))


def _is_a100(gpu: Gpu | None) -> bool:
    """True for an A100, by name."""
    return gpu is not None and "a100" in gpu.name.lower()


def _chunked(
    memory_arguments: MemoryArguments,
    release: Release,
    *,
    v1: bool,
    length: int | None,
    pooling: bool,
    whole_prompts: bool,
) -> bool:
    """True if chunked prefill is on: as the flag says in releases and engines that read it.

    By default, V1 has it on, except if the pooler needs the whole prompt. V0 has it off, except from 0.5.4 for contexts
    above 32,768 tokens, without a pooler, a vision tower, LoRA, a window, latents or a drafter (engine/arg_utils.py).
    `length`: tokens of the longest request, None if unknown."""
    if v1 and release < ALWAYS_CHUNKED_UNTIL and not pooling:
        return True
    if memory_arguments.chunked is not None:
        return memory_arguments.chunked
    if v1:
        return not whole_prompts
    given, model = memory_arguments.args.given, memory_arguments.model
    return (
        release >= (0, 5, 4)
        and (length or 0) > 32768
        and not pooling
        and not given.get("enable_lora")
        and not model.vision_config
        and not model.sliding_window
        and not model.kv_lora_rank
        and not given.get("speculative_model")
    )


def _pools_whole_prompts(memory_arguments: MemoryArguments, release: Release, pooling: bool) -> bool:
    """True if the pooler needs a whole prompt at once: attention in both directions, or a pooling type that needs more
    than the last token (vLLM 0.8.5 … 0.33)."""
    value = memory_arguments.args.given.get("pooler_config") or memory_arguments.args.given.get(
        "override_pooler_config"
    )
    value = value if isinstance(value, Mapping) else {}
    if not (pooling or value):
        return False
    if arguments.is_bidirectional(memory_arguments.model):
        return True
    kinds = {str(value.get(key)).upper() for key in ("pooling_type", "seq_pooling_type", "tok_pooling_type")}
    if release >= BY_POOLER:
        return not kinds.isdisjoint(("MEAN", "CLS", "STEP"))
    return "LAST" not in kinds and kinds != {"NONE"}
