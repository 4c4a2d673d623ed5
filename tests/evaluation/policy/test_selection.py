"""A match that is said to select nothing selects nothing, whatever the object."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.evaluation.policy import Match, Subject
from podfit.evaluation.policy.match import NAMESPACE_NAME
from podfit.evaluation.policy.selection import has_labels_alone, nothing_selected
from podfit.kube.selector import Requirement, Selector

KINDS = ("Pod", "Deployment.apps", "ClusterServingRuntime.serving.kserve.io")
NAMES = ("a", "b", "ab", "abc")
PATTERNS = (*NAMES, "*", "a*", "a?", "?", "*c", "a*c")
_requirements = st.one_of(
    st.builds(
        Requirement,
        st.sampled_from(["team", NAMESPACE_NAME]),
        st.sampled_from(["In", "NotIn"]),
        st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map(tuple),
    ),
    st.builds(Requirement, st.sampled_from(["team", NAMESPACE_NAME]), st.sampled_from(["Exists", "DoesNotExist"])),
)
_selectors = st.none() | st.lists(_requirements, max_size=3).map(tuple).map(Selector)
_names = st.none() | st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=3).map(tuple)
matches = st.builds(
    Match,
    namespaces=_names,
    excluded_namespaces=_names,
    namespace_selector=_selectors,
    object_selector=_selectors,
    kinds=st.none() | st.lists(st.sampled_from((*KINDS, "Deployment")), min_size=1, max_size=2).map(tuple),
)
_labels = st.dictionaries(st.sampled_from(["team", NAMESPACE_NAME]), st.sampled_from((*NAMES, "z")), max_size=2)


@st.composite
def subjects(draw: st.DrawFn) -> Subject:
    """An object as the API server has it: in a namespace with its name as a label, or without a namespace."""
    kind, _, group = draw(st.sampled_from(KINDS)).partition(".")
    if kind.startswith("Cluster"):
        return Subject(kind, group, None, draw(_labels), cluster_scoped=True)
    namespace = draw(st.sampled_from((*NAMES, "z")))
    return Subject(kind, group, namespace, draw(_labels), {**draw(_labels), NAMESPACE_NAME: namespace})


@given(st.lists(matches, min_size=1, max_size=2), subjects())
def test_no_object_is_selected_where_nothing_is(chosen: list[Match], subject: Subject) -> None:
    problem = nothing_selected(chosen, KINDS)

    if problem is not None and not (subject.cluster_scoped and "in any namespace" in problem):
        assert not all(one.selects(subject) for one in chosen), problem


EVERYWHERE = Selector((Requirement(NAMESPACE_NAME, "Exists"),))
LABELED = {
    "labels alone": (Match(), True),
    "another condition": (Match(kinds=("Pod",), excluded_namespaces=("kube-system",)), True),
    "every name": (Match(namespaces=("a", "*")), True),
    "every name of a length": (Match(namespaces=("?*",)), True),
    "an empty selector of namespaces": (Match(namespace_selector=Selector()), True),
    "the label of every namespace": (Match(namespace_selector=EVERYWHERE), True),
    "three characters": (Match(namespaces=("???",)), False),
    "a name": (Match(namespaces=("a",)), False),
    "a part of a name": (Match(namespaces=("a*",)), False),
    "a label of namespaces": (Match(namespace_selector=Selector((Requirement("team", "In", ("a",)),))), False),
}


@pytest.mark.parametrize(("match", "expected"), LABELED.values(), ids=LABELED)
def test_tenants_reach_an_exception_by_a_label_unless_namespaces_are_limited(match: Match, expected: bool) -> None:
    labels = Selector((Requirement("exempt", "In", ("yes",)),))

    assert has_labels_alone([Match(), match._replace(object_selector=labels)]) is expected
    assert has_labels_alone([match, Match(object_selector=labels)]) is expected, "spec.match limits exceptions, too"


MEETS = [
    ("prod-*", "retail-*", False),
    ("prod-?", "retail-*", False),
    ("prod-?", "prod-*", True),
    ("*-prod", "team-*", True),
    ("*a*", "*b*", True),
    ("a?", "a", False),
    ("a*b", "b*a", False),
    ("a*c", "?bc", True),
    ("*", "a", True),
]


@pytest.mark.parametrize(("pattern", "other", "expected"), MEETS)
def test_two_patterns_without_a_common_name_select_nothing(pattern: str, other: str, expected: bool) -> None:
    for both in ([Match(namespaces=(pattern,)), Match(namespaces=(other,))], [
        Match(namespaces=(other, other)), Match(namespaces=(pattern,))
    ]):  # fmt: skip
        assert (nothing_selected(both, KINDS) is None) is expected
