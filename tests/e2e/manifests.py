"""Manifests to apply."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

JSONDict = dict[str, Any]
EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name: str) -> JSONDict:
    """A manifest in examples/."""
    obj: JSONDict = yaml.safe_load((EXAMPLES / name).read_text())
    return obj


def named(obj: JSONDict, name: str) -> JSONDict:
    """The same object under another name."""
    return deepcopy(obj) | {"metadata": {"name": name}}


def workloads(pod: JSONDict) -> dict[str, JSONDict]:
    """The Pod in each of Kubernetes' own kinds: resource → object."""
    labels = {"app": "llama"}
    template = {"metadata": {"labels": labels}, "spec": deepcopy(pod["spec"])}
    once = {**template, "spec": {**template["spec"], "restartPolicy": "Never"}}
    selected = {"selector": {"matchLabels": labels}, "template": template}

    def made(api_version: str, kind: str, **fields: Any) -> JSONDict:
        return {"apiVersion": api_version, "kind": kind, "metadata": {"name": kind.lower()}, **deepcopy(fields)}

    return {
        "apps/deployments": made("apps/v1", "Deployment", spec={"replicas": 1, **selected}),
        "apps/statefulsets": made("apps/v1", "StatefulSet", spec={"serviceName": "llama", **selected}),
        "apps/daemonsets": made("apps/v1", "DaemonSet", spec=selected),
        "apps/replicasets": made("apps/v1", "ReplicaSet", spec={"replicas": 1, **selected}),
        "batch/jobs": made("batch/v1", "Job", spec={"template": once}),
        "batch/cronjobs": made(
            "batch/v1", "CronJob", spec={"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": once}}}
        ),
        "replicationcontrollers": made(
            "v1", "ReplicationController", spec={"replicas": 1, "selector": labels, "template": template}
        ),
        "podtemplates": made("v1", "PodTemplate", template=template),
        "pods": made("v1", "Pod", spec=pod["spec"]),
    }
