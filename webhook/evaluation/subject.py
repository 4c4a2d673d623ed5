"""What reports call an object: in words for people, and as JSON."""

from __future__ import annotations

from typing import Any

from webhook.kube.path import mapping
from webhook.kube.workload import JSON


def words(obj: JSON) -> str:
    """ "Deployment prod/llama-70b"."""
    metadata = mapping(obj.get("metadata"))
    namespace = metadata.get("namespace")
    name = metadata.get("name") or metadata.get("generateName") or "(no name)"
    return f"{obj.get('kind') or 'object'} {f'{namespace}/' if namespace else ''}{name}"


def tree(obj: JSON) -> dict[str, Any]:
    """Its kind, namespace and name, null where they are not given."""
    metadata = mapping(obj.get("metadata"))
    return {
        "apiVersion": obj.get("apiVersion"),
        "kind": obj.get("kind"),
        "namespace": metadata.get("namespace"),
        "name": metadata.get("name") or metadata.get("generateName"),
    }
