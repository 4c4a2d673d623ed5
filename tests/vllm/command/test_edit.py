"""Words written in the place of others: in a list, and inside a script with its quotes kept."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.kube import workload
from podfit.kube.patch import apply, json_patch
from podfit.vllm.command import Command, edit, resolve


def pod(**spec: Any) -> dict[str, Any]:
    """A Pod with one container."""
    served = {"name": "vllm", "image": "i", **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [served]}}


def read(obj: dict[str, Any]) -> Command:
    """How it starts vLLM."""
    (found,) = workload.find(obj)
    command = resolve(found, found.containers[0])
    assert command is not None
    return command


def swapped(obj: dict[str, Any], first: int, count: int, *words: str) -> dict[str, Any] | None:
    """The object with `words` instead of `count` from the `first` on; None where that is not done."""
    edits = edit.substitute(obj, read(obj), first, count, words)
    return apply(obj, json_patch(obj, edits)) if edits else None


def script(text: str, first: int, count: int, *words: str, **spec: Any) -> str | None:
    """The same inside of `sh -c TEXT`."""
    changed = swapped(pod(command=["sh", "-c", text], **spec), first, count, *words)
    return None if changed is None else changed["spec"]["containers"][0]["command"][2]


@pytest.mark.parametrize(
    ("text", "first", "count", "words", "after"),
    [
        ("vllm serve m --a 1 --b", 1, 2, [], "vllm serve m --b"),
        ("vllm serve m --a 1 --b", 3, 1, [], "vllm serve m --a 1"),
        ("vllm serve m \\\n  --a 1 \\\n  --b\n", 1, 2, [], "vllm serve m \\\n  --b\n"),
        ("vllm serve m \\\n  --a 1 \\\n  --b\n", 3, 1, [], "vllm serve m \\\n  --a 1\n"),
        ("vllm serve m --a '1' --b", 2, 1, ["2"], "vllm serve m --a '2' --b"),
        ('vllm serve m --a "1" --b', 2, 1, ["2"], 'vllm serve m --a "2" --b'),
        ('vllm serve m --a "1" --b', 2, 1, ['{"x": 1}'], "vllm serve m --a '{\"x\": 1}' --b"),
        ("vllm serve m --a 1 --b", 2, 1, ["x y"], "vllm serve m --a 'x y' --b"),
        ("vllm serve m --a=1 --b", 1, 1, ["--c", "2"], "vllm serve m --c 2 --b"),
        ("exec vllm serve m --ü 1 2>&1 | tee log", 1, 1, ["--u"], "exec vllm serve m --u 1 2>&1 | tee log"),
        ("vllm serve m --a {{ x }}", 1, 1, ["--b"], None),  # the template moves everything
        ("X=1; vllm serve m --a $X", 2, 1, ["2"], None),  # it is elsewhere
        ("A='--a 1'; vllm serve m $A", 1, 1, [], None),
        ("f() { vllm serve m --a; }; f", 1, 1, [], None),  # a function may be called twice
        ("eval 'vllm serve m --a'", 1, 1, [], None),
        ("bash -c 'vllm serve m --a'", 1, 1, [], None),
        ("echo --a 1; vllm serve m --a 1", 1, 2, [], None),  # which one is it?
        ("vllm serve m --a 2>&1 1", 1, 2, [], None),  # something is between them
        ("vllm serve m --a 1", 3, 1, [], None),
    ],
)
def test_inside_a_script(text: str, first: int, count: int, words: list[str], after: str | None) -> None:
    """Only words that are written literally, and only if it is clear which."""
    assert script(text, first, count, *words) == after


def test_not_where_kubernetes_expands_something_before_the_shell() -> None:
    """Then the script that runs is not the one in the manifest."""
    env = [{"name": "M", "value": "m"}]
    assert script("vllm serve $(M) --a", 1, 1, env=env) is None
    assert script("vllm serve m --a $$1", 1, 1) is None


def test_in_a_list() -> None:
    """The items, where they are the words."""
    obj = pod(command=["vllm", "serve"], args=["m", "--a", "1", "--b"])
    changed = swapped(obj, 1, 2)
    assert changed is not None
    assert changed["spec"]["containers"][0]["args"] == ["m", "--b"]
    changed = swapped(obj, 3, 1, "--c", "d")
    assert changed is not None
    assert changed["spec"]["containers"][0]["args"] == ["m", "--a", "1", "--c", "d"]
    assert swapped(pod(command=["vllm", "serve", "m"], args=["--a"]), 0, 2) is None  # two lists
    assert swapped(pod(args=["vllm", "serve", "$(M)"], env=[{"name": "M", "value": "m"}]), 0, 1) is None


WORDS = st.lists(
    st.from_regex(r"--[a-z]{3}(=[^'\"\0$\\`{}\r\n]{0,6})?", fullmatch=True)
    | st.text("ab1 é.=", min_size=1, max_size=5),
    min_size=1,
    max_size=6,
    unique=True,
)
QUOTES = (shlex.quote, lambda word: f"'{word}'", lambda word: f'"{word}"')


@given(WORDS, st.data())
def test_only_the_words_that_are_meant_change(words: list[str], data: st.DataObject) -> None:
    """Whatever the quoting and the line breaks: read again, the command has the new words and the others as before."""
    text = "vllm serve m"
    for word in words:
        gap = data.draw(st.sampled_from([" ", "  ", " \\\n  ", "\t"]))
        text += gap + data.draw(st.sampled_from(QUOTES))(word)
    first = data.draw(st.integers(1, len(words)))
    count = data.draw(st.integers(1, len(words) + 1 - first))
    new = data.draw(st.lists(st.text("xy $'\"", min_size=1, max_size=4), max_size=2))
    before = [word.text for word in read(pod(command=["sh", "-c", text])).words]
    assert before == ["m", *words]
    after = script(text, first, count, *new)
    if after is not None:
        changed = [word.text for word in read(pod(command=["sh", "-c", after])).words]
        assert changed == [*before[:first], *new, *before[first + count :]]
