"""The pure function behind everything: what it denies, what it softens, and that it never raises."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit import rules
from podfit.evaluation.lint import Report, lint
from podfit.evaluation.policy import Policy, builtin, load
from podfit.kube.workload import Workload
from podfit.rules import reading
from podfit.rules.command_line.unknown_flag import UnknownFlag
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding
from podfit.vllm import command
from podfit.vllm.facts import Facts

Judge = Callable[..., Report]


def _modes(report: Report) -> dict[str, str]:
    return {judged.rule: judged.mode for judged in report.findings}


def test_a_good_pod_has_no_finding(pod: dict[str, Any], judge: Judge) -> None:
    report = judge(pod)

    assert len(report.results) == 1
    assert not report.findings
    assert not report.errors


def test_an_object_without_vllm_has_no_result(judge: Judge) -> None:
    report = judge({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}})

    assert not report.results
    assert not report.denied


def test_of_thousands_of_containers_those_with_devices_are_evaluated(
    pod: dict[str, Any], container: dict[str, Any], judge: Judge
) -> None:
    others = [{"name": f"a{n}", "image": "busybox", "command": ["true"]} for n in range(8_192)]
    container["args"] += ["--no-such-flag"]
    pod["spec"]["containers"] = [*others, container]
    assert judge(pod).denied
    assert judge(pod).unread == "18 of 8193 containers are not evaluated: the object has too many"

    del container["resources"]
    assert not judge(pod).results
    assert judge(pod).unread == "1 of 8193 containers are not evaluated: the object has too many"


def test_of_hundreds_of_containers_few_flags_are_compared(pod: dict[str, Any], judge: Judge) -> None:
    """Each comparison takes a millisecond, also of the flags of a program that is only taken for vLLM."""
    words = ["./serve", "--model", "m", "--max-model-len", "1", *(f"--max-num-batched-token{n}" for n in range(5))]
    pod["spec"]["containers"] = [{"name": f"a{n}", "image": "vllm/a:1", "command": words} for n in range(100)]
    results = judge(pod).results
    assert sum(len(result.engine.args.unrecognized) for result in results) == 64


def test_of_containers_of_an_unknown_release_fewer_are_evaluated(
    pod: dict[str, Any], container: dict[str, Any], judge: Judge
) -> None:
    """The parsers of all releases read the words of each."""
    container["image"] = "vllm/vllm-openai:latest"
    container["args"] = [*container["args"], *(f"--no-such{n}" for n in range(20))]
    pod["spec"]["containers"] = [container | {"name": f"a{n}"} for n in range(200)]
    report = judge(pod)
    assert report.unread is not None
    assert 40 <= len(report.results) <= 80

    for one in pod["spec"]["containers"]:
        one["args"] = [*container["args"], *["--max-num-seqs=a"] * 20]  # all releases are asked
    assert 5 <= len(judge(pod).results) <= 20


def test_a_certain_finding_of_a_denying_rule_denies(
    pod: dict[str, Any], container: dict[str, Any], judge: Judge
) -> None:
    container["args"] += ["--no-such-flag"]

    assert judge(pod).denied


@pytest.mark.parametrize("word", ["--port =", "--port = ", "--port\t=\n", "--port = =", "--port= x", "--port  '", "-"])
def test_no_word_is_too_odd_to_be_judged(
    word: str, pod: dict[str, Any], container: dict[str, Any], judge: Judge
) -> None:
    container["args"] += [word]

    assert not judge(pod).errors


def test_a_model_guessed_from_a_path_warns_and_never_denies(
    pod: dict[str, Any], container: dict[str, Any], judge: Judge
) -> None:
    container["args"] = ["--model", "/models/Llama-3.1-70B-Instruct", "--max-model-len", "8192"]

    report = judge(pod)

    assert _modes(report)["gpu-memory-exceeded"] == "warn"
    assert not report.denied


def test_a_pod_that_a_controller_made_is_warned_about_but_not_denied(
    pod: dict[str, Any], container: dict[str, Any], judge: Judge
) -> None:
    container["args"] += ["--no-such-flag"]
    pod["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": "llama", "controller": True}]

    assert _modes(judge(pod))["unknown-flag"] == "warn"
    assert judge(pod, where="check").denied


def test_a_policy_may_deny_owned_pods(pod: dict[str, Any], container: dict[str, Any], judge: Judge) -> None:
    container["args"] += ["--no-such-flag"]
    pod["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": "llama", "controller": True}]
    policy = load(
        [
            (
                "owned.yaml",
                "apiVersion: podfit.dev/v1alpha1\nkind: Policy\nmetadata: {name: owned}\n"
                "spec: {enforce: {ownedPods: deny}}\n",
            )
        ]
    )

    assert judge(pod, policy=policy).denied


def test_an_update_denies_only_what_it_introduces(pod: dict[str, Any], container: dict[str, Any], judge: Judge) -> None:
    container["args"] += ["--no-such-flag"]
    newer = copy.deepcopy(pod)
    newer["spec"]["containers"][0]["args"].insert(0, "--enable-prefix-caching")

    assert _modes(judge(newer, old=pod)) == {"unknown-flag": "warn"}

    newer["spec"]["containers"][0]["args"] += ["--nor-this-one"]

    assert judge(newer, old=pod).denied


def test_the_old_object_is_read_only_where_the_new_one_would_be_denied(
    pod: dict[str, Any], container: dict[str, Any], judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, real = list[Any](), reading.read

    def counted(workload: Workload, *more: Any) -> Engine | None:
        read.append(workload.object)
        return real(workload, *more)

    monkeypatch.setattr(reading, "read", counted)
    newer = copy.deepcopy(pod)
    newer["spec"]["containers"][0]["args"].insert(0, "--enable-prefix-caching")

    assert not judge(newer, old=pod).denied
    assert read == [newer]

    newer["spec"]["containers"][0]["args"] += ["--no-such-flag"]

    assert judge(newer, old=pod).denied
    assert read == [newer, newer, pod]


def test_a_rule_that_raises_is_an_error_of_ours_and_the_object_is_allowed(
    pod: dict[str, Any], container: dict[str, Any], judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: UnknownFlag, engine: Engine) -> Iterator[Any]:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(UnknownFlag, "check", broken)

    container["args"] += ["--no-such-flag"]
    report = judge(pod)

    assert [(error.rule, error.error) for error in report.errors] == [("unknown-flag", "ZeroDivisionError: a bug")]
    assert not report.denied


def test_rules_that_need_an_unknown_fact_are_skipped(
    pod: dict[str, Any], container: dict[str, Any], judge: Judge
) -> None:
    """No GPU named: the only statement about GPU memory is that it is not evaluated."""
    container["args"] = ["--model", "meta-llama/Llama-3.1-405B", "--max-model-len", "8192"]
    del pod["spec"]["nodeSelector"]

    modes = _modes(judge(pod))

    assert modes["unknown-gpu"] == "warn"
    assert "gpu-memory-exceeded" not in modes


@pytest.mark.parametrize(
    ("name", "value"),
    [("needs", ("modell",)), ("needs", ("plan.gpuu",)), ("mute_for", None), ("where", None)],
)
def test_a_rule_that_is_declared_wrong_is_an_error_of_its_own(
    pod: dict[str, Any], container: dict[str, Any], judge: Judge, monkeypatch: pytest.MonkeyPatch, name: str, value: Any
) -> None:
    container["args"] += ["--max-num-seqs", "many"]
    monkeypatch.setattr(UnknownFlag, name, value)

    report = judge(pod, policy=Policy(replace(builtin().base)))  # one that has asked no rule yet

    assert [error.rule for error in report.errors] == ["unknown-flag"]
    assert _modes(report)["invalid-flag-value"] == "deny"


def test_a_finding_that_names_no_fact_is_an_error_of_its_rule(
    pod: dict[str, Any], container: dict[str, Any], judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: UnknownFlag, engine: Engine) -> Iterator[Finding]:
        yield Finding(engine.at("args"), "wrong", rests_on=("modell",))

    monkeypatch.setattr(UnknownFlag, "check", broken)

    container["args"] += ["--no-such-flag"]
    report = judge(pod)

    assert [error.rule for error in report.errors] == ["unknown-flag"]
    assert not report.denied


def test_each_container_is_read_once_however_many_share_a_gpu(
    pod: dict[str, Any], container: dict[str, Any], judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    container["resources"]["limits"] = {"nvidia.com/gpu.shared": "1"}
    pod["spec"]["nodeSelector"]["nvidia.com/gpu.product"] = "NVIDIA-A100-SXM4-80GB-SHARED"
    pod["spec"]["containers"] = [{**container, "name": f"vllm-{index}"} for index in range(4)]
    read: list[str] = []

    def resolve(workload: Any, one: Any, *rest: Any) -> Any:
        read.append(one.name)
        return resolved(workload, one, *rest)

    resolved = command.resolve
    monkeypatch.setattr(command, "resolve", resolve)

    report = judge(pod)

    together = [one for one in report.findings if one.finding.message.startswith("4 servers of this Pod")]
    assert len(together) == 4
    assert read == [f"vllm-{index}" for index in range(4)]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)
_FIELDS = st.sampled_from(
    ["args", "command", "env", "image", "resources", "volumeMounts", "startupProbe", "livenessProbe", "ports", "name"]
)


@given(field=_FIELDS, value=_JSON)
def test_odd_values_anywhere_in_a_container_never_raise(field: str, value: Any) -> None:
    """An object that the API server would reject must not stop podfit either."""
    container = {
        "name": "vllm",
        "image": "vllm/vllm-openai:v0.27.1",
        "args": ["--model", "Qwen/Qwen3-8B"],
        field: value,
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": [container]}}

    assert not lint(pod, builtin(), Facts()).errors


@given(spec=_JSON, kind=st.sampled_from(["Pod", "Deployment", "Job", "CronJob", "LeaderWorkerSet", "RayService", "x"]))
def test_odd_objects_never_raise(spec: Any, kind: str) -> None:
    assert not lint({"apiVersion": "v1", "kind": kind, "metadata": spec, "spec": spec}, builtin(), Facts()).errors


def test_every_rule_is_in_the_default_policy() -> None:
    assert set(builtin().base.settings) == set(rules.all_rules())


@pytest.mark.parametrize(
    "extra",
    ["$EXTRA_ARGS", "--max-model-len $(cat /etc/length)", "--config /etc/vllm/unseen.yaml"],
    ids=["open", "computed", "config"],
)
def test_arguments_that_can_not_be_seen_never_lead_to_a_denial(
    pod: dict[str, Any], container: dict[str, Any], judge: Judge, extra: str
) -> None:
    """131,072 tokens do not fit an L4, but who knows what the rest of the line says."""
    del container["args"]
    container["command"] = ["sh", "-c", f"exec vllm serve meta-llama/Llama-3.1-8B-Instruct {extra}"]
    container["env"] = [{"name": "EXTRA_ARGS", "valueFrom": {"configMapKeyRef": {"name": "unseen", "key": "args"}}}]
    pod["spec"]["nodeSelector"] = {"nvidia.com/gpu.product": "NVIDIA-L4"}

    assert not judge(pod).denied


def test_a_batch_runner_gets_no_probe(pod: dict[str, Any], container: dict[str, Any], judge: Judge) -> None:
    del container["args"], container["startupProbe"]
    container["command"] = ["vllm", "run-batch", "-i", "in", "-o", "out", "--model", "Qwen/Qwen2.5-7B-Instruct"]

    assert not {rule for rule in _modes(judge(pod)) if "probe" in rule or "flag" in rule}


def test_a_restartable_init_container_is_a_server_too(pod: dict[str, Any], judge: Judge) -> None:
    sidecar = {**pod["spec"]["containers"][0], "restartPolicy": "Always"}
    pod["spec"]["initContainers"] = [sidecar]
    pod["spec"]["containers"] = [{"name": "app", "image": "app:1"}]

    assert len(judge(pod).results) == 1


POLICY = "{{apiVersion: podfit.dev/v1alpha1, kind: Policy, metadata: {{name: x}}, spec: {{rules: {{{}}}}}}}"


@pytest.mark.parametrize(
    ("said", "webhook", "command"),
    [("true", True, True), ("certain", True, True), ("manual", False, True), ("false", False, False)],
)
def test_who_applies_a_fix(
    pod: dict[str, Any], container: dict[str, Any], said: str, webhook: bool, command: bool
) -> None:
    policy = load([("p.yaml", POLICY.format(f"startup-probe-missing: {{fix: {said}}}"))])
    container.pop("startupProbe", None)

    assert bool(lint(pod, policy, Facts(), where="admission").edits) == webhook
    assert bool(lint(pod, policy, Facts(), where="check").edits) == command


@pytest.mark.parametrize(("mode", "becomes"), [("warn", "audit"), ("deny", "deny"), ("audit", "audit")])
def test_advice_is_one_step_softer_than_a_warning(
    pod: dict[str, Any], monkeypatch: pytest.MonkeyPatch, mode: str, becomes: str
) -> None:
    def advise(self: object, engine: Engine) -> Iterator[Finding]:
        yield Finding(engine.at("image"), "worth knowing", advice=True)

    monkeypatch.setattr(rules.all_rules()["unpinned-image"], "check", advise)
    policy = load([("p.yaml", POLICY.format(f"unpinned-image: {{mode: {mode}}}"))])

    assert _modes(lint(pod, policy, Facts()))["unpinned-image"] == becomes


def test_a_fix_that_nothing_can_hold_is_no_fix(pod: dict[str, Any], container: dict[str, Any], judge: Judge) -> None:
    """`resources: 64Gi`: the finding stays, and there is nothing to repair it in."""
    container["resources"] = "64Gi"

    report = judge(pod, where="check")

    found = [judged for judged in report.findings if judged.rule == "memory-limit-missing"]
    assert [(judged.applies, judged.finding.fix) for judged in found] == [(False, ())]
    assert all(path.parts[:3] != ("spec", "containers", 0) for path in (edit.path for edit in report.edits))


@pytest.mark.parametrize(
    ("further", "mode"),
    [
        ([], "deny"),
        (["--quantization", "rtn"], "deny"),  # what a weight takes is not known, and does not matter
        (["--revision", "abc"], "deny"),
        (["--max-num-seqs", "$(N)"], "warn"),
        (["--offload-backend", "uva"], "warn"),
    ],
)
def test_only_what_arguments_do_not_tell_softens_what_rests_on_them_alone(
    pod: dict[str, Any], container: dict[str, Any], judge: Judge, further: list[str], mode: str
) -> None:
    container["image"] = "vllm/vllm-openai:v0.27.1"
    container["args"] = ["--model", "Qwen/Qwen3-8B", "--tensor-parallel-size", "2", *further]
    container["env"] = [{"name": "N", "valueFrom": {"configMapKeyRef": {"name": "sizes", "key": "n"}}}]
    container["volumeMounts"] = []

    assert _modes(judge(pod))["shm-missing"] == mode


def test_plugins_that_a_config_map_names_soften_what_rests_on_registries(
    pod: dict[str, Any], container: dict[str, Any], judge: Judge
) -> None:
    container["image"] = "vllm/vllm-openai:v0.33.0"
    container["args"] = ["Qwen/Qwen3-8B", "--reasoning-parser", "ours", "--load-format", "ours"]
    container["envFrom"] = [{"configMapRef": {"name": "serving"}}]
    facts = Facts(config_maps={"serving": {"data": {"VLLM_PLUGINS": "ours"}}})

    named, unseen = (_modes(judge(pod, facts=one)) for one in (facts, Facts()))

    assert (named["unknown-parser"], named.get("invalid-flag-value")) == ("warn", None)
    assert (unseen["unknown-parser"], unseen["invalid-flag-value"]) == ("deny", "deny")
