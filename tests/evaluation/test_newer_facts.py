"""Facts that are newer than podfit: they inform, and deny or patch only what the packaged ones do, or if trusted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from podfit.base import data, facts_set
from podfit.base.data import Tables
from podfit.evaluation import review
from podfit.evaluation.lint import Report, lint
from podfit.evaluation.policy import Policy, PolicyError, builtin, load
from podfit.kube import manifest
from podfit.rules import all_rules
from podfit.vllm import gpu
from podfit.vllm.facts import Facts
from scripts.facts.table import DATA
from tests.conftest import GOOD_POD
from tests.facts import sets
from tests.reviews import admission_review, without_shm

RULES = Path(__file__).parent.parent / "rules"


def policy(spec: str) -> Policy:
    """A policy file's."""
    head = "apiVersion: podfit.dev/v1alpha1\nkind: Policy\nmetadata: {name: mine}\nspec: "
    return load([("policy.yaml", f"{head}{spec}\n")])


TRUSTING = policy("{trustFacts: true}")
REPAIRING = policy(f"{{rules: {{{', '.join(f'{rule}: {{fix: true}}' for rule in all_rules())}}}}}")
"""Each rule that has a fix patches."""


def pod(model: str) -> dict[str, Any]:
    """A Pod that serves a model on one L4."""
    container = {
        "name": "vllm",
        "image": "vllm/vllm-openai:v0.11.0",
        "args": ["--model", model, "--max-model-len", "8192"],
        "resources": {"limits": {"nvidia.com/gpu": "1", "memory": "320Gi"}},
    }
    spec = {"containers": [container], "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-L4"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "chat"}, "spec": spec}


def judged(model: str, tables: Tables, under: Policy) -> tuple[bool, set[str]]:
    """Whether the Pod is denied, and the rules that are shown."""
    report = lint(pod(model), under, Facts(tables=tables))
    assert not report.errors
    return report.denied, {one.rule for one in report.findings if one.shown}


def test_a_model_that_only_a_newer_set_knows_is_warned_about_and_denied_if_the_set_is_trusted() -> None:
    newer = sets.tables(sets.NEW, sets.LARGE)
    report = lint(pod(sets.NEW), builtin(), Facts(tables=newer))
    (found,) = [one for one in report.findings if one.rule == "gpu-memory-exceeded"]

    assert "gpu-memory-exceeded" not in judged(sets.NEW, data.PACKAGED, builtin())[1]
    assert (report.denied, found.mode) == (False, "warn")
    assert found.why_softened == "rests on the facts newer, which inform unless the policy says trustFacts"
    assert judged(sets.NEW, newer, TRUSTING)[0]


def test_what_both_sets_deny_is_denied() -> None:
    assert judged(sets.LARGE, sets.tables(sets.NEW, sets.LARGE), builtin())[0]


@pytest.mark.parametrize("under", [builtin(), TRUSTING])
def test_a_set_that_corrects_the_packaged_one_is_heard(under: Policy) -> None:
    """A model that is small after all is not denied."""
    assert judged(sets.LARGE, data.PACKAGED, under)[0]
    assert not judged(sets.LARGE, sets.tables(sets.LARGE, sets.SMALL), under)[0]


def test_a_shadow_policy_trusts_for_itself() -> None:
    text = (
        "apiVersion: podfit.dev/v1alpha1\nkind: Policy\nmetadata: {name: s}\nspec: {shadow: true, trustFacts: true}\n"
    )
    report = lint(pod(sets.NEW), load([("s.yaml", text)]), Facts(tables=sets.tables(sets.NEW, sets.LARGE)))

    assert not report.denied
    assert [one.denied for one in report.shadows] == [True]


def test_a_gpu_that_was_given_by_a_changed_entry_denies_nothing() -> None:
    newer = sets.tables(sets.NEW, sets.LARGE)
    (row,) = [one for one in newer.load("gpus")["products"] if one["name"] == "NVIDIA L4"]
    row |= {"memory": 1 << 30, "memory_high": 1 << 30}
    with data.using(newer):
        tiny = gpu.parse("l4:1")
    obj = pod(sets.SMALL)
    del obj["spec"]["nodeSelector"]

    assert lint(obj, TRUSTING, Facts(tables=newer, gpu=tiny)).denied
    assert not lint(obj, builtin(), Facts(tables=newer, gpu=tiny)).denied


def consequences(report: Report) -> list[object]:
    """What follows from a report."""
    return [(one.rule, one.mode, one.applies, one.finding, one.why_softened) for one in report.findings]


@pytest.mark.parametrize("where", ["admission", "check"])
def test_a_set_that_says_the_same_decides_the_same(where: Any) -> None:
    """Over every example of every rule: denials and patches too, for the packaged facts agree."""
    same = sets.tables(sets.SMALL, sets.SMALL)
    denied = patched = 0
    for path in sorted(RULES.glob("*/*.yaml")):
        for document in manifest.read(path.read_bytes(), path.name).documents:
            packaged = lint(document.object, REPAIRING, Facts(), where=where)
            report = lint(document.object, REPAIRING, Facts(tables=same), where=where)
            assert consequences(report) == consequences(packaged), path
            denied += report.denied
            patched += bool(report.edits)
    assert denied > 50
    assert patched > 20


def test_the_audit_annotations_name_the_set() -> None:
    newer = Facts(tables=sets.tables(sets.NEW, sets.LARGE, "2026-12"))
    request = review.parse(json.dumps(admission_review(without_shm(GOOD_POD))).encode())

    said = review.validate(request, builtin(), newer)["response"]["auditAnnotations"]
    assert (said["facts-set"], said["facts-version"]) == ("2026-12", newer.version)
    assert "facts-set" not in review.validate(request, builtin(), Facts())["response"]["auditAnnotations"]
    assert review.mutate(request, builtin(), newer)["response"]["patch"]


def with_gpu(name: str, like: str) -> Tables:
    """The packaged tables and one more GPU."""
    files = {table: (DATA / f"{table}.json").read_bytes() for table in facts_set.NAMES}
    found = json.loads(files["gpus"])
    row = next(one for one in found["products"] if one["name"] == like)
    found["products"].append({**row, "name": name, "names": {"smi": [name]}})
    files["gpus"] = json.dumps(found).encode()
    named = {f"{table}.json": content for table, content in files.items()}
    return facts_set.of_files(named | {facts_set.DIGESTS: facts_set.digests(files, "newer").encode()})


def test_a_policy_assumes_a_gpu_that_only_the_set_knows() -> None:
    newer = with_gpu("NVIDIA L5", "NVIDIA L4")
    text = "apiVersion: podfit.dev/v1alpha1\nkind: Policy\nmetadata: {name: p}\nspec: {assume: {gpu: NVIDIA L5}}\n"
    with pytest.raises(PolicyError, match="no GPU is known by the name 'NVIDIA L5'"):
        load([("p.yaml", text)])
    with data.using(newer):
        policy = load([("p.yaml", text)])
    obj = pod(sets.LARGE)
    del obj["spec"]["nodeSelector"]

    by_set, by_package = (lint(obj, policy, Facts(tables=one)) for one in (newer, data.PACKAGED))

    assert "gpu-memory-exceeded" in {one.rule for one in by_set.findings if one.shown}
    assert not by_set.denied
    assert "gpu-memory-exceeded" not in {one.rule for one in by_package.findings}
