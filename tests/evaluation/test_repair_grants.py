"""No repair replaces a number that an author wrote by a smaller one: what is granted stays granted."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from podfit.evaluation.lint import lint
from podfit.evaluation.policy import builtin
from podfit.evaluation.repair import repair
from podfit.kube import manifest
from podfit.kube.patch import Edit, edited, shrinks
from podfit.kube.path import FieldPath
from podfit.kube.quantity import try_parse
from podfit.kube.workload import JSON
from podfit.rules.probe_timing import window
from scripts.docs import beside
from tests.evaluation.test_repair import FILES, fixed

SIZES = ("memory", "cpu", "storage", "ephemeral-storage", "sizeLimit")
COUNTS = (
    "replicas", "minReplicas", "maxReplicas", "terminationGracePeriodSeconds", "progressDeadlineSeconds",
    "timeoutSeconds", "periodSeconds", "failureThreshold",
)  # fmt: skip
REMOVED = {
    "initial-delay-instead-of-startup-probe": 1,
    "invalid-flag-value": 1,
    "probe-wrong-port": 4,
    "shm-too-small": 1,
}
"""Lines that a repair of the rule takes away, with their comments."""
FLAGS = ("max_model_len", "max_num_seqs", "max_num_batched_tokens")


def numbers(value: Any, at: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], int]]:
    """Every size and count of an object, items of lists by their names, since lists grow."""
    if isinstance(value, dict):
        for key, inner in value.items():
            written = try_parse(inner) if key in (*SIZES, *COUNTS) or "/" in str(key) else None
            if written is not None:
                yield (*at, str(key)), written
            if key.endswith("Probe") and isinstance(inner, dict):
                first = value.get("startupProbe") if key == "livenessProbe" else None  # it holds the other back
                yield (*at, key, "window"), window(inner) + (window(first) if isinstance(first, dict) else 0)
            yield from numbers(inner, (*at, str(key)))
    elif isinstance(value, list):
        for n, inner in enumerate(value):
            name = inner.get("name") if isinstance(inner, dict) else None
            yield from numbers(inner, (*at, str(name or n)))


def granted(obj: JSON) -> dict[tuple[str, ...], int]:
    """What the author of an object grants: sizes, counts, windows, and lengths and sequences of vLLM's arguments."""
    found = dict(numbers(obj))
    for result in lint(obj, builtin(), facts=beside(manifest.read(b"", "x.yaml")), where="check").results:
        given = result.engine.args.given
        found |= {(result.engine.container.name, flag): given[flag] for flag in FLAGS if type(given.get(flag)) is int}
    return found


def generous(value: Any) -> Any:
    """The object with fifty times of all that is granted."""
    if isinstance(value, dict):
        out: dict[str, Any] = {}
        for key, inner in value.items():
            if key in SIZES and isinstance(inner, str) and (size := try_parse(inner)) is not None:
                out[key] = str(50 * size)
            elif key in COUNTS and type(inner) is int:
                out[key] = 50 * inner
            else:
                out[key] = generous(inner)
        return out
    return [generous(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
@pytest.mark.parametrize("times", [1, 50])
def test_a_repaired_object_grants_no_less(path: Path, times: int) -> None:
    read = manifest.read(path.read_bytes(), path.name)
    facts = beside(read)
    for document in read.documents:
        before = copy.deepcopy(document.object) if times == 1 else generous(document.object)
        after, _ = edited(before, [repair(before, builtin(), facts).edits])
        had, has = granted(before), granted(after)
        assert not {at: (number, has[at]) for at, number in had.items() if at in has and has[at] < number}


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_repaired_file_keeps_its_inline_comments(path: Path) -> None:
    lines = path.read_text().splitlines()
    marked = "\n".join(f"{line}  # line {n}" if _may_be_marked(line) else line for n, line in enumerate(lines)) + "\n"
    if _objects(marked) != _objects(path.read_text()):
        pytest.skip("the comments became part of a text")
    after = fixed(marked)
    lost = [n for n, line in enumerate(lines) if _may_be_marked(line) and f"# line {n}" not in after]
    assert len(lost) <= max(0, len(lines) - len(fixed(path.read_text()).splitlines())) + REMOVED.get(
        path.parent.name, 0
    )


def _objects(text: str) -> list[JSON]:
    return [one.object for one in manifest.read(text, "x.yaml").documents]


def _may_be_marked(line: str) -> bool:
    return bool(line.strip()) and "#" not in line and not line.rstrip().endswith(("|", ">", "|-", ">-"))


@pytest.mark.parametrize(
    ("path", "now", "new", "less"),
    [
        ("spec.startupProbe.failureThreshold", 360, 90, True),
        ("spec.startupProbe.failureThreshold", 90, 360, False),
        ("spec.resources.limits.memory", "25Gi", "16Gi", True),
        ("spec.resources.limits.memory", "25G", "24Gi", False),
        ("spec.volumes.emptyDir.sizeLimit", "32Gi", "17Gi", True),
        ("spec.terminationGracePeriodSeconds", 300, 60, True),
        ("spec.replicas", 3, 1, True),
        ("spec.startupProbe.httpGet.port", 8080, 8000, False),
        ("spec.value", "8080", "80", False),
    ],
)
def test_an_edit_that_takes_away_is_known(path: str, now: object, new: object, less: bool) -> None:
    parts = tuple(path.split("."))
    obj: Any = now
    for part in reversed(parts):
        obj = {part: obj}
    assert (shrinks(obj, (Edit(FieldPath(parts), new),)) is not None) is less


def test_items_that_stay_keep_their_comments_when_others_are_replaced_removed_and_split() -> None:
    text = """apiVersion: v1
kind: Pod
metadata: {name: x}
spec:
  containers:
  - name: vllm
    image: vllm/vllm-openai:v0.27.1
    args:
    - Qwen/Qwen3-8B  # the model
    - --enable-prefix-caching  # caching
    - "true"
    - "--max-num-seqs = 5"  # few
    - "--max-model-len=8192 --port=9000"  # both
    - --seed=1  # last
"""
    lines = fixed(text).splitlines()

    assert lines[7:14] == [
        "    args:",
        "    - Qwen/Qwen3-8B  # the model",
        "    - --enable-prefix-caching  # caching",
        '    - "--max-num-seqs=5"  # few',
        '    - "--max-model-len=8192"  # both',
        "    - --port=9000",
        "    - --seed=1  # last",
    ]
