from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass

from podfit.kube.path import mappings
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule, parameter
from podfit.rules.storage import _cache, brought_files
from podfit.vllm.volumes import OFFLINE, Mount, download_directory, is_hub_id, is_offline, modelscope, mount_of_path


@dataclass(frozen=True)
class OfflineWithoutCache(Rule):
    """vLLM is offline, and no volume could hold the model.

    With `HF_HUB_OFFLINE=1` (or `TRANSFORMERS_OFFLINE=1`) the model must be in the hub's cache already. Nothing is
    mounted there, or an emptyDir that no init container fills:

        huggingface_hub.errors.LocalEntryNotFoundError: Cannot find an appropriate cached snapshot folder for the
        specified revision on the local disk and outgoing traffic has been disabled.

    It is a warning, since a webhook may add the volume. A policy can exclude that with `closed: true`.
    """

    plane = "storage"
    event = "vLLM exits: the model is not in the cache"
    mode = "deny"
    mute_for = ("model",)

    closed: bool = parameter(False, brought_files.CLOSED)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Likely; certain if the policy says that nothing else brings files (`closed`). None with a volume that may
        hold the model: any but an emptyDir, or an emptyDir that an init container, a script, a hook or a sidecar may
        fill."""
        env, model = engine.command.env, engine.args.model
        if not is_offline(env) or modelscope(env) or not is_hub_id(model) or not engine.args.is_sure("model"):
            return
        if not _cache.is_sure(engine) or "download_dir" in engine.args.unresolved:
            return
        directory = posixpath.normpath(download_directory(engine.args, env))
        if not directory.startswith("/"):
            return
        mount = mount_of_path(engine.mounts, directory)
        starts_empty = mount is not None and mount.empty_dir is not None and not engine.workload.init
        if starts_empty and _may_be_filled(engine, mount):
            return
        if not starts_empty and brought_files.may_be_there(engine, directory):
            return
        variable = next(name for name in OFFLINE if env.get(name))
        yield Finding(
            path=engine.argument("model"),
            message=f"{variable}={env[variable]}, and "
            + (
                f"the emptyDir at {directory} is empty"
                if starts_empty
                else f"no volume at {directory} could hold {model}"
            ),
            details=("LocalEntryNotFoundError: outgoing traffic has been disabled",),
            certainty="certain" if self.closed else "likely",
            uncertain=brought_files.UNCERTAIN,
            suggestions=(f"no {variable}", f"a volume with the model, mounted at {directory}"),
        )


def _may_be_filled(engine: Engine, mount: Mount | None) -> bool:
    """True if the container's script or hook, or another container of the Pod, may write to the volume before vLLM
    reads it. False without a volume."""
    if mount is None:
        return False
    if engine.command.shell or engine.field("lifecycle", "postStart"):
        return True
    others = [other for other in engine.workload.containers if other.path != engine.container.path]
    return any(item.get("name") == mount.name for other in others for item in mappings(other.spec.get("volumeMounts")))
