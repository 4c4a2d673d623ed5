"""Every row of the table of doubts: an object that is denied, and the same object with that one reason to doubt."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from podfit.evaluation.lint import GradedFinding, evaluate, lint
from podfit.evaluation.lint.consequence import Context, Doubt
from podfit.evaluation.lint.doubts import DOUBTS, DOUBTS_OF_UPDATE
from podfit.evaluation.lint.steps import STEPS
from podfit.evaluation.policy import Policy, load
from podfit.kube import manifest, snapshot
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding
from podfit.vllm.facts import Facts
from tests.conftest import GOOD_POD
from tests.kube.test_revisions import replica_set
from tests.reviews import deployment, doomed, without_shm
from tests.rules.test_probes_of_a_wrong_port import pod as pod_with_wrong_probe

JSONDict = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Case:
    """An object, and what it is evaluated with."""

    object: JSONDict
    spec: str = "{}"
    """The policy's spec."""
    options: Mapping[str, Any] = field(default_factory=dict)

    def finding(self, rule: str) -> GradedFinding:
        """The first finding of the rule."""
        report = lint(self.object, policy(self.spec), **{"facts": Facts(), **self.options})
        assert not report.errors
        return next(judged for judged in report.findings if judged.rule == rule)


def policy(spec: str) -> Policy:
    text = f"apiVersion: podfit.dev/v1alpha1\nkind: Policy\nmetadata: {{name: mine}}\nspec: {spec}\n"
    return load([("policy.yaml", text)]).at(datetime(2026, 11, 21, tzinfo=UTC))


def pod(*arguments: str, of: JSONDict = GOOD_POD, **fields: Any) -> JSONDict:
    """The good Pod, or another one, with more arguments and other fields in its container."""
    other = copy.deepcopy(of)
    container = other["spec"]["containers"][0]
    container["args"] += arguments
    container.update(fields)
    return other


def script(text: str, **fields: Any) -> JSONDict:
    """The good Pod with a shell script."""
    return pod(command=["sh", "-c", text], args=[], **fields)


def workflow(arguments: str, more: str = "") -> JSONDict:
    """An Argo WorkflowTemplate whose container has one GPU, as it is read from a file."""
    text = f"""
apiVersion: argoproj.io/v1alpha1
kind: WorkflowTemplate
metadata: {{name: evaluate}}
spec:
  arguments: {{parameters: [{{name: tp, value: "2"}}]}}
  templates:
    - name: serve
      inputs: {{parameters: [{{name: length}}]}}
      container:
        image: vllm/vllm-openai:v0.27.1
        args: [Qwen/Qwen3-8B, {arguments}]
        resources: {{limits: {{nvidia.com/gpu: "1", memory: 64Gi}}}}
      {more}
"""
    (document,) = manifest.read(text.encode(), "workflow.yaml").documents
    return dict(document.object)


def with_metadata(obj: JSONDict, **metadata: Any) -> JSONDict:
    return {**obj, "metadata": {**obj["metadata"], **metadata}}


def from_config_map(variable: str) -> list[JSONDict]:
    """A container's `env` with a variable whose value is not known."""
    return [{"name": variable, "valueFrom": {"configMapKeyRef": {"name": "unseen", "key": "value"}}}]


BAD = doomed(GOOD_POD)
BARE = without_shm(GOOD_POD)
OLD, NEW = deployment(GOOD_POD), deployment(BAD)
SERVE = "vllm serve Qwen/Qwen3-8B --no-such-flag"
LENGTH_FROM_SHELL = Case(object=pod("--max-model-len", "$LENGTH"))
TOO_FEW_TOKENS = pod("--max-num-batched-tokens", "10", "--max-num-seqs", "300")
THREE_GPUS = pod("--tensor-parallel-size=3", resources={"limits": {"nvidia.com/gpu": "3", "memory": "64Gi"}})
TWO_OF_ONE = "--tensor-parallel-size=2"
LARGE: JSONDict = {"args": ["--model", "meta-llama/Llama-3.1-70B-Instruct", "--max-model-len", "8192"]}
OWNER = {"kind": "ReplicaSet", "name": "llama", "controller": True}
EXCEPTION = "{exceptions: [{rules: [unknown-flag], match: {}, reason: ours, owner: me, expires: 2026-12-31}]}"
IGNORED = with_metadata(BAD, annotations={"podfit.dev/ignore.unknown-flag": "our fork knows it"})
NO_REPLICAS = {**NEW, "spec": {**NEW["spec"], "replicas": 0}}
REVISIONS = Facts(cluster=snapshot.from_objects([replica_set(NEW)]))
UNKNOWN_REVISIONS = Facts(cluster=snapshot.Snapshot({"replicasets": {}}, unknown={"replicasets": frozenset({"chat"})}))
UPDATE = Case(object=NEW, options={"old": OLD})

EXAMPLES: dict[str, tuple[str, Case, Case]] = {
    "not-certain": ("unknown-flag", Case(object=BAD), Case(object=pod(of=BAD, image="vllm/vllm-openai:latest"))),
    "placeholder": ("variable-not-expanded", LENGTH_FROM_SHELL, replace(LENGTH_FROM_SHELL, options={"where": "check"})),
    "parser-unknown": (
        "invalid-flag-value",
        Case(object=pod("--max-num-seqs", "many")),
        Case(object=pod("--max-num-seqs", "many", image="vllm/vllm-openai:v0.33.9")),
    ),
    "release-not-read": (
        "conflicting-flags",
        Case(object=TOO_FEW_TOKENS),
        Case(object=pod(of=TOO_FEW_TOKENS, image="vllm/vllm-openai:v0.99.0")),
    ),
    "release-guessed": (
        "tensor-parallel-indivisible",
        Case(object=THREE_GPUS),
        Case(object=pod(of=THREE_GPUS, image="vllm/vllm-openai:lmcache-v0.8.5-20250418")),
    ),
    "parameter-without-value": (
        "gpu-count-mismatch",
        Case(object=workflow(TWO_OF_ONE)),
        Case(object=workflow(f'{TWO_OF_ONE}, "--max-model-len={{{{inputs.parameters.length}}}}"')),
    ),
    "template-not-read": (
        "gpu-count-mismatch",
        Case(object=workflow(TWO_OF_ONE)),
        Case(object=workflow(TWO_OF_ONE, more="podSpecPatch: 'containers: [{name: main, $patch: replace}]'")),
    ),
    "parameter-default": (
        "gpu-count-mismatch",
        Case(object=workflow(TWO_OF_ONE)),
        Case(object=workflow('"--tensor-parallel-size={{workflow.parameters.tp}}"')),
    ),
    "failure-survived": ("unknown-flag", Case(object=script(SERVE)), Case(object=script(f"{SERVE} & wait"))),
    "command-guessed": (
        "gpu-count-mismatch",
        Case(object=pod(TWO_OF_ONE, command=["vllm", "serve"])),
        Case(object=pod(TWO_OF_ONE, command=["./serve"], image="acme/vllm:1")),
    ),
    "arguments-unseen": (
        "unknown-flag",
        Case(object=script(SERVE, env=from_config_map("MORE"))),
        Case(object=script(f"{SERVE}=1 $MORE", env=from_config_map("MORE"))),
    ),
    "computation-doubtful": (
        "shm-missing",
        Case(object=BARE),
        Case(object=pod("--max-num-seqs", "$(SEQUENCES)", of=BARE, env=from_config_map("SEQUENCES"))),
    ),
    "several-pods": ("shm-missing", Case(object=BARE), Case(object=pod("--nnodes", "2", of=BARE))),
    "fact-informs": (
        "gpu-memory-exceeded",
        Case(object=pod(**LARGE)),
        Case(object=pod(args=["--model", "/models/Llama-3.1-70B-Instruct", "--max-model-len", "8192"])),
    ),
    "no-replicas": ("unknown-flag", Case(object=NEW), Case(object=NO_REPLICAS)),
    "owned": ("unknown-flag", Case(object=BAD), Case(object=with_metadata(BAD, ownerReferences=[OWNER]))),
    "repaired-by-webhook": ("shm-missing", Case(object=BARE), Case(object=BARE, spec="{trustMutation: true}")),
    "exception": ("unknown-flag", Case(object=BAD), Case(object=BAD, spec=EXCEPTION)),
    "annotation": ("unknown-flag", Case(object=IGNORED), Case(object=IGNORED, spec="{allowIgnore: [unknown-flag]}")),
    "presumed-rule": (
        "probe-wrong-path",
        Case(object=pod_with_wrong_probe()),
        Case(object=pod_with_wrong_probe(), spec="{rules: {probe-wrong-port: {mode: warn}}}"),
    ),
    "next-server": (
        "unknown-flag",
        Case(object=script(f"{SERVE}; {SERVE}")),
        Case(object=script(f"{SERVE}; vllm serve Qwen/Qwen3-8B")),
    ),
    "had-it-before": ("unknown-flag", UPDATE, Case(object=NEW, options={"old": NEW})),
    "former-revision": ("unknown-flag", UPDATE, Case(object=NEW, options={"old": OLD, "facts": REVISIONS})),
    "unknown-revision": ("unknown-flag", UPDATE, Case(object=NEW, options={"old": OLD, "facts": UNKNOWN_REVISIONS})),
}
"""Doubt → a rule, an object that the rule denies, and one that it denies but for this doubt."""


def test_every_doubt_has_an_example() -> None:
    assert [*EXAMPLES] == [row.name for row in (*DOUBTS, *STEPS, *DOUBTS_OF_UPDATE)]


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_doubt_softens_a_denial(name: str) -> None:
    rule, denied, doubtful = EXAMPLES[name]

    certain, softened = denied.finding(rule), doubtful.finding(rule)

    assert (certain.mode, certain.softened_by, certain.why_softened) == ("deny", (), None)
    assert softened.softened_by == (name,)
    assert softened.mode == ("audit" if name in ("exception", "annotation") else "warn")
    assert softened.why_softened


def test_an_exemption_and_the_doubt_before_it_are_both_named() -> None:
    """The reason is that of the lowest limit."""
    owned = with_metadata(BAD, ownerReferences=[OWNER])

    softened = Case(object=owned, spec=EXCEPTION).finding("unknown-flag")

    assert softened.softened_by == ("owned", "exception")
    assert (softened.mode, softened.exempted) == ("audit", "exception")
    assert softened.why_softened == "excepted until 2026-12-31 by me in policy mine: ours"


def test_a_rule_that_only_warns_has_no_doubts() -> None:
    warned = Case(object=BAD, spec="{rules: {unknown-flag: {mode: warn}}}").finding("unknown-flag")

    assert (warned.mode, warned.softened_by) == ("warn", ())


@pytest.mark.parametrize(
    ("mode", "fix", "names"),
    [
        ("deny", "true", ["warns", "advises", "audits"]),
        ("warn", "true", ["advises", "audits"]),
        ("audit", "true", ["advises", "audits"]),
        ("audit", "false", ["advises"]),
    ],
)
def test_a_doubt_is_asked_only_above_its_limits(
    monkeypatch: pytest.MonkeyPatch, mode: str, fix: str, names: list[str]
) -> None:
    calls: list[str] = []

    def doubt(name: str, **limits: Any) -> Doubt:
        def reason(finding: Finding, engine: Engine, context: Context) -> str:
            calls.append(name)
            return f"because of {name}"

        return Doubt(name=name, when="always", reason=reason, **limits)

    doubts = (
        doubt("warns"),
        doubt("warns-too"),
        doubt("advises", mode_at_most="deny", level_at_most="advice"),
        doubt("audits", mode_at_most="audit", stops_repair=True),
    )
    monkeypatch.setattr(evaluate, "DOUBTS", doubts)
    spec = f"{{rules: {{shm-missing: {{mode: {mode}, fix: {fix}}}}}}}"
    softened = Case(object=BARE, spec=spec).finding("shm-missing")

    assert calls == names
    assert softened.softened_by == tuple(names)
    assert softened.why_softened == f"because of {names[-1]}"
    assert (softened.mode, softened.level, softened.applies) == ("audit", "advice", False)
