"""From the first release to this one and back; and away. Meanwhile the stand-ins of test_vllm.py start."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.e2e.process import until
from tests.e2e.release import OWN
from tests.node import image
from tests.node.admin import Admin, commands, guide

POLICY = "policies.podfit.dev/strict"


@pytest.fixture(name="saved", scope="module")
def _saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where docs/operations.md saves the Policy objects."""
    return tmp_path_factory.mktemp("saved") / "policies.yaml"


@pytest.fixture(name="removed", scope="module")
def _removed(podfit: Admin, standins: Path, saved: Path) -> Admin:
    """The cluster after docs/operations.md has turned podfit off without its program, and taken it away. Only tests of
    this module, and those that need no podfit, come after."""
    steps = [step for step in commands("docs/operations.md") if step.startswith(("kubectl", "helm"))]
    assert steps == [
        "kubectl delete validatingwebhookconfiguration,mutatingwebhookconfiguration podfit",
        f"helm uninstall podfit --namespace {OWN}",
        "kubectl get policies.podfit.dev -o yaml > policies.yaml",
        "kubectl delete crd policies.podfit.dev",
    ]
    off, uninstall, save, delete = steps
    podfit.types("kubectl apply -f policies/strict.yaml")

    podfit.types(off)
    until("podfit to be off", lambda: not podfit.denies())
    podfit.types(uninstall)
    assert podfit.types(f"kubectl get {POLICY} -o name").strip(), "an uninstall keeps Policy objects"
    podfit.types(save.replace("policies.yaml", str(saved)))
    podfit.types(delete)
    return podfit


def test_uninstalled_it_leaves_no_webhook_and_denies_nothing(removed: Admin) -> None:
    assert removed.configurations() == []
    assert not removed.denies()
    left = removed.types("kubectl get clusterroles,clusterrolebindings,crds -o name")
    assert "podfit" not in left
    kinds = "services,deployments,replicasets,jobs,cronjobs,secrets,configmaps,leases,rolebindings"

    def only_pods_that_end() -> bool:
        return not removed.remaining() and "podfit" not in removed.types(f"kubectl -n {OWN} get {kinds} -o name")

    until("what belongs to podfit's Deployment to go with it", only_pods_that_end, removed.describe)


def test_from_the_first_release_and_back(removed: Admin, saved: Path, tmp_path: Path) -> None:
    image.first_sources(tmp_path)
    install = guide("helm install").replace("charts/podfit", f"{tmp_path}/charts/podfit")
    removed.types(re.sub(r"image\.tag=\S+", f"image.tag={image.FIRST.rpartition(':')[2]}", install))
    removed.wait()
    assert _images(removed) == {image.FIRST}

    removed.upgrade()
    assert ["--certificate-secret" in str(pod["spec"]) for pod in removed.remaining()] == [True, True]
    assert _images(removed) == {image.PODFIT}
    removed.types(f"kubectl apply -f {saved}")
    assert removed.types(f"kubectl get {POLICY} -o name").strip()

    removed.types(f"helm rollback podfit --namespace {OWN}")
    removed.wait()
    assert ["--certificate-secret" in str(pod["spec"]) for pod in removed.remaining()] == [False, False]
    assert _images(removed) == {image.FIRST}


def _images(podfit: Admin) -> set[str]:
    """The images of podfit's Pods."""
    return {container["image"] for pod in podfit.remaining() for container in pod["spec"]["containers"]}
