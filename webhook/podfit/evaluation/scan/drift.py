"""Planned next to used: which workloads do what their plan says, on both planes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

from podfit.evaluation.scan import Ref, Scan, ScannedContainer
from podfit.evaluation.scan.planned import STEADY, USED, Plane, Span
from podfit.kube.quantity import MI
from podfit.vllm.memory.lines import LINES, TITLES

State = Literal["above", "below", "as-planned", "unknown"]
Unit = Literal["bytes", "tokens"]
TOKENS = "kv_cache_tokens"
COMPARED_LINES: tuple[tuple[Plane, str, Unit], ...] = (
    ("gpu", USED, "bytes"), *(("gpu", line, "bytes") for line in TITLES), ("gpu", TOKENS, "tokens"),
    ("host", STEADY, "bytes"),
)  # fmt: skip
"""The values that can be measured of a container that serves."""
OPTIONAL_LOG_LINES = frozenset(line.id for line in LINES if not line.in_every_log)
"""Lines that not every release prints: that they are not there is not worth a word."""
SLACK = 6 * MI
"""Bytes that do not count: logs print hundredths of a GiB (up to 5 MiB of rounding), DCGM MiB (1 MiB)."""


class Used(NamedTuple):
    """Measurements of one Pod, or of one container of it."""

    namespace: str
    pod: str
    container: str | None
    """None: whichever of its containers runs vLLM."""
    plane: Plane
    line: str
    value: int
    source: str
    """For people: the series, or the words of a log."""


class Drift(NamedTuple):
    """One line of one container's plan next to what its Pods use."""

    object: Ref
    container: str
    plane: Plane
    line: str
    unit: Unit
    planned: Span | None
    used: int | None
    """The measurement of the Pod that is farthest from the plan."""
    pods: int
    """Number of Pods that were measured."""
    source: str
    """Where the number is from; why there is none."""

    @property
    def off(self) -> float | None:
        """used / likely - 1; None if one of the two is unknown, or if nothing was planned."""
        if self.used is None or self.planned is None or not self.planned.likely:
            return None
        return self.used / self.planned.likely - 1

    @property
    def state(self) -> State:
        """The place of the measurement: above or below the plan's 95 % interval (bytes: with SLACK), or within it;
        unknown without a plan or a measurement."""
        if self.used is None or self.planned is None:
            return "unknown"
        slack = SLACK if self.unit == "bytes" else 0
        if self.used > self.planned.high + slack:
            return "above"
        return "below" if self.used < self.planned.low - slack else "as-planned"


def compare(scan: Scan, used: Iterable[Used], names: frozenset[str]) -> list[Drift]:
    """Every container's lines of `names` (`"gpu/used"`, `"host/steady"` …), the most contradicted first, the unknown
    last."""
    measured: dict[tuple[str, Plane, str], list[Used]] = {}
    for use in used:
        top = scan.pods.get((use.namespace, use.pod))
        if top is not None:
            measured.setdefault((top, use.plane, use.line), []).append(use)
    up = set(scan.pods.values())
    drifts = [
        drift for row in scan.rows for drift in _drift_of_container(row, measured, names, is_up=row.object.uid in up)
    ]
    return sorted(drifts, key=_drift_order)


def _drift_of_container(
    row: ScannedContainer, measured: Mapping[tuple[str, Plane, str], list[Used]], names: frozenset[str], *, is_up: bool
) -> Iterator[Drift]:
    """Each line of `names` of a container's plan next to what its Pods use. `measured`: uid of a workload, plane and
    line → measurements. `is_up`: a Pod of it is running."""
    for plane, line, unit in COMPARED_LINES:
        if f"{plane}/{line}" not in names:
            continue
        planned = row.tokens if line == TOKENS else row.planned.get(plane, {}).get(line)
        of_line = measured.get((row.object.uid, plane, line), ())
        uses = [use for use in of_line if use.container in (None, row.container)]
        if not uses and (planned is None or line in OPTIONAL_LOG_LINES):
            continue  # neither side has a number, or not every release prints the line
        likely = planned.likely if planned else 0  # without a plan, the largest measurement is the worst
        worst = max(uses, key=lambda use: abs(use.value - likely), default=None)
        if planned is None:
            source = "no plan: what is missing is in its findings"
        elif worst is not None:
            source = worst.source
        else:
            source = "not measured" if is_up else "no Pod of it is running"
        yield Drift(
            object=row.object,
            container=row.container,
            plane=plane,
            line=line,
            unit=unit,
            planned=planned,
            used=worst.value if worst else None,
            pods=len({(use.namespace, use.pod) for use in uses}),
            source=source,
        )


_STATE_ORDER: Mapping[State, int] = {"above": 0, "below": 0, "as-planned": 1, "unknown": 2}
"""State → its rank in a list."""


def _drift_order(drift: Drift) -> tuple[int, float, str, str]:
    """(state, -difference, object, line), by which lines are sorted: those outside the plan first, the largest relative
    difference first. It is infinite if nothing was planned."""
    rank = _STATE_ORDER[drift.state]
    is_unplanned = drift.off is None and rank == 0
    difference = float("inf") if is_unplanned else abs(drift.off or 0.0)
    return rank, -difference, str(drift.object), drift.line
