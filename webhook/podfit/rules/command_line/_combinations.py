"""Combinations of batch and parallelism arguments that vLLM rejects: rows as in `_configuration`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from podfit.rules._flags import certainty
from podfit.rules.command_line._configuration import ENCODER_ARCHITECTURES, Check, VllmConfig, number
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding
from podfit.vllm import change
from podfit.vllm.memory import kv_releases, kv_specs
from podfit.vllm.memory.kv_cache import state_block
from podfit.vllm.release import Release

# ── Batches ──────────────────────────────────────────────────────────────────────────────────────────────────────────


V1_BY_DEFAULT = Release(0, 8)
"""Since then chunked prefill is on unless it is switched off."""
V0_GONE, ALWAYS_CHUNKED_UNTIL = Release(0, 11), Release(0, 13)
"""V1 overwrites the chunked prefill setting (vLLM 0.8.5, 0.10.2, 0.11.0 engine/arg_utils.py); 0.13 follows it. podfit
makes no claim about the releases between them."""
V0_CHUNKS_ABOVE = 32768
"""V0 switches chunked prefill on by itself for longer contexts (vLLM 0.7 engine/arg_utils.py create_engine_config)."""


def batches(engine: Engine) -> Iterator[Finding]:
    """A batch that is smaller than the sequences or, without chunked prefill, than the context length that are given.

    vLLM 0.4 … 0.33 SchedulerConfig. Only a batch above 0 that is given; the rows of `CHECKS` have the defaults."""
    tokens, seqs = number(engine, "max_num_batched_tokens"), number(engine, "max_num_seqs")
    longest = number(engine, "max_model_len")
    if tokens is None or tokens <= 0:
        return
    path = engine.argument("max_num_batched_tokens")
    # vLLM raises it by itself where one image or video needs more.
    certain = engine.model is not None and not engine.model.value.vision_config and not engine.command.own_flags
    if seqs is not None and tokens < seqs:
        yield Finding(
            path=path,
            message=f"--max-num-batched-tokens {tokens:,} is smaller than --max-num-seqs {seqs:,}: "
            "each sequence needs a token a step",
            certainty=certainty(engine) if certain else "likely",
            rests_on=("model",),
            suggestions=(change.flags(f"--max-num-seqs {tokens}"), f"--max-num-batched-tokens {seqs} or more"),
        )
    if longest is not None and tokens < longest and _unchunked(engine, longest):
        yield Finding(
            path=path,
            message=f"--max-num-batched-tokens {tokens:,} is smaller than --max-model-len {longest:,}, and without "
            "chunked prefill a prompt must fit into one step",
            certainty=certainty(engine) if certain else "likely",
            rests_on=("model",),
            suggestions=(
                change.flags(f"--max-num-batched-tokens {longest}"),
                change.flags("--enable-chunked-prefill"),
                change.flags(f"--max-model-len {tokens}"),
            ),
        )


def _unchunked(engine: Engine, longest: int) -> bool:
    """True if chunked prefill is certainly off: by its argument, or by V0's default for a context of `longest` tokens.
    False if that is unknown."""
    if "enable_chunked_prefill" in engine.args.unresolved:
        return False
    given, release = engine.args.given.get("enable_chunked_prefill"), engine.release
    if given is True or release is None:
        return False
    if release >= ALWAYS_CHUNKED_UNTIL:
        return given is False
    v0 = engine.command.env.get("VLLM_USE_V1", "0" if release < V1_BY_DEFAULT else "1") == "0" and release < V0_GONE
    if given is False:
        return v0
    return v0 and release < V1_BY_DEFAULT and longest <= V0_CHUNKS_ABOVE and not engine.args.open


def _seqs(vllm_config: VllmConfig) -> str | None:
    """--max-num-seqs above the default --max-num-batched-tokens (V1), which is 256 or more, or the context. None in V0,
    and if the batch is given (`batches` reports that)."""
    if "max_num_batched_tokens" in vllm_config.args:
        return None  # `batches` has it
    if 0 < vllm_config.number("max_num_seqs", 0) <= min(256, vllm_config.number("max_model_len", 0)):
        return None
    held = vllm_config.settings
    if held.batch.max_num_batched_tokens >= held.batch.max_num_seqs or not held.v1:
        return None
    tokens = f"{held.batch.max_num_batched_tokens:,}"
    return f"--max-num-seqs {held.batch.max_num_seqs:,} is larger than the default --max-num-batched-tokens, {tokens}"


def _usual_seqs(vllm_config: VllmConfig) -> str | None:
    """--max-num-batched-tokens below the default --max-num-seqs (V1). From 0.10.1 on the default is not larger. None in
    V0, if --max-num-seqs is given, for a pooling model, and without chunked prefill."""
    held = vllm_config.settings
    if (
        "max_num_seqs" in vllm_config.args
        or not held.v1
        or held.batch.max_num_batched_tokens >= held.batch.max_num_seqs
    ):
        return None
    if held.pooling or not held.batch.chunked:  # without chunks the length replaces the batch that is given
        return None
    tokens, seqs = f"{held.batch.max_num_batched_tokens:,}", f"{held.batch.max_num_seqs:,}"
    return f"--max-num-batched-tokens {tokens} is smaller than the default --max-num-seqs, {seqs}"


def _may_pool(vllm_config: VllmConfig) -> str | None:
    """The reason why the model may be a pooler, which without chunks takes a batch of the context instead (vLLM 0.9.2
    _set_default_args_v1, 0.8.5 in V0). None if --task or --runner is generate."""
    if "generate" in (vllm_config.args.get("task"), vllm_config.args.get("runner")):
        return None
    return "the model's repository may have files that make it a pooling model (modules.json)"


def _prompt_exceeds_batch(vllm_config: VllmConfig) -> str | None:
    """A batch that is smaller than the longest prompt, where a prompt is not read in chunks. None with chunks, in V0,
    if the context is unknown, and if `batches` reports it."""
    settings, length = vllm_config.settings, vllm_config.resolved.budget.max_model_len
    if settings.batch.chunked or not settings.v1 or not length or settings.batch.max_num_batched_tokens >= length:
        return None
    if vllm_config.args.get("max_model_len") is not None and vllm_config.args.get("enable_chunked_prefill") is False:
        return None  # `batches` has it
    tokens = settings.batch.max_num_batched_tokens
    smaller = f"--max-num-batched-tokens {tokens:,} is smaller than the context length {length:,}"
    if settings.batch.whole_prompts:
        return (
            f"{smaller}, and {vllm_config.model.id} attends in both directions, so that a prompt must fit into one step"
        )
    return f"{smaller}, and without chunked prefill a prompt must fit into one step"


def _lookahead(vllm_config: VllmConfig) -> str | None:
    """LoRA with speculative tokens that do not fit into a batch. None without --enable-lora, or without a number of
    speculative tokens."""
    value = vllm_config.args.get("speculative_config")
    tokens = value.get("num_speculative_tokens") if isinstance(value, Mapping) else None
    held = vllm_config.settings
    if not vllm_config.args.get("enable_lora") or not isinstance(tokens, int) or tokens < 1:
        return None
    needed = held.batch.max_num_seqs * (tokens + 1)
    if held.batch.max_num_batched_tokens >= needed:
        return None
    return (
        f"--enable-lora with {tokens} speculative tokens needs a batch of {held.batch.max_num_seqs:,} sequences × "
        f"{tokens + 1} = {needed:,} tokens, and --max-num-batched-tokens is {held.batch.max_num_batched_tokens:,}"
    )


def _aligned_states(vllm_config: VllmConfig) -> bool:
    """True if prefix caching keeps the states of the model's layers in the mode "align". False without prefix caching,
    if that is unknown, and for a model without state layers."""
    if not vllm_config.prefix_caching or not kv_releases.keeps_states(vllm_config.model):
        return False
    return kv_specs.state_mode(vllm_config.model, kv_specs.stored(vllm_config.settings)) == "align"


def _state_chunks(vllm_config: VllmConfig) -> str | None:
    """Prefix caching of states without chunked prefill. None with chunks, and without `_aligned_states`."""
    if vllm_config.settings.batch.chunked or not _aligned_states(vllm_config):
        return None
    default = "" if "enable_prefix_caching" in vllm_config.args else ", which is the default,"
    return f"prefix caching of the state layers of {vllm_config.model.id}{default} needs chunked prefill"


def _state_step(vllm_config: VllmConfig) -> str | None:
    """A step, or a part of a prompt, that is shorter than a block of states, where states are cached at the end of a
    step. None without `_aligned_states`, and if the block's length is unknown."""
    if not _aligned_states(vllm_config):
        return None
    block = state_block(vllm_config.model, vllm_config.settings)
    part = vllm_config.number("long_prefill_token_threshold", 0)
    if block is None:
        return None
    step = vllm_config.settings.batch.max_num_batched_tokens
    if step < block:
        default = "" if "max_num_batched_tokens" in vllm_config.args else "the default of "
        return f"{default}--max-num-batched-tokens {step:,} is smaller than the {block:,} tokens of a block of states"
    if 0 < part < block:
        return f"--long-prefill-token-threshold {part:,} is smaller than the {block:,} tokens of a block of states"
    return None


def _block_depends(vllm_config: VllmConfig) -> str:
    """The reason why the length of a block of states is not certain."""
    return "the image's attention backend decides how long a block of states is"


def _state_drafts(vllm_config: VllmConfig) -> str | None:
    """Prefix caching of states with speculative decoding. None without --speculative-config or `_aligned_states`."""
    if not vllm_config.args.get("speculative_config") or not _aligned_states(vllm_config):
        return None
    return f"prefix caching of the state layers of {vllm_config.model.id} does not work with speculative decoding"


def _long_prompt(vllm_config: VllmConfig) -> str | None:
    """A threshold of long prompts above the context length. None if the context length is unknown."""
    threshold, length = vllm_config.number("long_prefill_token_threshold", 0), vllm_config.resolved.budget.max_model_len
    if not length or threshold <= length:
        return None
    return f"--long-prefill-token-threshold {threshold:,} is larger than the context length, {length:,}"


def _partial_prefills(vllm_config: VllmConfig) -> str | None:
    """Concurrent partial prefills, which V1 does not support. None if both numbers are 1, the default."""
    counts = {dest: vllm_config.number(dest) for dest in ("max_num_partial_prefills", "max_long_partial_prefills")}
    wrong = [f"--{dest.replace('_', '-')} {count}" for dest, count in counts.items() if count != 1]
    return f"{' and '.join(wrong)}: concurrent partial prefills are not supported" if wrong else None


def _long_partial_prefills(vllm_config: VllmConfig) -> str | None:
    """More long partial prefills than partial prefills, or fewer than 1. None in between."""
    several, long = vllm_config.number("max_num_partial_prefills"), vllm_config.number("max_long_partial_prefills")
    return None if 1 <= long <= several else f"--max-long-partial-prefills {long} is not within 1 … {several}"


# ── Parallelism ──────────────────────────────────────────────────────────────────────────────────────────────────────

DBO_BACKENDS = ("deepep_low_latency", "deepep_high_throughput", "nixl_ep")
"""All-to-all backends with dual-batch overlap (vLLM 0.11.0 config/__init__.py, 0.11.1 … 0.33 config/vllm.py)."""


def _eplb_without_experts(vllm_config: VllmConfig) -> str | None:
    """Balanced experts without expert parallelism. None without --enable-eplb."""
    if not vllm_config.args.get("enable_eplb") or vllm_config.args.get("enable_expert_parallel"):
        return None
    return "--enable-eplb balances experts, and needs --enable-expert-parallel"


def _eplb_alone(vllm_config: VllmConfig) -> str | None:
    """Balanced experts on a single rank. None without --enable-eplb, and without expert parallelism, which
    `_eplb_without_experts` reports."""
    if (
        not vllm_config.args.get("enable_eplb")
        or not vllm_config.args.get("enable_expert_parallel")
        or vllm_config.experts > 1
    ):
        return None
    return "--enable-eplb needs tensor or data parallelism, and there is one rank"


def _two_batches(vllm_config: VllmConfig) -> str | None:
    """Dual-batch overlap with an all-to-all backend that does not have it. None without --enable-dbo."""
    backend = vllm_config.settings.kernels.all2all
    if not vllm_config.args.get("enable_dbo") or backend in DBO_BACKENDS:
        return None
    return f"--enable-dbo needs --all2all-backend {' or '.join(DBO_BACKENDS)}" + (f", not {backend}" if backend else "")


WITHIN_PREFILL = Release(0, 26)
"""Since then the ranks of prefill context parallelism count too (vLLM 0.25.1, 0.26, 0.33 config/parallel.py)."""


def _context_ranks(vllm_config: VllmConfig) -> str | None:
    """Tensor-parallel ranks that context-parallel ranks do not divide. None for a size below 1, and from
    `WITHIN_PREFILL` on with prefill context parallelism, whose ranks count too."""
    tp, dcp = vllm_config.parallel.tp, vllm_config.number("decode_context_parallel_size")
    if dcp < 1 or tp % dcp == 0:
        return None
    if vllm_config.parallel.pcp > 1 and vllm_config.settings.release >= WITHIN_PREFILL:
        return None
    return f"--tensor-parallel-size {tp} is not divisible by --decode-context-parallel-size {dcp}"


def _context_heads(vllm_config: VllmConfig) -> str | None:
    """Context-parallel ranks that do not fit the model's key-value heads. None for latent attention (MLA), for unknown
    heads, and for a size that `_context_ranks` checks."""
    tp, dcp = vllm_config.parallel.tp, vllm_config.number("decode_context_parallel_size")
    heads, shared = vllm_config.model.num_attention_heads, vllm_config.model.num_key_value_heads
    if dcp <= 1 or tp % dcp or vllm_config.model.kv_lora_rank or not heads or not shared:
        return None
    if tp <= shared:
        return (
            f"--decode-context-parallel-size {dcp} needs --tensor-parallel-size above the {shared} key-value heads of "
            f"{vllm_config.model.id}, and it is {tp}"
        )
    if dcp > tp // shared:
        return f"--decode-context-parallel-size {dcp} is above {tp} ranks // {shared} key-value heads = {tp // shared}"
    if (heads // shared) % dcp:
        return f"{heads // shared} query heads per key-value head are not divisible by {dcp} context ranks"
    return None


def _stages(vllm_config: VllmConfig) -> str | None:
    """Pipeline stages of an encoder, which vLLM cannot cut. None for one stage, and outside of vLLM's own
    implementation."""
    if vllm_config.parallel.pp < 2 or not vllm_config.in_vllm:
        return None
    if not any(architecture.startswith(ENCODER_ARCHITECTURES) for architecture in vllm_config.model.architectures):
        return None
    return (
        f"--pipeline-parallel-size {vllm_config.parallel.pp}: {vllm_config.model.id} can't be cut into pipeline stages"
    )


def _asynchronous_stages(vllm_config: VllmConfig) -> str | None:
    """Asynchronous scheduling with pipeline stages. None without --async-scheduling, and for one stage."""
    if not vllm_config.args.get("async_scheduling") or vllm_config.parallel.pp < 2:
        return None
    return f"--async-scheduling does not work with --pipeline-parallel-size {vllm_config.parallel.pp}"


def _local_ranks(vllm_config: VllmConfig) -> str | None:
    """More local data-parallel ranks than data-parallel ranks. None if they are enough."""
    size, local = vllm_config.parallel.dp, vllm_config.number("data_parallel_size_local")
    return f"--data-parallel-size-local {local} is larger than --data-parallel-size {size}" if local > size else None


def _no_ranks(vllm_config: VllmConfig) -> str | None:
    """A number of data-parallel ranks below 1, from which that of local ranks is taken. None if the local ranks are
    given, and on several nodes."""
    size = vllm_config.number("data_parallel_size")
    if size >= 1 or "data_parallel_size_local" in vllm_config.args or vllm_config.number("nnodes") > 1:
        return None
    return f"--data-parallel-size {size} is below 1"


def _rank(vllm_config: VllmConfig) -> str | None:
    """A data-parallel rank outside of the size. None if several ranks get theirs from the nodes or an external
    launcher."""
    size, rank = vllm_config.parallel.dp, vllm_config.number("data_parallel_rank", 0)
    if size > 1 and (
        vllm_config.number("nnodes") > 1 or vllm_config.args.get("distributed_executor_backend") == "external_launcher"
    ):
        return None  # vLLM takes the rank from elsewhere
    if size > 1 and 0 <= rank < size:
        return None
    return f"--data-parallel-rank {rank} is not a rank of --data-parallel-size {size}"


BY_NODE = Release(0, 11, 1)
"""Since then several nodes (`--nnodes`) give each process its data-parallel rank, or its number of local ones."""


def _hybrid(vllm_config: VllmConfig) -> str | None:
    """Hybrid load balancing without the number of local ranks. None on a headless node, if another argument gives the
    ranks, and from `BY_NODE` on for several nodes."""
    if not vllm_config.args.get("data_parallel_hybrid_lb") or vllm_config.args.get("headless"):
        return None
    givers = ("data_parallel_size_local", "data_parallel_rank", "data_parallel_external_lb")
    if any(vllm_config.args.get(dest) is not None for dest in givers):
        return None
    if vllm_config.settings.release >= BY_NODE and vllm_config.number("nnodes") > 1:
        return None
    return "--data-parallel-hybrid-lb needs --data-parallel-size-local, the ranks of this node"


def _external(vllm_config: VllmConfig) -> str | None:
    """External load balancing without the rank of this process. None if the rank is given, and if several nodes give
    the ranks."""
    if not vllm_config.args.get("data_parallel_external_lb") or vllm_config.args.get("data_parallel_rank") is not None:
        return None
    if vllm_config.number("nnodes") > 1 and vllm_config.parallel.dp > 1:
        return None
    return "--data-parallel-external-lb needs --data-parallel-rank, the rank of this process"


def _redundant(vllm_config: VllmConfig) -> str | None:
    """Redundant experts that nothing balances. None with --enable-eplb, and if neither --num-redundant-experts nor
    --eplb-config sets a number."""
    config = vllm_config.args.get("eplb_config")
    count = config.get("num_redundant_experts") if isinstance(config, Mapping) else None
    count = vllm_config.number("num_redundant_experts", 0) or count
    if not isinstance(count, int) or isinstance(count, bool) or not count or vllm_config.args.get("enable_eplb"):
        return None
    return f"{count} redundant experts need --enable-eplb"


def _prefetch(vllm_config: VllmConfig) -> str | None:
    """A group of prefetched layers that is smaller than the number of its layers to offload. None without prefetching:
    another backend, and no group size above 0."""
    size, each = vllm_config.number("offload_group_size", 0), vllm_config.number("offload_num_in_group", 1)
    if vllm_config.args.get("offload_backend") != "prefetch" and size <= 0:
        return None
    if each <= size:
        return None
    return f"--offload-group-size {size} is smaller than --offload-num-in-group {each}"


def _nodes(vllm_config: VllmConfig) -> str | None:
    """Nodes that do not divide the ranks, or a node rank outside of them. None for fewer than two nodes."""
    nodes, rank, cut = vllm_config.number("nnodes"), vllm_config.number("node_rank", 0), vllm_config.parallel
    world = cut.world_size * cut.dp
    if nodes < 2:
        return None
    if world % nodes:
        return f"--nnodes {nodes} does not divide the {world} ranks"
    return None if 0 <= rank < nodes else f"--node-rank {rank} is not within 0 … {nodes - 1}"


R = Release
LEAVE_OUT = change.leave_out()
CHECKS = (
    # config/scheduler.py verify_max_model_len, SchedulerConfig._verify_args
    Check("max_num_seqs", R(0, 8, 5), R(0, 11), _seqs, ("a smaller --max-num-seqs",), of_gpu=True, of_model=True,
          variables=("VLLM_USE_V1",)),
    Check("max_num_seqs", R(0, 11), None, _seqs, ("a smaller --max-num-seqs",), of_gpu=True, of_model=True),
    Check("max_num_batched_tokens", R(0, 8, 5), R(0, 10, 1), _usual_seqs, ("a --max-num-seqs that is not larger",),
          of_gpu=True, of_model=True, variables=("VLLM_ATTENTION_BACKEND", "VLLM_USE_V1"), unknown=_may_pool),
    Check("max_num_batched_tokens", R(0, 11), None, _prompt_exceeds_batch, (LEAVE_OUT,), of_model=True),
    Check("long_prefill_token_threshold", R(0, 27), None, _long_prompt, (LEAVE_OUT,), of_model=True),
    Check("max_long_partial_prefills", R(0, 8, 5), R(0, 11, 1), _long_partial_prefills, (LEAVE_OUT,)),
    # engine/arg_utils.py _check_feature_supported
    Check("max_long_partial_prefills", R(0, 11, 1), R(0, 27), _partial_prefills, (LEAVE_OUT,)),
    Check("max_num_partial_prefills", R(0, 11, 1), R(0, 27), _partial_prefills, (LEAVE_OUT,)),
    # engine/arg_utils.py create_engine_config
    Check("speculative_config", R(0, 11, 1), None, _lookahead, ("fewer speculative tokens",), of_gpu=True,
          of_model=True),
    Check("async_scheduling", R(0, 10), R(0, 11, 1), _asynchronous_stages, (change.without("--async-scheduling"),)),
    # 0.15 … 0.33 models/config.py MambaModelConfig
    Check("enable_chunked_prefill", R(0, 15), None, _state_chunks,
          (change.flags("--enable-chunked-prefill"), change.flags("--no-enable-prefix-caching")), of_model=True),
    Check("enable_prefix_caching", R(0, 15), R(0, 17), _state_drafts,
          (change.without("--enable-prefix-caching"), change.without("--speculative-config")), of_model=True),
    # 0.17 … 0.26 config/vllm.py validate_block_size, which the engine calls when it knows the block
    Check("enable_prefix_caching", R(0, 17), R(0, 27), _state_step,
          ("a larger --max-num-batched-tokens", change.without("--enable-prefix-caching")), of_model=True, of_gpu=True,
          unknown=_block_depends),
    # config/parallel.py ParallelConfig
    Check("enable_eplb", R(0, 10), None, _eplb_without_experts, (change.flags("--enable-expert-parallel"),)),
    Check("enable_eplb", R(0, 10), None, _eplb_alone, (change.without("--enable-eplb"),)),
    Check("decode_context_parallel_size", R(0, 10, 2), None, _context_ranks, (LEAVE_OUT,)),
    Check("data_parallel_size_local", R(0, 9), None, _local_ranks, (change.without("--data-parallel-size-local"),)),
    Check("data_parallel_size", R(0, 11), R(0, 25), _no_ranks, (change.flags("--data-parallel-size 1"),)),
    Check("data_parallel_rank", R(0, 9, 2), None, _rank, (change.without("--data-parallel-rank"),)),
    # engine/arg_utils.py create_engine_config (read in 0.10.0 … 0.33)
    Check("data_parallel_hybrid_lb", R(0, 10), None, _hybrid, ("--data-parallel-size-local",)),
    Check("data_parallel_external_lb", R(0, 12), None, _external, ("--data-parallel-rank",)),
    # config/parallel.py ParallelConfig (0.9.2 … 0.33), config/offload.py OffloadConfig (0.17 … 0.33)
    Check("eplb_config", R(0, 10, 2), None, _redundant,
          (change.flags("--enable-eplb"), "leave the redundant experts out")),
    Check("num_redundant_experts", R(0, 9, 2), None, _redundant, (change.flags("--enable-eplb"), LEAVE_OUT)),
    Check("offload_backend", R(0, 17), None, _prefetch, ("--offload-group-size", change.without("--offload-backend"))),
    Check("nnodes", R(0, 11, 1), None, _nodes, (change.without("--nnodes"),)),
    # 0.11.0 config/__init__.py, 0.11.1 … 0.33 config/vllm.py
    Check("enable_dbo", R(0, 11), None, _two_batches, (change.without("--enable-dbo"),),
          variables=("VLLM_ALL2ALL_BACKEND",)),
    # config/model.py verify_with_parallel_config
    Check("decode_context_parallel_size", R(0, 11, 1), None, _context_heads, (LEAVE_OUT,), of_model=True),
    Check("pipeline_parallel_size", R(0, 8, 5), None, _stages, ("--tensor-parallel-size",), of_model=True),
)  # fmt: skip
