"""vLLM's statistics lines → an engine that has requests and computes nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from podfit.diagnose.line import LogLine
from podfit.diagnose.sighting import Sighting, signatures

STATISTICS = r"Avg prompt throughput: [\d.]+ tokens/s"
STALLED = re.compile(
    r"Avg prompt throughput: 0\.0 tokens/s, Avg generation throughput: 0\.0 tokens/s,.* Running: [1-9]\d* reqs"
)
"""vLLM v1/metrics/loggers.py, before 0.8 engine/metrics.py and engine/llm_engine.py."""
LEAST_SECONDS = 60
"""vLLM prints the line every 10 s (V0: 5 s); a long prefill of one request may leave out a few."""
_ENGINE = re.compile(r"Engine (\d+)")
TIME = re.compile(r"\b(\d\d-\d\d \d\d:\d\d:\d\d)\b")


def find(lines: Sequence[LogLine], statistics: Sequence[int]) -> Sighting | None:
    """The sighting of an engine whose last statistics lines, for `LEAST_SECONDS` at least, all show running requests
    and no token."""
    runs: dict[str, list[LogLine]] = {}
    for at in statistics:
        line = lines[at]
        engine = match[1] if (match := _ENGINE.search(line.text)) else ""
        runs.setdefault(engine, [])
        if STALLED.search(line.text):
            runs[engine].append(line)
        else:
            runs[engine].clear()
    for run in runs.values():
        if run and seconds_between(run[0], run[-1]) >= LEAST_SECONDS:
            (signature,) = signatures("statistics")
            evidence = (run[0].raw.strip(), run[-1].raw.strip())
            return Sighting(signature.cause, signature.signature, evidence, run[0].number)
    return None


def seconds_between(log_line: LogLine, last: LogLine) -> float:
    """The seconds between two of vLLM's lines, whose times have no year; 0 if they have no time."""
    times = [
        items[-1] for line in (log_line, last) if (items := TIME.findall(line.raw))
    ]  # a launcher's time is before it
    if len(times) < 2:
        return 0
    begin, end = (datetime.strptime(f"2000-{time}", "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC) for time in times)
    return (end - begin).total_seconds()
