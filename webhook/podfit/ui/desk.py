"""The inputs of the page from the command: the policy, the facts, and how to read files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from itertools import takewhile

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
    def masked_text(self) -> str:
        """The text without secrets. Dots mask them: YAML would read a value of stars as an alias."""
        return files.masked(self.text, self.source.manifests, "•")


@dataclass(frozen=True)
class Opened:
    """All files of the command line, as they were at one moment, and what can't be read."""

    files: Sequence[OpenedFile] = ()
    problems: Sequence[str] = ()

    @cached_property
    def folder(self) -> str:
        """The folder that all files are in, with a slash at its end; "" if there is none."""
        folders = [file.source.name.split("/")[:-1] for file in self.files]
        levels = zip(*folders, strict=False)  # of each depth, the folders of all files
        common = [parts[0] for parts in takewhile(lambda parts: len(set(parts)) == 1, levels)]
        return "/".join([*common, ""]) if common else ""


@dataclass(frozen=True)
class ShippedPolicy:
    """A policy that podfit ships."""

    title: str
    text: str


@dataclass
class Decisions:
    """The decisions of policies on the objects of the opened files, each evaluated once per policy and object."""

    opened: Opened | None = None
    by_policy: dict[str, dict[int, RehearsedDecision]] = field(default_factory=dict)
    """Version of a policy → number of an object → its decision."""

    def of(self, policy: Policy, opened: Opened) -> dict[int, RehearsedDecision]:
        """The decisions of a policy that are made; empty for other files than before. Few policies are kept."""
        if self.opened is not opened or len(self.by_policy) > MOST_POLICIES:
            self.opened, self.by_policy = opened, {}
        return self.by_policy.setdefault(policy.version, {})


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
    is_example: bool = False
    """The files are podfit's examples, since the command line names none."""
