from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from podfit.base import duration
from podfit.rules import probe_timing
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule, parameter


@dataclass(frozen=True)
class StartupWindowTooLong(Rule):
    """The startup probe waits so long that a hung start goes unnoticed.

    An engine that fails or hangs while it starts does not always end its container. One was seen to hang until its
    startup window of 120 minutes had passed; the GPU cost money, and no replica served. Three times the high end of the
    start-up estimate is enough for a slow download and a cold cache. The author may know of a slower start, so there is
    no automatic fix.
    """

    plane = "config"
    event = "a start that hangs goes unnoticed"
    threatens = "practice"
    never_denies = "a start may be slower than the estimate's high end"
    needs = ("model", "plan.startup")

    factor: float = parameter(3.0, "a window above so many times the high estimate is reported", ge=1)
    at_least: int = parameter(1800, "seconds; a window up to this is never reported", ge=0)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Possible: the estimate's high end is for slow disks and hubs, but not for the slowest. None up to `factor`
        times the high end, and if the size of the weights is in doubt."""
        window, startup = probe_timing.startup_window(engine), engine.plan.startup
        if window is None or startup is None or engine.weights_doubtful:
            return
        if window <= max(self.at_least, self.factor * startup.high):
            return
        yield Finding(
            path=engine.at("startupProbe", "failureThreshold"),
            message=f"the startup probe waits {duration.exact(window)}; {probe_timing.estimate(engine)}",
            certainty="possible",
            suggestions=probe_timing.in_words(engine),
            presumes=probe_timing.presumed(engine, "startupProbe"),
        )
