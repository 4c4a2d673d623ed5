"""The model's tensors on one rank, as vLLM's "Model loading took N GiB" counts them.

The elements come from `shape`, their total from the checkpoint (safetensors index) if it was read. The difference is
what the formulas leave out (a vision tower, scales). Compared with 65 printed values of releases 0.6 … 0.27, the result
is off by 0.1 % in the median, by 2 % for one in twenty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import NamedTuple

from podfit.kube.quantity import GI, human
from podfit.vllm.memory import rocm, shape, tower
from podfit.vllm.memory.arguments import Lora
from podfit.vllm.memory.estimate import Estimate
from podfit.vllm.memory.layer_tensors import Cut, Group, Layer, LayerTensors
from podfit.vllm.memory.parallel import Parallel
from podfit.vllm.memory.quantisation import DTYPE_BYTES, STORED_BYTES, Scheme
from podfit.vllm.memory.settings import Settings
from podfit.vllm.memory.shape import Shape
from podfit.vllm.model import Model, by_id
from podfit.vllm.release import Release

SOURCE = "vLLM 0.33 model_executor/layers/linear.py, vocab_parallel_embedding.py, fused_moe/config.py"


class Doubt(NamedTuple):
    """How far the likely number of bytes may be off."""

    spread: float
    """The 95 % interval, relative to the likely bytes."""
    least: float
    """The certain share of the likely bytes."""
    below: float | None = None
    """The part of the 95 % interval below the likely bytes, if it is another one than above."""


COUNTED = Doubt(0.006, 0.995)
"""16-bit checkpoints whose formulas agree with the number of parameters: of 40 printed, none below 0.9998 of them."""
WITH_TOWER = Doubt(0.012, 0.985)
"""16-bit checkpoints with a vision tower, some of whose layers are not cut by TP."""
COUNTED_BYTES = Doubt(0.012, 0.985)
"""Quantized checkpoints whose bytes were counted: kernels repack a little. The least of 15 values that vLLM
printed is 0.9988 of the counted bytes."""
ONLINE = Doubt(0.012, 0.97)
"""Quantized while they load: Llama 3.1 8B in FP8 was predicted to 0.1 %."""
DISAGREE = Doubt(0.03, 0.94)
"""The formulas disagree with the number of parameters, which is used."""
SCHEME = Doubt(0.03, 0.95)
"""Quantized as the config says; bytes not counted."""
BLOCKS = Doubt(0.012, 0.985)
"""FP8 in blocks of a plain decoder, bytes not counted. For seven checkpoints with counted bytes (DeepSeek, MiniMax,
Qwen 3) the formulas are off by 0.3 % at most. Hybrids and vision towers, which keep more in 16 bits, are not
included."""
NAMED = Doubt(0.12, 0.86)
"""Quantized as the id says; which layers stay in 16 bits is unknown."""
LISTED_FOUR_BITS, GUESSED_FOUR_BITS, DENSE_FOUR_BITS = 0.06, 0.30, 0.05
"""The fraction that a checkpoint in 4 bits may weigh more than computed. The first has a list of its layers in 16 bits:
-0.1 … 0.3 % were printed. The second has none, and experts, state layers or a vision tower, of which makers leave some
in 8 or 16 bits: -4 … 16 %. The third is a dense model for text, where AWQ and GPTQ leave embedding and head: 0.2 … 1.5
%."""
FOUR_BITS = 0.27
"""The least share of a 16-bit checkpoint that it takes in 4 bits, with scales."""
UNKNOWN_STORAGE = Doubt(0.03, 0.25, below=1 - FOUR_BITS)
"""16 bits are likely, 4 bits are possible: neither index nor size nor the checkpoint's own config.json was read."""
UNCONFIRMED = Doubt(0.25, 0.4, below=0.55)
"""Formulas that no counted model of the family confirms. Without the latent width of its experts, Kimi-K3 was planned
with 1.97 times its weights."""
UNKNOWN_BOTH = Doubt(UNCONFIRMED.spread, UNCONFIRMED.least * UNKNOWN_STORAGE.least, below=1 - (1 - 0.55) * FOUR_BITS)
"""Neither the formulas are confirmed nor the storage is known: the low end of both."""
SIZE = Doubt(0.25, 0.2)
"""The size in a name, rounded."""
SIZE_ALONE = Doubt(0.25, 0.2, below=1 - FOUR_BITS)
"""The size in a name, rounded, without a word for the quantization."""


class WeightSettings(NamedTuple):
    """The settings that decide a checkpoint's bytes."""

    scheme: Scheme | None
    width: int
    """Bytes of an unquantized weight."""
    head: bool
    """The LM head is loaded, because text is generated."""
    mla: bool
    padding: float
    """Factor by which padding enlarges MXFP4's experts."""


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A model's tensors in bytes on the GPU, before they are cut over ranks."""

    counted: Shape
    variants: tuple[Mapping[Cut, float], ...]
    """Per variant of a layer: bytes by how they are cut."""
    embedding: float
    head: float
    tied: bool
    vision: float
    absorbed: float
    """MLA: copies of kv_b in the model's dtype, per layer (vLLM also keeps W_UK and W_UV from 0.7.1)."""
    draft: float
    """Multi-token-prediction layers."""
    draft_doubt: float
    """Bytes by which those may be smaller, because they may be quantized."""
    doubt: Doubt
    proved: bool
    """The formulas agree with the number of parameters. If not, which of the tensors are cut over how many ranks is as
    uncertain as their sum."""

    @property
    def layers(self) -> int:
        """Number of layers."""
        return self.counted.layers

    @cached_property
    def total(self) -> float:
        """Bytes of the whole model, not divided over ranks."""
        body = sum(count * sum(cuts.values()) for cuts, count in zip(self.variants, self.counted.count(), strict=True))
        return self.embedding + self.head + self.vision + body


ENGRAMS = ("engram_layer_ids", "ple_layer_ids")
"""Fields of config.json that name layers with tables of n-grams (DeepSeek-V4.1, Qwen4-Exp). By default vLLM keeps the
tables in pinned host memory (vLLM 0.33 config/engram.py); this module does not describe their size."""


def checkpoint(model: Model, settings: Settings) -> Checkpoint | None:
    """The checkpoint as this engine loads it. None if its size is unknown."""
    how = WeightSettings(
        settings.types.scheme, settings.types.dtype, not settings.pooling, settings.uses_mla, padding(model, settings)
    )
    return _checkpoint(model, how)


@lru_cache(256)
def _checkpoint(model: Model, how: WeightSettings) -> Checkpoint | None:
    """The checkpoint by the formulas of `shape`, corrected by its number of parameters.

    None if the formulas lack a size and the number is unknown, and for models with ENGRAMS, which are not described."""
    if any(model.config.get(field) for field in ENGRAMS):
        return None
    counted = shape.of(model)
    if counted is None:
        return _by_parameters(model, how)
    total = total_elements(model)
    if not total and not counted.known:
        return None
    tied = _is_tied(model, counted, total)
    described = counted.elements - (counted.head if tied else 0)  # by the formulas
    if total and counted.head and not tied and _is_near(total - described, -counted.head, model, counted):
        tied, described = True, described - counted.head  # files without a head: Qwen3 Embedding
    if total:
        correction = _correction(model, counted, total, described, tied=tied)
    else:
        correction = _Correction(vision=tower.parameters(model))
    if not counted.body:  # no layer is described: they share what embedding and head leave
        if not total or total <= described:
            return None
        layers = _even_layers((total - described) // counted.layers, len(counted.order))
        counted = replace(layers, layers=counted.layers, embedding=counted.embedding, head=counted.head)
    return _in_bytes(model, how, counted, correction, tied=tied)


class _Correction(NamedTuple):
    """How a checkpoint's number of parameters corrects the formulas."""

    stretch: float = 1.0
    """Factor of the elements of all layers."""
    vision: int = 0
    """Elements of the vision tower."""
    agrees: bool = False
    """The formulas agree with the number of parameters."""


AGREEING, LARGEST_TOWER = 0.015, 0.6
"""The shares of the described elements by which the counted ones may differ if the formulas agree: without a tower, and
with one, whose elements are the difference (chosen)."""
LEAST_OF_EXTRA, LEAST_OF_TOWER = 0.8, 0.5
"""The shares of the computed prediction layers and of the computed tower that the difference has at least if the files
contain both. Chosen: the formulas of both are rough."""


def _correction(model: Model, counted: Shape, total: int, described: int, *, tied: bool) -> _Correction:
    """The correction by `total` parameters, of which the formulas describe `described`. The difference is the vision
    tower's if the model has one, else it is spread over the layers."""
    difference = total - described
    table = (model.vocab_size or 0) * (model.hidden_size or 0)
    if (tied or not counted.head) and _is_near(difference, table, model, counted):
        difference -= table  # a tied head that is in the files anyway is not loaded: Qwen3 0.6B
    least_with_extra = LEAST_OF_EXTRA * counted.extra + LEAST_OF_TOWER * tower.parameters(model)
    if counted.extra and difference >= least_with_extra:
        difference -= counted.extra  # the files likely contain the multi-token-prediction layers
    if tower.is_there(model) and difference > 0:
        return _Correction(vision=difference, agrees=counted.known and difference < LARGEST_TOWER * described)
    if counted.body and described - counted.body < total:
        stretch = (counted.body + difference) / counted.body
        return _Correction(stretch=stretch, agrees=counted.known and abs(difference) <= AGREEING * described)
    return _Correction()


def _even_layers(each: int, layers: int) -> Shape:
    """Equal layers of `each` elements that tensor parallelism cuts, without embedding and head."""
    return Shape(
        variants=((LayerTensors(each, "column", "mlp"),),),
        order=(0,) * layers,
        layers=layers,
        embedding=0,
        head=0,
        extra=0,
        known=False,
    )


NEAR_TABLE = 0.06
"""The share of a table of embeddings by which a difference may be off and still count as one (chosen)."""


def _is_near(difference: int, table: int, model: Model, counted: Shape) -> bool:
    """True if `difference`, the elements beyond the formulas, is the size of a table of embeddings (`table` elements,
    negative for a missing one), next to the towers' elements. Those of the draft layers may be among them."""
    towers = tower.parameters(model)
    allowed = NEAR_TABLE * abs(table)
    without_draft, with_draft = difference - towers, difference - towers - counted.extra
    return abs(without_draft - table) <= allowed or abs(with_draft - table) <= allowed


NOMINAL_LAYERS = 64
"""Number of layers over which a checkpoint with only a known number of parameters is spread evenly."""


def _by_parameters(model: Model, how: WeightSettings) -> Checkpoint | None:
    """The checkpoint if only a number of parameters is known: a size in a name. None without one."""
    total = total_elements(model)
    if not total:
        return None
    counted = _even_layers(total // NOMINAL_LAYERS, NOMINAL_LAYERS)
    computed = _in_bytes(model, how, counted, _Correction(), tied=False)
    return replace(computed, doubt=SIZE if model.storage_known else SIZE_ALONE)


def total_elements(model: Model) -> int | None:
    """Parameters of the checkpoint, from the best source: its bytes if it is not quantized, else the number that its
    owner states. None if neither is known."""
    if model.quantization_config:
        if model.parameters and model.weights_bytes and model.parameters < PACKED * model.weights_bytes:
            return None  # some tables count packed words as parameters
        return model.parameters
    if model.weights_bytes is None:
        return model.parameters
    stored = model.dtype_parameters
    stored_bytes = sum(STORED_BYTES.get(dtype, 2) * elements for dtype, elements in stored.items())
    if stored and abs(stored_bytes / model.weights_bytes - 1) < SAME_BYTES:
        return sum(stored.values())
    if model.parameters:
        per_parameter = model.weights_bytes / model.parameters
        if any(abs(per_parameter / width - 1) < SAME_WIDTH for width in (2, 4)):
            return model.parameters
    return model.weights_bytes // DTYPE_BYTES.get(model.torch_dtype or "", 2)


PACKED = 0.45
"""Parameters per byte below which a quantized checkpoint's number of parameters can't be right: at 16 bits they are
0.5."""
SAME_BYTES, SAME_WIDTH = 0.005, 0.01
"""Shares by which two sources of a checkpoint's size may differ and still agree: metadata and rounding."""
TIED = 0.01
"""The share by which a number of parameters may differ from that without a head (chosen)."""


def _is_tied(model: Model, counted: Shape, total: int | None) -> bool:
    """True if input and output embeddings are one tensor, as config.json says. A row of a library's table may lack the
    key; then the number of parameters decides."""
    if not counted.head or not total or model.config.get("tie_word_embeddings") is not None:
        return counted.head == 0
    return abs(total - (counted.elements - counted.head)) < TIED * total


GROUPS: tuple[Group, ...] = ("attention", "linear", "mlp", "experts", "shared", "rest")


def _in_bytes(model: Model, how: WeightSettings, counted: Shape, correction: _Correction, *, tied: bool) -> Checkpoint:
    """The checkpoint in bytes: each group's elements × its rate (bytes per element). A quantized checkpoint's counted
    bytes correct the rates."""
    scheme, width = how.scheme, how.width
    rates = {group: correction.stretch * _rate(scheme, group, width) for group in GROUPS}
    vision = correction.vision * _rate(scheme, "vision", width)
    quantized_draft = counted.extra * _rate(scheme, "experts" if model.num_experts else "mlp", width)
    keeps_draft = scheme is not None and _keeps_draft(model, scheme)
    draft = float(counted.extra * width) if keeps_draft else quantized_draft
    scale = None
    if scheme is not None and not scheme.online:
        scale = _scale(model, counted, rates, vision, draft, width, tied=tied)
        if scale is not None:
            rates = {group: rate * scale for group, rate in rates.items()}
    rates["experts"] *= how.padding
    head_rate = scheme.bytes if scheme is not None and scheme.head else width
    return Checkpoint(
        counted=counted,
        variants=tuple([_bytes_by_cut(layer, rates) for layer in counted.variants]),
        embedding=counted.embedding * (scheme.bytes if scheme is not None and scheme.embedding else width),
        head=counted.head * head_rate if how.head and not tied else 0,
        tied=tied,
        vision=vision,
        absorbed=_absorbed_mla(model, how),
        draft=draft,
        draft_doubt=max(0.0, draft - quantized_draft),
        doubt=_doubt(model, scheme, correction, bytes_counted=scale is not None),
        proved=correction.agrees,
    )


def _bytes_by_cut(layer: Layer, rates: Mapping[Group, float]) -> Mapping[Cut, float]:
    """Bytes of a layer's tensors, by how they are cut. `rates`: bytes per element."""
    cuts: dict[Cut, float] = {}
    for part in layer:
        cuts[part.cut] = cuts.get(part.cut, 0.0) + part.elements * rates[part.group]
    return cuts


def _doubt(model: Model, scheme: Scheme | None, correction: _Correction, *, bytes_counted: bool) -> Doubt:
    """The doubt about the computed bytes, the worst reason first. `bytes_counted`: a quantized checkpoint's bytes are
    known and match the formulas."""
    is_confirmed = model.sizes_confirmed or total_elements(model) or model.weights_bytes
    is_stored_in_scheme = scheme is not None and not scheme.online
    if not (model.storage_known or model.weights_bytes or is_stored_in_scheme):
        return UNKNOWN_STORAGE if is_confirmed else UNKNOWN_BOTH
    if not is_confirmed:
        return UNCONFIRMED
    if scheme is None or scheme.online:  # files in 16 bits
        if not correction.agrees:
            return DISAGREE
        if scheme is not None:
            return ONLINE
        return WITH_TOWER if correction.vision else COUNTED
    if bytes_counted:
        return COUNTED_BYTES
    if correction.agrees and not correction.vision and _is_in_blocks(model, scheme):
        doubt = BLOCKS
    else:
        doubt = SCHEME if scheme.is_stated else NAMED
    return _of_four_bits(model, scheme, doubt, correction.vision) if scheme.bytes < 1 else doubt


def _keeps_draft(model: Model, scheme: Scheme) -> bool:
    """True if the layers of multi-token prediction are likely in 16 bits though the scheme is in 4: in NVFP4, and if
    the bytes were counted.

    On a DGX Spark with 0.25.1, Qwen3.8-27B took 1.2 GiB more than its files in INT4 and 0.9 GiB more in NVFP4. Its
    layer takes 0.8 GiB in 16 bits and 0.2 in 4. Two copies made with AWQ and AutoRound left as much for the KV cache as
    with 4 bits. DeepSeek-V4's layer is stored like its others."""
    if scheme.bytes >= 1 or scheme.online or model.model_type == "deepseek_v4":
        return False
    return scheme.name == "NVFP4" or model.weights_bytes is not None


def _is_in_blocks(model: Model, scheme: Scheme) -> bool:
    """True if the checkpoint is in fp8 with block scales, and all of its layers are of the usual kinds."""
    config = model.quantization_config or {}
    has_blocks = config.get("quant_method") == "fp8" and config.get("weight_block_size") is not None
    return has_blocks and scheme.experts is None and USUAL_LAYERS.issuperset(model.layer_types)


USUAL_LAYERS = frozenset({"full_attention", "sliding_attention"})
"""Kinds of layers that makers quantize as a whole."""


def _rate(scheme: Scheme | None, group: str, width: int) -> float:
    """Bytes per element of a group of tensors. The share that the scheme leaves unquantized takes `width` bytes."""
    if scheme is None:
        return width
    kept = scheme.share_kept(group)
    quantized = scheme.experts if scheme.experts is not None and group == "experts" else scheme.bytes
    return kept * width + (1 - kept) * quantized


def _of_four_bits(model: Model, scheme: Scheme, doubt: Doubt, vision: int) -> Doubt:
    """The doubt about a checkpoint in 4 bits whose bytes were not counted: it may rather be heavier than computed.
    Unchanged if only the experts are in 4 bits. `vision`: elements of the tower."""
    if scheme.experts_only:
        return doubt
    has_other_layers = not USUAL_LAYERS.issuperset(model.layer_types)
    if scheme.is_stated:
        above = LISTED_FOUR_BITS
    elif model.num_experts or vision or has_other_layers:
        above = GUESSED_FOUR_BITS
    else:
        above = DENSE_FOUR_BITS
    return Doubt(max(doubt.spread, above), doubt.least, below=max(doubt.spread, BELOW_FOUR_BITS))


BELOW_FOUR_BITS = 0.06
"""The fraction that a checkpoint in 4 bits may weigh less than computed: -4 % was the least that was printed."""


def _scale(
    model: Model,
    counted: Shape,
    rates: Mapping[Group, float],
    vision: float,
    draft: float,
    width: int,
    *,
    tied: bool,
) -> float | None:
    """Ratio of a quantized checkpoint's counted bytes to the formulas' bytes, for its layers. None if the bytes were
    not counted or the two differ too much to be of the same tensors. `vision`, `draft`: bytes; `rates`: bytes per
    element."""
    if not model.weights_bytes:
        return None
    body = sum(
        count * sum(part.elements * rates[part.group] for part in layer)
        for layer, count in zip(counted.variants, counted.count(), strict=True)
    )
    if not body:
        return None
    tables = (counted.embedding + (0 if tied else counted.head)) * width
    counted_body = model.weights_bytes - vision - tables
    off, off_without_draft = abs(counted_body - body), abs(counted_body - draft - body)
    if counted.extra and off_without_draft < min(off, WITH_DRAFT * body):
        counted_body -= draft  # the counted bytes include the multi-token-prediction layers
    ratio = counted_body / body
    return ratio if LEAST_RATIO < ratio < MOST_RATIO else None


WITH_DRAFT = 0.03
"""The share by which counted bytes without the draft layers may differ from the formulas' if they include these
layers (chosen)."""
LEAST_RATIO, MOST_RATIO = 0.6, 1.6
"""Beyond these ratios, counted bytes and formulas are taken to be of other tensors (chosen)."""


FLASHINFER_EXPERTS = Release(0, 17)
"""Since then FlashInfer's kernel runs the FP8 experts of Nemotron-3-Nano, whose width becomes a multiple of 128: 31.40
GiB were printed on 0.18 and 0.19, 30.52 on 0.13 and 0.14. Nemotron-3-Super over 2 GPUs shows no such padding."""


def padding(model: Model, settings: Settings) -> float:
    """The factor by which vLLM pads experts when it loads them; 1.0 if it pads none.

    MXFP4 (vLLM quantization/mxfp4.py): the hidden size becomes a multiple of 256, and on Marlin (before Hopper) each
    rank's width a multiple of 128. FP8: see FLASHINFER_EXPERTS.
    """
    scheme, capability = settings.types.scheme, settings.gpu.capability
    if scheme is None or not model.hidden_size:
        return 1.0
    if scheme.name == "FP8" and model.model_type == "nemotron_h" and settings.gpu.vendor == "nvidia":
        width = (model.moe_intermediate_size or 0) // settings.parallel.experts
        is_padded = settings.release >= FLASHINFER_EXPERTS and not model.config.get("moe_latent_size")
        return _padded(width, 128) if is_padded else 1.0
    if scheme.name != "MXFP4":
        return 1.0
    width = (model.moe_intermediate_size or model.intermediate_size or 0) // settings.parallel.experts
    has_marlin = capability is not None and capability < (9, 0) and not settings.parallel.expert
    return _padded(model.hidden_size, 256) * (_padded(width, 128) if has_marlin else 1.0)


def _padded(width: int, multiple: int) -> float:
    """The factor by which a width grows to a multiple; 1.0 for an unknown width (0), and for 1."""
    return -(-width // multiple) * multiple / width if width > 1 else 1.0


def _absorbed_mla(model: Model, how: WeightSettings) -> float:
    """Bytes of MLA's matrices that vLLM keeps a second time in absorbed form: per layer, of all heads. 0 without
    MLA."""
    if not model.kv_lora_rank or not model.num_attention_heads or not how.mla:
        return 0.0
    width = (model.qk_nope_head_dim or 0) + (model.v_head_dim or 0)
    return model.kv_lora_rank * model.num_attention_heads * width * how.width


THREE_AXES = ("qwen2_vl", "qwen2_5_vl", "qwen2_5_omni", "qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe", "glm4v")
"""Families with M-RoPE, whose table has four times the positions (layers/rotary_embedding/mrope.py)."""
MAX_SCALING = 64.0
"""A larger factor in config.json counts as this one, so that a wrong file makes no absurd table."""


@lru_cache(256)
def rotary_cache(model: Model, element: int) -> int:
    """Bytes of the table of cosines and sines: positions × rotated width, once per kind of layer (vLLM 0.33
    layers/rotary_embedding); 0 if a size is unknown. `element`: bytes per element. Examples: 32 MiB for Llama 3.1, 0.5
    GiB for Gemma 3 4B."""
    positions = model.max_position_embeddings or 0
    width = (model.qk_rope_head_dim if model.kv_lora_rank else model.head_dim) or 0
    partial = model.config.get("partial_rotary_factor")
    if isinstance(partial, int | float) and 0 < partial < 1:
        width = int(width * partial)
    unscaled = positions * width * element
    has_local_table = "sliding_attention" in model.layer_types and "rope_local_base_freq" in model.config  # Gemma 3
    return int(unscaled * _rotary_scaling(model)) + (unscaled if has_local_table else 0)


def _rotary_scaling(model: Model) -> float:
    """The factor by which the rotary table has more positions than the model: linear and dynamic scaling multiply them,
    M-RoPE uses four times as many. 1 for others."""
    scaling = model.config.get("rope_scaling")
    scaling = scaling if isinstance(scaling, Mapping) else {}
    rope_type, factor = scaling.get("rope_type") or scaling.get("type"), scaling.get("factor")
    if rope_type in ("linear", "dynamic") and isinstance(factor, int | float):
        return max(1.0, min(float(factor), MAX_SCALING))
    return 4.0 if model.model_type in THREE_AXES or "mrope_section" in scaling else 1.0


MISTRAL_FIRST, MISTRAL_CUT = Release(0, 12), Release(0, 22)
"""From the first on, vLLM prefers a repository's params.json to its config.json (0.12 transformers_utils/config.py, not
0.11.2). The vision tower of that format is on every rank until the second (0.19.1 and 0.22 models/pixtral.py)."""


def has_whole_tower(model: Model, release: Release) -> bool:
    """True if every rank likely has the whole vision tower: repositories in Mistral's own format, and their mirrors."""
    if not model.vision_config or model.vision_config.get("model_type") != "pixtral":
        return False
    owner, _, name = model.id.partition("/")
    original = owner == "mistralai" or by_id(f"mistralai/{name}") is not None
    return original and MISTRAL_FIRST <= release < MISTRAL_CUT


class Placed(NamedTuple):
    """The settings that decide which of the tensors are on a rank."""

    cut: Parallel
    width: int
    """Bytes of an unquantized weight."""
    vision: bool
    vision_replicated: bool
    mtp: bool
    """Multi-token prediction is on."""
    release: Release
    padded: rocm.Padded | None
    """None: the GPU is not AMD's."""


def placed(settings: Settings) -> Placed:
    """The settings that `of_stage` and `line` read."""
    speculative = settings.speculative
    mtp = speculative is not None and speculative.method == "mtp"
    on_amd = rocm.padded(dict(settings.kernels.variables)) if settings.gpu.vendor == "amd" else None
    return Placed(
        cut=settings.parallel,
        width=settings.types.dtype,
        vision=settings.multimodal.vision,
        vision_replicated=settings.multimodal.vision_replicated,
        mtp=mtp,
        release=settings.release,
        padded=on_amd,
    )


def vision_on_rank(checkpoint: Checkpoint, model: Model, how: Placed) -> float:
    """Bytes of the vision tower on a rank of the first stage: cut by TP, or whole with `--mm-encoder-tp-mode data`. 0
    if it is not loaded."""
    if not how.vision:
        return 0.0
    is_whole = how.vision_replicated or has_whole_tower(model, how.release)
    return checkpoint.vision if is_whole else checkpoint.vision / how.cut.tp


def kept_on_rocm(checkpoint: Checkpoint, model: Model, how: Placed, stage: int, scheme: Scheme | None) -> rocm.Growth:
    """Bytes that the weights of a stage take on an AMD GPU beyond their own; 0 on other GPUs. They are the allocator's,
    and the padding of experts in 16 bits or of linear layers in FP8."""
    if how.padded is None:
        return rocm.Growth(0.0, 0.0)
    likely = most = (rocm.WITH_EXPERTS if model.num_experts else rocm.DENSE) * GI
    first, last = how.cut.stage(stage, checkpoint.layers)
    counts = checkpoint.counted.count(first, last)  # of each variant
    if scheme is None and model.num_experts and how.padded.experts:
        layer = rocm.experts_of_layer(model, how.cut, how.width, shuffled=how.padded.shuffled)
        layers_with_experts = 0
        for count, variant in zip(counts, checkpoint.counted.variants, strict=True):
            if any(part.cut == "experts" for part in variant):
                layers_with_experts += count
        likely, most = likely + layers_with_experts * layer.likely, most + layers_with_experts * layer.most
    if scheme is not None and how.padded.linear and (model.quantization_config or {}).get("quant_method") == "fp8":
        linear = sum(
            count * sum(size for cut, size in cuts.items() if cut in ("column", "key-value"))
            for cuts, count in zip(checkpoint.variants, counts, strict=True)
        )
        padding_of_linear = rocm.FP8_LINEAR * linear / how.cut.tp
        likely, most = likely + padding_of_linear, most + padding_of_linear
    return rocm.Growth(likely, most)


def _of_layers(checkpoint: Checkpoint, model: Model, cut: Parallel, first: int, last: int) -> float:
    """Bytes of the layers on one rank, from `first` up to, but without, `last`."""
    ranks: Mapping[Cut, int] = {
        "column": cut.tp,
        "key-value": min(cut.tp, model.num_key_value_heads or cut.tp),
        "whole": 1,
        "experts": cut.experts,
    }
    counts = checkpoint.counted.count(first, last)
    return sum(
        count * sum(size / ranks[divided] for divided, size in cuts.items())
        for cuts, count in zip(checkpoint.variants, counts, strict=True)
    )


def _cut_evenly(checkpoint: Checkpoint, model: Model, how: Placed, stage: int) -> float:
    """Bytes by which a rank of a pipeline stage has less, if all tensors of its layers are cut over as many ranks as
    the one that is cut most. At least 0."""
    cut = how.cut
    first, last = cut.stage(stage, checkpoint.layers)
    counts = checkpoint.counted.count(first, last)
    total = sum(count * sum(cuts.values()) for cuts, count in zip(checkpoint.variants, counts, strict=True))
    return max(0.0, _of_layers(checkpoint, model, cut, first, last) - total / max(cut.tp, cut.experts))


@lru_cache(256)
def of_stage(checkpoint: Checkpoint, model: Model, how: Placed, stage: int) -> float:
    """Bytes on one rank of a pipeline stage: its layers and rotary table. The first stage adds the embedding and the
    vision tower, the last one the head, the embedding if the head is tied to it, and draft layers."""
    cut = how.cut
    first, last = cut.stage(stage, checkpoint.layers)
    total = _of_layers(checkpoint, model, cut, first, last) + (last - first) * checkpoint.absorbed / cut.tp
    at_end = stage == cut.pp - 1
    if stage == 0:
        total += checkpoint.embedding / cut.tp + vision_on_rank(checkpoint, model, how)
    elif at_end and checkpoint.tied:
        total += checkpoint.embedding / cut.tp
    if at_end:
        total += checkpoint.head / cut.tp
        if how.mtp:
            total += checkpoint.draft / (cut.experts if model.num_experts else cut.tp)
    return total + rotary_cache(model, how.width)


def least_in_layers(checkpoint: Checkpoint, model: Model, how: Placed) -> float:
    """Bytes that are certainly in the layers of every rank: without embedding, head, tower and rotary table.

    All of these are subtracted from every stage, although a stage has only some: the result is a minimum. The first and
    the last stage and the one with the fewest layers may have the least."""
    cut = how.cut
    outside = (
        (checkpoint.embedding + checkpoint.head) / cut.tp
        + vision_on_rank(checkpoint, model, how)
        + rotary_cache(model, how.width)
    )
    stages = {0, cut.emptiest(checkpoint.layers), cut.pp - 1}
    least = min([of_stage(checkpoint, model, how, stage) - outside for stage in stages])
    return max(0.0, checkpoint.doubt.least * least)


def lora(model: Model, slots: Lora | None, cut: Parallel, width: int) -> float:
    """Bytes of LoRA slots on a rank: for each adapted linear layer max_loras × rank × (inputs + outputs); A whole, B
    cut by TP unless `--fully-sharded-loras` (vLLM 0.33 lora/layers). `width`: bytes of an element. 0 without adapters,
    or if a size is unknown."""
    if slots is None or not model.hidden_size or not model.num_hidden_layers:
        return 0.0
    hidden, inner, tp = model.hidden_size, model.intermediate_size or 4 * model.hidden_size, cut.tp
    heads = (model.num_attention_heads or 1) * (model.head_dim or 0)
    groups = (model.num_key_value_heads or 1) * (model.head_dim or 0)
    # queries, keys, values, gate and up read hidden states; output and down write them
    inputs = 5 * hidden + (heads + inner) / tp
    outputs = 2 * hidden + (heads + 2 * groups + 2 * inner) / tp
    if slots.sharded:
        inputs /= tp
    layers = model.num_hidden_layers / cut.pp
    return slots.slots * slots.rank * (inputs + outputs) * width * layers


def line(checkpoint: Checkpoint, model: Model, settings: Settings, stage: int) -> Estimate:
    """Weights of one rank of `stage`. `floor`: what is certainly loaded."""
    return _line(checkpoint, model, placed(settings), stage, settings.types.scheme, settings.lora, settings.cpu_offload)


UNSURE = 0.3
"""The share by which LoRA slots and ROCm's additional bytes may be off either way, and the GiB by which the latter may
be off in addition (both assumed)."""


@lru_cache(256)
def _line(
    checkpoint: Checkpoint,
    model: Model,
    how: Placed,
    stage: int,
    scheme: Scheme | None,
    slots: Lora | None,
    offload: int,
) -> Estimate:
    """The ledger line of the weights on one rank of a pipeline stage. `slots`: of LoRA, None without adapters;
    `offload`: bytes in host memory, at most."""
    cut, doubt = how.cut, checkpoint.doubt
    loaded = of_stage(checkpoint, model, how, stage)
    adapters = lora(model, slots, cut, how.width)
    kept = kept_on_rocm(checkpoint, model, how, stage, scheme)
    likely = loaded + adapters + kept.likely
    # bytes that may be missing: cut over more ranks than assumed, or draft layers that are quantized
    less = 0.0 if checkpoint.proved else _cut_evenly(checkpoint, model, how, stage)
    if how.mtp and stage == cut.pp - 1:
        less += checkpoint.draft_doubt / (cut.experts if model.num_experts else cut.tp)
    uncertain = vision_on_rank(checkpoint, model, how) if stage == 0 else 0.0  # a tower may be smaller
    floor = doubt.least * (loaded - less - uncertain)
    if offload:
        likely = max(0.0, likely - offload)
        floor = max(0.0, floor - offload)
    above = doubt.spread * loaded
    below = above if doubt.below is None else doubt.below * loaded
    unsure = UNSURE * (adapters + kept.likely) + (UNSURE * GI if kept.likely else 0.0)
    tower_rest = 0.0  # bytes less if this rank has only its part of the tower
    if stage == 0 and has_whole_tower(model, how.release):
        tower_rest = checkpoint.vision - checkpoint.vision / cut.tp
    low = max(0.0, likely - below - less - unsure - tower_rest)
    high = likely + above + unsure + kept.most - kept.likely
    note = _note(checkpoint, how, scheme, adapters=adapters, kept=kept.likely, offload=offload)
    return Estimate(int(min(floor, low)), int(low), int(likely), int(high), note, SOURCE)


def _note(
    checkpoint: Checkpoint, how: Placed, scheme: Scheme | None, *, adapters: float, kept: float, offload: int
) -> str:
    """The arithmetic of the line, for people. `adapters`, `kept` (by ROCm), `offload`: bytes, not mentioned if 0."""
    note, gpus = human(checkpoint.total), how.cut.tp * how.cut.pp
    if gpus > 1:
        note += f" over {gpus} GPUs"
    if scheme:
        note += f", {scheme.name}"
    elif how.width == 4:
        note += " in float32"
    if adapters:
        note += f", {human(adapters)} LoRA slots"
    if kept:
        note += f", {human(kept)} for padding and the allocator"
    if offload:
        note += f", up to {human(offload)} offloaded to the host"
    return note


def heaviest(checkpoint: Checkpoint, settings: Settings) -> Sequence[int]:
    """The pipeline stages that may have the least room, by index: the first, the last and the one with the most
    layers."""
    cut = settings.parallel
    return (0,) if cut.pp == 1 else sorted({0, cut.fullest(checkpoint.layers), cut.pp - 1})
