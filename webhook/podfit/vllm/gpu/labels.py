"""Labels of a node → the GPUs that it may have: labels that a Pod requires, and labels of a live node."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from podfit.base.lazy import regex
from podfit.kube.workload import JSON, Workload
from podfit.vllm.gpu import instances
from podfit.vllm.gpu.name import SHARED_SUFFIX, by_name
from podfit.vllm.gpu.product import Gpu, all_products, partition_of, products, slices
from podfit.vllm.gpu.requirement import Demands, NodeRequirement, of_spec

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
    "gpu.intel.com/family": (),
    "feature.node.kubernetes.io/gpu.product": (),
}
"""Labels that clouds, device plugins and labelers set to a GPU's name, and which of its names they use
(k8s-device-plugin docs/gpu-feature-discovery, kubernetes/autoscaler GPULabel, karpenter-provider-aws …)."""
NAMED_KEY = regex(r"((?:beta\.)?amd\.com/gpu\.(?:product-name|device-id))\.(.+)")
"""AMD's node labeler, for nodes with several GPU models: `amd.com/gpu.product-name.AMD_Instinct_MI300X_OAM: "8"`
(ROCm/k8s-device-plugin cmd/k8s-node-labeller)."""
OWN_LABELS = regex(
    r"(.*[./])?(accelerator|accelerator[-_.]?(type|name|model)|gpu|gpu[-_.]?(type|name|model|product|class|sku|card))"
)
"""Labels that cluster admins invent and that commonly have a GPU's name: they only inform."""
MEMORY_LABELS = (
    "nvidia.com/gpu.memory",
    "karpenter.k8s.aws/instance-gpu-memory",
    "eks.amazonaws.com/instance-gpu-memory",
)
"""MiB as NVML or EC2 report them: they choose between GPU models of one name."""
GIGABYTES = ("amd.com/gpu.vram", "beta.amd.com/gpu.vram", "gpu.nvidia.com/vram")
"""GB or GiB, rounded: AMD's "192G", CoreWeave's "81"."""
SHARING_LABELS: Mapping[str, Callable[[str], bool]] = {
    "nvidia.com/gpu.sharing-strategy": lambda value: value not in ("", "none"),
    "nvidia.com/mps.capable": lambda value: value == "true",
    "nvidia.com/gpu.replicas": lambda value: _is_number(value) and int(value) > 1,
    "cloud.google.com/gke-gpu-sharing-strategy": lambda value: value != "",
    "cloud.google.com/gke-max-shared-clients-per-gpu": lambda value: _is_number(value) and int(value) > 1,
}
STRATEGIES = ("nvidia.com/gpu.sharing-strategy", "cloud.google.com/gke-gpu-sharing-strategy")
CLIENTS = ("nvidia.com/gpu.replicas", "cloud.google.com/gke-max-shared-clients-per-gpu")
PARTITION_SIZE = "cloud.google.com/gke-gpu-partition-size"
AMD_PARTITION = "amd.com/compute-memory-partition"
USE_TYPE = ("nvidia.com/use-gputype", "hami.io/use-gputype")
"""HAMi's annotation: GPUs whose type contains one of these words."""
NEAR_MIB, NEAR_GB = 0.06, 0.08
"""Shares by which a memory label may differ from a GPU model's memory. In MiB, drivers and clouds differ by up to 6 %;
in GB, the label is also rounded."""
BYTES_NOT_MIB = 10_000_000
"""A label of old GFD releases above this number is in bytes: no GPU has as many MiB."""
PRODUCTS_SHOWN = 8
"""Most GPU models that filters alone may match: if more match, the GPU model is unknown."""


class NamedProducts(NamedTuple):
    """The GPU models that labels leave to choose from."""

    gpus: tuple[Gpu, ...]
    source: str
    """The label, resource or annotation that names them, for people."""
    may_deny: bool
    """The source is certain enough for a denial."""
    shared: bool
    """Other processes may use the same GPU."""


def product_of_labels(workload: Workload, resource: str | None) -> NamedProducts | None:
    """The GPU models by the labels that nodes must have and by the resource's own name. None if neither names any."""
    by_pod = workload.once(_of_pod)
    gpus = _from_resource(resource, by_pod.gpus if by_pod else None)
    if not gpus:
        return by_pod
    if by_pod is None:
        return NamedProducts(gpus, str(resource), may_deny=True, shared=False)
    return NamedProducts(gpus, f"{resource}; {by_pod.source}", may_deny=True, shared=by_pod.shared)


def _of_pod(workload: Workload) -> NamedProducts | None:
    """The GPU models that the Pod's own labels, selectors or annotations name; None if nothing names any."""
    return _of_spec(workload.spec) or _from_annotations(workload)


def _of_spec(spec: JSON) -> NamedProducts | None:
    """The GPU models by the labels that the Pod requires of its node; None if one alternative allows any GPU model."""
    terms = of_spec(spec).alternatives(_tells)
    if len(terms) > _MANY:
        return None
    items = [named for term in terms if (named := of_demands(_few(term)))]
    return union(items) if len(items) == len(terms) else None


_MANY = 64
"""Alternatives, requirements of one of them, and values of one requirement that are looked up: beyond that, no GPU
model counts as named."""


def _tells(requirement: NodeRequirement) -> bool:
    """True if the requirement may identify the GPU model: by a well-known label, a machine type, or a label that an
    admin invented."""
    key = requirement.key
    if key in _TELLING or instances.is_telling(key):
        return True
    may_match = "gpu" in key or "accelerator" in key  # cheaper than the two patterns
    return may_match and (NAMED_KEY.fullmatch(key) or OWN_LABELS.fullmatch(key)) is not None


def _few(term: Demands) -> Demands:
    """At most _MANY of the requirements, those with well-known labels before others."""
    if len(term) <= _MANY:
        return term
    return tuple(sorted(term, key=lambda requirement: requirement.key not in _TELLING)[:_MANY])


def left_by_requirements(workload: Workload, gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """Those of the GPU models that the Pod's requirements for its node leave: by memory, family, machine type …

    Unlike `product_of_labels` it names none: it may leave as many as there are."""
    terms = of_spec(workload.spec).alternatives(_tells)
    if len(terms) > _MANY:
        return gpus
    left: dict[str, Gpu] = {}
    for term in terms:
        left |= {gpu.name: gpu for gpu in _left_by_term(_few(term), gpus)}
    return tuple(left.values())


def _left_by_term(term: Demands, gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """The GPU models that one alternative leaves; all of them if it excludes none or every one."""
    if named := of_demands(term):
        return named.gpus
    if machines := {gpu.name for gpu in instances.left_by(term)}:
        gpus = tuple(gpu for gpu in gpus if gpu.name in machines) or gpus
    for requirement in term:
        gpus = _matching_products(gpus, requirement)
    return gpus


def of_node(labels: Mapping[str, str], resource: str | None) -> NamedProducts | None:
    """The GPU models that a live node's labels name, as the container that requests `resource` sees them. None if no
    label names any."""
    by_labels = of_demands(as_demands(labels))
    if by_labels is None:
        return None
    slices_of_them = _from_resource(resource, by_labels.gpus)
    return by_labels._replace(gpus=slices_of_them) if slices_of_them else by_labels


def as_demands(labels: Mapping[str, str]) -> Demands:
    """The labels of a node about its GPU (`Node.hardware`), as requirements that it meets."""
    return tuple(NodeRequirement(key, "In", (value,)) for key, value in labels.items())


def of_demands(demands: Demands) -> NamedProducts | None:
    """The GPU models that meet all requirements; None if no requirement names one."""
    gpus: tuple[Gpu, ...] | None = None
    sources: list[str] = []
    may_deny, shared = True, False
    demands = _without_excluded(demands)
    for requirement in sorted(demands, key=lambda demand: demand.key not in LABELS):  # well-known labels first
        meant = _products_of(requirement)
        if not meant.gpus or (gpus is not None and not meant.is_certain):
            continue  # a label of an admin's own does not narrow what others name
        names = {gpu.name for gpu in meant.gpus}
        left = meant.gpus if gpus is None else tuple(gpu for gpu in gpus if gpu.name in names)
        if left:  # else the two contradict each other: the first counts
            gpus, may_deny = left, meant.is_certain
            sources.append(str(requirement))
            shared = shared or any(SHARED_SUFFIX.search(value) for value in requirement.values)
    if gpus is None:
        gpus, sources = _from_filters(demands)
    if not gpus:
        return None
    for requirement in demands:
        gpus = _resized(_matching_products(gpus, requirement), requirement)
        if requirement.key in SHARING_LABELS and requirement.operator == "In":
            shared = shared or any(SHARING_LABELS[requirement.key](value) for value in requirement.values)
    return NamedProducts(_mps(gpus, demands), "node label " + "; ".join(sources), may_deny=may_deny, shared=shared)


def _without_excluded(demands: Demands) -> Demands:
    """The requirements without values that another one excludes: `key In (a, b)` together with `key NotIn (b)` is
    `key In (a)`. One of which all values are excluded stays as it is: no node meets it."""
    excluded: dict[str, set[str]] = {}  # key → values
    for requirement in demands:
        if requirement.operator == "NotIn":
            excluded.setdefault(requirement.key, set()).update(requirement.values)
    if not excluded:
        return demands
    kept = []
    for requirement in demands:
        excluded_values = excluded.get(requirement.key, set())
        left = tuple(value for value in requirement.values if value not in excluded_values)
        kept.append(requirement._replace(values=left) if requirement.operator == "In" and left else requirement)
    return tuple(kept)


def union(rows: Sequence[NamedProducts]) -> NamedProducts | None:
    """Alternatives: the GPU models of any of them are possible. None without alternatives."""
    if not rows:
        return None
    return NamedProducts(
        gpus=tuple({gpu.name: gpu for group in rows for gpu in group.gpus}.values()),
        source=" or ".join(dict.fromkeys(group.source for group in rows)),
        may_deny=all(group.may_deny for group in rows),
        shared=any(group.shared for group in rows),
    )


class _Meant(NamedTuple):
    """The GPU models that one requirement names."""

    gpus: tuple[Gpu, ...]
    """Empty if it names none."""
    is_certain: bool
    """The label is one whose values are names of GPUs or machine types, and not an admin's own."""


def _products_of(requirement: NodeRequirement) -> _Meant:
    """The GPU models that a label's values name, or for AMD's NAMED_KEY its key.

    If one of the values is unknown, every GPU model is possible: then the label names none.
    """
    if requirement.operator in ("Exists", "Gt", "In") and (pair := NAMED_KEY.fullmatch(requirement.key)):
        return _Meant(by_name(pair[2], LABELS[pair[1]]), is_certain=True)
    if requirement.operator != "In":
        return _Meant((), is_certain=False)
    key, values = requirement.key, tuple(dict.fromkeys(requirement.values))
    certain = key in LABELS or key in instances.TYPE or key in instances.FAMILY
    if len(values) > _MANY or not (certain or OWN_LABELS.fullmatch(key)):
        return _Meant((), certain)
    entries: dict[str, Gpu] = {}
    for value in values:
        gpus = _products_of_value(key, value)
        if not gpus:
            return _Meant((), certain)
        entries |= {gpu.name: gpu for gpu in gpus}
    return _Meant(tuple(entries.values()), certain)


def _products_of_value(key: str, value: str) -> tuple[Gpu, ...]:
    """The GPU models that one value of a label names; none if it is unknown. An admin's own label may have a part of
    the name in its key."""
    if key in LABELS:
        return by_name(value, LABELS[key])
    if key in instances.TYPE:
        return instances.of_types([value])
    if key in instances.FAMILY:
        return instances.of_types(instances.of_family(value))
    return by_name(f"{key}={value}") or by_name(value)


class _Filtered(NamedTuple):
    """The GPU models that requirements leave although none names a GPU model."""

    gpus: tuple[Gpu, ...]
    sources: list[str]
    """The requirements that leave them, for people."""


def _from_filters(demands: Demands) -> _Filtered:
    """The GPU models by Karpenter's categories, else by exact memory, else by family. None if none of these is
    required, or if more than PRODUCTS_SHOWN remain."""
    if gpus := instances.left_by(demands):
        texts = [str(demand) for demand in demands if "/instance-" in demand.key]
        return _Filtered(gpus, texts) if len(gpus) <= PRODUCTS_SHOWN else _Filtered((), [])
    for requirement in demands:
        is_memory = requirement.key == MEMORY_LABELS[0] and requirement.operator == "In"
        if is_memory and all(map(_is_number, requirement.values)):
            sizes = {int(value) for value in requirement.values}
            if exact := tuple(gpu for gpu in all_products() if gpu.memory_label_mib in sizes):
                return _Filtered(exact, [str(requirement)])
    filters = [demand for demand in demands if demand.key in _FILTERS]
    if any(demand.key in ("nvidia.com/gpu.family", "nvidia.com/gpu.compute.major") for demand in filters):
        left = tuple(gpu for gpu in all_products() if gpu.vendor == "nvidia")
        for requirement in filters:
            left = _matching_products(left, requirement)
        if len(left) <= PRODUCTS_SHOWN:
            return _Filtered(left, [str(demand) for demand in filters])
    return _Filtered((), [])


def _matching_products(gpus: tuple[Gpu, ...], requirement: NodeRequirement) -> tuple[Gpu, ...]:
    """The GPU models that one requirement leaves; all of them if it excludes none."""
    if len(requirement.values) > _MANY:
        return gpus
    if requirement.key in _FILTERS:
        return tuple(gpu for gpu in gpus if _FILTERS[requirement.key](gpu, requirement)) or gpus
    if requirement.operator == "NotIn" and requirement.key in LABELS:
        refused = {gpu.name for value in requirement.values for gpu in by_name(value, LABELS[requirement.key])}
        return tuple(gpu for gpu in gpus if gpu.name not in refused) or gpus
    if requirement.key == PARTITION_SIZE and requirement.operator == "In":
        return tuple(gpu for size in requirement.values for gpu in slices(size, gpus)) or gpus
    if requirement.key == AMD_PARTITION and requirement.operator == "In":
        modes = [value.partition("_") for value in requirement.values]
        return tuple(part for mode, _, nps in modes for gpu in gpus if (part := partition_of(gpu, mode, nps))) or gpus
    return gpus


def _resized(gpus: tuple[Gpu, ...], requirement: NodeRequirement) -> tuple[Gpu, ...]:
    """If a node reports more memory than these GPU models were ever sold with, its GPUs have more (a GeForce RTX 4090
    with 48 GB). The reported size is then the upper bound of what a process sees.

    For a lower bound (`Gt`), the upper bound is at least twice the sold memory: added memory doubles what a GPU had.
    """
    sizes = _mib(requirement)
    if requirement.key != MEMORY_LABELS[0] or requirement.operator not in ("In", "Gt") or not sizes:
        return gpus
    least, most = min(sizes) << 20, max(sizes) << 20  # bytes
    if any(gpu.mig or gpu.vendor != "nvidia" or most <= (1 + NEAR_MIB) * gpu.memory_high for gpu in gpus):
        return gpus
    items = []
    for gpu in gpus:
        high = most if requirement.operator == "In" else max(most, 2 * gpu.memory_high)
        low = max(gpu.memory, least * gpu.memory // gpu.memory_high)
        text = f"{' or '.join(requirement.values)} MiB" if requirement.operator == "In" else f"more than {sizes[0]} MiB"
        items.append(replace(gpu.with_memory(low, high), name=f"{gpu.name} ({text})", memory_label_mib=high >> 20))
    return tuple(items)


def _mib(requirement: NodeRequirement) -> list[int]:
    """The values of a memory label in MiB, as NVML prints them; old GFD releases wrote bytes. Other values are left
    out."""
    numbers = [int(value) for value in requirement.values if _is_number(value)]
    return [number >> 20 if number > BYTES_NOT_MIB else number for number in numbers]


def _is_number(value: str) -> bool:
    """True for 1 to 19 ASCII digits, so that `int` is fast and exact."""
    return value.isascii() and value.isdigit() and len(value) < 20


def _has_label_memory(gpu: Gpu, requirement: NodeRequirement) -> bool:
    """True if the requirement on the memory label, MiB as NVML reports them, allows this GPU. Drivers and clouds differ
    by up to 6 %."""
    sizes = _mib(requirement)
    mib = gpu.memory_high / (1 << 20)
    if requirement.operator in ("In", "NotIn"):
        return any(abs(mib - size) <= NEAR_MIB * size for size in sizes) is (requirement.operator == "In")
    return not sizes or requirement._replace(values=(str(sizes[0]),)).compares(mib)  # Gt, Lt


def _has_gigabytes(gpu: Gpu, requirement: NodeRequirement) -> bool:
    """True if the GPU model has the memory in GB that a cloud's label requires."""
    matches = [re.fullmatch(r"([0-9]{1,19})(?:G|Gi|GB)?", value) for value in requirement.values]
    sizes = [int(match[1]) for match in matches if match]
    gib = gpu.memory_high / (1 << 30)
    if requirement.operator in ("In", "NotIn"):
        return any(abs(gib - size) <= NEAR_GB * size for size in sizes) is (requirement.operator == "In")
    return not sizes or requirement._replace(values=(str(sizes[0]),)).compares(gib)  # Gt, Lt


def _has_family(gpu: Gpu, requirement: NodeRequirement) -> bool:
    """True if the GPU model has the architecture that nvidia.com/gpu.family requires."""
    return gpu.vendor != "nvidia" or gpu.architecture is None or requirement.holds({requirement.key: gpu.architecture})


def _may_have_major(gpu: Gpu, requirement: NodeRequirement) -> bool:
    """True if a node with this GPU may meet a requirement on the label of the capability's major number."""
    return gpu.compute_capability is None or requirement.holds({requirement.key: str(gpu.compute_capability[0])})


def _may_have_minor(gpu: Gpu, requirement: NodeRequirement) -> bool:
    """True if a node with this GPU may meet a requirement on the label of the capability's minor number."""
    return gpu.compute_capability is None or requirement.holds({requirement.key: str(gpu.compute_capability[1])})


def _has_mig(gpu: Gpu, requirement: NodeRequirement) -> bool:
    """True if the GPU model supports MIG or not, as nvidia.com/mig.capable requires."""
    has = "true" if products().get(gpu.name.partition(" MIG ")[0], {}).get("mig") else "false"
    return requirement.operator != "In" or requirement.holds({requirement.key: has})


_FILTERS: Mapping[str, Callable[[Gpu, NodeRequirement], bool]] = {
    **dict.fromkeys(MEMORY_LABELS, _has_label_memory),
    **dict.fromkeys(GIGABYTES, _has_gigabytes),
    "nvidia.com/gpu.family": _has_family,
    "nvidia.com/gpu.compute.major": _may_have_major,
    "nvidia.com/gpu.compute.minor": _may_have_minor,
    "nvidia.com/mig.capable": _has_mig,
}


_TELLING = frozenset((
    *LABELS, *instances.TYPE, *instances.FAMILY, *_FILTERS, *SHARING_LABELS, PARTITION_SIZE, AMD_PARTITION
))  # fmt: skip
"""Labels that may identify a GPU model."""


def _mps(gpus: tuple[Gpu, ...], demands: Demands) -> tuple[Gpu, ...]:
    """Under MPS an allocation beyond the client's share fails, whatever total is shown: only the lower bound changes.

    k8s-device-plugin cmd/mps-control-daemon, `set_default_device_pinned_mem_limit`: total / replicas.
    """
    entries = {
        requirement.key: requirement.values[0]
        for requirement in demands
        if requirement.operator == "In" and len(requirement.values) == 1
    }
    if not any(entries.get(key) == "mps" for key in STRATEGIES):
        return gpus
    clients = next((int(entries[key]) for key in CLIENTS if _is_number(entries.get(key, ""))), 0)
    if clients < 2:
        return gpus
    return tuple(gpu.with_memory(min(gpu.memory, _label_bytes(gpu) // clients), gpu.memory_high) for gpu in gpus)


def _label_bytes(gpu: Gpu) -> int:
    """Bytes that the node's memory label states for the GPU; its largest total if the label's value is not known."""
    return (gpu.memory_label_mib << 20) if gpu.memory_label_mib else gpu.memory_high


def _from_annotations(workload: Workload) -> NamedProducts | None:
    """The GPU models that HAMi's annotation lists; they can't support a denial. None without
    it, or if a name is unknown."""
    for key in USE_TYPE:
        value = workload.annotations.get(key)
        if isinstance(value, str):
            items = [by_name(name) for name in value.split(",", _MANY)]
            if items and all(items):
                gpus = {gpu.name: gpu for gpus in items for gpu in gpus}
                return NamedProducts(tuple(gpus.values()), f"annotation {key}: {value}", may_deny=False, shared=False)
    return None


_SAY_MORE = ("nvidia.com/mig-", "amd.com/", "huawei.com/")
"""Beginnings of resources whose name may identify a GPU model, a slice or a partition."""


def _from_resource(resource: str | None, gpus: tuple[Gpu, ...] | None) -> tuple[Gpu, ...]:
    """The GPU models by the resource's own name: a MIG profile, a partition, or a resource named after one GPU model.
    None of them for other resources, and if no GPU has it. `gpus`: those that labels name, None if no label names
    any."""
    if resource is None or not resource.startswith(_SAY_MORE):
        return ()
    plain = resource.removesuffix(".shared")
    if plain.startswith("nvidia.com/mig-"):
        return slices(plain.removeprefix("nvidia.com/mig-"), all_products() if gpus is None else gpus)
    if partition := re.fullmatch(r"amd\.com/([sdqc]px)_(nps\d)", plain):
        parts = [partition_of(gpu, partition[1], partition[2]) for gpu in (all_products() if gpus is None else gpus)]
        return tuple(part for part in parts if part is not None)
    return by_name(plain) if gpus is None and plain.startswith("huawei.com/") else ()
