"""The KV cache of each layer of a model: kind, tokens per block, bytes per block.

It mirrors vLLM's v1/kv_cache_interface.py (the specs), the model runner that makes them (get_kv_cache_spec), and the
block sizes (models/config.py HybridAttentionMambaModelConfig; from 0.20 platforms/interface.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import lcm
from typing import NamedTuple

from podfit.vllm.memory import compressed_latents, index_keys, layer_tensors, parallel, shape
from podfit.vllm.memory import kv_releases as since
from podfit.vllm.memory.arguments import Speculative
from podfit.vllm.memory.remembered import remembered
from podfit.vllm.memory.settings import Settings
from podfit.vllm.model import MAX_LAYERS, Model
from podfit.vllm.release import Release

FULL, SLIDING, CHUNKED, CROSS = "full_attention", "sliding_attention", "chunked_attention", "cross_attention"
ATTENTION = (FULL, SLIDING, CHUNKED, CROSS)
ENCODERS = ("bert", "roberta", "xlm-roberta", "modernbert", "nomic_bert", "eurobert", "distilbert", "new", "gte")
"""Encoder-only families: their attention stores nothing."""
BLOCK = 16
"""Tokens per block (config/cache.py DEFAULT_BLOCK_SIZE)."""


class Spec(NamedTuple):
    """The cache of one layer on one rank."""

    kind: str
    """One of ATTENTION, or the kind of a state layer."""
    block_size: int
    """Tokens per block; 0: the whole length."""
    page: int
    """Bytes per block."""
    window: int = 0
    """Tokens that are kept: of a sliding window or a chunk, or of the encoder; 0: all of them."""
    states: int = 0
    """Blocks that a request takes regardless of its length."""
    per_block: bool = True
    """True if a request also takes a block per `block_size` tokens."""
    heads: int = 0
    """Key-value heads of an attention layer: layers with different numbers are of different kinds, even if their sizes
    are equal."""

    @property
    def is_state(self) -> bool:
        """True if a block contains a recurrent state."""
        return self.kind not in ATTENTION


class Stored(NamedTuple):
    """The settings that decide what a layer stores. They are those of `settings.Settings`, under its names."""

    release: Release
    v1: bool
    tp: int
    width: int
    """Bytes of an activation."""
    kv_cache_dtype: str
    """`--kv-cache-dtype`."""
    block_size: int | None
    """`--block-size` in tokens; None: vLLM decides."""
    prefix_caching: bool | None
    """`--enable-prefix-caching`; None: the default."""
    manager: bool | None
    """The hybrid KV cache manager is on; None: unknown."""
    speculative: Speculative | None
    state_dtypes: tuple[str | None, str | None]
    """`--mamba-cache-dtype` (of the convolution) and `--mamba-ssm-cache-dtype`; None: the model decides."""
    state_mode: str | None
    """`--mamba-cache-mode`; None: vLLM decides."""
    skipped_layers: bool
    """`--kv-cache-dtype-skip-layers`."""
    mla: bool
    """Latents are stored, for a model that has them."""
    capability: tuple[int, int] | None
    """As `_layout_capability` returns it."""
    vendor: str
    backend_named: bool
    """An argument or a variable names the attention backend."""
    index_dtype: str | None
    """`indexer_kv_dtype` of `--attention-config`; None: vLLM decides."""


def stored(settings: Settings) -> Stored:
    """The part of the settings for this module."""
    types, attention = settings.types, settings.attention
    return Stored(
        release=settings.release,
        v1=settings.v1,
        tp=settings.parallel.tp,
        width=types.dtype,
        kv_cache_dtype=types.kv_cache_dtype,
        block_size=attention.block_size,
        prefix_caching=attention.prefix_caching,
        manager=attention.manager,
        speculative=settings.speculative,
        state_dtypes=types.state_dtypes,
        state_mode=attention.state_mode,
        skipped_layers=types.skipped_layers,
        mla=settings.uses_mla,
        capability=_layout_capability(settings.gpu.capability),
        vendor=settings.gpu.vendor,
        backend_named=attention.backend_named,
        index_dtype=types.index_dtype,
    )


OWN_BLOCKS = (9, 10, 12)
"""Major versions of compute capabilities whose kernels choose another size of blocks than those of all others."""


def _layout_capability(capability: tuple[int, int] | None) -> tuple[int, int] | None:
    """The compute capability, (8, 0) for all whose layout equals that of 8.0, so that it is computed once for these.
    None if unknown."""
    return capability if capability is None or capability[0] in OWN_BLOCKS else (8, 0)


class Specs(NamedTuple):
    """The layers that store something, in the order of the model."""

    layers: tuple[tuple[int, Spec], ...]
    """(index of the layer, its cache); a drafter's layers come after the model's."""
    known: bool
    """False if some layer's cache is not described here, so that only a part is counted."""
    sure_blocks: bool
    """False: the attention backend, which is unknown, decides how many tokens a block has."""
    unknown_per_token: int | None = None
    """Bytes per token that unknown layers take at most, beyond what is counted; None if they have no bound."""
    packed: bool = False
    """The pages of a group differ in size and lie in one block, so that `kv_packed` makes the groups."""


KV_BYTES = {"auto": 2.0, "bfloat16": 2.0, "float16": 2.0, "half": 2.0, "float32": 4.0, "float": 4.0}


class Stride(NamedTuple):
    """Bytes of a type of the KV cache."""

    element: float
    """For each element."""
    vector: float = 0.0
    """For each key or value of a head, in addition: its scale."""


PER_HEAD = {
    "int8_per_token_head": Stride(1.0, 4.0), "fp8_per_token_head": Stride(1.0, 4.0),
    "int4_per_token_head": Stride(0.5, 4.0), "nvfp4": Stride(0.5 + 1 / 16), "nvfp4_4over6": Stride(0.5 + 1 / 16),
    "turboquant_k8v4": Stride(0.75, 2.0), "turboquant_4bit_nc": Stride(0.5, 3.0),
    "turboquant_k3v4_nc": Stride(0.4375, 3.0), "turboquant_3bit_nc": Stride(0.375, 3.0),
    "ultraquant_4bit": Stride(0.5 + 1 / 32),
}  # fmt: skip
"""`--kv-cache-dtype` → its bytes, for types with scales."""


DTYPES = (*KV_BYTES, "fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc", "fp8_ds_mla", "int8", *PER_HEAD, "nvfp4_ds_mla")
"""Every `--kv-cache-dtype` whose bytes this module describes."""


def is_known(dtype: str) -> bool:
    """True if this module describes the bytes of a `--kv-cache-dtype` (0.33 also accepts names of plugins)."""
    return dtype in KV_BYTES or dtype in PER_HEAD or dtype.startswith("fp8") or dtype in ("int8", "nvfp4_ds_mla")


def element_bytes(model: Model, how: Stored) -> Stride:
    """Bytes of the cache's elements; 2 per element for a dtype that is not described.

    Under `auto`, a checkpoint with a KV scheme decides itself; other models use the dtype of their activations."""
    dtype = _kv_dtype(model, how)
    if dtype in PER_HEAD:
        return PER_HEAD[dtype]
    if dtype.startswith("fp8") or dtype == "int8":
        return Stride(1.0)
    if dtype == "auto":
        return Stride(float(how.width))
    return Stride(KV_BYTES.get(dtype, 2.0))


def _kv_dtype(model: Model, how: Stored) -> str:
    """`--kv-cache-dtype`, or the checkpoint's own under `auto`; "auto" if that has none."""
    if how.kv_cache_dtype != "auto":
        return how.kv_cache_dtype
    return _checkpoint_kv_dtype(model, how) or "auto"


MODELOPT_SCHEME_READ, SCHEME_READ = Release(0, 11, 1), Release(0, 17)
"""The first releases that read the KV cache's type from a checkpoint of ModelOpt, and from others (vLLM
utils/torch_utils.py, resolve_kv_cache_dtype_string)."""


def _checkpoint_kv_dtype(model: Model, how: Stored) -> str | None:
    """The KV cache type in the checkpoint's quantization config: fp8 or nvfp4. None if it states neither, and before
    the release that reads it."""
    config = model.quantization_config or {}
    is_modelopt = str(config.get("quant_method") or "").startswith("modelopt")
    if how.release < (MODELOPT_SCHEME_READ if is_modelopt else SCHEME_READ):
        return None
    algorithm = str(config.get("kv_cache_quant_algo") or "").lower()
    nested = config.get("quantization")
    if not algorithm and isinstance(nested, dict):
        algorithm = str(nested.get("kv_cache_quant_algo") or "").lower()
    if algorithm in ("fp8", "nvfp4"):
        return algorithm
    scheme = config.get("kv_cache_scheme")  # of compressed-tensors
    bits = scheme.get("num_bits") if isinstance(scheme, dict) else None
    if bits == 8:
        return "fp8"
    return "nvfp4" if bits == 4 else None


ALIGNED = 256
"""Elements to which early releases pad keys and values, or bytes to which they pad a latent (before 0.8)."""


def attention_bytes(model: Model, how: Stored, kind: str) -> int | None:
    """Bytes of one token in one attention layer of a rank; None if a size is missing. `kind`: one of ATTENTION."""
    stride = element_bytes(model, how)
    if model.kv_lora_rank:
        return _latent_bytes(model, how, stride) if how.mla else _unpacked_latent_bytes(model, how, stride)
    sizes = shape.head_dims(model, kind)
    if sizes is None:
        return None
    heads = parallel.key_value_heads(sizes.heads, how.tp)
    return int(heads * ((sizes.keys + sizes.values) * stride.element + 2 * stride.vector))


def _unpacked_latent_bytes(model: Model, how: Stored, stride: Stride) -> int:
    """Bytes of one token as whole heads, of a model with latents that are not stored as such.

    Keys and values are padded to ALIGNED (vLLM 0.6 models/deepseek_v2.py). From 0.7.1, values are padded to the width
    of keys."""
    heads = max(1, (model.num_attention_heads or 1) // how.tp)
    keys = (model.qk_nope_head_dim or 0) + (model.qk_rope_head_dim or 0)
    width = keys if keys and how.release >= (0, 7, 1) else ALIGNED
    return int(heads * 2 * width * stride.element)


def _latent_bytes(model: Model, how: Stored, stride: Stride) -> int:
    """Bytes of one token's latent with its rotated part; each rank has it whole."""
    elements = (model.kv_lora_rank or 0) + (model.qk_rope_head_dim or 0)
    dtype = _latent_dtype(model, how)
    if dtype in LATENT_BYTES:
        return LATENT_BYTES[dtype]
    size = int(elements * (1.0 if dtype.startswith("fp8") else stride.element) + stride.vector)
    return -(-size // ALIGNED) * ALIGNED if how.release < (0, 8) else size


LATENT_BYTES = {"fp8_ds_mla": 656, "nvfp4_ds_mla": 352}
"""Bytes of a latent with its scales (v1/attention/backends/mla/flashmla_sparse.py)."""
AUTO_IN_16_BIT = Release(0, 11, 1)
"""Before, `auto` also means `fp8_ds_mla` for a model with an indexer (0.11.0 models/config.py; 0.11.2 does not)."""
OWN_FORMAT = Release(0, 17)
"""Before, every FP8 type of a model with an indexer means `fp8_ds_mla` (models/config.py DeepseekV32ForCausalLM; last
read in 0.16)."""
SM120 = Release(0, 24)
"""Since this release at the latest, a backend for compute capability 12 stores latents as `fp8_ds_mla` by default
(layers/attention/mla_attention.py _canonicalize_sparse_mla_kv_cache_dtype)."""
GLM_IN_FP8 = Release(0, 32)
"""From this release on, GLM-5 stores latents in FP8 by default on compute capability 10 (models/config.py
GlmMoeDsaForCausalLM; 0.31 does not)."""


def _latent_dtype(model: Model, how: Stored) -> str:
    """The type in which latents are stored: one of LATENT_BYTES, or as `_kv_dtype` returns it.

    With an indexer, the backend that vLLM prefers on this GPU decides: on compute capability 9, FP8 means `fp8_ds_mla`
    (FlashMLA), on 10 plain FP8 (FlashInfer), as on AMD."""
    dtype = _kv_dtype(model, how)
    if not model.index_head_dim or dtype in LATENT_BYTES:
        return dtype
    if dtype == "auto" and how.release < AUTO_IN_16_BIT:
        return "fp8_ds_mla"
    major = how.capability[0] if how.capability and how.vendor == "nvidia" else 0
    if dtype == "auto" and model.model_type == "glm_moe_dsa" and major == 10 and how.release >= GLM_IN_FP8:
        dtype = "fp8"
    is_fp8 = dtype.startswith("fp8")
    if is_fp8 and (how.release < OWN_FORMAT or major == 9):
        return "fp8_ds_mla"
    if (is_fp8 or dtype == "auto") and major == 12 and how.release >= SM120:
        return "fp8_ds_mla"
    return dtype


STATE_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
"""Bytes per element of a state by dtype; otherwise the model's dtype is used."""
NEMOTRON_H_READ, NEMOTRON_H_IN_FLOAT32 = Release(0, 13), Release(0, 20)
"""Before the first, vLLM does not read `mamba_ssm_cache_dtype` in the config.json of a Nemotron-H and uses the model's
dtype. If config.json has none, the recurrent states are in float16 from then on, and in float32 from the second (vLLM
0.13 and 0.20 models/config.py NemotronHForCausalLMConfig)."""


class StateWidths(NamedTuple):
    """Bytes per element of a layer's states."""

    convolution: int
    recurrent: int


def state_dtypes(model: Model, how: Stored) -> StateWidths:
    """Bytes per element of a layer's states: by the arguments, else by config.json for the families whose config.json
    vLLM reads, else by the model's dtype (layers/mamba/mamba_utils.py MambaStateDtypeCalculator; models/config.py).

    If nothing sets the type of the recurrent state, it is the convolution's."""
    convolution_dtype, recurrent_dtype = how.state_dtypes
    convolution = STATE_BYTES.get(convolution_dtype or "", how.width)
    is_delta_net = shape.delta_net(model) is not None
    if is_delta_net and how.release < since.DELTA_NET_STATES:
        return StateWidths(convolution, convolution)  # one dtype for both
    if recurrent_dtype is None and is_delta_net:
        recurrent_dtype = model.config.get("mamba_ssm_dtype")
    if recurrent_dtype is None and (model.model_type or "").startswith("nemotron_h"):
        if how.release < NEMOTRON_H_READ:
            return StateWidths(convolution, convolution)
        usual = 4 if how.release >= NEMOTRON_H_IN_FLOAT32 else 2
        return StateWidths(convolution, STATE_BYTES.get(str(model.config.get("mamba_ssm_cache_dtype")), usual))
    return StateWidths(convolution, STATE_BYTES.get(str(recurrent_dtype), convolution))


def state_bytes(model: Model, how: Stored, kind: str) -> int | None:
    """Bytes of one sequence's state in one layer of a rank (vLLM 0.10.2 … 0.33 layers/mamba/mamba_utils.py). None if
    config.json lacks a size, and for a kind that is not described.

    It is the state of the convolution, of `kernel - 1` tokens and those drafted, and the recurrent state."""
    drafted = how.speculative.tokens if how.speculative else 0
    widths = state_dtypes(model, how)
    if kind == "linear_attention":
        return _linear_state_bytes(model, how, drafted, widths)
    if kind == "mamba":
        return _mamba_state_bytes(model, how, drafted, widths)
    if kind == "conv":
        kernel = shape.number(model.config, "conv_L_cache") or shape.CONVOLUTION
        tokens = kernel - 1 + (drafted if how.release >= since.SHORT_CONVOLUTIONS else 0)
        return (model.hidden_size or 0) // how.tp * tokens * widths.convolution
    return None


def _mamba_state_bytes(model: Model, how: Stored, drafted: int, widths: StateWidths) -> int | None:
    """`state_bytes` of Mamba and Mamba 2, whose convolution also has the projections of the states. `drafted`:
    tokens."""
    mixer = shape.mamba(model)
    if mixer is None:
        return None
    recurrent = mixer.inner // how.tp * mixer.state * widths.recurrent
    if not mixer.heads:  # Mamba 1, without drafted tokens
        return mixer.inner // how.tp * (mixer.kernel - 1) * widths.convolution + recurrent
    groups = mixer.groups if mixer.groups % how.tp == 0 else how.tp  # replicated: at least one group on each rank
    convolved = (mixer.inner + 2 * groups * mixer.state) // how.tp
    tokens = mixer.kernel - 1 + (drafted if how.release >= since.DELTA_NET_STATES else 0)
    return convolved * tokens * widths.convolution + recurrent


FLOAT32 = 4
"""Bytes per element of lightning attention's states, and by default of Kimi Delta Attention's."""
DELTA_ATTENTION_DTYPE = Release(0, 30)
"""From this release on, `--mamba-ssm-cache-dtype` also applies to Kimi Delta Attention."""


def _linear_state_bytes(model: Model, how: Stored, drafted: int, widths: StateWidths) -> int | None:
    """`state_bytes` of linear attention: Gated DeltaNet, Kimi Delta Attention, or lightning attention. `drafted`:
    tokens."""
    tp = how.tp
    net = shape.delta_net(model)
    if net is not None:
        key = shape.number(model.config, "linear_key_head_dim") or 128
        convolution = (2 * net.keys + net.values) // tp * (net.kernel - 1 + drafted) * widths.convolution
        return convolution + net.values // tp * key * widths.recurrent
    kda = shape.delta_attention(model) if model.kv_lora_rank else None
    if kda is not None:
        tokens = kda.kernel - 1 + (drafted if how.release >= since.DELTA_ATTENTION_STATES else 0)
        _, recurrent_dtype = how.state_dtypes
        is_set = recurrent_dtype is not None and how.release >= DELTA_ATTENTION_DTYPE
        recurrent = STATE_BYTES.get(recurrent_dtype or "", FLOAT32) if is_set else FLOAT32
        head_dim = kda.width // kda.heads
        return 3 * kda.width // tp * tokens * widths.convolution + kda.width // tp * head_dim * recurrent
    if model.num_attention_heads and model.head_dim and not model.kv_lora_rank:
        return model.num_attention_heads // tp * model.head_dim**2 * FLOAT32
    return None


@remembered(256)
def of(model: Model, how: Stored) -> Specs | None:
    """The layers of a whole model; None if they are unknown or store nothing."""
    layers = model.num_hidden_layers
    if not layers or model.model_type in ENCODERS or _sees_both_ways(model):
        return None
    unknown = _unknown_drafter(model, how)
    if how.v1 and compressed_latents.has_compressed_latents(model):
        return _of_compressed_latents(model, how, unknown)
    shared = shape.number(model.config, "num_kv_shared_layers") or 0  # the last layers, which store nothing
    caches = list(_kinds(model, min(layers - shared, MAX_LAYERS)))
    kinds = {kind for _, kind in caches}
    sizes = {kind: attention_bytes(model, how, kind) for kind in kinds if kind in ATTENTION}
    states = {kind: state_bytes(model, how, kind) for kind in kinds if kind not in ATTENTION}
    known = _are_described(model, how, sizes, states)
    per_token = {kind: size for kind, size in sizes.items() if size}
    per_state = {kind: size for kind, size in states.items() if size and how.v1}
    block = _block(model, how, per_token, per_state)
    least_page = block * min(per_token.values()) if per_token else 0
    entries = {kind: _attention(model, how, kind, block, size) for kind, size in per_token.items()}
    for kind, size in per_state.items():  # a state's page is at least as large as one of attention
        entries[kind] = _state_spec(model, how, kind, block if per_token else 0, max(size, least_page))
    items = [(index, entries[kind]) for index, kind in caches if kind in entries]
    drafted = list(_drafted(model, how))
    for number, layer in enumerate(drafted):
        spec = _attention(layer.model, layer.settings, layer.kind, block, layer.bytes_per_token)
        items.append((layers + number, spec))
    has_mtp = how.speculative is not None and how.speculative.method == "mtp"
    with_indexer = range(layers + (len(drafted) if has_mtp else 0))
    for index, size in index_keys.each(model, with_indexer, how.release, how.index_dtype):
        items.append((index, Spec(FULL, block, block * size, heads=1)))
    if not items:
        return None
    if how.release < since.STATE_PER_BLOCK:  # attention first, then states (gpu_model_runner get_kv_cache_spec)
        items.sort(key=lambda item: item[1].is_state)
    has_usual_blocks = not model.kv_lora_rank or (how.capability is not None and not how.backend_named)
    sure_blocks = how.block_size is not None or (how.vendor == "nvidia" and has_usual_blocks)
    is_known_but_for_drafter = known and unknown is not None and len(entries) == 1  # one kind: all in one group
    return Specs(
        layers=tuple(items),
        known=known and unknown == 0,
        sure_blocks=sure_blocks,
        unknown_per_token=unknown if is_known_but_for_drafter else None,
    )


def _are_described(
    model: Model, how: Stored, sizes: Mapping[str, int | None], states: Mapping[str, int | None]
) -> bool:
    """True if this module describes every cache: `sizes` of the kinds of attention, `states` of the state layers."""
    return (
        not _is_special(model)
        and not how.skipped_layers
        and is_known(how.kv_cache_dtype)
        and None not in (*sizes.values(), *states.values())
        and (not states or (how.v1 and how.release >= since.STATES))
        and (CROSS not in sizes or how.v1)
        and (how.manager is not None or len({*sizes, *states}) <= 1)  # with one kind, the manager does not matter
    )


def _of_compressed_latents(model: Model, how: Stored, unknown: int | None) -> Specs:
    """The layers of a DeepSeek-V4. They are known for the backends that vLLM chooses; others store other latents.
    `unknown`: as `_unknown_drafter` returns it."""
    drafted = how.speculative.layers if how.speculative and how.speculative.method == "mtp" else 0
    layers = min((model.num_hidden_layers or 0) + drafted, MAX_LAYERS)
    items = [
        (index, Spec(SLIDING if page.window else FULL, page.tokens, page.size, page.window, heads=1))
        for index in range(layers)
        for page in compressed_latents.pages(model, index, how.block_size, how.index_dtype)
    ]
    has_usual_latents = how.kv_cache_dtype in ("auto", "fp8", "fp8_e4m3", "fp8_ds_mla") and not how.backend_named
    known = has_usual_latents and how.manager is True and not how.skipped_layers and unknown == 0
    return Specs(tuple(items), known, sure_blocks=True, packed=True)


EAGLE_LAYERS = 1
"""Decoder layers of a published EAGLE head."""


def _unknown_drafter(model: Model, how: Stored) -> int | None:
    """Bytes per token that the layers of an unknown drafter take at most, beyond those that `_drafted` counts.

    0 if no drafter is unknown, or if its catalog entry is certain. None if its layers have no bound. Only an EAGLE head
    has one: it has at most as many key-value heads as the model has query heads, and as wide ones."""
    speculative = how.speculative
    if speculative is None or speculative.known:
        return 0
    if speculative.method not in ("eagle", "eagle3") or not model.num_attention_heads:
        return None
    if speculative.drafter is not None:
        return 0 if speculative.certain else None
    width = max(
        model.head_dim or 0, (model.qk_nope_head_dim or 0) + (model.qk_rope_head_dim or 0),
        (model.hidden_size or 0) // model.num_attention_heads,
    )  # fmt: skip
    heads = -(-model.num_attention_heads // how.tp)
    return EAGLE_LAYERS * 2 * heads * width * max(2, how.width)


def _kinds(model: Model, last: int) -> Iterator[tuple[int, str]]:
    """(index, kind) of each cache of the layers before `last`; a layer may have two caches, or none."""
    crossed = _cross_tokens(model) > 0
    for index in range(last):
        kind = shape.kind(model, index)
        if kind in shape.STATELESS:
            continue
        yield index, kind
        if model.model_type == "falcon_h1":  # each layer has both kinds
            yield index, "mamba"
        if crossed and kind == FULL:  # for the encoder's keys and values
            yield index, CROSS


class _DraftLayer(NamedTuple):
    """A layer of a drafter."""

    model: Model
    """The model whose sizes it has."""
    settings: Stored
    kind: str
    """One of ATTENTION."""
    bytes_per_token: int


def _drafted(model: Model, how: Stored) -> Iterator[_DraftLayer]:
    """Each layer of the drafter that stores something; none without a drafter, or for layers of unknown size.

    A drafter without a config.json of its own has the sizes of the model, and only full attention. So has a head that
    is a part of a drafter's layers."""
    speculative = how.speculative
    if speculative is None or not speculative.layers:
        return
    drafter = speculative.drafter or model
    own = how._replace(tp=speculative.tp) if speculative.tp and speculative.drafter else how
    is_whole_model = drafter is not model and speculative.layers == drafter.num_hidden_layers
    for index in range(min(speculative.layers, MAX_LAYERS)):
        kind = shape.kind(drafter, index) if is_whole_model else FULL
        size = attention_bytes(drafter, own, kind) if kind in ATTENTION else None
        if size:
            yield _DraftLayer(drafter, own, kind, size)


def _attention(model: Model, how: Stored, kind: str, block: int, per_token: int) -> Spec:
    """The KV cache spec of an attention layer. Before the release that has windows or chunks, and in V0, such a layer
    is stored in full. `block`: tokens; `per_token`: bytes."""
    window = _window(model, kind)
    first = {SLIDING: since.WINDOWS, CHUNKED: since.CHUNKS}.get(kind)  # None: a kind that is never stored in full
    is_full = first is not None and (not window or not how.v1 or how.release < first)
    sizes = shape.head_dims(model, kind) if not model.kv_lora_rank else None
    heads = parallel.key_value_heads(sizes.heads, how.tp) if sizes else 1
    return Spec(FULL if is_full else kind, block, block * per_token, 0 if is_full else window, heads=heads)


def _window(model: Model, kind: str) -> int:
    """Most tokens that a layer of this kind keeps; 0: all, or unknown."""
    if kind == CROSS:
        return _cross_tokens(model)
    if kind == SLIDING:
        return model.sliding_window or 0
    return shape.number(model.config, "attention_chunk_size") or 0 if kind == CHUNKED else 0


CACHED_AT_EACH_BLOCK = frozenset({
    "bamba", "falcon_h1", "falcon_mamba", "granitemoehybrid", "jamba", "mamba", "mamba2", "nemotron_h", "zamba2",
})  # fmt: skip
"""Families whose class inherits SupportsMambaPrefixCaching (vLLM 0.11.1 … 0.31 model_executor/models)."""
DRAFTED_ALIGNED = Release(0, 20), Release(0, 22)
"""The first release whose default with speculative decoding is "align" for these families, too, and the first in which
it is not."""


def state_mode(model: Model, how: Stored) -> str:
    """`mamba_cache_mode`: "none", "align" or "all" (models/config.py MambaModelConfig, since 0.18 in this order)."""
    cached = how.release >= since.STATES_CACHED if how.prefix_caching is None else how.prefix_caching
    if not cached or how.release < since.STATE_PER_BLOCK:
        return "none"
    every = model.model_type in CACHED_AT_EACH_BLOCK and how.release < since.ALIGNED_ONLY
    if how.release < since.MODES:
        return "all" if every else "none"
    if how.state_mode in ("all", "align"):
        return how.state_mode if every else "align"
    if how.release >= since.STATES_CACHED:
        return "align"
    first, last = DRAFTED_ALIGNED
    return "all" if every and not (how.speculative and first <= how.release < last) else "align"


def _state_spec(model: Model, how: Stored, kind: str, block: int, page: int) -> Spec:
    """The spec of a state layer (layers/mamba/abstract.py get_kv_cache_spec, MambaSpec.max_memory_usage_bytes).

    A request has one state, and one more for each speculative token. Prefix caching in mode "all" keeps a state for
    each block, in mode "align" two states: the running one, and that of the last whole block.
    """
    mode, drafted = state_mode(model, how), how.speculative.tokens if how.speculative else 0
    speculative = drafted if how.release >= (since.SPECULATIVE_STATES if mode == "all" else since.MODES) else 0
    if mode == "all" and block:
        return Spec(kind, block, page, states=speculative)
    if mode == "align":
        return Spec(kind, block, page, states=2 + speculative + _checkpoints(model, how, kind), per_block=False)
    return Spec(kind, 0, page, states=1 + speculative, per_block=False)


def _checkpoints(model: Model, how: Stored, kind: str) -> int:
    """Additional states that a layer exports in the middle of a prefill: 1 with a kernel that does, else 0."""
    if kind == "mamba" and (mixer := shape.mamba(model)) and mixer.heads:
        return int(how.release >= since.MAMBA2_CHECKPOINT)
    if kind != "linear_attention":
        return 0
    return int(_prefills_with_flashinfer(model, how) or _prefills_with_flash_kda(model, how))


def _prefills_with_flash_kda(model: Model, how: Stored) -> bool:
    """True if FlashKDA's kernel does the prefill of Kimi-K3's delta attention: on Hopper and Blackwell, with heads of
    128 and a bounded gate (vLLM 0.33 models/kimi_k3/nvidia/kda.py resolve_kda_prefill_backend)."""
    kda, linear = shape.delta_attention(model), model.config.get("linear_attn_config")
    return (
        isinstance(linear, Mapping)
        and how.release >= since.DELTA_ATTENTION_CHECKPOINT
        and how.vendor == "nvidia"
        and how.capability is not None
        and how.capability[0] in OWN_BLOCKS
        and kda is not None
        and kda.width == 128 * kda.heads
        and linear.get("use_full_rank_gate") is True
        and linear.get("gate_lower_bound") is not None
    )


def _prefills_with_flashinfer(model: Model, how: Stored) -> bool:
    """True if FlashInfer's kernel does the prefill of Gated DeltaNet: from 0.33 on Hopper, and on Blackwell with keys
    of 128 and CUDA 13, which vLLM's images have (layers/mamba/gdn/qwen_gdn_linear_attn.py
    _resolve_gdn_prefill_backend)."""
    if how.release < since.DELTA_NET_CHECKPOINT or shape.delta_net(model) is None or how.capability is None:
        return False
    major = how.capability[0]
    return how.vendor == "nvidia" and (
        how.capability == (9, 0) or (major in (10, 12) and shape.number(model.config, "linear_key_head_dim") == 128)
    )


def _block(model: Model, how: Stored, per_token: Mapping[str, int], states: Mapping[str, int]) -> int:
    """Tokens per block. Next to state layers, a block is so long that the smallest page of attention is as large as the
    largest state. `per_token`, `states`: bytes by the kind of layer."""
    latent = bool(model.kv_lora_rank) and how.mla
    base = how.block_size or (_latent_block(model, how) if latent else BLOCK)
    if not states or not per_token:
        return base
    align = _alignment(model, how, base, latent)
    if state_mode(model, how) == "all":  # a state is stored at the end of a chunk
        align = lcm(shape.number(model.config, "mamba_chunk_size", "chunk_size") or CHUNK, align)
    smallest_page = align * min(per_token.values())
    pages_per_state = -(-max(states.values()) // smallest_page)
    return max(base, pages_per_state * align)


CHUNK = 2048
"""Tokens of a Mamba 1 model's chunk (config/model.py get_mamba_chunk_size)."""
PREFERRED = Release(0, 18)
"""From this release on, a block is as large as the attention backend prefers (platforms/interface.py
update_block_size_for_backend). Before, platforms/cuda.py sets the size that some backends for latents need."""
ALIGNED_BY_PLATFORM = Release(0, 20)
"""From this release on, blocks next to state layers are multiples of the backend's block, not of a constant."""


def _latent_block(model: Model, how: Stored) -> int:
    """Tokens per block of latents, by the backend that vLLM prefers on this GPU (platforms/cuda.py)."""
    major = how.capability[0] if how.capability else 0
    if model.index_head_dim:
        return 64  # the sparse backends
    if major == 10:
        return 32 if how.release >= PREFERRED else 128 if how.release >= (0, 10) else BLOCK
    if major == 9:
        quantised = how.kv_cache_dtype.startswith("fp8")
        return 64 if how.release < PREFERRED or quantised else BLOCK  # FlashMLA; FlashAttention's takes 16
    return BLOCK


def _alignment(model: Model, how: Stored, base: int, latent: bool) -> int:
    """The number of tokens of which a block next to state layers is a multiple. `base`: tokens of a block without them;
    `latent`: the attention stores latents."""
    if how.release >= ALIGNED_BY_PLATFORM:
        size = max(base, 128) if latent and how.release >= since.WIDE_LATENT_BLOCKS else base
    elif latent and how.release >= since.STATE_PER_BLOCK:
        size = 64
    elif since.STATE_PER_BLOCK <= how.release < PREFERRED and how.capability and how.capability[0] == 10:
        size = 32 if model.head_dim == 256 else BLOCK  # FlashInfer on Blackwell
    else:
        size = BLOCK
    if state_mode(model, how) == "align" and _prefills_with_flashinfer(model, how):
        size = lcm(size, 64)
    return size


def _sees_both_ways(model: Model) -> bool:
    """True if it is an embedding model of a decoder's family with attention that is not causal. It stores nothing (vLLM
    0.33 layers/attention/attention.py, get_kv_cache_spec; models/config.py, which sets `is_causal` for some)."""
    config = model.config
    return (
        config.get("is_causal") is False
        or config.get("use_bidirectional_attention") is True
        or "bidirec" in (model.model_type or "")
        or any(
            "Bidirectional" in architecture or architecture.startswith("LlamaNemotronVL")
            for architecture in model.architectures
        )
        or "gte-qwen2" in model.id.lower()  # its config.json has is_causal; a row of a library's table may lack it
    )


NOT_DESCRIBED = frozenset({
    "deepseek_ref", "deepseek_v4",  # with sizes that `compressed_latents` does not know
    "deepseek_v41",  # pages of the window that are replayed, ratios of 1 and 2 (vLLM 0.33 models/deepseek_v41)
    "dots3_note",  # latents that are padded to the width of the window's (models/dots3_note/nvidia/model.py)
    "glm5_next", "glm5_next_text",  # keys of pools, and rings (models/glm5next/common/attention.py)
    "hy_v4", "inkling_mm_model", "inkling_text", "step5",  # states of short convolutions, summaries, rings
    "mllama",  # V0's cross attention
    "phi4flash",  # layers that share keys and values
    "qwen4_exp",  # rings, compressed keys, states of n-grams (models/qwen4_exp/common/qsa_cache.py)
})  # fmt: skip
"""Values of `model_type` with caches that are not described here, and the reason."""


def _is_special(model: Model) -> bool:
    """True if its cache is not counted here: compressed states, cross attention, layers that share or differ in
    size."""
    config = model.config
    shared = shape.number(config, "cla_share_factor") or 1
    return (
        "compress_ratios" in config
        or len({block.heads_in_group for block in _nas_blocks(model) if block.heads_in_group > 0}) > 1
        or (shared > 1 and config.get("use_cla") is not False)
        or (config.get("is_encoder_decoder") is True and not _cross_tokens(model))
        or model.model_type in NOT_DESCRIBED
    )


def _nas_blocks(model: Model) -> Iterator[layer_tensors.Block]:
    """The layers of a NAS model; empty for any other."""
    blocks = model.config.get("block_configs")
    for index in range(len(blocks) if isinstance(blocks, list) else 0):
        block = layer_tensors.block(model, index)
        if block is not None:
            yield block


def _cross_tokens(model: Model) -> int:
    """Tokens of the encoder that every request's cross attention stores (Whisper: 1,500 for 30 s); 0 if there are none
    or if unknown."""
    if model.config.get("is_encoder_decoder") is not True:
        return 0
    return shape.number(model.config, "max_source_positions") or 0
