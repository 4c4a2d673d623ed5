"""A container's volume mounts, and the directory in which vLLM keeps downloaded files."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from podfit.base.lazy import regex
from podfit.kube.path import FieldPath, is_object, mapping
from podfit.kube.workload import JSON, Container, Workload, as_list
from podfit.vllm.args import EngineArgs
from podfit.vllm.model import by_id
from podfit.vllm.release import is_official

HUB = "/root/.cache/huggingface"
"""Where huggingface_hub keeps its files if the user is root, as in vLLM's image (huggingface_hub constants.py)."""


class CheckpointSource(NamedTuple):
    """Where the checkpoint comes from."""

    download: bool | None = None
    """True: vLLM downloads it before it loads it. False: it is already there. None: unknown."""
    in_memory: bool = False
    """It is in a memory-backed volume: vLLM downloads it there, or another container has put it there."""
    rate: int | None = None
    """Bytes per second of a download, if the policy sets it."""
    disk_rate: int | None = None
    """Bytes per second at which weights are read from disk, if the policy sets it."""


@dataclass(frozen=True, slots=True)
class Mount:
    """One of a container's volumeMounts, with the volume behind it."""

    path: str
    """mountPath, without a trailing slash."""
    index: int
    """The mount's index in the container's list."""
    name: str
    """The volume's name."""
    volume: JSON
    """The volume; empty if the Pod declares none of that name (a StatefulSet's volumeClaimTemplates do)."""
    at: FieldPath
    """The field of the volume, or of its claim's template; of the list of volumes if there is neither."""
    read_only: bool

    @property
    def empty_dir(self) -> JSON | None:
        """The emptyDir of the volume, empty if it sets nothing; None if it is another type of volume."""
        if "emptyDir" not in self.volume:
            return None
        value = self.volume["emptyDir"]
        return value if is_object(value) else {}

    @property
    def memory(self) -> bool:
        """True if it is a tmpfs: files in it use host memory."""
        return (self.empty_dir or {}).get("medium") == "Memory"


def mounts(workload: Workload, container: Container) -> tuple[Mount, ...]:
    """A container's mounts; invalid items are left out. A claim template overrides a volume of the same name."""
    items = as_list(container.spec.get("volumeMounts"))
    if not items:
        return ()
    volumes, index_by_name, claims = as_list(workload.spec.get("volumes")), workload.volumes, workload.claims
    list_of_volumes = workload.path / "volumes"
    rows = []
    for index, item in enumerate(items):
        path = item.get("mountPath") if is_object(item) else None
        if not isinstance(path, str):
            continue
        name = str(item.get("name"))
        declared = None if name in claims else index_by_name.get(name)
        volume = {} if declared is None else volumes[declared]
        at = claims.get(name, list_of_volumes) if declared is None else list_of_volumes / declared
        rows.append(Mount(posixpath.normpath(path), index, name, volume, at, item.get("readOnly") is True))
    return tuple(rows)


def mount_of_path(mounted: Iterable[Mount], path: str) -> Mount | None:
    """The deepest mount that contains `path`; None if none does."""
    within = f"{posixpath.normpath(path)}/"
    inside = [mount for mount in mounted if mount.path == "/" or within.startswith(f"{mount.path}/")]
    if len(inside) < 2:
        return inside[0] if inside else None
    return max(inside, key=lambda mount: len(mount.path))


def download_directory(args: EngineArgs, env: Mapping[str, str]) -> str:
    """The directory for vLLM's downloads: `--download-dir`, else the hub's cache.

    huggingface_hub constants.py: HF_HUB_CACHE (HUGGINGFACE_HUB_CACHE before), else `hub` in HF_HOME, else `huggingface`
    in XDG_CACHE_HOME or ~/.cache.
    """
    given = args.given.get("download_dir")
    if isinstance(given, str) and given:
        return given
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if env.get(name):
            return env[name]
    if env.get("HF_HOME"):
        return posixpath.join(env["HF_HOME"], "hub")
    cache = env.get("XDG_CACHE_HOME") or (posixpath.join(env["HOME"], ".cache") if env.get("HOME") else "")
    return posixpath.join(cache, "huggingface", "hub") if cache else f"{HUB}/hub"


def compile_directory(env: Mapping[str, str]) -> str:
    """The directory for the results of torch.compile, with the caches of Inductor and Triton in it.

    It is `torch_compile_cache` in VLLM_CACHE_ROOT, else in `vllm` of XDG_CACHE_HOME or ~/.cache (vLLM 0.33 envs.py,
    compilation/backends.py). Images of vLLM run as root."""
    root = env.get("VLLM_CACHE_ROOT")
    if not root:
        cache = env.get("XDG_CACHE_HOME") or posixpath.join(env.get("HOME") or "/root", ".cache")
        root = posixpath.join(cache, "vllm")
    return posixpath.join(root, "torch_compile_cache")


OF_THE_POD = frozenset({
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "gitRepo", "image", "projected", "secret",
})  # fmt: skip
"""Types of volumes that are created with each Pod, or that nothing can be written to (Kubernetes 1.36 core/v1
Volume; `csi` is the inline type)."""


def keeps_compiled(mounted: Iterable[Mount], env: Mapping[str, str]) -> bool:
    """True if a volume keeps the results of torch.compile for later Pods, so that only the first start compiles."""
    mount = mount_of_path(mounted, compile_directory(env))
    if mount is None or mount.read_only or not OF_THE_POD.isdisjoint(mount.volume):
        return False
    return env.get("VLLM_DISABLE_COMPILE_CACHE", "0") == "0"


_HUB_ID = regex(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
_FOLDERS = ("models", "model", "data", "weights")
"""Typical directories in private images, not organizations of a hub."""


def is_hub_id(name: str | None) -> bool:
    """True if it is a model of the catalog, or `org/name`. vLLM downloads such models from a hub, unlike paths or
    URIs. False for None."""
    if not name:
        return False
    has_org = _HUB_ID.fullmatch(name) is not None and name.partition("/")[0] not in _FOLDERS
    return has_org or by_id(name) is not None


OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
"""Variables with which huggingface_hub downloads nothing; the first that is set counts."""
MODELSCOPE = "VLLM_USE_MODELSCOPE"
"""The variable with which vLLM downloads from ModelScope."""


def is_offline(env: Mapping[str, str]) -> bool:
    """True if vLLM uses no hub: the first of the two variables that is set decides (huggingface_hub constants.py
    `HF_HUB_OFFLINE`, `_is_true`)."""
    hub, transformers = OFFLINE
    text = env.get(hub) or env.get(transformers) or ""
    return text.lower() in ("1", "on", "yes", "true")


def modelscope(env: Mapping[str, str]) -> bool:
    """True if vLLM downloads from ModelScope instead of Hugging Face (vLLM 0.33 envs.py)."""
    return env.get(MODELSCOPE, "").lower() == "true"


def files(
    workload: Workload,
    container: Container,
    args: EngineArgs,
    env: Mapping[str, str],
    rate: int | None = None,
    mounted: Sequence[Mount] | None = None,
    is_new_claim: Callable[[str], bool] = lambda _: False,
) -> CheckpointSource:
    """Where the checkpoint comes from: downloaded at each start, already there, or unknown.

    `env`: its variables. `rate`: as in `CheckpointSource`. `mounted`: the container's `mounts`, if the caller has
    read them already. `is_new_claim`: whether the claim of a name is created with the workload, so that it is empty
    when vLLM first starts.

    The files of a path are there when vLLM starts, whatever put them there. A model of a hub is downloaded if nothing
    keeps the cache: no volume in vLLM's own image, which contains no models, or an emptyDir that no init container
    fills. It may already be in a volume that outlives the Pod.
    """
    mounted = mounts(workload, container) if mounted is None else mounted
    name = args.model
    if not is_hub_id(name) or is_offline(env):
        mount = mount_of_path(mounted, name) if name and name.startswith("/") else None
        return CheckpointSource(False if name else None, in_memory=mount is not None and mount.memory, rate=rate)
    mount = mount_of_path(mounted, download_directory(args, env))
    if mount is None:
        image = container.spec.get("image")
        is_empty = isinstance(image, str) and is_official(image) and args.open is None
        return CheckpointSource(True if is_empty else None, rate=rate)
    if "image" in mount.volume:
        return CheckpointSource(False, rate=rate)
    claim = mapping(mount.volume.get("persistentVolumeClaim")).get("claimName")
    is_claim_new = isinstance(claim, str) and not mount.read_only and is_new_claim(claim)
    is_new = mount.empty_dir is not None or "ephemeral" in mount.volume or is_claim_new
    if workload.init:  # an init container may fill the volume
        return CheckpointSource(None, rate=rate)
    return CheckpointSource(True if is_new else None, in_memory=mount.memory, rate=rate)
