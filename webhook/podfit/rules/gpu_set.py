"""Texts on the GPUs that a container may get (`Engine.gpus`): those on which it fits, those on which not, the smallest.

The arithmetic is the planner's. Here the GPUs are left out on which another rule has a finding: they have room, but
vLLM does not start on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

from podfit.base.lazy import regex
from podfit.rules.engine import Engine
from podfit.rules.gpu.gpu_lacks_dtype import GpuLacksDtype
from podfit.rules.gpu.gpu_lacks_quantization import GpuLacksQuantization
from podfit.rules.gpu.image_for_other_gpu import LEAST_CAPABILITY as OF_CUDA_13
from podfit.rules.gpu.image_for_other_gpu import LEAST_CUDA, ImageForOtherGpu
from podfit.rules.gpu.no_attention_backend import NoAttentionBackend
from podfit.rules.rule import Finding
from podfit.vllm import gpu
from podfit.vllm.change import Suggestion
from podfit.vllm.facts import Fact
from podfit.vllm.gpu import Accelerator, Gpu
from podfit.vllm.memory import plan
from podfit.vllm.memory.ledger import Verdict
from podfit.vllm.memory.partition import Partition, PlannedGpu
from podfit.vllm.release import CUDA_13, cuda_of_image

RESTS_ON = ("model", "gpu", "plan.gpu")
"""Facts that a finding about GPU memory is based on."""
NAMES_PER_SIDE = 4
"""GPUs that a text names as fitting, and as not fitting."""
WELL_KNOWN = (
    "Tesla T4", "Tesla V100 16GB", "NVIDIA L4", "NVIDIA A10G", "GeForce RTX 4090", "GeForce RTX 3090",
    "Tesla V100 32GB", "GeForce RTX 5090", "NVIDIA A100 40GB SXM4", "NVIDIA L40S", "RTX A6000", "NVIDIA H100 80GB SXM5",
    "NVIDIA A100 80GB SXM4", "RTX PRO 6000 Blackwell Server Edition", "NVIDIA H200 SXM 141GB", "NVIDIA B200 180GB",
    "NVIDIA B300 (Blackwell Ultra) SXM6", "AMD Instinct MI210", "AMD Instinct MI250/MI250X (per GCD)",
    "AMD Instinct MI300X", "AMD Instinct MI325X", "AMD Instinct MI350X/MI355X", "AMD Radeon AI PRO R9700 / R9700S",
    "AMD Radeon PRO W7900",
)  # fmt: skip
"""GPU models of the table that a text names, the usual ones of a size first. JSON has all."""
_LACKS = (
    (GpuLacksDtype(), "no bfloat16"),
    (GpuLacksQuantization(), "no kernel for the quantization"),
    (NoAttentionBackend(), "no attention backend for it"),
    (ImageForOtherGpu(), "another vendor's image"),
)
"""Rules about the GPU model itself, and what is lacking."""


class Named(NamedTuple):
    """GPU models with one short name, and their common `verdict`."""

    name: str
    gigabytes: int
    """The size by which the GPU is sold."""
    verdict: Verdict
    planned: PlannedGpu


def lack(engine: Engine, model: Gpu) -> str | None:
    """The feature, besides memory, that the GPU model lacks for this container, by certain and likely findings; None if
    nothing."""
    if not is_supported(engine, model):
        return "no support by the image's CUDA"
    there = replace(engine.leader or engine, gpu=Fact(Accelerator((model,), None), "", may_deny=True))
    for rule, what in _LACKS:
        if "release" in rule.needs and engine.release is None:
            continue
        if any(finding.certainty in ("certain", "likely") for finding in rule.check(there)):
            return what
    return None


def is_supported(engine: Engine, model: Gpu) -> bool:
    """True if the image's build of vLLM has kernels for the GPU model, as far as its compute capability shows."""
    return model.compute_capability is None or model.compute_capability >= _least_capability(engine)


def _least_capability(engine: Engine) -> tuple[int, int]:
    """The compute capability that the image's build of vLLM needs; without a release, that of the planned one."""
    image = engine.field("image")
    cuda = cuda_of_image(image) if isinstance(image, str) else None
    planned = engine.release or (engine.gpus.assumed_release if engine.gpus else None)
    newer = cuda == LEAST_CUDA or (cuda is None and planned is not None and planned >= CUDA_13)
    return OF_CUDA_13 if newer else LEAST_CAPABILITY


def smallest(engine: Engine) -> str | None:
    """The name of the GPU with the least memory that fits, of those that clouds rent; None if none fits."""
    model = _first_usable(engine, sorted(_rented(engine), key=lambda model: (model.memory, _rank_among_known(model))))
    return model.name if model else None


def _rented(engine: Engine) -> list[Gpu]:
    """The GPUs that fit, of those that clouds rent and that vLLM's builds run on."""
    fitting = [planned_gpu.gpu for planned_gpu in engine.gpus.by_verdict["fits"]] if engine.gpus else []
    return [model for model in fitting if model.name in gpu.rented()]


def _first_usable(engine: Engine, models: Iterable[Gpu]) -> Gpu | None:
    """The first of the GPU models that lacks nothing but memory for the container; None if there is none."""
    return next((model for model in models if lack(engine, model) is None), None)


LEAST_CAPABILITY = (7, 0)
"""Compute capability that vLLM's builds need at least (docs.vllm.ai, installation: "compute capability 7.0 or
higher")."""


@lru_cache(512)
def _rank_among_known(model: Gpu) -> int:
    """Sort key: position in WELL_KNOWN, other GPU models last."""
    return WELL_KNOWN.index(model.name) if model.name in WELL_KNOWN else len(WELL_KNOWN)


def _is_old(model: Gpu) -> bool:
    """True if the GPU lacks bfloat16, as a V100 or a T4 does."""
    return model.supports_bf16 is False


def selector(engine: Engine) -> Suggestion | None:
    """The change that gets the Pod the usual GPU of the smallest size that fits all of its containers; None if there
    is none. A GPU that few clusters have, or an old one, is named only if no other one fits."""
    usual = sorted(
        _rented(engine),
        key=lambda model: (
            model.name not in WELL_KNOWN,
            _is_old(model),
            gpu.sold_gigabytes(model),
            _rank_among_known(model),
        ),
    )
    labels = gpu.advice.nameable(engine.workload.spec, [model.labels[0] for model in usual if model.labels])
    model = _first_usable(engine, [model for model in usual if model.labels and model.labels[0] in labels])
    if model is None or not fits_whole_pod(engine, model):
        return None
    count = engine.requested[1] if engine.requested else None
    return gpu.advice.of_product(engine.workload.spec, model.labels[0], count or 1)


def fits_whole_pod(engine: Engine, model: Gpu) -> bool:
    """True if every other vLLM container of the Pod fits the GPU model, too."""
    others = [sibling for sibling in engine.siblings if sibling.container != engine.container.name]
    return all(
        sibling.model is not None
        and plan.judge(sibling.args, sibling.model.value, Accelerator((model,), None), env=sibling.env).verdict
        == "fits"
        for sibling in others
    )


def sentence(engine: Engine) -> str | None:
    """Where the container fits, in one line; None if no GPU is planned."""
    return engine.once(_sentence)


def _sentence(engine: Engine) -> str | None:
    """`sentence`, computed: the GPUs that fit, that are unsure and that do not fit, each with the reason, by "; "."""
    gpus = engine.gpus
    if gpus is None:
        return None
    of_table = is_of_table(engine)
    if gpus.fits_none:
        return _on_none(engine, of_table=of_table)
    if len(gpus.by_verdict["unsure"]) == len(gpus.gpus) > 1:
        return "; ".join([f"{UNSURE}: {_why(gpus)}", *_open(engine)])
    named_gpus, lacking = placements(engine)
    sides = {
        verdict: [planned for planned in named_gpus if planned.verdict == verdict]
        for verdict in ("fits", "unsure", "does-not-fit")
    }
    fits, unsure = sides["fits"], sides["unsure"]
    small = sorted(sides["does-not-fit"], key=lambda candidate: -candidate.gigabytes)
    parts = []
    least = fits[0].gigabytes if fits else 0
    if of_table and fits and all(planned.gigabytes < least for planned in (*unsure, *small)):
        parts.append(f"fits whole GPUs of {least} GB and more ({_few(fits)})")
    elif fits:
        parts.append(f"fits {_sized(fits)}")
    if unsure:
        parts.append(f"unsure on {_sized(unsure)}")
    if small:
        parts.append(f"{'not' if fits else 'does not fit'} {_sized(small)}")
        if length := _longest(gpus, small[0]):
            parts.append(length)
    parts += [f"{_few(named)} has room, but {what}" for what, named in lacking.items()]
    parts += _open(engine)
    if gpus.assumed_release is not None:
        parts.append(f"planned with vLLM {gpus.assumed_release}, as the image names no release")
    return "; ".join(parts)


def fits_all(engine: Engine) -> bool:
    """True if the container fits each GPU that a text would name, and lacks nothing there."""
    if engine.gpus is None or _open(engine):
        return False
    named_gpus, lacking = placements(engine)
    return bool(named_gpus) and not lacking and all(named.verdict == "fits" for named in named_gpus)


UNSURE = "unsure on every one"
"""The start of the sentence about a container that no GPU shows more of."""
MEMORY_CAUSES = ("weights", "loading", "blocks", "request")
"""Causes for which gpu-memory-exceeded or kv-cache-too-small has a finding."""


def on_largest(engine: Engine) -> Engine | None:
    """The engine on the largest GPU of the table, if its own GPU is unknown and it fits none of the table for lack of
    memory; else None."""
    gpus = engine.gpus if engine.gpu is None and is_of_table(engine) else None
    if gpus is None or not gpus.fits_none or gpus.largest is None:
        return None
    planned = gpus.engine.plan_on(gpus.largest)
    if planned.cause not in MEMORY_CAUSES:
        return None
    count = engine.requested[1] if engine.requested else None
    memory = replace(engine.plan, verdict=planned.verdict, tell=planned.tell, gpu=planned.ledger, cause=planned.cause,
                     resolved=planned.resolved)  # fmt: skip
    return replace(engine, gpu=Fact(Accelerator((gpus.largest,), count), "the table of GPUs", may_deny=False),
                   plan=memory)  # fmt: skip


def on_each(engine: Engine, check: Callable[[Engine], Iterator[Finding]]) -> Iterator[Finding]:
    """The findings of a rule about memory on a known GPU. For a container that fits no GPU of the table, those on the
    largest one, at most likely: a newer GPU may have more memory."""
    if engine.gpu is not None:
        yield from check(engine)
        return
    largest = engine.once(on_largest)
    for finding in check(largest) if largest is not None else ():
        at_most = "likely" if finding.certainty == "certain" else finding.certainty
        yield finding._replace(
            details=(f"{sentence(engine)}; the arithmetic is of the largest one", *finding.details),
            certainty=at_most,
            uncertain="podfit may not know a newer GPU with more memory",
        )


def reported_by(engine: Engine) -> tuple[str, ...]:
    """The rule that reports a shortage of some of the GPUs better: with the selector for the others."""
    of_nodes = engine.placement is not None and engine.placement.kinds
    several = engine.gpu is not None and len(engine.gpu.value.gpus) > 1
    return ("mixed-gpu-nodes",) if of_nodes or several else ()


def is_one_name(models: Iterable[Gpu]) -> bool:
    """True if the GPU models have one name and differ in size: a `Tesla-V100` has 16 or 32 GB."""
    return len({_short(model) for model in models}) == 1


def differs(engine: Engine) -> bool:
    """True if the plans of the GPUs that the container may get have several results."""
    return engine.gpus is not None and len({planned.verdict for planned in engine.gpus.gpus}) > 1


def planned_name(engine: Engine) -> str:
    """The GPU whose arithmetic the plan shows: the largest of several that are all too small, else the smallest."""
    if engine.gpu is None:
        return "GPU"
    gpus = engine.gpu.value.gpus
    if len(gpus) < 2:
        return engine.gpu.value.name
    by_memory = sorted(gpus, key=lambda gpu: gpu.memory_likely or gpu.memory)
    model, which = (by_memory[-1], "largest") if engine.plan.verdict == "does-not-fit" else (by_memory[0], "smallest")
    return f"{model.name}, the {which} of {len(gpus)} GPUs"


def is_of_table(engine: Engine) -> bool:
    """True if the GPUs are those of the table: nothing names the container's."""
    return engine.gpu is None and not (engine.placement is not None and engine.placement.kinds)


def _why(gpus: Partition) -> str:
    """Why it is unsure on the largest GPU; empty if no GPU is planned."""
    return gpus.engine.plan_on(gpus.largest).why.partition("; ")[0] if gpus.largest else ""


def _on_none(engine: Engine, *, of_table: bool) -> str:
    """The sentence for an engine that fits none of the GPUs."""
    gpus = engine.gpus
    count = engine.requested[1] if engine.requested and engine.requested[1] else 1
    needs = f": {count} × {-(-gpus.needs.likely // 10**9):,} GB needed" if gpus and gpus.needs else ""
    which = "no GPU that podfit knows, at this count" if of_table else "none of the GPUs that it may get"
    return "; ".join([f"fits {which}{needs}", *_open(engine)])


def _open(engine: Engine) -> list[str]:
    """Texts on the GPUs that the Pod may get besides the planned ones."""
    placement = engine.placement
    if placement is None or not placement.kinds:
        return []
    more = []
    if placement.unnamed:
        more.append(f"{placement.unnamed} of {placement.candidates} matching nodes name no GPU")
    if placement.more_kinds:
        more.append(f"and {placement.more_kinds} more kinds of GPU")
    return more


def _longest(gpus: Partition, named: Named) -> str | None:
    """The longest context on the largest GPU that is too small, if only the length is too much there; else None."""
    planned = gpus.engine.plan_on(named.planned.gpu)
    ledger = planned.ledger
    if ledger is None or planned.cause != "request" or not ledger.estimated_max_model_len:
        return None
    return f"at most {ledger.estimated_max_model_len:,} of {ledger.max_model_len or 0:,} tokens on {named.name}"


def placements(engine: Engine) -> tuple[list[Named], dict[str, list[Named]]]:
    """The GPUs that a text names, least memory first; and those that have room but lack something else: what is lacking
    → GPUs."""
    planned = list(engine.gpus.gpus) if engine.gpus else []
    if is_of_table(engine):
        planned = [
            planned_gpu
            for planned_gpu in planned
            if planned_gpu.gpu.name in WELL_KNOWN and is_supported(engine, planned_gpu.gpu)
        ] or planned
    planned.sort(
        key=lambda planned_gpu: (
            gpu.sold_gigabytes(planned_gpu.gpu),
            _rank_among_known(planned_gpu.gpu),
            planned_gpu.gpu.name,
        )
    )
    lacking: dict[str, list[Named]] = {}
    lacks: dict[object, str | None] = {}
    named_gpus = []
    for named in _grouped(planned):
        model = named.planned.gpu
        kind = model.vendor, model.compute_capability, model.supports_bf16
        if kind not in lacks:
            lacks[kind] = lack(engine, model)
        what = lacks[kind]
        if what is None:
            named_gpus.append(named)
        elif named.verdict == "fits":
            lacking.setdefault(what, []).append(named)
    return named_gpus, lacking


def _grouped(planned: Iterable[PlannedGpu]) -> Iterable[Named]:
    """GPU models by size and short name, smallest first; `unsure` if the plans of one name differ."""
    keyed = sorted(planned, key=lambda planned_gpu: gpu.sold_gigabytes(planned_gpu.gpu))
    for (size, name), group in groupby(
        keyed, key=lambda planned_gpu: (gpu.sold_gigabytes(planned_gpu.gpu), _short(planned_gpu.gpu))
    ):
        planned_gpus = list(group)
        verdicts = {planned_gpu.verdict for planned_gpu in planned_gpus}
        yield Named(name, size, verdicts.pop() if len(verdicts) == 1 else "unsure", planned_gpus[0])


_SIZE = regex(r" \([^)]*\)| \d+GB$| / .*")


@lru_cache(512)
def _short(model: Gpu) -> str:
    """The GPU model's name without its size, for a text that has the size; a MIG slice's full name."""
    return _SIZE.sub("", gpu.short(model.name)) if model.mig is None else model.name


def _few(named: Sequence[Named]) -> str:
    """At most NAMES_PER_SIDE names."""
    names = list(dict.fromkeys(planned.name for planned in named))
    return ", ".join(names[:NAMES_PER_SIDE]) + (" …" if len(names) > NAMES_PER_SIDE else "")


def _sized(named: Sequence[Named]) -> str:
    """At most NAMES_PER_SIDE names with their sizes: "A10G, L4 (24 GB), T4 (16 GB)"."""
    texts = []
    for size, group in groupby(named[:NAMES_PER_SIDE], key=lambda candidate: candidate.gigabytes):
        texts.append(f"{', '.join(dict.fromkeys(planned.name for planned in group))} ({size} GB)")
    return ", ".join(texts) + (" …" if len(named) > NAMES_PER_SIDE else "")
