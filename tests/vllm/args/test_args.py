"""The command line as each vLLM release reads it: `podfit.vllm.args`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podfit.kube.path import FieldPath
from podfit.vllm import args
from podfit.vllm.args import EngineArgs
from podfit.vllm.args.flags import Option, builtin
from podfit.vllm.args.grammar import parse_tokens
from podfit.vllm.args.tokens import Token, command_line_of, prepare_words
from podfit.vllm.args.values import DEEPEST, InvalidValueError, convert
from podfit.vllm.command import Command, Word
from podfit.vllm.release import Release, known_releases
from podfit.vllm.release import parse as release_of

ARGS = FieldPath(("spec", "containers", 0, "args"))


def serve(
    words: str | Sequence[str | Word], release: str | None = "0.27.1", entry: str = "serve", **more: Any
) -> EngineArgs:
    """Reads `words` (a line is split at its blanks) as the arguments after `vllm serve`."""
    line = words.split() if isinstance(words, str) else words
    found = tuple(word if isinstance(word, Word) else Word(word, ARGS / n) for n, word in enumerate(line))
    command = Command(entry=entry, words=found, path=ARGS, **more)
    return args.parse(command, release_of(release) if release else None)


def module(words: str | Sequence[str | Word], release: str | None = "0.27.1", **more: Any) -> EngineArgs:
    """Reads `words` as the arguments of `python3 -m vllm.entrypoints.openai.api_server`."""
    return serve(words, release, entry="module", **more)


def problems(read: EngineArgs) -> list[str]:
    """What vLLM rejects, flags and texts."""
    return [flag.flag for flag in read.unknown] + [error.message for error in read.errors]


# ------------------------------------------------------------------------------------------------------ spellings


@pytest.mark.parametrize(
    ("words", "release", "expected"),
    [
        ("m --tensor-parallel-size 4", "0.27.1", {"tensor_parallel_size": 4}),
        ("m --tensor-parallel-size=4", "0.27.1", {"tensor_parallel_size": 4}),
        ("m --tensor_parallel_size 4", "0.27.1", {"tensor_parallel_size": 4}),
        ("m -tp 4", "0.27.1", {"tensor_parallel_size": 4}),
        ("m -tp=4", "0.27.1", {"tensor_parallel_size": 4}),
        ("m --tensor-parallel 4", "0.27.1", {"tensor_parallel_size": 4}),  # any unambiguous beginning
        ("m --gpu-memory-util .5", "0.27.1", {"gpu_memory_utilization": 0.5}),
        ("m --device-memory-utilization .5", "0.33.0", {"gpu_memory_utilization": 0.5}),
        ("m --max-num-seqs 8 --max-num-seqs 16", "0.27.1", {"max_num_seqs": 16}),  # the last one wins
        ("m --middleware a.b --middleware c.d", "0.27.1", {"middleware": ["a.b", "c.d"]}),  # or all count
        ("m --served-model-name a b --port 80", "0.27.1", {"served_model_name": ["a", "b"], "port": 80}),
        ("m --seed -1", "0.27.1", {"seed": -1}),  # a negative number is not a flag
        ("m --enforce-eager", "0.6.0", {"enforce_eager": True}),
        ("m --enable-prefix-caching", "0.27.1", {"enable_prefix_caching": True}),
        ("m --no-enable-prefix-caching", "0.27.1", {"enable_prefix_caching": False}),
        ("m --disable-prefix-caching", "0.33.0", {"enable_prefix_caching": False}),
        ("m --enable-log-stats", "0.33.0", {}),
        ("m --enable-chunked-prefill=false", "0.7.3", {"enable_chunked_prefill": False}),
        ("m --enable-chunked-prefill", "0.7.3", {"enable_chunked_prefill": True}),
        ("m --hf-token --port 80", "0.27.1", {"hf_token": True, "port": 80}),  # the value may be left out
    ],
)
def test_a_flag_may_be_spelled_in_many_ways(words: str, release: str, expected: Mapping[str, Any]) -> None:
    """Aliases, underscores, `=`, abbreviations and negations, as argparse and vLLM's subclass of it take them."""
    if expected:
        assert serve(words, release).given == {"model": "m", **expected}
        assert problems(serve(words, release)) == []
    else:
        assert problems(serve(words, release))


@pytest.mark.parametrize(
    ("words", "release", "message"),
    [
        ("m -tp2", "0.27.1", "-tp2"),
        ("m --max-num 4", "0.27.1", "ambiguous option: --max-num could match --max-num-b"),
        ("m --enforce-eager True", "0.27.1", "unrecognized arguments: True"),
        ("m --enforce-eager=true", "0.27.1", "argument --enforce-eager: ignored explicit argument 'true'"),
        ("m --enable-chunked-prefill=true", "0.11.0", "ignored explicit argument 'true'"),
        ("m --no-enforce-eager", "0.8.0", "--no-enforce-eager"),  # negations came with 0.8.5
        ("m --max-model-len", "0.27.1", "argument --max-model-len: expected one argument"),
        ("m --max-model-len --port 80", "0.27.1", "argument --max-model-len: expected one argument"),
        ("m --served-model-name", "0.27.1", "argument --served-model-name: expected at least one argument"),
        ("m stray", "0.27.1", "unrecognized arguments: stray"),
        ("--port 80", "0.7.3", "the following arguments are required: model_tag"),
    ],
)  # fmt: skip
def test_what_argparse_refuses_is_refused_in_its_words(words: str, release: str, message: str) -> None:
    """So that a search for the error text finds the same answers as vLLM's own log does."""
    assert any(message in problem for problem in problems(serve(words, release)))


def test_underscores_were_welcome_only_later() -> None:
    """Until 0.5.0 a flag had the spelling that it was registered with, underscores and all."""
    assert module("--model m --preemption_mode swap", "0.5.0.post1").given["preemption_mode"] == "swap"
    assert problems(module("--model m --max_model_len 8", "0.5.0.post1")) == ["--max_model_len"]
    assert problems(module("--model m --max_model_len 8", "0.5.4")) == []


# --------------------------------------------------------------------------------------------------------- values


@pytest.mark.parametrize(
    ("flag", "release", "text", "value"),
    [
        ("--max-model-len", "0.7.3", "8192", 8192),
        ("--max-model-len", "0.27.1", "8k", 8000),
        ("--max-model-len", "0.27.1", "8K", 8192),
        ("--max-model-len", "0.27.1", "25.6k", 25600),
        ("--max-model-len", "0.27.1", "1m", 1_000_000),
        ("--max-model-len", "0.27.1", "auto", -1),
        ("--max-num-batched-tokens", "0.9.2", "16k", 16000),
        ("--kv-cache-memory-bytes", "0.27.1", "10G", 10 << 30),
        ("--kv-cache-memory-bytes", "0.27.1", "None", None),
        ("--gpu-memory-utilization", "0.27.1", "95", 95.0),  # the range is checked later, not by the parser
        ("--limit-mm-per-prompt", "0.8.5.post1", "image=2,video=1", {"image": 2, "video": 1}),
        ("--limit-mm-per-prompt", "0.10.0", '{"image":2}', {"image": 2}),
        ("--limit-mm-per-prompt", "0.10.0", '{\n"image":2}', {"image": 2}),
        ("--allowed-origins", "0.9.2", '["*"]', ["*"]),
        ("--hf-overrides", "0.27.1", '{"rope_theta":1e6}', {"rope_theta": 1e6}),
        ("--hf-overrides", "0.27.1", "my.module.patch", "my.module.patch"),
        ("--speculative-config", "0.27.1", '{"num_speculative_tokens":3}', {"num_speculative_tokens": 3}),
        ("--compilation-config", "0.8.5.post1", "{'level': 3}", {"level": 3}),
        ("--compilation-config", "0.9.1", "3", {"level": 3}),
        ("--device-ids", "0.27.1", "0,1", [0, 1]),
        ("--lora-modules", "0.27.1", "sql=/adapters/sql", [{"name": "sql", "path": "/adapters/sql"}]),
        ("--lora-modules", "0.27.1", '{"name":"a","path":"/b"}', [{"name": "a", "path": "/b"}]),
        ("--moe-backend", "0.27.1", "deep-gemm", "deep_gemm"),
        ("--reasoning-parser", "0.32.0", "none", "none"),
        ("--reasoning-parser", "0.33.0", "None", ""),
        ("--kv-cache-dtype", "0.27.1", "fp8_e4m3", "fp8_e4m3"),
        ("--kv-cache-dtype", "0.33.0", "my_plugin", "my_plugin"),  # free text since 0.33
        (
            "--kv-transfer-config",
            "0.33.0",
            '{"a": 80m, "b": "8K \\" 1k", "c": [8K, 1.5k]}',
            {"a": 80_000_000, "b": '8K " 1k', "c": [8192, 1500]},
        ),
    ],
)
def test_a_value_is_typed_as_that_release_does(flag: str, release: str, text: str, value: Any) -> None:
    """Lower-case suffixes are decimal, upper-case ones binary; JSON stays the object that it is."""
    read = serve(["m", flag, text], release)
    assert problems(read) == []
    assert read.given[flag[2:].replace("-", "_")] == value


@pytest.mark.parametrize(
    ("flag", "release", "text", "message"),
    [
        ("--max-model-len", "0.7.3", "8k", "invalid int value: '8k'"),
        ("--max-model-len", "0.27.1", "1.5K", "Decimals are not allowed with binary suffixes like K."),
        ("--max-model-len", "0.27.1", "32,768", "invalid human_readable_int_or_auto value: '32,768'"),
        ("--max-model-len", "0.13.0", "auto", "invalid human_readable_int value: 'auto'"),
        ("--max-num-seqs", "0.27.1", "1k", "invalid int value: '1k'"),
        ("--kv-cache-memory-bytes", "0.27.1", "8GiB", "Value 8GiB cannot be converted to human_readable_int."),
        ("--gpu-memory-utilization", "0.27.1", "90%", "invalid float value: '90%'"),
        ("--dtype", "0.27.1", "fp16", "invalid choice: 'fp16' (choose from 'auto', 'bfloat16', "),
        ("--limit-mm-per-prompt", "0.10.0", "image=2", "Value image=2 cannot be converted to loads."),
        ("--limit-mm-per-prompt", "0.7.3", '{"image":2}', "Each item should be in the form KEY=VALUE"),
        ("--limit-mm-per-prompt", "0.9.2", '{\n"image":2}', "Each item should be in the form KEY=VALUE"),
        ("--compilation-config", "0.9.2", "3", "Value 3 cannot be converted to CompilationConfig."),
        ("--compilation-config", "0.12.0", "3", "Value 3 cannot be converted to CompilationConfig."),
        ("--enable-chunked-prefill", "0.7.3", "yes", "Invalid boolean value: yes. Expected 'true' or 'false'."),
        ("--lora-modules", "0.27.1", "/adapters/sql", "Invalid JSON format for --lora-modules: /adapters/sql"),
    ],
)  # fmt: skip
def test_a_value_of_the_wrong_type_is_an_error(flag: str, release: str, text: str, message: str) -> None:
    """At the flag, and with the dest that it would have set."""
    [error] = serve(["m", flag, text], release).errors
    assert message in error.message
    assert error.dest == flag[2:].replace("-", "_")
    assert error.path == ARGS / 1


def _nested(depth: int, kind: str) -> str:
    return "[" * depth + "]" * depth if kind == "list" else '{"a":' * depth + "1" + "}" * depth


@pytest.mark.parametrize("kind", ["list", "object"])
@pytest.mark.parametrize("flag", ["--hf-overrides.a", "--speculative-config", "--limit-mm-per-prompt"])
@pytest.mark.parametrize("deeper", [-1, 0, 1, 5_000])
def test_json_is_read_down_to_a_depth(flag: str, kind: str, deeper: int) -> None:
    """What is deeper is not known, and no error: vLLM may accept it."""
    depth = DEEPEST + deeper - flag.count(".")  # a dotted flag is an object around its value
    read = serve(["m", flag, _nested(depth, kind)], "0.27.1")
    dest = flag[2:].partition(".")[0].replace("-", "_")
    assert not read.errors
    assert (dest in read.given, dest in read.unresolved) == (deeper <= 0, deeper > 0)


@pytest.mark.parametrize("deeper", [-1, 0, 1, 5_000])
def test_dotted_keys_are_read_down_to_a_depth(deeper: int) -> None:
    read = serve(["m", "--hf-overrides" + ".a" * (DEEPEST + deeper), "1"], "0.27.1")
    assert not read.errors
    assert ("hf_overrides" in read.given) == (deeper <= 0)
    assert ("hf_overrides" in read.unresolved) == (deeper > 0)


@pytest.mark.parametrize("text", ["{" + "-" * 50_000 + "1}", "1+" * 30_000 + "1", "[" * 250 + "]" * 250])
def test_a_literal_that_python_gives_up_on_is_no_crash(text: str) -> None:
    read = serve(["m", "--compilation-config", text], "0.8.0")
    assert "compilation_config" not in read.given


# --------------------------------------------------------------------------------- what vLLM adds to argparse


@pytest.mark.parametrize(
    ("words", "release", "dest", "value"),
    [
        (["--hf-overrides.rope_scaling.factor", "2"], "0.27.1", "hf_overrides", {"rope_scaling": {"factor": 2}}),
        (["--hf_overrides.a=x", "--hf-overrides.b=[1]"], "0.27.1", "hf_overrides", {"a": "x", "b": [1]}),
        (["--hf-overrides.a", "80g"], "0.27.1", "hf_overrides", {"a": 80_000_000_000}),
        (["--hf-overrides.a", "80g"], "0.19.0", "hf_overrides", {"a": "80g"}),
        (["--hf-overrides.a+", "x", "--hf-overrides.a+=y,z"], "0.27.1", "hf_overrides", {"a": ["x", "y", "z"]}),
        # the pieces come last and replace what was given whole
        (["--hf-overrides.a", "1", "--hf-overrides", '{"b":2}'], "0.27.1", "hf_overrides", {"a": 1}),
        (["-cc.cudagraph_mode", "NONE"], "0.27.1", "compilation_config", {"cudagraph_mode": "NONE"}),
        (["-O3"], "0.8.5.post1", "compilation_config", {"level": 3}),
        (["-O", "3"], "0.10.2", "compilation_config", {"level": 3}),
        (["-O=3"], "0.11.2", "compilation_config", {"mode": 3}),
        (["-O3"], "0.12.0", "optimization_level", "3"),
        (["-O", "2"], "0.27.1", "optimization_level", "2"),
    ],
)
def test_json_may_be_given_in_pieces(words: list[str], release: str, dest: str, value: Any) -> None:
    """`--config.key value`, and `-O` whose meaning changed from release to release."""
    read = serve(["m", *words], release)
    assert problems(read) == []
    assert read.given[dest] == value


def test_after_two_dashes_all_are_arguments() -> None:
    """As in every program that uses argparse."""
    read = serve("--port 80 -- m")
    assert (read.given, problems(read)) == ({"model": "m", "port": 80}, [])
    assert problems(serve("m -- --port")) == ["unrecognized arguments: --port"]


@pytest.mark.parametrize(
    ("words", "release", "refused"),
    [
        ("--model m", "0.7.3", True),  # "the following arguments are required: model_tag"
        ("--model m", "0.10.2", True),  # "you should provide the model as a positional argument"
        ("--model=m", "0.10.2", False),
        ("--model m", "0.11.1", False),  # moved to the front
        ("--port 80 --model m", "0.27.1", False),
        ("--port 80 m", "0.27.1", False),
        ("--served-model-name n --model m", "0.27.1", False),
        ("--port 80 --served-model-name n", "0.27.1", True),  # "`model` should be provided as the first positional"
        ("--port 80", "0.27.1", False),  # serves vLLM's default model
        ("", "0.27.1", False),
    ],
)
def test_serve_wants_its_model_first(words: str, release: str, refused: bool) -> None:
    """What `vllm serve --model` does depends on the release."""
    read = serve(words, release)
    assert bool(problems(read)) == refused
    if not refused and "m" in words.split()[-1:]:
        assert read.model == "m"


def test_the_module_parses_a_positional_and_serves_the_option() -> None:
    """`vllm serve` copies `model_tag` to `model`; `python -m vllm.entrypoints.openai.api_server` does not."""
    program = "vllm.entrypoints.openai.api_server"
    read = module("--model a b --port 80", program=program)
    assert (read.model, read.unserved) == ("a", True)
    assert read.given["model"] == "b"
    assert module("b --port 80", program=program).model is None
    assert module("--model a", program=program).model == "a"
    assert module("--model a b").model == "b"  # another module: not known
    assert problems(module("--model a b", "0.9.2")) == ["unrecognized arguments: b"]


def test_a_config_file_comes_before_the_flags() -> None:
    """Its keys become flags after the model, so that the command line wins; `false` says nothing."""
    text = """
        port: 8100
        max_model_len: 8k
        enforce-eager: true
        enable-prefix-caching: false
        served-model-name: [a, b]
        hf-overrides: {rope_theta: 10}
    """
    read = serve("m --config /etc/vllm/config.yaml --port 80", config={"/etc/vllm/config.yaml": text})
    assert problems(read) == []
    assert read.given == {
        "model": "m",
        "port": 80,
        "max_model_len": 8000,
        "enforce_eager": True,
        "served_model_name": ["a", "b"],
        "hf_overrides": {"rope_theta": 10},
    }
    assert read.places["enforce_eager"] == ARGS / 1
    assert serve("--config c.yaml", config={"c.yaml": "model: x"}).model == "x"


@pytest.mark.parametrize(
    ("words", "config", "message"),
    [
        ("m --config", {}, "No config file specified!"),
        ("m --config c.json", {}, "Config file must be of a yaml/yml type. json supplied"),
        ("m --config a.yaml --config b.yaml", {}, "More than one config file specified!"),
        ("--config c.yaml", {"c.yaml": "port: 80"}, "No model specified!"),
        ("m --config c.yaml", {"c.yaml": "no-such-flag: 1"}, "--no-such-flag"),
    ],
)
def test_what_is_wrong_with_a_config_file_is_told(words: str, config: dict[str, str], message: str) -> None:
    """In vLLM's words."""
    assert any(message in problem for problem in problems(serve(words, config=config)))


@pytest.mark.parametrize("text", ["[", "a: &x [1]\nb: *x", "just text", "!!int x: 1", "2024-13-45: 1"])
def test_a_config_file_that_we_cannot_read_is_not_held_against_anybody(text: str) -> None:
    """Then there may be other arguments, and that is said."""
    read = serve("--config c.yaml --enable-auto-tool-choice", config={"c.yaml": text})
    assert problems(read) == []
    assert read.open
    assert serve("--config elsewhere.yaml").open


@pytest.mark.parametrize(
    ("words", "release", "entry", "where"),
    [
        ("m --enable-auto-tool-choice", "0.27.1", "serve", "errors"),
        ("--model m --enable-auto-tool-choice", "0.27.1", "module", "conflicts"),
        ("m --enable-log-outputs", "0.27.1", "serve", "errors"),
        ("m --data-parallel-multi-port-external-lb", "0.33.0", "serve", "errors"),
        ('m --reasoning-effort-map {"low":1}', "0.33.0", "serve", "errors"),
        ("m --enable-reasoning", "0.8.5.post1", "serve", "conflicts"),
    ],
)
def test_some_flags_need_another(words: str, release: str, entry: str, where: str) -> None:
    """`validate_parsed_serve_args`; in one of the two lists, never in both."""
    read = serve(words, release, entry=entry)
    assert [bool(read.errors), bool(read.conflicts)] == [where == "errors", where == "conflicts"]


# -------------------------------------------------------------------------------------------- unknown and removed


@pytest.mark.parametrize(
    ("words", "release", "first", "last", "suggestion"),
    [
        ("--swap-space 4", "0.27.1", "0.4.0.post1", "0.17.1", None),
        ("--swap_space 4", "0.27.1", "0.4.0.post1", "0.17.1", None),
        ("--disable-log-requests", "0.27.1", "0.4.0.post1", "0.16.0", "--enable-log-requests"),
        ("--kv-cache-memory-bytes=4G", "0.9.2", "0.10.2", "0.33.0", None),
        ("--gpu-memory-utilisation .9", "0.27.1", None, None, "--gpu-memory-utilization"),
        ("--max-modle-len 8", "0.27.1", None, None, "--max-model-len"),
        ("--no-such-thing-at-all", "0.27.1", None, None, None),
    ],
)
def test_an_unknown_flag_says_who_knows_it(
    words: str, release: str, first: str | None, last: str | None, suggestion: str | None
) -> None:
    """Of the releases that know it, the run before this one; and what may have been meant."""
    read = serve(f"m {words} --port 80", release)
    [unknown] = read.unknown
    assert (unknown.first, unknown.last) == (first, last)
    gone = {"--swap-space": "0.18.0", "--disable-log-requests": "0.17.0"}
    assert unknown.removed == gone.get(unknown.flag)
    assert unknown.flag == words.replace("_", "-").replace("=", " ").split()[0]
    assert unknown.path == ARGS / 1
    if suggestion:
        assert unknown.suggestion == suggestion
    assert read.errors == ()  # its value is not one more complaint
    assert read.given["port"] == 80


def test_every_problem_is_told_at_once() -> None:
    """argparse stops at the first; a user who must wait for a GPU should not have to come back four times."""
    read = serve("m --swap-space 4 --max-num-seqs 1k --dtype fp16 --max-modle-len 8 stray")
    assert len(problems(read)) == 5


def test_a_wrapper_has_flags_of_its_own() -> None:
    """Dynamo's worker takes vLLM's flags and others."""
    assert problems(module("--model m --is-prefill-worker --max-num-seqs 1k", own_flags=True)) == [
        "argument --max-num-seqs: invalid int value: '1k'"
    ]


# ----------------------------------------------------------------------------------------------- as it is written


@pytest.mark.parametrize(
    ("words", "release", "written"),
    [
        ("m --max-num-seq 8", "0.27.1", {"max_num_seq": 8}),  # an abbreviation has both names
        ("m --disable-log-requests", "0.33.0", {"disable_log_requests": True}),  # switches enable_log_requests off
        ("m --swap-space 8 --worker-use-ray", "0.27.1", {"swap_space": "8", "worker_use_ray": True}),
        ("m --swap_space=8", "0.27.1", {"swap_space": "8"}),
        ("m --cuda-graph-sizes 1 2", "0.27.1", {"cuda_graph_sizes": ["1", "2"]}),
        ("m --max-model-len 1.5K", "0.27.1", {"max_model_len": "1.5K"}),
        ("m --max-model-len 1.5K --max-model-len 8k", "0.27.1", {}),
        ("m --max-model-len <LEN>", "0.27.1", {"max_model_len": "<LEN>"}),
        ("m --enable-chunked-prefill false", "0.27.1", {"enable_chunked_prefill": "false"}),
        ("m --enable-chunked-prefill=false", "0.27.1", {"enable_chunked_prefill": "false"}),
        ("m --enable-chunked-prefill=false --enable-chunked-prefill", "0.27.1", {}),
        ("m --enable-lora --lora-modules a=/a b=/b", "0.27.1", {"lora_modules": ["a=/a", "b=/b"]}),
        ("m --config /c.yaml", "0.27.1", {"config": "/c.yaml"}),
        ("m --compilation-config 3", "0.10.2", {"compilation_config": "3"}),
        ("<MODEL>", "0.27.1", {"model": "<MODEL>"}),
        ("m --no-enable-prefix-caching --tensor_parallel_size 2 -O3 --port=80", "0.27.1", {}),
    ],
)
def test_what_the_values_do_not_say_is_kept_as_written(words: str, release: str, written: Mapping[str, Any]) -> None:
    """A person looks for what they wrote, under the name they wrote."""
    assert serve(words, release).written == written


# ----------------------------------------------------------------------------------------------- unknown releases


def test_an_unknown_release_is_read_with_the_newest_that_accepts() -> None:
    """`--swap-space` ended with 0.17.1, `image=2` with 0.9.2."""
    read = module("--model m --swap-space 4 --limit-mm-per-prompt image=2", None)
    assert problems(read) == []
    assert read.release is None
    assert read.given == {"model": "m", "swap_space": 4.0, "limit_mm_per_prompt": {"image": 2}}


def test_of_an_unknown_release_an_option_is_likelier_than_an_abbreviation() -> None:
    """`--device` was an option until 0.9.2, and is the beginning of `--device-ids` since 0.24."""
    assert module("--model m --device cpu", None).given == {"model": "m", "device": "cpu"}
    assert module("--model m --max-num-seq 8", None).given == {"model": "m", "max_num_seqs": 8}


def test_of_an_unknown_release_only_what_all_refuse_is_an_error() -> None:
    """Whatever the release is, it knows no `--max-modle-len`."""
    read = module("--model m --max-modle-len 8 --swap-space 4", None)
    assert problems(read) == ["--max-modle-len"]


def test_between_two_releases_both_must_refuse() -> None:
    """0.8.2 lies between 0.8.0, without `--data-parallel-size`, and 0.8.5, without `--num-speculative-tokens`."""
    assert problems(serve("m --data-parallel-size 2", "0.8.2")) == []
    assert problems(serve("m --num-speculative-tokens 2", "0.8.2")) == []
    assert problems(serve("m --max-num-seqs x", "0.8.2")) == ["argument --max-num-seqs: invalid int value: 'x'"]


@pytest.mark.parametrize(
    ("release", "found"), [("0.3.0", []), ("0.99.0", ["argument --max-num-seqs: invalid int value: 'many'"])]
)
def test_beyond_the_table_no_flag_is_refused(release: str, found: list[str]) -> None:
    """A release that we have not seen may know the flag. A newer one takes what the newest one takes."""
    read = serve("m --flag-of-the-future 1 --max-num-seqs many", release)
    assert problems(read) == found
    assert not read.parser_known
    assert [flag.flag for flag in read.unrecognized] == ["--flag-of-the-future"]


# ----------------------------------------------------------------------------------------------- words not known


def test_a_value_that_cannot_be_known_is_unresolved() -> None:
    """It is neither an error nor the default."""
    read = serve(["m", "--max-model-len", Word("$(cat /len)", ARGS / 2, "command substitution $(cat /len)")])
    assert read.unresolved == {"max_model_len": "command substitution $(cat /len)"}
    assert read.places["max_model_len"] == ARGS / 2
    assert "max_model_len" not in read.given
    assert problems(read) == []

    read = serve(["m", Word("--gpu-memory-utilization=$UTIL", ARGS / 1, "UTIL is not set")])
    assert read.unresolved == {"gpu_memory_utilization": "UTIL is not set"}
    assert read.get("gpu_memory_utilization") is None
    assert read.get("tensor_parallel_size") == 1


def test_a_word_that_may_be_several_keeps_the_door_open() -> None:
    """`$EXTRA_ARGS` may be the missing flag, so nothing is missing any more."""
    extra = Word("$EXTRA_ARGS", ARGS / 3, "EXTRA_ARGS is not set")
    read = serve(["m", "--enable-auto-tool-choice", extra, "stray"])
    assert read.open == "EXTRA_ARGS is not set"
    assert problems(read) == []
    assert read.model == "m"
    assert problems(serve([extra], "0.7.3")) == []
    assert problems(serve(["m", "--no-such-flag", extra])) == ["--no-such-flag"]


def test_a_value_is_final_unless_a_later_word_may_replace_it() -> None:
    """argparse takes the last value. A config file's settings come before the command line's."""
    extra = Word("$EXTRA_ARGS", ARGS / 3, "EXTRA_ARGS is not set")
    length = ["--max-model-len", "8192"]

    assert serve(["m", extra, *length]).is_final("max_model_len")
    assert not serve(["m", *length, extra]).is_final("max_model_len")
    assert serve(["m", *length, extra, *length]).is_final("seed") is False
    assert serve(["m", "--config", "elsewhere.yaml", *length]).is_final("max_model_len")
    assert not serve(["m", "--max-model-len", extra]).is_final("max_model_len")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("${MAX_LEN}", "${MAX_LEN} is not expanded in exec form"),
        ("$(MAX_LEN)", "$(MAX_LEN) refers to a variable that the manifest does not define"),
        ("{{ .Values.maxLen }}", "{{ .Values.maxLen }} is a placeholder"),
    ],
)
def test_a_reference_that_stays_text_is_no_type_error(text: str, why: str) -> None:
    """vLLM might get it literally, but far more likely something fills it in."""
    read = serve(["m", "--max-model-len", text, f"--port={text}", text])
    assert read.unresolved == {"max_model_len": why, "port": why}
    assert problems(read) == []
    assert serve(["m", "--served-model-name", text]).given["served_model_name"] == [text]
    assert serve([text]).unresolved == {"model": why}
    assert serve([text]).model is None


def test_a_later_value_settles_an_unresolved_one() -> None:
    """And the other way round."""
    unknown = Word("$LEN", ARGS / 2, "LEN is not set")
    read = serve(["m", "--max-model-len", unknown, "--max-model-len", "4096"])
    assert (read.given["max_model_len"], read.unresolved) == (4096, {})
    read = serve(["m", "--max-model-len", "4096", "--max-model-len", unknown])
    assert ("max_model_len" in read.given, list(read.unresolved)) == (False, ["max_model_len"])


def test_a_command_of_100_000_words_is_read() -> None:
    read = serve(["m", *["--x"] * 100_000])
    assert (set(problems(read)), read.given) == ({"--x"}, {"model": "m"})


def test_a_worker_has_no_arguments() -> None:
    """It joins a leader, which has them."""
    read = serve("", entry="worker")
    assert (read.given, problems(read)) == ({}, [])


def test_defaults_are_the_releases_own() -> None:
    """0.20 raised the share of GPU memory."""
    assert serve("m", "0.19.1").get("gpu_memory_utilization") == 0.9
    assert serve("m", "0.20.0").get("gpu_memory_utilization") == 0.92
    assert serve("m", None).get("gpu_memory_utilization") == 0.92
    assert serve("m", "0.27.1").get("enforce_eager") is False
    assert serve("m", "0.27.1").get("cpu_offload_gb") == 0


# ----------------------------------------------------------------------------------------------------- properties

NEWEST = str(known_releases()[-1])
VOCABULARY = [
    "m", "8", "8k", "-1", "-0.5", "a b", "", "-", "--", "{}", "image=2", "auto", "bfloat16", "-tp", "-tp=2", "-tp2",
    "-O", "-O3", "-cc", "-cc.mode", "-q", "-qfp8", "-h", "--model", "--model=x", "--max-model-len",
    "--max-model-len=8", "--max-num", "--max-num-s", "--served-model-name", "--served_model_name=n", "--lora-modules",
    "--enforce-eager", "--enforce-eager=1", "--no-enforce-eager", "--enable-chunked-prefill", "--hf-token",
    "--hf-overrides.a.b", "--hf-overrides.a+=1", "--hf-o", "--config", "--config=c.yaml", "c.yaml", "--middleware",
    "--swap-space", "--bogus", "--bogus=1", "--dtype", "--x y", "$X", "${X}", "$(X)", "{{ x }}", "--port=$(X)",
    "--$X", "--compilation-config", "--gpu-memory-utilization",
]  # fmt: skip
LINES = st.lists(st.one_of(st.sampled_from(VOCABULARY), st.text(max_size=8)), max_size=8)
RELEASES = st.sampled_from(
    [None, "0.3.0", "0.5.0", "0.7.3", "0.8.3", "0.9.2", "0.11.0", "0.11.2", "0.27.1", "0.33.0", "0.99"]
)


@given(
    LINES,
    RELEASES,
    st.sampled_from(["serve", "module", "worker", ""]),
    st.lists(st.integers(0, 8)),
    st.text(max_size=20),
    st.booleans(),
)
@settings(max_examples=300, deadline=None)
def test_nothing_raises(
    line: list[str], release: str | None, entry: str, unknown: list[int], config: str, complete: bool
) -> None:
    """Whatever the words are, and whichever of them are not known; a word not known is never an error."""
    words = [Word(text, ARGS / n, "not known" if n in unknown else None) for n, text in enumerate(line)]
    read = serve(words, release, entry=entry, config={"c.yaml": config}, complete=complete)
    assert not set(read.given) & set(read.unresolved)
    assert set(read.given) | set(read.unresolved) <= set(read.places)
    if words and all(word.unknown and not ("-" in word.text and "=" in word.text) for word in words):
        assert problems(read) == []


@pytest.mark.parametrize("entry", ["serve", "module"])
@given(st.lists(st.sampled_from(VOCABULARY), max_size=6), st.sampled_from(known_releases()), st.booleans())
@settings(max_examples=150, deadline=None)
def test_what_no_word_has_is_not_looked_for(entry: str, texts: list[str], release: Release, sure: bool) -> None:
    """Looking for it finds nothing."""
    words = tuple(Word(text, ARGS / n) for n, text in enumerate(texts))
    command = Command(entry, words, ARGS, config={} if sure else {"c.yaml": "max_model_len: 8\n-O: 3"})
    line = command_line_of(command, "\n".join(texts))
    found = builtin().parser(release, entry)

    quick, thorough = (
        prepare_words(command, one, found) for one in (line, line._replace(line="--config --model _ -O ."))
    )

    assert quick == thorough


@pytest.mark.parametrize("release", ["0.6.6.post1", "0.11.0", NEWEST])
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_a_value_reads_the_same_with_and_without_the_equals_sign(release: str, data: st.DataObject) -> None:
    """`--flag value` is `--flag=value`, as long as the value does not look like a flag."""
    found = builtin().parser(next(r for r in known_releases() if str(r) == release), "module")
    flags = [flag for flag, (option, _) in found.spellings.items() if flag.startswith("--") and option.nargs is None]
    flag = data.draw(st.sampled_from(flags))
    value = data.draw(st.one_of(st.sampled_from(["8", "8k", "auto", "{}", "a=1", "true", "None"]), st.text(max_size=6)))
    if value.startswith("-") or flag in ("--config", "--model"):
        return
    apart, joined = module([flag, value], release), module([f"{flag}={value}"], release)
    assert repr(apart.given) == repr(joined.given)
    assert problems(apart) == problems(joined)


class _Refused(Exception):  # noqa: N818  (it is no error here)
    pass


class _Argparse(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _Refused(message)


def _argparse(entry: str, release: Release) -> argparse.ArgumentParser:
    """Python's own parser with the same options, types and all."""
    table = builtin().parser(release, entry)

    def typed(option: Option) -> Any:
        def convert_one(text: str) -> Any:
            try:
                return convert(option, text, release)
            except InvalidValueError as error:
                raise argparse.ArgumentTypeError(str(error)) from None

        return convert_one

    class Switch(argparse.Action):
        def __call__(
            self, _: Any, namespace: argparse.Namespace, values: Any, option_string: str | None = None
        ) -> None:
            assert option_string is not None
            setattr(namespace, self.dest, table.spellings[option_string][1])

    made = _Argparse(add_help=False)
    for option in {option.dest: option for option, _ in table.spellings.values()}.values():
        spellings = (*option.flags, *option.negative)
        if option.nargs == 0:
            made.add_argument(*spellings, dest=option.dest, nargs=0, action=Switch)
        else:
            nargs = option.nargs
            made.add_argument(*spellings, dest=option.dest, nargs=nargs, const=option.const, type=typed(option))
    if table.positional is not None:
        made.add_argument("model_tag", nargs=table.positional.nargs)
    return made


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the grammar is that of Python 3.11's argparse")
@pytest.mark.parametrize("entry", ["serve", "module"])
@pytest.mark.parametrize("release", ["0.7.3", "0.27.1"])
@given(
    line=st.lists(
        st.sampled_from([word for word in VOCABULARY if word != "--" and not {"$", "{"} & set(word)]), max_size=6
    )
)
@settings(max_examples=150, deadline=None)
def test_the_grammar_is_argparses(release: str, entry: str, line: list[str]) -> None:
    """Given the same options, Python's parser accepts the same lines, with the same values."""
    number = next(r for r in known_releases() if str(r) == release)
    custom = {"middleware", "lora_modules", "enable_chunked_prefill", "help"}  # whose actions do more than store
    reading = parse_tokens(builtin().parser(number, entry), [Token(text, ARGS, n) for n, text in enumerate(line)])
    stored = {k: v for k, v in reading.given.items() if v is not None and k not in custom}
    ours = None if reading.problems else stored
    try:
        namespace = vars(_argparse(entry, number).parse_args(line))
        theirs = {k: v for k, v in namespace.items() if v is not None and k not in custom}
        if "model_tag" in theirs:
            theirs["model"] = theirs.pop("model_tag")
    except _Refused as refusal:
        theirs = None
        if "model_tag" in str(refusal):  # `podfit.vllm.args` looks for that
            return
    if (
        "lora_modules" in reading.places
        or "-h" in line
        or (number < Release(0, 8) and "--enable-chunked-prefill" in line)
    ):
        return
    assert ours == theirs
