"""The selection of objects by a policy, or by an exception in it.

An answer may be unknown: a manifest need not name its namespace, and an AdmissionReview does not carry the namespace's
labels. `Policy.of` takes care that what is not known never makes a decision stricter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import NamedTuple

from podfit.kube.path import mapping
from podfit.kube.selector import Selector, all_known
from podfit.kube.workload import JSON
from podfit.vllm.facts import Facts

NAMESPACE_NAME = "kubernetes.io/metadata.name"
"""A label that every namespace has, with its own name (Kubernetes 1.22)."""


class Subject(NamedTuple):
    """An object, as far as policies look at it."""

    kind: str
    group: str
    """The API group, "" for the core group."""
    namespace: str | None
    """None where it is not known, or there is none."""
    labels: Mapping[str, str]
    """The object's own labels, not those of its Pod template."""
    namespace_labels: Mapping[str, str] | None = None
    """None: not known."""
    cluster_scoped: bool = False

    @classmethod
    def of(cls, obj: JSON, facts: Facts, namespace: str | None = None) -> Subject:
        """The subject of an object. `namespace`: where it goes if it does not name its namespace."""
        metadata = mapping(obj.get("metadata"))
        kind = str(obj.get("kind") or "")
        named = metadata.get("namespace") or namespace
        where = str(named) if named else None
        return cls(
            kind=kind,
            group=str(obj.get("apiVersion") or "").rpartition("/")[0],
            namespace=where,
            labels={str(key): str(value) for key, value in mapping(metadata.get("labels")).items()},
            namespace_labels=facts.namespaces.get(where) if where else None,
            cluster_scoped=kind.startswith("Cluster"),
        )


class Match(NamedTuple):
    """Conditions, all of which must hold; one that is None is not asked."""

    namespaces: tuple[str, ...] | None = None
    """Names, with `*` and `?`: one of them."""
    excluded_namespaces: tuple[str, ...] | None = None
    """None of these."""
    namespace_selector: Selector | None = None
    object_selector: Selector | None = None
    kinds: tuple[str, ...] | None = None
    """ "Deployment", or with the API group "LeaderWorkerSet.leaderworkerset.x-k8s.io"."""

    @property
    def everything(self) -> bool:
        """True if it has no condition, so that it selects every object."""
        return self == Match()

    def selects(self, subject: Subject) -> bool | None:
        """True if it is about this object; None where that can't be known."""
        return all_known(self._criteria(subject))

    def _criteria(self, subject: Subject) -> Iterator[bool | None]:
        """The answer of each criterion that is set; None where it is unknown."""
        if self.kinds is not None:
            yield subject.kind in self.kinds or f"{subject.kind}.{subject.group}" in self.kinds
        if self.object_selector is not None:
            yield self.object_selector.selects(subject.labels)
        if self.namespaces is not None:
            yield _namespace_matches(subject, self.namespaces)
        if self.excluded_namespaces is not None:
            named = _namespace_matches(subject, self.excluded_namespaces)
            yield None if named is None else not named
        if self.namespace_selector is not None:
            yield _namespace_labels_match(subject, self.namespace_selector)


def _namespace_matches(subject: Subject, patterns: tuple[str, ...]) -> bool | None:
    """True if one of the patterns matches the object's namespace; None where the namespace is unknown."""
    if subject.namespace is None:
        return False if subject.cluster_scoped else None
    return any(fnmatchcase(subject.namespace, pattern) for pattern in patterns)


def _namespace_labels_match(subject: Subject, selector: Selector) -> bool | None:
    """True if a namespace selector matches; None if unknown. As in a webhook's configuration, it matches each object
    without a namespace."""
    if subject.cluster_scoped:
        return True
    name = {NAMESPACE_NAME: subject.namespace} if subject.namespace else {}
    known = subject.namespace_labels
    return selector.selects({**name, **(known or {})}, is_complete=known is not None)
