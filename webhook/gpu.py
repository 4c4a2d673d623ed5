"""Pod spec + facts → Accelerator: which GPU, how many of them the container gets, what memory a process sees."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from webhook import data, quantity
from webhook.facts import Fact, Facts
from webhook.workload import JSON, Container, Workload


@dataclass(frozen=True)
class Gpu:
    """A product of the table, or a slice of one."""

    name: str
    """The table's name ("NVIDIA A100 80GB SXM4"); for a MIG slice "… MIG 1g.10gb"."""
    vendor: str
    """"nvidia", "amd", "intel", "google" …"""
    architecture: str | None
    compute_capability: tuple[int, int] | None
    memory: int
    """Bytes a process sees in total (`cudaMemGetInfo`): the smallest trustworthy value ever seen, the safe one."""
    memory_high: int
    """The largest total ever seen for this product: what a denial must reckon with."""
    supports_bf16: bool | None
    supports_fp8: bool | None
    nvlink: bool | None
    labels: tuple[str, ...]
    """Values of nvidia.com/gpu.product for this product, for suggestions."""
    mig: str | None = None
    unified_memory: bool = False


@dataclass(frozen=True)
class Accelerator:
    """What a container gets."""

    gpus: tuple[Gpu, ...]
    """The product; several where the name is ambiguous (an `a100` has 40 or 80 GB): each is planned."""
    count: int | None
    """GPUs that the container requests; None where that can't be known (a DRA claim, an operator decides)."""
    resource: str | None = None
    """The resource asked for ("nvidia.com/gpu", "nvidia.com/mig-1g.10gb")."""
    shared: bool = False
    """Time-sliced, MPS or a fraction: other processes may use the same card."""

    @property
    def name(self) -> str:
        """All names, for people."""
        return " or ".join(gpu.name for gpu in self.gpus)


# ------------------------------------------------------------------------------------------------------ the table


@cache
def _products() -> Mapping[str, Mapping[str, Any]]:
    """The table's name → its row."""
    return {row["name"]: row for row in data.load("gpus")["products"]}


@cache
def _gpu(name: str) -> Gpu:
    row = _products()[name]
    major_minor = row.get("compute_capability")
    return Gpu(
        name=name,
        vendor=row["vendor"],
        architecture=row.get("architecture"),
        compute_capability=(major_minor[0], major_minor[1]) if major_minor else None,
        memory=row["memory"],
        memory_high=row["memory_high"],
        supports_bf16=row.get("bf16"),
        supports_fp8=row.get("fp8"),
        nvlink=row.get("nvlink"),
        labels=tuple(row["names"].get("gfd", ())),
        unified_memory=bool(row.get("unified_memory")),
    )


def all_products() -> tuple[Gpu, ...]:
    """Every product of the table, in its order."""
    return tuple(_gpu(name) for name in _products())


def _slice(gpu: Gpu, profile: str) -> Gpu | None:
    """The MIG slice `profile` ("1g.10gb", "1g.10gb.me") of a card, None where the card has no such slice."""
    wanted = profile.lower().replace("+", ".")
    for one in _products()[gpu.name].get("mig", ()):
        if one["profile"] == wanted:
            return replace(
                gpu,
                name=f"{gpu.name} MIG {wanted}",
                memory=one["memory"],
                memory_high=one["memory_high"],
                nvlink=False,  # slices of one card have no peer-to-peer between them
                labels=tuple(f"{label}-MIG-{wanted}" for label in gpu.labels),
                mig=wanted,
            )
    return None


def _slices(profile: str, gpus: Iterable[Gpu]) -> tuple[Gpu, ...]:
    return tuple(found for gpu in gpus if gpu.mig is None and (found := _slice(gpu, profile)))


# ------------------------------------------------------------------------------------------------ a name → products

NOISE = re.compile(
    r"nvidia|tesla|amd|ati|instinct|radeon|geforce|intelr?|huawei|google|gpus?|graphics|generation|edition|accelerator"
    r"|datacenter|data|center|series"
)
"""Words that tell no product from another."""
FORMS = re.compile(r"sxm\d?|pcie?|nvlink|hbm\de?|oam|hgx|dgxs?|ac|vf|hf|mega|lc|active|ls|fhhl|server|workstation")
"""Words for how a card is mounted: they choose between products that have them and else say nothing."""
MEMORY = re.compile(r"(\d+)(?:gb?|gib)")
MIG_SUFFIX = re.compile(r"[-_ ]mig[-_ ](\d+c\.)?(\d+g\.\d+gb[a-z.+-]*)$", re.IGNORECASE)
SHARED_SUFFIX = re.compile(r"[-_ ]shared$", re.IGNORECASE)


def by_name(text: str, places: Sequence[str] = ()) -> tuple[Gpu, ...]:
    """The products that `text` may mean; several where it is ambiguous, none where nothing has that name.

    `text` is what people have: a GFD label with or without `-SHARED` and `-MIG-1g.10gb`, what nvidia-smi prints, a
    cloud's label, or short (`l4`, `a100-80gb`, `mi300x`). Whole words are compared: an L4 is no L40S.
    `places` prefers the names in use there ("gfd", "karpenter", "gke" …): Karpenter's `h100` is one product.
    """
    bare = SHARED_SUFFIX.sub("", text.strip())
    if sliced := MIG_SUFFIX.search(bare):
        return _slices(sliced[2], by_name(bare[: sliced.start()], places))
    if bare.lower().removeprefix("nvidia.com/").startswith("mig-"):
        return _slices(bare.lower().removeprefix("nvidia.com/").removeprefix("mig-"), all_products())
    known = _names().get(_plain(bare), ())
    names = [name for name, place in known if place in places]
    if not names:
        names = _usual(name for name, _ in known)
        if not any(name in names and place in ("smi", "gfd") for name, place in known) or "custom" in names[0]:
            names += _by_words(_words(bare))  # a nickname: whatever else it may mean
    return tuple(_gpu(name) for name in dict.fromkeys(names))


def nearest(text: str) -> tuple[str, ...]:
    """Up to three short names that look like `text`, for "did you mean"."""
    from difflib import get_close_matches

    known = {name: None for name in _names() if "=" not in name and "/" not in name}
    return tuple(get_close_matches(_plain(text), known, n=3, cutoff=0.6))


def _plain(text: str) -> str:
    return re.sub(r"[\s_-]+", "-", text.lower()).strip("-")


@cache
def _names() -> Mapping[str, tuple[tuple[str, str], ...]]:
    """A name, plainly written → the products that carry it, and the place that calls them so."""
    found: dict[str, list[tuple[str, str]]] = {}
    for product, row in _products().items():
        for place, names in row["names"].items():
            for name in (*names, *([product] if place == "smi" else ())):
                found.setdefault(_plain(name), []).append((product, place))
    return {name: tuple(products) for name, products in found.items()}


def _usual(names: Iterable[str]) -> list[str]:
    """Without the cards that one supercomputer had made for itself, unless only they are meant."""
    every = list(names)
    return [name for name in every if "custom" not in name] or every


@dataclass(frozen=True)
class _Vocabulary:
    core: frozenset[str]
    """The words that every name of the product has: `rtx`, `4070`, `ti`."""
    words: frozenset[str]
    """All words of all its names."""
    sizes: frozenset[int]
    """Its memory in GB, as names tell it."""


@cache
def _vocabularies() -> Mapping[str, _Vocabulary]:
    found = {}
    for product, row in _products().items():
        names = [name for place in ("smi", "gfd") for name in row["names"].get(place, ())] or [product]
        spoken = [_words(name) for name in names]
        told = {word for words in spoken for word in words} | set(_words(product))
        sizes = {int(size[1]) for word in told if (size := MEMORY.fullmatch(word))} | {row["marketing_gb"] or 0}
        core = frozenset.intersection(*(frozenset(_core(words)) for words in spoken))
        found[product] = _Vocabulary(core, frozenset(told), frozenset(sizes))
    return found


def _words(text: str) -> tuple[str, ...]:
    """Lower-case words; a number with its letters is one (`a100`, `80gb`), `rtx4090` and `h100nvl` are two."""
    words = re.findall(r"[a-z0-9.]+", text.lower())
    return tuple(part for word in words for part in re.sub(r"^(rtx|gtx)(?=\d)|(?<=\d)(nvl)$", r"\1 \2", word).split())


def _core(words: Iterable[str]) -> list[str]:
    return [word for word in words if not any(kind.fullmatch(word) for kind in (NOISE, FORMS, MEMORY))]


def _by_words(words: tuple[str, ...]) -> list[str]:
    """Products that have every telling word of the name; of those the plainest (an `rtx 4070` is no 4070 Ti)."""
    telling = set(_core(words))
    if not any(character.isdigit() for word in telling for character in word):
        return []
    fits = {
        name: vocabulary
        for name, vocabulary in _vocabularies().items()
        if telling <= vocabulary.words | {"rtx"} and (telling & vocabulary.core or not vocabulary.core)
    }
    if not fits:
        return []
    spare = min(len(vocabulary.core - telling) for vocabulary in fits.values())
    names = [name for name, vocabulary in fits.items() if len(vocabulary.core - telling) == spare]
    for size in (int(found[1]) for word in words if (found := MEMORY.fullmatch(word))):
        names = _of_size(names, size)
    for form in (word for word in words if FORMS.fullmatch(word)):
        names = [name for name in names if any(one.startswith(form) for one in fits[name].words)] or names
    return _usual(names)


def _of_size(names: list[str], size: int) -> list[str]:
    """Those whose memory is nearest to `size` GB, and near it: people write 192 or 180 for one B200."""
    off = {name: min(abs(size - told) for told in _vocabularies()[name].sizes) for name in names}
    best = min(off.values(), default=0)
    return [name for name in names if off[name] == best] if best <= size * 0.08 else []


# --------------------------------------------------------------------------------------- what the container asks for

WHOLE = re.compile(
    r"nvidia\.com/(gpu|gpu\.shared|mig-[\w.-]+)|amd\.com/(gpu|[sdqc]px_nps\d)|gpu\.intel\.com/(i915|xe)|habana\.ai/gaudi"
    r"|google\.com/tpu|aws\.amazon\.com/(neuron|neuroncore|neurondevice)|huawei\.com/Ascend\w+(?<!memory)(?<!core)"
    r"|hami\.io/gpu|volcano\.sh/(vgpu-number|gpu-number)|aliyun\.com/(gpu|gpu-count|gpu-mem)|tencent\.com/vcuda-core"
    r"|tke\.cloud\.tencent\.com/qgpu-core|cambricon\.com/v?mlu\w*|hygon\.com/dcu(num)?|metax-tech\.com/s?gpu"
    r"|mthreads\.com/v?gpu|iluvatar\.ai/\S*gpu|kunlunxin\.com/v?xpu|birentech\.com/gpu|enflame\.com/(gcu|drs-gcu)"
    r"|qualcomm\.com/qaic|furiosa\.ai/\w+|rebellions\.ai/\w+|cloud-tpus\.google\.com/\S+"
)
"""Resources that stand for an accelerator or a part of one, each with its device plugin."""
FRACTIONS = {"aliyun.com/gpu-mem", "tencent.com/vcuda-core", "tke.cloud.tencent.com/qgpu-core"}
"""Resources that count something else than devices: the container sees one card."""
LIMITS_IN_MIB = ("nvidia.com/gpumem", "hami.io/gpumem", "volcano.sh/vgpu-memory", "amd.com/gpumem")
"""Memory of each device, in MiB, that HAMi's library makes the process see (HAMi docs, Volcano vGPU)."""
LIMITS_IN_PERCENT = ("nvidia.com/gpumem-percentage", "hami.io/gpumem-percentage", "volcano.sh/vgpu-memory-percentage")
FRACTION_ANNOTATIONS = ("gpu-fraction", "gpu-memory", "runai/gpu-fraction", "runai/gpu-memory")
"""KAI's and Run:ai's fractions: part of a card is promised, the whole of it is seen."""
CLAIM = "DRA claim"


def requested(workload: Workload, container: Container) -> tuple[str, int | None] | None:
    """The accelerator resource that the container asks for, and how many (None: can't be known); None: it asks none."""
    asked = _resources(container)
    for name, value in asked.items():
        if WHOLE.fullmatch(name) and (count := _count(value)) != 0:
            return name, 1 if name in FRACTIONS else count
    resources = container.spec.get("resources")
    if isinstance(resources, Mapping) and resources.get("claims") and workload.spec.get("resourceClaims"):
        return CLAIM, None
    for name in FRACTION_ANNOTATIONS:
        if name in workload.annotations:
            return name, 1
    return None


def _resources(container: Container) -> dict[str, object]:
    """Requests beneath limits: an extended resource needs its limit, and an absent request follows it."""
    resources = container.spec.get("resources")
    asked: dict[str, object] = {}
    for key in ("limits", "requests"):
        part = resources.get(key) if isinstance(resources, Mapping) else None
        for name, value in part.items() if isinstance(part, Mapping) else ():
            asked.setdefault(str(name), value)
    return asked


def _count(value: object) -> int | None:
    """How many devices; None for a template's hole, or what is no whole number."""
    exact = quantity.try_parse(value)
    return exact if exact is not None and exact >= 0 and "." not in str(value) else None


# -------------------------------------------------------------------------------------------- what the Pod says of it

LABELS: Mapping[str, tuple[str, ...]] = {
    "nvidia.com/gpu.product": ("gfd",),
    "cloud.google.com/gke-accelerator": ("gke",),
    "cloud.google.com/gke-tpu-accelerator": ("smi", "other"),
    "karpenter.k8s.aws/instance-gpu-name": ("karpenter",),
    "eks.amazonaws.com/instance-gpu-name": ("karpenter",),
    "karpenter.k8s.aws/instance-accelerator-name": ("smi",),
    "eks.amazonaws.com/instance-accelerator-name": ("smi",),
    "k8s.amazonaws.com/accelerator": ("gke",),
    "gpu.nvidia.com/model": ("coreweave",),
    "gpu.nvidia.com/class": ("coreweave",),
    "nebius.com/gpu-name": ("nebius",),
    "skypilot.co/accelerator": ("skypilot",),
    "amd.com/gpu.product-name": ("amd",),
    "beta.amd.com/gpu.product-name": ("amd",),
    "amd.com/gpu.device-id": ("amd-id",),
    "beta.amd.com/gpu.device-id": ("amd-id",),
    "habana.ai/device-type": ("smi",),
    "machine.cluster.vke.volcengine.com/gpu-name": (),
    "aliyun.accelerator/nvidia_name": (),
    "alibabacloud.com/gpu-model-series": (),
    "alibabacloud.com/gpu-card-model": (),
    "cloud.tencent.com/tke-accelerator": (),
    "baidu/nvidia_name": (),
    "baidu.com/gpu-card-model": (),
    "gpu.intel.com/product": (),
    "feature.node.kubernetes.io/gpu.product": (),
}
"""Labels that clouds, device plugins and labellers set to a product's name, and which of its names they use
(k8s-device-plugin docs/gpu-feature-discovery, kubernetes/autoscaler GPULabel, karpenter-provider-aws …)."""
OWN_LABELS = re.compile(
    r"(.*[./])?(accelerator|accelerator[-_.]?(type|name|model)|gpu|gpu[-_.]?(type|name|model|product|class|sku|card))"
)
"""Labels of a cluster's own making that commonly hold a product's name: they inform."""
INSTANCE_TYPE = (
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
    "cloud.google.com/machine-type",
)
INSTANCE_FAMILY = ("karpenter.k8s.aws/instance-family", "eks.amazonaws.com/instance-family",
                   "cloud.google.com/machine-family")  # fmt: skip
MEMORY_LABELS = (
    "nvidia.com/gpu.memory",
    "karpenter.k8s.aws/instance-gpu-memory",
    "eks.amazonaws.com/instance-gpu-memory",
)
"""MiB that NVML prints, or that EC2 says: they choose between products of one name."""
SHARING_LABELS: Mapping[str, Callable[[str], bool]] = {
    "nvidia.com/gpu.sharing-strategy": lambda value: value not in ("", "none"),
    "nvidia.com/mps.capable": lambda value: value == "true",
    "nvidia.com/gpu.replicas": lambda value: value.isdigit() and int(value) > 1,
    "cloud.google.com/gke-gpu-sharing-strategy": lambda value: value != "",
    "cloud.google.com/gke-max-shared-clients-per-gpu": lambda value: value.isdigit() and int(value) > 1,
}
PARTITION_SIZE = "cloud.google.com/gke-gpu-partition-size"
USE_TYPE = ("nvidia.com/use-gputype", "hami.io/use-gputype")
"""HAMi's annotation: cards whose type contains one of these words."""


@dataclass(frozen=True)
class _Requirement:
    """One thing a node must have: `key In values`, `key Gt value` …"""

    key: str
    operator: str
    values: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.key}: {', '.join(self.values)}"


@dataclass(frozen=True)
class _Named:
    """What requirements make of the product."""

    gpus: tuple[Gpu, ...]
    source: str
    may_deny: bool
    shared: bool


def find(workload: Workload, container: Container, facts: Facts) -> Fact[Accelerator] | None:
    """What the container gets, by the order in `webhook.facts`; None where no product is known.

    A preferred affinity and a toleration select no node, so they say nothing. Several products are an answer: each of
    them is planned.
    """
    asked = requested(workload, container)
    resource, count = asked or (None, None)
    named = _named(workload, container, resource)
    if named is None and facts.gpu is not None:
        named = _Named(facts.gpu.gpus, "--gpu", True, facts.gpu.shared)
        count = count if asked else facts.gpu.count
        if asked and count is None:
            count = facts.gpu.count
    if named is None and facts.gpu_memory is None:
        return None
    named = named or _Named((), "memory given", True, False)
    gpus = _with_limit(named.gpus, _resources(container))
    if facts.gpu_memory is not None:
        gpus = _with_memory(gpus, facts.gpu_memory)
    shared = named.shared or _shares(resource, workload)
    return Fact(Accelerator(gpus, count, resource, shared), named.source, named.may_deny)


def _shares(resource: str | None, workload: Workload) -> bool:
    if resource is None:
        return False
    fractional = resource in FRACTIONS or resource in FRACTION_ANNOTATIONS
    return resource.endswith(".shared") or fractional or workload.annotations.get("nvidia.com/vgpu-mode") == "mps"


def _with_limit(gpus: tuple[Gpu, ...], asked: Mapping[str, object]) -> tuple[Gpu, ...]:
    """HAMi's slices: the process sees the limit instead of the card's memory."""
    for name in LIMITS_IN_MIB:
        if (mib := quantity.try_parse(asked.get(name))) and mib > 0:
            return tuple(
                replace(gpu, memory=min(gpu.memory, mib << 20), memory_high=min(gpu.memory_high, mib << 20))
                for gpu in gpus
            )
    for name in LIMITS_IN_PERCENT:
        if (percent := quantity.try_parse(asked.get(name))) and 0 < percent < 100:
            return tuple(
                replace(gpu, memory=gpu.memory * percent // 100, memory_high=gpu.memory_high * percent // 100)
                for gpu in gpus
            )
    return gpus


def _with_memory(gpus: tuple[Gpu, ...], memory: int) -> tuple[Gpu, ...]:
    """What was measured wins, and chooses between products of one name."""
    near = tuple(gpu for gpu in gpus if gpu.memory * 0.97 <= memory <= gpu.memory_high * 1.01) or gpus
    if near:
        return tuple(replace(gpu, memory=memory, memory_high=memory) for gpu in near)
    anonymous = f"GPU with {quantity.human(memory)}"
    return (Gpu(anonymous, "unknown", None, None, memory, memory, None, None, None, ()),)


def _named(workload: Workload, container: Container, resource: str | None) -> _Named | None:
    """The product, from what nodes must have and from the resource's own name."""
    always = [_Requirement(str(key), "In", (str(value),)) for key, value in _items(workload.spec.get("nodeSelector"))]
    terms = list(_terms(workload.spec))
    alternatives = [found for term in terms if (found := _from_labels([*always, *term]))]
    if terms and len(alternatives) < len(terms):
        alternatives = []  # one of the alternatives leaves the product open
    if not alternatives and (found := _from_labels(always)):
        alternatives = [found]
    named = _union(alternatives) or _from_annotations(workload)
    if (own := _from_resource(resource, named.gpus if named else None)) is not None:
        gpus, source = own
        return _Named(gpus, f"{source}; {named.source}" if named else source, True, bool(named and named.shared))
    return named


def _items(value: object) -> Iterator[tuple[object, object]]:
    if isinstance(value, Mapping):
        yield from value.items()


def _terms(spec: JSON) -> Iterator[list[_Requirement]]:
    """The alternatives of the required node affinity."""
    found: object = spec
    for key in ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"):
        found = found.get(key) if isinstance(found, Mapping) else None
    for term in found if isinstance(found, list) else ():
        expressions = term.get("matchExpressions") if isinstance(term, Mapping) else None
        yield [
            _Requirement(
                str(one.get("key")),
                str(one.get("operator")),
                tuple(str(value) for value in values) if isinstance(values := one.get("values"), list) else (),
            )
            for one in (expressions if isinstance(expressions, list) else ())
            if isinstance(one, Mapping)
        ]


def _from_labels(requirements: Sequence[_Requirement]) -> _Named | None:
    """What one set of requirements that all hold leaves of the products; None where none of them names one."""
    gpus: tuple[Gpu, ...] | None = None
    sources: list[str] = []
    may_deny, shared = True, False
    for one in sorted(requirements, key=lambda one: one.key not in LABELS):
        if one.operator != "In":
            continue
        meant, certain = _products_of(one)
        if not meant or (gpus is not None and not certain):
            continue
        both = tuple(gpu for gpu in gpus if gpu.name in {other.name for other in meant}) if gpus is not None else meant
        if both:
            gpus, may_deny = both, certain
            sources.append(str(one))
            shared = shared or any(SHARED_SUFFIX.search(value) for value in one.values)
    if gpus is None:
        return None
    for one in requirements:
        if one.key in MEMORY_LABELS:
            gpus = _of_memory(gpus, one) or gpus
        elif one.key == PARTITION_SIZE and one.operator == "In":
            gpus = tuple(found for size in one.values for found in _slices(size, gpus)) or gpus
        elif one.key in SHARING_LABELS and one.operator == "In":
            shared = shared or any(SHARING_LABELS[one.key](value) for value in one.values)
    return _Named(gpus, "node label " + "; ".join(sources), may_deny, shared)


def _products_of(requirement: _Requirement) -> tuple[tuple[Gpu, ...], bool]:
    """The products a label's values name, and whether the label is one whose values are the products' names.

    A value that is not known leaves the product open: then the label names nothing.
    """
    key, values = requirement.key, requirement.values
    found: list[Sequence[Gpu]] = []
    if key in LABELS:
        found = [by_name(value, LABELS[key]) for value in values]
    elif key in INSTANCE_TYPE:
        found = [_of_instances([value]) for value in values]
    elif key in INSTANCE_FAMILY:
        found = [_of_instances(_family(value)) for value in values]
    elif OWN_LABELS.fullmatch(key):
        found = [by_name(f"{key}={value}") or by_name(value) for value in values]
    certain = key in LABELS or key in INSTANCE_TYPE or key in INSTANCE_FAMILY
    if not found or not all(found):
        return (), certain
    return tuple({gpu.name: gpu for gpus in found for gpu in gpus}.values()), certain


def _of_instances(names: Iterable[str]) -> tuple[Gpu, ...]:
    """The GPUs of cloud machine types; a fraction of a card is a card with that much memory."""
    table = data.load("instances")["instance_types"]
    lower = _instances_in_any_case()
    found: dict[str, Gpu] = {}
    for name in names:
        row = table.get(lower.get(name.lower(), name))
        if row is None or row["gpu"] not in _products():
            continue
        gpu = _gpu(row["gpu"])
        if fraction := row.get("fraction"):
            part = f"{gpu.name} (1/{round(1 / fraction)})"
            gpu = replace(
                gpu, name=part, memory=int(gpu.memory * fraction * 0.95), memory_high=int(gpu.memory_high * fraction)
            )
        found[gpu.name] = gpu
    return tuple(found.values())


@cache
def _instances_in_any_case() -> Mapping[str, str]:
    return {name.lower(): name for name in data.load("instances")["instance_types"]}


def _family(name: str) -> list[str]:
    """The machine types of a family: `g6` → g6.xlarge …, `a3` → a3-highgpu-8g …"""
    return [one for one in data.load("instances")["instance_types"] if re.match(re.escape(name) + r"[.-]", one)]


def _of_memory(gpus: tuple[Gpu, ...], requirement: _Requirement) -> tuple[Gpu, ...]:
    """Of products, those with the memory a label asks for, in MiB (old GFD releases wrote bytes)."""
    sizes = [
        int(value) >> 20 if int(value) > 10_000_000 else int(value) for value in requirement.values if value.isdigit()
    ]
    if not sizes:
        return ()
    test: Mapping[str, Callable[[float], bool]] = {
        "In": lambda mib: any(abs(mib - size) <= 0.06 * size for size in sizes),
        "Gt": lambda mib: mib > sizes[0],
        "Lt": lambda mib: mib < sizes[0],
    }
    fits = test.get(requirement.operator)
    return tuple(gpu for gpu in gpus if fits(gpu.memory_high / (1 << 20))) if fits else ()


def _union(alternatives: Sequence[_Named]) -> _Named | None:
    """Terms are alternatives: any of their products may be the one."""
    if not alternatives:
        return None
    return _Named(
        gpus=tuple({gpu.name: gpu for one in alternatives for gpu in one.gpus}.values()),
        source=" or ".join(dict.fromkeys(one.source for one in alternatives)),
        may_deny=all(one.may_deny for one in alternatives),
        shared=any(one.shared for one in alternatives),
    )


def _from_annotations(workload: Workload) -> _Named | None:
    for key in USE_TYPE:
        value = workload.annotations.get(key)
        if isinstance(value, str):
            found = [by_name(name) for name in value.split(",")]
            if found and all(found):
                gpus = {gpu.name: gpu for gpus in found for gpu in gpus}
                return _Named(tuple(gpus.values()), f"annotation {key}: {value}", False, False)
    return None


def _from_resource(resource: str | None, gpus: tuple[Gpu, ...] | None) -> tuple[tuple[Gpu, ...], str] | None:
    """What the resource's own name says: a MIG profile, a partition, or a product with one resource to itself."""
    if resource is None:
        return None
    plain = resource.removesuffix(".shared")
    if plain.startswith("nvidia.com/mig-"):
        profile = plain.removeprefix("nvidia.com/mig-")
        slices = _slices(profile, gpus if gpus is not None else all_products())
        return (slices, resource) if slices else None
    if partition := re.fullmatch(r"amd\.com/([sdqc]px)_nps\d", plain):
        cards = gpus if gpus is not None else all_products()
        parts = tuple(found for gpu in cards if (found := _partition(gpu, partition[1])))
        return (parts, resource) if parts else None
    if gpus is None and plain.startswith("huawei.com/"):
        product = by_name(plain)
        return (product, resource) if product else None
    return None


def _partition(gpu: Gpu, mode: str) -> Gpu | None:
    """An MI300-class card in compute-partition `mode`: with NPS1 each part still sees the whole memory."""
    size = _products().get(gpu.name, {}).get("partitions", {}).get(mode)
    if size is None or mode == "spx":
        return gpu if size is not None else None
    return replace(gpu, name=f"{gpu.name} {mode.upper()}", memory=min(size, gpu.memory), memory_high=gpu.memory_high)
