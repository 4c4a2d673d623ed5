"""What the commands say of themselves: help, completion, manual, pages."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
import yaml

from podfit.cli import COMMANDS, main, parser
from scripts import commands, krew

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("command", list(commands.commands()), ids=lambda command: str(command.name))
def test_every_command_tells_what_it_is_and_how_it_is_typed(command: commands.Command) -> None:
    assert command.title
    assert command.examples
    assert command.name in command.examples[0]
    assert all("podfit " in example for example in command.examples)
    for one in (command, *command.actions):
        for argument in one.arguments:
            assert argument.meaning or not argument.name.startswith("-"), (one.name, argument.name)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_shows_its_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])

    assert ended.value.code == 0
    assert f"podfit {command}" in capsys.readouterr().out.partition("examples:")[2]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_every_command_and_is_a_script(
    shell: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out

    assert all(command in script for command in COMMANDS)
    assert "--vllm-version" in script.replace("-l vllm-version", "--vllm-version")
    (tmp_path / "script").write_text(script)
    if program := shutil.which(shell):
        done = subprocess.run([program, "-n", str(tmp_path / "script")], capture_output=True, check=False)
        assert not done.returncode, done.stderr


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash to complete in")
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("plan --vllm", "--vllm-version"),
        ("explain shm-m", "shm-missing"),
        ("check --format sa", "sarif"),
        ("scan --format pol", "policyreport"),
        ("explain deploy.y", "deploy.yaml"),
    ],
)
def test_bash_completes(capsys: pytest.CaptureFixture[str], tmp_path: Path, words: str, offered: str) -> None:
    assert main(["completion", "bash"]) == 0
    (tmp_path / "script").write_text(capsys.readouterr().out)
    (tmp_path / "deploy.yaml").touch()
    *before, typed = words.split()
    asked = (
        f"source {tmp_path}/script; COMP_WORDS=(podfit {words}); COMP_CWORD={len(before) + 1}; "
        f'_shtab_podfit podfit {typed} {before[-1]}; echo "${{COMPREPLY[@]}}"'
    )
    done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.strip() == offered


@pytest.mark.skipif(shutil.which("fish") is None, reason="no fish to complete in")
def test_fish_completes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["completion", "fish"]) == 0
    (tmp_path / "script").write_text(capsys.readouterr().out)
    asked = f'source {tmp_path}/script; complete -C "podfit explain shm-m"'
    done = subprocess.run(
        ["fish", "--no-config", "-c", asked], capture_output=True, text=True, check=True, env={"HOME": str(tmp_path)}
    )
    assert "shm-missing" in done.stdout


def test_a_kubectl_plugin_is_called_as_it_is_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["/usr/local/bin/kubectl-podfit"])
    assert parser(["check"]).prog == "kubectl podfit"


@pytest.mark.skipif(shutil.which("groff") is None, reason="no groff to read the manual with")
def test_the_manual_is_read_without_a_warning() -> None:
    page = str(ROOT / "docs" / "podfit.1")
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", page], capture_output=True, check=True, env=environment)

    assert not done.stderr
    assert b"kubectl apply" in done.stdout


def test_krews_manifest_names_the_archive_and_its_hash(tmp_path: Path) -> None:
    assert krew.main([str(tmp_path)]) == 0
    (packed,) = tmp_path.glob("*.tar.gz")
    (platform,) = yaml.safe_load((tmp_path / "podfit.yaml").read_text())["spec"]["platforms"]

    assert platform["uri"].endswith(f"/{packed.name}")
    assert platform["sha256"] == hashlib.sha256(packed.read_bytes()).hexdigest()
    with tarfile.open(packed) as tar:
        tar.extractall(tmp_path, filter="data")

    launcher = tmp_path / platform["bin"]
    (tmp_path / "podfit").write_text('#!/bin/sh\necho "podfit $*"\n')
    (tmp_path / "podfit").chmod(0o755)
    for path, said in ((f"{tmp_path}:/usr/bin:/bin", "podfit check x.yaml\n"), ("/usr/bin:/bin", "")):
        done = subprocess.run(
            [str(launcher), "check", "x.yaml"], capture_output=True, text=True, check=False, env={"PATH": path}
        )
        assert done.stdout == said
        assert bool(said) or ("pipx install podfit" in done.stderr and done.returncode == 127)
