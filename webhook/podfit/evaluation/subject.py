"""Names of an object in reports: in words for people, and as JSON."""

from __future__ import annotations

from typing import Any

from podfit.base.printable import one_line, shortened
from podfit.kube.path import mapping
from podfit.kube.workload import JSON

PROBE_POD = "podfit-doctor"
"""The name of the faulty Pod that `podfit doctor` sends as a dry run."""
MAX_NAME_LENGTH = 253
"""Characters of a name: the most that Kubernetes allows, which a file need not keep to."""


def describe_object(obj: JSON) -> str:
    """The object's kind, namespace and name for people: "Deployment prod/llama-70b"."""
    metadata = mapping(obj.get("metadata"))
    namespace = metadata.get("namespace")
    name = metadata.get("name") or metadata.get("generateName") or "(no name)"
    prefix = f"{printable_name(namespace)}/" if namespace else ""
    return f"{printable_name(obj.get('kind') or 'object')} {prefix}{printable_name(name)}"


def printable_name(name: object) -> str:
    """A name of an object or of a part of it as one line of at most MAX_NAME_LENGTH characters, whatever value a file
    has in its place."""
    return shortened(one_line(str(name)), MAX_NAME_LENGTH)


def object_reference(obj: JSON) -> dict[str, Any]:
    """The object's apiVersion, kind, namespace and name (or generateName), as JSON; None as the value of an absent
    one."""
    metadata = mapping(obj.get("metadata"))
    return {
        "apiVersion": obj.get("apiVersion"),
        "kind": obj.get("kind"),
        "namespace": metadata.get("namespace"),
        "name": metadata.get("name") or metadata.get("generateName"),
    }
