"""Facts about models and accelerators: an immutable snapshot, and the order in which the sources are tried.

The sources of a fact, the most certain first (`model.find` and `gpu.find` go down these lists):

| the model | may deny |
| --- | --- |
| annotation `podfit.dev/model` with the name of a model of the next lines | as that line |
| a config.json: in a ConfigMap labeled `podfit.dev/model-config`, by `--models DIR` or `--model-config` | yes |
| the id or an alias in the catalog | if the entry is trusted |
| `path`: a path, a URI or a mirror whose last parts name one model of the lines above | no |
| `name`: a published model with a quantization or a fine-tune's word added to its name; else a size in the name | no |

| the accelerator | may deny |
| --- | --- |
| a node label in nodeSelector or required nodeAffinity; the MIG profile in the resource's name | yes |
| a DRA claim's class and selectors, if the claim is known | if they name the whole GPU |
| Ray's `accelerator_type` | yes |
| a label that the cluster's admins invented (`gpu-type: a100`), HAMi's `use-gputype` | no |
| the labels of the nodes on which the Pod may run (cluster, input, `--nodes`) | only if `nodes_closed` |
| `--gpu` | yes |
| the policy's `assume.gpu` | no |

Everything else (preferred affinity, tolerations) is not used as a fact. `--gpu` and `assume.gpu` don't apply to a
container for another maker's devices, or for none. Its resources decide that, else its build of vLLM (`gpu/maker.py`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar

from podfit.base import data
from podfit.kube import snapshot
from podfit.kube.companions import Companions
from podfit.kube.snapshot import Snapshot
from podfit.vllm import measured
from podfit.vllm.measured import MeasuredStart

if TYPE_CHECKING:
    from podfit.vllm.gpu.product import Accelerator

T = TypeVar("T", covariant=True)


class Fact(NamedTuple, Generic[T]):
    """A value, its source, and whether a denial may be based on it."""

    value: T
    source: str
    """For people: "built-in catalog (config.json)", "node label nvidia.com/gpu.product", "guessed from the path"."""
    may_deny: bool


@dataclass(frozen=True)
class Counted:
    """Counts from a checkpoint's safetensors files or their index; None if they were not counted."""

    parameters: int | None = None
    """All parameters, unpacked."""
    weights_bytes: int | None = None
    """Bytes of the tensors."""
    dtype_parameters: Mapping[str, int] = field(default_factory=dict)
    """Stored elements by safetensors dtype ("BF16", "F8_E4M3", "I32")."""
    expert_bytes: int | None = None
    """Bytes of the routed experts' tensors."""
    files: int | None = None
    """Files that the tensors are spread over."""


@dataclass(frozen=True)
class GivenModel:
    """A model's own files, from the user or from a ConfigMap."""

    config: Mapping[str, Any]
    """Its config.json."""
    source: str
    """For people: "ConfigMap models/ours", "models/acme/ours"."""
    counted: Counted = field(default_factory=Counted)
    may_deny: bool = True
    """Not a cache's or the hub's, unless --revision names that commit: another snapshot may be served."""


class Assumed(NamedTuple):
    """A policy's assumptions about unknown values (`spec.assume`). It may inform; no denial is based on it."""

    gpu: str | None = None
    """The GPU of a Pod that names none, `NAME[:COUNT]`; the packaged tables describe it."""
    nodes: Literal["open", "closed"] = "open"
    """closed: no new nodes will come (no autoscaler, no Karpenter, no Kueue), so that the labels of the present nodes
    may support a denial."""
    download_bandwidth: int | None = None
    """Bytes per second of a download from a hub; None: the usual rates of hubs."""
    disk_bandwidth: int | None = None
    """Bytes per second at which weights are read from a volume; None: the usual rates of volumes."""
    free_gpu_memory: float | None = None
    """Share of a GPU's memory that is free when vLLM starts, above 0, at most 1."""
    registries: tuple[str, ...] = ()
    """Repositories whose images are vLLM's own builds under another name."""
    gpus_without_request: bool = False
    """The nodes' runtime gives every container their GPUs (nvidia-container-runtime as the default runtime)."""
    extended_resource_toleration: bool = True
    """The cluster's ExtendedResourceToleration admission tolerates the taint of each resource that a Pod requests,
    as in most clouds (k8s.io/kubernetes plugin/pkg/admission/extendedresourcetoleration)."""
    random_user: bool = False
    """The cluster gives each namespace its own user ids (OpenShift's restricted-v2), so a container without
    `runAsUser` runs as a user without a passwd entry."""


@dataclass(frozen=True)
class Facts:
    """The inputs besides the object itself: the tables of models, GPUs and releases, and the user's inputs."""

    gpu: Accelerator | None = None
    """The accelerator given on the command line (`--gpu NAME[:COUNT]`): used if the Pod names none."""
    gpu_memory: int | None = None
    """Measured bytes that a process sees on each GPU. It overrides the GPU memory of the tables."""
    kv_cache_memory: int | None = None
    """Bytes on each GPU that vLLM reported for the KV cache. It replaces the estimate."""
    models: Mapping[str, GivenModel] = field(default_factory=dict)
    """Model id or path → its files (`podfit.vllm.model.given`); "*" applies to whatever model is served."""
    weights_bytes: int | None = None
    """Counted bytes of the served checkpoint's tensors."""
    given_measured: tuple[MeasuredStart, ...] = ()
    """Measurements in logs, from files that the user passed (`podfit.vllm.measured`)."""
    config_maps: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """Name → ConfigMap of the same file or namespace, for `envFrom`, `configMapKeyRef` and `--config`."""
    companions: Companions = field(default_factory=Companions)
    """The other objects of the same input. None at admission, where a Deployment arrives before its HPA."""
    cluster: Snapshot | None = None
    """The cluster as a watch reports it; None without one."""
    fleet: Snapshot | None = None
    """Nodes, and pools of nodes, that the user described (`--nodes`)."""
    fleet_complete: bool = False
    """The described nodes are all that there will be."""
    assume: Assumed = field(default_factory=Assumed)
    """The `assume` section of the policy for the object; `lint` sets it."""
    plans_table: bool = False
    """Plan a container whose GPU is unknown for every GPU of the table: for commands and the page. A webhook plans the
    GPUs of the cluster's nodes alone."""
    show_secrets: bool = False
    """Do not mask secrets in texts (`--show-secrets`)."""

    @cached_property
    def namespaces(self) -> Mapping[str, Mapping[str, str]]:
        """Namespace → its labels, for policies that select by them; other namespaces are unknown."""
        entries = self.snapshot.objects.get("namespaces", {})
        return {name: namespace["labels"] for (_, name), namespace in entries.items()}

    @cached_property
    def snapshot(self) -> Snapshot:
        """Objects that others refer to by name (claims, device classes, nodes): from the cluster, or from the input;
        and the described nodes."""
        objects = self.cluster
        if objects is None:
            objects = snapshot.from_objects(self.companions.objects, self.companions.around)
        return objects if self.fleet is None else objects.joined(self.fleet)

    @property
    def nodes_closed(self) -> bool:
        """True if no new nodes will come, by the policy or by the description of the nodes."""
        return self.assume.nodes == "closed" or self.fleet_complete

    @cached_property
    def measured(self) -> tuple[MeasuredStart, ...]:
        """Measurements in logs: from labeled ConfigMaps of the cluster or of the same input, and from the user's files.
        The user's come last and win."""
        measured_starts: list[MeasuredStart] = []
        for config_map in self.snapshot.objects.get("configmaps", {}).values():
            measured_starts += measured.of_config_map(config_map).starts
        return (*measured_starts, *self.given_measured)

    @cached_property
    def version(self) -> str:
        """A short text for the tables, the user's inputs and the cluster: equal versions lead to equal decisions."""
        import hashlib  # here, because `podfit check` does not need the version

        given = [
            self.gpu, self.gpu_memory, self.kv_cache_memory, self.weights_bytes, self.models, self.config_maps,
            self.companions.objects, self.given_measured,
        ]  # fmt: skip
        parts = [data.version()]
        if any(given):
            text = json.dumps(given, sort_keys=True, default=repr)
            parts.append(hashlib.sha256(text.encode()).hexdigest()[:8])
        if self.cluster is not None:
            parts.append(self.cluster.version)
        return "-".join(parts)
