"""What a page of a list costs: decoded into the client's typed models, into plain objects, and as `cluster/` does it.

    python -m benchmarks.decoding [NODES]

One page of nodes as a kubelet and its plugins report them (conditions, images, managedFields), in memory. Prints
milliseconds and the most memory of each way, and how many times ours that is.
"""

from __future__ import annotations

import json
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

from kubernetes.client import ApiClient

from podfit.cluster.decoding import page
from podfit.kube.snapshot import JSON, WATCHED_KINDS

PAGE = 125
"""Objects of a page of nodes that is not larger than `cluster.decoding` reads."""
NODES = next(kind for kind in WATCHED_KINDS if kind.name == "nodes")


def node(number: int) -> dict[str, Any]:
    """Some 20 KB of JSON, as a GPU node has them."""
    name, at = f"gpu-{number}", "2026-11-21T12:00:00Z"
    labels = {f"feature.node.kubernetes.io/cpu-cpuid.F{index}": "true" for index in range(60)}
    labels |= {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "kubernetes.io/hostname": name}
    fields: dict[str, Any] = {f"f:{label}": {} for label in labels}
    return {
        "metadata": {
            "name": name, "uid": name, "resourceVersion": str(number), "creationTimestamp": at, "labels": labels,
            "managedFields": [
                {"manager": manager, "operation": "Update", "apiVersion": "v1", "time": at, "fieldsType": "FieldsV1",
                 "fieldsV1": {"f:metadata": {"f:labels": fields}}}
                for manager in ("kubelet", "nfd-master")
            ],
        },
        "spec": {"providerID": f"cloud:///{name}", "podCIDR": "10.0.0.0/24"},
        "status": {
            "allocatable": {"cpu": "96", "memory": "1000Gi", "nvidia.com/gpu": "8", "pods": "110"},
            "capacity": {"cpu": "96", "memory": "1024Gi", "nvidia.com/gpu": "8", "pods": "110"},
            "conditions": [
                {"type": kind, "status": "False", "reason": "KubeletHasNo", "message": "kubelet has none of it",
                 "lastHeartbeatTime": at, "lastTransitionTime": at}
                for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable", "Ready")
            ],
            "images": [
                {"names": [f"registry.example.com/team/image-{index}@sha256:{index:064x}"], "sizeBytes": 10**9}
                for index in range(50)
            ],
            "nodeInfo": {
                "machineID": name, "systemUUID": name, "bootID": name, "kernelVersion": "6.8", "osImage": "Linux",
                "containerRuntimeVersion": "containerd://2", "kubeletVersion": "v1.36.0", "kubeProxyVersion": "v1.36.0",
                "operatingSystem": "linux", "architecture": "amd64",
            },
        },
    }  # fmt: skip


def measured(decode: Callable[[], object]) -> tuple[float, float]:
    """Milliseconds, and MiB at most."""
    decode()  # without the first call's imports and compilation
    start = time.perf_counter()
    decode()
    taken = time.perf_counter() - start
    tracemalloc.start()
    kept = decode()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    del kept
    return taken * 1000, most / (1 << 20)


def kept_of(text: bytes) -> list[JSON]:
    """What is kept of a page."""
    kept: list[JSON] = []
    page(text, lambda obj: kept.append(NODES.keep(obj)))
    return kept


def main() -> int:
    """Measures the three ways in one run."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    text = json.dumps({"kind": "NodeList", "apiVersion": "v1", "metadata": {}, "items": [*map(node, range(count))]})
    parts = [
        json.dumps({"metadata": {}, "items": [*map(node, range(at, min(at + PAGE, count)))]}).encode()
        for at in range(0, count, PAGE)
    ]
    client = ApiClient()
    ways: dict[str, Callable[[], object]] = {
        "kept by cluster/": lambda: [kept for part in parts for kept in kept_of(part)],
        "plain objects": lambda: json.loads(text),
        "typed models": lambda: client.deserialize(text, "V1NodeList", "application/json"),
    }
    print(f"{count} nodes, {len(text) / (1 << 20):.1f} MiB of JSON")
    ours = None
    for way, decode in ways.items():
        milliseconds, most = measured(decode)
        ours = ours or (milliseconds, most)
        print(
            f"{way:<17} {milliseconds:7.0f} ms ({milliseconds / ours[0]:.1f}x)  {most:6.1f} MiB ({most / ours[1]:.1f}x)"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
