"""`make oracle ARGS="--claims"`: what podfit's rules say that vLLM rejects, compared with vLLM's own code.

A claim is a command line that vLLM rejects, a similar one that it accepts, and a pattern of vLLM's error. Those of
`oracle.claim_table` are written by hand; the others follow from the tables of facts, one for each entry of a table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any

from oracle.cases import GPUS, Case, configs
from oracle.claim_table import (
    BACKENDS,
    CONFLICTING,
    INVALID_ENVIRONMENT,
    INVALID_VALUES,
    L4,
    LABELS,
    LLAMA,
    REQUIRED_FLAGS,
    UNKNOWN_KEYS,
)
from oracle.compare import LATER_FLAGS
from podfit.base.data import load
from podfit.evaluation.lint import GradedFinding, lint
from podfit.evaluation.policy import builtin
from podfit.rules.command_line.invalid_flag_value import ELSEWHERE
from podfit.vllm.args import flags, settings
from podfit.vllm.facts import Facts, GivenModel
from podfit.vllm.release import Release, newest_read

SERVED = "acme/ours"
"""The name of each model for podfit, which knows its config.json alone."""


@dataclass(frozen=True)
class Claim:
    """What a rule says that vLLM rejects."""

    rule: str
    release: str
    """A release of which the rule says it."""
    model: str
    rejected: str
    accepted: str
    error: str
    """A pattern of vLLM's error."""
    message: str = ""
    """A part of podfit's message."""
    rejected_environment: Mapping[str, str] = field(default_factory=dict)
    accepted_environment: Mapping[str, str] = field(default_factory=dict)
    gpu: str = L4
    probe: str | None = None
    """What vLLM runs after its configuration stage (`oracle.probes`), if it raises there."""

    @property
    def text(self) -> str:
        """The rejected line, for people."""
        variables = [f"{name}={value}" for name, value in self.rejected_environment.items()]
        return " ".join([f"{self.rule}:", *variables, self.rejected])

    def cases(self, release: Release) -> tuple[Case, Case]:
        """Both lines, for vLLM's own code of a release. Many claims have the same accepted line."""
        gpu = next(gpu for gpu in GPUS if gpu["name"] == self.gpu)
        rejected, accepted = (
            Case(
                f"{self.gpu} {self.model} {sorted(environment.items())} {line}",
                "config", str(release), gpu, self.model, words(line), environment=environment, probe=self.probe,
            )
            for line, environment in (
                (self.rejected, self.rejected_environment), (self.accepted, self.accepted_environment),
            )
        )  # fmt: skip
        return rejected, accepted

    def is_made(self, release: Release) -> bool:
        """The rule says it of this release: the rejected line is a finding with this message, and the accepted one is
        none."""
        found = self.findings(release, self.rejected, self.rejected_environment)
        said = any(self.message in one.finding.message for one in found)
        return said and not self.findings(release, self.accepted, self.accepted_environment)

    def findings(self, release: Release, line: str, environment: Mapping[str, str]) -> list[GradedFinding]:
        """The rule's findings about a line."""
        found = findings_about(release, self.model, self.gpu, line, tuple(environment.items()))
        return [one for one in found if one.rule == self.rule]


@lru_cache(64)
def findings_about(
    release: Release, model: str, gpu: str, line: str, environment: tuple[tuple[str, str], ...]
) -> tuple[GradedFinding, ...]:
    """The findings about a Pod with this command line. Raises AssertionError for an error of podfit's own."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "claim"},
        "spec": {
            "nodeSelector": {"nvidia.com/gpu.product": LABELS[gpu]},
            "containers": [
                {
                    "name": "vllm",
                    "image": f"vllm/vllm-openai:v{release}",
                    "command": ["vllm", "serve", SERVED],
                    "args": list(words(line)),
                    "env": [{"name": name, "value": value} for name, value in environment],
                    "resources": {"limits": {"nvidia.com/gpu": "8", "memory": "640Gi"}},
                }
            ],
        },
    }
    report = lint(pod, builtin(), Facts(models={SERVED: GivenModel({**configs()[model]}, "claims")}), where="check")
    if report.errors:
        raise AssertionError(f"{line}: {report.errors}")
    return report.findings


def words(line: str) -> tuple[str, ...]:
    """A line's words; JSON in it has no blanks."""
    return tuple(line.split())


def written() -> Iterator[Claim]:
    """The claims that are written by hand."""
    rules = {
        "conflicting-flags": CONFLICTING,
        "invalid-flag-value": INVALID_VALUES,
        "unknown-config-key": UNKNOWN_KEYS,
        "invalid-environment": BACKENDS,
    }
    for rule, rows in rules.items():
        for release, model, rejected, accepted, error, message, *environment in rows:
            variables: Any = environment[0] if environment else {}
            yield Claim(rule, release, model, rejected, accepted, error, message, variables, variables)
    for release, model, bad, good, error, message, *gpu in INVALID_ENVIRONMENT:
        yield Claim("invalid-environment", release, model, "", "", error, message, bad, good, *gpu)
    for release, model, accepted, error, message, probe, *variables in REQUIRED_FLAGS:
        good = variables[0] if variables else {}
        yield Claim(
            "flag-required-by-model", release, model, "", accepted, error, message, accepted_environment=good,
            probe=probe,
        )  # fmt: skip


def derived(release: Release) -> Iterator[Claim]:
    """The claims that follow from the tables of facts for one release: one for each entry of a table."""
    options = flags.builtin().parser(release, "serve")
    spelling = {option.dest: option.flags[0] for option, _ in options.spellings.values() if option.flags}
    of_flag = {flag: option for option, _ in options.spellings.values() if option.flags for flag in option.flags[:1]}
    for flag, option in sorted(of_flag.items()):
        if option.choices or option.type in NUMBERS:
            error = "invalid choice|invalid .* value|cannot be converted"
            yield Claim("invalid-flag-value", str(release), LLAMA, f"{flag}={NO_VALUE}", "", error, flag)
    for dest in sorted((settings.bounded() & spelling.keys()) - {*ELSEWHERE}):
        yield from _bounds(dest, spelling[dest], release)
    for dest in sorted(settings.config_arguments() & spelling.keys()):
        yield from _keys(dest, spelling[dest], release)
        yield from _fields(dest, spelling[dest], release)
    for name in sorted(settings.variables()):
        refusal = settings.bad_variable(name, NO_VALUE, release)
        if refusal is not None:
            good = str(refusal.allowed[0]) if refusal.allowed else "1"
            variables = ({name: NO_VALUE}, {name: good})
            yield Claim("invalid-environment", str(release), LLAMA, "", "", f"{name}|{NO_VALUE}", name, *variables)


NO_KEY, NO_VALUE = "no_such_key", "no-such-value"
NUMBERS = frozenset({
    "int", "float", "human_int", "human_int_or_auto", "optional[int]", "optional[float]", "optional[human_int]",
})  # fmt: skip
"""Types of options (`data/releases.json`, `flags`) that read a number."""


def _bounds(dest: str, flag: str, release: Release) -> Iterator[Claim]:
    """A number below the bounds of an argument, and none."""
    switch = settings.argument_that_enables(dest)
    enabled = f" --{switch.replace('_', '-')}" if switch else ""
    for value in (-1, 0):
        if settings.out_of_bounds(dest, value, release) is not None:
            error = f"{dest}|greater than|Input should be|not supported"
            yield Claim("invalid-flag-value", str(release), LLAMA, f"{flag}={value}{enabled}", enabled, error, flag)
            return


def _keys(dest: str, flag: str, release: Release) -> Iterator[Claim]:
    """An unknown key of each class that a JSON argument fills and that rejects such keys."""
    for above in load("releases")["settings"]["configs"][dest]["strict"]:
        value = _nested(f"{above}.{NO_KEY}".lstrip("."), 1)
        if next(settings.unknown_keys(dest, value, release), None) is not None:
            line = f"{flag} {json.dumps(value, separators=(',', ':'))}"
            yield Claim("unknown-config-key", str(release), LLAMA, line, "", f"{NO_KEY}|[Uu]nexpected", NO_KEY)


def _fields(dest: str, flag: str, release: Release) -> Iterator[Claim]:
    """A wrong value of each key of a JSON argument whose values are known."""
    for path in load("releases")["settings"]["configs"][dest]["fields"]:
        for wrong in (NO_VALUE, -1, 0):
            value, key = _nested(path, wrong), path.rpartition(".")[2]
            if any(one.place == path for one in settings.bad_values(dest, value, release)):
                line = f"{flag} {json.dumps(value, separators=(',', ':'))}"
                yield Claim("invalid-flag-value", str(release), LLAMA, line, "", f"(?i){key}|{wrong}", path)
                break


def _nested(path: str, value: object) -> dict[str, Any]:
    """`a.b` → {"a": {"b": value}}."""
    first, _, rest = path.partition(".")
    return {first: _nested(rest, value) if rest else value}


@cache
def claims(release: Release | None = None) -> tuple[Claim, ...]:
    """All claims; the derived ones are of this release, of the newest that was read by default."""
    return (*written(), *derived(release or newest_read()))


@dataclass(frozen=True)
class Outcome:
    """What vLLM's own code says of a claim."""

    claim: Claim
    problem: str | None
    """What differs; None: as claimed."""
    judged: bool = True
    """vLLM's answer is not a failure of the oracle's own."""


def outcome(claim: Claim, rejected: Mapping[str, Any] | None, accepted: Mapping[str, Any] | None) -> Outcome:
    """Compare vLLM's answers to both lines with the claim. An error that the claim names is an answer in any case."""
    if rejected is None or accepted is None:
        return Outcome(claim, "no answer", judged=False)
    text = "" if rejected["accepted"] else _text(rejected)
    named = bool(text) and re.search(claim.error, text) is not None
    if named and accepted.get("stage") == "probe" and not re.search(claim.error, _text(accepted)):
        return Outcome(claim, None)  # the twin passes the check, and later code needs weights, files or a GPU
    if not accepted["accepted"]:
        problem = f"vLLM rejects the twin {claim.accepted!r} too: {_text(accepted)[:300]}"
        return Outcome(claim, problem, judged=not accepted.get("own"))
    if named:
        return Outcome(claim, None)
    if text:
        return Outcome(claim, f"another error: {text[:300]}", judged=not rejected.get("own"))
    if LATER.intersection((*words(claim.rejected), *map("=".join, claim.rejected_environment.items()))):
        return Outcome(claim, "vLLM looks at it after its configuration stage", judged=False)
    return Outcome(claim, "vLLM accepts it")


LATER = LATER_FLAGS | {"--distributed-executor-backend", "VLLM_USE_V1=0", "VLLM_ATTENTION_BACKEND=FLASHATTN"}
"""Arguments and variables that some release rejects only when the engine is made (vLLM 0.11.0 v1/executor/abstract.py,
entrypoints/openai/api_server.py), or when the model's layers are (vLLM 0.10.1.1 … 0.12 attention/selector.py)."""


def _text(answer: Mapping[str, Any]) -> str:
    """The error on one line, without the usage that argparse prints before it."""
    text = " ".join(str(answer.get("text") or answer["error"]).split())
    return text[text.find(" error: ") + 1 :] if text.startswith("usage: ") else text


def report(release: Release, outcomes: Sequence[Outcome]) -> str:
    """A line on the release, and each claim that differs or that could not be compared."""
    differ = [one for one in outcomes if one.judged and one.problem]
    apart = [one for one in outcomes if not one.judged]
    as_claimed = len(outcomes) - len(differ) - len(apart)
    line = f"{release!s:12} {as_claimed} of {len(outcomes)} as claimed, {len(differ)} differ, {len(apart)} not compared"
    listed = [f"  differs: {one.claim.text}\n    {one.problem}" for one in differ]
    return "\n".join([line, *listed, *(f"  not compared: {one.claim.text}\n    {one.problem}" for one in apart)])


def made(release: Release) -> list[Claim]:
    """The claims that podfit makes about a release."""
    return [claim for claim in claims(release) if claim.is_made(release)]
