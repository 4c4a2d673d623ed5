"""The policies of a cluster as an API server has them: the ConfigMap of an installed podfit, and the Policy objects.

What a user may not read is unknown, with the reason in one line. What the policies mean is `evaluation.policy`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from podfit.cluster.access import Client, StatusError
from podfit.cluster.listing import pages
from podfit.kube.path import mapping
from podfit.kube.snapshot import WATCHED_KINDS, WatchedKind, key

JSON = Mapping[str, Any]
LABEL = "podfit.dev/policy"
"""The label of the ConfigMap with the policy of an installed podfit (charts/podfit/templates/configmaps.yaml)."""
ALONE = "alone"
"""The value of the label if the servers read no Policy objects (`watch.policies: false`)."""
_REFUSED = (401, 403, 405)
"""HTTP codes for a user who must not read the objects."""


class UnknownPolicyError(ValueError):
    """The policies can't be known; the message is one line for people."""


@dataclass(frozen=True)
class InstalledPolicy:
    """The policy of an installed podfit: its lowest layer."""

    texts: tuple[tuple[str, str], ...] = ()
    """(name for people, text) of each file of the ConfigMap, in the order of the files' names."""
    reads_objects: bool = True
    """True if the servers apply Policy objects, too."""


def installed(client: Client) -> InstalledPolicy:
    """The policy in the ConfigMap of the chart; raises UnknownPolicyError if there is none or several, or if it must
    not be read."""
    try:
        config_maps = [item for page in pages(client, "/api/v1/configmaps", {"labelSelector": LABEL}) for item in page]
    except StatusError as error:
        if error.code not in _REFUSED:
            raise
        raise UnknownPolicyError(str(error)) from error
    names = sorted(_title(config_map) for config_map in config_maps)
    if not names:
        raise UnknownPolicyError(f"podfit is not installed: no ConfigMap has the label {LABEL}")
    if len(names) > 1:
        raise UnknownPolicyError(f"several podfit are installed: {', '.join(names)}")
    (config_map,) = config_maps
    files = sorted(mapping(config_map.get("data")).items())
    texts = tuple((f"configmap {names[0]}", str(text)) for _, text in files)
    labels = mapping(mapping(config_map.get("metadata")).get("labels"))
    return InstalledPolicy(texts, reads_objects=labels.get(LABEL) != ALONE)


def objects(client: Client) -> dict[str, JSON] | None:
    """Name → Policy object, with what podfit reads of it; None if the API server does not serve them. Raises
    UnknownPolicyError if they may not be read."""
    try:
        return {name: kept for (_, name), kept in _list_objects(client, "policies").items()}
    except StatusError as error:
        if error.code == 404:
            return None
        if error.code not in _REFUSED:
            raise
        raise UnknownPolicyError(str(error)) from error


def _list_objects(client: Client, name: str) -> dict[tuple[str, str], JSON]:
    """Key → object, reduced, of all objects of the watched kind with this name. Raises as `pages`."""
    kind: WatchedKind = next(watched_kind for watched_kind in WATCHED_KINDS if watched_kind.name == name)
    return {key(item): kind.keep(item) for page in pages(client, kind.path(kind.versions[0])) for item in page}


def _title(obj: JSON) -> str:
    """ "namespace/name" of an object, for messages."""
    metadata = mapping(obj.get("metadata"))
    return f"{metadata.get('namespace')}/{metadata.get('name')}"
