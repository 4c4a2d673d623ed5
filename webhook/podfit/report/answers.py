"""How many containers have an answer about GPU memory, why the others have none, and releases newer than the facts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from podfit.evaluation.denial import many
from podfit.kube.workload.kserve_runtime import RUNTIMES
from podfit.report.checked import Checked
from podfit.rules.engine import Engine
from podfit.vllm import gpu
from podfit.vllm.gpu.candidates import PLANNED_MAKERS
from podfit.vllm.release import newer_than_read

UNCERTAIN = "uncertain arguments or sizes"
NODES_HINT = "without a named GPU: add `nodes:` to podfit.yaml (docs/nodes.md)"


def unanswered(engines: Iterable[Engine]) -> Counter[str]:
    """Why containers have no answer → how many of them."""
    return Counter(reason for engine in engines if (reason := reason_unanswered(engine)) is not None)


def reason_unanswered(engine: Engine) -> str | None:
    """The reason why nothing is known of the container's GPU memory, in a few words. None if the plan knows whether it
    fits, or knows it for each GPU that the container may get."""
    if engine.plan.verdict != "unsure" or (engine.gpus is not None and not engine.gpus.is_unsure):
        return None
    if engine.on_processors:
        return "CPU"
    if engine.command.other:
        return "another server"
    if engine.workload.kind in RUNTIMES:
        return "runtime template"
    if engine.command.entry == "worker":
        return "Ray worker" if engine.leader is None else reason_unanswered(engine.leader) or UNCERTAIN
    maker = gpu.maker.of_resources(engine.requested[0] if engine.requested else None, engine.container.resources)
    if maker is not None and maker not in PLANNED_MAKERS:
        return "TPU" if maker == "google" else "another accelerator"
    if engine.model is None:
        return "unknown model" if engine.args.model else "no model named"
    if engine.gpus is not None and _layout_unknown(engine):
        return "KV cache layout unknown"
    return UNCERTAIN


def _layout_unknown(engine: Engine) -> bool:
    largest = engine.gpus.largest if engine.gpus is not None else None
    ledger = engine.gpus.engine.plan_on(largest).ledger if engine.gpus is not None and largest is not None else None
    return ledger is not None and ledger.layout is None


def newer_releases(checked: Checked) -> list[str]:
    """A sentence for each vLLM release that is newer than podfit's facts."""
    newer = dict.fromkeys(newer_than_read(container.result.engine.release) for container in checked.containers)
    return [text for text in newer if text is not None]


def line(engines: Iterable[Engine]) -> str:
    """One line for people on the containers with and without an answer, and on those whose GPU is unknown; empty if
    each has an answer for a known GPU."""
    items = list(engines)
    reasons = unanswered(items)
    open_gpu = sum(
        engine.gpu is None
        and engine.facts.fleet is None  # `nodes:` is there, and does not name the GPU
        and engine.gpus is not None
        and not engine.gpus.is_unsure
        for engine in items
    )
    if not reasons and not open_gpu:
        return ""
    parts = [f"GPU memory: known for {len(items) - reasons.total()} of {many(len(items), 'container')}"]
    if reasons:
        parts.append(f"unknown for {', '.join(f'{number} ({reason})' for reason, number in reasons.most_common())}")
    if open_gpu:
        parts.append(f"{open_gpu} {NODES_HINT}")
    return "; ".join(parts)
