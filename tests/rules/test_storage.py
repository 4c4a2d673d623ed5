"""Where a model's files go, and what the storage rules make of it."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.kube import workload
from podfit.kube.companions import Companions
from podfit.rules import reading
from podfit.rules.storage import _cache
from podfit.vllm.facts import Facts

CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"HF_HOME": "/cache"}}
MODEL = "Qwen/Qwen3-8B"


def found(pod: dict[str, Any], container: dict[str, Any], *args: str, **fields: Any) -> tuple[str, str] | None:
    """The directory and what says so, of the good Pod changed."""
    container.update({"args": list(args) or [MODEL], "env": [], **fields})
    one = workload.find(pod)[0]
    companions = Companions((CONFIG,))
    facts = Facts(companions=companions, config_maps=companions.config_maps)
    read = reading.read(one, one.containers[0], facts)
    cache = _cache.find(read) if read else None
    return (cache.directory, cache.said_by) if cache else None


def env(**values: str) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in values.items()]


@pytest.mark.parametrize(
    ("args", "fields", "wanted"),
    [
        ([], {}, ("/root/.cache/huggingface/hub", "the default")),
        ([], {"env": env(HF_HOME="/cache/")}, ("/cache/hub", "HF_HOME")),
        ([], {"env": env(HF_HUB_CACHE="/hub", HF_HOME="/cache")}, ("/hub", "HF_HUB_CACHE")),
        ([], {"env": env(XDG_CACHE_HOME="/x")}, ("/x/huggingface/hub", "XDG_CACHE_HOME")),
        ([], {"env": env(HOME="/home/vllm")}, ("/home/vllm/.cache/huggingface/hub", "HOME")),
        ([], {"envFrom": [{"configMapRef": {"name": "settings"}}]}, ("/cache/hub", "HF_HOME")),
        ([MODEL, "--download-dir", "/models/"], {"env": env(HF_HOME="/cache")}, ("/models", "--download-dir")),
        (["/models/llama"], {}, ("/models/llama", "--model")),
        # what can't be known
        ([], {"env": [{"name": "HF_HOME", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}, None),
        ([], {"envFrom": [{"configMapRef": {"name": "elsewhere"}}]}, None),
        ([], {"env": env(HF_HOME="cache")}, None),
        ([MODEL, "--download-dir", "$(SOMEWHERE)"], {}, None),
        ([], {"securityContext": {"runAsUser": 1000}}, None),
        ([], {"image": "registry.example.com/vllm:v0.27.1", "command": ["vllm", "serve"]}, None),
        # what is not kept in files, or not fetched from the hub
        ([MODEL, "--load-format", "runai_streamer"], {}, None),
        ([MODEL, "--load-format", "dummy"], {}, None),
        (["s3://bucket/llama"], {}, None),
        (["models/llama"], {}, None),
        ([], {"env": env(HF_HUB_OFFLINE="1")}, None),
        ([], {"env": env(VLLM_USE_MODELSCOPE="True")}, None),
    ],
)
def test_where_the_files_go(
    pod: dict[str, Any], container: dict[str, Any], args: list[str], fields: dict[str, Any], wanted: Any
) -> None:
    assert found(pod, container, *args, **fields) == wanted


@pytest.mark.parametrize(
    ("volume", "kind", "read_only"),
    [
        ({"persistentVolumeClaim": {"claimName": "models"}}, "claim", False),
        ({"persistentVolumeClaim": {"claimName": "models", "readOnly": True}}, "claim", True),
        ({"ephemeral": {"volumeClaimTemplate": {"spec": {}}}}, "ephemeral", False),
        ({"hostPath": {"path": "/models"}}, "hostPath", False),
        ({"image": {"reference": "registry.example.com/model:1"}}, "image", True),
        ({"configMap": {"name": "x"}}, "config", True),
        ({"nfs": {"server": "a", "path": "/b"}}, "other", False),
        ({}, "emptyDir", False),
        ({"persistentVolumeClaim": "models"}, "emptyDir", False),
    ],
)
def test_what_is_behind_a_mount(
    pod: dict[str, Any], container: dict[str, Any], volume: dict[str, Any], kind: str, read_only: bool
) -> None:
    container.update({"args": [MODEL], "env": [], "volumeMounts": [{"name": "m", "mountPath": "/root/.cache/"}]})
    pod["spec"]["volumes"] = [{"name": "other", "emptyDir": {}}, {"name": "m", **volume}]
    one = workload.find(pod)[0]
    read = reading.read(one, one.containers[0], Facts())
    cache = _cache.find(read) if read else None

    assert cache
    assert cache.volume
    assert (cache.volume.kind, cache.volume.read_only) == (kind, read_only)


def test_a_volume_below_the_directory_counts(pod: dict[str, Any], container: dict[str, Any]) -> None:
    container.update({"args": [MODEL], "env": []})
    container["volumeMounts"] = [{"name": "m", "mountPath": "/root/.cache/huggingface/hub/models--Qwen--Qwen3-8B"}]
    one = workload.find(pod)[0]
    read = reading.read(one, one.containers[0], Facts())
    cache = _cache.find(read) if read else None

    assert cache
    assert cache.volume
    assert cache.volume.kind == "other"  # declared nowhere
