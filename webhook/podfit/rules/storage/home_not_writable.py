"""Rule home-not-writable."""

from __future__ import annotations

from collections.abc import Iterator

from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule
from podfit.vllm.release import is_official

HOMES = ("HOME", "HF_HOME", "XDG_CACHE_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE")
"""Variables that move the caches."""
UIDS_WITH_HOME = frozenset({0, 2000})
"""Users that have a home in vLLM's image: root and, in newer ones, vllm (docker/Dockerfile)."""


class HomeNotWritable(Rule):
    """The container runs as a user without a home, and the caches go to `/`.

    With `runAsUser` and no entry for that user in the image's /etc/passwd, HOME is `/`. The hub's cache and vLLM's own
    (`~/.cache/huggingface`, `~/.cache/vllm`) are then in a folder that only root may make:

        PermissionError: [Errno 13] Permission denied: '/.cache'

    Set HOME or HF_HOME to a folder that the user may write, such as a mounted volume.
    """

    plane = "storage"
    event = "vLLM exits: permission denied below /"
    mode = "warn"
    never_denies = "a mirror of vLLM's image may have the user"
    about = ("securityContext",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Likely: the image may be a mirror with another /etc/passwd."""
        place = ("securityContext", "runAsUser")
        own, pods = engine.field(*place), engine.pod(*place)
        user = pods if own is None else own
        image = engine.field("image")
        if not isinstance(user, int) or isinstance(user, bool) or user in UIDS_WITH_HOME:
            return
        if not isinstance(image, str) or not is_official(image) or engine.field("envFrom") or engine.command.shell:
            return
        if not engine.declared.isdisjoint(HOMES) or not engine.command.env.keys().isdisjoint(HOMES):
            return
        if any(mount.path in ("/", "/.cache") for mount in engine.mounts):
            return
        yield Finding(
            path=(engine.at() if own is not None else engine.workload.path).join(*place),
            message=f"user {user} has no home in vLLM's image: caches go to /.cache, which it can't make",
            details=("PermissionError: [Errno 13] Permission denied: '/.cache'",),
            certainty="likely",
            suggestions=("env HOME: /tmp", "env HF_HOME with a mounted folder that the user may write"),
        )
