"""Defaults of vLLM's parser that differ between releases without an effect on a command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NEEDED: Mapping[str, tuple[str, ...]] = {
    "all2all_backend": ("data_parallel_size", "enable_expert_parallel"),
    "api_server_count": ("data_parallel_size",),
    "cp_kv_cache_interleave_size": ("decode_context_parallel_size", "prefill_context_parallel_size"),
    "dcp_comm_backend": ("decode_context_parallel_size",),
    "disable_nccl_for_dp_synchronization": ("data_parallel_size",),
    "eplb_log_balancedness": ("enable_eplb",),
    "eplb_step_interval": ("enable_eplb",),
    "eplb_window_size": ("enable_eplb",),
    "kv_offloading_backend": ("kv_offloading_size",),
    "num_redundant_experts": ("enable_eplb",),
    "prefix_cache_retention_interval": ("speculative_config", "spec_method", "spec_model"),
}
"""Option → the options without which vLLM does not read it, or resolves both defaults to the same value (vLLM 0.10 to
0.33 engine/arg_utils.py, config/parallel.py, config/cache.py)."""
EQUAL = frozenset(
    (
        ("cuda_graph_sizes", "[]", "None"),
        ("cuda_graph_sizes", "[512]", "[]"),
        ("disable_cascade_attn", "True", "None"),
        ("disable_hybrid_kv_cache_manager", "False", "None"),
        ("guided_decoding_backend", "auto", "None"),
        ("guided_decoding_disable_additional_properties", "False", "None"),
        ("guided_decoding_disable_any_whitespace", "False", "None"),
        ("guided_decoding_disable_fallback", "False", "None"),
        ("mamba_cache_mode", "none", "None"),
        ("scheduler_cls", "vllm.core.scheduler.Scheduler", "None"),
        ("seed", "None", "0"),
        ("task", "auto", "None"),
        ("tool_strict_level", "auto", "None"),
    )
)
"""Option and two defaults that vLLM resolves to the same value, in the releases where one follows the other.

- 0.10.0 cuda_graph_sizes; 0.10.1 task; 0.11.0 guided decoding (config/structured_outputs.py); 0.11.1 scheduler_cls.
- 0.12 seed (0.11.2 config/model.py); 0.13 the hybrid manager (config/vllm.py).
- 0.32 cascade attention, which is gone; 0.33 the other two (engine/arg_utils.py, parser/parser_manager.py).
"""


def has_effect(name: str, before: object, after: object, given: Mapping[str, Any]) -> bool:
    """True if another default of the option `name` may change what vLLM does with the arguments `given` (by dest)."""
    if (name, str(before), str(after)) in EQUAL or (name, str(after), str(before)) in EQUAL:
        return False
    return name not in NEEDED or any(option in given for option in NEEDED[name])
