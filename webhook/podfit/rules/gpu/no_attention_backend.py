from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from podfit.rules import _checkpoint, _flags
from podfit.rules.devices import with_capability
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule
from podfit.vllm import change
from podfit.vllm.change import Suggestion
from podfit.vllm.model import Model
from podfit.vllm.model.architectures import generates_text
from podfit.vllm.release import Release

CHECKED_SINCE = Release(0, 11, 1)
"""From this release on, vLLM checks for each backend of a list whether it supports the GPU, the model and the KV
cache's dtype. It ends if none does (platforms/cuda.py get_attn_backend_cls). The values below are from 29 releases up
to 0.33."""
MLA_MODEL_TYPES = frozenset({"deepseek_v2", "deepseek_v3", "kimi_k2"})
"""Families whose attention is multi-head latent attention (`is_deepseek_mla`) in each of these releases."""
SPARSE_MODEL_TYPES = frozenset({"deepseek_v32", "glm_moe_dsa"})
"""Families whose `index_topk` makes it sparse (models/deepseek_v2.py `is_v32`), from the release that knows them on."""
SPARSE_ON_12_SINCE = Release(0, 24)
"""The first that was read with a sparse backend for 12.x, FLASHINFER_MLA_SPARSE_SM120; 0.23.0 has none."""
MLA_FP8_UNTIL, MLA_FP8_SINCE = Release(0, 17, 1), Release(0, 18)
"""TRITON_MLA is the only backend outside 9.x and 10.x. It takes no FP8 cache until the first release, and takes one
from the second on."""
MLA_FP8_CHECKED_SINCE = Release(0, 26)
"""From this release on TRITON_MLA says that FP8 needs 8.9 (v1/attention/backends/mla/triton_mla.py). 0.25.1 leaves it
to the kernel's compiler, which has no FP8 there either."""
NVFP4_SINCE, NVFP4_UNTIL = Release(0, 25, 1), Release(0, 31)
"""From the first release until the second, FLASHINFER alone reads an NVFP4 cache, and on 10.x alone
(v1/attention/backends/flashinfer.py)."""
FP8_CHECKED_SINCE = Release(0, 24)
"""From this release on TRITON_ATTN wants 8.9 for an FP8 cache (v1/attention/backends/triton_attn.py). FLASHINFER, which
else would read one, wants 8.0, no attention sinks before 9.0, and one of HEAD_SIZES
(v1/attention/backends/flashinfer.py)."""
HEAD_SIZES = (64, 128, 256, 512)
NATIVE_FP8, FLASHINFER_LEAST = (8, 9), (8, 0)
"""Compute capabilities (major, minor): from the first on, GPUs have native FP8 (fp8e4nv); from the second on,
FLASHINFER reads an FP8 cache."""
UNREAD_MLA_DTYPES = frozenset({"fp8_e5m2", "int4_per_token_head", "int8_per_token_head", "fp8_per_token_head"})
"""KV cache dtypes that no backend of latent attention reads on any GPU."""
FP8_KV_DTYPES = frozenset({"fp8", "fp8_e4m3"})
WITHOUT_CACHE_CONFIG = frozenset({"FalconForCausalLM", "RWForCausalLM", "BaichuanForCausalLM", "BaiChuanForCausalLM"})
"""Classes that hand their attention no cache config, so that no backend is asked for another dtype than the model's
(vLLM 0.33 models/falcon.py, 0.24 models/baichuan.py with ALiBi)."""
OTHER_BACKEND_SETTINGS = ("attention_backend", "attention_config", "model_impl", "kv_cache_dtype_skip_layers")
"""Arguments with which another backend, another implementation or other layers are asked."""
MLA_OFF_VARIABLE = "VLLM_MLA_DISABLE"
FP8_KV_CACHE = change.flags("--kv-cache-dtype fp8")
WITHOUT_KV_DTYPE = change.without("--kv-cache-dtype", "without {}")
Capability = tuple[int, int]
"""The compute capability of an NVIDIA GPU: (major, minor)."""


class Unsupported(NamedTuple):
    """A feature of the model's attention, or a KV cache dtype, that no backend supports on a GPU."""

    dest: str | None
    """The argument that asks for it; None: the model does."""
    message: str
    """The feature and the GPUs that have it, without the GPU at hand."""
    suggestions: tuple[Suggestion, ...]
    uncertain: str | None = None
    """Why it is not certain that vLLM rejects it; None if it is."""


class NoAttentionBackend(Rule):
    """No attention backend runs this model on this GPU.

    vLLM chooses an attention backend by itself: the first of a list that has kernels for the GPU, for the model's kind
    of attention, and for the KV cache's dtype. If none has all three, vLLM ends after it has made its processes and
    before it loads a weight:

        ValueError: No valid attention backend found for cuda with AttentionSelectorConfig(head_size=576,
        dtype=torch.bfloat16, kv_cache_dtype=auto, … use_mla=True, … use_sparse=True, …). Reasons: {FLASH_ATTN_MLA:
        [sparse not supported, compute capability not supported], … FLASHMLA_SPARSE: [compute capability not …]}.

    - The sparse attention of DeepSeek-V3.2 and GLM-5 has kernels for compute capability 9.x and 10.x (Hopper, B200),
      from v0.24 on for 12.x, and none for Ampere or Ada.
    - Multi-head latent attention (DeepSeek-V2, -V3, -R1, Kimi K2) reads an FP8 KV cache on 9.x and 10.x alone until
      v0.17.1. From v0.18 on TRITON_MLA reads one elsewhere, but not below 8.9: v0.26 and newer say so,

          ValueError: FP8 KV cache is not supported by the Triton MLA backend on NVIDIA A100-SXM4-80GB (compute
          capability 8.0); native FP8 (fp8e4nv) requires SM89+. Re-run with --kv-cache-dtype bfloat16.

      and those before fail in the kernel. `fp8_e5m2` and the dtypes per token and head it reads nowhere.
    - Other attention needs 8.0 for an FP8 KV cache from v0.24 on (a T4 has 7.5), or 8.9 with gpt-oss' attention sinks.
      For `--kv-cache-dtype nvfp4` it needs 10.x from v0.25.1 until v0.31.

    `invalid-environment` checks a named backend (`--attention-backend`).
    """

    plane = "config"
    event = "vLLM exits: no valid attention backend"
    by_release = True
    mode = "deny"
    needs = ("model", "gpu", "release", "vllm_args")

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain in vLLM's own image, of a model whose config.json is known.

        None if one of the GPUs has a backend, if a GPU is not NVIDIA's or its compute capability is unknown. None, too,
        before `CHECKED_SINCE`, for a wrapper around vLLM (`own_flags`), and if a setting chooses the backend."""
        if engine.model is None or engine.gpu is None or engine.release is None:
            return
        if engine.release < CHECKED_SINCE or engine.command.own_flags or _asks_for_others(engine):
            return
        gpus, model = engine.gpu.value.gpus, engine.model.value
        if (
            not gpus
            or engine.on_processors
            or any(gpu.vendor != "nvidia" or gpu.compute_capability is None for gpu in gpus)
        ):
            return
        results = [_unsupported(engine, model, engine.release, gpu.compute_capability or (0, 0)) for gpu in gpus]
        unsupported = [result for result in results if result is not None]
        if len(unsupported) < len(results):
            return  # one of the GPUs has a backend
        doubts = [result.uncertain for result in unsupported if result.uncertain]
        why = doubts[0] if doubts else _uncertain(engine)
        yield Finding(
            path=engine.argument(unsupported[0].dest or "model"),
            message=f"{unsupported[0].message}, and this is {with_capability(gpus)}",
            certainty="likely" if why else "certain",
            uncertain=why,
            suggestions=tuple(dict.fromkeys(suggestion for result in unsupported for suggestion in result.suggestions)),
        )


def _unsupported(engine: Engine, model: Model, release: Release, capability: Capability) -> Unsupported | None:
    """The feature that no backend of the release supports on a GPU of this compute capability. None if a backend
    supports them all, or the kind of attention was not read."""
    dtype = engine.args.given.get("kv_cache_dtype")
    is_text_model = any(architecture.endswith("ForCausalLM") for architecture in model.architectures)
    if not model.kv_lora_rank or not is_text_model:
        return _unsupported_without_mla(model, dtype, release, capability)
    family = model.config.get("model_type") or model.model_type
    if family in SPARSE_MODEL_TYPES and model.config.get("index_topk"):
        return _unsupported_sparse(model, release, capability)
    if family in MLA_MODEL_TYPES and isinstance(dtype, str):
        return _unsupported_mla_dtype(model, dtype, release, capability)
    return None


def _unsupported_sparse(model: Model, release: Release, capability: Capability) -> Unsupported | None:
    """Sparse latent attention on a GPU without kernels for it; None if a backend has them."""
    major, _ = capability
    if major in (9, 10) or (major == 12 and release >= SPARSE_ON_12_SINCE):
        return None
    on_12 = " (12.x: vLLM 0.24 or newer)" if major == 12 else ""
    return Unsupported(
        dest=None,
        message=f"the sparse attention of {model.id} needs compute capability 9.x or 10.x in vLLM {release}{on_12}",
        suggestions=("GPUs of compute capability 9.x or 10.x, such as the H200",),
    )


def _unsupported_mla_dtype(model: Model, dtype: str, release: Release, capability: Capability) -> Unsupported | None:
    """A KV cache `dtype` that no backend of latent attention (MLA) reads. None if one reads it, for a dtype that was
    not read, and for releases of which it is not known."""
    major, _ = capability
    dest = "kv_cache_dtype"
    has_native_fp8 = capability >= NATIVE_FP8
    if dtype in UNREAD_MLA_DTYPES:
        reads_fp8 = major in (9, 10) or (has_native_fp8 and release >= MLA_FP8_SINCE)
        message = f"vLLM {release} reads no {dtype} KV cache for the latent attention of {model.id} on any GPU"
        return Unsupported(dest, message, (FP8_KV_CACHE if reads_fp8 else WITHOUT_KV_DTYPE,))
    if dtype not in FP8_KV_DTYPES or major in (9, 10):
        return None
    cache = f"a {dtype} KV cache for the latent attention of {model.id}"
    if release <= MLA_FP8_UNTIL:
        newer = ("vLLM 0.18 or newer",) if has_native_fp8 else ()
        message = f"vLLM {release} reads {cache} on compute capability 9.x and 10.x alone"
        return Unsupported(dest, message, (WITHOUT_KV_DTYPE, *newer))
    if release >= MLA_FP8_SINCE and not has_native_fp8:
        message = f"vLLM {release} reads {cache} from compute capability 8.9 on"
        is_checked = release >= MLA_FP8_CHECKED_SINCE
        doubt = None if is_checked else "vLLM before 0.26 leaves it to the kernel's compiler"
        return Unsupported(dest, message, (WITHOUT_KV_DTYPE,), doubt)
    return None


def _unsupported_without_mla(
    model: Model, dtype: object, release: Release, capability: Capability
) -> Unsupported | None:
    """The KV cache dtype nvfp4 or fp8 of a model without latent attention (MLA), on a GPU for which no backend reads
    it. None if one reads it, for other dtypes (also None: not set), and for an unknown kind of attention."""
    if not model.num_attention_heads or not generates_text(model):
        return None
    if not WITHOUT_CACHE_CONFIG.isdisjoint(model.architectures):
        return None
    major, _ = capability
    dest, without = "kv_cache_dtype", (WITHOUT_KV_DTYPE,)
    has_native_fp8 = capability >= NATIVE_FP8
    if dtype == "nvfp4" and major != 10 and NVFP4_SINCE <= release <= NVFP4_UNTIL:
        message = f"vLLM {release} reads an nvfp4 KV cache on compute capability 10.x alone"
        return Unsupported(dest, message, (FP8_KV_CACHE, *without) if has_native_fp8 else without)
    if dtype not in FP8_KV_DTYPES | {"fp8_e5m2"} or release < FP8_CHECKED_SINCE or has_native_fp8:
        return None
    if capability < FLASHINFER_LEAST:
        message = f"vLLM {release} reads no {dtype} KV cache below compute capability 8.0"
        return Unsupported(dest, message, without)
    if model.model_type == "gpt_oss":
        message = f"vLLM {release} reads a {dtype} KV cache with attention sinks from compute capability 8.9 on"
        return Unsupported(dest, message, without)
    if model.head_dim and model.head_dim not in HEAD_SIZES:
        message = f"vLLM {release} reads a {dtype} KV cache of heads of {model.head_dim} from compute capability 8.9 on"
        return Unsupported(dest, message, without, "how wide vLLM makes the heads is not certain")
    return None


def _asks_for_others(engine: Engine) -> bool:
    """True if the list of backends that vLLM checks may be another one: a backend is named, MLA is off, or one of
    `OTHER_BACKEND_SETTINGS` is set."""
    args = engine.args
    variables = {MLA_OFF_VARIABLE}
    if engine.release and engine.release <= _flags.BACKEND_VARIABLE[1]:
        variables.add("VLLM_ATTENTION_BACKEND")  # later releases ignore it
    if not variables.isdisjoint(engine.command.env.keys() | engine.declared):
        return True
    return any(dest in args.given or dest in args.unresolved for dest in OTHER_BACKEND_SETTINGS)


def _uncertain(engine: Engine) -> str | None:
    """The reason why it is not certain that vLLM's own backends run this model; None if it is certain."""
    if engine.field("envFrom") or engine.command.decided & {MLA_OFF_VARIABLE, "*"}:
        return f"{MLA_OFF_VARIABLE} may be set to what can't be seen here"
    if not _checkpoint.is_the_known(engine):
        return "another config.json may be read than the one that is known"
    if _flags.names_plugins(engine):
        return "a plugin may bring another backend"
    if engine.command.changes:
        return "other Python code may run than the image's"
    return _flags.uncertain(engine)
