"""What the kubelet does before the container starts."""

from __future__ import annotations

import shlex

import pytest

from tests.vllm.command.pods import argv, container

ENV = [
    {"name": "MODEL", "value": "org/m"},
    {"name": "REF", "value": "$(MODEL)-$(LATER)"},
    {"name": "LATER", "value": "x"},
    {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
    {"name": "APP", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
    {"name": "NS", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
    {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
    {"name": "CM", "valueFrom": {"configMapKeyRef": {"name": "cm", "key": "a"}}},
    {"name": "GONE", "valueFrom": {"configMapKeyRef": {"name": "cm", "key": "none", "optional": True}}},
]
CONFIG_MAPS = {"cm": {"data": {"a": "from-cm", "PORT": 8000, "run.sh": '#!/bin/bash\nexec vllm serve "$1" --s\n'}}}


@pytest.mark.parametrize(
    ("word", "text", "unknown"),
    [
        ("$(MODEL)", "org/m", None),
        ("--model=$(MODEL)", "--model=org/m", None),
        ("$$(MODEL)", "$(MODEL)", None),
        ("a$$b$", "a$b$", None),
        ("$(MODEL", "$(MODEL", None),
        (
            "$(REF)",
            "org/m-$(LATER)",
            "LATER is defined further down in env, and Kubernetes expands only variables defined above",
        ),
        ("$(NOPE)", "$(NOPE)", "$(NOPE) is not in this container's env"),
        ("--api-key=$(KEY)", "--api-key=$(KEY)", "KEY comes from Secret s"),
        ("$(APP)/$(NS)", "llm/prod", None),
        ("$(IP)", "$(IP)", "IP comes from the Pod's status.podIP"),
        ("$(CM)", "from-cm", None),
        ("$(GONE)", "$(GONE)", "$(GONE) is not in this container's env"),
        ("${MODEL}", "${MODEL}", "${MODEL} is not expanded outside of a shell"),
        ("{{.Name}}", "{{.Name}}", "{{.Name}} is filled in by a template"),
        ('{"a": "$"}', '{"a": "$"}', None),
    ],
)
def test_a_word_of_the_exec_form(word: str, text: str, unknown: str | None) -> None:
    """`$(VAR)` only; what stays unexpanded says why."""
    spec = {"command": ["vllm", "serve"], "args": [word], "env": ENV}
    command = container(spec, config_maps=CONFIG_MAPS)
    assert command is not None
    (only,) = command.words
    assert (only.text, only.unknown) == (text, unknown)
    assert str(only.path) == "spec.containers[0].args[0]"


def test_kubernetes_expands_before_the_shell_does() -> None:
    """Known variables are spliced into the script, unknown ones stay unknown."""
    spec = {"command": ["sh", "-c"], "args": ["vllm serve $(MODEL) --k $(KEY) --t $$TP"], "env": ENV}
    command = container({**spec, "env": [*ENV, {"name": "TP", "value": "2"}]})
    assert argv(command) == ["org/m", "--k", "$(KEY)", "--t", "2"]
    assert command is not None
    assert command.words[2].unknown == "KEY comes from Secret s"


def test_variables_of_a_config_map_that_is_given_are_known() -> None:
    """`envFrom`, with `env` on top; the command's env says so too."""
    spec = {
        "command": ["vllm", "serve", "$(a)", "--port=$(P_PORT)"],
        "envFrom": [{"configMapRef": {"name": "cm"}}, {"prefix": "P_", "configMapRef": {"name": "cm"}}],
        "env": [{"name": "a", "value": "own"}],
    }
    command = container(spec, config_maps=CONFIG_MAPS)
    assert argv(command) == ["own", "--port=8000"]
    assert command is not None
    assert command.env["P_PORT"] == "8000"


def test_a_default_is_no_answer_where_a_hidden_config_map_may_set_the_variable() -> None:
    """`${X:-d}` with an `envFrom` that we can't see."""
    spec = {
        "command": ["sh", "-c", "vllm serve ${X:-d}"],
        "envFrom": [{"configMapRef": {"name": "elsewhere"}}],
    }
    command = container(spec)
    assert command is not None
    assert command.words[0].unknown == "envFrom ConfigMap elsewhere"


MOUNTED = {
    "volumeMounts": [
        {"name": "scripts", "mountPath": "/scripts"},
        {"name": "one", "mountPath": "/c.yaml", "subPath": "c"},
    ],
}
VOLUMES = [
    {"name": "scripts", "configMap": {"name": "cm"}},
    {"name": "one", "configMap": {"name": "cm", "items": [{"key": "a", "path": "c"}]}},
]


@pytest.mark.parametrize("start", ["bash /scripts/run.sh m", "/scripts/run.sh m", "sh -c '/scripts/run.sh m'"])
def test_a_mounted_script_is_read(start: str) -> None:
    """A ConfigMap of the same file is the program."""
    command = container({"command": shlex.split(start), **MOUNTED}, volumes=VOLUMES, config_maps=CONFIG_MAPS)
    assert argv(command) == ["m", "--s"]


def test_the_file_that_config_names_comes_along() -> None:
    """For `--config`, with `=` or without, also by `subPath` and `items`."""
    spec = {"command": ["vllm", "serve", "m", "--config", "/c.yaml"], **MOUNTED}
    command = container(spec, volumes=VOLUMES, config_maps=CONFIG_MAPS)
    assert command is not None
    assert command.config == {"/c.yaml": "from-cm"}
