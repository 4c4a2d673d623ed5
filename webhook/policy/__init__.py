"""Policies: which rules, in which mode, with what parameters.

`Policy` and what no policy means stand here; `document` reads Kubernetes-shaped YAML, and is imported (with pydantic)
only where there is some.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property
from typing import Literal

from webhook.args import Releases
from webhook.gpu import Accelerator
from webhook.rule import Fix, Mode, Rule
from webhook.rules import all_rules


@dataclass(frozen=True)
class Setting:
    """What a policy says of one rule."""

    rule: Rule
    """The rule with its parameters."""
    mode: Mode
    fix: Fix


@dataclass(frozen=True)
class Enforce:
    """Whom a denial may hit."""

    owned_pods: Literal["warn", "deny"] = "warn"
    """A Pod that a controller made: denied only where a policy wants a node drain to be able to become an outage."""


@dataclass(frozen=True)
class Assume:
    """What holds where nothing else says it."""

    gpu: Accelerator | None = None
    """The GPU of a Pod that names none, in a cluster of one kind: it informs, and denies nothing."""
    nodes: Literal["open", "closed"] = "open"
    """closed: no node will come that is not there now (no autoscaler, no Karpenter, no Kueue), so that what the nodes'
    labels say may deny."""
    download_rate: int | None = None
    """Bytes a second that a model's download reaches in this cluster; None: what hubs are seen to give."""


@dataclass(frozen=True)
class Policy:
    """All that the rules are judged by."""

    name: str
    settings: Mapping[str, Setting]
    """Rule id → setting; every rule is there."""
    enforce: Enforce = field(default_factory=Enforce)
    mutate_workloads: bool = False
    """Patch workloads too, not only Pods (GitOps tools compare workloads with their source)."""
    assume: Assume = field(default_factory=Assume)
    releases: Releases = field(default_factory=Releases)
    """vLLM releases: which images hold them, and those that the package's table lacks."""
    trust_mutation: bool = False
    """A workload whose Pods the mutating webhook would repair is not denied."""

    @cached_property
    def version(self) -> str:
        """A short hash of everything the policy says, for audit annotations and metrics."""
        import hashlib  # here: `podfit check` asks for no version

        said = [
            (rule_id, setting.mode, str(setting.fix), asdict(setting.rule))
            for rule_id, setting in sorted(self.settings.items())
        ]
        rest = (self.enforce, self.assume, self.mutate_workloads, self.trust_mutation, self.releases)
        return hashlib.sha256(repr((said, rest)).encode()).hexdigest()[:12]


class PolicyError(ValueError):
    """A policy that can't be used; `problems` are lines `file:line: path: message`."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


@cache
def builtin() -> Policy:
    """What no policy at all means: every rule with its own defaults."""
    settings = {rule_id: Setting(rule(), rule.mode, rule.fix) for rule_id, rule in all_rules().items()}
    return Policy("default", settings)


def load(texts: Iterable[tuple[str, str]]) -> Policy:
    """The policies in `texts` (name of the file, its text) over the built-in one.

    They apply in ascending `spec.order`, then by name; a later one overrides an earlier one rule by rule, parameter by
    parameter. Raises PolicyError with every problem of every file.
    """
    from webhook.policy import document

    return document.load(texts, builtin())
