"""Sets the conditions in each Policy object's `status.conditions`: whether the policy is in force.

`Accepted` is podfit's own. `Ready` has the same status, since Flux and Argo CD wait for a condition of that name.

`status.accepted` keeps the last good `spec`, for servers that start while a newer one is broken.

Every replica does so, and writes only if the object's status differs. Replicas of one release always write the same.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from podfit.base.secret import FORMS
from podfit.cluster import Access
from podfit.cluster.access import Client, StatusError

PAUSE = 30.0
"""Seconds until the next attempt, if the API server forbids the write or does not answer."""
MAX_MESSAGE_LENGTH = 2000
"""Characters of a message, since an object's size is limited."""

log = logging.getLogger(__name__)


class _Reported(NamedTuple):
    """The state of a Policy object that its status reports."""

    generation: object
    """The object's `metadata.generation`, a number; None: it has none."""
    problems: tuple[str, ...]
    """Why the object is not in force; empty if it is."""


class Acceptance:
    """Writes the conditions of Policy objects; used from one thread."""

    def __init__(self, access: Access, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = Client(access)
        self._clock = clock
        self._reported: dict[str, _Reported] = {}
        """Name → state whose status was last written."""
        self._paused_until = 0.0
        """Seconds of `clock` before which nothing is written, after a failure."""

    def tell(self, objects: Mapping[str, Mapping[str, Any]], problems: Mapping[str, tuple[str, ...]]) -> None:
        """Write the status of each object that has not been written for its generation and problems. Never raises: a
        failure is logged, and nothing is written for the next PAUSE seconds."""
        states = {
            name: _Reported((obj.get("metadata") or {}).get("generation"), problems.get(name, ()))
            for name, obj in objects.items()
        }
        self._reported = {name: state for name, state in self._reported.items() if name in states}
        if self._clock() < self._paused_until:
            return
        for name, state in states.items():
            if self._reported.get(name) == state:
                continue
            try:
                self._write(name, state, objects[name].get("spec"))
            except (StatusError, OSError, ValueError) as error:
                is_gone = isinstance(error, StatusError) and error.code == 404  # deleted since it was read
                if not is_gone:
                    log.warning("the status of policies.podfit.dev/%s can't be written: %s", name, error)
                    self._paused_until = self._clock() + PAUSE
                    return
            self._reported[name] = state

    def _write(self, name: str, state: _Reported, spec: object) -> None:
        """Patch a Policy's status if it differs. A condition whose status stays keeps its time of transition.

        Conditions of other types stay as they are. `accepted` becomes `spec`, as JSON, if the object is in force, and
        stays if it has problems."""
        path = f"/apis/podfit.dev/v1alpha1/policies/{name}/status"
        status = self._client.get_unreduced(path).get("status") or {}
        before: dict[str, Any] = {str(condition.get("type")): condition for condition in status.get("conditions") or []}
        now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        ours = {condition["type"]: condition for condition in conditions(name, state.generation, state.problems, now)}
        for condition_type, condition in ours.items():
            if before.get(condition_type, {}).get("status") == condition["status"]:
                condition["lastTransitionTime"] = before[condition_type].get("lastTransitionTime", now)
        after = before | ours
        accepted = status.get("accepted") if state.problems else json.dumps(spec, sort_keys=True)
        if after != before or accepted != status.get("accepted"):
            self._client.patch(path, {"status": {"conditions": [*after.values()], "accepted": accepted}})


def conditions(name: str, generation: object, problems: tuple[str, ...], now: str) -> list[dict[str, Any]]:
    """The conditions Accepted and Ready of a Policy. `problems`: empty if it is in force; `now`: in RFC 3339."""
    text = "; ".join(problem.removeprefix(f"policies.podfit.dev/{name}: ") for problem in problems)
    common: dict[str, Any] = {
        "status": "False" if problems else "True",
        "reason": "Invalid" if problems else "Accepted",
        "message": FORMS.masked(f"not taken over: {text}")[:MAX_MESSAGE_LENGTH] if problems else "in use",
        "lastTransitionTime": now,
    }
    if generation is not None:
        common["observedGeneration"] = generation
    return [{"type": kind, **common} for kind in ("Accepted", "Ready")]
