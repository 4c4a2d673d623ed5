"""Memory sizes that vLLM itself reported, as `podfit calibrate` writes them: preferred to any estimate.

A file `NAME.measured.json`, in the folder of `--models` or in a ConfigMap labeled `podfit.dev/model-config`:

    {"measured": [{"model": "meta-llama/Llama-3.1-8B-Instruct", "gpu": "NVIDIA H100 80GB SXM5",
                   "vllm_version": "0.19.0", "arguments": {"max_model_len": 8192}, "env": {},
                   "gpu_memory_bytes": 85029158912, "weights": 16095390662, "activations": 2029355008,
                   "cuda_graphs": 977105060, "non_torch": 268435456, "kv_cache": 62395449999,
                   "source": "kubectl logs llama-0"}]}

Sizes are bytes of one GPU. A size that was not reported is left out. A measurement applies only to the same model, GPU,
release, arguments and variables.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from podfit.base.secret import FORMS
from podfit.kube import snapshot
from podfit.kube.path import mapping
from podfit.vllm.release import Release, parse

FIELDS = frozenset({"model", "gpu", "vllm_version", "arguments", "env", "gpu_memory_bytes", "source"})
"""Fields of a row. All others are sizes: those of the lines (`podfit.vllm.memory.lines`) are used."""
ENDING = ".measured.json"
SECRET = ("KEY", "TOKEN", "SECRET", "PASSWORD")


@dataclass(frozen=True)
class MeasuredStart:
    """One start of vLLM."""

    model: str
    gpu: str
    """The GPU's name in data/gpus.json."""
    release: Release
    arguments: str
    """The arguments that differ from the defaults, as `canonical_arguments` writes them."""
    lines: Mapping[str, int] = field(hash=False)
    """Line of the ledger → bytes of one GPU."""
    gpu_memory: int | None = None
    """Bytes that the process saw of one GPU."""
    source: str = ""


def canonical_arguments(given: Mapping[str, Any], defaults: Mapping[str, Any], env: Mapping[str, str]) -> str:
    """Arguments and variables that affect memory, in one text: equal for engines with the same setup.

    An argument set to its default is left out. Only vLLM's own variables of the environment count, without secrets.
    """
    return json.dumps(own_arguments(given, defaults, env), sort_keys=True, default=str)


def own_arguments(
    given: Mapping[str, Any], defaults: Mapping[str, Any], env: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """(arguments, variables) of `canonical_arguments`."""
    arguments = {
        name: value
        for name, value in given.items()
        if name not in HARMLESS
        and name not in SETTINGS_WITHOUT_EFFECT
        and value is not None
        and value != defaults.get(name)
    }
    variables = {
        name: value for name, value in env.items()
        if name.startswith("VLLM_") and not any(word in name for word in SECRET)
    }  # fmt: skip
    return FORMS.masked_value(arguments), variables


HARMLESS = frozenset(
    {
        "host", "port", "served_model_name", "api_key", "hf_token", "chat_template", "tokenizer", "download_dir",
        "uvicorn_log_level", "root_path", "ssl_certfile", "ssl_keyfile", "ssl_ca_certs", "allowed_origins",
        "allowed_methods", "allowed_headers", "response_role", "tool_call_parser", "reasoning_parser",
        "tool_parser_plugin", "seed", "code_revision", "tokenizer_revision", "otlp_traces_endpoint",
        "log_config_file", "data_parallel_address", "data_parallel_rpc_port", "master_addr", "master_port",
        "node_rank", "generation_config", "override_generation_config", "lora_modules", "middleware",
    }
)  # fmt: skip
"""Arguments that change no size, no count and no file format: not to know them casts no doubt on a ledger."""
SETTINGS_WITHOUT_EFFECT = frozenset({
    "api_server_count", "config", "disable_log_requests", "disable_log_stats", "disable_uvicorn_access_log",
    "enable_auto_tool_choice", "enable_log_requests", "enable_prompt_tokens_details", "trust_remote_code",
    "dispatch_function", "enable_request_id_headers", "enable_server_load_tracking", "headless", "max_log_len", "model",
    "model_tag", "subcommand",
})  # fmt: skip
"""More of them, which vLLM's log lists among the engine's arguments."""


def find_measured(
    measured_starts: Iterable[MeasuredStart],
    models: Iterable[str],
    gpu: str,
    memory: int,
    release: Release,
    arguments: str,
) -> MeasuredStart | None:
    """The measurement of exactly this setup; the last one of several. `models`: the names of the model. `memory`: bytes
    that processes see on this GPU, because another variant with the same name may have a different size. None if there
    is none."""
    names = {model for model in models if model}
    measured_start = None
    for start in measured_starts:
        alike = start.release == release and start.arguments == arguments and start.gpu == gpu and start.model in names
        if alike and (not start.gpu_memory or not memory or abs(start.gpu_memory / memory - 1) < 0.02):
            measured_start = start
    return measured_start


def read(text: str, at: str) -> tuple[tuple[MeasuredStart, ...], list[str]]:
    """The measurements in a file, and the errors in it; never raises."""
    try:
        rows = mapping(json.loads(text)).get("measured")
    except (ValueError, RecursionError) as error:
        return (), [f"{at}: not JSON: {error}"]
    if not isinstance(rows, list):
        return (), [f'{at}: no list "measured" in it']
    measured_starts, errors = [], []
    for number, row in enumerate(rows):
        try:
            measured_starts.append(_measured_of_row(mapping(row), at))
        except ValueError as error:
            errors.append(f"{at}: measured[{number}]{error}")
    return tuple(measured_starts), errors


def _measured_of_row(row: Mapping[str, Any], at: str) -> MeasuredStart:
    """A measurement from its JSON; raises ValueError with the field and the reason."""
    texts = [row.get(name) for name in ("model", "gpu", "vllm_version")]
    for name, value in zip(("model", "gpu", "vllm_version"), texts, strict=True):
        if not isinstance(value, str) or not value:
            raise ValueError(f".{name}: a text is needed")
    release = parse(str(texts[2]))
    if release is None:
        raise ValueError(f".vllm_version: {texts[2]!r} is not a release of vLLM")
    lines = {name: size for name, size in row.items() if name not in FIELDS and size is not None}
    memory = row.get("gpu_memory_bytes")
    for name, size in {**lines, **({"gpu_memory_bytes": memory} if memory is not None else {})}.items():
        if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size < 1 << 50:
            raise ValueError(f".{name}: {size!r} is not a number of bytes")
    if not lines:
        raise ValueError(": no size of a line in it, such as weights or kv_cache")
    given, env = mapping(row.get("arguments")), mapping(row.get("env"))
    return MeasuredStart(
        str(texts[0]),
        str(texts[1]),
        release,
        canonical_arguments(given, {}, env),
        lines,
        memory,
        str(row.get("source") or at),
    )


def of_config_map(obj: Mapping[str, Any]) -> tuple[tuple[MeasuredStart, ...], list[str]]:
    """The measurements in the `*.measured.json` of a labeled ConfigMap, and the errors in them."""
    metadata = mapping(obj.get("metadata"))
    if snapshot.MODEL_CONFIG not in mapping(metadata.get("labels")):
        return (), []
    measured_starts: tuple[MeasuredStart, ...] = ()
    errors: list[str] = []
    for name, text in sorted(mapping(obj.get("data")).items()):
        if str(name).endswith(ENDING) and isinstance(text, str):
            rows, problems = read(text, f"ConfigMap {metadata.get('name')}: {name}")
            measured_starts, errors = measured_starts + rows, errors + problems
    return measured_starts, errors
