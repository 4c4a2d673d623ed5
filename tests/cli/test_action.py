"""The GitHub Action's step: its shell, run in a clone of a real repository with a pull request."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from scripts.action.words import words

ROOT = Path(__file__).parents[2]
DENIED = (ROOT / "examples" / "llama-8b-on-a-t4.yaml").read_text()
ADVICE = (ROOT / "examples" / "good.yaml").read_text().replace("vllm-openai:v0.27.1", "vllm-openai:latest")
EXCLUDE_ALL = "exclude: ['*']\n"
POLICY = (ROOT / "policies" / "observe.yaml").read_text()
STEPS = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
LOCKS = re.findall(r'"\$ACTION/(\S+)"', (ROOT / "action.yml").read_text())
HOSTILE = "import sys; sys.exit('the pull request runs code')\n"
BACKEND = """\
import zipfile


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    with zipfile.ZipFile(f"{wheel_directory}/podfit-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("podfit/__init__.py", "")
        wheel.writestr("podfit/cli.py", "import sys; print(sys.argv[1:])")
        wheel.writestr("podfit-1.dist-info/METADATA", "Metadata-Version: 2.1\\nName: podfit\\nVersion: 1\\n")
        wheel.writestr("podfit-1.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr("podfit-1.dist-info/RECORD", "")
    return "podfit-1-py3-none-any.whl"
"""
"""Builds a podfit that prints its arguments, without a package of an index."""


def write_program(path: Path) -> None:
    """Writes a program `python` that runs this interpreter."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    path.chmod(0o755)


def git(folder: Path, *words: str) -> None:
    identity = ("-c", "user.name=ci", "-c", "user.email=ci@example.com")
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


def commit(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=change")


class Runner:
    """A checkout of the branch `change`, as actions/checkout makes it, and the Action's step in it."""

    def __init__(self, folder: Path, base: dict[str, str], change: dict[str, str]) -> None:
        origin = folder / "origin"
        origin.mkdir()
        git(origin, "init", "--quiet", "--initial-branch=main")
        commit(origin, base)
        git(origin, "checkout", "--quiet", "-b", "change")
        commit(origin, change)
        git(folder, "clone", "--quiet", "--depth=1", "--branch=change", origin.as_uri(), "checkout")
        self.checkout, self.temporary = folder / "checkout", folder / "temporary"
        write_program(self.temporary / "podfit" / "bin" / "python")

    def run(self, base_ref: str = "main", **inputs: str) -> subprocess.CompletedProcess[str]:
        """The step `podfit check`."""
        files = {"FILES": inputs.pop("files", ".")}
        return self.step("podfit check", GITHUB_BASE_REF=base_ref, **files, **{k.upper(): v for k, v in inputs.items()})

    def step(self, name: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """A step of the Action, run in the checkout as a runner does."""
        (step,) = (one for one in STEPS if one.get("name") == name)
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.temporary),
            "RUNNER_TEMP": str(self.temporary),
            "GITHUB_STEP_SUMMARY": str(self.temporary / "summary.md"),
            "GITHUB_OUTPUT": str(self.temporary / "output"),
            **dict.fromkeys(step["env"], ""),
            "ACTION": str(ROOT),
            **variables,
        }
        words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        return subprocess.run(words, cwd=self.checkout, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("base", "change", "code"),
    [
        ({}, {}, 1),
        ({}, {"podfit.yaml": EXCLUDE_ALL}, 1),
        ({"podfit.yaml": "gpu: t4\n"}, {"podfit.yaml": EXCLUDE_ALL}, 1),
        ({"podfit.yaml": "exclude: [deploy/*]\n"}, {}, 0),
        ({"podfit.yaml": "policies: [ours.yaml]\n", "ours.yaml": POLICY}, {"ours.yaml": "no: policy\n"}, 0),
        ({"podfit.yaml": POLICY}, {}, 1),  # a policy of that name is not a project file
        ({"podfit.yaml": "gpu: t4\n"}, {"podfit.yaml": "not: known\n"}, 1),
    ],
)
def test_a_pull_request_is_checked_with_the_project_file_of_its_base(
    tmp_path: Path, base: dict[str, str], change: dict[str, str], code: int
) -> None:
    runner = Runner(tmp_path, {"README.md": "a\n", **base}, {"deploy/pod.yaml": DENIED, **change})

    done = runner.run()

    assert done.returncode == code, done.stderr
    assert ("::error file=deploy/pod.yaml" in done.stdout) is (code == 1)


def test_a_push_is_checked_with_its_own_project_file(tmp_path: Path) -> None:
    runner = Runner(tmp_path, {"README.md": "a\n"}, {"deploy/pod.yaml": DENIED, "podfit.yaml": "exclude: [deploy/*]\n"})

    assert runner.run(base_ref="").returncode == 0


def test_a_base_that_cannot_be_read_is_told_and_no_file_is_used(tmp_path: Path) -> None:
    runner = Runner(tmp_path, {"README.md": "a\n"}, {"deploy/pod.yaml": DENIED, "podfit.yaml": EXCLUDE_ALL})

    done = runner.run(base_ref="gone")

    assert done.returncode == 1
    assert "::warning::podfit: the base branch can't be read; podfit.yaml is not used" in done.stdout


def test_the_step_may_run_twice_in_a_job_with_other_inputs(tmp_path: Path) -> None:
    runner = Runner(tmp_path, {"podfit.yaml": "gpu: l4\n"}, {"deploy/pod.yaml": ADVICE})

    assert runner.run().returncode == 0
    assert runner.run(args="--policy strict", sarif="podfit.sarif").returncode == 1
    assert (runner.checkout / "podfit.sarif").exists()
    assert "unpinned-image" in (runner.temporary / "summary.md").read_text()


def test_no_code_of_the_checkout_runs(tmp_path: Path) -> None:
    """Modules that Python, pip or podfit would import from the working directory, also with PYTHONPATH."""
    names = ("venv", "pip", "ensurepip", "sitecustomize", "usercustomize", "podfit", "yaml", "argparse", "re")
    change = {f"{name}{end}": HOSTILE for name in names for end in (".py", "/__init__.py")}
    runner = Runner(tmp_path, {"README.md": "a\n"}, {"--helm": "a\n", "setup.py": HOSTILE, **change})
    action = tmp_path / "action"
    build = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    for name, text in {"pyproject.toml": build, "backend.py": BACKEND, **dict.fromkeys(LOCKS, "")}.items():
        (action / name).parent.mkdir(parents=True, exist_ok=True)
        (action / name).write_text(text)
    write_program(tmp_path / "bin" / "python")
    shutil.rmtree(runner.temporary / "podfit")
    here = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": ".", "PIP_NO_INDEX": "1"}

    installed = runner.step("Install podfit", ACTION=str(action), **here)
    checked = runner.step("podfit check", GITHUB_BASE_REF="main", ARGS="--audit", FILES="a.yaml --helm", **here)

    assert (installed.returncode, installed.stdout) == (0, ""), installed.stderr
    assert checked.returncode == 0, checked.stderr
    assert checked.stdout.rstrip().endswith("'--audit', '--', 'a.yaml', '--helm']")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("deploy/ overlays/", ["deploy/", "overlays/"]),
        ("deploy/\n'my files/'\n", ["deploy/", "my files/"]),
        ('"my files/pod.yaml" --fail-on advice', ["my files/pod.yaml", "--fail-on", "advice"]),
        ("deploy\\\\pod.yaml #1.yaml", ["deploy\\\\pod.yaml", "#1.yaml"]),
        ("it's/pod.yaml deploy", ["it's/pod.yaml", "deploy"]),
        ("**/*.yaml $HOME `id` $(id)", ["**/*.yaml", "$HOME", "`id`", "$(id)"]),
        ("", []),
    ],
)
def test_an_input_is_split_into_words(text: str, expected: list[str]) -> None:
    assert words(text) == expected


def test_a_name_with_a_blank_is_one_file(tmp_path: Path) -> None:
    runner = Runner(tmp_path, {"README.md": "a\n"}, {"my files/pod.yaml": DENIED})

    done = runner.run(files="'my files/pod.yaml'")

    assert done.returncode == 1
    assert "::error file=my files/pod.yaml" in done.stdout


def test_overlapping_inputs_check_a_file_once(tmp_path: Path) -> None:
    runner = Runner(tmp_path, {"README.md": "a\n"}, {"deploy/pod.yaml": DENIED})

    once, often = (runner.run(files=files).stdout for files in ("deploy", ". deploy deploy/pod.yaml ./deploy"))

    assert once.count("::error") == often.count("::error")


def test_what_the_action_uses_of_others_is_pinned() -> None:
    assert [one["uses"] for one in STEPS if "uses" in one and not re.search("@[0-9a-f]{40}$", one["uses"])] == []
    assert LOCKS
    assert all((ROOT / name).is_file() for name in LOCKS)
