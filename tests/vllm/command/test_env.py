"""`env -S`: its string is not read."""

from __future__ import annotations

import pytest

from tests.vllm.command.pods import argv, container, script


@pytest.mark.parametrize(
    "command",
    [
        ["env", "-S", "vllm serve m --port 1"],
        ["/usr/bin/env", "-S", "vllm serve $MODEL"],
        ["env", "--split-string=vllm serve m --port 1"],
        ["env", "-vS", "vllm serve m --port 1"],
        ["env", "-S", "nice vllm serve", "m", "--port", "1"],
        ["nice", "-n", "5", "env", "-S", "vllm serve m --port 1"],
        ["sh", "-c", "exec env -S 'vllm serve m --port 1'"],
        ["sh", "-c", 'M=1; env A=1 env -iS "vllm serve m" --port 1'],
    ],
)
def test_a_server_in_a_string_is_a_command_that_is_not_read(command: list[str]) -> None:
    found = container({"image": "i", "command": command})
    assert found is not None
    assert found.unread == "the string of env -S is not read"


@pytest.mark.parametrize("command", [["env", "-S", "./run --port 1"], ["env", "A=1", "-S", "vllm serve m"]])
def test_another_program_is_no_server(command: list[str]) -> None:
    assert container({"image": "i", "command": command}) is None


def test_the_words_behind_a_string_are_not_the_programs() -> None:
    found = script("env -S 'sleep 1; true' vllm serve m")
    assert found is not None
    assert found.unread


def test_env_of_busybox() -> None:
    assert argv(container({"image": "i", "command": ["busybox", "env", "vllm", "serve", "m"]})) == ["m"]
