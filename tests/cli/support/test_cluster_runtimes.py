"""An InferenceService is checked with the runtime of the cluster that it names, if the user asks for the cluster."""

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
from podfit.cli.support.cluster_runtimes import MAX_RUNTIMES
from podfit.cluster import objects
from tests.evaluation.scan.cluster import Api

JSONDict = dict[str, Any]
Command = Callable[..., tuple[int, str, str]]
SERVICE: JSONDict = yaml.safe_load("""
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: llama, namespace: chat, uid: service}
spec:
  predictor:
    model:
      modelFormat: {name: vLLM}
      runtime: mine
      storageUri: hf://meta-llama/Llama-3.1-8B-Instruct
""")


def runtime(kind: str, length: int, namespace: str | None = None, name: str = "mine") -> JSONDict:
    """A runtime with a maximum length of its own."""
    metadata = {"name": name, "uid": f"{kind}-{namespace}"} | ({"namespace": namespace} if namespace else {})
    container = {
        "name": "kserve-container",
        "image": "vllm/vllm-openai:v0.10.0",
        "args": ["--model=/mnt/models", f"--max-model-len={length}"],
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
    }
    spec = {"containers": [container]}
    return {"apiVersion": "serving.kserve.io/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


SHARED = runtime("ClusterServingRuntime", 4096)
OWN = runtime("ServingRuntime", 2048, "chat")
FOREIGN = runtime("ServingRuntime", 1024, "other")


@pytest.fixture(name="command")
def _command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    def command(api: Api, *words: str) -> tuple[int, str, str]:
        @contextmanager
        def client(_: argparse.Namespace) -> Iterator[Api]:
            yield api

        def get(_: Api, kind: str, name: str, namespace: str | None = None) -> JSONDict:
            assert kind == "isvc"
            return next(obj for obj in api.objects if obj["metadata"]["name"] == name)

        monkeypatch.setattr(user_cluster, "client", client)
        monkeypatch.setattr(objects, "get", get)
        code = main([*words])
        out, err = capsys.readouterr()
        return code, out, err

    return command


def length(command: Command, api: Api, *words: str) -> int | None:
    """The `--max-model-len` with which the service would start."""
    _, out, err = command(api, "check", "--format", "json", *words)
    assert out, err
    arguments = json.loads(out)["results"][0]["plan"]["engine"]["arguments"]
    longest: int | None = arguments.get("max_model_len")
    return longest


@pytest.mark.parametrize(
    ("runtimes", "expected"),
    [((SHARED,), 4096), ((SHARED, OWN, FOREIGN), 2048), ((FOREIGN,), None)],
    ids=["of all namespaces", "the namespace's own first", "not another namespace's"],
)
def test_an_object_of_the_cluster_has_its_runtime(
    command: Command, runtimes: tuple[JSONDict, ...], expected: int | None
) -> None:
    assert length(command, Api(SERVICE, *runtimes), "isvc/llama") == expected


def test_a_file_has_it_if_the_nodes_are_those_of_the_cluster(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "llama.yaml"
    path.write_text(yaml.safe_dump(SERVICE))
    api = Api(SHARED)

    assert length(command, api, str(path)) is None
    assert not api.asked
    assert length(command, api, "--nodes", "cluster", str(path)) == 4096


def test_a_runtime_of_the_input_comes_first(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "llama.yaml"
    path.write_text(yaml.safe_dump_all([SERVICE, runtime("ServingRuntime", 512)]))
    api = Api(SHARED, OWN)

    assert length(command, api, "--nodes", "cluster", str(path)) == 512
    assert not [place for place, _ in api.asked if "runtime" in place]


def test_services_of_one_list_and_one_namespace_read_a_runtime_once(command: Command, tmp_path: Path) -> None:
    other = {**SERVICE, "metadata": {"name": "other", "namespace": "chat"}}
    path = tmp_path / "list.yaml"
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": [SERVICE, other]}))
    api = Api(OWN)

    assert length(command, api, "--nodes", "cluster", str(path)) == 2048
    assert len([place for place, _ in api.asked if "runtime" in place]) == 1


@pytest.mark.parametrize(
    ("refuse", "reason"),
    [
        ((), "not in the input, and the cluster has no runtime of this name"),
        (("servingruntimes",), 'not read: 403: servingruntimes is forbidden: User "u" cannot list resource'),
    ],
    ids=["absent", "forbidden"],
)
def test_a_runtime_that_is_not_read_is_a_note(command: Command, refuse: tuple[str, ...], reason: str) -> None:
    api = Api(SERVICE, refuse=refuse, kinds={"serving.kserve.io/v1alpha1": ("ServingRuntime", "ClusterServingRuntime")})

    code, out, err = command(api, "check", "isvc/llama")

    assert code == 0
    assert "meta-llama/Llama-3.1-8B-Instruct" in out
    (note,) = [line for line in err.splitlines() if "KServe runtime" in line]
    assert note.startswith(f"note: KServe runtime mine: {reason}")
    assert note.endswith("; its InferenceServices are checked without it")


def test_explain_and_fix_read_it_too(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "llama.yaml"
    path.write_text(yaml.safe_dump(SERVICE))

    assert "vLLM 0.10.0" in command(Api(SERVICE, SHARED), "explain", "isvc/llama")[1]
    assert "KServe runtime mine" in command(Api(), "fix", "--nodes", "cluster", str(path))[2]


@pytest.mark.parametrize("name", ["../../secrets/token", "Mine", "a/b", ""])
def test_an_odd_name_is_no_request(command: Command, name: str, tmp_path: Path) -> None:
    service: JSONDict = json.loads(json.dumps(SERVICE))
    service["spec"]["predictor"]["model"]["runtime"] = name
    path = tmp_path / "llama.yaml"
    path.write_text(yaml.safe_dump(service))
    api = Api(SHARED)

    assert length(command, api, "--nodes", "cluster", str(path)) is None
    assert not [place for place, _ in api.asked if "runtime" in place]


@pytest.mark.parametrize("refuse", [(), ("servingruntimes", "clusterservingruntimes")], ids=["readable", "forbidden"])
def test_scan_joins_them_by_the_scanners_rights(command: Command, refuse: tuple[str, ...]) -> None:
    doomed = runtime("ClusterServingRuntime", 4096)
    doomed["spec"]["containers"][0]["args"] += ["--no-such-option"]

    _, out, err = command(Api(SERVICE, doomed, refuse=refuse), "scan", "--format", "json")

    rows = [row for row in json.loads(out)["results"] if row["object"]["kind"] == "InferenceService"]
    rules = {finding["rule"] for row in rows for finding in row["findings"]}
    assert ("unknown-flag" in rules) is not bool(refuse)
    assert ("clusterservingruntimes.serving.kserve.io: not read" in err) is bool(refuse)


def test_a_command_reads_a_bounded_number_of_runtimes(command: Command, tmp_path: Path) -> None:
    services = [
        {**SERVICE, "spec": json.loads(json.dumps(SERVICE["spec"]).replace('"mine"', f'"mine-{number}"'))}
        for number in range(MAX_RUNTIMES + 5)
    ]
    path = tmp_path / "list.yaml"
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": services}))
    api = Api()

    _, _, err = command(api, "check", "--nodes", "cluster", str(path))

    assert len({place for place, _ in api.asked if "runtime" in place}) <= 2 * MAX_RUNTIMES
    assert "KServe runtimes: 5 more than the 100 that one command reads are not read" in err
