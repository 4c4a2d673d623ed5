"""Rule gpu-count-mismatch."""

from __future__ import annotations

from collections.abc import Iterator

from webhook.engine import Engine
from webhook.memory import parallel
from webhook.memory.solve import divisible
from webhook.release import Release
from webhook.rule import Certainty, Finding, Rule

_ONE_RANK_EACH = ("nvidia.com/", "amd.com/")
"""Where one of the resource is one device to vLLM. One `aws.amazon.com/neuron` is a chip of several cores that tensor
parallelism counts; one Ascend or Gaudi card may be several too."""


class GpuCountMismatch(Rule):
    """The container's GPUs are not what its parallelism needs.

    One vLLM engine takes tensor-parallel × pipeline-parallel GPUs, and each data-parallel engine in the Pod takes as
    many again. With fewer GPUs in the container vLLM does not start:

        ValueError: World size (4) is larger than the number of available GPUs (2) in this node.

    (up to v0.11.0 it switches to Ray instead and waits for ever). More GPUs than that stay idle and are paid for.
    Engines that span Pods (Ray, `--nnodes`, LeaderWorkerSet) are not judged by one container.
    """

    plane = "config"
    mode = "deny"

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain: both numbers stand in the manifest."""
        if engine.requested is None or engine.command.entry == "worker" or engine.spans_pods:
            return
        resource, count = engine.requested
        if not resource.startswith(_ONE_RANK_EACH):
            return
        needed = parallel.gpus_needed(engine.args)
        if count is None or needed is None or count == needed:
            return
        sizes = " × ".join(
            f"--{dest.replace('_', '-')} {engine.args.get(dest)}"
            for dest in ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
            if (engine.args.get(dest) or 1) != 1
        )
        what = sizes or "vLLM without --tensor-parallel-size"
        where = engine.at("resources", "limits", resource)
        if count < needed:
            yield Finding(
                path=where,
                message=f"{count} × {resource} requested, {what} needs {needed}",
                certainty=_certainty(engine),
                suggestions=(f"{resource}: {needed}", *_smaller(engine, count)),
            )
        else:
            yield Finding(
                path=where,
                message=f"{count} × {resource} requested, {what} uses {needed}: "
                f"{count - needed} stand{'s' if count - needed == 1 else ''} idle",
                certainty="likely",
                suggestions=(f"{resource}: {needed}", *_smaller(engine, count)),
            )


def _tp(engine: Engine) -> int:
    value = engine.args.get("tensor_parallel_size")
    return value if isinstance(value, int) and value > 0 else 1


def _smaller(engine: Engine, count: int) -> tuple[str, ...]:
    rest = (parallel.gpus_needed(engine.args) or 1) // _tp(engine)
    if count < rest or count % rest:
        return ()
    size, model = count // rest, engine.model.value if engine.model else None
    return (f"--tensor-parallel-size {size}",) if model is None or divisible(model, size) else ()


RAY_FALLBACK = Release(0, 11, 1)
"""Before it, too few GPUs make vLLM look for a Ray cluster, which a script may have started (CHANGES of 0.11.1)."""


def _certainty(engine: Engine) -> Certainty:
    refuses = engine.release is not None and engine.release >= RAY_FALLBACK
    return "certain" if refuses or not engine.command.shell else "likely"
