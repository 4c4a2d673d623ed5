"""Anything may come; nothing may raise, and quoting survives."""

from __future__ import annotations

import re
import shlex
from typing import Any
from unittest.mock import patch

from hypothesis import example, given
from hypothesis import strategies as st

from podfit.kube import workload
from podfit.kube.path import FieldPath
from podfit.vllm.command import entry
from podfit.vllm.command.expand import environment
from podfit.vllm.command.word import all_known, literal
from tests.vllm.command.pods import argv, container, script

API = "vllm.entrypoints.openai.api_server"

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
TOKENS = """
vllm serve if then fi do done for x in while case esac ${A:- $(( )) <<EOF EOF A= $A "$@" set -- eval exec f() [[ ]] 1
{{ .X }} <M> sh -c 'a b' && || ;; >> 2>&1 ${A#*/} ${A:1} $(a `b` \\\\ "$A" (( )) export local
"""
SHELL = st.lists(
    st.sampled_from([*TOKENS.split(), *"(){}[]$`'\"\\;&|<>#!*?~=", " ", " ", "\n", "\t", "\0", "é", "\ud800"]),
    max_size=30,
).map("".join)
SPEC = st.fixed_dictionaries(
    {},
    optional={
        "image": JSON | st.sampled_from(["vllm/vllm-openai", "rocm/vllm", "kserve/huggingfaceserver"]),
        "command": JSON
        | st.lists(st.sampled_from(["sh", "-c", "vllm", "serve", "python", "-m", "env", "ray", "start"])),
        "args": JSON | st.lists(JSON, max_size=4),
        "env": JSON | st.lists(st.fixed_dictionaries({"name": JSON, "value": JSON, "valueFrom": JSON}), max_size=2),
        "envFrom": JSON | st.lists(st.fixed_dictionaries({"configMapRef": JSON, "secretRef": JSON}), max_size=2),
        "volumeMounts": JSON | st.lists(st.fixed_dictionaries({"name": JSON, "mountPath": JSON}), max_size=2),
    },
)


@given(SPEC, st.booleans(), JSON)
def test_no_container_raises(spec: dict[str, Any], init: bool, volumes: Any) -> None:
    """Wrong types anywhere raise no error."""
    container(spec, init=init, volumes=volumes)


@given(SHELL, st.lists(st.text(max_size=5), max_size=3))
def test_no_script_raises(text: str, rest: list[str]) -> None:
    """Nor does text that is not a shell script."""
    script(text, *rest)
    script(text + "\nvllm serve m", *rest)


WORDS = st.lists(
    st.text(st.characters(exclude_characters="$\0{", exclude_categories=["Cs"]), max_size=12)
    | st.text("ab \n\t'\"\\\\`!*?[]()<>|&;#~=%éß漢🙂", max_size=8),
    max_size=6,
)
SHELLS = st.sampled_from([["sh", "-c"], ["bash", "-lc"], ["/bin/bash", "-euo", "pipefail", "-c"], ["dash", "-ec"]])


@given(WORDS)
def test_quoted_words_come_back(words: list[str]) -> None:
    """`shlex.join` of any words in a script gives vLLM these words."""
    assert argv(script("vllm serve " + shlex.join(words))) == words


@given(st.lists(st.text("a$X{}() '\"", max_size=8), max_size=5))
def test_quoted_words_with_dollars_come_back(words: list[str]) -> None:
    """`$$` is Kubernetes' word for `$`, in a script and in a list."""
    text = "vllm serve " + shlex.join(words)
    assert argv(script(text.replace("$", "$$"))) == words
    assert argv(container({"command": ["vllm", "serve", *(word.replace("$", "$$") for word in words)]})) == words


@given(WORDS, SHELLS, st.sampled_from(["", "exec ", "cd /tmp && exec ", "# start\nnohup ", "A=b tini -- "]))
def test_quoted_words_come_back_from_any_shell(words: list[str], shell: list[str], before: str) -> None:
    """Whatever starts the shell, and whatever comes before it."""
    assert argv(container({"command": [*shell, before + "vllm serve " + shlex.join(words) + "\n"]})) == words


@given(WORDS)
@example(["=="])
@example(["a", "=~"])
def test_words_quoted_twice_come_back(words: list[str]) -> None:
    """A shell in a shell."""
    inner = "exec vllm serve " + shlex.join(words)
    assert argv(script("exec bash -c " + shlex.quote(inner))) == words


@given(WORDS)
def test_words_behind_a_script_come_back_from_its_parameters(words: list[str]) -> None:
    """`"$@"`, an array, and a function's parameters."""
    assert argv(script('exec vllm serve "$@"', "--", *words)) == words
    assert argv(script('A=("$@"); vllm serve "${A[@]}"', "--", *words)) == words
    assert argv(script('run() { vllm serve "$@"; }; run "$@"', "--", *words)) == words


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20))
def test_a_variables_value_comes_back_between_quotes(value: str) -> None:
    """Of a container's env, whatever it contains; `$(` and `$$` are Kubernetes'."""
    kept = value.replace("$", "")
    assert argv(script('vllm serve "$V" "${V}" "${V:-d}" x"$V"', V=kept)) == [kept, kept, kept or "d", f"x{kept}"]


def test_of_a_long_line_the_first_words_are_read() -> None:
    """More than a command line is read of in any case."""
    for line in ("a " * 5_000, "a " * 5_000 + "'"):
        assert entry.split(line) == ["a"] * 1_000


VARIABLES = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["A", "B", "HOME", "LWS_GROUP_SIZE"])},
        optional={
            "value": st.sampled_from(["x", "", "$(A)", "$(B)-$(HOME)", "$$", 1, None]),
            "valueFrom": st.sampled_from([{}, {"secretKeyRef": {"name": "s"}}, {"fieldRef": {"fieldPath": "a"}}]),
        },
    )
    | JSON,
    max_size=6,
)


@given(VARIABLES)
def test_what_is_known_of_variables_is_what_their_values_say(variables: list[Any]) -> None:
    """However often one is set again."""
    (pod,) = workload.find({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"env": variables}]}})

    env = environment(pod, pod.containers[0], {})

    values = dict(env)
    assert env.known == all_known(values)


def test_a_variable_stands_where_its_entry_does() -> None:
    """Also the last of two."""
    variables = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}, {"name": "A", "value": "3"}]
    (pod,) = workload.find({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"env": variables}]}})

    env = environment(pod, pod.containers[0], {})

    assert env["A"] == literal("3", FieldPath(("spec", "containers", 0, "env", 2, "value")))
    assert env["B"] == literal("2", FieldPath(("spec", "containers", 0, "env", 1, "value")))


@given(
    st.lists(st.sampled_from([*TOKENS.split(), "--model", "--from", "-m", API, "vllm.entrypoints.x", "sh", "python3"]))
)
def test_a_flag_starts_nothing_but_what_stands_behind_it(words: list[str]) -> None:
    """Words that begin with one are not looked at twice; a look at them would find the same."""
    argv = [literal(word) for word in ["--max-model-len", *words]]

    with patch.object(entry, "_FLAG", re.compile("(?!)")):
        looked = entry.start(argv)

    assert entry.start(argv) == looked
