from __future__ import annotations

import math
from collections.abc import Iterator

from podfit.base import duration
from podfit.kube.companions import describe
from podfit.kube.path import FieldPath
from podfit.rules.engine import Engine
from podfit.rules.operations import _scaling
from podfit.rules.rule import Finding, Rule

_WINDOW = 300
"""The default of a HorizontalPodAutoscaler's scaleDown.stabilizationWindowSeconds and of KEDA's cooldownPeriod, in
seconds (autoscaling/v2 API reference; keda.sh ScaledObject specification)."""


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
        """Likely: the start-up time is an estimate."""
        startup = engine.plan.startup
        if startup is None or not engine.served or engine.container.init:
            return
        for scaler in _scaling.autoscalers(engine):
            for seconds, place in _windows(scaler):
                if seconds < startup.likely:
                    window = max(600, math.ceil(startup.high / 60) * 60)
                    yield Finding(
                        path=FieldPath(("spec", "replicas")),
                        message=f"{describe(scaler)} removes replicas after {duration.exact(seconds)}, a start takes "
                        f"about {duration.human(startup.likely)}",
                        details=(
                            f"{place}: {seconds} s; a start takes {duration.interval(startup.low, startup.high)}",
                        ),
                        certainty="likely",
                        suggestions=(f"{place}: {window}, and policies that remove one Pod in 300 s",),
                    )


def _windows(obj: object) -> Iterator[tuple[int, str]]:
    """Seconds that an autoscaler waits before it removes a replica, with the name of the field."""
    if not isinstance(obj, dict):
        return
    down = _scaling.scale_down(obj)
    if down.get("selectPolicy") == "Disabled":
        return
    window = down.get("stabilizationWindowSeconds", _WINDOW)
    if isinstance(window, int) and not isinstance(window, bool):
        yield window, "behavior.scaleDown.stabilizationWindowSeconds"
    to_zero = obj.get("kind") == "ScaledObject" and not FieldPath(("spec", "minReplicaCount")).get(obj)
    cooldown = FieldPath(("spec", "cooldownPeriod")).get(obj, _WINDOW)
    if to_zero and isinstance(cooldown, int):
        yield cooldown, "cooldownPeriod"
