"""Forty Pods against the five policies in policies/house/: every spelling that argparse, YAML and shells allow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from podfit.rules.rule import Mode

JSON = dict[str, Any]
FOLDER = Path(__file__).parents[1] / "policies" / "house"
L4, H100 = "NVIDIA-L4", "NVIDIA-H100-80GB-HBM3"
NODES = {"small": L4, "large": H100}
"""The nodes of the cluster: name → GPU."""
MODEL = "Qwen/Qwen2.5-7B-Instruct"


class Case(NamedTuple):
    """A Pod, or the workload around it, and the mode of the finding that the policy's rule has about it."""

    name: str
    object: JSON
    expected: Mode | None
    """None: no finding."""
    others: Sequence[JSON] = ()
    """Objects of the same namespace that `podfit check` reads with it. The webhook does not see them: what they
    contain is unknown there, and a denial is a warning."""

    @property
    def admitted(self) -> Mode | None:
        """The mode at the webhook."""
        return "warn" if self.others and self.expected == "deny" else self.expected


def pod(*args: str, gpu: str | None = H100, namespace: str = "chat", memory: str = "64Gi", **container: Any) -> JSON:
    """A Pod with these arguments after the model."""
    name = container.pop("name", "vllm")
    limits = {"nvidia.com/gpu": "1", "memory": memory}
    spec: JSON = {"nodeSelector": {"nvidia.com/gpu.product": gpu}} if gpu else {}
    volumes = container.pop("volumes", None)
    containers = [
        {
            "name": name,
            "image": "vllm/vllm-openai:v0.27.1",
            "args": ["--model", MODEL, *args],
            "resources": {"limits": limits},
            **container,
        }
    ]
    spec |= {"containers": containers} | ({"volumes": volumes} if volumes else {})
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "case", "namespace": namespace}, "spec": spec}


def script(text: str, **more: Any) -> JSON:
    """A Pod whose command is a shell script."""
    return pod(command=["/bin/bash", "-c"], **{"args": [text], **more})


def deployment(of: JSON, replicas: int = 1) -> JSON:
    """A Deployment of the Pod."""
    labels = {"app": "case"}
    template = {"metadata": {"labels": labels}, "spec": of["spec"]}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": of["metadata"], "spec": spec}


def variable(name: str, value: str) -> JSON:
    return {"name": name, "value": value}


_SETTINGS = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "engine", "namespace": "chat"},
    "data": {"engine.yaml": f"model: {MODEL}\nmax-model-len: 40960\n", "length": "40960"},
}
_MOUNTED: JSON = {
    "args": ["--config", "/etc/vllm/engine.yaml"],
    "volumeMounts": [{"name": "engine", "mountPath": "/etc/vllm"}],
    "volumes": [{"name": "engine", "configMap": {"name": "engine"}}],
}
_FROM_MAP = [{"name": "LENGTH", "valueFrom": {"configMapKeyRef": {"name": "engine", "key": "length"}}}]
_FROM_SECRET = [{"name": "LENGTH", "valueFrom": {"secretKeyRef": {"name": "engine", "key": "length"}}}]
_SERVE = f"vllm serve {MODEL}"

CASES: dict[str, list[Case]] = {
    "context-by-gpu": [
        Case("a number", pod("--max-model-len", "40960"), "deny"),
        Case("1000 per k", pod("--max-model-len", "40k"), "deny"),
        Case("1024 per K, with =", pod("--max-model-len=40K"), "deny"),
        Case("underscores", pod("--max_model_len=40960"), "deny"),
        Case("a beginning", pod("--max-model-le", "40960"), "deny"),
        Case("a beginning with underscores", pod("--max_model_l", "40960"), "deny"),
        Case("Python's digits", pod("--max-model-len", "40_960"), "deny"),
        Case("the last one counts", pod("--max-model-len", "8192", "--max-model-len", "40960"), "deny"),
        Case("the last one is allowed", pod("--max-model-len", "40960", "--max-model-len", "8192"), None),
        Case("the bound itself", pod("--max-model-len", "32K"), None),
        Case("one above the bound", pod("--max-model-len", "32769"), "deny"),
        Case("short enough for an L4", pod("--max-model-len", "8k", gpu=L4), None),
        Case("too long for an L4 alone", pod("--max-model-len", "16k", gpu=L4), "deny"),
        Case("too long on one of two GPUs", pod("--max-model-len", "16k", gpu=None), "warn"),
        Case("too long on every GPU", pod("--max-model-len", "40k", gpu=None), "deny"),
        Case("a variable", pod("--max-model-len", "$(LENGTH)", env=[variable("LENGTH", "40960")]), "deny"),
        Case("a variable from a ConfigMap", pod("--max-model-len", "$(LENGTH)", env=_FROM_MAP), "deny", [_SETTINGS]),
        Case("a variable from a Secret", pod("--max-model-len", "$(LENGTH)", env=_FROM_SECRET), "warn"),
        Case("a config file", pod(**_MOUNTED), "deny", [_SETTINGS]),
        Case("a config file that a flag overrides",
             pod(**{**_MOUNTED, "args": [*_MOUNTED["args"], "--max-model-len=8k"]}), None, [_SETTINGS]),
        Case("a config file that is not known, and a flag after it",
             pod("--config", "/models/engine.yaml", "--max-model-len", "40960"), "deny"),
        Case("a script in quotes", script(f"exec {_SERVE} --max-model-len '40960'"), "deny"),
        Case("a script with a default", script(f'LEN="${{LEN:-40960}}"\n{_SERVE} --max-model-len "$LEN"'), "deny"),
        Case("a script over lines, with arithmetic",
             script(f"{_SERVE} \\\n  --max-model-len $((40*1024)) \\\n  --enforce-eager"), "deny"),
        Case("more arguments before it", script(f"{_SERVE} $EXTRA --max-model-len 40960"), "deny"),
        Case("more arguments after it", script(f"{_SERVE} --max-model-len 40960 $EXTRA"), "warn"),
        Case("the model's own length", pod(args=["--model", "meta-llama/Llama-3.1-8B-Instruct"]), "deny"),
        Case("the length of a model in a folder", pod(args=["--model", "/data/Llama-3.1-8B-Instruct"]), "warn"),
        Case("zero replicas", deployment(pod("--max-model-len", "40960"), replicas=0), "deny"),
    ],
    "memory-headroom": [
        Case("below 1.5 × the minimum", deployment(pod("--max-model-len", "8192", memory="1200Mi")), "deny"),
        Case("above it, below 1.5 × the estimate", deployment(pod("--max-model-len", "8192", memory="6Gi")), "warn"),
        Case("above both", deployment(pod("--max-model-len", "8192", memory="32Gi")), None),
    ],
    "pinned-releases": [
        Case("a patch of an allowed release", pod(), None),
        Case("another patch of one that is named whole", pod(image="vllm/vllm-openai:v0.33.1"), "deny"),
        Case("a build of an older one", pod(image="registry.example.com/vllm/vllm-openai:v0.11.0-cu128"), "deny"),
        Case("a digest alone", pod(image=f"vllm/vllm-openai@sha256:{'0' * 64}"), "warn"),
    ],
    "pinned-images": [
        Case("latest, with arguments that are not known",
             script(f"{_SERVE} --max-model-len 8192 $EXTRA", image="vllm/vllm-openai:latest"), "deny"),
        Case("latest in the sandbox", pod("--max-model-len=8k", image="vllm/vllm-openai", namespace="sandbox"), "warn"),
    ],
    "named-gpu": [
        Case("fits the H100, not the L4", pod("--max-model-len=8k", args=["--model", "Qwen/Qwen2.5-32B-Instruct",
             "--max-model-len=8k"], gpu=None), "deny"),
        Case("names the H100", pod(args=["--model", "Qwen/Qwen2.5-32B-Instruct", "--max-model-len=8k"]), None),
    ],
}  # fmt: skip
"""Policy → its cases; forty in all."""
RULES = {"pinned-images": "unpinned-image", "named-gpu": "mixed-gpu-nodes"}
"""Policy → its rule, if it is not house-limits."""
