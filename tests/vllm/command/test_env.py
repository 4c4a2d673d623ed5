"""`env -S`: as GNU coreutils' own splits its string."""

from __future__ import annotations

import os
import subprocess
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podfit.vllm.command import env
from podfit.vllm.command.word import literal, text_of
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
        ["env", "-u", "A", "-C", "/srv", "-S", "vllm serve m --port 1"],
        ["env", "-S", "-i A=b vllm serve m --port 1"],
        ["env", "-S", "-S 'vllm serve m --port 1'"],
        ["env", "-S", "sh -c 'vllm serve m --port 1'"],
        ["env", "-S", "vllm\tserve \"m\" '--port' 1 # and no more"],
        ["env", "-S", "vllm serve ${MODEL} --port 1"],
        ["nice", "-n", "5", "env", "-S", "vllm serve m --port 1"],
        ["sh", "-c", "exec env -S 'vllm serve m --port 1'"],
        ["sh", "-c", 'env A=1 env -S "vllm serve m" --port 1'],
        ["busybox", "env", "vllm", "serve", "m", "--port", "1"],
    ],
)
def test_a_command_in_a_string_is_found(command: list[str]) -> None:
    spec = {"image": "i", "command": command, "env": [{"name": "MODEL", "value": "m"}]}
    assert argv(container(spec)) == SPLIT[2:]


@pytest.mark.parametrize(
    "command",
    [
        ["env", "-S", "vllm serve 'm"],  # env: no terminating quote in -S string
        ["env", "-S", "vllm serve $MODEL"],  # env: only ${VARNAME} expansion is supported
        ["env", "-S", "vllm serve \\q"],
        ["env", "A=1", "-S", "vllm serve m"],  # a program called -S
        ["env", "-S"],
    ],
)
def test_what_env_does_not_start_is_no_server(command: list[str]) -> None:
    assert container({"image": "i", "command": command}) is None


def test_what_is_not_known_stays_one_word() -> None:
    """A variable of the image, and one that a shell has put into the string."""
    found = container({"image": "i", "command": ["env", "-S", "vllm serve ${MODEL}"]})
    assert found is not None
    assert found.words[0].unknown == "MODEL is not set in the manifest"
    found = script('env -S "vllm serve $MODEL --port 1"')
    assert argv(found) == ["$MODEL", "--port", "1"]
    assert found is not None
    assert found.words[0].unknown is not None


def test_variables_of_the_string_are_the_processs() -> None:
    found = container({"image": "i", "command": ["env", "-S", "-u B A=1 vllm serve m"]})
    assert found is not None
    assert (found.env["A"], found.decided) == ("1", frozenset({"A", "B"}))


def _gnu() -> bool:
    said = subprocess.run(["env", "--version"], capture_output=True, text=True, check=False).stdout
    return "GNU coreutils" in said


VARIABLES = {"V": "a b", "W": "", "X": "'q"}
PARTS = [
    "a",
    " ",
    "\t",
    "\n",
    "'",
    '"',
    "\\",
    "\\_",
    "\\n",
    "\\c",
    "#",
    "\\#",
    "$",
    "${V}",
    "${W}",
    "${X}",
    "\\$",
    "-",
    "é",
]


@pytest.mark.skipif(not _gnu(), reason="the env of this machine is not coreutils'")
@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(PARTS), max_size=9).map("".join))
def test_strings_are_split_as_coreutils_splits_them(text: str) -> None:
    text = "printf [%s]\\\\0 x " + text
    given_: dict[str, Any] = {**VARIABLES, "PATH": os.environ["PATH"]}
    done = subprocess.run(["env", "-S", text], env=given_, capture_output=True, text=True, check=False)
    wanted = None if done.returncode == 125 else [one[1:-1] for one in done.stdout.split("\0")[:-1]]

    variables = {name: literal(value) for name, value in VARIABLES.items()}
    words = env.split([literal("env"), literal("-S"), literal(text)], variables, lambda work: None)

    assert wanted == (None if text_of(words[1]) == "-S" else [text_of(word) for word in words[3:]])
