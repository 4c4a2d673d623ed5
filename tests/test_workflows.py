"""The workflows of GitHub, as far as they can be checked without it."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.e2e import binaries

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yaml"))


def test_actionlint_has_nothing_to_say_of_the_workflows() -> None:
    program = binaries.tool("actionlint")
    if program is None:
        pytest.skip("there is no actionlint; `python -m tests.e2e.binaries actionlint` builds it")
    command = [program, "-no-color", "-shellcheck=", "-pyflakes=", *map(str, WORKFLOWS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_what_a_workflow_uses_of_others_is_pinned_by_its_commit(path: Path) -> None:
    used = re.findall(r"uses: (\S+)", path.read_text())

    assert used
    assert [one for one in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", one)] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_job_has_the_rights_that_it_names(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text())

    assert workflow["permissions"] == {}
    assert all("permissions" in job and "timeout-minutes" in job for job in workflow["jobs"].values())


def test_the_published_chart_has_its_own_image_and_digest(tmp_path: Path) -> None:
    """The step that packages the chart, up to Helm."""
    steps = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yaml").read_text())["jobs"]["chart"]["steps"]
    (script,) = [step["run"] for step in steps if "helm package" in step.get("run", "")]
    (command,) = [line for line in script.splitlines() if line.startswith("sed -i ")]
    values = tmp_path / "charts" / "podfit" / "values.yaml"
    values.parent.mkdir(parents=True)
    values.write_text((ROOT / "charts" / "podfit" / "values.yaml").read_text())
    digest = f"sha256:{'a' * 64}"

    environment = {"IMAGE": "ghcr.io/Acme/podfit", "DIGEST": digest, "PATH": os.environ["PATH"]}
    subprocess.run(["bash", "-ec", command], cwd=tmp_path, env=environment, check=True)

    image = yaml.safe_load(values.read_text())["image"]
    assert (image["repository"], image["digest"]) == ("ghcr.io/acme/podfit", digest)


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_an_issue_form_asks_something(path: Path) -> None:
    """The fields that GitHub requires (docs.github.com, "Syntax for issue forms")."""
    form = yaml.safe_load(path.read_text())

    assert {"name", "description", "body"} <= form.keys()
    assert any(one["type"] != "markdown" for one in form["body"])
    ids = [one["id"] for one in form["body"] if one["type"] != "markdown"]
    assert len(ids) == len(set(ids))
