"""`--facts DIR` of the commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from podfit.base import data
from podfit.cli import main
from scripts.facts import build
from tests.evaluation.test_newer_facts import pod
from tests.facts import sets

COMMANDS = ("check", "fix", "diff", "explain", "diagnose", "review", "plan", "scan", "version", "serve")


@pytest.fixture(autouse=True)
def _packaged(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a command uses, it uses to the end of the process."""
    monkeypatch.setattr(data, "_process", [data.PACKAGED])


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    sets.write(tmp_path / "set", sets.NEW, sets.LARGE, "newer")
    (tmp_path / "pod.json").write_text(json.dumps(pod(sets.NEW)))
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_that_judge_take_newer_facts(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])

    assert "--facts DIR" in capsys.readouterr().out


def test_check_warns_and_denies_if_the_facts_are_trusted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = folder / "policy.yaml"
    policy.write_text("apiVersion: podfit.dev/v1alpha1\nkind: Policy\nmetadata: {name: p}\nspec: {trustFacts: true}\n")
    given = ["--facts", str(folder / "set"), str(folder / "pod.json")]

    assert main(["check", *given]) == 0
    assert "rests on the facts newer, which inform unless the policy says trustFacts" in capsys.readouterr().out
    assert main(["check", "--policy", str(policy), *given]) == 1


def test_plan_knows_the_models_of_newer_facts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--gpu", "l4", "--format", "json", "--", "vllm", "serve", sets.NEW]

    assert main(["plan", *asked]) == 0
    assert json.loads(capsys.readouterr().out)["model"] is None
    assert main(["plan", "--facts", str(folder / "set"), *asked]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "does-not-fit"


def test_version_says_the_set(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version", "--facts", str(folder / "set")]) == 0
    assert "\nfacts newer (" in capsys.readouterr().out


def test_a_broken_set_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "set" / "gpus.json").write_bytes(b"{}")

    assert main(["check", "--facts", str(folder / "set"), str(folder / "pod.json")]) == 3
    said = capsys.readouterr()
    place = folder / "set" / "gpus.json"
    assert (said.out, said.err) == ("", f"error: --facts {place}: its SHA-256 is not that of digests.json\n")


def test_the_builder_writes_a_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert build.main(["--set", str(tmp_path / "set"), "--name", "ours"]) == 0
    assert capsys.readouterr().out == f"wrote {tmp_path / 'set'}: ours\n"

    assert main(["version", "--facts", str(tmp_path / "set")]) == 0
    with pytest.raises(SystemExit):
        build.main(["--set", str(tmp_path / "set"), "--name", "../ours"])
