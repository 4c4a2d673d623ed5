"""What an author of objects can cost the server: each dimension of an object, grown to the API server's limit.

    python -m benchmarks.hostile [NAME …]

Each dimension is doubled three times, up to an object of 3 MiB (k8s.io/apiserver MaxRequestBodyBytes). The whole
application reviews it, from the bytes of the body to the bytes of the answer. The object never fits its GPU. Both
figures are CPU time from one run, the median of ROUNDS:

- the exponent of the last three doublings is at most EXPONENT;
- at 3 MiB, the review takes at most TIMES as long as `json.loads` of the same body.

No review may be late or fail. A decision that differs from that on one item is printed: a script of more than the
longest that is read is allowed with a warning. Each round has other texts, so that nothing is cached. `NAME`: only the
dimensions that begin with one of these. The exit code is 1 if a dimension misses.
"""

from __future__ import annotations

import gc
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from random import SystemRandom
from typing import Any

from benchmarks.fuzz import Client
from benchmarks.mutations import JSONDict, review

LIMIT = 3 << 20
"""Bytes of the largest object."""
DOUBLINGS = 3
EXPONENT = 1.2
TIMES = 20.0
ROUNDS = 5
MODEL = "meta-llama/Llama-3.1-70B-Instruct"
"""Twice as large as the GPU of `vllm`."""

# ── Objects ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def many(n: int, item: str) -> list[str]:
    """n texts, with their numbers in place of `#`."""
    before, _, after = item.partition("#")
    return [f"{before}{i}{after}" for i in range(n)]


def each(n: int, make: Callable[[int], Any]) -> list[Any]:
    """n values."""
    return [make(i) for i in range(n)]


def keys(n: int, item: str, value: Any = "a") -> JSONDict:
    """An object of n keys."""
    return dict.fromkeys(many(n, item), value)


def vllm(*args: str, **fields: Any) -> JSONDict:
    """A container that never fits its GPU; these arguments come after the model."""
    resources = {"limits": {"nvidia.com/gpu": "1", "memory": "200Gi"}}
    image = "vllm/vllm-openai:v0.27.1"
    return {"name": "vllm", "image": image, "args": ["--model", MODEL, *args], "resources": resources, **fields}


def template(container: JSONDict, **spec: Any) -> JSONDict:
    """A Pod's spec."""
    more = spec.pop("containers", [])
    selector = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
    return {"nodeSelector": selector, "containers": [container, *more], **spec}


def pod(container: JSONDict | None = None, metadata: JSONDict | None = None, **spec: Any) -> JSONDict:
    """A Pod."""
    inner = template(vllm() if container is None else container, **spec)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", **(metadata or {})}, "spec": inner}


def args(*words: str) -> JSONDict:
    """A Pod with these arguments."""
    return pod(vllm(*words))


def script(text: str) -> JSONDict:
    """A Pod that starts vLLM at the end of a script."""
    return pod(vllm(command=["bash", "-c", f"{text}\nexec vllm serve {MODEL}"], args=[]))


def limits(**quantities: str) -> JSONDict:
    """A Pod with these limits."""
    return pod(vllm(resources={"limits": {"nvidia.com/gpu": "1", **quantities}}))


def affinity(*terms: Any) -> JSONDict:
    """A Pod with these terms of node affinity."""
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [*terms]}}
    return pod(affinity={"nodeAffinity": required})


def term(*expressions: JSONDict) -> JSONDict:
    """A term of node affinity."""
    return {"matchExpressions": [*expressions]}


def product(*values: str, operator: str = "In") -> JSONDict:
    """An expression on the product of the GPU."""
    return {"key": "nvidia.com/gpu.product", "operator": operator, "values": [*values]}


def custom(api_version: str, kind: str, **spec: Any) -> JSONDict:
    """An object of another kind."""
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}, "spec": spec}


def ray(groups: list[Any], serve: str | None = None, **cluster: Any) -> JSONDict:
    """A RayCluster, or a RayService with this configuration, whose head serves."""
    head = {"rayStartParams": {}, "template": {"spec": template(vllm())}}
    spec = {"headGroupSpec": head, "workerGroupSpecs": groups, **cluster}
    if serve is None:
        return custom("ray.io/v1", "RayCluster", **spec)
    return custom("ray.io/v1", "RayService", serveConfigV2=serve, rayClusterConfig=spec)


def group(name: str, container: JSONDict) -> JSONDict:
    """A worker group."""
    return {"groupName": name, "replicas": 1, "template": {"spec": {"containers": [container]}}}


def workflow(templates: list[Any], **spec: Any) -> JSONDict:
    """A Workflow whose first template serves."""
    selector = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
    first = {"name": "main", "container": vllm()}
    return custom(
        "argoproj.io/v1alpha1",
        "Workflow",
        entrypoint="main",
        nodeSelector=selector,
        templates=[first, *templates],
        **spec,
    )


def engines(n: int, s: str, **spec: Any) -> JSONDict:
    """A Pod of 400 vLLM containers, and more of something else that each of them may look at."""
    return pod(containers=each(400, lambda i: vllm(name=f"{s}{i}")), **spec)


def sidecar(name: str, **fields: Any) -> JSONDict:
    """A container without vLLM."""
    return {"name": name, "image": "busybox", "command": ["sleep", "1"], **fields}


CONFIG = "applications:\n- name: a\n  args:\n    llm_configs:\n"
ENGINE = "    - model_loading_config: {model_id: org/#}\n      engine_kwargs: {max_model_len: 8192}"
SERVE_1 = CONFIG + ENGINE

# ── Dimensions ───────────────────────────────────────────────────────────────────────────────────────────────────────

Make = Callable[[int, str], JSONDict]
"""How much of something, and a text like no other round's → the object."""

DIMENSIONS: dict[str, Make] = {
    "words: of one list": lambda n, s: args("--served-model-name", *many(n, f"{s}#")),
    "words: one letter": lambda n, s: args(*["a"] * n),
    "words: unknown flags": lambda n, s: args(*many(n, f"--{s}#=v")),
    "words: one flag again": lambda n, s: args(*["--max-num-seqs", "8"] * n),
    "words: one switch again": lambda n, s: args(*["--enforce-eager"] * n),
    "words: underscores": lambda n, s: args(*many(n, "--max_num_seqs=#")),
    "words: dotted keys": lambda n, s: args(*many(n, f"--compilation-config.{s}#=1")),
    "words: references": lambda n, s: args(*many(n, "--served-model-name=$(A#)")),
    "words: lines": lambda n, s: args(*many(n, "--max-num-seqs #")),
    "words: secrets": lambda n, s: args(*many(n, f"--api-key=sk-{s}#")),
    "words: of env": lambda n, s: pod(vllm(command=["env", *many(n, f"{s}#=a"), "vllm", "serve", MODEL], args=[])),
    "words: of env -S": lambda n, s: pod(vllm(command=["env", "-S", "A=b " * n + f"vllm serve {MODEL}"], args=[])),
    "words: of a sidecar": lambda n, s: pod(containers=[sidecar("b", args=many(n, "#"))]),
    "word: letters": lambda n, s: args("--chat-template", s + "x" * n),
    "word: digits": lambda n, s: args("--max-model-len", "7" * n),
    "word: flag": lambda n, s: args("--" + "a-" * n),
    "word: references": lambda n, s: args("--chat-template", s + "$(A)" * n),
    "word: openings": lambda n, s: args("--chat-template", s + "$(" * n),
    "word: URLs": lambda n, s: args("--chat-template", s + "https://u:p@h/ " * n),
    "word: mentions": lambda n, s: args("--chat-template", s + "huggingface" * n, "login"),
    "word: users": lambda n, s: args("--chat-template", "https://" + "ab-" * n + "!@h/"),
    "word: model": lambda n, s: args("--model", "a/" * n),
    "word: image": lambda n, s: pod(containers=[vllm(image="a/" * n + "vllm-openai:v0.27.1")]),
    "JSON: unknown keys": lambda n, s: args("--compilation-config", json.dumps(keys(n, f"{s}#"))),
    "JSON: depth": lambda n, s: args("--hf-overrides", '{"a":' * n + "1" + "}" * n),
    "JSON: list": lambda n, s: args("--hf-overrides", json.dumps({"architectures": many(n, f"{s}#")})),
    "JSON: sizes": lambda n, s: args("--compilation-config", json.dumps({"cudagraph_capture_sizes": [*range(n)]})),
    "JSON: digits": lambda n, s: args("--hf-overrides", '{"a": ' + "7" * n + "}"),
    "JSON: exponent": lambda n, s: args("--hf-overrides", '{"a": 1e' + "9" * n + "}"),
    "JSON: quotes": lambda n, s: args("--hf-overrides", '{"a": ' + '"' * n),
    "JSON: one flag again": lambda n, s: args(*many(n, '--hf-overrides={"a": #}')),
    "script: commands": lambda n, s: script("\n".join(many(n, f"echo {s}#"))),
    "script: variables": lambda n, s: script("\n".join(many(n, f"export A#={s}$A"))),
    "script: doubling": lambda n, s: script("A=aaaaaaaaaaaaaaaa\n" + "A=$A$A\n" * n),
    "script: branches": lambda n, s: script("\n".join(many(n, 'if [ -n "$A" ]; then echo #; fi'))),
    "script: one word": lambda n, s: script("echo " + s + "x" * n),
    "script: comment": lambda n, s: script("#" + s + "x" * n),
    "script: depth": lambda n, s: script("( " * n + "true" + " )" * n),
    "script: functions": lambda n, s: script("\n".join(many(n, "f#() { f; }"))),
    "script: arithmetic": lambda n, s: script("A=$((" + "1+" * n + "1))"),
    "containers: sidecars": lambda n, s: pod(containers=each(n, lambda i: sidecar(f"{s}{i}"))),
    "containers: init": lambda n, s: pod(initContainers=each(n, lambda i: sidecar(f"{s}{i}"))),
    "containers: scripts": lambda n, s: pod(
        initContainers=each(n, lambda i: sidecar(f"{s}{i}", command=["sh", "-c", f"echo {s}{i} | cat"]))
    ),
    "containers: vLLM": lambda n, s: pod(containers=each(n, lambda i: vllm(name=f"{s}{i}"))),
    "containers: vLLM in scripts": lambda n, s: pod(
        containers=each(n, lambda i: vllm(name=f"{s}{i}", command=["sh", "-c", f"vllm serve org/{s}{i}"], args=[]))
    ),
    "containers: vLLM, wrong": lambda n, s: pod(
        containers=each(n, lambda i: vllm(*many(60, f"--{s}#"), name=f"{s}{i}"))
    ),
    "containers: taken for vLLM": lambda n, s: pod(
        containers=each(
            n,
            lambda i: vllm(command=["./serve", "--model", s, "--max-model-len", "1", *many(20, "--modl-s#")], args=[]),
        )
    ),
    "containers: unknown release": lambda n, s: pod(
        containers=each(n, lambda i: vllm(*many(20, f"--{s}#"), name=f"{s}{i}") | {"image": f"a/vllm-openai:{s}{i}"})
    ),
    "containers: refused by each release": lambda n, s: pod(
        containers=each(
            n, lambda i: vllm(*["--max-num-seqs=a"] * 500, name=f"{s}{i}") | {"image": f"a/vllm-openai:{s}{i}"}
        )
    ),
    "containers: a server after another": lambda n, s: pod(
        containers=each(
            n, lambda i: vllm(command=["sh", "-c", f"vllm serve {s} --a; vllm serve b --c; vllm serve d"], args=[])
        )
    ),
    "engines: sidecars": lambda n, s: pod(
        containers=[*each(400, lambda i: vllm(name=f"{s}{i}")), *each(n, lambda i: sidecar(f"x{i}"))]
    ),
    "engines: volumes": lambda n, s: engines(n, s, volumes=each(n, lambda i: {"name": f"v{i}", "emptyDir": {}})),
    "engines: claims": lambda n, s: engines(n, s, resourceClaims=each(n, lambda i: {"name": f"c{i}"})),
    "engines: tolerations": lambda n, s: engines(n, s, tolerations=each(n, lambda i: {"key": f"{s}{i}"})),
    "engines: labels": lambda n, s: engines(n, s) | {"metadata": {"name": "a", "labels": keys(n, f"a.b/{s}#")}},
    "annotations: ignored rules": lambda n, s: pod(metadata={"annotations": keys(n, f"podfit.dev/ignore-{s}#")}),
    "annotations: unknown": lambda n, s: pod(metadata={"annotations": keys(n, f"podfit.dev/{s}#")}),
    "annotations: others": lambda n, s: pod(metadata={"annotations": keys(n, f"a.b/{s}#")}),
    "annotations: one": lambda n, s: pod(metadata={"annotations": {"podfit.dev/ignore.gpu-memory-exceeded": "x" * n}}),
    "labels": lambda n, s: pod(metadata={"labels": keys(n, f"a.b/{s}#")}),
    "owner references": lambda n, s: pod(
        metadata={"ownerReferences": each(n, lambda i: {"apiVersion": "v1", "kind": "ConfigMap", "name": f"{s}{i}"})}
    ),
    "variables": lambda n, s: pod(vllm(env=each(n, lambda i: {"name": f"A{i}", "value": s}))),
    "variables: of vLLM": lambda n, s: pod(vllm(env=each(n, lambda i: {"name": f"VLLM_{s}{i}", "value": "1"}))),
    "variables: chain": lambda n, s: pod(vllm(env=each(n, lambda i: {"name": f"A{i}", "value": f"$(A{i - 1})"}))),
    "variables: doubling": lambda n, s: pod(
        vllm("$(A1000)", env=each(n, lambda i: {"name": f"A{i}", "value": f"x$(A{i - 1})$(A{i - 1})"}))
    ),
    "variables: one, used": lambda n, s: pod(
        vllm("--served-model-name", *["$(A)"] * n, env=[{"name": "A", "value": s * 1000}])
    ),
    "variables: secrets": lambda n, s: pod(vllm(env=each(n, lambda i: {"name": f"A{i}_TOKEN", "value": f"hf_{s}{i}"}))),
    "variables: envFrom": lambda n, s: pod(vllm(envFrom=each(n, lambda i: {"configMapRef": {"name": f"{s}{i}"}}))),
    "volumes": lambda n, s: pod(volumes=each(n, lambda i: {"name": f"v{i}", "emptyDir": {"medium": "Memory"}})),
    "volumes: mounted": lambda n, s: pod(
        vllm(volumeMounts=each(n, lambda i: {"name": f"v{i}", "mountPath": f"/{s}{i}"})),
        volumes=each(n, lambda i: {"name": f"v{i}", "emptyDir": {"medium": "Memory"}}),
    ),
    "mounts: one path": lambda n, s: pod(vllm(volumeMounts=[{"name": "v", "mountPath": "/.." * n}])),
    "ports": lambda n, s: pod(vllm(ports=each(n, lambda i: {"containerPort": i % 60000, "name": f"{s}{i}"}))),
    "probe: headers": lambda n, s: pod(
        vllm(readinessProbe={"httpGet": {"port": 1, "httpHeaders": each(n, lambda i: {"name": f"X-{i}", "value": s})}})
    ),
    "probe: words": lambda n, s: pod(vllm(livenessProbe={"exec": {"command": ["curl", *many(n, f"{s}#")]}})),
    "limits": lambda n, s: limits(**keys(n, f"a.b/{s}#", "1")),
    "limits: digits": lambda n, s: limits(memory="7" * n),
    "limits: fraction": lambda n, s: limits(memory="1." + "7" * n),
    "limits: exponents": lambda n, s: limits(**keys(n, "a#.b/gpu", "1e999999")),
    "node selector": lambda n, s: pod(nodeSelector=keys(n, f"a.b/{s}#") | template({})["nodeSelector"]),
    "affinity: terms": lambda n, s: affinity(*each(n, lambda i: term(product("NVIDIA-A100-SXM4-80GB")))),
    "affinity: expressions": lambda n, s: affinity(
        term(product("NVIDIA-A100-SXM4-80GB"), *each(n, lambda i: {"key": f"{s}{i}", "operator": "Exists"}))
    ),
    "affinity: products": lambda n, s: affinity(term(product(*many(n, "NVIDIA-A100-#")))),
    "affinity: other products": lambda n, s: affinity(term(product(*many(n, f"{s}#"), operator="NotIn"))),
    "tolerations": lambda n, s: pod(tolerations=each(n, lambda i: {"key": f"{s}{i}", "operator": "Exists"})),
    "claims": lambda n, s: pod(
        vllm(resources={"limits": {"nvidia.com/gpu": "1"}, "claims": each(n, lambda i: {"name": f"c{i}"})}),
        resourceClaims=each(n, lambda i: {"name": f"c{i}", "resourceClaimTemplateName": f"{s}{i}"}),
    ),
    "fields: unknown": lambda n, s: pod(**keys(n, f"{s}#")),
    "fields: depth": lambda n, s: pod(a=each(n // 90 + 1, lambda i: json.loads('{"a":' * 90 + "1" + "}" * 90))),
    "Ray: groups": lambda n, s: ray(each(n, lambda i: group(f"{s}{i}", sidecar("w")))),
    "Ray: groups with GPUs": lambda n, s: ray(each(n, lambda i: group(f"{s}{i}", vllm(args=[])))),
    "Ray: groups that serve": lambda n, s: ray(each(n, lambda i: group(f"{s}{i}", vllm()))),
    "Serve: engines": lambda n, s: ray([], CONFIG + "\n".join(many(n, ENGINE))),
    "Serve: keys": lambda n, s: ray([], SERVE_1 + "".join(many(n, f"\n      {s}#: 1"))),
    "Serve: aliases": lambda n, s: ray([], "a: &a0 [x]\n" + "\n".join(many(n, "b#: [*a0, *a0]"))),
    "Serve: depth": lambda n, s: ray([], "[" * n),
    "Workflow: templates": lambda n, s: workflow(each(n, lambda i: {"name": f"{s}{i}", "container": sidecar("a")})),
    "Workflow: vLLM": lambda n, s: workflow(each(n, lambda i: {"name": f"{s}{i}", "container": vllm()})),
    "Workflow: parameters": lambda n, s: workflow(
        each(n, lambda i: {"name": f"a{i}", "container": sidecar("a", args=[f"{{{{workflow.parameters.{s}{i}}}}}"])}),
        arguments={"parameters": each(n, lambda i: {"name": f"{s}{i}", "value": "a"})},
    ),
    "Workflow: volumes": lambda n, s: workflow(
        each(n, lambda i: {"name": f"a{i}", "container": sidecar("a")}),
        volumes=each(n, lambda i: {"name": f"{s}{i}", "emptyDir": {}}),
    ),
    "JobSet: jobs": lambda n, s: custom(
        "jobset.x-k8s.io/v1alpha2",
        "JobSet",
        replicatedJobs=each(
            n, lambda i: {"name": f"{s}{i}", "template": {"spec": {"template": {"spec": template(vllm())}}}}
        ),
    ),
}
"""What an author can make larger."""

# ── Measuring ────────────────────────────────────────────────────────────────────────────────────────────────────────


def largest(make: Make) -> int:
    """How much of a dimension fits into LIMIT."""
    few, more = (len(json.dumps(make(n, "abcdefgh"))) for n in (200, 2000))
    n = int(2000 + (LIMIT - more) / (more - few) * 1800)
    while (size := len(json.dumps(make(n, "abcdefgh")))) > LIMIT:
        n = int(n * 0.999 * LIMIT / size)
    return n


def reviewed(client: Client, make: Make, n: int) -> tuple[str, int, float, float]:
    """The decision, bytes of the body, and the medians of seconds of the review and of `json.loads`."""
    took, loads, size, decision = [], [], 0, ""
    for number in range(ROUNDS):
        salt = f"{number}{n % 10_000_000:07}"
        body = json.dumps(review(SystemRandom(), make(n, salt), uid=salt)).encode()
        begun = time.process_time()
        json.loads(body)
        loads.append(time.process_time() - begun)
        begun = time.process_time()
        status, _, line = client.post("/validate", body)
        took.append(time.process_time() - begun)
        size, decision = len(body), str(line.get("decision", status))
    return decision, size, statistics.median(took), statistics.median(loads)


def measured(names: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """A line for each dimension, and whether it meets the goals."""
    client = Client()
    gc.collect()
    gc.freeze()
    for name, make in DIMENSIONS.items():
        if names and not name.startswith(tuple(names)):
            continue
        top = largest(make)
        before, *_ = reviewed(client, make, 1)
        _, few, short, _ = reviewed(client, make, top >> DOUBLINGS)
        decision, size, long, loads = reviewed(client, make, top)
        exponent, times = math.log(long / short) / math.log(size / few), long / loads
        good = exponent <= EXPONENT and times <= TIMES and decision not in ("late", "failed")
        changed = decision if decision == before else f"{before} -> {decision}"
        yield f"{name:28} {size / 2**20:5.2f} MiB {exponent:6.2f} {times:7.1f} x {loads * 1e3:6.1f} ms  {changed}", good


def main(names: Sequence[str]) -> int:
    """Print a line for each dimension; 1 if one misses."""
    print("dimension                        body exponent  review  json.loads")
    missed = 0
    for line, good in measured(names):
        print(" " if good else "!", line, flush=True)
        missed += not good
    print(f"{missed} miss: exponent <= {EXPONENT}, review <= {TIMES:.0f} x json.loads, neither late nor failed")
    return missed > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
