"""DRA: what a Pod claims → how many devices, and of which GPU models.

`spec.resourceClaims` → ResourceClaim or ResourceClaimTemplate → DeviceClass, with the CEL selectors of both
(resource.k8s.io v1beta1, v1beta2 and v1). A claim that is not in the snapshot has an unknown count and GPU model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from podfit.base.lazy import regex
from podfit.kube.path import mapping, mappings
from podfit.kube.snapshot import Snapshot
from podfit.kube.workload import JSON, Container, Workload
from podfit.vllm.gpu import cel
from podfit.vllm.gpu.product import Gpu, all_products, products, slice_of

DRIVERS = {"gpu.nvidia.com": "nvidia", "gpu.amd.com": "amd", "gpu.intel.com": "intel", "neuron.aws.com": "aws"}
CLASSES = {
    "gpu.nvidia.com": ("gpu.nvidia.com", "gpu"),
    "mig.nvidia.com": ("gpu.nvidia.com", "mig"),
    "gpu.amd.com": ("gpu.amd.com", None),
    "gpu.intel.com": ("gpu.intel.com", None),
    "neuron.aws.com": ("neuron.aws.com", None),
}
"""Classes that the drivers' own charts create → driver and type, used if the class is not in the snapshot
(kubernetes-sigs/dra-driver-nvidia-gpu deployments/helm deviceclass-*.yaml)."""
_NO_ACCELERATOR = ("compute-domain", "vfio", "nic", "dranet", "efa")


@dataclass(frozen=True)
class Claim:
    """The devices that a container gets by its claims."""

    count: int | None
    """Number of devices; None if unknown."""
    gpus: tuple[Gpu, ...]
    """GPU models that match the selectors; empty if they exclude none."""
    source: str
    exact: bool
    """The selectors name the GPU model by its whole name, not by a pattern or a size, so that no GPU outside the table
    can match."""
    possible: tuple[Gpu, ...] = ()
    """GPU models that match, however many; empty if the driver is unknown."""


def find(workload: Workload, container: Container, snapshot: Snapshot | None) -> Claim | None:
    """The container's claim; None if it claims nothing that may be an accelerator."""
    value = mapping(container.spec.get("resources")).get("claims")
    if not isinstance(value, list):
        return None
    there = workload.resource_claims
    if not there:
        return None
    claims: list[Claim] = []
    for item in mappings(value):
        pod_claim = there.get(str(item.get("name")))
        if pod_claim is not None:
            claims += _claims(pod_claim, item.get("request"), workload.namespace, snapshot)
    if not claims:
        return None if value and _all_seen(value, there, workload, snapshot) else _UNSEEN
    if len(claims) == 1:
        return claims[0]
    counts = [claim.count for claim in claims]
    gpus = {gpu.name: gpu for claim in claims for gpu in claim.gpus} if all(claim.gpus for claim in claims) else {}
    total = None if None in counts else sum(count for count in counts if count)
    return Claim(
        count=total,
        gpus=tuple(gpus.values()),
        source="; ".join(claim.source for claim in claims),
        exact=all(claim.exact for claim in claims),
        possible=_all_of([claim.possible for claim in claims]),
    )


_UNSEEN = Claim(count=None, gpus=(), source="DRA claim", exact=False)
"""A claim that is not in the snapshot."""


def _all_of(several: Iterable[tuple[Gpu, ...]]) -> tuple[Gpu, ...]:
    """The GPU models of all alternatives; none if one of them allows any."""
    items = list(several)
    return tuple({gpu.name: gpu for gpus in items for gpu in gpus}.values()) if all(items) else ()


def _all_seen(values: list[Any], there: Mapping[str, JSON], workload: Workload, snapshot: Snapshot | None) -> bool:
    """True if all claims are known, and none is for an accelerator but for a network interface or a compute domain."""
    named = [there.get(str(item.get("name"))) for item in mappings(values)]
    return all(item is not None and _spec(item, workload.namespace, snapshot) is not None for item in named)


def _claims(pod_claim: JSON, request: object, namespace: str | None, snapshot: Snapshot | None) -> Iterator[Claim]:
    """A Pod's resource claim, one `Claim` per request for accelerators; if `request` names one, only that one. A claim
    of unknown content if the snapshot lacks it."""
    spec = _spec(pod_claim, namespace, snapshot)
    if spec is None:
        yield _UNSEEN
        return
    name = pod_claim.get("resourceClaimTemplateName") or pod_claim.get("resourceClaimName")
    for device_request in mappings(mapping(spec.get("devices")).get("requests")):
        if request is not None and str(request).partition("/")[0] != str(device_request.get("name")):
            continue
        if "exactly" in device_request:
            options = [mapping(device_request["exactly"])]
        else:
            options = mappings(device_request.get("firstAvailable")) or [device_request]
        if len(options) > 1 and isinstance(request, str) and "/" in request:
            subrequest = request.partition("/")[2]
            options = [option for option in options if option.get("name") == subrequest] or options
        wishes = [wish for option in options if (wish := _device_wish(option, snapshot)) is not None]
        if not wishes:
            continue
        counts = {wish.count for wish in wishes}
        possible = _all_of(wish.gpus for wish in wishes)
        yield Claim(
            count=counts.pop() if len(counts) == 1 else None,
            gpus=possible if all(_names(wish.gpus) for wish in wishes) else (),
            source=f"DRA claim {name}",
            exact=all(wish.exact for wish in wishes),
            possible=possible,
        )


def _spec(pod_claim: JSON, namespace: str | None, snapshot: Snapshot | None) -> JSON | None:
    """The ResourceClaimSpec, from a claim or from a template's inner spec; None if the snapshot has neither."""
    if snapshot is None:
        return None
    if name := pod_claim.get("resourceClaimTemplateName"):
        template = snapshot.get("resourceclaimtemplates", namespace, name)
        return mapping(mapping(template.get("spec")).get("spec")) if template else None
    claim = snapshot.get("resourceclaims", namespace, pod_claim.get("resourceClaimName"))
    return mapping(claim.get("spec")) if claim else None


@dataclass(frozen=True)
class _DeviceWish:
    """One request, or one of its alternatives, for devices of a class."""

    count: int | None
    """Number of devices; None if unknown."""
    gpus: tuple[Gpu, ...]
    """GPU models that match; empty if the driver is unknown."""
    exact: bool
    """A selector names the GPU model by its whole name."""


def _device_wish(item: JSON, snapshot: Snapshot | None) -> _DeviceWish | None:
    """The devices of a request; None if it is not for an accelerator."""
    name = str(item.get("deviceClassName") or "")
    device_class = snapshot.get("deviceclasses", None, name) if snapshot else None
    selectors = [*_selectors(mapping(mapping(device_class).get("spec"))), *_selectors(item)]
    if any(word in name for word in _NO_ACCELERATOR):
        return None
    count = _device_count(item)
    driver, kind = CLASSES.get(name, (None, None))
    names_driver = any(known in text for text in selectors for known in DRIVERS)
    if driver is None and (device_class is None or not names_driver):
        return _DeviceWish(count, gpus=(), exact=False)
    is_short = sum(map(len, selectors)) + _EACH * len(selectors) <= _SHORT
    gpus = (_known_left if is_short else _matching_products)(driver, kind, tuple(selectors))
    exact = any(_EXACT.search(text) for text in selectors if "||" not in text)
    return _DeviceWish(count, gpus, exact)


_SHORT = 4096
"""Characters of selectors up to which the result is cached; every selector counts as _EACH characters more."""
_EACH = 64


@lru_cache(256)
def _known_left(driver: str | None, kind: str | None, selectors: tuple[str, ...]) -> tuple[Gpu, ...]:
    """`_matching_products`, cached."""
    return _matching_products(driver, kind, selectors)


def _matching_products(driver: str | None, kind: str | None, selectors: tuple[str, ...]) -> tuple[Gpu, ...]:
    """The GPU models that the class's driver (without one, those that selectors name) and type (None: any) and the
    selectors leave. A selector whose result is unknown excludes none."""
    drivers = {driver} if driver else {name for name in DRIVERS if any(name in text for text in selectors)}
    selects = [cel.read(text) for text in selectors]
    left: dict[str, Gpu] = {}
    for gpu, device in _devices():
        if device["driver"] not in drivers:
            continue
        if kind is not None and device["attributes"][device["driver"]].get("type") != kind:
            continue
        if all(select(device) is not False for select in selects):
            left[gpu.name] = gpu
    return tuple(left.values())


_EXACT = regex(r"\.(productName|profile) ?(==|in) ")
_MOST = 24
"""Most GPU models that selectors may match: if more match, the GPU model is unknown."""


def _names(gpus: tuple[Gpu, ...]) -> bool:
    """True if a request names its GPU model. A class for all whole GPUs of a vendor names none."""
    names = {gpu.name for gpu in gpus if gpu.mig is None}
    return len(gpus) <= _MOST and not any(value <= names for value in _whole_gpus().values())


@cache
def _whole_gpus() -> Mapping[str, frozenset[str]]:
    """Driver → the names of all whole GPUs that it serves."""
    return {
        driver: frozenset(gpu.name for gpu in all_products() if gpu.vendor == vendor)
        for driver, vendor in DRIVERS.items()
    }


def _device_count(item: JSON) -> int | None:
    """How many devices a request asks for; None for all of them, or if it is not a positive number."""
    if item.get("allocationMode") == "All":
        return None
    count = item.get("count", 1)
    return count if isinstance(count, int) and not isinstance(count, bool) and count > 0 else None


def _selectors(of: JSON) -> list[str]:
    """The CEL expressions of the `selectors` of a request or device class."""
    items = (mapping(selector.get("cel")).get("expression") for selector in mappings(of.get("selectors")))
    return [text for text in items if isinstance(text, str)]


@cache
def _devices() -> tuple[tuple[Gpu, cel.Device], ...]:
    """Each GPU model under each name that its driver may publish, and each of its slices.

    kubernetes-sigs/dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/deviceinfo.go; ROCm/k8s-gpu-dra-driver
    docs/driver-attributes.md.
    """
    items: list[tuple[Gpu, cel.Device]] = []
    for gpu in all_products():
        driver = next((name for name, vendor in DRIVERS.items() if vendor == gpu.vendor), None)
        if driver is None:
            continue
        row = products()[gpu.name]
        for name in row["names"].get("smi", ()) or [gpu.name]:
            items.append((gpu, _device(driver, gpu, name)))
            for item in row.get("mig", ()):
                cut = slice_of(gpu, item["profile"])
                if cut is not None:
                    items.append((cut, _device(driver, cut, name)))
    return tuple(items)


_FAMILIES = {"ada-lovelace": "Ada Lovelace"}


def _device(driver: str, gpu: Gpu, name: str) -> cel.Device:
    """The attributes and the capacity that a DRA driver publishes for a GPU model."""
    attributes: dict[str, Any] = {"productName": name}
    capacity = {"memory": (gpu.memory_label_mib << 20) if gpu.memory_label_mib and not gpu.mig else gpu.memory_high}
    if driver == "gpu.nvidia.com":
        attributes["type"] = "mig" if gpu.mig else "gpu"
        if gpu.mig:
            attributes["profile"] = gpu.mig.replace(".me", "+me").replace(".gfx", "+gfx")
        if gpu.architecture:
            attributes["architecture"] = _FAMILIES.get(gpu.architecture, gpu.architecture.title())
        if gpu.compute_capability:
            attributes["cudaComputeCapability"] = "{}.{}.0".format(*gpu.compute_capability)
    return {"driver": driver, "attributes": {driver: attributes}, "capacity": {driver: capacity}}
