"""Policies: what they may contain, and how a mistake is reported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.evaluation.policy import Policy, PolicyError, Subject, builtin, document, load, shape
from podfit.rules.gpu_memory.max_model_len_unset import MaxModelLenUnset

ROOT = Path(__file__).parents[3]
HEAD = "apiVersion: podfit.dev/v1alpha1\nkind: Policy\nmetadata: {name: mine}\n"
POD = Subject("Pod", "", "chat", {})


def problems(text: str) -> list[str]:
    """What is said of a policy that can't be used."""
    with pytest.raises(PolicyError) as error:
        load([("p.yaml", text)])
    return error.value.problems


def test_the_generated_default_policy_means_what_no_policy_means() -> None:
    shipped = load([("default.yaml", (ROOT / "policies" / "default.yaml").read_text())])

    assert shipped.version == builtin().version


@pytest.mark.parametrize("path", sorted((ROOT / "policies").glob("*.yaml")), ids=lambda path: path.stem)
def test_a_shipped_policy_loads(path: Path) -> None:
    (layer,) = load([(path.name, path.read_text())]).everything

    assert layer.name == path.stem


def test_a_policy_sets_mode_fix_and_parameters_of_a_rule() -> None:
    policy = load([("p.yaml", HEAD + "spec:\n  rules:\n    max-model-len-unset: {mode: deny, above: 8192}\n")])

    setting = policy.of(POD).settings["max-model-len-unset"]

    assert setting.mode == "deny"
    assert setting.rule == MaxModelLenUnset(above=8192)
    assert policy.version != builtin().version


def test_later_policies_override_earlier_ones_rule_by_rule() -> None:
    first = HEAD + "spec:\n  order: 2\n  rules:\n    unpinned-image: {mode: deny}\n"
    second = HEAD + "spec:\n  order: 1\n  rules:\n    unpinned-image: {mode: ignore}\n    unknown-gpu: {mode: deny}\n"

    terms = load([("first.yaml", first), ("second.yaml", second)]).of(POD)

    assert terms.settings["unpinned-image"].mode == "deny"
    assert terms.settings["unknown-gpu"].mode == "deny"


def test_of_equal_orders_the_name_decides_whatever_the_files_are_called() -> None:
    def named(name: str, mode: str) -> str:
        return HEAD.replace("mine", name) + f"spec: {{rules: {{unpinned-image: {{mode: {mode}}}}}}}\n"

    for files in ([("z.yaml", named("a", "deny")), ("a.yaml", named("b", "ignore"))], [("x", named("b", "ignore"))]):
        assert load(files).of(POD).settings["unpinned-image"].mode == "ignore"


def test_what_kubectl_prints_of_a_policy_is_a_policy() -> None:
    def printed(spec: dict[str, object]) -> dict[str, object]:
        return {
            "apiVersion": "podfit.dev/v1alpha1",
            "kind": "Policy",
            "metadata": {
                "name": "mine",
                "uid": "5b2d8a3e-7f7f-4d0c-9f3e-0d4c3a2b1f00",
                "resourceVersion": "812",
                "generation": 2,
                "creationTimestamp": "2026-11-01T10:00:00Z",
                "managedFields": [{"manager": "kubectl", "operation": "Apply"}],
            },
            "spec": spec,
            "status": {"conditions": [{"type": "Accepted", "status": "True"}]},
        }

    spec: dict[str, object] = {"rules": {"unpinned-image": {"mode": "deny"}}}
    listed = {"apiVersion": "v1", "kind": "List", "items": [printed(spec)]}

    def mode(policy: Policy) -> str:
        return policy.of(POD).settings["unpinned-image"].mode

    assert mode(load([("one.json", json.dumps(printed(spec)))])) == "deny"
    assert mode(load([("list.json", json.dumps(listed, indent=1))])) == "deny"
    wrong = {**listed, "items": [printed({"rules": {"unpinned-imgae": {}}})]}
    with pytest.raises(PolicyError, match=r"^list.json:\d+: spec.rules.unpinned-imgae: 'unpinned-imgae' is not a rule"):
        load([("list.json", json.dumps(wrong, indent=1))])


MISTAKES = {
    "a rule that does not exist": (
        "spec:\n  rules:\n    unpinned-imgae: {mode: deny}\n",
        "p.yaml:6: spec.rules.unpinned-imgae: 'unpinned-imgae' is not a rule; did you mean 'unpinned-image'?",
    ),
    "a mode that does not exist": (
        "spec:\n  rules:\n    unpinned-image:\n      mode: block\n",
        "p.yaml:7: spec.rules.unpinned-image.mode: input should be 'deny', 'warn', 'audit' or 'ignore', got 'block'",
    ),
    "a mode with a typo": (
        "spec:\n  rules:\n    unpinned-image:\n      mode: dney\n",
        "p.yaml:7: spec.rules.unpinned-image.mode: input should be 'deny', 'warn', 'audit' or 'ignore', got 'dney'; "
        "did you mean 'deny'?",
    ),
    "off for a mode": (
        "spec:\n  rules:\n    unpinned-image: {mode: off}\n",
        "p.yaml:6: spec.rules.unpinned-image.mode: YAML 1.1 reads an unquoted `off` as false, YAML 1.2 as text: "
        "write false, or quote it; the mode is `ignore`",
    ),
    "a number for true": (
        "spec:\n  rules:\n    shm-missing: {fix: 1}\n",
        "p.yaml:6: spec.rules.shm-missing.fix: expected true, false, 'certain' or 'manual', got 1",
    ),
    "a parameter with a typo": (
        "spec:\n  rules:\n    max-model-len-unset:\n      abvoe: 1\n",
        "p.yaml:7: spec.rules.max-model-len-unset.abvoe: unknown field; did you mean 'above'? "
        "(allowed: mode, fix, above)",
    ),
    "a parameter out of range": (
        "spec:\n  rules:\n    max-model-len-unset:\n      above: -1\n",
        "p.yaml:7: spec.rules.max-model-len-unset.above: input should be greater than or equal to 0, got -1",
    ),
    "an unknown field": (
        "spec:\n  rule: {}\n",
        "p.yaml:5: spec.rule: unknown field; did you mean 'rules'? (allowed: order, shadow, match, rules, assume, "
        "exceptions, allowIgnore, enforce, mutate, trustMutation, trustFacts, releases, kinds)",
    ),
    "a kind that nothing judges": (
        "spec:\n  match: {kinds: [Deploymnet]}\n",
        "p.yaml:5: spec.match.kinds[0]: podfit does not check the kind 'Deploymnet'; did you mean 'Deployment'?",
    ),
    "a GPU that nobody makes": (
        "spec:\n  assume: {gpu: l44}\n",
        "p.yaml:5: spec.assume.gpu: no GPU is known by the name 'l44'; did you mean l4, l40?",
    ),
    "the 30th of February": (
        "spec:\n  exceptions:\n  - {rules: [shm-missing], reason: r, owner: o, expires: 2026-02-30}\n",
        "p.yaml:6: spec.exceptions[0].expires: '2026-02-30' is not a date such as 2026-12-31 or a time such as "
        "2026-12-31T18:00:00Z",
    ),
    "a label's value that YAML takes for a number": (
        "spec:\n  match: {objectSelector: {matchLabels: {version: 1.10}}}\n",
        "p.yaml:5: spec.match.objectSelector.matchLabels.version: expected text, in quotes where YAML reads it "
        "otherwise, got 1.1",
    ),
    "an anchor": (
        "spec:\n  rules:\n    unpinned-image: &strict {mode: deny}\n",
        "p.yaml:6: spec.rules.unpinned-image: &strict: a policy has no anchors and aliases; write it out where it "
        "holds",
    ),
    "digits in groups": (
        "spec:\n  order: 1_000\n",
        "p.yaml:5: spec.order: YAML 1.1 reads 1_000 as a number, YAML 1.2 as text: write it in decimal digits, or "
        "quote it",
    ),
    "a letter for true": (
        "spec:\n  exceptions:\n  - {rules: [shm-missing], reason: r, owner: y, expires: 2026-12-31}\n",
        "p.yaml:6: spec.exceptions[0].owner: kubectl reads an unquoted `y` as true, other readers as text: write true, "
        "or quote it",
    ),
    "octal as YAML 1.2 writes it": (
        "spec:\n  order: 0o17\n",
        "p.yaml:5: spec.order: kubectl reads 0o17 as 15, YAML 1.1 as text: write it in decimal digits, or quote it",
    ),
    "a number with an exponent": (
        "spec:\n  order: 1e3\n",
        "p.yaml:5: spec.order: kubectl reads 1e3 as 1000, YAML 1.1 as text: write it in decimal digits, or quote it",
    ),
    "an infinity": (
        "spec:\n  order: .inf\n",
        "p.yaml:5: policy: kubectl rejects .inf: JSON has no such number; quote what is text",
    ),
    "a Helm template": (
        "spec:\n  {{- if .Values.strict }}\n  order: 1\n  {{- end }}\n",
        "p.yaml:5: policy: skipped: a Helm template; check what `helm template` prints (`podfit check --helm CHART`)",
    ),
    "rules without any": (
        "spec:\n  rules:\n",
        "p.yaml:5: spec.rules: is empty: leave it out, or give it a value",
    ),
}


@pytest.mark.parametrize(("text", "wanted"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_told_with_file_line_path_and_what_is_allowed(text: str, wanted: str) -> None:
    assert problems(HEAD + text) == [wanted]


@pytest.mark.parametrize("missing", ["reason", "owner", "expires", "rules"])
def test_an_exception_says_what_why_who_and_until_when(missing: str) -> None:
    said = {"rules": "[shm-missing]", "reason": "a trial", "owner": "chat", "expires": "2026-12-31"}
    del said[missing]
    lines = "".join(f"    {key}: {value}\n" for key, value in said.items())

    (problem,) = problems(HEAD + "spec:\n  exceptions:\n  -\n" + lines)

    assert problem.endswith(f"spec.exceptions[0].{missing}: required, but absent")


def test_all_mistakes_of_all_files_are_told_at_once() -> None:
    bad = HEAD + "spec:\n  rules:\n    a: {}\n    b: {}\n"

    with pytest.raises(PolicyError) as error:
        load([("one.yaml", bad), ("two.yaml", "kind: Policy\n"), ("three.yaml", "{"), ("four.yaml", "kind: Pod\n")])

    files = [problem.partition(":")[0] for problem in error.value.problems]
    assert files.count("one.yaml") == 2
    assert files.count("two.yaml") == 3
    assert files.count("three.yaml") == 1
    assert files.count("four.yaml") == 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
WORDS = st.sampled_from(
    [*shape.field_names(shape.SpecShape), *shape.field_names(shape.MatchShape), "matchExpressions", "shm-missing"]
)


@given(st.dictionaries(WORDS, JSON | st.dictionaries(WORDS, JSON | st.dictionaries(WORDS, JSON))))
def test_whatever_stands_in_an_object_is_told_and_never_raises(spec: dict[str, object]) -> None:
    obj = {"apiVersion": "podfit.dev/v1alpha1", "kind": "Policy", "metadata": {"name": "p"}, "spec": spec}

    if not document.check(obj):
        assert document.of_object(obj, "p").name == "p"
