"""Changes that a script makes to vLLM's Python code before it starts vLLM."""

from __future__ import annotations

from collections.abc import Sequence

from podfit.base.lazy import regex
from podfit.vllm.command import entry, python
from podfit.vllm.command.word import Change, Value, reason_of, text_of

CODE = regex(r"packages(/|\b)|(^|/)(vllm|transformers)/\S{0,300}\.py\b|(^|/)vllm/?$")
"""A word or a path that names a folder with installed Python code."""
_PLAIN = frozenset({
    "[", "[[", "apk", "apt", "apt-get", "awk", "aws", "az", "azcopy", "basename", "cat", "chmod", "chown", "curl",
    "cut", "date", "df", "dig", "dirname", "dnf", "du", "echo", "egrep", "env", "export", "find", "free", "gcloud",
    "getent", "git", "grep", "gsutil", "head", "hf", "hostname", "huggingface-cli", "ibstat", "ibv_devinfo", "id",
    "ifconfig", "ip", "jq", "kill", "ldconfig", "ls", "lscpu", "lspci", "mkdir", "mktemp", "modelscope", "mount", "nc",
    "nproc", "nslookup", "numactl", "nvidia-smi", "ping", "printenv", "printf", "ps", "ray", "rclone", "readlink",
    "realpath", "rm", "rmdir", "rocm-smi", "s5cmd", "seq", "sleep", "sort", "stat", "sync", "sysctl", "tail", "test",
    "timeout", "touch", "tr", "ulimit", "uname", "uniq", "wait", "wc", "wget", "which", "whoami", "xargs",
})  # fmt: skip
"""Programs that install no Python package, unless their words name a folder of such packages."""
_WRITERS = frozenset({"cp", "install", "ln", "mv", "perl", "rsync", "sed", "tar", "tee", "unzip"})
"""Programs that write to files which their words name."""
_UNPACKERS = {"tar": regex(r"-C|--directory"), "unzip": regex(r"-d")}
"""Programs that write many files, and the option for the folder; without it, they write to the working directory."""
_EXTRACTS = regex(r"-[a-zA-Z]*x|--(extract|get)$")
"""`-xzf`, `--extract`; tar's first word may be such letters without the dash."""
_SYSTEM = frozenset({"apk", "apt", "apt-get", "dnf", "dpkg", "microdnf", "rpm", "yum", "zypper"})
"""Package managers of a distribution."""
_FROM_A_FILE = regex(r".*\.(deb|rpm|apk)|\.{0,2}/.*")
_GIT_WRITES = frozenset({"am", "apply", "checkout", "pull", "reset", "switch"})
_EDITS = regex(r"\bwrite|shutil")
"""Signs that a Python program inside the script writes files."""


def change_made_by(argv: Sequence[Value], stdin: str | None = None) -> Change | None:
    """The change that one command of a script may make to the Python code; None if it makes none. An unknown command
    may install packages. `stdin`: the text of the command's input; None or empty: it is unknown."""
    if entry.installs_vllm(argv):
        return "vllm"
    name, texts = text_of(argv[0]).rpartition("/")[2], [text_of(word) for word in argv[1:]]
    if name.startswith("python") and any(_EDITS.search(text) for text in (*texts, stdin or "")):
        return "code"
    names_code = any(CODE.search(text) for text in texts if "://" not in text)
    if name in _SYSTEM and any(_FROM_A_FILE.fullmatch(text) for text in texts):
        return "code"  # such a package may bring any file; a distribution's own packages do not change vLLM
    if name in ("apt", "apt-get", "dnf", "yum") and any("python" in text or "vllm" in text for text in texts):
        return "packages"
    if name in _WRITERS and _over_code(name, texts):
        return "code"
    if name in _WRITERS:
        return "code" if names_code or any(reason_of(word) is not None for word in argv[1:]) else None
    if name in ("cat", "echo", "find", "grep", "ls"):
        return None  # whatever they name, they only read it
    if names_code or name == "patch" or (name == "git" and not _GIT_WRITES.isdisjoint(texts)):
        return "code"
    return None if name in _PLAIN else "packages"


def _over_code(name: str, texts: Sequence[str]) -> bool:
    """True if one of the `_WRITERS` writes into a folder above Python code, or into the working directory, which may be
    one. `texts`: its arguments."""
    if name == "tar" and not any(map(_EXTRACTS.match, [f"-{text}" for text in texts[:1]] + list(texts))):
        return False
    folder_option = _UNPACKERS.get(name)
    if folder_option is not None and not any(map(folder_option.match, texts)):
        return True
    for text in texts:
        target = text.partition("=")[2] if text.startswith("--") and "=" in text else text  # `--target=/usr`
        if target.startswith("/") and python.holds_code(target.removesuffix("/.")):
            return True
    return False


def sourced(path: str | None) -> Change:
    """The change that a file outside of the manifest may make, if the shell sources it; `path`: None if unknown."""
    return "code" if path is not None and path.endswith("bin/activate") else "packages"
