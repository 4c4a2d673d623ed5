from __future__ import annotations

from collections.abc import Iterator

from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule
from podfit.rules.storage import _cache


class CacheReadOnly(Rule):
    """vLLM must download the model to a directory that it can't write to.

    From a read-only mount vLLM can serve a model that is there already, but a download into it fails at once. The same
    applies to a container's own file system with `readOnlyRootFilesystem: true`:

        OSError: [Errno 30] Read-only file system: '/root/.cache/huggingface/hub'

    With HF_HUB_OFFLINE=1, or with the path of the files as the model, vLLM does not try to write there, and this rule
    reports nothing. Nor does it for an LLMInferenceService or an InferenceService whose cache and volumes come from
    KServe's presets or a runtime.
    """

    plane = "storage"
    event = "vLLM exits: the download can't be written"
    of_vllm = False
    mode = "deny"
    mute_for = ("volumes",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain if no volume is mounted at the default directory in vLLM's own image; likely at another directory.

        Possible for a read-only volume, which may hold the files already. None for a model that is not downloaded."""
        cache = engine.once(_cache.find)
        if cache is None or not cache.downloads or engine.container.init:
            return
        by_path = "the path of the files as the model"
        if cache.volume is not None and cache.volume.read_only:
            yield Finding(
                path=_cache.mounted_at(engine, cache.volume),
                message=f"the model goes to {cache.directory}, where volume {cache.volume.mount.name!r} is read-only",
                certainty="possible",
                suggestions=("a mount without readOnly", "HF_HUB_OFFLINE=1 where the files are there already", by_path),
            )
        elif cache.volume is None and engine.field("securityContext", "readOnlyRootFilesystem") is True:
            yield Finding(
                path=engine.at("securityContext", "readOnlyRootFilesystem"),
                message=f"the model goes to {cache.directory} on a read-only root file system",
                certainty="certain" if cache.said_by == _cache.DEFAULT and _cache.is_sure(engine) else "likely",
                suggestions=(f"a volume mounted at {cache.directory.removesuffix('/hub')}", by_path),
            )
