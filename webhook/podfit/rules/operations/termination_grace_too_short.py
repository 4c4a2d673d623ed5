from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from podfit.base.lazy import regex
from podfit.kube.patch import Edit
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule, lines
from podfit.vllm.release import Release

DEFAULT_GRACE_PERIOD = 30
"""Seconds (API reference, PodSpec)."""
SHUTDOWN = 10
"""Seconds that vLLM needs to end its processes: workers get 5 (VLLM_WORKER_SHUTDOWN_TIMEOUT_SECONDS), the engine as
many again."""
DRAINS_SINCE = Release(0, 18)
"""The first release with `--shutdown-timeout`."""
ROUNDED_TO = 30
"""Seconds of which a suggested grace period is a multiple: a number that people write."""
_SLEEP = regex(r"\bsleep\s+(\d{1,6})(?:s?\b)")


class TerminationGraceTooShort(Rule):
    """The Pod is killed before vLLM has finished its requests.

    A stopping Pod has terminationGracePeriodSeconds (30) from the beginning of its preStop hook to SIGKILL. Three
    phases have to fit in that time:

    - a preStop sleep, during which the Pod leaves its Services;
    - vLLM's `--shutdown-timeout` (0.18 and later), the seconds in which it finishes running requests; the default of 0
      aborts them at once;
    - some 10 seconds to end vLLM's processes.

    If the time is too short, long generations end in the middle, and GPU memory may still be in use when the next
    container starts. See `shell-swallows-sigterm` for a shell that prevents all of this.
    """

    plane = "cluster"
    event = "running requests are killed at a stop"
    of_vllm = False
    threatens = "practice"

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain: all numbers are in the manifest, or Kubernetes' default.

        None if the grace period is long enough, and for the default if the container neither sleeps in its preStop hook
        nor drains."""
        if engine.container.init or not engine.served:
            return
        given = engine.pod("terminationGracePeriodSeconds")
        if given is not None and (not isinstance(given, int) or isinstance(given, bool)):
            return
        grace = DEFAULT_GRACE_PERIOD if given is None else given
        slept, drained = _pre_stop(engine), _drain_seconds(engine)
        is_explicit = given is not None and grace < SHUTDOWN
        if grace >= slept + drained + SHUTDOWN or not (slept or drained or is_explicit):
            return
        parts = lines(
            f"{slept} s of preStop" if slept else None,
            f"--shutdown-timeout {drained}" if drained else None,
            f"the {SHUTDOWN} s that vLLM takes to end",
        )
        seconds = math.ceil((slept + drained + SHUTDOWN) / ROUNDED_TO) * ROUNDED_TO
        where = engine.workload.path / "terminationGracePeriodSeconds"
        yield Finding(
            path=where,
            message=f"terminationGracePeriodSeconds {grace}{' (the default)' if given is None else ''} is less than "
            f"{' + '.join(parts)}",
            suggestions=(f"terminationGracePeriodSeconds: {seconds}",),
            fix=(Edit(where, seconds),) if not engine.container.synthetic else (),
        )


def _drain_seconds(engine: Engine) -> int:
    """Seconds of --shutdown-timeout; 0 if it is not set or the release does not have it."""
    if engine.release is not None and engine.release < DRAINS_SINCE:
        return 0
    given: Any = engine.args.given.get("shutdown_timeout")
    if not isinstance(given, int | float) or isinstance(given, bool):
        return 0
    return int(given) if given > 0 else 0


def _pre_stop(engine: Engine) -> int:
    """Seconds that the preStop hook sleeps: its `sleep` action, else the sum of the `sleep` commands in its `exec`.

    0 without a hook, or if it does not sleep."""
    hook = engine.field("lifecycle", "preStop")
    if not isinstance(hook, Mapping):
        return 0
    sleep = hook.get("sleep")
    seconds = sleep.get("seconds") if isinstance(sleep, Mapping) else None
    if isinstance(seconds, int) and not isinstance(seconds, bool):
        return max(0, seconds)
    run = hook.get("exec")
    command = run.get("command") if isinstance(run, Mapping) else None
    words = " ".join(str(word) for word in command) if isinstance(command, list) else ""
    return sum(int(number) for number in _SLEEP.findall(words))
