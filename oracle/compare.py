"""Where podfit's plan differs from what vLLM's own code made of the same command line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from oracle.cases import Case
from oracle.known import KNOWN

LATER = frozenset({
    "gpu-lacks-dtype", "gpu-lacks-quantization", "no-attention-backend", "invalid-environment",
    "tensor-parallel-indivisible", "gpu-count-mismatch",
    "gpu-memory-utilization-too-high",
})  # fmt: skip
"""Rules for what vLLM rejects after its configuration stage too: in the worker, or when it loads the model."""
LATER_FLAGS = frozenset({"--kv-transfer-config", "--reasoning-parser", "--tool-call-parser"})
"""Options whose names vLLM looks up after that stage."""
MEMORY = frozenset({
    "gpu-memory-exceeded", "kv-cache-too-small", "concurrency-too-low", "gpu-memory-wasted", "max-model-len-unset",
    "long-and-short-context-mixed", "memory-limit-too-low", "shm-missing",
    "unknown-model", "unknown-gpu", "gpu-idle",
})  # fmt: skip
"""Rules for memory, and for GPUs without work: the configuration stage knows nothing of either."""
VALUES = ("max_model_len", "max_num_seqs", "max_num_batched_tokens", "gpu_memory_utilization", "enforce_eager", "dtype",
          "enable_prefix_caching")  # fmt: skip
WORST = ("denied, vLLM accepts", "fits, vLLM rejects", "no finding, vLLM rejects", "value", "argument", "KV cache")


@dataclass(frozen=True)
class Difference:
    """One thing that podfit and vLLM say differently."""

    kind: str
    """One of WORST."""
    text: str
    case: Case

    @property
    def reason(self) -> str | None:
        """Why it remains, if that is known."""
        line = f"{self.kind}: {self.text} [{self.case.model} {' '.join(self.case.arguments)}] {self.case.gpu['name']}"
        return next((reason for pattern, reason in KNOWN if re.search(pattern, line)), None)


def compare(case: Case, vllm: Mapping[str, Any], podfit: Mapping[str, Any]) -> list[Difference]:
    """The differences of one case, of which vLLM's answer is not the oracle's own failure."""
    engine = podfit.get("engine") or {}
    errors = [*(str(one) for one in engine.get("errors") or ()), *(str(one) for one in engine.get("unknown") or ())]
    found = [one for one in podfit.get("findings") or () if one["rule"] not in MEMORY]
    denied = [one["rule"] for one in found if one.get("mode") == "deny"]
    kinds = {"parse": _parsed, "config": _configured, "kv": _configured}
    if "error" in podfit:
        return [Difference("argument", f"podfit: {podfit['error']}", case)] if vllm["accepted"] else []
    texts = list(kinds[case.stage](case, vllm, engine, errors, denied, bool(found)))
    if "kv" in vllm:
        texts += _kv_cache(vllm["kv"], podfit)
    return [Difference(kind, text, case) for kind, text in texts]


Texts = Iterator[tuple[str, str]]


def _parsed(
    case: Case, vllm: Mapping[str, Any], engine: Mapping[str, Any], errors: list[str], denied: list[str], found: bool
) -> Texts:
    if not vllm["accepted"]:
        if not errors and not found:
            yield "no finding, vLLM rejects", first_line(vllm["error"])
        return
    if errors:
        yield "denied, vLLM accepts", "; ".join(errors)
        return
    for name, value in (engine.get("arguments") or {}).items():
        wanted = vllm["values"].get(name, value)
        if name not in ("model", "model_tag") and isinstance(value, bool | int | float | str) and value != wanted:
            yield "argument", f"{name}: {value!r}, vLLM {wanted!r}"


def _configured(
    case: Case, vllm: Mapping[str, Any], engine: Mapping[str, Any], errors: list[str], denied: list[str], found: bool
) -> Texts:
    if not vllm["accepted"]:
        if not errors and not found:
            yield "no finding, vLLM rejects", first_line(vllm["error"])
        return
    if not LATER_FLAGS & {word.partition("=")[0] for word in case.arguments}:
        early = [rule for rule in denied if rule not in LATER]
        if errors or early:
            yield "denied, vLLM accepts", "; ".join([*errors, *early])
            return
    resolved = engine.get("resolved") or {}
    for name in VALUES:
        got, wanted = resolved.get(name), vllm["resolved"].get(name)
        if got is not None and wanted is not None and got != wanted:
            yield "value", f"{name}: {got}, vLLM {wanted}"


def _kv_cache(vllm: Mapping[str, Any], podfit: Mapping[str, Any]) -> Texts:
    gpu, verdict = podfit.get("gpu") or {}, podfit.get("verdict")
    if vllm["passes"] and verdict == "does-not-fit":
        yield "denied, vLLM accepts", "the KV cache is large enough"
    if not vllm["passes"]:
        if verdict == "fits":
            yield "fits, vLLM rejects", first_line(vllm["error"])
        if vllm["longest"] and not near(gpu.get("estimated_max_model_len"), vllm["longest"], 0.01):
            yield "KV cache", f"longest length: {gpu.get('estimated_max_model_len')}, vLLM {vllm['longest']}"
        return
    tokens = (gpu.get("kv_cache_tokens") or {}).get("likely")
    if vllm["tokens"] and not near(tokens, vllm["tokens"], 0.005):
        yield "KV cache", f"tokens: {tokens}, vLLM {vllm['tokens']:.0f}"
    if vllm["concurrency"] and not near(gpu.get("max_concurrency"), vllm["concurrency"], 0.01):
        yield "KV cache", f"concurrency: {gpu.get('max_concurrency')}, vLLM {vllm['concurrency']}"


def near(one: float | None, other: float, tolerance: float) -> bool:
    """Whether two numbers are equal but for a share of the larger, or of one."""
    return one is not None and abs(one - other) <= tolerance * max(abs(one), abs(other), 1)


def first_line(text: str) -> str:
    """The line of an error that says something: pydantic puts a count before it, and an address after it."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and "For further information" not in line]
    return (lines[1] if len(lines) > 1 and "validation error" in lines[0] else lines[0] if lines else "")[:300]


def report(differences: Iterable[Difference]) -> str:
    """The differences, worst first: equal ones of several releases on one line, those with a known reason counted."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    reasons: dict[str, int] = {}
    for one in differences:
        if one.reason:
            reasons[one.reason] = reasons.get(one.reason, 0) + 1
            continue
        line = f"{one.case.model} {' '.join(one.case.arguments)}"
        groups.setdefault((one.kind, one.text, line), []).append(f"{one.case.release} on {one.case.gpu['name']}")
    out = []
    for kind in WORST:
        mine = sorted((key, found) for key, found in groups.items() if key[0] == kind)
        out += [f"{kind}: {len(mine)}"] if mine else []
        out += [f"  {text}\n    {line}\n    {', '.join(found)}" for (_, text, line), found in mine]
    out += [f"known: {count} × {reason}" for reason, count in sorted(reasons.items())]
    return "\n".join(out) or "no differences"
