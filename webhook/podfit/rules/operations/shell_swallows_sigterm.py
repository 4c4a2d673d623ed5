from __future__ import annotations

from collections.abc import Iterator

from podfit.base import duration
from podfit.base.lazy import regex
from podfit.kube.patch import Edit
from podfit.rules.engine import Engine
from podfit.rules.operations.termination_grace_too_short import DEFAULT_GRACE_PERIOD
from podfit.rules.probe_timing import RUN_TO_COMPLETION_KINDS
from podfit.rules.rule import Finding, Rule


class ShellSwallowsSigterm(Rule):
    """A shell stays in front of vLLM and does not pass SIGTERM on.

    The kubelet sends SIGTERM to the container's first process. In `sh -c "prepare && vllm serve …"` that is the shell,
    which waits for vLLM and ignores the signal, so vLLM never learns that it should stop. Until the grace period is
    over vLLM accepts requests; then it is killed with its running requests. `--shutdown-timeout` and the drain of
    v0.18 have no effect, and each rollout and node drain takes terminationGracePeriodSeconds longer.

    `exec vllm serve …` as the script's last command makes vLLM the first process. Without `exec`, `bash -c` (5.1 and
    later) replaces itself with the last command if that is a plain command without a redirection. dash, which is `sh`
    in vLLM's image, does not. The finding is only audited if the shell may replace itself, if the script has a trap for
    the signal, and for Jobs.
    """

    plane = "config"
    event = "running requests are killed at each stop"
    of_vllm = False
    threatens = "practice"
    never_denies = "the shell may pass signals on, or replace itself"

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Likely if the shell surely stays; possible, and advice, if it may replace itself (`unforked`).

        Advice, too, if `_stops_itself`. None with a preStop command, which may stop vLLM."""
        command = engine.command
        if not command.shell or (command.exec and not command.unforked) or not command.serves:
            return
        if engine.container.init or engine.field("lifecycle", "preStop", "exec") is not None:
            return  # its own way to stop
        grace = engine.pod("terminationGracePeriodSeconds")
        seconds = grace if isinstance(grace, int) and not isinstance(grace, bool) else DEFAULT_GRACE_PERIOD
        yield Finding(
            path=command.script_path or command.path,
            message="a shell stays in front of vLLM and passes no SIGTERM on: "
            f"it is killed after {duration.exact(seconds)}, mid-request",
            certainty="possible" if command.unforked else "likely",
            advice=command.unforked or _stops_itself(engine),
            suggestions=(f"end the script with `exec {_program(engine)} …`, without a pipe or &",),
            fix=_fix(engine),
        )


def _stops_itself(engine: Engine) -> bool:
    """True if the Pod is a Job's, which ends by itself, or its script has a trap for the signal. False for a script of
    more than `MAX_SEARCHED_CHARACTERS`."""
    if engine.workload.kind in RUN_TO_COMPLETION_KINDS:
        return True
    script = (engine.command.script_path or engine.command.path).get(engine.workload.object)
    if not isinstance(script, str) or len(script) > MAX_SEARCHED_CHARACTERS:
        return False
    return _TRAP.search(script) is not None


MAX_SEARCHED_CHARACTERS = 1 << 16
"""A longer script is not searched, so that a review stays fast."""
_TRAP = regex(r"\btrap\b[^\n]*\b(SIG)?(TERM|EXIT)\b")


def _fix(engine: Engine) -> tuple[Edit, ...]:
    """The edit that writes `exec ` in front of the script's last command; none if that is not safe or the script is not
    in the object."""
    at, path = engine.command.exec_at, engine.command.script_path
    if at is None or path is None or engine.container.synthetic:
        return ()
    script = path.get(engine.workload.object)
    if not isinstance(script, str):
        return ()
    return (Edit(path, f"{script[:at]}exec {script[at:]}"),)


def _program(engine: Engine) -> str:
    """The program as it is written after `exec`: "vllm", "python3 -m vllm.entrypoints…" for a module, and the
    interpreter "python3" for a .py file."""
    program = engine.command.program
    if program.endswith(".py"):
        return "python3"
    return f"python3 -m {program}" if "." in program and "/" not in program else program
