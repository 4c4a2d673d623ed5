"""The benchmark's own arithmetic, on start-ups made by hand: a scoreboard that can't count proves nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import accuracy
from benchmarks.calibrate import Constants, constants, fit
from benchmarks.startups import Row, argv, predict, read
from podfit.vllm.memory import activations, non_torch

GIB = 2**30


def case(name: str = "a", **fields: Any) -> dict[str, Any]:
    """Llama 8B on an H100, as the log of 0.19.0 printed it."""
    return {
        "id": name, "source": "acme/logs:run.log", "model": "meta-llama/Llama-3.1-8B-Instruct",
        "gpu": "NVIDIA H100 80GB HBM3", "gpu_count": 1, "gpu_total_gib": 79.19, "vllm_version": "0.19.0",
        "args": {"max_model_len": 8192, "max_num_batched_tokens": 8192, "gpu_memory_utilization": 0.95, "other": {}},
        "outcome": "starts", "strict": True,
        "observed": {"weights_gib_per_gpu": 14.99, "kv_cache_gib_per_gpu": 58.11, "kv_cache_tokens": 476_000,
                     "activation_peak_gib": 1.89, "non_torch_gib": 0.25},
        **fields,
    }  # fmt: skip


def row(
    verdict: str,
    outcome: str = "starts",
    kv_gib: float = 58.0,
    printed: float | None = 58.0,
    source: str = "acme/logs:run.log",
) -> Row:
    """A prediction made by hand, for a GPU of 100 GiB."""
    line = {"floor": 0, "low": int((kv_gib - 1) * GIB), "likely": int(kv_gib * GIB), "high": int((kv_gib + 1) * GIB)}
    gpu = {"total": {"likely": 100 * GIB}, "kv_cache": line, "weights": line, "kv_cache_tokens": None,
           "estimated_max_model_len": None}  # fmt: skip
    return Row(case(outcome=outcome, source=source, observed={"kv_cache_gib_per_gpu": printed}), verdict, gpu)


def test_false_rejections_refusals_and_misses_are_counted() -> None:
    board = accuracy.Board([
        row("fits"), row("unsure"), row("does-not-fit"),
        row("does-not-fit", "oom_weights"), row("unsure", "no_kv_blocks"), row("fits", "oom_profile_or_graphs"),
    ])  # fmt: skip
    figures = board.figures()
    assert figures["false rejections (count)"] == 1
    assert figures["failures refused"] == 1 / 2
    assert figures["failures at least unsure"] == 2 / 3


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"vllm_version": None}, "vLLM's release is not known, and not every release fails"),
        ({"observed": {"kv_needed_gib": 9.0, "kv_cache_gib_per_gpu": 1.0}},
         "one request needed 9.00 GiB, with the reported arguments 4.00 GiB"),
        ({"observed": {"kv_needed_gib": 4.0, "kv_cache_gib_per_gpu": 3.5}}, "512 MiB were missing, 0.5 % of the GPU"),
        ({"observed": {"kv_needed_gib": 4.0, "kv_cache_gib_per_gpu": 2.5}}, None),
        ({"observed": {"kv_cache_tokens": 8000}}, "96 MiB were missing, 0.1 % of the GPU"),
        ({"observed": {}}, None),
        ({"outcome": "starts"}, None),
    ],
)  # fmt: skip
def test_failures_that_nothing_told_explains_are_counted_apart(fields: dict[str, Any], reason: str | None) -> None:
    line = {"total": {"likely": 100 * GIB}, "max_model_len": 8192, "kv_cache_bytes_per_request": 4 * GIB,
            "kv_cache_bytes_per_token": 4 * GIB // 8192}  # fmt: skip
    lost = Row(case(**{"outcome": "kv_too_small_for_max_model_len", **fields}), "unsure", line)
    assert lost.undecidable == reason
    assert Row(lost.case, "does-not-fit", line).undecidable is None


def test_the_share_of_the_decidable_leaves_the_others_out() -> None:
    unknown = Row(case(outcome="oom_weights", vllm_version=None), "unsure", None)
    figures = accuracy.Board([row("does-not-fit", "oom_weights"), unknown]).figures()
    assert (figures["failures refused"], figures["refused, of the decidable"]) == (1 / 2, 1.0)


def test_errors_are_shares_of_the_card_and_intervals_count() -> None:
    board = accuracy.Board([row("fits", printed=58.0), row("fits", printed=56.0), row("fits", printed=57.5)])
    assert board.memory == pytest.approx([0.0, 0.02, 0.005])
    assert board.inside == [True, False, True]
    assert board.figures()["width of the card, median"] == pytest.approx(0.02)


def test_a_source_with_many_start_ups_counts_once() -> None:
    """Nine pools of one log are off by nothing, one of two others by 1 and 2 %: the middle source is off by 1 %."""
    many = [row("fits") for _ in range(9)]
    others = [row("fits", printed=57.0, source="b/b:x"), row("fits", printed=56.0, source="c/c:x")]
    assert accuracy.Board([*many, *others]).figures()["KV memory of the card, median"] == 0
    assert accuracy.each_once([*many, *others]) == pytest.approx(0.01)
    assert accuracy.each_once([]) is None


def test_a_real_log_is_compared_with_the_plan() -> None:
    (found,) = predict([case()])
    figures = accuracy.Board([found]).figures()
    assert (found.generation, found.source, found.family, found.card) == (
        "0.17–0.19", "acme/logs", "llama", "H100 80GB HBM3",
    )  # fmt: skip
    assert all((figures[name] or 0) < 0.002 for name in ("weights, median", "KV memory of the card, median"))


def test_a_command_line_is_made_of_the_recorded_arguments() -> None:
    args = {
        "enforce_eager": True,
        "enable_lora": False,
        "tensor_parallel_size": None,
        "other": {"limit_mm_per_prompt": {"image": 0}, "enable_prefix_caching": False, "kv_cache_memory": 5},
    }
    assert argv(case(args=args))[3:] == [
        "--enforce-eager", "--limit-mm-per-prompt", '{"image": 0}', "--no-enable-prefix-caching",
        "--kv-cache-memory-bytes", "5",
    ]  # fmt: skip


def test_constants_are_the_medians_of_what_was_printed() -> None:
    twice = case("b", observed={**case()["observed"], "activation_peak_gib": 2.0, "non_torch_gib": 0.35})
    found = fit(predict([case(), twice]))
    value, count = found.non_torch["from 0.18"]
    assert value == pytest.approx(0.3)
    assert count == 2
    value, count = found.samplers["0.17 to 0.20"]
    assert value == pytest.approx(14.0 + 0.055 * GIB / (1024 * 128_256), abs=0.1)
    assert count == 2
    assert found.samplers["0.11.1 to 0.16"] == (34.0, 0)


def test_no_constant_is_fitted_to_a_start_up_that_is_held_out() -> None:
    other = case("b", observed={**case()["observed"], "activation_peak_gib": 9.0, "non_torch_gib": 3.0})
    assert fit(predict([case(), other])) != fit(predict([case()]))
    assert fit(predict([case(), {**other, "held_out": True}])) == fit(predict([case()]))
    assert all(one["held_out"] for one in read(Path(accuracy.__file__).with_name("found.jsonl")))


def test_fitted_constants_hold_only_inside() -> None:
    before = dict(activations.SAMPLERS), dict(non_torch.MEASURED)
    moved = Constants({"0.17 to 0.20": (20.0, 1)}, {"from 0.18": (0.75, 1)})
    (usual,) = predict([case()])
    with constants(moved):
        (other,) = predict([case()])
    assert usual.gpu is not None
    assert other.gpu is not None
    missing = (usual.gpu["kv_cache"]["likely"] - other.gpu["kv_cache"]["likely"]) / GIB
    assert missing == pytest.approx(0.5 + 6 * 1024 * 128_256 / GIB, abs=0.01)
    assert before == (activations.SAMPLERS, non_torch.MEASURED)


def test_the_report_says_what_it_fitted_and_tested_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "startups.jsonl"
    cases = [case(), case("b", source="other/logs:x"), case("c", strict=False)]
    file.write_text("\n".join(json.dumps(one) for one in cases))
    assert accuracy.main([str(file)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("2 start-ups of 2 sources")
    for title in ("half fitted on", "half tested on", "by generation", "by family", "by GPU", "by source"):
        assert title in out


def test_an_absent_file_is_said_clearly(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert accuracy.main([str(tmp_path / "none.jsonl")]) == 2
    assert capsys.readouterr().out.startswith("no start-ups at ")


def test_a_line_that_is_no_object_is_named(tmp_path: Path) -> None:
    file = tmp_path / "startups.jsonl"
    file.write_text("{}\n[]\n")
    with pytest.raises(ValueError, match=r"startups.jsonl:2: not an object"):
        read(file)


def test_failures_with_an_unsure_plan_are_counted_by_what_is_likely() -> None:
    def unsure(outcome: str, needed: float, verdict: str = "unsure") -> Row:
        """A start-up with a likely KV cache of 58 GiB."""
        one = row(verdict, outcome)
        return Row(one.case, verdict, {**(one.gpu or {}), "kv_cache_bytes_per_request": int(needed * GIB)})

    rows = [
        unsure("kv_too_small_for_max_model_len", 60), unsure("starts", 60), unsure("oom_profile_or_graphs", 60),
        unsure("starts", 50), unsure("starts", 50, "fits"), unsure("host_oom", 50), row("unsure", "no_kv_blocks"),
    ]  # fmt: skip
    rows[-1] = Row(rows[-1].case, "unsure", None)
    assert accuracy.leanings(rows) == {False: (2, 3), True: (0, 1)}
