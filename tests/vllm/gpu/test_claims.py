"""Dynamic resource allocation: a claim's class and selectors → devices and GPUs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.evaluation.lint import lint
from podfit.evaluation.policy import builtin
from podfit.kube.snapshot import Snapshot, from_objects
from podfit.vllm import gpu
from podfit.vllm.facts import Facts
from podfit.vllm.gpu import cel
from tests.vllm.gpu.pods import asked, find, pod

NVIDIA = "gpu.nvidia.com"
ATTRIBUTES = f"device.attributes['{NVIDIA}']"


def selector(expression: str) -> dict[str, Any]:
    return {"cel": {"expression": expression}}


def exactly(device_class: str = NVIDIA, *expressions: str, **more: Any) -> dict[str, Any]:
    """A device request as resource.k8s.io/v1 has it."""
    selectors = [selector(one) for one in expressions]
    return {"name": "gpu", "exactly": {"deviceClassName": device_class, "selectors": selectors, **more}}


def template(*requests: dict[str, Any], api: str = "v1", name: str = "one-gpu") -> dict[str, Any]:
    return {
        "apiVersion": f"resource.k8s.io/{api}",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"spec": {"devices": {"requests": list(requests)}}},
    }


def claiming(name: str = "one-gpu", word: str = "resourceClaimTemplateName", request: str | None = None) -> Any:
    """A Pod whose container claims what the template asks for."""
    obj = pod(resourceClaims=[{"name": "gpu", word: name}])
    claim = {"name": "gpu", **({"request": request} if request else {})}
    obj["spec"]["containers"][0]["resources"] = {"claims": [claim]}
    return obj


def products(*requests: dict[str, Any], others: tuple[dict[str, Any], ...] = ()) -> list[str]:
    """The GPUs that a claim with these requests may get."""
    found = find(claiming(), Facts(cluster=from_objects([template(*requests), *others])))
    return sorted(one.name for one in found.value.gpus) if found else []


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        (f"{ATTRIBUTES}.productName == 'NVIDIA H100 80GB HBM3'", ["NVIDIA H100 80GB SXM5"]),
        (f'{ATTRIBUTES.replace(chr(39), chr(34))}.productName == "NVIDIA L4"', ["NVIDIA L4"]),
        (f"{ATTRIBUTES}.productName in ['NVIDIA L4', 'Tesla T4']", ["NVIDIA L4", "Tesla T4"]),
        (f"{ATTRIBUTES}.productName == 'Tesla T4' || {ATTRIBUTES}.productName == 'NVIDIA L4'",
         ["NVIDIA L4", "Tesla T4"]),
        (f"{ATTRIBUTES}.productName.lowerAscii().matches('^.*h200.*$')",
         ["NVIDIA GH200 144GB HBM3e", "NVIDIA GH200 96GB", "NVIDIA H200 NVL 141GB", "NVIDIA H200 SXM 141GB"]),
        (f"{ATTRIBUTES}.productName.startsWith('Tesla V100')", ["Tesla V100 16GB", "Tesla V100 32GB"]),
        (f"{ATTRIBUTES}.productName.contains('V100') && device.capacity['{NVIDIA}'].memory.compareTo(quantity('20Gi'))"
         " > 0", ["Tesla V100 32GB"]),
        (f"{ATTRIBUTES}.architecture == 'Volta'", ["Tesla V100 16GB", "Tesla V100 32GB"]),
        (f"{ATTRIBUTES}.cudaComputeCapability.compareTo(semver('10.3.0')) == 0",
         ["NVIDIA B300 (Blackwell Ultra) SXM6", "NVIDIA GB300"]),
        (f"device.driver == '{NVIDIA}' && {ATTRIBUTES}.productName == 'NVIDIA L4' && !({ATTRIBUTES}.type == 'mig')",
         ["NVIDIA L4"]),
    ],
)  # fmt: skip
def test_selectors_leave_these_products(expression: str, names: list[str]) -> None:
    assert products(exactly(NVIDIA, expression)) == names


def test_a_claim_is_a_request_of_so_many_devices() -> None:
    two = exactly(NVIDIA, f"{ATTRIBUTES}.productName == 'NVIDIA L4'", count=2)
    facts = from_objects([template(two)])

    assert asked(claiming(), facts) == (gpu.CLAIM, 2)
    assert asked(claiming(), from_objects([template(exactly())])) == (gpu.CLAIM, 1)
    assert asked(claiming(), from_objects([template(exactly(allocationMode="All"))])) == (gpu.CLAIM, None)


def test_a_product_by_its_whole_name_may_deny_and_a_pattern_only_informs() -> None:
    whole = find(
        claiming(), Facts(cluster=from_objects([template(exactly(NVIDIA, f"{ATTRIBUTES}.productName == 'NVIDIA L4'"))]))
    )
    pattern = find(
        claiming(), Facts(cluster=from_objects([template(exactly(NVIDIA, f"{ATTRIBUTES}.productName.contains('L4')"))]))
    )

    assert whole is not None
    assert pattern is not None
    assert whole.may_deny
    assert not pattern.may_deny
    assert "one-gpu" in whole.source


def test_the_classs_own_selectors_hold_too() -> None:
    device_class = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "big"},
        "spec": {"selectors": [selector(f"{ATTRIBUTES}.type == 'gpu' && {ATTRIBUTES}.productName == 'NVIDIA B200'")]},
    }

    assert products(exactly("big"), others=(device_class,)) == ["NVIDIA B200 180GB"]
    assert products(exactly("big")) == [], "a class that was not seen says nothing"


def test_a_slice_is_claimed_by_its_profile() -> None:
    one = exactly("mig.nvidia.com", f"{ATTRIBUTES}.profile == '1g.5gb' && {ATTRIBUTES}.productName.contains('A100')")

    assert {name.rpartition(" ")[2] for name in products(one)} == {"1g.5gb"}


def test_older_apis_say_the_same_in_other_words() -> None:
    old = {"name": "gpu", "deviceClassName": NVIDIA, "selectors": [selector(f"{ATTRIBUTES}.productName == 'Tesla T4'")]}
    several = {
        "name": "gpu",
        "firstAvailable": [
            {"name": name, "deviceClassName": NVIDIA, "selectors": [selector(f"{ATTRIBUTES}.productName == '{of}'")]}
            for name, of in (("large", "NVIDIA L4"), ("small", "Tesla T4"))
        ],
    }

    assert products(old) == ["Tesla T4"]
    assert products(several) == ["NVIDIA L4", "Tesla T4"]
    (facts,) = (Facts(cluster=from_objects([template(several)])),)
    chosen = find(claiming(request="gpu/small"), facts)
    assert chosen is not None
    assert chosen.value.name == "Tesla T4"


def test_a_claim_that_was_not_seen_is_unknown() -> None:
    assert asked(claiming()) == (gpu.CLAIM, None)
    assert find(claiming()) is None
    assert asked(claiming("other"), from_objects([template(exactly())])) == (gpu.CLAIM, None)


def test_what_is_no_accelerator_is_no_request() -> None:
    channel = exactly("compute-domain-default-channel.nvidia.com")

    assert asked(claiming(), from_objects([template(channel)])) is None


def test_a_claim_by_name_is_read_where_claims_are_seen() -> None:
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "shared"},
        "spec": {"devices": {"requests": [exactly(NVIDIA, f"{ATTRIBUTES}.productName == 'NVIDIA L4'")]}},
    }
    found = find(claiming("shared", "resourceClaimName"), Facts(cluster=from_objects([claim])))

    assert found is not None
    assert found.value.name == "NVIDIA L4"


DEVICE: dict[str, Any] = {
    "driver": NVIDIA,
    "attributes": {NVIDIA: {"productName": "NVIDIA L4", "cudaComputeCapability": "8.9.0", "type": "gpu"}},
    "capacity": {NVIDIA: {"memory": 23034 << 20}},
}


@pytest.mark.parametrize(
    ("expression", "answer"),
    [
        ("true", True),
        ("!true", False),
        ("device.driver == 'gpu.nvidia.com'", True),
        (f"{ATTRIBUTES}.uuid == 'GPU-1'", None),
        (f"{ATTRIBUTES}.uuid == 'GPU-1' && {ATTRIBUTES}.type == 'mig'", False),
        (f"{ATTRIBUTES}.uuid == 'GPU-1' || {ATTRIBUTES}.type == 'gpu'", True),
        (f"!({ATTRIBUTES}.uuid == 'GPU-1')", None),
        (f"{ATTRIBUTES}.cudaComputeCapability.isGreaterThan(semver('8.10.0'))", False),
        (f"{ATTRIBUTES}.?type.orValue('') == 'gpu'", True),
        (f"has({ATTRIBUTES}.type)", True),
        (f"has({ATTRIBUTES}.numaNode)", None),
        (f"device.capacity['{NVIDIA}'].memory.isLessThan(quantity('24Gi'))", True),
        (f"device.capacity['{NVIDIA}'].memory >= quantity('24Gi')", False),
        (f"{ATTRIBUTES}.productName.matches('(a+)+$')", None),
        (f"{ATTRIBUTES}.productName.matches('[')", None),
        (f"{ATTRIBUTES}.productName.matches('.*.*.*.*.*.*!')", None),
        (f"{ATTRIBUTES}.productName.matches('a*b*!')", None),
        (f"{ATTRIBUTES}.productName.matches('a*-b*-c*-d*')", None),
        (f"{ATTRIBUTES}.productName.matches('.*-.*-.*')", False),
        (f"'{'a' * 200}'.matches('a')", None),
        (f"{ATTRIBUTES}.productName.size() > 3", None),
        (f"cel.bind(a, {ATTRIBUTES}, a.type == 'gpu')", None),
        ("device.driver == ", None),
        ("device.driver == 'gpu.nvidia.com' @", None),
        ("", None),
        ("(" * 5000 + "true" + ")" * 5000, None),
        ("(" * 2000 + "true" + ")" * 2000, None),
    ],
)
def test_an_expression_is_true_false_or_unknown(expression: str, answer: bool | None) -> None:
    assert cel.read(expression)(DEVICE) is answer


PARTS = st.sampled_from(
    ["device", ".attributes", "['gpu.nvidia.com']", ".type", "==", "'gpu'", "&&", "||", "!", "(", ")", "in", "[", "]",
     ",", "-", "1", ".matches", ".?", "quantity", "true", " "]
)  # fmt: skip


@given(st.lists(PARTS, max_size=14).map("".join) | st.text(max_size=30))
def test_no_expression_raises(expression: str) -> None:
    assert cel.read(expression)(DEVICE) in (True, False, None)


def test_advice_for_a_claim_speaks_of_the_claim() -> None:
    obj = claiming()
    container = obj["spec"]["containers"][0]
    container["args"] = ["unsloth/Llama-3.3-70B-Instruct", "--max-model-len", "8192"]
    l4 = exactly(NVIDIA, f"{ATTRIBUTES}.productName == 'NVIDIA L4'")
    report = lint(obj, builtin(), Facts(cluster=from_objects([template(l4)])))
    (found,) = [one for one in report.findings if one.rule == "gpu-memory-exceeded"]

    assert found.mode == "deny"
    assert any("a claim for NVIDIA-" in text for text in found.finding.suggestions)
    assert not any("nodeSelector" in text for text in found.finding.suggestions)


SCALARS: st.SearchStrategy[Any] = st.sampled_from([NVIDIA, "a", 1, 2, 0, True, None, 1.5, [], {}, "All"])
SELECTORS = st.lists(
    st.sampled_from([selector(f"{ATTRIBUTES}.productName == 'NVIDIA L4'"), selector("x"), {"cel": 1}, {}, 1]),
    max_size=2,
)
WORDS = st.fixed_dictionaries(
    {},
    optional={
        "name": SCALARS, "deviceClassName": SCALARS, "count": SCALARS, "allocationMode": SCALARS,
        "selectors": SELECTORS, "tolerations": SELECTORS,
    },
)  # fmt: skip
REQUESTS = st.one_of(
    WORDS,
    st.builds(lambda one, words: {"exactly": words, **one}, WORDS, WORDS | SCALARS),
    st.builds(lambda one, some: {"firstAvailable": some, **one}, WORDS, st.lists(WORDS, max_size=2) | SCALARS),
)


@given(st.lists(REQUESTS, max_size=3), st.sampled_from([None, "a", "a/a"]))
def test_what_is_kept_of_a_claim_template_says_the_same(requests: list[Any], request: str | None) -> None:
    whole = template(*requests)
    kept = from_objects([whole])
    everything = Snapshot({"resourceclaimtemplates": {("", "one-gpu"): whole}})

    assert find(claiming(request=request), Facts(cluster=kept)) == find(
        claiming(request=request), Facts(cluster=everything)
    )


def test_a_drivers_own_configuration_is_not_kept() -> None:
    whole = template(exactly())
    whole["spec"]["spec"]["devices"]["config"] = [{"opaque": {"driver": NVIDIA, "parameters": {"a": []}}}]

    assert from_objects([whole]).objects == from_objects([template(exactly())]).objects
