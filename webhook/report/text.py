"""Text for people: the refusal, the warnings, and what `podfit check` prints."""

from __future__ import annotations

import re
import textwrap

from webhook.engine import Engine
from webhook.lint import Judged, Report, Result

PLANES = {
    "gpu": "GPU memory",
    "host": "host memory",
    "config": "configuration",
    "network": "network",
    "storage": "storage",
    "cluster": "cluster",
}
WIDTH = 100
WARNING_LENGTH = 256
"""The API server cuts warnings here when a request's warnings are longer than 4,096 runes together
(k8s.io/apiserver pkg/endpoints/filters/warning.go)."""

_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
_THREATS = {
    "start": "vLLM would not start",
    "uptime": "vLLM would not stay up",
    "practice": "the policy does not allow this",
}


def clean(text: str) -> str:
    """Without control characters: a manifest's words must not reach a terminal as escape sequences."""
    return _CONTROL.sub(" ", text)


def one_line(text: str) -> str:
    """Clean and without line breaks."""
    return re.sub(r"\s+", " ", clean(text.replace("\n", " "))).strip()


def subject(report: Report) -> str:
    """ "Deployment prod/llama-70b"."""
    metadata = report.metadata
    name = metadata.get("name") or metadata.get("generateName") or "(no name)"
    namespace = metadata.get("namespace")
    return f"{report.object.get('kind') or 'object'} {f'{namespace}/' if namespace else ''}{name}"


def headline(report: Report) -> str:
    """The refusal's first line, which stands alone in Events and GitOps tools."""
    denied = [(result, judged) for result in report.results for judged in result.findings if judged.mode == "deny"]
    threat = next(threat for threat in _THREATS if any(judged.threatens == threat for _, judged in denied))
    names = list(dict.fromkeys(result.engine.container.name for result, _ in denied))
    count = f"{len(denied)} problem{'s' if len(denied) > 1 else ''}"
    containers = f"container{'s' if len(names) > 1 else ''} " + ", ".join(f'"{name}"' for name in names)
    return one_line(f"{_THREATS[threat]}: {count} in {containers} of {subject(report)}")


def refusal(report: Report) -> str:
    """The whole message of a denial: what `kubectl apply` shows after `denied the request:`.

    The first line stands alone; the last one stays on screen after kubectl's dump of a patch.
    """
    denied = [judged for judged in report.findings if judged.mode == "deny"]
    blocks = [headline(report), *(block(judged) for judged in denied)]
    rules = list(dict.fromkeys(judged.rule for judged in denied))
    return "\n\n".join(blocks) + "\n\nmore: " + " · ".join(f"podfit explain {rule}" for rule in rules)


def block(judged: Judged, mark: str = "") -> str:
    """One finding: rule, field, plane; the arithmetic; what would fit."""
    head = f"{mark}{judged.rule}  {clean(str(judged.finding.path))}"
    plane = f"[{PLANES[judged.plane]}]"
    lines = [f"{head:<{WIDTH - len(plane) - 2}}  {plane}"]
    for text in (judged.finding.message, *judged.finding.details):
        lines += _wrap(clean(text), "  ")
    lines += _suggestions(judged)
    return "\n".join(lines)


def _suggestions(judged: Judged) -> list[str]:
    """The changes, each enough by itself; "fits" is said only where the planner computed it."""
    suggestions = [clean(text) for text in judged.finding.suggestions]
    if not suggestions:
        return []
    fits = judged.finding.computed
    if len(suggestions) == 1:
        return _wrap(f"{'this fits' if fits else 'change'}: {suggestions[0]}", "  ", "    ")
    first = f"  any one of these{' fits' if fits else ''}:  "
    out = []
    for index, text in enumerate(suggestions):
        end = " ·" if index < len(suggestions) - 1 else ""
        out += _wrap(text + end, first if index == 0 else " " * len(first), " " * len(first))
    return out


def _wrap(text: str, first: str, rest: str | None = None) -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=rest if rest is not None else first,
        break_long_words=False,
        break_on_hyphens=False,
    )


def warnings(report: Report) -> list[str]:
    """One line a finding that warns, the most certain first, each within the API server's limit."""
    order = {"certain": 0, "likely": 1, "possible": 2}
    warned = sorted(
        (judged for judged in report.findings if judged.mode == "warn"),
        key=lambda judged: order[judged.finding.certainty],
    )
    lines = [f"podfit {judged.rule}: {judged.finding.message} ({judged.finding.path})" for judged in warned]
    lines += [
        f"podfit: {error.rule} could not be checked ({error.error.partition(':')[0]}); allowed"
        for error in report.errors
    ]
    return [_cut(one_line(line)) for line in lines]


def _cut(line: str) -> str:
    return line if len(line) <= WARNING_LENGTH else line[: WARNING_LENGTH - 1] + "…"


def summary(engine: Engine) -> str:
    """One line about a container: model, GPU, release, verdict."""
    model = engine.model.value.id if engine.model else (engine.args.model or "no model named")
    count = engine.requested[1] if engine.requested and engine.requested[1] else None
    gpu = engine.gpu.value.name if engine.gpu else "GPU unknown"
    release = f"vLLM {engine.release}" if engine.release else "vLLM release unknown"
    many = f"{count} × " if count and engine.gpu else ""
    return one_line(f"{model} on {many}{gpu}, {release}: {engine.plan.verdict} ({engine.plan.why})")


def check(file: str, report: Report) -> str:
    """What `podfit check` prints for one object with vLLM in it."""
    return "\n".join(_result(file, report, result) for result in report.results)


def _result(file: str, report: Report, result: Result) -> str:
    container = result.engine.container
    head = f'{file}: {subject(report)}, container "{container.name}"'
    state = "DENIED" if result.denied else "allowed"
    lines = [f"{clean(head)}: {state}", *_wrap(summary(result.engine), "  ")]
    for mode in ("deny", "warn"):
        lines += ["", *(_shown(judged, mode) for judged in result.findings if judged.mode == mode)]
    return "\n".join(line for index, line in enumerate(lines) if line or lines[index - 1]).rstrip() + "\n"


def _shown(judged: Judged, mode: str) -> str:
    text = block(judged, f"{mode}  ")
    if judged.why_softened and judged.why_softened.startswith("rests on"):
        text += "\n" + "\n".join(_wrap(f"not denied: {clean(judged.why_softened)}", "  "))
    return text
