"""A cause with the values of its log and its container → what helps: "raise --gpu-memory-utilization from 0.8 to 0.9".

The texts are those of the causes' signatures. A number that neither the log nor the manifest has is left out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from podfit.base.near import nearest
from podfit.diagnose import contradiction
from podfit.diagnose.calibrate import Start
from podfit.diagnose.phase import Phase
from podfit.kube.quantity import GI, MI, human, quantity
from podfit.rules import memory_sizes
from podfit.rules.engine import Engine
from podfit.vllm.args.flags import builtin

MOST = 0.95
"""The largest share of the GPU's memory that is proposed (as in webhook/podfit/vllm/memory/solve.py)."""
_GIB = r"(-?\d+(?:\.\d+)?) GiB"


@dataclass(frozen=True)
class Known:
    """What is known of a start that failed."""

    text: str
    """The evidence: the lines that say what it died of."""
    start: Start | None = None
    engine: Engine | None = None
    phase: Phase | None = None
    """What vLLM was doing when it failed."""

    def value(self, dest: str) -> Any:
        """An argument's value, or its default in the release; None if it is not known."""
        if self.engine is not None:
            return self.engine.args.get(dest)
        if self.start is None or self.start.given is None:
            return None
        if dest in self.start.given or self.start.release is None:
            return self.start.given.get(dest)
        return builtin().parser(self.start.release, "serve").defaults.get(dest)

    def size(self, name: str) -> int | None:
        """Bytes of one GPU that the log prints, by the ledger's line."""
        return self.start.sizes.get(name) if self.start else None

    @property
    def total(self) -> int | None:
        """Bytes of GPU memory, as the log prints them, else as the GPU's facts say."""
        gpu = self.engine.gpu.value if self.engine and self.engine.gpu else None
        return self.size("total") or (min(one.memory for one in gpu.gpus) if gpu and gpu.gpus else None)

    @property
    def share(self) -> float | None:
        """--gpu-memory-utilization."""
        value = self.value("gpu_memory_utilization")
        return value if isinstance(value, float) and 0 < value <= 1 else None


def specific(cause: str, known: Known) -> list[str]:
    """Changes with their values, each a sentence; none if no text has the values."""
    make = _OF_CAUSE.get(cause)
    said = [*make(known)] if make else []
    model = known.start.model if known.start else None
    if cause in _OF_GPU_MEMORY and known.engine is None and model and contradiction.is_hub_id(model):
        said.append(f"`podfit plan {model}` lists the GPUs that fit.")
    return said


_OF_GPU_MEMORY = ("gpu-out-of-memory", "kv-cache-too-small", "no-kv-blocks")


def _up(share: float, more: float) -> float:
    """The share with so much more, as people write it."""
    return math.ceil((share + more) * 100 - 1e-6) / 100


def _raised(known: Known, short: float, why: str) -> Iterator[str]:
    """A larger share of the GPU's memory for `short` bytes, else a larger GPU."""
    share = known.share
    more = _up(share, short / known.total) if share and known.total else None
    if share and more and more <= MOST:
        yield f"Raise --gpu-memory-utilization from {share:g} to {more:g}: {why}."
    else:
        at = f" at --gpu-memory-utilization {share:g}" if share else ""
        of = f" of {known.total / GI:.2f} GiB" if at and known.total else ""
        yield f"Use a larger GPU or a higher --tensor-parallel-size: {why}{at}{of}."


def _cache_too_small(known: Known) -> Iterator[str]:
    longest = known.start.longest if known.start else None
    length = re.search(r"max seq len \((\d+)\)", known.text)
    if longest:
        yield f"--max-model-len {longest} fits, as vLLM estimates{f' ({length[1]} now)' if length else ''}."
    if sizes := re.search(rf"{_GIB} KV cache is needed\D*available KV cache memory \({_GIB}", known.text):
        short = (float(sizes[1]) - float(sizes[2])) * GI
        yield from _raised(known, short, f"the KV cache needs {sizes[1]} GiB and has {sizes[2]} GiB")


def _no_blocks(known: Known) -> Iterator[str]:
    left = known.size("kv_cache")
    if left is not None and left < 0:
        yield from _raised(known, -left, f"the KV cache is short by {-left / GI:.2f} GiB before its first block")


_UNITS = {"KiB": 1 << 10, "MiB": MI, "GiB": GI}


def _out_of_memory(known: Known) -> Iterator[str]:
    asked = re.search(r"Tried to allocate (\d+(?:\.\d+)?) ([KMG]iB)", known.text)
    free = re.search(r"of which (\d+(?:\.\d+)?) ([KMG]iB) is free", known.text)
    if asked and free and known.total:
        short = float(asked[1]) * _UNITS[asked[2]] - float(free[1]) * _UNITS[free[2]]
        if known.size("weights") is None:
            why = _unloaded(known, asked, free)
            yield f"Use a larger GPU, a higher --tensor-parallel-size or a quantized checkpoint: {why}."
        elif known.share is not None and short > 0:
            share = math.floor((known.share - short / known.total) * 100) / 100
            yield f"Lower --gpu-memory-utilization from {known.share:g} to {share:g}."
    if (dummies := re.search(r"with (\d+) dummy requests", known.text)) and int(dummies[1]) > 1:
        yield f"Lower --max-num-seqs from {dummies[1]} to {int(dummies[1]) // 2}."


def _unloaded(known: Known, asked: re.Match[str], free: re.Match[str]) -> str:
    """Why the GPU is too small, if the log does not say that the weights were loaded. A part of a log, without the line
    that names the model, may leave out that line, too."""
    total = known.total or 0
    plan = known.engine.plan.gpu if known.engine else None
    if plan and plan.weights.likely and plan.weights.likely > total:
        return f"the weights alone need {human(plan.weights.likely)} on each GPU, which has {total / GI:.2f} GiB"
    if known.start and known.start.model:
        return f"the weights exceed {total / GI:.2f} GiB"
    return f"{asked[1]} {asked[2]} were needed, and {free[1]} {free[2]} of {total / GI:.2f} GiB were free"


def _taken(known: Known) -> Iterator[str]:
    found = re.search(rf"\((-?\d+(?:\.\d+)?)/{_GIB}\).* utilization \((\d(?:\.\d+)?)", known.text)
    if found and float(found[2]) > 0:
        share = math.floor(float(found[1]) / float(found[2]) * 100) / 100
        lower = f"Lower --gpu-memory-utilization from {found[3]} to {share:g}, or end the other process"
        yield f"{lower}: {found[1]} of {found[2]} GiB are free."


def _host_memory(known: Known) -> Iterator[str]:
    engine = known.engine
    host = engine.plan.host if engine else None
    if engine is None or host is None:
        return
    limit, need, advised = engine.memory_limit, host.need, memory_sizes.advised_limit(engine)
    about = f"vLLM needs about {human(need.likely)}, at most {human(need.high)}"
    if limit is not None and advised and limit < min(advised, need.high):
        now = memory_sizes.written(engine, engine.memory_at, limit)
        cached = ". The advised limit has room for the checkpoint in the page cache, too" if advised > need.high else ""
        yield f"Raise the memory limit from {now} to {quantity(advised)}: {about}{cached}."
    elif limit is not None:
        now = memory_sizes.written(engine, engine.memory_at, limit)
        yield f"Look for another process or a memory volume in the container: its limit is {now}, and {about}."


def _too_few_gpus(known: Known) -> Iterator[str]:
    if found := re.search(r"World size \((\d+)\) is larger than the number of available GPUs \((\d+)\)", known.text):
        size = known.value("tensor_parallel_size")
        lower = f", or lower --tensor-parallel-size from {size} to {found[2]}" if str(size) == found[1] else ""
        yield f"Raise the GPU limit (nvidia.com/gpu) from {found[2]} to {found[1]}{lower}."


def _too_long(known: Known) -> Iterator[str]:
    if found := re.search(r"max_model_len \((\d+)\) is greater than the derived max_model_len \(\w+=(\d+)", known.text):
        yield f"Lower --max-model-len from {found[1]} to {found[2]}."


def _indivisible(known: Known) -> Iterator[str]:
    if found := re.search(r"attention heads \((\d+)\) must be divisible by tensor parallel size \((\d+)\)", known.text):
        heads, size = int(found[1]), int(found[2])
        fits = next((one for one in (64, 32, 16, 8, 4, 2, 1) if one < size and heads % one == 0), 1)
        yield f"Set --tensor-parallel-size to {fits} instead of {size}: it must divide {heads} attention heads."


def _mamba_blocks(known: Known) -> Iterator[str]:
    if found := re.search(r"max_num_seqs \((\d+)\) exceeds available Mamba cache blocks \((\d+)\)", known.text):
        yield f"Lower --max-num-seqs from {found[1]} to {found[2]}."


def _wrong_flag(known: Known) -> Iterator[str]:
    text = known.text
    if found := re.search(r"unrecognized arguments?:? (--[\w-]+)", text):
        flag = found[1].replace("_", "-")
        near = None if flag in builtin().spellings else next(iter(nearest(flag, builtin().spellings)), None)
        yield f"Replace {found[1]} with {near}." if near else f"Remove {found[1]}."
    elif found := re.search(r"argument (--[\w-]+)[^:]*: invalid choice: '([^']*)' \(choose from ([^)]*)\)", text):
        near = next(iter(nearest(found[2], re.findall(r"[^\s',]+", found[3]))), None)
        yield f"Replace {found[1]} {found[2]} with {found[1]} {near}." if near else f"{found[1]} takes {found[3]}."
    elif found := re.search(r"argument (--[\w-]+)[^:]*: invalid (int|float) value: '([^']*)'", text):
        kind = "a whole number" if found[2] == "int" else "a number"
        yield f"Write {kind} for {found[1]}, instead of {found[3]!r}."
    elif found := re.search(r"max_num_batched_tokens \((\d+)\) is smaller than max_model_len \((\d+)\)", text):
        tokens, length = found[1], found[2]
        yield f"Raise --max-num-batched-tokens from {tokens} to {length}, or lower --max-model-len to {tokens}."


def _dtype(known: Known) -> Iterator[str]:
    if found := re.search(r"Your (.+?) GPU has compute capability (\d+\.\d)", known.text):
        yield f"Set --dtype half on the {found[1]}, whose compute capability is {found[2]}."
    elif found := re.search(r"on (.+?) \(compute capability (\d+\.\d)\)", known.text):
        yield f"Set --kv-cache-dtype auto on the {found[1]}, whose compute capability is {found[2]}."


def _shared_memory(known: Known) -> Iterator[str]:
    if found := re.search(r"(\d+) MiB required, (\d+) MiB free", known.text):
        short = int(found[1]) - int(found[2])
        yield f"Raise /dev/shm by at least {short} MiB: {found[1]} MiB are needed, {found[2]} MiB are free."


def _timeout(known: Known) -> Iterator[str]:
    if found := re.search(r"Waited (\d+)s \(configured by (\w+)\)", known.text):
        yield f"Raise {found[2]} from {found[1]} to {2 * int(found[1])} seconds."


_OF_CAUSE: Mapping[str, Callable[[Known], Iterator[str]]] = {
    "engine-start-timeout": _timeout,
    "gpu-lacks-dtype": _dtype,
    "gpu-memory-taken": _taken,
    "gpu-out-of-memory": _out_of_memory,
    "host-memory-exhausted": _host_memory,
    "kv-cache-too-small": _cache_too_small,
    "mamba-blocks-too-few": _mamba_blocks,
    "max-model-len-too-long": _too_long,
    "no-kv-blocks": _no_blocks,
    "oom-killed": _host_memory,
    "shm-too-small": _shared_memory,
    "tensor-parallel-indivisible": _indivisible,
    "too-few-gpus": _too_few_gpus,
    "wrong-flag": _wrong_flag,
}
