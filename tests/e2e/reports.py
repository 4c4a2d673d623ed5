"""The kinds in which PolicyReports are written, as small as the real ones' fields allow, and the way to install them.

The fields are those of the CRDs of wg-policy-prototypes (wgpolicyk8s.io/v1alpha2) and reports-api
(openreports.io/v1alpha1): the API server drops unknown fields, and rejects unknown values.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from tests.e2e.controlplane import Cluster
from tests.e2e.process import until

JSONDict = dict[str, Any]
_TEXT: JSONDict = {"type": "string"}
_COUNT: JSONDict = {"type": "integer"}
_REFERENCE: JSONDict = {
    "type": "object",
    "properties": dict.fromkeys(("apiVersion", "kind", "namespace", "name", "uid"), _TEXT),
}
_RESULT: JSONDict = {
    "type": "object",
    "required": ["policy"],
    "properties": {
        **dict.fromkeys(("source", "policy", "rule", "category", "message"), _TEXT),
        "severity": {"type": "string", "enum": ["critical", "high", "low", "medium", "info"]},
        "result": {"type": "string", "enum": ["pass", "fail", "warn", "error", "skip"]},
        "scored": {"type": "boolean"},
        "resources": {"type": "array", "items": _REFERENCE},
        "properties": {"type": "object", "additionalProperties": _TEXT},
        "timestamp": {
            "type": "object",
            "required": ["seconds", "nanos"],
            "properties": {"seconds": {"type": "integer", "format": "int64"}, "nanos": {"type": "integer"}},
        },
    },
}
_SCHEMA: JSONDict = {
    "type": "object",
    "properties": {
        "scope": _REFERENCE,
        "summary": {"type": "object", "properties": dict.fromkeys(("pass", "fail", "warn", "error", "skip"), _COUNT)},
        "results": {"type": "array", "items": _RESULT},
    },
}
KINDS = (
    ("wgpolicyk8s.io", "v1alpha2", "PolicyReport", "Namespaced"),
    ("wgpolicyk8s.io", "v1alpha2", "ClusterPolicyReport", "Cluster"),
    ("openreports.io", "v1alpha1", "Report", "Namespaced"),
    ("openreports.io", "v1alpha1", "ClusterReport", "Cluster"),
)


def definition(group: str, version: str, kind: str, scope: str) -> JSONDict:
    """One CustomResourceDefinition."""
    plural = f"{kind.lower()}s"
    served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": _SCHEMA}}
    names = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": scope, "names": names, "versions": [served]},
    }


@contextmanager
def installed(cluster: Cluster, *groups: str) -> Iterator[None]:
    """The kinds of these groups are served until the block ends."""
    root = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    made = [definition(*one) for one in KINDS if one[0] in groups]
    try:
        for one in made:
            status, answer = cluster.call("POST", root, one)
            assert status == 201, answer
        for group, version, kind, _ in KINDS:
            path = f"/apis/{group}/{version}/{kind.lower()}s"
            if group in groups:
                until(f"{path} to be served", partial(_is_served, cluster, path))
        yield
    finally:
        for one in made:
            cluster.call("DELETE", f"{root}/{one['metadata']['name']}")


def _is_served(cluster: Cluster, path: str) -> bool:
    return cluster.call("GET", path)[0] == 200
