from __future__ import annotations

from collections.abc import Iterator

from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule

JOBS = ("Job", "CronJob", "JobSet")
"""Kinds that count a Pod whose containers exit with 0 as complete, and replace one that fails."""
KEEP_ALIVE = "VLLM_KEEP_ALIVE_ON_ENGINE_DEATH"
"""With 1 `terminate_if_errored` does not stop the API server."""


class DeadEngineExitsZero(Rule):
    """A server whose engine dies is not started again, because vLLM exits with 0.

    After EngineDeadError the API server stops like after a request to stop, and its exit code is 0 (vLLM 0.11.0
    entrypoints/launcher.py, 0.33 entrypoints/launchers/launcher.py `terminate_if_errored`; vllm#48966).
    `restartPolicy: OnFailure` restarts only a container with another exit code.
    A Job counts the Pod as complete, whatever its restartPolicy is. With several API servers (`--api-server-count`),
    the parent process fails.

    `restartPolicy: Always` restarts the server; Deployments, StatefulSets and LeaderWorkerSets have it. In a Job, end
    the script with a command that fails: `vllm serve …; exit 1`.
    """

    plane = "config"
    where = frozenset({"check", "scan"})
    event = "a server whose engine died is not started again"
    threatens = "practice"
    never_denies = "the engine may never die"

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Possible: the engine may never die, and something else than the exit code may start the server again.

        None with `restartPolicy: Always`, which restarts after any exit code. Also none if vLLM's exit code is not the
        container's: in a shell's script, with several API servers, and with `KEEP_ALIVE`."""
        policy = engine.pod("restartPolicy")
        job = engine.workload.kind in JOBS
        if policy not in ("OnFailure", "Never") or not engine.served or engine.container.init:
            return
        if policy == "Never" and not (job and len(engine.pod("containers") or ()) == 1):
            return  # nothing starts it again, or the other containers decide
        servers = engine.args.given.get("api_server_count")
        if engine.command.shell or engine.command.env.get(KEEP_ALIVE) == "1" or servers not in (None, 1):
            return
        becomes = "the Job counts as complete" if policy == "Never" else f"restartPolicy {policy} does not restart it"
        yield Finding(
            path=engine.workload.path / "restartPolicy",
            message=f"vLLM exits with 0 when its engine dies: {becomes}",
            certainty="possible",
            suggestions=(
                "end the command with a failure: sh -c 'vllm serve …; exit 1'" if job else "restartPolicy: Always",
            ),
        )
