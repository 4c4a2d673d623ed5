"""For people: which demands of a Pod no node meets, and the values that nodes have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations, islice

from podfit.kube.snapshot import Alike
from podfit.vllm.gpu.requirement import NAME, Demands, NodeDemand, NodeRequirement

MAX_VALUES = 3
"""Values of a label that a text names, the commonest ones."""
MAX_TERMS = 3
"""Terms of an affinity that a text names. Of a Pod with more of them, the nodes are only counted."""
MAX_PAIRS = 30
"""Pairs of demands that are tried for one term."""


def unmet_demands(demands: NodeDemand, sorts: Sequence[Alike]) -> str:
    """The demand of each term that no node meets, or two that no node meets together; empty if a term has neither."""
    if len(demands.terms) > MAX_TERMS:
        return ""
    terms = demands.alternatives(lambda requirement: requirement.key != NAME)
    alone = [next((item for item in term if not _count((item,), sorts)), None) for term in terms]
    texts = [
        _phrase(requirement) if requirement else _pair(term, sorts)
        for requirement, term in zip(alone, terms, strict=True)
    ]
    if not all(texts):
        return ""
    first = alone[0]
    values = f"; {_values(first.key, sorts)}" if first is not None and first.operator != "Exists" else ""
    return f"no node has {' or '.join(dict.fromkeys(texts))}{values}"


def _count(demands: Demands, sorts: Sequence[Alike]) -> int:
    """How many nodes meet all of them."""
    return sum(many for node, many in sorts if all(requirement.holds(node.labels) for requirement in demands))


def _pair(term: Demands, sorts: Sequence[Alike]) -> str:
    """Two demands that some nodes meet, and none meets together."""
    for pair in islice(combinations(dict.fromkeys(term), 2), MAX_PAIRS):
        if not _count(pair, sorts):
            return "both " + " and ".join(f"{_phrase(item)} ({_count((item,), sorts):,})" for item in pair)
    return ""


def _phrase(requirement: NodeRequirement) -> str:
    """The property that a node must have, as the end of "no node has ..."."""
    names = " or ".join(requirement.values[:MAX_VALUES])
    names += " or …" if len(requirement.values) > MAX_VALUES else ""
    return {
        "In": f"{requirement.key}={names}",
        "NotIn": f"{requirement.key} other than {names}",
        "Exists": f"the label {requirement.key}",
        "DoesNotExist": f"labels without {requirement.key}",
        "Gt": f"{requirement.key} above {names}",
        "Lt": f"{requirement.key} below {names}",
    }.get(requirement.operator, str(requirement))


def _values(key: str, sorts: Sequence[Alike]) -> str:
    """The values of a label that nodes have, the commonest first."""
    counts: Counter[str] = Counter()
    for node, many in sorts:
        if key in node.labels:
            counts[node.labels[key]] += many
    common = [f"{value or 'an empty one'} ({many:,})" for value, many in counts.most_common(MAX_VALUES)]
    more = [f"{len(counts) - len(common):,} more"] if len(counts) > len(common) else []
    return f"there are {', '.join(common + more)}" if common else "no node has this label"
