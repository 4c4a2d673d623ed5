"""The metrics for Prometheus: one registry per server, no label whose values a user can invent."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import lru_cache, partial
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from podfit.base import data
from podfit.evaluation.review import Decision, Webhook
from podfit.kube.workload.table import WORKLOAD_KINDS
from podfit.server.accesslog import AccessLog
from podfit.server.lines import Lines
from podfit.server.live import Live
from podfit.server.readiness import Readiness

if TYPE_CHECKING:
    from podfit.cluster import Status

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 25.0)
"""Seconds: those of apiserver_admission_webhook_admission_duration_seconds (0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 25;
k8s.io/apiserver v0.37 pkg/admission/metrics), and some between: the two can be laid side by side."""

MAX_SERIES = 1024
"""Series of one metric that are found without a search; a metric has fewer."""

MAX_NAMESPACES = 200
"""Namespaces that get a label value of their own; all others are "other"."""

LABELLED_KINDS = frozenset(kind for _, kind in WORKLOAD_KINDS)
"""Kinds that get a label value of their own; all others are "other"."""


class _Computed(Collector):
    """Metrics that are computed at each scrape."""

    def __init__(self, compute: Callable[[], Iterable[Metric]]) -> None:
        self._compute = compute

    def collect(self) -> Iterable[Metric]:
        """Called at a scrape."""
        return self._compute()


def _of_cluster(statuses: Iterable[Status]) -> Iterator[Metric]:
    """The metrics of the cluster snapshot, each with one row per watched kind. A kind that the API server does not
    have, or that was never seen, lacks the rows that would say nothing."""
    objects = GaugeMetricFamily("podfit_cluster_objects", "Objects of the cluster that are known", labels=["kind"])
    age = GaugeMetricFamily(
        "podfit_cluster_silence_seconds",
        "Since the API server last said something of the kind; absent: never",
        labels=["kind"],
    )
    fresh = GaugeMetricFamily(
        "podfit_cluster_fresh",
        "1: current; 0: stale, forbidden or not seen yet; absent: the API server does not have the kind",
        labels=["kind"],
    )
    unknown = GaugeMetricFamily(
        "podfit_cluster_unknown_objects",
        "Objects of the cluster that are too large or too many to be known; the log names them",
        labels=["kind"],
    )
    for status in statuses:
        if status.served:
            fresh.add_metric([status.kind], status.fresh)
            unknown.add_metric([status.kind], status.unknown)
        if status.objects is not None:
            objects.add_metric([status.kind], status.objects)
            age.add_metric([status.kind], status.silence)
    yield from (objects, age, fresh, unknown)


def _of_switch(is_off: bool | None) -> Iterator[Metric]:
    """The metric on whether `podfit off` is in force; without a value if that is not known (None)."""
    off = GaugeMetricFamily("podfit_off", "1: `podfit off` has paused a webhook; absent: not known")
    if is_off is not None:
        off.add_metric([], is_off)
    yield off


def _of_lost_lines(name: str, what: str, lines: AccessLog | Lines) -> Iterator[Metric]:
    """The counter `name` of the lines that were not written. `what`: the lines, for people ("on standard error")."""
    help_ = f"Lines {what} that were not written: the reader was too slow, or the write failed"
    yield CounterMetricFamily(name, help_, value=lines.dropped)


class _PolicyGauge(NamedTuple):
    """A gauge about the policies in force."""

    name: str
    help: str
    value: Callable[[], float]
    """Called at each scrape."""


class _Namespaces:
    """Label values for namespaces, which tenants can invent: the first ones, and "other". Safe for threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: set[str] = set()

    def label(self, namespace: str) -> str:
        """The namespace, or "other" if there are too many."""
        with self._lock:
            if len(self._known) < MAX_NAMESPACES:
                self._known.add(namespace)
            return namespace if namespace in self._known else "other"


class Metrics:
    """The server's metrics."""

    def __init__(self, version: str, policy: str, facts: str) -> None:
        self._registry = CollectorRegistry()
        self._reviews = Counter(
            "podfit_reviews",
            "Answered AdmissionReviews; failed: an error in podfit, allowed; late: no time for a judgement, allowed",
            ("webhook", "operation", "kind", "decision", "dry_run"),
            registry=self._registry,
        )
        self._bad_requests = Counter(
            "podfit_bad_requests", "Requests rejected with an HTTP error", ("code",), registry=self._registry
        )
        self._findings = Counter(
            "podfit_findings",
            "Findings of the validating webhook; would: the mode without the limit of enforce.mode",
            ("rule", "mode", "would", "dry_run"),
            registry=self._registry,
        )
        self._would_deny = Counter(
            "podfit_would_deny",
            "Reviews that only the limit of enforce.mode kept from being denied",
            ("namespace", "dry_run"),
            registry=self._registry,
        )
        self._namespaces = _Namespaces()
        self._errors = Counter(
            "podfit_rule_errors", "Errors in podfit itself, by the rule that raised", ("rule",), registry=self._registry
        )
        self._patches = Counter("podfit_patches", "Answers that carried a patch", ("dry_run",), registry=self._registry)
        self._remembered = Counter(
            "podfit_remembered_reviews",
            "Reviews answered from memory: an object without a relevant difference had been checked before",
            registry=self._registry,
        )
        self._exempted = Counter(
            "podfit_exempted_findings",
            "Findings that are only audited because of an exception in a policy, or their author's annotation",
            ("rule", "by", "dry_run"),
            registry=self._registry,
        )
        self._shadow_reviews = Counter(
            "podfit_shadow_reviews",
            "What a shadow policy would have decided about a checked object; would_deny: without enforce.mode",
            ("policy", "decision", "dry_run"),
            registry=self._registry,
        )
        self._shadow_findings = Counter(
            "podfit_shadow_findings",
            "Findings as a shadow policy would have had them",
            ("policy", "rule", "mode", "would", "dry_run"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "podfit_review_duration_seconds",
            "Time to answer a review, without HTTP and TLS",
            ("webhook",),
            buckets=BUCKETS,
            registry=self._registry,
        )
        # The row of some labels' values: looking for it takes prometheus_client longer than counting.
        self._review_row = lru_cache(MAX_SERIES)(self._reviews.labels)
        self._finding_row = lru_cache(MAX_SERIES)(self._findings.labels)
        self._seconds_row = lru_cache(MAX_SERIES)(self._seconds.labels)
        self._waited = Histogram(
            "podfit_review_wait_seconds",
            "Time that a review has waited for a thread: grows when there is more to do than can be done",
            buckets=BUCKETS,
            registry=self._registry,
        )
        self._info = Gauge(
            "podfit_build_info", "Always 1", ("version", "policy_version", "facts_version"), registry=self._registry
        )
        self._versions = (version, policy, facts)
        """The labels of the row of podfit_build_info."""
        self._info.labels(*self._versions).set(1)
        self._live: Live | None = None
        """The policies in force, if they can change."""

    def watch_certificate(self, not_after: Callable[[], float]) -> None:
        """Exports the end of the serving certificate (seconds since the epoch), read again at each scrape."""
        gauge = Gauge(
            "podfit_certificate_expiry_timestamp_seconds",
            "When the serving certificate ends; 0: it can't be read",
            registry=self._registry,
        )
        gauge.set_function(not_after)

    def watch_switch(self, is_off: Callable[[], bool | None]) -> None:
        """Exports whether `podfit off` is in force, read again at each scrape; nothing if that is not known."""
        self._registry.register(_Computed(lambda: _of_switch(is_off())))

    def watch_cluster(self, status: Callable[[], Iterable[Status]]) -> None:
        """Exports the state of the cluster snapshot, read again at each scrape."""
        self._registry.register(_Computed(lambda: _of_cluster(status())))

    def watch_facts(self) -> None:
        """Exports when the packaged tables were collected, as the first day of that month (UTC)."""
        first_day = datetime.fromisoformat(f"{data.month()}-01").replace(tzinfo=UTC)
        Gauge(
            "podfit_facts_collected_timestamp_seconds",
            "When the facts on models, accelerators and vLLM's releases were collected, to the month",
            registry=self._registry,
        ).set(first_day.timestamp())

    def watch_readiness(self, ready: Readiness) -> None:
        """Exports how many requirements of a ready server are not met, computed at each scrape."""
        gauge = Gauge(
            "podfit_missing_requirements",
            "Of what must be in place before the first review, how much is not: a ready server goes on without it",
            registry=self._registry,
        )
        gauge.set_function(lambda: len(ready.problems()))

    def watch_access_log(self, access: AccessLog) -> None:
        """Exports how many lines were lost, read again at each scrape."""
        compute = partial(_of_lost_lines, "podfit_access_log_dropped_lines", "of the access log", access)
        self._registry.register(_Computed(compute))

    def watch_log(self, lines: Lines) -> None:
        """Exports how many lines on standard error were lost, read again at each scrape."""
        compute = partial(_of_lost_lines, "podfit_log_dropped_lines", "on standard error", lines)
        self._registry.register(_Computed(compute))

    def rule_error(self, rule: str) -> None:
        """Counts an error in podfit itself."""
        self._errors.labels(rule).inc()

    def observe(self, webhook: Webhook, decision: Decision, seconds: float, waited: float = 0.0) -> None:
        """Counts one answered review, which took `seconds` after it had waited `waited` seconds for a thread. A probe
        of `podfit doctor` is not counted: alerts and a rollout's numbers are about what users apply.

        Findings, exceptions and shadow policies count only once per object, so those of the mutating webhook, which
        gets the same objects, are left out."""
        request = decision.request
        if request.is_probe:
            return
        kind = request.kind if request.kind in LABELLED_KINDS else "other"
        dry_run = "true" if request.dry_run else "false"
        self._review_row(webhook, request.operation, kind, decision.outcome, dry_run).inc()
        self._seconds_row(webhook).observe(seconds)
        self._waited.observe(waited)
        if decision.remembered:
            self._remembered.inc()
        if decision.patch:
            self._patches.labels(dry_run).inc()
        if decision.error is not None:
            self._errors.labels("review").inc()
        for error in decision.errors:
            self._errors.labels(error.rule).inc()
        if webhook == "validate":
            self._count_findings(decision, dry_run)

    def _count_findings(self, decision: Decision, dry_run: str) -> None:
        """Counts the findings of a review, those that were exempted, and those of shadow policies. `dry_run`: the
        label's value, "true" or "false"."""
        for finding in decision.rules:
            self._finding_row(finding.rule, finding.mode, finding.would, dry_run).inc()
        if decision.would_deny:
            self._would_deny.labels(self._namespaces.label(decision.request.namespace or ""), dry_run).inc()
        for rule, by in decision.exempted:
            self._exempted.labels(rule, by, dry_run).inc()
        for shadow in decision.shadowed:
            self._shadow_reviews.labels(shadow.policy, shadow.outcome, dry_run).inc()
            for finding in shadow.rules:
                labels = (shadow.policy, finding.rule, finding.mode, finding.would, dry_run)
                self._shadow_findings.labels(*labels).inc()

    def bad_request(self, code: int) -> None:
        """Counts a request that was answered with an HTTP error."""
        self._bad_requests.labels(str(code)).inc()

    def watch_policy(self, live: Live) -> None:
        """Exports the state of the policies in force, read again at each scrape."""
        gauges = (
            _PolicyGauge(
                "podfit_policy_up_to_date",
                "1: the newest state of every policy is in force; 0: one is invalid, or Policy objects are not known",
                lambda: not (live.problems or live.unknown),
            ),
            _PolicyGauge(
                "podfit_policy_objects_unknown",
                "1: nothing is enforced, since the Policy objects can't be known (no CRD, or no right to read them)",
                lambda: bool(live.unknown),
            ),
            _PolicyGauge(
                "podfit_policy_changed_timestamp_seconds",
                "When the policies in force last changed",
                lambda: live.changed.timestamp(),
            ),
            _PolicyGauge("podfit_policies", "Policies in force", lambda: len(live.policy.everything)),
            _PolicyGauge(
                "podfit_policy_exception_end_timestamp_seconds",
                "When the next exception ends; +Inf: none does",
                lambda: min((exception.expires.timestamp() for exception in live.policy.holding), default=math.inf),
            ),
            _PolicyGauge(
                "podfit_policy_exceptions_expired",
                "Exceptions that no longer hold: to be renewed or removed",
                lambda: len(live.policy.expired),
            ),
        )
        for gauge in gauges:
            Gauge(gauge.name, gauge.help, registry=self._registry).set_function(gauge.value)
        self._live = live

    def text(self) -> bytes:
        """All metrics in Prometheus' exposition format. After a change of the policy, podfit_build_info has a row with
        its new version instead of the old one."""
        version, policy, facts = self._versions
        policy_now = policy if self._live is None else self._live.policy.version
        if policy_now != policy:
            self._info.remove(*self._versions)
            self._versions = (version, policy_now, facts)
            self._info.labels(*self._versions).set(1)
        return generate_latest(self._registry)
