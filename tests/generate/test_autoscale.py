"""`podfit plan -o hpa` and `-o keda`: autoscalers that follow vLLM's load, and pass our own rules."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from podfit.cli import main
from podfit.cli.support.edge import accelerator
from podfit.evaluation.lint import lint
from podfit.evaluation.policy import builtin, load
from podfit.generate import autoscale
from podfit.kube import companions, manifest
from podfit.kube.companions import Companions
from podfit.report.command_line import judged_as
from podfit.rules.engine import Engine
from podfit.rules.operations import _scaling
from podfit.vllm.facts import Facts
from podfit.vllm.release import Release

STRICT = Path(__file__).parents[2] / "policies" / "strict.yaml"
AUTOSCALERS = {"hpa": "HorizontalPodAutoscaler", "keda": "ScaledObject"}


def engine(words: str, gpu: str = "l40s", release: str = "0.33.0") -> Engine:
    (result,) = judged_as(words.split(), release, Facts(gpu=accelerator(gpu)), builtin()).results
    return result.engine


def written(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[str, list[dict[str, Any]]]:
    assert main(["plan", *argv]) == 0
    text = capsys.readouterr().out
    return text, list(yaml.safe_load_all(text))


@pytest.mark.parametrize("output", AUTOSCALERS)
@pytest.mark.parametrize(
    "argv",
    [
        ("Qwen/Qwen3-14B", "--context", "16384", "--users", "20", "-n", "chat"),
        ("meta-llama/Llama-3.3-70B-Instruct", "--context", "32768", "--users", "90"),
        ("--gpu", "h100:2", "--", "vllm", "serve", "Qwen/Qwen3-32B", "-tp", "2", "--max-model-len", "32k"),
    ],
    ids=lambda argv: argv[0],
)
def test_our_strictest_policy_has_nothing_to_say(
    output: str, argv: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    split = argv.index("--") if "--" in argv else len(argv)
    text, made = written(capsys, *argv[:split], "-o", output, *argv[split:])
    kinds = [one["kind"] for one in made]
    assert kinds == ["PersistentVolumeClaim", "Service", "PodDisruptionBudget", "Deployment", AUTOSCALERS[output]]

    read = manifest.read(text, "made.yaml")
    held = Companions(tuple(one.object for one in read.documents), is_complete=True)
    report = lint(made[3], load([(str(STRICT), STRICT.read_text())]), Facts(companions=held), where="check")

    assert [judged.finding for result in report.results for judged in result.findings] == []
    workload = report.results[0].engine.workload
    (scaler,) = held.autoscalers(workload)
    assert scaler["kind"] == AUTOSCALERS[output]
    assert [name for name, _ in _scaling.metrics(scaler)] == {"hpa": ["Pods"] * 2, "keda": ["prometheus"] * 2}[output]


def test_the_autoscaler_alone_says_how_many_replicas_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    _, made = written(capsys, "Qwen/Qwen3-14B", "--context", "16384", "--users", "90", "--gpu", "l40s", "-o", "hpa")
    _, plain = written(capsys, "Qwen/Qwen3-14B", "--context", "16384", "--users", "90", "--gpu", "l40s", "-o", "yaml")
    asked = plain[-1]["spec"]["replicas"]

    assert "replicas" not in made[3]["spec"]
    assert companions.replicas(made[4]) == (max(2, asked), 2 * max(2, asked))


@given(
    length=st.sampled_from([2048, 8192, 32768, 40960]),
    gpu=st.sampled_from(["l4", "a10g", "l40s", "a100-80gb", "h100"]),
    seqs=st.none() | st.integers(1, 512),
)
def test_the_targets_leave_room_and_act_before_the_alerts(length: int, gpu: str, seqs: int | None) -> None:
    limit = f" --max-num-seqs {seqs}" if seqs else ""
    one = engine(f"vllm serve Qwen/Qwen3-8B --max-model-len {length}{limit}", gpu)
    many = one.plan.gpu.max_concurrency if one.plan.gpu else None
    if many is None or many < 1:
        with pytest.raises(ValueError, match="would not start"):
            autoscale.scaling_targets(one)
        return
    wanted = autoscale.scaling_targets(one)

    assert 1 <= wanted.waiting <= 5 < 10, "VLLMRequestsWaiting fires above 10"
    assert 0.5 <= wanted.usage <= 0.8 < 0.9, "VLLMKVCacheNearlyFull fires above 0.9"
    if many >= 2:
        assert wanted.usage <= 1 - 1 / many + 1e-9, "one more request of the full length has room"
    if seqs:
        assert wanted.waiting <= max(1, seqs // 4)
    assert one.plan.startup is not None
    assert wanted.window >= max(600, one.plan.startup.high), "a replica that went is missed for a whole start"


@pytest.mark.parametrize(
    ("release", "name"),
    [
        ("0.6.6", "vllm:gpu_cache_usage_perc"),
        ("0.10.1", "vllm:gpu_cache_usage_perc"),
        ("0.10.2", "vllm:kv_cache_usage_perc"),
        ("0.33.0", "vllm:kv_cache_usage_perc"),
    ],
)
def test_the_metric_has_the_name_that_the_release_gives_it(
    release: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert autoscale.usage_metric(Release(*map(int, release.split(".")))) == name
    asked = ("--gpu", "l4", "--vllm-version", release)
    for output in AUTOSCALERS:
        text, _ = written(
            capsys, *asked, "-o", output, "--", "vllm", "serve", "Qwen/Qwen2.5-7B-Instruct", "--max-model-len", "8192"
        )
        assert set(re.findall(r"vllm:\w+", text)) == {name, "vllm:num_requests_waiting"}


def test_a_namespace_is_in_objects_and_queries_of_a_command_line_too(capsys: pytest.CaptureFixture[str]) -> None:
    text, made = written(
        capsys,
        "--gpu",
        "l4",
        "-n",
        "chat",
        "-o",
        "keda",
        "--",
        "vllm",
        "serve",
        "Qwen/Qwen3-8B",
        "--max-model-len",
        "4k",
    )

    assert {one["metadata"]["namespace"] for one in made} == {"chat"}
    assert text.count('{namespace="chat",pod=~') == 2


def test_without_the_numbers_nothing_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    command = ("--", "vllm", "serve", "Qwen/Qwen3-32B")

    assert main(["plan", "--gpu", "l4", "-o", "hpa", *command]) == 2
    assert "vLLM would not start" in capsys.readouterr().err
    assert main(["plan", "-o", "keda", *command]) == 2
    assert "how many requests one replica holds is not known" in capsys.readouterr().err
