from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from podfit.base import duration
from podfit.kube.quantity import GI, human, quantity, round_up_gi
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule, parameter
from podfit.rules.storage import _cache, compile_cache
from podfit.vllm.release import is_official

RUNS_ONCE = ("Job", "CronJob", "Workflow", "WorkflowTemplate", "ClusterWorkflowTemplate", "CronWorkflow")
"""Kinds whose containers are not restarted in their Pods, as a rule: Argo makes a Pod a step, with restartPolicy Never
(argo-workflows workflow/controller/workflowpod.go)."""


REVISIONS = 2
"""Copies of the model for which a suggested claim has room: while a new revision is downloaded, the old one is
there."""


@dataclass(frozen=True)
class ModelCacheMissing(Rule):
    """The model is downloaded again at each restart of the container.

    A container's own file system ends with the container. After a crash, a failed liveness probe or an eviction, vLLM
    downloads the whole checkpoint from the hub again. The download takes minutes, may exceed the hub's rate limit
    (`429 Client Error: Too Many Requests`), and may be longer than the startup probe waits. A PersistentVolumeClaim
    that is mounted at the cache (`/root/.cache/huggingface`, `$HF_HOME` or `--download-dir`) keeps the files. An
    emptyDir there at least survives restarts of the container.
    """

    plane = "storage"
    event = "each restart downloads and compiles the model again"
    threatens = "practice"
    never_denies = "a custom image may contain the files"
    mute_for = ("model", "args")

    min_gib: float = parameter(4.0, "checkpoints smaller than this many GiB are not worth a volume", ge=0)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Likely: a custom image may hold the files. None for a model of less than `min_gib`, for a container that is
        not restarted, and if a volume may be the cache."""
        if not engine.served or engine.container.init or engine.workload.kind in RUNS_ONCE:
            return
        if engine.pod("restartPolicy") == "Never":
            return
        cache, size = engine.once(_cache.find), engine.plan.checkpoint
        if cache is None or cache.volume is not None or not cache.downloads or _cache.candidates(engine, cache):
            return
        image = engine.field("image")
        if not isinstance(image, str) or not is_official(image):
            return
        if size is not None and size < self.min_gib * GI:
            return
        if engine.weights_doubtful:
            size = None  # not certain enough to name it
        what = f"{human(size)} are" if size is not None else "the model is"
        claim = f" of {quantity(round_up_gi(REVISIONS * size))}" if size is not None else ""
        mount = cache.directory.removesuffix("/hub") if cache.said_by != "--download-dir" else cache.directory
        yield Finding(
            path=engine.at("volumeMounts"),
            message=f"no volume at {mount}: {what} downloaded again at each restart",
            details=_compiled(engine),
            certainty="likely",
            suggestions=(f"a PersistentVolumeClaim{claim} mounted at {mount}", f"an emptyDir mounted at {mount}"),
        )


def _compiled(engine: Engine) -> tuple[str, ...]:
    """A detail: a volume for vLLM's own cache of compiled code, with the time that it saves. Empty if it saves little
    (`compilation_saved`)."""
    seconds = compile_cache.compilation_saved(engine)
    if seconds is None:
        return ()
    return (f"a volume at VLLM_CACHE_ROOT (~/.cache/vllm) saves about {duration.human(seconds)} of compilation, too",)
