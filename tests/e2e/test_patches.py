"""What the mutating webhook changes, as etcd has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import yaml

from tests.conftest import GOOD_POD
from tests.e2e.manifests import EXAMPLES, example
from tests.e2e.release import Podfit
from tests.e2e.user import User
from tests.reviews import deployment, without_shm

JSONDict = dict[str, Any]
Golden = Callable[[str], None]
UserOf = Callable[[Podfit], User]
Install = Callable[..., Podfit]
AUTOFIX = yaml.safe_load((EXAMPLES.parent / "policies" / "autofix.yaml").read_text())["spec"]


def shm(spec: JSONDict | None) -> tuple[list[JSONDict], list[JSONDict]]:
    """What a Pod's spec has at /dev/shm: volumes in memory, mounts of the first container."""
    assert spec
    volumes = [volume for volume in spec.get("volumes", []) if volume.get("emptyDir", {}).get("medium") == "Memory"]
    mounts = [mount for mount in spec["containers"][0].get("volumeMounts", []) if mount["mountPath"] == "/dev/shm"]
    return volumes, mounts


def test_a_pod_is_patched_with_a_warning_and_etcd_has_the_patch_once(
    podfit: Podfit, user: User, golden: Golden
) -> None:
    user.write("llama-8b.yaml", without_shm(GOOD_POD))
    before = podfit.reviews(webhook="mutate", kind="Pod", decision="patched", dry_run="false")

    user.kubectl("apply -f llama-8b.yaml")

    golden(user.screen)
    stored = user.stored("pods", "llama-8b")
    assert stored
    (volume,), (mount,) = shm(stored["spec"])
    assert mount["name"] == volume["name"]
    assert podfit.reviews(webhook="mutate", kind="Pod", decision="patched", dry_run="false") == before + 1


def test_applied_again_a_patched_pod_is_unchanged_and_has_no_diff(user: User, golden: Golden) -> None:
    user.write("llama-8b.yaml", without_shm(GOOD_POD))
    user.kubectl("apply -f llama-8b.yaml")

    user.kubectl("apply -f llama-8b.yaml")
    user.kubectl("diff -f llama-8b.yaml")

    golden(user.screen)
    stored = user.stored("pods", "llama-8b")
    assert stored
    assert [len(found) for found in shm(stored["spec"])] == [1, 1]


def test_two_podfits_patch_once(install: Install, user_of: UserOf, podfit: Podfit) -> None:
    """With reinvocation, as after any other mutating webhook, the second sees what the first did."""
    other = install(label=podfit.name)
    user = user_of(podfit)
    before = other.reviews(webhook="mutate", decision="patched") + podfit.reviews(webhook="mutate", decision="patched")
    user.write("llama-8b.yaml", without_shm(GOOD_POD))

    user.kubectl("apply -f llama-8b.yaml")

    stored = user.stored("pods", "llama-8b")
    assert stored
    assert [len(found) for found in shm(stored["spec"])] == [1, 1]
    after = other.reviews(webhook="mutate", decision="patched") + podfit.reviews(webhook="mutate", decision="patched")
    assert after == before + 1


def test_a_diff_of_a_new_pod_shows_the_patch_and_makes_nothing(user: User) -> None:
    user.write("llama-8b.yaml", without_shm(GOOD_POD))

    shown = user.kubectl("diff -f llama-8b.yaml", exits=1)

    added = [line[1:].strip() for line in shown.splitlines() if line.startswith("+")]
    assert added.count("- mountPath: /dev/shm") == 1
    assert added.count("medium: Memory") == 1
    assert user.listed("pods") == []


def test_a_workload_is_not_patched_but_refused_where_only_its_pods_would_be_repaired(
    user: User, golden: Golden
) -> None:
    user.write("llama-70b-without-shm.yaml", example("llama-70b-without-shm.yaml"))

    user.kubectl("apply -f llama-70b-without-shm.yaml", exits=1)

    golden(user.screen)


def test_the_server_patches_no_workload_even_where_it_is_sent_one(install: Install, user_of: UserOf) -> None:
    """The chart sends workloads to the mutating webhook only where the policy repairs them; this one sends them."""

    def send_workloads(webhook: JSONDict) -> None:
        del webhook["matchConditions"]
        if "reinvocationPolicy" in webhook:
            webhook["rules"].append(webhook["rules"][0] | {"apiGroups": ["apps"], "resources": ["deployments"]})

    user = user_of(install({"policy": {"spec": {"trustMutation": True}}}, change=send_workloads))
    user.write("llama-8b.yaml", deployment(without_shm(GOOD_POD)))

    user.kubectl("apply -f llama-8b.yaml")

    stored = user.stored("apps/deployments", "llama-8b")
    assert stored
    assert shm(stored["spec"]["template"]["spec"]) == ([], [])
    assert user.podfit.reviews(webhook="mutate", kind="Deployment", dry_run="false") == 1


def test_a_policy_that_repairs_workloads_does_so_once(install: Install, user_of: UserOf, golden: Golden) -> None:
    user = user_of(install({"policy": {"spec": AUTOFIX}}))
    user.write("llama-70b-without-shm.yaml", example("llama-70b-without-shm.yaml"))

    user.kubectl("apply -f llama-70b-without-shm.yaml")
    user.kubectl("apply -f llama-70b-without-shm.yaml")
    user.kubectl("diff -f llama-70b-without-shm.yaml")
    user.kubectl("scale deployment llama-70b --replicas=2")

    golden(user.screen)
    stored = user.stored("apps/deployments", "llama-70b")
    assert stored
    assert [len(found) for found in shm(stored["spec"]["template"]["spec"])] == [1, 1]


def test_server_side_apply_of_a_repaired_workload_has_no_conflict(install: Install, user_of: UserOf) -> None:
    user = user_of(install({"policy": {"spec": AUTOFIX}}))
    user.write("llama-8b.yaml", deployment(without_shm(GOOD_POD)))

    user.kubectl("apply --server-side -f llama-8b.yaml")
    user.kubectl("apply --server-side -f llama-8b.yaml")

    stored = user.stored("apps/deployments", "llama-8b")
    assert stored
    assert [len(found) for found in shm(stored["spec"]["template"]["spec"])] == [1, 1]


def test_without_the_mutating_webhook_nothing_is_changed(install: Install, user_of: UserOf) -> None:
    user = user_of(install({"webhooks": {"mutating": False}}))
    user.write("good.yaml", GOOD_POD)
    user.write("bare.yaml", without_shm(GOOD_POD))

    user.kubectl("apply -f good.yaml")
    user.kubectl("apply --dry-run=server -f bare.yaml", exits=1)

    stored = user.stored("pods", "llama-8b")
    assert stored
    assert shm(stored["spec"]) == ([], [])
