"""What the command hands to the page: the policy, the facts, and how to read files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from podfit.evaluation.policy import Policy
from podfit.evaluation.rehearsal import RehearsedDecision
from podfit.report import files
from podfit.report.files import ManifestFile
from podfit.vllm.facts import Facts


@dataclass(frozen=True)
class OpenedFile:
    """A file of the command line."""

    source: ManifestFile
    text: str

    @cached_property
    def shown(self) -> str:
        """The text without secrets. Dots mask them: YAML would read a value of stars as an alias."""
        return files.masked(self.text, self.source.manifests, "•")


@dataclass(frozen=True)
class Opened:
    """All files of the command line, as they were at one moment, and what can't be read."""

    files: Sequence[OpenedFile] = ()
    problems: Sequence[str] = ()


@dataclass(frozen=True)
class ShippedPolicy:
    """A policy that podfit ships."""

    title: str
    text: str


@dataclass
class Decisions:
    """What policies make of the objects of the opened files, each evaluated once per policy and object."""

    opened: Opened | None = None
    made: dict[str, dict[int, RehearsedDecision]] = field(default_factory=dict)
    """Version of a policy → number of an object → its decision."""

    def of(self, policy: Policy, opened: Opened) -> dict[int, RehearsedDecision]:
        """The decisions of a policy that are made; empty for other files than before. Few policies are kept."""
        if self.opened is not opened or len(self.made) > MOST_POLICIES:
            self.opened, self.made = opened, {}
        return self.made.setdefault(policy.version, {})


MOST_POLICIES = 16
"""Policies whose decisions are kept: a text that is edited is another policy at each pause."""


@dataclass(frozen=True)
class Desk:
    """The command's side of the page."""

    policy: Policy
    facts: Facts
    now: Callable[[], datetime]
    """The clock: what exceptions expire by."""
    read: Callable[[Sequence[tuple[str, bytes]]], tuple[list[ManifestFile], list[str]]]
    """Names and contents, read as files of manifests that know each other, and what can't be read."""
    open: Callable[[], Opened] = Opened
    """The files of the command line."""
    shipped: Mapping[str, ShippedPolicy] = field(default_factory=dict)
    """The policies to choose from, by name."""
    decisions: Decisions = field(default_factory=Decisions)
    """The decisions of the policy tab."""
    gpu: str = ""
    """`--gpu`, for the first configuration."""
