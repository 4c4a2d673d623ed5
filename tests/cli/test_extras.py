"""What runs without an extra, and what a command prints if its extra is missing."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

from podfit.cli import COMMANDS
from podfit.cli.support import extras

ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
OF_SERVER = {"a2wsgi", "flask", "gunicorn", "httptools", "uvicorn", "uvloop", "werkzeug"}
BLOCKED = """
import sys
sys.modules.update(dict.fromkeys({names!r}))
"""
"""A program's first lines, which make it an environment without these libraries."""
IMPORT_ALL = """
import importlib, pkgutil
import podfit
for package in {packages!r}:
    importlib.import_module(package)
    for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{{package}}."):
        if module.name not in {but!r} and not module.name.endswith("__main__"):
            importlib.import_module(module.name)
"""
RUN = "from podfit.cli import main; sys.exit(main({words!r}))"
FILE = "examples/good.yaml"
LOG = "tests/diagnose/cache-not-writable.txt"
REVIEW = """
{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "1", "operation": "CREATE",
 "kind": {"group": "", "version": "v1", "kind": "Pod"},
 "resource": {"group": "", "version": "v1", "resource": "pods"}, "object": {"apiVersion": "v1", "kind": "Pod",
  "metadata": {"name": "a"}, "spec": {"containers": [{"name": "vllm", "image": "vllm/vllm-openai:v0.27.1"}]}}}}
"""
BASE_COMMANDS: dict[str, tuple[str, ...]] = {
    "check": ("check", FILE),
    "fix": ("fix", FILE),
    "diff": ("diff", FILE, FILE),
    "plan": ("plan", "Qwen/Qwen3-8B", "--gpu", "l4"),
    "explain": ("explain", FILE),
    "diagnose": ("diagnose", LOG),
    "report": ("report", FILE),
    "calibrate": ("calibrate", "tests/diagnose/calibrate/llama-8b.log", "--gpu", "NVIDIA-H100-80GB-HBM3"),
    "review": ("review", "-"),
    "models": ("models", "show", "Qwen/Qwen3-8B"),
    "policy": ("policy", "show", "strict"),
    "releases": ("releases", "list"),
    "completion": ("completion", "bash"),
    "version": ("version",),
}
"""Each command that needs no extra, on its example."""


def without(names: Sequence[str], program: str) -> subprocess.CompletedProcess[str]:
    """Run a program in an environment without these libraries."""
    code = BLOCKED.format(names=sorted(names)) + program
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, input=REVIEW, capture_output=True, text=True, check=False
    )


def test_each_command_is_of_the_base_or_of_an_extra() -> None:
    assert set(COMMANDS) == BASE_COMMANDS.keys() | extras.COMMANDS.keys()
    assert not BASE_COMMANDS.keys() & extras.COMMANDS.keys()


def test_each_library_of_an_extra_is_known_by_its_module() -> None:
    names = {re.split(r"[\[<>=]", line)[0] for lines in EXTRAS.values() for line in lines} - {"podfit"}

    assert {name.replace("-", "_") for name in names} | {"werkzeug"} == extras.LIBRARIES.keys()


def test_the_base_has_twelve_packages() -> None:
    lock = (ROOT / "requirements" / "base.lock").read_text()

    assert re.findall(r"^([a-z-]+)==", lock, re.MULTILINE) == [
        "annotated-types", "cachetools", "jsonpatch", "jsonpointer", "pydantic", "pydantic-core", "pyyaml", "shtab",
        "tree-sitter", "tree-sitter-bash", "typing-extensions", "typing-inspection",
    ]  # fmt: skip


def test_all_modules_of_base_commands_import_without_an_extra() -> None:
    packages = [f"podfit.{name}" for name in
                ("base", "kube", "vllm", "rules", "evaluation", "diagnose", "generate", "report", "cli")]  # fmt: skip
    support = [f"podfit.cli.support.{name}" for name in ("cluster_policy", "exporter")]
    done = without([*extras.LIBRARIES], IMPORT_ALL.format(packages=packages, but=support))

    assert not done.returncode, done.stderr


def test_all_modules_of_the_cluster_extra_import_without_the_servers_libraries() -> None:
    program = IMPORT_ALL.format(packages=["podfit.cluster", "podfit.cli"], but=[]) + "import podfit.server.doctor\n"
    done = without([*OF_SERVER], program)

    assert not done.returncode, done.stderr


@pytest.mark.parametrize("words", BASE_COMMANDS.values(), ids=BASE_COMMANDS)
def test_a_base_command_runs_without_an_extra(words: tuple[str, ...]) -> None:
    done = without([*extras.LIBRARIES], RUN.format(words=words))

    assert not done.returncode, done.stderr
    assert done.stdout + done.stderr
    assert "podfit[" not in done.stderr


@pytest.mark.parametrize(("command", "extra"), extras.COMMANDS.items())
def test_a_command_without_its_extra_names_it_in_one_line(command: str, extra: str) -> None:
    done = without([*extras.LIBRARIES], RUN.format(words=[command]))

    assert done.returncode == 2
    assert done.stderr == f"error: podfit {command} needs podfit[{extra}]: pip install 'podfit[{extra}]'\n"
    assert not done.stdout


@pytest.mark.parametrize(
    "words",
    [
        ["check", "deploy/llama"],
        ["explain", "deploy/llama"],
        ["diagnose", "llama-0"],
        ["plan", "Qwen/Qwen3-8B", "--nodes", "cluster"],
    ],
)
def test_a_base_command_that_reads_a_cluster_names_the_extra(words: list[str]) -> None:
    done = without([*extras.LIBRARIES], RUN.format(words=words))

    assert done.returncode == 2
    text = f"error: podfit {words[0]} needs podfit[cluster] to read from a cluster: pip install 'podfit[cluster]'\n"
    assert done.stderr == text


def test_help_lists_all_commands_without_an_extra() -> None:
    done = without([*extras.LIBRARIES], RUN.format(words=["--help"]))

    assert all(re.search(rf"^ +{command} ", done.stdout, re.MULTILINE) for command in COMMANDS)


def test_another_missing_module_is_an_internal_error() -> None:
    assert extras.missing_for("scan", ModuleNotFoundError("no", name="podfit.nothing")) is None
    assert extras.missing_for("scan", ValueError("no")) is None
