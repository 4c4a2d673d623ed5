from __future__ import annotations

from collections.abc import Iterator

from podfit.kube.patch import Edit
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule
from podfit.rules.storage import _cache
from podfit.vllm import change
from podfit.vllm.change import Suggestion


class ModelCacheWrongPath(Rule):
    """A model cache is mounted, but vLLM puts the files elsewhere.

    The files go to `--download-dir`, else to `$HF_HUB_CACHE`, `$HF_HOME/hub` or `~/.cache/huggingface/hub` (root's, in
    vLLM's image). `TRANSFORMERS_CACHE` moves configurations and tokenizers only. A volume mounted anywhere else stays
    empty, and each restart downloads the model again into the container's own file system. The fix sets HF_HOME to
    the place of the volume.
    """

    plane = "storage"
    event = "each restart downloads the model again"
    threatens = "practice"
    never_denies = "the volume may be for something else"

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Likely: the volume may be for something else. None for a follower, if the place of the model's files is
        unknown, and if no volume looks like their cache."""
        cache = engine.once(_cache.find)
        if cache is None or not engine.served:
            return
        meant = _cache.candidates(engine, cache)
        if not meant:
            return
        volume = meant[0]
        cause = "by default" if cache.said_by == _cache.DEFAULT else f"by {cache.said_by}"
        yield Finding(
            path=_cache.mounted_at(engine, volume),
            message=f"volume {volume.mount.name!r} is at {volume.mount.path}, "
            f"but the model goes to {cache.directory} {cause}",
            certainty="likely",
            suggestions=_suggestions(cache, volume),
            fix=_fix(engine, cache, volume) if len(meant) == 1 else (),
        )


def _suggestions(cache: _cache.Cache, volume: _cache.Volume) -> tuple[Suggestion, ...]:
    """Two alternatives: move the cache to the volume, or mount the volume at the cache."""
    if cache.said_by == "--download-dir":
        return (change.quoted_flag("--download-dir", volume.mount.path), f"mountPath: {cache.directory}")
    hf_home = cache.directory.removesuffix("/hub")  # the hub's files are in $HF_HOME/hub
    return (f"env HF_HOME: {volume.mount.path}", f"mountPath: {hf_home}")


def _fix(engine: Engine, cache: _cache.Cache, volume: _cache.Volume) -> tuple[Edit, ...]:
    """The edit that sets HF_HOME to the volume. None for a read-only volume, if another argument, variable or script
    sets the directory, and for a container that an operator makes."""
    if engine.container.synthetic or volume.read_only or cache.said_by not in (_cache.DEFAULT, "HF_HOME"):
        return ()
    env = engine.field("env")
    for index, item in enumerate(env if isinstance(env, list) else ()):
        if isinstance(item, dict) and item.get("name") == "HF_HOME":
            return (Edit(engine.at("env", index, "value"), volume.mount.path),) if "value" in item else ()
    if cache.said_by == "HF_HOME":
        return ()  # a script sets it
    return (Edit(engine.at("env"), {"name": "HF_HOME", "value": volume.mount.path}, "append"),)
