"""A bug in one stage of reading a container is recorded, and silences only the rules that need the stage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from podfit.evaluation.lint import Report
from podfit.vllm import args, gpu, model
from podfit.vllm.memory import plan

STAGES = {"arguments": (args, "parse"), "model": (model, "find"), "gpu": (gpu, "find"), "plan": (plan, "plan")}


def _broken(*_: object, **__: object) -> None:
    raise ZeroDivisionError("a bug")


@pytest.mark.parametrize("stage", STAGES)
def test_the_rules_that_do_not_need_the_stage_still_run(
    pod: dict[str, Any],
    container: dict[str, Any],
    judge: Callable[..., Report],
    monkeypatch: pytest.MonkeyPatch,
    stage: str,
) -> None:
    container["resources"]["limits"]["memory"] = "64m"
    container["args"].append("--no-such-flag")
    before = {judged.rule: judged.mode for judged in judge(pod).findings}
    monkeypatch.setattr(*STAGES[stage], _broken)

    report = judge(pod)
    after = {judged.rule: judged.mode for judged in report.findings}

    assert [(error.rule, error.error.partition(":")[0]) for error in report.errors] == [(stage, "ZeroDivisionError")]
    if stage == "arguments":  # there may be more of them than are seen
        assert after["quantity-suspicious"] == "warn"
    else:
        assert after["quantity-suspicious"] == after["unknown-flag"] == "deny"
    assert not [rule for rule, mode in after.items() if mode == "deny" and before.get(rule) != "deny"]
