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
"""Variables that move the hub's cache; the first one that is set decides."""
DEFAULT = "the default"
"""`Cache.said_by` of a directory that neither an argument nor a variable sets."""
PERSISTENT = ("claim", "template", "hostPath", "other")
"""Kinds of volumes (`Volume.kind`) whose files outlive the Pod, or may."""


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
        """True if it is a claim, or a template of one, whose size and access modes are known."""
        return self.kind in ("template", "ephemeral") or (self.kind == "claim" and "spec" in self.spec)

    @property
    def label(self) -> str:
        """The volume for people: "PersistentVolumeClaim models", or "volume models" if its claim is not known."""
        return describe(self.spec) if self.kind == "claim" and self.known else f"volume {self.mount.name}"


class Cache(NamedTuple):
    """Where the model's files are kept."""

    directory: str
    """An absolute path: of a download, the one that holds the hub's `models--…` folders."""
    said_by: str
    """The argument or variable that sets the directory, such as "--download-dir" or "HF_HOME"; else `DEFAULT`."""
    downloads: bool
    """vLLM fetches them there; False: `--model` is a path, and they must be there."""
    volume: Volume | None
    """The volume that is mounted over the directory; None if it is the container's own file system."""


def find(engine: Engine) -> Cache | None:
    """The directory of the model's files. None for a load format without files, a model that the operator or a leader
    brings, an offline or another hub, and an unknown directory."""
    if engine.args.get("load_format") not in _READ_FROM_FILES or "load_format" in engine.args.unresolved:
        return None
    model = engine.args.model or ""
    if model.startswith("/"):
        volume = _volume_of(engine, posixpath.normpath(model))
        return Cache(directory=model, said_by="--model", downloads=False, volume=volume)
    if engine.workload.model_uri or engine.command.entry == "worker" or not is_hub_id(model):
        return None
    env = engine.command.env
    if is_offline(env) or modelscope(env):
        return None  # from a copy that is there, or from somewhere else
    directory = posixpath.normpath(download_directory(engine.args, env))
    said_by = _source_of_directory(engine)
    if said_by is None or not directory.startswith("/"):
        return None
    return Cache(directory=directory, said_by=said_by, downloads=True, volume=_volume_of(engine, directory))


def _source_of_directory(engine: Engine) -> str | None:
    """`Cache.said_by` of a download; None if the directory can't be known.

    The default is known only of root in vLLM's own image: another user or image may have another home."""
    if "download_dir" in engine.args.unresolved or _may_be_set_elsewhere(engine):
        return None
    if engine.args.given.get("download_dir"):
        return "--download-dir"
    for name in _VARIABLES:
        if engine.command.env.get(name):
            return name
    image, user = engine.field("image"), ("securityContext", "runAsUser")
    is_root = engine.field(*user) in (None, 0) and engine.pod(*user) in (None, 0)
    return DEFAULT if is_root and isinstance(image, str) and is_official(image) else None


def _may_be_set_elsewhere(engine: Engine) -> bool:
    """True if one of `_VARIABLES` may have a value that can't be seen: its `valueFrom`, or a ConfigMap of `envFrom`."""
    if not engine.declared.intersection(_VARIABLES) <= engine.command.env.keys():
        return True
    for item in as_list(engine.field("envFrom")):
        ref = mapping(item).get("configMapRef")
        if is_object(ref) and str(ref.get("name")) not in engine.facts.config_maps:
            return True
    return False


def is_sure(engine: Engine) -> bool:
    """True if nothing outside the manifest may move the cache or supply the files."""
    if any(mapping(item).get("secretRef") for item in as_list(engine.field("envFrom"))):
        return False  # the Secret may set HF_HOME or HF_HUB_OFFLINE
    # vLLM prefers a directory `org/name` in its working directory to the hub's model.
    return engine.field("workingDir") in (None, "", "/")


def _volume_of(engine: Engine, directory: str) -> Volume | None:
    """The volume that the directory is in, else the first one that is mounted below it. The latter counts because the
    author has then thought of the directory. None if there is neither."""
    mount = mount_of_path(engine.mounts, directory)
    if mount is not None:
        return _volume(engine, mount)
    for below in engine.mounts:
        if below.path.startswith(f"{directory}/"):
            return _volume(engine, below)
    return None


def volumes(engine: Engine) -> list[Volume]:
    """The volumes that the container mounts, in the order of its `volumeMounts`."""
    return [_volume(engine, mount) for mount in engine.mounts]


def _volume(engine: Engine, mount: Mount) -> Volume:
    """The mount with its volume, or with the claim template of that name if the Pod does not declare the volume."""
    if not mount.volume:
        template = _template(engine, mount.name)
        return Volume(mount=mount, kind="other" if template is None else "template", spec=template or {})
    return _declared_volume(engine, mount, mount.volume)


def mounted_at(engine: Engine, volume: Volume) -> FieldPath:
    """The path of the item of `volumeMounts` that mounts the volume."""
    return engine.at("volumeMounts") / volume.mount.index


def _declared_volume(engine: Engine, mount: Mount, volume: JSON) -> Volume:
    """The mount with its volume, an entry of the Pod's `volumes`: a name and one more key, such as "emptyDir"."""
    source: Any
    for key, source in volume.items():
        if key == "name" or not is_object(source):
            continue
        if key == "persistentVolumeClaim":
            claim = _claim(engine, str(source.get("claimName"))) or source
            return Volume(mount=mount, kind="claim", spec={**claim, "readOnly": source.get("readOnly")})
        if key == "ephemeral":
            return Volume(mount=mount, kind="ephemeral", spec=mapping(source.get("volumeClaimTemplate")))
        if key in ("configMap", "secret", "downwardAPI", "projected"):
            return Volume(mount=mount, kind="config", spec=source)
        kind = key if key in ("emptyDir", "hostPath", "image") else "other"
        return Volume(mount=mount, kind=kind, spec=source)
    return Volume(mount=mount, kind="emptyDir", spec={})  # Kubernetes' default for a volume without a source


def _claim(engine: Engine, name: str) -> JSON | None:
    """The PersistentVolumeClaim of that name, from the input, else in the form of the input from the cluster; None if
    neither is known."""
    claim = engine.facts.companions.claim(engine.workload, name)
    if claim is not None:
        return claim
    live = engine.facts.snapshot.get("persistentvolumeclaims", engine.workload.namespace, name)
    if live is None:
        return None
    status = {"capacity": mapping(live.get("capacity"))}
    return {**live, "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "status": status}


def _template(engine: Engine, name: str) -> JSON | None:
    """The StatefulSet's claim template of that name; None if it has none."""
    templates = mapping(engine.workload.object.get("spec")).get("volumeClaimTemplates")
    for item in as_list(templates):
        template = mapping(item)
        if mapping(template.get("metadata")).get("name") == name:
            return template
    return None


_CACHE_WORDS = regex(r"cache|hugging-?face|(^|[^a-z])hf([^a-z]|$)")
_OTHER_WORDS = regex(r"compil|triton|torch|inductor|vllm|lmcache|kv|cuda|jit|tmp|shm|lora|adapter")
"""Words by which a volume is for something else than the files of models."""


def candidates(engine: Engine, cache: Cache) -> list[Volume]:
    """The persistent volumes that were probably meant to be the cache. None for a model that is not downloaded, and if
    the cache is in a persistent volume already."""
    if not cache.downloads or (cache.volume is not None and cache.volume.kind in PERSISTENT):
        return []
    return [volume for volume in volumes(engine) if volume.kind in PERSISTENT and looks_like_a_cache(volume)]


def looks_like_a_cache(volume: Volume) -> bool:
    """True if the volume's name or path says that it is for the files of models."""
    words = f"{volume.mount.name} {volume.mount.path}".lower()
    return _CACHE_WORDS.search(words) is not None and _OTHER_WORDS.search(words) is None
