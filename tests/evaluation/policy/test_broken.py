"""Every way to break a policy, made from one that sets every field: each is rejected with its file, line and path."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from podfit.evaluation.policy import PolicyError, load, shape
from podfit.rules import all_rules

EVERYTHING = """\
apiVersion: podfit.dev/v1alpha1
kind: Policy
metadata:
  name: everything
  labels:
    team: platform
  annotations:
    note: about nothing
spec:
  order: 10
  shadow: false
  match:
    namespaces:
      - prod-*
    excludedNamespaces:
      - prod-test
    namespaceSelector:
      matchLabels:
        env: prod
      matchExpressions:
        - key: team
          operator: In
          values:
            - chat
    objectSelector:
      matchLabels:
        app: llama
    kinds:
      - Deployment
  rules:
    gpu-memory-utilization-too-high:
      mode: warn
      fix: false
      maximum: 0.9
      sharedMaximum: 0.5
    max-model-len-unset:
      mode: deny
      above: 8192
    house-limits:
      mode: deny
      maxModelLen:
        - value: 8192
          gpus:
            - l4
        - value: 32768
      gpuMemoryUtilization:
        minimum: 0.5
        maximum: 0.95
      releases:
        minimum: 0.21.0
        allowed:
          - 0.27.0
      models:
        allowed:
          - meta-llama/*
      memoryFactor: 1.5
      whenUnknown:
        maxModelLen: deny
        releases: warn
  assume:
    gpu: l4
    downloadBandwidth: 500M
    diskBandwidth: 2G
    freeGpuMemory: 0.95
    nodes: closed
    registries:
      - registry.example.com/ml/vllm
  exceptions:
    - rules:
        - shm-missing
      match:
        namespaces:
          - legacy
      reason: is moved next month
      owner: chat
      expires: 2026-12-31
  allowIgnore:
    - unpinned-image
  enforce:
    mode: warn
    ownedPods: deny
  mutate:
    workloads: true
  trustMutation: true
  trustFacts: true
  releases:
    images:
      ml-vllm*: 0.27.1
    known:
      0.99.0:
        like: 0.27.1
        removed:
          - --seed
  kinds:
    Model.serving.example.com:
      - spec.template.spec
"""
FREE = ("team", "note", "env", "app", "name", "reason", "owner", "image")
"""Keys whose value, or which themselves, are the admin's own words."""
MAPS = ("team:", "note:", "env:", "app:", "ml-vllm", "0.99.0:")


def broken() -> Iterator[tuple[str, int, str]]:
    """(what was done, its line, the text)."""
    lines = EVERYTHING.splitlines()
    for number, line in enumerate(lines, 1):
        indent, dash, key, value = _parts(line)
        lead = f"{indent}{dash}"

        def changed(what: str, *instead: str, number: int = number, key: str = key) -> tuple[str, int, str]:
            return (
                f"line {number}, {key or 'item'}: {what}",
                number,
                "\n".join([*lines[: number - 1], *instead, *lines[number:]]),
            )

        if key and not line.strip().startswith(MAPS) and key != "Model.serving.example.com":
            yield changed("a typo", f"{lead}{key[0]}{key[2:]}{'x' if len(key) < 4 else ''}: {value}".rstrip())
            yield changed("in capitals", f"{lead}{key.upper()}: {value}".rstrip())
        if not value:
            if number < len(lines) and not _parts(lines[number])[1]:
                yield changed("an anchor", f"{line} &here")
            continue
        head = f"{lead}{key}: " if key else lead
        if key:
            yield changed("twice", line, f"{indent}{' ' * len(dash)}{key}: {value}")
        yield changed("an anchor", f"{head}&here {value}")
        yield changed("an alias", f"{head}*nowhere")
        yield changed("a tag", f"{head}!!str {value}")
        yield changed("nothing", head.rstrip()) if key else changed("nothing", f"{head}~")
        yield changed("an object", f"{head}{{a: b}}")
        yield changed("a list", f"{head}[1, 2]")
        yield changed("off", f"{head}off")
        yield changed("No", f"{head}No")
        if key not in FREE:
            yield changed("in quotes, and not what it is", f'{head}"é !"')
        yield changed("octal", f"{head}0700")
        yield changed("an open quote", f'{head}"{value}')
        yield changed("a tab", f"\t{line.strip()}")


def _parts(line: str) -> tuple[str, str, str, str]:
    match = re.fullmatch(r"( *)(- )?(?:([\w.*-]+):(?: |$))?(.*)", line)
    assert match
    return match[1], match[2] or "", match[3] or "", match[4]


BROKEN = list(broken())


def test_the_policy_that_is_broken_is_a_good_one_and_says_everything() -> None:
    load([("p.yaml", EVERYTHING)])

    assert not [name for name in shape.field_names(shape.SpecShape) if f"\n  {name}:" not in EVERYTHING]
    assert len(BROKEN) > 200


@pytest.mark.parametrize(
    ("line", "text"), [(line, text) for _, line, text in BROKEN], ids=[what for what, _, _ in BROKEN]
)
def test_a_broken_policy_is_refused_with_its_line(line: int, text: str) -> None:
    with pytest.raises(PolicyError) as error:
        load([("p.yaml", text)])

    said = [re.fullmatch(r"p\.yaml:(\d+): (.+)", problem) for problem in error.value.problems]
    assert all(said), error.value.problems
    # A consequence of a mistake may be reported elsewhere, and libyaml sees some mistakes only on the next line.
    assert any(one and int(one[1]) in (line, line + 1) for one in said), error.value.problems


def bounds() -> Iterator[tuple[str, str, object]]:
    """(rule, parameter, a value just outside of its bounds)."""
    rules = shape.schema()["$defs"]["SpecShape"]["properties"]["rules"]["properties"]
    for rule_id, one in rules.items():
        for name, about in one["properties"].items():
            steps = {"minimum": -1, "exclusiveMinimum": 0, "maximum": 1, "exclusiveMaximum": 0}
            for word, step in steps.items():
                if word in about:
                    yield rule_id, name, about[word] + step


@pytest.mark.parametrize(("rule", "name", "value"), list(bounds()))
def test_a_parameter_out_of_its_bounds_is_refused(rule: str, name: str, value: object) -> None:
    head = "apiVersion: podfit.dev/v1alpha1\nkind: Policy\nmetadata: {name: p}\n"

    with pytest.raises(PolicyError, match=rf"^p.yaml:6: spec.rules.{rule}.{name}: input should be .*, got {value}$"):
        load([("p.yaml", f"{head}spec:\n  rules:\n    {rule}: {{{name}: {value}}}\n")])


@pytest.mark.parametrize("rule", all_rules())
def test_a_rule_with_a_typo_is_refused_with_the_nearest_name(rule: str) -> None:
    head = "apiVersion: podfit.dev/v1alpha1\nkind: Policy\nmetadata: {name: p}\n"
    typo = f"{rule[0]}{rule[2]}{rule[1]}{rule[3:]}x"

    with pytest.raises(
        PolicyError, match=f"^p.yaml:6: spec.rules.{typo}: '{typo}' is not a rule; did you mean '{rule}'"
    ):
        load([("p.yaml", f"{head}spec:\n  rules:\n    {typo}: {{mode: warn}}\n")])
