"""Volumes that look like a model cache, but are mounted at a path without files of the model."""

from __future__ import annotations

import re

from podfit.rules.engine import Engine
from podfit.rules.storage._cache import PERSISTENT, Cache, Volume, volumes

_CACHE = re.compile(r"cache|hugging-?face|(^|[^a-z])hf([^a-z]|$)")
_OTHER = re.compile(r"compil|triton|torch|inductor|vllm|lmcache|kv|cuda|jit|tmp|shm|lora|adapter")
"""Caches of something else."""


def candidates(engine: Engine, cache: Cache) -> list[Volume]:
    """The volumes that were meant to be the cache; none if the directory is in a volume that lasts."""
    if not cache.downloads or (cache.volume is not None and cache.volume.kind in PERSISTENT):
        return []
    return [volume for volume in volumes(engine) if volume.kind in PERSISTENT and looks_like_a_cache(volume)]


def looks_like_a_cache(volume: Volume) -> bool:
    """The volume's name or path says that it is for the files of models."""
    words = f"{volume.mount.name} {volume.mount.path}".lower()
    return _CACHE.search(words) is not None and _OTHER.search(words) is None
