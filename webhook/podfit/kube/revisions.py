"""Finds the former template of a workload that an update returns to: ReplicaSets and ControllerRevisions keep them.

`kubectl rollout undo` writes the template of an older revision into the workload (k8s.io/kubectl
pkg/polymorphichelpers/rollback.go), and so does a reverted commit. Such a template has already run. A digest of each
template is enough to recognize it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from podfit.kube.path import mapping

JSON = Mapping[str, Any]
_KEPT = {"Deployment": "replicasets", "StatefulSet": "controllerrevisions", "DaemonSet": "controllerrevisions"}
"""Kind of a workload → the resource that keeps its former templates."""
_ADDED = "pod-template-hash"
"""The label that a Deployment's controller adds to a ReplicaSet's template."""


def reduce_revision(obj: JSON) -> JSON:
    """The part of a ReplicaSet or a ControllerRevision that is kept: `owner`, the (kind, name) of its controller, and
    `template`, the digest of its template. Empty if it has no controller or no template."""
    owners = mapping(obj.get("metadata")).get("ownerReferences") or ()
    controllers = [mapping(reference) for reference in owners if mapping(reference).get("controller") is True]
    spec = mapping(obj.get("spec")) or mapping(mapping(obj.get("data")).get("spec"))  # of a ControllerRevision
    template = mapping(spec.get("template"))
    if not controllers or not template:
        return {}
    owner = controllers[0]
    return {"owner": (str(owner.get("kind")), str(owner.get("name"))), "template": digest(template)}


DIGEST_BYTES = 12
"""Bytes of a template's digest. A choice: 96 bits do not collide by chance, and a cluster keeps many."""


def digest(template: JSON) -> str:
    """A hexadecimal digest, equal for templates that make the same Pods; "" if one is nested too deep to be read."""
    metadata = mapping(template.get("metadata"))
    labels = {name: value for name, value in mapping(metadata.get("labels")).items() if name != _ADDED}
    content = {"labels": labels, "annotations": metadata.get("annotations") or {}, "spec": template.get("spec")}
    try:
        text = json.dumps(_without_nulls(content), sort_keys=True, default=str)
    except RecursionError:  # no controller writes a template so deep
        return ""
    import hashlib  # here: it loads OpenSSL, and only an update of a live workload needs it

    return hashlib.blake2b(text.encode(errors="replace"), digest_size=DIGEST_BYTES).hexdigest()


def _without_nulls(value: Any) -> Any:
    """The value without nulls, and without the directive that makes a ControllerRevision's template a patch."""
    if isinstance(value, Mapping):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None and key != "$patch"}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def kept_by(obj: JSON) -> str:
    """The plural of the kind that keeps a workload's former templates; empty if none does."""
    return _KEPT.get(str(obj.get("kind")), "")


def returned_to(obj: JSON, namespace: str | None, entries: Mapping[str, Mapping[tuple[str, str], JSON]]) -> str | None:
    """The revision whose template a workload has now ("ReplicaSet llama-8b-7f"); None if the snapshot has none, or if
    the template is absent or too deep to compare.

    `entries`: plural of a kind → (namespace, name) → object, as `reduce_revision` leaves it.
    """
    kind, name = str(obj.get("kind")), mapping(obj.get("metadata")).get("name")
    revisions = entries.get(kept_by(obj), {})
    template = mapping(mapping(obj.get("spec")).get("template"))
    template_digest = digest(template) if revisions and template else ""
    if not template_digest:
        return None
    same = {"owner": (kind, str(name)), "template": template_digest}
    revision_kind = "ReplicaSet" if kind == "Deployment" else "ControllerRevision"
    for (revision_namespace, revision_name), revision in revisions.items():
        if revision_namespace == namespace and revision == same:
            return f"{revision_kind} {revision_name}"
    return None
