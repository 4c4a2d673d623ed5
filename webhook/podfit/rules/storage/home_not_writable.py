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
NEEDS_NAME_SINCE, NEEDS_NO_NAME_SINCE = Release(0, 20), Release(0, 27)
"""From the first of these releases until before the second, the wheel requires torch 2.11 or 2.12. It looks for the
user's name at import, in every process (torch _inductor/runtime/cache_dir_utils.py; vllm#44548, #46734)."""
HOME = "/home/vllm"
"""The home that the fix adds: a volume of its own."""
CACHES = (
    ("/.cache", ("XDG_CACHE_HOME",)),
    ("/.triton", ("TRITON_HOME", "TRITON_CACHE_DIR")),
)
"""(folder that vLLM makes in the home, variables that move it). The hub's files are below /.cache, as vLLM's
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
        """Likely: the image may be a mirror with another /etc/passwd. One finding on the home, one on the user's name.

        None for a user with a home in vLLM's image, and if `envFrom` or a script may set HOME and USER."""
        image, at = engine.field("image"), _user_at(engine)
        if at is None or not isinstance(image, str) or not is_official(image) or "rocm" in image:
            return
        if engine.field("envFrom") or engine.command.shell:
            return
        user = at.get(engine.workload.object)  # None: the policy says that the cluster chooses one
        who = f"user {user}" if user is not None else "a user id of the namespace"
        if denied := _denied_folders(engine):
            yield Finding(
                path=at,
                message=f"{who} has no home in vLLM's image: caches go to {' and '.join(denied)}, which it can't make",
                details=(f"PermissionError: [Errno 13] Permission denied: '{denied[0]}'",),
                certainty="likely",
                suggestions=("env HOME: a mounted folder that the user may write",),
                fix=_fix(engine, denied),
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
    return engine.release is not None and NEEDS_NAME_SINCE <= engine.release < NEEDS_NO_NAME_SINCE


def _has_any_of(engine: Engine, names: tuple[str, ...]) -> bool:
    """True if the container's env or the command's environment has one of these variables."""
    return not engine.declared.isdisjoint(names) or not engine.command.env.keys().isdisjoint(names)


def _denied_folders(engine: Engine) -> list[str]:
    """The folders of `CACHES` below `/` that vLLM would make there, and may not. None if HOME is set, or a volume is
    mounted at `/`."""
    if _has_any_of(engine, ("HOME",)) or any(mount.path == "/" for mount in engine.mounts):
        return []
    paths = {mount.path for mount in engine.mounts}
    folders = [folder for folder, names in CACHES if folder not in paths and not _has_any_of(engine, names)]
    moves_hub = _has_any_of(engine, ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"))
    has_hub = moves_hub or "/.cache/huggingface" in paths
    has_vllm = _has_any_of(engine, ("VLLM_CACHE_ROOT",)) or "/.cache/vllm" in paths
    if has_hub and has_vllm:
        folders = [folder for folder in folders if folder != "/.cache"]  # nothing is left to put there
    return folders


def _fix(engine: Engine, denied: list[str]) -> tuple[Edit, ...]:
    """Edits that add volumes at the folders of `denied` if the author mounts a cache below `/`; else a home on a
    volume. None for a container that an operator makes, and as for `_home`."""
    if engine.container.synthetic:
        return ()
    if any(mount.path.startswith("/.") for mount in engine.mounts):
        below = any(mount.path.startswith("/.cache/") for mount in engine.mounts)
        folders = ["/.cache/vllm" if folder == "/.cache" and below else folder for folder in denied]
        return tuple(edit for folder in folders for edit in _add_volume(engine, folder))
    return _home(engine)


def _home(engine: Engine) -> tuple[Edit, ...]:
    """Edits that mount a volume at `HOME` and set the variable. If the author mounts a volume for the model, HF_HOME
    keeps the model there. None for a volume below /root, where the user can read nothing, and for several volumes."""
    caches = [
        volume for volume in _cache.volumes(engine) if volume.kind in _cache.PERSISTENT and looks_like_a_cache(volume)
    ]
    if any(volume.mount.path.startswith("/root") for volume in caches) or len(caches) > 1:
        return ()
    edits = [*_add_volume(engine, HOME), *_add_variable(engine, "HOME", HOME)]
    if caches and not caches[0].read_only and not _has_any_of(engine, ("HF_HOME", "HF_HUB_CACHE")):
        edits += _add_variable(engine, "HF_HOME", caches[0].mount.path)
    return tuple(edits)


MAX_NAME_CHARACTERS = 63
"""The longest name of a volume: a DNS label."""
NAMES = {HOME: "home", "/.cache": "cache", "/.cache/vllm": "cache", "/.triton": "triton"}
"""Folder → how the name of its volume begins."""


def _add_volume(engine: Engine, folder: str) -> list[Edit]:
    """Edits that mount a new emptyDir at the folder, a key of `NAMES`."""
    name = f"{NAMES[folder]}-{engine.container.name}"[:MAX_NAME_CHARACTERS].strip("-")
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
