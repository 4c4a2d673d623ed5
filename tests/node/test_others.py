"""Others that change objects as podfit does: a webhook that adds a sidecar, and two managers of server-side apply."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.conftest import GOOD_POD
from tests.e2e.mutator import SIDECAR, sidecars
from tests.e2e.process import until
from tests.e2e.release import make_namespace
from tests.node.admin import Admin
from tests.reviews import deployment, doomed, without_shm

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


def test_two_managers_apply_one_deployment(podfit: Admin, mesh: str, tmp_path: Path) -> None:
    good = deployment(GOOD_POD)
    good["metadata"]["namespace"] = mesh
    replicas = {**{key: good[key] for key in ("apiVersion", "kind", "metadata")}, "spec": {"replicas": 2}}
    bad = deployment(doomed(GOOD_POD))
    bad["metadata"]["namespace"] = mesh
    del good["spec"]["replicas"], bad["spec"]["replicas"]
    for name, manifest in (("good", good), ("replicas", replicas), ("bad", bad)):
        (tmp_path / name).write_text(yaml.safe_dump(manifest))
    apply = f"kubectl apply --server-side -f {tmp_path}"

    for _ in range(2):
        podfit.types(f"{apply}/good --field-manager author")
        podfit.types(f"{apply}/replicas --field-manager scaler")
    denied = podfit.types(f"{apply}/bad --field-manager author", exits=1)
    shown = podfit.cluster.call("GET", f"/apis/apps/v1/namespaces/{mesh}/deployments/llama-8b")[1]

    assert "denied the request" in denied
    assert {entry["manager"] for entry in shown["metadata"]["managedFields"]} >= {"author", "scaler"}
    assert shown["spec"]["replicas"] == 2
    assert "--no-such-flag" not in str(shown["spec"])
