"""How deep constructs may be within each other: up to a limit they are read, beyond it the script is a finding.

Nothing depends on how deep Python, or a thread's stack, would let them be.
"""

from __future__ import annotations

import contextlib
import gc
import shlex
import sys
import threading
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podfit.evaluation.lint import lint
from podfit.evaluation.policy import builtin
from podfit.kube import workload
from podfit.server.memory import STACK
from podfit.vllm.command import ALL_WORK, Command, WorkLimit, resolve
from podfit.vllm.command.tree import MAX_SCRIPT_LENGTH, NESTING, NUL, TOO_DEEP, TOO_LONG, TOO_MUCH, WORD_NESTING
from podfit.vllm.facts import Facts
from tests.vllm.command.pods import argv, container, script

SERVE = "\nvllm serve m"

STATEMENTS = {
    "subshells": (lambda n: "( " * n + "x" + " )" * n, 1),
    "groups": (lambda n: "{ " * n + "x" + "; }" * n, 1),
    "if": (lambda n: "if a; then " * n + "x" + "; fi" * n, 1),
    "conditions of if": (lambda n: "if " * n + "x" + "; then y; fi" * n, 1),
    "else": (lambda n: "if a; then b; else " * n + "x" + "; fi" * n, 1),
    "while": (lambda n: "while a; do " * n + "x" + "; done" * n, 2),
    "until": (lambda n: "until a; do " * n + "x" + "; done" * n, 2),
    "for": (lambda n: "for i in 1; do " * n + "x" + "; done" * n, 2),
    "for ((": (lambda n: "for ((;;)); do " * n + "x" + "; done" * n, 2),
    "case": (lambda n: "case $A in a) " * n + "x" + ";; esac" * n, 1),
    "functions that call each other": (
        lambda n: "".join(f"f{i}() {{ f{i + 1}; }}\n" for i in range(n)) + f"f{n}() {{ :; }}\nf0", 2
    ),
    "redirections": (lambda n: "{ " * n + "x" + "; } > f" * n, 2),
}  # fmt: skip
"""Construct → so many of it in each other, and how many levels each takes."""


def unread(command: Command | None) -> str | None:
    """Why the script is not read; None where it is."""
    assert command is not None
    return command.unread


@pytest.mark.parametrize(("nest", "each"), STATEMENTS.values(), ids=STATEMENTS.keys())
def test_statements_are_followed_down_to_a_depth(nest: Callable[[int], str], each: int) -> None:
    """The innermost command is the last level."""
    most = next(n for n in range(NESTING) if unread(script(nest(n + 1) + SERVE)))
    assert NESTING // each - 2 <= most <= NESTING
    for more in (-1, 0):
        assert argv(script(nest(most + more) + SERVE)) == ["m"]
        assert unread(script(nest(most + more) + SERVE)) is None
    for more in (1, 2, 200):
        assert unread(script(nest(most + more) + SERVE)) == TOO_DEEP


@pytest.mark.parametrize("operator", ["&&", "||", "|", ";", "\n"])
def test_a_chain_is_no_nesting(operator: str) -> None:
    """Though the grammar has the left side of each `&&` within it."""
    chain = f" {operator} ".join(["echo a"] * 200)
    assert argv(script(chain + SERVE)) == ["m"]
    assert unread(script(chain + SERVE)) is None


TEXTS = {
    "sh -c": lambda inner: f"sh -c {shlex.quote(inner)}",
    "eval": lambda inner: f"eval {shlex.quote(inner)}",
    "sh of a here-document": lambda inner: f"sh <<'E{len(inner)}'\n{inner}\nE{len(inner)}",
    "a file": lambda inner: f"cat > f{len(inner)} <<'E{len(inner)}'\n{inner}\nE{len(inner)}\nsh f{len(inner)}",
    "a sourced file": lambda inner: f"cat > f{len(inner)} <<'E{len(inner)}'\n{inner}\nE{len(inner)}\n. f{len(inner)}",
}


@pytest.mark.parametrize("wrap", TEXTS.values(), ids=TEXTS.keys())
def test_a_text_within_a_text_is_a_level(wrap: Callable[[str], str]) -> None:
    """Each is parsed by itself, and followed within the others."""
    text, deep = "vllm serve m", "( " * (NESTING - 2) + "vllm serve m" + " )" * (NESTING - 2)
    for _ in range(4):
        text, deep = wrap(text), wrap(deep)
    assert argv(script(text)) == ["m"]
    assert unread(script(deep)) == TOO_DEEP


@pytest.mark.parametrize(
    "text",
    [
        "f() { f; }; f",
        "f() { f; f; }; f",
        "f() { g; }; g() { f; }; f",
        'f() { f "$@" "$@"; }; f a b',
        'A=\'eval "$A"\'; eval "$A"',
        "cat > a.sh <<'E'\nsh a.sh\nE\nsh a.sh",
        "cat > a.sh <<'E'\n. a.sh\nE\n. a.sh",
    ],
)
def test_what_runs_itself_is_given_up(text: str) -> None:
    assert unread(script(text + SERVE)) in (TOO_DEEP, TOO_MUCH)


WORDS = {
    "defaults": (lambda n: '"${A:-' * n + "x" + '}"' * n, "x"),
}
"""Construct → so many of it in each other, and what they come to; None: it depends on how many."""


@pytest.mark.parametrize(("nest", "value"), WORDS.values(), ids=WORDS.keys())
def test_words_are_read_down_to_a_depth(nest: Callable[[int], str], value: str | None) -> None:
    """A word that is deeper is not known, and all others are."""
    known = []
    for depth in (*range(1, WORD_NESTING + 3), 300):
        command = script(f"vllm serve m --port {nest(depth)} --seed 1")
        assert command is not None
        assert command.unread is None
        assert argv(command)[:2] == ["m", "--port"] and argv(command)[-2:] == ["--seed", "1"]  # type: ignore[index]  # noqa: PT018
        known.append(command.words[2].unknown is None)
        if known[-1] and value is not None:
            assert command.words[2].text == value
    assert known[3]
    assert not known[-1]
    assert known == sorted(known, reverse=True)


@pytest.mark.parametrize(
    "nest", [lambda n: "( " * n + "-n $A" + " )" * n, lambda n: "! " * n + "-n $A", lambda n: "-n $A && " * n + "-n $A"]
)
@pytest.mark.parametrize("depth", [WORD_NESTING - 2, WORD_NESTING - 1, WORD_NESTING, WORD_NESTING + 1, 300])
def test_a_condition_that_is_too_deep_is_not_known(nest: Callable[[int], str], depth: int) -> None:
    """Both ways are followed then."""
    command = script(f"if [[ {nest(depth)} ]]; then vllm serve m; fi", A="1")
    assert argv(command) == ["m"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("#" * (MAX_SCRIPT_LENGTH - len(SERVE)) + SERVE, None),
        ("#" * (MAX_SCRIPT_LENGTH - len(SERVE) + 1) + SERVE, TOO_LONG),
        ("#" * 60_000 + SERVE, TOO_LONG),
        ("#" * 100_000 + SERVE, TOO_LONG),
        ("\0" + SERVE, NUL),
        ("".join(f"f{n}() {{ f{n + 1}; f{n + 1}; f{n + 1}; }}; " for n in range(12)) + "f0" + SERVE, TOO_MUCH),
        ("$[" * 4_000 + SERVE, TOO_MUCH),
    ],
)
def test_why_a_script_is_not_read(text: str, why: str | None) -> None:
    assert unread(script(text)) == why


DEEP = "( " * 99 + "vllm serve m" + " )" * 99


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({"image": "vllm/vllm-openai:v0.27.1", "command": ["sh", "-c", "( " * 99 + "$RUN" + " )" * 99]}, True),
        ({"image": "registry.example/team/base:1", "command": ["sh", "-c", DEEP]}, True),
        ({"image": "registry.example/team/base:1", "command": ["sh", "-c", DEEP.replace("vllm", "v''l\"l\"m")]}, True),
        ({"image": "registry.example/team/base:1", "command": ["sh", "-c", "sh -c " + shlex.quote(DEEP)]}, True),
        ({"image": "registry.example/team/base:1", "command": ["env", "-S", f"sh -c {shlex.quote(DEEP)}"]}, True),
        ({"image": "registry.example/team/base:1", "command": ["sh", "-c", DEEP.replace("vllm", "nginx")]}, False),
        ({"image": "busybox:1", "args": ["a"] * 2_000}, False),
    ],
)
def test_a_script_that_is_not_read_is_a_finding_where_it_may_start_vllm(spec: dict[str, Any], found: bool) -> None:
    """A warning and never a denial, with nothing said of arguments that were not read."""
    command = container(spec)
    assert (command is not None) == found
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "v", **spec}]},
    }
    report = lint(pod, builtin(), Facts())
    assert not report.errors
    assert not report.denied
    assert ("script-too-complex" in {judged.rule for judged in report.findings}) == found
    assert not {judged.rule for judged in report.findings} & {"unknown-model", "max-model-len-unset"}


def test_an_init_container_may_be_as_complex_as_it_likes() -> None:
    assert container({"image": "vllm/vllm-openai:v0.27.1", "command": ["sh", "-c", DEEP]}, init=True) is None


def test_all_scripts_of_an_object_share_a_limit() -> None:
    """Also where the last one is simple; then that one is not read."""
    spec = {"containers": [{"name": "v", "image": "i", "command": ["sh", "-c", "vllm serve m"]}]}
    (pod,) = workload.find({"apiVersion": "v1", "kind": "Pod", "spec": spec})
    limit = WorkLimit(ALL_WORK)
    limit.spent = ALL_WORK
    assert unread(resolve(pod, pod.containers[0], {}, limit)) == TOO_MUCH


# ── programs that hand on ──

HANDED_ON = {
    "xargs": ["xargs"] * 60,
    "xargs and env": ["xargs", "env"] * 30,
    "su": ["su", "--"] * 400,
    "busybox": ["busybox"] * 900,
    "sh -c": ["sh", "-c"] * 450,
    "env -S": ["env", "-S"] * 400,
    "env": ["env"] * 900,
    "python -m": ["python", "-m"] * 400,
}


@pytest.mark.parametrize("words", HANDED_ON.values(), ids=HANDED_ON.keys())
def test_programs_that_hand_on_to_each_other_come_to_an_end(words: list[str]) -> None:
    """Each looks at the words behind it: at those of the others only once."""
    container({"image": "i", "command": [*words, "vllm", "serve", "m"]})


@pytest.mark.parametrize(
    ("before", "found"),
    [(["sh", "-c"], True), (["sh", "-c"] * 2, True), (["busybox", "env"], True), (["xargs"] * 3, True)],
)
def test_a_few_that_hand_on_are_followed(before: list[str], found: bool) -> None:
    command = container({"image": "i", "command": [*before, "vllm", "serve", "m"]})
    assert (command is not None) == found


# ── in a thread of the server's ──


def in_a_thread(call: Callable[[], object]) -> None:
    """Runs it with the stack of the server's threads."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            raised.append(error)

    before = threading.stack_size(STACK)
    try:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    if raised:
        raise raised[0]


BRACKETS = st.sampled_from([
    ("( ", " )"), ("{ ", "; }"), ("$(", ")"), ('"$(echo ', ')"'), ("${A:-", "}"), ("$((", "))"), ("`", "`"),
    ("if a; then ", "; fi"), ("if a; then b; elif ", "; then c; fi"), ("while a; do ", "; done"), ("! ", ""),
    ("for i in a; do ", "; done"), ("case a in a) ", ";; esac"), ("f() { ", "; }; f"), ("[[ ( ", " ) ]]"),
    ("a && ", ""), ("a || ", ""), ("a | ", ""), ("eval ", ""), ("sh -c ", ""), ("A=(", ")"), ("cat <<E\n", "\nE\n"),
    ("((", "))"),
])  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(BRACKETS, min_size=1, max_size=5), st.integers(1, 400), st.integers(0, 2))
def test_nothing_nested_ends_the_process(brackets: list[tuple[str, str]], times: int, open_: int) -> None:
    """However it is nested, closed or not: it is read, or a finding."""
    before, behind = "".join(one for one, _ in brackets), "".join(one for _, one in reversed(brackets))
    text = (before * times + "x" + behind * max(times - open_, 0))[:MAX_SCRIPT_LENGTH] + SERVE
    in_a_thread(lambda: script(text))


@pytest.mark.parametrize("head", ["( $((", "$((", "(( ( ", "[[ $(("])
@pytest.mark.parametrize("sign", ["!", "! ", "(", "-", "{ "])
def test_the_parser_does_not_end_the_process(head: str, sign: str) -> None:
    """It merges two readings of the same signs by a function that calls itself for each of them."""
    text = f"{head}{sign * 2000} >{sign * MAX_SCRIPT_LENGTH}"[:MAX_SCRIPT_LENGTH]
    in_a_thread(lambda: script(text))


def test_a_row_of_signs_is_not_read() -> None:
    assert unread(script("# " + "-" * 1000 + SERVE)) is None
    assert unread(script("# " + "-" * 1001 + SERVE)) == TOO_DEEP


def test_few_frames_are_an_error_and_no_crash() -> None:
    """A caller close to Python's recursion limit gets Python's exception."""
    text = "if a; then " * 20 + "x" + "; fi" * 20 + "\n# " + "x" * 600 + SERVE

    def deep(frames: int) -> Command | None:
        return deep(frames - 1) if frames else script(text)

    def read(left: int) -> None:
        in_a_thread(lambda: deep(sys.getrecursionlimit() - left))

    for left in range(40, 240, 10):
        with contextlib.suppress(RecursionError):
            read(left)
    with pytest.raises(RecursionError):
        read(40)


def test_scripts_leave_nothing_in_memory() -> None:
    """Neither their texts nor their trees: a parser that is stopped in time is handed its text by a function, and
    tree-sitter keeps what it is handed."""
    texts = [f"# {n} {'x' * 12_000}\n$[" for n in range(20)]

    def read() -> int:
        for text in texts:
            script(f"{text}{SERVE}")
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        before = (read(), read())[1]
        assert read() - before < 20_000
    finally:
        tracemalloc.stop()


def test_frames_are_left_where_statements_and_words_are_as_deep_as_may_be() -> None:
    """Python's limit of 1,000 is nowhere near, whatever calls the reader."""
    word = '"$(echo ' * WORD_NESTING + "x" + ')"' * WORD_NESTING
    texts = [
        "if a; then " * (NESTING - 1) + f"echo {word}" + "; fi" * (NESTING - 1),
        "case $A in a) " * (NESTING - 1) + f"echo {word}" + ";; esac" * (NESTING - 1),
        "while a; do " * (NESTING // 2 - 1) + f"echo {word}" + "; done" * (NESTING // 2 - 1),
        "".join(f"f{i}() {{ f{i + 1}; }}\n" for i in range(24)) + f"f24() {{ echo {word}; }}\nf0",
        "eval " * (NESTING - 1) + "echo",
        "f() { sh -c 'x'; f; }; f",
    ]

    read = [script(text) for text in texts]
    limit = sys.getrecursionlimit()
    reread: list[object] = []

    def run() -> None:
        sys.setrecursionlimit(700)
        try:
            reread.extend(script(text) for text in texts)
        finally:
            sys.setrecursionlimit(limit)

    in_a_thread(run)
    assert reread == read
