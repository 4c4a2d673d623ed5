"""Where a control stops fitting: the planner's answer at each stop of its slider, and the last value that fits."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from podfit.evaluation.compare import settings_of
from podfit.rules.engine import Engine
from podfit.vllm.memory import plan
from podfit.vllm.memory.ledger import Verdict
from podfit.vllm.memory.search import with_changes
from podfit.vllm.model import longest_max_model_len

SHARES = tuple(share / 100 for share in range(50, 100))
"""From 0.50 to 0.99, in hundredths. A choice, as the stops below: they cover the usual values."""
SEQUENCES = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
TOKENS = (512, 1024, 2048, 4096, 8192, 16384, 32768, 65536)
SLIDERS: Mapping[str, Sequence[float]] = {
    "max_model_len": (),
    "gpu_memory_utilization": SHARES,
    "max_num_seqs": SEQUENCES,
    "max_num_batched_tokens": TOKENS,
}
"""dest → its stops; those of max_model_len follow the model."""
LONGEST = 131_072
"""Tokens: the last stop for a model whose own limit is unknown."""


def slider(engine: Engine, dest: str) -> dict[str, Any]:
    """Stops, the answer at each (None: unknown model or GPU), the value in force (None: not a number), and a sentence
    on where it fits. `dest`: a key of SLIDERS."""
    value = engine.args.given.get(dest, settings_of(engine).get(dest))
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    stops = SLIDERS[dest] or _lengths(engine)
    verdicts = [_verdict(engine, dest, stop) for stop in stops]
    return {
        "stops": list(stops),
        "verdicts": verdicts,
        "value": value if is_number else None,
        "fits": _words(engine, dest, stops, verdicts),
    }


def _lengths(engine: Engine) -> list[int]:
    """Contexts from 1,024 tokens to the model's own limit, four per doubling, each a multiple of 256. Twelve doublings
    reach 4 million tokens; a longer limit is the last stop all the same."""
    model_limit = longest_max_model_len(engine.model.value, engine.release) if engine.model else None
    longest = model_limit or LONGEST
    stops = {round(1024 * 2 ** (step / 4) / 256) * 256 for step in range(4 * 12)}
    return [*sorted(stop for stop in stops if stop < longest), longest]


def _verdict(engine: Engine, dest: str, value: float) -> Verdict | None:
    """Report if the GPU memory is enough with this value of the argument `dest`; None if the model or the GPU is
    unknown."""
    if engine.model is None or engine.gpu is None:
        return None
    changed = with_changes(engine.args, {dest: value})
    memory, env = engine.facts.gpu_memory, engine.command.env
    return plan.judge(changed, engine.model.value, engine.gpu.value, gpu_memory=memory, env=env).verdict


def _words(engine: Engine, dest: str, stops: Sequence[float], verdicts: Sequence[Verdict | None]) -> str:
    """The values that fit, for people; "" if the model or the GPU is unknown. `verdicts`: one for each stop."""
    if verdicts[0] is None:
        return ""
    fits = [stop for stop, verdict in zip(stops, verdicts, strict=True) if verdict == "fits"]
    if len(fits) == len(stops):
        return "fits at every value"
    if not fits:
        return "may fit" if "unsure" in verdicts else "fits at no value"
    if fits[0] == stops[0]:
        return f"fits up to {_value_text(_last(engine, dest, stops, fits[-1]))}"
    if fits[-1] == stops[-1]:
        return f"fits from {_value_text(fits[0])}"
    return f"fits from {_value_text(fits[0])} to {_value_text(fits[-1])}"


def _last(engine: Engine, dest: str, stops: Sequence[float], fits: float) -> float:
    """The last whole number that fits, from `fits`, the last stop that does, to before the next stop. It is `fits` if
    that is a share or the last stop of all."""
    next_stop = next((stop for stop in stops if stop > fits), fits)
    if not isinstance(fits, int) or not isinstance(next_stop, int):
        return fits

    def does_not_fit(number: int) -> bool:
        """False for `fits`, then True from some number on: memory grows with it, so that a binary search finds it."""
        return _verdict(engine, dest, number) != "fits"

    candidates = range(fits, next_stop)
    return candidates[bisect_right(candidates, 0, key=does_not_fit) - 1]


def _value_text(value: float) -> str:
    """A count with separators, a share with two digits."""
    return f"{value:,}" if isinstance(value, int) else f"{value:.2f}"
