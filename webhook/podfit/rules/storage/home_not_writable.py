from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from podfit.kube.patch import Edit
from podfit.kube.path import FieldPath
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule
from podfit.rules.storage import _cache
from podfit.rules.storage._cache import looks_like_a_cache
from podfit.vllm.release import Release, is_official

UIDS_WITH_HOME = frozenset({0, 2000})
"""Users that have a home in vLLM's image: root and, in newer ones, vllm (docker/Dockerfile)."""
USER_NAMES = ("LOGNAME", "USER", "LNAME", "USERNAME")
"""Variables that Python's getpass.getuser reads before it looks for the user id in /etc/passwd."""
NEEDS_USER_NAME = Release(0, 20), Release(0, 27)
"""From the first of these releases until before the second, the wheel requires torch 2.11 or 2.12. It looks for the
user's name at import, in every process (torch _inductor/runtime/cache_dir_utils.py; vllm#44548, #46734)."""
HOME = "/home/vllm"
"""The home that the fix adds: a volume of its own."""
CACHES = (
    ("/.cache", ("XDG_CACHE_HOME",)),
    ("/.triton", ("TRITON_HOME", "TRITON_CACHE_DIR")),
)
"""Folders that vLLM makes in the home, and the variables that move them. The hub's files are below /.cache, as vLLM's
own cache is; HF_HOME and VLLM_CACHE_ROOT together move both. vLLM goes on without /.config."""


class HomeNotWritable(Rule):
    """The container runs as a user without a home, and the caches go to `/`.

    With a user id that is not in the image's /etc/passwd, HOME is `/`. The caches of the hub and of vLLM
    (`~/.cache/huggingface`, `~/.cache/vllm`) and Triton's (`~/.triton`) are then in folders that only root may make:

        PermissionError: [Errno 13] Permission denied: '/.cache'

    Set HOME to a folder that the user may write, such as a mounted volume. With torch 2.11 and 2.12 (vLLM 0.20 to 0.26)
    that is not enough. torch looks for the user's name while it is imported, and only USER in the environment helps:

        KeyError: 'getpwuid(): uid not found: 1000770000'

    OpenShift's restricted-v2 gives each namespace its own user ids; `assume.randomUser: true` in a policy says so.
    """

    plane = "storage"
    event = "vLLM exits: permission denied below /, or no entry for the user"
    never_denies = "a mirror of vLLM's image may have the user"
    mute_for = ("home",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Likely: the image may be a mirror with another /etc/passwd."""
        image, at = engine.field("image"), _user_at(engine)
        if at is None or not isinstance(image, str) or not is_official(image) or "rocm" in image:
            return
        if engine.field("envFrom") or engine.command.shell:
            return
        user = at.get(engine.workload.object)
        who = f"user {user}" if user is not None else "a user id of the namespace"
        if missing := _missing(engine):
            folders = " and ".join(missing)
            yield Finding(
                path=at,
                message=f"{who} has no home in vLLM's image: caches go to {folders}, which it can't make",
                details=(f"PermissionError: [Errno 13] Permission denied: '{missing[0]}'",),
                certainty="likely",
                suggestions=("env HOME: a mounted folder that the user may write",),
                fix=_fix(engine, missing),
            )
        if _needs_user_name(engine) and not _has_any_of(engine, USER_NAMES):
            yield Finding(
                path=at,
                message=f"{who} has no entry in the image's /etc/passwd, and vLLM {engine.release} needs its name",
                details=("torch ends at its import: KeyError: 'getpwuid(): uid not found: …'",),
                certainty="likely",
                suggestions=("env USER: vllm",),
                fix=_add_variable(engine, "USER", "vllm"),
            )


def _user_at(engine: Engine) -> FieldPath | None:
    """The field that gives the container a user id without a home; where it would be, if the policy says that the
    cluster gives one. None if the user has a home, or is unknown."""
    place = ("securityContext", "runAsUser")
    own, of_pod = engine.field(*place), engine.pod(*place)
    user = of_pod if own is None else own
    if user is None and engine.facts.assume.random_user:
        return engine.at(*place)
    if not isinstance(user, int) or isinstance(user, bool) or user in UIDS_WITH_HOME:
        return None
    return (engine.at() if own is not None else engine.workload.path).join(*place)


def _needs_user_name(engine: Engine) -> bool:
    """True if the release's torch looks for the user's name while it is imported; False if the release is unknown."""
    return engine.release is not None and NEEDS_USER_NAME[0] <= engine.release < NEEDS_USER_NAME[1]


def _has_any_of(engine: Engine, names: tuple[str, ...]) -> bool:
    """True if the container's env or the command's environment has one of these variables."""
    return not engine.declared.isdisjoint(names) or not engine.command.env.keys().isdisjoint(names)


def _missing(engine: Engine) -> list[str]:
    """The folders below `/` that vLLM makes and can't."""
    if _has_any_of(engine, ("HOME",)) or any(mount.path == "/" for mount in engine.mounts):
        return []
    paths = {mount.path for mount in engine.mounts}
    folders = [folder for folder, names in CACHES if folder not in paths and not _has_any_of(engine, names)]
    hub = _has_any_of(engine, ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE")) or "/.cache/huggingface" in paths
    if hub and (_has_any_of(engine, ("VLLM_CACHE_ROOT",)) or "/.cache/vllm" in paths):
        folders = [folder for folder in folders if folder != "/.cache"]
    return folders


def _fix(engine: Engine, missing: list[str]) -> tuple[Edit, ...]:
    """Volumes at the missing folders if the author mounts a cache below `/`, else a home on a volume.

    With a home of its own, HF_HOME stays where the volume for the model is. Below /root the user can read nothing."""
    if engine.container.synthetic:
        return ()
    if any(mount.path.startswith("/.") for mount in engine.mounts):
        below = any(mount.path.startswith("/.cache/") for mount in engine.mounts)
        folders = ["/.cache/vllm" if folder == "/.cache" and below else folder for folder in missing]
        return tuple(edit for folder in folders for edit in _add_volume(engine, folder))
    edits = [*_add_volume(engine, HOME), *_add_variable(engine, "HOME", HOME)]
    caches = [
        volume for volume in _cache.volumes(engine) if volume.kind in _cache.PERSISTENT and looks_like_a_cache(volume)
    ]
    if any(volume.mount.path.startswith("/root") for volume in caches) or len(caches) > 1:
        return ()
    if caches and not caches[0].read_only and not _has_any_of(engine, ("HF_HOME", "HF_HUB_CACHE")):
        edits += _add_variable(engine, "HF_HOME", caches[0].mount.path)
    return tuple(edits)


NAMES = {HOME: "home", "/.cache": "cache", "/.cache/vllm": "cache", "/.triton": "triton"}
"""Folder → how the name of its volume begins."""


def _add_volume(engine: Engine, folder: str) -> list[Edit]:
    """An emptyDir at the folder."""
    name = f"{NAMES[folder]}-{engine.container.name}"[:63].strip("-")
    volume: dict[str, Any] = {"name": name, "emptyDir": {}}
    mount = {"name": name, "mountPath": folder}
    return [
        Edit(engine.workload.path / "volumes", volume, "append"),
        Edit(engine.at("volumeMounts"), mount, "append"),
    ]


def _add_variable(engine: Engine, name: str, value: str) -> tuple[Edit, ...]:
    """The edit that adds a variable to the container's env; none for a container that the operator makes."""
    if engine.container.synthetic:
        return ()
    return (Edit(engine.at("env"), {"name": name, "value": value}, "append"),)
