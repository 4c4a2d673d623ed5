"""What runs vLLM and what does not."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from podfit.vllm.command import images
from tests.vllm.command.pods import argv, container, found

API = "vllm.entrypoints.openai.api_server"


@pytest.mark.parametrize(
    ("spec", "entry", "words"),
    [
        # commands
        ("{command: [vllm, serve, m, --port, '1']}", "serve", ["m", "--port", "1"]),
        ("{command: [/opt/venv/bin/vllm, serve], args: [m]}", "serve", ["m"]),
        (f"{{command: [python3, -m, {API}], args: [--model, m]}}", "module", ["--model", "m"]),
        (f"{{command: [/usr/bin/python3.12, -u, -X, dev, -m, {API}, --model=m]}}", "module", ["--model=m"]),
        ("{command: [python, -m, vllm.entrypoints.api_server, --model, m]}", "module", ["--model", "m"]),
        ("{command: [python, -m, vllm.entrypoints.openai.run_batch, --model, m]}", "module", ["--model", "m"]),
        ("{command: [vllm, run-batch, -i, a, --model, m]}", "module", ["-i", "a", "--model", "m"]),
        ("{command: [python3, -m, vllm.entrypoints.grpc_server], args: [--model, m]}", "module", ["--model", "m"]),
        ("{command: [python3, -m, vllm_tgis_adapter], args: [--model, m]}", "module", ["--model", "m"]),
        ("{command: [python3, -m, dynamo.vllm, --model, m]}", "module", ["--model", "m"]),
        ("{command: [python3, -m, vllm.entrypoints.cli.main, serve, m]}", "serve", ["m"]),
        # wrappers
        ("{command: [tini, --, vllm, serve, m]}", "serve", ["m"]),
        ("{command: [nsys, profile, -o, f, --trace, cuda, vllm, serve, m]}", "serve", ["m"]),
        ("{command: [proxychains4, -q, vllm, serve, m]}", "serve", ["m"]),
        ("{command: [newrelic-admin, run-program, vllm, serve, m]}", "serve", ["m"]),
        ("{image: 'registry.example/vllm:1-gpu', args: [--model, m]}", "module", ["--model", "m"]),
        ("{image: 'registry.example/vllm:1-gpu', args: [m, --port=1]}", "serve", ["m", "--port=1"]),
        ("{command: [numactl, --cpunodebind=0, -m, '0', vllm, serve, m]}", "serve", ["m"]),
        ("{command: [prlimit, '--nofile=65536:65536', vllm, serve, m]}", "serve", ["m"]),
        ("{command: [systemd-run, --scope, vault-env, vllm, serve, m]}", "serve", ["m"]),
        ("{command: [/usr/bin/env, A=b, vllm, serve, m]}", "serve", ["m"]),
        ("{command: [uv, run, --with, vllm, vllm, serve, m]}", "serve", ["m"]),
        (f"{{command: [conda, run, -n, vllm, python, -m, {API}, --model=m]}}", "module", ["--model=m"]),
        (f"{{command: [torchrun, --nproc_per_node, '1', -m, {API}, --model, m]}}", "module", ["--model", "m"]),
        (f"{{command: [python, -m, debugpy, --listen, '1', -m, {API}, --model, m]}}", "module", ["--model", "m"]),
        ("{command: [tini, -g, --, bash, -c, 'exec vllm serve m']}", "serve", ["m"]),
        ("{command: [busybox, sh, -c, 'vllm serve m']}", "serve", ["m"]),
        ("{command: [/bin/bash, -lc, --], args: ['ulimit -n 65536; vllm serve m']}", "serve", ["m"]),
        ("{command: [bash, -euxo, pipefail, -c, 'vllm serve m']}", "serve", ["m"]),
        ("{command: [bash], args: [-c, 'vllm serve m']}", "serve", ["m"]),
        ("{command: [sh, -c, 'sudo -u vllm vllm serve m']}", "serve", ["m"]),
        ("{command: ['vllm serve m --port 1']}", "serve", ["m", "--port", "1"]),
        ("{command: [su, vllm, -s, /bin/bash, -c, 'vllm serve m']}", "serve", ["m"]),
        ("{command: [sh, -c, 'runuser -u vllm -- vllm serve m']}", "serve", ["m"]),
        ("{command: [sh, -c, \"script -q -c 'vllm serve m' /dev/null\"]}", "serve", ["m"]),
        ("{command: [sh, -c, 'echo m | xargs vllm serve']}", "serve", [""]),
        # in a terminal of its own, or several at once
        ("{command: [flock, /tmp/lock, -c, 'vllm serve m']}", "serve", ["m"]),
        ("{command: [python3, -OO, -um, vllm.entrypoints.openai.api_server, --model=m]}", "module", ["--model=m"]),
        ("{command: [python3, /src/vllm/entrypoints/openai/api_server.py, --model=m]}", "module", ["--model=m"]),
        ("{command: [bash, -c, vllm, serve, m]}", "serve", ["m"]),
        # images' own entrypoints
        ("{image: 'vllm/vllm-openai:v0.20.0', args: [m, --port, '1']}", "serve", ["m", "--port", "1"]),
        ("{image: 'vllm/vllm-openai:v0.6.3', args: [--model, m]}", "module", ["--model", "m"]),
        ("{image: 'vllm/vllm-openai'}", "serve", []),
        ("{image: 'mirror.example:5000/hub/vllm/vllm-openai@sha256:00', args: [--model=m]}", "serve", ["--model=m"]),
        ("{image: 'lmcache/vllm-openai:v1', args: [m]}", "serve", ["m"]),
        ("{image: 'ghcr.io/llm-d/llm-d-cuda:v0.5.0', args: [m]}", "serve", ["m"]),
        ("{image: 'registry.redhat.io/rhaiis/vllm-cuda-rhel9:3.2', args: [--model, m]}", "module", ["--model", "m"]),
        ("{image: 'public.ecr.aws/a/vllm-cpu-release-repo:v1', args: [--model=m]}", "serve", ["--model=m"]),
        ("{image: 'nvcr.io/nvidia/vllm:25.09-py3', args: [vllm, serve, m]}", "serve", ["m"]),
        (f"{{image: 'gcr.io/x/pytorch-serve:1', args: [python, -m, {API}, --model=m]}}", "module", ["--model=m"]),
        ("{image: x/vllm-runtime, args: ['cd c && python3 -m dynamo.vllm --x=m | tee l']}", "module", ["--x=m"]),
        # KServe's huggingfaceserver speaks vLLM's flags, and calls the model its own way
        ("{image: kserve/huggingfaceserver, args: [--model_id=m, --seed=1]}", "module", ["--model", "m", "--seed=1"]),
        ("{command: [python, -m, huggingfaceserver, --model_dir, /mnt/models]}", "module", ["--model", "/mnt/models"]),
        # leaders
        ("{command: [sh, -c, 'bash multi-node-serving.sh leader --ray_cluster_size=2; vllm serve m']}", "serve", ["m"]),
        ("{command: [sh, -c, 'ray start --head --port=1 && vllm serve m']}", "serve", ["m"]),
        ("{command: [sh, -c, '$KUBERAY_GEN_RAY_START_CMD; vllm serve m']}", "serve", ["m"]),
        # workers
        ("{image: vllm/vllm-openai, command: [ray, start, '--address=a:1', --block]}", "worker", []),
        ("{image: vllm/vllm-openai, command: [sh, -c, 'ray start --address=$L --block']}", "worker", []),
        ("{image: x/vllm, command: [sh, -c, 'bash multi-node-serving.sh worker --ray_address=$(L)']}", "worker", []),
        ("{image: x/vllm, args: [bash, -lc, 'echo w; eval \"$KUBERAY_GEN_RAY_START_CMD --a\"']}", "worker", []),
    ],
)  # fmt: skip
def test_how_vllm_is_started(spec: str, entry: str, words: list[str]) -> None:
    """Commands, wrappers, images and workers."""
    command = container(yaml.safe_load(spec))
    assert command is not None
    assert (command.entry, argv(command)) == (entry, words)


@pytest.mark.parametrize(
    "spec",
    [
        "{}",
        "{image: nginx}",
        "{image: vllm/vllm-openai, command: [sleep, infinity]}",
        "{image: vllm/vllm-openai, command: [python3, /download.py, m]}",
        "{image: vllm/vllm-openai, command: [python3, benchmark_serving.py, --model, m, --max-model-len, '1']}",
        "{image: vllm/vllm-openai, command: [vllm, bench, throughput, --model, m]}",
        "{image: vllm/vllm-openai, command: [vllm, launch, render, m]}",
        "{image: vllm/vllm-openai, command: [sh, -c, 'cat > /x.sh <<EOF\\nvllm serve m\\nEOF']}",
        "{image: vllm/vllm-openai, command: [sh, -c, 'serve() { vllm serve m; }; sleep 1']}",
        "{image: vllm/vllm-openai, command: [sh, -c, 'echo vllm serve m']}",
        "{image: vllm/vllm-openai, command: [sh, -c, 'pgrep -f \"vllm serve\" && curl vllm']}",
        "{image: vllm/vllm-openai, command: [sh, -c, 'kubectl exec deploy/vllm -- vllm serve m']}",
        "{image: x/llm, command: [litellm, --model, m, --port, '1']}",
        "{image: x/llm, command: [trtllm-serve, m, --tp_size, '2']}",
        "{image: x/llm, command: [lmdeploy, serve, api_server, m, --tp, '1']}",
        "{image: x/llm, command: [bash]}",
        "{image: vllm/vllm-openai, command: [python3, -m, http.server]}",
        "{image: vllm/vllm-openai, command: [curl, http://vllm/health]}",
        "{image: vllm/vllm-openai, command: [sh, -c, 'hf download m']}",
        "{image: 'ghcr.io/llm-d/llm-d-inference-sim:v0.8', args: [--model, m, --max-model-len, '1']}",
        "{image: 'ghcr.io/llm-d/llm-d-routing-sidecar:v0.4', args: [--vllm-port=8200]}",
        "{image: 'ghcr.io/vllm-project/semantic-router:1'}",
        "{image: 'lmcache/lmstack-router', args: [--port, '1']}",
        "{image: 'x/vllm-router:1', args: [--model, m, --max-model-len, '1']}",
        "{image: 'x/vllm-mock:1', command: [python3, app.py]}",
        "{image: 'lmsysorg/sglang', command: [python3, -m, sglang.launch_server, --model-path, m]}",
        "{image: 'ghcr.io/huggingface/text-generation-inference:3', args: [--model-id, m]}",
        "{image: 'nvcr.io/nvidia/tritonserver:24', args: [tritonserver]}",
        "{image: 'nvcr.io/nvidia/vllm:25.09-py3'}",
        "{image: 'rocm/vllm:1'}",
        "{image: 'nvcr.io/nvidia/ai-dynamo/vllm-runtime:1', args: [python3, -m, dynamo.frontend]}",
        "{image: 'rayproject/ray:2', command: [ray, start, '--address=a:1']}",
        "{image: 'kserve/huggingfaceserver:1', args: [--model_id=m, --backend=huggingface]}",
        "{image: 'kserve/huggingfaceserver:1', args: [--model_id=m, --disable_vllm]}",
    ],
)
def test_what_does_not_run_vllm(spec: str) -> None:
    """What runs first decides: a vLLM image alone does not mean that vLLM runs."""
    assert container(yaml.safe_load(spec)) is None


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("{image: 'team/llm:1', args: [--model, m, --max-model-len, '1']}", ["--model", "m", "--max-model-len", "1"]),
        ("{image: 'team/my-vllm:1', args: [m]}", ["m"]),
        ("{image: 'team/my-vllm:1', args: [serve, m]}", ["m"]),
        ("{image: 'team/vllm:1', env: [{name: MODEL_ID, value: m}]}", ["--model=m"]),
        ("{image: 'team/vllm:1', command: [/entrypoint.sh], env: [{name: MODEL_ID, value: m}]}", ["--model=m"]),
        (
            "{command: [python3, /app/api_server.py, --model, m, --swap-space, '4']}",
            ["--model", "m", "--swap-space", "4"],
        ),
        ("{command: [sh, -c, 'python3 /x/inference_api.py --max-model-len 1']}", ["--max-model-len", "1"]),
    ],
)
def test_a_guess_says_that_it_is_one(spec: str, words: list[str]) -> None:
    """vLLM's flags, or an image that calls itself vLLM."""
    command = container(yaml.safe_load(spec))
    assert command is not None
    assert argv(command) == words
    assert command.guessed
    assert command.own_flags


@pytest.mark.parametrize(
    "spec", ["{image: vllm/vllm-openai, args: [m]}", "{image: 'team/vllm:1', command: [/start.sh]}"]
)
def test_init_containers_need_a_command_that_says_vllm(spec: str) -> None:
    """They download with vLLM's image."""
    assert container(yaml.safe_load(spec), init=True) is None
    assert container({"command": ["vllm", "serve", "m"]}, init=True) is not None


@pytest.mark.parametrize(
    ("image", "repository"),
    [
        ("vllm/vllm-openai:v1", "vllm/vllm-openai"),
        ("Reg.example:5000/A/vllm@sha256:12", "reg.example:5000/a/vllm"),
        ("reg.example:5000/a/vllm:1@sha256:12", "reg.example:5000/a/vllm"),
        ("", ""),
    ],
)
def test_an_images_repository(image: str, repository: str) -> None:
    """Without tag and digest, with the registry's port."""
    assert images.repository(image) == repository


@pytest.mark.parametrize(
    ("image", "runs"),
    [
        ("vllm/vllm-openai-rocm:v1", "serve"),
        ("vllm/vllm-openai-proxy", "other"),
        ("docker-proxy.example.com/vllm/vllm-openai", "serve"),
        ("ghcr.io/llm-d/llm-d", "serve"),
        ("ghcr.io/llm-d/llm-d-inference-scheduler", "other"),
        ("public.ecr.aws/deep-learning-containers/vllm:0.11-gpu", "module"),
        ("763104351884.dkr.ecr.us-west-2.amazonaws.com/vllm:server-cuda-v1", "module"),
        ("123456789012.dkr.ecr.us-west-2.amazonaws.com/vllm:server-cuda-v1", None),
        ("registry.redhat.io/rhaii-early-access/vllm-cuda-rhel9:3.4.0-ea.1", "module"),
        ("registry.redhat.io/rhoai/odh-vllm-cuda-rhel9:v2.25.0", "module"),
        ("quay.io/opendatahub/odh-vllm-cuda:fast", "module"),
        ("opea/vllm-gaudi:1.4", "module"),
        ("substratusai/vllm", "module"),
        ("quay.io/ascend/vllm-ascend", "command"),
        ("nvcr.io/nvidia/ai-dynamo/vllm-runtime", "command"),
        ("redis", None),
    ],
)
def test_the_table_of_images(image: str, runs: str | None) -> None:
    """What the table says, by repository."""
    assert images.runs(image) == runs


RAY = """
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: l}
spec:
  leaderWorkerTemplate:
    size: 2
    leaderTemplate:
      spec:
        containers:
        - {name: leader, image: team/llm, command: [sh, -c, "vllm serve m --tp $((LWS_GROUP_SIZE * 8))"]}
    workerTemplate:
      spec:
        containers:
        - {name: worker, image: team/llm, command: [sh, -c, "ray start --address=$(LWS_LEADER_ADDRESS) --block"]}
"""


def test_a_worker_of_an_unknown_image_counts_if_its_leader_runs_vllm() -> None:
    from podfit.kube import workload
    from podfit.vllm.command import resolve

    by_name = {c.name: resolve(w, c) for w in workload.find(yaml.safe_load(RAY)) for c in w.containers}
    assert argv(by_name["leader"]) == ["m", "--tp", "$((LWS_GROUP_SIZE * 8))"]
    worker: Any = by_name["worker"]
    assert worker.entry == "worker"
    alone = RAY.replace("vllm serve m", "python train.py")
    by_name = {c.name: resolve(w, c) for w in workload.find(yaml.safe_load(alone)) for c in w.containers}
    assert by_name == {"leader": None, "worker": None}


def test_llm_inference_service_adds_the_arguments_of_its_variable() -> None:
    """The preset brings `vllm serve`, KServe downloads `hf://`, VLLM_ADDITIONAL_ARGS is split as a shell does."""
    command = found(
        """
        apiVersion: serving.kserve.io/v1alpha1
        kind: LLMInferenceService
        metadata: {name: l}
        spec:
          model: {uri: "hf://org/m:main", name: org/m}
          template:
            containers:
            - name: main
              env:
              - {name: VLLM_ADDITIONAL_ARGS, value: "--max-model-len 8192 --x '{\\"a\\": 1}'"}
        """
    )
    assert command is not None
    assert argv(command) == ["org/m", "--served-model-name", "org/m", "--max-model-len", "8192", "--x", '{"a": 1}']
    assert str(command.words[-1].path) == "spec.template.containers[0].env[0].value"
    assert not command.complete


def test_what_is_lost_after_the_script() -> None:
    """Items after `sh -c SCRIPT` are $0, $1 …"""
    spec = {"command": ["sh", "-c"], "args": ["vllm serve m", "--port", "1"]}
    command = container(spec)
    assert command is not None
    assert [(w.text, str(w.path)) for w in command.lost] == [
        ("--port", "spec.containers[0].args[1]"),
        ("1", "spec.containers[0].args[2]"),
    ]


@pytest.mark.parametrize(
    ("script", "rest", "lost", "words"),
    [
        ('vllm serve m "$@"', ["--", "--port", "1"], [], ["m", "--port", "1"]),
        ('vllm serve m "$@"', ["--port", "1"], ["--port"], ["m", "1"]),
        ("vllm serve m $0 $@", ["--port", "1"], [], ["m", "--port", "1"]),
        ("vllm serve m", ["sh"], [], ["m"]),
        ("vllm serve m", ["--"], [], ["m"]),
    ],
)
def test_what_the_script_uses_is_not_lost(script: str, rest: list[str], lost: list[str], words: list[str]) -> None:
    """$0 is a name by convention; a flag in its place is lost."""
    command = container({"command": ["sh", "-c", script, *rest]})
    assert command is not None
    assert ([w.text for w in command.lost], argv(command)) == (lost, words)
    assert all(w.path.parts[-1] != 2 for w in command.words if w.text in rest)


def test_the_words_behind_a_script_of_one_word_are_lost() -> None:
    """`sh -c vllm serve m`: the shell runs `vllm` alone."""
    command = container({"command": ["bash", "-c", "vllm", "serve", "m", "--port", "1"]})
    assert command is not None
    assert [word.text for word in command.lost] == ["serve", "m", "--port", "1"]
    assert command.guessed


def test_what_xargs_adds_is_not_known() -> None:
    """So nothing that seems to be missing is missing."""
    command = container({"command": ["sh", "-c", "cat list | xargs vllm serve --port 1"]})
    assert command is not None
    assert command.words[-1].unknown == "xargs adds what it reads"


@pytest.mark.parametrize(
    ("spec", "decided"),
    [
        ("{command: [env, -u, VLLM_PORT, A=b, vllm, serve, m]}", {"VLLM_PORT", "A"}),
        ("{command: [env, --unset=VLLM_PORT, vllm, serve, m]}", {"VLLM_PORT"}),
        ("{command: [env, -i, vllm, serve, m]}", {"*"}),
        ("{command: [vllm, serve, m, -u, VLLM_PORT]}", set()),
    ],
)
def test_what_the_command_line_does_to_its_environment(spec: str, decided: set[str]) -> None:
    command = container({"env": [{"name": "VLLM_PORT", "value": "1"}], **yaml.safe_load(spec)})
    assert command is not None
    assert command.decided == decided
    assert ("VLLM_PORT" in command.env) is not bool(decided)


def test_what_a_script_takes_out_of_its_environment() -> None:
    command = container({"command": ["sh", "-c", "unset VLLM_PORT; exec vllm serve m"]})
    assert command is not None
    assert "VLLM_PORT" in command.decided


@pytest.mark.parametrize(
    ("spec", "instead", "words"),
    [
        ("{command: ['vllm serve m --port 1']}", ("vllm", "serve", "m", "--port", "1"), ["m", "--port", "1"]),
        ("{command: ['/bin/sh -c', vllm serve m]}", ("/bin/sh", "-c"), ["m"]),
        ("{command: [vllm, serve m, --port, '1']}", ("serve", "m"), ["m", "--port", "1"]),
        ("{command: [vllm, server, m]}", ("serve",), ["m"]),
        ("{command: [vllm, org/m]}", ("serve", "org/m"), ["org/m"]),
        ("{command: [python3, -m, vllm.entrypoint.openai.api_server, --model=m]}", (API,), ["--model=m"]),
        ("{command: [vllm, serve, m]}", None, ["m"]),
    ],
)
def test_what_starts_nothing_and_what_is_meant(spec: str, instead: tuple[str, ...] | None, words: list[str]) -> None:
    command = container(yaml.safe_load(spec))
    assert command is not None
    assert argv(command) == words
    assert (command.slip.instead if command.slip else None) == instead
    assert command.guessed is None


def test_a_script_may_go_on_after_a_slip() -> None:
    command = container({"command": ["sh", "-c", "vllm serv m; vllm serve m"]})
    assert command is not None
    assert command.slip is not None
    assert [argv(one) for one in command.then] == [["m"]]


@pytest.mark.parametrize(
    ("shell", "script", "then", "survived"),
    [
        ("sh -c", "vllm serve a; vllm serve b", ["b"], False),
        ("sh -c", "vllm serve a\nvllm serve b\nvllm serve c", ["b", "c"], False),
        ("sh -c", "vllm serve a; echo failed; sleep 5; exec vllm serve b", ["b"], False),
        ("sh -c", "bash -c 'vllm serve a'; vllm serve b", ["b"], False),
        ("sh -c", "bash -ec 'vllm serve a; vllm serve b'; vllm serve c", ["c"], False),
        ("sh -c", "vllm serve a; if [ -f /x ]; then vllm serve b; fi", ["b"], False),
        ("sh -c", "set -e; vllm serve a | tee log; vllm serve b", ["b"], False),
        ("sh -c", "set -e; set +e; vllm serve a; vllm serve b", ["b"], False),
        ("sh -c", "[ -f /x ] && set -e; vllm serve a; vllm serve b", ["b"], False),
        ("sh -c", "set -e; vllm serve a; vllm serve b", [], False),
        ("sh -c", "set -o errexit; vllm serve a; vllm serve b", [], False),
        ("bash -euxc", "vllm serve a; vllm serve b", [], False),
        ("sh -c", "set -e; bash -c 'vllm serve a'; vllm serve b", [], False),
        ("sh -c", "vllm serve a && vllm serve b", [], False),
        ("sh -c", "exec vllm serve a; vllm serve b", [], False),
        ("sh -c", "vllm serve a; exit 1; vllm serve b", [], False),
        ("sh -c", "vllm serve a & vllm serve b", [], True),
        ("sh -c", "vllm serve a & wait", [], True),
        ("sh -c", "vllm serve a", [], False),
    ],
)
def test_servers_that_a_script_starts_after_one_has_failed(
    shell: str, script: str, then: list[str], survived: bool
) -> None:
    command = container({"command": [*shell.split(), script]})
    assert command is not None
    assert argv(command) == ["a"]
    assert [argv(one) for one in command.then] == [[model] for model in then]
    assert (command.survived is not None) is survived


@pytest.mark.parametrize(("image", "entry"), [("vllm/vllm-openai:v0.20.2", "worker"), ("rayproject/ray:2.46.0", None)])
def test_kuberay_gives_a_container_without_a_command_ray_s_own(image: str, entry: str | None) -> None:
    """The image's entrypoint does not run: `vllm serve` would serve a default model."""
    pod = {"spec": {"containers": [{"name": "ray", "image": image}]}}
    cluster = {"workerGroupSpecs": [{"replicas": 1, "template": pod}]}
    command = found(yaml.safe_dump({"apiVersion": "ray.io/v1", "kind": "RayCluster", "spec": cluster}))

    assert (command.entry if command else None) == entry
