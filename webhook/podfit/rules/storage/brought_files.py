"""Helper of the rules about absent files: whether something outside of the manifest may add them."""

from __future__ import annotations

import posixpath

from podfit.base.lazy import regex
from podfit.rules._flags import is_changed
from podfit.rules.engine import Engine
from podfit.vllm.release import is_official
from podfit.vllm.volumes import mount_of_path

CLOSED = "nothing but the manifest brings files: no webhook adds volumes or sidecars, and vLLM's image is not rebuilt"
"""The meaning of `closed: true` in a policy."""
BY_OTHERS = "a webhook may add a volume, and a mirror of vLLM's image may hold the files"
_PLAIN = frozenset({
    "", "apps", "batch", "extensions", "apps.openshift.io", "argoproj.io", "leaderworkerset.x-k8s.io", "ray.io",
    "jobset.x-k8s.io", "batch.volcano.sh", "apps.kruise.io",
})  # fmt: skip
"""API groups whose controllers add no volumes to the Pods that they make."""
_FETCHES = regex(
    r"\b(hf|huggingface-cli|snapshot_download|aws|s5cmd|gsutil|gcloud|azcopy|rclone|wget|curl|aria2c|git|modelscope|oras|"
    r"rsync|scp|unzip|tar|cp|mv|ln|mount|tee|python3?\s+-c|mc|download\w*)\b|>\s*/"
)
"""Commands of a script that bring files, or write them."""


def may_be_there(engine: Engine, path: str) -> bool:
    """True if a file or folder may be at the absolute `path`.

    A volume may be mounted at, above or below it, the script or a hook may make it, an operator may mount it, or the
    image is not vLLM's own."""
    image, group = engine.field("image"), str(engine.workload.object.get("apiVersion") or "").rpartition("/")[0]
    if not isinstance(image, str) or not is_official(image) or is_changed(engine) or group not in _PLAIN:
        return True
    if engine.workload.model_uri or engine.container.synthetic or engine.field("lifecycle", "postStart"):
        return True
    if engine.command.entry == "worker" or engine.command.changes or engine.command.unread:
        return True
    if engine.command.shell and _FETCHES.search(engine.raw_command):
        return True
    path = posixpath.normpath(path)
    return mount_of_path(engine.mounts, path) is not None or any(
        mount.path.startswith(f"{path}/") for mount in engine.mounts
    )
