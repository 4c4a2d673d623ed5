"""A mutation never breaks what was accepted without it: under limits, quotas, Pod Security, and with a sidecar."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scripts.docs import EXAMPLES
from tests.e2e.accepted import LIMITS, Lab, lab, pods
from tests.e2e.controlplane import Cluster

RULES = (
    "memory-*", "shm-*", "offload-*", "model-cache-too-small", "gpu-request-without-limit", "startup-probe-missing",
)  # fmt: skip
"""Rules whose repairs change what an API server counts or limits, and one whose repair no limit is against."""
PODS = list(pods(path for rules in RULES for path in sorted(EXAMPLES.glob(f"{rules}/bad*.yaml"))))


@pytest.fixture(name="twins", scope="module")
def _twins(cluster: Cluster) -> Iterator[Lab]:
    """podfit with a policy that repairs all, and each namespace with a twin that it does not evaluate."""
    with lab(cluster) as found:
        yield found


@pytest.mark.parametrize("namespace", LIMITS)
def test_what_is_taken_as_it_is_is_taken_patched_and_patched_once(namespace: str, twins: Lab) -> None:
    asked = [twins.ask(namespace, pod) for pod in PODS]

    taken = [one for one in asked if not one.plain]
    assert len(taken) > 5
    assert not [f"{one.name}: {one.patched}" for one in taken if one.patched]
    assert not [one.name for one in taken if not one.stable]
    assert any(one.changed for one in taken), "where nothing is patched nothing is shown"


def test_another_webhook_changed_the_pod_and_podfit_was_asked_again(twins: Lab) -> None:
    """The sidecar comes after podfit and before all containers; podfit's second call sees it and has nothing to add."""
    before = twins.podfit.reviews(webhook="mutate")
    patched = twins.podfit.reviews(webhook="mutate", decision="patched")
    (pod,) = [pod for pod in PODS if pod["metadata"]["name"].startswith("bad-two-engines")][:1]

    asked = twins.ask("sidecar", pod)

    assert (asked.plain, asked.patched, asked.changed, asked.stable) == ("", "", True, True)
    assert twins.podfit.reviews(webhook="mutate") == before + 3, "twice where it was patched, once for what it became"
    assert twins.podfit.reviews(webhook="mutate", decision="patched") == patched + 1
