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
UNCERTAIN = "a webhook may add a volume, and a mirror of vLLM's image may hold the files"
"""Why a finding on an absent file is not certain, unless the policy says `closed: true`."""
_PLAIN = frozenset({
    "", "apps", "batch", "extensions", "apps.openshift.io", "argoproj.io", "leaderworkerset.x-k8s.io", "ray.io",
    "jobset.x-k8s.io", "batch.volcano.sh", "apps.kruise.io",
})  # fmt: skip
"""API groups whose controllers add no volumes to the Pods that they make."""
_FETCHES = regex(
    r"\b(hf|huggingface-cli|snapshot_download|aws|s5cmd|gsutil|gcloud|azcopy|rclone|wget|curl|aria2c|git|modelscope|oras|"
    r"rsync|scp|unzip|tar|cp|mv|ln|mount|tee|python3?\s+-c|mc|download\w*)\b|>\s*/"
)
"""Commands of a script that bring files, and redirections that write to an absolute path."""


def may_be_there(engine: Engine, path: str) -> bool:
    """True if a file or folder may be at the absolute `path`.

    An image that is not vLLM's own may have it. An operator, the script or a hook may bring it. Or a volume is mounted
    at, above or below the path."""
    image = engine.field("image")
    if not isinstance(image, str) or not is_official(image) or is_changed(engine):
        return True
    if _may_be_brought_by_operator(engine):
        return True
    if engine.field("lifecycle", "postStart") or engine.command.changes or engine.command.unread:
        return True
    if engine.command.shell and _FETCHES.search(engine.raw_command):
        return True
    path = posixpath.normpath(path)
    is_below = any(mount.path.startswith(f"{path}/") for mount in engine.mounts)
    return is_below or mount_of_path(engine.mounts, path) is not None


def _may_be_brought_by_operator(engine: Engine) -> bool:
    """True if a controller may add volumes or the model to the Pod.

    It is of a group that is not in `_PLAIN`, it makes the container, or it starts a worker for a leader."""
    group = str(engine.workload.object.get("apiVersion") or "").rpartition("/")[0]
    if group not in _PLAIN or engine.workload.model_uri:
        return True
    return engine.container.synthetic or engine.command.entry == "worker"
