"""docs/rollout.md, docs/admin.md and docs/monitoring.md, as they are typed: every command runs on a control plane where
Helm installs podfit, and prints what the page shows (`make e2e ARGS="-k pages --update"` writes it again). After every
command the server has the policy that a terminal reads as the one in force."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.controlplane import running
from tests.e2e.release import ROOT
from tests.e2e.site import BLOCK, Site, commands, opened, still
from tests.e2e.test_helm import prepare

DOCS = ROOT / "docs"
ROLLOUT, ADMIN, MONITORING = (DOCS / f"{name}.md" for name in ("rollout", "admin", "monitoring"))
NAMESPACES = "kubectl create namespace chat && kubectl create namespace search"
WORKLOADS = "kubectl apply -f workloads.yaml"
EXIT_3 = "--on-audit-log"
"""The control plane's audit log is of level Metadata, without objects: the page says what is printed then."""
BROKEN = {"llama-70b", "llama-8b-l4", "mistral-7b", "qwen-dtype", "qwen-tp2", "qwen-typo"}


@pytest.fixture(name="site")
def _site(tmp_path: Path) -> Iterator[Site]:
    """A cluster with six workloads that cannot start and one that can, before podfit is installed."""
    with running() as cluster:
        if not cluster.controllers:
            pytest.skip("without a controller manager there are no Pods")
        prepare(cluster)
        with opened(cluster, tmp_path) as site:
            assert site.types(NAMESPACES)[0] == 0
            assert site.types(WORKLOADS)[0] == 0
            yield site


def types_block(site: Site, language: str, text: str) -> str:
    """Runs all commands of a block; the block as a screen shows it."""
    screen = []
    for command in re.findall(r"(?m)^\$ (.*)$", text) if language == "console" else commands(text):
        if command.startswith("jq ") and not shutil.which("jq"):
            continue
        code, output = site.types(command)
        denied = language == "console" and "denied the request" in output
        assert code == (3 if EXIT_3 in command else int(denied)), f"$ {command}\n{output}"
        screen.append(f"$ {command}\n{output}")
    return "".join(screen)


def walk(page: Path, site: Site, *, update: bool) -> list[str]:
    """Runs a page from its first block to its last; the languages of its blocks."""
    languages = []
    for block in BLOCK.finditer(page.read_text()):
        language, text, file = block["language"], block["text"], block["file"]
        languages.append(language)
        if file:
            (site.desk / file).write_text(text)
        elif language in ("sh", "console"):
            screen = types_block(site, language, text)
            if language == "console" and update:
                page.write_text(page.read_text().replace(f"```console\n{text}```", f"```console\n{screen}```", 1))
            elif language == "console":
                assert still(screen) == still(text)
    return languages


def queries(page: Path) -> set[str]:
    """podfit's own series that a page asks Prometheus for."""
    text = "".join(block["text"] for block in BLOCK.finditer(page.read_text()) if block["language"] == "promql")
    return set(re.findall(r"\bpodfit_\w+", text))


def test_rollout(site: Site, request: pytest.FixtureRequest) -> None:
    languages = walk(ROLLOUT, site, update=request.config.getoption("--update"))

    assert {"sh", "console", "yaml", "promql"} <= set(languages)
    assert site.podfit is not None
    names = set(re.findall(r"(?m)^# TYPE (podfit_\w+) ", site.metrics()))
    assert {name for name in queries(ROLLOUT) if not {name, name.removesuffix("_total")} & names} == set()


@pytest.mark.parametrize("page", [ADMIN, MONITORING], ids=lambda page: page.stem)
def test_page(page: Path, site: Site, request: pytest.FixtureRequest) -> None:
    """After the installation of the rollout."""
    first = next(block for block in BLOCK.finditer(ROLLOUT.read_text()) if block["language"] == "sh")
    types_block(site, "sh", first["text"])

    assert {"sh", "console"} & set(walk(page, site, update=request.config.getoption("--update")))


def test_a_terminal_shows_what_the_webhook_does(site: Site) -> None:
    """Of each workload: scan, check and the API server agree, while nothing is enforced and then in one namespace."""
    first = next(block for block in BLOCK.finditer(ROLLOUT.read_text()) if block["language"] == "sh")
    types_block(site, "sh", first["text"])
    enforced = json.dumps({
        "apiVersion": "podfit.dev/v1alpha1", "kind": "Policy", "metadata": {"name": "a"},
        "spec": {"match": {"namespaces": ["search"]}, "enforce": {"mode": "deny"}},
    })  # fmt: skip

    for policy, denied in ((None, set()), (enforced, {"qwen-dtype", "qwen-tp2"})):
        if policy:
            (site.desk / "policy.json").write_text(policy)
            site.types("kubectl apply -f policy.json")
        scan = json.loads(site.types("podfit scan --format json 2> /dev/null")[1])
        states = {one["object"]["name"]: one["state"] for one in scan["results"]}
        assert {name for name, state in states.items() if state == "denied"} == denied
        assert {name for name, state in states.items() if state == "would_deny"} == BROKEN - denied
        for result in scan["results"]:
            name, namespace = result["object"]["name"], result["object"]["namespace"]
            code, _ = site.types(f"podfit check deploy/{name} -n {namespace} --policy cluster")
            status = site.creates(name, namespace)
            assert (code, status) == ((1, 403) if name in denied else (0, 201)), name
