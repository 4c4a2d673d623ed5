"""A text in an editor, checked as `podfit check FILE` checks the file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from podfit.evaluation import suggested
from podfit.evaluation.denial import LEVELS
from podfit.evaluation.policy import Policy
from podfit.report import files, repairs
from podfit.report.checked import Item
from podfit.report.files import CheckedFile, ManifestFile
from podfit.report.rewrite import rewrite
from podfit.vllm.facts import Facts


@dataclass(frozen=True)
class Settings:
    """The settings of a folder's manifests, from a project file or the defaults."""

    policy: Policy
    facts: Facts
    problem: str | None = None
    """Why the project file can't be used; the defaults apply then."""
    note: str | None = None
    """The input that the check lacks, and why."""
    complete: Callable[[], Settings] | None = None
    """Returns the settings with the nodes of the cluster. It may take long; None if nothing is left to read."""


@dataclass(frozen=True)
class Reader:
    """How the command line reads."""

    suffixes: tuple[str, ...]
    """The ends of the names of manifests."""
    settings_of: Callable[[str], Settings]
    """The path of a manifest → what the project file above it says."""
    read: Callable[[str, str, Facts], ManifestFile]
    """Path and text of a manifest → its objects."""


@dataclass(frozen=True)
class Repair:
    """A change of the text that an editor offers."""

    title: str
    item: Item
    text: str
    """The whole text with the change made."""
    is_preferred: bool


@dataclass(frozen=True)
class CheckedText:
    """A text with its findings."""

    text: str
    source: ManifestFile
    settings: Settings
    checked_file: CheckedFile

    @cached_property
    def items(self) -> Sequence[Item]:
        """The findings that are not accepted, the most important first."""
        every = [
            item for container in self.checked_file.containers for item in container.items if item.accepted is None
        ]
        return sorted(every, key=lambda item: (list(LEVELS).index(item.finding.level), item.mark.line))

    def repairs_of(self, item: Item) -> list[Repair]:
        """The repairs of one finding: the repair of `podfit fix`, then each suggestion that a program can write
        and after which the finding is gone and nothing new is found."""
        items = []
        if item.finding.applies and (text := self._fixed(item)) is not None:
            items.append(Repair(f"podfit: repair {item.finding.rule}", item, text, is_preferred=True))
        policy, facts = self.settings.policy, self.source.facts
        for title, change in item.finding.changes:
            edits = suggested.proved_edits(item.document.object, item.result, item.finding, change, policy, facts)
            text = self._rewritten([(item.document.index, suggested.rooted(item.document, edits))]) if edits else None
            if text is not None and text not in [repair.text for repair in items]:
                items.append(Repair(f"podfit: {title}", item, text, is_preferred=False))
        return items

    def _fixed(self, item: Item) -> str | None:
        rules = frozenset({item.finding.rule})
        return self._rewritten(repairs.edits(repairs.repaired(self.source, self.settings.policy, rules, audited=False)))

    def _rewritten(self, edits: suggested.DocumentEdits) -> str | None:
        """The text with the edits; None if it can't be edited in place, or stays as it is."""
        try:
            after = rewrite(self.text, edits)
        except ValueError:
            return None
        return after if after != self.text else None


def check_text(path: str, text: str, settings: Settings, reader: Reader) -> CheckedText:
    """All findings of a text that an editor holds in place of the file at `path`."""
    source = reader.read(path, text, settings.facts)
    return CheckedText(text, source, settings, files.check(source, settings.policy))
