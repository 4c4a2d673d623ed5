"""One engine explained: both ledgers as waterfalls, where each number came from, what limits it, what would change it.

What is shown, as data; `text`, `html` and `svg` draw it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from podfit.base import duration
from podfit.base.secret import Secrets
from podfit.evaluation import subject
from podfit.evaluation.compare import settings_of
from podfit.evaluation.denial import importance
from podfit.evaluation.lint import GradedFinding, Report, Result
from podfit.kube.quantity import human
from podfit.report.comparison import LINE_NAMES, SETTINGS
from podfit.report.plan import source_for, why_more_fit
from podfit.report.text import reason, standing, summary, verdict
from podfit.rules import gpu_set
from podfit.rules.engine import Engine
from podfit.rules.storage import compile_cache
from podfit.vllm.memory import leaning
from podfit.vllm.memory.estimate import Estimate
from podfit.vllm.memory.ledger import GpuLedger, HostLedger
from podfit.vllm.memory.line import Charge
from podfit.vllm.model import recipes

Kind = Literal["whole", "spared", "used", "left", "missing", "sum", "limit"]
"""The kind of a bar: all memory; memory that vLLM does not use; used; left; requested but missing; the sum; the
limit."""


class Bar(NamedTuple):
    """One line of a waterfall, in bytes."""

    name: str
    kind: Kind
    start: int
    """Where it begins: what the lines before it take."""
    size: int
    line: Estimate | None
    """Its interval and its source; None for what only compares (a limit)."""
    note: str = ""

    @property
    def interval(self) -> str:
        """The 95 % interval, for people."""
        if self.line is None:
            return ""
        low, high = self.line.low, self.line.high
        return "exact" if low == high else f"{human(low)} … {human(high)}"


class Chart(NamedTuple):
    """One memory plane."""

    title: str
    bars: tuple[Bar, ...]

    @property
    def scale(self) -> int:
        """Bytes from the left edge to the right one."""
        return max((bar.start + bar.size for bar in self.bars), default=0) or 1


class Origin(NamedTuple):
    """A number or a name, and where it came from."""

    what: str
    value: str
    source: str


class Explained(NamedTuple):
    """One container, explained."""

    title: str
    summary: str
    state: Literal["denied", "warned", "clean"]
    """The state by all findings."""
    standing: str
    """The state in words, with the rules."""
    verdict: str
    """The result of the GPU's arithmetic alone."""
    why: str
    charts: tuple[Chart, ...]
    results: tuple[tuple[str, str], ...]
    """(title, value) of results of the plan: tokens, requests, seconds."""
    origins: tuple[Origin, ...]
    changes: tuple[str, ...]
    """The changes that would fit, each by itself, best first."""
    findings: tuple[GradedFinding, ...]
    report: Report
    """The report that it explains."""


def explain(report: Report, result: Result) -> Explained:
    """The explanation of one container; secrets are stars."""
    engine = result.engine
    plan = engine.plan
    findings = tuple(sorted((finding for finding in result.findings if finding.is_reported), key=importance))
    warned_or_clean: Literal["warned", "clean"] = (
        "warned" if any(finding.mode == "warn" for finding in findings) else "clean"
    )
    charts = []
    if plan.gpu is not None:
        charts.append(Chart(f"GPU memory of one GPU: {gpu_set.planned_name(engine)}", tuple(_gpu(plan.gpu))))
    if plan.host is not None:
        charts.append(Chart("host memory of the container", tuple(_host(plan.host, engine.memory_limit))))
    return Explained(
        title=f'{subject.describe_object(report.object)}, container "{subject.printable_name(engine.container.name)}"',
        summary=summary(engine, report.secrets).partition(": GPU memory ")[0],
        state="denied" if result.denied else warned_or_clean,
        standing=standing(findings),
        verdict=plan.verdict if engine.on_processors else f"GPU memory {verdict(engine)}",
        why=report.secrets.line(reason(engine)),
        charts=tuple(charts),
        results=tuple(_results(engine)),
        origins=tuple(
            Origin(origin.what, report.secrets.line(origin.value), report.secrets.line(origin.source))
            for origin in _origins(engine, report.secrets)
        ),
        changes=tuple(report.secrets.line(str(change)) for change in engine.alternatives)
        if plan.verdict != "fits"
        else (),
        findings=findings,
        report=report,
    )


def _gpu(ledger: GpuLedger) -> Iterator[Bar]:
    """Bars in bytes, from the left. They are the lines in the budget, the KV cache or what is missing for it, one
    request, the lines outside of the budget, and the rest of the GPU."""
    total, budget = ledger.total.likely, ledger.budget.likely
    yield Bar("total", "whole", 0, total, ledger.total, ledger.total.note)
    at = 0
    for charge in ledger.charged:
        yield _used(charge, at)
        at += charge.amount.likely
    left = ledger.kv_cache.likely
    if left >= 0:
        yield Bar("KV cache", "left", max(0, budget - left), left, ledger.kv_cache, ledger.left)
    else:
        yield Bar("short by", "missing", budget, -left, None, "nothing is left for the KV cache")
    needed = ledger.request_bytes
    if needed and ledger.max_model_len:
        note = f"one request of {ledger.max_model_len:,} tokens"
        yield Bar(
            "one request", "limit" if needed <= left else "missing", max(0, budget - max(left, 0)), needed, None, note
        )
    at, note = budget, f"{human(total)} − {human(budget)} budget"
    for charge in ledger.outside:
        yield _used(charge, at)
        at += charge.amount.likely
        note += f" − {human(charge.amount.likely)} {charge.line.title}" if charge.amount.likely else ""
    if total > at:
        yield Bar("left to others", "spared", at, total - at, None, note)


def _used(charge: Charge, at: int) -> Bar:
    """The bar of a line that begins at `at` bytes."""
    return Bar(charge.line.title, "used", at, charge.amount.likely, charge.amount, charge.amount.note)


def _host(ledger: HostLedger, limit: int | None) -> Iterator[Bar]:
    """Bars of the host memory ledger, then the peak and the container's limit."""
    at = 0
    for name, line in ledger.lines:
        if line.likely:
            yield Bar(name, "used", at, line.likely, line, line.note)
            at += line.likely
    yield Bar("peak", "sum", 0, ledger.peak.likely, ledger.peak, ledger.peak.note)
    if limit is not None:
        enough = limit >= ledger.peak.likely
        note = "of the container" if enough else "of the container: below the likely peak"
        yield Bar("memory limit", "limit" if enough else "missing", 0, limit, None, note)


def _results(engine: Engine) -> Iterator[tuple[str, str]]:
    """(name, value) of each result below the charts, for people. A result that is unknown is left out."""
    ledger, startup, host = engine.plan.gpu, engine.plan.startup, engine.plan.host
    if ledger is not None:
        if ledger.kv_cache_tokens:
            low, likely, high = ledger.kv_cache_tokens
            yield "GPU KV cache size", f"{likely:,} tokens ({low:,} … {high:,})"
        if ledger.max_concurrency is not None and ledger.max_model_len:
            fits = f"{ledger.max_concurrency:.2f}x for {ledger.max_model_len:,} tokens per request"
            yield "Maximum concurrency", f"{fits} {why_more_fit(ledger)}".rstrip()
        if ledger.longest_request:
            yield "longest request", f"{ledger.longest_request:,} tokens fit"
        least = ledger.least_kv_cache_bytes
        is_of_kv_cache = engine.plan.cause in ("request", "blocks")  # the causes that compare the KV cache with `least`
        if engine.plan.verdict == "unsure" and is_of_kv_cache and least:
            yield "start-ups like it", leaning.sentence(ledger.kv_cache, least)
    if host is not None:
        yield "/dev/shm", f"{human(host.shm.likely)} needed"
    if startup is not None:
        parts = ", ".join(f"{name} {duration.human(seconds)}" for name, seconds in startup.parts)
        saved = compile_cache.compilation_saved(engine)
        compiling = f", of which a volume at VLLM_CACHE_ROOT saves {duration.human(saved)}" if saved else ""
        yield "start-up", f"{duration.estimate(startup.likely, startup.low, startup.high)}{compiling}: {parts}"


def _origins(engine: Engine, secrets: Secrets) -> Iterator[Origin]:
    """Model, accelerator, release, each argument and the defaults that count, and each ledger line's formula."""
    if engine.model is not None:
        informs = "" if engine.model.may_deny else " (nothing is denied for it: it may be wrong)"
        yield Origin("model", engine.model.value.id, f"{engine.model.source}{informs}")
    else:
        name = secrets.masked(engine.args.model or "none named", is_value=True)
        yield Origin("model", name, "not known here: `podfit models add` teaches it")
    if recipe := recipes.of(engine.args.model or ""):
        yield Origin("recipe", recipe.suggestion, recipe.source)
    if engine.gpu is not None:
        informs = "" if engine.gpu.may_deny else " (nothing is denied for it: it may be wrong)"
        yield Origin("accelerator", engine.gpu.value.name, f"{engine.gpu.source}{informs}")
    else:
        yield Origin("accelerator", "unknown", "no label or resource names it: --gpu NAME does")
    image = str(engine.field("image") or "none")
    known = "a policy says which release the image holds" if engine.vouched else f"image {image}"
    yield Origin("vLLM", str(engine.release or "unknown"), known if engine.release else f"{image} names no release")
    for dest, value in engine.args.given.items():
        if dest != "model":
            text = str(secrets.masked_value(value, dest))
            yield Origin(f"--{dest.replace('_', '-')}", text, str(engine.argument(dest)))
    for name, value in settings_of(engine).items():
        if name not in engine.args.given and value is not None:
            spelt = SETTINGS.get(name) or f"--{name.replace('_', '-')}"
            yield Origin(spelt, str(value), f"not given: what vLLM {engine.release or 'of any release'} makes of it")
    if engine.memory_limit is not None:
        yield Origin("memory limit", human(engine.memory_limit), str(engine.memory_at))
    ledger, host = engine.plan.gpu, engine.plan.host
    lines: list[tuple[str, Estimate]] = []
    if ledger is not None:
        lines += [(LINE_NAMES.get(name, name), amount) for name, amount in ledger.amounts.items()]
    if host is not None:
        lines += [*host.lines, ("/dev/shm", host.shm)]
    for name, line in lines:
        if line.source and (line.likely or line.high):
            yield Origin(name, human(line.likely), source_for(line.source, engine.release))
