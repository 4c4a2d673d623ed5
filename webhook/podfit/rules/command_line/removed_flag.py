from __future__ import annotations

from collections.abc import Iterator

from podfit.rules._flags import certainty, in_file, substitute, uncertain, unknown
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule
from podfit.vllm import change
from podfit.vllm.change import HERE, Change, Suggestion

REPLACED: dict[str, Suggestion] = {
    "--swap-space": change.leave_out(": the V1 engine (v0.8 and newer) never used it"),
    "--disable-log-requests": change.leave_out(": requests are not logged by default from v0.10.1 on"),
    "--num-scheduler-steps": change.leave_out(": the V1 engine schedules without it"),
    "--max-seq-len-to-capture": change.leave_out(": the V1 engine (v0.8 and newer) never used it"),
    "--worker-use-ray": "--distributed-executor-backend ray",
    "--engine-use-ray": change.leave_out(),
    "--device": change.leave_out(": the image decides"),
    "--use-v2-block-manager": change.leave_out(),
    "--speculative-model": "--speculative-config '{\"model\": …}'",
    "--num-speculative-tokens": "--speculative-config '{\"num_speculative_tokens\": …}'",
    "--rope-scaling": "--hf-overrides '{\"rope_scaling\": …}'",
    "--rope-theta": "--hf-overrides '{\"rope_theta\": …}'",
    "--task": "--runner and --convert",
    "--cuda-graph-sizes": "--cudagraph-capture-sizes",
    "--guided-decoding-backend": "--structured-outputs-config '{\"backend\": …}'",
    "--disable-mm-preprocessor-cache": "--mm-processor-cache-gb 0",
    "--enable-reasoning": change.leave_out(": --reasoning-parser is enough"),
    "--disable-frontend-multiprocessing": change.leave_out(),
}
"""Removed flag → advice (vLLM's release notes and deprecation messages)."""
TASKS: dict[str, Suggestion] = {
    "auto": change.leave_out(),
    "generate": "--runner generate",
    "transcription": "--runner generate",
    "embed": "--runner pooling --convert embed",
    "embedding": "--runner pooling --convert embed",
    "classify": "--runner pooling --convert classify",
    "score": "--runner pooling",
    "reward": "--runner pooling",
    "draft": "--runner draft",
}
"""`--task` → what it became (vLLM 0.10.2 … 0.12 config/model.py, `_task_to_convert` and what its deprecation says)."""


class RemovedFlag(Rule):
    """This vLLM release does not know the flag; another one does.

    Flags come and go between releases. The parser ends with exit code 2 before it loads anything:

        vllm: error: unrecognized arguments: --swap-space 8

    Moving an image to a newer tag with the old arguments is how most of these crash loops begin.
    """

    plane = "config"
    event = "vLLM exits with code 2"
    by_release = True
    of_parser = True
    mode = "deny"
    needs = ("vllm_args",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain in vLLM's own image: the table holds every flag of 51 releases since 0.4."""
        for flag in unknown(engine):
            if flag.first is None or flag.last is None:
                continue
            where = in_file(engine, flag.index)
            newer = None if flag.removed else change.release(flag.first, "an image of vLLM {} or newer")
            runner = TASKS.get(str(engine.args.written.get("task"))) if flag.flag == "--task" else None
            replaced = REPLACED.get(flag.flag.replace("_", "-"), flag.suggestion)
            instead: Suggestion | None = newer or runner or replaced  # a flag that is new here is not replaced yet
            useless = isinstance(instead, Change) and instead.without == HERE
            yield Finding(
                path=flag.path,
                certainty=certainty(engine),
                uncertain=uncertain(engine),
                message=f"vLLM {engine.release or 'in the newest releases'} does not know {flag.flag!r}{where}: "
                + (f"removed in {flag.removed}" if flag.removed else f"new in {flag.first}"),
                details=(
                    f"known from {flag.first} to {flag.last}; vLLM ends with exit code 2: unrecognized arguments",
                ),
                suggestions=(instead,) if instead else (),
                fix=substitute(engine, flag.index, flag.words) if useless and not where else (),
            )
