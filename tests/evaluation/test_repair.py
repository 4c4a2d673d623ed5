"""After `podfit fix`, `podfit check` finds nothing that a fix exists for, and the file is the same elsewhere."""

from __future__ import annotations

import copy
import difflib
from pathlib import Path
from typing import Any

import pytest

from podfit.evaluation.lint import lint
from podfit.evaluation.policy import builtin
from podfit.evaluation.repair import repair
from podfit.kube import manifest
from podfit.kube.patch import Edit
from podfit.report.rewrite import rewrite
from podfit.vllm.facts import Facts
from scripts.docs import EXAMPLES, beside

ROOT = Path(__file__).parents[2]
FILES = sorted([*EXAMPLES.glob("*/bad*.yaml"), *ROOT.glob("tests/never_denied/*.yaml"), *ROOT.glob("examples/*.yaml")])


def fixed(text: str) -> str:
    """What `podfit fix` makes of a file."""
    read = manifest.read(text, "x.yaml")
    facts = beside(read)
    return rewrite(
        text, [(one.index, _rooted(one, repair(one.object, builtin(), facts).edits)) for one in read.documents]
    )


def _rooted(document: manifest.Document, edits: list[Edit]) -> list[Edit]:
    return [edit._replace(path=document.root.join(*edit.path.parts)) for edit in edits]


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_nothing_is_left_that_a_fix_exists_for(path: Path) -> None:
    before = path.read_text()
    after = fixed(before)

    read = manifest.read(after, path.name)
    facts = beside(read)
    reports = [lint(one.object, builtin(), facts, where="check") for one in read.documents]

    assert not read.errors
    assert [judged.rule for report in reports for judged in report.findings if judged.applies] == []
    assert fixed(after) == after
    _the_rest_is_the_same(before.splitlines(), after.splitlines())


def _the_rest_is_the_same(before: list[str], after: list[str]) -> None:
    lost = [line[2:] for line in difflib.ndiff(before, after) if line.startswith("- ")]
    comments = [line for line in before if line.lstrip().startswith("#")]
    assert not [line for line in lost if not line.strip()]
    assert [line for line in after if line.lstrip().startswith("#")] == comments
    assert len(lost) <= max(8, len(before) // 3)


def test_fixes_are_made_one_after_the_other(pod: dict[str, Any], container: dict[str, Any]) -> None:
    """Two engines in one Pod get a volume each, or share one; never two of a name."""
    container["args"] += ["--tensor-parallel-size", "2"]
    container["resources"]["limits"]["nvidia.com/gpu"] = "2"
    second = copy.deepcopy(container) | {"name": "second", "args": [*container["args"], "--port", "8001"]}
    pod["spec"]["containers"].append(second)

    edits = repair(pod, builtin(), Facts()).edits
    volumes = [edit.value["name"] for edit in edits if edit.path.parts[-1] == "volumes"]

    assert volumes
    assert len(volumes) == len(set(volumes))


def test_a_review_makes_few_repairs_of_many_containers(pod: dict[str, Any], container: dict[str, Any]) -> None:
    """Each repair evaluates all of them again, and a review must end in time."""
    container["args"] = [*container["args"], "-tp", "2"]
    container["resources"]["limits"]["nvidia.com/gpu"] = "2"
    pod["spec"]["containers"] = [container | {"name": f"a{n}"} for n in range(100)]
    assert len(repair(pod, builtin(), Facts(), where="admission").repairs) == 2
    pod["spec"]["containers"] = [container | {"name": f"a{n}"} for n in range(4)]
    assert len(repair(pod, builtin(), Facts(), where="admission").repairs) >= 4


def test_only_the_rules_that_are_asked_for(pod: dict[str, Any], container: dict[str, Any]) -> None:
    del container["resources"]["limits"]["memory"]
    del container["startupProbe"]

    assert {edit.path.parts[-1] for edit in repair(pod, builtin(), Facts(), rules=["startup-probe-missing"]).edits} == {
        "startupProbe"
    }
