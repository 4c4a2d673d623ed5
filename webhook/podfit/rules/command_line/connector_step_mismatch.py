from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from podfit.rules.command_line._configuration import VllmConfig
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule
from podfit.vllm import change
from podfit.vllm.memory import kv_releases, plan
from podfit.vllm.memory.kv_cache import state_block
from podfit.vllm.release import Release

CONNECTOR, PACKAGED_SINCE = kv_releases.OF_THE_PACKAGE
MODULE = "lmcache."
"""The start of `kv_connector_module_path` that selects the lmcache package's class in older releases."""
CHECKED = Release(0, 24), Release(0, 28)
"""The releases whose images have an LMCache that checks both bounds, and the first with a newer one: LMCache 0.4.7 of
2026-06-13 to 0.5.3 of 2026-08-05 (integration/vllm/lmcache_mp_connector.py validate_mamba_step_alignment). 0.5.4 of
2026-08-20 removed the upper bound (LMCache/LMCache#4437). vLLM's requirements/kv_connectors.txt takes the newest one,
and 0.28.0 is of 2026-08-26."""


class ConnectorStepMismatch(Rule):
    """A step is shorter or longer than the one block of states that LMCache's connector demands.

    With prefix caching, vLLM stores the state of a Mamba or Gated DeltaNet layer at the end of a step. LMCache 0.4.7 to
    0.5.3 therefore demands that a step advances exactly one block (LMCache/LMCache#3613, #4437), and vLLM exits:

        ValueError: Mamba-hybrid models with LMCache require block_size <= max_num_batched_tokens < 2 * block_size

    The block is as long as an attention layer's page needs to be as large as a state, often 500 to 2,200 tokens. Later
    versions of LMCache have no upper limit, but their server then needs `--separate-object-groups`.
    """

    plane = "config"
    event = "vLLM exits after it has laid out the KV cache"
    never_denies = "which LMCache the image contains is not in its tag"
    needs = ("vllm_args", "release", "model")

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Likely: the image has the LMCache of its day."""
        checked = [vllm_config for vllm_config in _per_gpu(engine) if _has_the_check(vllm_config)]
        if not checked or any(map(_may_start, checked)):
            return
        vllm_config, block = checked[0], _state_block(checked[0])
        if block is None:
            return
        settings = vllm_config.settings
        longest = 2 * block - 1
        fewer = () if settings.batch.max_num_seqs <= longest else (f"--max-num-seqs {longest}",)
        default = "" if "max_num_batched_tokens" in engine.args.given else "the default of "
        yield Finding(
            path=engine.argument("max_num_batched_tokens"),
            message=f"{CONNECTOR} needs a step of {block:,} to {longest:,} tokens with {vllm_config.model.id}, and "
            f"{default}--max-num-batched-tokens is {settings.batch.max_num_batched_tokens:,}",
            certainty="likely",
            suggestions=(
                change.flags(f"--max-num-batched-tokens {longest}", *fewer),
                f"vLLM {CHECKED[1]} or later, with --separate-object-groups at the LMCache server",
            ),
        )


def _per_gpu(engine: Engine) -> Iterator[VllmConfig]:
    """The engine on each GPU that it may get; the default of a step depends on the GPU, a block does not."""
    model, release = engine.model, engine.release
    if model is None or release is None or engine.command.own_flags:
        return
    gpus = plan.gpus_of(engine.gpu.value if engine.gpu else None, engine.facts.gpu_memory)
    any_gpu = (None,) if "max_num_batched_tokens" in engine.args.given else ()
    for gpu in gpus or any_gpu:
        yield VllmConfig(engine, engine.args.given, model.value, release, gpu)


def _has_the_check(vllm_config: VllmConfig) -> bool:
    """True if the connector is the lmcache package's, and prefixes are cached."""
    first, past = CHECKED
    config = vllm_config.args.get("kv_transfer_config")
    if (
        not first <= vllm_config.release < past
        or not isinstance(config, Mapping)
        or config.get("kv_connector") != CONNECTOR
    ):
        return False
    packaged = vllm_config.release >= PACKAGED_SINCE and kv_releases.BUILT_IN not in vllm_config.engine.command.env
    named = str(config.get("kv_connector_module_path", "")).startswith(MODULE)
    return (packaged or named) and bool(vllm_config.prefix_caching)


def _may_start(vllm_config: VllmConfig) -> bool:
    """True if a step fits the block of states, or there is no such block."""
    block = _state_block(vllm_config)
    return block is None or _covers_one_block(vllm_config, block)


def _covers_one_block(vllm_config: VllmConfig, block: int) -> bool:
    """True if a step of max_num_batched_tokens covers one block of `block` tokens, and not two."""
    return block <= vllm_config.settings.batch.max_num_batched_tokens < 2 * block


def _state_block(vllm_config: VllmConfig) -> int | None:
    """Tokens per block of states under the hybrid KV cache manager; None if it has none."""
    attention = replace(vllm_config.settings.attention, manager=True)  # the package's class leaves it on
    return state_block(vllm_config.model, replace(vllm_config.settings, attention=attention))
