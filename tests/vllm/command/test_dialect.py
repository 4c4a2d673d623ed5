"""A script for bash in a shell that may be another one: its end is read, and denies nothing."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from podfit.vllm.command.dialect import bash_only, doubt
from tests.vllm.command.pods import script

BASH = [
    '[[ "$A" == b ]] && X=1',
    "if ((A > 1)); then X=1; fi", "X=$'a'", "read X <<< a", "cat <(echo a)", "X+=a", "X=(a b)",
    "a &> b", "echo {a,b}", "set -o pipefail", '[ "$A" == b ]', "source /x", "declare X=1", "let X=1", "X=$((A++))",
    "echo ${X^^}", "echo ${X/a/b}", "echo ${X:0:1}", "echo ${!X}", "echo ${X[1]}", "function f { :; }", "X=$[1+2]",
]  # fmt: skip
POSIX = [
    '[ "$A" = b ] && X=1', "X=$((A + 1))", "X=${A:-b}", "X=${A%b}", "echo '[[ a' \"((\"", "X=a; export X", ". /x",
    "vllm serve m --x='{\"a\": [[1, 2]], \"b\": 2}'", "f() { :; }", "for a in b; do :; done", "X=$(echo a)",
]  # fmt: skip


@pytest.mark.parametrize("text", BASH)
def test_what_only_bash_reads_is_found(text: str) -> None:
    assert bash_only(text) is not None


@pytest.mark.parametrize("text", POSIX)
def test_what_every_shell_reads_is_not(text: str) -> None:
    assert bash_only(text) is None


@pytest.mark.skipif(shutil.which("dash") is None, reason="needs dash")
@pytest.mark.parametrize("text", POSIX)
def test_dash_reads_it(text: str) -> None:
    done = subprocess.run(["dash", "-n", "-c", text], capture_output=True, check=False)
    assert done.returncode == 0


def test_only_another_shell_than_bash_is_in_doubt() -> None:
    assert doubt("[[ a ]]", "bash") is None
    assert doubt("[[ a ]]", "sh") == "[[ is read by bash, and sh may be another shell"


def test_such_a_script_may_serve_all_the_same() -> None:
    """dash has no `[[`, and takes the other branch."""
    text = 'if [[ -n "$BIG" ]]; then M=big; else M=small; fi; exec vllm serve $M --no-such-flag'
    in_sh, in_bash = script(text, program="sh", BIG="1"), script(text, program="bash", BIG="1")
    assert in_sh is not None
    assert in_bash is not None
    assert in_sh.survived == "[[ is read by bash, and sh may be another shell"
    assert in_bash.survived is None
