"""What fits on which accelerator."""

from __future__ import annotations

from itertools import pairwise

from podfit.report.sweep import table, tree
from podfit.vllm.memory.sweep import LENGTHS, Cell, SweepRow, lengths, sweep
from tests.vllm.memory.engines import DEEPSEEK_V3, LLAMA_8B, LLAMA_70B, engine, model


def test_a_row_for_each_product_and_size_that_divides_the_heads() -> None:
    rows = list(sweep(engine("0.20.0"), model(num_attention_heads=28, num_key_value_heads=4), products=["NVIDIA-L4"]))
    assert [(row.product, row.gpus) for row in rows] == [("NVIDIA-L4", 1), ("NVIDIA-L4", 2), ("NVIDIA-L4", 4)]


def test_other_parallelism_of_the_command_line_stays() -> None:
    args = engine("0.20.0", pipeline_parallel_size=2)
    rows = list(sweep(args, model(**LLAMA_70B), products=["NVIDIA-H100-80GB-HBM3"]))
    assert [row.gpus for row in rows] == [2, 4, 8]


def test_only_lengths_that_the_model_has_are_asked() -> None:
    assert lengths(model(max_position_embeddings=8192)) == LENGTHS[:3]
    assert lengths(model(max_position_embeddings=1024)) == (1024,)


def test_longer_requests_are_fewer_and_more_gpus_hold_more() -> None:
    rows = list(sweep(engine("0.20.0"), model(**LLAMA_8B), products=["NVIDIA-L4", "NVIDIA-A100-SXM4-80GB"]))
    for row in rows:
        counts = [cell.concurrency for cell in row.cells.values() if cell.concurrency is not None]
        assert counts == sorted(counts, reverse=True)
    for fewer, more in pairwise(rows[:4]):
        assert (fewer.longest or 0) <= (more.longest or 0)


def test_what_never_fits_is_a_dash() -> None:
    text = table(list(sweep(engine("0.20.0"), model(**DEEPSEEK_V3), products=["NVIDIA-L4"], context_lengths=[4096])))
    assert [line.split()[-1] for line in text.splitlines()[3:]] == ["–"] * 4


def test_the_table_marks_what_may_not_start() -> None:
    row = SweepRow("NVIDIA-L4", 1, {2048: Cell("fits", 15.2), 4096: Cell("unsure", 7.4), 8192: Cell("unsure", 0.5)})
    assert table([row]).splitlines()[-1].split() == ["1", "×", "NVIDIA-L4", "15", "7?", "?"]
    assert tree([row])[0]["longest"] == 2048
    assert table([]) == "no accelerator to try\n"
