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
SPARSE = frozenset({"deepseek_v32", "glm_moe_dsa"})
"""Families whose `index_topk` makes it sparse (models/deepseek_v2.py `is_v32`), from the release that knows them on."""
SPARSE_ON_12 = Release(0, 24)
"""The first that was read with a sparse backend for 12.x, FLASHINFER_MLA_SPARSE_SM120; 0.23.0 has none."""
TRITON_READS_FP8 = Release(0, 17, 1), Release(0, 18)
"""TRITON_MLA, which alone is left outside 9.x and 10.x, takes no FP8 cache in the first, and does in the second."""
TRITON_ASKS = Release(0, 26)
"""Since then it says that FP8 needs 8.9 (v1/attention/backends/mla/triton_mla.py); 0.25.1 leaves it to the kernel's
compiler, which has no FP8 there either."""
NVFP4 = Release(0, 25, 1), Release(0, 31)
"""In these FLASHINFER alone reads an NVFP4 cache, and on 10.x alone (v1/attention/backends/flashinfer.py)."""
TRITON_ATTN_ASKS = Release(0, 24)
"""Since then TRITON_ATTN wants 8.9 for an FP8 cache (v1/attention/backends/triton_attn.py), and FLASHINFER, which else
would read one, 8.0, no attention sinks before 9.0, and one of HEAD_SIZES (v1/attention/backends/flashinfer.py)."""
HEAD_SIZES = (64, 128, 256, 512)
NOWHERE = frozenset({"fp8_e5m2", "int4_per_token_head", "int8_per_token_head", "fp8_per_token_head"})
"""No backend of latent attention reads these, on whatever GPU."""
FP8_KV_DTYPES = frozenset({"fp8", "fp8_e4m3"})
CACHES_AS_IT_IS = frozenset({"FalconForCausalLM", "RWForCausalLM", "BaichuanForCausalLM", "BaiChuanForCausalLM"})
"""They hand their attention no cache config, so that no backend is asked for another dtype than the model's (vLLM 0.33
models/falcon.py, 0.24 models/baichuan.py with ALiBi)."""
OTHER_BACKEND_SETTINGS = ("attention_backend", "attention_config", "model_impl", "kv_cache_dtype_skip_layers")
"""Arguments with which another backend, another implementation or other layers are asked."""
MLA_OFF_VARIABLE = "VLLM_MLA_DISABLE"
FP8_KV_CACHE = change.flags("--kv-cache-dtype fp8")
WITHOUT_KV_DTYPE = change.without("--kv-cache-dtype", "without {}")


class Lack(NamedTuple):
    """A feature that no backend supports: the argument that asks for it, the message, and suggestions."""

    dest: str | None
    """The argument that asks for it; None: the model does."""
    message: str
    suggestions: tuple[Suggestion, ...]
    uncertain: str | None = None


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
        items = [_lack(engine, model, engine.release, gpu.compute_capability or (0, 0)) for gpu in gpus]
        lacks = [lack for lack in items if lack is not None]
        if len(lacks) < len(items):
            return
        why = next((lack.uncertain for lack in lacks if lack.uncertain), None) or _uncertain(engine)
        yield Finding(
            path=engine.argument(lacks[0].dest or "model"),
            message=f"{lacks[0].message}, and this is {with_capability(gpus)}",
            certainty="likely" if why else "certain",
            uncertain=why,
            suggestions=tuple(dict.fromkeys(suggestion for lack in lacks for suggestion in lack.suggestions)),
        )


def _lack(engine: Engine, model: Model, release: Release, has: tuple[int, int]) -> Lack | None:
    """The part of the model's attention that no backend of the release supports on a GPU of this compute capability
    (major, minor); None if a backend supports all of it."""
    family, dtype = model.config.get("model_type") or model.model_type, engine.args.given.get("kv_cache_dtype")
    if not model.kv_lora_rank or not any(architecture.endswith("ForCausalLM") for architecture in model.architectures):
        return _without_latents(model, dtype, release, has)
    if family in SPARSE and model.config.get("index_topk"):
        if has[0] in (9, 10) or (has[0] == 12 and release >= SPARSE_ON_12):
            return None
        on_12 = " (12.x: vLLM 0.24 or newer)" if has[0] == 12 else ""
        message = f"the sparse attention of {model.id} needs compute capability 9.x or 10.x in vLLM {release}{on_12}"
        return Lack(None, message, ("GPUs of compute capability 9.x or 10.x, such as the H200",))
    if family not in MLA_MODEL_TYPES or not isinstance(dtype, str):
        return None
    if dtype in NOWHERE:
        reads = has[0] in (9, 10) or (has >= (8, 9) and release >= TRITON_READS_FP8[1])
        message = f"vLLM {release} reads no {dtype} KV cache for the latent attention of {model.id} on any GPU"
        return Lack("kv_cache_dtype", message, (FP8_KV_CACHE,) if reads else (WITHOUT_KV_DTYPE,))
    if dtype not in FP8_KV_DTYPES or has[0] in (9, 10):
        return None
    whose = f"a {dtype} KV cache for the latent attention of {model.id}"
    if release <= TRITON_READS_FP8[0]:
        newer = ("vLLM 0.18 or newer",) if has >= (8, 9) else ()
        message = f"vLLM {release} reads {whose} on compute capability 9.x and 10.x alone"
        return Lack("kv_cache_dtype", message, (WITHOUT_KV_DTYPE, *newer))
    if release >= TRITON_READS_FP8[1] and has < (8, 9):
        message = f"vLLM {release} reads {whose} from compute capability 8.9 on"
        compiler = None if release >= TRITON_ASKS else "vLLM before 0.26 leaves it to the kernel's compiler"
        return Lack("kv_cache_dtype", message, (WITHOUT_KV_DTYPE,), compiler)
    return None


def _without_latents(model: Model, dtype: object, release: Release, has: tuple[int, int]) -> Lack | None:
    """`_lack` of a model without latent attention (MLA): the KV cache dtypes nvfp4 and fp8 on older GPUs. None for an
    unknown kind of attention, and for other dtypes."""
    without = (WITHOUT_KV_DTYPE,)
    if not model.num_attention_heads or not generates_text(model):
        return None
    if not CACHES_AS_IT_IS.isdisjoint(model.architectures):
        return None
    if dtype == "nvfp4" and has[0] != 10 and NVFP4[0] <= release <= NVFP4[1]:
        message = f"vLLM {release} reads an nvfp4 KV cache on compute capability 10.x alone"
        return Lack("kv_cache_dtype", message, (*((FP8_KV_CACHE,) if has >= (8, 9) else ()), *without))
    if dtype not in FP8_KV_DTYPES | {"fp8_e5m2"} or release < TRITON_ATTN_ASKS or has >= (8, 9):
        return None
    if has < (8, 0):
        message = f"vLLM {release} reads no {dtype} KV cache below compute capability 8.0"
        return Lack("kv_cache_dtype", message, without)
    if model.model_type == "gpt_oss":
        message = f"vLLM {release} reads a {dtype} KV cache with attention sinks from compute capability 8.9 on"
        return Lack("kv_cache_dtype", message, without)
    if model.head_dim and model.head_dim not in HEAD_SIZES:
        message = f"vLLM {release} reads a {dtype} KV cache of heads of {model.head_dim} from compute capability 8.9 on"
        return Lack("kv_cache_dtype", message, without, "how wide vLLM makes the heads is not certain")
    return None


def _asks_for_others(engine: Engine) -> bool:
    """True if a backend is named, or something else decides which backend vLLM checks."""
    args, env = engine.args, engine.command.env
    variables = (
        {MLA_OFF_VARIABLE, "VLLM_ATTENTION_BACKEND"}
        if engine.release and engine.release <= _flags.BACKEND_VARIABLE[1]
        else {MLA_OFF_VARIABLE}
    )
    is_chosen = not variables.isdisjoint(env.keys() | engine.declared)
    return is_chosen or any(dest in args.given or dest in args.unresolved for dest in OTHER_BACKEND_SETTINGS)


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
