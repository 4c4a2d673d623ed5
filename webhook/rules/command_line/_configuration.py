"""Combinations of arguments that vLLM refuses while it builds its configuration: one row per check of vLLM's.

Each row is asked only if its argument is given, and names the releases that have the check (every one of them was read,
from 0.8.5 on) and where in vLLM it is. Values that are not given are vLLM's defaults for this release and GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from webhook.rules import _checkpoint
from webhook.rules._flags import certainty, uncertain
from webhook.rules.engine import Engine
from webhook.rules.rule import Finding
from webhook.vllm.memory import plan, resolved, settings
from webhook.vllm.memory.settings import Settings
from webhook.vllm.model import Model
from webhook.vllm.release import Release

UNREAD = Release(0, 34)
"""The first release whose source was not read."""


class Given(NamedTuple):
    """What a check looks at."""

    engine: Engine
    args: Mapping[str, Any]
    """The arguments that are given."""
    model: Model
    settings: Settings
    """What the release makes of them on one GPU."""
    dtype: str | None

    def number(self, dest: str, default: int = 1) -> int:
        """A whole number that is given, else the default."""
        value = self.args.get(dest)
        return value if isinstance(value, int) and not isinstance(value, bool) else default

    @property
    def in_vllm(self) -> bool:
        """The model runs in vLLM's own implementation."""
        return self.args.get("model_impl") in (None, "auto", "vllm")

    @property
    def experts(self) -> int:
        """Ranks that share the routed experts."""
        return self.settings.parallel.experts


class Check(NamedTuple):
    """One check of vLLM's."""

    dest: str
    """The argument that it refuses; asked only if this is given."""
    first: Release
    before: Release
    """From the first until before the second."""
    refusal: Callable[[Given], str | None]
    """The problem, None where there is none."""
    changes: tuple[str, ...]
    of_model: bool = False
    """It rests on the model's config.json."""
    of_gpu: bool = False
    """It rests on defaults that depend on the GPU."""


def findings(engine: Engine, checks: Sequence[Check]) -> Iterator[Finding]:
    """What vLLM's configuration refuses of an engine whose release and model are known."""
    given, release = engine.args.given, engine.release
    if release is None or engine.model is None:
        return
    asked = [one for one in checks if one.dest in given and one.first <= release < one.before]
    if not asked or engine.command.own_flags:
        return
    facts = engine.facts
    gpus = plan.gpus_of(engine.gpu.value if engine.gpu else None, facts.gpu_memory)
    model, answers = engine.model.value, []
    for gpu in gpus or (None,):
        memory = facts.gpu_memory or (gpu.memory if gpu else 0)
        held = settings.resolve(engine.args, model, gpu, memory, release, engine.command.env)
        dtype = resolved.values(held, engine.args, model, gpu, known=bool(gpus))["dtype"]
        answers.append(Given(engine, given, model, held, dtype))
    for check in asked:
        if check.of_gpu and not gpus:
            continue
        refusals = [check.refusal(answer) for answer in answers]
        if None in refusals:
            continue
        doubt = _doubt(engine, check)
        yield Finding(
            path=engine.argument(check.dest),
            message=str(refusals[0]),
            certainty="likely" if doubt else "certain",
            uncertain=doubt,
            rests_on=(("model",) if check.of_model else ()) + (("gpu",) if check.of_gpu else ()),
            suggestions=check.changes,
        )


def _doubt(engine: Engine, check: Check) -> str | None:
    """What keeps it from being certain that vLLM sees these values; None where nothing does."""
    if engine.args.open:
        return f"there may be more arguments: {engine.args.open}"
    if engine.args.unresolved:
        dest, why = next(iter(engine.args.unresolved.items()))
        return f"--{dest.replace('_', '-')} can't be known: {why}"
    if not engine.args.is_sure(check.dest):
        return f"--{check.dest.replace('_', '-')} may be filled in"
    if check.of_model and not _checkpoint.is_the_known(engine):
        return "another config.json may be read than the one that is known"
    if engine.vendor != "nvidia" or engine.on_processors:
        return "vLLM was read for NVIDIA's GPUs"
    return uncertain(engine) if certainty(engine) != "certain" else None


# ── Batches ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _seqs(it: Given) -> str | None:
    held = it.settings
    if held.max_num_batched_tokens >= held.max_num_seqs or not held.v1:
        return None
    tokens = f"{held.max_num_batched_tokens:,}"
    if "max_num_batched_tokens" in it.args:
        return None  # conflicting-flags has it in any release
    return f"--max-num-seqs {held.max_num_seqs:,} is larger than the default --max-num-batched-tokens, {tokens}"


def _whole_prompt(it: Given) -> str | None:
    held, length = it.settings, it.settings.max_model_len
    if held.chunked or not held.v1 or not length or held.max_num_batched_tokens >= length:
        return None
    if it.args.get("max_model_len") is not None and it.args.get("enable_chunked_prefill") is False:
        return None  # conflicting-flags has it in any release
    why = "attends in both directions, so that" if held.whole_prompts else "without chunked prefill"
    return (
        f"--max-num-batched-tokens {held.max_num_batched_tokens:,} is smaller than the context length {length:,}, and "
        + (f"{it.model.id} {why} a prompt must fit into one step" if held.whole_prompts else f"{why} a prompt must too")
    )


def _lookahead(it: Given) -> str | None:
    said = it.args.get("speculative_config")
    tokens = said.get("num_speculative_tokens") if isinstance(said, Mapping) else None
    held = it.settings
    if not it.args.get("enable_lora") or not isinstance(tokens, int) or tokens < 1:
        return None
    needed = held.max_num_seqs * (tokens + 1)
    if held.max_num_batched_tokens >= needed:
        return None
    return (
        f"--enable-lora with {tokens} speculative tokens needs a batch of {held.max_num_seqs:,} sequences × "
        f"{tokens + 1} = {needed:,} tokens, and --max-num-batched-tokens is {held.max_num_batched_tokens:,}"
    )


def _state_chunks(it: Given) -> str | None:
    if it.settings.chunked or resolved.STATEFUL.isdisjoint(it.model.layer_types):
        return None
    if it.settings.prefix_caching is False:
        return None
    return f"prefix caching of the state layers of {it.model.id}, which is the default, needs chunked prefill"


def _long_prompt(it: Given) -> str | None:
    threshold, length = it.number("long_prefill_token_threshold", 0), it.settings.max_model_len
    if not length or threshold <= length:
        return None
    return f"--long-prefill-token-threshold {threshold:,} is larger than the context length, {length:,}"


def _partial_prefills(it: Given) -> str | None:
    counts = {dest: it.number(dest) for dest in ("max_num_partial_prefills", "max_long_partial_prefills")}
    wrong = [f"--{dest.replace('_', '-')} {count}" for dest, count in counts.items() if count != 1]
    return f"{' and '.join(wrong)}: concurrent partial prefills are not supported" if wrong else None


def _long_partial_prefills(it: Given) -> str | None:
    several, long = it.number("max_num_partial_prefills"), it.number("max_long_partial_prefills")
    return None if 1 <= long <= several else f"--max-long-partial-prefills {long} is not within 1 … {several}"


# ── Parallelism ──────────────────────────────────────────────────────────────────────────────────────────────────────

BIDIRECTIONAL = ("Bert", "Roberta", "XLMRoberta")
DBO_BACKENDS = ("deepep_low_latency", "deepep_high_throughput", "nixl_ep")


def _eplb_without_experts(it: Given) -> str | None:
    if not it.args.get("enable_eplb") or it.args.get("enable_expert_parallel"):
        return None
    return "--enable-eplb balances experts, and needs --enable-expert-parallel"


def _eplb_alone(it: Given) -> str | None:
    if not it.args.get("enable_eplb") or not it.args.get("enable_expert_parallel") or it.experts > 1:
        return None
    return "--enable-eplb needs tensor or data parallelism, and there is one rank"


def _two_batches(it: Given) -> str | None:
    backend = it.settings.all2all
    if not it.args.get("enable_dbo") or backend in DBO_BACKENDS:
        return None
    return f"--enable-dbo needs --all2all-backend {' or '.join(DBO_BACKENDS)}" + (f", not {backend}" if backend else "")


def _context_ranks(it: Given) -> str | None:
    tp, dcp = it.settings.parallel.tp, it.number("decode_context_parallel_size")
    if dcp < 1 or tp % dcp == 0:
        return None
    return f"--tensor-parallel-size {tp} is not divisible by --decode-context-parallel-size {dcp}"


def _context_heads(it: Given) -> str | None:
    tp, dcp = it.settings.parallel.tp, it.number("decode_context_parallel_size")
    heads, shared = it.model.num_attention_heads, it.model.num_key_value_heads
    if dcp <= 1 or tp % dcp or it.model.kv_lora_rank or not heads or not shared:
        return None
    if tp <= shared:
        return (
            f"--decode-context-parallel-size {dcp} needs --tensor-parallel-size above the {shared} key-value heads of "
            f"{it.model.id}, and it is {tp}"
        )
    if dcp > tp // shared:
        return f"--decode-context-parallel-size {dcp} is above {tp} ranks // {shared} key-value heads = {tp // shared}"
    if (heads // shared) % dcp:
        return f"{heads // shared} query heads per key-value head are not divisible by {dcp} context ranks"
    return None


def _stages(it: Given) -> str | None:
    if it.settings.parallel.pp < 2 or not it.in_vllm:
        return None
    if not any(one.startswith(BIDIRECTIONAL) for one in it.model.architectures):
        return None
    return f"--pipeline-parallel-size {it.settings.parallel.pp}: {it.model.id} can't be cut into pipeline stages"


def _asynchronous_stages(it: Given) -> str | None:
    if not it.args.get("async_scheduling") or it.settings.parallel.pp < 2:
        return None
    return f"--async-scheduling does not work with --pipeline-parallel-size {it.settings.parallel.pp}"


def _local_ranks(it: Given) -> str | None:
    size, local = it.settings.parallel.dp, it.number("data_parallel_size_local")
    return f"--data-parallel-size-local {local} is larger than --data-parallel-size {size}" if local > size else None


def _rank(it: Given) -> str | None:
    size, rank = it.settings.parallel.dp, it.number("data_parallel_rank", 0)
    if size > 1 and 0 <= rank < size:
        return None
    return f"--data-parallel-rank {rank} is not a rank of --data-parallel-size {size}"


def _nodes(it: Given) -> str | None:
    nodes, rank, cut = it.number("nnodes"), it.number("node_rank", 0), it.settings.parallel
    world = cut.world_size * cut.dp
    if nodes < 2:
        return None
    if world % nodes:
        return f"--nnodes {nodes} does not divide the {world} ranks"
    return None if 0 <= rank < nodes else f"--node-rank {rank} is not within 0 … {nodes - 1}"


# ── CUDA graphs, values ──────────────────────────────────────────────────────────────────────────────────────────────


def _captures(it: Given) -> str | None:
    config = it.args.get("compilation_config")
    config = config if isinstance(config, Mapping) else {}
    level = it.args.get("optimization_level")
    if it.settings.eager or level in (0, "0") or "mode" in config or "level" in config:
        return None
    if str(config.get("cudagraph_mode", "")).upper() in ("NONE", "0"):
        return None
    sizes = it.args.get("cudagraph_capture_sizes", config.get("cudagraph_capture_sizes"))
    most = it.args.get("max_cudagraph_capture_size", config.get("max_cudagraph_capture_size"))
    if isinstance(sizes, list) and not sizes:
        return "cudagraph_capture_sizes is empty: CUDA graphs need one size at least"
    if isinstance(most, int) and not isinstance(most, bool) and most < 1:
        return f"max_cudagraph_capture_size {most}: CUDA graphs need 1 at least"
    return None


def _profiler(it: Given) -> str | None:
    config = it.args.get("profiler_config")
    if not isinstance(config, Mapping) or config.get("profiler") != "torch" or config.get("torch_profiler_dir"):
        return None
    return '--profiler-config: the profiler "torch" needs torch_profiler_dir'


def _traces(it: Given) -> str | None:
    if not it.args.get("collect_detailed_traces") or it.args.get("otlp_traces_endpoint"):
        return None
    return "--collect-detailed-traces needs --otlp-traces-endpoint"


def _overrides(it: Given) -> str | None:
    said = it.args.get("hf_overrides")
    return None if isinstance(said, Mapping) else f"--hf-overrides {said!r} is not a JSON object"


def _cache_dtype(it: Given) -> str | None:
    said = it.settings.kv_cache_dtype
    if said not in ("bfloat16", "float16") or it.dtype not in ("bfloat16", "float16", "float32") or it.dtype == said:
        return None
    return f"--kv-cache-dtype {said} is not the model's dtype here, {it.dtype}"


def _window(it: Given) -> str | None:
    scaling = it.model.config.get("rope_scaling") or it.model.config.get("rope_parameters")
    kind = scaling.get("rope_type") or scaling.get("type") if isinstance(scaling, Mapping) else None
    unscaled = kind in (None, "su", "longrope", "llama3", "default") or "gemma3" in (it.model.model_type or "")
    if not it.args.get("disable_sliding_window") or unscaled:
        return None
    return f"--disable-sliding-window is not supported for a model with RoPE scaling ({kind})"


def _generates(it: Given) -> str | None:
    asked = it.args.get("runner") == "generate" or it.args.get("task") == "generate"
    classes = it.model.architectures
    if not asked or not classes or not it.in_vllm or not all(one.startswith(BIDIRECTIONAL) for one in classes):
        return None
    return f"{it.model.id} is an encoder: it generates no text"


def _limits(it: Given) -> str | None:
    said = it.args.get("limit_mm_per_prompt")
    if not it.model.vision_config or not isinstance(said, Mapping):
        return None
    counts = {name: one.get("count") if isinstance(one, Mapping) else one for name, one in said.items()}
    wrong = [name for name, one in counts.items() if isinstance(one, int) and one < 0]
    return f"--limit-mm-per-prompt: {wrong[0]} is {counts[wrong[0]]}, 0 at least" if wrong else None


def _pruning(it: Given) -> str | None:
    rate = it.args.get("video_pruning_rate")
    if not it.model.vision_config or not isinstance(rate, int | float) or 0 <= rate < 1:
        return None
    return f"--video-pruning-rate {rate:g} is not within 0 … 1, without 1"


def _processor_cache(it: Given) -> str | None:
    size = it.args.get("mm_processor_cache_gb")
    if not it.model.vision_config or not isinstance(size, int | float) or size >= 0:
        return None
    return f"--mm-processor-cache-gb {size:g} is negative"


R = Release
_PARTIAL = ("leave it out",)
ROWS = (
    # config/scheduler.py verify_max_model_len, SchedulerConfig._verify_args
    Check("max_num_seqs", R(0, 8, 5), UNREAD, _seqs, ("a smaller --max-num-seqs",), of_gpu=True, of_model=True),
    Check("max_num_batched_tokens", R(0, 11), UNREAD, _whole_prompt, ("leave it out",), of_model=True),
    Check("long_prefill_token_threshold", R(0, 27), UNREAD, _long_prompt, ("leave it out",), of_model=True),
    Check("max_long_partial_prefills", R(0, 8, 5), R(0, 11, 1), _long_partial_prefills, _PARTIAL),
    # engine/arg_utils.py _check_feature_supported
    Check("max_long_partial_prefills", R(0, 11, 1), R(0, 27), _partial_prefills, _PARTIAL),
    Check("max_num_partial_prefills", R(0, 11, 1), R(0, 27), _partial_prefills, _PARTIAL),
    # engine/arg_utils.py create_engine_config
    Check("speculative_config", R(0, 11, 1), UNREAD, _lookahead, ("fewer speculative tokens",), of_gpu=True,
          of_model=True),
    Check("async_scheduling", R(0, 10), R(0, 11, 1), _asynchronous_stages, ("leave --async-scheduling out",)),
    # 0.33 models/config.py MambaModelConfig
    Check("enable_chunked_prefill", R(0, 33), UNREAD, _state_chunks,
          ("--enable-chunked-prefill", "--no-enable-prefix-caching"), of_model=True),
    # config/parallel.py ParallelConfig
    Check("enable_eplb", R(0, 10), UNREAD, _eplb_without_experts, ("--enable-expert-parallel",)),
    Check("enable_eplb", R(0, 10), UNREAD, _eplb_alone, ("leave --enable-eplb out",)),
    Check("decode_context_parallel_size", R(0, 10, 2), UNREAD, _context_ranks, ("leave it out",)),
    Check("data_parallel_size_local", R(0, 9), UNREAD, _local_ranks, ("leave --data-parallel-size-local out",)),
    Check("data_parallel_rank", R(0, 9, 2), UNREAD, _rank, ("leave --data-parallel-rank out",)),
    # engine/arg_utils.py create_engine_config
    Check("nnodes", R(0, 11, 1), UNREAD, _nodes, ("leave --nnodes out",)),
    # 0.11.0 config/__init__.py, 0.11.1 … 0.33 config/vllm.py
    Check("enable_dbo", R(0, 11), UNREAD, _two_batches, ("leave --enable-dbo out",)),
    # config/model.py verify_with_parallel_config
    Check("decode_context_parallel_size", R(0, 11, 1), UNREAD, _context_heads, ("leave it out",), of_model=True),
    Check("pipeline_parallel_size", R(0, 8, 5), UNREAD, _stages, ("--tensor-parallel-size",), of_model=True),
    # config/vllm.py _set_cudagraph_sizes
    Check("compilation_config", R(0, 11, 1), UNREAD, _captures, ("leave the sizes out",)),
    Check("cudagraph_capture_sizes", R(0, 11, 1), UNREAD, _captures, ("leave it out",)),
    Check("max_cudagraph_capture_size", R(0, 11, 1), UNREAD, _captures, ("leave it out", "--enforce-eager")),
    # config/profiler.py, config/observability.py
    Check("profiler_config", R(0, 13), UNREAD, _profiler, ('"torch_profiler_dir": "/tmp/profile"',)),
    Check("collect_detailed_traces", R(0, 11, 1), UNREAD, _traces, ("leave it out",)),
    # config/model.py ModelConfig, config/vllm.py, config/multimodal.py
    Check("hf_overrides", R(0, 11), UNREAD, _overrides, ('--hf-overrides \'{"KEY": VALUE}\'',)),
    Check("kv_cache_dtype", R(0, 33), UNREAD, _cache_dtype, ("leave it out",), of_model=True, of_gpu=True),
    Check("disable_sliding_window", R(0, 8, 5), R(0, 12), _window, ("leave it out",), of_model=True),
    Check("runner", R(0, 10), UNREAD, _generates, ("--runner pooling",), of_model=True),
    Check("task", R(0, 8, 5), UNREAD, _generates, ("leave it out",), of_model=True),
    Check("limit_mm_per_prompt", R(0, 11, 1), UNREAD, _limits, ("leave it out",), of_model=True),
    Check("video_pruning_rate", R(0, 11, 1), UNREAD, _pruning, ("leave it out",), of_model=True),
    Check("mm_processor_cache_gb", R(0, 11, 1), UNREAD, _processor_cache, ("leave it out",), of_model=True),
)  # fmt: skip
