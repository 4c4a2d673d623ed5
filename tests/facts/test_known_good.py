"""What ran elsewhere is not denied, and what can't fit is found: facts/known_good.jsonl."""

from __future__ import annotations

import json
from typing import Any

import pytest

from podfit.evaluation.lint import GradedFinding, lint
from podfit.evaluation.policy import builtin
from podfit.vllm.facts import Facts
from scripts.facts.table import Entry, entries

ROWS = entries("known_good")
MEMORY = frozenset({"gpu-memory-exceeded", "kv-cache-too-small", "max-model-len-too-long", "gpu-count-mismatch"})


def pod(row: Entry) -> dict[str, Any]:
    """The row as a Pod, with host memory to spare."""
    amd = row["gpu"].startswith("AMD")
    words = [row["model"]]
    for option, value in row["options"].items():
        text = json.dumps(value) if isinstance(value, dict) else str(value)
        words += [f"--{option}"] if value is True else [f"--{option}", text] if value is not False else []
    container = {
        "name": "vllm",
        "image": f"vllm/vllm-openai{'-rocm' if amd else ''}:v{row['release']}",
        "command": ["vllm", "serve"],
        "args": words,
        "resources": {"limits": {f"{'amd' if amd else 'nvidia'}.com/gpu": str(row["count"]), "memory": "1900Gi"}},
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
    }
    label = "amd.com/gpu.product-name" if amd else "nvidia.com/gpu.product"
    volumes = [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "64Gi"}}]
    spec = {"nodeSelector": {label: row["gpu"]}, "containers": [container], "volumes": volumes}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "known"}, "spec": spec}


def findings(row: Entry) -> tuple[GradedFinding, ...]:
    """All findings, and the proof that the container was planned."""
    report = lint(pod(row), builtin(), Facts(), where="check")
    (result,) = report.results
    assert report.errors == ()
    assert result.engine.model is not None
    assert result.engine.gpu is not None
    assert str(result.engine.release) == row["release"]
    return result.findings


@pytest.mark.parametrize("start", range(8))
def test_what_ran_is_neither_denied_nor_said_to_lack_memory(start: int) -> None:
    wrong = [
        f"{row['model']} on {row['count']} × {row['gpu']}, {row['release']}: {judged.rule}: {judged.finding.message}"
        for row in ROWS[start::8]
        if row["runs"]
        for judged in findings(row)
        if judged.level == "denied" or (judged.level == "likely" and judged.rule in MEMORY)
    ]

    assert wrong == []


def test_what_can_not_fit_is_found() -> None:
    missed = [
        f"{row['model']} on {row['count']} × {row['gpu']}, {row['release']}"
        for row in ROWS
        if not row["runs"] and not any(one.rule in MEMORY and one.level != "advice" for one in findings(row))
    ]

    assert missed == []


def test_there_is_enough_of_both() -> None:
    assert len(ROWS) >= 100
    assert sum(not row["runs"] for row in ROWS) >= 10
    assert len({row["gpu"] for row in ROWS}) >= 10
