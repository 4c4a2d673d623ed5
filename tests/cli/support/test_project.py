"""`podfit.yaml`: found, applied, named, and never checked."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from podfit.cli import main
from podfit.cli.support.project_model import Project

ROOT = Path(__file__).parents[3]
GOOD = (ROOT / "examples" / "good.yaml").read_text()
BAD = (ROOT / "examples" / "llama-8b-on-a-t4.yaml").read_text()


@pytest.fixture(name="folder")
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a project file, two manifests, and the working directory in a folder of it."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "deploy" / "old").mkdir(parents=True)
    for name in ("deploy/new.yaml", "deploy/old/old.yaml"):
        (tmp_path / name).write_text(BAD)
    (tmp_path / "podfit.yaml").write_text("exclude: [deploy/old]\nfailOn: advice\n")
    monkeypatch.chdir(tmp_path / "deploy")
    return tmp_path


def test_the_file_above_is_named_and_applied(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "."]) == 1

    out, err = capsys.readouterr()
    assert "1 file, 1 vLLM container" in out
    assert f"note: project file {folder / 'podfit.yaml'}\n" in err


@pytest.mark.parametrize(("options", "files"), [(["--no-config"], 2), ([], 1)])
def test_no_config_reads_none(folder: Path, capsys: pytest.CaptureFixture[str], options: list[str], files: int) -> None:
    main(["check", *options, "--format", "json", str(folder)])

    rows = json.loads(capsys.readouterr().out)
    assert len(rows["results"]) == files
    assert not rows["errors"]


def test_an_option_replaces_its_field(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--ignore", "gpu-memory-exceeded", "new.yaml"]

    assert main(["check", *options]) == 1
    assert main(["check", "--fail-on", "denied", *options]) == 0


def test_outside_the_repository_no_file_is_read(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "deploy" / ".git").mkdir()

    main(["check", "."])

    assert "project file" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("gpu: l4\nexclud: [a]\n", "mine.yaml:2: exclud: unknown field. Did you mean exclude?"),
        ("fail-on: likely\n", "mine.yaml:1: fail-on: unknown field. Did you mean failOn?"),
        ("nothing_like_it: 1\n", "mine.yaml:1: nothing_like_it: unknown field. Expected one of policies, gpu, "),
        ("gpu: 3\n", "mine.yaml:1: gpu: not text (3, expected text)"),
        ("gpu: l99\n", "mine.yaml:1: gpu: not a valid GPU ('l99'): "),
        ("exclude: old\n", "mine.yaml:1: exclude: not a list ('old', expected a list such as [old])"),
        (
            "failOn: Likley\n",
            "('Likley', expected denied, likely or advice). Did you mean likely?",
        ),
        ("gpu: l4\nformats: [xml]\n", "mine.yaml:2: formats: 'xml' is not a valid format. Expected one of text, "),
        ("formats: [sarf]\n", "mine.yaml:1: formats: 'sarf' is not a valid format. Did you mean sarif?"),
        ("policies: [strit]\n", "mine.yaml:1: policies: no such file or directory ('strit'). Did you mean strict?"),
        ("models: none\n", "mine.yaml:1: models: no such folder ('none')"),
    ],
)
def test_a_mistake_has_file_line_field_and_reason(
    folder: Path, capsys: pytest.CaptureFixture[str], text: str, told: str
) -> None:
    path = folder / "deploy" / "mine.yaml"
    path.write_text(text)

    assert main(["check", "--config", "mine.yaml", "new.yaml"]) == 2
    assert told in capsys.readouterr().err


def test_a_policy_of_that_name_is_no_project_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "podfit.yaml").write_text("rules: {}\n")

    main(["check", "new.yaml"])

    assert "project file" not in capsys.readouterr().err


def test_the_schema_is_that_of_the_model() -> None:
    schema = json.loads((ROOT / "docs" / "schemas" / "project.json").read_text())

    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema == {"$schema": "https://json-schema.org/draft/2020-12/schema", **Project.model_json_schema()}


@pytest.fixture(name="team")
def _team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose file has a policy, which denies what is advice, and a GPU."""
    (tmp_path / ".git").mkdir()
    unpinned = GOOD.replace("vllm-openai:v0.27.1", "vllm-openai:latest")
    (tmp_path / "pod.yaml").write_text(unpinned)
    (tmp_path / "pinned.yaml").write_text(GOOD)
    (tmp_path / "log.txt").write_text((ROOT / "tests" / "diagnose" / "no-gpu.txt").read_text())
    (tmp_path / "podfit.yaml").write_text("policies: [strict]\ngpu: l4\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        (["check", "pod.yaml"], "denied  unpinned-image"),
        (["explain", "pod.yaml"], "denied  unpinned-image"),
        (["diff", "pinned.yaml", "pod.yaml"], "unpinned-image"),
        (["diagnose", "log.txt", "--manifest", "pod.yaml", "-v"], "denied  unpinned-image"),
        (["plan", "--", "vllm", "serve", "Qwen/Qwen3-8B"], "NVIDIA L4"),
    ],
)
def test_other_commands_read_it_too(
    team: Path, capsys: pytest.CaptureFixture[str], argv: list[str], shown: str
) -> None:
    command, *rest = argv
    main(argv)
    out, err = capsys.readouterr()
    main([command, "--no-config", *rest])
    without = capsys.readouterr()

    assert shown in out
    assert f"note: project file {team / 'podfit.yaml'}\n" in err
    assert "denied  unpinned-image" not in without.out
    assert "project file" not in without.err


def test_its_gpu_does_not_answer_which_gpus_a_model_needs(team: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert team.exists()
    main(["plan", "Qwen/Qwen3-8B", "--users", "4"])
    out = capsys.readouterr().out

    assert "H100" in out or "A100" in out


def test_config_names_a_folder_that_may_have_none(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--config", "..", "."]) == 1
    assert "note: project file ../podfit.yaml" in capsys.readouterr().err
    assert main(["check", "--config", "old", "."]) == 1
    assert "project file" not in capsys.readouterr().err
    assert folder.exists()
