"""Suggestions for mistaken words: the nearest valid word, None if none is near."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from podfit.base.lazy import regex
from podfit.base.near import LONGEST, nearest
from podfit.vllm import change
from podfit.vllm.args import settings
from podfit.vllm.args.values import InvalidValueError, human_int, key_values
from podfit.vllm.change import Suggestion
from podfit.vllm.release import Release

DTYPE_ALIASES = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32"}
"""Common names of what vLLM and PyTorch call otherwise."""
_CHOICE = regex(r"invalid choice: '(?P<given>[^']*)' \(choose from (?P<choices>.*)\)")
_MODE = Release(0, 11, 1)
"""Since when a compilation config's `level` is its `mode`."""


def name(given: str, allowed: Iterable[Any]) -> str | None:
    """The nearest of `allowed`: in any case, with other dashes, or with ATTENTION for ATTN. None if none is near, or if
    the text is too long to compare."""
    folded = {_folded(item): item for item in allowed if isinstance(item, str)}
    near = nearest(_folded(given), folded, cutoff=0.82) if len(given) <= LONGEST else []
    return folded[near[0]] if near else None


def tool_parsers(message: str, release: Release | None) -> tuple[tuple[str, ...], tuple[Suggestion, ...]]:
    """Details and suggestions for vLLM's error "--enable-auto-tool-choice requires --tool-call-parser".

    They list the parsers of the release. Which of them reads a model's calls depends on the model's chat template,
    which podfit does not know."""
    if not message.endswith("requires --tool-call-parser"):
        return (), ()
    none = settings.unknown_name("tool_call_parser", "", release)
    names = (f"it is one of {', '.join(none.allowed)}",) if none is not None else ()
    return names, (
        "--tool-call-parser with the one for this model",
        change.without("--enable-auto-tool-choice", "without {}"),
    )


def _folded(text: str) -> str:
    """The name in capitals without separators, and with `ATTENTION` shortened, so that spellings compare equal."""
    return re.sub("[-_ ]", "", text).upper().replace("ATTENTION", "ATTN")


_METRICS = change.leave_out(": vLLM always serves /metrics, on its own port")
_OF_A_REQUEST = change.leave_out(": a client sends it with each request (--override-generation-config sets a default)")
FLAGS_OF_OTHERS: dict[str, Suggestion] = {
    **dict.fromkeys(
        ("--enable-metrics", "--metrics", "--metrics-port", "--enable-prometheus", "--prometheus-port"), _METRICS
    ),
    **dict.fromkeys(
        (
            "--temperature", "--top-p", "--top-k", "--min-p", "--max-tokens", "--max-new-tokens", "--stop",
            "--stop-token-ids", "--repetition-penalty", "--presence-penalty", "--frequency-penalty",
        ),
        _OF_A_REQUEST,
    ),
    **dict.fromkeys(
        (
            "--context-length", "--ctx-size", "--max-length", "--max-seq-len", "--max-sequence-length", "--max-context",
            "--max-total-tokens", "--max-context-length",
        ),
        "--max-model-len",
    ),
    **dict.fromkeys(("--tp-size", "--tp", "--num-shard", "--num-gpus"), "--tensor-parallel-size"),
    **dict.fromkeys(("--mem-fraction-static", "--gpu-memory", "--cuda-memory-fraction"), "--gpu-memory-utilization"),
    **dict.fromkeys(("--batch-size", "--max-batch-size", "--max-concurrent-requests"), "--max-num-seqs"),
    **dict.fromkeys(("--load-in-4bit", "--load-in-8bit"), "--quantization bitsandbytes"),
    **dict.fromkeys(("--workers", "--num-workers"), "--api-server-count"),
    **dict.fromkeys(("--log-level", "--loglevel"), "--uvicorn-log-level, or env VLLM_LOGGING_LEVEL"),
    **dict.fromkeys(("--n-gpu-layers", "--device-map"), change.leave_out(": vLLM puts all layers on the GPUs")),
}  # fmt: skip
"""Flags of other servers, and of clients, that no vLLM release has: what does the same in vLLM (SGLang's
server_args.py, text-generation-launcher --help, llama-server --help, OpenAI's API reference)."""
A_SLIP = 2
"""Most characters that are added, left out or changed in a word that is only misspelled."""


def slip_of(flag: str, known: Mapping[str, Any]) -> str | None:
    """The only flag of those known that is at most A_SLIP characters away; None if there is none, or several."""
    near = [text for text in nearest(flag, known, most=8, cutoff=0.75) if distance(flag, text) <= A_SLIP]
    return near[0] if len(near) == 1 else None


def distance(text: str, other: str) -> int:
    """The least number of characters to add, leave out or change (Levenshtein)."""
    row = list(range(len(other) + 1))
    for number, char in enumerate(text, 1):
        last, row = row, [number]
        for index, letter in enumerate(other, 1):
            row.append(min(last[index] + 1, row[-1] + 1, last[index - 1] + (char != letter)))
    return row[-1]


def is_choice(message: str) -> bool:
    """True if argparse rejects a value for not being one of the choices."""
    return _CHOICE.search(message) is not None


def choice(message: str) -> str | None:
    """The nearest allowed value in argparse's "invalid choice: 'fp16' (choose from 'auto', 'float16', …)". None for
    other messages, and if none is near."""
    match = _CHOICE.search(message)
    if match is None:
        return None
    choices = re.findall("'([^']*)'", match["choices"])
    usual = DTYPE_ALIASES.get(match["given"].lower())
    return usual if usual in choices else name(match["given"], choices)


_GROUPED = regex(r"\d{1,3}([,_'\s]\d{3})+")
_POWER = regex(r"\d+(\.\d+)?[eE]\+?\d{1,3}")


def number(text: object) -> str | None:
    """The plain number that another way to write it stands for: `8,192`, `"8192"` with its quotes, `1e+06`, `1k`,
    `0,9`, `90%`. None for other texts. The argument's parser decides whether it takes the number."""
    if not isinstance(text, str) or len(text) > LONGEST:
        return None
    plain = text.strip(" \t\r\n'\"\\")
    if _GROUPED.fullmatch(plain):
        return re.sub(r"\D", "", plain)
    if _POWER.fullmatch(plain) and float(plain).is_integer():
        return str(int(float(plain)))
    if re.fullmatch(r"\d+,\d{1,2}", plain):
        return plain.replace(",", ".")
    if re.fullmatch(r"\d{1,2}\s?%", plain):
        return f"{int(plain.rstrip(' %')) / 100:g}"
    try:
        return plain if re.fullmatch(r"\d+(\.\d+)?", plain) else str(human_int(plain))
    except (ValueError, OverflowError, InvalidValueError):
        return None


def as_json(dest: str, text: object, release: Release | None) -> str | None:
    """The JSON object that a text of an older kind, or of Python's, stands for; None if it stands for none."""
    if not isinstance(text, str):
        return None
    if dest == "compilation_config" and text in ("0", "1", "2", "3"):
        return json.dumps({"level" if release is not None and release < _MODE else "mode": int(text)})
    if dest == "limit_mm_per_prompt" and "=" in text:
        try:
            return json.dumps(key_values(text))
        except InvalidValueError:
            return None
    try:
        value = ast.literal_eval(text) if text.startswith("{") else None
        return json.dumps(value, allow_nan=False) if isinstance(value, dict) else None
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
