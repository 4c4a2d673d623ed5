"""From the first release to this one and back; and away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.process import until
from tests.e2e.release import OWN
from tests.node import image
from tests.node.admin import Admin, guide


@pytest.fixture(name="removed", scope="module")
def _removed(podfit: Admin) -> Iterator[Admin]:
    """The cluster without podfit; podfit is installed again afterwards."""
    podfit.uninstall()
    yield podfit
    podfit.types(f"helm uninstall podfit --namespace {OWN} --ignore-not-found")
    until("podfit's Pods to end", lambda: not podfit.pods(), podfit.describe)
    podfit.install()


def test_uninstalled_it_leaves_no_webhook_and_denies_nothing(removed: Admin) -> None:
    assert removed.configurations() == []
    assert not removed.denies()
    left = removed.types("kubectl get clusterroles,clusterrolebindings,crds -o name")
    assert "podfit" not in left
    assert "podfit" not in removed.types(f"kubectl -n {OWN} get all,secrets,configmaps,leases,rolebindings -o name")


def test_from_the_first_release_and_back(removed: Admin, tmp_path: Path) -> None:
    image.first_sources(tmp_path)
    install = guide("helm install").replace("charts/podfit", f"{tmp_path}/charts/podfit")
    removed.types(install.replace("image.tag=0.1.0", f"image.tag={image.FIRST.rpartition(':')[2]}"))
    removed.wait()

    removed.types(guide("helm install").replace("helm install", "helm upgrade"))
    removed.wait()
    until("two replicas of this release", removed.two_ready, removed.describe)
    assert "--certificate-secret" in str(removed.pods()[0]["spec"])

    removed.types(f"helm rollback podfit --namespace {OWN}")
    removed.wait()
    until("two replicas of the first release", removed.two_ready, removed.describe)
    assert "--certificate-secret" not in str(removed.pods()[0]["spec"])
