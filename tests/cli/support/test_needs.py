"""`podfit plan MODEL --context N --users N`: what it takes, and a manifest that our strictest policy has nothing to say
of."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from podfit.cli import main
from podfit.evaluation.lint import lint
from podfit.evaluation.policy import Policy, load
from podfit.kube import manifest
from podfit.kube.companions import Companions
from podfit.vllm.facts import Facts
from podfit.vllm.release import Release

STRICT = Path(__file__).parents[3] / "policies" / "strict.yaml"


@pytest.fixture(scope="module")
def strict() -> Policy:
    return load([(str(STRICT), STRICT.read_text())])


def printed(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """Standard output of a run that must succeed."""
    assert main(["plan", *argv]) == 0
    return capsys.readouterr().out


def test_the_table_begins_with_the_least_gpu_memory(capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys, "Qwen/Qwen3-8B", "--context", "8k", "--users", "4", "--vllm-version", "0.27.1")

    assert out.startswith("Qwen/Qwen3-8B (8.2 B parameters): 4 requests at once of 8,000 tokens, vLLM 0.27.1\n")
    rows = json.loads(printed(capsys, "Qwen/Qwen3-8B", "--context", "8k", "--users", "4", "-o", "json"))["offers"]
    as_it_is = [row["gpu_memory_bytes"] for row in rows if not row["changes_output"]]
    assert as_it_is == sorted(as_it_is)
    assert len(as_it_is) > 5
    assert all(row["requests_at_once"] >= 4 for row in rows)


def test_the_json_is_as_its_schema_says(capsys: pytest.CaptureFixture[str]) -> None:
    schema = json.loads((STRICT.parent.parent / "docs" / "schemas" / "needs.json").read_text())
    for argv in (("Qwen/Qwen3-8B",), ("BAAI/bge-m3", "--users", "9"), ("google/gemma-3-27b-it", "--gpu", "l4:8")):
        jsonschema.validate(json.loads(printed(capsys, *argv, "-o", "json")), schema)


def test_every_offer_fits_by_the_same_planner(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("meta-llama/Llama-3.3-70B-Instruct", "--context", "16384", "--users", "6", "--vllm-version", "0.27.1")
    for row in json.loads(printed(capsys, *asked, "-o", "json"))["offers"]:
        gpu = f"{row['product']}:{row['gpus']}"
        argv = ("--gpu", gpu, "--vllm-version", "0.27.1", "--format", "json", "--", *row["argv"])
        plan = json.loads(printed(capsys, *argv))

        assert plan["verdict"] == "fits", row
        assert plan["gpu"]["kv_cache_tokens"]["low"] * row["replicas"] >= 6 * 16384, row


def test_a_gated_model_is_served_with_its_token(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("meta-llama/Llama-3.3-70B-Instruct", "--context", "16384", "--gpu", "h200")
    assert not any(row["refused"] for row in json.loads(printed(capsys, *asked, "-o", "json"))["offers"])

    out = printed(capsys, *asked, "-o", "yaml")
    *_, deployment = yaml.safe_load_all(out)
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    token = {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf-token", "key": "token"}}}
    assert token in container["env"]
    assert "# the model is gated: kubectl create secret generic hf-token" in out


def test_without_users_a_manifest_leaves_the_number_of_sequences_to_the_release(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = ("Qwen/Qwen3-8B", "--context", "8k", "--gpu", "l4", "-o", "yaml")

    assert "--max-num-seqs" not in printed(capsys, *asked)
    assert "--max-num-seqs\n        - '1'" in printed(capsys, *asked, "--users", "1")


def test_more_users_never_take_less(capsys: pytest.CaptureFixture[str]) -> None:
    def memory(users: int) -> int:
        out = printed(capsys, "Qwen/Qwen3-8B", "--context", "8192", "--users", str(users), "--gpu", "l4", "-o", "json")
        return int(json.loads(out)["offers"][0]["gpu_memory_bytes"])

    taken = [memory(users) for users in (1, 3, 10, 40, 200)]
    assert taken == sorted(taken)
    assert taken[-1] > taken[0]


NODES = """\
apiVersion: v1
kind: List
items:
  - apiVersion: v1
    kind: Node
    metadata: {name: a, labels: {nvidia.com/gpu.product: NVIDIA-L4}}
    spec: {taints: [{key: sku, value: gpu, effect: NoSchedule}]}
    status: {allocatable: {nvidia.com/gpu: "2"}}
  - apiVersion: v1
    kind: Node
    metadata: {name: b, labels: {nvidia.com/gpu.product: Tesla-T4}}
    spec: {taints: [{key: sku, value: gpu, effect: NoSchedule}]}
    status: {allocatable: {nvidia.com/gpu: "1"}}
"""


def test_a_cluster_has_what_its_nodes_have(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    nodes = tmp_path / "nodes.yaml"
    nodes.write_text(NODES)
    asked = ("Qwen/Qwen3-4B", "--context", "8192", "--users", "4", "--nodes", str(nodes))

    rows = json.loads(printed(capsys, *asked, "-o", "json"))["offers"]
    assert {row["product"] for row in rows} <= {"NVIDIA-L4", "Tesla-T4"}
    assert rows[0]["in_cluster"] is not None

    made = list(yaml.safe_load_all(printed(capsys, *asked, "-o", "yaml")))
    pod = made[-1]["spec"]["template"]["spec"]
    assert {"key": "sku", "operator": "Exists", "effect": "NoSchedule"} in pod["tolerations"]


def test_what_a_cluster_has_too_few_of_comes_last(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    nodes = tmp_path / "nodes.yaml"
    nodes.write_text(NODES)
    out = printed(capsys, "Qwen/Qwen3-4B", "--context", "8192", "--users", "40", "--nodes", str(nodes))

    assert "the cluster has 2" in out


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("acme/nobody-knows",), "--model-config FILE gives its config.json"),
        (("acme/nothing-9b", "--context", "8k"), "is not known (name: it says 9B parameters). Pass its config.json"),
        (("acme/nothing-9b",), "its KV cache is not known"),
        (("Qwen/Qwen3-8B", "--context", "900000"), "the model's own limit is 40,960 tokens"),
        (("Qwen/Qwen3-8B", "--gpu", "l4", "--nodes", "x"), "--gpu and --nodes exclude each other"),
        (("--users", "3", "--gpu", "l4", "--", "vllm", "serve", "Qwen/Qwen3-8B"), "belong to `podfit plan MODEL`"),
        ((), "plan needs a model, as in `podfit plan Qwen/Qwen3-8B --users 20`"),
        (("meta-llama/Llama-3.1-405B", "--gpu", "t4", "-o", "yaml"), "try a shorter --context"),
        (("--gpu", "mi300x", "-o", "yaml", "--", "vllm", "serve", "Qwen/Qwen3-8B"), "whole NVIDIA GPUs alone"),
        (("--gpu", "l4", "-o", "yaml", "--", "vllm", "serve", "/models/mine"), "is not known"),
    ],
)
def test_what_can_not_be_answered_says_what_to_do(
    capsys: pytest.CaptureFixture[str], argv: tuple[str, ...], said: str
) -> None:
    assert main(["plan", *argv]) == 2
    assert said in capsys.readouterr().err


MODELS = (
    "Qwen/Qwen3-0.6B",
    "Qwen/Qwen3-8B",
    "Qwen/Qwen3-32B",
    "Qwen/Qwen3-30B-A3B",
    "meta-llama/Llama-3.1-8B-Instruct",
    "meta-llama/Llama-3.3-70B-Instruct",
    "mistralai/Mistral-7B-Instruct-v0.3",
    "google/gemma-3-27b-it",
    "deepseek-ai/DeepSeek-R1",
    "microsoft/phi-4",
    "BAAI/bge-m3",
    "Qwen/Qwen2.5-VL-7B-Instruct",
    "openai/gpt-oss-20b",
)
GPUS = ("t4", "l4", "a10g", "a100-40gb", "l40s", "a100-80gb", "h100", "h200", "b200", "rtx 4090")


@pytest.mark.parametrize("model", MODELS)
def test_manifests_leave_the_strict_policy_without_a_word(
    capsys: pytest.CaptureFixture[str], strict: Policy, model: str
) -> None:
    written = 0
    for gpu in GPUS:
        for context, users in ((2048, 1), (8192, 60)):
            argv = ["plan", model, "--context", str(context), "--users", str(users), "--gpu", gpu, "-o", "yaml"]
            if main([*argv, "--namespace", "prod"]) != 0:
                assert "nothing that was tried holds" in capsys.readouterr().err
                continue
            written += 1
            read = manifest.read(capsys.readouterr().out.encode(), "vllm.yaml")
            objects = tuple(document.object for document in read.documents)
            (deployment,) = (one for one in objects if one["kind"] == "Deployment")
            report = lint(deployment, strict, Facts(companions=Companions(objects)), where="check")

            said = [(one.rule, one.finding.message) for one in report.findings if one.mode in ("deny", "warn")]
            assert not read.errors
            assert not report.errors
            assert not said, (model, gpu, context, users)
            assert report.results[0].engine.plan.verdict == "fits"
            assert report.results[0].engine.release is not None
            assert report.results[0].engine.release > Release(0, 30)
    assert written >= 4


def refused(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """What a run prints that must be rejected."""
    try:
        code = main(["plan", *argv])
    except SystemExit as error:
        code = int(error.code or 0)
    assert code == 2
    return capsys.readouterr().err


def test_a_name_without_its_organisation_is_written_as_the_hubs_id(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "Qwen3-14B", "--users", "2", "--context", "4k"]) == 0
    out, err = capsys.readouterr()
    assert "the first: vllm serve Qwen/Qwen3-14B --max-model-len 4000" in out
    note = "Qwen3-14B is read as Qwen/Qwen3-14B: vLLM needs a model ID of the hub, or the path of a folder"
    assert err == f"note: {note}\n"

    assert main(["plan", "Qwen3-14B-ours", "--context", "4k"]) == 0
    out, err = capsys.readouterr()
    assert "the first: vllm serve Qwen3-14B-ours " in out
    assert err == "note: Qwen3-14B-ours is not a model ID of the hub: vLLM needs one, or the path of a folder\n"


def test_an_id_as_the_hub_has_it_is_told_nothing_of(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "Qwen/Qwen3-14B", "--context", "4k"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--kv-cache-dtype", "foo"], "--kv-cache-dtype foo: podfit knows auto, bfloat16, "),
        (["--quantization", "fp9"], "--quantization fp9: vLLM 0.33.0 has auto_awq, "),
        (["--gpu", "mi300x"], "podfit plan --gpu mi300x -- vllm serve MODEL"),
    ],
)
def test_what_cannot_be_planned_is_refused(capsys: pytest.CaptureFixture[str], words: list[str], says: str) -> None:
    assert says in refused(capsys, "Qwen/Qwen3-8B", *words, "--vllm-version", "0.33.0")


def test_a_name_that_vllm_replaces_is_planned_as_the_checkpoints_own(capsys: pytest.CaptureFixture[str]) -> None:
    said = printed(capsys, "Qwen/Qwen3-8B-AWQ", "--gpu", "l4", "--quantization", "marlin", "--vllm-version", "0.33.0")
    assert "1 × L4" in said
    assert "refused" not in said
    assert "marlin" in refused(capsys, "Qwen/Qwen3-8B", "--quantization", "marlin", "--vllm-version", "0.33.0")


def test_a_count_that_is_given_is_the_one_that_was_tried(capsys: pytest.CaptureFixture[str]) -> None:
    assert "nothing holds them: tried 3 of NVIDIA-L4\n" in printed(capsys, "Qwen/Qwen3-14B", "--gpu", "l4:3")
    assert "tried 1, 2, 4 and 8 of NVIDIA-L4\n" in printed(capsys, "deepseek-ai/DeepSeek-R1", "--gpu", "l4")


def test_a_release_newer_than_all_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["Qwen/Qwen3-8B"], ["--gpu", "l4", "--", "vllm", "serve", "Qwen/Qwen3-8B"]):
        assert main(["plan", "--vllm-version", "9.9.9", *words]) == 0
        err = capsys.readouterr().err
        assert err.startswith("note: vLLM 9.9.9 is newer than every release that podfit knows, and is planned as 0.")
        assert "`podfit releases list`" in err


@pytest.mark.parametrize("option", [["--max-num-seqs", "5"], ["-tp", "2"], ["--dtype", "half"]])
def test_a_command_line_stands_behind_two_dashes(capsys: pytest.CaptureFixture[str], option: list[str]) -> None:
    assert "put `--` before it" in refused(capsys, "vllm", "serve", "Qwen/Qwen3-8B", *option)


@pytest.mark.parametrize("words", [("--max-model-len", "4096"), ("-tp", "2")])
def test_an_option_of_vllms_after_a_model_is_told_where_it_belongs(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    told = refused(capsys, "Qwen/Qwen3-8B", *words)

    assert "put `--` before it" in told
    assert "Did you mean" not in told
