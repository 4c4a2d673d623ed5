"""Live nodes: which of them a Pod may run on, what GPUs these have, and what may follow from it."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.evaluation.lint import Report, lint
from podfit.evaluation.policy import builtin, load
from podfit.kube import workload
from podfit.kube.snapshot import WATCHED_KINDS, Snapshot, key
from podfit.vllm import gpu
from podfit.vllm.facts import Assumed, Facts
from tests.vllm.gpu.pods import ONE, demand, find, place, pod, required

JSONDict = dict[str, Any]
PRODUCT = "nvidia.com/gpu.product"
KEEP = next(kind.keep for kind in WATCHED_KINDS if kind.name == "nodes")


def node(
    name: str, product: str = "NVIDIA-L4", count: int = 4, taints: Any = None, labels: JSONDict | None = None
) -> JSONDict:
    """A node as the API server has it."""
    own = {PRODUCT: product, "kubernetes.io/hostname": name} if product else {}
    return {
        "metadata": {"name": name, "labels": {**own, **(labels or {})}},
        "spec": {"taints": taints or []},
        "status": {"allocatable": {"cpu": "32", **({"nvidia.com/gpu": str(count)} if count else {})}},
    }


def snapshot(*nodes: JSONDict, stale: bool = False) -> Snapshot:
    return Snapshot({"nodes": {key(one): KEEP(one) for one in nodes}}, frozenset(["nodes"] if stale else []))


T4, L4 = node("t4", "Tesla-T4"), node("l4", "NVIDIA-L4")


def kinds(obj: JSONDict, *nodes: JSONDict) -> dict[str, int]:
    """The kinds of GPU that the Pod may get → on how many nodes."""
    return {kind.name: kind.nodes for kind in place(obj, snapshot(*nodes)).kinds}


def test_a_pod_that_names_nothing_may_run_wherever_the_resource_is() -> None:
    plain = node("cpu", "", 0)

    assert kinds(pod(ONE), T4, L4, node("l4-b"), plain) == {"NVIDIA L4": 2, "Tesla T4": 1}
    assert place(pod(ONE), snapshot(T4, plain)).candidates == 1


def test_enough_of_the_resource_must_be_allotted() -> None:
    assert kinds(pod({"nvidia.com/gpu": "8"}), L4, node("big", "NVIDIA-H100-80GB-HBM3", 8)) == {
        "NVIDIA H100 80GB SXM5": 1
    }


@pytest.mark.parametrize(
    ("spec", "names"),
    [
        ({"nodeSelector": {PRODUCT: "Tesla-T4"}}, {"Tesla T4"}),
        ({"nodeSelector": {"pool": "a"}}, set()),
        ({"nodeName": "l4"}, {"NVIDIA L4"}),
        ({"affinity": required([demand(PRODUCT, "NotIn", "Tesla-T4")])}, {"NVIDIA L4"}),
        ({"affinity": required([demand(PRODUCT, "In", "Tesla-T4")], [demand("pool", "Exists")])}, {"Tesla T4"}),
        ({"affinity": required([demand("pool", "DoesNotExist")])}, {"NVIDIA L4", "Tesla T4"}),
        ({"affinity": required([])}, {"NVIDIA L4", "Tesla T4"}),
    ],
)
def test_selector_affinity_and_name_choose_as_the_scheduler_does(spec: JSONDict, names: set[str]) -> None:
    assert set(kinds(pod(ONE, **spec), T4, L4)) == names


@pytest.mark.parametrize(("operator", "left"), [("In", {"NVIDIA L4"}), ("NotIn", {"Tesla T4"})])
def test_match_fields_name_a_node_or_all_others(operator: str, left: set[str]) -> None:
    term = {"matchFields": [demand("metadata.name", operator, "l4")]}
    selector = {"nodeSelectorTerms": [term]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}

    assert set(kinds(pod(ONE, affinity=affinity), T4, L4)) == left


TEAM = {"key": "team", "value": "a", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("taint", "tolerations", "may"),
    [
        (TEAM, [], False),
        (TEAM, [{"key": "team", "value": "a", "effect": "NoSchedule"}], True),
        (TEAM, [{"key": "team", "operator": "Exists"}], True),
        (TEAM, [{"operator": "Exists"}], True),
        (TEAM, [{"key": "team", "value": "b"}], False),
        (TEAM, [{"key": "team", "value": "a", "effect": "NoExecute"}], False),
        ({**TEAM, "effect": "PreferNoSchedule"}, [], True),
        ({"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}, [], True),
        ({"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}, [], True),
        ({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}, [], True),
    ],
)
def test_a_taint_keeps_off_who_does_not_tolerate_it(taint: JSONDict, tolerations: list[JSONDict], may: bool) -> None:
    tainted = node("l4", taints=[taint])

    assert bool(place(pod(ONE, tolerations=tolerations), snapshot(tainted)).candidates) is may


@pytest.mark.parametrize("limits", [{"nvidia.com/gpumem": "10000"}, None])
def test_a_part_of_a_card_needs_a_node_with_a_card(limits: JSONDict | None) -> None:
    obj = pod(limits, annotations={} if limits else {"gpu-fraction": "0.5"})

    assert place(obj, snapshot(L4, node("cpu", "", 0))).candidates == 1


def test_a_node_whose_plugin_is_not_up_yet_may_still_get_it() -> None:
    assert kinds(pod(ONE), node("new", count=0)) == {"NVIDIA L4": 1}


def test_slices_and_replicas_are_what_the_node_makes_of_its_cards() -> None:
    mixed = node("mig", "NVIDIA-A100-SXM4-80GB", 0)
    mixed["status"]["allocatable"]["nvidia.com/mig-3g.40gb"] = "2"
    shared = node("ts", "NVIDIA-L4-SHARED", labels={"nvidia.com/gpu.sharing-strategy": "time-slicing"})
    mps = node(
        "mps", "NVIDIA-A100-SXM4-80GB-SHARED",
        labels={"nvidia.com/gpu.sharing-strategy": "mps", "nvidia.com/gpu.replicas": "4"},
    )  # fmt: skip

    assert kinds(pod({"nvidia.com/mig-3g.40gb": "1"}), mixed, L4) == {"NVIDIA A100 80GB SXM4 MIG 3g.40gb": 1}
    (kind,) = place(pod(ONE), snapshot(shared)).kinds
    assert kind.shared
    assert kind.gpus[0].memory > 21 << 30, "a time slice sees the whole card"
    (kind,) = place(pod(ONE), snapshot(mps)).kinds
    assert kind.gpus[0].memory == (81920 << 20) // 4, "what MPS lets one of four clients allocate"
    assert kind.gpus[0].memory_high > 79 << 30, "the limit is no proof"


# ------------------------------------------------------------------------------------------------- what follows

WORDS: tuple[Literal["open", "closed"], ...] = ("open", "closed")


def test_nodes_say_the_product_where_the_pod_does_not_but_deny_nothing() -> None:
    open_, closed = (Facts(cluster=snapshot(L4), assume=Assumed(nodes=word)) for word in WORDS)
    found, certain = find(pod(ONE), open_), find(pod(ONE), closed)

    assert found is not None
    assert certain is not None
    assert (found.value.name, found.may_deny, certain.may_deny) == ("NVIDIA L4", False, True)
    assert "1 node" in found.source


def test_stale_nodes_deny_nothing_either() -> None:
    found = find(pod(ONE), Facts(cluster=snapshot(L4, stale=True), assume=Assumed(nodes="closed")))

    assert found is not None
    assert not found.may_deny


def test_one_node_that_does_not_say_leaves_the_product_open() -> None:
    assert find(pod(ONE), Facts(cluster=snapshot(L4, node("?", "", 4)))) is None


def test_what_the_pod_names_is_narrowed_only_in_a_closed_cluster() -> None:
    obj = pod(ONE, nodeSelector={PRODUCT: "Tesla-V100"})
    there = snapshot(node("v", "Tesla-V100", labels={"nvidia.com/gpu.memory": "16384"}))
    open_, closed = find(obj, Facts(cluster=there)), find(obj, Facts(cluster=there, assume=Assumed(nodes="closed")))

    assert open_ is not None
    assert closed is not None
    assert len(open_.value.gpus) == 2
    assert closed.value.name == "Tesla V100 16GB"


def test_the_command_line_and_the_policy_come_last() -> None:
    l40s, t4 = gpu.parse("l40s:2"), "t4"
    by_nodes = find(pod(ONE), Facts(gpu=l40s, cluster=snapshot(L4)))
    given_ = find(pod(ONE), Facts(gpu=l40s, assume=Assumed(gpu=t4)))
    assumed = find(pod(ONE), Facts(assume=Assumed(gpu=t4)))

    assert [one.value.name for one in (by_nodes, given_, assumed) if one] == ["NVIDIA L4", "NVIDIA L40S", "Tesla T4"]
    assert [one.may_deny for one in (given_, assumed) if one] == [True, False]


def serving(**spec: Any) -> JSONDict:
    """An 8B model in 16 bits: 15 GiB of weights."""
    obj = pod({"nvidia.com/gpu": "1", "memory": "48Gi"}, **spec)
    obj["spec"]["containers"][0]["args"] = ["unsloth/Llama-3.1-8B-Instruct", "--max-model-len", "8192"]
    return obj


def found(report: Report, rule: str) -> list[str]:
    return [one.mode for one in report.findings if one.rule == rule]


def test_an_8b_model_on_a_cluster_of_t4_alone_is_a_warning_and_in_a_closed_one_a_refusal() -> None:
    facts = Facts(cluster=snapshot(T4))
    closed = load([("p.yaml", POLICY.format("nodes: closed"))])

    assert found(lint(serving(), builtin(), facts), "gpu-memory-exceeded") == ["warn"]
    assert found(lint(serving(), closed, facts), "gpu-memory-exceeded") == ["deny"]


POLICY = """
apiVersion: podfit.dev/v1alpha1
kind: Policy
metadata: {{name: cluster}}
spec:
  assume: {{{}}}
"""


def test_mixed_nodes_are_a_warning_that_names_both() -> None:
    report = lint(serving(), builtin(), Facts(cluster=snapshot(T4, L4)))
    (one,) = [one.finding for one in report.findings if one.rule == "mixed-gpu-nodes"]

    assert "does not fit Tesla T4 (1 node such as t4)" in one.message
    assert "fits NVIDIA L4" in one.message
    assert not found(lint(serving(), builtin(), Facts(cluster=snapshot(L4))), "mixed-gpu-nodes")


DENY_MIXED = """
apiVersion: podfit.dev/v1alpha1
kind: Policy
metadata: {name: cluster}
spec:
  rules: {mixed-gpu-nodes: {mode: deny}}
"""


@pytest.mark.parametrize(
    ("nodes", "more", "mode"),
    [
        ((T4, L4), {}, "deny"),
        ((T4, L4, node("unnamed", "")), {}, "deny"),
        ((node("shared", "Tesla-T4-SHARED"), L4), {}, "warn"),
        ((T4, L4), {"schedulingGates": [{"name": "later"}]}, "warn"),
    ],
    ids=["certain", "a further node without a name", "only a shared GPU is too small", "held"],
)
def test_a_policy_may_deny_a_pod_that_certainly_fails_on_a_node_that_is_there(
    nodes: tuple[JSONDict, ...], more: JSONDict, mode: str
) -> None:
    policy = load([("p.yaml", DENY_MIXED)])

    assert found(lint(serving(**more), policy, Facts(cluster=snapshot(*nodes))), "mixed-gpu-nodes") == [mode]


def test_stale_nodes_deny_no_mixture() -> None:
    policy = load([("p.yaml", DENY_MIXED)])

    assert found(lint(serving(), policy, Facts(cluster=snapshot(T4, L4, stale=True))), "mixed-gpu-nodes") == ["warn"]


def test_a_selector_is_only_proposed_where_every_container_of_the_pod_fits() -> None:
    alone, both = serving(), serving()
    other = {**alone["spec"]["containers"][0], "name": "other", "args": ["Qwen/Qwen3-32B", "--max-model-len", "8192"]}
    both["spec"]["containers"].append(other)
    nodes = (node("t4", "Tesla-T4", 8), node("l4", "NVIDIA-L4", 8))

    def selectors(obj: JSONDict) -> list[str]:
        report = lint(obj, builtin(), Facts(cluster=snapshot(*nodes)))
        return [text for one in report.findings if one.rule == "mixed-gpu-nodes" for text in one.suggestions]

    assert selectors(alone) == ["nodeSelector nvidia.com/gpu.product: NVIDIA-L4"]
    assert selectors(both) == []


@pytest.mark.parametrize(
    ("containers", "init", "nodes"),
    [
        ([1, 1], [], ["two", "four"]),
        ([1], [4], ["four"]),
        ([1, 1, 1], [2], ["four"]),
        ([1], [], ["one", "two", "four"]),
    ],
)
def test_a_node_has_enough_devices_for_the_whole_pod(containers: list[int], init: list[int], nodes: list[str]) -> None:
    obj = serving()
    (vllm,) = obj["spec"]["containers"]
    asks = [
        {"name": f"c{at}", "resources": {"limits": {"nvidia.com/gpu": str(of)}}} for at, of in enumerate(containers)
    ]
    obj["spec"]["containers"] = [{**vllm, **asks[0]}, *asks[1:]]
    obj["spec"]["initContainers"] = [{"name": "i", "resources": {"limits": {"nvidia.com/gpu": str(of)}}} for of in init]
    there = snapshot(*(node(name, "NVIDIA-L4", count) for name, count in (("one", 1), ("two", 2), ("four", 4))))

    placement = place(obj, there)

    assert placement.candidates == len(nodes)


@pytest.mark.parametrize("product", ["NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "Tesla-T4-SHARED"])
def test_slices_and_shared_gpus_deny_nothing_even_in_a_closed_cluster(product: str) -> None:
    closed = load([("p.yaml", POLICY.format("nodes: closed"))])
    report = lint(serving(), closed, Facts(cluster=snapshot(node("a", product))))

    assert found(report, "gpu-memory-exceeded") == ["warn"]


def test_at_most_16_kinds_are_planned_and_the_set_is_open_then() -> None:
    products = [one.labels[0] for one in gpu.all_products() if one.vendor == "nvidia" and one.labels][:20]
    placement = place(pod(ONE), snapshot(*(node(f"n{at}", product) for at, product in enumerate(products))))

    assert len(placement.kinds) == 16
    assert placement.more_kinds == len({gpu.by_name(one) for one in products}) - 16
    assert placement.open
    assert not placement.unnamed


@pytest.mark.parametrize(
    ("more", "stale", "modes"),
    [
        ({}, False, ["audit"]),
        ({"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}, False, []),
        ({}, True, []),
    ],
)
def test_no_node_that_matches_is_audited_where_it_is_sure(more: JSONDict, stale: bool, modes: list[str]) -> None:
    obj = serving(nodeSelector={PRODUCT: "NVIDIA-H100-80GB-HBM3"}, **more)
    report = lint(obj, builtin(), Facts(cluster=snapshot(L4, T4, stale=stale)))

    assert found(report, "no-node-matches") == modes


def test_a_queue_of_kueue_silences_no_node_matches() -> None:
    obj = serving(nodeSelector={PRODUCT: "NVIDIA-H100-80GB-HBM3"})
    obj["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "gpus"}

    assert not found(lint(obj, builtin(), Facts(cluster=snapshot(L4))), "no-node-matches")


def test_a_policys_gpu_must_be_known() -> None:
    policy = load([("p.yaml", POLICY.format("gpu: l40s"))])
    (result,) = lint(serving(), policy, Facts()).results

    assert result.engine.gpu is not None
    assert (result.engine.gpu.value.name, result.engine.gpu.may_deny) == ("NVIDIA L40S", False)
    with pytest.raises(ValueError, match=r"spec\.assume\.gpu.*no GPU is known by the name 'l5'"):
        load([("p.yaml", POLICY.format("gpu: l5"))])


NODES = st.builds(
    lambda product, count, taints, pool: (product, count, taints, {"pool": pool} if pool else {}),
    st.sampled_from(("NVIDIA-L4", "Tesla-T4", "")), st.sampled_from((0, 4)), st.sampled_from(([], [TEAM])),
    st.sampled_from(("", "a", "b")),
)  # fmt: skip
SPECS: tuple[JSONDict, ...] = (
    {}, {"nodeSelector": {"pool": "a"}}, {"nodeSelector": {"nobody/has": "it"}}, {"nodeName": "n1"},
    {"nodeSelector": {"kubernetes.io/hostname": "n0"}},
    {"affinity": required([demand("pool", "NotIn", "b")], [demand(PRODUCT, "Exists")])},
)  # fmt: skip


@given(made=st.lists(NODES, max_size=6), spec=st.sampled_from(SPECS))
def test_nodes_that_are_alike_are_looked_at_as_one_with_the_same_result(made: list[Any], spec: JSONDict) -> None:
    obj = pod(ONE, **spec)
    nodes = [node(f"n{number}", *one) for number, one in enumerate(made)]
    whole, each = place(obj, snapshot(*nodes)), [place(obj, snapshot(one)) for one in nodes]

    assert (whole.node_count, whole.candidates) == (len(nodes), sum(one.candidates for one in each))
    assert sorted(map(repr, whole.repelled)) == sorted(repr(taints) for one in each for taints in one.repelled)
    assert {kind.name: (kind.nodes, kind.example) for kind in whole.kinds} == {
        name: (len(examples), examples[0])
        for name in {kind.name for one in each for kind in one.kinds}
        if (examples := [kind.example for one in each for kind in one.kinds if kind.name == name])
    }


def test_a_thousand_nodes_are_as_many_sorts_as_can_be_told_apart() -> None:
    many = snapshot(*(node(f"n{number}", ("NVIDIA-L4", "Tesla-T4")[number % 2]) for number in range(1000)))

    assert [one.many for one in many.alike(frozenset({PRODUCT, "nobody/has"}))] == [500, 500]
    assert len(many.alike(frozenset({"kubernetes.io/hostname"}))) == 1000
    assert Snapshot().alike(frozenset({PRODUCT})) == ()


def test_a_pod_that_asks_for_no_accelerator_is_placed_nowhere() -> None:
    (one,) = workload.find(pod({"memory": "4Gi"}))

    assert gpu.find_placement(one, one.containers[0], snapshot(L4)) is None


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@given(selector=ODD, term=ODD, tolerations=ODD, claims=ODD, limits=ODD)
def test_odd_pods_raise_nothing_in_a_cluster(
    selector: Any, term: Any, tolerations: Any, claims: Any, limits: Any
) -> None:
    tainted = node("tainted", taints=[TEAM])
    for hard in (term, required([term])):
        obj = pod(limits, nodeSelector=selector, affinity=hard, tolerations=tolerations, resourceClaims=claims)
        for resources in ({"limits": limits}, {"limits": ONE, "claims": claims}):
            obj["spec"]["containers"][0]["resources"] = resources
            find(obj, Facts(cluster=snapshot(L4, tainted)))


def test_a_label_value_that_no_node_has_is_named_with_those_that_there_are() -> None:
    nodes = [*(node(f"l4-{number}") for number in range(3)), T4, node("plain", "", 0)]
    asks = pod(ONE, nodeSelector={PRODUCT: "NVIDIA-B200"})

    assert place(asks, snapshot(*nodes)).why == (
        f"no node has {PRODUCT}=NVIDIA-B200; there are NVIDIA-L4 (3), Tesla-T4 (1)"
    )
    assert place(pod(ONE, nodeSelector={"team": "chat"}), snapshot(*nodes)).why == (
        "no node has team=chat; no node has this label"
    )


L4S, A100 = f"{PRODUCT}=NVIDIA-L4", "NVIDIA-A100-SXM4-80GB"
THERE = f"there are NVIDIA-L4 (1,200), {A100} (30)"
COUNTED = "of 1,230 nodes, 1,230 do not match nodeSelector and affinity"
UNMET = {
    "one of two values": ([[demand(PRODUCT, "In", "a", "b")]], f"no node has {PRODUCT}=a or b; {THERE}"),
    "one of two terms": (
        [[demand(PRODUCT, "In", "a")], [demand(PRODUCT, "In", "b")]],
        f"no node has {PRODUCT}=a or {PRODUCT}=b; {THERE}",
    ),
    "two labels": (
        [[demand(PRODUCT, "In", "NVIDIA-L4"), demand("zone", "In", "b")]],
        f"no node has both {L4S} (1,200) and zone=b (30)",
    ),
    "a label twice": (
        [[demand(PRODUCT, "In", "NVIDIA-L4"), demand(PRODUCT, "In", A100)]],
        f"no node has both {L4S} (1,200) and {PRODUCT}={A100} (30)",
    ),
    "all values": (
        [[demand("zone", "NotIn", "a", "b")]],
        "no node has zone other than a or b; there are a (1,200), b (30)",
    ),
    "a label": ([[demand("pool", "Exists")]], "no node has the label pool"),
    "no label": (
        [[demand("zone", "DoesNotExist")]],
        "no node has labels without zone; there are a (1,200), b (30)",
    ),
    "a number": ([[demand("size", "Gt", "9")]], "no node has size above 9; there are 8 (1,230)"),
    "a name": ([[demand("metadata.name", "In", "x")]], COUNTED),
    "many terms": ([[demand("zone", "In", str(number))] for number in range(9)], COUNTED),
}


@pytest.mark.parametrize(("terms", "why"), UNMET.values(), ids=UNMET)
def test_demands_that_no_node_meets_are_named(terms: list[list[dict[str, Any]]], why: str) -> None:
    nodes = [node(f"l4-{number}", labels={"zone": "a", "size": "8"}) for number in range(1200)]
    nodes += [node(f"a100-{number}", A100, labels={"zone": "b", "size": "8"}) for number in range(30)]
    asks = pod(ONE, affinity=required(*terms))

    assert place(asks, snapshot(*nodes)).why == why


def test_the_resources_own_taint_counts_if_no_admission_tolerates_it() -> None:
    tainted = node("a", taints=[{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}])
    obj = pod(ONE)
    one = workload.find(obj)[0]

    def candidates(adds: bool) -> int:
        found = gpu.find_placement(one, one.containers[0], snapshot(tainted), adds_tolerations=adds)
        assert found is not None
        return found.candidates

    assert (candidates(True), candidates(False)) == (1, 0)


@pytest.mark.parametrize(("said", "told"), [("", False), ("{extendedResourceToleration: false}", True)])
def test_a_policy_says_whether_the_admission_is_there(said: str, told: bool) -> None:
    head = "apiVersion: podfit.dev/v1alpha1\nkind: Policy\nmetadata: {name: a}\n"
    policy = load([("a.yaml", head + f"spec: {{assume: {said or '{}'}}}\n")])
    tainted = node("a", taints=[{"key": "nvidia.com/gpu", "effect": "NoSchedule"}])
    obj = pod(ONE)
    obj["spec"]["containers"][0] |= {"image": "vllm/vllm-openai:v0.27.1", "args": ["Qwen/Qwen3-8B"]}

    report = lint(obj, policy, Facts(cluster=snapshot(tainted)))

    assert ("no-gpu-toleration" in [judged.rule for judged in report.findings]) is told
