"""What many policies cost: a review under 50 policies of 40 rules each, and the same review under none.

    python -m benchmarks.policies

Both are measured side by side in one run, alternating, as the time of the process; the figure is their ratio. The
policies select by names, labels of namespaces, labels of objects and kinds; half of them apply.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

from podfit.evaluation import review
from podfit.evaluation.policy import Layer, Match, Policy, builtin, of_layers
from podfit.evaluation.policy.layer import SaidOfRule
from podfit.kube.selector import Requirement, Selector
from podfit.kube.snapshot import Snapshot
from podfit.rules import all_rules
from podfit.vllm.facts import Facts
from tests.conftest import GOOD_POD
from tests.reviews import admission_review

POLICIES, RULES = 50, 40
ROUNDS, REVIEWS = 60, 20
TARGET = 1.20


def policies() -> Policy:
    """50 policies, each with an opinion on 40 rules; every second one selects the Pod."""
    rules = {rule: SaidOfRule(mode=kind.mode) for rule, kind in list(all_rules().items())[:RULES]}
    matches = [
        Match(namespaces=("ch?t", "prod-*")),
        Match(namespaces=("prod-*", "search")),
        Match(
            namespace_selector=Selector((Requirement("env", "In", ("prod", "test")), Requirement("x", "DoesNotExist")))
        ),
        Match(namespace_selector=Selector((Requirement("env", "NotIn", ("prod",)),))),
        Match(kinds=("Pod", "Deployment"), excluded_namespaces=("kube-*",)),
        Match(object_selector=Selector((Requirement("app", "Exists"),))),
    ]
    return of_layers(Layer(f"p-{n:02}", n, matches[n % len(matches)], rules=rules) for n in range(POLICIES))


def seconds(review_: Callable[[], object]) -> float:
    """Seconds of CPU for REVIEWS reviews."""
    start = time.process_time()
    for _ in range(REVIEWS):
        review_()
    return time.process_time() - start


def ratios(facts: Facts) -> Iterator[float]:
    """One ratio a round."""
    request = review.parse(_body())
    none, many = builtin(), policies()

    def under(policy: Policy) -> Callable[[], Any]:
        return lambda: review.decide("validate", request, policy, facts)

    if {under(none)().outcome, under(many)().outcome} != {"allowed"}:
        raise RuntimeError("the reviews do not decide alike")
    for _ in range(ROUNDS):
        bare = seconds(under(none))
        yield seconds(under(many)) / bare


def _body() -> bytes:
    import json

    return json.dumps(admission_review(GOOD_POD)).encode()


def main() -> int:
    """Prints the ratio; 1 where it misses the target."""
    facts = Facts(cluster=Snapshot({"namespaces": {("", "chat"): {"labels": {"env": "prod"}}}}))
    ratio = median(ratios(facts))
    print(f"a review under {POLICIES} policies of {RULES} rules: {ratio:.2f} × one under none (target ≤ {TARGET:.2f})")
    return int(ratio > TARGET)


if __name__ == "__main__":
    raise SystemExit(main())
