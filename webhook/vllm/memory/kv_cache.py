"""The KV cache: bytes of a token and of a request, blocks, and what vLLM logs of them.

vLLM 0.33 v1/kv_cache_interface.py and v1/core/kv_cache_utils.py. Layers of one kind form groups; every group has its
own blocks from one pool, and a block id costs one page in each of a group's layers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import ceil
from typing import NamedTuple

from webhook.vllm.memory import parallel, parts, shape
from webhook.vllm.memory.arguments import Speculative
from webhook.vllm.memory.settings import Settings
from webhook.vllm.model import Model
from webhook.vllm.release import Release

SOURCE = "vLLM 0.33 v1/kv_cache_interface.py, v1/core/kv_cache_utils.py"
HYBRID_SINCE = Release(0, 9, 1)
"""The hybrid KV cache manager: before, layers with a window are stored like the others."""
ENCODERS = ("bert", "roberta", "xlm-roberta", "modernbert", "nomic_bert", "eurobert", "distilbert", "new", "gte")
"""Encoder-only families: their attention stores nothing."""
ATTENTION = ("full_attention", "sliding_attention", "chunked_attention", "cross_attention")


class Group(NamedTuple):
    """Layers of one kind that share block ids."""

    kind: str
    block_tokens: int
    """Tokens of one block; 0: a block holds a whole state."""
    window: int = 0
    """Tokens that stay: of a sliding window or a chunk, or of the encoder; 0: all of them."""
    states: int = 1
    """Blocks of a request in a group that holds states."""


@dataclass(frozen=True, eq=False)
class Layout:
    """How one rank's KV cache is laid out."""

    groups: tuple[Group, ...]
    bytes_per_block: int
    block_size: int
    bytes_per_token: int
    """Of a long request: what each further token takes."""
    known: bool
    """False: some layer's cache is not described here, so only a part is counted."""
    layers: tuple[tuple[Group, int], ...] = ()
    """A group of each kind, and how many layers are of it."""
    depth: int = 1
    """Layers of a group; one with fewer is padded."""

    def blocks(self, tokens: int, settings: Settings) -> int:
        """Block ids that one request of `tokens` takes."""
        found = 0
        for group, count in self._alike.items():  # no generator: a bisection asks this some twenty times
            found += count * _blocks(group, tokens, settings)
        return found

    @cached_property
    def _alike(self) -> Mapping[Group, int]:
        """Groups of one kind are alike: each is counted once."""
        return Counter(self.groups)

    def bytes(self, tokens: int, settings: Settings) -> int:
        """Bytes that one request of `tokens` takes on this rank."""
        return self.blocks(tokens, settings) * self.bytes_per_block

    def checked(self, tokens: int, settings: Settings, taken: int) -> int:
        """Bytes that one request, which takes `taken`, certainly needs by this release's own check.

        With one group, and from 0.19, what it takes. Before, the check counted layers, not groups padded to a common
        depth (vLLM 0.13 v1/core/kv_cache_utils.py, max_memory_usage_bytes), and on the way (0.14 … 0.18,
        _max_memory_usage_bytes_from_groups) one group alone.
        """
        if len(self.groups) < 2 or settings.release >= PADDED:
            return taken
        page = self.bytes_per_block / self.depth
        layers = sum(count * _blocks(group, tokens, settings) * page for group, count in self.layers)
        alone = min(_blocks(group, tokens, settings) for group in self.groups) * self.bytes_per_block
        return int(layers if settings.release < ONE_GROUP else min(layers, alone))


ONE_GROUP, PADDED = Release(0, 14), Release(0, 19)
"""0.13 counts layers; 0.14.0 … 0.18.0 the first group times the largest one's layers; 0.19.0 all groups."""
ALL_STAGES, OWN_STAGE = Release(0, 14), Release(0, 17)
"""Between them the check holds one request against the layers of the whole model, whatever stages they are cut into
(get_kv_cache_configs: `_max_memory_usage_bytes_from_groups(vllm_config, global_kv_cache_groups)` against
`min(available_memory)`; read in 0.14.0, 0.15.0 and 0.16.0). 0.13 and 0.17.0 ask each worker for its own layers."""
TWO_BATCHES = Release(0, 28)
"""From here two batches are under way: async scheduling."""


def _blocks(group: Group, tokens: int, settings: Settings) -> int:
    block = group.block_tokens
    if not block:
        return group.states
    if group.kind == "cross_attention":
        return -(-group.window // block)
    tokens = tokens if tokens > 1 else 1
    if group.kind == "full_attention":
        tokens = -(-tokens // settings.parallel.context)
        return -(-tokens // block)
    flight = settings.max_num_batched_tokens
    if settings.release >= TWO_BATCHES:
        flight *= 2
    if group.kind == "sliding_attention":
        return -(-min(group.window - 1 + flight, tokens) // block) + 1
    return -(-min(group.window + flight, tokens) // block)


class Stored(NamedTuple):
    """What of the settings decides how the cache is laid out."""

    release: Release
    v1: bool
    tp: int
    width: int
    """Bytes of an activation."""
    kv_cache_dtype: str
    block_size: int | None
    prefix_caching: bool | None
    windows: bool
    speculative: Speculative | None
    state_dtypes: tuple[str | None, str | None]
    skipped_layers: bool
    mla: bool


def stored(settings: Settings) -> Stored:
    """Of these settings."""
    return Stored(
        settings.release, settings.v1, settings.parallel.tp, settings.dtype, settings.kv_cache_dtype,
        settings.block_size, settings.prefix_caching, settings.windows, settings.speculative, settings.state_dtypes,
        settings.skipped_layers, settings.uses_mla,
    )  # fmt: skip


KV_BYTES = {"auto": 2.0, "bfloat16": 2.0, "float16": 2.0, "half": 2.0, "float32": 4.0, "float": 4.0}
PER_HEAD = {  # --kv-cache-dtype → (bytes for each element, bytes for each key or value vector)
    "int8_per_token_head": (1.0, 4.0), "fp8_per_token_head": (1.0, 4.0), "int4_per_token_head": (0.5, 4.0),
    "nvfp4": (0.5 + 1 / 16, 0.0), "nvfp4_4over6": (0.5 + 1 / 16, 0.0),
    "turboquant_k8v4": (0.75, 2.0), "turboquant_4bit_nc": (0.5, 3.0), "turboquant_k3v4_nc": (0.4375, 3.0),
    "turboquant_3bit_nc": (0.375, 3.0), "ultraquant_4bit": (0.5 + 1 / 32, 0.0),
}  # fmt: skip


DTYPES = (*KV_BYTES, "fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc", "fp8_ds_mla", "int8", *PER_HEAD, "nvfp4_ds_mla")
"""Every `--kv-cache-dtype` whose bytes are described here."""


def is_known(dtype: str) -> bool:
    """Whether the bytes of a `--kv-cache-dtype` are described here (0.33 takes names of plugins, too)."""
    return dtype in KV_BYTES or dtype in PER_HEAD or dtype.startswith("fp8") or dtype in ("int8", "nvfp4_ds_mla")


def element_bytes(model: Model, how: Stored) -> tuple[float, float]:
    """(bytes for each element, bytes for each key or value vector) of the cache.

    Under `auto` checkpoints that carry a KV scheme choose for themselves: ModelOpt from 0.11.1, compressed-tensors
    from 0.17; DeepSeek-V3.2-like models take fp8.
    """
    dtype = how.kv_cache_dtype
    if dtype == "auto":
        dtype = _stored_dtype(model, how) or "auto"
    if dtype in PER_HEAD:
        return PER_HEAD[dtype]
    if dtype.startswith("fp8") or dtype in ("int8",):
        return 1.0, 0.0
    if dtype == "auto":
        return float(how.width), 0.0
    return KV_BYTES.get(dtype, 2.0), 0.0


def _stored_dtype(model: Model, how: Stored) -> str | None:
    config = model.quantization_config or {}
    scheme = config.get("kv_cache_scheme")
    method = str(config.get("quant_method") or "")
    algorithm = str(config.get("kv_cache_quant_algo") or "").lower()
    nested = config.get("quantization")
    if not algorithm and isinstance(nested, dict):
        algorithm = str(nested.get("kv_cache_quant_algo") or "").lower()
    since = Release(0, 11, 1) if method.startswith("modelopt") else Release(0, 17)
    if how.release < since:
        return None
    if algorithm in ("fp8", "nvfp4"):
        return algorithm
    if isinstance(scheme, dict):
        return "fp8" if scheme.get("num_bits") == 8 else "nvfp4" if scheme.get("num_bits") == 4 else None
    return None


def attention_bytes(model: Model, how: Stored, kind: str) -> int | None:
    """Bytes of one token in one attention layer of a rank; None where a size is missing."""
    each, vector = element_bytes(model, how)
    if model.kv_lora_rank and not how.mla:
        # whole heads: keys and values padded to 256 (vLLM 0.6 models/deepseek_v2.py), later values to the keys' width
        heads = max(1, (model.num_attention_heads or 1) // how.tp)
        width = (model.qk_nope_head_dim or 0) + (model.qk_rope_head_dim or 0)
        return int(heads * 2 * (width if width and how.release >= (0, 7, 1) else 256) * each)
    if model.kv_lora_rank:
        row = model.kv_lora_rank + (model.qk_rope_head_dim or 0)
        if model.index_head_dim:
            quantised = how.kv_cache_dtype == "auto" or how.kv_cache_dtype.startswith("fp8")
            return (656 if quantised else int(row * each)) + model.index_head_dim + model.index_head_dim // 128 * 4
        if how.kv_cache_dtype == "fp8_ds_mla":
            return 656
        if how.kv_cache_dtype == "nvfp4_ds_mla":
            return 352
        size = int(row * each + vector)
        return -(-size // 256) * 256 if how.release < (0, 8) else size
    sizes = shape.head_dims(model, kind)
    if sizes is None:
        return None
    heads, keys, values = sizes
    heads = parallel.key_value_heads(heads, how.tp)
    return int(heads * ((keys + values) * each + 2 * vector))


STATE_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
"""Of an element of a recurrent state; else the model's dtype."""


def state_bytes(model: Model, how: Stored, kind: str) -> int | None:
    """Bytes of one sequence's state in one layer of a rank (vLLM 0.33 layers/mamba/mamba_utils.py)."""
    tp = how.tp
    draft = how.speculative.tokens if how.speculative and how.speculative.layers else 0
    given, own = how.state_dtypes
    own = own or given or model.config.get("mamba_ssm_dtype", model.config.get("mamba_ssm_cache_dtype"))
    narrow = STATE_BYTES.get(given or "", how.width)
    wide = STATE_BYTES.get(str(own), narrow)
    if kind == "linear_attention":
        if (sizes := shape.delta_net(model)) is not None:
            keys, values, _, kernel = sizes
            key = shape.number(model.config, "linear_key_head_dim") or 128
            convolution = (2 * keys + values) // tp * (kernel - 1 + draft) * narrow
            return convolution + values // tp * key * wide
        if model.kv_lora_rank and (kda := shape.delta_attention(model)) is not None:
            width, heads, kernel = kda
            return 3 * width // tp * (kernel - 1 + draft) * narrow + width // tp * (width // heads) * 4
        if model.num_attention_heads and model.head_dim and not model.kv_lora_rank:
            return model.num_attention_heads // tp * model.head_dim**2 * 4
        return None
    if kind == "mamba":
        mixer = shape.mamba(model)
        if mixer is None:
            return None
        if not mixer.heads:
            return mixer.inner // tp * (mixer.kernel - 1) * narrow + mixer.inner // tp * mixer.state * wide
        groups = max(mixer.groups, tp)
        convolved = (mixer.inner + 2 * groups * mixer.state) // tp
        return convolved * (mixer.kernel - 1 + draft) * narrow + mixer.inner // tp * mixer.state * wide
    if kind == "conv":
        kernel = shape.number(model.config, "conv_L_cache") or 3
        return (model.hidden_size or 0) // tp * (kernel - 1) * narrow
    return None


def layout(model: Model, settings: Settings, first: int = 0, last: int | None = None) -> Layout | None:
    """The layout of the layers `first … last` of one rank; None where nothing is known of them."""
    return _layout(model, stored(settings), first, last)


@lru_cache(256)
def _layout(model: Model, how: Stored, first: int, last: int | None) -> Layout | None:
    layers = model.num_hidden_layers
    if not layers or model.model_type in ENCODERS or _sees_both_ways(model):
        return None
    last = layers if last is None else last
    shared = shape.number(model.config, "num_kv_shared_layers") or 0
    kinds = _kinds(model, first, min(last, layers - shared))
    if last == layers and (drafted := _drafted(model, how)):
        kinds["full_attention"] = kinds.get("full_attention", 0) + drafted
    known = how.speculative is None or how.speculative.known
    if model.model_type == "falcon_h1":  # each layer has both
        kinds["mamba"] = kinds.get("full_attention", 0)
    kinds, known = _described(model, how, kinds, known)
    if _cross_tokens(model) and kinds:  # as many layers again, for the encoder's keys and values
        known = known and how.v1
        kinds["cross_attention"] = kinds.get("full_attention", 0)
    if not kinds:
        return None
    return _grouped(model, how, kinds, known)


def of_check(model: Model, settings: Settings, own: Layout | None) -> Layout | None:
    """The layout that this release's check of one request counts with: the stage's `own`, or the whole model's."""
    if own is None or settings.parallel.pp == 1 or not ALL_STAGES <= settings.release < OWN_STAGE:
        return own
    return layout(model, settings) or own


def _sees_both_ways(model: Model) -> bool:
    """An embedding model of a decoder's family whose attention is not causal: it stores nothing (vLLM 0.33
    layers/attention/attention.py, get_kv_cache_spec; models/config.py, which sets `is_causal` for some)."""
    config = model.config
    return (
        config.get("is_causal") is False
        or config.get("use_bidirectional_attention") is True
        or "bidirec" in (model.model_type or "")
        or any("Bidirectional" in one or one.startswith("LlamaNemotronVL") for one in model.architectures)
        or "gte-qwen2" in model.id.lower()  # its config.json says is_causal; a table's row may lack it
    )


def _drafted(model: Model, how: Stored) -> int:
    """Layers of this model that take as much KV cache as the drafter's."""
    speculative = how.speculative
    if speculative is None or not speculative.layers:
        return 0
    own = attention_bytes(model, how, "full_attention")
    other = attention_bytes(speculative.drafter, how, "full_attention") if speculative.drafter else own
    return ceil(speculative.layers * (other or own or 1) / (own or 1))


def _kinds(model: Model, first: int, last: int) -> dict[str, int]:
    """Kind of layer → how many of the layers `first … last` are of it; those without a cache left out."""
    if last <= first:
        return {}
    if len(model.layer_types) < last:
        return {shape.kind(model, first): last - first}
    kinds = model.layer_types[first:last]
    return {kind: kinds.count(kind) for kind in dict.fromkeys(kinds) if kind not in shape.STATELESS}


def _described(model: Model, how: Stored, kinds: dict[str, int], known: bool) -> tuple[dict[str, int], bool]:
    """Without the kinds whose cache is not described here, and with windows as this release stores them."""
    found: dict[str, int] = {}
    windows = how.windows and (how.release >= HYBRID_SINCE or len(kinds) == 1)
    for kind, count in kinds.items():
        stored = kind
        if kind in ("sliding_attention", "chunked_attention") and not windows:
            stored = "full_attention"
        size = attention_bytes(model, how, kind) if kind in ATTENTION else state_bytes(model, how, kind)
        if size is None or (kind not in ATTENTION and not how.v1):
            known = False
            continue
        found[stored] = found.get(stored, 0) + count
    described = not _is_special(model) and not how.skipped_layers and is_known(how.kv_cache_dtype)
    return found, known and described


def _is_special(model: Model) -> bool:
    """Caches that are not counted here: compressed states, cross attention, layers that share or differ in size."""
    config = model.config
    shared = shape.number(config, "cla_share_factor") or 1
    return (
        "compress_ratios" in config
        or len({one.heads_in_group for one in _nas_blocks(model) if one.heads_in_group > 0}) > 1
        or (shared > 1 and config.get("use_cla") is not False)
        or (config.get("is_encoder_decoder") is True and not _cross_tokens(model))
        or model.model_type in ("deepseek_v4", "deepseek_v41", "mllama", "phi4flash")
    )


def _nas_blocks(model: Model) -> Iterator[parts.Block]:
    """The layers of a NAS model; none of any other."""
    if isinstance(blocks := model.config.get("block_configs"), list):
        yield from (one for index in range(len(blocks)) if (one := parts.block(model, index)) is not None)


def _cross_tokens(model: Model) -> int:
    """Tokens of the encoder that every request's cross attention stores (Whisper: 1,500 for 30 s); 0 where there are
    none or that is not known."""
    if model.config.get("is_encoder_decoder") is not True:
        return 0
    return shape.number(model.config, "max_source_positions") or 0


def _grouped(model: Model, how: Stored, kinds: dict[str, int], known: bool) -> Layout:
    per_token = {kind: attention_bytes(model, how, kind) or 1 for kind in kinds if kind in ATTENTION}
    states = {kind: state_bytes(model, how, kind) or 1 for kind in kinds if kind not in ATTENTION}
    size = how.block_size or 16
    if states:
        step = 128 if model.kv_lora_rank else 16
        largest = max(states.values())
        if per_token:
            size = max(size, ceil(largest / min(per_token.values()) / step) * step)
    widest = max(per_token.values(), default=0)
    page = max(size * widest, max(states.values(), default=0))
    # layers with smaller pages take more tokens a block where the sizes divide
    tokens = {kind: size * (widest // each if widest % each == 0 else 1) for kind, each in per_token.items()}
    least, most = min(kinds.values()), max(kinds.values())
    depth = most if most < least * (1.5 if how.release >= (0, 20) else 1.25) else least
    states_kept = 1 + (1 if how.prefix_caching else 0)
    if how.speculative and how.speculative.layers:
        states_kept += how.speculative.tokens
    one = {kind: Group(kind, tokens.get(kind, 0), _window(model, kind), states_kept) for kind in kinds}
    groups = tuple(one[kind] for kind, count in kinds.items() for _ in range(ceil(count / depth)))
    full = sum(ceil(depth * page / tokens[group.kind]) for group in groups if group.kind == "full_attention")
    layers = tuple((one[kind], count) for kind, count in kinds.items())
    return Layout(groups, depth * page, size, full, known, layers, depth)


def _window(model: Model, kind: str) -> int:
    """Tokens that a group of this kind keeps at most; 0: all."""
    if kind == "cross_attention":
        return _cross_tokens(model)
    if kind == "sliding_attention":
        return model.sliding_window or 0
    return shape.number(model.config, "attention_chunk_size") or 0 if kind == "chunked_attention" else 0


def tokens(available: int, found: Layout, length: int, settings: Settings) -> int:
    """ "GPU KV cache size: N tokens": blocks × block size over the groups; from 0.21 for several groups concurrency ×
    max_model_len."""
    count = max(0, available) // found.bytes_per_block
    if len(found.groups) == 1 and found.groups[0].block_tokens:
        return count * found.groups[0].block_tokens * settings.parallel.context
    if settings.release >= (0, 21) or any(not group.block_tokens for group in found.groups):
        return int(count / found.blocks(length, settings) * length)
    return count // len(found.groups) * found.block_size


def longest(available: int, found: Layout, ceiling: int, settings: Settings) -> int:
    """ "the estimated maximum model length is N": the longest single request that fits, by bisection."""
    if found.bytes(ceiling, settings) <= available:
        return ceiling
    if len(found.groups) == 1 and found.groups[0].kind == "full_attention":
        return max(0, available) // found.bytes_per_block * found.groups[0].block_tokens * settings.parallel.context
    step = min((group.block_tokens for group in found.groups if group.block_tokens), default=1)
    low, high = 0, ceiling // step  # within a block, nothing changes
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if found.bytes(middle * step, settings) <= available else (low, middle - 1)
    return low * step
