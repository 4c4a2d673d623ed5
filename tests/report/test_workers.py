"""A worker that joins an engine has that engine's model, planned on its own GPU."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from podfit.base.secret import Secrets
from podfit.evaluation.lint import Result, lint
from podfit.evaluation.policy import builtin
from podfit.report.answers import reason_unanswered
from podfit.report.text import summary
from podfit.vllm.facts import Facts

SERVE = "vllm serve Qwen/Qwen2.5-32B-Instruct --max-model-len 8192 --tensor-parallel-size 4 --pipeline-parallel-size 2"
JOIN = "ray start --address=$(LWS_LEADER_ADDRESS):6379 --block"


def template(script: str, gpu: str | None = None) -> dict[str, Any]:
    """A Pod template with one container."""
    container = {
        "name": "vllm",
        "image": "vllm/vllm-openai:v0.11.0",
        "command": ["bash", "-c"],
        "args": [script],
        "resources": {"limits": {"nvidia.com/gpu": 4}},
    }
    selector = {"nodeSelector": {"nvidia.com/gpu.product": gpu}} if gpu else {}
    return {"spec": {"containers": [container], **selector}}


def group(leader: dict[str, Any], worker: dict[str, Any]) -> dict[str, Any]:
    """A LeaderWorkerSet of two Pods."""
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "x"},
        "spec": {"leaderWorkerTemplate": {"size": 2, "leaderTemplate": leader, "workerTemplate": worker}},
    }


def cluster(head: dict[str, Any], *workers: dict[str, Any]) -> dict[str, Any]:
    """A RayCluster."""
    groups = [{"groupName": str(n), "replicas": 1, "template": one} for n, one in enumerate(workers)]
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "x"},
        "spec": {"headGroupSpec": {"template": head}, "workerGroupSpecs": groups},
    }


def results(obj: dict[str, Any]) -> tuple[Result, ...]:
    return lint(yaml.safe_load(yaml.safe_dump(obj)), builtin(), Facts(plans_table=True)).results


HEAD = f"ray start --head && {SERVE}"


@pytest.mark.parametrize(
    "obj",
    [
        group(template(HEAD), template(JOIN)),
        cluster(template(HEAD), template(JOIN)),
        cluster(template(HEAD), template(JOIN), template(JOIN)),
    ],
    ids=["LeaderWorkerSet", "RayCluster", "two groups"],
)
def test_a_worker_has_the_partition_of_its_leader(obj: dict[str, Any]) -> None:
    leader, *workers = (one.engine for one in results(obj))
    assert leader.gpus is not None
    for worker in workers:
        assert worker.leader is leader
        assert worker.gpus is not None
        assert worker.gpus.gpus == leader.gpus.gpus
        assert reason_unanswered(worker) is None


@pytest.mark.parametrize(("gpu", "verdict"), [("NVIDIA-H100-80GB-HBM3", "fits"), ("Tesla-P4", "does-not-fit")])
def test_a_worker_is_planned_on_its_own_gpu(gpu: str, verdict: str) -> None:
    _, worker = (one.engine for one in results(group(template(HEAD, "NVIDIA-L40S"), template(JOIN, gpu))))
    assert worker.plan.verdict == verdict
    assert summary(worker, Secrets()).startswith("joins Qwen/Qwen2.5-32B-Instruct on 4 × ")


def test_no_rule_about_arguments_speaks_of_a_worker() -> None:
    _, worker = results(group(template(HEAD, "Tesla-P4"), template(JOIN, "Tesla-P4")))
    assert not {"gpu-memory-exceeded", "max-model-len-unset"} & {one.rule for one in worker.findings}


def test_without_one_leader_the_model_is_unknown() -> None:
    other = template("ray start --address=x && " + SERVE.replace("32B", "14B"))
    of_two = cluster(template(HEAD), other, template(JOIN))
    workers = [one.engine for one in results(of_two) if one.engine.command.entry == "worker"]
    assert [one.leader for one in workers] == [None]
    assert [reason_unanswered(one) for one in workers] == ["Ray worker"]


def test_the_nearest_engine_leads() -> None:
    """Prefill and decode of one object are separate groups."""
    jobs = [
        {"name": name, "template": {"spec": {"template": template(script)}}}
        for name, script in (("a", HEAD), ("b", HEAD.replace("32B", "14B")))
    ]
    for job in jobs:
        join = template(JOIN)["spec"]["containers"][0] | {"name": "worker"}
        job["template"]["spec"]["template"]["spec"]["containers"].append(join)  # type: ignore[index]
    obj = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "x"},
           "spec": {"replicatedJobs": jobs}}  # fmt: skip
    workers = [one.engine for one in results(obj) if one.engine.command.entry == "worker"]
    models = [one.leader.args.model for one in workers if one.leader]
    assert models == ["Qwen/Qwen2.5-32B-Instruct", "Qwen/Qwen2.5-14B-Instruct"]
