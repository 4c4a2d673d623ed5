from __future__ import annotations

from collections.abc import Iterator

from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule
from podfit.rules.storage import _cache
from podfit.vllm.release import is_official
from podfit.vllm.volumes import mount_of_path

_VARIABLES = ("TMPDIR", "TEMP", "TMP")
"""Variables that name a temporary directory to Python (tempfile `_candidate_tempdir_list`)."""
_ALWAYS = ("/tmp", "/var/tmp", "/usr/tmp")
"""Directories that Python tries after those of the variables."""
_IMAGE_DIRECTORIES = ("/vllm-workspace", "/workspace", "/app")
"""Working directories of vLLM's images, release by release."""


class TemporaryDirectoryMissing(Rule):
    """Python can't write to any of its temporary directories.

    vLLM requests one while it is imported (vLLM 0.33 envs.py, and every release before): $TMPDIR, $TEMP, $TMP, /tmp,
    /var/tmp, /usr/tmp or the working directory. With `readOnlyRootFilesystem: true` and no volume at any of them it
    does not start:

        FileNotFoundError: [Errno 2] No usable temporary directory found in ['/tmp', '/var/tmp', '/usr/tmp', …]

    It is a warning, since a container runtime may mount its own tmpfs under a read-only root, and no manifest shows
    that. KServe's presets and runtimes bring volumes of their own, so it reports nothing for the objects that they
    complete.
    """

    plane = "storage"
    event = "vLLM exits: no usable temporary directory"
    mute_for = ("volumes",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain in vLLM's own image without a script; likely if a script, or a variable whose value is not in the
        manifest, may name another directory. None if one of the directories is writable."""
        if engine.field("securityContext", "readOnlyRootFilesystem") is not True or engine.container.init:
            return
        if _has_writable_directory(engine):
            return
        image = engine.field("image")
        ours = isinstance(image, str) and is_official(image)
        unseen = engine.command.shell or engine.field("envFrom") or not engine.declared.isdisjoint(_VARIABLES)
        yield Finding(
            path=engine.at("securityContext", "readOnlyRootFilesystem"),
            message="the root file system is read-only, and no volume is at /tmp: Python finds no temporary directory",
            certainty="certain" if ours and not unseen else "likely",
            suggestions=("an emptyDir mounted at /tmp",),
        )


def _has_writable_directory(engine: Engine) -> bool:
    """True if a volume that can be written to is mounted at one of Python's temporary directories, or above it."""
    env, working = engine.command.env, engine.field("workingDir")
    of_variables = [env[name] for name in _VARIABLES if env.get(name)]
    working_directories = (str(working),) if working else _IMAGE_DIRECTORIES
    writable = [volume.mount for volume in _cache.volumes(engine) if not volume.read_only]
    return any(
        directory.startswith("/") and mount_of_path(writable, directory) is not None
        for directory in (*of_variables, *_ALWAYS, *working_directories)
    )
