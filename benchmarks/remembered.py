"""Remembered decisions are those that would be computed: pairs of objects that hardly differ, through one memory.

python -m benchmarks.remembered [PAIRS [SEED]]
"""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Sequence
from random import Random
from typing import Any

from benchmarks.mutations import JSONDict, corpus, mutated, review
from podfit.evaluation import review as reviews
from podfit.evaluation.policy import Layer, Policy, builtin, of_layers
from podfit.evaluation.review import BadReview, Request, Webhook
from podfit.server.decision_cache import DecisionCache
from podfit.vllm.facts import Facts

PAIRS = 100_000
METADATA: tuple[tuple[str, Any], ...] = (
    ("namespace", "other"), ("name", "other"), ("generateName", "other-"), ("labels", {"app": "other"}),
    ("annotations", {"a": "b"}), ("annotations", {"podfit.dev/model": "Qwen/Qwen3-8B"}), ("uid", "u"),
    ("annotations", {"podfit.dev/ignore.unpinned-image": "known"}), ("resourceVersion", "7"),
    ("managedFields", [{"manager": "x"}]), ("creationTimestamp", "2026-01-01T00:00:00Z"),
    ("ownerReferences", [{"kind": "ReplicaSet", "name": "x", "controller": True}]),
    ("deletionTimestamp", "2026-01-01T00:00:00Z"),
)  # fmt: skip
"""What the edge of the key is made of."""


def policies() -> tuple[Policy, ...]:
    """The built-in one, and one whose answers differ."""
    return builtin(), of_layers([Layer("other", trust_mutation=True, owned_pods="deny")])


def pair(random: Random) -> tuple[JSONDict, JSONDict]:
    """Two objects of which the second differs a little: in its metadata, its words, or in nothing."""
    first = random.choice(corpus())
    if random.random() < 0.3:
        first = mutated(random, first, 2)
    second = copy.deepcopy(first)
    if random.random() < 0.6:
        metadata = second.get("metadata")
        name, value = random.choice(METADATA)
        second["metadata"] = {**(metadata if isinstance(metadata, dict) else {}), name: copy.deepcopy(value)}
    if random.random() < 0.6:
        second = mutated(random, second, 1)
    return first, second


def request(random: Random, obj: JSONDict, old: JSONDict | None) -> Request | None:
    """The object as a review; None where it is none that the API server could send."""
    try:
        return reviews.parse(json.dumps(review(random, obj, old)).encode())
    except BadReview:
        return None


def differences(pairs: int, seed: int) -> tuple[int, int, list[str]]:
    """Decisions that were compared, those that came from memory, and the objects whose answers differed."""
    random, memory, facts, both = Random(seed), DecisionCache(), Facts(), policies()  # noqa: S311 - no secret
    compared = remembered = 0
    wrong: list[str] = []
    for _ in range(pairs):
        first, second = pair(random)
        old = first if random.random() < 0.2 else None
        webhook: Webhook = random.choice(("validate", "validate", "mutate"))
        policy = both[random.random() < 0.1]
        for obj in (first, second):
            asked = request(random, obj, old)
            if asked is None:
                continue
            kept = memory.decide(webhook, asked, policy, facts)
            if not kept.remembered and obj is first:
                continue  # computed just now, as the other one would be
            compared += 1
            remembered += kept.remembered
            if kept.answer != DecisionCache().decide(webhook, asked, policy, facts).answer:
                wrong.append(json.dumps(obj))
            elif not (obj.get("metadata") or {}).get("generateName"):
                computed = reviews.decide(webhook, asked, policy, facts)
                if kept.answer != computed.answer:
                    wrong.append(json.dumps(obj))
    return compared, remembered, wrong


def main(argv: Sequence[str]) -> int:
    """Prints what was compared; 1 where an answer differed."""
    pairs, seed = int(argv[0]) if argv else PAIRS, int(argv[1]) if len(argv) > 1 else 0
    compared, remembered, wrong = differences(pairs, seed)
    print(f"{pairs} pairs, {compared} answers compared, {remembered} of them remembered: {len(wrong)} differ")
    for text in wrong[:5]:
        print(text[:2000])
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
