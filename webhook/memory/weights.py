"""The model's tensors on one rank, as vLLM's "Model loading took N GiB" counts them.

Elements come from `shape`, their total from the checkpoint (safetensors index) where that was read: what the formulas
do not name (a vision tower, scales) is the difference. Checked on 100 start-ups of releases 0.8 … 0.27: exact to 0.3 %
for 16-bit checkpoints.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from webhook.memory import parallel, shape
from webhook.memory.ledger import Line
from webhook.memory.quantisation import DTYPE_BYTES, STORED_BYTES
from webhook.memory.settings import Settings
from webhook.memory.shape import Shape
from webhook.model import Model
from webhook.quantity import GI, human
from webhook.release import Release

SOURCE = "vLLM 0.33 model_executor/layers/linear.py, vocab_parallel_embedding.py, fused_moe/config.py"
VOCABULARY_MULTIPLE = 64
"""vocab_parallel_embedding.py, DEFAULT_VOCAB_PADDING_SIZE."""


THREE_AXES = ("qwen2_vl", "qwen2_5_vl", "qwen2_5_omni", "qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe", "glm4v")
"""Families with M-RoPE, whose table covers four times the positions (layers/rotary_embedding/mrope.py)."""


@dataclass(frozen=True)
class Checkpoint:
    """A model's tensors by where they go, in bytes on the GPU before they are cut over ranks."""

    layers: tuple[tuple[float, float, float, float], ...]
    """For each layer: bytes cut by TP, by KV heads, whole on each rank, and of routed experts."""
    embedding: float
    head: float
    vision: float
    absorbed: float
    """MLA: copies of kv_b in the model's dtype, a layer (vLLM keeps W_UK and W_UV beside it from 0.7.1)."""
    draft: float
    tied: bool
    exact: bool
    """The checkpoint's bytes were counted, or the formulas agree with the number of its parameters."""
    spread: float
    """Relative doubt of the total."""
    least: float
    """Share of the likely bytes that are certainly there."""


def checkpoint(model: Model, settings: Settings) -> Checkpoint | None:
    """The checkpoint as this engine loads it; None where not even its size can be known."""
    counted = shape.of(model)
    if counted is None:
        return None
    total = total_elements(model)
    tied = counted.head == 0
    if not tied and total and model.config.get("tie_word_embeddings") is None:
        # a table's row may lack the key: the number of parameters tells
        tied = abs(total - (counted.elements - counted.head)) < 0.01 * total
    head = 0 if tied or settings.pooling else counted.head
    body = sum(part.elements for layer in counted.layers for part in layer)
    plain = counted.embedding + (0 if tied else counted.head) + body
    agrees = bool(total) and counted.known and abs(total - plain - _drafted(model, total, plain, counted)) <= 0.015 * plain
    stretch, vision = 1.0, 0
    if total:
        rest = total - plain
        if rest > 0 and counted.extra and rest >= 0.8 * counted.extra + 0.5 * _vision_estimate(model):
            rest -= counted.extra
        if model.vision_config and rest > 0:
            vision, agrees = rest, counted.known and rest < 0.6 * plain
        elif counted.known and abs(rest) <= 0.02 * plain:
            stretch = 1 + rest / body if body else 1.0
        elif body and counted.embedding + head < total:
            stretch = (total - counted.embedding - (0 if tied else counted.head)) / body
    elif model.vision_config:
        vision = _vision_estimate(model)
    if not total and not counted.known:
        return None
    if not body and total:  # no layer is described: the checkpoint's bytes are spread evenly over them
        each = (total - counted.embedding - head) / max(1, len(counted.layers))
        counted = Shape((((shape.Part(int(each), "column", "mlp")),),) * len(counted.layers), counted.embedding, head, 0, False)
        stretch = 1.0
    return _in_bytes(model, settings, counted, head, vision, stretch, agrees, tied)


def total_elements(model: Model) -> int | None:
    """Parameters of the checkpoint, from the surest source: its bytes where it is not quantised, else the number that
    its owner states. None where neither is known."""
    if not model.quantization_config and model.weights_bytes:
        stored = model.dtype_parameters
        width = DTYPE_BYTES.get(model.torch_dtype or "", 2)
        if stored and abs(sum(STORED_BYTES.get(k, 2) * n for k, n in stored.items()) / model.weights_bytes - 1) < 0.005:
            return sum(stored.values())
        if model.parameters and abs(model.weights_bytes / model.parameters / width - 1) < 0.01:
            return model.parameters
        return model.weights_bytes // width
    if model.parameters and model.quantization_config and model.dtype_parameters and model.weights_bytes:
        # some tables state packed words as parameters
        if model.parameters < 0.9 * model.weights_bytes / 2:
            return None
    return model.parameters


def _drafted(model: Model, total: int | None, plain: int, counted: Shape) -> int:
    return counted.extra if total and total - plain >= 0.8 * counted.extra else 0


def _vision_estimate(model: Model) -> int:
    """Parameters of a vision transformer: 12 hidden² a layer where its MLP is 4 times as wide."""
    config = model.vision_config or {}
    depth = shape.number(config, "depth", "num_hidden_layers", "layers")
    hidden = shape.number(config, "hidden_size", "width", "embed_dim")
    if not depth or not hidden:
        return 0
    inner = shape.number(config, "intermediate_size") or 4 * hidden
    return depth * (4 * hidden * hidden + 2 * hidden * inner) + 4 * hidden * (model.hidden_size or hidden)


def _in_bytes(
    model: Model, settings: Settings, counted: Shape, head: int, vision: int, stretch: float, agrees: bool, tied: bool
) -> Checkpoint:
    scheme, width = settings.scheme, settings.dtype
    spread, least = (0.006, 0.99) if agrees else (0.03, 0.94)
    if scheme is None:
        rates: dict[str, float] = {}
        quantised_vision = float(width)
        head_bytes = head * width
    else:
        rates = {
            group: scheme.share_kept(group) * width + (1 - scheme.share_kept(group)) * scheme.bytes * _padding(model, settings, group)
            for group in ("attention", "linear", "mlp", "experts", "shared", "rest")
        }
        quantised_vision = scheme.share_kept("vision") * width + (1 - scheme.share_kept("vision")) * scheme.bytes
        head_bytes = head * width
        spread, least = max(spread, 0.02), min(least, 0.95)
    vision_bytes = vision * quantised_vision

    def rate(group: str) -> float:
        return rates.get(group, float(width))

    draft = counted.extra * (rate("experts") if model.num_experts else rate("mlp"))
    exact = agrees
    scale = 1.0
    if scheme is not None and not scheme.online and model.weights_bytes:
        # the bytes are counted: what is quantised takes what the rest leaves
        firm = (counted.embedding + head) * width + vision_bytes
        loose = sum(part.elements * stretch * _unpadded(rate, model, settings, part.group) for layer in counted.layers for part in layer)
        left = model.weights_bytes - firm
        if counted.extra and left - draft > 0.97 * loose:
            left -= draft
        if loose > 0 and 0.6 < left / loose < 1.6:
            scale, exact = left / loose, True
            spread, least = 0.012, 0.985
        else:
            exact, spread, least = False, 0.08, 0.85
    elif scheme is not None and not scheme.online:
        # the scheme is named, its exceptions perhaps not: embeddings aside, at most all layers stay in 16 bit
        spread, least = (0.04, 0.93) if scheme.said else (0.10, 0.88)
    layers = []
    for layer in counted.layers:
        cuts = {"column": 0.0, "key-value": 0.0, "whole": 0.0, "experts": 0.0}
        for part in layer:
            cuts[part.cut] += part.elements * stretch * scale * rate(part.group)
        layers.append((cuts["column"], cuts["key-value"], cuts["whole"], cuts["experts"]))
    return Checkpoint(
        layers=tuple(layers),
        embedding=counted.embedding * width,
        head=head_bytes,
        vision=vision_bytes,
        absorbed=_absorbed(model, settings),
        draft=draft,
        tied=tied,
        exact=exact,
        spread=spread,
        least=least,
    )


def _unpadded(rate: object, model: Model, settings: Settings, group: str) -> float:
    assert callable(rate)
    return float(rate(group)) / _padding(model, settings, group)


def _padding(model: Model, settings: Settings, group: str) -> float:
    """MXFP4 experts are padded when they are loaded (vLLM quantization/mxfp4.py): the hidden size to a multiple of
    256, and on Marlin (before Hopper) each rank's width to a multiple of 128."""
    if group != "experts" or settings.scheme is None or settings.scheme.name != "MXFP4" or not model.hidden_size:
        return 1.0
    factor = -(-model.hidden_size // 256) * 256 / model.hidden_size
    width = model.moe_intermediate_size or model.intermediate_size or 0
    each = max(1, width // settings.parallel.experts)
    if settings.capability and settings.capability < (9, 0) and not settings.parallel.expert and each > 1:
        factor *= -(-each // 128) * 128 / each
    return factor


def _absorbed(model: Model, settings: Settings) -> float:
    if not model.kv_lora_rank or not model.num_attention_heads or not uses_mla(settings):
        return 0.0
    width = (model.qk_nope_head_dim or 0) + (model.v_head_dim or 0)
    return model.kv_lora_rank * model.num_attention_heads * width * settings.dtype


def uses_mla(settings: Settings) -> bool:
    """Multi-head latent attention stores latents from 0.7.1; before, and with VLLM_MLA_DISABLE=1, whole heads."""
    return settings.release >= Release(0, 7, 1) and settings.env.get("VLLM_MLA_DISABLE") != "1"


def rotary_cache(model: Model, settings: Settings) -> int:
    """The table of cosines and sines: positions × rotated width in the model's dtype, once for each kind of layer
    (vLLM 0.33 layers/rotary_embedding). Linear and dynamic scaling multiply the positions, M-RoPE takes four times."""
    positions = model.max_position_embeddings or 0
    width = model.qk_rope_head_dim if model.kv_lora_rank else model.head_dim
    if not positions or not width:
        return 0
    config = model.config
    partial = config.get("partial_rotary_factor")
    if isinstance(partial, int | float) and 0 < partial < 1:
        width = int(width * partial)
    scaling = config.get("rope_scaling")
    kind, factor = None, 1.0
    if isinstance(scaling, dict):
        kind = scaling.get("rope_type") or scaling.get("type")
        factor = scaling["factor"] if isinstance(scaling.get("factor"), int | float) else 1.0
    if kind in ("linear", "dynamic"):
        positions = int(positions * max(1.0, min(float(factor), 64.0)))
    elif model.model_type in THREE_AXES or (isinstance(scaling, dict) and "mrope_section" in scaling):
        positions *= 4
    table = positions * width * settings.dtype
    if "sliding_attention" in model.layer_types and model.model_type not in ("gpt_oss",):
        table += (model.max_position_embeddings or 0) * width * settings.dtype
    return table


def of_stage(found: Checkpoint, model: Model, settings: Settings, stage: int) -> float:
    """Bytes on one rank of a pipeline stage."""
    cut = settings.parallel
    first, last = cut.stages(len(found.layers))[stage]
    heads = min(cut.tp, model.num_key_value_heads or cut.tp)
    column = key_value = whole = experts = 0.0
    for layer in found.layers[first:last]:
        column += layer[0]
        key_value += layer[1]
        whole += layer[2]
        experts += layer[3]
    total = column / cut.tp + key_value / heads + whole + experts / cut.experts + (last - first) * found.absorbed / cut.tp
    ends = stage == cut.pp - 1
    if stage == 0 or (found.tied and ends):
        total += found.embedding / cut.tp
    if ends:
        total += found.head / cut.tp
        if settings.speculative and settings.speculative.method == "mtp":
            total += found.draft / (cut.experts if model.num_experts else cut.tp)
    if stage == 0:
        total += vision_on_rank(found, settings)
    return total + rotary_cache(model, settings)


def vision_on_rank(found: Checkpoint, settings: Settings) -> float:
    """The vision tower on a rank of the first stage: cut by TP, or whole with `--mm-encoder-tp-mode data`."""
    if not settings.vision:
        return 0.0
    return found.vision / (1 if settings.vision_replicated else settings.parallel.tp)


def lora(model: Model, settings: Settings) -> float:
    """LoRA slots: for each adapted linear layer max_loras × rank × (inputs + outputs); A whole, B cut by TP unless
    `--fully-sharded-loras` (vLLM 0.33 lora/layers)."""
    if settings.lora is None or not model.hidden_size or not model.num_hidden_layers:
        return 0.0
    hidden, inner = model.hidden_size, model.intermediate_size or 4 * model.hidden_size
    heads = (model.num_attention_heads or 1) * (model.head_dim or 0)
    groups = (model.num_key_value_heads or 1) * (model.head_dim or 0)
    tp = settings.parallel.tp
    inputs = 3 * hidden + heads / tp + 2 * hidden + inner / tp
    outputs = (heads + 2 * groups) / tp + hidden + 2 * inner / tp + hidden
    if settings.lora.sharded:
        inputs /= tp
    per_layer = settings.lora.rank * (inputs + outputs) * 2
    slots = settings.lora.slots + (1 if settings.release < Release(0, 6) else 0)
    return slots * per_layer * model.num_hidden_layers / settings.parallel.pp


def line(found: Checkpoint, model: Model, settings: Settings, stage: int) -> Line:
    """Weights of one rank of `stage`. `floor`: what is certainly loaded."""
    cut = settings.parallel
    bytes_ = of_stage(found, model, settings, stage)
    vision = vision_on_rank(found, settings) if stage == 0 else 0.0
    sure = bytes_ - vision
    slots = lora(model, settings)
    likely = bytes_ + slots
    floor = found.least * sure
    note = human(total(found))
    if cut.tp * cut.pp > 1:
        note += f" over {cut.tp * cut.pp} GPUs"
    if settings.scheme:
        note += f", {settings.scheme.name}"
    if slots:
        note += f", {human(slots)} LoRA slots"
    if settings.cpu_offload:
        offloaded = min(settings.cpu_offload, max(0.0, likely - (found.embedding + found.head) / cut.tp))
        likely -= offloaded
        floor = max(0.0, floor - settings.cpu_offload)
        note += f", {human(offloaded)} offloaded to the host"
    low, high = likely * (1 - found.spread), likely * (1 + found.spread)
    if settings.speculative and not settings.speculative.known:
        high += 2 * GI
        note += ", and a draft model of unknown size"
    return Line(int(min(floor, low)), int(low), int(likely), int(high), note, SOURCE)


def total(found: Checkpoint) -> float:
    """Bytes of the whole model on the GPU, once."""
    return found.embedding + found.head + found.vision + sum(sum(layer) for layer in found.layers)


def key_value_heads(model: Model, settings: Settings) -> int:
    """KV heads on one rank."""
    return parallel.key_value_heads(model.num_key_value_heads or 1, settings.parallel.tp)


def heaviest(found: Checkpoint, model: Model, settings: Settings) -> Sequence[int]:
    """The pipeline stages that may have the least room: the first, the last and the one with the most layers."""
    stages = settings.parallel.stages(len(found.layers))
    most = max(range(len(stages)), key=lambda i: stages[i][1] - stages[i][0])
    return sorted({0, most, len(stages) - 1})
