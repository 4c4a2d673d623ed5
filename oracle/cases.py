"""Command lines for the oracle, the same ones for the same seed."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from benchmarks.options import samples
from scripts.facts.table import FACTS
from webhook.vllm.args.flags import builtin
from webhook.vllm.release import Release

GIB = 1 << 30
GPUS: Sequence[Mapping[str, Any]] = (
    {"name": "NVIDIA H100 80GB HBM3", "memory": 85_018_542_080, "capability": [9, 0]},
    {"name": "Tesla T4", "memory": 15_655_829_504, "capability": [7, 5]},
    {"name": "NVIDIA A100-SXM4-40GB", "memory": 42_405_855_232, "capability": [8, 0]},
    {"name": "NVIDIA L4", "memory": 23_576_576_000, "capability": [8, 9]},
)
"""What NVML answers for each GPU; one of them per release, in turn."""
MODELS = (
    "Qwen/Qwen2.5-7B-Instruct", "meta-llama/Llama-3.1-8B-Instruct", "mistralai/Mistral-7B-v0.1",
    "google/gemma-2-9b-it", "google/gemma-3-27b-it", "openai/gpt-oss-20b", "Qwen/Qwen3-30B-A3B",
    "Qwen/Qwen3-Next-80B-A3B-Instruct", "meta-llama/Llama-4-Scout-17B-16E-Instruct", "deepseek-ai/DeepSeek-V3",
    "ibm-granite/granite-4.0-h-small", "BAAI/bge-m3", "microsoft/Phi-3.5-mini-instruct",
    "Qwen/Qwen2.5-VL-7B-Instruct", "Qwen/Qwen3-235B-A22B-FP8",
)  # fmt: skip
"""Entries of the catalog whose config.json was read: one per way to keep a KV cache, and per kind of configuration."""
VALUES: Mapping[str, Sequence[str | None]] = {
    "--max-model-len": ("1024", "4096", "8192", "32768", "131072", "1000000", "-1", "0"),
    "--max-num-seqs": ("1", "64", "256", "2048", "4096", "0"),
    "--max-num-batched-tokens": ("512", "2048", "4096", "16384", "65536"),
    "--gpu-memory-utilization": ("0.5", "0.95", "1.0", "1.1", "0"),
    "--dtype": ("auto", "half", "bfloat16", "float32"),
    "--kv-cache-dtype": ("auto", "fp8", "fp8_e5m2", "fp8_e4m3", "bfloat16"),
    "--quantization": ("awq", "gptq", "fp8", "compressed-tensors", "mxfp4", "gptq_marlin", "experts_int8"),
    "--block-size": ("8", "16", "32", "64", "128"),
    "--tensor-parallel-size": ("1", "2", "3", "4", "8"),
    "--pipeline-parallel-size": ("1", "2"),
    "--data-parallel-size": ("1", "2"),
    "--decode-context-parallel-size": ("1", "2", "4"),
    "--enforce-eager": (None,),
    "--enable-prefix-caching": (None,),
    "--no-enable-prefix-caching": (None,),
    "--enable-chunked-prefill": (None,),
    "--no-enable-chunked-prefill": (None,),
    "--enable-expert-parallel": (None,),
    "--enable-eplb": (None,),
    "--disable-sliding-window": (None,),
    "--disable-hybrid-kv-cache-manager": (None,),
    "--trust-remote-code": (None,),
    "--async-scheduling": (None,),
    "--enable-lora": (None,),
    "--calculate-kv-scales": (None,),
    "--max-lora-rank": ("1", "8", "16", "48", "512"),
    "--max-loras": ("0", "1", "4"),
    "--runner": ("auto", "generate", "pooling"),
    "--convert": ("auto", "none", "embed", "classify"),
    "--task": ("auto", "generate", "embed"),
    "--swap-space": ("0", "4", "-1"),
    "--cpu-offload-gb": ("0", "8", "-1"),
    "--scheduling-policy": ("fcfs", "priority", "lifo"),
    "--load-format": ("auto", "dummy", "safetensors"),
    "--max-num-partial-prefills": ("1", "2"),
    "--long-prefill-token-threshold": ("0", "100000"),
    "--speculative-config": (
        '{"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4}',
        '{"method": "ngram"}',
        '{"method": "mtp", "num_speculative_tokens": 1}',
        '{"num_speculative_tokens": 3}',
    ),
    "--hf-overrides": ('{"max_position_embeddings": 8192}', '{"architectures": ["NoSuchModel"]}'),
    "--kv-transfer-config": ('{"kv_connector": "NixlConnector", "kv_role": "kv_both"}', '{"kv_role": "kv_both"}'),
    "--limit-mm-per-prompt": ('{"image": 1}', '{"image": -1}'),
    "--compilation-config": ('{"cudagraph_capture_sizes": [1, 2, 4]}', '{"level": 0}', '{"mode": 3}'),
}
"""Options that the configuration stage reads, with values on both sides of its checks."""
PLAIN = ("--max-model-len", "--max-num-batched-tokens", "--enable-prefix-caching", "--disable-hybrid-kv-cache-manager",
         "--kv-cache-dtype", "--tensor-parallel-size")  # fmt: skip
"""Options of the cases whose KV cache is compared."""

NOT_DRAWN = {"--config", "--help", "-h", "--model"}
"""Options that end the reading, read a file, or name the model, which is the first argument here."""


@dataclass(frozen=True)
class Case:
    """One command line."""

    id: str
    stage: str
    """How far vLLM runs: "parse", "config" or "kv"."""
    release: str
    gpu: Mapping[str, Any]
    model: str
    arguments: tuple[str, ...]
    """What follows `vllm serve MODEL`."""
    kv_cache_memory_bytes: int | None = None

    def argv(self, model: str) -> list[str]:
        """The arguments after `vllm serve`, with the model under this name."""
        return [model, *self.arguments]


@cache
def configs() -> dict[str, dict[str, Any]]:
    """Model → its config.json, as far as the catalog keeps it."""
    found = {}
    for line in (FACTS / "models.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row["id"] in MODELS:
            found[row["id"]] = with_layer_types(row["config"])
    return {name: found[name] for name in MODELS}


def with_layer_types(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config with one `layer_types` entry per layer, where the catalog keeps the pattern that repeats."""
    out: dict[str, Any] = {
        key: with_layer_types(value) if key == "text_config" else value for key, value in config.items()
    }
    pattern = out.pop("layer_pattern", None)
    if pattern:
        layers = out["num_hidden_layers"]
        out["layer_types"] = (list(pattern) * layers)[:layers]
    return out


def kinds(config: Mapping[str, Any]) -> list[str] | None:
    """The kind of each layer, by Transformers' names; None for a model whose KV cache is not compared."""
    text = config.get("text_config", config)
    layers = text["num_hidden_layers"]
    if "layer_types" in text:
        return list(text["layer_types"])
    every: Mapping[str, Sequence[str]] = {
        "qwen2": ["full_attention"],
        "llama": ["full_attention"],
        "qwen3_moe": ["full_attention"],
        "mistral": ["sliding_attention"],  # full where its config.json has no window
        "gemma2": ["sliding_attention", "full_attention"],
        "llama4_text": ["chunked_attention"] * 3 + ["full_attention"],
        "qwen3_next": ["linear_attention"] * 3 + ["full_attention"],
    }
    pattern = every.get(text["model_type"])
    return (list(pattern) * layers)[:layers] if pattern else None


def flags(release: Release) -> dict[str, Mapping[str, Any]]:
    """Spelling → the option of the release that has it."""
    found: dict[str, Mapping[str, Any]] = {}
    for row in builtin().rows(release).values():
        for one in (*row.get("flags", ()), *row.get("negative", ())):
            found[one] = row
    return found


def generate(release: Release, gpu: Mapping[str, Any], seed: int, count: int) -> Iterator[Case]:
    """`count` cases for each stage."""
    chance = random.Random(f"{seed} {release}")  # noqa: S311 - cases, not secrets
    known = flags(release)
    cached = [name for name, config in configs().items() if kinds(config)]
    for number in range(count):
        yield Case(f"{release}|parse|{number}", "parse", str(release), gpu, MODELS[0], _any(chance, known))
    for number in range(count):
        model = chance.choice(MODELS)
        chosen = chance.sample([one for one in VALUES if one in known], k=chance.choice((0, 1, 1, 2, 2, 3)))
        yield Case(f"{release}|config|{number}", "config", str(release), gpu, model, _with_values(chance, chosen))
    for number in range(count):
        model = chance.choice(cached)
        chosen = [
            "--max-model-len",
            *chance.sample([one for one in PLAIN[1:] if one in known], k=chance.choice((0, 1, 2))),
        ]
        memory = int(chance.choice((0.5, 2, 8, 20, 40, 60)) * GIB) + chance.randrange(GIB)
        yield Case(
            f"{release}|kv|{number}", "kv", str(release), gpu, model, _with_values(chance, chosen, small=True), memory
        )


def _with_values(chance: random.Random, chosen: Sequence[str], small: bool = False) -> tuple[str, ...]:
    words = []
    for flag in chosen:
        values = VALUES[flag][:5] if small else VALUES[flag]
        value = chance.choice(values)
        words += [flag] if value is None else [flag, value]
    return tuple(words)


def _any(chance: random.Random, known: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """One to three options of the release, one time in three with a mistake in one of them."""
    words: list[str] = []
    for flag in chance.sample(sorted(set(known) - NOT_DRAWN), k=chance.choice((1, 2, 3))):
        row = known[flag]
        option = {"nargs": None, "type": None, "choices": None, "default": None, "action": "_StoreAction", **row}
        if option["nargs"] == 0 or flag in row.get("negative", ()):
            words.append(flag)
            continue
        text = chance.choice([text for text, _ in samples({**option, "dest": row.get("dest", "")})] or ["1"])
        words += [f"{flag}={text}"] if chance.random() < 0.5 and flag.startswith("--") else [flag, text]
    if chance.random() < 1 / 3:
        place = chance.randrange(len(words))
        mistakes = (f"{words[place]}x", words[place][:-1], words[place].replace("-", "_"), words[place].upper(), "")
        words[place] = chance.choice(mistakes)
    return tuple(words)
