"""Shared code of the storage rules: the directory of the model's files, and its volume."""

from __future__ import annotations

import posixpath
from typing import Any, NamedTuple

from podfit.base.lazy import regex
from podfit.kube.companions import describe
from podfit.kube.path import FieldPath, is_object, mapping
from podfit.kube.workload import JSON
from podfit.kube.workload.template import as_list
from podfit.rules.engine import Engine
from podfit.vllm.release import is_official
from podfit.vllm.volumes import (
    Mount,
    download_directory,
    is_hub_id,
    is_offline,
    modelscope,
    mount_of_path,
)

_READ_FROM_FILES = (None, "auto", "safetensors", "pt", "hf", "npcache", "mistral", "bitsandbytes", "gguf",
                    "fastsafetensors", "instanttensor")  # fmt: skip
"""Load formats for which vLLM downloads whole files first; the others stream, or read nothing."""
_VARIABLES = ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "HOME")
PERSISTENT = ("claim", "template", "hostPath", "other")
"""Volumes whose files outlive the Pod, or may."""


class Volume(NamedTuple):
    """A mount, and what is known of the volume behind it."""

    mount: Mount
    kind: str
    """ "claim", "template" (of a StatefulSet), "ephemeral", "emptyDir", "hostPath", "image", "config" or "other"."""
    spec: JSON
    """The volume's object under its kind; for a known claim, the PersistentVolumeClaim."""

    @property
    def read_only(self) -> bool:
        """True if nothing can be written there."""
        return self.mount.read_only or self.spec.get("readOnly") is True or self.kind in ("image", "config")

    @property
    def known(self) -> bool:
        """True if the claim's size and access modes are known."""
        return self.kind in ("template", "ephemeral") or (self.kind == "claim" and "spec" in self.spec)

    @property
    def label(self) -> str:
        """ "PersistentVolumeClaim models", "volume models"."""
        return describe(self.spec) if self.kind == "claim" and self.known else f"volume {self.mount.name}"


class Cache(NamedTuple):
    """Where the model's files are kept."""

    directory: str
    said_by: str
    """ "--download-dir", "HF_HOME", "the default"."""
    downloads: bool
    """vLLM fetches them there; False: `--model` is a path, and they must be there."""
    volume: Volume | None
    """The volume that is mounted over the directory; None if it is the container's own file system."""


def find(engine: Engine) -> Cache | None:
    """The directory of the model's files. None for a load format without files, a model that the operator or a leader
    brings, an offline or another hub, and an unknown directory."""
    model = engine.args.model or ""
    if engine.args.get("load_format") not in _READ_FROM_FILES or "load_format" in engine.args.unresolved:
        return None
    if model.startswith("/"):
        volume = _over(engine, posixpath.normpath(model))
        return Cache(directory=model, said_by="--model", downloads=False, volume=volume)
    if engine.workload.model_uri or engine.command.entry == "worker" or not is_hub_id(model):
        return None
    env = engine.command.env
    if is_offline(env) or modelscope(env):
        return None  # from a copy that is there, or from somewhere else
    place = _directory(engine)
    if place is None:
        return None
    directory, said_by = place
    return Cache(directory=directory, said_by=said_by, downloads=True, volume=_over(engine, directory))


def _directory(engine: Engine) -> tuple[str, str] | None:
    """The directory, and what says so; None if it can't be known (a home directory of the user's own image)."""
    if "download_dir" in engine.args.unresolved or _hidden(engine):
        return None
    env = engine.command.env
    directory = download_directory(engine.args, env)
    if not directory.startswith("/"):
        return None
    directory = posixpath.normpath(directory)
    if engine.args.given.get("download_dir"):
        return directory, "--download-dir"
    if texts := [name for name in _VARIABLES if env.get(name)]:
        return directory, texts[0]
    image, user = engine.field("image"), ("securityContext", "runAsUser")
    if engine.field(*user) not in (None, 0) or engine.pod(*user) not in (None, 0):
        return None
    if not isinstance(image, str) or not is_official(image):
        return None
    return directory, "the default"


def _hidden(engine: Engine) -> bool:
    """True if one of the variables may be set outside the manifest."""
    declared = engine.declared
    if not declared.isdisjoint(_VARIABLES) and not declared.intersection(_VARIABLES) <= engine.command.env.keys():
        return True
    for item in as_list(engine.field("envFrom")):
        ref = mapping(item).get("configMapRef")
        if is_object(ref) and str(ref.get("name")) not in engine.facts.config_maps:
            return True
    return False


def is_sure(engine: Engine) -> bool:
    """True if nothing outside the manifest may move the cache or supply the files.

    A Secret used by `envFrom` may set HF_HOME or HF_HUB_OFFLINE. vLLM prefers a directory `org/name` in its working
    directory to the hub's model."""
    if any(mapping(item).get("secretRef") for item in as_list(engine.field("envFrom"))):
        return False
    return engine.field("workingDir") in (None, "", "/")


def _over(engine: Engine, directory: str) -> Volume | None:
    """The volume that the directory is in; one below it counts too, for then the author has thought of it. None if
    there is neither."""
    mount = mount_of_path(engine.mounts, directory)
    if mount is None:
        mount = next((holder for holder in engine.mounts if holder.path.startswith(f"{directory}/")), None)
    return _volume(engine, mount) if mount is not None else None


def volumes(engine: Engine) -> list[Volume]:
    """Everything that the container mounts."""
    return [_volume(engine, mount) for mount in engine.mounts]


def _volume(engine: Engine, mount: Mount) -> Volume:
    """The mount with its volume, or with the claim template of that name if the Pod does not declare the volume."""
    kind, inner = _source(engine, mount.volume) if mount.volume else _template(engine, mount.name)
    return Volume(mount, kind, inner)


def mounted_at(engine: Engine, volume: Volume) -> FieldPath:
    """The path of the item of `volumeMounts` that mounts the volume."""
    return engine.at("volumeMounts") / volume.mount.index


def _source(engine: Engine, volume: JSON) -> tuple[str, JSON]:
    """(kind, spec) of a volume's source; claims are looked up in the cluster's."""
    inner: Any
    for key, inner in volume.items():
        if key == "name" or not is_object(inner):
            continue
        if key == "persistentVolumeClaim":
            return "claim", {
                **(_claim(engine, str(inner.get("claimName"))) or inner),
                "readOnly": inner.get("readOnly"),
            }
        if key == "ephemeral":
            return "ephemeral", mapping(inner.get("volumeClaimTemplate"))
        if key in ("configMap", "secret", "downwardAPI", "projected"):
            return "config", inner
        return (key if key in ("emptyDir", "hostPath", "image") else "other"), inner
    return "emptyDir", {}  # Kubernetes' default where a volume says nothing


def _claim(engine: Engine, name: str) -> JSON | None:
    """The claim of that name, from the input or as the cluster has it; None if neither is known."""
    entries = engine.facts.companions.claim(engine.workload, name)
    live = engine.facts.snapshot.get("persistentvolumeclaims", engine.workload.namespace, name)
    if entries is None and live is not None:
        status = {"capacity": mapping(live.get("capacity"))}
        entries = {**live, "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "status": status}
    return entries


def _template(engine: Engine, name: str) -> tuple[str, JSON]:
    """("template", spec) of the StatefulSet's claim template of that name; ("other", {}) if it has none."""
    templates = mapping(engine.workload.object.get("spec")).get("volumeClaimTemplates")
    for item in as_list(templates):
        if mapping(mapping(item).get("metadata")).get("name") == name:
            return "template", mapping(item)
    return "other", {}


_CACHE = regex(r"cache|hugging-?face|(^|[^a-z])hf([^a-z]|$)")
_OTHER = regex(r"compil|triton|torch|inductor|vllm|lmcache|kv|cuda|jit|tmp|shm|lora|adapter")
"""Caches of something else."""


def candidates(engine: Engine, cache: Cache) -> list[Volume]:
    """The volumes that were meant to be the cache; none if the directory is in a volume that lasts."""
    if not cache.downloads or (cache.volume is not None and cache.volume.kind in PERSISTENT):
        return []
    return [volume for volume in volumes(engine) if volume.kind in PERSISTENT and looks_like_a_cache(volume)]


def looks_like_a_cache(volume: Volume) -> bool:
    """True if the volume's name or path says that it is for the files of models."""
    words = f"{volume.mount.name} {volume.mount.path}".lower()
    return _CACHE.search(words) is not None and _OTHER.search(words) is None
