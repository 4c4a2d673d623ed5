"""The host plane, probes and stops as people meet them: manifests as they are published, and pairs to tell apart."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from podfit.evaluation.lint import Report, lint
from podfit.evaluation.policy import builtin
from podfit.evaluation.repair import repair
from podfit.kube.companions import Companions
from podfit.kube.patch import apply, json_patch
from podfit.vllm.facts import Facts

M8, M70 = "unsloth/Llama-3.1-8B-Instruct", "unsloth/Llama-3.3-70B-Instruct"
A100 = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
SHM: dict[str, Any] = {
    "volumeMounts": [{"name": "dshm", "mountPath": "/dev/shm"}],
    "volumes": [{"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}}],
}
HEALTH = {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 10}


def spec(args: list[str], *, gpus: int = 1, image: str = "v0.27.1", **more: Any) -> dict[str, Any]:
    """A PodSpec; `volumes` and fields of the Pod go there, everything else into the container."""
    pod = {key: more.pop(key) for key in list(more) if key in POD}
    limits = {"nvidia.com/gpu": str(gpus), **more.pop("limits", {})}
    container = {
        "name": "vllm",
        "image": f"vllm/vllm-openai:{image}",
        "args": args,
        "resources": {"limits": limits, **({"requests": more.pop("requests")} if "requests" in more else {})},
        "startupProbe": {**HEALTH, "failureThreshold": 120},
        "readinessProbe": HEALTH,
        **more,
    }
    return {"nodeSelector": A100, "containers": [container], **pod}


POD = ("volumes", "resources_of_pod", "enableServiceLinks", "terminationGracePeriodSeconds", "hostIPC")


def deployment(pod: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    """A Deployment of such Pods."""
    labels = {"app": "llm"}
    template = {"metadata": {"labels": labels}, "spec": dict(pod)}
    return {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "llm"},
        "spec": {"selector": {"matchLabels": labels}, "template": template, **fields},
    }  # fmt: skip


def modes(obj: Mapping[str, Any], *beside: Mapping[str, Any]) -> dict[str, str]:
    """Rule → its severest mode."""
    rank = ("audit", "warn", "deny")
    found: dict[str, str] = {}
    for judged in judge(obj, *beside).findings:
        found[judged.rule] = max(judged.mode, found.get(judged.rule, "audit"), key=rank.index)
    return found


def judge(obj: Mapping[str, Any], *beside: Mapping[str, Any]) -> Report:
    """As `podfit check` of one file with those objects."""
    report = lint(obj, builtin(), Facts(companions=Companions((obj, *beside))), where="check")
    assert not report.errors
    return report


def test_tensor_parallelism_without_shm_is_refused_in_a_deployment_and_kuberay_s_own_matter_in_a_ray_service() -> None:
    pod = spec([M70, "-tp", "4", "--max-model-len", "8192"], gpus=4, limits={"memory": "192Gi"})
    group = {"rayStartParams": {}, "template": {"spec": pod}}
    service = {
        "apiVersion": "ray.io/v1", "kind": "RayService", "metadata": {"name": "llm"},
        "spec": {"rayClusterConfig": {"headGroupSpec": group}},
    }  # fmt: skip

    assert modes(deployment(pod))["shm-missing"] == "deny"
    assert "shm-missing" not in modes(service)


@pytest.mark.parametrize(
    ("more", "mode"),
    [
        pytest.param([], None, id="memory-mapped: page cache"),
        pytest.param(["--safetensors-load-strategy", "eager"], "deny", id="eager: whole files in every rank"),
        pytest.param(
            ["--model-loader-extra-config", '{"enable_multithread_load": true}'], "warn", id="threads: likely too much"
        ),
    ],
)
def test_70b_under_32_gib(more: list[str], mode: str | None) -> None:
    pod = spec([M70, "-tp", "4", "--max-model-len", "8192", *more], gpus=4, limits={"memory": "32Gi"}, **SHM)

    found = modes(deployment(pod))
    assert found.get("memory-limit-too-low") == mode
    assert found.get("memory-limit-below-checkpoint") == (None if mode else "audit")


@pytest.mark.parametrize(("image", "mode"), [("v0.26.0", "warn"), ("v0.27.0", "deny"), ("latest", "warn")])
def test_64_mib_of_shm_are_refused_from_0_27_on(image: str, mode: str) -> None:
    args = [M8, "-tp", "2", "--max-model-len", "8192"]

    assert modes(deployment(spec(args, gpus=2, image=image, limits={"memory": "64Gi"})))["shm-missing"] == mode


@pytest.mark.parametrize(
    ("image", "size", "rule"),
    [
        pytest.param("v0.27.1", "8Gi", "shm-too-small", id="one file in /dev/shm, larger than the volume"),
        pytest.param("v0.26.0", "8Gi", None, id="pinned tensors before 0.27"),
        pytest.param("v0.27.1", "40Gi", None, id="room for it"),
    ],
)
def test_offloaded_kv_cache_lives_in_shm_from_0_27_on(image: str, size: str, rule: str | None) -> None:
    volumes = [{"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": size}}]
    args = [M8, "--max-model-len", "8192", "--kv-offloading-size", "32"]
    mounts = SHM["volumeMounts"]
    found = modes(deployment(spec(args, image=image, limits={"memory": "96Gi"}, volumes=volumes, volumeMounts=mounts)))

    assert {rule for rule, mode in found.items() if mode == "deny"} == ({rule} if rule else set())


def test_limits_copied_from_a_cpu_service_do_not_hold_what_is_offloaded() -> None:
    """An article's: 8Gi = 8Gi, and --cpu-offload-gb 8."""
    sides: dict[str, Any] = {"requests": {"memory": "8Gi", "cpu": "2"}, "limits": {"memory": "8Gi", "cpu": "2"}}
    found = modes(deployment(spec([M8, "--cpu-offload-gb", "8", "--max-model-len", "4096"], **sides)))

    assert found["offload-exceeds-limit"] == "deny"
    assert "memory-limit-too-low" not in found
    assert found["cpu-too-small"] == "audit"


def test_the_same_limits_without_offload_are_tight_and_no_more() -> None:
    sides: dict[str, Any] = {"requests": {"memory": "8Gi"}, "limits": {"memory": "8Gi"}}
    found = modes(deployment(spec([M8, "--max-model-len", "4096"], **sides)))

    assert found["memory-limit-below-checkpoint"] == "audit"
    assert "deny" not in found.values()
    assert not {"memory-headroom-missing", "memory-request-too-low", "offload-exceeds-limit"} & set(found)


def test_a_pod_s_own_limit_is_a_ceiling_too() -> None:
    pod = spec([M8, "--cpu-offload-gb", "8", "--max-model-len", "4096"], limits={"memory": "64Gi"})
    (judged,) = [
        judged
        for judged in judge(deployment({**pod, "resources": {"limits": {"memory": "8Gi"}}})).findings
        if judged.mode == "deny"
    ]

    assert judged.rule == "offload-exceeds-limit"
    assert str(judged.finding.path) == "spec.template.spec.resources.limits.memory"
    assert not judged.finding.fix


def test_a_limit_range_may_set_what_a_workload_does_not_show() -> None:
    pod = spec([M8, "--max-model-len", "4096"])
    findings = {
        kind: next(one for one in judge(obj).findings if one.rule == "memory-limit-missing").finding.certainty
        for kind, obj in (
            ("Deployment", deployment(pod)),
            ("Pod", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": pod}),
        )
    }

    assert findings == {"Deployment": "likely", "Pod": "certain"}


def test_a_device_that_shares_its_memory_with_the_host_is_only_warned_about() -> None:
    pod = spec([M8, "--cpu-offload-gb", "8", "--max-model-len", "4096"], limits={"memory": "8Gi"})
    pod["nodeSelector"] = {"nvidia.com/gpu.product": "NVIDIA-GB10"}

    assert modes(deployment(pod))["offload-exceeds-limit"] == "warn"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"limits": {"google.com/tpu": "4", "cpu": "1", "memory": "4Gi"}}, id="TPU"),
        pytest.param({"limits": {"habana.ai/gaudi": "1", "cpu": "1", "memory": "4Gi"}}, id="Gaudi"),
        pytest.param({"env": [{"name": "JAX_PLATFORMS", "value": "proxy"}]}, id="Pathways"),
        pytest.param({"of": "vllm/vllm-openai-cpu:v0.27.1"}, id="a build for processors"),
    ],
)
def test_other_devices_processes_are_not_known(change: dict[str, Any]) -> None:
    pod = spec([M8, "-tp", "4", "--max-model-len", "4096"], **{k: v for k, v in change.items() if k != "of"})
    del pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"]
    pod["containers"][0]["image"] = change.get("of", pod["containers"][0]["image"])
    pod["containers"][0]["livenessProbe"] = {**HEALTH, "failureThreshold": 1}
    del pod["containers"][0]["startupProbe"]

    assert not {
        "shm-missing", "memory-limit-too-low", "cpu-too-small", "liveness-probe-kills-startup"
    } & set(modes(deployment(pod)))  # fmt: skip


def service(name: str, **more: Any) -> dict[str, Any]:
    """A Service."""
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, **more}, "spec": {"ports": []}}


@pytest.mark.parametrize(
    ("beside", "more", "mode"),
    [
        (service("vllm"), {}, "deny"),
        (service("vllm", namespace="other"), {}, "warn"),
        (service("vllm-dp-master"), {}, "warn"),
        (service("vllm"), {"image": "v0.4.1"}, "warn"),
        (service("vllm"), {"envFrom": [{"configMapRef": {"name": "elsewhere"}}]}, "warn"),
        (service("vllm"), {"env": [{"name": "VLLM_PORT", "value": "5000"}]}, None),
        (service("vllm"), {"enableServiceLinks": False}, None),
        (service("chat"), {}, None),
    ],
)
def test_a_service_s_name_may_set_vllm_s_own_variables(
    beside: dict[str, Any], more: dict[str, Any], mode: str | None
) -> None:
    pod = spec([M8, "--max-model-len", "4096"], limits={"memory": "32Gi"}, **more)

    assert modes(deployment(pod), beside).get("service-link-clash") == mode
    admitted = lint(deployment(pod), builtin(), Facts(companions=Companions((beside,))), where="admission")
    assert "service-link-clash" not in {judged.rule for judged in admitted.findings}


SERVE = f"vllm serve {M8} --max-model-len 4096"


@pytest.mark.parametrize(
    ("command", "mode", "fixed"),
    [
        (["sh", "-c", f"true && {SERVE}"], "warn", f"true && exec {SERVE}"),
        (["sh", "-c", f"A=1 {SERVE}; "], "audit", f"A=1 exec {SERVE}; "),
        (["bash", "-c", f"set -e\n{SERVE}\n"], "audit", f"set -e\nexec {SERVE}\n"),
        (["bash", "-c", f"set -e\n{SERVE}\n# done\n"], "warn", f"set -e\nexec {SERVE}\n# done\n"),
        (["bash", "-c", f"{SERVE} 2>&1"], "audit", f"exec {SERVE} 2>&1"),
        (["bash", "-c", f"true; {SERVE} > /tmp/log"], "warn", f"true; exec {SERVE} > /tmp/log"),
        (["bash", "-c", f"{SERVE} | tee /tmp/log"], "warn", None),
        (["bash", "-c", f"{SERVE} & wait"], "warn", None),
        (["bash", "-c", f"if true; then {SERVE}; fi"], "warn", None),
        (["bash", "-c", f"f() {{ {SERVE}; }}; f"], "warn", None),
        (["bash", "-c", f"echo {{{{ x }}}}; {SERVE}"], "audit", None),
        (["bash", "-c", f"exec {SERVE}"], None, None),
        (["vllm", "serve", M8, "--max-model-len", "4096"], None, None),
    ],
)
def test_what_a_shell_does_with_its_last_command(command: list[str], mode: str | None, fixed: str | None) -> None:
    """Measured with bash 5.2 and dash 0.5.12: who is the first process while the last command runs."""
    pod = spec([], limits={"memory": "32Gi"}, command=command)
    del pod["containers"][0]["args"]
    obj = deployment(pod)

    assert modes(obj).get("shell-swallows-sigterm") == mode
    edits = [e for j in judge(obj).findings if j.rule == "shell-swallows-sigterm" for e in j.finding.fix]
    after = apply(obj, json_patch(obj, edits))["spec"]["template"]["spec"]["containers"][0]["command"][-1]
    assert after == (fixed or command[-1])


def test_a_hook_that_stops_vllm_is_a_way_to_stop() -> None:
    hook: dict[str, Any] = {"lifecycle": {"preStop": {"exec": {"command": ["pkill", "vllm"]}}}}
    pod = spec([], command=["sh", "-c", f"true && {SERVE}"], limits={"memory": "32Gi"}, **hook)

    assert "shell-swallows-sigterm" not in modes(deployment(pod))


@pytest.mark.parametrize(
    ("hook", "seconds"),
    [
        ({"sleep": {"seconds": 45}}, 60),
        ({"exec": {"command": ["/bin/sh", "-c", "sleep 10; sleep 50s"]}}, 90),
        ({"exec": {"command": "sleep 45"}}, None),
        ({"httpGet": {"port": 8000}}, None),
        ("sleep", None),
    ],
)
def test_a_hook_s_sleep_counts_against_the_grace_period(hook: Any, seconds: int | None) -> None:
    pod = spec([M8, "--max-model-len", "4096"], limits={"memory": "32Gi"}, lifecycle={"preStop": hook})
    fixes = [j.finding.fix[0].value for j in judge(deployment(pod)).findings if "grace" in j.rule]

    assert fixes == ([seconds] if seconds else [])


@pytest.mark.parametrize("grace", [None, "soon", True, 120])
def test_a_grace_period_that_is_none_or_long_enough_says_nothing(grace: Any) -> None:
    pod = spec([M8, "--max-model-len", "4096"], limits={"memory": "32Gi"}, terminationGracePeriodSeconds=grace)

    assert "termination-grace-too-short" not in modes(deployment(pod))


@pytest.mark.parametrize(
    ("deadline", "mode"), [(60, "warn"), (None, None), (300, "audit"), ("soon", None), (True, None)]
)
def test_a_rollout_s_deadline_against_the_start(deadline: Any, mode: str | None) -> None:
    pod = spec([M8, "--max-model-len", "4096"], limits={"memory": "32Gi"})
    fields = {} if deadline is None else {"progressDeadlineSeconds": deadline}

    assert modes(deployment(pod, **fields)).get("progress-deadline-too-short") == mode


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (64, "memory: 64Gi"),
        ("64gb", "memory: 64G"),
        ("64m", "memory: 64Gi"),
        ("1024m", "memory: 20Gi"),
        ("16384m", "memory: 16384Mi"),
        ("512MB", "memory: 20Gi"),
        ("2", "memory: 20Gi"),
        ("12XB", None),
        ("${MEMORY}", ""),
        ("64Gi", ""),
        (None, ""),
        (True, ""),
        (0, ""),
    ],
)
def test_what_was_meant_by_a_quantity(given: Any, said: str | None) -> None:
    pod = spec([M8, "--max-model-len", "4096"], limits={"memory": given})
    found = [one.finding.suggestions for one in judge(deployment(pod)).findings if one.rule == "quantity-suspicious"]

    assert found == ([] if said == "" else [(said,) if said else ()])


@pytest.mark.parametrize(("given", "said"), [("24g", "memory: 24G"), ("24m", "memory: 5Gi")])
def test_what_was_meant_by_a_request(given: str, said: str) -> None:
    pod = spec([M8, "--max-model-len", "4096"], limits={"memory": "32Gi"}, requests={"memory": given})
    found = [one.finding.suggestions for one in judge(deployment(pod)).findings if one.rule == "quantity-suspicious"]

    assert found == [(said,)]


@pytest.mark.parametrize(("given", "meant"), [("64", ("ephemeral-storage: 64Gi",)), ("512Ki", ())])
def test_no_suggestion_repeats_what_is_there(given: str, meant: tuple[str, ...]) -> None:
    pod = spec([M8, "--max-model-len", "4096"], requests={"ephemeral-storage": given})
    found = [one.finding.suggestions for one in judge(deployment(pod)).findings if one.rule == "quantity-suspicious"]

    assert found == [meant]


def test_a_limit_for_what_is_offloaded_says_what_it_is_made_of() -> None:
    pod = spec([M8, "--max-model-len", "4096", "--cpu-offload-gb", "8"], limits={"memory": "8Gi"})
    found = next(one.finding for one in judge(deployment(pod)).findings if one.rule == "offload-exceeds-limit")

    assert found.suggestions == ("resources.limits.memory: 32Gi",)
    assert found.details[-1] == (
        "32Gi: up to 16 GiB for what is offloaded (a pinned allocation takes a power of two), up to 16 GiB besides, "
        "rounded up"
    )


def test_a_slip_of_the_unit_at_shm_is_seen_too() -> None:
    volumes = [{"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": 16}}]
    pod = spec([M8], limits={"memory": "64Gi", "cpu": "4000"}, volumes=volumes, volumeMounts=SHM["volumeMounts"])

    assert [j.finding.message for j in judge(deployment(pod)).findings if j.rule == "quantity-suspicious"] == [
        "cpu '4000' is 4,000 cores",
        "sizeLimit '16' is 16 bytes",
    ]


@pytest.mark.parametrize(
    ("probe", "rules"),
    [
        pytest.param({"exec": {"command": ["true"]}}, set(), id="an exec probe may know better"),
        pytest.param({"httpGet": {"port": 9000, "host": "10.0.0.1"}}, set(), id="another host's"),
        pytest.param({"httpGet": {"port": "9000", "path": "/health"}}, {"probe-wrong-port"}, id="a number as text"),
        pytest.param(
            {"httpGet": {"port": "web", "path": "/health"}}, {"probe-wrong-port"}, id="a name nobody declared"
        ),
        pytest.param({"tcpSocket": {"port": 9000}}, {"probe-wrong-port"}, id="over TCP"),
        pytest.param({"httpGet": {"port": 8000, "path": "/health/"}}, set(), id="a slash at the end is redirected"),
        pytest.param({"httpGet": {"port": 8000, "path": "/health?x=1"}}, set(), id="a query"),
        pytest.param({"httpGet": {"port": 8000, "path": "/v1/chat/completions"}}, {"probe-wrong-path"}, id="POST"),
        pytest.param({"httpGet": {"port": 8000, "path": "/mine"}}, {"probe-wrong-path"}, id="none of vLLM's"),
    ],
)
def test_whom_a_probe_asks(probe: dict[str, Any], rules: set[str]) -> None:
    pod = spec([M8, "--max-model-len", "4096"], limits={"memory": "32Gi"})
    pod["containers"][0]["readinessProbe"] = probe

    assert {rule for rule in modes(deployment(pod)) if rule.startswith("probe")} == rules


@pytest.mark.parametrize(
    ("args", "headers", "found"),
    [
        (["--api-key", "secret"], [], True),
        (["--api-key", "secret"], [{"name": "Authorization", "value": "Bearer secret"}], False),
        ([], [], False),
    ],
)
def test_a_key_is_needed_under_v1(args: list[str], headers: list[Any], found: bool) -> None:
    pod = spec([M8, "--max-model-len", "4096", *args], limits={"memory": "32Gi"})
    ask = {"port": 8000, "path": "/v1/models", "httpHeaders": headers}
    pod["containers"][0]["startupProbe"] = {"httpGet": ask, "failureThreshold": 120}

    assert (modes(deployment(pod)).get("probe-wrong-path") == "deny") is found


@pytest.mark.parametrize(
    ("more", "port"),
    [
        pytest.param([], 8000, id="vLLM's own default"),
        pytest.param(["--port", "9000"], 9000, id="as given"),
        pytest.param(["--uds", "/tmp/vllm.sock"], None, id="a socket in the file system"),
        pytest.param(["--grpc"], None, id="no HTTP"),
        pytest.param(["--ssl-certfile", "a", "--ssl-keyfile", "b", "--ssl-cert-reqs", "2"], None, id="client's too"),
        pytest.param(["--ssl-certfile", "$(CERT)"], None, id="HTTPS or not can't be known"),
        pytest.param(["--headless", "-dp", "2", "-dpl", "1"], None, id="no port at all"),
        pytest.param(["--max-num-seqs=64 --port=9000"], 9000, id="once it is a word of its own"),
        pytest.param(["--served-model-name=llm --port=9000"], None, id="if it is meant to be one"),
    ],
)
def test_a_probe_is_only_added_where_port_scheme_and_role_are_certain(more: list[str], port: int | None) -> None:
    env = [{"name": "CERT", "valueFrom": {"secretKeyRef": {"name": "tls", "key": "cert"}}}]
    pod = spec([M8, "--max-model-len", "4096", *more], limits={"memory": "32Gi"}, env=env)
    del pod["containers"][0]["startupProbe"], pod["containers"][0]["readinessProbe"]
    obj = deployment(pod)
    container = apply(obj, json_patch(obj, repair(obj, builtin(), Facts()).edits))["spec"]["template"]["spec"][
        "containers"
    ][0]

    assert [container.get(name, {}).get("httpGet", {}).get("port") for name in ("startupProbe", "readinessProbe")] == [
        port,
        port,
    ]


def test_two_engines_repaired_at_once_share_no_volume() -> None:
    """What the webhook does: every fix of one reading, together."""
    first = spec([M70, "-tp", "4", "--max-model-len", "8192"], gpus=4, limits={"memory": "192Gi"})
    second = copy.deepcopy(first["containers"][0])
    second |= {"name": "second", "args": [M8, "-tp", "2", "--port", "8001", "--max-model-len", "8192"]}
    obj = deployment({**first, "containers": [*first["containers"], second]})
    edits = [edit for j in judge(obj).findings if j.rule == "shm-missing" for edit in j.finding.fix]
    after = apply(obj, json_patch(obj, edits))["spec"]["template"]["spec"]

    assert [volume["name"] for volume in after["volumes"]] == ["dshm", "dshm-second"]
    assert [one["volumeMounts"][0]["name"] for one in after["containers"]] == ["dshm", "dshm-second"]


def test_a_sidecar_that_runs_vllm_gets_its_shm_where_it_stands() -> None:
    pod = spec([M8, "-tp", "2", "--max-model-len", "8192"], gpus=2, limits={"memory": "64Gi"})
    sidecar = {**pod["containers"][0], "restartPolicy": "Always"}
    obj = deployment({**pod, "initContainers": [sidecar], "containers": [{"name": "app", "image": "acme/app:1"}]})
    after = apply(obj, json_patch(obj, repair(obj, builtin(), Facts()).edits))["spec"]["template"]["spec"]

    assert after["initContainers"][0]["volumeMounts"] == [{"name": "dshm-vllm", "mountPath": "/dev/shm"}]
    assert "volumeMounts" not in after["containers"][0]


def test_repairs_settle_in_one_run() -> None:
    """Everything wrong at once."""
    text = f"""
    nodeSelector: {{nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB}}
    containers:
    - name: vllm
      image: vllm/vllm-openai:v0.27.1
      command: [sh, -c, 'true && vllm serve {M70} -tp 4 --max-model-len 8192 --shutdown-timeout 60']
      resources: {{limits: {{nvidia.com/gpu: 4, memory: 16Gi}}, requests: {{memory: 4Gi}}}}
      livenessProbe: {{httpGet: {{path: /health, port: 8000}}, initialDelaySeconds: 5, periodSeconds: 1}}
      volumeMounts: [{{name: dshm, mountPath: /dev/shm, readOnly: true}}]
    volumes: [{{name: dshm, emptyDir: {{medium: Memory, sizeLimit: 64Mi}}}}]
    """
    obj = deployment(yaml.safe_load(text), progressDeadlineSeconds=120)
    fixed = apply(obj, json_patch(obj, repair(obj, builtin(), Facts()).edits))

    assert not [judged.rule for judged in judge(fixed).findings if judged.finding.fix]
    assert not judge(fixed).denied
    assert json_patch(fixed, repair(fixed, builtin(), Facts()).edits) == []


def test_a_key_from_a_secret_hides_no_other_argument() -> None:
    """What vLLM would reject is denied all the same."""
    env = [{"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "vllm", "key": "key"}}}]
    args = [M8, "-tp", "2", "--api-key", "$(KEY)", "--max-model-len", "8192"]
    pod = spec(args, gpus=2, limits={"memory": "64Gi"}, env=env)

    assert modes(deployment(pod))["shm-missing"] == "deny"


@pytest.mark.parametrize(
    ("sides", "mode"),
    [
        ({"limits": {"memory": 64}}, "deny"),
        ({"limits": {"memory": "64Gi"}, "requests": {"memory": 64}}, "warn"),
        ({"limits": {"memory": "64Gi"}, "requests": {"memory": "64GB"}}, "deny"),
        ({"limits": {"cpu": "4000"}}, "deny"),
        ({"requests": {"cpu": "4000"}}, "deny"),
        ({"limits": {"cpu": "4000"}, "requests": {"cpu": "4"}}, "warn"),
    ],
)
def test_what_a_node_can_give_runs(sides: dict[str, Any], mode: str) -> None:
    assert modes(deployment(spec([M8, "--max-model-len", "4096"], **sides)))["quantity-suspicious"] == mode


@pytest.mark.parametrize(
    ("variable", "found"),
    [
        ({"value": "secret"}, True),
        ({"value": ""}, False),
        ({"valueFrom": {"secretKeyRef": {"name": "vllm", "key": "key"}}}, True),
        ({"valueFrom": {"secretKeyRef": {"name": "vllm", "key": "key", "optional": True}}}, False),
    ],
)
def test_a_key_in_the_environment(variable: dict[str, Any], found: bool) -> None:
    env = [{"name": "VLLM_API_KEY", **variable}]
    pod = spec([M8, "--max-model-len", "4096"], limits={"memory": "32Gi"}, env=env)
    pod["containers"][0]["startupProbe"] = {"httpGet": {"port": 8000, "path": "/v1/models"}, "failureThreshold": 120}

    assert ("probe-wrong-path" in modes(deployment(pod))) is found


@pytest.mark.parametrize(("leader", "asked"), [(True, False), (False, True)])
def test_a_worker_beside_a_leader_is_asked_for_no_probe(leader: bool, asked: bool) -> None:
    pod = spec([M8, "--max-model-len", "4096"], limits={"memory": "32Gi"})
    for name in ("startupProbe", "readinessProbe"):
        del pod["containers"][0][name]
    head = {"leaderTemplate": {"spec": {"containers": [{"name": "lead", "image": "acme/lead:1"}]}}} if leader else {}
    group = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": {"name": "llm"},
        "spec": {"leaderWorkerTemplate": {"size": 2, "workerTemplate": {"spec": pod}, **head}},
    }  # fmt: skip

    assert ({"startup-probe-missing", "readiness-probe-missing"} <= set(modes(group))) is asked


LEADS = 'if [ "$LWS_WORKER_INDEX" = 0 ]; then'
SERVE = f"exec vllm serve {M8} --max-model-len 4096"


@pytest.mark.parametrize(
    ("script", "asked", "fixed"),
    [
        pytest.param(SERVE, True, True, id="one way, one server"),
        pytest.param(f"{LEADS} {SERVE}; else {SERVE} --headless; fi", False, False, id="a follower in a branch"),
        pytest.param(f"{LEADS} {SERVE}; fi; {SERVE} --headless", False, False, id="a follower after the branch"),
        pytest.param(f"{SERVE} $([ $LWS_WORKER_INDEX = 0 ] || echo --headless)", False, False, id="of a command"),
        pytest.param(f"{LEADS} :; else X=--headless; fi; {SERVE} $X", False, False, id="of a variable"),
        pytest.param(f"cat > x.sh <<'E'\n{LEADS} {SERVE}; else sleep inf; fi\nE\nsh x.sh", False, False, id="a file"),
        pytest.param(f"{LEADS} {SERVE}; else ray start --block --address a:6379; fi", False, False, id="Ray's worker"),
        pytest.param(f"{LEADS} {SERVE}; else sleep infinity; fi", False, False, id="nothing in the other branch"),
        pytest.param(f"{LEADS} :; else sleep infinity; exit 0; fi; {SERVE}", False, False, id="nothing, and the end"),
        pytest.param(f"ray start --head --port 6379; {SERVE}", True, True, id="Ray's head beside it"),
        pytest.param(f"{LEADS} {SERVE}; else {SERVE} --port 9000; fi", True, False, id="another port"),
        pytest.param(f"cd /data && {SERVE} || exit 1", True, True, id="a failure that ends the script"),
    ],
)
def test_a_probe_is_asked_for_only_where_every_way_through_the_script_serves(
    script: str, asked: bool, fixed: bool
) -> None:
    pod = spec([], limits={"memory": "32Gi"}, command=["bash", "-c", script])
    for name in ("startupProbe", "readinessProbe"):
        del pod["containers"][0][name]

    found = {judged.rule: judged.finding for judged in judge(deployment(pod)).findings}
    probes = [one for one in ("startup-probe-missing", "readiness-probe-missing") if one in found]
    assert probes == (["startup-probe-missing", "readiness-probe-missing"] if asked else [])
    assert [bool(found[one].fix) for one in probes] == [fixed] * len(probes)


def test_a_follower_gets_no_startup_probe_beside_its_liveness_probe() -> None:
    script = f"{LEADS} {SERVE}; else {SERVE} --headless; fi"
    for delay in (5, 3000):
        pod = spec([], limits={"memory": "32Gi"}, command=["bash", "-c", script])
        pod["containers"][0]["livenessProbe"] = {**HEALTH, "initialDelaySeconds": delay}
        del pod["containers"][0]["startupProbe"]
        report = judge(deployment(pod))

        assert not [edit for judged in report.findings for edit in judged.finding.fix if "startupProbe" in str(edit)]
        assert not [text for judged in report.findings for text in judged.finding.suggestions if "startupProbe" in text]


@pytest.mark.parametrize(
    ("image", "env", "mode", "fixed"),
    [
        pytest.param("v0.27.1", {"VLLM_ENGINE_READY_TIMEOUT_S": "300", "A": "b"}, "warn", True, id="in its place"),
        pytest.param("v0.27.1", {}, "audit", True, id="the default, which only a slow start exceeds"),
        pytest.param("v0.13.0", {"VLLM_ENGINE_READY_TIMEOUT_S": "9000"}, None, False, id="one server before 0.15"),
        pytest.param("v0.27.1", {"VLLM_ENGINE_READY_TIMEOUT_S": "soon"}, "audit", True, id="no number"),
    ],
)
def test_several_api_servers_wait_ten_minutes(image: str, env: dict[str, str], mode: str | None, fixed: bool) -> None:
    listed = [{"name": name, "value": value} for name, value in env.items()]
    args = [M70, "-tp", "4", "-dp", "2", "--max-model-len", "8192"]
    obj = deployment(spec(args, gpus=8, image=image, limits={"memory": "256Gi"}, env=listed, **SHM))
    found = [one for one in judge(obj).findings if one.rule == "engine-ready-timeout-too-short"]
    after = apply(obj, json_patch(obj, [edit for one in found for edit in one.finding.fix]))
    kept = {one["name"]: one["value"] for one in after["spec"]["template"]["spec"]["containers"][0].get("env", [])}

    assert [one.mode for one in found] == ([mode] if mode else [])
    assert (kept.get("VLLM_ENGINE_READY_TIMEOUT_S") == "5400") is fixed
    assert kept.get("A") == env.get("A")


def test_before_0_14_the_ten_minutes_can_not_be_changed() -> None:
    args = [M70, "-tp", "4", "-dp", "2", "--api-server-count", "2", "--max-model-len", "8192"]
    obj = deployment(spec(args, gpus=8, image="v0.13.0", limits={"memory": "256Gi"}, **SHM))
    (found,) = [one for one in judge(obj).findings if one.rule == "engine-ready-timeout-too-short"]

    assert not found.finding.fix
    assert found.finding.suggestions == ("--api-server-count 1",)
