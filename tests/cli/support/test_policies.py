"""Policies that podfit ships, by their names, wherever a policy is accepted."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from podfit.cli import main
from podfit.cli.support import policies

ROOT = Path(__file__).parents[3]
GOOD = (ROOT / "examples" / "good.yaml").read_text()
UNPINNED = GOOD.replace("vllm/vllm-openai:v0.27.1", "vllm/vllm-openai:latest")
Capture = pytest.CaptureFixture[str]


@pytest.fixture(name="folder")
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a manifest that `strict` denies and the default policy allows."""
    (tmp_path / "pod.yaml").write_text(UNPINNED)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_shipped_policies_are_those_of_the_repository() -> None:
    names = tuple(sorted(path.stem for path in (ROOT / "policies").glob("*.yaml")))
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]

    assert names == policies.SHIPPED
    assert wheel["force-include"] == {
        f"policies/{name}.yaml": f"podfit/data/policies/{name}.yaml" for name in policies.SHIPPED
    }


@pytest.mark.parametrize(
    "command",
    [
        ["check", "--policy", "strict", "pod.yaml"],
        ["check", "--config", "project.yaml", "pod.yaml"],
        ["policy", "diff", "default", "strict", "--on", "pod.yaml"],
        ["policy", "diff", "observe", "strict", "--on", "pod.yaml"],
    ],
)
def test_a_name_is_a_policy(folder: Path, command: list[str]) -> None:
    assert main(["check", "pod.yaml"]) == 0
    (folder / "project.yaml").write_text("policies: [strict]\n")

    assert main(command) == 1


def test_a_policy_test_may_name_one(folder: Path, capsys: Capture) -> None:
    case = {"name": "unpinned", "file": "pod.yaml", "expect": {"denied": True, "rules": {"unpinned-image": "deny"}}}
    tests = {"apiVersion": "podfit.dev/v1alpha1", "kind": "PolicyTest", "policies": ["strict"], "cases": [case]}
    (folder / "cases.json").write_text(json.dumps(tests))

    assert main(["policy", "test", "cases.json"]) == 0, capsys.readouterr().out


def test_a_file_of_that_name_comes_first(folder: Path) -> None:
    (folder / "strict").write_text((ROOT / "policies" / "observe.yaml").read_text())

    assert main(["check", "--policy", "strict", "pod.yaml"]) == 0


def test_a_place_in_it_begins_with_its_name(folder: Path, capsys: Capture) -> None:
    main(["explain", "unpinned-image", "--policy", "strict", "--on", "pod.yaml"])

    assert "strict:10, policy strict" in capsys.readouterr().out


def test_show_prints_one_or_lists_all(capsys: Capture) -> None:
    assert main(["policy", "show", "strict"]) == 0
    assert capsys.readouterr().out == (ROOT / "policies" / "strict.yaml").read_text()

    assert main(["policy", "show"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(policies.SHIPPED)


@pytest.mark.parametrize(
    ("name", "hint"), [("strickt", ". Did you mean strict?"), ("xyzzy", ". Allowed: autofix, default, ")]
)
def test_an_unknown_name_is_told_with_the_nearest(capsys: Capture, name: str, hint: str) -> None:
    assert main(["policy", "show", name]) == 2
    assert f"error: {name}: not a shipped policy, and no such file or directory{hint}" in capsys.readouterr().err
