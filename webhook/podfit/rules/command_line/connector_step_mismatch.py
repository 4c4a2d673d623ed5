"""Rule connector-step-mismatch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from podfit.rules.command_line._configuration import Check, Given, findings
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule
from podfit.vllm.memory import kv_releases, plan
from podfit.vllm.memory.kv_cache import layout
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
    """LMCache's connector demands that a step advances one block of states, and a step is shorter or longer.

    With prefix caching, vLLM stores the state of a Mamba or Gated DeltaNet layer at the end of a step. LMCache 0.4.7 to
    0.5.3 therefore demands that a step advances exactly one block (LMCache/LMCache#3613, #4437), and vLLM exits:

        ValueError: Mamba-hybrid models with LMCache require block_size <= max_num_batched_tokens < 2 * block_size

    The block is as long as an attention layer's page needs to be as large as a state, often 500 to 2,200 tokens. Later
    versions of LMCache have no upper limit, but their server then needs `--separate-object-groups`.
    """

    plane = "config"
    event = "vLLM exits after it has laid out the KV cache"
    mode = "warn"
    never_denies = "which LMCache the image contains is not in its tag"
    needs = ("vllm_args", "release", "model")

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Likely: the image has the LMCache of its day."""
        for finding in findings(engine, (CHECK,)):
            yield replace(
                finding,
                certainty="likely",
                path=engine.argument("max_num_batched_tokens"),
                suggestions=tuple(_changes(engine)),
            )


def _refusal(it: Given) -> str | None:
    """A batch outside of one block of states."""
    block, step = _state_block(it), it.settings.max_num_batched_tokens
    if block is None or block <= step < 2 * block:
        return None
    default = "" if "max_num_batched_tokens" in it.args else "the default of "
    return (
        f"{CONNECTOR} needs a step of at least {block:,} and less than {2 * block:,} tokens with {it.model.id}, and "
        f"{default}--max-num-batched-tokens is {step:,}"
    )


def _changes(engine: Engine) -> Iterator[str]:
    """The largest step that fits, and a newer LMCache."""
    model, release = engine.model, engine.release
    gpus = plan.gpus_of(engine.gpu.value if engine.gpu else None, engine.facts.gpu_memory)
    if model is None or release is None or not gpus:
        return
    it = Given(engine, engine.args.given, model.value, release, gpus[0])
    if (block := _state_block(it)) is not None:
        step = 2 * block - 1
        fewer = "" if it.settings.max_num_seqs <= step else f" and --max-num-seqs {step}"
        yield f"--max-num-batched-tokens {step}{fewer}"
    yield f"vLLM {CHECKED[1]} or later, with --separate-object-groups at the LMCache server"


def _state_block(it: Given) -> int | None:
    """Tokens of a block of states; None if there is none, if it is unknown, or if another class serves the
    connector."""
    config = it.args.get("kv_transfer_config")
    if not isinstance(config, Mapping) or config.get("kv_connector") != CONNECTOR:
        return None
    packaged = it.release >= PACKAGED_SINCE and kv_releases.BUILT_IN not in it.engine.command.env
    if not packaged and not str(config.get("kv_connector_module_path", "")).startswith(MODULE):
        return None
    if not it.prefix_caching:
        return None
    states = layout(it.model, it.settings._replace(manager=True))  # the package's class leaves it on
    if states is None or not states.known or not states.sure_blocks:
        return None
    return next((group.spec.block_size for group in states.groups if group.spec.is_state), None) or None


CHECK = Check("kv_transfer_config", *CHECKED, _refusal, (), of_model=True, of_gpu=True)
