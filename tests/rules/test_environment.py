"""Variables that vLLM reads as strictly as its flags."""

from __future__ import annotations

from copy import deepcopy

import pytest

from podfit.evaluation.lint import lint
from podfit.evaluation.policy import builtin
from podfit.vllm.facts import Facts
from tests.conftest import GOOD_POD


def judged(tag: str, variables: dict[str, str], *flags: str) -> str | None:
    """The mode of what is said of the variables, None where nothing is."""
    pod = deepcopy(GOOD_POD)
    (container,) = pod["spec"]["containers"]
    container["image"] = f"vllm/vllm-openai:{tag}"
    container["args"] = ["--model", "Qwen/Qwen3-4B", "--max-model-len", "2048", *flags]
    container["env"] = [{"name": name, "value": value} for name, value in variables.items()]
    report = lint(pod, builtin(), Facts(), where="check")
    assert not report.errors
    return next((one.mode for one in report.findings if one.rule == "invalid-environment"), None)


@pytest.mark.parametrize(
    ("tag", "level", "wanted"),
    [
        ("v0.9.2", "verbose", "deny"),
        ("v0.27.1", "TRACE", "deny"),
        ("v0.27.1", "", "deny"),
        ("v0.27.1", "debug", None),
        ("v0.8.0", "debug", "deny"),  # as it is written
        ("v0.8.1", "debug", None),  # not read: may take it
        ("v0.4.2", "verbose", None),  # vLLM does not read it yet
        ("v0.27.1", "$LEVEL", None),
    ],
)
def test_a_level_of_logging_is_one_of_pythons(tag: str, level: str, wanted: str | None) -> None:
    assert judged(tag, {"VLLM_LOGGING_LEVEL": level}) == wanted


@pytest.mark.parametrize("beside", [{"VLLM_LOGGING_CONFIG_PATH": "/etc/logging.json"}, {"VLLM_CONFIGURE_LOGGING": "0"}])
def test_no_level_is_asked_for_where_logging_is_ones_own(beside: dict[str, str]) -> None:
    assert judged("v0.27.1", {"VLLM_LOGGING_LEVEL": "verbose", **beside}) is None


@pytest.mark.parametrize(
    ("tag", "variables", "flags", "wanted"),
    [
        ("v0.11.0", {"VLLM_CONFIGURE_LOGGING": "false"}, (), "deny"),  # read while vLLM is imported
        ("v0.11.0", {"VERBOSE": "true"}, (), None),
        ("v0.11.1", {"VERBOSE": "true"}, (), "deny"),
        ("v0.24.0", {"VERBOSE": "true"}, ("--data-parallel-size", "2", "--data-parallel-size-local", "1"), "deny"),
        ("v0.24.0", {"VERBOSE": "true"}, ("--data-parallel-size", "2", "--data-parallel-size-local", "0"), "warn"),
        ("v0.24.0", {"VERBOSE": "$VERBOSE"}, (), None),
    ],
)
def test_numbers_are_read_at_once_by_the_engine(
    tag: str, variables: dict[str, str], flags: tuple[str, ...], wanted: str | None
) -> None:
    """An API server alone, whose engines are in other Pods, reads what it needs."""
    assert judged(tag, variables, *flags) == wanted
