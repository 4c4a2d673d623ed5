"""A container → the argv that vLLM will get, and the field each word came from. None: it does not run vLLM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from webhook.path import FieldPath
from webhook.workload import JSON, Container, Workload


@dataclass(frozen=True)
class Word:
    """One argument, as vLLM's process receives it."""

    text: str
    path: FieldPath
    """The field it came from (`…containers[0].args[3]`; the whole script's field for a word of a script)."""
    unknown: str | None = None
    """Why the text can't be known ("command substitution $(cat /model)"), else None. `text` is then as written."""


@dataclass(frozen=True)
class Command:
    """How a container starts vLLM."""

    entry: str
    """"serve" (`vllm serve …`, also the image's own entrypoint), "module" (`python -m vllm.entrypoints…`, whose model
    is `--model`), or "worker" (a Ray or LWS worker that joins a leader, whose argv is empty)."""
    words: tuple[Word, ...]
    """The arguments after `vllm serve` or after the module's name."""
    path: FieldPath
    """The field that holds the command: where a finding about the whole command points."""
    env: Mapping[str, str] = field(default_factory=dict)
    """The process's environment as far as it is known."""
    shell: bool = False
    """Started by a shell script."""
    exec: bool = True
    """vLLM replaces the shell (PID 1 gets SIGTERM)."""
    lost: tuple[Word, ...] = ()
    """Words of the manifest that never reach vLLM (`sh -c 'vllm serve' --flag`)."""


def resolve(workload: Workload, container: Container, config_maps: Mapping[str, JSON] | None = None) -> Command | None:
    """How `container` starts vLLM, or None where it does not run vLLM.

    `config_maps`: name → ConfigMap of the same file or namespace, for `envFrom`, `configMapKeyRef` and `--config`.
    """
    raise NotImplementedError
