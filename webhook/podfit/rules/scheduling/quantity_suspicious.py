from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from podfit.base.lazy import regex
from podfit.kube.path import FieldPath, mapping
from podfit.kube.quantity import GI, human, parse, quantity, try_parse
from podfit.rules import memory_sizes
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule
from podfit.vllm import change
from podfit.vllm.change import Suggestion

MAX_CORES = 2000
"""More than any node has (podfit's choice)."""
LONGEST_NUMBER = 40
"""Characters; more than any number that a user writes; a longer text is reported without a suggestion."""
_NUMBER = regex(r"\s*([0-9]*\.?[0-9]+)\s*([A-Za-z]+)?\s*", re.ASCII)
_FRACTION = regex(r"[0-9]*\.[0-9]*[1-9][0-9]*|[0-9]*[1-9][0-9]{0,2}m")
"""A number that is not whole: `0.5`, `1500m`; not `1.0`, `2000m`."""
_MEANT_UNITS = {
    "gb": "G", "g": "G", "mb": "M", "m": "Mi", "kb": "k", "k": "k", "tb": "T", "t": "T",
    "gib": "Gi", "gi": "Gi", "mib": "Mi", "mi": "Mi", "kib": "Ki", "ki": "Ki", "tib": "Ti", "ti": "Ti",
}  # fmt: skip
"""A unit as people write it, in lower case → the unit of a Kubernetes quantity that was probably meant."""
_FAR = 8
"""A size of so many times the advised one was probably not meant (podfit's choice)."""
_QUANTITIES = ("memory", "ephemeral-storage", "cpu")
_NO_NUMBER = (bool, dict, list)
"""Types that no unit can fix: the API server rejects them."""


Side = Literal["limits", "requests"]


class QuantitySuspicious(Rule):
    """A quantity's unit is missing or wrong.

    Kubernetes reads `memory: 64` as 64 bytes and `memory: 512m` as 512 thousandths of one byte; with such a limit no
    container starts:

        Error: failed to create containerd task: … container init was OOM-killed (memory limit too low?)

    `64GB` and `64gi` are not valid quantities, and the API server rejects the object: `quantities must match the
    regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'`. Write bytes as 64Gi (1024³) or 64G (1000³), and
    cores as 4 or 4000m. GPUs and other devices are whole numbers: the API server rejects `nvidia.com/gpu: "0.5"` with
    `Invalid value: "500m": must be an integer`.
    """

    plane = "host"
    event = "the container is OOMKilled or never scheduled"
    of_vllm = False
    mode = "deny"

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain for a memory limit of a megabyte or a request of thousands of cores, which can't run.

        Otherwise the Pod can run, and the finding is likely. Examples are a memory request of a few bytes, a limit of
        thousands of cores with a small request, and a volume that may not be needed."""
        resources = mapping(engine.field("resources"))
        limits, requests = mapping(resources.get("limits")), mapping(resources.get("requests"))
        yield from _of_sizes(engine, "limits", limits)
        yield from _of_sizes(engine, "requests", requests)
        yield from _of_devices(engine, "limits", limits)
        yield from _of_devices(engine, "requests", requests)
        mount = engine.shm.mount
        size = (mount.empty_dir or {}).get("sizeLimit") if mount is not None else None
        if mount is not None and _is_odd("sizeLimit", size):
            yield from _quantity_findings(
                engine, mount.at.join("emptyDir", "sizeLimit"), "sizeLimit", size, fatal=False
            )


def _of_sizes(engine: Engine, side: Side, amounts: Mapping[str, Any]) -> Iterator[Finding]:
    """The findings on memory, storage and cores in the container's `limits` or `requests`. `amounts`: resource →
    quantity as it is written."""
    for name in _QUANTITIES:
        given = amounts.get(name)
        if _is_odd(name, given):
            where = engine.at("resources", side, name)
            yield from _quantity_findings(engine, where, name, given, fatal=_is_fatal(engine, side, name))


def _of_devices(engine: Engine, side: Side, amounts: Mapping[str, Any]) -> Iterator[Finding]:
    """The findings on devices that are not a whole number, such as `nvidia.com/gpu: 0.5`, in `limits` or `requests`.
    Resources of kubernetes.io are not devices."""
    for name, given in amounts.items():
        if "/" in str(name) and _is_fraction(given) and "kubernetes.io/" not in str(name):
            yield _not_whole(engine, side, str(name), str(given).strip())


def _is_fatal(engine: Engine, side: Side, name: str) -> bool:
    """True if the Pod can't run with an odd quantity (`_is_odd`) of the resource `name`.

    Memory: a container with so small a limit does not start. Cores: no node has so many free for a request. A limit
    without a request is also the request; with a separate request, a huge limit only limits nothing."""
    if name == "cpu":
        return side == "requests" or engine.field("resources", "requests", "cpu") is None
    return side == "limits"


def _is_fraction(given: object) -> bool:
    """True for a fraction, which resources with a domain must not have (kubernetes pkg/apis/core/validation
    ValidateResourceQuantityValue)."""
    return _FRACTION.fullmatch(str(given).strip()) is not None


def _not_whole(engine: Engine, side: Side, name: str, text: str) -> Finding:
    """The finding on the device `name` whose number, `text`, is not whole."""
    return Finding(
        path=engine.at("resources", side, name),
        message=f"{name} {text!r} is not a whole number: the API server rejects the Pod",
        certainty="certain" if not engine.container.synthetic else "likely",
        suggestions=(change.limit(name, 1), "time-slicing, MPS or MIG to share a GPU"),
    )


def _is_odd(name: str, given: object) -> bool:
    """True if the value is not a quantity, or if its size can't be meant: cores above `MAX_CORES`, or bytes below
    `SMALLEST_SIZE`. False for 0 bytes, for None, and for a value of another type."""
    if given is None or isinstance(given, _NO_NUMBER):
        return False
    size = try_parse(given)
    if size is None:
        return True
    return size > MAX_CORES if name == "cpu" else 0 < size < memory_sizes.SMALLEST_SIZE


def _quantity_findings(engine: Engine, path: FieldPath, name: str, given: object, *, fatal: bool) -> Iterator[Finding]:
    """The finding on an odd quantity; none for a text without a number, such as a placeholder. `fatal`: a container
    with so little, or that asks for so many cores, does not start."""
    size, text = try_parse(given), str(given)
    match = _NUMBER.fullmatch(text) if len(text) <= LONGEST_NUMBER else None
    meant = _meant(match, name) if match else None
    if match is not None and meant is not None and name == "memory":
        meant = _enough(engine, match[1], meant, limit="limits" in path.parts)
    if size is None and match is None:
        return  # a placeholder that a template fills in
    if size is None:
        yield Finding(
            path=path,
            message=f"{name} {text!r} is not a valid quantity: the API server rejects it",
            suggestions=(_change(path, name, meant),) if meant else (),
        )
    elif name == "cpu":
        yield Finding(
            path=path,
            message=f"cpu {text!r} is {size:,} cores",
            certainty="certain" if fatal else "likely",
            suggestions=("cpu: 4",),
        )
    else:
        if meant is None:
            meant = quantity(size * GI)  # `1e3`: as many GiB
        size_text = human(size).replace(" B", " bytes") if size > 1 else "one byte at most"
        yield Finding(
            path=path,
            message=f"{name} {text!r} is {size_text}",
            certainty="certain" if fatal else "likely",
            suggestions=(_change(path, name, meant),) if parse(meant) != size else (),  # `512Ki` of disk: not known
        )


def _change(path: FieldPath, name: str, meant: str) -> Suggestion:
    """The change of the quantity at `path` to `meant`: of a limit as an edit, else in words."""
    return change.limit(name, meant) if "limits" in path.parts else f"{name}: {meant}"


def _meant(match: re.Match[str], name: str) -> str | None:
    """The quantity that was probably meant: `64gb` → 64G, `64` → 64Gi, `512m` → 512Mi. None for CPUs and other units.
    `match`: of `_NUMBER`."""
    number, unit = match.groups()
    if name == "cpu":
        return None
    if unit is None:
        return f"{number}Gi"
    suffix = _MEANT_UNITS.get(unit.lower())
    return f"{number}{suffix}" if suffix else None


def _enough(engine: Engine, number: str, meant: str, *, limit: bool) -> str:
    """The memory to suggest for a limit or a request: `meant`, if vLLM runs in it or its need is unknown.

    Else it is `number` GiB for a limit, as `64m` probably means 64Gi, if that is the need at least and not far above
    it. Else it is the computed size. So it is for a request, which must not be above the limit."""
    host = engine.plan.host
    if host is None or parse(meant) >= host.need.likely:
        return meant
    computed = (memory_sizes.advised_limit(engine) if limit else None) or memory_sizes.rounded(host.need.likely)
    in_gi = f"{number}Gi"
    if limit and host.need.likely <= parse(in_gi) <= _FAR * computed:
        return in_gi
    return quantity(computed)
