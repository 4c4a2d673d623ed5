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
from typing import Any

from podfit.base.secret import FORMS
from podfit.cluster import Access
from podfit.cluster.access import Client, StatusError

PAUSE = 30.0
"""Seconds until the next attempt, if the API server forbids the write or does not answer."""
LONGEST = 2000
"""Characters of a message, since an object's size is limited."""

log = logging.getLogger(__name__)
ReportedStatus = dict[str, tuple[object, tuple[str, ...]]]
"""Name → the object's generation and its problems, as the status was last written."""


class Acceptance:
    """Writes the conditions of Policy objects; used from one thread."""

    def __init__(self, access: Access, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = Client(access)
        self._clock = clock
        self._reported: ReportedStatus = {}
        self._after = 0.0

    def tell(self, objects: Mapping[str, Mapping[str, Any]], problems: Mapping[str, tuple[str, ...]]) -> None:
        """Write the status of each object that has not been written for its generation and problems. Never raises: a
        failure is logged, and nothing is written for the next PAUSE seconds."""
        entries: ReportedStatus = {
            name: ((obj.get("metadata") or {}).get("generation"), problems.get(name, ()))
            for name, obj in objects.items()
        }
        self._reported = {name: rows for name, rows in self._reported.items() if name in entries}
        if self._clock() < self._after:
            return
        for name, items in entries.items():
            if self._reported.get(name) == items:
                continue
            try:
                self._write(name, *items, objects[name].get("spec"))
            except (StatusError, OSError, ValueError) as error:
                if not (isinstance(error, StatusError) and error.code == 404):  # it is gone again
                    log.warning("the status of policies.podfit.dev/%s can't be written: %s", name, error)
                    self._after = self._clock() + PAUSE
                    return
            self._reported[name] = items

    def _write(self, name: str, generation: object, problems: tuple[str, ...], spec: object) -> None:
        """Patch a Policy's status if it differs. A condition that stays keeps its time of transition."""
        path = f"/apis/podfit.dev/v1alpha1/policies/{name}/status"
        status = self._client.get_unreduced(path).get("status") or {}
        condition_list = status.get("conditions") or []
        before: dict[str, Any] = {str(entry.get("type")): entry for entry in condition_list}
        now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        after = {condition["type"]: condition for condition in conditions(name, generation, problems, now)}
        for kind, item in after.items():
            if before.get(kind, {}).get("status") == item["status"]:
                item["lastTransitionTime"] = before[kind].get("lastTransitionTime", now)
        accepted = status.get("accepted") if problems else json.dumps(spec, sort_keys=True)
        if (before | after, accepted) != (before, status.get("accepted")):
            written = {"conditions": [*(before | after).values()], "accepted": accepted}
            self._client.patch(path, {"status": written})


def conditions(name: str, generation: object, problems: tuple[str, ...], now: str) -> list[dict[str, Any]]:
    """The conditions Accepted and Ready of a Policy. `problems`: empty if it is in force; `now`: in RFC 3339."""
    text = "; ".join(problem.removeprefix(f"policies.podfit.dev/{name}: ") for problem in problems)
    common: dict[str, Any] = {
        "status": "False" if problems else "True",
        "reason": "Invalid" if problems else "Accepted",
        "message": FORMS.masked(f"not taken over: {text}")[:LONGEST] if problems else "in use",
        "lastTransitionTime": now,
    }
    if generation is not None:
        common["observedGeneration"] = generation
    return [{"type": kind, **common} for kind in ("Accepted", "Ready")]
