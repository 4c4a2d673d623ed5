"""The tab Check: findings at their lines, the repair as `podfit fix` has it, hostile text that stays text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from podfit.cli import main
from podfit.ui import check
from tests.ui.desks import desk

EXAMPLES = Path(__file__).parents[2] / "examples"
LONG = EXAMPLES / "llama-8b-with-131072-tokens.yaml"
WITHOUT_SHM = EXAMPLES / "llama-70b-without-shm.yaml"


def answer(text: str, name: str = "") -> dict[str, Any]:
    return check.answer({"name": name, "text": text}, desk())


def test_a_finding_has_its_line_and_level() -> None:
    text = LONG.read_text()

    found = answer(text)

    first = found["findings"][0]
    assert (first["rule"], first["level"]) == ("kv-cache-too-small", "denied")
    assert "args" in text.splitlines()[first["line"] - 1] or "vllm" in text.splitlines()[first["line"] - 1]
    assert found["counts"]["denied"] == 1
    assert found["containers"][0]["state"] == "denied"
    assert [one["title"].split()[0] for one in found["containers"][0]["charts"]] == ["GPU", "host"]


def test_the_repair_is_that_of_podfit_fix(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fix", str(WITHOUT_SHM)]) == 0
    diff = capsys.readouterr().out

    found = answer(WITHOUT_SHM.read_text())["fix"]

    assert found["diff"].splitlines()[2:] == diff.splitlines()[2:]
    assert answer(found["text"])["fix"] is None


def test_an_unchanged_file_of_the_command_line_is_not_read_again() -> None:
    held = desk(LONG)
    (one,) = check.given(held)["files"]

    found = check.answer(one, held)

    assert one["name"] == str(LONG)
    assert found["counts"]["denied"] == 1


def test_the_other_files_of_a_directory_are_known(tmp_path: Path) -> None:
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "models"},
             "spec": {"resources": {"requests": {"storage": "1Gi"}}}}  # fmt: skip
    (tmp_path / "claim.yaml").write_text(str(claim))
    pod = tmp_path / "pod.yaml"
    pod.write_text(
        """apiVersion: v1
kind: Pod
metadata: {name: llama}
spec:
  nodeSelector: {nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB}
  containers:
    - name: vllm
      image: vllm/vllm-openai:v0.27.1
      args: [--model, unsloth/Llama-3.1-8B-Instruct, --max-model-len, "8192"]
      env: [{name: HF_HOME, value: /models}]
      resources: {limits: {nvidia.com/gpu: 1, memory: 64Gi}}
      volumeMounts: [{name: models, mountPath: /models}]
  volumes: [{name: models, persistentVolumeClaim: {claimName: models}}]
"""
    )
    held = desk(tmp_path)

    changed = check.answer({"name": str(pod), "text": pod.read_text() + "# changed"}, held)

    assert "model-cache-too-small" in [one["rule"] for one in changed["findings"]]
    assert "model-cache-too-small" not in [one["rule"] for one in answer(pod.read_text())["findings"]]


@pytest.mark.parametrize(
    ("text", "said"),
    [("a: [", "expected"), ("a: b: c", "mapping"), ("\x00", "")],
)
def test_what_is_no_yaml_is_a_problem_at_its_line(text: str, said: str) -> None:
    found = answer(text)

    assert found["problems"]
    assert said in found["problems"][0]["message"]
    assert found["fix"] is None


def test_nothing_at_all() -> None:
    found = answer("")

    assert found["findings"] == found["containers"] == []


def test_a_secret_is_masked_but_for_the_text_itself() -> None:
    found = answer(
        """apiVersion: v1
kind: Pod
metadata: {name: llama}
spec:
  containers:
    - name: vllm
      image: vllm/vllm-openai:v0.27.1
      args: [--model, Qwen/Qwen3-8B, --max-num-seqs, hf_aSecretThatNobodyMaySee0123456789]
"""
    )

    assert "invalid-flag-value" in [one["rule"] for one in found["findings"]]
    assert "hf_aSecret" not in str({key: value for key, value in found.items() if key != "fix"})


SECRETS = """apiVersion: v1
kind: Pod
metadata: {name: llama}
spec:
  containers:
    - name: vllm
      image: vllm/vllm-openai:v0.27.1
      command: [vllm, serve, unsloth/Llama-3.3-70B-Instruct]
      args: [--tensor-parallel-size, "4", --api-key, s3cretCanary1]
      env:
        - {name: DB_PASSWORD, value: s3cretCanary2}
        - name: PRIVATE_KEY
          value: |
            s3cretCanary3
            s3cretCanary4
        - {name: MIRROR, value: "https://u:s3cretCanary5@host/"}
      resources: {limits: {nvidia.com/gpu: 4, memory: 64Gi}}
"""


def test_a_secret_in_a_file_of_the_command_line_is_masked_and_checked_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(SECRETS)
    held = desk(tmp_path)
    (one,) = check.given(held)["files"]

    assert "s3cretCanary" not in one["text"]
    assert [len(line) for line in one["text"].split("\n")] == [len(line) for line in SECRETS.split("\n")]
    masked, whole = check.answer(one, held), check.answer({**one, "text": SECRETS}, held)
    assert masked["findings"] == whole["findings"] != []
    assert masked["fix"]["diff"] == whole["fix"]["diff"]
    assert "s3cretCanary" not in masked["fix"]["text"]
    assert "emptyDir" in masked["fix"]["text"]


def test_an_edited_text_with_masks_is_read(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(SECRETS)
    held = desk(tmp_path)
    (one,) = check.given(held)["files"]

    found = check.answer({**one, "text": f"{one['text']}# edited\n"}, held)

    assert found["problems"] == []
    assert "s3cretCanary" not in str(found)


def test_a_secret_in_a_file_that_cannot_be_read_is_masked(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(SECRETS + "a: [\n")

    assert "s3cretCanary2" not in str(check.given(desk(tmp_path)))


def test_half_a_character_in_a_text_is_no_error() -> None:
    """JSON can name one half of a pair of UTF-16 (`"\\ud800"`), which no encoding has."""
    text = LONG.read_text().replace("name: llama-8b-long", 'name: "llama-\ud800"', 1)

    assert answer(text)["counts"]["denied"] == 1


# ── The list of files ────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_counts_of_all_files_are_those_of_podfit_check(capsys: pytest.CaptureFixture[str]) -> None:
    main(["check", *(str(path) for path in sorted(EXAMPLES.glob("*.yaml")))])
    printed = capsys.readouterr().out

    marks = check.marks(desk(*sorted(EXAMPLES.glob("*.yaml"))))

    assert f"\n{marks['tally']}\n" in printed
    levels = {Path(row["name"]).name: row["level"] for row in marks["files"]}
    assert levels["good.yaml"] == "clean"
    assert levels[LONG.name] == "denied"


def test_the_counts_of_a_file_are_those_of_its_mark() -> None:
    marks = check.marks(desk(LONG))["files"]

    counts = answer(LONG.read_text())["counts"]
    assert marks[0]["words"] == f"{counts['denied']} denied, {counts['advice']} advice"
    assert counts["likely"] == counts["would_deny"] == 0


def test_files_without_vllm_or_yaml_have_marks(tmp_path: Path) -> None:
    (tmp_path / "claim.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
    (tmp_path / "wrong.yaml").write_text("apiVersion: v1\nkind: [\n")

    marks = check.marks(desk(tmp_path))

    assert {Path(row["name"]).name: row["level"] for row in marks["files"]} == {
        "claim.yaml": "none",
        "wrong.yaml": "error",
    }
    assert marks["tally"].endswith("; 1 error")


def test_a_label_leaves_out_the_folder_of_all_files(tmp_path: Path) -> None:
    for name in ("prod/a.yaml", "test/a.yaml"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")

    assert [file["label"] for file in check.given(desk(tmp_path))["files"]] == ["prod/a.yaml", "test/a.yaml"]
    assert check.given(desk(tmp_path / "prod/a.yaml"))["files"][0]["label"] == "a.yaml"
    assert check.given(desk())["files"] == []


def test_a_container_without_a_named_gpu_has_sides() -> None:
    text = LONG.read_text().replace("nvidia.com/gpu.product: NVIDIA-L4", "disk: ssd")

    sides = answer(text)["containers"][0]["sides"]

    assert {side["verdict"] for side in sides} >= {"fits", "does-not-fit"}
    assert answer(LONG.read_text())["containers"][0]["sides"] == []
