"""The planner's answer: as JSON for machines, and as a table that a person can follow line by line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from podfit.base import duration
from podfit.base.lazy import regex
from podfit.base.printable import clean, shortened
from podfit.base.secret import Secrets
from podfit.kube.quantity import human, left
from podfit.report.text import reason, verdict
from podfit.rules import gpu_set
from podfit.rules.engine import Engine
from podfit.vllm.memory import plan, resolved
from podfit.vllm.memory.estimate import NOTHING, Estimate
from podfit.vllm.memory.ledger import GpuLedger, HostLedger, Verdict
from podfit.vllm.memory.lines import KV_CACHE_TITLE
from podfit.vllm.memory.solve import Alternative
from podfit.vllm.model import recipes
from podfit.vllm.release import Release


def tree(engine: Engine, secrets: Secrets) -> dict[str, Any]:
    """The plan of one container as plain JSON values. `engine.masked` names the arguments in which stars stand for
    secrets."""
    planned, args = engine.plan, engine.args
    written = {**args.given, **args.written}
    arguments = secrets.masked_value(written)
    gpu = engine.gpu.value if engine.gpu else None
    return {
        "verdict": planned.verdict,
        "why": secrets.line(reason(engine)),
        "cause": planned.cause,
        "model": _model(engine, secrets),
        "engine": {
            "version": str(engine.release) if engine.release else None,
            "arguments": arguments,
            "masked": [name for name, value in arguments.items() if value != written.get(name)],
            "unresolved": {name: secrets.line(why) for name, why in args.unresolved.items()},
            "unknown": [secrets.line(flag.flag) for flag in args.unknown],
            "errors": [secrets.line(error.message) for error in args.errors],
            "resolved": _resolved(engine),
        },
        "accelerator": None
        if gpu is None
        else {
            "name": gpu.name,
            "count": gpu.count,
            "memory_bytes": engine.facts.gpu_memory or min(product.memory for product in gpu.gpus),
        },
        "gpus": partition(engine),
        "gpu": _gpu(planned.gpu) if planned.gpu else None,
        "host": _host(planned.host) if planned.host else None,
        "startup": None
        if planned.startup is None
        else {
            "seconds": {"low": planned.startup.low, "likely": planned.startup.likely, "high": planned.startup.high},
            "parts": dict(planned.startup.parts),
        },
    }


def _resolved(engine: Engine) -> dict[str, Any] | None:
    """The settings that this release derives from the arguments; None if release or model are unknown."""
    held = engine.plan.resolved
    if held is None or engine.model is None or engine.release is None:
        return None
    gpus = plan.gpus_of(engine.gpu.value if engine.gpu else None, engine.facts.gpu_memory)
    return resolved.values(held, engine.args, engine.model.value, gpus[0] if gpus else None, known=bool(gpus))


def _model(engine: Engine, secrets: Secrets) -> dict[str, Any] | None:
    """The model, its source, and whether it may deny."""
    fact = (engine.leader or engine).model
    if fact is None:
        return None
    return {
        "id": secrets.line(fact.value.id),
        "source": secrets.line(fact.source),
        "may_deny": fact.may_deny,
        "parameters": fact.value.parameters,
        "weights_bytes": fact.value.weights_bytes,
    }


def partition(engine: Engine, *, one_release: bool = True) -> dict[str, Any] | None:
    """The GPUs that the container may get: names by the result of their plans, the smallest that fits, and the needs
    of each GPU in bytes (null if unknown). None if no GPU is planned.

    `one_release`: if the release is unknown, plan the newest one instead of every possible one."""
    gpus = engine.gpus if one_release else engine.planned_gpus(one_release=False)
    if gpus is None:
        return None
    names = {
        verdict: [planned_gpu.gpu.name for planned_gpu in planned_gpus]
        for verdict, planned_gpus in gpus.by_verdict.items()
    }
    return {
        "fits": names["fits"],
        "unsure": names["unsure"],
        "does_not_fit": names["does-not-fit"],
        "smallest": engine.once(gpu_set.smallest),
        "needs_bytes": gpus.needs._asdict() if gpus.needs else None,
    }


def _gpu(ledger: GpuLedger) -> dict[str, Any]:
    """The GPU memory ledger."""
    tokens = ledger.kv_cache_tokens
    return {
        **{name: amount.json() for name, amount in ledger.amounts.items()},
        "loading": ledger.loading.json() if ledger.loading else None,
        "kv_cache_bytes_per_token": ledger.kv_cache_bytes_per_token,
        "request_bytes": ledger.request_bytes,
        "longest_request": ledger.longest_request,
        "kv_cache_bytes_per_request": ledger.kv_cache_bytes_per_request,
        "kv_cache_tokens": None if tokens is None else dict(zip(("low", "likely", "high"), tokens, strict=True)),
        "max_model_len": ledger.max_model_len,
        "estimated_max_model_len": ledger.estimated_max_model_len,
        "max_concurrency": ledger.max_concurrency,
    }


def _host(ledger: HostLedger) -> dict[str, Any]:
    """The host memory ledger."""
    return {
        "lines": {name: line.json() for name, line in ledger.lines},
        "steady": ledger.steady.json(),
        "peak": ledger.peak.json(),
        "shm": ledger.shm.json(),
    }


def table(engine: Engine, secrets: Secrets, refusal: str | None = None, *, assumed: bool = False) -> str:
    """The ledgers as text, line by line, with the arithmetic and where it comes from.

    `refusal`: why vLLM does not start whatever the memory; then nothing begins with FITS. `assumed`: the release is the
    newest one, since none is given.
    """
    planned = engine.plan
    text = verdict(engine)
    head, _, doubt = text.partition(": ")
    out = [f"{head.upper()}: {f'{doubt}; ' if doubt else ''}{reason(engine)}", ""]
    if refusal and planned.verdict != "does-not-fit":
        out = [f"WILL NOT START: {refusal}", f"memory alone: {text}: {reason(engine)}", ""]
    out += [f"  model        {_model_line(engine, secrets)}", f"  accelerator  {_accelerator_line(engine)}"]
    why = "  (assumed: the newest release that podfit knows; --vllm-version sets another)" if assumed else ""
    out += [f"  vLLM         {engine.release or 'release unknown'}{why}"]
    if recipe := recipes.of(engine.args.model or ""):
        out += [f"  recipe       {recipe.suggestion}  ({recipe.source})"]
    if planned.gpu:
        out += ["", *_gpu_table(planned.gpu, engine.release)]
    if planned.host:
        out += ["", *_host_table(planned.host, engine.release)]
    if planned.startup:
        seconds = planned.startup
        parts = ", ".join(f"{name} {duration.human(value)}" for name, value in seconds.parts)
        out += ["", f"start-up: {duration.estimate(seconds.likely, seconds.low, seconds.high)}: {parts}"]
    return "\n".join(shortened(clean(secrets.masked(line))).rstrip() for line in out) + "\n"


def _model_line(engine: Engine, secrets: Secrets) -> str:
    """The model's id, size and source for people; its name, without secrets, if it is unknown."""
    if engine.model is None:
        return f"{secrets.masked(engine.args.model or 'none named', is_value=True)}: not known here"
    fact = engine.model
    size = f", {fact.value.parameters / 1e9:.1f} B parameters" if fact.value.parameters else ""
    return f"{fact.value.id}{size}  ({fact.source})"


def _accelerator_line(engine: Engine) -> str:
    """Count, name and source of the GPUs for people."""
    if engine.gpu is None:
        return "not known here"
    gpu = engine.gpu.value
    return f"{f'{gpu.count} × ' if gpu.count else ''}{gpu.name}  ({engine.gpu.source})"


def alternatives(changes: Iterable[Alternative]) -> list[dict[str, Any]]:
    """Changes that would fit as plain JSON values, best first."""
    return [
        {
            "text": alternative.text,
            "changes": dict(alternative.changes),
            "edits": alternative.edits,
            "loss": round(alternative.loss, 3),
            "changes_output": alternative.changes_output,
        }
        for alternative in changes
    ]


def fit(verdict: Verdict, changes: Sequence[Alternative], *, unknown: Sequence[str] = ()) -> str:
    """A sentence with the changes that would fit. `unknown`: the missing inputs of that search, and how to set them."""
    if unknown:
        return f"what would fit: that can't be known here: {'; '.join(unknown)}\n"
    if not changes:
        none = "it fits as it is" if verdict == "fits" else "no simple change fits"
        return f"what would fit: {none}\n"
    head = "what would fit, each by itself, best first"
    if verdict == "fits":
        head = "it fits as it is; so would, each by itself"
    return (
        "\n".join([head, *(f"  {number:>2}. {alternative.text}" for number, alternative in enumerate(changes, 1))])
        + "\n"
    )


LEDGER_HEADING = f"{'':<22}{'likely':>11}  {'95 % interval':<23}  arithmetic"


def _row(name: str, line: Estimate, sign: str = " ") -> str:
    """A line of the ledger; a negative amount is a deficit."""
    if line.is_bound:
        interval = f"{'at most' if name == KV_CACHE_TITLE else 'at least'} {left(line.floor)}"
        return f"{sign} {name:<20}{'unknown':>11}  {interval:<23}  {line.note}"
    if line.likely < 0:
        name = f"{name} short by"
        interval = f"{human(-line.high)} … {human(-line.low)}" if line.high <= 0 else f"0 B … {human(-line.low)}"
        return f"{sign} {name:<20} {human(-line.likely):>10}  {interval:<23}  {line.note}"
    low = f"short by {human(-line.low)}" if line.low < 0 else human(line.low)
    interval = "exact" if line.low == line.high else f"{low} … {human(line.high)}"
    return f"{sign} {name:<20}{human(line.likely):>11}  {interval:<23}  {line.note}"


_READ_IN = regex(r"^vLLM (\d+\.\d+) (?=\S)")
"""The release of a source, before the file's name."""


def source_for(source: str, release: Release | None) -> str:
    """The source of a formula, for the evaluated release: the formula follows it, the file is named as in the release
    that was read."""
    cited = _READ_IN.match(source)
    if cited is None or release is None or str(release).startswith(f"{cited[1]}."):
        return source
    return f"formula of vLLM {release}; file as in {cited[1]}: {source[cited.end() :]}"


def _sources(lines: Iterable[tuple[str, Estimate]], release: Release | None) -> list[str]:
    """The source of each line's formula or measurement."""
    items = [(name, line.source) for name, line in lines if line.source]
    cited = next((of[1] for _, source in items if (of := _READ_IN.match(source))), None)
    other = cited and release is not None and not str(release).startswith(f"{cited}.")
    head = f"sources: formulas of vLLM {release}, files named as in {cited}" if other else "sources"
    return [head, *(f"  {name:<20} {_READ_IN.sub('', source) if other else source}" for name, source in items)]


def _gpu_table(ledger: GpuLedger, release: Release | None) -> list[str]:
    """The lines of the GPU memory table, then those of the KV cache, then the sources."""
    lines = [
        ("total", ledger.total, " "),
        *([("while loading", ledger.loading, " ")] if ledger.loading else []),
        ("budget", ledger.budget, " "),
        *((charge.line.title, charge.amount, "-") for charge in ledger.charges if charge.amount != NOTHING),
        (KV_CACHE_TITLE, ledger.kv_cache._replace(note=ledger.left), "="),
    ]
    out = ["GPU memory of one GPU", LEDGER_HEADING, *(_row(name, line, sign) for name, line, sign in lines)]
    rows: list[tuple[str, str]] = []
    if ledger.kv_cache_bytes_per_token:
        rows.append(("per token", f"{human(ledger.kv_cache_bytes_per_token)}{_bounded_layers(ledger)}"))
    if ledger.kv_cache_tokens:
        low, likely, high = ledger.kv_cache_tokens
        rows.append(("GPU KV cache size", f"{likely:,} tokens  ({low:,} … {high:,})"))
    if ledger.max_model_len and ledger.request_bytes:
        need = f"{human(ledger.request_bytes)}{ledger.checks_only}"
        rows.append(("one request", f"{ledger.max_model_len:,} tokens take {need}"))
    if ledger.max_concurrency is not None and ledger.max_model_len:
        rows.append(
            ("Maximum concurrency", f"{ledger.max_concurrency:.2f}x for {ledger.max_model_len:,} tokens per request")
        )
    if reason := why_more_fit(ledger):
        rows.append(("", reason))
    if ledger.estimated_max_model_len:
        rows.append(("longest request", _longest(ledger)))
    out += [f"  {name:<20}{value:>11}" if len(value) < 12 else f"  {name:<20} {value}" for name, value in rows]
    return [*out, *_sources([(name, line) for name, line, _ in lines], release)]


BOUNDED = "layers with a sliding window or a state"
"""Layers whose memory per request does not grow with its length."""


def why_more_fit(ledger: GpuLedger) -> str:
    """Why more requests fit than the tokens suggest, in podfit's lines as in vLLM's; "" if the two agree."""
    tokens, length, concurrency = ledger.kv_cache_tokens, ledger.max_model_len, ledger.max_concurrency
    if not tokens or not length or not concurrency or tokens[1] / length > 0.9 * concurrency:
        return ""
    return f"(more than the tokens allow: {BOUNDED} keep little of a request)"


def _bounded_layers(ledger: GpuLedger) -> str:
    """The part of a request's memory that its tokens do not explain."""
    layout, token, request = ledger.layout, ledger.kv_cache_bytes_per_token, ledger.request_bytes
    if not layout or not token or not request or not ledger.max_model_len:
        return ""
    rest = request - token * ledger.max_model_len
    is_bounded = any(group.spec.window or group.spec.is_state for group in layout.groups)
    return f"  and {human(rest)} per request in {BOUNDED}" if is_bounded and rest > 0 else ""


def _longest(ledger: GpuLedger) -> str:
    limit = f"  (the model's own limit is {ledger.model_length:,})" if ledger.model_length else ""
    return f"{ledger.longest_request or 0:,} tokens fit{limit}"


def _host_table(ledger: HostLedger, release: Release | None) -> list[str]:
    """The lines of the host memory table, then the sources."""
    rows = [_row(name, line) for name, line in ledger.lines]
    rows += [_row("steady", ledger.steady, "="), _row("peak", ledger.peak, "="), _row("/dev/shm", ledger.shm)]
    sources = _sources([*ledger.lines, ("/dev/shm", ledger.shm)], release)
    return ["host memory of the container", LEDGER_HEADING, *rows, *sources]
