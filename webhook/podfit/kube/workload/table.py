"""The table: (API group, kind) → the places of its Pod templates, and the fields that its operator completes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from podfit.kube.path import FieldPath
from podfit.kube.workload import argo, kserve, others, ray
from podfit.kube.workload.template import Refine


class Pods(NamedTuple):
    """The place of one kind of Pod template. Paths are relative to the object.

    `*` stands for every item of a list or a mapping, and means the same item in `replicas` and `size`."""

    path: str
    """The path of the PodSpec."""
    replicas: str = ""
    """The path of the number of replicas."""
    size: str = ""
    """The path of the number of Pods that make one replica; 1 if there is none."""


class KindRow(NamedTuple):
    """How a kind makes Pods."""

    pods: tuple[Pods, ...]
    completes: frozenset[str] = frozenset()
    main: str = ""
    """The container that the operator completes; the first one if it has no fixed name."""
    refine: Refine | None = None
    """Code for what a table can't express: containers that the kind does not contain, sizes that are a sum."""


_KNATIVE = KindRow((Pods("spec.template.spec"),), frozenset({"readiness-probe"}))
"""Knative probes the port over TCP by default, and vLLM listens only when it is ready."""
_TEMPLATE = KindRow((Pods("spec.template.spec", "spec.replicas"),))


def _ray_row(at: str, replicas: str = "", refine: Refine | None = None) -> KindRow:
    """The Pod templates of a RayClusterSpec at the path `at`: the head's and each worker group's."""
    pods = (f"{at}.headGroupSpec.template.spec", f"{at}.workerGroupSpecs.*.template.spec")
    return KindRow(
        tuple(Pods(path, replicas) for path in pods),
        ray.KUBERAY,
        refine=refine or ray.refine_cluster(FieldPath.parse(at)),
    )


def _group_row(at: str) -> KindRow:
    """A leader and its workers; without a leader's template, the worker's applies to the leader, too."""
    size = f"{at}.size"
    return KindRow(
        tuple(Pods(f"{at}.{role}.spec", "spec.replicas", size) for role in ("leaderTemplate", "workerTemplate"))
    )


_LLM = KindRow(
    (
        Pods("spec.template", "spec.replicas"),
        Pods("spec.worker", "spec.replicas"),
        Pods("spec.prefill.template", "spec.prefill.replicas"),
        Pods("spec.prefill.worker", "spec.prefill.replicas"),
    ),
    kserve.PRESET,
    main="main",
    refine=kserve.llm_inference_service,
)
_SERVING_RUNTIME = KindRow((Pods("spec"), Pods("spec.workerSpec")), kserve.OF_SERVICE, refine=kserve.serving_runtime)
_OME_RUNTIME = KindRow((Pods("spec"),), kserve.OF_SERVICE, refine=others.ome_runtime)
_WORKFLOW_TEMPLATE = KindRow((), refine=argo.workflow(FieldPath.parse("spec")))
_RAY_FLEET = _ray_row("spec.template.spec", "spec.replicas")

WORKLOAD_KINDS: Mapping[tuple[str, str], KindRow] = {
    ("", "Pod"): KindRow((Pods("spec"),)),
    ("", "PodTemplate"): KindRow((Pods("template.spec"),)),
    ("", "ReplicationController"): _TEMPLATE,
    ("apps", "Deployment"): _TEMPLATE,
    ("apps", "StatefulSet"): _TEMPLATE,
    ("apps", "ReplicaSet"): _TEMPLATE,
    ("apps", "DaemonSet"): KindRow((Pods("spec.template.spec"),)),
    ("extensions", "Deployment"): _TEMPLATE,
    ("extensions", "ReplicaSet"): _TEMPLATE,
    ("extensions", "DaemonSet"): KindRow((Pods("spec.template.spec"),)),
    ("batch", "Job"): KindRow((Pods("spec.template.spec", "spec.parallelism"),)),
    ("batch", "CronJob"): KindRow((Pods("spec.jobTemplate.spec.template.spec", "spec.jobTemplate.spec.parallelism"),)),
    ("apps.openshift.io", "DeploymentConfig"): _TEMPLATE,
    ("argoproj.io", "Rollout"): _TEMPLATE,
    ("argoproj.io", "Workflow"): KindRow((), refine=argo.workflow(FieldPath.parse("spec"), final=True)),
    ("argoproj.io", "WorkflowTemplate"): _WORKFLOW_TEMPLATE,
    ("argoproj.io", "ClusterWorkflowTemplate"): _WORKFLOW_TEMPLATE,
    ("argoproj.io", "CronWorkflow"): KindRow((), refine=argo.workflow(FieldPath.parse("spec.workflowSpec"))),
    ("jobset.x-k8s.io", "JobSet"): KindRow(
        (
            Pods(
                "spec.replicatedJobs.*.template.spec.template.spec",
                "spec.replicatedJobs.*.replicas",
            ),
        ),
        refine=others.job_set,
    ),
    ("batch.volcano.sh", "Job"): KindRow(
        (Pods("spec.tasks.*.template.spec", "spec.tasks.*.replicas"),), refine=others.volcano_job
    ),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): _group_row("spec.leaderWorkerTemplate"),
    ("apps.kruise.io", "CloneSet"): _TEMPLATE,
    ("apps.kruise.io", "StatefulSet"): _TEMPLATE,
    ("grove.io", "PodCliqueSet"): KindRow(
        (Pods("spec.template.cliques.*.spec.podSpec", "spec.template.cliques.*.spec.replicas"),),
        refine=others.pod_clique_set,
    ),
    ("workload.serving.volcano.sh", "ModelServing"): KindRow(
        tuple(
            Pods(f"spec.template.roles.*.{key}.spec", "spec.template.roles.*.replicas")
            for key in ("entryTemplate", "workerTemplate")
        ),
        refine=others.model_serving,
    ),
    ("serving.knative.dev", "Service"): _KNATIVE,
    ("serving.knative.dev", "Configuration"): _KNATIVE,
    ("serving.kserve.io", "InferenceService"): KindRow(
        (
            Pods("spec.predictor", "spec.predictor.minReplicas"),
            Pods("spec.predictor.workerSpec", "spec.predictor.minReplicas"),
        ),
        kserve.EVERYTHING,
        main="kserve-container",
        refine=kserve.inference_service,
    ),
    ("serving.kserve.io", "ServingRuntime"): _SERVING_RUNTIME,
    ("serving.kserve.io", "ClusterServingRuntime"): _SERVING_RUNTIME,
    ("serving.kserve.io", "LLMInferenceService"): _LLM,
    ("serving.kserve.io", "LLMInferenceServiceConfig"): _LLM,
    ("ray.io", "RayCluster"): _ray_row("spec"),
    ("ray.io", "RayJob"): _ray_row("spec.rayClusterSpec"),
    ("ray.io", "RayService"): _ray_row("spec.rayClusterConfig", refine=ray.refine_service),
    ("orchestration.aibrix.ai", "RayClusterFleet"): _RAY_FLEET,
    ("orchestration.aibrix.ai", "RayClusterReplicaSet"): _RAY_FLEET,
    ("orchestration.aibrix.ai", "StormService"): KindRow(
        (
            Pods(
                "spec.template.spec.roles.*.template.spec",
                "spec.template.spec.roles.*.replicas",
                "spec.template.spec.roles.*.podGroupSize",
            ),
        )
    ),
    ("orchestration.aibrix.ai", "RoleSet"): KindRow(
        (Pods("spec.roles.*.template.spec", "spec.roles.*.replicas", "spec.roles.*.podGroupSize"),)
    ),
    ("nvidia.com", "DynamoGraphDeployment"): KindRow(
        (Pods("spec.components.*.podTemplate.spec", "spec.components.*.replicas"),), main="main", refine=others.dynamo
    ),
    ("kaito.sh", "Workspace"): KindRow((Pods("inference.template.spec"),), refine=others.kaito),
    ("ome.io", "ServingRuntime"): _OME_RUNTIME,
    ("ome.io", "ClusterServingRuntime"): _OME_RUNTIME,
    ("inference.llmaz.io", "Service"): _group_row("spec.workloadTemplate"),
}
"""(API group, kind) → how it makes Pods; a kind's versions have the same shape, or places of their own
that exclude each other (Dynamo)."""
