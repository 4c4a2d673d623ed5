from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from podfit.kube.path import is_object
from podfit.rules import _checkpoint
from podfit.rules._flags import runs_vllms_code
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule
from podfit.vllm import change
from podfit.vllm.change import Suggestion
from podfit.vllm.model.shape import Model
from podfit.vllm.release import Release, newer_than_read

BEFORE_DETECTION = Release(0, 12)
"""Since this release `--tokenizer-mode auto` is mistral if the repository has a tekken.json (vLLM 0.12
tokenizers/registry.py, 0.13 … 0.33 resolve_tokenizer_args)."""


@dataclass(frozen=True, kw_only=True)
class Requirement:
    """An argument or a variable without which vLLM raises for some models."""

    flag: Suggestion
    """The flag or variable to add to the command or to the environment."""
    first: Release
    """The first release that was read and raises."""
    until: Release | None
    """The first release that does not raise; None if the newest one that was read raises."""
    place: str
    """The code of vLLM that raises, and the releases of which it was read."""
    reason: str
    """Why, for people: a clause after the model's name."""
    ids: frozenset[str] = frozenset()
    """Models in lower case, whose repositories are documented to need it."""
    is_needed_by: Callable[[Model], bool]
    """True if the model's config.json needs it."""
    is_met: Callable[[Engine], bool]
    """True if the engine has it, or may have it."""

    def applies_to(self, engine: Engine) -> bool:
        """True if vLLM of the engine's release raises for its model."""
        release = engine.release
        if release is None or release < self.first or (self.until is not None and release >= self.until):
            return False
        model = engine.model.value if engine.model else None
        needed = (engine.args.model or "").lower() in self.ids or (model is not None and self.is_needed_by(model))
        return needed and not self.is_met(engine)


def has_architecture(*names: str, key: str | None = None) -> Callable[[Model], bool]:
    """A predicate: the model has one of these architectures, and this key in its config.json."""

    def is_needed_by(model: Model) -> bool:
        return not {*names}.isdisjoint(model.architectures) and (key is None or model.config.get(key) is not None)

    return is_needed_by


def has_dual_chunks(model: Model) -> bool:
    """True if its config.json turns on dual chunk attention, and its class passes it on."""
    qwen = any(name.startswith(("Qwen2", "Qwen3")) for name in model.architectures)
    return qwen and is_object(model.config.get("dual_chunk_attention_config"))


def is_unnamed_vl2(model: Model) -> bool:
    """True for a DeepSeek-VL2, whose config.json names the architecture of its language model at most."""
    language = {"DeepseekForCausalLM", "DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM"}
    return model.model_type == "deepseek_vl_v2" and language.issuperset(model.architectures)


def is_given(engine: Engine, *dests: str) -> bool:
    """True if one of these arguments is given, or its value is not known."""
    args = engine.args
    return any(dest in args.given or not args.is_sure(dest) for dest in dests)


def is_tokenizer_mistral(engine: Engine) -> bool:
    """True if vLLM takes, or may take, Mistral's tokenizer, or needs none: the model gets text alone."""
    limits = engine.args.given.get("limit_mm_per_prompt")
    text_alone = is_given(engine, "language_model_only", "skip_tokenizer_init") or (
        isinstance(limits, Mapping) and 0 in limits.values()
    )
    sure = engine.args.is_sure("tokenizer_mode") and engine.args.is_sure("limit_mm_per_prompt")
    mode = engine.args.given.get("tokenizer_mode", "auto")
    return not sure or mode == "mistral" or text_alone or is_given(engine, "tokenizer")


def is_kv_cache_fp8(engine: Engine) -> bool:
    """True if the KV cache is stored in FP8, or its layout is another backend's."""
    dtype = str(engine.args.given.get("kv_cache_dtype", "auto"))
    other = is_given(engine, "attention_backend", "attention_config") or engine.vendor != "nvidia"
    return other or not engine.args.is_sure("kv_cache_dtype") or dtype.startswith("fp8")


def is_graph_piecewise(engine: Engine) -> bool:
    """True if vLLM captures no full CUDA graphs, or may capture none."""
    config = engine.args.given.get("compilation_config")
    mode = config.get("cudagraph_mode", "FULL") if isinstance(config, Mapping) else "FULL"
    other = is_given(engine, "enforce_eager", "optimization_level") or not engine.args.is_sure("compilation_config")
    return other or "FULL" not in str(mode)


def has_dual_chunk_backend(engine: Engine) -> bool:
    """True if the backend of dual chunk attention is, or may be, chosen, and CUDA graphs are off."""
    unseen = BACKEND in engine.declared or bool(engine.field("envFrom"))
    chosen = engine.command.env.get(BACKEND, DUAL_CHUNKS if unseen else None) == DUAL_CHUNKS
    return chosen and is_given(engine, "enforce_eager")


BACKEND = "VLLM_ATTENTION_BACKEND"
DUAL_CHUNKS = "DUAL_CHUNK_FLASH_ATTN"
VOXTRAL = "VoxtralForConditionalGeneration"
REQUIREMENTS = (
    Requirement(
        flag=f"VLLM_ATTENTION_BACKEND={DUAL_CHUNKS} and --enforce-eager",
        first=Release(0, 9),
        until=Release(0, 11),
        place="model_executor/models/qwen2.py Qwen2Attention.__init__, v1/attention/backends/flash_attn.py (0.9.1, "
        "0.10.2), config/__init__.py verify_dual_chunk_attention_config (0.10.2), engine/arg_utils.py "
        "create_engine_config (0.9.1, 0.10.2)",
        reason="its dual chunk attention has a backend of its own, which has no CUDA graphs",
        is_needed_by=has_dual_chunks,
        is_met=has_dual_chunk_backend,
    ),
    Requirement(
        flag="--hf-config-path of a config.json without dual_chunk_attention_config",
        first=Release(0, 11),
        until=None,
        place="model_executor/models/qwen2.py Qwen2Attention.__init__, v1/attention/backends/flash_attn.py "
        "FlashAttentionImpl.__init__ (0.11 … 0.33)",
        reason="this release has no backend for its dual chunk attention",
        is_needed_by=has_dual_chunks,
        is_met=lambda engine: is_given(engine, "attention_backend", "attention_config") or BACKEND in engine.declared,
    ),
    Requirement(
        flag=change.flags("--kv-cache-dtype fp8"),
        first=Release(0, 22),
        until=Release(0, 30),
        place="models/deepseek_v4/attention.py _resolve_dsv4_kv_cache_dtype (0.23 … 0.29), "
        "DeepseekV4MLAAttention.__init__ (0.22)",
        reason="FlashMLA reads its KV cache in FP8 alone, and this release does not choose that itself",
        is_needed_by=has_architecture("DeepseekV4ForCausalLM"),
        is_met=is_kv_cache_fp8,
    ),
    Requirement(
        flag=change.flags("--tokenizer-mode mistral"),
        first=Release(0, 8),
        until=BEFORE_DETECTION,
        place="model_executor/models/pixtral.py PixtralProcessingInfo.get_tokenizer (0.8.5 … 0.11.2)",
        reason="its images are tokenized by Mistral's tokenizer, and this release does not choose that itself",
        ids=frozenset({"mistralai/pixtral-12b-2409", "mistralai/pixtral-large-instruct-2411"}),
        is_needed_by=has_architecture("PixtralForConditionalGeneration"),
        is_met=is_tokenizer_mistral,
    ),
    Requirement(
        flag=change.flags("--tokenizer-mode mistral"),
        first=Release(0, 10),
        until=BEFORE_DETECTION,
        place="model_executor/models/voxtral.py VoxtralProcessingInfo.get_tokenizer (0.10 … 0.11.2)",
        reason="its audio is tokenized by Mistral's tokenizer, and this release does not choose that itself",
        ids=frozenset({"mistralai/voxtral-mini-3b-2507", "mistralai/voxtral-small-24b-2507"}),
        is_needed_by=has_architecture(VOXTRAL),
        is_met=is_tokenizer_mistral,
    ),
    Requirement(
        flag=change.quoted_flag("--compilation-config", '{"cudagraph_mode":"PIECEWISE"}'),
        first=Release(0, 16),
        until=Release(0, 30),
        place="model_executor/models/voxtral_realtime.py VoxtralRealtimeGeneration.__init__ (0.16 … 0.29)",
        reason="this release captures full CUDA graphs by default, and the model's class rejects them",
        ids=frozenset({"mistralai/voxtral-mini-4b-realtime-2602"}),
        is_needed_by=has_architecture("VoxtralRealtimeGeneration"),
        is_met=is_graph_piecewise,
    ),
    Requirement(
        flag=change.quoted_flag("--hf-overrides", '{"architectures":["GLM4VForCausalLM"]}'),
        first=Release(0, 7),
        until=None,
        place="model_executor/models/chatglm.py ChatGLMForCausalLM.__init__ (0.7.3 … 0.33)",
        reason="its config.json names the class of the text model",
        ids=frozenset({"zai-org/glm-4v-9b", "thudm/glm-4v-9b"}),
        is_needed_by=has_architecture("ChatGLMModel", "ChatGLMForConditionalGeneration", key="vision_config"),
        is_met=lambda engine: is_given(engine, "hf_overrides"),
    ),
    Requirement(
        flag=change.quoted_flag("--hf-overrides", '{"architectures":["QwenVLForConditionalGeneration"]}'),
        first=Release(0, 7),
        until=Release(0, 24),
        place="model_executor/models/qwen.py QWenLMHeadModel.__init__ (0.7.3 … 0.23)",
        reason="its config.json names the class of the text model",
        ids=frozenset({"qwen/qwen-vl", "qwen/qwen-vl-chat"}),
        is_needed_by=has_architecture("QWenLMHeadModel", key="visual"),
        is_met=lambda engine: is_given(engine, "hf_overrides"),
    ),
    Requirement(
        flag=change.quoted_flag("--hf-overrides", '{"architectures":["DeepseekVLV2ForCausalLM"]}'),
        first=Release(0, 7),
        until=Release(0, 17),
        place="model_executor/models/registry.py inspect_model_cls, transformers_utils/configs/deepseek_vl2.py "
        "(0.7.3 … 0.16)",
        reason="its config.json names no architecture",
        ids=frozenset({f"deepseek-ai/deepseek-vl2{size}" for size in ("", "-small", "-tiny")}),
        is_needed_by=is_unnamed_vl2,
        is_met=lambda engine: is_given(engine, "hf_overrides"),
    ),
)
OTHER_CODE = ("model_impl", "hf_config_path")
"""Arguments with which another class may serve the model, or another file may describe it."""


class FlagRequiredByModel(Rule):
    """vLLM raises for this model unless an argument or a variable is set.

    Some classes of models raise while the configuration is checked or the model is built, if an argument has its
    default value:

        ValueError: please set VLLM_ATTENTION_BACKEND to DUAL_CHUNK_FLASH_ATTN
        TypeError: FlashAttentionImpl.__init__() got an unexpected keyword argument 'layer_idx'
        AssertionError: DeepseekV4 fp8_ds_mla layout only supports fp8 kv-cache, got auto
        ValueError: This model requires `--tokenizer-mode mistral`
        AssertionError: Voxtral realtime doesn't support full cudagraphs yet. Please use PIECEWISE.
        RuntimeError: The configuration of this model indicates that it supports vision inputs, but you instantiated the
        text-only version of this model. Please use the vision model by setting `--hf-overrides …`

    | model | releases | required |
    | --- | --- | --- |
    | Qwen2.5-1M (`dual_chunk_attention_config`) | 0.9 … 0.10.2 | `VLLM_ATTENTION_BACKEND`, `--enforce-eager` |
    | the same | 0.11 … | `--hf-config-path` with another config.json |
    | DeepSeek-V4, on NVIDIA GPUs | 0.22 … 0.29 | `--kv-cache-dtype fp8`, or an attention backend |
    | Pixtral, Voxtral | 0.8, 0.10 … 0.11.2 | `--tokenizer-mode mistral` |
    | Voxtral Realtime | 0.16 … 0.29 | CUDA graphs that are not full |
    | GLM-4V-9B, Qwen-VL, DeepSeek-VL2 | 0.7 …, 0.7 … 0.23, 0.7 … 0.16 | `--hf-overrides` with the architecture |

    It reports what vLLM's code raises without, not what a recipe recommends. It reports nothing if the argument may be
    set, or if another class or config.json may be used.
    """

    plane = "config"
    event = "vLLM exits before it serves the model"
    never_denies = "another revision of the repository may have another config.json"
    needs = ("release", "vllm_args")

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Likely in vLLM's own image; another image may have changed the class."""
        args = engine.args
        if args.open or "model" in args.unresolved or is_given(engine, *OTHER_CODE):
            return
        if args.given.get("config_format", "auto") not in ("auto", "mistral"):
            return
        for requirement in REQUIREMENTS:
            if requirement.applies_to(engine):
                doubt = _doubt(engine)
                yield Finding(
                    path=engine.argument("model"),
                    message=f"vLLM {engine.release} does not start {args.model} without {requirement.flag}",
                    details=(requirement.reason,),
                    certainty="possible" if doubt else "likely",
                    uncertain=doubt or "the repository may have changed",
                    suggestions=(requirement.flag,),
                )


def _doubt(engine: Engine) -> str | None:
    """Why vLLM probably runs with other code or another config.json; None if it does not."""
    if not runs_vllms_code(engine):
        return "the image may have other code"
    if unread := newer_than_read(engine.release):
        return unread
    model = engine.model
    if model is not None and not model.may_deny and model.value.id.lower() != (engine.args.model or "").lower():
        return f"the model is {model.source}"
    return None if _checkpoint.is_the_known(engine, but="hf_overrides") else "another config.json may be read"
