"""The closing line of `podfit check`: how many containers have an answer about GPU memory, and why others have none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from podfit.cli import main


def pod(args: str, limits: str, image: str = "vllm/vllm-openai:v0.27.1", more: str = "") -> str:
    return f"""apiVersion: v1
kind: Pod
metadata: {{name: a}}
spec:
  {more}
  containers: [{{name: vllm, image: "{image}", args: [{args}], resources: {{limits: {{{limits}}}}}}}]
"""


GPU = "nvidia.com/gpu: 1"
KNOWN = "Qwen/Qwen3-8B, --max-model-len, '8192'"
NAMED = pod(KNOWN, GPU, more="nodeSelector: {nvidia.com/gpu.product: NVIDIA-L40S}")
RUNTIME = """apiVersion: serving.kserve.io/v1alpha1
kind: ServingRuntime
metadata: {name: vllm}
spec:
  containers:
  - name: kserve-container
    image: vllm/vllm-openai:v0.27.1
    args: [--model=/mnt/models]
    resources: {limits: {nvidia.com/gpu: 1}}
"""


@pytest.fixture(name="checked")
def _checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Checks objects in one file, and returns the JSON's `unanswered` and the text's closing lines."""

    def run(*objects: str) -> tuple[dict[str, int], str]:
        path = tmp_path / "all.yaml"
        path.write_text("---\n".join(objects))
        main(["check", "--no-config", "--format", "json", str(path)])
        unanswered: dict[str, int] = json.loads(capsys.readouterr().out)["unanswered"]
        main(["check", "--no-config", str(path)])
        closing = [line for line in capsys.readouterr().out.split("\n") if line.startswith("GPU memory: ")]
        return unanswered, "".join(closing)

    return run


@pytest.mark.parametrize(
    ("obj", "reason"),
    [
        (pod(KNOWN, GPU), None),
        (NAMED, None),
        (pod("nobody/knows-it", GPU), "unknown model"),
        (pod(KNOWN, "google.com/tpu: 8"), "TPU"),
        (pod(KNOWN, "aws.amazon.com/neuron: 1"), "another accelerator"),
        (pod(KNOWN, "memory: 64Gi", image="vllm/vllm-openai-cpu:v0.27.1"), "CPU"),
        (RUNTIME, "runtime template"),
    ],
)
def test_a_container_without_an_answer_has_a_reason(checked: Any, obj: str, reason: str | None) -> None:
    assert checked(obj)[0] == ({reason: 1} if reason else {})


def test_the_last_line_counts_them_and_says_what_to_add(checked: Any) -> None:
    _, line = checked(pod(KNOWN, GPU), NAMED, pod(KNOWN, "google.com/tpu: 8"))

    assert line == (
        "GPU memory: known for 2 of 3 containers; unknown for 1 (TPU); 1 without a named GPU: add `nodes:` to "
        "podfit.yaml (docs/nodes.md)"
    )
    assert checked(NAMED)[1] == ""


def test_described_nodes_that_do_not_match_are_not_asked_for_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pod.yaml").write_text(pod(KNOWN, GPU, more="nodeSelector: {pool: big}"))
    (tmp_path / "nodes.yaml").write_text("kinds: [{gpu: l4}]")

    main(["check", "--no-config", "--nodes", str(tmp_path / "nodes.yaml"), str(tmp_path / "pod.yaml")])

    printed = capsys.readouterr().out
    assert "no known node can run it: no node has pool=big" in printed
    assert "add `nodes:`" not in printed
