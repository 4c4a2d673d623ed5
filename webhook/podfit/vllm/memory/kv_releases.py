"""The KV cache's behavior by release: each change with the release that introduced it, and vLLM's own code for it.

Read in every release from 0.8.0 to 0.33.0 and run there on a CPU. A file without a directory is in vllm/v1/core; if a
file moved, its last release is named. `kv_cache_utils` is kv_cache_planning from 0.33.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from podfit.vllm.model import Model
from podfit.vllm.release import Release

WINDOWS = Release(0, 8, 3)
"""SlidingWindowSpec (v1/kv_cache_interface.py). Before, layers with a window are stored and checked in full."""
MANAGER = Release(0, 9, 1)
"""The hybrid KV cache manager: groups of layers, and a concurrency in blocks (kv_cache_utils
_get_kv_cache_config_uniform_page_size, get_max_concurrency_for_kv_cache_config). Before, the check counts windows, but
they are stored in full (0.9.0 get_kv_cache_config)."""
CHUNKS = Release(0, 10)
"""ChunkedLocalAttentionSpec (v1/kv_cache_interface.py): Llama 4. Before, its chunks are stored and checked in full."""
CHUNKS_OFF = Release(0, 10, 1), Release(0, 14)
"""The first release in which VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE is 0 by default (envs.py), and the
first in which it is not. 0 switches the manager off for models with chunks (config/vllm.py)."""
STATEFUL = frozenset({"mamba", "linear_attention", "conv"})
"""Kinds of layers that keep a state per request."""
STATES = Release(0, 10, 2)
"""Models with state layers run in V1 by default (engine/arg_utils.py: 0.10.1 falls back to V0 for `Mamba`)."""
SIZES = Release(0, 11)
"""Layers of one kind with different sizes can be one group (UniformTypeKVCacheSpecs). Groups are made from the layers
of the whole model and then cut to those of a pipeline stage (kv_cache_utils get_kv_cache_configs)."""
STATE_PER_BLOCK = Release(0, 11, 1)
"""Prefix caching of state layers, with a state at the end of every block (models/config.py
HybridAttentionMambaModelConfig, MambaSpec.max_memory_usage_bytes). Before, it is switched off."""
PAGES = Release(0, 12)
"""Layers with smaller pages get larger blocks if the sizes divide (unify_kv_cache_spec_page_size). Before, vLLM raises
NotImplementedError."""
RATIOS = ((Release(0, 18), 1.5), (Release(0, 12), 1.25))
"""If the largest set of equal layers is below this many times the smallest, groups are as large as it. Else, and before
these releases, they are as large as the smallest (_get_kv_cache_groups_uniform_page_size)."""
FLAG_OF_THREE = Release(0, 13)
"""`--no-disable-hybrid-kv-cache-manager` keeps the manager on with a connector (config/vllm.py)."""
FIRST_GROUP = Release(0, 14)
"""The check of one request counts groups, but only the first one (_max_memory_usage_bytes_from_groups `any_spec`).
Before, it counts every layer with its original spec, without changes by the manager or because of its absence."""
ALL_STAGES, OWN_STAGE = Release(0, 14), Release(0, 17)
"""Between them, the check counts the layers of the whole model, even if they are cut into pipeline stages
(get_kv_cache_configs: `global_kv_cache_groups` against `min(available_memory)`)."""
MODES = Release(0, 15)
"""`mamba_cache_mode`: "align" keeps two states; each speculative token keeps one more (MambaSpec)."""
DELTA_NET_STATES = Release(0, 17)
"""`--mamba-ssm-cache-dtype` also applies to Gated DeltaNet, and the convolution of Mamba 2 keeps the speculative tokens
(layers/mamba/mamba_utils.py)."""
ALL_GROUPS = Release(0, 19)
"""The check of one request counts every group (_max_memory_usage_bytes_from_groups)."""
EVENTS = Release(0, 20)
"""Before, `--kv-events-config` switches the manager off (config/vllm.py)."""
BY_CONCURRENCY = Release(0, 20, 1)
"""The size in tokens is the concurrency times max_model_len (_report_kv_cache_config). Before, it is the number of
blocks of one group times the smallest block."""
CONNECTORS = Release(0, 22)
"""A connector that supports the manager (SupportsHMA) leaves it on (config/vllm.py). Before, each switches it off."""
SPECULATIVE_STATES = Release(0, 22)
"""With a state at every block, each speculative token keeps one more (MambaSpec.max_memory_usage_bytes)."""
STRIDES = Release(0, 24)
"""A page whose size does not divide the largest is padded, if the backend can (indexes_kv_by_block_stride)."""
IN_FLIGHT = Release(0, 26)
"""Windows and chunks count the tokens of every batch in flight (config/vllm.py max_in_flight_tokens)."""
STATE_PAGES = Release(0, 26)
"""A state's page is padded to the largest (unify_kv_cache_spec_page_size)."""
WIDE_LATENT_BLOCKS = Release(0, 27)
"""Next to states, blocks of latents are multiples of 128 tokens (platforms/interface.py _align_hybrid_block_size)."""
DELTA_ATTENTION_STATES = Release(0, 27)
"""The convolution of Kimi Delta Attention keeps the speculative tokens (layers/mamba/mamba_utils.py)."""
STATES_CACHED = Release(0, 28)
"""Prefix caching of state layers is on by default, in the mode "align" (engine/arg_utils.py, models/config.py)."""
NULL_BLOCK = Release(0, 29)
"""The check leaves out one block, which represents "no block" (get_kv_cache_configs `check_memory`)."""
PADDED = Release(0, 29)
"""Every page except a latent's is padded if its size does not divide the largest (unify_kv_cache_spec_page_size)."""
DELTA_ATTENTION_CHECKPOINT = Release(0, 29)
"""Kimi-K3's delta attention keeps one state more if FlashKDA's kernel does the prefill (models/kimi_k3/nvidia/kda.py
get_kv_cache_spec)."""
SHORT_CONVOLUTIONS = Release(0, 29)
"""A short convolution keeps the speculative tokens (layers/mamba/mamba_utils.py)."""
ALIGNED_ONLY = Release(0, 32)
"""The mode "all" was removed (models/config.py MambaModelConfig)."""
MAMBA2_CHECKPOINT = Release(0, 32)
"""Mamba 2 keeps one state more, which it exports in the middle of a prefill (layers/mamba/mamba_mixer2.py)."""
DELTA_NET_CHECKPOINT = Release(0, 33)
"""So does Gated DeltaNet if FlashInfer's kernel does the prefill; its blocks are then multiples of 64 tokens
(layers/mamba/gdn/qwen_gdn_linear_attn.py, platforms/interface.py _align_hybrid_block_size)."""

SUPPORTS_MANAGER = (  # connector → the first release, not before CONNECTORS, whose class inherits SupportsHMA
    *(
        (name, CONNECTORS)
        for name in (
            "DecodeBenchConnector", "ExampleHiddenStatesConnector", "MooncakeConnector", "MooncakeStoreConnector",
            "MultiConnector", "NixlConnector", "OffloadingConnector", "SimpleCPUOffloadConnector",
        )
    ),
    ("NixlPullConnector", Release(0, 24)), ("NixlPushConnector", Release(0, 24)),
    ("HiSparseConnector", Release(0, 30)), ("MoRIIOConnector", Release(0, 30)),
    ("UMBPStoreConnector", Release(0, 33)),
)  # fmt: skip
"""vLLM 0.22 … 0.33 distributed/kv_transfer/kv_connector/v1."""
OF_THE_PACKAGE = "LMCacheMPConnector", Release(0, 27, 1)
"""A connector that is the lmcache package's class if that is installed, since this release; it leaves the manager on
(kv_connector/v1/lmcache_mp_connector.py _resolve_lmcache_mp_connector)."""
BUILT_IN = "LMCACHE_USE_UPSTREAM_MP"
"""Set to anything, this variable selects vLLM's own class for OF_THE_PACKAGE."""
Check = Literal["layers", "first group", "groups"]


def check(release: Release) -> Check:
    """The layers and groups that the check of one request counts."""
    if release < FIRST_GROUP:
        return "layers"
    return "first group" if release < ALL_GROUPS else "groups"


def ratio(release: Release) -> float:
    """The factor in `RATIOS`, which are sorted from the newest release; 0 for releases before them."""
    for since, factor in RATIOS:
        if release >= since:
            return factor
    return 0.0


def supports_manager(connector: Mapping[str, Any], release: Release, *, built_in: bool) -> bool | None:
    """True if a `--kv-transfer-config` (`connector`) leaves the hybrid KV cache manager on; None if that is unknown,
    because the connector is another package's.

    A MultiConnector leaves it on if all of its connectors do. `built_in`: BUILT_IN is set."""
    if release < CONNECTORS:
        return False
    name, extra = connector.get("kv_connector"), connector.get("kv_connector_extra_config")
    packaged, packaged_since = OF_THE_PACKAGE
    is_packaged = name == packaged and release >= packaged_since and not built_in
    if connector.get("kv_connector_module_path") or is_packaged:
        return None
    since = dict(SUPPORTS_MANAGER).get(str(name))
    if since is None or release < since:
        return False
    parts = extra.get("connectors") if isinstance(extra, Mapping) else None
    if name != "MultiConnector" or not isinstance(parts, list):
        return True
    supported = [
        supports_manager(part, release, built_in=built_in)
        for part in parts
        if isinstance(part, Mapping) and part.get("kv_connector") != name  # one in itself would have no end
    ]
    if False in supported:
        return False
    return None if None in supported else True


def keeps_states(model: Model) -> bool:
    """True if some of the model's layers keep a state per request."""
    return model.model_type == "falcon_h1" or not STATEFUL.isdisjoint(model.layer_types)
