"""The memory that vLLM reported when it started: the heads of its containers' logs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from podfit.cluster.access import Client, StatusError
from podfit.diagnose import calibrate
from podfit.evaluation.scan import Scan
from podfit.evaluation.scan.drift import TOKENS, Used
from podfit.vllm.memory.lines import TITLES

LOGGED = frozenset(f"gpu/{line}" for line in (*TITLES, TOKENS))
"""The values that a log can have: plane/line."""
FIRST_BYTES = 2 << 20
"""Bytes of a log: a start says all of it within the first few hundred lines."""


def used(client: Client, scan: Scan, tell: Callable[[str], None] = lambda _: None) -> Iterator[Used]:
    """The memory that the log of each running Pod of the scan reports, by its first FIRST_BYTES. A log that is gone,
    too slow, or may not be read is skipped; the first such log is added to the scan's `not_read`.

    `tell` gets a line of progress per Pod; by default it is dropped."""
    containers_of: dict[str, list[str]] = {}  # uid of a workload → the names of its vLLM containers
    for row in scan.rows:
        containers_of.setdefault(row.object.uid, []).append(row.container)
    for number, ((namespace, pod), workload_uid) in enumerate(scan.pods.items(), 1):
        tell(f"logs: {number:,} of {len(scan.pods):,} Pods")
        for container in containers_of.get(workload_uid, ()):
            path = f"/api/v1/namespaces/{namespace}/pods/{pod}/log"
            try:
                text = client.text(path, {"container": container, "limitBytes": str(FIRST_BYTES)}, FIRST_BYTES)
            except (StatusError, OSError) as error:
                scan.not_read.setdefault("pods/log", f"{namespace}/{pod}: {error}")
                continue
            yield from of_log(text, namespace, pod, container)


def of_log(text: str, namespace: str, pod: str, container: str) -> Iterator[Used]:
    """The memory that the last start in a container's log reports, as `podfit calibrate` reads it: the bytes of each
    line of GPU memory, and the tokens of the KV cache. Nothing if the log has no start of vLLM."""
    for start in calibrate.read(text)[-1:]:  # the last start, if there is one
        for line, size in start.ledger().items():
            yield Used(namespace, pod, container, "gpu", line, size, "its start-up log")
        if start.tokens is not None:
            yield Used(namespace, pod, container, "gpu", TOKENS, start.tokens, "its start-up log")
