"""A rule's documentation, made from its class: for the terminal and as Markdown."""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import Any

from podfit.evaluation.denial import PLANES
from podfit.rules.rule import Rule, camel

_FIX = {
    True: "by the webhook and `podfit fix`",
    False: "where a policy says so",
    "certain": "by the webhook where it is certain, and by `podfit fix`",
    "manual": "by `podfit fix`; by the webhook where a policy says `fix: true`",
}
WRONG = "Is a finding wrong? `podfit report FILE > report.json` writes what a bug report needs, without secrets."
_ENDANGERED = {"start": "vLLM's start", "uptime": "vLLM's uptime", "practice": "nothing: a practice"}


def body(rule: type[Rule]) -> str:
    """The docstring below its title."""
    return inspect.cleandoc(rule.__doc__ or "").partition("\n")[2].strip()


def parameters(rule: type[Rule]) -> list[tuple[str, str, str]]:
    """Name as in a policy, default ("none" if it sets nothing), meaning of each parameter."""
    return [
        (camel(field.name), "none" if field.metadata["example"] else str(field.default), field.metadata["description"])
        for field in fields(rule)
    ]


def parameter_lines(rule: type[Rule], indent: str) -> list[str]:
    """Each parameter in YAML with its default; as a comment with an example if the default sets nothing."""
    return [
        f"{indent}# {camel(field.name)}: {example}    # {field.metadata['description']}"
        if (example := field.metadata["example"])
        else f"{indent}{camel(field.name)}: {field.default}    # {field.metadata['description']}"
        for field in fields(rule)
    ]


def text(rule: type[Rule]) -> str:
    """The text of `podfit explain RULE`."""
    out = [
        f"{rule.id()}: {rule.title()}",
        "",
        f"  about      {PLANES[rule.plane]}",
        f"  event      {rule.event}",
        f"  endangers  {_ENDANGERED[rule.threatens]}",
        f"  mode       {rule.mode} by default{', at most a warning where not certain' if rule.mode == 'deny' else ''}",
    ]
    if rule.never_denies:
        out.append(f"  denies     never, also where a policy says so: {rule.never_denies}")
    if has_fix(rule):
        out.append(f"  fix        {_FIX[rule.fix]}")
    out += ["", body(rule), "", "in a policy:", "", policy_snippet(rule), "", WRONG]
    return "\n".join(out)


def tree(rule: type[Rule]) -> dict[str, Any]:
    """A rule's documentation as plain JSON values (docs/schemas/rules.json)."""
    return {
        "rule": rule.id(),
        "title": rule.title(),
        "plane": rule.plane,
        "event": rule.event,
        "highest_level": rule.highest_level(),
        "threatens": rule.threatens,
        "mode": rule.mode,
        "never_denies": rule.never_denies or None,
        "fix": rule.fix if has_fix(rule) else None,
        "parameters": [
            {"name": name, "default": default, "meaning": meaning} for name, default, meaning in parameters(rule)
        ],
        "text": body(rule),
    }


def has_fix(rule: type[Rule]) -> bool:
    """True if the rule's findings can carry a fix: its module, in the class or in a function, builds one."""
    return "fix=" in inspect.getsource(inspect.getmodule(rule) or rule)


def policy_snippet(rule: type[Rule]) -> str:
    """The rule's part of a policy with its defaults."""
    out = ["spec:", "  rules:", f"    {rule.id()}:", f"      mode: {rule.mode}    # {_modes(rule)}"]
    if has_fix(rule):
        out.append(f"      fix: {str(rule.fix).lower()}    # true, certain, manual or false")
    out += parameter_lines(rule, " " * 6)
    return "\n".join(out)


def _modes(rule: type[Rule]) -> str:
    return "warn, audit or ignore" if rule.never_denies else "deny, warn, audit or ignore"


def markdown(rule: type[Rule], examples: list[tuple[str, str]]) -> str:
    """The rule's page in docs/rules/, with the heading and the Markdown of each example."""
    out = [
        f"# {rule.id()}",
        "",
        f"{rule.title()}. Event: {rule.event}.",
        "",
        f"| about | endangers | mode by default | fix |\n| --- | --- | --- | --- |\n| {PLANES[rule.plane]} "
        f"| {_ENDANGERED[rule.threatens]} | `{rule.mode}` | {_FIX[rule.fix] if has_fix(rule) else 'none'} |",
        "",
        body(rule),
        "",
        "## In a policy",
        "",
        *(
            [f"It never denies: with `mode: deny` it still warns, since {rule.never_denies}.", ""]
            if rule.never_denies
            else [f"With `mode: deny` some findings only warn: {rule.partly_denies}.", ""]
            if rule.partly_denies
            else []
        ),
        f"```yaml\n{policy_snippet(rule)}\n```",
    ]
    out += ["", WRONG]
    for heading, example in examples:
        out += ["", f"## {heading}", "", example]
    return "\n".join(out) + "\n"
