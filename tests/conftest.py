"""What the tests share: a manifest of a vLLM Pod to change, and the findings in it."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from podfit.evaluation.lint import Report, lint
from podfit.evaluation.policy import builtin
from podfit.vllm.facts import Facts

if TYPE_CHECKING:
    from tests.cluster.server import Server

os.environ.update(HF_HOME="/nonexistent", HF_HUB_CACHE="/nonexistent")  # no test reads the developer's own cache

settings.register_profile("podfit", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("podfit")  # the same examples each time, and no deadline: a busy machine is not a failure

GOOD_POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "llama-8b", "namespace": "chat"},
    "spec": {
        "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"},
        "containers": [
            {
                "name": "vllm",
                "image": "vllm/vllm-openai:v0.27.1",
                "args": ["--model", "unsloth/Llama-3.1-8B-Instruct", "--max-model-len", "8192"],
                "resources": {"limits": {"nvidia.com/gpu": "1", "memory": "64Gi"}},
                "startupProbe": {
                    "httpGet": {"path": "/health", "port": 8000},
                    "periodSeconds": 10,
                    "failureThreshold": 120,
                },
                "readinessProbe": {"httpGet": {"path": "/health", "port": 8000}},
                "env": [{"name": "HF_HUB_OFFLINE", "value": "1"}],
                "volumeMounts": [{"name": "models", "mountPath": "/root/.cache/huggingface"}],
            }
        ],
        "volumes": [{"name": "models", "hostPath": {"path": "/models"}}],
    },
}
"""A Pod that podfit has nothing to say about."""


@pytest.fixture(name="api_server")
def _api_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """The API server of the user's kubeconfig, on a machine without kubectl."""
    from tests.cluster.server import DISCOVERY, serving  # needs the extra `cluster`

    with serving(tmp_path / "api", tls=False) as server:
        server.answers |= DISCOVERY
        monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig({"token": "t"})))
        monkeypatch.setenv("PATH", "")
        yield server


@pytest.fixture(name="pod")
def _pod() -> dict[str, Any]:
    """A good Pod, to be made bad."""
    return copy.deepcopy(GOOD_POD)


@pytest.fixture(name="container")
def _container(pod: dict[str, Any]) -> dict[str, Any]:
    """The good Pod's vLLM container: changing it changes `pod`."""
    container: dict[str, Any] = pod["spec"]["containers"][0]
    return container


@pytest.fixture(name="judge")
def _judge() -> Callable[..., Report]:
    """lint under the default policy, as the webhook calls it."""

    def judge(obj: dict[str, Any], **options: Any) -> Report:
        return lint(obj, options.pop("policy", builtin()), options.pop("facts", Facts()), **options)

    return judge
