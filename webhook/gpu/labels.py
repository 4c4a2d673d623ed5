"""What the Pod says of its node: nodeSelector, required node affinity, annotations, the resource's own name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from webhook.gpu.name import SHARED_SUFFIX, by_name
from webhook.gpu.product import Gpu, all_products, of_family, of_instances, partition_of, slices
from webhook.workload import JSON, Workload

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
class Named:
    """What requirements make of the product."""

    gpus: tuple[Gpu, ...]
    source: str
    may_deny: bool
    shared: bool


def named(workload: Workload, resource: str | None) -> Named | None:
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
        return Named(gpus, f"{source}; {named.source}" if named else source, True, bool(named and named.shared))
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


def _from_labels(requirements: Sequence[_Requirement]) -> Named | None:
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
        return _from_memory(requirements)
    for one in requirements:
        if one.key in MEMORY_LABELS:
            gpus = _of_memory(gpus, one) or gpus
        elif one.key == PARTITION_SIZE and one.operator == "In":
            gpus = tuple(found for size in one.values for found in slices(size, gpus)) or gpus
        elif one.key in SHARING_LABELS and one.operator == "In":
            shared = shared or any(SHARING_LABELS[one.key](value) for value in one.values)
    return Named(gpus, "node label " + "; ".join(sources), may_deny, shared)


def _from_memory(requirements: Sequence[_Requirement]) -> Named | None:
    """The products that print exactly the memory a label asks for, where nothing else names one."""
    for one in requirements:
        if one.key == MEMORY_LABELS[0] and one.operator == "In" and all(value.isdigit() for value in one.values):
            wanted = {int(value) for value in one.values}
            if found := tuple(gpu for gpu in all_products() if gpu.memory_label_mib in wanted):
                return Named(found, f"node label {one}", True, False)
    return None


def _products_of(requirement: _Requirement) -> tuple[tuple[Gpu, ...], bool]:
    """The products a label's values name, and whether the label is one whose values are the products' names.

    A value that is not known leaves the product open: then the label names nothing.
    """
    key, values = requirement.key, requirement.values
    found: list[Sequence[Gpu]] = []
    if key in LABELS:
        found = [by_name(value, LABELS[key]) for value in values]
    elif key in INSTANCE_TYPE:
        found = [of_instances([value]) for value in values]
    elif key in INSTANCE_FAMILY:
        found = [of_instances(of_family(value)) for value in values]
    elif OWN_LABELS.fullmatch(key):
        found = [by_name(f"{key}={value}") or by_name(value) for value in values]
    certain = key in LABELS or key in INSTANCE_TYPE or key in INSTANCE_FAMILY
    if not found or not all(found):
        return (), certain
    return tuple({gpu.name: gpu for gpus in found for gpu in gpus}.values()), certain


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


def _union(alternatives: Sequence[Named]) -> Named | None:
    """Terms are alternatives: any of their products may be the one."""
    if not alternatives:
        return None
    return Named(
        gpus=tuple({gpu.name: gpu for one in alternatives for gpu in one.gpus}.values()),
        source=" or ".join(dict.fromkeys(one.source for one in alternatives)),
        may_deny=all(one.may_deny for one in alternatives),
        shared=any(one.shared for one in alternatives),
    )


def _from_annotations(workload: Workload) -> Named | None:
    for key in USE_TYPE:
        value = workload.annotations.get(key)
        if isinstance(value, str):
            found = [by_name(name) for name in value.split(",")]
            if found and all(found):
                gpus = {gpu.name: gpu for gpus in found for gpu in gpus}
                return Named(tuple(gpus.values()), f"annotation {key}: {value}", False, False)
    return None


def _from_resource(resource: str | None, gpus: tuple[Gpu, ...] | None) -> tuple[tuple[Gpu, ...], str] | None:
    """What the resource's own name says: a MIG profile, a partition, or a product with one resource to itself."""
    if resource is None:
        return None
    plain = resource.removesuffix(".shared")
    if plain.startswith("nvidia.com/mig-"):
        profile = plain.removeprefix("nvidia.com/mig-")
        cut = slices(profile, gpus if gpus is not None else all_products())
        return (cut, resource) if cut else None
    if partition := re.fullmatch(r"amd\.com/([sdqc]px)_nps\d", plain):
        cards = gpus if gpus is not None else all_products()
        parts = tuple(found for gpu in cards if (found := partition_of(gpu, partition[1])))
        return (parts, resource) if parts else None
    if gpus is None and plain.startswith("huawei.com/"):
        product = by_name(plain)
        return (product, resource) if product else None
    return None
