"""What this release makes of the arguments: its defaults for everything that costs memory."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from webhook.args import EngineArgs
from webhook.gpu import Gpu
from webhook.memory import media, parallel, quantisation
from webhook.memory.dtype import is_widened
from webhook.memory.parallel import Parallel
from webhook.memory.quantisation import Scheme
from webhook.model import Model, by_id, derived_max_model_len
from webhook.quantity import GI
from webhook.release import Release

LONGEST_NAME = 64
"""Characters of a value that names something: none is longer, and what is remembered by it stays small."""


class Settings(NamedTuple):
    """The arguments of one engine, resolved for one release and one GPU."""

    utilization: float
    max_model_len: int | None
    """Tokens; None where it can't be known."""
    auto_len: bool
    """`--max-model-len auto`: vLLM takes what fits."""
    kv_cache_memory: int | None
    """`--kv-cache-memory-bytes`: then the utilisation is not used."""
    release: Release
    v1: bool
    """The engine generation (vLLM CHANGES: V1 by default from 0.8.0, alone from 0.11.0)."""
    parallel: Parallel
    max_num_seqs: int
    max_num_batched_tokens: int
    eager: bool
    dtype: int
    """Bytes of an activation and of an unquantised weight."""
    scheme: Scheme | None
    kv_cache_dtype: str
    pooling: bool
    """No logits, no sampler, no LM head."""
    windows: bool
    """Layers with a sliding window keep only that much: the hybrid KV cache manager is on."""
    vision: bool
    """The vision tower is loaded, and profiled."""
    vision_profiled: bool
    flashinfer: bool
    """FlashInfer's attention, with its workspace."""
    capability: tuple[int, int] | None
    all2all: str | None
    """`--all2all-backend` or VLLM_ALL2ALL_BACKEND: how tokens reach other data-parallel ranks' experts."""
    vendor: str
    unified_memory: bool
    """The GPU's memory is the host's (GB10, Jetson)."""
    variables: tuple[tuple[str, str], ...] = ()
    """Those of VARIABLES that the environment holds."""
    other_kernels: bool = False
    """A variable chooses another kernel for the experts."""
    block_size: int | None = None
    cpu_offload: int = 0
    prefix_caching: bool | None = None
    speculative: Speculative | None = None
    lora: Lora | None = None
    no_video: bool = False
    """Videos are not accepted, so none is profiled."""
    vision_replicated: bool = False
    """`--mm-encoder-tp-mode data`: every tensor-parallel rank holds the whole tower."""
    state_dtypes: tuple[str | None, str | None] = (None, None)
    """`--mamba-cache-dtype` and `--mamba-ssm-cache-dtype`, None where they are left to the model."""
    skipped_layers: bool = False
    """`--kv-cache-dtype-skip-layers`: some layers keep the model's dtype, and pages are padded to a common size."""

    def variable(self, name: str) -> str | None:
        """What the environment says; None where it says nothing of it."""
        return dict(self.variables).get(name) if self.variables else None


OF_THE_BUDGET = 4
"""The first fields say how much KV cache there is and how long a request may get: what stands on a rank beside it
hangs on the others alone."""
VARIABLES = frozenset({
    "VLLM_FUSED_MOE_CHUNK_SIZE", "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS", "VLLM_MLA_DISABLE",
    "VLLM_USE_FLASHINFER_SAMPLER", "VLLM_USE_V2_MODEL_RUNNER",
})  # fmt: skip
"""What the lines of the ledger read of the environment."""
OTHER_KERNELS = (
    "VLLM_USE_DEEP_GEMM",
    "VLLM_USE_FLASHINFER",
    "VLLM_TEST_FORCE_FP8",
    "VLLM_ENABLE_FUSED_MOE",
    "VLLM_ROCM",
)
"""Variables that choose another kernel for the experts."""

SELDOM = frozenset({
    "all2all_backend", "block_size", "cpu_offload_gb", "enable_lora", "enable_prefix_caching",
    "kv_cache_dtype_skip_layers", "kv_cache_memory", "kv_cache_memory_bytes", "limit_mm_per_prompt",
    "mamba_cache_dtype", "mamba_ssm_cache_dtype", "mm_encoder_tp_mode", "speculative_config", "speculative_model",
})  # fmt: skip
"""Arguments that `_seldom` reads: most command lines have few of them or none."""


class Speculative(NamedTuple):
    """`--speculative-config`."""

    method: str
    tokens: int
    layers: int
    """Attention layers that the drafter adds to the KV cache."""
    known: bool
    """False where the drafter's size is not known here."""
    drafter: Model | None = None
    """The draft model, where the catalogue knows it."""
    tp: int | None = None
    """`draft_tensor_parallel_size`; None: the target's."""
    certain: bool = False
    """The catalogue's row of the drafter may deny, and nothing quantises it while it loads."""


class Lora(NamedTuple):
    """`--enable-lora`: slots that are allocated when the model is loaded."""

    slots: int
    rank: int
    sharded: bool


def resolve(
    args: EngineArgs, model: Model, gpu: Gpu | None, memory: int, release: Release, env: Mapping[str, str]
) -> Settings:
    """The settings of `release` on a GPU of `memory` bytes."""
    given = args.given
    capability = gpu.compute_capability if gpu else None
    v1 = is_v1(release, capability, env)
    length, auto = max_model_len(args, model, release)
    pooling = _is_pooling(given, model)
    tokens, seqs = _whole(given.get("max_num_batched_tokens")), _whole(given.get("max_num_seqs"))
    chunked = _chunked(given, release, v1, length, model, pooling)
    usual = tokens or default_max_num_batched_tokens(release, v1, gpu, memory, chunked, length, model)
    if seqs is None:
        seqs = default_max_num_seqs(release, v1, gpu, memory)
        if given.get("performance_mode") == "throughput":
            seqs, usual = 2 * seqs, 2 * usual
        if release >= (0, 11, 1):
            seqs = min(seqs, tokens or usual)
    if tokens is None:
        tokens = max(usual, media.least_default(model, release))
        if v1 and length and not auto and release >= (0, 11, 1):
            tokens = min(tokens, max(seqs, 1) * length)
    utilization = given.get("gpu_memory_utilization")
    if not isinstance(utilization, int | float) or isinstance(utilization, bool) or not abs(utilization) < 1e6:
        utilization = default_utilization(release)
    text_only = bool(given.get("language_model_only"))
    images = not text_only and not ("limit_mm_per_prompt" in given and _no_images(given["limit_mm_per_prompt"]))
    dropped = text_only or (not images and (model.model_type or "").startswith("qwen") and release >= (0, 11))
    dtype, kv_dtype = given.get("dtype"), given.get("kv_cache_dtype")
    width = 2 if dtype is None else quantisation.DTYPE_BYTES.get(str(dtype), 2)
    found = Settings(  # by position, which takes half as long: a search for what would fit makes some ten
        float(utilization),
        length,
        auto,
        None,
        release,
        v1,
        parallel.read(args, env),
        seqs,
        tokens,
        bool(given.get("enforce_eager")),
        4 if is_widened(dtype, model, gpu, release) else width,
        quantisation.scheme(model, args.quantization),
        kv_dtype[:LONGEST_NAME] if isinstance(kv_dtype, str) else "auto",
        pooling,
        v1 and not given.get("disable_hybrid_kv_cache_manager"),
        not dropped,
        images and not given.get("skip_mm_profiling"),
        _is_flashinfer(given, env, release, capability),
        capability,
        env.get("VLLM_ALL2ALL_BACKEND", "")[:LONGEST_NAME] or None,
        gpu.vendor.lower() if gpu else "nvidia",
        bool(gpu and gpu.unified_memory),
        () if env.keys().isdisjoint(VARIABLES) else _variables(env),
        bool(model.num_experts) and any(name.startswith(OTHER_KERNELS) for name in env),
    )
    return found if SELDOM.isdisjoint(given) else found._replace(**_seldom(given, model, found))


def _variables(env: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple([(name, env[name][:LONGEST_NAME]) for name in sorted(VARIABLES & env.keys())])


def _seldom(given: Mapping[str, Any], model: Model, usual: Settings) -> dict[str, Any]:
    """The settings that hang on arguments of `SELDOM` alone."""
    return {
        "block_size": _whole(given.get("block_size")),
        "kv_cache_memory": _whole(given.get("kv_cache_memory_bytes")) or _whole(given.get("kv_cache_memory")),
        "cpu_offload": int(_float(given.get("cpu_offload_gb")) * GI),
        "prefix_caching": _flag(given.get("enable_prefix_caching")),
        "speculative": _speculative(given, model),
        "lora": _lora(given),
        "no_video": _limit(given, "video") == 0,
        "vision_replicated": given.get("mm_encoder_tp_mode") == "data",
        "state_dtypes": (_named(given.get("mamba_cache_dtype")), _named(given.get("mamba_ssm_cache_dtype"))),
        "skipped_layers": bool(given.get("kv_cache_dtype_skip_layers")),
        "all2all": _named(given.get("all2all_backend")) or usual.all2all,
    }


def is_v1(release: Release, capability: tuple[int, int] | None, env: Mapping[str, str]) -> bool:
    """Whether the V1 engine runs: opt-in 0.6.6–0.7, default from 0.8.0 (V0 on GPUs before Ampere), alone from 0.11."""
    if release >= (0, 11):
        return True
    wish = env.get("VLLM_USE_V1")
    if release < (0, 8):
        return wish == "1" and release >= (0, 6, 6)
    if wish == "0":
        return False
    return capability is None or capability >= (8, 0) or wish == "1"


def default_utilization(release: Release) -> float:
    """`--gpu-memory-utilization`: 0.9, from 0.20.0 0.92."""
    return 0.92 if release >= (0, 20) else 0.9


def default_max_num_seqs(release: Release, v1: bool, gpu: Gpu | None, memory: int) -> int:
    """The API server's default: 256; V1 on a GPU of 70 GiB and more 1024, from 0.9 not on an A100."""
    if not v1:
        return 256
    if release < (0, 8, 5):
        return 1024
    return 1024 if memory >= 70 * GI and not (release >= (0, 9) and _is_a100(gpu)) else 256


def default_max_num_batched_tokens(
    release: Release, v1: bool, gpu: Gpu | None, memory: int, chunked: bool, length: int | None, model: Model
) -> int:
    """The API server's default (vLLM engine/arg_utils.py of each release)."""
    length = length or 2048
    if not v1:
        if chunked:
            return 512 if release < (0, 6, 6) else 2048
        return max(length, 4096 if model.vision_config else 2048)
    if release < (0, 8, 5):
        name = gpu.name.lower() if gpu else ""
        usual = 8192 if "h100" in name or "h200" in name else 2048
    elif release >= (0, 28) and memory >= 160 * GI:
        usual = 16384
    else:
        usual = 8192 if memory >= 70 * GI and not (release >= (0, 9) and _is_a100(gpu)) else 2048
        if gpu is not None and gpu.unified_memory and release >= (0, 33):
            usual = 2048
    return usual if chunked else max(length, usual)


def _is_a100(gpu: Gpu | None) -> bool:
    return gpu is not None and "a100" in gpu.name.lower()


def max_model_len(args: EngineArgs, model: Model, release: Release) -> tuple[int | None, bool]:
    """(tokens, whether vLLM fits the length itself); None where it can't be known."""
    if "max_model_len" in args.unresolved:
        return None, False
    given = args.given.get("max_model_len")
    if (length := _whole(given)) is not None:
        return length, False
    derived = derived_max_model_len(model, release)
    if args.given.get("disable_sliding_window") and model.sliding_window and derived:
        derived = min(derived, model.sliding_window)
    auto = given in (-1, "auto") and release >= (0, 14)
    if given is not None and not auto:
        return None, False
    return derived, auto


def _chunked(
    given: Mapping[str, Any], release: Release, v1: bool, length: int | None, model: Model, pooling: bool
) -> bool:
    """V1: on where text is generated. V0: off, except for contexts above 32,768 without a vision tower or LoRA."""
    wish = _flag(given.get("enable_chunked_prefill"))
    if wish is not None:
        return wish
    if v1:
        return not pooling or release >= (0, 11)
    return (
        release >= (0, 5, 4)
        and (length or 0) > 32768
        and not given.get("enable_lora")
        and not model.vision_config
        and not model.sliding_window
        and not model.kv_lora_rank
        and not given.get("speculative_model")
    )


def _is_pooling(given: Mapping[str, Any], model: Model) -> bool:
    if given.get("runner") == "pooling" or given.get("task") in ("embed", "embedding", "classify", "score", "reward"):
        return True
    return embeds(model)


@lru_cache(256)
def embeds(model: Model) -> bool:
    """Whether the model is made to answer with vectors or scores, by its class or its name."""
    endings = ("ForSequenceClassification", "EmbeddingModel", "ForTokenClassification", "ForRewardModel", "Model")
    return any(one.endswith(endings) for one in model.architectures) or "embedding" in model.id.lower()


def _no_images(limits: object) -> bool:
    return (
        isinstance(limits, Mapping)
        and bool(limits)
        and limits.get("image") == 0
        and all(value == 0 for value in limits.values())
    )


def _limit(given: Mapping[str, Any], modality: str) -> object:
    limits = given.get("limit_mm_per_prompt")
    return limits.get(modality) if limits is not None and isinstance(limits, Mapping) else None


def _is_flashinfer(
    given: Mapping[str, Any], env: Mapping[str, str], release: Release, capability: tuple[int, int] | None
) -> bool:
    backend = given.get("attention_backend") or env.get("VLLM_ATTENTION_BACKEND")
    if backend:
        return "FLASHINFER" in str(backend).upper()
    return capability is not None and (10, 0) <= capability < (11, 0) and release >= (0, 11)


def _speculative(given: Mapping[str, Any], model: Model) -> Speculative | None:
    config = given.get("speculative_config")
    if config is None and not given.get("speculative_model"):
        return None
    if not isinstance(config, Mapping):
        tokens = _whole(given.get("num_speculative_tokens"))
        if not given.get("speculative_model"):
            return None
        config = {"model": given.get("speculative_model"), "num_speculative_tokens": tokens or 1}
    tokens = _whole(config.get("num_speculative_tokens")) or 1
    method = str(config.get("method") or "")[:LONGEST_NAME]
    if config.get("model") in ("ngram", "[ngram]") or method in ("ngram", "suffix", "ngram_gpu"):
        return Speculative(method or "ngram", tokens, 0, True)
    if method.endswith("mtp") or (not config.get("model") and model.num_nextn_predict_layers):
        return Speculative("mtp", tokens, max(1, model.num_nextn_predict_layers), True)
    cut = _whole(config.get("draft_tensor_parallel_size"))
    row = by_id(str(config.get("model"))) if config.get("model") else None
    drafter = row.value if row else None
    certain = bool(row and row.may_deny) and not config.get("quantization") and not config.get("revision")
    if method in ("eagle", "eagle3"):
        return Speculative(method, tokens, 1, False, drafter, cut, certain)
    layers = (drafter.num_hidden_layers or 0) if drafter else 0
    return Speculative(method or "draft_model", tokens, layers, drafter is not None and certain, drafter, cut, certain)


def _lora(given: Mapping[str, Any]) -> Lora | None:
    if not given.get("enable_lora"):
        return None
    return Lora(
        slots=_whole(given.get("max_loras")) or 1,
        rank=_whole(given.get("max_lora_rank")) or 16,
        sharded=bool(given.get("fully_sharded_loras")),
    )


def _named(value: object) -> str | None:
    return value[:LONGEST_NAME] if isinstance(value, str) and value != "auto" else None


def _whole(value: object) -> int | None:
    return min(value, parallel.LARGEST) if type(value) is int and value > 0 else None  # True is no number


def _float(value: object) -> float:
    if value is None or isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return float(value) if 0 < value < 1e6 else 0.0


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None
