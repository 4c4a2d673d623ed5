"""Guess from its name and arguments whether a program that the manifest does not describe runs vLLM."""

from __future__ import annotations

import re
from collections.abc import Sequence

from podfit.base.lazy import regex
from podfit.vllm.command.word import Value, text_of

_TELLING = frozenset({
    "gpu-memory-utilization", "max-model-len", "tensor-parallel-size", "pipeline-parallel-size", "enforce-eager",
    "max-num-seqs", "max-num-batched-tokens", "kv-transfer-config", "enable-prefix-caching", "enable-chunked-prefill",
    "swap-space", "enable-auto-tool-choice", "disable-log-requests",
})  # fmt: skip
"""Flags that vLLM has and hardly any other program."""
_NO_SERVER = regex(
    r"bench|client|download|router|proxy|simulat|inference-sim|mock|test|eval|convert|quantiz|profil|tune|load_|"
    r"sync|export|echo|sglang|lmdeploy|tgi|triton|mlserver|frontend|planner|gateway|scheduler",
    re.IGNORECASE,
)
CACHE_SERVER = regex(r"(.*/)?lmcache_\w*(server|controller)")
"""LMCache's own servers, in its image of vLLM: `lmcache_server HOST PORT`, `lmcache_experimental_server`."""
_SERVER_FILE = regex(r"(entrypoint|start|serve|run|launch|vllm|inference_api)[\w-]*(\.sh|\.py|\.bash)?$")
_LONGEST = 512
"""Characters of a program's path, or of an image's name, that are read."""


def looks_like_vllm(program: str, words: Sequence[Value]) -> bool:
    """True if the arguments are vLLM's: one of them is a flag that only vLLM has."""
    return any(_flag_name(word) in _TELLING for word in words) and not _NO_SERVER.search(program[:_LONGEST])


def names_model(words: Sequence[Value]) -> bool:
    """True if the arguments contain `--model`."""
    return any(_flag_name(word) in ("model", "model-tag") for word in words)


def is_server_file(program: str) -> bool:
    """True if it is the name of a start script or a server: `/entrypoint.sh`, `api_server.py`."""
    _, slash, name = program.rpartition("/")
    if len(program) > _LONGEST or not (slash or name.endswith((".sh", ".bash", ".py"))):
        return False
    return _SERVER_FILE.search(name) is not None and not _NO_SERVER.search(program)


def _flag_name(word: Value) -> str:
    """The flag's name with dashes: `--max_model_len=8` → "max-model-len"; empty if the word is not a long flag."""
    text = text_of(word)
    return text.partition("=")[0][2:].replace("_", "-") if text.startswith("--") else ""
