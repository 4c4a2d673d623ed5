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
    """A sentence with the demand of each term that no node meets, or with two that no node meets together. Empty if a
    term has neither, or if there are more than MAX_TERMS. `sorts`: the nodes, those that are alike as one.

    For the first term's demand, the sentence also lists the values that nodes have."""
    if len(demands.terms) > MAX_TERMS:
        return ""
    terms = demands.alternatives(lambda requirement: requirement.key != NAME)
    unmet = [_unmet(term, sorts) for term in terms]
    texts = [
        _phrase(requirement) if requirement else _pair(term, sorts)
        for requirement, term in zip(unmet, terms, strict=True)
    ]
    if not all(texts):
        return ""
    first = unmet[0]
    values = f"; {_values(first.key, sorts)}" if first is not None and first.operator != "Exists" else ""
    return f"no node has {' or '.join(dict.fromkeys(texts))}{values}"


def _unmet(term: Demands, sorts: Sequence[Alike]) -> NodeRequirement | None:
    """The first demand of a term that no node meets; None if some node meets each."""
    for requirement in term:
        if not _count((requirement,), sorts):
            return requirement
    return None


def _count(demands: Demands, sorts: Sequence[Alike]) -> int:
    """How many nodes meet all of them."""
    return sum(many for node, many in sorts if all(requirement.holds(node.labels) for requirement in demands))


def _pair(term: Demands, sorts: Sequence[Alike]) -> str:
    """Two demands that some nodes meet, with the number of these nodes, and that none meets together. Empty if the
    first MAX_PAIRS have no such pair."""
    for first, second in islice(combinations(dict.fromkeys(term), 2), MAX_PAIRS):
        if not _count((first, second), sorts):
            nodes_of_first, nodes_of_second = _count((first,), sorts), _count((second,), sorts)
            return f"both {_phrase(first)} ({nodes_of_first:,}) and {_phrase(second)} ({nodes_of_second:,})"
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
    """A clause with the MAX_VALUES commonest values of a label, each with the number of its nodes, and the number of
    further values."""
    counts: Counter[str] = Counter()  # value → nodes
    for node, many in sorts:
        if key in node.labels:
            counts[node.labels[key]] += many
    if not counts:
        return "no node has this label"
    items = [f"{value or 'an empty one'} ({many:,})" for value, many in counts.most_common(MAX_VALUES)]
    if len(counts) > MAX_VALUES:
        items.append(f"{len(counts) - MAX_VALUES:,} more")
    return f"there are {', '.join(items)}"
