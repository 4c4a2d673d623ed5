"""A whole cluster in memory: what counts, what counts once, what else is there, and what can't be read."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from podfit.cli import main
from podfit.cli.support import edge, user_cluster
from podfit.cluster import listing
from podfit.cluster.access import StatusError, UnreachableError
from podfit.cluster.scanning import Scanner, WorkloadSelection
from podfit.evaluation import scan
from podfit.evaluation.policy import Policy, builtin, load
from podfit.evaluation.scan import Ref, Scan
from podfit.evaluation.scan.running import runs_predictor
from podfit.kube.selector import parse
from podfit.kube.workload.table import WORKLOAD_KINDS
from podfit.report import scan as shown
from podfit.vllm.facts import Facts
from tests.evaluation.scan.cluster import DOOMED, Api, meta, pod, workload

SCHEMA = json.loads((Path(__file__).parents[3] / "docs" / "schemas" / "scan.json").read_text())
JSONDict = dict[str, Any]


def scanned(api: Api, wanted: WorkloadSelection | None = None, policy: Policy | None = None) -> Scan:
    """What a scan of the API finds."""
    held = policy or builtin()
    return Scanner(api, wanted or WorkloadSelection(), Facts(), held).run()


def found(api: Api, wanted: WorkloadSelection | None = None) -> list[str]:
    """The workloads that count, by name."""
    return [str(row.object) for row in scanned(api, wanted).rows]


# ── What counts ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_of_a_workload_and_all_that_comes_of_it_the_top_one_counts() -> None:
    top = workload("Deployment", "llama")
    middle = workload("ReplicaSet", "llama-1", owner=top)
    old = workload("ReplicaSet", "llama-0", owner=top, replicas=0)
    pods = [pod(f"llama-1-{number}", owner=middle) for number in range(3)]

    assert found(Api(*pods, old, middle, top, pod("bare"))) == ["Deployment chat/llama", "Pod chat/bare"]


def test_an_owner_that_is_no_vllm_workload_as_far_as_can_be_seen_hides_nothing() -> None:
    service: JSONDict = {
        "apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "metadata": meta("llm", "chat", None),
        "spec": {"predictor": {"model": {"modelFormat": {"name": "sklearn"}}}},
    }  # fmt: skip
    made = workload("Deployment", "llm-predictor", owner=service)
    strange = {"apiVersion": "example.com/v1", "kind": "Llm", "metadata": meta("x", "chat", None)}

    assert found(Api(service, made, strange, pod("x-0", owner=strange))) == [
        "Deployment chat/llm-predictor", "Pod chat/x-0",
    ]  # fmt: skip


def test_what_stands_between_a_workload_and_its_pods_is_looked_through() -> None:
    service = workload("Service", "llm", version="serving.knative.dev/v1")
    revision = {"apiVersion": "serving.knative.dev/v1", "kind": "Revision", "metadata": meta("llm-1", "chat", service)}
    made = workload("Deployment", "llm-1-deployment", owner=revision)
    api = Api(made, service, revision, kinds={"serving.knative.dev/v1": ("Service", "Revision")})

    assert found(api) == ["Service chat/llm"]


def test_the_workers_of_a_leader_count_with_it() -> None:
    """Their StatefulSet is owned by the leader's Pod, which is read after it."""
    group: JSONDict = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": meta("llm", "chat", None),
        "spec": {"leaderWorkerTemplate": {"size": 2, "workerTemplate": {"spec": pod("x")["spec"]}}},
    }  # fmt: skip
    leaders = workload("StatefulSet", "llm", owner=group)
    leaders["metadata"]["uid"] = "leaders"
    leader = pod("llm-0", owner=leaders)
    workers = workload("StatefulSet", "llm-0", owner=leader, labels={"leaderworkerset.sigs.k8s.io/name": "llm"})
    workers["metadata"]["uid"] = "workers"
    other = workload("StatefulSet", "other", owner=leader, labels={})

    assert set(found(Api(group, leaders, workers, leader, pod("llm-0-1", owner=workers)))) == {
        "LeaderWorkerSet chat/llm"
    }
    assert "StatefulSet chat/other" in found(Api(group, leaders, other, leader))


def test_what_has_ended_and_what_is_no_vllm_does_not_count() -> None:
    ended = pod("ended")
    ended["status"] = {"phase": "Succeeded"}
    going = pod("going")
    going["metadata"]["deletionTimestamp"] = "2026-11-21T20:00:00Z"
    other = pod("web")
    other["spec"]["containers"] = [{"name": "nginx", "image": "nginx:1.27"}]

    result = scanned(Api(ended, going, other))

    assert not result.rows
    assert result.looked_at == 3


def test_kinds_that_a_policy_adds_are_read() -> None:
    text = (
        "apiVersion: podfit.dev/v1alpha1\nkind: Policy\nmetadata: {name: a}\n"
        "spec: {kinds: {Llm.example.com: [spec.pod]}}\n"
    )
    own: JSONDict = {
        "apiVersion": "example.com/v1", "kind": "Llm", "metadata": meta("ours", "chat", None),
        "spec": {"pod": pod("x")["spec"]},
    }  # fmt: skip
    api = Api(own, pod("ours-0", owner=own))

    assert [str(row.object) for row in scanned(api, policy=load([("p.yaml", text)])).rows] == ["Llm chat/ours"]
    assert found(api) == ["Pod chat/ours-0"]


def test_every_kind_of_the_table_is_read_before_what_it_makes() -> None:
    places = {key: place for place, key in enumerate(scan.order({*WORKLOAD_KINDS, *scan.BETWEEN}))}
    makes = [
        (("apps", "Deployment"), ("apps", "ReplicaSet")), (("apps", "ReplicaSet"), ("", "Pod")),
        (("batch", "CronJob"), ("batch", "Job")), (("ray.io", "RayService"), ("ray.io", "RayCluster")),
        (("serving.kserve.io", "LLMInferenceService"), ("leaderworkerset.x-k8s.io", "LeaderWorkerSet")),
        (("leaderworkerset.x-k8s.io", "LeaderWorkerSet"), ("apps", "StatefulSet")),
        (("jobset.x-k8s.io", "JobSet"), ("batch", "Job")), (("kaito.sh", "Workspace"), ("apps", "StatefulSet")),
        (("nvidia.com", "DynamoGraphDeployment"), ("nvidia.com", "DynamoComponentDeployment")),
    ]  # fmt: skip

    assert all(places[owner] < places[owned] for owner, owned in makes)
    assert places.keys() == {*WORKLOAD_KINDS, *scan.BETWEEN} - scan.OLD


# ── Which ones ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_one_namespace_and_one_label() -> None:
    api = Api(workload("Deployment", "a", labels={"team": "x"}), workload("Deployment", "b", "other"))

    assert found(api, WorkloadSelection(namespace="other")) == ["Deployment other/b"]
    assert all("/namespaces/other/" in path or path.count("/") == 4 for path, _ in api.asked if "deployments" in path)
    assert found(api, WorkloadSelection(selector=parse("team=x"))) == ["Deployment chat/a"]


def test_a_pod_whose_owner_is_not_selected_does_not_step_in_for_it() -> None:
    top = workload("Deployment", "llama", labels={})
    under = pod("llama-0", owner=top)
    under["metadata"]["labels"] = {"team": "x"}

    assert found(Api(top, under), WorkloadSelection(selector=parse("team=x"))) == []
    assert found(Api(top, under), WorkloadSelection(kinds=frozenset({("", "Pod")}))) == []


def test_kinds_below_the_last_one_that_is_wanted_are_not_read() -> None:
    api = Api(workload("Deployment", "llama"), pod("bare"))

    assert found(api, WorkloadSelection(kinds=frozenset({("apps", "Deployment")}))) == ["Deployment chat/llama"]
    assert "/api/v1/pods" not in [path for path, _ in api.asked]


# ── Other objects ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_everything_of_the_namespace_is_at_hand_so_that_what_is_not_there_is_missing() -> None:
    top = workload("Deployment", "llama")
    budget = {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta("llama", "chat", None),
        "spec": {"selector": {"matchLabels": {"app": "llama"}}},
    }  # fmt: skip
    elsewhere = {**budget, "metadata": meta("llama", "other", None)}

    def budgets(*objects: JSONDict, **options: Any) -> list[str]:
        rows = scanned(Api(top, *objects, **options)).rows
        return [one.certainty for row in rows for one in row.findings if one.rule == "disruption-budget-missing"]

    assert budgets(elsewhere) == ["certain"]
    assert budgets(budget) == []
    assert budgets(refuse=["services"]) == []  # an object that could not be listed may matter


def test_nodes_and_config_maps_are_read_as_check_has_them() -> None:
    top = workload("Deployment", "llama")
    container = top["spec"]["template"]["spec"]["containers"][0]
    container["args"] = ["--model", "unsloth/Llama-3.1-8B-Instruct", "$(MORE)"]
    container["env"] = [{"name": "MORE", "valueFrom": {"configMapKeyRef": {"name": "flags", "key": "more"}}}]
    flags = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": meta("flags", "chat", None),
        "data": {"more": "--nope"},
    }

    [row] = scanned(Api(top, flags)).rows
    [refused] = scanned(Api(top, flags, refuse=["configmaps"])).rows

    assert "unknown-flag" in {one.rule for one in row.findings}
    assert "unknown-flag" not in {one.rule for one in refused.findings}


# ── What can't be read ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_kind_that_may_not_be_read_is_told_and_the_others_go_on() -> None:
    top = workload("Deployment", "llama")
    result = scanned(Api(top, pod("llama-0", owner=top), pod("bare"), refuse=["nodes", "statefulsets"]))

    assert [str(row.object) for row in result.rows] == ["Deployment chat/llama", "Pod chat/bare"]
    assert set(result.not_read) == {"nodes", "statefulsets.apps"}
    assert not result.errors


def test_a_list_that_ends_early_is_an_error_and_the_others_go_on() -> None:
    api = Api(workload("Deployment", "llama"), pod("bare"))

    def fault(path: str, _: Mapping[str, str]) -> None:
        if path.endswith("/deployments"):
            raise StatusError(400, "odd")

    api.fault = fault
    result = scanned(api)

    assert [str(row.object) for row in result.rows] == ["Pod chat/bare"]
    assert result.errors == ["deployments.apps: the list ended early: 400: odd"]


@pytest.mark.parametrize("broken", ["deployments", "nodes", "services"])
def test_a_list_that_breaks_is_an_error_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    monkeypatch.setattr(listing, "LONGEST_PAUSE", 0.0)
    api = Api(workload("Deployment", "llama"), pod("bare"))

    def fault(path: str, _: Mapping[str, str]) -> None:
        if path.endswith(f"/{broken}"):
            raise UnreachableError("https://api: the connection ended before the whole answer")

    api.fault = fault
    result = scanned(api)

    left = ["Pod chat/bare"] if broken == "deployments" else ["Deployment chat/llama", "Pod chat/bare"]
    assert [str(row.object) for row in result.rows] == left
    (error,) = result.errors
    assert error.startswith(broken)
    assert error.endswith(": the list ended early: https://api: the connection ended before the whole answer")
    assert result.cut_short


def test_a_server_that_is_gone_in_the_middle_ends_the_scan_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each further list would wait for it, too."""
    monkeypatch.setattr(listing, "LONGEST_PAUSE", 0.0)
    gone: list[str] = []

    class Going(Api):
        def get_unreduced(self, path: str, query: Mapping[str, str] | None = None) -> JSONDict:
            if gone:
                raise UnreachableError("https://api: connection refused")
            return super().get_unreduced(path, query)

    def fault(path: str, _: Mapping[str, str]) -> None:
        if gone or path.endswith("/services"):
            gone.append(path)
            raise UnreachableError("https://api: connection refused")

    api = Going(workload("Deployment", "llama"))
    api.fault = fault
    with pytest.raises(UnreachableError, match="connection refused"):
        scanned(api)

    assert len(gone) == listing.MAX_TRIES


def test_a_group_that_does_not_say_what_it_has_is_an_error_and_its_kinds_are_missed() -> None:
    api = Api(workload("Deployment", "llama"), kinds={"keda.sh/v1alpha1": ("ScaledObject",), "ray.io/v1": ("RayJob",)})

    def fault(path: str, _: Mapping[str, str]) -> None:
        if path in ("/apis/ray.io/v1", "/apis/keda.sh/v1alpha1"):
            raise StatusError(503, "down")

    api.fault = fault
    result = scanned(api)

    assert {key for key in result.kinds_missed if key[0] != "ray.io"} == set()
    assert ("ray.io", "RayJob") in result.kinds_missed
    assert result.cut_short
    assert result.errors == [
        "keda.sh/v1alpha1: does not say what kinds it has: 503: down",
        "ray.io/v1: does not say what kinds it has: 503: down",
    ]


@pytest.mark.parametrize(("failures", "errors"), [(1, 0), (99, 1)])
def test_a_config_map_is_asked_for_again(monkeypatch: pytest.MonkeyPatch, failures: int, errors: int) -> None:
    monkeypatch.setattr(listing, "LONGEST_PAUSE", 0.0)
    taken = workload("Deployment", "llama")
    taken["spec"]["template"]["spec"]["containers"][0]["envFrom"] = [{"configMapRef": {"name": "settings"}}]
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta("settings", "chat", None), "data": {}}
    api, asked = Api(taken, settings), []

    def fault(path: str, _: Mapping[str, str]) -> None:
        if path.endswith("/configmaps/settings"):
            asked.append(path)
            if len(asked) <= failures:
                raise StatusError(503, "busy")

    api.fault = fault
    result = scanned(api)

    assert len(result.errors) == errors
    assert all(one == "configmaps: chat/settings: could not be read: 503: busy" for one in result.errors)
    assert len(asked) == (listing.MAX_TRIES if errors else 2)
    assert len(result.rows) == 1


# ── What if ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_if_tells_what_another_policy_would_refuse_and_this_one_does_not() -> None:
    bare = workload("Deployment", "no-probe")
    del bare["spec"]["template"]["spec"]["containers"][0]["startupProbe"]
    doomed = workload("Deployment", "doomed", args=DOOMED)
    text = (
        "apiVersion: podfit.dev/v1alpha1\nkind: Policy\nmetadata: {name: a}\n"
        "spec: {rules: {startup-probe-missing: {mode: deny}}}\n"
    )
    stricter = load([("p.yaml", text)]).at(edge.now())

    result = scanned(Api(bare, doomed, workload("Deployment", "well")), WorkloadSelection(what_if=lambda _: stricter))

    assert [(str(one.object), one.rule) for one in result.what_if or ()] == [
        ("Deployment chat/no-probe", "startup-probe-missing")
    ]


# ── Before enforcing ─────────────────────────────────────────────────────────────────────────────────────────────────

OBSERVED = "apiVersion: podfit.dev/v1alpha1\nkind: Policy\nmetadata: {name: observe}\nspec: {enforce: {mode: %s}}\n"


def observed(mode: str = "audit") -> Policy:
    """A policy that limits every decision to this mode."""
    return load([("observe.yaml", OBSERVED % mode)])


@pytest.mark.parametrize(("mode", "state"), [("deny", "denied"), ("warn", "would_deny"), ("audit", "would_deny")])
def test_what_enforcing_would_deny_is_found_under_every_limit(mode: str, state: str) -> None:
    result = scanned(Api(workload("Deployment", "llama", args=DOOMED), workload("Deployment", "well")), None,
                     observed(mode))  # fmt: skip

    assert {str(ref): state for ref, state in result.states.items()} == {
        "Deployment chat/llama": state, "Deployment chat/well": "warned",
    }  # fmt: skip
    assert [(one.mode, one.would) for _, one in result.findings if one.rule == "unknown-flag"] == [(mode, "deny")]


def test_a_limit_changes_what_follows_from_a_finding_and_not_which_are_found() -> None:
    api = Api(workload("Deployment", "llama", args=DOOMED), workload("Deployment", "well"), pod("bare"))

    free, limited = scanned(api), scanned(api, policy=observed())

    assert [(row.object, one.rule, one.would) for row, one in free.findings] == [
        (row.object, one.rule, one.would) for row, one in limited.findings
    ]
    assert {one.mode for _, one in limited.findings} == {"audit"}


def test_objects_that_a_policy_ignores_stay_ignored() -> None:
    result = scanned(Api(workload("Deployment", "llama", args=DOOMED)), None, observed("ignore"))

    assert [row.state for row in result.rows] == ["clean"]


def test_before_enforcing_the_text_says_what_is_denied_and_what_would_be() -> None:
    """And the running workloads that enforcing would deny on their next change."""
    doomed = workload("Deployment", "llama", args=DOOMED)
    runs = pod("llama-0", owner=doomed)
    runs["spec"]["containers"] = doomed["spec"]["template"]["spec"]["containers"]
    runs["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    result = scanned(Api(doomed, workload("Deployment", "well", "other"), runs), None, observed())

    lines = shown.text(result).splitlines()

    assert lines[0].endswith(": 0 denied today, 1 would be if enforced, 1 with warnings, 0 clean")
    assert lines[1] == "1 workload running and ready, of which 1 would be denied if enforced: Deployment chat/llama"
    assert lines[3:6] == [
        "namespace  workloads  denied  if enforced  warned   clean",
        "chat               1       0            1       0       0",
        "other              1       0            0       1       0",
    ]
    assert "denied if enforced  unknown-flag  [configuration]" in lines
    assert "denied" not in {line.split("  ")[0] for line in lines}


@pytest.mark.parametrize(
    ("words", "code"), [("", 0), ("--fail-on likely", 1)], ids=["nothing is denied", "and it would not start"]
)
def test_exit_codes_before_enforcing(command: Run, tmp_path: Path, words: str, code: int) -> None:
    (tmp_path / "observe.yaml").write_text(OBSERVED % "audit")

    assert command(Api(*CLUSTER), "--policy", str(tmp_path / "observe.yaml"), *words.split())[0] == code


@pytest.mark.parametrize(
    ("change", "would"),
    [
        ("unpinned-image=deny", {"llama"}),
        ("unknown-flag=warn", set()),
        ("strict", {"llama"}),
        ("observe", set()),
    ],
)
def test_what_if_asks_what_enforcing_would_deny_and_applies_last(
    command: Run, tmp_path: Path, change: str, would: set[str]
) -> None:
    """Whatever the order of the policies in force."""
    late = OBSERVED % "audit" + "---\n" + OBSERVED.replace("observe", "late") % "audit"
    (tmp_path / "p.yaml").write_text(late.replace("spec: {", "spec: {order: 1000, "))
    _, out, _ = command(Api(*CLUSTER), "--policy", str(tmp_path / "p.yaml"), "--what-if", change, "--format", "json")

    assert {one["object"]["name"] for one in json.loads(out)["what_if"]} == would


# ── What is printed ──────────────────────────────────────────────────────────────────────────────────────────────────

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(name="command")
def _command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    def command(api: Api, *words: str) -> tuple[int, str, str]:
        @contextmanager
        def client(_: argparse.Namespace, **options: object) -> Iterator[Api]:
            yield api

        monkeypatch.setattr(user_cluster, "client", client)
        code = main(["scan", *words])
        out, err = capsys.readouterr()
        return code, out, err

    return command


CLUSTER = (
    workload("Deployment", "llama", args=DOOMED), workload("Deployment", "well", "other"), pod("bare"),
)  # fmt: skip


def test_text_begins_with_the_summary(command: Run) -> None:
    code, out, err = command(Api(*CLUSTER, refuse=["nodes"]))

    lines = out.splitlines()
    assert code == 1
    assert lines[0].startswith("3 vLLM workloads in 2 namespaces (3 objects looked at): 1 denied, ")
    assert "denied  unknown-flag" in out
    assert 'Deployment chat/llama, container "vllm": ' in out
    assert err.splitlines() == [
        "note: configmaps (podfit's policy): not read: podfit is not installed: no ConfigMap has the label "
        "podfit.dev/policy; the decisions are those of podfit's default policy",
        'note: nodes: not read: 403: nodes is forbidden: User "u" cannot list resource "nodes"',
    ]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("", 1),
        ("--fail-on never", 0),
        ("-n other", 0),
        ("-n other --fail-on likely", 0),
        ("-n other --fail-on advice", 1),
        ("-n other --fail-on warn", 1),
        ("--kinds pod", 0),
    ],
)
def test_exit_codes(command: Run, words: str, code: int) -> None:
    assert command(Api(*CLUSTER), *words.split())[0] == code


def test_nothing_readable_is_exit_3_with_what_to_type_next(command: Run) -> None:
    code, out, err = command(Api(refuse=["pods", "deployments", "statefulsets", "daemonsets", "replicasets", "jobs",
                                         "cronjobs", "replicationcontrollers"]))  # fmt: skip

    assert (code, out) == (3, "")
    assert err.startswith("error: nothing could be read: 403: pods is forbidden")
    assert "podfit scan -n NAMESPACE" in err


def test_a_namespace_that_does_not_exist_is_exit_3(command: Run) -> None:
    empty = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "empty"}}

    assert command(Api(*CLUSTER, empty), "-n", "nosuch") == (
        3, "", "error: namespace 'nosuch' does not exist in this cluster\n",
    )  # fmt: skip
    assert command(Api(*CLUSTER, empty), "-n", "empty")[0] == 0
    assert command(Api(*CLUSTER, refuse=["namespaces"]), "-n", "nosuch")[0] == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--what-if", "no-such=deny"), "neither RULE=MODE"),
        (("--what-if", "unpinned-image=refuse"), "'refuse' is not a valid mode: deny, warn, audit, ignore"),
        (("--format", "json", "--format", "text"), "only one can go to standard output"),
    ],
)
def test_usage_is_exit_2(command: Run, words: tuple[str, ...], says: str) -> None:
    code, _, err = command(Api(*CLUSTER), *words)

    assert code == 2
    assert says in err


def test_what_if_of_a_rule_that_never_refuses_says_so(command: Run) -> None:
    _, out, err = command(Api(workload("Deployment", "a")), "--what-if", "disruption-budget-missing=deny")

    assert "disruption-budget-missing runs only in check and scan" in err
    assert "what if: no more workloads would be denied than today" in out


@pytest.mark.parametrize("words", [("--kinds", "Sandwich"), ("-l", "a=b=c"), ("--limit", "few"), ("--format", "pdf")])
def test_a_word_that_means_nothing_is_refused_before_the_cluster_is_asked(command: Run, words: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit):
        command(Api(), *words)


def test_json_is_as_its_schema_says(command: Run) -> None:
    _, out, _ = command(Api(*CLUSTER, refuse=["nodes"]), "--format", "json", "--what-if", "startup-probe-missing=deny")

    told = json.loads(out)
    jsonschema.validate(told, SCHEMA)
    assert told["summary"]["denied"] == 1
    assert {one["object"]["name"]: one["state"] for one in told["results"]}["llama"] == "denied"
    assert told["results"][0]["planned"]["gpu"]["weights"]["likely"] > 10 << 30


def test_a_page_holds_every_workload_and_no_markup_of_theirs(command: Run, tmp_path: Path) -> None:
    evil = workload("Deployment", "evil")
    evil["spec"]["template"]["spec"]["containers"][0]["name"] = "<script>alert(1)</script>"
    page = tmp_path / "scan.html"
    command(Api(*CLUSTER, evil), "--format", f"html={page}", "--format", "text")

    text = page.read_text()
    assert text.count("<script") == 1
    assert "&lt;script&gt;alert(1)" in text
    assert all(f"</span> {name}</td>" in text for name in ("llama", "well", "bare", "evil"))
    assert "http://" not in text.replace("http-equiv", "")
    assert "https://" not in text


def test_a_long_list_is_cut_and_says_so() -> None:
    many = [workload("Deployment", f"llama-{number}", args=DOOMED) for number in range(7)]
    result = scanned(Api(*many, size=3))

    assert "  … and 2 more (--limit 0 shows all)" in shown.text(result, 5)
    assert "more (--limit" not in shown.text(result, 0)
    assert result.namespaces()[0][1]["denied"] == 7


def test_a_ref_reads_as_people_write_it() -> None:
    assert str(Ref.of({"kind": "ClusterServingRuntime", "metadata": {"name": "x"}})) == "ClusterServingRuntime x"


# ── What works ───────────────────────────────────────────────────────────────────────────────────────────────────────


def ready(name: str, owner: JSONDict | None = None, *, image: str | None = None, state: str = "True") -> JSONDict:
    """A running Pod."""
    made = pod(name, owner=owner)
    made["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": state}]}
    if image:
        made["spec"]["containers"][0]["image"] = image
    return made


@pytest.mark.parametrize(
    ("made", "counted"),
    [
        ({}, 1),
        ({"state": "False"}, 0),
        ({"image": "vllm/vllm-openai:v0.9.0"}, 0),  # of a revision before
    ],
)
def test_a_workload_that_runs_and_would_be_denied_is_counted(made: dict[str, str], counted: int) -> None:
    top = workload("Deployment", "llama", args=DOOMED)
    middle = workload("ReplicaSet", "llama-1", owner=top, args=DOOMED)
    running = ready("llama-1-0", middle, **made)
    running["spec"]["containers"][0]["args"] = DOOMED
    result = scanned(Api(top, middle, running))

    assert len(result.ready) == counted
    assert [str(one) for one in result.ready_and_denied or ()] == ["Deployment chat/llama"] * counted
    line = "1 workload running and ready, of which 1 would be denied: Deployment chat/llama\n"
    assert (line in shown.text(result)) is bool(counted)


def test_a_workload_that_runs_and_is_allowed_is_no_false_denial() -> None:
    result = scanned(Api(ready("bare")))

    assert len(result.ready) == 1
    assert result.ready_and_denied == []


def test_without_the_pods_nothing_is_said_of_what_runs() -> None:
    api = Api(workload("Deployment", "llama"), ready("bare"))
    result = scanned(api, WorkloadSelection(kinds=frozenset({("apps", "Deployment")})))

    assert result.ready_and_denied is None
    assert "running and ready" not in shown.text(result)


PREDICTOR: JSONDict = {
    "apiVersion": "serving.kserve.io/v1beta1",
    "kind": "InferenceService",
    "metadata": {"name": "llama", "namespace": "chat", "uid": "isvc"},
    "spec": {
        "predictor": {
            "nodeSelector": {"nvidia.com/gpu.product": "Tesla-T4"},
            "model": {
                "modelFormat": {"name": "vLLM"},
                "storageUri": "hf://Qwen/Qwen3-8B",
                "args": ["--max-model-len=8192"],
                "resources": {"limits": {"nvidia.com/gpu": "1"}},
            },
        }
    },
}


@pytest.mark.parametrize(
    ("args", "uri", "runs"),
    [
        (["--port=8080", "--max-model-len=8192"], "hf://Qwen/Qwen3-8B", True),
        (["--port=8080", "--max-model-len=4096"], "hf://Qwen/Qwen3-8B", False),
        (["--port=8080", "--max-model-len=8192"], "hf://Qwen/Qwen3-4B", False),
    ],
)
def test_a_pod_of_a_predictor_has_what_its_controller_adds(args: list[str], uri: str, runs: bool) -> None:
    running = ready("llama-predictor-0", PREDICTOR)
    running["spec"]["containers"][0] |= {"name": "kserve-container", "args": args}
    running["spec"]["initContainers"] = [{"name": "storage-initializer", "args": [uri, "/mnt/models"]}]

    assert runs_predictor(PREDICTOR["spec"]["predictor"]["model"], running) is runs


def test_a_predictor_that_runs_and_is_ready_is_counted() -> None:
    middle = workload("Deployment", "llama-predictor", owner=PREDICTOR, args=DOOMED)
    running = ready("llama-predictor-0", middle)
    running["spec"]["containers"][0] |= {"name": "kserve-container", "args": ["--port=8080", "--max-model-len=8192"]}

    assert scanned(Api(PREDICTOR, middle, running)).ready == {"isvc"}
