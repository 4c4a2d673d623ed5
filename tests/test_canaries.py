"""No text for people shows a secret: canaries wherever a manifest can hold one, searched for in every output."""

from __future__ import annotations

import argparse
import base64
import io
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from copy import deepcopy
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch
from urllib.parse import quote

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from podfit.base.secret import Secrets
from podfit.cli import check, diagnose, explain, main, plan, scan
from podfit.cli.support import batch, user_cluster
from podfit.evaluation import review
from podfit.evaluation.policy import builtin
from podfit.report import comparison
from podfit.server.accesslog import AccessLog
from podfit.server.metrics import Metrics
from podfit.vllm.facts import Facts
from tests import reviews
from tests.conftest import GOOD_POD
from tests.evaluation.scan.cluster import Api

JSONDict = dict[str, Any]
Pick = Callable[[Sequence[Any]], Any]
Plant = Callable[[JSONDict, str, Pick], str]
"""Puts a canary into a Pod, and says how it is written there."""

# ── Where a secret is ────────────────────────────────────────────────────────────────────────────────────────────────

FLAGS = (
    "--api-key", "--api_key", "--hf-token", "--ssl-keyfile-password", "--db-passwd", "--Client-Secret", "--key",
    "--my-token", "--mytoken", "--hf-secret", "--auth-password", "--proxy-pass", "--s3-access-key-id", "--jwt",
    "--pass", "--pw", "--token-id", "--salt",
)  # fmt: skip
VARIABLES = (
    "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "TOKEN", "PASSWORD", "db_password", "VLLM_API_KEY",
    "AWS_ACCESS_KEY_ID", "S3_SECRET", "OPENAI_API_KEY_1", "PGPASSWORD", "KEY", "PASSWD", "SECRET_KEY_BASE", "BEARER",
)  # fmt: skip
KEYS = ("password", "api_key", "accessToken", "clientSecret", "s3-secret-key", "auth_token", "pwd", "bearer")


def container(pod: JSONDict) -> JSONDict:
    """The one that runs vLLM."""
    found: JSONDict = pod["spec"]["containers"][0]
    return found


def _args(pod: JSONDict, *words: str) -> None:
    container(pod).setdefault("args", []).extend(words)


def _plain(canary: str) -> str:
    """Where nothing quotes it: without what ends a word."""
    return "".join(one for one in canary if one not in " \"'`\\,;&|<>(){}[]$*?!#~%=@:/\n")


def split(pod: JSONDict, canary: str, pick: Pick) -> str:
    """A flag and its value as two items."""
    _args(pod, pick(FLAGS), canary)
    return canary


def joined(pod: JSONDict, canary: str, pick: Pick) -> str:
    """`--api-key=VALUE`."""
    _args(pod, f"{pick(FLAGS)}={canary}")
    return canary


def in_one_string(pod: JSONDict, canary: str, pick: Pick) -> str:
    """A whole command line as one item, which no shell splits."""
    mark = pick((" ", "="))
    container(pod)["args"] = [f"--model Qwen/Qwen3-8B {pick(FLAGS)}{mark}{_plain(canary)} --max-model-len 4096"]
    return _plain(canary)


def after_its_flag(pod: JSONDict, canary: str, pick: Pick) -> str:
    """A flag and its value with white space between them that does not split words, or in two words after a `=`."""
    value = _plain(canary)
    _args(pod, *pick(((f"--api-key\t{value}",), (f"--api-key\u00a0{value}",), ("--api-key=", value))))
    return value


def misspelt(pod: JSONDict, canary: str, pick: Pick) -> str:
    """A flag that is nearly one, or has other dashes, or none."""
    _args(
        pod, *pick(((f"--api-kye={canary}",), ("--api-kye", canary), (f"api-key={canary}",), (f"—api-key={canary}",)))
    )
    return canary


def in_a_script(pod: JSONDict, canary: str, pick: Pick) -> str:
    """Of `sh -c`, as a flag's value or by way of a variable."""
    value = _plain(canary)
    container(pod)["command"] = ["bash", "-c"]
    container(pod)["args"] = [pick((
        f"exec vllm serve Qwen/Qwen3-8B {pick(FLAGS)} {value} --no-such-flag",
        f"vllm serve Qwen/Qwen3-8B --api-key '{value}' --max-model-len abc",
        f"export HF_TOKEN={value}; vllm serve Qwen/Qwen3-8B --no-such=$HF_TOKEN",
        f"API_KEY={value}\nvllm serve Qwen/Qwen3-8B \\\n --api-key \\\n \"$API_KEY\" \\\n --swap-space 4 $API_KEY",
        f"curl -H 'Authorization: Bearer {value}' https://x/y -o /tmp/y; vllm serve Qwen/Qwen3-8B --no-such {value}",
        f"hf auth login --token {value} && vllm serve Qwen/Qwen3-8B --swap-spaec 8",
        f"sh -c 'vllm serve \"Qwen/Qwen3-8B --api-key {value}'",
        f"read -r API_KEY <<< '{value}'\nvllm serve Qwen/Qwen3-8B --api-key $API_KEY --no-such=$API_KEY",
        f"read HF_TOKEN <<EOF\n{value}\nEOF\nvllm serve Qwen/Qwen3-8B --max-num-seqs $HF_TOKEN",
        f"printf -v API_KEY %s {value}; vllm serve Qwen/Qwen3-8B --api-key $API_KEY --bogus",
        f"for HF_TOKEN in {value}; do vllm serve Qwen/Qwen3-8B --dtype $HF_TOKEN; done",
        f"X={value}; API_KEY=$X; vllm serve Qwen/Qwen3-8B --no-such=$X",
        f"HF_TOKEN=ab; HF_TOKEN+={value}; vllm serve Qwen/Qwen3-8B --dtype $HF_TOKEN",
        f"HF_TOKEN=\"$(printf %s {value})\"; vllm serve Qwen/Qwen3-8B --max-num-seqs \"$HF_TOKEN\"",
        f"echo {value} | tee /tmp/hf_token; vllm serve Qwen/Qwen3-8B --api-key $(cat /tmp/hf_token) --bogus",
        f"read -r KEY <<< {value}; vllm serve Qwen/Qwen3-8B --max-num-seqs $KEY --no-such=$KEY",
        f"read -r HF_TOKEN <<EOF\n{value}\nEOF\nvllm serve Qwen/Qwen3-8B --max-num-seqs $HF_TOKEN",
        f"HF_TOKEN=$(echo '{value}'); vllm serve Qwen/Qwen3-8B --max-num-seqs \"$HF_TOKEN\"",
        f"A={value}; FOO_PASSWORD=$A; FOO_PASSWORD=$A vllm serve Qwen/Qwen3-8B --max-num-seqs $A",
        f"API_KEY={value}; vllm serve Qwen/Qwen3-8B --no-such=${{API_KEY:0:9}} --max-num-seqs ${{API_KEY:0:12}}",
    ))]  # fmt: skip
    return value


def in_json(pod: JSONDict, canary: str, pick: Pick) -> str:
    """By its key, at any depth, also where the JSON is in error."""
    whole = json.dumps({"kv_connector": "Nope", "kv_role": "both", "x": [{"y": {pick(KEYS): canary}}]})
    broken = whole[: -pick((1, 2))]
    literal = str({"kv_connector": "Nope", pick(KEYS): canary})
    flag = pick(("--kv-transfer-config", "--compilation-config", "--speculative-config", "--hf-overrides", "--no-such"))
    _args(pod, flag, pick((whole, broken, literal, broken + ",", json.dumps({pick(KEYS): canary, "kv_role": 7}))))
    return canary


def dotted(pod: JSONDict, canary: str, pick: Pick) -> str:
    """`--kv-transfer-config.password=VALUE`."""
    _args(pod, f"--kv-transfer-config.kv_connector_extra_config.{pick(KEYS)}={canary}")
    return canary


def in_a_variable(pod: JSONDict, canary: str, pick: Pick) -> str:
    """Of the container, also expanded into its arguments."""
    name, value = pick(VARIABLES), canary.replace("$", "")
    container(pod).setdefault("env", []).append({"name": name, "value": value})
    _args(pod, *pick(((), (f"--no-such=$({name})",), ("--max-num-seqs", f"$({name})"), ("--dtype", f"x$({name})"))))
    return value


def in_a_url(pod: JSONDict, canary: str, pick: Pick) -> str:
    """As password, as the access key of a bucket, or as query parameter."""
    value: str = quote(canary, safe="") if pick((True, False)) else _plain(canary)
    url = pick((
        f"s3://{value}:another9secret@bucket/model",
        f"https://user:{value}@mirror.example/org/model",
        f"s3://:{value}@bucket/model",
        f"https://mirror.example/model?x=1&token={value}",
        f"https://acct.example/c/b?sv=1&sig={value}",
    ))  # fmt: skip
    pick((
        lambda: _args(pod, "--model", url),
        lambda: _args(pod, "--tokenizer", url, "--no-such"),
        lambda: _args(pod, f"--no-such={url}"),
        lambda: container(pod).setdefault("env", []).append({"name": "HF_ENDPOINT", "value": url}),
        lambda: _args(pod, "--otlp-traces-endpoint", url, "--max-model-len", url),
    ))()  # fmt: skip
    return value


def in_a_probe(pod: JSONDict, canary: str, pick: Pick) -> str:
    """A header of a probe, or of the command that it runs."""
    value = _plain(canary)
    get = {
        "path": "/health",
        "port": 8000,
        "httpHeaders": [{"name": pick(("Authorization", "X-Api-Key")), "value": value}],
    }
    bearer = {**get, "httpHeaders": [{"name": "Authorization", "value": f"Bearer {value}"}], "port": 9999}
    query = {"path": f"/helth?api_key={value}", "port": 8001}
    exec_ = ["curl", "-f", "-H", f"Authorization: Bearer {value}", "http://localhost:9000/nope"]
    login = ["sh", "-c", f"curl -u admin:{value} http://localhost:9000/health"]
    probe = pick(({"httpGet": get}, {"httpGet": bearer}, {"httpGet": query}, {"exec": {"command": exec_}},
                  {"exec": {"command": login}}))  # fmt: skip
    container(pod)[pick(("livenessProbe", "startupProbe", "readinessProbe"))] = {**probe, "timeoutSeconds": 1}
    return value


def in_a_hook(pod: JSONDict, canary: str, pick: Pick) -> str:
    """Of the container's lifecycle."""
    command = ["sh", "-c", f"curl -H 'Authorization: Bearer {_plain(canary)}' http://localhost:8000/drain; sleep 9"]
    container(pod)["lifecycle"] = {"preStop": {"exec": {"command": command}}}
    pod["spec"]["terminationGracePeriodSeconds"] = 5
    return _plain(canary)


def in_an_annotation(pod: JSONDict, canary: str, pick: Pick) -> str:
    """By its name, in the last applied object, or as the reason of an exemption."""
    value = _plain(canary)
    inner = {"env": [{"name": "HF_TOKEN", "value": value}]}
    name, text = pick((
        ("example.com/api-token", value),
        ("kubectl.kubernetes.io/last-applied-configuration", json.dumps({"spec": {"containers": [inner]}})),
        ("podfit.dev/ignore.unknown-flag", f"ticket 7, api_key={value}"),
        ("podfit.dev/model", f"https://user:{value}@host/model"),
    ))  # fmt: skip
    pod["metadata"].setdefault("annotations", {})[name] = text
    return value


def in_a_volume(pod: JSONDict, canary: str, pick: Pick) -> str:
    """Attributes of a CSI driver."""
    volume = {"name": "w", "csi": {"driver": "s3.example", "volumeAttributes": {pick(KEYS): canary}}}
    pod["spec"].setdefault("volumes", []).append(volume)
    container(pod).setdefault("volumeMounts", []).append({"name": "w", "mountPath": "/dev/shm"})
    return canary


def in_a_config_file(pod: JSONDict, canary: str, pick: Pick) -> str:
    """Of `--config`, in a ConfigMap."""
    data = {"vllm.yaml": json.dumps({pick(("api-key", "hf_token")): canary, "max-num-seqs": pick((canary, 8))})}
    metadata = {"name": "conf", "namespace": pod["metadata"]["namespace"]}
    pod["beside"] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    pod["spec"].setdefault("volumes", []).append({"name": "c", "configMap": {"name": "conf"}})
    container(pod).setdefault("volumeMounts", []).append({"name": "c", "mountPath": "/etc/vllm"})
    _args(pod, "--config", "/etc/vllm/vllm.yaml")
    return canary


PLANTS: tuple[Plant, ...] = (
    split, joined, in_one_string, after_its_flag, misspelt, in_a_script, in_json, dotted, in_a_variable, in_a_url,
    in_a_probe, in_a_hook, in_an_annotation, in_a_volume, in_a_config_file,
)  # fmt: skip

# ── Errors around it ─────────────────────────────────────────────────────────────────────────────────────────────────


def spoil(pod: JSONDict, canary: str, pick: Pick) -> None:
    """Makes podfit speak: of an argument, a probe, a volume; or quote the same value at another place."""
    vllm = container(pod)
    pick((
        lambda: _args(pod, "--no-such-flag", canary),
        lambda: _args(pod, "--max-num-seqs", canary),
        lambda: _args(pod, "--quantization", canary),
        lambda: _args(pod, "--tool-call-parser", canary, "--enable-auto-tool-choice"),
        lambda: _args(pod, canary),
        lambda: _args(pod, f"--attention-backend={canary}"),
        lambda: _args(pod, "--max-model-len", "8,192"),
        lambda: _args(pod, "--tensor-parallel-size", "3", "--gpu-memory-utilization", "1.5"),
        lambda: vllm.pop("resources", None),
        lambda: vllm.update(image="vllm/vllm-openai:latest"),
        lambda: vllm.update(env=[*vllm.get("env", []), {"name": "VLLM_LOGGING_LEVEL", "value": canary}]),
        lambda: vllm.update(env=[*vllm.get("env", []), {"name": "VLLM_WORKER_MULTIPROC_METHOD", "value": canary}]),
        lambda: vllm.update(resources={"limits": {"nvidia.com/gpu": "1", "memory": "1Gi"}}),
    ))()  # fmt: skip


def wrapped(pod: JSONDict, pick: Pick) -> JSONDict:
    """The Pod, or a workload that makes it."""
    kind = pick(("Pod", "Deployment", "StatefulSet", "Job", "LeaderWorkerSet", "RayCluster"))
    if kind == "Pod":
        return pod
    template = {"metadata": {"annotations": pod["metadata"].get("annotations", {})}, "spec": pod["spec"]}
    if kind == "LeaderWorkerSet":
        api, spec = "leaderworkerset.x-k8s.io/v1", {"leaderWorkerTemplate": {"size": 1, "workerTemplate": template}}
    elif kind == "RayCluster":
        api, spec = "ray.io/v1", {"headGroupSpec": {"rayStartParams": {}, "template": template}}
    else:
        api = "batch/v1" if kind == "Job" else "apps/v1"
        spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    return {"apiVersion": api, "kind": kind, "metadata": {**pod["metadata"], "uid": "u-1"}, "spec": spec}


def written(obj: JSONDict, beside: JSONDict | None, pick: Pick) -> str:
    """The text of the object and of the objects with it."""
    style = pick(("json", "block", "flow", "narrow"))
    objects = [obj] if beside is None else [obj, beside]
    if style == "json":
        return "\n".join(json.dumps(one, indent=1) for one in objects)
    width = 40 if style == "narrow" else 1000
    return str(yaml.safe_dump_all(objects, default_flow_style=style == "flow", width=width))


# ── Outputs ──────────────────────────────────────────────────────────────────────────────────────────────────────────

LOG = """\
(APIServer pid=1) INFO 06-01 10:00:00 [utils.py:299] non-default args: {{'api_key': ['{0}'], 'model': 'Qwen/Qwen3-8B'}}
INFO 06-01 10:00:00 [api_server.py:1] args: Namespace(host=None, port=8000, api_key={1!r}, hf_token='{0}')
ValueError: cannot reach https://user:{0}@mirror.example/model?token={0} with Authorization: Bearer {0}, api_key='{0}'
"""


def ran(*words: str) -> str:
    """What a command prints, on both of its outputs."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        main(words)
    return out.getvalue() + err.getvalue()


def outputs(folder: Path, obj: JSONDict, beside: JSONDict | None, text: str, canary: str) -> Iterator[tuple[str, str]]:
    """Every text output of every command for the object, with its name. Diffs, patches and generated manifests, which
    are applied, are none."""
    (folder / "good.yaml").write_text(yaml.safe_dump({**deepcopy(GOOD_POD), "metadata": obj["metadata"]}))
    file, plain = str(folder / "pod.yaml"), _plain(canary)
    Path(file).write_text(text)
    (folder / "crash.log").write_text(LOG.format(plain, [plain]))
    for one in check.FORMATS.names:
        yield f"check {one}", ran("check", "--audit", "--format", one, file)
    for one in comparison.FORMATS:
        yield f"diff {one}", ran("diff", "--format", one, str(folder / "good.yaml"), file)
        yield f"diff back {one}", ran("diff", "--format", one, file, str(folder / "good.yaml"))
    for one in explain.FORMATS:
        yield f"explain {one}", ran("explain", "--format", one, file)
    for one in diagnose.FORMATS:
        crash = str(folder / "crash.log")
        yield f"diagnose log {one}", ran("diagnose", "--format", one, crash)
        if not beside:  # of which it knows nothing
            yield f"diagnose {one}", ran("diagnose", "-v", "--format", one, crash, "--manifest", file)
    for one in ("text", "json"):
        yield (
            f"policy diff {one}",
            ran("policy", "diff", "default", "policies/strict.yaml", "--on", file, "--format", one),
        )
    err = io.StringIO()
    with redirect_stdout(io.StringIO()), redirect_stderr(err):  # on standard output is the diff
        main(["fix", file])
    yield "fix", err.getvalue()

    @contextmanager
    def client(_: argparse.Namespace, **__: object) -> Iterator[Api]:
        yield Api(obj, *([beside] if beside else []))

    with patch.object(user_cluster, "client", client):
        for one in scan.FORMATS.names:
            yield f"scan {one}", ran("scan", "--format", one, "--what-if", "policies/strict.yaml", "--limit", "0")
        ran("scan", "--metrics", str(folder / "scan.prom"))
        yield "metrics of scan", (folder / "scan.prom").read_text()
    yield from planned(obj, canary)
    yield from answered(obj)


def planned(obj: JSONDict, canary: str) -> Iterator[tuple[str, str]]:
    """What `podfit plan` says of the container's command line."""
    if obj["kind"] != "Pod":
        return
    vllm = container(obj)
    argv = [*vllm.get("command", ["vllm", "serve"]), *vllm.get("args", [])]
    if not any(canary in one for one in Secrets.of(argv).values or ()):
        return  # what makes it a secret is in another field
    for one in plan.FORMATS:
        versions = ["--vllm-version", "0.19.0"] if one == "markdown" else ["--fit"]
        yield (
            f"plan {one}",
            ran("plan", "--gpu", "l4", *versions, "--vllm-version", "0.27.1", "--format", one, "--", *argv),
        )
    if len(canary) < batch.SHORTEST_SECRET:
        return
    with patch("sys.stdin", io.StringIO(json.dumps({"id": 1, "argv": argv, "vllm_version": "0.27.1"}))):
        yield "plan batch", ran("plan", "--batch", "-")


def answered(obj: JSONDict) -> Iterator[tuple[str, str]]:
    """What the webhooks answer and log, without the patch, which is applied."""
    if obj["kind"] not in reviews.RESOURCES:
        return
    body = json.dumps(reviews.admission_review(obj)).encode()
    for webhook in ("validate", "mutate"):
        decision = review.decide(webhook, review.parse(body), builtin(), Facts())
        answer = {**decision.answer["response"], "patch": None}
        yield webhook, json.dumps(answer) + json.dumps(answer, ensure_ascii=False)
        lines = io.BytesIO()
        log = AccessLog(lines)
        log.review(webhook, decision, 0.1, 0.1)
        log.close(5)
        metrics = Metrics("", "", "")
        metrics.observe(webhook, decision, 0.1)
        yield f"metrics of {webhook}", metrics.text().decode()
        yield f"log of {webhook}", lines.getvalue().decode() + str([one.error for one in decision.errors])


def forms(canary: str) -> Iterator[str]:
    """The canary as it might be printed: whole, escaped, encoded; and what a cut in its middle leaves."""
    yield canary
    yield from (json.dumps(canary)[1:-1], repr(canary)[1:-1], quote(canary), quote(canary, safe=""))
    yield base64.b64encode(canary.encode()).decode()
    whole = _plain(canary)
    half = max(8, len(whole) // 2)
    yield from (whole[:half], whole[-half:], whole[:half].lower(), whole[:half].replace("_", "-"))


def leaks(canary: str, text: str) -> list[str]:
    """The forms in which it is there."""
    return sorted({one for one in forms(canary) if len(one) >= 6 and one in text})


def case(plant: Plant, pick: Pick, canary: str) -> tuple[JSONDict, JSONDict | None, str, str]:
    """An object with the canary in it, the one next to it, their text, and the canary as it is written there."""
    pod = deepcopy(GOOD_POD)
    pod["spec"]["containers"][0]["args"] = ["--model", "Qwen/Qwen3-8B", "--max-model-len", "8192"]
    value = plant(pod, canary, pick)
    for _ in range(pick((1, 2, 3))):
        spoil(pod, value, pick)
    beside = pod.pop("beside", None)
    obj = wrapped(pod, pick)
    return obj, beside, written(obj, beside, pick), value


def shown(plant: Plant, pick: Pick, canary: str) -> dict[str, list[str]]:
    """Output → the forms in which it shows the canary."""
    obj, beside, text, value = case(plant, pick, canary)
    with TemporaryDirectory() as folder:
        return {
            name: found for name, out in outputs(Path(folder), obj, beside, text, value) if (found := leaks(value, out))
        }


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_no_output_shows_a_secret_wherever_it_is(plant: Plant) -> None:
    random = Random(plant.__name__)

    assert shown(plant, random.choice, "Zq7_x.Kw3-9Vb2") == {}
    assert shown(plant, random.choice, "Zq7 \"x'\\K&w<3é9Vb2") == {}


LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789"
ODD = " \"'`\\,;&|<>(){}[]$*?!#~%=@:/_-.+^é漢"
CANARIES = st.tuples(
    st.sampled_from(("", "hf_", "sk-")),
    st.text(LETTERS, min_size=4, max_size=20),
    st.text(ODD, max_size=2),
    st.text("23456789ABCDEFGH", min_size=4, max_size=20),
).map("".join)


@settings(max_examples=20)
@given(st.data(), CANARIES)
def test_no_output_shows_a_secret_whatever_surrounds_it(data: st.DataObject, canary: str) -> None:
    def pick(options: Sequence[Any]) -> Any:
        return options[data.draw(st.integers(0, len(options) - 1))]

    assert shown(pick(PLANTS), pick, canary) == {}


@pytest.mark.parametrize(
    "part",
    ["${API_KEY:0:9}", "${API_KEY:7}", "${API_KEY%????????}", "${API_KEY#????????}", "${API_KEY^^}", "x${API_KEY/7/_}"],
)
@pytest.mark.parametrize("argument", ["--no-such={}", "--dtype {}", "--max-num-seqs {}"])
def test_no_part_of_a_secret_is_shown(tmp_path: Path, part: str, argument: str) -> None:
    secret = "Zq7wRtXk2mPl9vBn"
    pod = deepcopy(GOOD_POD)
    script = f"API_KEY={secret}; vllm serve Qwen/Qwen3-8B {argument.format(part)} --bogus"
    container(pod).update(command=["bash", "-c"], args=[script])
    (tmp_path / "pod.yaml").write_text(yaml.safe_dump(pod))
    for one in check.FORMATS.names:
        shown = ran("check", "--audit", "--format", one, str(tmp_path / "pod.yaml")).lower()
        assert not [at for at in range(len(secret) - 5) if secret[at : at + 6].lower() in shown]


def test_the_search_itself_finds_a_canary(tmp_path: Path) -> None:
    obj, _, text, value = case(split, Random(0).choice, "Zq7xKw39Vb2")
    (tmp_path / "pod.yaml").write_text(text)

    assert leaks(value, ran("check", "--format", "json", "--show-secrets", str(tmp_path / "pod.yaml")))
    assert leaks("a/b c+d é1234", "at a%2Fb%20c%2Bd%20%C3%A91234")
    assert leaks("0123456789abcdef", "cut: 01234567…")
    assert not leaks("0123456789abcdef", "****************")
    assert obj["kind"] in text


def test_every_command_with_formats_is_searched(tmp_path: Path) -> None:
    """A new format is searched without a change here."""
    obj, beside, text, value = case(split, lambda options: options[0], "Zq7xKw39Vb24")
    names = {name for name, _ in outputs(tmp_path, obj, beside, text, value)}

    tables = {
        "check": check.FORMATS.names, "diff": comparison.FORMATS, "explain": explain.FORMATS, "plan": plan.FORMATS,
        "scan": scan.FORMATS.names, "diagnose": diagnose.FORMATS,
    }  # fmt: skip
    for command, formats in tables.items():
        assert {f"{command} {one}" for one in formats} <= names
    assert {
        "fix",
        "plan batch",
        "validate",
        "mutate",
        "log of validate",
        "metrics of validate",
        "metrics of scan",
    } <= names
