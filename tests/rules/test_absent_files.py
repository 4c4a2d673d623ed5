"""What a manifest names and nothing brings: reported unless something may bring it, denied only where a policy says
that nothing else does."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.evaluation.lint import lint
from podfit.evaluation.policy import Policy, builtin, load
from podfit.vllm.facts import Facts

IMAGE = "vllm/vllm-openai:v0.27.1"
SPEC = "{{rules: {{{}: {{closed: true}}}}}}"
POLICY = f"{{{{apiVersion: podfit.dev/v1alpha1, kind: Policy, metadata: {{{{name: x}}}}, spec: {SPEC}}}}}"


def _modes(container: dict[str, Any], policy: Policy | None = None, **spec: Any) -> dict[str, str]:
    pod = {"containers": [{"name": "vllm", "image": IMAGE, **container}], **spec}
    obj = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": pod}
    report = lint(obj, policy or builtin(), Facts(), where="check")
    assert not report.errors
    return {one.rule: one.mode for one in report.findings}


def _mounted(path: str, **volume: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    volume = volume or {"persistentVolumeClaim": {"claimName": "models"}}
    return {"volumeMounts": [{"name": "v", "mountPath": path}]}, {"volumes": [{"name": "v", **volume}]}


@pytest.mark.parametrize(
    ("container", "told"),
    [
        ({"args": ["/models/Qwen3-8B"]}, True),
        ({"args": ["--model=/mnt/models/x"]}, True),
        ({"command": ["sh", "-c", "exec vllm serve /models/Qwen3-8B"]}, True),
        ({"command": ["sh", "-c", "hf download Qwen/Qwen3-8B --local-dir /models && vllm serve /models"]}, False),
        ({"command": ["sh", "-c", "aws s3 sync s3://b /models; exec vllm serve /models"]}, False),
        ({"args": ["/models/x"], "image": "registry.corp/vllm-with-model:v1"}, False),
        ({"args": ["/models/x"], "lifecycle": {"postStart": {"exec": {"command": ["fetch"]}}}}, False),
        ({"args": ["Qwen/Qwen3-8B"]}, False),
        ({"args": ["$(MODEL)"]}, False),
        ({"args": ["s3://bucket/model"]}, False),
    ],
)
def test_a_local_path_without_a_volume(container: dict[str, Any], told: bool) -> None:
    assert _modes(container).get("model-path-missing") == ("warn" if told else None)


@pytest.mark.parametrize(
    ("path", "told"),
    [("/models", False), ("/models/Qwen3-8B", False), ("/models/Qwen3-8B/files", False), ("/model", True)],
)
def test_a_volume_at_above_or_below_the_path(path: str, told: bool) -> None:
    mounts, volumes = _mounted(path)
    assert ("model-path-missing" in _modes({"args": ["/models/Qwen3-8B"], **mounts}, **volumes)) is told


def test_an_operator_may_mount_the_model() -> None:
    predictor = {"containers": [{"name": "kserve-container", "image": IMAGE, "args": ["/mnt/models"]}]}
    obj = {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "metadata": {"name": "x"}}
    report = lint({**obj, "spec": {"predictor": predictor}}, builtin(), Facts(), where="check")
    assert report.results
    assert "model-path-missing" not in {one.rule for one in report.findings}


@pytest.mark.parametrize(
    ("env", "volume", "told"),
    [
        ({"HF_HUB_OFFLINE": "1"}, None, True),
        ({"TRANSFORMERS_OFFLINE": "1"}, None, True),
        ({"HF_HUB_OFFLINE": "0"}, None, False),
        ({"HF_HUB_OFFLINE": "1"}, {"persistentVolumeClaim": {"claimName": "c"}}, False),
        ({"HF_HUB_OFFLINE": "1"}, {"hostPath": {"path": "/data"}}, False),
        ({"HF_HUB_OFFLINE": "1"}, {"emptyDir": {}}, True),
        ({"HF_HUB_OFFLINE": "1", "VLLM_USE_MODELSCOPE": "True"}, None, False),
        ({"HF_HUB_OFFLINE": "1", "HF_HOME": "/data"}, {"persistentVolumeClaim": {"claimName": "c"}}, True),
    ],
)
def test_no_hub_and_no_cache(env: dict[str, str], volume: dict[str, Any] | None, told: bool) -> None:
    mounts, volumes = _mounted("/root/.cache/huggingface", **volume) if volume else ({}, {})
    container = {"args": ["Qwen/Qwen3-8B"], "env": [{"name": n, "value": v} for n, v in env.items()], **mounts}
    assert _modes(container, **volumes).get("offline-without-cache") == ("warn" if told else None)


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--chat-template", "/templates/chat.jinja"], True),
        (["--chat-template", "{% for m in messages %}/{{ m }}{% endfor %}"], False),
        (["--chat-template", "examples/tool_chat_template_hermes.jinja"], False),
        (["--chat-template", "/vllm-workspace/examples/template_chatml.jinja"], False),
        (["--chat-template", "/app/vllm/examples/template_chatml.jinja"], False),
        (["--enable-lora", "--lora-modules", "sql=/adapters/sql"], True),
        (["--enable-lora", "--lora-modules", "sql=org/adapter"], False),
        (["--ssl-keyfile", "/certs/tls.key"], True),
        (["--tool-parser-plugin", "/plugins/parser.py"], True),
        (["--config", "/etc/vllm/config.yaml"], True),
    ],
)
def test_a_file_without_a_volume(args: list[str], told: bool) -> None:
    assert _modes({"args": ["Qwen/Qwen3-8B", *args]}).get("file-missing") == ("warn" if told else None)


CACHES_MOVED = [{"name": name, "value": "/data"} for name in ("HF_HOME", "VLLM_CACHE_ROOT", "TRITON_CACHE_DIR", "USER")]
"""Each cache that vLLM needs is moved; /.config alone is not needed."""


@pytest.mark.parametrize(
    ("container", "spec", "told"),
    [
        ({"securityContext": {"runAsUser": 1000}}, {}, True),
        ({}, {"securityContext": {"runAsUser": 1000}}, True),
        ({"securityContext": {"runAsUser": 0}}, {"securityContext": {"runAsUser": 1000}}, False),
        ({"securityContext": {"runAsUser": 1000}, "env": [{"name": "HF_HOME", "value": "/data"}]}, {}, True),
        ({"securityContext": {"runAsUser": 1000}, "env": CACHES_MOVED}, {}, False),
        ({"securityContext": {"runAsUser": 1000}, "env": [{"name": "HOME", "value": "/tmp"}]}, {}, False),
        ({"securityContext": {"runAsUser": 1000}, "image": "registry.corp/vllm:v1"}, {}, False),
        ({"securityContext": {"runAsNonRoot": True}}, {}, False),
    ],
)
def test_a_user_without_a_home(container: dict[str, Any], spec: dict[str, Any], told: bool) -> None:
    found = _modes({"args": ["Qwen/Qwen3-8B"], **container}, **spec)
    assert found.get("home-not-writable") == ("warn" if told else None)


@pytest.mark.parametrize(
    ("selector", "resources", "told"),
    [
        ({"node.kubernetes.io/instance-type": "g5.xlarge"}, {"limits": {"nvidia.com/gpu": 4}}, True),
        ({"node.kubernetes.io/instance-type": "g5.12xlarge"}, {"limits": {"nvidia.com/gpu": 4}}, False),
        ({"cloud.google.com/machine-type": "g2-standard-4"}, {"limits": {"nvidia.com/gpu": 2}}, True),
        ({"node.kubernetes.io/instance-type": "g5.xlarge"}, {"requests": {"memory": "64Gi"}}, True),
        ({"node.kubernetes.io/instance-type": "g5.xlarge"}, {"requests": {"memory": "8Gi"}}, False),
        ({"node.kubernetes.io/instance-type": "nobody.knows"}, {"limits": {"nvidia.com/gpu": 4}}, False),
        ({"pool": "gpu"}, {"limits": {"nvidia.com/gpu": 4}}, False),
        ({"node.kubernetes.io/instance-type": "inf2.xlarge"}, {"limits": {"aws.amazon.com/neuroncore": 2}}, False),
        ({"node.kubernetes.io/instance-type": "inf2.xlarge"}, {"limits": {"aws.amazon.com/neuron": 2}}, True),
    ],
)
def test_a_machine_type_with_less_than_is_asked_for(
    selector: dict[str, str], resources: dict[str, Any], told: bool
) -> None:
    found = _modes({"args": ["Qwen/Qwen3-8B"], "resources": resources}, nodeSelector=selector)
    assert found.get("machine-type-too-small") == ("warn" if told else None)


@pytest.mark.parametrize(
    ("rule", "container"),
    [
        ("model-path-missing", {"args": ["/models/Qwen3-8B"]}),
        ("offline-without-cache", {"args": ["Qwen/Qwen3-8B"], "env": [{"name": "HF_HUB_OFFLINE", "value": "1"}]}),
        ("file-missing", {"args": ["Qwen/Qwen3-8B", "--ssl-keyfile", "/certs/tls.key"]}),
    ],
)
def test_a_policy_may_say_that_nothing_else_brings_files(rule: str, container: dict[str, Any]) -> None:
    policy = load([("policy.yaml", POLICY.format(rule))])
    assert _modes(container)[rule] == "warn"
    assert _modes(container, policy)[rule] == "deny"


def test_a_plugin_is_never_certain_to_be_needed() -> None:
    container = {"args": ["Qwen/Qwen3-8B", "--tool-parser-plugin", "/plugins/parser.py"]}
    assert _modes(container, load([("policy.yaml", POLICY.format("file-missing"))]))["file-missing"] == "warn"
