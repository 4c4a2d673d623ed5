"""The arguments and the environment of an engine that affect memory, independent of release and GPU: read once for all
of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from podfit.kube.quantity import GI
from podfit.vllm.args import EngineArgs
from podfit.vllm.memory import parallel, quantisation
from podfit.vllm.memory.parallel import Parallel
from podfit.vllm.memory.quantisation import Scheme
from podfit.vllm.model import Model, by_id
from podfit.vllm.model.name import tells_quantisation

LONGEST_NAME = 64
"""Characters of a value that is a name: real ones are shorter, and cached keys stay small."""


class Speculative(NamedTuple):
    """`--speculative-config`."""

    method: str
    """As vLLM names it, "mtp" for every kind of multi-token prediction; "draft_model" for other drafters."""
    tokens: int
    """Tokens that are drafted per step."""
    layers: int
    """Attention layers that the drafter adds to the KV cache."""
    known: bool
    """False if podfit does not know the drafter's size."""
    drafter: Model | None = None
    """The draft model, if the catalog knows it."""
    tp: int | None = None
    """`draft_tensor_parallel_size`; None: the same as the target's."""
    certain: bool = False
    """The drafter's catalog entry may deny, and no argument quantizes it while it loads."""
    quantized: bool = False
    """The drafter's name says that its weights are quantized."""


class Lora(NamedTuple):
    """`--enable-lora`: slots that are allocated when the model is loaded."""

    slots: int
    """`--max-loras`."""
    rank: int
    """`--max-lora-rank`."""
    sharded: bool
    """`--fully-sharded-loras`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RareArguments:
    """The settings that only RARE_ARGUMENTS change, with their usual values."""

    kv_cache_memory: int | None = None
    """`--kv-cache-memory-bytes`."""
    block_size: int | None = None
    cpu_offload: int = 0
    """`--cpu-offload-gb` in bytes."""
    prefix_caching: bool | None = None
    speculative: Speculative | None = None
    lora: Lora | None = None
    no_video: bool = False
    """Videos are not accepted."""
    vision_replicated: bool = False
    """`--mm-encoder-tp-mode data`."""
    state_dtypes: tuple[str | None, str | None] = (None, None)
    """`--mamba-cache-dtype` and `--mamba-ssm-cache-dtype`."""
    skipped_layers: bool = False
    """`--kv-cache-dtype-skip-layers`."""
    state_mode: str | None = None
    """`--mamba-cache-mode`."""
    index_dtype: str | None = None
    """`indexer_kv_dtype` of `--attention-config`."""


NO_RARE_ARGUMENTS = RareArguments()


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryArguments:
    """The arguments that decide the settings; None if an argument is not set."""

    args: EngineArgs
    model: Model
    utilization: float | None
    length: int | None
    """`--max-model-len` in tokens."""
    own_length: bool
    """No length is set, or `auto`: the model's own applies."""
    auto: bool
    parallel: Parallel
    max_num_seqs: int | None
    max_num_batched_tokens: int | None
    throughput: bool
    """`--performance-mode throughput`: twice the defaults of the two above."""
    chunked: bool | None
    """`--enable-chunked-prefill`."""
    eager: bool
    dtype: object
    width: int
    """Bytes of an activation in that dtype."""
    scheme: Scheme | None
    kv_cache_dtype: str
    pooling: bool
    manager: bool | None
    """`--no-disable-hybrid-kv-cache-manager` (True) or its opposite (False)."""
    text_only: bool
    images: bool
    """Images are accepted."""
    profiled: bool
    """True if the vision tower is profiled, if images or videos are."""
    flashinfer: bool | None
    """True if `--attention-backend` names one of FlashInfer's; None if it is not set."""
    flashinfer_by_variable: bool | None
    """True if VLLM_ATTENTION_BACKEND names one of FlashInfer's; None if it is not set."""
    all2all: str | None
    v1: str | None
    """VLLM_USE_V1."""
    variables: tuple[tuple[str, str], ...]
    """The VARIABLES that are set in the environment, with their values."""
    other_kernels: bool
    warm: bool
    """A volume keeps what torch.compile made."""
    rare: RareArguments


VARIABLES = frozenset({
    "LMCACHE_USE_UPSTREAM_MP", "VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE", "VLLM_ATTENTION_BACKEND",
    "VLLM_FUSED_MOE_CHUNK_SIZE", "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS", "VLLM_MLA_DISABLE",
    "VLLM_ROCM_FP8_PADDING", "VLLM_ROCM_MOE_PADDING", "VLLM_ROCM_USE_AITER", "VLLM_ROCM_USE_AITER_MOE",
    "VLLM_USE_FLASHINFER_SAMPLER", "VLLM_USE_V2_MODEL_RUNNER",
})  # fmt: skip
"""Environment variables that the lines of the ledger read."""
OTHER_KERNELS = (
    "VLLM_USE_DEEP_GEMM",
    "VLLM_USE_FLASHINFER",
    "VLLM_TEST_FORCE_FP8",
    "VLLM_ENABLE_FUSED_MOE",
    "VLLM_ROCM",
)
"""Variables that choose another kernel for the experts."""

RARE_ARGUMENTS = frozenset({
    "all2all_backend", "async_scheduling", "attention_config", "block_size", "cpu_offload_gb", "enable_lora",
    "enable_prefix_caching", "kv_cache_dtype_skip_layers", "kv_cache_memory", "kv_cache_memory_bytes",
    "kv_events_config", "kv_transfer_config", "limit_mm_per_prompt", "mamba_cache_dtype", "mamba_cache_mode",
    "mamba_ssm_cache_dtype", "mm_encoder_tp_mode", "speculative_config", "speculative_model",
})  # fmt: skip
"""Arguments that `_rare` reads: most command lines have few or none of them."""


def read(args: EngineArgs, model: Model, env: Mapping[str, str], *, warm: bool = False) -> MemoryArguments:
    """Read the arguments. `env`: the process's environment. `warm`: a volume keeps what torch.compile made. Values that
    vLLM rejects count as not set."""
    given = args.given
    length, is_length_known = given.get("max_model_len"), "max_model_len" not in args.unresolved
    auto = is_length_known and length in (-1, "auto")
    text_only = bool(given.get("language_model_only"))
    dtype, kv_dtype = given.get("dtype"), given.get("kv_cache_dtype")
    backend, variable = given.get("attention_backend"), env.get("VLLM_ATTENTION_BACKEND")
    off = given.get("disable_hybrid_kv_cache_manager")
    all2all_variable = env.get("VLLM_ALL2ALL_BACKEND", "")[:LONGEST_NAME]
    usual = RARE_ARGUMENTS.isdisjoint(given)
    return MemoryArguments(
        args=args,
        model=model,
        utilization=_utilization(given.get("gpu_memory_utilization")),
        length=_positive_int(length) if is_length_known else None,
        own_length=auto or (is_length_known and length is None),
        auto=auto,
        parallel=parallel.read(args, env),
        max_num_seqs=_positive_int(given.get("max_num_seqs")),
        max_num_batched_tokens=_positive_int(given.get("max_num_batched_tokens")),
        throughput=given.get("performance_mode") == "throughput",
        chunked=_bool(given.get("enable_chunked_prefill")),
        eager=bool(given.get("enforce_eager")),
        dtype=dtype,
        width=2 if dtype is None else quantisation.DTYPE_BYTES.get(str(dtype), 2),
        scheme=quantisation.scheme(model, args.quantization if "quantization" in given else None),
        kv_cache_dtype=kv_dtype[:LONGEST_NAME] if isinstance(kv_dtype, str) else "auto",
        pooling=_is_pooling(given, model),
        manager=None if off is None else not off,
        text_only=text_only,
        images=not text_only and (usual or not _no_images(given.get("limit_mm_per_prompt"))),
        profiled=not given.get("skip_mm_profiling"),
        flashinfer="FLASHINFER" in str(backend).upper() if backend else None,
        flashinfer_by_variable="FLASHINFER" in variable.upper() if variable else None,
        all2all=_given_name(given.get("all2all_backend")) or all2all_variable or None,
        v1=env.get("VLLM_USE_V1"),
        variables=() if env.keys().isdisjoint(VARIABLES) else _variables(env),
        other_kernels=bool(model.num_experts) and any(name.startswith(OTHER_KERNELS) for name in env),
        warm=warm,
        rare=NO_RARE_ARGUMENTS if usual else _rare(given, model),
    )


def _utilization(value: object) -> float | None:
    """`--gpu-memory-utilization` as given, also outside of 0 to 1. None for anything but a number below a million, so
    that no number of bytes overflows."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e6:
        return None
    return float(value)


def _variables(env: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """(name, value) of each variable that plans depend on, sorted, the values cut to LONGEST_NAME."""
    return tuple([(name, env[name][:LONGEST_NAME]) for name in sorted(VARIABLES & env.keys())])


def _rare(given: Mapping[str, Any], model: Model) -> RareArguments:
    """The settings of RARE_ARGUMENTS."""
    config = given.get("attention_config")
    return RareArguments(
        kv_cache_memory=_positive_int(given.get("kv_cache_memory_bytes"))
        or _positive_int(given.get("kv_cache_memory")),
        block_size=_positive_int(given.get("block_size")),
        cpu_offload=int(_positive_float(given.get("cpu_offload_gb")) * GI),
        prefix_caching=_bool(given.get("enable_prefix_caching")),
        speculative=_speculative(given, model),
        lora=_lora(given),
        no_video=_limit(given, "video") == 0,
        vision_replicated=given.get("mm_encoder_tp_mode") == "data",
        state_dtypes=(_given_name(given.get("mamba_cache_dtype")), _given_name(given.get("mamba_ssm_cache_dtype"))),
        skipped_layers=bool(given.get("kv_cache_dtype_skip_layers")),
        state_mode=_given_name(given.get("mamba_cache_mode")),
        index_dtype=_given_name(config.get("indexer_kv_dtype")) if isinstance(config, Mapping) else None,
    )


def _is_pooling(given: Mapping[str, Any], model: Model) -> bool:
    """True if the server returns vectors or scores, by `--runner` or `--task`, else by the model."""
    if given.get("runner") == "pooling" or given.get("task") in ("embed", "embedding", "classify", "score", "reward"):
        return True
    return given.get("runner") != "generate" and embeds(model)


@lru_cache(256)
def embeds(model: Model) -> bool:
    """True if the model returns vectors or scores, by its class or its name."""
    endings = ("ForSequenceClassification", "EmbeddingModel", "ForTokenClassification", "ForRewardModel", "Model")
    return (
        any(architecture.endswith(endings) for architecture in model.architectures) or "embedding" in model.id.lower()
    )


BIDIRECTIONAL = ("Bert", "Roberta", "Gte", "ModernBert", "NomicBert")
"""Parts of the names of classes with attention in both directions (vLLM 0.33 models/bert.py, roberta.py, modernbert.py,
bert_with_rope.py: `attn_type("encoder_only")` or the pooling type CLS)."""


@lru_cache(256)
def is_bidirectional(model: Model) -> bool:
    """True if a token of a pooling model attends to later ones: then prompts can't be chunked, nor prefixes cached."""
    named = any(part in architecture for architecture in model.architectures for part in BIDIRECTIONAL)
    return named or model.config.get("is_causal") is False


def _no_images(limits: object) -> bool:
    """True if `--limit-mm-per-prompt` forbids images and every other modality that it names."""
    return (
        isinstance(limits, Mapping)
        and bool(limits)
        and limits.get("image") == 0
        and all(value == 0 for value in limits.values())
    )


def _limit(given: Mapping[str, Any], modality: str) -> object:
    """The limit of a modality in `--limit-mm-per-prompt`; None if it has none."""
    limits = given.get("limit_mm_per_prompt")
    return limits.get(modality) if limits is not None and isinstance(limits, Mapping) else None


def _speculative(given: Mapping[str, Any], model: Model) -> Speculative | None:
    """The speculative decoding that the arguments describe; None without it.

    n-gram and suffix decoding have no drafter. Multi-token prediction has the model's own layers, at least one. A
    drafter that the catalog does not list has 0 layers and is not `known`."""
    config = given.get("speculative_config")
    if not isinstance(config, Mapping):
        if not given.get("speculative_model"):  # the older argument
            return None
        config = {"model": given["speculative_model"], "num_speculative_tokens": given.get("num_speculative_tokens")}
    tokens = _positive_int(config.get("num_speculative_tokens")) or 1
    method = str(config.get("method") or "")[:LONGEST_NAME]
    if config.get("model") in ("ngram", "[ngram]") or method in ("ngram", "suffix", "ngram_gpu"):
        return Speculative(method or "ngram", tokens, layers=0, known=True)
    if method.endswith("mtp") or (not config.get("model") and model.num_nextn_predict_layers):
        return Speculative("mtp", tokens, layers=max(1, model.num_nextn_predict_layers), known=True)
    published = str(config.get("model") or "")
    method = method or _method_by_name(published)
    fact = by_id(published) if published else None
    drafter = fact.value if fact else None
    is_certain = bool(fact and fact.may_deny) and not config.get("quantization") and not config.get("revision")
    is_eagle = method in ("eagle", "eagle3")  # a head of one layer, of whose sizes the catalog knows only some
    drafter_layers = (drafter.num_hidden_layers or 0) if drafter else 0
    return Speculative(
        method=method or "draft_model",
        tokens=tokens,
        layers=1 if is_eagle else drafter_layers,
        known=drafter is not None and is_certain and not is_eagle,
        drafter=drafter,
        tp=_positive_int(config.get("draft_tensor_parallel_size")),
        certain=is_certain,
        quantized=not is_eagle and tells_quantisation(published),
    )


def _method_by_name(drafter: str) -> str:
    """The method that vLLM concludes from the drafter's name; "" if it concludes none."""
    for part, method in METHOD_BY_NAME:
        if part in drafter.lower():
            return method
    return ""


METHOD_BY_NAME = (("eagle-", "eagle"), ("eagle3", "eagle3"), ("dflash", "dflash"), ("dspark", "dspark"))
"""Part of a drafter's name → method, if none is given (vLLM 0.33 config/speculative.py, "Automatically detect the
method")."""


def _lora(given: Mapping[str, Any]) -> Lora | None:
    """The LoRA slots that the arguments describe; None without --enable-lora."""
    if not given.get("enable_lora"):
        return None
    return Lora(
        slots=_positive_int(given.get("max_loras")) or 1,
        rank=_positive_int(given.get("max_lora_rank")) or 16,
        sharded=bool(given.get("fully_sharded_loras")),
    )


def _given_name(value: object) -> str | None:
    """The name that an option gives; None for `auto` and if it is not set."""
    return value[:LONGEST_NAME] if isinstance(value, str) and value != "auto" else None


def _positive_int(value: object) -> int | None:
    """A positive integer, at most parallel.LARGEST; None for anything else."""
    if value is None or type(value) is not int or value <= 0:  # the type check excludes True
        return None
    return value if value < parallel.LARGEST else parallel.LARGEST


def _positive_float(value: object) -> float:
    """A positive number below a million; 0 for everything else, which vLLM rejects or takes as none."""
    if value is None or isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return float(value) if 0 < value < 1e6 else 0.0


def _bool(value: object) -> bool | None:
    """The value if it is True or False; None for anything else."""
    return value if isinstance(value, bool) else None
