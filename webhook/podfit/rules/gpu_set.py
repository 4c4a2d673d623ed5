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
_FEATURE_RULES = (
    (GpuLacksDtype(), "no bfloat16"),
    (GpuLacksQuantization(), "no kernel for the quantization"),
    (NoAttentionBackend(), "no attention backend for it"),
    (ImageForOtherGpu(), "another vendor's image"),
)
"""(rule about the GPU model itself, text on the feature that the model lacks if the rule has a finding)."""


class Named(NamedTuple):
    """GPU models with one size and one short name, as a text names them."""

    name: str
    gigabytes: int
    """The size by which the GPU is sold."""
    verdict: Verdict
    """The common result of their plans; "unsure" if they differ."""
    planned: PlannedGpu
    """The first of them."""


class Placements(NamedTuple):
    """The GPUs that a text names for a container."""

    named: list[Named]
    """Those that lack nothing but memory, least memory first."""
    lacking: dict[str, list[Named]]
    """A feature that the GPU models lack, for people → those that have room, least memory first."""


def lack(engine: Engine, model: Gpu) -> str | None:
    """The feature, besides memory, that the GPU model lacks for this container, for people; None if it lacks nothing,
    or that is only possible."""
    if not is_supported(engine, model):
        return "no support by the image's CUDA"
    engine_on_gpu = replace(engine.leader or engine, gpu=Fact(Accelerator((model,), None), "", may_deny=True))
    for rule, feature in _FEATURE_RULES:
        if "release" in rule.needs and engine.release is None:
            continue
        if any(finding.certainty in ("certain", "likely") for finding in rule.check(engine_on_gpu)):
            return feature
    return None


def is_supported(engine: Engine, model: Gpu) -> bool:
    """True if the image's build of vLLM has kernels for the GPU model, as far as its compute capability shows."""
    return model.compute_capability is None or model.compute_capability >= _least_capability(engine)


def _least_capability(engine: Engine) -> tuple[int, int]:
    """The least compute capability (major, minor) of the image's build of vLLM. If the image does not show its CUDA, it
    is that of the release, or of the one that is planned instead."""
    image = engine.field("image")
    cuda = cuda_of_image(image) if isinstance(image, str) else None
    if cuda is not None:
        return OF_CUDA_13 if cuda == LEAST_CUDA else LEAST_CAPABILITY
    release = engine.release or (engine.gpus.assumed_release if engine.gpus else None)
    return OF_CUDA_13 if release is not None and release >= CUDA_13 else LEAST_CAPABILITY


def smallest(engine: Engine) -> str | None:
    """The name of the GPU with the least memory that fits, of those that clouds rent; None if none fits."""
    by_memory = sorted(_rented(engine), key=lambda model: (model.memory, _rank_among_known(model)))
    model = _first_usable(engine, by_memory)
    return model.name if model else None


def _rented(engine: Engine) -> list[Gpu]:
    """The GPUs that fit, of those that clouds rent and that vLLM's builds run on."""
    fitting = [planned_gpu.gpu for planned_gpu in engine.gpus.by_verdict["fits"]] if engine.gpus else []
    return [model for model in fitting if model.name in gpu.rented()]


def _first_usable(engine: Engine, models: Iterable[Gpu]) -> Gpu | None:
    """The first of the GPU models that lacks nothing but memory for the container; None if there is none."""
    return next((model for model in models if lack(engine, model) is None), None)


LEAST_CAPABILITY = (7, 0)
"""The least compute capability of vLLM's builds (docs.vllm.ai, installation: "compute capability 7.0 or higher")."""


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

    def order(model: Gpu) -> tuple[bool, bool, int, int]:
        """Sort key: well-known GPU models first, then those with bfloat16, then the smallest, then the usual ones."""
        return model.name not in WELL_KNOWN, _is_old(model), gpu.sold_gigabytes(model), _rank_among_known(model)

    labelled = [model for model in sorted(_rented(engine), key=order) if model.labels]
    labels = gpu.advice.nameable(engine.workload.spec, [model.labels[0] for model in labelled])
    model = _first_usable(engine, [model for model in labelled if model.labels[0] in labels])
    if model is None or not fits_whole_pod(engine, model):
        return None
    count = engine.requested[1] if engine.requested else None
    return gpu.advice.of_product(engine.workload.spec, model.labels[0], count or 1)


def fits_whole_pod(engine: Engine, model: Gpu) -> bool:
    """True if every other vLLM container of the Pod fits the GPU model, too; False if one's model is unknown."""
    for sibling in engine.siblings:
        if sibling.container == engine.container.name:
            continue
        if sibling.model is None:
            return False
        planned = plan.judge(sibling.args, sibling.model.value, Accelerator((model,), None), env=sibling.env)
        if planned.verdict != "fits":
            return False
    return True


def sentence(engine: Engine) -> str | None:
    """The GPUs on which the container fits, is unsure and does not fit, in one line; None if no GPU is planned."""
    return engine.once(_sentence)


def _sentence(engine: Engine) -> str | None:
    """`sentence`, computed: its parts are joined by "; "."""
    gpus = engine.gpus
    if gpus is None:
        return None
    if gpus.fits_none:
        return "; ".join([_on_none(engine, gpus), *_unplanned_nodes(engine)])
    if len(gpus.by_verdict["unsure"]) == len(gpus.gpus) > 1:
        return "; ".join([f"{UNSURE}: {_why_unsure(gpus)}", *_unplanned_nodes(engine)])
    named, lacking = placements(engine)
    parts = _by_verdict(gpus, named, of_table=is_of_table(engine))
    parts += [f"{_few(models)} has room, but {feature}" for feature, models in lacking.items()]
    parts += _unplanned_nodes(engine)
    if gpus.assumed_release is not None:
        parts.append(f"planned with vLLM {gpus.assumed_release}, as the image names no release")
    return "; ".join(parts)


def _by_verdict(gpus: Partition, named: Sequence[Named], *, of_table: bool) -> list[str]:
    """The parts of `sentence` on the GPUs that fit, are unsure and are too small, the largest of the latter first.
    `named`: least memory first; `of_table`: they are those of the table."""
    fits = [model for model in named if model.verdict == "fits"]
    unsure = [model for model in named if model.verdict == "unsure"]
    too_small = [model for model in named if model.verdict == "does-not-fit"]
    too_small.sort(key=lambda model: -model.gigabytes)
    parts = []
    smallest_fit = fits[0].gigabytes if fits else 0
    if fits and of_table and all(model.gigabytes < smallest_fit for model in (*unsure, *too_small)):
        parts.append(f"fits whole GPUs of {smallest_fit} GB and more ({_few(fits)})")
    elif fits:
        parts.append(f"fits {_sized(fits)}")
    if unsure:
        parts.append(f"unsure on {_sized(unsure)}")
    if too_small:
        parts.append(f"{'not' if fits else 'does not fit'} {_sized(too_small)}")
        if length := _longest_context(gpus, too_small[0]):
            parts.append(length)
    return parts


def fits_all(engine: Engine) -> bool:
    """True if the container fits each GPU that a text would name, and lacks nothing there. False if no GPU is planned,
    or a node may have another one."""
    if engine.gpus is None or _unplanned_nodes(engine):
        return False
    named, lacking = placements(engine)
    return bool(named) and not lacking and all(model.verdict == "fits" for model in named)


UNSURE = "unsure on every one"
"""The start of the sentence on a container whose plan is unsure on every GPU."""
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
    memory_plan = replace(engine.plan, verdict=planned.verdict, tell=planned.tell, gpu=planned.ledger,
                          cause=planned.cause, resolved=planned.resolved)  # fmt: skip
    largest = Fact(Accelerator((gpus.largest,), count), "the table of GPUs", may_deny=False)
    return replace(engine, gpu=largest, plan=memory_plan)


def on_each(engine: Engine, check: Callable[[Engine], Iterator[Finding]]) -> Iterator[Finding]:
    """The findings of `check`, a rule's about GPU memory, on the engine's GPU. If that is unknown and the container
    fits no GPU of the table, those on the largest one, at most likely: a newer GPU may have more memory. Else none."""
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
    """`Finding.yields_to` of a finding about GPU memory: the rule that reports a shortage on some of several GPUs
    better, with the selector for the others. Empty if the Pod can get only one kind of GPU."""
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
    """The GPU whose arithmetic the plan shows, for people: the largest of several that are all too small, else the
    smallest. "GPU" if none is known."""
    if engine.gpu is None:
        return "GPU"
    gpus = engine.gpu.value.gpus
    if len(gpus) < 2:
        return engine.gpu.value.name
    by_memory = sorted(gpus, key=lambda gpu: gpu.memory_likely or gpu.memory)
    if engine.plan.verdict == "does-not-fit":
        return f"{by_memory[-1].name}, the largest of {len(gpus)} GPUs"
    return f"{by_memory[0].name}, the smallest of {len(gpus)} GPUs"


def is_of_table(engine: Engine) -> bool:
    """True if the GPUs are those of the table: nothing names the container's."""
    return engine.gpu is None and not (engine.placement is not None and engine.placement.kinds)


def _why_unsure(gpus: Partition) -> str:
    """The first reason why the plan on the largest GPU is unsure; empty if no GPU is planned."""
    return gpus.engine.plan_on(gpus.largest).why.partition("; ")[0] if gpus.largest else ""


def _on_none(engine: Engine, gpus: Partition) -> str:
    """The part of `sentence` for an engine that fits none of the GPUs, with the likely need of each GPU if it is
    known."""
    count = (engine.requested[1] if engine.requested else None) or 1
    which = "no GPU that podfit knows, at this count" if is_of_table(engine) else "none of the GPUs that it may get"
    if gpus.needs is None:
        return f"fits {which}"
    gigabytes = -(-gpus.needs.likely // 10**9)  # rounded up
    return f"fits {which}: {count} × {gigabytes:,} GB needed"


def _unplanned_nodes(engine: Engine) -> list[str]:
    """The parts of `sentence` on the matching nodes whose GPUs are not planned: those that name none, and those of the
    rarest kinds. Empty if all are planned, or no nodes are known."""
    placement = engine.placement
    if placement is None or not placement.kinds:
        return []
    more = []
    if placement.unnamed:
        more.append(f"{placement.unnamed} of {placement.candidates} matching nodes name no GPU")
    if placement.more_kinds:
        more.append(f"and {placement.more_kinds} more kinds of GPU")
    return more


def _longest_context(gpus: Partition, too_small: Named) -> str | None:
    """The longest context that fits a GPU that is too small, for people; None if the length is not the only cause."""
    planned = gpus.engine.plan_on(too_small.planned.gpu)
    ledger = planned.ledger
    if ledger is None or planned.cause != "request" or not ledger.estimated_max_model_len:
        return None
    return f"at most {ledger.estimated_max_model_len:,} of {ledger.max_model_len or 0:,} tokens on {too_small.name}"


def placements(engine: Engine) -> Placements:
    """The GPUs that a text names: of the table the well-known ones that the image's build supports, if there are any.
    Left out are GPUs that have no room and lack a feature, too."""
    planned = list(engine.gpus.gpus) if engine.gpus else []
    if is_of_table(engine):
        usual = [item for item in planned if item.gpu.name in WELL_KNOWN and is_supported(engine, item.gpu)]
        planned = usual or planned
    named: list[Named] = []
    lacking: dict[str, list[Named]] = {}
    features: dict[object, str | None] = {}  # models with the same properties lack the same
    for model in _grouped(planned):
        product = model.planned.gpu
        properties = product.vendor, product.compute_capability, product.supports_bf16
        if properties not in features:
            features[properties] = lack(engine, product)
        feature = features[properties]
        if feature is None:
            named.append(model)
        elif model.verdict == "fits":
            lacking.setdefault(feature, []).append(model)
    return Placements(named=named, lacking=lacking)


def _grouped(planned: Iterable[PlannedGpu]) -> Iterator[Named]:
    """The GPU models by size and short name: smallest first, of one size the usual ones first."""

    def order(item: PlannedGpu) -> tuple[int, int, str]:
        """Sort key: size, usual GPU models first, name."""
        return gpu.sold_gigabytes(item.gpu), _rank_among_known(item.gpu), item.gpu.name

    def size_and_name(item: PlannedGpu) -> tuple[int, str]:
        """(gigabytes, short name)."""
        return gpu.sold_gigabytes(item.gpu), _short(item.gpu)

    for (gigabytes, name), group in groupby(sorted(planned, key=order), key=size_and_name):
        planned_gpus = list(group)
        verdicts = {planned_gpu.verdict for planned_gpu in planned_gpus}
        verdict: Verdict = verdicts.pop() if len(verdicts) == 1 else "unsure"
        yield Named(name=name, gigabytes=gigabytes, verdict=verdict, planned=planned_gpus[0])


_SIZE = regex(r" \([^)]*\)| \d+GB$| / .*")
"""The parts of a GPU model's name on its size or form: "A100 40GB", "MI250X (per GCD)", "R9700 / R9700S"."""


@lru_cache(512)
def _short(model: Gpu) -> str:
    """The GPU model's name without its size, for a text that has the size; a MIG slice's full name."""
    return _SIZE.sub("", gpu.short(model.name)) if model.mig is None else model.name


def _few(named: Sequence[Named]) -> str:
    """The names, each once, at most NAMES_PER_SIDE of them: "A10G, L4 …"."""
    names = list(dict.fromkeys(model.name for model in named))
    return ", ".join(names[:NAMES_PER_SIDE]) + (" …" if len(names) > NAMES_PER_SIDE else "")


def _sized(named: Sequence[Named]) -> str:
    """The first NAMES_PER_SIDE names with their sizes: "A10G, L4 (24 GB), T4 (16 GB)". `named` is in the order of
    size."""
    texts = []
    for gigabytes, group in groupby(named[:NAMES_PER_SIDE], key=lambda model: model.gigabytes):
        names = ", ".join(dict.fromkeys(model.name for model in group))
        texts.append(f"{names} ({gigabytes} GB)")
    return ", ".join(texts) + (" …" if len(named) > NAMES_PER_SIDE else "")
