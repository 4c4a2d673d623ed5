"""Where a checkpoint comes from, and what is mounted where."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.kube import workload
from podfit.kube.workload import Container, Workload
from podfit.vllm import volumes
from podfit.vllm.args import EngineArgs
from podfit.vllm.volumes import CheckpointSource, Mount

HUB = "/root/.cache/huggingface"


def pod(**spec: Any) -> tuple[Workload, Container]:
    """A Pod of one container in vLLM's image; `container` changes that."""
    container = {"name": "vllm", "image": "vllm/vllm-openai:v0.27.1", **spec.pop("container", {})}
    found = workload.find({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container], **spec}})[0]
    return found, next(one for one in found.containers if not one.init)


def cached(volume: dict[str, Any], **spec: Any) -> tuple[Workload, Container]:
    """The same with that volume over the hub's cache."""
    mounts = [{"name": "cache", "mountPath": HUB + "/"}]
    return pod(container={"volumeMounts": mounts}, volumes=[{"name": "cache", **volume}], **spec)


def files(place: tuple[Workload, Container], model: str | None = "acme/big", **env: str) -> CheckpointSource:
    """Where its checkpoint comes from."""
    given = {} if model is None else {"model": model}
    return volumes.files(*place, EngineArgs(release=None, given=given), env)


def test_a_claims_template_is_the_place_of_its_volume() -> None:
    """Also in a List; it takes precedence over a volume of the Pod."""
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in ("own", "claimed", "none")]
    spec = {
        "containers": [{"name": "vllm", "volumeMounts": mounts}],
        "volumes": [{"name": "claimed", "emptyDir": {}}, {"name": "own", "emptyDir": {}}],
    }
    claims = ["text", {"metadata": {"name": "claimed"}}]
    made = {"template": {"spec": spec}, "volumeClaimTemplates": claims}
    item = {"kind": "StatefulSet", "apiVersion": "apps/v1", "spec": made}
    (found,) = workload.find({"kind": "List", "items": [item]})

    assert [(str(one.at), one.volume) for one in volumes.mounts(found, found.containers[0])] == [
        ("items[0].spec.template.spec.volumes[1]", {"name": "own", "emptyDir": {}}),
        ("items[0].spec.volumeClaimTemplates[1]", {}),
        ("items[0].spec.template.spec.volumes", {}),
    ]


@pytest.mark.parametrize(
    ("place", "download"),
    [
        pytest.param(pod(), True, id="nothing keeps it, and vLLM's image holds no models"),
        pytest.param(pod(container={"image": "acme/vllm-with-model:1"}), None, id="another image may hold it"),
        pytest.param(cached({"emptyDir": {}}), True, id="an emptyDir is empty"),
        pytest.param(cached({"emptyDir": None}), True, id="also as YAML's nothing"),
        pytest.param(cached({"ephemeral": {}}), True, id="so is an ephemeral volume"),
        pytest.param(cached({"emptyDir": {}}, initContainers=[{"name": "get"}]), None, id="unless somebody fills it"),
        pytest.param(cached({"persistentVolumeClaim": {"claimName": "m"}}), None, id="a claim may hold it"),
        pytest.param(cached({"image": {"reference": "acme/model:1"}}), False, id="an image volume holds it"),
    ],
)
def test_what_has_to_be_downloaded(place: tuple[Workload, Container], download: bool | None) -> None:
    assert files(place).download is download


@pytest.mark.parametrize("name", ["/models/big", "./big", "s3://models/big"])
def test_a_path_or_a_uri_is_there_when_vllm_starts(name: str) -> None:
    assert files(pod(), name).download is False


def test_offline_nothing_is_downloaded_and_without_a_model_nothing_is_known() -> None:
    assert files(pod(), HF_HUB_OFFLINE="1").download is False
    assert files(pod(), None).download is None


@pytest.mark.parametrize(("medium", "in_memory"), [("Memory", True), ("", False)])
def test_a_cache_on_tmpfs_is_host_memory(medium: str, in_memory: bool) -> None:
    assert files(cached({"emptyDir": {"medium": medium}})).in_memory is in_memory


def test_a_model_that_was_put_on_tmpfs_is_host_memory_too() -> None:
    mounts = [{"name": "m", "mountPath": "/models"}]
    place = pod(container={"volumeMounts": mounts}, volumes=[{"name": "m", "emptyDir": {"medium": "Memory"}}])

    assert files(place, "/models/big") == CheckpointSource(download=False, in_memory=True)
    assert not files(place, "/other/big").in_memory


@pytest.mark.parametrize(
    ("given", "env", "path"),
    [
        ({"download_dir": "/data"}, {"HF_HOME": "/hf"}, "/data"),
        ({}, {"HF_HUB_CACHE": "/hub", "HF_HOME": "/hf"}, "/hub"),
        ({}, {"HUGGINGFACE_HUB_CACHE": "/older"}, "/older"),
        ({}, {"HF_HOME": "/hf"}, "/hf/hub"),
        ({}, {"XDG_CACHE_HOME": "/xdg"}, "/xdg/huggingface/hub"),
        ({}, {"HOME": "/home/me"}, "/home/me/.cache/huggingface/hub"),
        ({}, {}, "/root/.cache/huggingface/hub"),
    ],
)
def test_where_the_hub_s_files_are_kept(given: dict[str, Any], env: dict[str, str], path: str) -> None:
    assert volumes.download_directory(EngineArgs(release=None, given=given), env) == path


def test_the_deepest_mount_holds_a_path() -> None:
    place = pod(
        container={
            "volumeMounts": [
                {"name": "root", "mountPath": "/"},
                {"name": "data", "mountPath": "/data", "readOnly": True},
                {"name": "inner", "mountPath": "/data/models"},
                {"name": "x"},
                "no mount",
            ]
        },
        volumes=[{"name": "data", "emptyDir": {"medium": "Memory"}}, {"name": "inner", "hostPath": {}}],
    )
    mounted = volumes.mounts(*place)

    def name(path: str) -> str | None:
        found = volumes.mount_of_path(mounted, path)
        return found.name if found else None

    assert [name(path) for path in ("/data/models/a", "/data/modelsx", "/etc")] == ["inner", "data", "root"]
    data = next(one for one in mounted if one.name == "data")
    assert (data.read_only, data.memory, str(data.at)) == (True, True, "spec.volumes[0]")
    root = next(one for one in mounted if one.name == "root")
    assert (root.volume, root.empty_dir, str(root.at)) == ({}, None, "spec.volumes")
    assert volumes.mount_of_path((), "/data") is None
    assert isinstance(root, Mount)
