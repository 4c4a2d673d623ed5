"""Every kind that makes Pods, by every command that a user types: denied, warned about, patched."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.conftest import GOOD_POD
from tests.e2e import crds
from tests.e2e.controlplane import Cluster
from tests.e2e.manifests import named, workloads
from tests.e2e.process import until
from tests.e2e.release import Podfit, installed
from tests.e2e.test_patches import AUTOFIX
from tests.e2e.user import User
from tests.reviews import deployment, doomed, without_shm

JSONDict = dict[str, Any]
Golden = Callable[[str], None]
UserOf = Callable[[Podfit], User]
Install = Callable[..., Podfit]
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture(name="custom", scope="module")
def _custom(cluster: Cluster) -> Iterator[Callable[[JSONDict], list[JSONDict]]]:
    """An object of each custom kind around a Pod; their definitions are there until the module ends."""
    definitions = list(crds.definitions())
    made = []
    for definition in definitions:
        status, answer = cluster.call("POST", DEFINITIONS, definition)
        assert status in (201, 409), answer
        made += [definition] if status == 201 else []  # KEDA's another module may have brought

    def served() -> bool:
        return all(
            cluster.call("GET", f"/apis/{one['group']}/{one['versions'][0]['name']}/{one['names']['plural']}")[0] == 200
            for one in (definition["spec"] for definition in definitions)
        )

    until("the API server to know the kinds", served)
    yield lambda pod: [crds.around(group, kind, pod) for group, kind in crds.KINDS]
    for definition in made:
        cluster.call("DELETE", f"{DEFINITIONS}/{definition['metadata']['name']}")


def warned(pod: JSONDict) -> JSONDict:
    """The Pod without a limit on memory: worth a warning."""
    pod = copy.deepcopy(pod)
    del pod["spec"]["containers"][0]["resources"]["limits"]["memory"]
    return pod


def test_kubernetes_own_kinds_are_refused_each_with_its_own_field(user: User, golden: Golden) -> None:
    kinds = workloads(doomed(GOOD_POD))
    user.write("kinds.yaml", *kinds.values())

    user.kubectl("apply -f kinds.yaml", exits=1)

    golden(user.screen)
    assert not [name for resource in kinds for name in user.listed(resource)]


def test_kubernetes_own_kinds_are_warned_of_and_made(user: User, golden: Golden) -> None:
    user.write("kinds.yaml", *workloads(warned(GOOD_POD)).values())

    user.kubectl("apply -f kinds.yaml")

    golden(user.screen)


def test_kubernetes_own_kinds_are_made_without_a_word_where_they_are_good(user: User) -> None:
    kinds = workloads(GOOD_POD)
    user.write("kinds.yaml", *kinds.values())

    shown = user.kubectl("apply -f kinds.yaml")

    assert "Warning" not in shown
    assert shown.count(" created\n") == len(kinds)


def test_custom_kinds_are_refused_or_where_operators_complete_them_warned_of(
    custom: Callable[[JSONDict], list[JSONDict]], user: User, golden: Golden
) -> None:
    user.write("custom.yaml", *(one for one in custom(doomed(GOOD_POD))))

    user.kubectl("apply --dry-run=server -f custom.yaml", exits=1)

    golden(user.screen)


def test_custom_kinds_are_made_where_they_are_good(custom: Callable[[JSONDict], list[JSONDict]], user: User) -> None:
    objects = custom(GOOD_POD)
    user.write("custom.yaml", *objects)

    shown = user.kubectl("apply --dry-run=server -f custom.yaml")

    assert shown.count(" created (server dry run)\n") == len(objects)


def test_every_kind_is_patched_where_a_policy_says_so(
    custom: Callable[[JSONDict], list[JSONDict]], install: Install, user_of: UserOf, golden: Golden
) -> None:
    user = user_of(install({"policy": {"spec": AUTOFIX}}))
    bare = warned(without_shm(GOOD_POD))
    user.write("kinds.yaml", *workloads(bare).values())
    user.write("custom.yaml", *custom(bare))

    user.kubectl("apply --dry-run=server -f kinds.yaml")
    user.kubectl("apply --dry-run=server -f custom.yaml")

    golden(user.screen)


def test_what_belongs_to_serving_and_makes_no_pods_is_never_sent(
    custom: object, install: Install, user_of: UserOf
) -> None:
    user = user_of(install())
    before = user.podfit.reviews()
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "vllm"}
    scaled = {
        "scaleTargetRef": target,
        "triggers": [{"type": "prometheus", "metadata": {"query": "vllm:num_requests"}}],
    }
    user.write(
        "beside.yaml",
        {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": "vllm"}, "spec": scaled},
        {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "vllm"},
            "spec": {"scaleTargetRef": target, "maxReplicas": 2},
        },
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "vllm"}, "spec": {"ports": [{"port": 8000}]}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "vllm"}, "data": {"a": "vllm serve"}},
    )

    user.kubectl("apply -f beside.yaml")

    assert user.podfit.reviews() == before


def test_a_name_that_the_api_server_makes_up_is_shown_as_far_as_it_is_known(user: User, golden: Golden) -> None:
    for resource in ("pods", "batch/jobs"):
        made = workloads(doomed(GOOD_POD))[resource]
        made["metadata"] = {"generateName": "llama-8b-"}
        user.write(f"{made['kind'].lower()}.yaml", made)

    user.kubectl("create -f pod.yaml", exits=1)
    user.kubectl("create -f job.yaml", exits=1)

    golden(user.screen)


def test_every_way_of_changing_a_good_deployment_for_the_worse_is_refused(user: User, golden: Golden) -> None:
    user.write("llama-8b.yaml", deployment(GOOD_POD))
    user.write("worse.yaml", deployment(doomed(GOOD_POD)))
    user.kubectl("apply -f llama-8b.yaml")
    until("the controller to have written its status", lambda: is_settled(user, "llama-8b"))

    user.kubectl("replace -f worse.yaml", exits=1)
    user.kubectl("apply --server-side --force-conflicts -f worse.yaml", exits=1)
    user.kubectl("set resources deployment llama-8b --limits=memory=512Mi", exits=1)
    user.kubectl("set image deployment llama-8b vllm=vllm/vllm-openai:v0.27.1")  # nothing changes
    user.kubectl("set env deployment llama-8b VLLM_LOGGING_LEVEL=DEBUG")
    user.kubectl("autoscale deployment llama-8b --max=2 --min=1 --cpu-percent=80")
    user.kubectl("delete deployment llama-8b")

    golden(user.screen)


def is_settled(user: User, name: str) -> bool:
    """No controller writes the Deployment any more, so that `kubectl replace` meets no newer version of it."""
    path = f"/apis/apps/v1/namespaces/{user.namespace}/deployments/{name}"
    status = user.cluster.call("GET", path)[1].get("status", {})
    written = status.get("updatedReplicas") == 1 and len(status.get("conditions", ())) > 1
    return written or not user.cluster.controllers


@pytest.fixture(name="watching", scope="module")
def _watching(cluster: Cluster) -> Iterator[Podfit]:
    """podfit that sees revisions."""
    with installed(cluster, "podfit-revisions", reads=True) as podfit:
        yield podfit


def rolled_out(user: User, kind: str) -> None:
    """A workload that was bad before podfit came, and is good now."""
    if not user.cluster.controllers:
        pytest.skip("there is no kube-controller-manager in $KUBEBUILDER_ASSETS")
    plural = f"apps/{kind}s"
    revisions = {"deployment": "apps/replicasets", "statefulset": "apps/controllerrevisions"}[kind]
    user.write("llama-8b.yaml", named(workloads(doomed(GOOD_POD))[plural], "llama-8b"))
    with user.before_podfit():
        user.kubectl("apply -f llama-8b.yaml")
        until("the first revision", lambda: user.listed(revisions))
    user.write("llama-8b.yaml", named(workloads(GOOD_POD)[plural], "llama-8b"))
    user.kubectl("apply -f llama-8b.yaml")
    until("the second revision", lambda: len(user.listed(revisions)) == 2)


@pytest.mark.parametrize("kind", ["deployment", "statefulset"])
def test_a_roll_back_to_what_is_seen_passes_with_a_warning(
    kind: str, watching: Podfit, user_of: UserOf, golden: Golden
) -> None:
    user = user_of(watching)
    rolled_out(user, kind)
    resource = {"deployment": "replicasets", "statefulset": "controllerrevisions"}[kind]
    until("podfit to see revisions", lambda: any(line.startswith(f"{resource}: ") and not line.startswith(
        (f"{resource}: 0", f"{resource}: not")) for line in watching.ready()[1]))  # fmt: skip

    user.kubectl(f"rollout undo {kind} llama-8b")

    golden(user.screen)
    stored = user.stored(f"apps/{kind}s", "llama-8b")
    assert stored
    assert "--no-such-flag" in stored["spec"]["template"]["spec"]["containers"][0]["args"]


def test_a_roll_back_to_what_is_not_seen_is_an_update_like_any_other(user: User, golden: Golden) -> None:
    rolled_out(user, "deployment")

    user.kubectl("rollout undo deployment llama-8b", exits=1)

    golden(user.screen)
