"""`--nodes FILE|cluster`: the nodes on which the Pods will run, as Node objects or as a short list of kinds."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from podfit.cli.support import edge
from podfit.kube import manifest, snapshot
from podfit.kube.path import FieldPath
from podfit.kube.snapshot import FILE_KINDS, Snapshot
from podfit.kube.workload import JSON
from podfit.vllm import gpu
from podfit.vllm.facts import Facts

if TYPE_CHECKING:
    from podfit.cli.support.fleet_model import Fleet, NodeKind
    from podfit.cluster.access import Client

CLUSTER = "cluster"


class ReadFleet(NamedTuple):
    """The nodes of a file or of a cluster."""

    snapshot: Snapshot
    complete: bool
    """No other nodes will come."""


def add_argument(parser: argparse.ArgumentParser) -> None:
    """Register `--nodes FILE|cluster`."""
    parser.add_argument(
        "--nodes",
        metavar="FILE|cluster",
        help="the nodes that may run the Pods: what `kubectl get nodes -o yaml` wrote, a list of kinds "
        "(docs/nodes.md), or `cluster` to ask the cluster now",
    )


def added(facts: Facts, args: argparse.Namespace) -> Facts:
    """The facts with the nodes of `--nodes`, for a command that takes it; raises UnusableError."""
    if not getattr(args, "nodes", None):
        return facts
    if args.gpu:
        raise edge.UnusableError("--gpu and --nodes exclude each other: --gpu names a GPU, --nodes offers a choice")
    return with_nodes(facts, read(args.nodes, getattr(args, "context", None)))


def with_nodes(facts: Facts, nodes: ReadFleet) -> Facts:
    """The facts with these nodes."""
    return replace(facts, fleet=nodes.snapshot, fleet_complete=nodes.complete)


def read(name: str, context: str | None = None) -> ReadFleet:
    """The nodes of a file, of standard input, or of the user's cluster; raises UnusableError."""
    if name == CLUSTER:
        return ReadFleet(_of_cluster(context), complete=False)
    manifests = edge.read_manifests(name)
    if manifests.errors:
        raise edge.UnusableError([str(error) for error in manifests.errors], 3)
    short = [
        document for document in manifests.documents if "kinds" in document.object and "kind" not in document.object
    ]
    if short:
        fleets = [_validated(name, document) for document in short]
        objects = [obj for fleet in fleets for obj in node_objects(fleet)]
        return ReadFleet(snapshot.from_objects(objects), all(fleet.complete for fleet in fleets))
    stock = snapshot.from_objects(document.object for document in manifests.documents)
    if stock.nodes is None:
        raise edge.UnusableError(
            f"--nodes {name}: no Node with a status in it; write it with kubectl get nodes -o yaml, or as a list of "
            "kinds (docs/nodes.md)",
            3,
        )
    return ReadFleet(stock, complete=False)


def _of_cluster(context: str | None) -> Snapshot:
    """The nodes of the user's cluster, and the pools that may make more, as far as the user may read them."""
    from podfit.cli.support import user_cluster
    from podfit.cluster.listing import pages

    with (
        user_cluster.client(argparse.Namespace(context=context)) as client,
        user_cluster.errors_reported("--nodes cluster"),
    ):
        nodes = (item for page in pages(client, "/api/v1/nodes") for item in page)
        objects = [{"apiVersion": "v1", "kind": "Node", **node} for node in nodes]
        return snapshot.from_objects([*objects, *_pools(client)])


def _pools(client: Client) -> Iterator[JSON]:
    """NodePools and ComputeClasses; none of a kind that the cluster lacks or the user may not list."""
    from podfit.cluster.access import StatusError
    from podfit.cluster.listing import pages

    for kind in FILE_KINDS:
        for version in kind.versions:
            try:
                objects = [item for page in pages(client, kind.path(version)) for item in page]
            except StatusError:
                continue
            yield from ({"apiVersion": f"{kind.group}/{version}", "kind": kind.kind, **item} for item in objects)
            break


def _validated(name: str, document: manifest.Document) -> Fleet:
    """The short form; raises UnusableError with file, line and field."""
    from pydantic import ValidationError  # only this form needs it, and a start would wait for it

    from podfit.cli.support.fleet_model import Fleet

    try:
        fleet = Fleet.model_validate(dict(document.object))
        problems = [(FieldPath(place), reason) for place, reason in _problems(fleet)]
    except ValidationError as error:
        problems = [(FieldPath(detail["loc"]), f"{detail['msg']} ({detail['input']!r})") for detail in error.errors()]
    if problems:
        lines = sorted((document.line_of(place), f"{place}: {reason}") for place, reason in problems)
        raise edge.UnusableError([f"{name}:{line}: {reason}" for line, reason in lines])
    return fleet


def _problems(fleet: Fleet) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """The values that mean nothing, each with its place."""
    for index, kind in enumerate(fleet.kinds):
        gpus = gpu.by_name(kind.gpu)
        if not gpus:
            near = gpu.nearest(kind.gpu)
            hint = f"did you mean {', '.join(near)}?" if near else "expected a name such as l4, h100 or Tesla-T4"
            yield ("kinds", index, "gpu"), f"no GPU is known by the name {kind.gpu!r}; {hint}"
        elif kind.memory and not any(
            0.5 * product.memory <= kind.memory <= 2.2 * product.memory_high for product in gpus
        ):
            yield (
                ("kinds", index, "memory"),
                f"not a valid memory size of one {gpus[0].name} ({kind.memory:,} bytes, expected about "
                f"{gpu.sold_gigabytes(gpus[0])}G)",
            )


def node_objects(fleet: Fleet) -> Iterator[JSON]:
    """The Node objects that the kinds stand for; of a name that several GPU models have, nodes with each of them."""
    for index, kind in enumerate(fleet.kinds):
        numbers = itertools.count()
        for model in gpu.by_name(kind.gpu):
            for _ in range(max(1, kind.nodes)):  # a pool may have zero nodes now
                yield _node(kind, model, f"kinds[{index}] #{next(numbers)}")


def _node(kind: NodeKind, model: gpu.Gpu, name: str) -> JSON:
    """A Node with the labels, taints and allocatable GPUs of a described kind."""
    maker = min(gpu.maker.of_gpus([model]))
    resource = kind.resource or gpu.maker.RESOURCES.get(maker, gpu.maker.RESOURCES["nvidia"])
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**_labels(kind, model), **kind.labels}},
        "spec": {"taints": [taint.model_dump(exclude_none=True) for taint in kind.taints]},
        "status": {"allocatable": {resource: str(kind.count)}},
    }


def _labels(kind: NodeKind, model: gpu.Gpu) -> Mapping[str, str]:
    """The labels that the GPU's labeler gives such a node. A label that the user wrote stays as it is."""
    key, label = gpu.advice.product_label(model)
    shared = "-SHARED" if kind.gpu.upper().endswith("-SHARED") else ""
    labels = {key: kind.gpu if kind.gpu in model.labels else f"{label}{shared}"}
    if kind.memory:
        labels["nvidia.com/gpu.memory"] = str(kind.memory >> 20)
    if kind.driver:
        major, _, rest = kind.driver.partition(".")
        minor = rest.partition(".")[0]
        for prefix in ("nvidia.com/cuda.driver", "nvidia.com/cuda.driver-version"):
            labels |= {f"{prefix}.major": major, f"{prefix}.minor": minor}
    return labels


def relative_to(folder: Path, name: str) -> str:
    """The file that a project file names, from its own folder."""
    return name if name == CLUSTER else str(folder / name)
