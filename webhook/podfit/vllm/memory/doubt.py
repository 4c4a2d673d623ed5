"""Why a ledger can't support a denial: arguments that make the engine smaller in ways that it does not compute."""

from __future__ import annotations

from collections.abc import Mapping

from podfit.vllm.args import EngineArgs
from podfit.vllm.memory import quantisation
from podfit.vllm.model import Model

UNPLANNED = (
    "offload_backend", "offload_group_size", "offload_num_in_group", "offload_prefetch_step", "offload_params",
    "cpu_offload_params", "hf_config_path", "quantization_config", "mm_encoder_only",
)  # fmt: skip
"""Arguments that change the ledgers in a way that they do not compute (vLLM 0.33 config/offload.py,
config/quantization.py; with `--mm-encoder-only` the language model is not loaded, config/multimodal.py)."""
FILLS = ("auto", "hf", "safetensors", "pt", "npcache", "mistral", "fastsafetensors", "dummy", "runai_streamer")
"""Load formats that build the whole model on the GPU and then fill it (vLLM 0.11 model_loader/base_loader.py);
tensorizer builds it on the meta device."""
MAIN = ("main", "refs/heads/main")
HUMMING = "VLLM_HUMMING_ONLINE_QUANT_CONFIG"
"""vLLM 0.33 quantization/humming.py: how to quantize a plain checkpoint while it loads."""


def of_arguments(args: EngineArgs) -> str | None:
    """The reason that the arguments alone give. It also applies to processes and to what they share. None if they give
    none."""
    given = args.given
    if given.keys().isdisjoint(UNPLANNED):
        return None
    unplanned = [dest for dest in UNPLANNED if given.get(dest) not in (None, False)]
    return f"the memory that --{unplanned[0].replace('_', '-')} takes is unknown" if unplanned else None


def of_default_length(args: EngineArgs, model: Model) -> str | None:
    """The reason against a denial that is based on the default of --max-model-len; None if the default is certain or
    not used."""
    if args.given.get("max_model_len") is not None or not model.length_scaled:
        return None
    return (
        f"the {model.max_position_embeddings:,} tokens of {model.id} are uncertain: its sources differ, or multiply by "
        "the rope factor"
    )


def of_loader(args: EngineArgs) -> str | None:
    """The reason against a denial that is based on GPU memory while the weights load: another loader."""
    form = str(args.given.get("load_format") or "auto")
    return None if form in FILLS else f"--load-format {form} may build the model in another way"


def reason_unplannable(args: EngineArgs, model: Model | None, env: Mapping[str, str]) -> str | None:
    """Why the ledger may be too large for this engine, so that it can't support a denial; None if there is no
    reason."""
    if why := of_arguments(args):
        return why
    given = args.given
    if HUMMING in env:
        return f"the memory that {HUMMING} takes is unknown"
    wish = args.quantization
    if model is not None and not quantisation.is_known(model, wish):
        named = f" with --quantization {wish}" if wish else ""
        return f"the bytes per weight of {model.id}{named} are unknown"
    # vLLM 0.13 v1/worker/gpu_model_runner.py, get_kv_cache_spec: an engine that only encodes images has no KV cache
    transfer = given.get("ec_transfer_config")
    if isinstance(transfer, Mapping) and transfer.get("ec_role") != "ec_consumer":
        return "--ec-transfer-config may make this an encoder, without a KV cache"
    revision = given.get("revision")
    if isinstance(revision, str) and revision not in MAIN and (model is None or revision != model.revision):
        return f"--revision {revision} may hold other files than main"
    return None
