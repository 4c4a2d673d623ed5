"""Suggestions of one container together: none leads to what another finding of the container rejects."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podfit.evaluation.lint import lint
from podfit.evaluation.policy import builtin
from podfit.kube.patch import edited
from podfit.rules import suggestion
from podfit.rules.engine import Engine
from podfit.vllm import change
from podfit.vllm.change import Change
from podfit.vllm.facts import Facts
from podfit.vllm.memory.division import divisible

MODELS = (
    "Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen3-14B", "Qwen/Qwen3-32B", "unsloth/Llama-3.3-70B-Instruct",
    "Qwen/Qwen3-30B-A3B",
)  # fmt: skip
GPUS = ("NVIDIA-L4", "NVIDIA-A100-SXM4-40GB", "NVIDIA-H100-80GB-HBM3")
SIZES = (1, 2, 3, 4, 5, 6, 8)
SHARES = (0.3, 0.9, 0.95, 0.98, 1.0)
GPU_COUNT = re.compile(r"(?:^|with )(\d+) GPUs|^nvidia\.com/gpu: \"?(\d+)")
RANKS = re.compile(r"--tensor-parallel-size (\d+)")
SHARE = re.compile(r"--gpu-memory-utilization ([\d.]+)")


def pod(model: str, gpu: str, gpus: int, ranks: int, share: float) -> dict[str, Any]:
    """A Pod with these numbers, and nothing else that is wrong."""
    args = [model, "--max-model-len=8192", f"--gpu-memory-utilization={share}", f"--tensor-parallel-size={ranks}"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "generated"},
        "spec": {
            "nodeSelector": {"nvidia.com/gpu.product": gpu},
            "containers": [
                {
                    "name": "vllm",
                    "image": "vllm/vllm-openai:v0.27.1",
                    "args": args,
                    "resources": {"limits": {"nvidia.com/gpu": str(gpus), "memory": "400Gi"}},
                }
            ],
        },
    }


def suggestions(obj: dict[str, Any]) -> tuple[Engine, list[tuple[str, str]]]:
    """The container, and each suggestion with its rule."""
    report = lint(obj, builtin(), Facts(), where="check")
    assert not report.errors
    (result,) = report.results
    shown = [judged for judged in result.findings if judged.is_reported]
    return result.engine, [(judged.rule, text) for judged in shown for text in judged.suggestions]


def contradictions(obj: dict[str, Any]) -> Iterator[str]:
    """Suggested sizes that the model, its GPUs or another suggestion reject."""
    engine, listed = suggestions(obj)
    (gpus,) = [count for _, count in [engine.requested or ("", None)] if count is not None]
    ranks, share = engine.args.given["tensor_parallel_size"], engine.args.given["gpu_memory_utilization"]
    model = engine.model.value if engine.model else None
    shares: set[bool] = set()
    for rule, text in listed:
        count, size = GPU_COUNT.search(text), RANKS.search(text)
        there = int(count[1] or count[2]) if count else gpus
        needed = int(size[1]) if size else ranks
        if (count or size) and there < needed:
            yield f"{rule}: {text}: {needed} ranks on {there} GPUs"
        if (count or size) and model is not None and not divisible(model, needed, engine.args):
            yield f"{rule}: {text}: {needed} ranks do not divide {model.id}"
        if found := SHARE.search(text):
            shares.add(float(found[1]) > share)
    if len(shares) > 1:
        yield "a share of the GPU is to be raised and lowered"


@settings(max_examples=40, deadline=None)
@given(
    model=st.sampled_from(MODELS),
    gpu=st.sampled_from(GPUS),
    gpus=st.sampled_from(SIZES),
    ranks=st.sampled_from(SIZES),
    share=st.sampled_from(SHARES),
)
def test_no_suggestion_contradicts_another_finding(model: str, gpu: str, gpus: int, ranks: int, share: float) -> None:
    assert not list(contradictions(pod(model, gpu, gpus, ranks, share)))


@pytest.mark.parametrize(
    ("gpus", "ranks", "never"),
    [
        (8, 3, "nvidia.com/gpu: 3"),  # gpu-idle, of ranks that divide nothing
        (1, 3, "nvidia.com/gpu: 3"),  # gpu-count-mismatch
        (8, 5, "nvidia.com/gpu: 5"),
    ],
)
def test_no_rule_suggests_the_gpus_of_ranks_that_cannot_divide_the_heads(gpus: int, ranks: int, never: str) -> None:
    _, listed = suggestions(pod("Qwen/Qwen2.5-7B-Instruct", "NVIDIA-L4", gpus, ranks, 0.9))

    assert [text for rule, text in listed if rule == "tensor-parallel-indivisible"]
    assert never not in [text for _, text in listed]


def test_idle_gpus_are_not_given_back_where_the_model_needs_more() -> None:
    _, listed = suggestions(pod("unsloth/Llama-3.3-70B-Instruct", "NVIDIA-A100-SXM4-40GB", 8, 1, 0.9))

    assert {rule for rule, _ in listed} >= {"gpu-memory-exceeded"}
    assert not [text for rule, text in listed if rule == "gpu-idle"]


def test_a_second_rank_comes_with_a_volume_for_shared_memory() -> None:
    _, listed = suggestions(pod("Qwen/Qwen2.5-7B-Instruct", "NVIDIA-L4", 4, 1, 0.9))

    assert ("gpu-idle", "--tensor-parallel-size 4 and a memory volume at /dev/shm") in listed


def test_a_lower_share_is_not_suggested_where_the_model_then_does_not_fit() -> None:
    rule = "gpu-memory-utilization-too-high"
    small = pod("Qwen/Qwen3-14B", "NVIDIA-A100-SXM4-40GB", 1, 1, 0.98)
    large = pod("Qwen/Qwen2.5-72B-Instruct-AWQ", "NVIDIA-A100-SXM4-40GB", 1, 1, 0.98)

    assert (rule, "--gpu-memory-utilization 0.95") in suggestions(small)[1]
    assert (rule, "--gpu-memory-utilization 0.95") not in suggestions(large)[1]


NEW_LENGTH = ["--max-model-len=4096", "--max-num-seqs", "8"]


@pytest.mark.parametrize(
    ("made", "text", "words"),
    [
        (change.flags("--max-num-seqs 128"), "--max-num-seqs 128", ["--max-num-seqs", "128"]),
        (change.flags("--enforce-eager", remark=" (slower)"), "--enforce-eager (slower)", ["--enforce-eager"]),
        (
            change.flags("--max-num-seqs 8", "--max-model-len 4096"),
            "--max-num-seqs 8 and --max-model-len 4096",
            NEW_LENGTH,
        ),
        (
            change.flags("--cudagraph-capture-sizes 1 2 4"),
            "--cudagraph-capture-sizes 1 2 4",
            ["--cudagraph-capture-sizes", "1", "2", "4"],
        ),
        (
            change.quoted_flag("--hf-overrides", '{"a": 1}'),
            '--hf-overrides {"a": 1}',
            ["--hf-overrides", '{"a": 1}'],
        ),
    ],
)
def test_the_flags_of_a_change_are_written_and_its_text_is_not(made: Change, text: str, words: list[str]) -> None:
    obj = pod("Qwen/Qwen3-14B", "NVIDIA-L4", 1, 1, 0.9)

    args = written(obj, "args", made)["args"]

    assert str(made) == text
    assert [word for word in args if word not in obj["spec"]["containers"][0]["args"]] == words


@pytest.mark.parametrize(
    ("field", "made", "text", "key", "value"),
    [
        ("image", change.release("0.28.0"), "vLLM 0.28.0 or newer", "image", "vllm/vllm-openai:v0.28.0"),
        (
            "resources",
            change.limit("memory", "8Gi"),
            "memory: 8Gi",
            "resources",
            {"limits": {"nvidia.com/gpu": "1", "memory": "8Gi"}},
        ),
        (
            "resources",
            Change("2 GPUs", gpus=2),
            "2 GPUs",
            "resources",
            {"limits": {"nvidia.com/gpu": "2", "memory": "400Gi"}},
        ),
    ],
)
def test_a_change_of_a_field_is_written(field: str, made: Change, text: str, key: str, value: object) -> None:
    container = written(pod("Qwen/Qwen3-14B", "NVIDIA-L4", 1, 1, 0.9), field, made)

    assert (str(made), container[key]) == (text, value)


def test_what_is_left_out_is_the_named_flag_or_what_the_finding_is_about() -> None:
    obj = pod("Qwen/Qwen3-14B", "NVIDIA-L4", 1, 1, 0.9)
    args = obj["spec"]["containers"][0]["args"]

    by_name = written(obj, "args", change.without("--max-model-len"))["args"]
    engine, _ = suggestions(obj)
    here, _ = edited(obj, [suggestion.edits(engine, engine.at("args", 1), change.leave_out(": it is not needed"))])

    assert by_name == here["spec"]["containers"][0]["args"] == [args[0], *args[2:]]


def test_nothing_is_written_of_a_change_of_which_a_part_cannot_be() -> None:
    obj = pod("Qwen/Qwen3-14B", "NVIDIA-L4", 1, 1, 0.9)

    assert written(obj, "args", Change("…", without="--port", gpus=2)) == obj["spec"]["containers"][0]


def test_no_program_writes_a_change_whose_text_has_a_secret() -> None:
    """Its text has stars, and the text that it would write has the secret."""
    obj = pod("Qwen/Qwen3-14B", "NVIDIA-L4", 1, 1, 0.9)
    obj["spec"]["containers"][0]["args"].append("--api-key=s3cr3t-of-the-server")
    (first, *_) = lint(obj, builtin(), Facts(), where="check").findings
    open_change, secret = change.flags("--port 8001"), change.flags("--api-key=s3cr3t-of-the-server")
    graded = replace(first, unmasked=first.unmasked._replace(suggestions=(secret, open_change), probable=()))

    assert [text.partition("=")[0] for text in graded.suggestions] == ["--api-key", "--port 8001"]
    assert "s3cr3t" not in str(graded.suggestions)
    assert graded.changes == [("--port 8001", open_change)]


def written(obj: dict[str, Any], field: str, made: Change) -> dict[str, Any]:
    """The container after the change that a finding about the field suggests."""
    engine, _ = suggestions(obj)
    after, _ = edited(obj, [suggestion.edits(engine, engine.at(field), made)])
    container: dict[str, Any] = after["spec"]["containers"][0]
    return container
