"""How to request another GPU model with the labels that a Pod already uses: an additional label may match no node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from podfit.kube.path import mappings
from podfit.kube.workload import JSON
from podfit.vllm import change
from podfit.vllm.change import Suggestion
from podfit.vllm.gpu import instances
from podfit.vllm.gpu.labels import LABELS
from podfit.vllm.gpu.name import SHARED_SUFFIX, by_name
from podfit.vllm.gpu.product import Gpu, products
from podfit.vllm.gpu.requirement import NodeRequirement, affinity, of_spec

PRODUCT = "nvidia.com/gpu.product"
AMD_PRODUCT = "amd.com/gpu.product-name"
OF_CLOUDS = {
    "cloud.google.com/": "cloud.google.com/gke-accelerator",
    "karpenter.k8s.aws/": "karpenter.k8s.aws/instance-gpu-name",
    "eks.amazonaws.com/": "eks.amazonaws.com/instance-gpu-name",
}
"""The start of a cloud's own labels, and its label for the GPU model. Its nodes have nvidia.com/gpu.product only if an
admin installs GPU feature discovery, and its autoscaler does not know that label."""
_GPU_LABELS = frozenset((*LABELS, *instances.TYPE, *instances.FAMILY))
"""Labels whose values identify the GPU model or the machine type."""
_MANY = 64
"""Requirements of a Pod, and GPU models that it may choose from, that are read at most."""


def product_label(gpu: Gpu) -> tuple[str, str]:
    """The label that names the GPU model on its nodes, and its value; the model's name if no label is known."""
    if gpu.labels:
        return PRODUCT, gpu.labels[0]
    for place in LABELS[AMD_PRODUCT]:
        for name in _product_labels(gpu).get(place, ()):
            return AMD_PRODUCT, name
    return PRODUCT, gpu.name


def of_product(spec: JSON, label: str, count: int = 1) -> Suggestion:
    """The change that gets the Pod `count` GPUs of the model that nvidia.com/gpu.product calls `label`.

    It changes the labels of the Pod's nodeSelector that depend on the GPU, else the first one of its required affinity
    that does. Without either, it adds a label: its cloud's own if the Pod names a cloud, else
    nvidia.com/gpu.product."""
    gpus = by_name(label)
    entries, dropped = [], []
    for key, old in _selector(spec).items():
        value = _value(key, old, label, gpus, count)
        if value:
            entries.append((key, value))
        elif value is None:
            dropped.append(f"{key}: {old}")
    if len(entries) == 1 and not dropped:
        return change.selector(*entries[0])
    if entries or dropped:
        texts = [f"{key}: {value}" for key, value in entries]
        instead = f" instead of {', '.join(dropped)}" if dropped else ""
        return f"nodeSelector {', '.join(texts) or f'{PRODUCT}: {label}'}{instead}"
    for requirement in _affinity(spec):
        if requirement.operator != "In":
            continue
        value = _value(requirement.key, requirement.values[0] if requirement.values else "", label, gpus, 1)
        if value:
            return f"required affinity {requirement.key} In [{value}] instead of [{', '.join(requirement.values)}]"
    key = _label_of_cloud(spec) or PRODUCT
    value = _value(key, "", label, gpus, count)
    return change.selector(key, value) if value else change.selector(PRODUCT, label)


def nameable(spec: JSON, labels: Sequence[str]) -> tuple[str, ...]:
    """Those of the GPU models (values of nvidia.com/gpu.product) that the Pod's own labels, or those of its cloud, can
    name; all if there is none."""
    keys = [key for key in _selector(spec) if key in OF_CLOUDS.values()]
    if not keys and (key := _label_of_cloud(spec)) is not None:
        keys = [key]
    names = [label for label in labels if all(_value(key, "", label, by_name(label), 1) for key in keys)]
    return tuple(names or labels)


def _label_of_cloud(spec: JSON) -> str | None:
    """The label for the GPU model in the cloud whose labels or taints the Pod names; None if it names no cloud."""
    selector, tolerations = spec.get("nodeSelector"), spec.get("tolerations")
    keys = [*islice(selector if isinstance(selector, Mapping) else (), _MANY)]
    keys += [mapping.get("key") for mapping in islice(mappings(tolerations), _MANY)]
    keys += [requirement.key for requirement in islice(affinity(spec), _MANY)]
    return next((OF_CLOUDS[start] for key in keys for start in OF_CLOUDS if str(key).startswith(start)), None)


def of_count(spec: JSON, gpus: Sequence[Gpu], count: int) -> str | None:
    """The further change that gets the Pod `count` GPUs of its model. "" if the Pod names no machine type with fewer;
    None if no such machine type is known."""
    for key, old in _selector(spec).items():
        if key in instances.TYPE and (has := instances.count_of(old)) is not None and has < count:
            machine_type = instances.smallest_machine_type(old, gpus, count)
            return f" and nodeSelector {key}: {machine_type}" if machine_type else None
    return ""


def own_labels(spec: JSON) -> tuple[str, ...]:
    """The whole GPUs that a required affinity allows (values of nvidia.com/gpu.product), least memory first; none if it
    allows only one."""
    demands = of_spec(spec)
    requirements = [requirement for term in (demands.always, *demands.terms) for requirement in term]
    values: set[str] = set()
    for requirement in requirements:
        if requirement.key == PRODUCT and requirement.operator == "In":
            values.update(requirement.values)
    if len(values) > _MANY:
        return ()
    least_memory: dict[str, int] = {}  # value → bytes of the smallest GPU model that it may mean
    for value in sorted(values):
        gpus = () if SHARED_SUFFIX.search(value) else by_name(value)
        if gpus and not any(gpu.mig for gpu in gpus):
            least_memory[value] = min(gpu.memory for gpu in gpus)
    return tuple(sorted(least_memory, key=least_memory.__getitem__)) if len(least_memory) > 1 else ()


def _affinity(spec: JSON) -> Iterator[NodeRequirement]:
    """The requirements of the required affinity whose labels identify the GPU model or the machine type."""
    return (requirement for requirement in islice(affinity(spec), _MANY) if requirement.key in _GPU_LABELS)


def _product_labels(gpu: Gpu) -> Mapping[str, Sequence[str]]:
    """Label → its values for this GPU model."""
    entries: Mapping[str, Sequence[str]] = products().get(gpu.name, {}).get("names", {})
    return entries


def _selector(spec: JSON) -> Mapping[str, str]:
    """The entries of the Pod's nodeSelector that identify the GPU model or the machine type."""
    value = spec.get("nodeSelector")
    if not isinstance(value, Mapping):
        return {}
    names = _GPU_LABELS & value.keys()
    return {str(key): str(value[key]) for key in (value if len(value) <= _MANY else names) if key in names}


def _value(key: str, old: str, label: str, gpus: Sequence[Gpu], count: int) -> str | None:
    """The value of a label (`key`) for `count` of these GPUs. "" if it does not depend on the GPU, or if the present
    value (`old`) may stay. None if it has no value for them. `label`: their value of nvidia.com/gpu.product.

    A value that may also mean another GPU model is none."""
    if key in instances.TYPE:
        return instances.smallest_machine_type(old, gpus, count) if instances.count_of(old) is not None else ""
    if key in instances.FAMILY:
        return "" if set(gpus) & set(instances.of_types(instances.of_family(old))) else None
    if key not in LABELS:
        return ""
    if key == PRODUCT:
        return label
    vocabularies = LABELS[key]
    for name in [name for gpu in gpus for place in vocabularies for name in _product_labels(gpu).get(place, ())]:
        meant = by_name(name, vocabularies)
        if meant and set(meant) <= set(gpus):
            return name
    return None
