"""Every kind that makes Pods: where its Pod templates are, which containers they have, what its operator completes."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from podfit.kube.manifest.parameters import variable
from podfit.kube.path import FieldPath
from podfit.kube.workload import Workload, find, unread
from podfit.kube.workload.table import WORKLOAD_KINDS

PROPERTY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

POD = {"containers": [{"name": "vllm"}], "initContainers": [{"name": "fetch"}]}
TEMPLATE = {"metadata": {"labels": {"app": "llm"}}, "spec": POD}


def found(text: str) -> list[Workload]:
    return find(yaml.safe_load(text))


def places(workloads: list[Workload]) -> list[tuple[str, str]]:
    return [(one.name, str(one.path)) for workload in workloads for one in workload.containers]


def ray(at: str) -> dict[str, Any]:
    cluster: dict[str, Any] = {
        "headGroupSpec": {"template": TEMPLATE},
        "workerGroupSpecs": [{"replicas": 2, "template": TEMPLATE}],
    }
    for part in reversed(at.split(".")):
        cluster = {part: cluster}
    return cluster


GROUP = {"size": 2, "leaderTemplate": TEMPLATE, "workerTemplate": TEMPLATE}
ROLES = {"roles": [{"name": "prefill", "replicas": 1, "template": TEMPLATE}, {"name": "decode", "template": TEMPLATE}]}
LLM = {"template": POD, "worker": POD, "prefill": {"template": POD, "worker": POD}}


@pytest.mark.parametrize(
    ("api_version", "kind", "body", "specs"),
    [
        ("v1", "Pod", {"spec": POD}, ["spec"]),
        ("v1", "PodTemplate", {"template": TEMPLATE}, ["template.spec"]),
        ("v1", "ReplicationController", {"spec": {"template": TEMPLATE}}, ["spec.template.spec"]),
        ("apps/v1", "Deployment", {"spec": {"template": TEMPLATE}}, ["spec.template.spec"]),
        ("apps/v1", "StatefulSet", {"spec": {"template": TEMPLATE}}, ["spec.template.spec"]),
        ("apps/v1", "DaemonSet", {"spec": {"template": TEMPLATE}}, ["spec.template.spec"]),
        ("apps/v1", "ReplicaSet", {"spec": {"template": TEMPLATE}}, ["spec.template.spec"]),
        ("batch/v1", "Job", {"spec": {"template": TEMPLATE}}, ["spec.template.spec"]),
        (
            "batch/v1",
            "CronJob",
            {"spec": {"jobTemplate": {"spec": {"template": TEMPLATE}}}},
            ["spec.jobTemplate.spec.template.spec"],
        ),
        ("argoproj.io/v1alpha1", "Rollout", {"spec": {"template": TEMPLATE}}, ["spec.template.spec"]),
        (
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            {"spec": {"replicatedJobs": [{"template": {"spec": {"template": TEMPLATE}}}]}},
            ["spec.replicatedJobs[0].template.spec.template.spec"],
        ),
        (
            "leaderworkerset.x-k8s.io/v1",
            "LeaderWorkerSet",
            {"spec": {"leaderWorkerTemplate": GROUP}},
            [
                "spec.leaderWorkerTemplate.leaderTemplate.spec",
                "spec.leaderWorkerTemplate.workerTemplate.spec",
            ],
        ),
        (
            "batch.volcano.sh/v1alpha1",
            "Job",
            {"spec": {"tasks": [{"replicas": 1, "template": TEMPLATE}]}},
            ["spec.tasks[0].template.spec"],
        ),
        ("apps.kruise.io/v1alpha1", "CloneSet", {"spec": {"template": TEMPLATE}}, ["spec.template.spec"]),
        ("apps.kruise.io/v1beta1", "StatefulSet", {"spec": {"template": TEMPLATE}}, ["spec.template.spec"]),
        (
            "grove.io/v1alpha1",
            "PodCliqueSet",
            {"spec": {"template": {"cliques": [{"name": "decode", "spec": {"podSpec": POD}}]}}},
            ["spec.template.cliques[0].spec.podSpec"],
        ),
        (
            "workload.serving.volcano.sh/v1alpha1",
            "ModelServing",
            {"spec": {"template": {"roles": [{"entryTemplate": TEMPLATE, "workerTemplate": TEMPLATE}]}}},
            ["spec.template.roles[0].entryTemplate.spec", "spec.template.roles[0].workerTemplate.spec"],
        ),
        (
            "nvidia.com/v1beta1",
            "DynamoGraphDeployment",
            {"spec": {"components": [{"name": "worker", "podTemplate": TEMPLATE}]}},
            ["spec.components[0].podTemplate.spec"],
        ),
        ("serving.knative.dev/v1", "Service", {"spec": {"template": TEMPLATE}}, ["spec.template.spec"]),
        (
            "serving.kserve.io/v1beta1",
            "InferenceService",
            {"spec": {"predictor": {**POD, "workerSpec": POD}}},
            ["spec.predictor", "spec.predictor.workerSpec"],
        ),
        (
            "serving.kserve.io/v1alpha1",
            "ServingRuntime",
            {"spec": {**POD, "workerSpec": POD}},
            ["spec", "spec.workerSpec"],
        ),
        ("serving.kserve.io/v1alpha1", "ClusterServingRuntime", {"spec": POD}, ["spec"]),
        (
            "serving.kserve.io/v1alpha2",
            "LLMInferenceService",
            {"spec": LLM},
            ["spec.template", "spec.worker", "spec.prefill.template", "spec.prefill.worker"],
        ),
        ("serving.kserve.io/v1alpha2", "LLMInferenceServiceConfig", {"spec": {"template": POD}}, ["spec.template"]),
        (
            "ray.io/v1",
            "RayCluster",
            ray("spec"),
            ["spec.headGroupSpec.template.spec", "spec.workerGroupSpecs[0].template.spec"],
        ),
        (
            "ray.io/v1",
            "RayJob",
            ray("spec.rayClusterSpec"),
            [
                "spec.rayClusterSpec.headGroupSpec.template.spec",
                "spec.rayClusterSpec.workerGroupSpecs[0].template.spec",
            ],
        ),
        (
            "ray.io/v1",
            "RayService",
            ray("spec.rayClusterConfig"),
            [
                "spec.rayClusterConfig.headGroupSpec.template.spec",
                "spec.rayClusterConfig.workerGroupSpecs[0].template.spec",
            ],
        ),
        (
            "orchestration.aibrix.ai/v1alpha1",
            "RayClusterFleet",
            ray("spec.template.spec"),
            [
                "spec.template.spec.headGroupSpec.template.spec",
                "spec.template.spec.workerGroupSpecs[0].template.spec",
            ],
        ),
        (
            "orchestration.aibrix.ai/v1alpha1",
            "StormService",
            {"spec": {"template": {"spec": ROLES}}},
            ["spec.template.spec.roles[0].template.spec", "spec.template.spec.roles[1].template.spec"],
        ),
        (
            "orchestration.aibrix.ai/v1alpha1",
            "RoleSet",
            {"spec": ROLES},
            ["spec.roles[0].template.spec", "spec.roles[1].template.spec"],
        ),
        (
            "nvidia.com/v1alpha1",
            "DynamoGraphDeployment",
            {"spec": {"services": {"Worker": {"extraPodSpec": POD}}}},
            ["spec.services.Worker.extraPodSpec"],
        ),
        ("kaito.sh/v1beta1", "Workspace", {"inference": {"template": TEMPLATE}}, ["inference.template.spec"]),
        (
            "inference.llmaz.io/v1alpha1",
            "Service",
            {"spec": {"workloadTemplate": GROUP}},
            ["spec.workloadTemplate.leaderTemplate.spec", "spec.workloadTemplate.workerTemplate.spec"],
        ),
    ],
)
def test_a_kind_s_pod_templates_and_their_containers(
    api_version: str, kind: str, body: dict[str, Any], specs: list[str]
) -> None:
    obj = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}, **body}
    workloads = find(obj)

    assert [str(one.path) for one in workloads] == specs
    for one, spec in zip(workloads, specs, strict=True):
        assert (one.kind, one.name) == (kind, "a")
        own = [container for container in one.containers if container.name in ("vllm", "fetch")]
        assert [(container.name, str(container.path), container.init) for container in own] == [
            ("vllm", f"{spec}.containers[0]", False),
            ("fetch", f"{spec}.initContainers[0]", True),
        ]
        assert all(container.path.get(obj) == container.spec for container in own)


@pytest.mark.parametrize(
    "obj",
    [
        {"apiVersion": "v1", "kind": "Service", "spec": {"template": TEMPLATE}},  # Knative's has another group
        {"apiVersion": "v1", "kind": "ConfigMap", "data": {}},
        {"apiVersion": "example.com/v1", "kind": "Deployment", "spec": {"template": TEMPLATE}},
        {"kind": "Deployment", "spec": {"template": TEMPLATE}},
        {"apiVersion": "apps/v1", "kind": "Deployment"},
        {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "spec": {"workloadRef": {"name": "a"}}},
        {},
    ],
)
def test_other_objects_have_no_pod_templates(obj: dict[str, Any]) -> None:
    assert find(obj) == []


def test_a_policy_may_name_further_kinds() -> None:
    obj = {"apiVersion": "example.com/v1", "kind": "Fleet", "spec": {"pools": {"a": TEMPLATE}}}

    (workload,) = find(obj, {"Fleet.example.com": ["spec.pools.*.spec"]})
    assert str(workload.path) == "spec.pools.a.spec"


def test_the_items_of_lists_and_templates_are_found_at_their_places() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": POD}
    template = {"apiVersion": "template.openshift.io/v1", "kind": "Template", "objects": [{"kind": "Secret"}, pod]}
    workloads = find({"apiVersion": "v1", "kind": "List", "items": [pod, template]})

    assert [str(one.path) for one in workloads] == ["items[0].spec", "items[1].objects[1].spec"]
    assert [(one.kind, one.name) for one in workloads] == [("Pod", "a"), ("Pod", "a")]
    assert str(workloads[1].containers[0].path) == "items[1].objects[1].spec.containers[0]"


def test_metadata_is_the_template_s_and_the_object_s_where_there_is_no_template() -> None:
    (deployment,) = found("""
        apiVersion: apps/v1
        kind: Deployment
        metadata: {name: a, namespace: prod, annotations: {one: own, two: own}}
        spec: {template: {metadata: {annotations: {two: 2}}, spec: {}}}
    """)
    (runtime,) = found("""
        apiVersion: serving.kserve.io/v1alpha1
        kind: ServingRuntime
        metadata: {generateName: a-, annotations: {one: own}}
        spec: {containers: []}
    """)

    assert deployment.annotations == {"one": "own", "two": "2"}
    assert (deployment.name, deployment.namespace) == ("a", "prod")
    assert runtime.metadata["annotations"] == {"one": "own"}
    assert (runtime.name, runtime.namespace) == ("a-", None)


def test_what_a_controller_made_is_owned() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": True}
    pod: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"ownerReferences": [owner]}, "spec": POD}

    assert [one.owned for one in find(pod)] == [True]
    pod["metadata"] = {"ownerReferences": [{**owner, "kind": "Deployment"}]}
    assert [one.owned for one in find(pod)] == [False]


@pytest.mark.parametrize(
    ("body", "replicas"),
    [({}, None), ({"replicas": 3}, 3), ({"replicas": "${REPLICAS}"}, None), ({"replicas": True}, None)],
)
def test_replicas_are_what_the_object_says(body: dict[str, Any], replicas: int | None) -> None:
    (workload,) = find({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {**body, "template": TEMPLATE}})

    assert (workload.replicas, workload.pods_per_replica) == (replicas, 1)


@pytest.mark.parametrize(("size", "pods"), [(None, 1), (4, 4), ("2", 2), ("${SIZE}", None)])
def test_a_leader_worker_set_serves_with_size_pods(size: object, pods: int | None) -> None:
    body = {"replicas": 2, "leaderWorkerTemplate": {"workerTemplate": TEMPLATE, "size": size}}
    (workload,) = find({"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "spec": body})

    assert (workload.pods_per_replica, workload.replicas) == (pods, 2)


@pytest.mark.parametrize(
    ("groups", "more", "pods"),
    [
        ([], {}, 1),
        ([{"replicas": 2}], {}, 3),
        ([{"replicas": 2, "numOfHosts": 2}, {"replicas": 1}], {}, 6),
        ([{}], {}, None),
        ([{"replicas": 1}], {"enableInTreeAutoscaling": True}, None),
    ],
)
def test_a_ray_cluster_serves_with_its_head_and_workers(
    groups: list[dict[str, Any]], more: dict[str, Any], pods: int | None
) -> None:
    spec = {"headGroupSpec": {"template": TEMPLATE}, "workerGroupSpecs": groups, **more}
    (head,) = find({"apiVersion": "ray.io/v1", "kind": "RayCluster", "spec": spec})

    assert head.pods_per_replica == pods
    assert head.completes == {"shm", "startup-probe", "liveness-probe", "readiness-probe"}


def test_the_pods_of_a_job_set_work_together_unless_there_is_one() -> None:
    def job_set(*jobs: dict[str, Any]) -> list[int | None]:
        spec = {"replicatedJobs": [{**job, "template": {"spec": {"template": TEMPLATE}}} for job in jobs]}
        return [
            one.pods_per_replica
            for one in find({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "spec": spec})
        ]

    assert job_set({}) == [1]
    assert job_set({}, {}) == [None, None]
    assert job_set({"replicas": 2}) == [None]


RAY_SERVICE = """
apiVersion: ray.io/v1
kind: RayService
metadata: {name: a}
spec:
  serveConfigV2: |
    applications:
    - name: llm
      import_path: ray.serve.llm:build_openai_app
      args:
        llm_configs:
        - model_loading_config: {model_id: mine, model_source: acme/big-7b}
          engine_kwargs:
            tensor_parallel_size: 2
            enable_prefix_caching: true
            enable_chunked_prefill: false
            quantization: null
            compilation_config: {level: 3}
          runtime_env: {env_vars: {VLLM_LOGGING_LEVEL: INFO}}
  rayClusterConfig:
    headGroupSpec:
      template: {spec: {containers: [{name: head, image: ray}]}}
    workerGroupSpecs:
    - template: {spec: {containers: [{name: cpu}]}}
    - template:
        spec:
          containers:
          - {name: gpu, env: [{name: A, value: b}], resources: {limits: {nvidia.com/gpu: 2}}}
          - {name: sidecar}
"""


def test_a_ray_service_s_engine_runs_in_the_workers_that_have_accelerators() -> None:
    head, cpu, gpu = found(RAY_SERVICE)
    engine, sidecar = gpu.containers

    assert [one.containers[0].synthetic for one in (head, cpu, gpu)] == [False, False, True]
    assert [*engine.spec["command"], *engine.spec["args"]] == [
        "vllm", "serve", "acme/big-7b", "--tensor-parallel-size", "2", "--enable-prefix-caching",
        "--no-enable-chunked-prefill", "--compilation-config", '{"level": 3}',
    ]  # fmt: skip
    assert engine.spec["env"] == [{"name": "A", "value": "b"}, {"name": "VLLM_LOGGING_LEVEL", "value": "INFO"}]
    assert str(engine.path) == "spec.rayClusterConfig.workerGroupSpecs[1].template.spec.containers[0]"
    assert str(engine.places["args"]) == "spec.serveConfigV2"
    assert engine.places["resources"] == engine.path / "resources"
    assert (sidecar.name, sidecar.synthetic, gpu.pods_per_replica) == ("sidecar", False, None)


@pytest.mark.parametrize(
    "config", ["", "applications: [", "applications: [{args: {llm_configs: [file.yaml]}}]", "a: &a [*a]", "[]"]
)
def test_a_serve_config_that_names_no_engine_changes_nothing(config: str) -> None:
    obj = yaml.safe_load(RAY_SERVICE)
    obj["spec"]["serveConfigV2"] = config

    assert not any(container.synthetic for one in find(obj) for container in one.containers)


def inference_service(predictor: str) -> Workload:
    (workload,) = found(f"""
        apiVersion: serving.kserve.io/v1beta1
        kind: InferenceService
        metadata: {{name: a}}
        spec: {{predictor: {predictor}}}
    """)
    return workload


@pytest.mark.parametrize(
    ("said", "command"),
    [
        ("{runtime: my-vllm, storageUri: s3://models/a}", ["vllm", "serve", "/mnt/models"]),
        ("{modelFormat: {name: vLLM}, storageUri: 'hf://acme/big-7b:main'}", ["vllm", "serve", "acme/big-7b"]),
        ("{runtime: my-vllm, command: [mine]}", ["mine"]),
        (
            "{modelFormat: {name: huggingface}, storageUri: 'hf://acme/big-7b'}",
            ["python3", "-m", "huggingfaceserver", "--model_id=acme/big-7b"],
        ),
        (
            "{modelFormat: {name: huggingface}, args: [--model_id=acme/big-7b]}",
            ["python3", "-m", "huggingfaceserver"],
        ),
        ("{modelFormat: {name: sklearn}, storageUri: 'hf://acme/big-7b'}", None),
    ],
)
def test_a_predictor_s_model_is_the_container_that_its_runtime_starts(said: str, command: list[str] | None) -> None:
    workload = inference_service(f"{{model: {said}}}")
    (container,) = workload.containers

    assert (container.name, str(container.path)) == ("kserve-container", "spec.predictor.model")
    assert container.spec.get("command") == command
    assert {"image", "args", "resources", "startup-probe"} <= workload.completes


def test_where_a_predictor_s_weights_come_from() -> None:
    stored = inference_service("{model: {runtime: my-vllm, storageUri: 'pvc://a/b'}}")
    baked = inference_service("{model: {runtime: my-vllm}}")

    assert (stored.model_uri, "model" in stored.completes) == ("pvc://a/b", False)
    assert (baked.model_uri, "model" in baked.completes) == (None, True)


def test_a_custom_predictor_is_a_pod_whose_container_gets_a_name() -> None:
    workload = inference_service("{containers: [{image: vllm/vllm-openai}], minReplicas: 2}")

    assert places([workload]) == [("kserve-container", "spec.predictor.containers[0]")]
    assert workload.completes == {"resources", "memory-limit", "readiness-probe"}
    assert workload.replicas == 2


def test_a_framework_s_own_key_is_a_model_too() -> None:
    workload = inference_service("{huggingface: {storageUri: 'hf://acme/big-7b'}, nodeSelector: {a: b}}")

    assert places([workload]) == [("kserve-container", "spec.predictor.huggingface")]


def test_a_runtime_with_workers_spans_as_many_pods_as_pipeline_stages() -> None:
    text = "{{apiVersion: serving.kserve.io/v1alpha1, kind: ServingRuntime, spec: {{workerSpec: {}}}}}"

    assert [one.pods_per_replica for one in found(text.format("{pipelineParallelSize: 2}"))] == [2, 2]
    assert [one.pods_per_replica for one in found(text.format("{}"))] == [None, None]


LLM_SERVICE = """
apiVersion: serving.kserve.io/v1alpha2
kind: LLMInferenceService
metadata: {name: a}
spec:
  model: {uri: 'hf://acme/big-7b', name: big}
  replicas: 2
  parallelism: {tensor: 4}
  template:
    containers:
    - {name: main, args: [--max-model-len, '4096'], resources: {limits: {memory: 64Gi}}}
  prefill:
    replicas: 3
    template: {containers: [{name: main, command: [mine], image: own}]}
"""


def test_an_llm_inference_service_s_main_gets_the_preset_s_command() -> None:
    decode, prefill = found(LLM_SERVICE)
    main = decode.containers[0]

    assert main.spec["command"] == [
        "vllm", "serve", "acme/big-7b", "--served-model-name", "big", "--tensor-parallel-size", "4",
    ]  # fmt: skip
    assert (main.synthetic, main.places) == (False, {"command": FieldPath.parse("spec.model.uri")})
    assert decode.completes == {
        "shm",
        "startup-probe",
        "liveness-probe",
        "readiness-probe",
        "home",
        "image",
        "args",
        "volumes",
    }
    assert prefill.containers[0].spec["command"] == ["mine"]
    assert "image" not in prefill.completes
    assert [(one.replicas, one.pods_per_replica, one.model_uri) for one in (decode, prefill)] == [
        (2, 1, "hf://acme/big-7b"),
        (3, 1, "hf://acme/big-7b"),
    ]


def test_an_llm_inference_service_without_main_has_the_preset_s() -> None:
    (workload,) = found("""
        apiVersion: serving.kserve.io/v1alpha2
        kind: LLMInferenceService
        spec:
          model: {uri: 'pvc://claim/big'}
    """)
    (main,) = workload.containers

    assert (main.name, str(main.path), main.synthetic) == ("main", "spec.model", True)
    assert main.spec["command"] == ["vllm", "serve", "/mnt/models"]


def test_an_llm_inference_service_with_workers_spans_data_over_data_local_pods() -> None:
    leader, worker = found("""
        apiVersion: serving.kserve.io/v1alpha2
        kind: LLMInferenceService
        spec:
          model: {uri: 'hf://acme/big-7b'}
          parallelism: {data: 16, dataLocal: 8, expert: true}
          template: {containers: [{name: main}]}
          worker: {containers: [{name: main}]}
    """)

    assert [leader.pods_per_replica, worker.pods_per_replica] == [2, 2]
    assert worker.containers[0].spec["command"] == [
        "vllm", "serve", "acme/big-7b", "--data-parallel-size", "16", "--data-parallel-size-local", "8",
        "--enable-expert-parallel",
    ]  # fmt: skip


def test_another_engine_s_preset_is_not_vllm() -> None:
    obj = yaml.safe_load(LLM_SERVICE)
    obj["spec"]["baseRefs"] = [{"name": "kserve-config-llm-sglang-template"}]

    assert "command" not in find(obj)[0].containers[0].spec


def test_a_dynamo_service_s_container_has_the_service_s_resources_and_name() -> None:
    (workload,) = found("""
        apiVersion: nvidia.com/v1alpha1
        kind: DynamoGraphDeployment
        metadata: {name: a}
        spec:
          envs: [{name: A, value: graph}, {name: B, value: graph}]
          services:
            Decode:
              replicas: 2
              multinode: {nodeCount: 2}
              sharedMemory: {disabled: true}
              envs: [{name: B, value: service}]
              resources: {limits: {gpu: "4", memory: 64Gi, custom: {rdma/ib: 1}}}
              extraPodSpec:
                nodeSelector: {gpu: l4}
                mainContainer: {image: dynamo, args: [x], env: [{name: A, value: own}]}
            Note: text
    """)
    (main,) = workload.containers

    assert (main.name, str(main.path), str(workload.path)) == (
        "Decode",
        "spec.services.Decode.extraPodSpec.mainContainer",
        "spec.services.Decode.extraPodSpec",
    )
    assert main.spec["resources"] == {"limits": {"nvidia.com/gpu": "4", "memory": "64Gi", "rdma/ib": 1}}
    assert str(main.places["resources"]) == "spec.services.Decode.resources"
    assert main.spec["env"] == [{"name": "A", "value": "own"}, {"name": "B", "value": "service"}]
    assert workload.completes == {"startup-probe", "liveness-probe", "readiness-probe"}
    assert (workload.replicas, workload.pods_per_replica) == (2, 2)


def test_a_component_of_dynamo_has_a_pod_template_of_its_own() -> None:
    """nvidia.com/v1beta1, where services became components."""
    frontend, decode = found("""
        apiVersion: nvidia.com/v1beta1
        kind: DynamoGraphDeployment
        metadata: {name: a}
        spec:
          env: [{name: A, value: graph}, {name: B, value: graph}]
          components:
          - {name: Frontend, podTemplate: {spec: {containers: [{name: main}]}}}
          - name: Decode
            replicas: 2
            multinode: {nodeCount: 4}
            sharedMemorySize: "0"
            podTemplate:
              spec: {containers: [{name: main, env: [{name: A, value: own}], startupProbe: {tcpSocket: {port: 1}}}]}
    """)
    (main,) = decode.containers

    assert str(main.path) == "spec.components[1].podTemplate.spec.containers[0]"
    assert main.spec["env"] == [{"name": "A", "value": "own"}, {"name": "B", "value": "graph"}]
    assert decode.completes == {"liveness-probe", "readiness-probe"}
    assert frontend.completes == {"startup-probe", "liveness-probe", "readiness-probe", "shm"}
    assert [(one.replicas, one.pods_per_replica) for one in (frontend, decode)] == [(None, 1), (2, 4)]


def test_cliques_of_a_scaling_group_serve_together() -> None:
    alone, leader, worker = found("""
        apiVersion: grove.io/v1alpha1
        kind: PodCliqueSet
        spec:
          template:
            podCliqueScalingGroups: [{name: prefill, cliqueNames: [leader, worker]}]
            cliques:
            - {name: decode, spec: {replicas: 3, podSpec: {containers: [{name: vllm}]}}}
            - {name: leader, spec: {podSpec: {containers: [{name: vllm}]}}}
            - {name: worker, spec: {replicas: 3, podSpec: {containers: [{name: vllm}]}}}
    """)

    assert [one.pods_per_replica for one in (alone, leader, worker)] == [1, None, None]
    assert alone.replicas == 3


def test_a_role_of_a_model_serving_is_an_entry_and_its_workers() -> None:
    entry, worker, alone = found("""
        apiVersion: workload.serving.volcano.sh/v1alpha1
        kind: ModelServing
        spec:
          template:
            roles:
            - {name: a, entryTemplate: {spec: {}}}
            - {name: b, replicas: 2, workerReplicas: 3, entryTemplate: {spec: {}}, workerTemplate: {spec: {}}}
    """)[1:] + found("""
        apiVersion: workload.serving.volcano.sh/v1alpha1
        kind: ModelServing
        spec: {template: {roles: [{name: a, entryTemplate: {spec: {}}}]}}
    """)

    assert [(one.replicas, one.pods_per_replica) for one in (entry, worker, alone)] == [(2, 4), (2, 4), (None, 1)]


@pytest.mark.parametrize(
    ("tasks", "size"),
    [
        ("[{template: {spec: {}}}]", 1),
        ("[{replicas: 2, template: {spec: {}}}]", None),
        ("[{template: {spec: {}}}, {replicas: 1}]", None),
    ],
)
def test_the_pods_of_a_volcano_job_work_together(tasks: str, size: int | None) -> None:
    """A single one serves alone."""
    (workload,) = found(f"{{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, spec: {{tasks: {tasks}}}}}")

    assert workload.pods_per_replica == size


def test_a_kaito_workspace_runs_its_template_on_its_instance_type() -> None:
    head = "apiVersion: kaito.sh/v1beta1\nkind: Workspace\nresource: {instanceType: big, count: 2}\n"
    (workload,) = found(head + "inference: {template: {spec: {containers: [{name: vllm}], nodeSelector: {a: b}}}}")

    assert places([workload]) == [("vllm", "inference.template.spec.containers[0]")]
    assert workload.spec["nodeSelector"] == {"node.kubernetes.io/instance-type": "big", "a": "b"}
    assert workload.pods_per_replica == 2
    assert found(head + "inference: {preset: {name: big-7b}}") == []


# ── Objects of strangers ─────────────────────────────────────────────────────────────────────────────────────────────

WORDS = sorted(
    {part for row in WORKLOAD_KINDS.values() for pods in row.pods for part in pods.path.split(".") if part != "*"}
    | {
        "metadata", "name", "annotations", "labels", "ownerReferences", "containers", "initContainers", "env", "args",
        "command", "resources", "limits", "model", "uri", "storageUri", "modelFormat", "parallelism", "data",
        "dataLocal", "serveConfigV2", "services", "extraPodSpec", "mainContainer", "resource", "instanceType", "items",
        "objects", "replicas", "size", "baseRefs", "components", "workerReplicas", "podCliqueScalingGroups",
        "cliqueNames", "multinode", "nodeCount", "sharedMemorySize",
    }
)  # fmt: skip
ODD = st.recursive(
    st.sampled_from([None, True, 0, 3, -1, 1.5, "", "text", "main", "VLLM", "hf://acme/big-7b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4),
    max_leaves=30,
)


@PROPERTY
@given(st.sampled_from(sorted(WORKLOAD_KINDS)), ODD, ODD, ODD, ODD)
def test_odd_shapes_never_raise(kind: tuple[str, str], spec: Any, inference: Any, metadata: Any, template: Any) -> None:
    obj = {
        "apiVersion": f"{kind[0]}/v1" if kind[0] else "v1",
        "kind": kind[1],
        "metadata": metadata,
        "spec": spec,
        "inference": inference,
        "template": template,
    }
    for workload in find({"kind": "List", "items": [obj]}):
        assert isinstance(workload.spec, dict)
        assert all(isinstance(value, str) for value in workload.annotations.values())
        assert workload.name is not None
        assert all(isinstance(container.spec, dict) for container in workload.containers)


@PROPERTY
@given(st.sampled_from(sorted(WORKLOAD_KINDS)), st.data())
def test_a_template_with_odd_fields_in_it_never_raises(kind: tuple[str, str], data: st.DataObject) -> None:
    """The odd value is where the table looks."""
    paths = [pods.path for pods in WORKLOAD_KINDS[kind].pods] or [
        "spec.templates.*.container",
        "spec.workflowSpec.templates.*",
    ]
    parts = data.draw(st.sampled_from(paths)).split(".")
    value: Any = data.draw(ODD)
    for part in reversed(parts[: len(parts) - data.draw(st.integers(0, len(parts) - 1))]):
        value = [value] if part == "*" else {part: value}
    obj = {"apiVersion": f"{kind[0]}/v1" if kind[0] else "v1", "kind": kind[1], **value}

    assert all(isinstance(workload.spec, dict) for workload in find(obj))


TEMPLATE_WITH_PARAMETERS = """
kind: Template
apiVersion: template.openshift.io/v1
parameters:
  - {name: MODEL, value: Qwen/Qwen3-8B}
  - {name: COPIES, value: "3"}
  - {name: LENGTH}
  - {name: NAME}
objects:
  - apiVersion: apps/v1
    kind: Deployment
    metadata: {name: "${NAME}"}
    spec:
      replicas: ${{COPIES}}
      template:
        spec:
          containers:
            - {name: vllm, args: ["--model=${MODEL}", "--port=${PORT}", "--served-model-name=${NAME}-${COPIES}"]}
  - apiVersion: v1
    kind: Pod
    metadata: {name: "${NAME}"}
    spec: {containers: [{name: vllm, args: ["--model=${MODEL}", "--max-model-len=${LENGTH}", "--seed=${{COPIES}}"]}]}
  - apiVersion: v1
    kind: Pod
    metadata: {name: "${NAME}"}
    spec: {containers: [{name: vllm, args: ["--model=${MODEL}"]}]}
"""


def test_a_template_s_parameters_are_filled_and_what_has_no_value_is_told() -> None:
    deployment, pod, named = find(yaml.safe_load(TEMPLATE_WITH_PARAMETERS))

    assert deployment.replicas == 3
    assert deployment.containers[0].spec["args"] == [
        "--model=Qwen/Qwen3-8B",
        "--port=${PORT}",  # no parameter of the template
        "--served-model-name=$(NAME)-3",
    ]
    assert (deployment.name, deployment.unfilled) == ("${NAME}", ("NAME",))
    assert pod.containers[0].spec["args"][1:] == ["--max-model-len=$(LENGTH)", "--seed=${{COPIES}}"]  # only alone
    assert pod.unfilled == ("LENGTH",)
    assert named.unfilled == ()


def test_values_of_parameters_take_bounded_room() -> None:
    texts = ["${A}" * 10_000] * 10
    template = {
        "kind": "Template",
        "parameters": [{"name": "A", "value": "x" * 10_000}],
        "objects": [{"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "a", "args": texts}]}}],
    }

    (pod,) = find(template)

    assert sum(map(len, pod.containers[0].spec["args"])) < 2 << 20
    assert pod.unfilled == ("A", "one of too many")


def test_a_list_in_a_template_has_its_parameters() -> None:
    template = {
        "kind": "Template",
        "parameters": [{"name": "A"}, {"name": "B", "value": "b"}],
        "objects": [
            {
                "kind": "List",
                "items": [
                    {
                        "apiVersion": "v1",
                        "kind": "Pod",
                        "spec": {"containers": [{"name": "a", "args": ["${A}", "${B}"]}]},
                    }
                ],
            }
        ],
    }

    (pod,) = find(template)

    assert pod.containers[0].spec["args"] == ["$(A)", "b"]
    assert (pod.unfilled, pod.defaults) == (("A",), ("B",))


@pytest.mark.parametrize("value", ["[]", "{}", "3", "[" * 5000, "[" * 500 + "]" * 500, "1" * 5000])
def test_odd_values_of_parameters_are_texts(value: str) -> None:
    template = {
        "kind": "Template",
        "parameters": [{"name": "A", "value": value}],
        "objects": [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"labels": {"${{A}}": "b", "long": "${{A}}"}},
                "spec": {"containers": [{"name": "a"}]},
            }
        ],
    }

    (pod,) = find(template)

    assert value in pod.metadata["labels"]
    assert len(value) < 100 or pod.metadata["labels"]["long"] == value


WORKFLOW = """
apiVersion: argoproj.io/v1alpha1
kind: Workflow
spec:
  arguments: {parameters: [{name: model, value: Qwen/Qwen3-8B}]}
  volumes: [{name: all}]
  nodeSelector: {pool: cpu}
  templates:
    - name: steps
      steps: [[{name: a, template: evaluate}]]
    - name: evaluate
      inputs: {parameters: [{name: file, value: "{{workflow.parameters.other}}"}]}
      nodeSelector: {pool: gpu}
      volumes: [{name: own}]
      container: {image: "python:3.12", command: [python, eval.py]}
      sidecars: [{name: server, image: v, args: ["--model={{ workflow.parameters.model }}"]}]
    - name: shell
      script: {image: v, command: [/bin/bash], source: "vllm serve m --max-model-len {{inputs.parameters.len}}"}
    - name: python
      script: {image: v, command: [python3], source: "print()"}
    - name: set
      containerSet: {containers: [{name: one, image: v}, {name: two, image: v}]}
"""


def test_each_template_of_a_workflow_is_a_pod() -> None:
    evaluate, shell, python, several = find(yaml.safe_load(WORKFLOW))

    main, server = evaluate.containers
    assert str(server.path) == "spec.templates[1].sidecars[0]"
    assert server.spec["args"] == ["--model=Qwen/Qwen3-8B"]
    assert evaluate.spec["nodeSelector"] == {"pool": "gpu"}
    assert evaluate.spec["volumes"] == [{"name": "own"}, {"name": "all"}]
    assert (main.name, evaluate.unfilled) == ("main", ())
    assert shell.containers[0].spec["args"] == ["-c", "vllm serve m --max-model-len $(inputs_parameters_len)"]
    assert shell.unfilled == ("inputs.parameters.len",)
    assert shell.spec["nodeSelector"] == {"pool": "cpu"}
    assert not python.containers
    assert [one.name for one in several.containers] == ["one", "two"]


@pytest.mark.parametrize("tag", ["inputs.parameters.len", "=inputs.parameters['len']", """='a"b'""", "='a\\tb\u00e9'"])
def test_whatever_a_tag_says_it_has_no_value_before_the_workflow_runs(tag: str) -> None:
    template = {"name": "serve", "container": {"image": "v", "args": ["--max-model-len", f"{{{{{tag}}}}}"]}}

    (pod,) = find({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "spec": {"templates": [template]}})

    (name,) = pod.unfilled
    assert pod.containers[0].spec["args"] == ["--max-model-len", f"$({variable(name)})"]


def _with_inputs(inputs: list[dict[str, Any]], **spec: Any) -> dict[str, Any]:
    container = {"image": "v", "args": ["--max-model-len", "{{inputs.parameters.len}}"]}
    template = {"name": "serve", "inputs": {"parameters": inputs}, "container": container}
    return {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "spec": {"templates": [template], **spec}}


ARGUMENT = {"arguments": {"parameters": [{"name": "len", "value": 4096}]}}


@pytest.mark.parametrize(
    ("inputs", "spec", "value"),
    [
        ([{"name": "len", "value": "8192"}], {}, "8192"),
        ([{"name": "len", "default": "8192"}], {}, "8192"),
        ([{"name": "len", "value": "{{ workflow.parameters.len }}"}], ARGUMENT, "4096"),
        ([{"name": "len", "value": "8192"}], ARGUMENT | {"entrypoint": "serve"}, "4096"),
        ([{"name": "len", "value": "8192"}], ARGUMENT | {"entrypoint": "other"}, "8192"),
        ([{"name": "len", "value": "{{item}}"}], {}, None),
        ([{"name": "len"}], {}, None),
    ],
)
def test_an_input_s_value_is_a_default(inputs: list[dict[str, Any]], spec: dict[str, Any], value: str | None) -> None:
    (pod,) = find(_with_inputs(inputs, **spec))

    assert pod.containers[0].spec["args"][1] == (value or "$(inputs_parameters_len)")
    name = ("inputs.parameters.len",)
    assert (pod.defaults, pod.unfilled) == ((name, ()) if value else ((), name))


def test_a_cron_workflow_holds_a_workflow_s_spec() -> None:
    (workflow,) = find(
        {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "CronWorkflow",
            "spec": {"workflowSpec": {"templates": [{"name": "a", "container": {"image": "v"}}]}},
        }
    )

    assert str(workflow.containers[0].path) == "spec.workflowSpec.templates[0].container"


PATCHED = """
apiVersion: argoproj.io/v1alpha1
kind: WorkflowTemplate
spec:
  arguments: {parameters: [{name: gpus, value: "2"}]}
  podSpecPatch: '{"nodeSelector": {"pool": "all"}, "tolerations": [{"key": "a"}]}'
  templateDefaults:
    nodeSelector: {pool: gpu}
    container: {image: v, env: [{name: A, value: "1"}, {name: B, value: "2"}]}
    script: {image: other}
  templates:
    - name: serve
      nodeSelector: {zone: b}
      podSpecPatch: |
        containers:
          - name: main
            args: [--from, patch]
            resources: {limits: {nvidia.com/gpu: "{{workflow.parameters.gpus}}", memory: null}}
          - {name: wait, resources: {limits: {cpu: 1}}}
          - {name: side, image: s}
      container: {env: [{name: B, value: "3"}], resources: {limits: {nvidia.com/gpu: "1", memory: 1Gi}}}
"""


def test_a_workflow_s_defaults_and_patches_make_its_pods() -> None:
    (pod,) = find(yaml.safe_load(PATCHED))

    main, side = pod.containers
    assert main.spec["image"] == "v"
    assert main.spec["env"] == [{"name": "A", "value": "1"}, {"name": "B", "value": "3"}]
    assert main.spec["resources"] == {"limits": {"nvidia.com/gpu": "2"}}
    assert str(main.places["image"]) == "spec.templateDefaults.container.image"
    assert str(main.places["args"]) == "spec.templates[0].podSpecPatch"
    assert side.name == "side"
    assert pod.spec["nodeSelector"] == {"pool": "all", "zone": "b"}
    assert pod.spec["tolerations"] == [{"key": "a"}]
    assert (pod.template, pod.defaults, pod.unfilled, pod.unread) == ("serve", ("workflow.parameters.gpus",), (), None)


@pytest.mark.parametrize(
    ("kind", "defaults"), [("Workflow", ()), ("ClusterWorkflowTemplate", ("workflow.parameters.gpus",))]
)
def test_arguments_of_a_workflow_are_final(kind: str, defaults: tuple[str, ...]) -> None:
    (pod,) = find(yaml.safe_load(PATCHED) | {"kind": kind})

    assert pod.defaults == defaults


@pytest.mark.parametrize(
    "patch",
    [
        "{",
        "- a",
        "just text",
        7,
        {"containers": []},
        "containers: [{image: a}]",
        "containers: [{name: main, $patch: delete}]",
        "$patch: replace",
        "containers: [{name: main, env: [{value: a}]}]",
    ],
)
def test_a_patch_that_is_not_plain_is_told(patch: object) -> None:
    workflow = yaml.safe_load(PATCHED)
    workflow["spec"]["templates"][0]["podSpecPatch"] = patch

    (pod,) = find(workflow)

    assert pod.unread == "podSpecPatch can't be read here"
    assert pod.containers[0].spec["resources"]["limits"]["memory"] == "1Gi"


def test_runtimes_of_ome_have_a_runner_for_each_part() -> None:
    obj = yaml.safe_load("""
    apiVersion: ome.io/v1beta1
    kind: ClusterServingRuntime
    metadata: {name: x}
    spec:
      engineConfig:
        runner: {name: ome-container, image: "vllm/vllm-openai:v0.9.1", args: [$(MODEL_PATH)]}
      decoderConfig:
        leader: {runner: {image: "vllm/vllm-openai:v0.9.1"}, nodeSelector: {a: b}}
        worker: {size: 3, runner: {image: "vllm/vllm-openai:v0.9.1"}}
    """)
    found = find(obj)

    assert [str(one.containers[0].path) for one in found if one.containers] == [
        "spec.engineConfig.runner", "spec.decoderConfig.leader.runner", "spec.decoderConfig.worker.runner"
    ]  # fmt: skip
    assert [one.pods_per_replica for one in found if one.containers] == [1, 4, 4]
    assert all({"args", "model"} <= one.completes for one in found)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (
            "{apiVersion: helm.toolkit.fluxcd.io/v2, spec: {values: {image: 'vllm/vllm-openai:v1'}}}",
            "spec.values.image",
        ),
        ("{apiVersion: inference.llmaz.io/v1, spec: {config: {backendName: vllm}}}", "spec.config.backendName"),
        ("{apiVersion: ray.io/v1, kind: RayService, spec: {serveConfigV2: 'run: vllm serve m'}}", "spec.serveConfigV2"),
        (
            "{apiVersion: ray.io/v1, kind: RayService, spec: {serveConfigV2: 'runtime_env: {pip: [vllm]}'}}",
            "spec.serveConfigV2",
        ),
        (
            "{apiVersion: ray.io/v1, kind: RayJob, spec: {runtimeEnvYAML: 'pip: [\"vllm==0.9.1\"]'}}",
            "spec.runtimeEnvYAML",
        ),
        ("{apiVersion: ray.io/v1, kind: RayService, spec: {serveConfigV2: 'runtime_env: {pip: [not-vllm]}'}}", None),
        ("{apiVersion: kubeai.org/v1, kind: Model, spec: {engine: VLLM, url: 'hf://org/m'}}", "spec.engine"),
        ("{apiVersion: x.io/v1, kind: Tasks, spec: {pip: ['vllm==0.9.1']}}", "spec.pip[0]"),
        ("{apiVersion: x.io/v1, kind: Tasks, spec: {engine: VLLM}}", "spec.engine"),
        ("{apiVersion: x.io/v1, kind: Tasks, spec: {name: vllm, app: vllm-router}}", None),
        ("{apiVersion: x.io/v1, kind: Tasks, spec: {servingEngine: vllm-v1}}", "spec.servingEngine"),
        ("{apiVersion: x.io/v1, kind: Tasks, spec: {image: 'corp/vllm-gpu:1'}}", "spec.image"),
        ("{apiVersion: x.io/v1, kind: Tasks, spec: {image: 'corp/tovllm:1'}}", None),
        (
            "{apiVersion: x.io/v1, kind: Tasks, spec: {image: 'corp/llm:1', args: ['--max-model-len=8']}}",
            "spec.args[0]",
        ),
        (
            "{apiVersion: x.io/v1, kind: Tasks, spec: {engine: {tensorParallelSize: 2}}}",
            "spec.engine.tensorParallelSize",
        ),
        ("{apiVersion: x.io/v1, kind: Tasks, spec: {vllm: {}}}", "spec.vllm"),
        (
            "{apiVersion: helm.toolkit.fluxcd.io/v2, kind: HelmRelease, spec: {chart: {spec: {chart: vllm-stack}}}}",
            "spec.chart.spec.chart",
        ),
        (
            "{apiVersion: argoproj.io/v1alpha1, kind: Application, spec: {source: {repoURL: 'https://h/vllm/stack'}}}",
            "spec.source.repoURL",
        ),
        ("{apiVersion: argoproj.io/v1alpha1, kind: Application, spec: {source: {repoURL: 'https://h/web'}}}", None),
        ("{apiVersion: apps.nvidia.com/v1alpha1, kind: NIMService, spec: {image: {repository: nim/llama}}}", "spec"),
        ("{apiVersion: inference.llmaz.io/v1alpha1, kind: Playground, spec: {backendName: sglang}}", None),
        ("{apiVersion: kaito.sh/v1beta1, kind: Workspace, inference: {preset: {name: phi-4}}}", "inference.preset"),
        ("{apiVersion: kaito.sh/v1beta1, kind: Workspace, inference: {template: {}}}", None),
        (
            "{apiVersion: kaito.sh/v1beta1, kind: InferenceSet, spec: {template: {inference: {preset: {name: phi}}}}}",
            "spec.template.inference.preset",
        ),
        ("{apiVersion: kaito.sh/v1beta1, kind: InferenceSet, spec: {template: {inference: {}}}}", None),
        ("{apiVersion: kaito.sh/v1alpha1, kind: MultiRoleInference, spec: {model: {name: phi}}}", "spec.model"),
        ("{apiVersion: v1, kind: Service, spec: {engine: vllm}}", None),
        ("{apiVersion: monitoring.coreos.com/v1, kind: PodMonitor, spec: {type: vllm}}", None),
    ],
)
def test_where_an_object_that_nothing_reads_names_vllm(text: str, place: str | None) -> None:
    found = unread.mention(yaml.safe_load(text))
    assert (str(found) if found else None) == place
