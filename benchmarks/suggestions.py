"""Random command lines that do not fit: every change that the solver suggests is applied and planned again.

python -m benchmarks.suggestions [COUNT] [SEED]
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from benchmarks.monotone import arguments
from podfit.vllm.args import EngineArgs
from podfit.vllm.gpu import Accelerator, all_products, by_name
from podfit.vllm.memory import solve
from podfit.vllm.memory.plan import judge
from podfit.vllm.memory.search import with_changes
from podfit.vllm.model import Model, by_id
from podfit.vllm.model.catalogue import ids
from podfit.vllm.release import known_releases


def applied(one: solve.Alternative, args: EngineArgs, model: Model, where: Accelerator) -> str:
    """The plan's answer with the change made, computed apart from the search."""
    changed = with_changes(args, {**one.changes, **one.stands_for})
    if "product" in one.changes:
        where = replace(where, gpus=by_name(one.changes["product"]))
    if "model" in one.changes and (row := by_id(one.changes["model"])):
        model = row.value
    return judge(changed, model, where).verdict


def main(argv: Sequence[str]) -> int:
    """Prints how many suggestions there were, and how many fit; 1 where one does not."""
    count, seed = int(argv[0]) if argv else 1000, int(argv[1]) if len(argv) > 1 else 1
    pick = random.Random(seed)  # noqa: S311
    names = sorted(ids())
    models = [row.value for name in pick.sample(names, 300) if (row := by_id(name))]
    cards = [card for card in all_products() if card.vendor == "nvidia" and card.memory > 0]
    verdicts: Counter[str] = Counter()
    helped = refused = 0
    for _ in range(count):
        args = EngineArgs(release=pick.choice((None, *known_releases())), given=arguments(pick))
        model, where = pick.choice(models), Accelerator((pick.choice(cards),), 1)
        if judge(args, model, where).verdict == "fits":
            continue
        refused += 1
        found = solve.alternatives(args, model, where)
        helped += bool(found)
        for one in found:
            verdict = applied(one, args, model, where)
            verdicts[verdict] += 1
            if verdict != "fits":
                print(f"{verdict}: {one.text}: {model.id} on {where.name}, vLLM {args.release}, {args.given}")
    print(f"{refused:,} of {count:,} do not surely fit; {helped:,} of them are told what would")
    print(f"{verdicts.total():,} suggestions, {verdicts['fits']:,} fit")
    return int(verdicts.total() != verdicts["fits"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
