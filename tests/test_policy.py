"""Policies: what may stand in them, and how a mistake is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from webhook.policy import PolicyError, builtin, load
from webhook.rules.max_model_len_unset import MaxModelLenUnset

ROOT = Path(__file__).parent.parent
HEAD = "apiVersion: podfit.dev/v1alpha1\nkind: Policy\nmetadata: {name: mine}\n"


def test_the_generated_default_policy_means_what_no_policy_means() -> None:
    shipped = load([("default.yaml", (ROOT / "policies" / "default.yaml").read_text())])

    assert shipped.version == builtin().version


@pytest.mark.parametrize("path", sorted((ROOT / "policies").glob("*.yaml")), ids=lambda path: path.stem)
def test_a_shipped_policy_loads(path: Path) -> None:
    assert load([(path.name, path.read_text())]).name == path.stem


def test_a_policy_sets_mode_fix_and_parameters_of_a_rule() -> None:
    policy = load([("p.yaml", HEAD + "spec:\n  rules:\n    max-model-len-unset: {mode: deny, above: 8192}\n")])

    setting = policy.settings["max-model-len-unset"]

    assert setting.mode == "deny"
    assert setting.rule == MaxModelLenUnset(above=8192)
    assert policy.version != builtin().version


def test_later_policies_override_earlier_ones_rule_by_rule() -> None:
    first = HEAD + "spec:\n  order: 2\n  rules:\n    unpinned-image: {mode: deny}\n"
    second = HEAD + "spec:\n  order: 1\n  rules:\n    unpinned-image: {mode: ignore}\n    unknown-gpu: {mode: deny}\n"

    policy = load([("first.yaml", first), ("second.yaml", second)])

    assert policy.settings["unpinned-image"].mode == "deny"
    assert policy.settings["unknown-gpu"].mode == "deny"


MISTAKES = {
    "a rule that does not exist": (
        "spec:\n  rules:\n    unpinned-imgae: {mode: deny}\n",
        "p.yaml:6: spec.rules.unpinned-imgae: 'unpinned-imgae' is no rule; did you mean 'unpinned-image'?",
    ),
    "a mode that does not exist": (
        "spec:\n  rules:\n    unpinned-image:\n      mode: block\n",
        "p.yaml:7: spec.rules.unpinned-image.mode: input should be 'deny', 'warn', 'audit' or 'ignore', got 'block'",
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
        "p.yaml:5: spec.rule: unknown field; did you mean 'rules'? "
        "(allowed: order, releases, rules, enforce, mutate, assume, trustMutation)",
    ),
}


@pytest.mark.parametrize(("text", "wanted"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_told_with_file_line_path_and_what_is_allowed(text: str, wanted: str) -> None:
    with pytest.raises(PolicyError) as error:
        load([("p.yaml", HEAD + text)])

    assert error.value.problems == [wanted]


def test_all_mistakes_of_all_files_are_told_at_once() -> None:
    bad = HEAD + "spec:\n  rules:\n    a: {}\n    b: {}\n"

    with pytest.raises(PolicyError) as error:
        load([("one.yaml", bad), ("two.yaml", "kind: Deployment\n"), ("three.yaml", "{")])

    files = [problem.partition(":")[0] for problem in error.value.problems]
    assert files.count("one.yaml") == 2
    assert files.count("two.yaml") >= 2
    assert files.count("three.yaml") == 1
