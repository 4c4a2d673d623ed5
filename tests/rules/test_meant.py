"""What was probably meant: a name that is near, a choice, JSON; nothing where nothing is near."""

from __future__ import annotations

import pytest

from podfit.rules.command_line import _meant
from podfit.vllm.release import parse

BACKENDS = ("FLASHINFER", "FLASH_ATTN", "FLASH_ATTN_MLA", "FLEX_ATTENTION", "TRITON_ATTN")


@pytest.mark.parametrize(
    ("given", "allowed", "near"),
    [
        ("FLASH_ATTENTION", BACKENDS, "FLASH_ATTN"),  # whose letters are nearer to FLEX_ATTENTION's
        ("flash-attn", BACKENDS, "FLASH_ATTN"),
        ("FLEX_ATTN", BACKENDS, "FLEX_ATTENTION"),
        ("FLASH_INFER", BACKENDS, "FLASHINFER"),
        ("XFORMERS", BACKENDS, None),
        ("FULL_PIECEWISE", ("NONE", "PIECEWISE", "FULL", "FULL_AND_PIECEWISE", 3), "FULL_AND_PIECEWISE"),
        ("FULL" * 100, ("FULL",), None),
    ],
)
def test_a_name(given: str, allowed: tuple[str, ...], near: str | None) -> None:
    assert _meant.name(given, allowed) == near


@pytest.mark.parametrize(
    ("message", "meant"),
    [
        ("argument --dtype: invalid choice: 'fp16' (choose from 'auto', 'bfloat16', 'float16')", "float16"),
        ("argument --dtype: invalid choice: 'BF16' (choose from 'auto', 'bfloat16', 'float16')", "bfloat16"),
        ("argument --dtype: invalid choice: 'bfloat-16' (choose from 'auto', 'bfloat16')", "bfloat16"),
        ("argument --dtype: invalid choice: 'fp32' (choose from 'auto', 'bfloat16')", None),
        ("argument --dtype: invalid choice: 'int4' (choose from 'auto', 'bfloat16')", None),
        ("argument --max-num-seqs: invalid int value: '1k'", None),
    ],
)
def test_a_choice(message: str, meant: str | None) -> None:
    assert _meant.choice(message) == meant


@pytest.mark.parametrize(
    ("dest", "text", "release", "meant"),
    [
        ("limit_mm_per_prompt", "image=2,video=0", "0.33.0", '{"image": 2, "video": 0}'),
        ("limit_mm_per_prompt", "image=two", "0.33.0", None),
        ("speculative_config", "{'method': 'ngram'}", "0.33.0", '{"method": "ngram"}'),
        ("speculative_config", "{'method': ngram}", "0.33.0", None),
        ("speculative_config", "{'method': {1}}", "0.33.0", None),
        ("speculative_config", "{'method': 1e999}", "0.33.0", None),
        ("compilation_config", "3", "0.33.0", '{"mode": 3}'),
        ("compilation_config", "3", "0.11.0", '{"level": 3}'),
        ("compilation_config", "4", "0.33.0", None),
        ("max_num_seqs", ["1", "2"], "0.33.0", None),
    ],
)
def test_json(dest: str, text: object, release: str, meant: str | None) -> None:
    assert _meant.as_json(dest, text, parse(release)) == meant


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("8,192", "8192"),
        ("131_072", "131072"),
        ('"8192"', "8192"),
        ("'0.9'", "0.9"),
        ("1e+06", "1000000"),
        ("1.31072e+05", "131072"),
        ("1.5e+00", None),
        ("1k", "1000"),
        ("1K", "1024"),
        ("0,9", "0.9"),
        ("90%", "0.9"),
        ("many", None),
        ("1e999", None),
        ("1" * 200, None),
        (["1", "2"], None),
        (True, None),
    ],
)
def test_a_number(text: object, meant: str | None) -> None:
    assert _meant.number(text) == meant
