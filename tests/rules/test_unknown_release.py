"""Images whose release is not known: what the releases that they may contain reject, and how certain that is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from podfit.evaluation import denial
from podfit.evaluation.lint import GradedFinding, lint
from podfit.evaluation.policy import builtin
from podfit.rules import all_rules, releases
from podfit.rules.engine import Engine
from podfit.rules.reading import supposing
from podfit.rules.rule import Finding, Rule
from podfit.vllm import release
from podfit.vllm.facts import Facts
from podfit.vllm.release import Release

LATEST = "vllm/vllm-openai:latest"
DIGEST = f"vllm/vllm-openai@sha256:{'0' * 64}"
NIGHTLY = "vllm/vllm-openai:nightly-3f5a1e1733200760169ff31ebe60a271072b199e"
PRIVATE = "registry.example/ml/vllm:prod"


def judged(pod: dict[str, Any], image: str, *args: str, gpus: int = 1) -> dict[str, GradedFinding]:
    """Rule → its finding."""
    pod["spec"]["nodeSelector"] = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    container = pod["spec"]["containers"][0]
    container.update(image=image, args=["--model", "Qwen/Qwen3-8B", *args])
    container["resources"] = {"limits": {"nvidia.com/gpu": str(gpus), "memory": "640Gi"}}
    report = lint(pod, builtin(), Facts(), where="check")
    assert not report.errors
    return {one.rule: one for one in report.findings}


@pytest.mark.parametrize(
    ("args", "rule", "latest", "others", "since"),
    [
        # no release of the last twelve months takes it, older ones do
        ("--limit-mm-per-prompt image=4", "invalid-flag-value", "likely", "advice", "0.10.0"),
        ("--num-scheduler-steps 8", "removed-flag", "likely", "advice", "0.10.1.1"),
        ("--enable-eplb", "conflicting-flags", "likely", "advice", "0.10.0"),
        # some of the last twelve months take it
        ("--swap-space 4", "removed-flag", "advice", "advice", "0.18.0"),
        ('--compilation-config {"level":3}', "unknown-config-key", "advice", "advice", "0.18.0"),
        # no release takes it
        ("--max-model-len 1000000", "max-model-len-too-long", "likely", "likely", None),
        ("--max-num-seqs 1k", "invalid-flag-value", "likely", "likely", None),
        ("--max-modle-len 8", "unknown-flag", "likely", "likely", None),
        ("--dtype fp16", "invalid-flag-value", "likely", "likely", None),
        # no release knows the name, a newer one may
        ("--enable-frobnication", "unknown-flag", "advice", "advice", None),
        ("--kv-cache-dtype fp9", "invalid-flag-value", "advice", "advice", None),
        ("--dtype fp99", "invalid-flag-value", "advice", "advice", None),
    ],
)
def test_a_rejection_counts_for_the_releases_that_an_image_may_contain(
    pod: dict[str, Any], args: str, rule: str, latest: str, others: str, since: str | None
) -> None:
    for image, level in ((LATEST, latest), ("vllm/vllm-openai", latest), (DIGEST, others), (NIGHTLY, others)):
        found = judged(pod, image, *args.split())[rule]
        assert (image, found.level, found.finding.certainty != "certain") == (image, level, True)
        which = f"rejected since vLLM {since}" if since else "every vLLM release that is known rejects it"
        assert found.finding.details[-1] == which


@pytest.mark.parametrize("image", [LATEST, DIGEST, NIGHTLY, PRIVATE])
def test_what_the_newest_release_accepts_is_no_finding(pod: dict[str, Any], image: str) -> None:
    found = judged(pod, image, "--limit-mm-per-prompt", '{"image": 4}', "--max-model-len", "8192", "--enable-dbo")
    assert found.keys() & {"invalid-flag-value", "removed-flag", "unknown-flag"} == set()
    assert judged(pod, image, "--max-model-len", "8192").keys() & {"conflicting-flags", "invalid-flag-value"} == set()


@pytest.mark.parametrize(("image", "level"), [(LATEST, "likely"), (DIGEST, "advice")])
def test_several_ranks_without_shared_memory(pod: dict[str, Any], image: str, level: str) -> None:
    pod["spec"]["volumes"] = []
    pod["spec"]["containers"][0]["volumeMounts"] = []
    assert judged(pod, image, "--tensor-parallel-size", "2", gpus=2)["shm-missing"].level == level


def test_the_last_twelve_months_end_with_the_newest_release_that_was_read() -> None:
    recent = sorted(release.last_year())
    assert recent[0] == Release(0, 11, 1)
    assert recent[-1] == release.newest_read()


@pytest.mark.parametrize(
    ("image", "within"),
    [
        ("aibrix/vllm-openai:aibrix-kvcache-v0.8.5-20250520", "0.8.5"),
        ("aibrix/vllm-openai:lmcache-v0.8.5.post1-20250418", "0.8.5.post1"),
        ("acme/ray-2.41.0-py310-cu118-vllm0.7.0:prod", "0.7.0"),
        ("acme/vllm-v0.6.3", "0.6.3"),
        ("aibrix/vllm-openai:v0.6.1-edb07092-20250118", None),  # a build of a commit
        ("acme/vllm-openai:ours-v0.8.5-nixl-0.7.1", None),  # which of them?
        ("acme/serving:ours-v0.8.5-1", None),  # its own number
        ("lmcache/vllm-openai:lmcache-v0.3.1-1", None),
        ("vllm/vllm-omni:beta-v0.20.0-1", None),
        (LATEST, None),
    ],
)
def test_a_release_in_a_part_of_the_name_informs(pod: dict[str, Any], image: str, within: str | None) -> None:
    found = release.named_within(image)
    assert (str(found) if found else None) == within


def test_a_release_in_a_part_of_the_name_denies_nothing_that_vllm_decides(pod: dict[str, Any]) -> None:
    image = "aibrix/vllm-openai:aibrix-kvcache-v0.8.5-20250520"
    found = judged(pod, image, "--max-num-batched-tokens", "128", "--max-num-seqs", "256", "--enable-eplb")
    assert found["removed-flag"].level == found["conflicting-flags"].level == "likely"
    assert "new in 0.9.2" in found["removed-flag"].finding.message
    assert "denied" not in {one.level for one in found.values()}
    assert judged(pod, image).keys() & {"invalid-flag-value"} == set()  # its entrypoint is the module's


@pytest.mark.parametrize(
    ("args", "tag"),
    [
        ("", "v0.31.0"),
        ("--num-scheduler-steps 8", None),  # Qwen3 is newer than the releases that know it
        ("--swap-space 4", "v0.17.1"),
        ("--max-modle-len 8", "v0.31.0"),  # no release helps
    ],
)
def test_the_proposed_tag_is_of_a_release_without_a_failure_here(
    pod: dict[str, Any], args: str, tag: str | None
) -> None:
    (text,) = judged(pod, LATEST, *args.split())["unpinned-image"].suggestions
    assert f"vllm/vllm-openai:{tag}," in text or tag is None
    if tag is None:
        named = text.partition(":v")[2].partition(",")[0]
        assert judged(pod, f"vllm/vllm-openai:v{named}", *args.split()).keys().isdisjoint({"removed-flag"})


def test_a_tag_is_proposed_only_where_it_is_shown(monkeypatch: pytest.MonkeyPatch, pod: dict[str, Any]) -> None:
    monkeypatch.setattr(releases, "proposed", lambda _: pytest.fail("proposed"))
    pod["spec"]["containers"][0]["image"] = LATEST

    warnings = denial.warnings(lint(pod, builtin(), Facts()))

    assert [one for one in warnings if one.startswith("podfit unpinned-image: image 'vllm/vllm-openai:latest'")]


def test_a_rule_that_raises_leaves_the_proposed_tag(monkeypatch: pytest.MonkeyPatch, pod: dict[str, Any]) -> None:
    def broken(self: Rule, engine: Engine) -> Iterator[Finding]:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(all_rules()["removed-flag"], "check", broken)
    pod["spec"]["containers"][0]["image"] = LATEST

    report = lint(pod, builtin(), Facts())

    (found,) = [one for one in report.findings if one.rule == "unpinned-image"]
    assert "vllm/vllm-openai:v0." in found.finding.suggestions[0]
    assert [one.rule for one in report.errors] == ["removed-flag"]


def test_the_cost_of_older_releases_is_bounded(monkeypatch: pytest.MonkeyPatch, pod: dict[str, Any]) -> None:
    """Each container of an object has its own arguments; only the first ones are read by all releases."""
    read: list[Release] = []

    def counted(engine: Engine, release: Release, *, suggests: bool = False) -> Engine:
        read.append(release)
        return supposing(engine, release, suggests=suggests)

    monkeypatch.setattr("podfit.rules.releases.supposing", counted)
    container = pod["spec"]["containers"][0]
    container.update(image=DIGEST, args=["--model", "Qwen/Qwen3-8B", "--num-scheduler-steps", "8"])
    pod["spec"]["containers"] = [{**container, "name": f"c{n}"} for n in range(100)]
    report = lint(pod, builtin(), Facts(), where="check")

    assert len([one for one in report.findings if one.rule == "removed-flag"]) == 100
    assert len(read) <= 100 + releases.MAX_READINGS_PER_OBJECT


@pytest.mark.parametrize(
    ("tag", "reported"), [("v0.6.1-edb07092", False), ("20250310", False), ("v0.20.1-edb07092", True), ("prod", True)]
)
def test_a_tag_near_a_release_silences_advice_that_the_release_does_not_have(
    pod: dict[str, Any], tag: str, reported: bool
) -> None:
    found = judged(pod, f"acme/vllm-openai:{tag}", "--swap-space", "4")

    assert ("removed-flag" in found) == reported


def test_a_tag_near_a_release_silences_nothing_that_each_release_rejects(pod: dict[str, Any]) -> None:
    assert (
        judged(pod, "acme/vllm-openai:v0.6.1-edb07092", "--max-num-seqs", "1k")["invalid-flag-value"].level == "likely"
    )


def test_options_of_a_fork_for_another_accelerator_are_its_own(pod: dict[str, Any]) -> None:
    pod["spec"]["containers"][0].update(image="acme/vllm-fork:1.4", args=["--model", "Qwen/Qwen3-8B", "--swap-space=4"])
    pod["spec"]["containers"][0]["resources"] = {"limits": {"habana.ai/gaudi": "1"}}

    assert "removed-flag" not in {one.rule for one in lint(pod, builtin(), Facts(), where="check").findings}


@pytest.mark.parametrize(("image", "level"), [(LATEST, "likely"), (DIGEST, "advice")])
def test_several_ranks_with_too_little_shared_memory(pod: dict[str, Any], image: str, level: str) -> None:
    pod["spec"]["volumes"] = [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "128Mi"}}]
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "shm", "mountPath": "/dev/shm"}]
    assert judged(pod, image, "--tensor-parallel-size", "2", gpus=2)["shm-too-small"].level == level


@pytest.mark.parametrize(
    ("args", "tag"),
    [
        ("--tensor-parallel-size 2", "v0.26.0"),  # later ones check /dev/shm
        ("--tensor-parallel-size 2 --swap-space 4", "v0.17.1"),
        ("--tensor-parallel-size 2 --distributed-executor-backend ray", "v0.31.0"),  # it has no rings
        ("--tensor-parallel-size 1", "v0.31.0"),
    ],
)
def test_the_proposed_tag_starts_without_shared_memory(pod: dict[str, Any], args: str, tag: str) -> None:
    pod["spec"]["volumes"] = []
    pod["spec"]["containers"][0]["volumeMounts"] = []
    (text,) = judged(pod, LATEST, *args.split(), gpus=2)["unpinned-image"].suggestions
    assert f"vllm/vllm-openai:{tag}," in text
