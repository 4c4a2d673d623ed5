"""What vLLM said of its memory when it started: the heads of its containers' logs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from webhook.cluster.access import Client, StatusError
from webhook.scan import Scan
from webhook.scan.drift import Used, of_log

HEAD = 2 << 20
"""Bytes of a log: a start says all of it within the first few hundred lines."""


def used(client: Client, scan: Scan, tell: Callable[[str], None] = lambda _: None) -> Iterator[Used]:
    """Of every running Pod of the scan. A log that is gone, or may not be read, says nothing; the first such refusal is
    among what the scan could not read."""
    containers: dict[str, list[str]] = {}
    for row in scan.rows:
        containers.setdefault(row.object.uid, []).append(row.container)
    for number, ((namespace, pod), uid) in enumerate(scan.pods.items(), 1):
        tell(f"logs: {number:,} of {len(scan.pods):,} Pods")
        for container in containers.get(uid, ()):
            path = f"/api/v1/namespaces/{namespace}/pods/{pod}/log"
            try:
                text = client.text(path, {"container": container, "limitBytes": str(HEAD)}, HEAD)
            except StatusError as error:
                scan.not_read.setdefault("pods/log", str(error))
                continue
            yield from of_log(text, namespace, pod, container)
