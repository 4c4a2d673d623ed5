"""Where the time of a review goes, in process: its stages and its costliest rules, for allowed and denied Pods.

python -m benchmarks.review [PODS]
"""

from __future__ import annotations

import gc
import json
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from benchmarks import serving
from podfit.evaluation import denial, review
from podfit.evaluation.policy import builtin
from podfit.kube import workload
from podfit.rules import all_rules, engine
from podfit.vllm import args, command, gpu, model, volumes
from podfit.vllm.facts import Facts
from podfit.vllm.memory import plan, solve

LIMITS = {"allowed": 650.0, "denied": 1500.0}
"""Microseconds of a whole review, at the median: about what a handler that allows everything takes with its server."""
ROUNDS = 7
"""Each figure is a Pod's best of so many: another program on the machine only ever adds to it."""
COSTLIEST = 20
STAGES: Mapping[str, tuple[tuple[Any, str], ...]] = {
    "workload": ((workload, "find"),),
    "command": ((command, "resolve"),),
    "args": ((args, "parse"),),
    "model": ((model, "find"),),
    "gpu": ((gpu, "find_placement"), (gpu, "find"), (gpu, "device_request")),
    "files": ((volumes, "files"),),
    "plan": ((plan, "plan"),),
    "engine": ((engine, "read"),),
    "search": ((solve, "alternatives"),),
    "texts": ((denial, "warnings"), (denial, "refusal")),
}
"""What is timed, each where its caller looks it up. "engine" is the stages from "command" to "plan" with what joins
them, "search" a part of the rule that denies."""

Times = dict[str, float]
"""Stage or rule → microseconds."""


def main(argv: Sequence[str]) -> int:
    """Prints microseconds; always 0, since a busy machine is not an error."""
    bodies = [serving.review(serving.pod(number)) for number in range(int(argv[0]) if argv else 150)]
    outcomes = [answered(body) for body in bodies]
    gc.collect()
    gc.freeze()
    best: list[Times] = [{} for _ in bodies]
    rules: list[Times] = [{} for _ in bodies]
    for _ in range(ROUNDS):
        for number, body in enumerate(bodies):
            begun = time.perf_counter_ns()
            answered(body)
            _least(best[number], {"review": (time.perf_counter_ns() - begun) / 1000})
        with timed_stages() as took, timed_rules() as judged:  # in turn, so that both meet the same machine
            for number, body in enumerate(bodies):
                took.clear()
                judged.clear()
                answered(body)
                _least(best[number], {**took, "rules": sum(judged.values())})
                _least(rules[number], judged)
    for outcome, limit in LIMITS.items():
        chosen = [number for number, one in enumerate(outcomes) if one == outcome]
        if not chosen:
            continue
        print(f"{outcome}, {len(chosen)} Pods")
        whole = _medians([best[number] for number in chosen])
        for stage in ("review", *STAGES, "rules"):
            goal = f"  limit {limit:.0f} us" if stage == "review" else ""
            print(f"  {stage:40} {whole.get(stage, 0):8.1f} us{goal}")
        costs = sorted(_medians([rules[number] for number in chosen]).items(), key=lambda one: -one[1])
        for rule, cost in costs[:COSTLIEST]:
            print(f"    {rule:38} {cost:8.1f} us")
        print(f"    {f'{len(costs) - COSTLIEST} more':38} {sum(cost for _, cost in costs[COSTLIEST:]):8.1f} us")
    return 0


def answered(body: bytes) -> str:
    """A review from its bytes to the answer's; what was decided."""
    decision = review.decide("validate", review.parse(body), builtin(), _FACTS)
    json.dumps(decision.answer)
    return decision.outcome


_FACTS = Facts()


def _least(best: Times, took: Times) -> None:
    for name, cost in took.items():
        best[name] = min(cost, best.get(name, cost))


def _medians(pods: Sequence[Times]) -> Times:
    """Of the Pods that have it: a rule that does not run costs nothing, and the cost of another must be visible."""
    names = {name: None for pod in pods for name in pod}
    return {name: statistics.median(pod[name] for pod in pods if name in pod) for name in names}


@contextmanager
def timed_stages() -> Iterator[Times]:
    """What the stages of all reviews within the block take together, until it is cleared."""
    took: Times = defaultdict(float)
    with ExitStack() as patches:
        for stage, functions in STAGES.items():
            for module, name in functions:
                patches.enter_context(patch.object(module, name, _timed(stage, getattr(module, name), took)))
        yield took


def _timed(stage: str, function: Callable[..., Any], took: Times) -> Callable[..., Any]:
    def timed(*given: Any, **named: Any) -> Any:
        begun = time.perf_counter_ns()
        answer = function(*given, **named)
        took[stage] += (time.perf_counter_ns() - begun) / 1000
        return answer

    return timed


@contextmanager
def timed_rules() -> Iterator[Times]:
    """The same of the rules."""
    took: Times = defaultdict(float)
    with ExitStack() as patches:
        for rule_id, rule in all_rules().items():
            patches.enter_context(patch.object(rule, "check", _timed(rule_id, _whole(rule.check), took)))
        yield took


def _whole(check: Callable[..., Iterable[Any]]) -> Callable[..., list[Any]]:
    """A rule's check to its end: it yields what it finds."""
    return lambda *given: list(check(*given))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
