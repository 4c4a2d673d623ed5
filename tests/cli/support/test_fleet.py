"""`--nodes`: the nodes that a repository knows, as Node objects or as a short list of kinds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from podfit.cli import main
from podfit.cli.support import fleet
from podfit.cli.support.edge import UnusableError
from podfit.cli.support.fleet_model import Fleet
from podfit.vllm import gpu

ROOT = Path(__file__).parents[3]
SCHEMA = ROOT / "docs" / "schemas" / "nodes.json"
POD = """apiVersion: v1
kind: Pod
metadata: {name: llama}
spec:
  %s
  containers:
  - name: vllm
    image: vllm/vllm-openai:v0.27.1
    args: [unsloth/Llama-3.1-8B-Instruct, --max-model-len, '8192']
    resources: {limits: {nvidia.com/gpu: '1', memory: 48Gi}}
"""
NODE = """apiVersion: v1
kind: Node
metadata: {name: a, labels: {nvidia.com/gpu.product: Tesla-T4}}
status: {allocatable: {nvidia.com/gpu: '4'}}
"""


@pytest.fixture(name="checked")
def _checked(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Checks a Pod next to files, and returns the findings' levels by rule, and the plan."""
    monkeypatch.chdir(tmp_path)

    def run(nodes: str, *options: str, spec: str = "") -> tuple[dict[str, str], dict[str, Any]]:
        (tmp_path / "nodes.yaml").write_text(nodes)
        (tmp_path / "pod.yaml").write_text(POD % spec)
        main(["check", "--format", "json", *(options or ("--nodes", "nodes.yaml")), "pod.yaml"])
        (result,) = json.loads(capsys.readouterr().out)["results"]
        return {one["rule"]: one["level"] for one in result["findings"]}, result["plan"]

    return run


@pytest.mark.parametrize(
    ("nodes", "level"),
    [
        (NODE, "likely"),
        ("kinds: [{gpu: t4, count: 4}]", "likely"),
        ("kinds: [{gpu: t4, count: 4}]\ncomplete: true", "denied"),
        ("kinds: [{gpu: t4, nodes: 0}]\ncomplete: true", "denied"),
        ("kinds: [{gpu: l4}]\ncomplete: true", None),
        ("kinds: [{gpu: Tesla-T4-SHARED}]\ncomplete: true", "likely"),
    ],
)
def test_what_fails_on_every_node_is_denied_only_if_no_other_will_come(
    checked: Any, nodes: str, level: str | None
) -> None:
    levels, plan = checked(nodes)

    assert levels.get("gpu-memory-exceeded") == level
    assert "unknown-gpu" not in levels
    assert plan["gpus"]["does_not_fit"] == (["Tesla T4"] if level else [])


@pytest.mark.parametrize(
    ("kinds", "spec", "gpus"),
    [
        ("[{gpu: t4}, {gpu: l4, labels: {pool: big}}]", "nodeSelector: {pool: big}", ["NVIDIA L4"]),
        ("[{gpu: t4}, {gpu: l4, taints: ['team=a:NoSchedule']}]", "", ["Tesla T4"]),
        (
            "[{gpu: l4, taints: ['team=a:NoSchedule']}]",
            "tolerations: [{key: team, value: a, effect: NoSchedule}]",
            ["NVIDIA L4"],
        ),
        ("[{gpu: l4, taints: [{key: team, effect: NoExecute}]}, {gpu: l40s}]", "", ["NVIDIA L40S"]),
        ("[{gpu: NVIDIA-L4}]", "nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4}", ["NVIDIA L4"]),
        ("[{gpu: l4}]", "nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4}", ["NVIDIA L4"]),
        (
            "[{gpu: t4, driver: 535.183.01}, {gpu: l4, driver: 580.65.06}]",
            "nodeSelector: {nvidia.com/cuda.driver-version.major: '580'}",
            ["NVIDIA L4"],
        ),
    ],
)
def test_the_nodes_are_filtered_as_the_scheduler_does(checked: Any, kinds: str, spec: str, gpus: list[str]) -> None:
    _, plan = checked(f"kinds: {kinds}", spec=spec)

    assert plan["accelerator"]["name"] == " or ".join(gpus)


def test_some_that_fit_and_some_that_do_not_are_a_mixture_with_the_selector(
    checked: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    levels, plan = checked("kinds: [{gpu: t4, nodes: 9}, {gpu: l4}]")
    main(["check", "--nodes", "nodes.yaml", "pod.yaml"])

    assert levels["mixed-gpu-nodes"] == "likely"
    assert (plan["gpus"]["fits"], plan["gpus"]["does_not_fit"]) == (["NVIDIA L4"], ["Tesla T4"])
    shown = capsys.readouterr().out
    assert "change: nodeSelector nvidia.com/gpu.product: NVIDIA-L4" in shown
    assert "Tesla T4 (9 nodes such as kinds[0] #0)" in " ".join(shown.split())
    assert tmp_path.joinpath("nodes.yaml").exists()


def test_a_project_file_names_the_nodes_and_an_option_replaces_them(checked: Any, tmp_path: Path) -> None:
    (tmp_path / "podfit.yaml").write_text("nodes: nodes.yaml\n")

    assert checked("kinds: [{gpu: t4}]", "--fail-on", "advice")[1]["accelerator"]["name"] == "Tesla T4"
    assert checked("kinds: [{gpu: t4}]", "--gpu", "l4")[1]["accelerator"]["name"] == "NVIDIA L4"


@pytest.mark.parametrize("command", [["fix"], ["explain"], ["diff", "pod.yaml"]])
def test_other_commands_take_it_too(
    checked: Any, command: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    checked("kinds: [{gpu: t4}]")

    code = main([*command, "--nodes", "nodes.yaml", str(tmp_path / "pod.yaml")])
    shown = capsys.readouterr()

    assert code == 0
    assert "Tesla T4" in shown.out + shown.err or command[0] == "diff"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("kinds: []", "kinds: List should have at least 1 item"),
        ("kinds: [{gpu: l5}]", "kinds[0].gpu: no GPU is known by the name 'l5'"),
        ("kinds: [{gpu: l4, memory: 200Gi}]", "kinds[0].memory: not a valid memory size of one NVIDIA L4"),
        ("kinds: [{gpu: l4, cont: 4}]", "kinds[0].cont: Extra inputs are not permitted"),
        ("kinds: [{gpu: l4, nodes: 1000000}]", "kinds[0].nodes: Input should be less than or equal to 5000"),
        ("kinds: [{gpu: l4, taints: [NoSchedule]}]", "kinds[0].taints[0].key: String should have at least 1 character"),
        ("apiVersion: v1\nkind: Pod", "no Node with a status in it"),
    ],
)
def test_what_is_wrong_with_the_file_is_told_with_its_line(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "nodes.yaml"
    path.write_text(text)

    with pytest.raises(UnusableError) as error:
        fleet.read(str(path))

    assert problem in error.value.lines[0]
    assert str(path) in error.value.lines[0]


def test_a_name_of_several_gpus_is_each_of_them() -> None:
    kinds = Fleet.model_validate({"kinds": [{"gpu": "a100", "count": 4}]})

    labels = [node["metadata"]["labels"][gpu.advice.PRODUCT] for node in fleet.node_objects(kinds)]

    assert {"NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-SXM4-80GB"} <= set(labels)


def test_a_gpu_with_other_memory_and_an_amd_gpu_have_their_labels(checked: Any) -> None:
    _, plan = checked("kinds: [{gpu: NVIDIA-GeForce-RTX-4090, memory: 48Gi, driver: '570.86.15'}]")
    (amd,) = fleet.node_objects(Fleet.model_validate({"kinds": [{"gpu": "mi300x", "count": 8}]}))

    assert plan["accelerator"]["name"] == "GeForce RTX 4090 (49152 MiB)"
    assert amd["metadata"]["labels"] == {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"}
    assert amd["status"]["allocatable"] == {"amd.com/gpu": "8"}


def test_a_gpu_and_nodes_exclude_each_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pod.yaml").write_text(POD % "")

    assert main(["check", "--gpu", "l4", "--nodes", "nodes.yaml", str(tmp_path / "pod.yaml")]) == 2
    assert "--gpu and --nodes exclude each other" in capsys.readouterr().err


def test_a_list_of_gpus_is_planned_each(checked: Any) -> None:
    levels, plan = checked("", "--gpu", "t4,l4")

    assert levels["mixed-gpu-nodes"] == "likely"
    assert (plan["gpus"]["fits"], plan["gpus"]["does_not_fit"]) == (["NVIDIA L4"], ["Tesla T4"])


def test_the_schema_is_the_models_own() -> None:
    found = json.loads(SCHEMA.read_text())

    assert found == {"$schema": "https://json-schema.org/draft/2020-12/schema", **Fleet.model_json_schema()}
    jsonschema.validate({"kinds": [{"gpu": "l4", "taints": [{"key": "a", "effect": "NoSchedule"}]}]}, found)
