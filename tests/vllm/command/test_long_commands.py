"""Commands longer than any real one: their first words are read, and nothing is certain."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from podfit.evaluation.lint import lint
from podfit.evaluation.policy import builtin
from podfit.kube import workload
from podfit.vllm import args
from podfit.vllm.args import EngineArgs
from podfit.vllm.command import Command, resolve
from podfit.vllm.facts import Facts
from podfit.vllm.release import parse

RELEASE = parse("0.27.1")
MANY = 5_000


def pod(words: list[str], env: list[dict[str, str]] | None = None) -> dict[str, Any]:
    """A Pod whose container has these arguments."""
    served = {"name": "v", "image": "vllm/vllm-openai:v0.27.1", "args": words, "env": env or []}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [served]}}


def command(words: list[str], env: list[dict[str, str]] | None = None) -> Command:
    """What a container with these arguments starts."""
    (found,) = workload.find(pod(words, env))
    resolved = resolve(found, found.containers[0])
    assert resolved is not None
    return resolved


def read(words: list[str], **more: Any) -> EngineArgs:
    """What vLLM's parser makes of them."""
    return args.parse(command(words, **more), RELEASE)


@pytest.mark.parametrize("padding", ["", "word", "--enforce-eager", "--seed", "$(NAME)", "--no-such-flag"])
def test_nothing_is_certain_of_a_command_with_thousands_of_words(padding: str) -> None:
    """A later argument may replace an earlier one: no finding denies, and nothing is missing."""
    words = ["Qwen/Qwen3-8B", "--tensor-parallel-size", "3", "--max-num-seqs", *[padding] * MANY, "--max-num-seqs", "4"]
    found = command(words)

    parsed = args.parse(found, RELEASE)

    assert (parsed.given["model"], parsed.given["tensor_parallel_size"]) == ("Qwen/Qwen3-8B", 3)
    assert not found.complete
    report = lint(pod(words), builtin(), Facts(), where="check")
    assert report.findings
    assert not report.denied


def test_a_long_value_is_not_read_and_its_flag_is() -> None:
    long = "x" * 300_000
    found = read(["--model", "m", "--chat-template", long, f"--download-dir={long}", f"--{long}", "--seed", "1"])

    assert {"chat_template", "download_dir"} <= found.unresolved.keys()
    assert found.given["seed"] == 1
    assert found.open is not None


def test_the_longest_words_are_told() -> None:
    """Linux hands none of them to a process."""
    most = (1 << 17) - 1
    found = command(["--model", "m", "--chat-template", "x" * most, "--seed", "1"])
    assert found.long == ()
    found = command(["--model", "m", "--chat-template", "é" * (most // 2 + 1), "--seed", "1"])
    assert [(str(path), size) for path, size in found.long] == [("spec.containers[0].args[3]", most + 1)]


def test_variables_that_expand_to_too_much_are_told() -> None:
    env = [{"name": "A", "value": "x" * 1000}, {"name": "B", "value": "$(A)" * 100}]
    found = command(["--model", "m", "--chat-template", "$(B)$(B)"], env)

    assert [size for _, size in found.long] == [1 << 17]


def test_a_long_variable_is_not_copied_for_each_reference() -> None:
    words = ["--served-model-name", *["$(NAME)"] * 20_000]
    tracemalloc.start()
    try:
        found = command(words, [{"name": "NAME", "value": "name " * 2_000}])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert found.words
    assert peak < 40_000_000  # one copy for each reference would be 200,000,000
