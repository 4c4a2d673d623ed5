"""A cause with the values of its log and its container → what helps: "raise --gpu-memory-utilization from 0.8 to 0.9".

The texts are those of the causes' signatures. A number that neither the log nor the manifest has is left out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from podfit.base.numbers import without_long_numbers
from podfit.diagnose import contradiction, remedy_arguments, remedy_cluster
from podfit.diagnose.calibrate import Start
from podfit.diagnose.phase import Phase
from podfit.kube.quantity import GI, MI, human, quantity
from podfit.rules import memory_sizes
from podfit.rules.engine import Engine
from podfit.rules.gpu_memory.gpu_memory_utilization_too_high import LEAST_SHARE
from podfit.vllm.args.flags import builtin
from podfit.vllm.memory.solve import SAFE_UTILIZATION
from podfit.vllm.release import Release

_GIB = r"(-?\d+(?:\.\d+)?) GiB"


@dataclass(frozen=True)
class Known:
    """The known facts of a failed start."""

    text: str
    """The evidence: the lines that say what it died of."""
    start: Start | None = None
    engine: Engine | None = None
    phase: Phase | None = None
    """The phase in which vLLM failed."""

    def value(self, dest: str) -> Any:
        """An argument's value, or its default in the release: the manifest's, else the log's. None if it is unknown."""
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
        return self.size("total") or (min(product.memory for product in gpu.gpus) if gpu and gpu.gpus else None)

    @property
    def share(self) -> float | None:
        """The --gpu-memory-utilization of the start, from 0 to 1; None if unknown."""
        value = self.value("gpu_memory_utilization")
        return value if isinstance(value, float) and 0 < value <= 1 else None


def specific(cause: str, log_values: Known) -> list[str]:
    """Changes with their values, each a sentence; none if no text has the values."""
    log_values = replace(log_values, text=without_long_numbers(log_values.text))
    make = _OF_CAUSE.get(cause)
    texts = [*make(log_values)] if make else []
    model = log_values.start.model if log_values.start else None
    if cause in _OF_GPU_MEMORY and log_values.engine is None and model and contradiction.is_hub_id(model):
        texts.append(f"`podfit plan {model}` lists the GPUs that fit.")
    return texts


_OF_GPU_MEMORY = ("gpu-out-of-memory", "kv-cache-too-small", "no-kv-blocks")


def _up(share: float, more: float) -> float:
    """The share with so much more, as people write it."""
    return math.ceil((share + more) * 100 - 1e-6) / 100


def _raised(log_values: Known, short: float, why: str) -> Iterator[str]:
    """A larger share of the GPU's memory for `short` bytes, else a larger GPU."""
    share = log_values.share
    more = _up(share, short / log_values.total) if share and log_values.total else None
    if share and more and more <= SAFE_UTILIZATION:
        yield f"Raise --gpu-memory-utilization from {share:g} to {more:g}: {why}."
    else:
        at = f" at --gpu-memory-utilization {share:g}" if share else ""
        of = f" of {log_values.total / GI:.2f} GiB" if at and log_values.total else ""
        yield f"Use a larger GPU or a higher --tensor-parallel-size: {why}{at}{of}."


def _cache_too_small(log_values: Known) -> Iterator[str]:
    """The longest request that fits, as vLLM estimates, and the share of the GPU that the KV cache needs; each only if
    the log has its numbers."""
    longest = log_values.start.longest if log_values.start else None
    length = re.search(r"max seq len \((\d+)\)", log_values.text)
    if longest:
        yield f"--max-model-len {longest} fits, as vLLM estimates{f' ({length[1]} now)' if length else ''}."
    if sizes := re.search(rf"{_GIB} KV cache is needed\D*available KV cache memory \({_GIB}", log_values.text):
        short = (float(sizes[1]) - float(sizes[2])) * GI
        yield from _raised(log_values, short, f"the KV cache needs {sizes[1]} GiB and has {sizes[2]} GiB")


def _no_blocks(log_values: Known) -> Iterator[str]:
    left = log_values.size("kv_cache")
    if left is not None and left < 0:
        yield from _raised(log_values, -left, f"the KV cache is short by {-left / GI:.2f} GiB before its first block")


_UNITS = {"KiB": 1 << 10, "MiB": MI, "GiB": GI}


def _out_of_memory(log_values: Known) -> Iterator[str]:
    """The remedy of the phase: loading needs a larger GPU, what comes after the KV cache a smaller one. None without
    the log's numbers. Other processes on the GPU come first, and the sampler's dummy requests before all."""
    match = re.search(r"Tried to allocate (\d+(?:\.\d+)?) ([KMG]iB)", log_values.text)
    free = re.search(r"of which (\d+(?:\.\d+)?) ([KMG]iB) is free", log_values.text)
    if (dummies := re.search(r"with (\d+) dummy requests", log_values.text)) and int(dummies[1]) > 1:
        yield f"Lower --max-num-seqs from {dummies[1]} to {int(dummies[1]) // 2}."
        return
    if not (match and free and log_values.total):
        return
    short = max(0, _bytes(match) - _bytes(free))
    if others := _others(log_values, _bytes(free)):
        used = f"{others / GI:.1f} of its {log_values.total / GI:.2f} GiB"
        yield f"End the other process on this GPU first: others use about {used}."
    elif log_values.phase == "load":
        why = _unloaded(log_values, match, free)
        yield f"Use a larger GPU, a higher --tensor-parallel-size or a quantized checkpoint: {why}."
    elif log_values.phase == "profile":
        yield from _smaller_batch(log_values)
    elif log_values.phase or log_values.size("weights") is not None:
        yield from _lower_share(log_values, short)
    else:
        have = (
            f"{match[1]} {match[2]} were needed, and {free[1]} {free[2]} of {log_values.total / GI:.2f} GiB were free"
        )
        yield (
            f"{have}; this text does not show the phase. While weights load: a larger GPU, a higher "
            "--tensor-parallel-size or a quantized checkpoint. Later: a lower --gpu-memory-utilization."
        )


def _bytes(size: re.Match[str]) -> float:
    return float(size[1]) * _UNITS[size[2]]


LEAST_OTHERS = GI
"""Bytes of other processes that are worth a word: a CUDA context takes half of it."""


def _others(log_values: Known, free: float) -> float | None:
    """Bytes of the GPU that neither this process uses nor are free; None if they are few, or not known."""
    own = re.search(r"this process has (\d+(?:\.\d+)?) ([KMG]iB) memory in use", log_values.text)
    others = (log_values.size("total") or 0) - free - _bytes(own) if own else 0
    return others if others > LEAST_OTHERS else None


def _smaller_batch(log_values: Known) -> Iterator[str]:
    """A smaller batch for the activations of profiling."""
    tokens, sequences = log_values.value("max_num_batched_tokens"), log_values.value("max_num_seqs")
    if isinstance(tokens, int) and tokens > MIN_BATCH:
        yield f"Lower --max-num-batched-tokens from {tokens} to {tokens // 2}: the weights fit, the activations do not."
    elif isinstance(sequences, int) and sequences > 1:
        yield f"Lower --max-num-seqs from {sequences} to {sequences // 2}: the weights fit, the activations do not."
    else:
        yield "Lower --max-num-batched-tokens (2048 needs little) or --max-num-seqs: the activations do not fit."


MIN_BATCH = 2048
"""Tokens of a batch below which activations are small next to the weights (vLLM's default of small GPUs)."""
SPARE = 0.01
"""Fraction of the GPU's memory to free in addition to the deficit: the next allocation needs some, too."""


def _lower_share(log_values: Known, short: float) -> Iterator[str]:
    """A smaller share of the GPU's memory, so that less is left to the KV cache and more to what comes after it."""
    what = {
        "capture": "the weights and the KV cache fitted, the CUDA graphs did not",
        "sampler": "the weights and the KV cache fitted, the sampler's warm-up did not",
        "serve": "vLLM had started, and a request's activations did not fit next to the KV cache",
        "kv-cache": "the weights fitted, the KV cache did not",
    }.get(log_values.phase or "", "the weights fitted")
    total, share = log_values.total or 0, log_values.share
    less = math.ceil((short / total + SPARE) * 100) / 100
    if less >= 1:  # the log contradicts itself
        return
    if share is not None and share - less >= LEAST_SHARE:
        yield f"Lower --gpu-memory-utilization from {share:g} to {share - less:.2g}: {what}."
    else:
        yield f"Lower --gpu-memory-utilization by {less:g}: {what}."
    if log_values.phase == "capture":
        yield "--enforce-eager leaves the CUDA graphs out."
        release = log_values.start.release if log_values.start else None
        first, after_last = SECOND_RUNNER
        if release and first <= release < after_last:
            yield "VLLM_USE_V2_MODEL_RUNNER=0 takes the runner that leaves room for them."


SECOND_RUNNER = (Release(0, 25, 1), Release(0, 29))
"""Releases whose second model runner, the default of dense models, reserves nothing for CUDA graphs: its
profile_cudagraph_memory returns 0 (vLLM 0.26 … 0.28 v1/worker/gpu/model_runner.py; 0.29 estimates them; vllm#49224)."""


def _unloaded(log_values: Known, match: re.Match[str], free: re.Match[str]) -> str:
    """The reason why the GPU is too small for loading: the planned weights exceed it, if the log is whole (it names
    the model). Else it is only the failed allocation. `match`, `free`: its size, and what was free."""
    total = log_values.total or 0
    plan = log_values.engine.plan.gpu if log_values.engine else None
    if plan and plan.weights.likely and plan.weights.likely > total:
        return f"the weights alone need {human(plan.weights.likely)} on each GPU, which has {total / GI:.2f} GiB"
    if log_values.start and log_values.start.model:
        return f"the weights exceed {total / GI:.2f} GiB"
    return f"{match[1]} {match[2]} were needed, and {free[1]} {free[2]} of {total / GI:.2f} GiB were free"


def _taken(log_values: Known) -> Iterator[str]:
    """The share of the GPU that is free, from the line about free memory at start-up; none without it."""
    match = re.search(rf"\((-?\d+(?:\.\d+)?)/{_GIB}\).* utilization \((\d(?:\.\d+)?)", log_values.text)
    if not match or float(match[2]) <= 0:
        return
    share = math.floor(float(match[1]) / float(match[2]) * 100) / 100
    free = f"{match[1]} of {match[2]} GiB are free"
    if share >= LEAST_SHARE:
        yield f"Lower --gpu-memory-utilization from {match[3]} to {share:g}, or end the other process: {free}."
    else:
        yield (
            f"End the other process on the GPU: {free}, and no --gpu-memory-utilization makes room. It may be the last "
            "run, not yet gone; `nvidia-smi` on the node names it."
        )


def _host_memory(log_values: Known) -> Iterator[str]:
    """The memory limit that the host memory plan needs; none without a plan or a limit."""
    engine = log_values.engine
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
        yield f"Raise the memory limit above {now}: the container reached it, though {about}."


def _too_few_gpus(log_values: Known) -> Iterator[str]:
    """The number of GPUs that the parallel sizes need, or the tensor parallel size for those that are available, if
    that is what is too large."""
    match = re.search(
        r"(?:World|Tensor parallel) size \((\d+)\) (?:is larger than the number of|exceeds) available GPUs \((\d+)\)",
        log_values.text,
    )
    if match:
        size = log_values.value("tensor_parallel_size")
        named = "Tensor" in match[0] or str(size) == match[1]
        lower = f", or lower --tensor-parallel-size from {match[1]} to {match[2]}" if named else ""
        yield f"Raise the GPU limit (nvidia.com/gpu) from {match[2]} to {match[1]}{lower}."


def _too_long(log_values: Known) -> Iterator[str]:
    """The longest --max-model-len that the model has."""
    if match := re.search(
        r"max_model_len \((\d+)\) is greater than the derived max_model_len \(\w+=(\d+)", log_values.text
    ):
        yield f"Lower --max-model-len from {match[1]} to {match[2]}."


def _indivisible(log_values: Known) -> Iterator[str]:
    """The largest power of two below --tensor-parallel-size, up to 64, that divides the attention heads."""
    if match := re.search(
        r"attention heads \((\d+)\) must be divisible by tensor parallel size \((\d+)\)", log_values.text
    ):
        heads, size = int(match[1]), int(match[2])
        fits = next((count for count in (64, 32, 16, 8, 4, 2, 1) if count < size and heads % count == 0), 1)
        yield f"Set --tensor-parallel-size to {fits} instead of {size}: it must divide {heads} attention heads."


def _mamba_blocks(log_values: Known) -> Iterator[str]:
    if match := re.search(r"max_num_seqs \((\d+)\) exceeds available Mamba cache blocks \((\d+)\)", log_values.text):
        yield f"Lower --max-num-seqs from {match[1]} to {match[2]}."


def _dtype(log_values: Known) -> Iterator[str]:
    """The dtype, of weights or of the KV cache, that the GPU has."""
    if match := re.search(r"Your (.+?) GPU has compute capability (\d+\.\d)", log_values.text):
        yield f"Set --dtype half on the {match[1]}, whose compute capability is {match[2]}."
    elif match := re.search(r"on (.+?) \(compute capability (\d+\.\d)\)", log_values.text):
        yield f"Set --kv-cache-dtype auto on the {match[1]}, whose compute capability is {match[2]}."


def _shared_memory(log_values: Known) -> Iterator[str]:
    if match := re.search(r"(\d+) MiB required, (\d+) MiB free", log_values.text):
        short = int(match[1]) - int(match[2])
        yield f"Raise /dev/shm by at least {short} MiB: {match[1]} MiB are needed, {match[2]} MiB are free."


def _timeout(log_values: Known) -> Iterator[str]:
    if match := re.search(r"Waited (\d+)s \(configured by (\w+)\)", log_values.text):
        yield f"Raise {match[2]} from {match[1]} to {2 * int(match[1])} seconds."


def _offload_region(log_values: Known) -> Iterator[str]:
    """Remedies for a bad address (Errno 14) in the offload's region: /dev/shm is smaller than it."""
    if "[Errno 14]" in log_values.text:
        yield (
            "/dev/shm ends before the region. At a first start it is too small: use a larger sizeLimit of the memory "
            "volume, or lower cpu_bytes_to_use of the offload. Otherwise a crashed run left its file: delete the Pod."
        )


def _capability(log_values: Known) -> Iterator[str]:
    if match := re.search(r"Min(?:imum)? capability: (\d+)(\d)\D+Current capability: (\d+)(\d)", log_values.text):
        need, have = f"{match[1]}.{match[2]}", f"{match[3]}.{match[4]}"
        yield f"Use a checkpoint in another format, or a GPU of compute capability {need} or more: this one has {have}."


def _unknown_model(log_values: Known) -> Iterator[str]:
    """The model's type, and the release that does not know it."""
    release = log_values.start.release if log_values.start else None
    than = f" than {release}" if release else ""
    if re.search(r"GGUF|gguf|Architecture \S+ not supported", log_values.text):
        yield "vLLM reads few architectures from GGUF files: serve the model's safetensors checkpoint instead."
    elif match := re.search(r"model type `(\w+)` but Transformers does not recognize", log_values.text):
        yield f"Use a newer image of vLLM{than}: its transformers does not know the model type {match[1]}."
    elif match := re.search(r"Model architectures \['(\w+)'", log_values.text):
        yield (
            f"Use a newer image of vLLM{than}: this one has no class {match[1]}. If transformers has one, "
            "--model-impl transformers runs it."
        )


def _cpu_memory(log_values: Known) -> Iterator[str]:
    """The share of host memory that is free for the CPU backend; without it, the memory limit."""
    match = re.search(rf"memory on node .*?\((\d+(?:\.\d+)?)/{_GIB}\).*?utilization \((\d+(?:\.\d+)?)", log_values.text)
    if match and float(match[2]) > 0:
        share = math.floor(float(match[1]) / float(match[2]) * 100) / 100
        yield (
            f"Lower --gpu-memory-utilization, which the CPU backend takes for host memory, from {match[3]} to "
            f"{share:g}: {match[1]} of {match[2]} GiB are free."
        )
    else:
        yield from _host_memory(log_values)


_OF_CAUSE: Mapping[str, Callable[[Known], Iterator[str]]] = {
    "command-not-found": lambda known: remedy_cluster.command(known.text),
    "engine-start-timeout": _timeout,
    "gpu-lacks-dtype": _dtype,
    "gpu-memory-taken": _taken,
    "gpu-out-of-memory": _out_of_memory,
    "cache-not-writable": lambda known: remedy_arguments.unwritable(known.text),
    "gpu-unsupported": _capability,
    "host-memory-exhausted": _cpu_memory,
    "lora-rank-too-high": lambda known: remedy_arguments.lora_rank(known.text),
    "quantization-block-indivisible": lambda known: remedy_arguments.quantization_block(
        known.text, known.value("tensor_parallel_size")
    ),
    "shm-leftover": _offload_region,
    "image-pull": lambda known: remedy_cluster.image(known.text),
    "kv-cache-too-small": _cache_too_small,
    "mamba-blocks-too-few": _mamba_blocks,
    "max-model-len-too-long": _too_long,
    "model-unsupported": _unknown_model,
    "no-kv-blocks": _no_blocks,
    "oom-killed": _host_memory,
    "shm-too-small": _shared_memory,
    "speculative-config": lambda known: remedy_arguments.speculative(known.text),
    "tensor-parallel-indivisible": _indivisible,
    "too-few-gpus": _too_few_gpus,
    "weights-mismatch": lambda known: remedy_arguments.unquantized(known.text),
    "unschedulable": lambda known: remedy_cluster.unschedulable(known.text),
    "wrong-flag": lambda known: remedy_arguments.wrong_flag(known.text),
}
