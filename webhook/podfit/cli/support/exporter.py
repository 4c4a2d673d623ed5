"""A scan's planned memory as metrics: a file for node-exporter's textfile collector, or an exporter that scans again.

One registry has one collector. Its numbers, among them the scan's age, are those of the last complete scan.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from threading import Event
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import write_to_textfile
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from podfit.base.printable import clean
from podfit.cli.support import edge
from podfit.evaluation.scan import DECISION_ORDER, Scan, ScannedContainer
from podfit.evaluation.scan.planned import PEAK, STEADY, USED

WORKLOAD = ("namespace", "workload", "workload_type")
"""Labels, named as in kube-prometheus' recording rules; the type is the kind in lower case."""
TOTALS = frozenset((USED, STEADY, PEAK))
"""Lines of which the upper end is exported, too: what alerts compare with."""


class Planned(Collector):
    """The last scan. Series a container: some 15; a Pod: one."""

    def __init__(self) -> None:
        self.scan: Scan | None = None
        """The last complete one; None before it."""
        self.seconds = 0.0
        """How long it took."""
        self.at = 0.0
        """When it ended, in seconds since 1970."""
        self.worked = False
        """The last scan was complete."""
        self.events: Mapping[str, int] = {}
        """Outcome → number of Events; empty without `--write-events`."""

    def collect(self) -> Iterator[Metric]:
        """The metrics at a scrape; without a complete scan only whether the last one worked, and the Events."""
        worked = GaugeMetricFamily("podfit_scan_success", "1: the last scan worked; 0: what is here is older")
        worked.add_metric([], float(self.worked))
        yield worked
        if self.events:
            written = CounterMetricFamily(
                "podfit_scan_events", "Events about workloads that would not start", labels=["outcome"]
            )
            for outcome, count in self.events.items():
                written.add_metric([outcome], count)
            yield written
        if self.scan is None:
            return
        yield GaugeMetricFamily(
            "podfit_scan_timestamp_seconds", "When the last scan that worked had ended", value=self.at
        )
        yield GaugeMetricFamily("podfit_scan_duration_seconds", "How long it took", value=self.seconds)
        yield from _counts(self.scan)
        yield from _planned(self.scan)


def _counts(scan: Scan) -> Iterator[Metric]:
    """Workloads by their worst finding, and findings by rule and mode, also by the mode without `enforce.mode`."""
    states = GaugeMetricFamily(
        "podfit_scan_workloads",
        "vLLM workloads by their worst finding; would_deny: only enforce.mode keeps it from being denied",
        labels=["state"],
    )
    for state in DECISION_ORDER:
        states.add_metric([state], scan.workloads(state))
    rules = GaugeMetricFamily(
        "podfit_scan_findings",
        "vLLM containers with a finding; would: the mode if the policy enforced",
        labels=["rule", "mode", "would"],
    )
    for mode, would, rule, rows in scan.rules():
        rules.add_metric([rule, mode, would], len(rows))
    yield from (states, rules)
    denied = scan.ready_and_denied
    if denied is not None:
        ready = GaugeMetricFamily(
            "podfit_scan_ready_workloads",
            "Running, ready vLLM workloads, and what the policy would decide if it enforced: denied is a false denial",
            labels=["decision"],
        )
        ready.add_metric(["denied"], len(denied))
        ready.add_metric(["allowed"], len(scan.ready) - len(denied))
        yield ready


def _planned(scan: Scan) -> Iterator[Metric]:
    """Planned memory and tokens of each container, and the workload of each Pod."""
    labels = [*WORKLOAD, "container", "plane", "line"]
    likely = GaugeMetricFamily(
        "podfit_planned_bytes", "Likely, of one GPU (`gpu`) or of the container's host memory (`host`)", labels=labels
    )
    high = GaugeMetricFamily(
        "podfit_planned_high_bytes", "The upper end of what is likely (95 %), of the totals of a memory", labels=labels
    )
    tokens = GaugeMetricFamily("podfit_planned_kv_cache_tokens", "Likely", labels=[*WORKLOAD, "container"])
    pods = GaugeMetricFamily(
        "podfit_planned_pod_info", "Which workload a running Pod comes of", labels=[*WORKLOAD, "pod"]
    )
    names: dict[str, list[str]] = {}  # uid of a workload → values of the labels WORKLOAD
    for row in scan.rows:
        workload = names.setdefault(row.object.uid, _workload(row))
        container = clean(row.container)
        for plane, lines in row.planned.items():
            for line, span in lines.items():
                likely.add_metric([*workload, container, plane, line], span.likely)
                if line in TOTALS:
                    high.add_metric([*workload, container, plane, line], span.high)
        if row.tokens is not None:
            tokens.add_metric([*workload, container], row.tokens.likely)
    for (_, pod), uid in scan.pods.items():
        if uid in names:
            pods.add_metric([*names[uid], clean(pod)], 1)
    yield from (likely, high, tokens, pods)


def _workload(row: ScannedContainer) -> list[str]:
    """The values of the labels WORKLOAD."""
    return [clean(name) for name in (row.object.namespace, row.object.name, row.object.kind.lower())]


def registry(planned: Planned) -> CollectorRegistry:
    """A registry with nothing else in it."""
    collector_registry = CollectorRegistry()
    collector_registry.register(planned)
    return collector_registry


def to_file(path: Path, scan: Scan, seconds: float) -> None:
    """Writes the metrics of one scan at once (a rename: a collector never reads half of them); raises OSError."""
    planned = Planned()
    planned.scan, planned.seconds, planned.at, planned.worked = scan, seconds, time.time(), True
    write_to_textfile(str(path), registry(planned))


def _listening(host: str, port: int, numbers: CollectorRegistry) -> WSGIServer:
    """A server of /metrics; without a host on every interface, only with IPv4 if the machine has no IPv6."""
    for text in (host,) if host else ("::", "0.0.0.0"):  # noqa: S104 - the metrics are for whoever scrapes
        try:
            return start_http_server(port, text, numbers)[0]
        except OSError as error:
            if host or text != "::" or error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
                raise
    raise AssertionError("unreachable")


def _is_complete(scan: Scan, last: Scan | None) -> bool:
    """True if the scan finished and read every kind that the last complete scan could read.

    Kinds that podfit may never read do not count."""
    return not scan.cut_short and (last is None or scan.kinds_missed <= last.kinds_missed)


def serve(
    address: tuple[str, int],
    every: float,
    read: Callable[[], Scan],
    stop: Event,
    events: Mapping[str, int] | None = None,
) -> None:
    """Answers /metrics and scans every `every` seconds, until `stop` is set; raises OSError if the port is taken.

    `address`: host (empty: every interface) and port. `read`: scans once.
    `events`: counts of Events, which `read` changes."""
    planned = Planned()
    planned.events = events or {}
    server = _listening(*address, registry(planned))
    try:
        while not stop.is_set():
            start = time.monotonic()
            try:
                scan = read()
                planned.worked = _is_complete(scan, planned.scan)
                if planned.worked:
                    planned.scan, planned.seconds, planned.at = scan, time.monotonic() - start, time.time()
                for message in scan.errors:
                    edge.tell(f"error: {message}")
            except Exception as error:  # the cluster is away, or we are at fault: the last good numbers stay
                planned.worked = False
                edge.tell(f"error: the scan failed: {error}")
            seconds_left = every - (time.monotonic() - start)
            stop.wait(max(1.0, seconds_left))  # a pause, also if a scan takes longer than `every`
    finally:
        server.shutdown()
        server.server_close()
