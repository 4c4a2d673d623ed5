"""`-o yaml`: a Deployment that serves the model, with the claim, the Service and the disruption budget that it needs.

Nothing here estimates. The Deployment is written without numbers and read as the webhook reads it. It gets the numbers
that the rules would advise (`podfit.rules`), so no rule has a finding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import yaml

from podfit.base import duration
from podfit.generate import slug
from podfit.kube import workload
from podfit.kube.companions import Companions
from podfit.kube.quantity import GI, human, quantity, round_up_gi
from podfit.rules import memory_sizes, probe_timing, reading
from podfit.rules.engine import Engine
from podfit.rules.host_memory import shm_mounts
from podfit.rules.operations.termination_grace_too_short import DRAINS_SINCE
from podfit.rules.shm import SHM
from podfit.vllm import gpu
from podfit.vllm.memory import startup
from podfit.vllm.release import Release, newest_read
from podfit.vllm.volumes import is_hub_id

MODELS = "/models"
"""Where the claim is mounted: HF_HOME, the hub's cache."""
TOKEN = "hf-token"  # noqa: S105  the Secret's name
PRE_STOP, DRAIN, END = 10, 60, 20
"""Seconds: the Pod leaves its Services; vLLM finishes what it is answering; its processes end."""
RESOURCE = "nvidia.com/gpu"
PRODUCT = "nvidia.com/gpu.product"

Object = dict[str, Any]


def render(engine: Engine) -> str:
    """The manifests of one planned engine, with a head that says where the numbers are from. Raises ValueError if
    model or GPU are not known, or no Deployment with one Pod per replica can serve them."""
    items = list(objects(engine))
    written_engine = _read(items[-1], engine)
    head = "".join(f"# {line}".rstrip() + "\n" for line in _comment_lines(written_engine, items))
    return head + "---\n".join(yaml.safe_dump(item, sort_keys=False, width=120) for item in items)


def objects(engine: Engine) -> Iterator[Object]:
    """The objects in the order in which they are applied, the Deployment last; raises ValueError as `render` does."""
    _check_supported(engine)
    name, replicas = name_of(engine), engine.workload.replicas or 1
    draft = _make_deployment(engine, name, replicas)
    read = _read(draft, engine)
    size = read.plan.checkpoint
    if size is None or read.plan.startup is None or read.plan.host is None:
        raise ValueError("the size of the checkpoint is not known; --model-config FILE with its index gives it")
    yield _claim(engine, name, replicas, size)
    yield _make_service(engine, name)
    if replicas > 1:
        yield {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": metadata(engine, name),
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": _labels(name)}},
        }
    yield _with_numbers(draft, read)


def _check_supported(engine: Engine) -> None:
    """Raises ValueError, with what to add, for an engine that no manifest can be written for."""
    if engine.model is None:
        raise ValueError(f"model {engine.args.model!r} is not known; --model-config FILE gives its config.json")
    if not is_hub_id(engine.args.model):
        raise ValueError(f"{engine.args.model!r} is a path: which volume holds it only you can say; name a hub's id")
    if engine.gpu is None or not engine.gpu.value.gpus:
        raise ValueError("which GPU is not known; --gpu NAME names one")
    if any(product.vendor != "nvidia" or product.mig for product in engine.gpu.value.gpus):
        raise ValueError(f"{engine.gpu.value.name}: manifests are written for whole NVIDIA GPUs alone")
    if engine.spans_pods:
        raise ValueError("the engine spans several Pods; a Deployment can't say that, a LeaderWorkerSet can")
    if engine.args.errors or engine.args.unknown:
        wrong = engine.args.errors[0].message if engine.args.errors else f"unknown flag {engine.args.unknown[0].flag}"
        raise ValueError(f"vLLM would not start: {wrong}")


def name_of(engine: Engine) -> str:
    """A DNS label (RFC 1123) made of the model's name, short enough for a Pod's suffixes."""
    if engine.workload.kind != "Pod":
        return engine.workload.name
    return slug(engine.args.model or "vllm")


def metadata(engine: Engine, name: str, suffix: str = "") -> Object:
    namespace = engine.workload.namespace
    return {"name": name + suffix, **({"namespace": namespace} if namespace else {}), "labels": _labels(name)}


def _labels(name: str) -> Object:
    return {"app.kubernetes.io/name": "vllm", "app.kubernetes.io/instance": name}


# ── The Deployment ───────────────────────────────────────────────────────────────────────────────────────────────────


def _make_deployment(engine: Engine, name: str, replicas: int) -> Object:
    """The Deployment of the engine, as a Kubernetes object."""
    spec: Object = {
        "replicas": replicas,
        "progressDeadlineSeconds": 0,  # `_with_numbers`
        # in place: a Pod more would need spare GPUs
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
        "selector": {"matchLabels": _labels(name)},
        "template": {"metadata": {"labels": _labels(name)}, "spec": _make_pod_spec(engine, name, replicas)},
    }
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata(engine, name), "spec": spec}


def _make_pod_spec(engine: Engine, name: str, replicas: int) -> Object:
    """The PodSpec of the Deployment."""
    tolerations = [{"key": RESOURCE, "operator": "Exists", "effect": "NoSchedule"}]
    pod: Object = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,  # a Service called vllm would set VLLM_PORT
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        **_node_selection(engine),
        "tolerations": tolerations,
        "terminationGracePeriodSeconds": PRE_STOP + DRAIN + END,
    }
    if replicas > 1:
        spread = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}
        pod["topologySpreadConstraints"] = [{**spread, "labelSelector": {"matchLabels": _labels(name)}}]
    pod["containers"] = [_make_container(engine)]
    pod["volumes"] = [{"name": "models", "persistentVolumeClaim": {"claimName": f"{name}-models"}}]
    return pod


def _node_selection(engine: Engine) -> Object:
    """The GPU by its label; for a name that several GPU models have, the commonest's."""
    labeled = [product for product in (engine.gpu.value.gpus if engine.gpu else ()) if product.labels]
    if not labeled:
        raise ValueError("no node label is known for this GPU")
    return {"nodeSelector": {PRODUCT: gpu.commonest(labeled).labels[0]}}


def _make_container(engine: Engine) -> Object:
    """The vLLM container of the Deployment: command, resources, probes and mounts."""
    release = engine.release or newest_read()
    count = str(engine.world_size * max(1, int(engine.args.get("data_parallel_size") or 1)))
    env: list[Object] = [{"name": "HF_HOME", "value": MODELS}]
    if engine.model is not None and engine.model.value.gated:
        reference = {"secretKeyRef": {"name": TOKEN, "key": "token"}}
        env.append({"name": "HF_TOKEN", "valueFrom": reference})
    port = engine.args.given.get("port") or 8000
    return {
        "name": "vllm",
        "image": f"vllm/vllm-openai:v{release}",
        "command": ["vllm", "serve"] if engine.command.entry == "serve" else ["python3", "-m", engine.command.program],
        "args": [*_arguments(engine), *_drain(engine, release)],
        "env": env,
        "ports": [{"name": "http", "containerPort": port}],
        "resources": {"requests": {}, "limits": {RESOURCE: count}},
        "lifecycle": {"preStop": {"exec": {"command": ["sleep", str(PRE_STOP)]}}},
        # vLLM's image runs as root, and needs none of root's powers
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": "models", "mountPath": MODELS}],
    }


def _arguments(engine: Engine) -> list[str]:
    """The words after `vllm serve` on the command line."""
    return [word.text for word in engine.command.words]


def _drain(engine: Engine, release: Release) -> list[str]:
    """From 0.18 on vLLM can finish its answers before it ends."""
    if "shutdown_timeout" in engine.args.given:
        return []
    return ["--shutdown-timeout", str(DRAIN)] if release >= DRAINS_SINCE else []


def _with_numbers(draft: Object, read: Engine) -> Object:
    """The Deployment with what the plan of its draft (`read`) needs: resources, /dev/shm, probes, tolerations and the
    time of a rollout, twice the longest start-up rounded up to 5 minutes. Changes `draft`. Raises ValueError if host
    memory or start-up are unknown, or if there is no HTTP port."""
    host, startup = read.plan.host, read.plan.startup
    limit = memory_sizes.advised_limit(read)
    request = memory_sizes.advised_request(read)
    if host is None or startup is None or limit is None or request is None:
        raise ValueError("what vLLM needs of host memory is not known")
    shm = max(round_up_gi(host.shm.high), GI)
    limit = max(limit, memory_sizes.rounded(shm_mounts.besides(read) + shm))
    cores = str(2 + max(1, host.ranks))
    spec = draft["spec"]
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    container["resources"]["requests"] = {"cpu": cores, "memory": quantity(request)}
    container["resources"]["limits"]["memory"] = quantity(limit)
    container["volumeMounts"].append({"name": "dshm", "mountPath": SHM})
    pod["volumes"].append({"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": quantity(shm)}})
    http = {"path": "/health", "port": "http"}
    numbers = probe_timing.startup_probe(read)
    if numbers is None:
        raise ValueError("the kubelet can't ask this server: it has no HTTP port")
    scheme = {"scheme": numbers["httpGet"]["scheme"]} if "scheme" in numbers["httpGet"] else {}
    http |= scheme
    container["startupProbe"] = {**numbers, "httpGet": http}
    container["readinessProbe"] = {"httpGet": dict(http), "periodSeconds": 5, "timeoutSeconds": 5}
    container["livenessProbe"] = {
        "httpGet": dict(http),
        "periodSeconds": 10,
        "timeoutSeconds": 5,
        "failureThreshold": 6,
    }
    pod["tolerations"] += [_toleration(taint) for taint in _untolerated_taints(read)]
    spec["progressDeadlineSeconds"] = math.ceil(2 * startup.high / 300) * 300
    return draft


def _untolerated_taints(read: Engine) -> tuple[Mapping[str, Any], ...]:
    """The taints of a node that would do but for them, where no other node does."""
    placement = read.placement
    if placement is None or placement.candidates or not placement.repelled:
        return ()
    return placement.repelled[0]


def _toleration(taint: Mapping[str, Any]) -> Object:
    return {"key": str(taint.get("key")), "operator": "Exists", "effect": str(taint.get("effect"))}


# ── Other objects ────────────────────────────────────────────────────────────────────────────────────────────────────


def _claim(engine: Engine, name: str, replicas: int, checkpoint: int) -> Object:
    """Room for another revision too. Several Pods on several nodes read one claim only where many may mount it."""
    size = memory_sizes.rounded(2 * checkpoint)
    mode = "ReadWriteMany" if replicas > 1 else "ReadWriteOnce"
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata(engine, name, "-models"),
        "spec": {"accessModes": [mode], "resources": {"requests": {"storage": quantity(size)}}},
    }


def _make_service(engine: Engine, name: str) -> Object:
    """The Service of the engine, as a Kubernetes object."""
    ports = [{"name": "http", "port": 80, "targetPort": "http"}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(engine, name),
        "spec": {"selector": _labels(name), "ports": ports},
    }


# ── Read again ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _read(deployment: Mapping[str, Any], engine: Engine) -> Engine:
    """The Deployment as the webhook reads it, with what is known of the model."""
    (written_workload,) = workload.find(deployment)
    written_engine = reading.read(
        written_workload, written_workload.containers[0], replace(engine.facts, companions=Companions(), gpu=None)
    )
    if written_engine is None:
        raise ValueError("the command starts no server of vLLM")
    return written_engine


def _comment_lines(read: Engine, objects: list[Object]) -> Iterator[str]:
    """The comment lines that explain the numbers; a part without a plan has none."""
    plan, accelerator = read.plan, read.gpu.value if read.gpu else None
    count = read.requested[1] if read.requested else None
    replicas = read.workload.replicas or 1
    yield (
        f"{read.args.model} on {f'{replicas} × ' if replicas > 1 else ''}{count or 1} × "
        f"{accelerator.name if accelerator else 'GPU'}, vLLM {read.release}, written by `podfit plan -o yaml`"
    )
    yield f"GPU memory: {plan.verdict}: {plan.why}"
    if plan.gpu and plan.gpu.kv_cache_tokens and plan.gpu.max_concurrency and plan.gpu.max_model_len:
        yield (
            f"  KV cache of {plan.gpu.kv_cache_tokens[1]:,} tokens: {plan.gpu.max_concurrency:.1f} requests of "
            f"{plan.gpu.max_model_len:,} tokens at once, in each replica"
        )
    if plan.host:
        needed = plan.host.need
        yield f"host memory: about {human(needed.likely)}, up to {human(needed.high)}; the limit holds page cache too"
    if plan.startup:
        likely, high = duration.human(plan.startup.likely), duration.human(plan.startup.high)
        yield f"start-up: about {likely}, up to {high}; the startup probe waits twice as long"
        size = read.model.value.weights_bytes if read.model else None
        if size and "download" not in dict(plan.startup.parts):
            more = duration.human(startup.first_download(size))
            yield f"  the first start also downloads {human(size)} to the volume, which takes about {more} more"
    if any(
        item["kind"] == "PersistentVolumeClaim" and item["spec"]["accessModes"] == ["ReadWriteMany"] for item in objects
    ):
        yield "storage: replicas on several nodes read one claim, which needs a storage class with ReadWriteMany"
    if read.model is not None and read.model.value.gated:
        yield f"the model is gated: kubectl create secret generic {TOKEN} --from-literal=token=…"
