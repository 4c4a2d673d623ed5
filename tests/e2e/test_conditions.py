"""The chart's match conditions on the oldest and the newest API server: what is sent, and that no object is too large.

podfit is registered with `failurePolicy: Fail` and has ended. An object that is sent is rejected, one that is not sent
is created. A condition that fails, by its cost or otherwise, rejects the object with another error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from podfit.kube.workload.controller import BUILT_IN_GROUPS
from tests.conftest import GOOD_POD
from tests.e2e.controlplane import Cluster
from tests.e2e.release import Podfit, installed
from tests.kube.test_controller import BELIEVED, LEADER, NOT_BELIEVED, owned

JSONDict = dict[str, Any]
Make = Callable[[int], JSONDict]
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

CONTAINERS, WORDS, CHARACTERS, VARIABLES = 100, 2_000, 400_000, 2_000
"""So much of an object is read: containers, items of `command` and `args`, characters of them, variables."""
MOST_CONTAINERS = 5_000
"""In so many containers accelerators, images and variables are looked for."""
IMAGE, NAME, RESOURCES = 500, 100, 16
"""Characters of an image and of a name, and resources of a container, that are looked at."""


@pytest.fixture(name="podfit", scope="module", params=["oldest", "cluster"], ids=["oldest", "newest"])
def _podfit(request: pytest.FixtureRequest) -> Iterator[Podfit]:
    """A podfit that has ended: whatever is sent to it is rejected."""
    cluster: Cluster = request.getfixturevalue(request.param)
    with installed(cluster, "podfit-conditions", {"webhooks": {"failurePolicy": "Fail"}}) as podfit:
        podfit.gone()
        yield podfit
        assert not _errors(cluster), "a condition failed"


def _errors(cluster: Cluster) -> list[str]:
    """What the API server has counted of conditions that failed, of podfit's webhooks."""
    status, text = cluster.call("GET", "/metrics")
    assert status == 200
    name = "apiserver_admission_match_condition_evaluation_errors_total"
    return [line for line in str(text).splitlines() if line.startswith(f"{name}{{") and ".podfit.dev" in line]


def sent(podfit: Podfit, obj: JSONDict, resource: str = "pods", user: str | None = None) -> bool:
    """Whether the API server sends an object to podfit that the user (default: the administrator) creates."""
    group, _, plural = resource.rpartition("/")
    path = f"/{f'apis/{group}' if group else 'api'}/v1/namespaces/{podfit.name}-probe/{plural}?dryRun=All"
    status, answer = podfit.cluster.call("POST", path, obj, impersonated=user)
    if status == 201:
        return False
    message = str(answer.get("message"))
    assert re.search(r'failed calling webhook "\w+\.podfit\.dev"', message), message
    return True


def container(number: int = 0, **fields: Any) -> JSONDict:
    """A container that is none of podfit's business."""
    return {"name": f"c{number}", "image": "registry.example.com/team/sidecar:1.0", **fields}


def pod(*containers: JSONDict, **spec: Any) -> JSONDict:
    """A Pod of these containers."""
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": containers, **spec}}


def many(count: int, *last: JSONDict, **fields: Any) -> list[JSONDict]:
    """So many containers, the last of them `last`."""
    return [*(container(number, **fields) for number in range(count - len(last))), *last]


MENTIONS = container(9_999, args=["--max-model-len", "8192"])
"""A container that says vLLM nowhere but in its arguments."""
NAMED: dict[str, JSONDict] = {
    "a GPU": container(9_999, resources={"limits": {"nvidia.com/gpu": "1"}}),
    "another accelerator": container(9_999, resources={"limits": {"amd.com/gpu": "1"}}),
    "an image": container(9_999, image="docker.io/vllm/vllm-openai:v0.11.0"),
    "a variable": container(9_999, env=[{"name": "VLLM_LOGGING_LEVEL", "value": "INFO"}]),
}
"""What a container has that is sent from an object that is too large to be read."""
GUARDS: dict[str, tuple[int, Callable[[int, JSONDict], JSONDict]]] = {
    "containers": (CONTAINERS, lambda n, last: pod(*many(n, last))),
    "containers with init containers": (
        CONTAINERS, lambda n, last: pod(container(), initContainers=many(n, last)[1:])),
    "words": (
        WORDS, lambda n, last: pod(container(args=["x"] * (n - 1 - len(last.get("args", ()))), command=["x"]), last)),
    "characters": (
        CHARACTERS,
        lambda n, last: pod(container(args=["x" * (n - 1 - sum(map(len, last.get("args", ())))), "é"]), last)),
    "variables": (
        VARIABLES,
        lambda n, last: pod(container(env=[{"name": "X"}] * (n - len(last.get("env", ())))), last)),
}  # fmt: skip
"""What is counted → the most of it in an object that is read, and a Pod with n of it and a last container."""


@pytest.mark.parametrize("guard", GUARDS)
def test_words_are_read_up_to_each_guard_and_no_further(guard: str, podfit: Podfit) -> None:
    most, made = GUARDS[guard]

    assert [sent(podfit, made(n, MENTIONS)) for n in (most - 1, most, most + 1)] == [True, True, False]


@pytest.mark.parametrize("guard", GUARDS)
def test_a_stranger_is_sent_on_no_side_of_a_guard(guard: str, podfit: Podfit) -> None:
    most, made = GUARDS[guard]

    assert [sent(podfit, made(n, container(9_999))) for n in (most - 1, most, most + 1, 2 * most)] == [False] * 4


@pytest.mark.parametrize("named", NAMED)
@pytest.mark.parametrize("guard", GUARDS)
def test_beyond_a_guard_what_asks_for_an_accelerator_or_names_vllm_is_sent(
    guard: str, named: str, podfit: Podfit
) -> None:
    most, made = GUARDS[guard]
    if (guard, named) == ("variables", "a variable"):
        assert sent(podfit, pod(*many(3, NAMED[named], env=[{"name": "X"}] * VARIABLES)))
    else:
        assert [sent(podfit, made(n, NAMED[named])) for n in (most + 1, 2 * most)] == [True, True]


@pytest.mark.parametrize("guard", GUARDS)
def test_beyond_a_guard_what_has_a_claim_is_sent(guard: str, podfit: Podfit) -> None:
    most, made = GUARDS[guard]
    claimed = made(most + 1, container(9_999))
    claimed["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]

    assert sent(podfit, claimed)


@pytest.mark.parametrize("named", NAMED)
def test_five_thousand_containers_are_looked_through_and_no_more(named: str, podfit: Podfit) -> None:
    numbers = (MOST_CONTAINERS - 1, MOST_CONTAINERS, MOST_CONTAINERS + 1)

    assert [sent(podfit, pod(*many(n, NAMED[named]))) for n in numbers] == [True, True, False]


def test_five_thousand_containers_of_a_stranger_are_not_sent(podfit: Podfit) -> None:
    numbers = (MOST_CONTAINERS - 1, MOST_CONTAINERS, MOST_CONTAINERS + 1)

    assert [sent(podfit, pod(*many(n))) for n in numbers] == [False] * 3
    claims = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
    assert sent(podfit, pod(*many(MOST_CONTAINERS + 1), resourceClaims=claims))


def image(length: int) -> JSONDict:
    """A container whose image has so many characters, the last ones vllm."""
    return container(image="i" * (length - 4) + "vllm")


def variable(length: int) -> JSONDict:
    """A container with a variable of so many characters."""
    return container(env=[{"name": "VLLM_" + "A" * (length - 5)}])


def resources(count: int) -> JSONDict:
    """A container with so many resources, one of which is an accelerator."""
    limits = {f"example.com/x{number}": "1" for number in range(count - 1)}
    return container(resources={"limits": {**limits, "amd.com/gpu": "1"}})


def resource(length: int) -> JSONDict:
    """A container with an accelerator whose name has so many characters."""
    return container(resources={"limits": {f"amd.com/{'x' * 40}{'y' * (length - 48)}": "1"}})


@pytest.mark.parametrize(("made", "most"), [(image, IMAGE), (variable, NAME)])
def test_what_is_no_name_for_its_length_is_not_looked_at(
    made: Callable[[int], JSONDict], most: int, podfit: Podfit
) -> None:
    for beside in ([], many(CONTAINERS)):
        assert [sent(podfit, pod(*beside, made(n) | {"name": "last"})) for n in (most - 1, most, most + 1)] == [
            True, True, False,
        ]  # fmt: skip


def test_so_many_resources_of_a_container_are_looked_at(podfit: Podfit) -> None:
    numbers = (RESOURCES - 1, RESOURCES, RESOURCES + 1)

    assert [sent(podfit, pod(*many(CONTAINERS), resources(n) | {"name": "last"})) for n in numbers] == [
        True, True, False,
    ]  # fmt: skip


def worst() -> dict[str, JSONDict]:
    """Objects of a stranger, each with as much as possible of what a condition reads.

    All but those with an image or a name of megabytes are valid: of some thousand errors an API server itself makes
    minutes.
    """
    long = {"image": "i" * IMAGE}
    one = {"resources": {"limits": {f"{'a' * 35}.b/{'c' * 62}": "1"}}, "env": [{"name": "n" * NAME}]}
    return {
        "one word": pod(container(args=["x" * 2_500_000])),
        "one image": pod(container(image="x" * 2_900_000)),
        "one variable": pod(container(env=[{"name": "x" * 2_900_000}])),
        "150,000 words": pod(container(args=["x"] * 150_000)),
        "500,000 words": pod(container(command=["x"] * 250_000, args=["x"] * 250_000)),
        "100,000 variables": pod(container(env=[{"name": "X"}] * 100_000)),
        "20,000 resources": pod(container(resources={"limits": {f"a.b/{n}": "1" for n in range(20_000)}})),
        "annotations": {
            **pod(container()), "metadata": {"name": "a", "annotations": {f"a/{n}": "x" * 100 for n in range(20_000)}}},
        "20,000 containers": pod(*many(20_000)),
        "the costliest that is read": pod(
            *many(CONTAINERS, **long, args=["_" * 200] * 20, env=[{"name": "n" * NAME}] * 20)),
        "the costliest that is looked through": pod(*many(MOST_CONTAINERS - 1_600, **{**long, **one})),
        "many small lists": pod(*many(312, **long, env=[{"name": "n" * NAME}] * 16, resources={
            "limits": {f"{'a' * 35}.b/{'c' * 60}{n:02}": "1" for n in range(16)}})),
    }  # fmt: skip


@pytest.mark.parametrize("kind", worst())
def test_no_object_is_too_costly_for_the_conditions(kind: str, podfit: Podfit) -> None:
    """The API server rejects some in the end, since they are not valid; never for a condition, and never by podfit."""
    body = worst()[kind]
    path = f"/api/v1/namespaces/{podfit.name}-probe/pods?dryRun=All"

    status, answer = podfit.cluster.call("POST", path, body)

    assert status in (201, 422), str(answer)[:500]
    assert "podfit" not in str(answer.get("message"))
    assert status == 201 or answer["reason"] == "Invalid"


@pytest.mark.parametrize("resource", ["apps/deployments", "batch/cronjobs", "podtemplates", "replicationcontrollers"])
def test_templates_are_read_as_pods_are(resource: str, podfit: Podfit) -> None:
    from tests.e2e.manifests import workloads

    def made(*containers: JSONDict) -> JSONDict:
        return workloads(pod(*containers))[resource]

    assert sent(podfit, made(MENTIONS), resource)
    assert sent(podfit, made(*many(CONTAINERS, MENTIONS)), resource)
    assert not sent(podfit, made(container()), resource)
    assert not sent(podfit, made(*many(CONTAINERS + 1, MENTIONS)), resource)
    assert sent(podfit, made(*many(MOST_CONTAINERS, NAMED["a GPU"])), resource)
    assert not sent(podfit, made(*many(MOST_CONTAINERS)), resource)


SENT: dict[str, JSONDict] = {
    "its image": {"image": "vllm/vllm-openai:v0.11.0"},
    "its image in capitals": {"image": "registry.example.com/serving:VLLM-0.11"},
    "llm-d": {"image": "ghcr.io/llm-d/llm-d-cuda:v0.4.0"},
    "KServe's server": {"image": "kserve/huggingfaceserver:v0.15-gpu"},
    "its command": {"command": ["vllm", "serve", "facebook/opt-125m"]},
    "its module": {"command": ["python3"], "args": ["-m", "vllm.entrypoints.openai.api_server"]},
    "a script": {"command": ["sh", "-c", "exec python -m VLLM.entrypoints.openai.api_server"]},
    "a flag": {"args": ["--max-model-len=8192"]},
    "another flag": {"args": ["--model", "a", "--gpu-memory-utilization", "0.9"]},
    "a flag with underscores": {"args": ["--max_model_len", "8192"]},
    "another flag with underscores": {"args": ["--gpu_memory_utilization=0.9"]},
    "a flag with both": {"args": ["--max_model-len=8192"]},
    "flags in a script": {"command": ["bash", "-c", "/app/serve --max_model_len 8192"]},
    "a variable": {"env": [{"name": "VLLM_ATTENTION_BACKEND", "value": "FLASHINFER"}]},
}
NOT_SENT: dict[str, JSONDict] = {
    "a name in two words": {"args": ["v", "llm", "--max", "-model-len"]},
    "a name in command and args": {"command": ["v"], "args": ["llm"]},
    "a URL in a variable": {"env": [{"name": "OPENAI_API_BASE_URL", "value": "http://vllm.chat:8000/v1"}]},
    "its name in quotes": {"command": ["sh", "-c", "exec v''llm serve m"]},
    "a command in a variable": {"command": ["sh", "-c", "$COMMAND"], "env": [{"name": "COMMAND", "value": "vllm"}]},
}
"""What the conditions don't see, as docs/security.md says."""


@pytest.mark.parametrize("mention", SENT)
def test_what_mentions_vllm_is_sent(mention: str, podfit: Podfit) -> None:
    assert sent(podfit, pod(container(**SENT[mention])))
    assert sent(podfit, pod(container(1), initContainers=[container(2, **SENT[mention])]))


@pytest.mark.parametrize("mention", NOT_SENT)
def test_what_does_not_mention_it_is_not_sent(mention: str, podfit: Podfit) -> None:
    assert not sent(podfit, pod(container(**NOT_SENT[mention])))


RESOURCE = {"Deployment": "apps/deployments", "ReplicaSet": "apps/replicasets", "Job": "batch/jobs",
            "StatefulSet": "apps/statefulsets", "CronJob": "batch/cronjobs",
            "ReplicationController": "replicationcontrollers", "PodTemplate": "podtemplates"}  # fmt: skip


def child(kind: str, owner: str, **metadata: Any) -> JSONDict:
    """A vLLM workload of Kubernetes' own kind, controlled by the owner."""
    from tests.e2e.manifests import workloads

    made = workloads(GOOD_POD)[RESOURCE[kind]]
    made["metadata"] |= owned(f"{made['apiVersion']} {kind}", owner, **metadata)["metadata"]
    return made


OURS = ("v1 Pod", "ray.io/v1 RayCluster", "batch.volcano.sh/v1alpha1 Job")
"""Children that are always sent, or whose kinds this API server does not know."""


OPERATOR = "system:serviceaccount:operators:operator"
"""A controller, by its name."""
CONTROLLERS = (
    OPERATOR, "system:serviceaccount:kube-system:deployment-controller", "system:kube-controller-manager",
)  # fmt: skip
AUTHORS = (
    "jane@example.com", "kubernetes-admin", "arn:aws:iam::1:role/ci", "oidc:system:serviceaccount:kube-system:a",
    "System:kube-controller-manager",
)  # fmt: skip
"""Users whose names do not begin with the prefix that Kubernetes reserves."""


@pytest.mark.parametrize(("made", "owner"), [row for row in BELIEVED if row[0].split()[1] in RESOURCE])
def test_what_a_controller_made_is_not_sent(made: str, owner: str, podfit: Podfit) -> None:
    kind = made.split()[1]

    assert not sent(podfit, child(kind, owner), RESOURCE[kind], OPERATOR)


@pytest.mark.parametrize("owner", ["example.com/v1 Anything", "serving.kserve.io/v1beta1 InferenceService"])
def test_an_author_cannot_hide_a_workload_by_an_owner(owner: str, podfit: Podfit) -> None:
    obj = child("Deployment", owner)

    assert [sent(podfit, obj, RESOURCE["Deployment"], user) for user in AUTHORS] == [True] * len(AUTHORS)
    assert [sent(podfit, obj, RESOURCE["Deployment"], user) for user in CONTROLLERS] == [False] * len(CONTROLLERS)


@pytest.mark.parametrize(("kind", "owner"), [("ReplicaSet", "apps/v1 Deployment"), ("Job", "batch/v1 CronJob")])
def test_nor_by_an_owner_of_kubernetes_own_kinds(kind: str, owner: str, podfit: Podfit) -> None:
    assert sent(podfit, child(kind, owner), RESOURCE[kind], AUTHORS[0])


def test_a_service_account_of_the_objects_own_namespace_cannot_hide_a_workload(podfit: Podfit) -> None:
    """A tenant can use it. One of a namespace whose name only begins alike is a stranger's."""
    obj, own = child("Deployment", "example.com/v1 Anything"), f"{podfit.name}-probe"

    assert sent(podfit, obj, RESOURCE["Deployment"], f"system:serviceaccount:{own}:default")
    assert not sent(podfit, obj, RESOURCE["Deployment"], f"system:serviceaccount:{own}-2:default")


@pytest.mark.parametrize(("made", "owner"), [row for row in NOT_BELIEVED if row[0] not in OURS])
def test_what_a_kind_controls_that_never_makes_it_is_sent(made: str, owner: str, podfit: Podfit) -> None:
    kind = made.split()[1]

    assert sent(podfit, child(kind, owner), RESOURCE[kind], OPERATOR)


def test_the_workers_of_a_leader_worker_set_are_not_sent(podfit: Podfit) -> None:
    obj = child("StatefulSet", "v1 Pod", labels=LEADER)

    assert not sent(podfit, obj, RESOURCE["StatefulSet"], "system:serviceaccount:lws-system:lws-controller-manager")
    assert sent(podfit, obj, RESOURCE["StatefulSet"], AUTHORS[0])


def test_any_number_of_owner_references_is_read(podfit: Podfit) -> None:
    """Beyond a hundred none is believed; an API server takes one controller only."""
    obj = child("Deployment", "argoproj.io/v1alpha1 Rollout")
    (controller,) = obj["metadata"]["ownerReferences"]
    other = {**controller, "controller": False}

    def with_others(count: int) -> bool:
        obj["metadata"]["ownerReferences"] = [*({**other, "uid": f"u{n}"} for n in range(count - 1)), controller]
        return sent(podfit, obj, RESOURCE["Deployment"], OPERATOR)

    assert [with_others(count) for count in (99, 100, 101, 20_000)] == [False, False, True, True]


def test_every_group_that_kubernetes_serves_is_known(podfit: Podfit) -> None:
    """A new one would be taken for an operator's."""
    served = {group["name"] for group in podfit.cluster.call("GET", "/apis")[1]["groups"]}
    custom = {crd["spec"]["group"] for crd in podfit.cluster.call("GET", CRDS)[1]["items"]}

    assert served - custom <= BUILT_IN_GROUPS


NULLS = ("containers", "initContainers", "volumes", "nodeSelector")


def test_conditions_stand_what_is_null_absent_or_odd(podfit: Podfit) -> None:
    bare: JSONDict = {"name": "a", "image": "nginx:1.29", "args": None, "command": None, "env": None, "resources": None}
    pods: list[JSONDict] = [
        {"metadata": {"name": "a", "annotations": None, "labels": None}, "spec": {"containers": [bare]}},
        {"metadata": {"name": "b"}, "spec": dict.fromkeys(NULLS)},
        {"metadata": {"name": "c"}, "spec": None},
        {"metadata": {"name": "d", "ownerReferences": []}, "spec": {"containers": [{"name": "a", "image": None}]}},
        {"metadata": {"name": "e", "ownerReferences": None}, "spec": {"containers": [{}, {}]}},
        {"metadata": {"name": "f"}, "spec": {"containers": [{"env": [{}], "args": [None], "resources": {}}]}},
    ]
    answers = []
    for one in pods:
        metadata, template = one["metadata"], {"spec": one["spec"]}
        for path, body in (
            ("api/v1/namespaces/{}/pods", one),
            ("api/v1/namespaces/{}/podtemplates", {"metadata": metadata, "template": template}),
            ("apis/apps/v1/namespaces/{}/deployments", {"metadata": metadata, "spec": {"template": template}}),
            ("apis/batch/v1/namespaces/{}/cronjobs", {"metadata": metadata, "spec": {"jobTemplate": {
                "spec": {"template": template}}}}),
            ("apis/apps/v1/namespaces/{}/deployments", {"metadata": metadata, "spec": None}),
            ("api/v1/namespaces/{}/replicationcontrollers", {"metadata": metadata, "spec": {"template": None}}),
        ):  # fmt: skip
            where = path.format(f"{podfit.name}-probe")
            answers.append(podfit.cluster.call("POST", f"/{where}?dryRun=All", body))

    assert answers[0][0] == 201, answers[0]
    assert {status for status, _ in answers} <= {201, 422}
    assert not [answer for _, answer in answers if "podfit" in str(answer.get("message"))]
