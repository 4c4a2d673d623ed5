"""Records of an evaluation: the report on an object, its containers' results, and their findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from podfit.base.lazy import cached_property
from podfit.base.printable import LONGEST, clean, one_line, shortened
from podfit.base.secret import FORMS, Secrets
from podfit.evaluation.lint.consequence import LEVEL_STRENGTH, Consequence, Exemption
from podfit.evaluation.lint.fixes import rewrites_secret
from podfit.kube.patch import Edit
from podfit.kube.path import FieldPath
from podfit.kube.workload import JSON
from podfit.rules.engine import Engine
from podfit.rules.rule import Certainty, Finding, Heading, Level, Mode
from podfit.vllm.change import Change, Suggestion

MAX_SUGGESTION_LENGTH = 4000
"""Maximum characters of a suggestion, which can be a whole command."""
PROBABLY = " (probably fits)"
"""The end of a suggestion that the planner's estimate supports, but not its minimum."""


def printable(text: str, secrets: Secrets) -> str:
    """Return the text for people: masked, as one line without control characters, and of bounded length."""
    masked = secrets.masked(text)
    return masked if len(masked) <= LONGEST and masked.isprintable() else shortened(one_line(masked))


@dataclass(frozen=True, kw_only=True)
class GradedFinding:
    """A finding with its consequence. Each text is masked when it is first read, since most are never printed."""

    rule: str
    plane: str
    threatens: str
    consequence: Consequence = field(repr=False)
    unmasked: Finding = field(repr=False)
    """The finding as its rule yields it. Its texts may contain secrets: only `finding` is for people."""
    object: JSON = field(repr=False, compare=False)
    secrets: Secrets = field(repr=False, compare=False)
    unmasked_notes: tuple[str, ...] = field(default=(), repr=False)
    """Further details: why it is not repaired, and which exemption does not count."""

    @property
    def mode(self) -> Mode:
        """The mode here: the policy's mode, lowered if the finding is not certain."""
        return self.consequence.mode

    @property
    def applies(self) -> bool:
        """The finding's fix is applied: by the webhook if the policy says so, by `podfit fix` unless it forbids."""
        return self.consequence.applies

    @property
    def exempted(self) -> Exemption | None:
        """The reason why a finding is only audited, if it is accepted; `why_softened` names the owner."""
        return self.consequence.exempted

    @property
    def softened_by(self) -> tuple[str, ...]:
        """The names of the doubts that lowered the mode (docs/decisions.md)."""
        return self.consequence.softened_by

    @cached_property
    def message(self) -> str:
        """The finding's message, masked, printable and bounded."""
        return self._printable(self.unmasked.message)

    @cached_property
    def why_softened(self) -> str | None:
        """The reason why the mode is lower than the policy's, for people; None if it is not."""
        return self._printable(self.consequence.reason or "") or None

    @cached_property
    def finding(self) -> Finding:
        """The finding with texts that can be printed: masked, without control characters, bounded."""
        return self.unmasked._replace(
            message=self.message,
            details=tuple(map(self._printable, self._details)),
            suggestions=self.suggestions,
            probable=(),
            propose=None,
            fix=() if self.withheld else self.unmasked.fix,
        )

    @property
    def suggestions(self) -> tuple[str, ...]:
        """The finding's suggestions as texts that can be printed. Those that only probably fit are the last."""
        return (*self.sure_suggestions, *[f"{text}{PROBABLY}" for text in self.probable_suggestions])

    @cached_property
    def sure_suggestions(self) -> tuple[str, ...]:
        """The suggestions other than the probable ones."""
        return tuple(map(self._printable_change, self._suggestions))

    @cached_property
    def probable_suggestions(self) -> tuple[str, ...]:
        """The suggestions that only probably fit, without a remark about that."""
        return tuple(map(self._printable_change, self.unmasked.probable))

    @property
    def changes(self) -> Sequence[tuple[str, Change]]:
        """(text, change) of each suggestion that a program can write. One whose text contains a secret is left out."""
        suggestions = (*self._suggestions, *self.unmasked.probable)  # in the order of `self.suggestions`
        return [
            (text, suggestion)
            for text, suggestion in zip(self.suggestions, suggestions, strict=True)
            if isinstance(suggestion, Change) and not self.secrets.holds(suggestion.text)
        ]

    @cached_property
    def withheld(self) -> bool:
        """The fix is left out, since it would rewrite a text that contains a secret."""
        return rewrites_secret(self.unmasked.fix, self.object, self.secrets)

    @property
    def masked(self) -> bool:
        """Its texts contain stars in place of secrets."""
        changes = map(str, (*self._suggestions, *self.unmasked.probable))
        texts = (self.unmasked.message, *self._details, *changes, self.consequence.reason or "")
        return any(map(self.secrets.holds, texts))

    @property
    def notes(self) -> Sequence[str]:
        """The last of the finding's details."""
        return [self._printable(note) for note in self.unmasked_notes]

    @property
    def _details(self) -> Sequence[str]:
        """The rule's details, then why there is no fix, then the notes; not masked."""
        withheld = ("not repaired: the text contains a secret",) if self.withheld else ()
        return (*self.unmasked.details, *withheld, *self.unmasked_notes)

    @cached_property
    def _suggestions(self) -> Sequence[Suggestion]:
        """The suggestions other than the probable ones, with the one that is computed only when it is needed."""
        finding = self.unmasked
        return finding.suggestions if finding.propose is None else (*finding.suggestions, finding.propose())

    def _printable(self, text: str) -> str:
        return printable(text, self.secrets)

    def _printable_change(self, suggestion: Suggestion) -> str:
        return shortened(clean(self.secrets.masked(str(suggestion))), MAX_SUGGESTION_LENGTH)

    @property
    def is_softened(self) -> bool:
        """There is a `why_softened`."""
        return self.consequence.reason is not None

    @property
    def certainty(self) -> Certainty:
        """The finding's certainty."""
        return self.unmasked.certainty

    @property
    def topic(self) -> str | None:
        """The finding's subject, of a rule with several."""
        return self.unmasked.topic

    @property
    def field_path(self) -> FieldPath:
        """The place of the finding."""
        return self.unmasked.path

    @property
    def level(self) -> Level:
        """The level of the finding under the policy in force, at most that which the doubts leave.

        `likely` means that by podfit's own numbers the container more probably fails (start, restart, eviction, denied
        requests) than not. A failure that is only possible is advice."""
        if self.mode == "deny":
            return "denied"
        is_likely = self.threatens in ("start", "uptime") and self.certainty in ("certain", "likely")
        level: Level = "likely" if is_likely else "advice"
        return min(level, self.consequence.level_at_most, key=LEVEL_STRENGTH.__getitem__)

    @property
    def would(self) -> Mode:
        """The mode if the policy enforced: without the limit of `enforce.mode`."""
        return self.consequence.unlimited or self.mode

    @property
    def heading(self) -> Heading:
        """The heading under which reports show it."""
        only_limit_allows = self.would == "deny" and self.mode != "deny"
        return "would_deny" if only_limit_allows else self.level

    @property
    def is_reported(self) -> bool:
        """True if it is reported without being asked for: it denies or warns, or would if the policy enforced."""
        return self.would in ("deny", "warn")

    @property
    def path(self) -> str:
        """The field path, for people."""
        return shortened(clean(str(self.field_path)))


class RuleError(NamedTuple):
    """A failure of a rule, or of the reading of a container: podfit's fault, never the user's."""

    rule: str
    error: str

    @classmethod
    def of(cls, rule: str, error: Exception) -> RuleError:
        """The failure as it is logged and counted."""
        return cls(rule, f"{type(error).__name__}: {error}")


class Result(NamedTuple):
    """One vLLM container, evaluated."""

    engine: Engine
    findings: tuple[GradedFinding, ...]

    @property
    def denied(self) -> bool:
        """A finding is denied."""
        return any(finding.mode == "deny" for finding in self.findings)

    @property
    def edits(self) -> tuple[Edit, ...]:
        """The fixes that the policy applies."""
        return tuple(edit for finding in self.findings if finding.applies for edit in finding.unmasked.fix)


class Shadow(NamedTuple):
    """The result for an object under a policy that is only counted."""

    policy: str
    results: tuple[Result, ...]

    @property
    def denied(self) -> bool:
        """The object would be denied."""
        return any(result.denied for result in self.results)

    @property
    def would_deny(self) -> bool:
        """The object would be denied without the limit of `enforce.mode`."""
        return any(finding.would == "deny" for finding in self.findings)

    @property
    def findings(self) -> tuple[GradedFinding, ...]:
        """All findings of all containers."""
        return tuple(finding for result in self.results for finding in result.findings)


@dataclass(frozen=True)
class Report:
    """One object, evaluated."""

    object: JSON
    results: tuple[Result, ...]
    errors: tuple[RuleError, ...]
    shadows: tuple[Shadow, ...] = ()
    secrets: Secrets = field(default=FORMS, compare=False)
    """The secrets of the object and of its containers' commands, to mask every other text about it."""
    unread: str | None = None
    """The part of the object that is not evaluated, for people: it is larger than any that runs. None if all is."""

    @property
    def metadata(self) -> JSON:
        """The object's metadata; empty if it is not a mapping."""
        metadata = self.object.get("metadata")
        return metadata if isinstance(metadata, Mapping) else {}

    @property
    def denied(self) -> bool:
        """The object is denied."""
        return "deny" in [finding.mode for finding in self.findings]

    @property
    def would_deny(self) -> bool:
        """The object is denied, or only `enforce.mode` keeps it from being denied."""
        return "deny" in [finding.would for finding in self.findings]

    @property
    def edits(self) -> tuple[Edit, ...]:
        """All fixes that the policy applies."""
        return tuple(edit for result in self.results for edit in result.edits)

    @cached_property
    def findings(self) -> tuple[GradedFinding, ...]:
        """All findings of all containers."""
        return tuple([finding for result in self.results for finding in result.findings])
