"""Others that change objects next to podfit: a webhook that adds a sidecar."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import GOOD_POD
from tests.e2e.mutator import SIDECAR, sidecars
from tests.e2e.process import until
from tests.e2e.release import make_namespace
from tests.node.admin import Admin
from tests.reviews import without_shm

MESH = "mesh"


@pytest.fixture(name="mesh", scope="module")
def _mesh(podfit: Admin) -> Iterator[str]:
    """A namespace whose Pods get a sidecar, from a webhook that is called before podfit and one that comes after."""
    make_namespace(podfit.cluster, MESH, "podfit")
    with (
        sidecars(podfit.cluster, "a-mesh", {"podfit": "podfit"}),
        sidecars(podfit.cluster, "z-mesh", {"podfit": "podfit"}),
    ):
        yield MESH


def test_a_pod_with_a_sidecar_is_patched_and_denied_as_without(podfit: Admin, mesh: str) -> None:
    def created() -> list[str] | None:
        status, pod = podfit.create(without_shm(GOOD_POD), mesh)
        assert status == 201, pod
        containers = pod["spec"]["containers"]
        vllm = next(one for one in containers if one["name"] == "vllm")
        mounts = [mount["mountPath"] for mount in vllm["volumeMounts"]]
        return mounts if SIDECAR["name"] in [one["name"] for one in containers] else None

    assert "/dev/shm" in until("the sidecar", created)
    assert podfit.denies(mesh)
