"""The recipes of docs/ci.md and the hook of pre-commit, as far as they run without a network and a cluster."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from podfit.cli import main

ROOT = Path(__file__).parents[2]
DENIED = (ROOT / "examples" / "llama-8b-on-a-t4.yaml").read_text()
GOOD = (ROOT / "examples" / "good.yaml").read_text()


def recipes(title: str) -> Iterator[Any]:
    """The YAML of one section of the page."""
    section = (ROOT / "docs" / "ci.md").read_text().split(f"\n## {title}\n")[1].split("\n## ")[0]
    for text in re.findall(r"```yaml\n(.*?)```", section, flags=re.DOTALL):
        yield yaml.safe_load(text)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, a repository with manifests and other files."""
    files = {
        "deploy/bad.yaml": DENIED,
        "deploy/good one.yml": GOOD,
        "tsconfig.json": '{"a": 1, // a comment\n}\n',
        ".github/workflows/test.yaml": "on: push\n",
        "README.md": "vllm serve\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_hook_of_pre_commit_checks_the_manifests_of_a_commit(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """pre-commit searches `files` and `exclude` in each name, and appends the names to entry and args."""
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    ((repository,),) = [recipe["repos"] for recipe in recipes("pre-commit")]
    (used,) = repository["hooks"]
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    names = [name for name in names if re.search(hook["files"], name) and not re.search(hook["exclude"], name)]
    program, *command = shlex.split(hook["entry"])

    code = main([*command, *used["args"], *names])

    assert used["id"] == hook["id"]
    assert program == "podfit"
    assert names == ["deploy/bad.yaml", "deploy/good one.yml"]
    assert code == 1
    assert "deploy/bad.yaml: Deployment chat/llama-8b" in capsys.readouterr().out
    assert main([*command, *used["args"], "deploy/good one.yml"]) == 0


def test_the_job_of_gitlab_writes_its_reports(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (recipe,) = recipes("GitLab")
    (line,) = recipe["podfit"]["script"]
    program, *command = shlex.split(line)

    code = main(command)

    assert (program, code) == ("podfit", 1)
    assert all((folder / name).stat().st_size for name in recipe["podfit"]["artifacts"]["reports"].values())
    assert "1 denied" in capsys.readouterr().out


def test_the_job_of_argo_cd_checks_the_manifests_of_this_sync(folder: Path) -> None:
    """The ConfigMap has to be a hook of an earlier wave; else the Job has the one of the last sync, or none."""
    kustomization, job = recipes("Argo CD")
    (generator,) = kustomization["configMapGenerator"]
    pod = job["spec"]["template"]["spec"]
    (container,), (volume,) = pod["containers"], pod["volumes"]
    (mount,) = container["volumeMounts"]
    hook, wave = "argocd.argoproj.io/hook", "argocd.argoproj.io/sync-wave"

    assert job["metadata"]["annotations"][hook] == generator["options"]["annotations"][hook] == "PreSync"
    assert int(generator["options"]["annotations"][wave]) < int(job["metadata"]["annotations"].get(wave, 0))
    assert volume["configMap"]["name"] == generator["name"]
    assert mount["mountPath"] in container["args"]
    assert set(generator["files"]) < set(kustomization["resources"])
    assert main([str(folder / "deploy") if word == mount["mountPath"] else word for word in container["args"]]) == 1
