"""`podfit calibrate`: what logs print, how far the plan was off, and facts that the planner believes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from podfit.cli import main
from podfit.diagnose import calibrate
from podfit.evaluation.scan.drift import TOKENS
from podfit.kube.quantity import GI
from podfit.vllm import measured
from podfit.vllm.memory.lines import TITLES
from podfit.vllm.memory.plan import plan
from tests.cluster.server import Server
from tests.vllm.memory.engines import GPT_OSS_120B, LLAMA_8B, LLAMA_70B, engine, gpu, model, on

HERE = Path(__file__).parent / "calibrate"
LOG, MANY, POD = HERE / "llama-8b.log", HERE / "llama-70b-tp4.log", HERE / "llama-70b-tp4.yaml"
H100 = "NVIDIA-H100-80GB-HBM3"


def test_the_table_is_what_people_read(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """table.out is what these two print in that folder."""
    monkeypatch.chdir(HERE)
    assert main(["calibrate", LOG.name, "--gpu", H100]) == 0
    assert main(["calibrate", MANY.name, "--manifest", POD.name]) == 0
    assert capsys.readouterr().out == (HERE / "table.out").read_text()


def test_of_several_ranks_the_one_with_least_room_counts() -> None:
    (start,) = calibrate.read(MANY.read_text())
    found = start.ledger()
    assert str(start.release) == "0.27.1"
    assert start.model == "/models/llama"
    assert found["weights"] == int(32.91 * GI)
    assert found["kv_cache"] == int(36.05 * GI)
    assert found["cuda_graphs"] == int(0.52 * GI)  # the estimate is charged, not what they took
    assert found["activations"] == int(1.02 * GI)
    assert found["non_torch"] == int(35.21 * GI) - int(32.91 * GI)
    assert start.tokens == 472_496
    assert start.sizes["total"] == int(79.19 * GI)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("INFO 11-21 08:00:00 model_runner.py:1115] Loading model weights took 14.9888 GB", {"weights": 14.9888}),
        (
            "INFO 02-26 09:54:05 worker.py:267] model weights take 5.20GiB; non_torch_memory takes 0.03GiB; PyTorch "
            "activation peak memory takes 1.42GiB; the rest of the memory reserved for KV Cache is 2.05GiB.",
            {"weights": 5.2, "non_torch": 0.03, "activations": 1.42, "kv_cache": 2.05},
        ),
        (
            "Actual usage is 14.99 GiB for weight, 1.89 GiB for peak activation, 0.25 GiB for non-torch memory, and "
            "0.91 GiB for CUDAGraph memory.",
            {"weights": 14.99, "activations": 1.89, "non_torch": 0.25},
        ),
        (
            "Memory profiling takes 4.2 seconds. Total non KV cache memory: 17.13GiB; torch peak memory increase: "
            "1.89GiB; non-torch forward increase memory: 0.25GiB; weights memory: 14.99GiB.",
            {"weights": 14.99, "activations": 1.89, "non_torch": 0.25},
        ),
        ("Available KV cache memory: -1.05 GiB", {}),
        ("INFO:     Application startup complete.", {}),
    ],
)
def test_each_release_says_it_in_its_own_words(line: str, found: dict[str, float]) -> None:
    starts = calibrate.read(line)
    sizes = starts[0].ledger() if starts else {}
    assert sizes == {name: int(size * GI) for name, size in found.items()}


def test_each_start_of_a_log_is_told_apart() -> None:
    one, two = calibrate.read(LOG.read_text() + LOG.read_text().replace("58.11 GiB", "57.90 GiB"))
    assert (one.sizes["kv_cache"], two.sizes["kv_cache"]) == (int(58.11 * GI), int(57.90 * GI))
    assert (one.line, two.line) == (1, 10)


def test_what_was_measured_is_planned_and_only_for_exactly_that(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "models" / "cluster.measured.json"
    assert main(["calibrate", str(LOG), "--gpu", H100, "--write", str(target)]) == 0
    assert main(["calibrate", str(LOG), "--gpu", H100, "--write", str(target)]) == 0
    assert len(json.loads(target.read_text())["measured"]) == 1  # the same engine once
    capsys.readouterr()

    def kv_cache(*flags: str, version: str = "0.19.0") -> str:
        words = ["vllm", "serve", "meta-llama/Llama-3.1-8B-Instruct", "--max-model-len", "8192", *flags]
        line = ["plan", "--models", str(target.parent), "--gpu", H100, "--vllm-version", version]
        assert main([*line, "--format", "json", "--", *words]) == 0
        tree = json.loads(capsys.readouterr().out)
        return str(tree["gpu"]["kv_cache"]["likely"])

    printed = str(int(58.11 * GI))
    share = ("--gpu-memory-utilization", "0.95")
    assert kv_cache(*share) == printed
    assert kv_cache(*share, "--port", "9000") == printed
    assert kv_cache(*share, "--max-num-seqs", "64") != printed
    assert kv_cache() != printed
    assert kv_cache(*share, version="0.18.0") != printed


def test_a_config_map_is_read_by_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", str(MANY), "--manifest", str(POD), "-o", "configmap", "-n", "podfit"]) == 0
    text = capsys.readouterr().out
    assert yaml.safe_load(text)["metadata"]["namespace"] == "podfit"
    (tmp_path / "facts").mkdir()
    (tmp_path / "facts" / "measured.yaml").write_text(text)
    (tmp_path / "pod.yaml").write_text(POD.read_text())

    assert main(["check", "--format", "json", str(tmp_path / "pod.yaml"), str(tmp_path / "facts")]) in (0, 1)
    tree = json.loads(capsys.readouterr().out)
    assert tree["errors"] == []
    assert tree["results"][0]["plan"]["gpu"]["kv_cache"]["likely"] == int(36.05 * GI)


@pytest.mark.parametrize("config", [LLAMA_8B, LLAMA_70B, GPT_OSS_120B], ids=["8B", "70B", "120B"])
@pytest.mark.parametrize("size", [14.5, 22.0, 39.4, 79.2])
@pytest.mark.parametrize("part", [0.0, 0.3, 3.0])
def test_nothing_measured_makes_a_plan_be_refused(config: dict[str, Any], size: float, part: float) -> None:
    args, shape, card = engine("0.27.1", max_model_len=8192), model(**config), gpu(size)
    plain = plan(args, shape, on(card))
    assert plain.gpu is not None
    assert args.release is not None
    odd = {name: int(part * max(0, plain.gpu.amount(name).likely)) for name in TITLES}
    seen = measured.MeasuredStart(
        shape.id, card.name, args.release, measured.canonical_arguments(args.given, {}, {}), odd
    )
    believed = plan(args, shape, on(card), measured_starts=(seen,))
    assert believed.gpu is not None
    assert believed.gpu.weights.likely == odd["weights"]
    assert believed.gpu.kv_cache.likely == odd["kv_cache"]
    assert plain.verdict == "does-not-fit" or believed.verdict != "does-not-fit"


def test_another_card_of_that_name_is_another_card() -> None:
    args, shape, card = engine("0.27.1", max_model_len=8192), model(), gpu(79.2)
    assert args.release is not None
    seen = measured.MeasuredStart(
        shape.id,
        card.name,
        args.release,
        measured.canonical_arguments(args.given, {}, {}),
        {"kv_cache": GI},
        int(93.1 * GI),
    )
    other = plan(args, shape, on(card), measured_starts=(seen,))
    same = plan(args, shape, on(card), measured_starts=(replace(seen, gpu_memory=int(79.19 * GI)),))
    assert other.gpu is not None
    assert same.gpu is not None
    assert other.gpu.kv_cache.likely != GI
    assert same.gpu.kv_cache.likely == GI


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "not JSON"),
        ("{}", 'no list "measured"'),
        ('{"measured": [{"gpu": "x", "vllm_version": "0.19.0"}]}', "measured[0].model: a text is needed"),
        ('{"measured": [{"model": "m", "gpu": "x", "vllm_version": "new"}]}', "'new' is not a release"),
        ('{"measured": [{"model": "m", "gpu": "x", "vllm_version": "0.19.0"}]}', "no size of a line in it"),
        (
            '{"measured": [{"model": "m", "gpu": "x", "vllm_version": "0.19.0", "weights": "15Gi"}]}',
            "measured[0].weights: '15Gi' is not a number of bytes",
        ),
    ],
)
def test_a_broken_file_is_told_with_the_field(text: str, problem: str) -> None:
    found, errors = measured.read(text, "x.measured.json")
    assert not found
    assert problem in errors[0]


def test_secrets_are_not_written_down() -> None:
    _, env = measured.own_arguments({}, {}, {"VLLM_API_KEY": "s3cret", "VLLM_USE_V1": "1", "HF_TOKEN": "hf"})
    assert env == {"VLLM_USE_V1": "1"}


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([str(LOG)], "not written down: which GPU it was is not known: --gpu NAME names it"),
        ([str(LOG), "--gpu", "h100"], "--gpu NVIDIA-H100-80GB-HBM3 or NVIDIA-H100-PCIe says so"),
        ([str(MANY), "--gpu", H100], "--manifest FILE gives the Pod"),
        ([str(POD)], "nothing in it that vLLM prints of its memory"),
        (["gone.log"], "gone.log: no such file"),
        ([str(LOG), "--write", "facts.json"], "must end in .measured.json"),
    ],
)
def test_what_is_missing_is_told(words: list[str], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["calibrate", *words])
    told = capsys.readouterr()
    assert problem in told.out + told.err


def test_what_cannot_be_written_down_makes_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "out.measured.json"

    assert main(["calibrate", str(LOG), "--gpu", "h100", "--write", str(target)]) == 3

    assert (
        "not written down: which GPU it was is not certain: --gpu NVIDIA-H100-80GB-HBM3 or" in capsys.readouterr().err
    )
    assert not target.exists()


def test_a_running_pod_is_asked_of_the_cluster(api_server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    pod = yaml.safe_load(POD.read_text())
    del pod["spec"]["nodeSelector"]
    pod["spec"]["nodeName"] = "gpu-7"
    pod["metadata"]["namespace"] = "prod"
    name = pod["metadata"]["name"]
    api_server.answers |= {
        f"/api/v1/namespaces/prod/pods/{name}": pod,
        f"/api/v1/namespaces/prod/pods/{name}/log": MANY.read_text(),
        "/api/v1/nodes/gpu-7": {"metadata": {"labels": {"nvidia.com/gpu.product": H100}}},
    }

    assert main(["calibrate", name, "-n", "prod", "-o", "json"]) == 0

    (result,) = json.loads(capsys.readouterr().out)["results"]
    assert result["problem"] is None
    assert result["measured"]["gpu"] == "NVIDIA H100 80GB SXM5"
    assert result["measured"]["arguments"] == {"tensor_parallel_size": 4, "max_model_len": 8192}
    (log,) = [one for one in api_server.asked if one.path.endswith("/log")]
    assert log.query == {"container": "vllm", "limitBytes": "67108864"}


def test_the_json_keeps_to_its_schema(capsys: pytest.CaptureFixture[str]) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((Path(__file__).parents[2] / "docs" / "schemas" / "calibrate.json").read_text())
    names = set[str]()
    for words in ([str(LOG), "--gpu", H100], [str(LOG)], [str(MANY), "--manifest", str(POD)]):
        assert main(["calibrate", *words, "-o", "json"]) == 0
        answer = json.loads(capsys.readouterr().out)
        jsonschema.validate(answer, schema)
        names |= {name for result in answer["results"] for name in result["lines"]}
    assert {"weights", TOKENS} <= names <= {*TITLES, TOKENS}
