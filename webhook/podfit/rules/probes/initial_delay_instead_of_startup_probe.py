from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from podfit.base import duration
from podfit.kube.patch import Edit
from podfit.rules import probe_timing
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule, parameter

AMPLE = 1.5
"""A delay of at most so many times the slowest start delays the detection of a hang only a little (podfit's choice)."""


@dataclass(frozen=True)
class InitialDelayInsteadOfStartupProbe(Rule):
    """A long initialDelaySeconds of the liveness probe replaces a startup probe.

    The delay has to be as long as the slowest start, and it applies to every start. The kubelet notices a container
    that hangs in its first minute, or fails after a fast restart from a warm cache, only after the delay. A startup
    probe checks from the beginning, and the liveness probe takes over as soon as vLLM answers. A delay that is no
    longer than 1.5 times the slowest start is only audited.
    """

    plane = "config"
    event = "a hang in the first minutes goes unnoticed"
    threatens = "practice"
    mute_for = ("startup-probe",)

    at_least: int = parameter(probe_timing.LONG_DELAY, "seconds; a shorter delay is not reported", ge=1)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain: the delay is in the manifest. Advice up to `AMPLE` times the slowest start.

        None with a startup probe, for a delay below `at_least`, and if the delay is too short as well, which
        `liveness-probe-kills-startup` reports."""
        probe, startup = probe_timing.probe(engine, "livenessProbe"), engine.plan.startup
        if probe is None or not engine.served or engine.container.init or probe_timing.probe(engine, "startupProbe"):
            return
        if probe_timing.may_not_serve(engine):
            return
        delay = probe_timing.setting(probe, "initialDelaySeconds")
        asks_vllm = probe_timing.probe_of_vllm(engine, "livenessProbe") is not None
        kills_startup = asks_vllm and startup is not None and probe_timing.window(probe) < startup.high
        if delay < self.at_least or kills_startup:
            return
        fitting = startup is not None and delay <= AMPLE * startup.high
        added = probe_timing.startup_probe_fix(engine) if asks_vllm else ()
        yield Finding(
            path=engine.at("livenessProbe", "initialDelaySeconds"),
            message=f"the liveness probe begins after {duration.exact(delay)}, in place of a startup probe"
            + (f"; {probe_timing.estimate(engine)}" if startup else ""),
            advice=fitting,
            suggestions=tuple(
                f"{text}, and no initialDelaySeconds"
                for text in probe_timing.advice(engine) or ("a startupProbe that waits for the slowest start",)
            ),
            fix=(*added, Edit(engine.at("livenessProbe", "initialDelaySeconds"), op="remove")) if added else (),
        )
