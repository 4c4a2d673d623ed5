"""Differences that remain, and why; the table in docs/oracle.md is made of the same reasons."""

from __future__ import annotations

from collections.abc import Sequence

KNOWN: Sequence[tuple[str, str]] = (
    (
        r"unrecognized arguments: --(api-server-count|data-parallel-start-rank|grpc|headless)\b",
        "options that entrypoints/cli/serve.py adds are not in the parser that the oracle builds",
    ),
    (r"max_num_seqs: \d+, vLLM 0 ", "no engine runs with 0 sequences: vLLM 0.7 fails after its configuration stage"),
    (
        r"^KV cache: .*\[Qwen/Qwen3(-Next|\.5).* NVIDIA B200$",
        "the oracle takes FlashAttention's block size, which is larger there for heads of 256; vLLM takes FlashInfer",
    ),
    (
        r"max_num_batched_tokens: .* \[meta-llama/Llama-4-Scout",
        "the catalog keeps the text part of this config.json, from which podfit can't see that V0 batches for images",
    ),
)
"""Pattern of `kind: text [model arguments] GPU` → why podfit differs there."""
