from __future__ import annotations

from collections.abc import Iterator

from podfit.base import duration
from podfit.rules import probe_timing
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule


class StartupWindowTooShort(Rule):
    """The startup probe gives up before vLLM can answer.

    The kubelet restarts the container when `failureThreshold` probes in a row have failed; vLLM answers on /health
    only when it has loaded its weights, compiled and captured its CUDA graphs. A shorter window is a crash loop whose
    log ends in `KeyboardInterrupt: terminated` (or just ends), each time at the same point.

    If a volume keeps the downloaded model, a restarted container starts sooner than the first one. Where it answers in
    time, the loop ends by itself, and the finding is advice.
    """

    plane = "config"
    event = "the kubelet restarts the container before vLLM answers, each time"
    mode = "deny"
    needs = ("model", "plan.startup")

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain below the floor of the start-up estimate, likely below the likely time of each start.

        Possible if the size of the weights is in doubt, or if a restarted container answers in time."""
        window, startup = probe_timing.startup_window(engine), engine.plan.startup
        restart = probe_timing.likely_restart(engine)
        if window is None or startup is None or restart is None or window >= startup.likely or not engine.served:
            return
        doubtful = engine.weights_doubtful is not None or window >= restart
        hopeless = window < startup.floor
        yield Finding(
            path=engine.at("startupProbe", "failureThreshold"),
            message=f"the startup probe gives up after {duration.exact(window)}; {probe_timing.estimate(engine)}",
            details=(f"even from a warm cache the start takes {duration.human(startup.floor)}",)
            if hopeless
            else (*probe_timing.phases(engine), *probe_timing.shorter_restart(engine, window)),
            certainty="certain" if hopeless and not doubtful else "possible" if doubtful else "likely",
            suggestions=probe_timing.in_words(engine),
            presumes=probe_timing.presumed(engine, "startupProbe"),
            fix=probe_timing.window_fix(engine),
        )
