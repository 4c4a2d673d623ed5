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
    """The part of a ReplicaSet or a ControllerRevision that is kept: its owner, and its template's digest."""
    owners = mapping(obj.get("metadata")).get("ownerReferences")
    owner = (
        next((mapping(reference) for reference in owners if mapping(reference).get("controller") is True), {})
        if owners
        else {}
    )
    spec = mapping(obj.get("spec")) or mapping(mapping(obj.get("data")).get("spec"))
    template = mapping(spec.get("template"))
    if not owner or not template:
        return {}
    return {"owner": (str(owner.get("kind")), str(owner.get("name"))), "template": digest(template)}


def digest(template: JSON) -> str:
    """Equal for templates that make the same Pods; "" if one is nested too deep to be read."""
    own = mapping(template.get("metadata"))
    labels = {name: value for name, value in mapping(own.get("labels")).items() if name != _ADDED}
    what = {"labels": labels, "annotations": own.get("annotations") or {}, "spec": template.get("spec")}
    try:
        text = json.dumps(_without_nulls(what), sort_keys=True, default=str)
    except RecursionError:  # no controller writes a template so deep
        return ""
    import hashlib  # here: it loads OpenSSL, and only an update of a live workload needs it

    return hashlib.blake2b(text.encode(errors="replace"), digest_size=12).hexdigest()


def _without_nulls(value: Any) -> Any:
    """Without nulls, and without the directive that makes a ControllerRevision's template a patch."""
    if isinstance(value, Mapping):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None and key != "$patch"}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def kept_by(obj: JSON) -> str:
    """The plural of the kind that keeps a workload's former templates; empty if none does."""
    return _KEPT.get(str(obj.get("kind")), "")


def returned_to(obj: JSON, namespace: str | None, entries: Mapping[str, Mapping[tuple[str, str], JSON]]) -> str | None:
    """The revision whose template a workload has now ("ReplicaSet llama-8b-7f"); None if the snapshot has none, or if
    the template is absent or too deep to compare.

    `entries`: kind → its objects, as `reduce_revision` leaves them.
    """
    kind, name = str(obj.get("kind")), mapping(obj.get("metadata")).get("name")
    revisions = entries.get(kept_by(obj), {})
    template = mapping(mapping(obj.get("spec")).get("template"))
    if not revisions or not template:
        return None
    target = {"owner": (kind, str(name)), "template": digest(template)}
    if not target["template"]:
        return None
    of = "ReplicaSet" if kind == "Deployment" else "ControllerRevision"
    return next((f"{of} {key[1]}" for key, item in revisions.items() if item == target and key[0] == namespace), None)
