"""Rule liveness-probe-kills-startup."""

from __future__ import annotations

from collections.abc import Iterator

from webhook.rules import _probe
from webhook.rules.engine import Engine
from webhook.rules.rule import Certainty, Finding, Rule


class LivenessProbeKillsStartup(Rule):
    """The liveness probe kills vLLM before it has started.

    Without a startup probe the liveness probe counts from the first second. vLLM does not listen while it loads, so
    every probe fails, and after initialDelaySeconds + periodSeconds × failureThreshold the kubelet kills a healthy
    start:

        Liveness probe failed: … connect: connection refused
        Container vllm failed liveness probe, will be restarted

    An exec probe that only runs `curl` or `wget` against vLLM's port fails as long.

    A startup probe holds it back for exactly as long as the start takes; a long initialDelaySeconds only guesses.
    """

    plane = "config"
    mode = "deny"
    needs = ("model", "plan.startup")
    mute_for = ("startup-probe",)
    about = ("livenessProbe",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain below the floor of the start-up estimate, likely below the high one."""
        probe, startup = _probe.kills(engine, "livenessProbe"), engine.plan.startup
        if probe is None or startup is None or not engine.served or _probe.probe(engine, "startupProbe"):
            return
        window = _probe.window(probe)
        if window >= startup.high:
            return
        certainty: Certainty = (
            "certain" if window < startup.floor else "likely" if window < startup.likely else "possible"
        )
        yield Finding(
            path=engine.at("livenessProbe"),
            message=f"the liveness probe kills the container after {window} s; {_probe.estimate(engine)}",
            details=_probe.phases(engine),
            certainty=certainty,
            suggestions=_probe.advice(engine),
            fix=_probe.startup_probe_fix(engine),
        )
