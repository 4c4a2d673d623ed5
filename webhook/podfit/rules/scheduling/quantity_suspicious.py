from __future__ import annotations

import re
from collections.abc import Iterator

from podfit.base.lazy import regex
from podfit.kube.path import FieldPath, mapping
from podfit.kube.quantity import GI, human, parse, quantity, try_parse
from podfit.rules import memory_sizes
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule
from podfit.vllm import change
from podfit.vllm.change import Suggestion

MOST_CORES = 2000
"""More than any node has."""
LONGEST_NUMBER = 40
"""Characters; more than any number that a user writes; a longer text is reported without a suggestion."""
_NUMBER = regex(r"\s*([0-9]*\.?[0-9]+)\s*([A-Za-z]+)?\s*", re.ASCII)
_FRACTION = regex(r"[0-9]*\.[0-9]*[1-9][0-9]*|[0-9]*[1-9][0-9]{0,2}m")
"""A number that is not whole: `0.5`, `1500m`; not `1.0`, `2000m`."""
_MEANT = {
    "gb": "G", "g": "G", "mb": "M", "m": "Mi", "kb": "k", "k": "k", "tb": "T", "t": "T",
    "gib": "Gi", "gi": "Gi", "mib": "Mi", "mi": "Mi", "kib": "Ki", "ki": "Ki", "tib": "Ti", "ti": "Ti",
}  # fmt: skip
_FAR = 8
"""Many times more than any workload needs."""
_QUANTITIES = ("memory", "ephemeral-storage", "cpu")
_NO_NUMBER = (bool, dict, list)
"""Types that no unit can fix: the API server rejects them."""


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
        sides = [(side, amounts) for side in ("limits", "requests") if (amounts := mapping(resources.get(side)))]
        for side, amounts in sides:
            for name in _QUANTITIES:
                if name in amounts and _is_odd(name, given := amounts[name]):
                    where = engine.at("resources", side, name)
                    yield from _quantity_findings(engine, where, name, given, fatal=_is_fatal(engine, side, name))
        for side, amounts in sides:
            for name, given in amounts.items():
                if "/" in str(name) and _is_fraction(given) and "kubernetes.io/" not in str(name):
                    yield _not_whole(engine, side, str(name), str(given).strip())
        mount = engine.shm.mount
        size = (mount.empty_dir or {}).get("sizeLimit") if mount is not None else None
        if mount is not None and _is_odd("sizeLimit", size):
            yield from _quantity_findings(
                engine, mount.at.join("emptyDir", "sizeLimit"), "sizeLimit", size, fatal=False
            )


def _is_fatal(engine: Engine, side: str, name: str) -> bool:
    """True if the Pod can't run with such a quantity.

    Memory: a container with so small a limit does not start. Cores: no node has so many free for a request. A limit
    without a request is also the request; with a separate request, a huge limit only limits nothing."""
    if name == "cpu":
        return side == "requests" or engine.field("resources", "requests", "cpu") is None
    return side == "limits"


def _is_fraction(given: object) -> bool:
    """True for a fraction, which resources with a domain must not have (kubernetes pkg/apis/core/validation
    ValidateResourceQuantityValue)."""
    return _FRACTION.fullmatch(str(given).strip()) is not None


def _not_whole(engine: Engine, side: str, name: str, text: str) -> Finding:
    """The finding about GPUs that are not a whole number."""
    return Finding(
        path=engine.at("resources", side, name),
        message=f"{name} {text!r} is not a whole number: the API server rejects the Pod",
        certainty="certain" if not engine.container.synthetic else "likely",
        suggestions=(change.limit(name, 1), "time-slicing, MPS or MIG to share a GPU"),
    )


def _is_odd(name: str, given: object) -> bool:
    """True if it is not a quantity, or none that can be meant; False for a value of another type, and for 0 bytes."""
    if given is None or isinstance(given, _NO_NUMBER):
        return False
    size = try_parse(given)
    return size is None or (size > MOST_CORES if name == "cpu" else 0 < size < memory_sizes.SMALLEST_SIZE)


def _quantity_findings(engine: Engine, path: FieldPath, name: str, given: object, *, fatal: bool) -> Iterator[Finding]:
    """The finding on an odd quantity; none for a text without a number, such as a placeholder. `fatal`: a container
    with so little, or that asks for so many cores, does not start."""
    size, text = try_parse(given), str(given)
    match = _NUMBER.fullmatch(text) if len(text) <= LONGEST_NUMBER else None
    meant = _meant(match, name) if match else None
    if match is not None and meant is not None and name == "memory":
        meant = _enough(engine, match[1], meant, limit="limits" in path.parts)
    if size is None:
        if match is not None:  # a placeholder that a template fills in is not a number
            yield Finding(
                path=path,
                message=f"{name} {text!r} is not a valid quantity: the API server rejects it",
                suggestions=(_as(path, name, meant),) if meant else (),
            )
        return
    if name == "cpu":
        yield Finding(
            path=path,
            message=f"cpu {text!r} is {size:,} cores",
            certainty="certain" if fatal else "likely",
            suggestions=("cpu: 4",),
        )
    else:
        if meant is None:
            meant = quantity(size * GI)  # `1e3`: as many GiB
        yield Finding(
            path=path,
            message=f"{name} {text!r} is {human(size).replace(' B', ' bytes') if size > 1 else 'one byte at most'}",
            certainty="certain" if fatal else "likely",
            suggestions=(_as(path, name, meant),) if parse(meant) != size else (),  # `512Ki` of disk: not known
        )


def _as(path: FieldPath, name: str, meant: str) -> Suggestion:
    """The change to a quantity; one that programs can write only for a limit."""
    return change.limit(name, meant) if "limits" in path.parts else f"{name}: {meant}"


def _meant(match: re.Match[str], name: str) -> str | None:
    """The quantity that was probably meant: `64gb` → 64G, `64` → 64Gi, `512m` → 512Mi. None for CPUs and other
    units."""
    number, unit = match.groups()
    if name == "cpu":
        return None
    if unit is None:
        return f"{number}Gi"
    suffix = _MEANT.get(unit.lower())
    return f"{number}{suffix}" if suffix else None


def _enough(engine: Engine, number: str, meant: str, *, limit: bool) -> str:
    """The quantity that was meant, if vLLM runs in it or its need is unknown; else as many GiB (`64m`), or the computed
    size if far off."""
    host = engine.plan.host
    if host is None:
        return meant
    likely = host.need.likely
    advised = (memory_sizes.advised_limit(engine) if limit else None) or memory_sizes.rounded(likely)
    if parse(meant) >= likely:
        return meant
    in_gi = f"{number}Gi"
    far = not likely <= parse(in_gi) <= _FAR * advised
    return quantity(advised) if far or not limit else in_gi  # a request may not be above the limit
