"""The fields of a file of node kinds (docs/schemas/nodes.json)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from podfit.kube import quantity

MAX_NODES = 5000
"""Nodes of one kind: Kubernetes supports as many in a cluster (kubernetes.io, considerations for large clusters)."""
_STRICT = ConfigDict(extra="forbid", strict=True)


def _memory(value: Any) -> Any:
    """A size with a unit (48Gi) → bytes; raises ValueError if it is none, or not positive."""
    size = quantity.try_parse(value)
    if size is None or size <= 0:
        raise ValueError("expected a size such as 48Gi")
    return size


def _taint(value: Any) -> Any:
    """`KEY[=VALUE]:EFFECT`, as kubectl taint takes it, or a Node's own form."""
    if not isinstance(value, str):
        return value
    key, _, effect = value.rpartition(":")
    name, _, content = key.partition("=")
    return {"key": name, "effect": effect, **({"value": content} if content else {})}


class Taint(BaseModel):
    """A taint of a node."""

    model_config = _STRICT

    key: str = Field(min_length=1)
    value: str | None = None
    effect: Literal["NoSchedule", "NoExecute", "PreferNoSchedule"]


Memory = Annotated[int, BeforeValidator(_memory), WithJsonSchema({"type": ["string", "integer"]})]
WrittenTaint = Annotated[
    Taint, BeforeValidator(_taint), WithJsonSchema({"anyOf": [{"type": "string"}, Taint.model_json_schema()]})
]


class NodeKind(BaseModel):
    """Nodes that are alike."""

    model_config = _STRICT

    gpu: str = Field(description="The GPU, as --gpu NAME takes it")
    count: int = Field(default=8, ge=1, le=1024, description="GPUs of each node")
    nodes: int = Field(default=1, ge=0, le=MAX_NODES, description="Number of such nodes; 0 for an empty pool")
    labels: dict[str, str] = Field(default={}, description="Further labels of the nodes")
    taints: list[WrittenTaint] = Field(default=[], description="Their taints: KEY[=VALUE]:EFFECT, or as in a Node")
    memory: Memory | None = Field(default=None, description="Memory of each GPU, if it is not the usual one: 48Gi")
    driver: str | None = Field(default=None, description="Version of the GPU driver: 570.86.15")
    resource: str | None = Field(default=None, description="Resource of the device plugin; default: the maker's")


class Fleet(BaseModel):
    """The nodes on which the Pods will run."""

    model_config = _STRICT

    kinds: list[NodeKind] = Field(min_length=1, description="The kinds of nodes")
    complete: bool = Field(default=False, description="No other nodes will come, so that these may deny")
