from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from podfit.base import duration
from podfit.kube.companions import describe
from podfit.kube.path import FieldPath
from podfit.rules.engine import Engine
from podfit.rules.operations import _scaling
from podfit.rules.rule import Finding, Rule

_DEFAULT_WAIT = 300
"""The default of a HorizontalPodAutoscaler's scaleDown.stabilizationWindowSeconds and of KEDA's cooldownPeriod, in
seconds (autoscaling/v2 API reference; keda.sh ScaledObject specification)."""


_USUAL_WAIT = 600
"""Seconds that are advised at least: the common choice of stabilizationWindowSeconds."""


class ScaleDownTooFast(Rule):
    """The autoscaler removes replicas sooner than new ones start.

    When the load returns after a lull, a replica that was removed is missing, and a new one needs its whole start-up:
    load, compile, capture, perhaps the download. With a shorter stabilization window, replicas come and go, and few of
    them ever serve. The window should be longer than a start. A common choice is 600 s, with one Pod removed in five
    minutes.
    """

    plane = "cluster"
    event = "replicas are removed that are needed again minutes later"
    of_vllm = False
    threatens = "practice"
    never_denies = "the start-up time is an estimate"
    where = frozenset({"check", "scan"})
    needs = ("plan.startup",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Likely: the start-up time is an estimate. None if the autoscaler waits at least as long as the likely
        start."""
        startup = engine.plan.startup
        if startup is None or not engine.served or engine.container.init:
            return
        for scaler in _scaling.autoscalers(engine):
            for seconds, place in _waits(scaler):
                if seconds < startup.likely:
                    advised = max(_USUAL_WAIT, math.ceil(startup.high / 60) * 60)  # whole minutes
                    yield Finding(
                        path=FieldPath(("spec", "replicas")),
                        message=f"{describe(scaler)} removes replicas after {duration.exact(seconds)}, a start takes "
                        f"about {duration.human(startup.likely)}",
                        details=(
                            f"{place}: {seconds} s; a start takes {duration.interval(startup.low, startup.high)}",
                        ),
                        certainty="likely",
                        suggestions=(f"{place}: {advised}, and policies that remove one Pod in 300 s",),
                    )


class _Wait(NamedTuple):
    """The time for which the load has to be low before an autoscaler removes a replica."""

    seconds: int
    field: str
    """The field of the autoscaler that sets it, for people."""


def _waits(obj: object) -> Iterator[_Wait]:
    """The waits before the removal of a replica, and of the last one if KEDA scales to zero. None if the autoscaler
    never scales down (`selectPolicy: Disabled`)."""
    if not isinstance(obj, dict):
        return
    down = _scaling.scale_down(obj)
    if down.get("selectPolicy") == "Disabled":
        return
    window = down.get("stabilizationWindowSeconds", _DEFAULT_WAIT)
    if isinstance(window, int) and not isinstance(window, bool):
        yield _Wait(seconds=window, field="behavior.scaleDown.stabilizationWindowSeconds")
    to_zero = obj.get("kind") == "ScaledObject" and not FieldPath(("spec", "minReplicaCount")).get(obj)
    cooldown = FieldPath(("spec", "cooldownPeriod")).get(obj, _DEFAULT_WAIT)
    if to_zero and isinstance(cooldown, int):
        yield _Wait(seconds=cooldown, field="cooldownPeriod")
