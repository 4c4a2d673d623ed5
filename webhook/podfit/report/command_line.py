"""A command line of vLLM's, evaluated without a manifest: as the only container of a Pod."""

from __future__ import annotations

from typing import Any

from podfit.evaluation.lint import GradedFinding, Report, lint
from podfit.evaluation.policy import Policy
from podfit.report import json as as_json
from podfit.report import plan as as_plan
from podfit.vllm import gpu, release
from podfit.vllm.facts import Facts

SPOKEN_OF = ("command", "args", "resources")
"""Fields of the made-up container that a command line speaks of; a plan says nothing of probes, volumes and limits."""


def judged_as(
    argv: list[str],
    version: str | None,
    facts: Facts,
    policy: Policy,
    namespace: str | None = None,
    resource: tuple[str, int] | None = None,
) -> Report:
    """The command line evaluated as the only container of a Pod. `resource`: the devices that it requests, and how
    many, if the GPU has no name."""
    known = release.parse(version) if version else None
    if facts.gpu is not None and facts.gpu.count:
        maker = min(gpu.maker.of_gpus(facts.gpu.gpus))
        resource = gpu.maker.RESOURCES[maker], facts.gpu.count
    image = "vllm/vllm-openai-rocm" if resource and resource[0].startswith("amd.com/") else "vllm/vllm-openai"
    container: dict[str, Any] = {"name": "vllm", "image": f"{image}:v{known}" if known else image, "command": argv}
    if resource is not None:
        container["resources"] = {"limits": {resource[0]: str(resource[1])}}
    metadata = {"name": "plan", **({"namespace": namespace} if namespace else {})}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}
    return lint(pod, policy, facts, where="check")


def is_spoken_of(finding: GradedFinding) -> bool:
    """True if a finding is shown, and about something that a command line says."""
    return (
        finding.is_reported and finding.plane != "host" and any(part in SPOKEN_OF for part in finding.field_path.parts)
    )


def tree(report: Report) -> dict[str, Any]:
    """The plan and the findings of a report of `judged_as`, as JSON."""
    (result,) = report.results
    findings = [as_json.finding(report, finding) for finding in result.findings if is_spoken_of(finding)]
    return {**as_plan.tree(result.engine, report.secrets), "findings": findings}
