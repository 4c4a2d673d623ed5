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
from typing import Any, NamedTuple

from podfit.base.secret import FORMS
from podfit.kube import snapshot
from podfit.kube.path import mapping
from podfit.vllm.release import Release, parse

FIELDS = frozenset({"model", "gpu", "vllm_version", "arguments", "env", "gpu_memory_bytes", "source"})
"""Fields of a row. All others are sizes: those of the lines (`podfit.vllm.memory.lines`) are used."""
ENDING = ".measured.json"
SECRET = ("KEY", "TOKEN", "SECRET", "PASSWORD")
"""Parts of the names of vLLM's variables whose values are secrets (VLLM_API_KEY)."""
_SAME_MEMORY = 0.02
"""Share by which the memory of the same GPU may differ from the measured one. A choice: variants with the same name
(40 and 80 GB) differ by far more."""


@dataclass(frozen=True)
class MeasuredStart:
    """One start of vLLM."""

    model: str
    """The model's id or path, as the start had it."""
    gpu: str
    """The GPU's name in data/gpus.json."""
    release: Release
    arguments: str
    """The arguments that differ from the defaults, as `canonical_arguments` writes them."""
    lines: Mapping[str, int] = field(hash=False)
    """Line of the ledger → bytes of one GPU."""
    gpu_memory: int | None = None
    """Bytes that the process saw of one GPU; None if they were not reported."""
    source: str = ""
    """Where the measurement comes from, for people."""


class OwnArguments(NamedTuple):
    """Arguments and variables of a start that affect its memory."""

    arguments: dict[str, Any]
    """dest → value, with secrets masked."""
    variables: dict[str, str]
    """vLLM's own variables of the environment, without secrets."""


class MeasuredFile(NamedTuple):
    """The content of files with measurements."""

    starts: tuple[MeasuredStart, ...]
    errors: list[str]
    """For people: the file, the field and the reason."""


def canonical_arguments(given: Mapping[str, Any], defaults: Mapping[str, Any], env: Mapping[str, str]) -> str:
    """Arguments and variables that affect memory, in one text: equal for engines with the same setup.

    An argument set to its default is left out. Only vLLM's own variables of the environment count, without secrets.
    """
    return json.dumps(own_arguments(given, defaults, env), sort_keys=True, default=str)


def own_arguments(given: Mapping[str, Any], defaults: Mapping[str, Any], env: Mapping[str, str]) -> OwnArguments:
    """The arguments and variables that `canonical_arguments` writes; `given` and `defaults`: dest → value."""
    without_effect = HARMLESS | SETTINGS_WITHOUT_EFFECT
    arguments = {
        name: value for name, value in given.items()
        if name not in without_effect and value is not None and value != defaults.get(name)
    }  # fmt: skip
    variables = {
        name: value for name, value in env.items()
        if name.startswith("VLLM_") and not any(word in name for word in SECRET)
    }  # fmt: skip
    return OwnArguments(FORMS.masked_value(arguments), variables)


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
    """The measurement of exactly this setup: the last one of several, None if there is none.

    `models`: all names of the model. `memory`: bytes that processes see on this GPU, because another variant with the
    same name may have a different size; 0 if they are unknown.
    """
    names = {model for model in models if model}
    last = None
    for start in measured_starts:
        is_same_setup = start.release == release and start.arguments == arguments and start.gpu == gpu
        has_sizes = bool(start.gpu_memory and memory)
        is_same_size = not has_sizes or abs((start.gpu_memory or 0) / memory - 1) < _SAME_MEMORY
        if is_same_setup and start.model in names and is_same_size:
            last = start
    return last


def read(text: str, at: str) -> MeasuredFile:
    """The measurements in a file; never raises. `at`: the file's name in errors."""
    try:
        rows = mapping(json.loads(text)).get("measured")
    except (ValueError, RecursionError) as error:
        return MeasuredFile((), [f"{at}: not JSON: {error}"])
    if not isinstance(rows, list):
        return MeasuredFile((), [f'{at}: no list "measured" in it'])
    measured_starts, errors = [], []
    for number, row in enumerate(rows):
        try:
            measured_starts.append(_measured_of_row(mapping(row), at))
        except ValueError as error:
            errors.append(f"{at}: measured[{number}]{error}")
    return MeasuredFile(tuple(measured_starts), errors)


_LARGEST = 1 << 50
"""Bytes (a PiB) below which a number is a size of one GPU. A choice: a larger one is a mistake."""


def _measured_of_row(row: Mapping[str, Any], at: str) -> MeasuredStart:
    """A measurement from its JSON; raises ValueError with the field and the reason. `at`: the default of its source."""
    for name in ("model", "gpu", "vllm_version"):
        if not isinstance(row.get(name), str) or not row[name]:
            raise ValueError(f".{name}: a text is needed")
    release = parse(row["vllm_version"])
    if release is None:
        raise ValueError(f".vllm_version: {row['vllm_version']!r} is not a release of vLLM")
    lines = {name: size for name, size in row.items() if name not in FIELDS and size is not None}
    memory = row.get("gpu_memory_bytes")
    sizes = lines if memory is None else {**lines, "gpu_memory_bytes": memory}
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size < _LARGEST:
            raise ValueError(f".{name}: {size!r} is not a number of bytes")
    if not lines:
        raise ValueError(": no size of a line in it, such as weights or kv_cache")
    return MeasuredStart(
        model=row["model"],
        gpu=row["gpu"],
        release=release,
        arguments=canonical_arguments(mapping(row.get("arguments")), {}, mapping(row.get("env"))),
        lines=lines,
        gpu_memory=memory,
        source=str(row.get("source") or at),
    )


def of_config_map(obj: Mapping[str, Any]) -> MeasuredFile:
    """The measurements in all `*.measured.json` of a ConfigMap; empty if it is not labeled as one of podfit's."""
    metadata = mapping(obj.get("metadata"))
    if snapshot.MODEL_CONFIG not in mapping(metadata.get("labels")):
        return MeasuredFile((), [])
    measured_starts: list[MeasuredStart] = []
    errors: list[str] = []
    for name, text in sorted(mapping(obj.get("data")).items()):
        if str(name).endswith(ENDING) and isinstance(text, str):
            file = read(text, f"ConfigMap {metadata.get('name')}: {name}")
            measured_starts += file.starts
            errors += file.errors
    return MeasuredFile(tuple(measured_starts), errors)
