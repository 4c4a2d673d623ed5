"""The policy in force in a cluster: scan's default, and `--policy cluster` of check, diff, explain and fix."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from podfit.cli import main
from podfit.cli.support import user_cluster
from podfit.cluster import objects
from podfit.cluster.policies import LABEL
from tests.evaluation.scan.cluster import DOOMED, Api, meta, workload

JSONDict = dict[str, Any]
Run = Callable[..., tuple[int, str, str]]
RULE = "unknown-flag"


def policy(name: str, mode: str | None = None, order: int = 0, **spec: Any) -> JSONDict:
    """A Policy object, or the document in a file."""
    enforce = {"enforce": {"mode": mode}} if mode else {}
    metadata = {"name": name}
    spec = {"order": order, **enforce, **spec}
    return {"apiVersion": "podfit.dev/v1alpha1", "kind": "Policy", "metadata": metadata, "spec": spec}


def chart(mode: str = "audit", namespace: str = "podfit-system", label: str = "with-policy-objects") -> JSONDict:
    """The chart's ConfigMap."""
    metadata = {**meta("podfit-policy", namespace, None), "labels": {LABEL: label}}
    data = {"policy.yaml": yaml.safe_dump(policy("cluster", mode, -1000))}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def deployment(name: str, **fields: Any) -> JSONDict:
    """A Deployment that can be applied."""
    obj = workload("Deployment", name, **fields)
    obj["spec"]["selector"] = {"matchLabels": {"app": name}}
    return obj


LLAMA = deployment("llama", args=DOOMED)
SERVED: JSONDict = {"kinds": {"podfit.dev/v1alpha1": ("Policy",)}}
"""The cluster has the CustomResourceDefinition."""


@pytest.fixture(name="command")
def _command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def command(api: Api, *words: str) -> tuple[int, str, str]:
        @contextmanager
        def client(_: argparse.Namespace) -> Iterator[Api]:
            yield api

        def get(_: Api, kind: str, name: str, namespace: str | None = None) -> JSONDict:
            (obj,) = [one for one in api.objects if one["metadata"]["name"] == name and kind == "deploy"]
            return obj

        monkeypatch.setattr(user_cluster, "client", client)
        monkeypatch.setattr(objects, "get", get)
        code = main([*words])
        out, err = capsys.readouterr()
        return code, out, err

    return command


def state(command: Run, api: Api) -> str:
    """The state of the Deployment, as `podfit scan` shows it."""
    _, out, err = command(api, "scan", "--format", "json")
    assert out, err
    return str(json.loads(out)["results"][0]["state"])


CASES = {
    "no podfit": ((), "denied"),
    "the chart observes": ((chart(),), "would_deny"),
    "the chart enforces": ((chart("deny"),), "denied"),
    "a Policy object observes": ((chart("deny"), policy("observe", "audit")), "would_deny"),
    "a Policy object enforces in the namespace": (
        (chart(), policy("chat", "deny", match={"namespaces": ["chat"]})), "denied",
    ),
    "a Policy object enforces elsewhere": (
        (chart(), policy("prod", "deny", match={"namespaces": ["prod"]})), "would_deny",
    ),
    "a later Policy object": ((chart(), policy("a", "deny", 1), policy("b", "audit", 2)), "would_deny"),
    "the chart reads no Policy objects": ((chart(label="alone"), policy("a", "deny", 1)), "would_deny"),
}  # fmt: skip


@pytest.mark.parametrize(("installed", "expected"), CASES.values(), ids=CASES)
def test_scan_shows_what_the_webhook_does(command: Run, installed: tuple[JSONDict, ...], expected: str) -> None:
    assert state(command, Api(LLAMA, *installed, **SERVED)) == expected


@pytest.mark.parametrize(("installed", "expected"), list(CASES.values())[1:], ids=list(CASES)[1:])
def test_check_and_scan_agree_about_one_object(
    command: Run, tmp_path: Path, installed: tuple[JSONDict, ...], expected: str
) -> None:
    """The object in the cluster, and the same in a file."""
    (tmp_path / "llama.json").write_text(json.dumps(LLAMA))
    api = Api(LLAMA, *installed, **SERVED)
    words = ("check", "--policy", "cluster", "--audit", "--format", "json")

    for name in ("deploy/llama", str(tmp_path / "llama.json")):
        code, out, err = command(api, *words, name)
        (result,) = json.loads(out)["results"]
        assert err.count("error") == 0, err
        assert code == int(expected == "denied")
        assert result["denied"] == (expected == "denied")
        (finding,) = [one for one in result["findings"] if one["rule"] == RULE]
        assert finding["mode"] == ("deny" if expected == "denied" else "audit")


def test_labels_of_namespaces_are_those_of_the_cluster(command: Run) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "chat", "labels": {"env": "prod"}}}
    strict = policy("prod", "deny", match={"namespaceSelector": {"matchLabels": {"env": "prod"}}})
    api = Api(LLAMA, chart(), strict, namespace, **SERVED)

    assert command(api, "check", "deploy/llama", "--policy", "cluster")[0] == 1
    api.refuse = {"namespaces"}
    code, _, err = command(api, "check", "deploy/llama", "--policy", "cluster")
    assert code == 0, "what is unknown makes nothing stricter"
    assert "note: namespaces: not read: 403: " in err


@pytest.mark.parametrize(
    ("api", "why"),
    [
        (Api(LLAMA, **SERVED), "podfit is not installed: no ConfigMap has the label podfit.dev/policy"),
        (
            Api(LLAMA, chart(), chart(namespace="other"), **SERVED),
            "several podfit are installed: other/podfit-policy, podfit-system/podfit-policy",
        ),
        (Api(LLAMA, chart(), refuse=["configmaps"], **SERVED), "403: configmaps is forbidden"),
        (Api(LLAMA, chart(), refuse=["policies"], **SERVED), "403: policies is forbidden"),
    ],
    ids=["no chart", "several releases", "no right to ConfigMaps", "no right to Policy objects"],
)
def test_an_unknown_policy_is_one_plain_line(command: Run, api: Api, why: str) -> None:
    """A check, which a pipeline trusts, ends; a scan reports what it is without."""
    code, out, err = command(api, "check", "deploy/llama", "--policy", "cluster")
    assert (code, out) == (3, "")
    (line,) = err.splitlines()
    assert line.startswith("error: --policy cluster: ")
    assert why in line

    code, out, err = command(api, "scan")
    (line,) = [line for line in err.splitlines() if "the decisions are " in line]
    assert line.startswith("note: ")
    assert why in line
    assert "vLLM workload" in out


def test_a_lost_kind_of_policy_objects_enforces_nothing(command: Run) -> None:
    """As in the server, so that nothing lost makes it stricter."""
    api = Api(LLAMA, chart("deny"))

    assert state(command, api) == "would_deny"
    assert "podfit enforces nothing: the API server does not serve" in command(api, "scan")[2]
    assert state(command, Api(LLAMA, chart("deny", label="alone"))) == "denied"


def test_files_of_a_scan_replace_the_installed_policy_and_not_the_policy_objects(command: Run) -> None:
    api = Api(LLAMA, chart(), **SERVED)

    assert command(api, "scan", "--policy", "default")[0] == 1
    assert command(Api(LLAMA), "scan", "--policy", "default")[0] == 1, "before podfit is installed"
    api.objects.append(policy("observe", "audit", 1))
    assert command(api, "scan", "--policy", "default")[0] == 0
    assert not any(path.endswith("/configmaps") and LABEL in str(query) for path, query in api.asked)


def test_a_broken_policy_object_keeps_its_last_good_state(command: Run) -> None:
    broken = policy("a", None, rules={"no-such-rule": {"mode": "deny"}})
    broken["status"] = {"accepted": json.dumps({"enforce": {"mode": "audit"}})}
    api = Api(LLAMA, chart("deny"), broken, **SERVED)

    assert state(command, api) == "would_deny"
    code, _, err = command(api, "check", "deploy/llama", "--policy", "cluster")
    assert code == 0
    assert "policies.podfit.dev/a: " in err
    assert err.splitlines()[0].endswith("; the last good state is in force")


def test_explain_shows_which_layer_decided_and_what_the_rule_finds(command: Run) -> None:
    """The cluster's policy is the default for an object of the cluster."""
    api = Api(LLAMA, chart(), policy("chat", "warn", 10, match={"namespaces": ["chat"]}), **SERVED)

    code, out, err = command(api, "explain", RULE, "--on", "deploy/llama", "-n", "chat")

    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "Deployment chat/llama (deploy/llama)",
        "  no mode is stronger than warn: policies.podfit.dev/chat, policy chat",
        "",
        "  unknown-flag",
        "    mode           warn       policies.podfit.dev/chat, policy chat (deny: built in)",
        "    fix            manual     built in",
        "  container \"vllm\": warned about today, denied if enforced: no vLLM release knows '--no-such-flag'",
    ]
    _, out, _ = command(api, "explain", "kv-cache-too-small", "--on", "deploy/llama", "-n", "chat")
    assert out.splitlines()[-1] == '  container "vllm": no finding'


def test_fix_and_diff_take_the_policy_of_the_cluster(command: Run, tmp_path: Path) -> None:
    (tmp_path / "new.json").write_text(json.dumps(LLAMA))
    (tmp_path / "old.json").write_text(json.dumps(deployment("llama")))
    files = str(tmp_path / "old.json"), str(tmp_path / "new.json")

    assert command(Api(chart("deny"), **SERVED), "diff", "--policy", "cluster", *files)[0] == 1
    assert command(Api(chart(), **SERVED), "diff", "--policy", "cluster", *files)[0] == 0
    assert command(Api(chart(), **SERVED), "fix", "--policy", "cluster", files[1])[0] == 0
    code, _, err = command(Api(**SERVED), "fix", "--policy", "cluster", files[1])
    assert (code, err.count("podfit is not installed")) == (3, 1)


def test_other_commands_say_that_they_take_no_policy_of_the_cluster(command: Run) -> None:
    code, _, err = command(Api(), "plan", "--policy", "cluster", "--", "vllm", "serve", "Qwen/Qwen2.5-7B-Instruct")

    assert code == 2
    assert "only check, diff, explain, fix and scan take the cluster's policy" in err


def node(name: str, gpu: str) -> JSONDict:
    """A node with one GPU."""
    allocatable = {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": "1"}
    labels = {LABEL_OF_GPUS: gpu}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": allocatable},
    }


TAUGHT: JSONDict = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {**meta("ours", "podfit-system", None), "labels": {"podfit.dev/model-config": "true"}},
    "data": {
        "acme--chat.json": json.dumps({
            "architectures": ["LlamaForCausalLM"], "hidden_size": 8192, "num_hidden_layers": 80,
            "num_attention_heads": 64, "num_key_value_heads": 8, "intermediate_size": 28672, "vocab_size": 128256,
            "torch_dtype": "bfloat16", "max_position_embeddings": 8192, "model_type": "llama",
        })
    },
}  # fmt: skip
"""A model of an admin, of 70 B parameters."""
LABEL_OF_GPUS = "nvidia.com/gpu.product"
AROUND = {
    "nodes": ([node("a", "NVIDIA-L4"), node("b", "NVIDIA-L4")], ["Qwen/Qwen3-32B"], {}, "gpu-memory-exceeded"),
    "no node": ([node("a", "NVIDIA-L4")], ["Qwen/Qwen3-8B"], {LABEL_OF_GPUS: "NVIDIA-B200"}, "no-node-matches"),
    "models": ([TAUGHT], ["acme/chat"], {LABEL_OF_GPUS: "NVIDIA-L4"}, "gpu-memory-exceeded"),
}  # fmt: skip
"""Objects of the cluster, arguments and node labels of a Deployment, and the rule that reports it because of them."""


@pytest.mark.parametrize(("around", "args", "labels", "rule"), AROUND.values(), ids=AROUND)
def test_all_commands_know_what_is_around_a_workload(
    command: Run, tmp_path: Path, around: list[JSONDict], args: list[str], labels: dict[str, str], rule: str
) -> None:
    """As scan does, and the webhook: nodes, and models that an admin added."""
    obj = deployment("chat", args=[*args, "--max-model-len", "4096"])
    obj["spec"]["template"]["spec"]["nodeSelector"] = labels
    (tmp_path / "chat.json").write_text(json.dumps(obj))
    api = Api(obj, chart(), *around, **SERVED)

    rules = {}
    for words in (("scan",), ("check", "deploy/chat"), ("check", str(tmp_path / "chat.json"))):
        options = [] if words == ("scan",) else ["--policy", "cluster", "--audit"]
        _, out, err = command(api, *words, *options, "--format", "json")
        (result,) = json.loads(out)["results"]
        rules[words] = {one["rule"]: one["message"] for one in result["findings"]}
        assert rule in rules[words], err
    assert len({messages[rule] for messages in rules.values()}) == 1
    _, out, _ = command(api, "explain", rule, "--on", "deploy/chat", "-n", "chat")
    assert rules["scan",][rule] in out
    api.refuse = {"nodes", "storageclasses"}
    _, out, err = command(api, "explain", rule, "--on", "deploy/chat", "-n", "chat")
    (line,) = err.splitlines()
    assert line.startswith("note: nodes, storageclasses.storage.k8s.io: not read: 403: ")


def test_nodes_of_the_user_replace_those_of_the_cluster(command: Run, tmp_path: Path) -> None:
    """A GPU, described nodes, and Node objects among the manifests."""
    obj = deployment("chat", args=["Qwen/Qwen3-32B", "--max-model-len", "4096"])
    obj["spec"]["template"]["spec"]["nodeSelector"] = {}
    large = node("own", "NVIDIA-H100-80GB-HBM3")
    (tmp_path / "chat.json").write_text(json.dumps(obj))
    (tmp_path / "nodes.json").write_text(json.dumps(large))
    api = Api(chart(), node("a", "NVIDIA-L4"), **SERVED)
    options = ("--policy", "cluster", "--audit", "--format", "json")

    def rules(*words: str) -> set[str]:
        _, out, err = command(api, "check", str(tmp_path / "chat.json"), *words, *options)
        assert out, err
        return {one["rule"] for one in json.loads(out)["results"][0]["findings"]}

    assert "gpu-memory-exceeded" in rules()
    for words in (["--gpu", "h100-sxm"], ["--nodes", str(tmp_path / "nodes.json")], [str(tmp_path / "nodes.json")]):
        assert "gpu-memory-exceeded" not in rules(*words), words


def test_only_namespaces_of_the_input_are_listed(command: Run, tmp_path: Path) -> None:
    """Those of others may be many. A manifest without a namespace goes into that of the context."""
    for name, namespace in (("a", "chat"), ("b", None)):
        obj = deployment(name, args=["Qwen/Qwen3-8B"])
        obj["metadata"] = {"name": name, **({"namespace": namespace} if namespace else {})}
        (tmp_path / f"{name}.json").write_text(json.dumps(obj))
    api = Api(chart(), **SERVED)

    command(api, "check", str(tmp_path), "--policy", "cluster")

    claims = [path for path, _ in api.asked if path.endswith("/persistentvolumeclaims")]
    assert sorted(claims) == [
        f"/api/v1/namespaces/{namespace}/persistentvolumeclaims" for namespace in ("chat", "podfit-system")
    ]
