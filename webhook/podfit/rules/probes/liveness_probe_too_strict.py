from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from podfit.kube.patch import Edit
from podfit.rules import probe_timing
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule, parameter

ADVISED_TIMEOUT = 5
"""Seconds; one is not enough under load (scaleapi/llm-engine#255)."""
ADVISED_TOLERANCE = 60
"""Seconds of silence that a probe should forgive: 10 s × 6, as practitioners recommend."""
DEFAULT_FAILURES = 3
"""Kubernetes' default of failureThreshold: the suggestion is no less."""
DYNAMO = "dynamo.vllm"
"""Dynamo's worker. Its own server, on another port than vLLM's, answers the probe in the same event loop: compilation
while it serves lets one answer in 4 s fail (ai-dynamo/dynamo#14735)."""


@dataclass(frozen=True)
class LivenessProbeTooStrict(Rule):
    """The liveness probe restarts a vLLM that is only busy.

    The event loop of vLLM's API server answers /health. While it tokenizes long prompts or decodes images, it may not
    answer within timeoutSeconds (1 by default): "a saturated vLLM only had to miss three 1s /health checks"
    (llm-d-benchmark#1734). A liveness probe that gives up soon kills the busiest replica and aborts its requests. They
    go to the other replicas, which then fail in the same way:

        Liveness probe failed: Get "http://10.0.0.7:8000/health": context deadline exceeded
    """

    plane = "config"
    event = "the kubelet restarts a container that is only busy"
    threatens = "uptime"
    never_denies = "the manifest does not show how busy vLLM gets"

    at_least: int = parameter(30, "seconds of silence (periodSeconds × failureThreshold) that should be forgiven", ge=1)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Likely if the probe forgives less than `at_least` seconds, or a single failure kills.

        Advice at Kubernetes' defaults: a timeout of one second, and exactly `at_least` seconds. None for a probe that
        does not ask vLLM by HTTP or a command."""
        probe = probe_timing.probe_of_vllm(engine, "livenessProbe")
        if engine.command.program == DYNAMO:
            probe = probe_timing.probe(engine, "livenessProbe")
        if probe is None or probe.keys().isdisjoint(("httpGet", "exec")):
            return
        period = probe_timing.setting(probe, "periodSeconds")
        failures = probe_timing.setting(probe, "failureThreshold")
        timeout = probe_timing.setting(probe, "timeoutSeconds")
        silence = probe_timing.tolerance(probe)
        strict = silence < self.at_least or failures == 1
        if not strict and (timeout > 1 or silence > self.at_least):
            return
        advised_failures = max(failures, DEFAULT_FAILURES, math.ceil(ADVISED_TOLERANCE / period))
        advised_timeout = max(timeout, ADVISED_TIMEOUT)
        yield Finding(
            path=engine.at("livenessProbe", "failureThreshold"),
            message=f"{failures} × no answer within {timeout} s, {period} s apart, and a busy vLLM is restarted",
            certainty="likely",
            advice=not strict,
            presumes=probe_timing.presumed(engine, "livenessProbe"),
            suggestions=(f"timeoutSeconds {advised_timeout} and failureThreshold {advised_failures}",),
            fix=(
                Edit(engine.at("livenessProbe", "timeoutSeconds"), advised_timeout),
                Edit(engine.at("livenessProbe", "failureThreshold"), advised_failures),
            )
            if probe_timing.writable(engine, "livenessProbe")
            else (),
        )
