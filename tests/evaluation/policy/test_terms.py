"""Which of several policies apply to an object, with their exceptions and its author's annotations."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.evaluation import bounds
from podfit.evaluation.denial import warnings
from podfit.evaluation.lint import GradedFinding, Report, lint
from podfit.evaluation.policy import Layer, Match, Policy, Subject, builtin, load, of_layers
from podfit.evaluation.policy.layer import RuleSettings, softer_mode
from podfit.evaluation.policy.words import expiry_time
from podfit.kube.selector import Requirement, Selector
from podfit.kube.snapshot import Snapshot
from podfit.rules import all_rules
from podfit.rules.rule import FACTS, Mode, Place
from podfit.vllm.facts import Facts
from tests.reviews import deployment, doomed, without_shm

JSONDict = dict[str, Any]
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
PROD = Match(namespace_selector=Selector((Requirement("env", "In", ("prod",)),)))


def policy(spec: str, name: str = "mine", now: datetime | None = NOW) -> Policy:
    text = f"apiVersion: podfit.dev/v1alpha1\nkind: Policy\nmetadata: {{name: {name}}}\nspec:\n"
    lines = "".join(f"  {line}\n" for line in spec.strip().splitlines())
    loaded = load([("p.yaml", text + lines)])
    return loaded.at(now) if now else loaded


def labelled(labels: dict[str, str]) -> Facts:
    """What is known where the namespace `chat` has these labels."""
    return Facts(cluster=Snapshot({"namespaces": {("", "chat"): {"labels": labels}}}))


def of(report: Report, rule: str) -> GradedFinding:
    (found,) = [judged for judged in report.findings if judged.rule == rule]
    return found


EXCEPTION = """
exceptions:
- rules: [unknown-flag]
  match: {namespaces: [chat]}
  reason: our fork knows it
  owner: team-chat
  expires: 2026-11-21
"""


def test_an_exception_holds_through_its_last_day_for_its_objects_only(pod: JSONDict) -> None:
    bad = doomed(pod)

    excepted = lint(bad, policy(EXCEPTION), Facts())
    assert not excepted.denied
    assert of(excepted, "unknown-flag").mode == "audit"
    assert of(excepted, "unknown-flag").exempted == "exception"
    assert of(excepted, "unknown-flag").why_softened == (
        "excepted until 2026-11-21 by team-chat in policy mine: our fork knows it"
    )
    assert lint(bad, policy(EXCEPTION, now=NOW + timedelta(hours=11, minutes=59)), Facts()).denied is False
    bad["metadata"]["namespace"] = "search"
    assert lint(bad, policy(EXCEPTION), Facts()).denied


def test_an_expired_exception_no_longer_holds_and_the_finding_says_so(pod: JSONDict) -> None:
    expired = policy(EXCEPTION, now=NOW + timedelta(hours=12))

    report = lint(doomed(pod), expired, Facts())

    assert report.denied
    assert of(report, "unknown-flag").finding.details[-1] == (
        "the exception in policy mine (team-chat) ended: 2026-11-21"
    )
    assert [one.place for one in expired.expired] == ["p.yaml:10"]
    assert policy(EXCEPTION).expired == ()


def test_without_a_clock_no_exception_holds(pod: JSONDict) -> None:
    assert lint(doomed(pod), policy(EXCEPTION, now=None), Facts()).denied


def test_an_exception_of_a_rule_stops_its_patch(pod: JSONDict) -> None:
    bare = without_shm(pod)
    assert lint(bare, builtin(), Facts()).edits

    report = lint(bare, policy(EXCEPTION.replace("unknown-flag", '"*"')), Facts())

    assert not report.edits
    assert of(report, "shm-missing").exempted == "exception"


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("2026-12-31", datetime(2027, 1, 1, tzinfo=UTC)),
        ("2028-02-29", datetime(2028, 3, 1, tzinfo=UTC)),
        ("2026-12-31T18:00:00Z", datetime(2026, 12, 31, 18, tzinfo=UTC)),
        ("2026-12-31T18:00:00+02:00", datetime(2026, 12, 31, 16, tzinfo=UTC)),
        ("2027-02-29", None),
        ("9999-12-31", None),
        ("2026-12-31T18:00:00", None),
        ("31.12.2026", None),
        ("2026-1-1", None),
        ("never", None),
        ("", None),
    ],
)
def test_when_an_exception_ends(text: str, end: datetime | None) -> None:
    assert expiry_time(text) == end


def _ignoring(pod: JSONDict, why: str) -> JSONDict:
    bad = doomed(pod)
    bad["metadata"]["annotations"] = {"podfit.dev/ignore.unknown-flag": why}
    return bad


def test_an_author_may_ignore_a_rule_only_where_the_policy_allows_it(pod: JSONDict) -> None:
    bad = _ignoring(pod, "our fork knows it")

    for allowed in ("allowIgnore: [unknown-flag]", 'allowIgnore: ["*"]'):
        report = lint(bad, policy(allowed), Facts())
        assert not report.denied
        assert of(report, "unknown-flag").exempted == "annotation"
        assert of(report, "unknown-flag").why_softened == "ignored by its author: our fork knows it"
    for forbidden in (builtin(), policy("allowIgnore: [shm-missing]"), policy("allowIgnore: []")):
        report = lint(bad, forbidden, Facts())
        assert report.denied
        assert of(report, "unknown-flag").finding.details[-1] == (
            "annotation podfit.dev/ignore.unknown-flag does not count: the policy does not allow it"
        )


def test_an_author_says_why(pod: JSONDict) -> None:
    report = lint(_ignoring(pod, "  "), policy('allowIgnore: ["*"]'), Facts())

    assert report.denied
    assert of(report, "unknown-flag").finding.details[-1].endswith("does not count: it gives no reason")


def test_a_warning_says_that_an_annotation_does_not_count(pod: JSONDict) -> None:
    bad = _ignoring(pod, "  ")
    report = lint(bad, policy("{enforce: {mode: warn}, allowIgnore: [unknown-flag]}"), Facts())

    (line,) = (one for one in warnings(report) if one.startswith("podfit unknown-flag"))
    assert line.endswith("; its annotation does not count: it gives no reason")
    assert len(line) <= bounds.MAX_WARNING_LENGTH


def test_the_annotation_may_stand_on_the_pod_template(pod: JSONDict) -> None:
    bad = deployment(doomed(pod))
    bad["spec"]["template"]["metadata"]["annotations"] = {"podfit.dev/ignore.unknown-flag": "our fork knows it"}

    assert not lint(bad, policy('allowIgnore: ["*"]'), Facts()).denied


def test_a_mode_caps_all_rules_and_audit_patches_nothing(pod: JSONDict) -> None:
    bare = doomed(without_shm(pod))

    audited = lint(bare, policy("enforce: {mode: audit}"), Facts())
    assert {judged.mode for judged in audited.findings} == {"audit"}
    assert not audited.edits
    warned = lint(bare, policy("enforce: {mode: warn}"), Facts())
    assert not warned.denied
    assert of(warned, "unknown-flag").mode == "warn"
    assert warned.edits


def test_a_later_policy_lifts_the_cap_for_its_namespaces(pod: JSONDict) -> None:
    policies = of_layers(
        [Layer("observe", at_most="audit"), Layer("chat", 1, Match(namespaces=("chat",)), at_most="deny")]
    )
    bad = doomed(pod)

    assert lint(bad, policies, Facts()).denied
    bad["metadata"]["namespace"] = "search"
    assert not lint(bad, policies, Facts()).denied


def test_the_namespaces_labels_come_from_the_snapshot(pod: JSONDict) -> None:
    policies = of_layers([Layer("prod", match=PROD, at_most="warn")])

    assert lint(doomed(pod), policies, labelled({"env": "dev"})).denied
    assert not lint(doomed(pod), policies, labelled({"env": "prod"})).denied


def test_a_namespace_that_is_not_known_never_hardens(pod: JSONDict) -> None:
    """A policy denies no object in a namespace of another team, whether or not it applies."""
    unpinned = doomed(pod)
    unpinned["spec"]["containers"][0]["image"] = "vllm/vllm-openai:latest"
    harder = of_layers([Layer("prod", match=PROD, rules={"unpinned-image": RuleSettings(mode="deny")})])

    assert of(lint(unpinned, harder, Facts()), "unpinned-image").mode == "warn"
    assert of(lint(unpinned, harder, labelled({"env": "prod"})), "unpinned-image").mode == "deny"
    assert lint(doomed(pod), of_layers([Layer("prod", match=PROD, at_most="warn")]), Facts()).denied is False
    exempt = of_layers([Layer("p", exceptions=policy(EXCEPTION).everything[0].exceptions)]).at(NOW)
    del unpinned["metadata"]["namespace"]
    assert not lint(unpinned, exempt, Facts()).denied, "an exception that may hold does"


MODES: list[Mode] = ["deny", "warn", "audit", "ignore"]
LAYERS = st.builds(
    Layer,
    name=st.sampled_from("abc"),
    order=st.integers(0, 3),
    match=st.sampled_from([Match(), PROD, Match(kinds=("Pod",)), Match(namespaces=("c*",))]),
    rules=st.dictionaries(
        st.sampled_from(["unpinned-image", "shm-missing"]), st.builds(RuleSettings, mode=st.sampled_from(MODES))
    ),
    at_most=st.sampled_from([None, *MODES[:3]]),
    owned_pods=st.sampled_from([None, "warn", "deny"]),
    trust_mutation=st.sampled_from([None, True, False]),
)


@given(st.lists(LAYERS, max_size=5))
def test_what_is_unknown_is_no_harder_than_either_answer(layers: list[Layer]) -> None:
    policies = of_layers(layers)
    unknown = policies.of(Subject("Pod", "", "chat", {}))

    for labels in ({"env": "prod"}, {"env": "dev"}):
        known = policies.of(Subject("Pod", "", "chat", {}, labels))
        for rule in unknown.settings:
            assert softer_mode(unknown.mode(rule), known.mode(rule)) == unknown.mode(rule)
        assert not (unknown.owned_pods == "deny" and known.owned_pods == "warn")
        assert unknown.trust_mutation or not known.trust_mutation


@given(st.lists(LAYERS, max_size=5), st.sampled_from([{"env": "prod"}, {}, None]))
def test_policies_apply_one_after_the_other(layers: list[Layer], labels: dict[str, str] | None) -> None:
    """Whatever is folded together or remembered: the same as laying each that selects the object over the last."""
    subject = Subject("Pod", "", "chat", {}, labels)
    policies = of_layers(layers)

    terms = builtin().base
    for layer in sorted(layers, key=lambda layer: (layer.order, layer.name)):
        selected = layer.match.selects(subject)
        terms = layer.over(terms) if selected else layer.perhaps_over(terms) if selected is None else terms

    assert policies.of(subject) == terms.capped() == policies.of(subject)


def test_a_shadow_is_judged_beside_the_others_and_changes_nothing(pod: JSONDict) -> None:
    lenient, strict = Layer("lenient", at_most="warn"), Layer("strict", 5, at_most="deny", shadow=True)
    elsewhere = Layer("elsewhere", 6, Match(namespaces=("search",)), shadow=True)
    bad = doomed(pod)

    report = lint(bad, of_layers([strict, lenient, elsewhere]), Facts())

    assert not report.denied
    assert [(shadow.policy, shadow.denied) for shadow in report.shadows] == [("strict", True)]
    assert lint(bad, of_layers([lenient]), Facts()).findings == report.findings


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--model=/models/Qwen2.5-72B-Instruct"], "based on the end of the model's path, which may be any model's"),
        (
            ["--model=/models/m", "--served-model-name=Qwen/Qwen2.5-72B-Instruct"],
            "based on the served name 'Qwen/Qwen2.5-72B-Instruct', which may be any model's",
        ),
        (["--model=acme/own-400B"], "based on the model's name, which may be wrong: it says 400B parameters"),
    ],
)
def test_a_model_that_is_recognized_by_a_name_denies_nothing(pod: JSONDict, arguments: list[str], why: str) -> None:
    pod["spec"]["containers"][0]["args"] = [*arguments, "--max-model-len=4096"]

    report = lint(pod, builtin(), Facts())

    assert of(report, "gpu-memory-exceeded").why_softened == why
    assert not report.denied


def test_a_policy_assumes_a_gpu_and_denies_nothing_on_it(pod: JSONDict) -> None:
    del pod["spec"]["nodeSelector"]
    assuming = policy("assume: {gpu: t4}")

    report = lint(pod, assuming, Facts())

    why = of(report, "gpu-memory-exceeded").why_softened
    assert why == "based on the policy's assume.gpu, which may be wrong"
    assert not report.denied
    pod["spec"]["containers"][0]["resources"]["limits"] = {"amd.com/gpu": "1"}
    assert lint(pod, assuming, Facts()).results[0].engine.gpu is None


def test_a_policy_teaches_a_kind(pod: JSONDict) -> None:
    own = {
        "apiVersion": "serving.example.com/v1",
        "kind": "Model",
        "metadata": {"name": "m"},
        "spec": {"servers": [{"template": {"spec": doomed(pod)["spec"]}}]},
    }
    taught = policy("kinds: {Model.serving.example.com: [spec.servers.*.template.spec]}")

    assert not lint(own, builtin(), Facts()).results
    assert str(of(lint(own, taught, Facts()), "unknown-flag").finding.path).startswith("spec.servers[0].template.spec")


def test_two_policies_that_say_the_same_have_one_version() -> None:
    assert policy(EXCEPTION).version == policy(EXCEPTION, now=NOW - timedelta(days=9)).version
    assert policy(EXCEPTION).version != policy(EXCEPTION, now=NOW + timedelta(days=9)).version, (
        "remembered verdicts end"
    )
    assert policy(EXCEPTION).version != policy(EXCEPTION.replace("-21", "-22")).version
    assert policy("order: 3").version == builtin().version


def test_a_policy_says_how_much_of_a_gpu_is_free(pod: JSONDict, container: JSONDict) -> None:
    container["args"] += ["--gpu-memory-utilization", "0.92"]

    finding = of(lint(pod, policy("assume: {freeGpuMemory: 0.9}"), Facts()), "gpu-memory-utilization-too-high")

    assert finding.mode == "warn"
    assert "more of the GPU than the 0.9 that are free" in finding.finding.message
    assert not lint(pod, policy("assume: {freeGpuMemory: 0.95}"), Facts()).findings


def test_a_policy_names_vllms_own_images_in_another_registry(pod: JSONDict, container: JSONDict) -> None:
    container["image"] = "registry.example.com/ml/llm:v0.27.1"
    container["command"] = ["vllm", "serve"]
    container["args"] += ["--no-such-flag"]

    assert not lint(pod, builtin(), Facts()).denied
    assert lint(pod, policy("assume: {registries: [registry.example.com/ml/llm]}"), Facts()).denied


def test_a_policy_knows_the_disk(pod: JSONDict) -> None:
    def load_seconds(given: Policy) -> float:
        startup = lint(pod, given, Facts()).results[0].engine.plan.startup
        assert startup is not None
        return dict(startup.parts)["load"]

    slow = load_seconds(policy("assume: {diskBandwidth: 100M}"))
    assert slow == pytest.approx(10 * load_seconds(builtin()), rel=0.01)


@given(
    st.sampled_from(["admission", "check", "scan"]),
    st.frozensets(st.sampled_from(sorted(FACTS))),
    st.frozensets(st.sampled_from(sorted({word for rule in all_rules().values() for word in rule.mute_for}))),
)
def test_a_rule_is_asked_where_what_it_needs_is_known_and_nobody_fills_in_what_it_is_about(
    where: Place, unknown: frozenset[str], completes: frozenset[str]
) -> None:
    asked = builtin().base.applicable_rules(where, completes, unknown, unknown)

    assert [one.rule.id() for one in asked.settings] == [
        rule_id
        for rule_id, rule in all_rules().items()
        if where in rule.where and not unknown & {*rule.needs} and not completes & {*rule.mute_for}
    ]
    assert asked.wrong == ()


def test_an_ignored_rule_is_not_asked_and_no_sort_of_engine_is_kept_for_ever() -> None:
    terms = policy("rules: {shm-missing: {mode: ignore}}").of(Subject("Pod", "", "chat", {}))

    for number in range(3_000):
        asked = terms.applicable_rules("admission", frozenset({f"word-{number}"}), frozenset(), frozenset())
        assert "shm-missing" not in {one.rule.id() for one in asked.settings}
    assert len(terms._applicable_rules) <= 1024
