"""Containers for the tests of this folder, from as little YAML as they need."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from podfit.kube import workload
from podfit.vllm.command import Command, resolve


def found(text: str, config_maps: Mapping[str, Any] | None = None, name: str | None = None) -> Command | None:
    """How the container `name` (the first one) of an object starts vLLM."""
    (first, *_) = workload.find(yaml.safe_load(text))
    container = next(c for c in first.containers if name in (None, c.name))
    return resolve(first, container, config_maps)


def container(spec: Mapping[str, Any], kind: str = "Pod", init: bool = False, **pod: Any) -> Command | None:
    """How one container of a Pod starts vLLM."""
    key = "initContainers" if init else "containers"
    obj = {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": "p", "namespace": "prod", "labels": {"app": "llm"}},
        "spec": {key: [{"name": "vllm", **spec}], **pod},
    }
    (only,) = workload.find(obj)
    return resolve(only, only.containers[0], pod.get("config_maps"))


def argv(command: Command | None) -> list[str] | None:
    """The words' texts."""
    return None if command is None else [word.text for word in command.words]


def script(text: str, *rest: str, program: str = "sh", **env: str) -> Command | None:
    """How a container with `sh -c TEXT REST…` starts vLLM."""
    variables = [{"name": name, "value": value} for name, value in env.items()]
    return container(
        {"image": "registry.example/team/base:1", "command": [program, "-c", text, *rest], "env": variables}
    )


def agrees(command: Command, received: Sequence[str]) -> bool:
    """Whether vLLM may have received these words: each known word, in order; an unknown one is any number of words."""
    parts = [re.escape(word.text) + "\0" if word.unknown is None else "(?:[^\0]*\0)*" for word in command.words]
    return re.fullmatch("".join(parts), "".join(f"{word}\0" for word in received), re.DOTALL) is not None
