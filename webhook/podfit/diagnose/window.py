"""A signal that ends a start, and the probes of the manifest → the probe whose window had passed."""

from __future__ import annotations

from dataclasses import replace

from podfit.base import duration
from podfit.diagnose import Diagnosis
from podfit.diagnose.sighting import signatures
from podfit.rules import probe_timing
from podfit.rules.engine import Engine

BEFORE_FIRST_LINE = 60
"""Seconds from the container's start to vLLM's first line: Python imports PyTorch, from a slow disk too."""


def probe_of_stop(diagnosis: Diagnosis, engine: Engine) -> str | None:
    """The name of the probe at the end of whose window SIGTERM arrived while vLLM started; None if at none's."""
    name = "startupProbe" if probe_timing.probe(engine, "startupProbe") else "livenessProbe"
    probe = probe_timing.probe(engine, name)
    if diagnosis.stop is None or not diagnosis.stop.seconds or probe is None:
        return None
    window, period = probe_timing.window(probe), probe_timing.setting(probe, "periodSeconds")
    late = probe_timing.setting(probe, "timeoutSeconds") + 2 * period
    return name if window - BEFORE_FIRST_LINE <= diagnosis.stop.seconds <= window + late else None


def with_probe(diagnosis: Diagnosis, engine: Engine) -> Diagnosis:
    """The diagnosis of a start that the kubelet ended: no cause is known, and the log ends with a probe's window."""
    if diagnosis.cause is not None or diagnosis.stop is None or probe_of_stop(diagnosis, engine) is None:
        return diagnosis
    (shutdown,) = signatures("shutdown")
    line = diagnosis.stop.line
    evidence = tuple(dict.fromkeys((line.raw.strip(), *diagnosis.evidence)))
    return replace(
        diagnosis, cause=shutdown.cause, signature=shutdown.signature, evidence=evidence, line=line.number, weak=True
    )


def remedy(diagnosis: Diagnosis, engine: Engine) -> str | None:
    """The window that had passed, in words; None if the signal is not a probe's."""
    name = probe_of_stop(diagnosis, engine)
    probe = probe_timing.probe(engine, name) if name else None
    if name is None or probe is None or diagnosis.stop is None:
        return None
    waits, came = duration.exact(probe_timing.window(probe)), duration.exact(round(diagnosis.stop.seconds))
    return f"SIGTERM came {came} after the first line, and the {name} waits {waits}: raise its failureThreshold."
