"""What may replace a variable before vLLM starts: files that are sourced, loops, functions, pipes, environments.

Each script sets M first. "first": vLLM certainly gets this value. "second": vLLM certainly gets the value of the second
assignment. None: the value is unknown, so nothing is denied for it.
"""

from __future__ import annotations

import pytest

from podfit.vllm.command import Command
from tests.vllm.command.pods import container


def known(command: Command | None) -> str | None:
    """vLLM's one argument; None if it is not known."""
    if command is None or [word.unknown for word in command.words] != [None]:
        return None
    return command.words[0].text


SERVE = '; vllm serve "$M"'


@pytest.mark.parametrize(
    ("script", "model"),
    [
        # files that are not seen
        ("source /config/env.sh", None),
        ("set -a; . /config/env; set +a", None),
        ("[ -f /config/env ] && . /config/env", None),
        ("source /vault/secrets/config", None),
        ("for f in /config/*.env; do . $f; done", None),
        ("export $(cat /config/env | xargs)", None),
        ("declare $(cat /config/env)", None),
        ('eval "$(cat /config/env)"', None),
        ("mapfile -t M < /config/model", None),
        ('while IFS== read -r key value; do export "$key=$value"; done < /config/env', None),
        ("while IFS== read -r key value; do printf -v $key %s $value; done < /config/env", None),
        ("source /opt/venv/bin/activate", "first"),
        ("printf 'M=second' > /tmp/env; . /tmp/env", None),
        ("eval M=second", None),
        # functions
        ("f() { local M=second; }; f", None),
        ("f() { declare M=second; }; f", None),
        ("f() { local M; M=second; }; f", None),
        ("f() { local N=1; M=second; }; f", None),
        ("f() { declare -g M=second; }; f", None),
        ("f() { g; }; g() { M=second; }; f", None),
        ("f() { local M=third; g; }; g() { M=second; }; f", None),
        ("f() { test -f /x && return; M=second; }; f", None),
        ("f() { return; M=second; }; f", None),
        ("f() { local -n to=$1; to=second; }; f M", None),
        # loops
        ("set -- --port 80 --model second; while (( $# )); do case $1 in --model) shift; M=$1;; esac; shift; done",
         None),
        ("n=0; while [ $n -lt 3 ]; do n=$((n+1)); done; [ $n -eq 3 ] && M=second", None),
        ("n=0; until [ $n -ge 3 ]; do n=$((n+1)); done; [ $n -ne 3 ] && M=second", None),
        ("for n in 1 2; do continue; M=second; done", None),
        ("for n in 1 2; do for m in 1; do break 2; done; M=second; done", None),
        ("for m in second third; do M=$m; break; done", None),
        ("for m in second third; do curl -sf $m && M=$m && break; done", None),
        ("while ! curl -s http://hub; do M=second; sleep 1; done", None),
        ("while read -r line; do M=$line; done < /config/models", None),
        ("n=0; while ! curl -s http://hub; do n=$((n+1)); done; [ $n -gt 2 ] && M=second", None),
        ("while ! curl -s http://hub; do sleep 1; done", "first"),
        # processes
        ("echo second | read M", "first"),
        ("{ M=second; echo; } | tee /log", "first"),
        ("f() { M=second; }; f 2>&1 | tee /log", "first"),
        ("(M=second)", "first"),
        ("x=$(echo ${M:=second})", "first"),
        ("unset M; x=$(echo ${M:=third}); M=${M:-second}", "second"),
        ("cat /config/model && M=second", None),
        ("./check.sh && M=second; true", None),
        ("(exit 1) && M=second", None),
        ("x=$(cat /config/model) && M=second", None),
        ("if x=$(cat /config/model); then M=second; fi", None),
        ("x=$(false) || M=second", None),
        ("mkdir -p /cache && M=second", None),
        ("echo starting && M=second", None),
        ("declare -p N 2> /dev/null && M=second", None),
        # how functions end
        ("no() { return 1; }; no && M=second", None),
        ("no() { return 1; }; no || M=second", None),
        ("yes() { return 0; }; yes && M=second", None),
        ("no() { if [ 1 -gt 2 ]; then return 0; fi; return 1; }; no && M=second", None),
        ("asks() { [ -f /x ] && return 0; return 1; }; asks && M=second", None),
        ("asks() { false; return $?; }; asks && M=second", None),
        # what is exported, and to whom
        ("set -a; M=second; set +a; M=$(sh -c 'echo $M')", None),
        ("f() { M=$N; }; N=second f", None),
        ("f() { N=third; }; N=second; N=4 f; M=$N", None),
        ("declare -i N; N=1+1; M=$N", None),
        # options that change the rest
        ("shopt -s lastpipe; echo second | read M", None),
        ("trap 'M=second' DEBUG", None),
    ],
)  # fmt: skip
def test_a_variable_that_may_have_been_replaced_is_not_known(script: str, model: str | None) -> None:
    assert known(container({"command": ["bash", "-c", f"M=first; {script}{SERVE}"]})) == model


@pytest.mark.parametrize(
    ("start", "model"),
    [
        ("env -i", "second"),
        ("env -u M", "second"),
        ("env M=third", "third"),
        ("env", "first"),
        ("export -n M;", "second"),
        ("set -a; M=third; set +a;", "third"),
        ("set -o allexport; M=third; set +o allexport; M=third;", "third"),
        ("set -a; set +a; export -n M; M=third;", "second"),
        ("f() { $1 sh -c 'vllm serve ${M:-second}'; }; M=third f env; true", None),
        ("sudo", None),
        ("sudo -E", "first"),
        ("su - -c", None),
    ],
)
def test_a_shell_gets_the_variables_that_its_starter_leaves(start: str, model: str | None) -> None:
    inner = "'vllm serve ${M:-second}'"
    script = f"export M=first; {start} {inner if start.startswith('su ') else f'sh -c {inner}'}"

    assert known(container({"command": ["bash", "-c", script]})) == model
