"""Random plans: more memory, a shorter length, fewer sequences must never turn `fits` into `does-not-fit`.

    python -m benchmarks.monotone [COUNT] [SEED]

The properties of `tests/vllm/memory/test_plan.py`, at length, over the catalog's models. An option that is not set
has vLLM's default, and some defaults grow at GPUs of 70 and 160 GiB. A step over one of these is counted apart,
since there vLLM itself takes more.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from podfit.kube.quantity import GI
from podfit.vllm.args import EngineArgs
from podfit.vllm.gpu import Accelerator, Gpu, all_products
from podfit.vllm.memory.ledger import Verdict
from podfit.vllm.memory.plan import judge
from podfit.vllm.model import Model, by_id
from podfit.vllm.model.catalogue import ids
from podfit.vllm.release import known_releases

CHOICES: Mapping[str, Sequence[Any]] = {
    "tensor_parallel_size": (1, 1, 2, 4, 8),
    "pipeline_parallel_size": (1, 1, 1, 2, 3),
    "max_model_len": (None, 2048, 8192, 32768, 131072, -1),
    "max_num_seqs": (None, 1, 16, 64, 256, 1024),
    "max_num_batched_tokens": (None, None, 512, 2048, 8192, 32768),
    "gpu_memory_utilization": (None, 0.3, 0.6, 0.8, 0.9, 0.92, 0.95, 0.98, 1.0),
    "kv_cache_dtype": (None, None, "auto", "fp8", "bfloat16", "int8_per_token_head"),
    "enforce_eager": (None, None, True),
    "quantization": (None, None, None, "fp8", "bitsandbytes"),
    "enable_lora": (None, None, None, True),
    "cpu_offload_gb": (None, None, None, 4.0),
    "kv_cache_memory_bytes": (None, None, None, None, 2**33),
    "speculative_config": (None, None, None, {"method": "mtp", "num_speculative_tokens": 2}, {"method": "ngram"}),
}
STEPS = (70 * GI, 160 * GI)
"""The GPU memory at which vLLM's defaults grow (engine/arg_utils.py)."""


def arguments(pick: random.Random) -> dict[str, Any]:
    """A command line."""
    chosen = {dest: pick.choice(values) for dest, values in CHOICES.items()}
    return {dest: value for dest, value in chosen.items() if value is not None}


def compare(pick: random.Random, models: Sequence[Model], cards: Sequence[Gpu]) -> tuple[str, Verdict, Verdict, str]:
    """One pair of plans: (what is changed, the tighter one's result, the roomier one's, and what they were)."""
    model, card, release = pick.choice(models), pick.choice(cards), pick.choice((None, *known_releases()))
    given = arguments(pick)
    what = pick.choice(("more memory", "shorter length", "fewer sequences"))
    small = large = card
    tight, roomy = dict(given), dict(given)
    if what == "more memory":
        size, more = pick.uniform(4, 190) * GI, pick.uniform(0.1, 40) * GI
        small, large = _sized(card, int(size)), _sized(card, int(size + more))
        if any(size < step <= size + more for step in STEPS) and not {"max_num_seqs", "max_num_batched_tokens"} <= {
            *given
        }:
            what = "more memory, over a step of vLLM's defaults"
    elif what == "shorter length":
        few, many = sorted((pick.randrange(1, 300_000), pick.randrange(1, 300_000)))
        tight["max_model_len"], roomy["max_model_len"] = many, few
    else:
        few, many = sorted((pick.randrange(1, 2000), pick.randrange(1, 2000)))
        tight["max_num_seqs"], roomy["max_num_seqs"] = many, few
    verdicts = [
        judge(EngineArgs(release=release, given=arguments_), model, Accelerator((gpu,), 1)).verdict
        for arguments_, gpu in ((tight, small), (roomy, large))
    ]
    told = f"{model.id} on {small.name} {small.memory} / {large.memory}, vLLM {release}: {tight} / {roomy}"
    return what, verdicts[0], verdicts[1], told


def _sized(card: Gpu, memory: int) -> Gpu:
    fields = {name: getattr(card, name) for name in card.__dataclass_fields__}
    return Gpu(**{**fields, "memory": memory, "memory_high": memory})


def main(argv: Sequence[str]) -> int:
    """Prints the counts, and the first few that break the rule; 1 where there is one."""
    count, seed = int(argv[0]) if argv else 100_000, int(argv[1]) if len(argv) > 1 else 1
    pick = random.Random(seed)  # noqa: S311
    names = sorted(ids())
    models = [row.value for name in pick.sample(names, 300) if (row := by_id(name))]
    cards = [card for card in all_products() if card.vendor in ("nvidia", "amd") and card.memory > 0]
    pairs: Counter[str] = Counter()
    broken: Counter[str] = Counter()
    examples: list[str] = []
    for _ in range(count):
        what, tight, roomy, told = compare(pick, models, cards)
        pairs[what] += 1
        pairs[f"of those, the tighter one {tight}"] += 1
        if (tight, roomy) == ("fits", "does-not-fit"):
            broken[what] += 1
            examples.append(f"{what}: {told}")
    for name, number in pairs.most_common():
        print(f"{number:8,} {name}" + (f": {broken[name]} turned" if not name.startswith("of") else ""))
    print("\n".join(examples[:5]))
    return int(any("defaults" not in name for name in broken))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
