"""What is left of commands longer than any real one: read as argparse reads them."""

from __future__ import annotations

import tracemalloc
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.kube import workload
from podfit.vllm import args
from podfit.vllm.args import EngineArgs
from podfit.vllm.command import Command, reading, resolve
from podfit.vllm.command.condense import condensed, dashed
from podfit.vllm.release import parse

RELEASE = parse("0.27.1")
MANY = 5_000


def command(words: list[str], env: list[dict[str, str]] | None = None) -> Command:
    """What a container with these arguments starts."""
    served = {"name": "v", "image": "vllm/vllm-openai:v0.27.1", "args": words, "env": env or []}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [served]}}
    (found,) = workload.find(pod)
    resolved = resolve(found, found.containers[0])
    assert resolved is not None
    return resolved


def read(words: list[str], **more: Any) -> EngineArgs:
    """What vLLM's parser makes of them."""
    return args.parse(command(words, **more), RELEASE)


PADDING = {
    "values of a list": ["--served-model-name", *(f"name-{n}" for n in range(MANY))],
    "words that belong to nothing": [f"word-{n}" for n in range(MANY)],
    "flags that no release knows": [word for n in range(MANY) for word in (f"--no-such-{n}", "value")],
    "one flag over and over": [word for n in range(MANY) for word in ("--max-num-seqs", str(n))],
    "one flag with each value": [f"--max-num-seqs={n}" for n in range(MANY)],
    "switches": ["--enforce-eager"] * MANY,
    "abbreviations": ["--max-num-s", "8"] * MANY,
    "levels": [f"-O{n % 4}" for n in range(MANY)],
    "negative numbers": ["--seed", "-1"] * MANY,
    "keys of a config": [f"--compilation-config.key{n}=1" for n in range(MANY)],
    "blanks": ["--max-num-seqs 8"] * MANY,
    "nothing": [""] * MANY,
    "variables": ["$(NAME)"] * MANY,
}


@pytest.mark.parametrize("padding", PADDING.values(), ids=PADDING.keys())
def test_padding_hides_nothing(padding: list[str]) -> None:
    """What matters is before it, in its middle and after it."""
    half = len(padding) // 2
    middle = next(n for n in range(half, len(padding)) if padding[n][:1] == "-" or n == len(padding) - 1)
    words = [
        "--model", "Qwen/Qwen3-8B", *padding[:middle], "--tensor-parallel-size", "3", *padding[middle:],
        "--max-model-len", "4096",
    ]  # fmt: skip
    found = command(words, [{"name": "NAME", "value": "a"}])

    given = args.parse(found, RELEASE).given

    assert (given["model"], given["tensor_parallel_size"], given["max_model_len"]) == ("Qwen/Qwen3-8B", 3, 4096)
    assert found.complete
    assert len(found.words) < 1_200


def test_a_variable_that_is_not_known_may_be_any_flag() -> None:
    assert read(["--model", "m", *["x"] * MANY, "$(FLAG)", *["x"] * MANY]).open is not None


def test_a_long_value_is_not_read_and_its_flag_is() -> None:
    long = "x" * 300_000
    found = read(["--model", "m", "--chat-template", long, f"--download-dir={long}", f"--{long}", "--seed", "1"])

    assert {"chat_template", "download_dir"} <= found.unresolved.keys()
    assert found.given["seed"] == 1
    assert found.open is None
    assert [len(one.flag) < 200 for one in found.unknown] == [True]


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


def test_where_flags_end_nothing_is_one() -> None:
    """Behind `--` all words are arguments."""
    words = ["--model", "m", *["x"] * 600, "--max-num-seqs", "1", "--", "--max-num-seqs", "2"]
    assert read(words).given["max_num_seqs"] == 1


_WORD = st.sampled_from([
    "--max-num-seqs", "--max-num-seqs=4", "--max_num_seqs", "--enforce-eager", "--served-model-name", "--seed",
    "--max-num-s", "--no-such", "-O3", "-tp", "--enable-prefix-caching", "--no-enable-prefix-caching", "--", "-1",
    "--lora-modules", "a=b", "8", "name", "--no-such-flag=1", "--hf-overrides.a=1", "--max", "",
])  # fmt: skip


@given(st.lists(_WORD, min_size=1, max_size=60), st.integers(0, 40))
def test_what_is_left_is_read_alike(words: list[str], at: int) -> None:
    """With a list cut early, and read whole: the same values where vLLM takes it, and then no error."""
    line = ["--model", "m", *words, "--tensor-parallel-size", "2"]
    whole = read(line)
    with patch.object(reading, "_ITEMS", 2 + at):
        short = read(line)

    if not (whole.errors or whole.unknown):
        several = {"served_model_name", "lora_modules"}
        assert not short.errors
        assert not short.unknown
        assert {dest: value for dest, value in short.given.items() if dest not in several} == {
            dest: value
            for dest, value in whole.given.items()
            if dest not in several and (dest in short.given or dest not in short.unresolved)
        }


def test_the_words_that_are_left_are_as_many_as_there_are_flags() -> None:
    few, many = ([f"--max-num-seqs={n % 7}" for n in range(size)] for size in (2_000, 64_000))
    assert len(condensed(few)) == len(condensed(many)) == 1


@given(st.lists(st.text(st.sampled_from("-a\0 "), max_size=3), max_size=8))
def test_words_that_begin_with_a_dash_are_found_by_one_search(words: list[str]) -> None:
    assert dashed(words) == [n for n, text in enumerate(words) if text.startswith("-")]


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


def test_a_flag_and_its_value_with_blanks_in_one_word_are_kept() -> None:
    words = ["--max-num-seqs=8"] * MANY

    given = read([*words, '--hf-overrides={"max_position_embeddings": 512}', *words]).given

    assert given["hf_overrides"] == {"max_position_embeddings": 512}
