"""Models of the local Hugging Face cache: read by plan and explain, and by check only if it is asked to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from podfit.cli import main
from podfit.cli.support import checkpoints
from podfit.cli.support.edge import UnusableError
from podfit.cli.support.hub_cache import CachedModels
from podfit.vllm.facts import GivenModel

CONFIG: Mapping[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
    "max_position_embeddings": 8192, "torch_dtype": "bfloat16",
}  # fmt: skip
POD = """
apiVersion: v1
kind: Pod
metadata: {name: chat}
spec:
  nodeSelector: {nvidia.com/gpu.product: Tesla-T4}
  containers:
    - name: vllm
      image: vllm/vllm-openai:v0.33.0
      args: [--model=acme/chat-9b]
      resources: {limits: {nvidia.com/gpu: "1"}}
"""


@pytest.fixture
def snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The snapshot abc123 of acme/chat-9b in a cache of its own."""
    for name in ("HF_HUB_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    repository = tmp_path / "home" / "hub" / "models--acme--chat-9b"
    folder = repository / "snapshots" / "abc123"
    folder.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("abc123")
    (folder / "config.json").write_text(json.dumps(CONFIG))
    return folder


def planned(capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    """The plan of a command line that serves the model."""
    command = ["plan", "--no-config", "--gpu", "l40s", "--vllm-version", "0.33.0", "--format", "json", *options]
    main([*command, "--", "vllm", "serve", "acme/chat-9b"])
    plan: dict[str, Any] = json.loads(capsys.readouterr().out)
    return plan


def checked(capsys: pytest.CaptureFixture[str], manifest: Path, *options: str) -> dict[str, Any]:
    """The only result of `podfit check`."""
    main(["check", "--format", "json", *options, str(manifest)])
    (result,) = json.loads(capsys.readouterr().out)["results"]
    found: dict[str, Any] = result
    return found


def test_plan_reads_the_cache_and_says_path_and_revision(snapshot: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = planned(capsys)["model"]
    assert str(snapshot.parent.parent) in model["source"]
    assert "revision abc123" in model["source"]
    assert model["may_deny"] is False


def test_without_the_cache_only_the_name_says_something(snapshot: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert planned(capsys, "--no-hf-cache")["model"]["source"].startswith("name: ")


def test_check_reads_it_only_with_the_option_and_never_denies_by_it(
    snapshot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = tmp_path / "pod.yaml"
    manifest.write_text(POD)
    assert checked(capsys, manifest, "--no-config")["plan"]["model"]["source"].startswith("name: ")
    read = checked(capsys, manifest, "--no-config", "--hf-cache")
    assert "Hugging Face cache" in read["plan"]["model"]["source"]
    assert read["plan"]["verdict"] == "does-not-fit"
    assert read["denied"] is False


COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("revision", "denied"), [(COMMIT, True), ("main", False), (COMMIT[:12], False), ("f" * 40, False)]
)
def test_a_snapshot_denies_only_if_the_revision_names_its_commit(
    snapshot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], revision: str, denied: bool
) -> None:
    (snapshot / "config.json").write_text(json.dumps({**CONFIG, "num_hidden_layers": 80}))
    snapshot.rename(snapshot.parent / COMMIT)
    (snapshot.parent.parent / "refs" / "main").write_text(COMMIT)
    manifest = tmp_path / "pod.yaml"
    manifest.write_text(POD.replace("--model=acme/chat-9b", f"--model=acme/chat-9b, --revision={revision}"))
    result = checked(capsys, manifest, "--no-config", "--hf-cache")
    assert result["plan"]["verdict"] == ("does-not-fit" if denied or revision == "main" else "unsure")
    assert result["denied"] is denied
    assert checked(capsys, manifest, "--no-config")["denied"] is False


def test_the_revision_names_a_snapshot_that_is_not_the_branchs(snapshot: Path) -> None:
    folder = snapshot.parent / COMMIT
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({**CONFIG, "hidden_size": 2048}))
    models = CachedModels({}, reads_cache=True, asks_hub=False)
    assert models["acme/chat-9b"].config["hidden_size"] == 4096
    assert models[f"acme/chat-9b@{COMMIT}"].config["hidden_size"] == 2048
    assert models.get("acme/chat-9b@../../refs") is None


CONFIG_MAP = """---
apiVersion: v1
kind: ConfigMap
metadata:
  name: other
  labels: {podfit.dev/model-config: "true"}
  annotations: {podfit.dev/model: MODEL}
data:
  config.json: |
"""


@pytest.mark.parametrize(
    ("model", "source"), [("acme/other", "Hugging Face cache"), ("acme/chat-9b", "ConfigMap other")]
)
def test_a_config_map_of_the_input_overrides_the_cache_for_its_own_model_alone(
    snapshot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], model: str, source: str
) -> None:
    manifest = tmp_path / "pod.yaml"
    manifest.write_text(f"{POD}{CONFIG_MAP.replace('MODEL', model)}    {json.dumps(CONFIG)}\n")
    result = checked(capsys, manifest, "--no-config", "--hf-cache")
    assert result["plan"]["model"]["source"].startswith(source)


def test_the_project_file_can_switch_it_on(snapshot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest, project = tmp_path / "pod.yaml", tmp_path / "podfit.yaml"
    manifest.write_text(POD)
    project.write_text("hfCache: true\n")
    read = checked(capsys, manifest, "--config", str(project))
    assert "Hugging Face cache" in read["plan"]["model"]["source"]
    read = checked(capsys, manifest, "--config", str(project), "--no-hf-cache")
    assert read["plan"]["model"]["source"].startswith("name: ")


def test_a_broken_snapshot_is_named_and_the_rest_goes_on(snapshot: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (snapshot / "config.json").write_text("{")
    assert planned(capsys)["model"]["source"].startswith("name: ")
    models = CachedModels({}, reads_cache=True, asks_hub=False)
    assert models.get("acme/chat-9b") is None
    assert f"note: Hugging Face cache: {snapshot.parent.parent}: config.json: not JSON" in capsys.readouterr().err


def test_the_hub_is_asked_once_per_model_and_an_error_names_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    def from_hub(name: str, revision: str) -> GivenModel:
        asked.append((name, revision))
        if name == "acme/gone":
            raise UnusableError(f"{name}: 404 not found", 3)
        return GivenModel(CONFIG, f"Hugging Face hub: {name}@{revision}")

    monkeypatch.setattr(checkpoints, "from_hub", from_hub)
    models = CachedModels({}, reads_cache=False, asks_hub=True)
    assert models["acme/chat-9b"].may_deny is False
    assert models.get("acme/gone") is None
    assert models.get("acme/gone") is None
    assert models.get("/models/chat") is None
    assert asked == [("acme/chat-9b", "main"), ("acme/gone", "main")]
    assert capsys.readouterr().err == "note: acme/gone: 404 not found\n"


def test_given_models_come_first_and_counted_models_of_the_catalog_are_not_looked_up(snapshot: Path) -> None:
    given = GivenModel(CONFIG, "models/acme/chat-9b")
    models = CachedModels({"acme/chat-9b": given}, reads_cache=True, asks_hub=False)
    assert models["acme/chat-9b"] is given
    assert list(models) == ["acme/chat-9b"]
    assert bool(CachedModels({}, reads_cache=True, asks_hub=False))
