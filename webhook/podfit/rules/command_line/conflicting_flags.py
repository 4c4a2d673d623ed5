from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from podfit.rules._flags import certainty, is_since, uncertain
from podfit.rules.command_line import _combinations, _configuration, _meant, _speculative, _values
from podfit.rules.command_line._configuration import number
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule
from podfit.vllm import change
from podfit.vllm.release import Release

RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""Every LoRA rank that a release ever took (vLLM 0.4 … 0.33 config/lora.py possible_max_ranks)."""
RANK_OF_ONE = Release(0, 11, 1)
"""Before, 1 is none of them."""
VALIDATED = Release(0, 6, 6)
"""`vllm serve` and the module both call validate_parsed_serve_args (read in vLLM 0.6.6 … 0.33
entrypoints/openai/api_server.py and entrypoints/cli/serve.py)."""
LITERAL_ROLES = Release(0, 9, 1)
"""Since then a wrong role is a wrong value of the class (`invalid-flag-value`)."""
KV_ROLES = ("kv_producer", "kv_consumer", "kv_both")

BACKEND_TWICE = Release(0, 13)
"""The first release that rejects a backend named in both places, even the same one (vLLM 0.13 … 0.33
engine/arg_utils.py create_engine_config)."""


CHECKS = (*_combinations.CHECKS, *_values.CHECKS, *_speculative.CHECKS)
"""The arguments that vLLM rejects while it builds its configuration, row by row."""
_CHECKED = {
    dest: [row for row, check in enumerate(CHECKS) if check.dest == dest] for dest in {check.dest for check in CHECKS}
}
"""Argument → its rows of CHECKS."""


class ConflictingFlags(Rule):
    """Two arguments do not go together.

    vLLM checks its arguments against each other before it loads anything. Some right after parsing
    (entrypoints/openai/cli_args.py, validate_parsed_serve_args), most while it builds its configuration:

        TypeError: Error: --enable-auto-tool-choice requires --tool-call-parser
        ValueError: max_num_batched_tokens (128) must be greater than or equal to max_num_seqs (256).
        ValueError: max_num_batched_tokens (2048) is smaller than max_model_len (8192). This effectively limits the
        maximum sequence length to max_num_batched_tokens and makes vLLM reject longer sequences.
        ValueError: max_cpu_loras (1) must be >= max_loras (4)
        ValueError: LoRA is not enabled! Use --enable-lora to enable LoRA.
        ValueError: Number of experts in the model must be greater than 0 when expert parallelism is enabled.
        ValueError: attention_backend and attention_config.backend are mutually exclusive
        ValueError: enable_expert_parallel must be True to use EPLB.
        ValueError: num_speculative_tokens must be provided with speculative model unless …
        NotImplementedError: Unsupported speculative method: 'mtp'

    Many of these checks depend on values that are not given: the length of the model, the default batch of the GPU. An
    encoder such as bge-m3 reads each prompt in one piece, so vLLM rejects a smaller `--max-num-batched-tokens`.
    `podfit plan --format json` shows the values under `engine.resolved`.
    """

    plane = "config"
    event = "vLLM exits before it loads the model"
    by_release = True
    mode = "deny"
    needs = ("vllm_args",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain if every release and entry point checks it, otherwise likely."""
        for conflict in engine.args.conflicts:
            names, instead = _meant.tool_parsers(conflict.message, engine.release)
            yield Finding(
                path=conflict.path,
                message=conflict.message.removeprefix("Error: "),
                certainty=certainty(engine) if engine.served and is_since(engine, VALIDATED) else "likely",
                details=names,
                suggestions=instead,
            )
        for check in OTHER_CHECKS:
            yield from check.find(engine)
        rows = sorted([row for dest in engine.args.given for row in _CHECKED.get(dest, ())])
        yield from _configuration.findings(engine, [CHECKS[row] for row in rows])


def _adapters(engine: Engine) -> Iterator[Finding]:
    """Adapters that the server is to load, without LoRA.

    Not if LoRA is on or may be: by an argument of unknown value, or one that is not seen."""
    args = engine.args
    if "enable_lora" in args.unresolved or args.given.get("enable_lora") or args.open:
        return
    if args.given.get("lora_modules"):
        yield Finding(
            path=engine.argument("lora_modules"),
            message="--lora-modules without --enable-lora: the adapters can't be loaded",
            certainty="likely",
            suggestions=(change.flags("--enable-lora"),),
        )


def _lora(engine: Engine) -> Iterator[Finding]:
    """Fewer LoRA adapters in host memory than on the GPU, or a rank that vLLM does not take.

    vLLM 0.4 … 0.33 LoRAConfig. Only with --enable-lora, and for numbers that are given."""
    if "enable_lora" in engine.args.unresolved or not engine.args.given.get("enable_lora"):
        return
    cpu, gpu, rank = (number(engine, dest) for dest in ("max_cpu_loras", "max_loras", "max_lora_rank"))
    if cpu is not None and gpu is not None and cpu < gpu:
        yield Finding(
            path=engine.argument("max_cpu_loras"),
            message=f"--max-cpu-loras {cpu} is smaller than --max-loras {gpu}",
            certainty=certainty(engine),
            uncertain=uncertain(engine),
            suggestions=(change.flags(f"--max-cpu-loras {gpu}"),),
        )
    too_small = rank == 1 and engine.release is not None and engine.release < RANK_OF_ONE
    if rank is not None and (rank not in RANKS or too_small):
        fits = next((larger for larger in RANKS[1:] if larger > rank), RANKS[-1])
        yield Finding(
            path=engine.argument("max_lora_rank"),
            message=f"--max-lora-rank {rank} is none of {', '.join(map(str, RANKS[1:] if too_small else RANKS))}",
            certainty=certainty(engine),
            uncertain=uncertain(engine),
            suggestions=(change.flags(f"--max-lora-rank {fits}"),),
        )


def _transfer(engine: Engine) -> Iterator[Finding]:
    """A KV connector without a role.

    vLLM 0.6.6 … 0.33 config/kv_transfer.py. A wrong role is a finding here only before `LITERAL_ROLES`."""
    config: Any = engine.args.given.get("kv_transfer_config")
    if not isinstance(config, dict) or not config.get("kv_connector"):
        return
    if config.get("kv_role") is None:
        yield Finding(
            path=engine.argument("kv_transfer_config"),
            message=f"--kv-transfer-config names no kv_role: a connector is one of {', '.join(KV_ROLES)}",
            certainty=certainty(engine) if is_since(engine, VALIDATED) else "likely",
            suggestions=tuple(f'"kv_role": "{text}"' for text in KV_ROLES),
        )
    elif config["kv_role"] not in KV_ROLES and not is_since(engine, LITERAL_ROLES):
        yield Finding(
            path=engine.argument("kv_transfer_config"),
            message=f"--kv-transfer-config names the kv_role {config['kv_role']!r}: a connector is one of "
            f"{', '.join(KV_ROLES)}",
            certainty=certainty(engine) if is_since(engine, VALIDATED) else "likely",
            suggestions=tuple(f'"kv_role": "{text}"' for text in KV_ROLES),
        )


DENSE_MODEL_TYPES = frozenset({
    "bert", "falcon_h1", "gemma", "gemma2", "gemma3", "gemma3_text", "granite", "internlm2", "llama", "mistral",
    "olmo2", "olmo3", "phi3", "qwen2", "qwen2_5_vl", "qwen2_vl", "qwen3", "qwen3_vl", "roberta", "xlm-roberta",
})  # fmt: skip
"""Families of which no model has experts; of others, a row of a table may only not say how many."""
EXPERTS_ASKED = Release(0, 8)
"""The first release that rejects a model without experts (vLLM 0.8 … 0.33 config/model.py,
_verify_with_expert_parallelism)."""


def _experts(engine: Engine) -> Iterator[Finding]:
    """Expert parallelism of a model without experts.

    Only for `DENSE_MODEL_TYPES`, and if no argument changes the model's config.json."""
    given, model, release = engine.args.given, engine.model, engine.release
    if not given.get("enable_expert_parallel") or model is None or release is None:
        return
    changed = any(dest in given or dest in engine.args.unresolved for dest in ("hf_overrides", "hf_config_path"))
    if model.value.model_type in DENSE_MODEL_TYPES and not model.value.num_experts and not changed:
        yield Finding(
            path=engine.argument("enable_expert_parallel"),
            message=f"--enable-expert-parallel, but {model.value.id} has no experts: it is dense",
            certainty=certainty(engine) if release >= EXPERTS_ASKED else "likely",
            rests_on=("model",),
            suggestions=(change.leave_out(),),
        )


def _backend(engine: Engine) -> Iterator[Finding]:
    """The attention backend, given twice.

    Only from `BACKEND_TWICE` on, and if both values are known and none is "auto"."""
    args, release = engine.args, engine.release
    flag, config = args.given.get("attention_backend"), args.given.get("attention_config")
    inside = config.get("backend") if isinstance(config, dict) else None
    if release is None or release < BACKEND_TWICE:
        return
    if not (isinstance(flag, str) and isinstance(inside, str)) or "auto" in (flag.lower(), inside.lower()):
        return
    if args.is_sure("attention_backend") and args.is_sure("attention_config"):
        yield Finding(
            path=engine.argument("attention_backend"),
            message=f"--attention-backend {flag} and --attention-config, which names the backend {inside}: vLLM takes "
            "one of them",
            certainty=certainty(engine),
            uncertain=uncertain(engine),
            suggestions=(change.without("--attention-backend"), 'leave "backend" out of --attention-config'),
        )


class OtherCheck(NamedTuple):
    """A check that also has findings for other releases, or without a known model."""

    dests: tuple[str, ...]
    """The arguments that it checks."""
    first: Release | None
    """The first release that certainly rejects them; None: every release."""
    find: Callable[[Engine], Iterator[Finding]]


OTHER_CHECKS = (
    OtherCheck(("max_num_batched_tokens",), None, _combinations.batches),
    OtherCheck(("lora_modules",), None, _adapters),
    OtherCheck(("max_cpu_loras", "max_lora_rank"), None, _lora),
    OtherCheck(("kv_transfer_config",), VALIDATED, _transfer),
    OtherCheck(("enable_expert_parallel",), EXPERTS_ASKED, _experts),
    OtherCheck(("attention_backend",), BACKEND_TWICE, _backend),
)
