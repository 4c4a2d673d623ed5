"""What `podfit fix` writes, a real API server takes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from podfit.cli import main
from podfit.evaluation.policy import builtin
from podfit.evaluation.repair import repair
from podfit.kube import manifest, quantity
from podfit.kube.manifest.parameters import Filled
from podfit.kube.patch import apply, json_patch
from scripts.docs import EXAMPLES, beside
from tests.e2e.controlplane import Cluster
from tests.e2e.process import until

ROOT = Path(__file__).parents[2]
PATHS = {
    ("v1", "Pod"): "/api/v1/namespaces/default/pods",
    ("apps/v1", "Deployment"): "/apis/apps/v1/namespaces/default/deployments",
    ("apps/v1", "StatefulSet"): "/apis/apps/v1/namespaces/default/statefulsets",
    ("apps/v1", "DaemonSet"): "/apis/apps/v1/namespaces/default/daemonsets",
    ("batch/v1", "Job"): "/apis/batch/v1/namespaces/default/jobs",
}
"""Kubernetes' own kinds, in a namespace that podfit does not evaluate."""


@pytest.fixture(name="server", scope="session")
def _server(cluster: Cluster) -> Cluster:
    """The API server, as soon as Pods can be made: each gets the namespace's service account."""
    account = "/api/v1/namespaces/default/serviceaccounts/default"
    until("the default service account", lambda: cluster.call("GET", account)[0] == 200, lambda: "")
    for name in ("gvisor", "kata-qemu"):  # examples run in them
        runtime = {"metadata": {"name": name}, "handler": name}
        status, said = cluster.call("POST", "/apis/node.k8s.io/v1/runtimeclasses", runtime)
        assert status == 201, said
    return cluster


def answer(server: Cluster, obj: dict[str, Any]) -> str:
    """What the API server says of an object, "" where it takes it; nothing is stored."""
    metadata = {key: value for key, value in obj["metadata"].items() if key != "namespace"}
    path = PATHS[obj["apiVersion"], obj["kind"]] + "?dryRun=All&fieldValidation=Strict"
    status, said = server.call("POST", path, {**obj, "metadata": metadata})
    return "" if status == 201 else str(said.get("message"))


def repaired(path: Path) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Each object of a file that has a repair, before and after it."""
    read = manifest.read(path.read_bytes(), path.name)
    for document in read.documents:
        if isinstance(document.object, Filled) and document.object.unfilled:
            continue  # a Template's object, of which the API server never gets `$(NAME)`
        edits = repair(document.object, builtin(), beside(read)).edits
        if edits and (document.object["apiVersion"], document.object["kind"]) in PATHS:
            yield document.object, apply(document.object, json_patch(document.object, edits))


def test_every_repaired_example_is_taken(server: Cluster) -> None:
    files = [
        *EXAMPLES.glob("*/bad*.yaml"),
        *(ROOT / "examples").glob("*.yaml"),
        *(ROOT / "tests").glob("never*/*.yaml"),
    ]
    objects = [(path, after) for path in sorted(files) for _, after in repaired(path)]

    refused = {path.name: said for path, after in objects if (said := answer(server, after))}

    assert len(objects) > 30
    assert not refused


def test_a_gpu_request_without_a_limit_is_refused_as_the_rule_says(server: Cluster) -> None:
    ((before, after),) = repaired(EXAMPLES / "gpu-request-without-limit" / "bad.yaml")

    assert "Limit must be set for non overcommitable resources" in answer(server, before)
    assert not answer(server, after)


def test_a_request_that_differs_from_its_limit_is_refused_as_the_rule_says(server: Cluster) -> None:
    path = EXAMPLES / "gpu-request-without-limit" / "bad-differ.yaml"
    (document,) = manifest.read(path.read_bytes(), path.name).documents

    assert "must be equal to nvidia.com/gpu limit of 1" in answer(server, document.object)


BASE = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: vllm}
spec:
  selector: {matchLabels: {app: vllm}}
  template:
    metadata: {labels: {app: vllm}}
    spec:
      containers:
        - name: vllm
          image: vllm/vllm-openai:v0.27.1
          args: [Qwen/Qwen3-8B, --tensor-parallel-size, "2"]
          resources: {limits: {nvidia.com/gpu: "2", memory: 4Gi}}
          livenessProbe:
            httpGet: {path: /health, port: 8000}
"""
OVERLAY = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: vllm}
spec:
  template:
    spec:
      containers:
        - name: vllm
          resources: {limits: {memory: 25Gi}}
          startupProbe:
            httpGet: {path: /health, port: 8000}
            periodSeconds: 10
            failureThreshold: 2000
"""


def test_what_fix_writes_builds_as_before_and_no_number_of_the_author_gets_smaller(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every example as a file; a base whose overlay grants more than the estimate, and some examples, as
    `kubectl kustomize` builds them."""
    examples = tmp_path / "examples"
    base, overlay = tmp_path / "base", tmp_path / "overlay"
    for folder in (base, overlay):
        folder.mkdir()
    (base / "vllm.yaml").write_text(BASE)
    (base / "kustomization.yaml").write_text("resources: [vllm.yaml]\n")
    (overlay / "more.yaml").write_text(OVERLAY)
    (overlay / "kustomization.yaml").write_text("resources: [../base]\npatches: [{path: more.yaml}]\n")
    built = [overlay]
    for number, path in enumerate(sorted(EXAMPLES.glob("*/bad*.yaml"))):
        folder = examples / str(number)
        folder.mkdir(parents=True)
        (folder / "bad.yaml").write_bytes(path.read_bytes())
        if number % 10 == 0:
            (folder / "kustomization.yaml").write_text("resources: [bad.yaml]\n")
            built.append(folder)
    before = {folder: build(cluster.kubectl, folder) for folder in built}
    manifests = {path: path.read_text() for path in sorted(tmp_path.rglob("*.yaml"))}

    main(["fix", "--write", "--audit", str(tmp_path)])

    changed = {path: text for path, text in manifests.items() if path.read_text() != text}
    assert len(changed) > 30, capsys.readouterr().out
    assert overlay / "more.yaml" not in changed
    assert base / "vllm.yaml" in changed
    assert {path: less for path, text in changed.items() if (less := smaller(text, path.read_text()))} == {}
    after = {folder: build(cluster.kubectl, folder) for folder in built}
    assert {folder: less for folder in built if (less := smaller(before[folder], after[folder]))} == {}
    assert "25Gi" in after[overlay]


def build(kubectl: str, folder: Path) -> str:
    """The manifests that `kubectl kustomize` builds, "" if it cannot."""
    return subprocess.run([kubectl, "kustomize", str(folder)], capture_output=True, text=True, check=False).stdout


def smaller(before: str, after: str) -> list[str]:
    """Numbers and quantities of the first manifests that are smaller in the second; some repairs remove a probe."""
    found = []
    now = dict(numbers(list(yaml.load_all(after, Loader=yaml.CSafeLoader))))
    for place, value in numbers(list(yaml.load_all(before, Loader=yaml.CSafeLoader))):
        if now.get(place, value) < value:
            found.append(f"{place}: {value} -> {now[place]}")
    return found


def numbers(value: Any, place: str = "") -> Iterator[tuple[str, float]]:
    """Every number and quantity except ports with its place; items of lists by their name, if they have one."""
    match value:
        case dict():
            for key, one in value.items():
                if key != "port":
                    yield from numbers(one, f"{place}.{key}")
        case list():
            for index, one in enumerate(value):
                yield from numbers(one, f"{place}[{one.get('name', index) if isinstance(one, dict) else index}]")
        case int() | float() | str() if not isinstance(value, bool):
            with suppress(ValueError):
                yield place, float(quantity.parse(str(value)))
