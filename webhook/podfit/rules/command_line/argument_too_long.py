from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from podfit.kube.path import FieldPath, mapping
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule
from podfit.vllm.command.expand import MAX_EXPANDED_LENGTH

ANYWHERE = 1 << 21
"""32 pages of 64 KiB, the largest that Linux has (arm64, ppc64le)."""
ARM = ("GH200", "GB200", "GB300", "GB10")
"""GPUs that are only sold with Arm processors, whose kernels may have pages of 64 KiB."""


class ArgumentTooLong(Rule):
    """An argument or a variable is longer than Linux hands to a process.

    One item of `command` or `args`, and one variable with its name, may have 128 KiB at most, with the NUL at the end
    (MAX_ARG_STRLEN, 32 pages of memory). With a longer one the container does not start:

        exec /usr/local/bin/vllm: argument list too long

    Put a long value, such as a chat template or a JSON config, into a file of a ConfigMap, and pass the file's path.
    Since podfit does not read such a long value, it treats the argument as unknown.
    """

    plane = "config"
    event = "the container does not start: argument list too long"
    of_vllm = False
    mode = "deny"

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain, except on nodes with Arm processors, whose kernels may have larger pages."""
        arguments = (LongWord(path, size, "an argument") for path, size in engine.command.long)
        for path, size, what in (*arguments, *_variables(engine)):
            certain = size >= ANYWHERE or not _may_be_arm(engine)
            yield Finding(
                path=path,
                message=f"{what} of {size:,} bytes{' or more' if size == MAX_EXPANDED_LENGTH else ''}: Linux passes "
                f"at most {MAX_EXPANDED_LENGTH - 1:,} to a process",
                details=("exec fails with: argument list too long",),
                certainty="certain" if certain else "likely",
                uncertain=None if certain else "a kernel with pages of 64 KiB takes 2 MiB",
                suggestions=("put the value into a mounted file",),
            )


class LongWord(NamedTuple):
    """An argument or a variable that is too long for execve(2)."""

    path: FieldPath
    size: int
    """Bytes in UTF-8, without the NUL."""
    what: str
    """Its name for people."""


def _variables(engine: Engine) -> Iterator[LongWord]:
    """The variables of `env` that are too long; one without a value of its own (`valueFrom`) is left out."""
    for index, name, value in engine.variables:
        most = 4 * (len(name) + len(value)) if isinstance(value, str) else 0  # a character has up to 4 bytes in UTF-8
        if most >= MAX_EXPANDED_LENGTH:
            size = len(f"{name}={value}".encode(errors="replace"))
            if size >= MAX_EXPANDED_LENGTH:
                yield LongWord(engine.at("env", index, "value"), size, f"the variable {name[:80]}")


def _may_be_arm(engine: Engine) -> bool:
    """True if the Pod may get an arm64 node, by its nodeSelector or its GPU."""
    gpus = engine.gpu.value.gpus if engine.gpu else ()
    arch = mapping(engine.pod("nodeSelector")).get("kubernetes.io/arch")
    return arch == "arm64" or (arch is None and any(word in gpu.name for gpu in gpus for word in ARM))
