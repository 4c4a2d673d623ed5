"""The diff of `podfit fix` applies with git and patch, from the folder where podfit ran."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from podfit.cli import main

BAD = Path(__file__).parents[1] / "rules" / "shm-missing" / "bad.yaml"
NAMES = [
    "pod.yaml",
    "deploy/pod.yaml",
    "./deploy/../pod.yaml",
    "a pod.yaml",
    'q"uote\\d.yaml',
    "tab\there.yaml",
    "é漢.yaml",
]
TOOLS = {"git": ["git", "apply"], "patch": ["patch", "-p1"]}


def _fixed(name: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["fix", name]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("folder", ["", "team/llm"], ids=["root", "subfolder"])
@pytest.mark.parametrize("name", [*NAMES, "absolute"])
@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("ending", ["\n", "\r\n", ""], ids=["lf", "crlf", "no line break at the end"])
def test_the_diff_applies(
    tool: str,
    name: str,
    folder: str,
    ending: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    here = tmp_path / folder
    text = BAD.read_text()
    text = text.replace("\n", "\r\n") if ending == "\r\n" else text.rstrip("\n") + ending
    path = here / ("pod.yaml" if name == "absolute" else name)
    path.parent.mkdir(parents=True, exist_ok=True)
    (here / "deploy").mkdir(exist_ok=True)
    path.write_bytes(text.encode())
    monkeypatch.chdir(here)
    given = str(path) if name == "absolute" else name

    shown = _fixed(given, capsys)
    done = subprocess.run(
        [*TOOLS[tool], *(["--binary"] if tool == "patch" else [])], input=shown.encode(), cwd=here, capture_output=True
    )

    assert done.returncode == 0, (done.stdout + done.stderr).decode()
    assert path.read_bytes() != text.encode()
    assert _fixed(given, capsys) == ""
