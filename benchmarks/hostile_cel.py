"""What the match conditions cost the API server, as an object grows in each dimension that a condition reads.

Every object is a stranger's: it holds no vLLM, is not sent, and only the conditions read it. It is created as a dry run
in a namespace that the chart excludes and in one that podfit evaluates, in turn. Printed is the API server's processor
time. The size doubles up to the 3 MiB that it reads, or until it gives up in the excluded namespace. The
exponent is that of the last three doublings: 1 is linear.

python -m benchmarks.hostile_cel [oldest] [DIMENSION…]
"""

from __future__ import annotations

import json
import math
import ssl
import statistics
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e import binaries
from tests.e2e.controlplane import ADMIN, HOST, Cluster, running
from tests.e2e.release import installed, make_namespace

JSONDict = dict[str, Any]
BODY = 3 << 20
"""Bytes of a request that an API server reads (k8s.io/apiserver, MaxRequestBodyBytes)."""
REPEATS = 5
DOUBLINGS = 6
PATIENCE = 4.0
"""Seconds of processor for one object in the excluded namespace; beyond it no larger one is tried."""
EXPONENT, RATIO = 1.2, 20.0
"""More is too much, unless the API server's own exponent is as large."""
JUDGED, EXCLUDED = "judged", "excluded"
GATEWAY_TIMEOUT = 504
"""What the API server answers when it gives up by itself."""


@dataclass(frozen=True)
class Dimension:
    """One way to make an object larger."""

    made: Callable[[int], JSONDict]
    resource: str = "api/v1/namespaces/{}/pods"
    update: bool = False
    """The object is there, and gets an annotation."""


def _container(number: int = 0, **fields: Any) -> JSONDict:
    return {"name": f"c{number}", "image": "busybox:1.37", **fields}


def _pod(*containers: JSONDict, **fields: Any) -> JSONDict:
    spec = {"containers": containers, **fields.pop("spec", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", **fields}, "spec": spec}


def _deployment(**metadata: Any) -> JSONDict:
    labels = {"app": "a"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [_container()]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", **metadata}, "spec": spec}


def _owners(count: int, length: int = 2) -> list[JSONDict]:
    named = {"apiVersion": "v" * length, "kind": "ConfigMap", "name": "a"}
    return [{**named, "uid": f"u{number}"} for number in range(count)]


def _containers(count: int) -> JSONDict:
    return _pod(*(_container(number) for number in range(count)))


DEPLOYMENTS = "apis/apps/v1/namespaces/{}/deployments"
DIMENSIONS: dict[str, Dimension] = {
    "args of one letter": Dimension(lambda n: _pod(_container(args=["a"] * n))),
    "command of one letter": Dimension(lambda n: _pod(_container(command=["a"] * n))),
    "args of a word": Dimension(lambda n: _pod(_container(args=["--listen-address"] * n))),
    "characters of one arg": Dimension(lambda n: _pod(_container(args=["a" * n]))),
    "containers": Dimension(_containers),
    "init containers": Dimension(
        lambda n: _pod(_container(), spec={"initContainers": [_container(i + 1) for i in range(n)]})),
    "containers with all that is read": Dimension(
        lambda n: _pod(*(_container(i, args=["a", "b"], env=[{"name": "A", "value": "b"}], resources={
            "limits": {"cpu": "1", "memory": "1Gi"}}) for i in range(n)))),
    "characters of an image": Dimension(lambda n: _pod({"name": "a", "image": "a" * n})),
    "variables": Dimension(lambda n: _pod(_container(env=[{"name": "A", "value": "b"}] * n))),
    "resources": Dimension(lambda n: _pod(_container(resources={"limits": {f"a.b/{i}": "1" for i in range(n)}}))),
    "labels": Dimension(lambda n: _pod(_container(), labels={f"a/{i}": "" for i in range(n)})),
    "owner references": Dimension(lambda n: _deployment(ownerReferences=_owners(n)), DEPLOYMENTS),
    "characters of an owner's apiVersion": Dimension(lambda n: _deployment(ownerReferences=_owners(1, n)), DEPLOYMENTS),
    "an update, of args": Dimension(lambda n: _pod(_container(args=["a"] * n)), update=True),
    "an update, of containers": Dimension(_containers, update=True),
}  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One size of a dimension: seconds of processor, the median of REPEATS."""

    size: int
    body: int
    """Bytes."""
    judged: float
    excluded: float


class Api:
    """An API server whose processor time is read."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._context = ssl.create_default_context(cafile=str(cluster.root / "ca.crt"))
        self._tasks = Path("/proc") / (cluster.root / "kube-apiserver.pid").read_text() / "task"

    def spent(self) -> float:
        """Seconds of processor so far."""
        return sum(int((task / "schedstat").read_text().split()[0]) for task in self._tasks.iterdir()) / 1e9

    def call(self, method: str, path: str, body: bytes = b"") -> None:
        """One request that must be answered with success."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Authorization": f"Bearer {ADMIN}", "Content-Type": kind}
        url = f"https://{HOST}:{self._cluster.port}/{path}"
        request = urllib.request.Request(url, method=method, data=body, headers=headers)
        with urllib.request.urlopen(request, context=self._context, timeout=300) as answer:  # noqa: S310 - loopback
            answer.read()

    def cost(self, method: str, path: str, body: bytes) -> float:
        """Seconds of processor that one request costs."""
        before = self.spent()
        self.call(method, path, body)
        return self.spent() - before


def measured(api: Api, dimension: Dimension) -> Iterator[Row]:
    """Sizes, each the double of the one before; the last is the largest that the API server takes in time."""
    largest = _largest(dimension)
    for size in [largest >> shift for shift in range(DOUBLINGS, -1, -1)]:
        body = json.dumps(dimension.made(size)).encode()
        try:
            _cost(api, dimension, EXCLUDED, body)  # warms up
        except urllib.error.HTTPError as error:
            if error.code != GATEWAY_TIMEOUT:
                raise
            return
        _cost(api, dimension, JUDGED, body)
        costs: dict[str, list[float]] = {EXCLUDED: [], JUDGED: []}
        for _ in range(REPEATS):
            for namespace, spent in costs.items():
                spent.append(_cost(api, dimension, namespace, body))
        row = Row(size, len(body), *(statistics.median(costs[namespace]) for namespace in (JUDGED, EXCLUDED)))
        yield row
        if row.excluded > PATIENCE:
            return


def _cost(api: Api, dimension: Dimension, namespace: str, body: bytes) -> float:
    path = dimension.resource.format(namespace)
    if not dimension.update:
        return api.cost("POST", f"{path}?dryRun=All", body)
    api.call("POST", path, body)
    try:
        return api.cost("PATCH", f"{path}/a?dryRun=All", ANNOTATED)
    finally:
        api.call("DELETE", f"{path}/a?gracePeriodSeconds=0")


ANNOTATED = json.dumps({"metadata": {"annotations": {"a": "b"}}}).encode()


def _largest(dimension: Dimension) -> int:
    """About the largest size whose body the API server reads; of an update, what etcd stores with its defaults."""
    few, more = 1_000, 2_000
    each = (len(json.dumps(dimension.made(more))) - len(json.dumps(dimension.made(few)))) / (more - few)
    return int((BODY // 16 if dimension.update else BODY) * 0.93 / each)


def exponent(rows: list[Row], cost: Callable[[Row], float]) -> float:
    """Of the growth of a cost in the last three doublings."""
    first, last = rows[max(0, len(rows) - 4)], rows[-1]
    return math.log2(cost(last) / cost(first)) / math.log2(last.size / first.size)


@contextmanager
def _apis(version: str) -> Iterator[Api]:
    with running(version) as cluster:
        values = {"webhooks": {"excludedNamespaces": [EXCLUDED]}}
        with installed(cluster, "podfit", values):
            for namespace in (JUDGED, EXCLUDED):
                make_namespace(cluster, namespace, "podfit")
            yield Api(cluster)


def main() -> int:
    """Prints every dimension; 1 if one grows too fast or costs too much."""
    words = sys.argv[1:]
    version = binaries.OLDEST if binaries.OLDEST in words else binaries.NEWEST
    chosen = [word for word in words if word != binaries.OLDEST] or list(DIMENSIONS)
    too_much = []
    with _apis(version) as api:
        for name in chosen:
            print(f"{name}\n{'size':>10} {'bytes':>10} {'judged':>10} {'excluded':>10} {'ratio':>6}")
            rows = []
            for row in measured(api, DIMENSIONS[name]):
                rows.append(row)
                print(
                    f"{row.size:>10,} {row.body:>10,} {row.judged:>8.3f} s {row.excluded:>8.3f} s "
                    f"{row.judged / row.excluded:>6.2f}",
                    flush=True,
                )
            growth, own = exponent(rows, lambda row: row.judged), exponent(rows, lambda row: row.excluded)
            ratio = max(row.judged / row.excluded for row in rows)
            print(f"exponent {growth:.2f} (excluded {own:.2f}), ratio at most {ratio:.2f}\n", flush=True)
            too_much += [name] if growth > max(EXPONENT, own) or ratio > RATIO else []
    print(f"too much: {', '.join(too_much)}" if too_much else f"all exponents ≤ {EXPONENT}, all ratios ≤ {RATIO:g}")
    return 1 if too_much else 0


if __name__ == "__main__":
    sys.exit(main())
