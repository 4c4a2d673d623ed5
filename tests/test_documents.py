"""What people read: the denial that README shows is the real one, links lead somewhere, commands exist."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import sys
from pathlib import Path

import pytest
import yaml

from podfit import __version__
from podfit.cli import main, parser
from podfit.evaluation import denial
from podfit.evaluation.lint import lint
from podfit.evaluation.policy import builtin, document, of_layers
from podfit.evaluation.policy.shape import SpecShape
from podfit.vllm.facts import Facts
from scripts import console

ROOT = Path(__file__).parent.parent
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
LINK = re.compile(r"\]\((?!https?://|mailto:)([^)#\s]*)(#[^)\s]*)?\)")
YAML = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HEAD = "apiVersion: podfit.dev/v1alpha1\nkind: Policy\nmetadata: {name: shown}\n"


def commands() -> set[str]:
    """Every word that may follow `podfit`."""
    return {
        name
        for action in parser()._actions
        if isinstance(action, argparse._SubParsersAction)
        for name in action.choices
    }


def heading(line: str) -> str:
    """The anchor that GitHub gives to a heading."""
    return re.sub(r"[^\w\- ]", "", line.lstrip("#").strip().lower()).replace(" ", "-")


def test_the_refusal_in_the_readme_is_what_podfit_says() -> None:
    manifest = yaml.safe_load((ROOT / "examples" / "llama-8b-with-131072-tokens.yaml").read_text())
    said = denial.refusal(lint(manifest, builtin(), Facts()))

    assert said in (ROOT / "README.md").read_text()


def test_the_first_manifest_in_the_readme_can_be_checked_as_it_is() -> None:
    first = yaml.safe_load(YAML.findall((ROOT / "README.md").read_text())[0])
    (result,) = lint(first, builtin(), Facts()).results

    assert [one.rule for one in result.findings if one.mode == "deny"] == ["kv-cache-too-small"]


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in LINK.findall(page.read_text()):
        path = (page.parent / target).resolve() if target else page
        assert path.exists(), f"{target} is not there"
        if anchor and path.suffix == ".md":
            headings = {heading(line) for line in path.read_text().splitlines() if line.startswith("#")}
            assert anchor[1:] in headings, f"{target or page.name} has no heading for {anchor}"


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_commands_in_shell_blocks_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z0-9.]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for block in FENCED.findall(page.read_text()):
        for word in re.findall(r"(?:^|[|;&]\s*|\$ )(?:\.venv/bin/)?podfit ([a-z]+)\b", block, re.MULTILINE):
            assert word in commands(), f"podfit {word}"
        for word in re.findall(r"^make ([a-z0-9]+)", block, re.MULTILINE):
            assert word in targets, f"make {word}"


def policies() -> list[tuple[str, str]]:
    """Every policy that a page shows, a bare `spec` with the head that it has in a file."""
    words = {field.alias or name for name, field in SpecShape.model_fields.items()}
    found = []
    for name, page in zip(NAMES, PAGES, strict=True):
        for number, block in enumerate(YAML.findall(page.read_text()), 1):
            parsed = next(yaml.safe_load_all(block))
            spec = parsed.get("spec") if isinstance(parsed, dict) else None
            if not isinstance(spec, dict) or not words & spec.keys():
                continue
            head = (
                "" if "kind" in parsed else "apiVersion: podfit.dev/v1alpha1\nkind: Policy\nmetadata: {name: shown}\n"
            )
            if parsed.get("kind", "Policy") == "Policy":
                found.append((f"{name}, block {number}", head + block))
    return found


def test_pages_show_policies() -> None:
    assert {name.partition(",")[0] for name, _ in policies()} >= {
        "docs/policies.md",
        "docs/releases.md",
        "docs/rollout.md",
    }


@pytest.mark.parametrize(("name", "shown"), policies(), ids=lambda value: value if "," in value[:60] else "")
def test_a_policy_in_a_page_lints(name: str, shown: str) -> None:
    of_layers(document.read([(name, shown)]))


def test_the_tutorial_is_compared_with_what_podfit_prints() -> None:
    """`make lint` and `make package` compare the page itself."""
    page = console.TUTORIAL.read_text()
    start = page[: page.index("## 3.")]

    assert list(console.differences(start, Path(sys.executable).parent)) == []
    assert len(list(console.differences(start.replace("16 GiB", "17 GiB"), Path(sys.executable).parent))) == 1


def test_every_page_is_reached_from_the_documentations_own() -> None:
    """By links alone, as on GitHub: the site's navigation is not there."""
    waiting, reached = [ROOT / "docs" / "README.md"], set()
    while waiting:
        page = waiting.pop()
        if page not in reached and page.suffix == ".md":
            reached.add(page)
            waiting += [(page.parent / target).resolve() for target, _ in LINK.findall(page.read_text()) if target]

    assert {page.name for page in set((ROOT / "docs").rglob("*.md")) - reached} == set()


def test_pages_name_the_version_of_the_package() -> None:
    shown = re.compile(r"(?:podfit[:-]|image\.tag=|rev: v|podfit --version |download/v|tags/v)(\d+\.\d+\.\d+)")
    named = {(name, one) for name, page in zip(NAMES, PAGES, strict=True) for one in shown.findall(page.read_text())}

    assert {name for name, _ in named} >= {"README.md", "docs/install.md", "docs/rollout.md", "docs/ci.md"}
    assert {one for _, one in named} == {__version__}


def test_pages_count_the_models_of_the_catalog() -> None:
    models = json.loads((ROOT / "webhook" / "podfit" / "data" / "models.json").read_text())["models"]
    counted = re.compile(r"about ([\d,]+) (?:published )?models", re.IGNORECASE)
    named = [one for page in PAGES for one in counted.findall(page.read_text())]

    assert len(named) >= 3
    assert set(named) == {f"{round(len(models), -2):,}"}


def test_pages_name_the_oldest_kubernetes_that_the_chart_allows() -> None:
    chart = yaml.safe_load((ROOT / "charts" / "podfit" / "Chart.yaml").read_text())["kubeVersion"]
    (oldest,) = re.findall(r">=(\d+\.\d+)\.0", chart)

    assert f"Kubernetes {oldest} or newer" in (ROOT / "docs" / "install.md").read_text()
    assert f"| Kubernetes | {oldest} and newer" in (ROOT / "docs" / "support.md").read_text()


def test_the_accuracy_page_repeats_the_benchmarks_numbers() -> None:
    benchmark, accuracy = ((ROOT / "docs" / name).read_text() for name in ("benchmark.md", "accuracy.md"))
    rows = dict(re.findall(r"^\| ([^|]+?) \|[^|]*\| ([^|]+?) \|", benchmark, re.MULTILINE))
    denied, failures = rows["failures denied"].split(" of ")

    assert rows["false denials"].startswith("0 of ")
    assert f"Of {failures} that failed for lack of memory, it denies {denied} " in accuracy
    assert f"off by {rows['KV memory of the GPU, median']} of the GPU in the median" in accuracy


def typed() -> list[str]:
    """README's commands that need no cluster, no Helm and no checkpoint, and that end by themselves."""
    lines = "\n".join(FENCED.findall((ROOT / "README.md").read_text())).replace("\\\n", " ").splitlines()
    ours = (line for line in lines if line.startswith("podfit ") and "| kubectl" not in line)
    return [line for line in ours if line.split()[1] not in ("doctor", "lsp", "mcp", "off", "on", "scan", "ui")]


@pytest.mark.parametrize("line", typed())
def test_readmes_commands_run_as_they_are_typed(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("examples", "policies"):
        (tmp_path / name).symlink_to(ROOT / name)
    (policy,) = (one for one in YAML.findall((ROOT / "README.md").read_text()) if "kind: Policy" in one)
    (tmp_path / "ours.yaml").write_text(policy)
    monkeypatch.chdir(tmp_path)
    for command in line.split("&&"):
        program, *argv = shlex.split(command, comments=True)

        assert program == "podfit"
        assert main(argv) in (0, 1), capsys.readouterr().err
