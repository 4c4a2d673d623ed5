"""`env -S`: as GNU coreutils' own splits its string."""

from __future__ import annotations

import pytest

from tests.vllm.command.pods import argv, container, script

SPLIT = ["vllm", "serve", "m", "--port", "1"]


@pytest.mark.parametrize(
    "command",
    [
        ["env", "-S", "vllm serve m --port 1"],
        ["/usr/bin/env", "-S", "vllm serve m --port 1"],
        ["env", "-Svllm serve m --port 1"],
        ["env", "--split-string=vllm serve m --port 1"],
        ["env", "--split-string", "vllm serve m --port 1"],
        ["env", "-vS", "vllm serve m --port 1"],
        ["env", "-iS", "vllm serve m --port 1"],
        ["env", "-S", "vllm serve", "m", "--port", "1"],
        ["env", "-S", "-i A=b vllm serve m --port 1"],
        ["env", "-S", "sh -c 'vllm serve m --port 1'"],
        ["env", "-S", "vllm\tserve \"m\" '--port' 1"],
        ["nice", "-n", "5", "env", "-S", "vllm serve m --port 1"],
        ["sh", "-c", "exec env -S 'vllm serve m --port 1'"],
        ["sh", "-c", 'env A=1 env -S "vllm serve m" --port 1'],
        ["busybox", "env", "vllm", "serve", "m", "--port", "1"],
    ],
)
def test_a_command_in_a_string_is_found(command: list[str]) -> None:
    spec = {"image": "i", "command": command, "env": [{"name": "MODEL", "value": "m"}]}
    assert argv(container(spec)) == SPLIT[2:]


@pytest.mark.parametrize("command", [["env", "A=1", "-S", "vllm serve m"], ["env", "-S"]])
def test_what_env_does_not_start_is_no_server(command: list[str]) -> None:
    assert container({"image": "i", "command": command}) is None


@pytest.mark.parametrize("text", ["vllm serve $MODEL", "vllm serve ${MODEL}", "vllm serve a\\_b", "-S 'vllm serve m'"])
def test_a_string_with_variables_or_escapes_is_not_read(text: str) -> None:
    command = container({"image": "i", "command": ["env", "-S", text]})
    assert command is not None
    assert command.unread
    assert script(f'M=1; env -S "{text}"') is not None


def test_variables_of_the_string_are_the_processs() -> None:
    found = container({"image": "i", "command": ["env", "-S", "-u B A=1 vllm serve m"]})
    assert found is not None
    assert (found.env["A"], found.decided) == ("1", frozenset({"A", "B"}))
