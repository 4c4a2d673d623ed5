"""How long `podfit scan` takes for a large cluster, and how much memory: 5,000 workloads on a real API server.

    python -m benchmarks.scan [WORKLOADS] [NAMESPACES]

Starts the control plane of `tests/e2e`. Fills it with Deployments and StatefulSets of several models, GPUs and
faults (no two alike), a Pod of each and a Service for every second one. Runs the command as a user would, with a
kubeconfig. Prints seconds and the most resident memory of the process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import urllib3

from tests.e2e.controlplane import ADMIN, HOST, Cluster, running

MODELS = (
    "Qwen/Qwen2.5-7B-Instruct", "meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.3-70B-Instruct",
    "mistralai/Mistral-7B-Instruct-v0.3", "Qwen/Qwen2.5-32B-Instruct", "google/gemma-2-9b-it",
    "microsoft/Phi-3.5-mini-instruct", "Qwen/Qwen3-30B-A3B",
)  # fmt: skip
PRODUCTS = ("NVIDIA-L4", "NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3", "Tesla-T4", "NVIDIA-L40S")
RELEASES = ("v0.8.5", "v0.10.2", "v0.11.0", "v0.17.1", "v0.27.1", "v0.33.0")


def workload(number: int, namespace: str) -> tuple[str, dict[str, Any]]:
    """Path and object of one workload; no two are alike."""
    gpus = (1, 1, 2, 4)[number % 4]
    flags = [MODELS[number % len(MODELS)], "--max-model-len", str(2048 + number), "--tensor-parallel-size", str(gpus)]
    container: dict[str, Any] = {
        "name": "vllm", "image": f"vllm/vllm-openai:{RELEASES[number % len(RELEASES)]}",
        "command": ["vllm", "serve"], "args": flags,
        "ports": [{"containerPort": 8000}],
        "resources": {"limits": {"nvidia.com/gpu": str(gpus), "memory": f"{(16, 48, 96)[number % 3]}Gi", "cpu": "8"}},
    }  # fmt: skip
    if number % 3:
        container["readinessProbe"] = {"httpGet": {"path": "/health", "port": 8000}}
        container["startupProbe"] = {
            "httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 10, "failureThreshold": 90,
        }  # fmt: skip
    spec = {
        "containers": [container],
        "nodeSelector": {"nvidia.com/gpu.product": PRODUCTS[number % len(PRODUCTS)]},
    }
    name = f"llm-{number}"
    labels = {"app": name, "team": f"t{number % 7}"}
    kind = ("Deployment", "StatefulSet")[number % 5 == 0]
    made: dict[str, Any] = {
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }  # fmt: skip
    if kind == "Deployment":
        made["spec"]["paused"] = True  # the benchmark makes the Pods itself: controllers take their time
    else:
        made["spec"] |= {"serviceName": name, "updateStrategy": {"type": "OnDelete"}, "replicas": 0}
    return f"/apis/apps/v1/namespaces/{namespace}/{kind.lower()}s", made


def pod(owner: dict[str, Any]) -> dict[str, Any]:
    """A Pod of a workload."""
    metadata = owner["metadata"]
    reference = {
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": metadata["name"], "uid": metadata["uid"],
        "controller": True,
    }  # fmt: skip
    labels = {**metadata["labels"], "pod": "its"}
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": f"{metadata['name']}-0", "labels": labels, "ownerReferences": [reference]},
        "spec": owner["spec"]["template"]["spec"],
    }  # fmt: skip


def fill(cluster: Cluster, workloads: int, namespaces: int) -> None:
    """Makes everything, sixteen at a time."""
    pool = urllib3.PoolManager(
        16, maxsize=16, block=True, ca_certs=str(cluster.root / "ca.crt"), retries=False,
        headers={"Authorization": f"Bearer {ADMIN}", "Content-Type": "application/json"},
    )  # fmt: skip

    def post(path: str, obj: dict[str, Any]) -> dict[str, Any]:
        answer = pool.request("POST", f"https://{HOST}:{cluster.port}{path}", body=json.dumps(obj))
        if answer.status != 201:
            raise OSError(f"{path}: {answer.status}: {answer.data[:300]!r}")
        return dict(answer.json())

    def one(number: int) -> None:
        namespace = f"ns-{number % namespaces}"
        made = post(*workload(number, namespace))
        post(f"/api/v1/namespaces/{namespace}/pods", pod(made))
        if number % 2:
            port = {"port": 80, "targetPort": 8000}
            spec = {"clusterIP": "None", "selector": {"app": made["metadata"]["name"]}, "ports": [port]}
            post(f"/api/v1/namespaces/{namespace}/services", {"metadata": {"name": f"s{number}"}, "spec": spec})

    with ThreadPoolExecutor(16) as threads:

        def namespace(number: int) -> None:
            post("/api/v1/namespaces", {"metadata": {"name": f"ns-{number}"}})
            post(f"/api/v1/namespaces/ns-{number}/serviceaccounts", {"metadata": {"name": "default"}})

        for number in range(namespaces):
            try:
                namespace(number)
            except OSError as error:
                if "409" not in str(error):  # the controller was faster with the account
                    raise
        list(threads.map(one, range(workloads)))


def measured(cluster: Cluster, *words: str) -> Iterator[str]:
    """Runs the command; its seconds, its most resident memory, and its summary."""
    env = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig())}
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", _WRAPPED, "scan", "--fail-on", "never", *words],
        env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    seconds = time.perf_counter() - start
    lines = done.stderr.splitlines()
    yield f"podfit scan {' '.join(words)}: exit {done.returncode}, {seconds:.1f} s, {lines[-1] if lines else ''}"
    yield from [one for one in lines[:-1] if not one.startswith("note")][:5]
    yield done.stdout.splitlines()[0] if done.stdout else ""


_WRAPPED = """\
import resource, sys
from podfit.cli import main
code = main(sys.argv[1:])
own = resource.getrusage(resource.RUSAGE_SELF)
print(f"{own.ru_maxrss / 1024:.0f} MiB at most, {own.ru_utime + own.ru_stime:.1f} s of CPU", file=sys.stderr)
sys.exit(code)
"""


def main() -> int:
    """Fills a control plane, and scans it."""
    workloads, namespaces = (int(word) for word in (*sys.argv[1:], "5000", "100")[:2])
    with running() as cluster:
        start = time.perf_counter()
        fill(cluster, workloads, namespaces)
        print(
            f"{workloads} workloads in {namespaces} namespaces, made in {time.perf_counter() - start:.0f} s", flush=True
        )
        folder = Path(cluster.folder)
        for words in ((), ("--format", f"json={folder / 'scan.json'}", "--format", f"html={folder / 'scan.html'}",
                           "--format", "text")):  # fmt: skip
            print("\n".join(measured(cluster, *words)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
