"""The cache of torch.compile's results: what a volume for it would save at each start."""

from __future__ import annotations

from podfit.rules.engine import Engine
from podfit.vllm.volumes import compile_directory, mount_of_path

WORTH_SAVING = 5
"""Seconds of compilation from which on a volume for its results is suggested (podfit's choice)."""


def compilation_saved(engine: Engine) -> float | None:
    """Seconds of each start that a volume at VLLM_CACHE_ROOT would save. None if it has one, if the seconds are
    unknown, and if they are fewer than `WORTH_SAVING`."""
    startup = engine.plan.startup
    seconds = dict(startup.parts).get("compile", 0) if startup is not None else 0
    has_volume = mount_of_path(engine.mounts, compile_directory(engine.command.env)) is not None
    return None if has_volume or seconds < WORTH_SAVING else seconds
