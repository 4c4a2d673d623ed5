"""The Python environment of a command: the image's own, or another one that it names or that comes first in PATH."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from podfit.base.lazy import regex
from podfit.vllm import release
from podfit.vllm.command.word import Change, Value, text_of

_ITS_OWN = regex(r"(/usr(/local)?|/opt/venv)?/bin/+")
"""The folders of `vllm` and `python3` in vLLM's images (vllm-project/vllm docker/Dockerfile: /usr/local/bin and
/usr/bin; Dockerfile.cpu and Dockerfile.xpu: /opt/venv)."""
_PROGRAM = regex(
    r"((?:.*/)?)(vllm|vllm-omni|lmcache_vllm|python[\d.]*|pypy[\d.]*|torchrun|accelerate|ddtrace-run|"
    r"opentelemetry-instrument|newrelic-admin|coverage|memray|scalene|viztracer)"
)
"""Programs in a Python environment's `bin` that run the environment's code."""
_NO_PYTHON = regex(
    r"/(usr/(local/)?)?s?bin/*|/usr/local/(cuda|nvidia|mpi|ucx|gib|tensorrt|Ascend)[^/]*(/.*)?|"
    r"/opt/(rocm|nvidia|amazon|hpcx|mellanox|intel|aws|habanalabs|maca|dtk)[^/]*(/.*)?"
)
"""Folders of PATH that contain the image's own programs, or a vendor's tools."""
_INHERITED = frozenset({"", "$PATH", "${PATH}"})
_HOLDS = regex(
    r"/*|/root(/\.local(/.*)?)?|/home(/[^/]+(/\.local(/.*)?)?)?|/usr(/local)?(/(bin|lib|lib64))?|/opt(/venv(/.*)?)?"
)
"""Folders with Python code or programs in them or below: `/root/.local` is where `pip install --user` installs."""
_VARIABLES = frozenset({"PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE"})
READ_VARIABLES = frozenset({"PATH", *_VARIABLES})
"""Variables that decide which Python code runs."""
_WORK = frozenset({"/", "/vllm-workspace", "/workspace"})
"""The working directory of vLLM's images, or an empty folder."""


def holds_code(folder: str) -> bool:
    """True if files that are written or mounted there may hide or add Python code."""
    return _HOLDS.fullmatch(folder.rstrip("/") or "/") is not None


def is_another(argv: Sequence[Value], image: str, mounted: Sequence[str]) -> bool:
    """True if the words before vLLM's arguments name a program by a path that is not one of the image's. Such a path is
    on a volume (`mounted`: their paths), or not in vLLM's own image. Other images may have their Python anywhere."""
    for word in argv:
        text = text_of(word)
        match = _PROGRAM.fullmatch(text) if "/" in text else None
        if match is None or _ITS_OWN.fullmatch(match[1]):
            continue
        if release.is_official(image) or any(text.startswith(f"{folder.rstrip('/')}/") for folder in mounted):
            return True
    return False


def by_variables(env: Mapping[str, Value]) -> Change | None:
    """The change by variables that put other folders before the image's programs and packages; None without them."""
    if not _VARIABLES.isdisjoint(env) and any(text_of(env[name]) for name in _VARIABLES if name in env):
        return "code"
    for folder in text_of(env["PATH"]).split(":") if "PATH" in env else ():
        if folder in _INHERITED:
            return None
        if not _NO_PYTHON.fullmatch(folder):
            return "code"
    return None


def by_folder(folder: str, mounted: Sequence[str]) -> Change | None:
    """`python -m` first looks for modules in the working directory: the change if that is not one of the image's."""
    inside = any(f"{folder.rstrip('/')}/".startswith(f"{text.rstrip('/')}/") for text in mounted)
    return "code" if inside else None


def went_elsewhere(folder: str | None) -> bool:
    """True if a script's `cd` leaves the folder in which the image starts; None: the new folder is unknown."""
    return folder is None or (folder.rstrip("/") or "/") not in _WORK
