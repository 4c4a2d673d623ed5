"""The command as a person types it: output, exit codes, and one clear line for everything that can't be used."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from podfit.cli import main

ROOT = Path(__file__).parents[2]
AWAY = (
    "{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: c, user: u}}],\n"
    'clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}], users: [{name: u, user: {token: x}}]}\n'
)
"""A kubeconfig whose API server does not answer."""
GOOD, BAD = "examples/good.yaml", "examples/llama-8b-on-a-t4.yaml"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(name="run")
def _run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs `podfit …` in the project's root: (exit code, standard output, standard error)."""
    monkeypatch.chdir(ROOT)

    def run(*argv: str, stdin: bytes | None = None) -> tuple[int, str, str]:
        if stdin is not None:
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        try:
            code = main(argv)
        except SystemExit as error:  # argparse's own usage errors
            code = int(error.code or 0)
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def test_a_clean_manifest_is_exit_0(run: Run) -> None:
    code, out, err = run("check", GOOD)

    assert code == 0
    assert "1 file, 1 vLLM container; findings: 0 denied, 0 likely to fail, 0 advice" in out
    assert not err


def test_a_denied_manifest_is_exit_1_and_names_rule_field_and_what_would_fit(run: Run) -> None:
    code, out, _ = run("check", BAD)

    assert code == 1
    assert "gpu-memory-exceeded  spec.template.spec.containers[0].args" in out
    assert "fits" in out


@pytest.mark.parametrize("output", ["text", "json"])
def test_the_exit_code_does_not_depend_on_the_format(run: Run, output: str) -> None:
    assert run("check", "--format", output, BAD)[0] == 1
    assert run("check", "--format", output, GOOD)[0] == 0
    assert run("check", "--format", output, GOOD, "no-such-file.yaml")[0] == 3


HELM_FILES = {
    "llm/Chart.yaml": "{apiVersion: v2, name: llm, version: 0.1.0}",
    "llm/values.yaml": "image: vllm/vllm-openai",
    "llm/templates/a.yaml": "kind: Pod\nmetadata:\n  name: {{ .Release.Name }}\n",
    "llm/templates/b.yaml": "kind: Pod\nmetadata:\n  name: {{ .Release.Name }}\n",
}


@pytest.mark.parametrize("name", ["llm", "llm/values.yaml", "llm/templates/a.yaml", "llm/templates"])
def test_a_chart_is_not_rendered_but_its_command_is_named(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for file, text in HELM_FILES.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)
    monkeypatch.chdir(tmp_path)

    code, _, err = run("check", name)

    assert code == 0
    assert err.count("podfit check --helm llm\n") == 1
    assert err.count("a Helm template;") == int("values" not in name)


@pytest.mark.parametrize("kind", ["HelmRelease", "Application"])
def test_a_kind_that_is_rendered_elsewhere_names_how(run: Run, tmp_path: Path, kind: str) -> None:
    group = {"HelmRelease": "helm.toolkit.fluxcd.io/v2", "Application": "argoproj.io/v1alpha1"}[kind]
    pods = "{decode: {containers: [{name: vllm, image: vllm/vllm-openai}]}}"
    file = tmp_path / "x.yaml"
    file.write_text(f"apiVersion: {group}\nkind: {kind}\nspec: {{values: {pods}}}\n")
    err = run("check", str(file))[2]
    assert f"nothing is rendered here; check what this {kind} makes: " in err
    assert "`kinds` of a policy" not in err


def test_a_kind_that_serves_models_may_run_vllm(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text("apiVersion: kaito.sh/v1beta1\nkind: Workspace\ninference: {preset: {name: phi-4}}\n")
    assert f"{file}:3: not evaluated: a Workspace may run vLLM, and podfit" in run("check", str(file))[2]


def test_an_unreadable_file_is_exit_3_and_the_others_are_still_checked(run: Run, tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text("a: [1\nb: 2\n")

    code, out, err = run("check", str(broken), BAD)

    assert code == 3
    assert f"{broken}:2" in err
    assert "gpu-memory-exceeded" in out


def test_a_folder_a_list_and_standard_input_are_read_alike(run: Run, tmp_path: Path) -> None:
    items = [yaml.safe_load((ROOT / name).read_text()) for name in (GOOD, BAD)]
    (tmp_path / "list.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "two.yaml").write_text("---\n".join(yaml.safe_dump(item) for item in items))

    for name, stdin in (
        (str(tmp_path / "list.json"), None),
        (str(tmp_path / "sub"), None),
        ("-", (tmp_path / "sub" / "two.yaml").read_bytes()),
    ):
        code, out, _ = run("check", "--format", "json", name, stdin=stdin)

        assert code == 1
        assert [result["denied"] for result in json.loads(out)["results"]] == [False, True]


def test_a_folder_is_read_from_wherever_one_stands_and_hidden_files_are_not(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("manifests", "manifests/.git", "elsewhere"):
        (tmp_path / place).mkdir()
    for place in ("manifests", "manifests/.git"):
        (tmp_path / place / "pod.yaml").write_text((ROOT / GOOD).read_text())
    monkeypatch.chdir(tmp_path / "elsewhere")

    assert "1 file, 1 vLLM container" in run("check", "../manifests")[1]


def test_the_json_of_a_check_has_what_it_promises(run: Run) -> None:
    (result,) = json.loads(run("check", "--format", "json", BAD)[1])["results"]

    assert result["file"] == BAD
    assert result["object"] == {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "chat", "name": "llama-8b"}
    assert (result["container"], result["path"]) == ("vllm", "spec.template.spec.containers[0]")
    assert result["plan"]["verdict"] == "does-not-fit"
    (finding,) = [finding for finding in result["findings"] if finding["mode"] == "deny"]
    assert set(finding) >= {"rule", "mode", "plane", "path", "message", "certainty", "fix", "suggestions"}
    assert (finding["rule"], finding["plane"], finding["certainty"]) == ("gpu-memory-exceeded", "gpu", "certain")
    assert finding["fix"] is None
    assert result["patch"] == [step for one in result["findings"] for step in one["fix"] or ()]


def test_gpu_on_the_command_line_holds_where_the_manifest_names_none(run: Run, pod: dict[str, Any]) -> None:
    del pod["spec"]["nodeSelector"]
    body = yaml.safe_dump(pod).encode()

    assert run("check", "-", stdin=body)[0] == 0
    assert run("check", "--gpu", "t4", "-", stdin=body)[0] == 1
    assert run("check", "--gpu", "NVIDIA H100 80GB HBM3:1", "-", stdin=body)[0] == 0


def test_a_policy_is_applied_and_a_typo_in_it_is_told_with_line_and_path(run: Run, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    head = "apiVersion: podfit.dev/v1alpha1\nkind: Policy\nmetadata: {name: lax}\nspec:\n  rules:\n"
    policy.write_text(head + "    gpu-memory-exceeded: {mode: warn}\n")

    assert run("check", "--policy", str(policy), BAD)[0] == 0

    policy.write_text(head + "    gpu-memory-exeeded: {mode: warn}\n")
    code, _, err = run("check", "--policy", str(policy), BAD)

    assert code == 2
    assert f"{policy}:6: spec.rules.gpu-memory-exeeded" in err
    assert "did you mean 'gpu-memory-exceeded'?" in err


@pytest.mark.parametrize("text", ["{}", '{"kind": "Policy", "properties": {}}', '{"spec": {}, "$schema": "x"}', "{"])
def test_what_is_no_schema_in_a_folder_of_policies_is_told(run: Run, tmp_path: Path, text: str) -> None:
    (tmp_path / "p.json").write_text(text)
    code, _, err = run("policy", "lint", str(tmp_path))
    assert code == 2
    assert "p.json" in err


def test_policy_lint_tells_problems_on_standard_error(run: Run, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("apiVersion: podfit.dev/v1alpha1\nkind: Policy\nmetadata: {name: x}\nspec: {rule: {}}\n")

    assert run("policy", "lint", "policies/observe.yaml", "policies/autofix.yaml") == (0, "ok: 2 policy files\n", "")
    for name in ("policies/", "policies/house/"):
        code, out, err = run("policy", "lint", name)
        assert (code, out[:4]) == (0, "ok: ")
        assert all("some findings only warn, also with deny" in line for line in err.splitlines()), err
    assert run("policy", "lint", "policies/schema.json")[0] == 2
    code, out, err = run("policy", "lint", str(policy))
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {policy}:4: spec.rule: unknown field")


def test_plan_shows_the_ledger_line_by_line(run: Run) -> None:
    command = ["vllm", "serve", "meta-llama/Llama-3.1-8B-Instruct", "--max-model-len", "8192"]
    code, out, _ = run("plan", "--gpu", "a100-80gb", "--vllm-version", "0.27.1", "--", *command)

    assert code == 0
    for word in ("FITS", "total", "budget", "weights", "activations", "CUDA graphs", "non-torch", "KV cache memory"):
        assert word in out


def test_a_plan_tells_the_longest_request_beyond_the_length_that_was_asked_for(run: Run) -> None:
    command = ["vllm", "serve", "meta-llama/Llama-3.1-8B-Instruct", "--max-model-len", "16000"]
    _, out, _ = run("plan", "--gpu", "h100", "--vllm-version", "0.27.1", "--", *command)

    assert "x for 16,000 tokens per request" in out
    assert "longest request      131,072 tokens fit  (the model's own limit is 131,072)" in out


@pytest.mark.parametrize(
    ("extra", "why"), [(["-tp", "2"], "--tensor-parallel-size 2 needs 2"), (["--bogus"], "--bogus")]
)
def test_a_plan_that_will_not_start_for_another_reason_does_not_begin_with_fits(
    run: Run, extra: list[str], why: str
) -> None:
    command = ["--", "vllm", "serve", "meta-llama/Llama-3.1-8B-Instruct", "--max-model-len", "8192", *extra]
    asked = ["plan", "--gpu", "h100:1", "--vllm-version", "0.27.1"]
    first, second, *_ = run(*asked, *command)[1].splitlines()

    assert first.startswith("WILL NOT START: ")
    assert why in first
    assert second.startswith("memory alone: fits: ")
    assert json.loads(run(*asked, "--format", "json", *command)[1])["verdict"] == "fits"


def test_the_json_of_a_plan_has_what_it_promises(run: Run) -> None:
    command = ["vllm", "serve", "meta-llama/Llama-3.1-8B-Instruct", "-tp", "2", "--max-model-len=8k", "--bogus"]
    plan = json.loads(run("plan", "--gpu", "l4:2", "--vllm-version", "0.27.1", "--format", "json", "--", *command)[1])

    assert plan["verdict"] == "fits"
    assert plan["model"]["id"] == "meta-llama/Llama-3.1-8B-Instruct"
    assert plan["engine"]["arguments"] == {
        "model": "meta-llama/Llama-3.1-8B-Instruct",
        "tensor_parallel_size": 2,
        "max_model_len": 8000,
        "bogus": True,
    }
    assert plan["engine"]["unknown"] == ["--bogus"]
    assert plan["accelerator"]["count"] == 2
    lines = ("total", "budget", "weights", "activations", "cuda_graphs", "non_torch", "kv_cache")
    assert all(set(plan["gpu"][line]) == {"floor", "low", "likely", "high"} for line in lines)
    assert plan["gpu"]["kv_cache_bytes_per_token"] == 65_536  # 131,072 over two ranks
    assert plan["gpu"]["max_model_len"] == 8000
    assert set(plan["startup"]["seconds"]) == {"low", "likely", "high"}


def test_a_batch_is_answered_line_by_line_in_order(run: Run) -> None:
    lines = [
        {"id": "a", "argv": ["vllm", "serve", "Qwen/Qwen3-8B"], "gpu": "l4:1", "vllm_version": "0.19.0"},
        {"id": "b", "argv": "vllm serve"},
        {"id": "c", "argv": ["vllm", "serve", "acme/unknown"], "gpu": None, "vllm_version": None},
    ]
    body = "\n".join([*(json.dumps(line) for line in lines), "{", ""]).encode()

    code, out, _ = run("plan", "--batch", "-", stdin=body)
    answers = [json.loads(line) for line in out.splitlines()]

    assert code == 0
    assert [answer["id"] for answer in answers] == ["a", "b", "c", None]
    assert answers[0]["model"]["id"] == "Qwen/Qwen3-8B"
    assert "argv" in answers[1]["error"]
    assert (answers[2]["verdict"], answers[2]["model"]) == ("unsure", None)
    assert "not JSON" in answers[3]["error"]


def test_a_model_config_stands_in_for_the_catalogue(run: Run, tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(
        json.dumps(
            {
                "architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 16,
                "hidden_size": 2048, "num_attention_heads": 16, "num_key_value_heads": 4, "intermediate_size": 8192,
                "vocab_size": 32000, "max_position_embeddings": 4096, "torch_dtype": "bfloat16",
            }
        )
    )  # fmt: skip
    code, out, _ = run(
        "plan", "--gpu", "l4", "--model-config", str(config), "--format", "json", "--", "vllm", "serve", "x"
    )

    plan = json.loads(out)
    assert code == 0
    assert plan["verdict"] == "fits"
    assert plan["gpu"]["kv_cache_bytes_per_token"] == 2 * 16 * 4 * 128 * 2
    assert plan["gpu"]["max_model_len"] == 4096


@pytest.mark.parametrize(
    ("argv", "wanted"),
    [
        (["plan", "--gpu", "l5", "--", "vllm", "serve", "x"], "no GPU is known by the name 'l5'"),
        (["plan", "--gpu", "l4:none", "--", "vllm", "serve", "x"], "'none' is not a number of GPUs"),
        (["plan", "--gpu", "l4"], "or a command line after `--`"),
        (["plan", "--gpu", "l4", "--", "sleep", "1"], "not a command that starts vLLM"),
        (["plan", "--vllm-version", "new", "--", "vllm", "serve", "x"], "not a version such as 0.27.1"),
        (["explain", "kv-cache-to-small"], "did you mean kv-cache-too-small"),
    ],
)
def test_what_can_not_be_used_is_exit_2_with_one_line(run: Run, argv: list[str], wanted: str) -> None:
    code, out, err = run(*argv)

    assert (code, out) == (2, "")
    assert wanted in err
    assert len(err.splitlines()) == 1


def test_explain_prints_a_rule_and_lists_all(run: Run) -> None:
    code, out, _ = run("explain", "shm-missing")

    assert code == 0
    assert "Insufficient space in /dev/shm for shared-memory allocation" in out
    assert "unpinned-image" in run("explain")[1]


def test_fix_shows_a_diff_and_writes_it_with_comments_kept(run: Run, tmp_path: Path) -> None:
    manifest = tmp_path / "pod.yaml"
    manifest.write_text((ROOT / "examples" / "llama-70b-without-shm.yaml").read_text())
    comment = manifest.read_text().splitlines()[0]

    code, out, _ = run("fix", str(manifest))
    assert code == 0
    assert "+            - name: dshm\n" in out or "mountPath: /dev/shm" in out
    assert comment in manifest.read_text()

    run("fix", "--write", str(manifest))
    assert manifest.read_text().startswith(comment)
    assert run("check", str(manifest))[0] == 0
    assert run("fix", str(manifest))[1] == ""


def test_the_page_needs_the_files_that_it_is_given(tmp_path: Path) -> None:
    missing = str(tmp_path / "none.yaml")
    command = [sys.executable, "-m", "podfit.cli", "ui", missing]

    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    assert (done.returncode, done.stdout, done.stderr) == (3, "", f"error: {missing}: no such file or directory\n")


def test_a_folder_without_a_server_is_told(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "service.yaml").write_text("apiVersion: v1\nkind: Service\nmetadata: {name: a}\n")
    empty = str(tmp_path / "empty")

    assert run("check", empty)[2] == f"note: nothing was checked: no vLLM container in {empty}\n"
    assert run("check", empty, GOOD)[2] == f"note: {empty}: nothing was checked in it: no vLLM container\n"
    assert run("check", "examples", GOOD)[2] == ""


TRAINING = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: job}
spec:
  pytorchReplicaSpecs:
    Master:
      template:
        spec:
          containers: [{name: pytorch, image: "vllm/vllm-openai:v0.27.1", args: [--model, Qwen/Qwen3-8B, --bogus]}]
"""
PLACE = "spec.pytorchReplicaSpecs.Master.template.spec"


def test_a_kind_that_nothing_reads_is_noted_with_what_a_policy_can_say(run: Run, tmp_path: Path) -> None:
    file, policy = tmp_path / "job.yaml", tmp_path / "policy.yaml"
    file.write_text(TRAINING)
    policy.write_text(
        "apiVersion: podfit.dev/v1alpha1\nkind: Policy\nmetadata: {name: kinds}\n"
        f"spec: {{kinds: {{PyTorchJob.kubeflow.org: [{PLACE}]}}}}\n"
    )

    code, _, err = run("check", str(file))
    assert code == 0
    assert f"{file}:9: not evaluated: podfit does not know where a PyTorchJob has its Pods" in err
    assert f"PyTorchJob.kubeflow.org: [{PLACE}]" in err

    code, out, err = run("check", str(file), "--policy", str(policy))
    assert (code, err) == (1, "")
    assert "unknown-flag" in out


@pytest.mark.parametrize(
    "changed",
    [
        TRAINING.replace("vllm/vllm-openai:v0.27.1", "pytorch/pytorch").replace("--model, Qwen/Qwen3-8B, --bogus", "a"),
        TRAINING.replace("kind: PyTorchJob", "kind: ConfigMap"),
    ],
)
def test_what_does_not_look_like_vllm_is_not_noted(run: Run, tmp_path: Path, changed: str) -> None:
    (tmp_path / "job.yaml").write_text(changed)

    assert "not judged" not in run("check", str(tmp_path))[2]


def test_an_audit_policy_shows_what_it_would_deny_and_with_audit_the_rest(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "one.yaml"
    file.write_text((ROOT / GOOD).read_text())
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "apiVersion: podfit.dev/v1alpha1\nkind: Policy\nmetadata: {name: look}\nspec: {enforce: {mode: audit}}\n"
    )
    file.write_text(file.read_text().replace("--max-model-len", "--max-modle-len"))

    _, out, err = run("check", str(file), "--policy", str(policy))
    assert "denied if enforced  unknown-flag" in out
    assert "only audited" not in err
    assert (
        "only audited: rolling-update-needs-spare-gpus: "
        in run("check", str(file), "--policy", str(policy), "--audit")[2]
    )


def test_a_baseline_is_written_without_a_report(run: Run, tmp_path: Path) -> None:
    baseline = tmp_path / "known.json"

    code, out, err = run("check", BAD, "--write-baseline", str(baseline))
    assert (code, out) == (0, "")
    assert "accepted" in err
    assert ": denied\n" in run("check", BAD, "--write-baseline", str(baseline), "--format", "text")[1]


@pytest.mark.parametrize("codec", ["utf-16", "utf-8-sig"])
def test_a_file_is_read_and_written_in_its_own_encoding(run: Run, tmp_path: Path, codec: str) -> None:
    manifest = tmp_path / "pod.yaml"
    manifest.write_text((ROOT / "examples" / "llama-70b-without-shm.yaml").read_text(), encoding=codec)
    begins = manifest.read_bytes()[:2]

    assert "shm-missing" in run("check", str(tmp_path))[1]
    assert run("fix", "--write", str(manifest))[0] == 0
    assert manifest.read_bytes()[:2] == begins
    assert "dshm" in manifest.read_text(encoding=codec)


def test_review_answers_as_the_server_would(run: Run, tmp_path: Path) -> None:
    obj = yaml.safe_load((ROOT / BAD).read_text())
    kind = {"group": "apps", "version": "v1", "kind": "Deployment"}
    request = {
        "uid": "u-1", "kind": kind, "resource": {"group": "apps", "version": "v1", "resource": "deployments"},
        "operation": "CREATE", "namespace": "chat", "name": "llama-8b", "object": obj, "oldObject": None,
    }  # fmt: skip
    file = tmp_path / "review.json"
    file.write_text(json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}))

    code, out, _ = run("review", str(file))

    assert code == 1
    assert json.loads(out)["response"]["uid"] == "u-1"
    assert run("review", "-", stdin=b"{}")[0] == 3


def test_fix_repairs_one_document_of_many_and_leaves_the_others_byte_for_byte(run: Run, tmp_path: Path) -> None:
    other = "# first\napiVersion: v1\nkind:   ConfigMap   # odd spacing stays\nmetadata: {name: a}\n"
    bad = (ROOT / "examples" / "llama-70b-without-shm.yaml").read_text()
    manifest = tmp_path / "many.yaml"
    manifest.write_text(f"{other}---\n{bad}---\n{other}")

    assert run("fix", "--write", str(manifest))[0] == 0

    text = manifest.read_text()
    assert text.startswith(other)
    assert text.endswith(other)
    assert run("check", str(manifest))[0] == 0


def test_fix_keeps_json_json(run: Run, tmp_path: Path) -> None:
    bad = yaml.safe_load((ROOT / "examples" / "llama-70b-without-shm.yaml").read_text())
    manifest = tmp_path / "list.json"
    manifest.write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": [{"kind": "X"}, bad]}, indent=2) + "\n"
    )

    run("fix", "--write", str(manifest))

    assert manifest.read_text() == json.dumps(json.loads(manifest.read_text()), indent=2) + "\n"
    assert run("check", str(manifest))[0] == 0


def test_fix_of_standard_input_writes_standard_output(run: Run) -> None:
    bad = (ROOT / "examples" / "llama-70b-without-shm.yaml").read_bytes()

    code, out, _ = run("fix", "-", stdin=bad)

    assert code == 0
    assert run("check", "-", stdin=out.encode())[0] == 0


def test_a_folder_without_manifests_is_a_usage_error(run: Run, tmp_path: Path) -> None:
    assert run("check", str(tmp_path))[0] == 2


def test_fix_can_be_narrowed_to_a_rule(run: Run) -> None:
    bad = str(ROOT / "tests" / "rules" / "gpu-request-without-limit" / "bad.yaml")

    assert "nvidia.com/gpu" in run("fix", "--rule", "gpu-request-without-limit", bad)[1]
    told = "note: no repair applies of shm-missing; no finding left\n"
    assert run("fix", "--rule", "shm-missing", bad) == (0, "", told)
    code, _, err = run("fix", "--rule", "shm-is-missing", bad)
    assert code == 2
    assert "--rule shm-is-missing: there is no such rule" in err


@pytest.mark.parametrize("command", ["check", "fix"])
def test_an_empty_standard_input_is_exit_3(run: Run, command: str) -> None:
    code, _, err = run(command, "-", stdin=b" \n")

    assert code == 3
    assert "standard input is empty" in err


def test_a_release_that_is_none_is_an_error_of_its_line_of_a_batch(run: Run) -> None:
    lines = [
        {"id": version, "vllm_version": version, "argv": ["vllm", "serve", "x"]} for version in (5, "abc", "0.27.1")
    ]

    code, out, _ = run("plan", "--batch", "-", stdin="\n".join(map(json.dumps, lines)).encode())

    assert code == 0
    wrong = [json.loads(line).get("error", "") for line in out.splitlines()]
    assert wrong == [
        'vllm_version: 5 is not a version such as "0.27.1"',
        "vllm_version: 'abc' is not a version such as \"0.27.1\"",
        "",
    ]


def test_an_error_of_ours_is_exit_3_with_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("a\nbug")

    monkeypatch.setattr("podfit.report.files.lint", broken)

    code, _, err = run("check", BAD)

    assert (code, err) == (3, "error: internal error: ZeroDivisionError: a bug (PODFIT_DEBUG=1 shows where)\n")

    monkeypatch.setenv("PODFIT_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        run("check", BAD)


def test_output_that_nobody_reads_to_its_end_is_not_exit_0() -> None:
    podfit = [sys.executable, "-c", "from podfit.cli import main; raise SystemExit(main())", "explain"]
    read, write = os.pipe()
    os.close(read)

    assert subprocess.run(podfit, stdout=write, stderr=subprocess.DEVNULL, cwd=ROOT, check=False).returncode == 141


@pytest.mark.parametrize("module", ["podfit.base.secret", "podfit.cli.support.edge", "podfit.cli.scan", "kubernetes"])
def test_ctrl_c_while_a_command_starts_prints_no_traceback(module: str, tmp_path: Path) -> None:
    """The signal comes when this module is to be imported."""
    (tmp_path / "config").write_text(AWAY)
    script = (
        "import os, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # which a shell's background job ignores
        "class Interrupted:\n"
        "    def find_spec(self, name, *_):\n"
        f"        if name == {module!r}: os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "from podfit.cli import main\n"
        "sys.exit(main(['scan']))\n"
    )
    env = {**os.environ, "KUBECONFIG": str(tmp_path / "config")}

    done = subprocess.run(
        [sys.executable, "-c", script], env=env, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )

    assert (done.returncode, done.stderr) == (130, "")


def test_a_cluster_that_is_away_is_exit_3_with_one_line(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config"
    config.write_text(AWAY)
    monkeypatch.setenv("KUBECONFIG", str(config))

    code, _, err = run("policy", "diff", "default", "default", "--cluster")

    assert code == 3
    assert err.startswith("error: the cluster can't be read: ")
    assert err.count("\n") == 1


def test_fix_names_the_rule_of_each_repair_and_what_stays_denied(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(
        (ROOT / "tests" / "rules" / "memory-limit-too-low" / "bad.yaml").read_text().replace("-tp,", "-tpp,")
    )

    code, out, err = run("fix", str(file))

    assert code == 0
    assert out.startswith("--- ")
    assert f"{file}: would repair: memory-limit-too-low: limit 2Gi: vLLM needs about" in err
    assert err.endswith("note: nothing is changed yet; --write changes the files\n")
    assert f"{file}: not repaired (denied): unknown-flag: " in err
    assert f"{file}: not repaired (advice): model-cache-missing: " in err
    assert "note: 1 repair; 3 findings left\n" in err


TWO_FLAGS = """\
apiVersion: v1
kind: Pod
metadata: {name: one, namespace: llm}
spec:
  containers:
    - name: vllm
      image: vllm/vllm-openai:v0.24.0
      args:
        - unsloth/Llama-3.1-8B-Instruct
        - --use-v2-block-manager
        - --disable-log-requests  # podfit: ignore removed-flag -- until staging is newer
"""


def test_fix_leaves_what_a_comment_accepts_and_what_moves_with_it(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(TWO_FLAGS)

    _, out, err = run("fix", "--rule", "removed-flag", "--write", str(file))

    assert err.count("repaired: removed-flag") == 1
    assert "not repaired" not in err
    assert out.count("\n-") == 1
    assert file.read_text() == TWO_FLAGS.replace("        - --use-v2-block-manager\n", "")


def test_fix_names_the_object_where_a_file_has_several(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "pods.yaml"
    file.write_text(f"{TWO_FLAGS}---\n{TWO_FLAGS.replace('name: one', 'name: two')}")

    _, _, err = run("fix", "--rule", "removed-flag", str(file))

    for name in ("one", "two"):
        assert f"{file}: would repair: Pod llm/{name}: removed-flag: " in err


PART = "spec:\n  containers:\n  - {name: vllm, image: vllm/vllm-openai:v0.27.1}\n"


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        (PART, "apiVersion and kind are missing"),
        ("apiVersion: v1\n" + PART, "kind is missing"),
    ],
)
def test_a_part_of_a_manifest_is_not_checked_and_says_what_is_missing(
    text: str, missing: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "part.yaml"
    path.write_text(text)

    assert main(["check", str(path)]) == 0
    assert f"{path}:1: not checked: {missing}, so this is not a Kubernetes object." in capsys.readouterr().err


def test_values_of_a_chart_are_no_part_of_a_manifest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "values.yaml"
    path.write_text("image: {repository: vllm/vllm-openai}\ncontainers: 1\n")

    assert main(["check", str(path)]) == 0
    assert "not checked" not in capsys.readouterr().err


@pytest.mark.parametrize(("text", "code"), [(PART, 1), ("a: 1\n", 1), ("apiVersion: v1\nkind: Pod\n" + PART, 0)])
def test_input_without_vllm_can_fail_a_pipeline(text: str, code: int, tmp_path: Path) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text(text)

    assert main(["check", "--fail-on-nothing", str(path)]) == code
    assert main(["check", str(path)]) == 0


def test_fix_repairs_what_is_only_audited_if_it_is_asked_to(run: Run) -> None:
    file = "tests/rules/arguments-lost/bad.yaml"

    assert "shell-swallows-sigterm" not in run("fix", file)[2]
    assert "would repair: shell-swallows-sigterm: " in run("fix", "--audit", file)[2]
    rows = json.loads(run("check", "--format", "json", "--audit", file)[1])["results"][0]["findings"]
    audited = [row for row in rows if row["rule"] == "shell-swallows-sigterm"]
    assert [(row["fix"], row["level"]) for row in audited] == [(None, "audited")]


@pytest.mark.parametrize(
    "file",
    [one for name in ("probe*", "argument*") for one in sorted((ROOT / "tests" / "rules").glob(f"{name}/bad*.yaml"))],
    ids=str,
)
def test_check_counts_the_findings_with_a_repair(run: Run, file: Path) -> None:
    counted = re.search(r"a repair for (\d+) of (\d+) finding", run("check", str(file))[1])
    note = run("fix", str(file))[2]
    told = re.search(r"(\d+) repairs?(?: for (\d+) findings)?; (\d+|no) finding", note)

    if counted is None:
        assert "no repair applies" in note
        return
    assert told is not None
    made, fixed, left = int(told[1]), int(told[2] or told[1]), int(told[3].replace("no", "0"))
    assert made <= int(counted[1]) <= fixed, "a repair may also remove findings that have none of their own"
    assert int(counted[2]) == fixed + left


@pytest.mark.parametrize(
    "words",
    [
        ["plan", "Qwen/Qwen3-9X"],
        ["plan", "--gpu", "l99", "Qwen/Qwen3-8B"],
        ["plan", "--vllm-version", "nix", "Qwen/Qwen3-8B"],
        ["models", "show", "Qwen/Qwen3-9X"],
        ["policy", "show", "strit"],
        ["policy", "lint", "strit"],
        ["policy", "diff", "strit", "default", "--on", BAD],
        ["check", "--policy", "strit", BAD],
        ["check", "--rule", "strit", BAD],
        ["check", "--format", "strit", BAD],
        ["fix", "--ignore", "strit", BAD],
        ["explain", "strit"],
        ["explain", "--policy", "strit", "shm-missing"],
        ["report", "--policy", "strit", BAD],
        ["chekc"],
    ],
    ids=" ".join,
)
def test_an_unknown_name_ends_with_exit_code_2_in_every_command(run: Run, words: list[str]) -> None:
    code, _, err = run(*words)

    assert code == 2
    assert "error: " in err


@pytest.mark.parametrize("command", ["check", "fix", "explain", "report"])
def test_a_file_that_does_not_exist_ends_with_exit_code_3_in_every_command(run: Run, command: str) -> None:
    assert run(command, "./no-such.yaml")[0] == 3
    assert run(command, "--policy", "no/such.yaml", BAD)[0] == 3


def test_report_of_a_log_names_the_command_for_it(run: Run, tmp_path: Path) -> None:
    (tmp_path / "crash.log").write_text("INFO 09-30 18:28:40 vLLM API server version 0.21.0\nKilled\n")

    code, out, err = run("report", str(tmp_path / "crash.log"))

    assert (code, out) == (2, "")
    assert err.startswith(f"error: {tmp_path / 'crash.log'}: a log, not a manifest. Fix: `podfit diagnose ")


def test_explain_has_the_levels_of_check_the_denied_first(run: Run) -> None:
    out = run("explain", "tests/rules/probe-wrong-port/bad-path-and-window.yaml")[1]

    assert "allowed" not in out
    levels = re.findall(r"^  (denied|likely to fail|advice)  ", out, re.MULTILINE)
    assert levels == ["denied", "denied", "likely to fail", "advice"]


def test_an_image_without_a_release_is_advice(run: Run) -> None:
    out = run("check", "tests/rules/unpinned-image/bad.yaml")[1]

    assert re.search(r"^advice  unpinned-image", out, re.MULTILINE)


def test_a_planned_manifest_names_the_first_download(run: Run) -> None:
    out = run("plan", "Qwen/Qwen3-8B", "--gpu", "h100", "-o", "yaml")[1]

    first = (
        r"^# start-up: about \d+ s, .*\n#   the first start also downloads 15\.3 GiB to the volume, which takes about"
    )
    assert re.search(rf"{first} \d+ s more$", out, re.MULTILINE)


LINE = ["--", "vllm", "serve", "Qwen/Qwen3-8B", "--max-model-len", "8192"]


def test_plan_of_a_line_assumes_the_newest_release_as_plan_of_a_model_does(run: Run) -> None:
    newest = json.loads(run("plan", "Qwen/Qwen3-8B", "--format", "json")[1])["vllm_version"]

    out = run("plan", "--gpu", "l4", *LINE)[1]
    tree = json.loads(run("plan", "--gpu", "l4", "--format", "json", *LINE)[1])

    assert out.startswith("FITS: ")
    assert f"vLLM         {newest}  (assumed: the newest release that podfit knows; --vllm-version" in out
    assert (tree["engine"]["version"], tree["vllm_version_assumed"]) == (newest, True)
    assert f"vLLM {newest} (the newest that podfit knows)" in run("plan", "Qwen/Qwen3-8B")[1]
    assert "assumed" not in run("plan", "--gpu", "l4", "--vllm-version", newest, *LINE)[1]


def test_the_sources_of_a_plan_name_the_planned_release(run: Run) -> None:
    out = run("plan", "--gpu", "l4", "--vllm-version", "0.21.0", *LINE)[1]

    assert "sources: formulas of vLLM 0.21.0, files named as in 0.33\n" in out
    assert "  budget               v1/worker/gpu_worker.py, request_memory\n" in out


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (
            ["--gpu", "l4:2", "--vllm-version", "0.33.0", *LINE, "-tp", "2", "--gpu-memory-utilization", "0.96"],
            "leaves 902.5 MiB of the GPU outside the budget; CUDA context and NCCL take about 1 GiB "
            "(307.2 MiB … 3 GiB) there",
        ),
        (
            ["--gpu", "l4", "--vllm-version", "0.33.0", *LINE[:-1], "20000"],
            "one request of 20,000 tokens needs 2.7 GiB; the low end of the estimate is short by 3",
        ),
    ],
)
def test_unsure_names_the_interval_that_is_the_reason(run: Run, words: list[str], why: str) -> None:
    first = run("plan", *words)[1].splitlines()[0]

    assert first.startswith("UNSURE: ")
    assert why in first


PROBES_MISSING = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: small}
spec:
  selector: {matchLabels: {app: small}}
  template:
    metadata: {labels: {app: small}}
    spec:
      containers:
        - name: vllm
          image: vllm/vllm-openai:v0.21.0
          args: [--model=mistralai/Mistral-7B-Instruct-v0.3, --max-model-len=8192]
          resources:
            requests: {memory: 32Gi}
            limits: {nvidia.com/gpu: 1, memory: 32Gi}
"""
VOLUME_AS_LARGE_AS_THE_LIMIT = (
    PROBES_MISSING.replace("memory: 32Gi", "memory: 16Gi").replace("gpu: 1", "gpu: 2").replace("192]", "192, -tp=2]")
    + """\
          volumeMounts: [{name: dshm, mountPath: /dev/shm}]
      volumes: [{name: dshm, emptyDir: {medium: Memory, sizeLimit: 16Gi}}]
"""
)
"""A higher memory limit leaves room for spikes, and covers the volume."""


def test_a_repair_names_the_other_findings_that_it_fixes(run: Run, tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(VOLUME_AS_LARGE_AS_THE_LIMIT)

    err = run("fix", str(tmp_path / "pod.yaml"))[2]

    assert re.search(r"would repair: memory-headroom-missing: .*; also fixes shm-not-in-limit\n", err)
    assert "would repair: shm-not-in-limit" not in err
    assert re.search(r"note: \d repairs? for \d findings; \d finding", err)


def test_the_next_command_can_be_copied(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "my deploy"
    folder.mkdir()
    for number in range(5):
        (folder / f"pod {number}.yaml").write_text(PROBES_MISSING)

    few = run("check", "--gpu", "h100", *map(str, sorted(folder.glob("pod [01]*"))))[1].splitlines()[-1]
    many = run("check", "--rule", "readiness-probe-missing", str(folder))[1].splitlines()[-1]

    for line, named in ((few, 2), (many, 1)):
        words = shlex.split(line.removeprefix("next: "), comments=True)
        assert words[:2] == ["podfit", "fix"]
        assert len([word for word in words if word.startswith(str(folder))]) == named
        assert run(*words[1:])[2].count("would repair: readiness-probe-missing") == (2 if named == 2 else 5)
    assert "--gpu h100" in few


def test_fix_lists_what_it_leaves_with_the_level(run: Run) -> None:
    err = run("fix", BAD)[2]

    assert f"{BAD}: not repaired (denied): gpu-memory-exceeded: " in err
    assert "note: 1 repair; 1 finding left\n" in err


def test_diagnose_names_an_input_that_no_line_of_vllm_is_in(run: Run) -> None:
    assert "no failure seen" not in run("diagnose", "-", stdin=b"nginx: started\n")[1]
    assert run("diagnose", "-", stdin=b"nginx: started\n")[1].startswith("-: no line of vLLM, an Event")
    began = b"INFO 05-01 10:00:00 [api.py:1] vLLM API\n"
    assert "this text shows no cause" in run("diagnose", "-", stdin=began)[1]
    assert "no failure seen" in run("diagnose", "-", stdin=began + b"INFO:     Application startup complete.\n")[1]
