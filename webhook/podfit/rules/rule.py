"""The base class of rules. A rule is one small file of `webhook/podfit/rules/`. Its name is its id, its docstring its
documentation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from podfit.kube.patch import Edit
from podfit.kube.path import FieldPath
from podfit.vllm.change import Suggestion

if TYPE_CHECKING:
    from podfit.rules.engine import Engine

Mode = Literal["deny", "warn", "audit", "ignore"]
Plane = Literal["gpu", "host", "config", "network", "storage", "cluster"]
Certainty = Literal["certain", "likely", "possible"]
Place = Literal["admission", "check", "scan"]
Fix = Literal[True, False, "certain", "manual"]
"""The part of podfit that applies a rule's fix. The mutating webhook always applies a fix of `True`, and one of
`"certain"` if the finding is certain. It never applies one of `False` or `"manual"`. `podfit fix`, whose diff the
author reads, applies all except those of `False`."""
Threat = Literal["start", "uptime", "practice"]
Level = Literal["denied", "likely", "advice"]
"""The meaning of a finding for its reader: denied here, likely to fail, or advice."""
Heading = Literal["denied", "would_deny", "likely", "advice"]
"""A finding's level; would_deny: a denial without the limit of `enforce.mode`."""


FACTS: dict[str, tuple[str, ...]] = {
    "model": ("model",),
    "gpu": ("gpu",),
    "release": (),
    "vllm_args": (),
    "plan.gpu": ("model", "gpu"),
    "plan.host": ("model",),
    "plan.startup": ("model", "gpu"),
}
"""A need of a rule → the facts of the engine that it is made of."""
FACT_GETTERS = {name: attrgetter(name) for name in FACTS}
"""A need of a rule, or a fact → what reads it from an engine."""

IGNORE = "podfit.dev/ignore."
"""An author's annotation: this and a rule's id, with the reason as its value (`podfit.evaluation.lint.exemptions`)."""


class Finding(NamedTuple):
    """Something wrong at one place of the object, as a rule yields it."""

    path: FieldPath
    message: str
    """One line: what is, what is needed. Numbers with units, the offending value quoted, no full stop."""
    details: tuple[str, ...] = ()
    """Further lines: the arithmetic."""
    certainty: Certainty = "certain"
    """Only "certain" may deny; the engine turns the others into warnings."""
    uncertain: str | None = None
    """Why the finding is not certain, as text; None if it is certain, or if the message has the reason."""
    fillable: str | None = None
    """The tool that may still replace it before an API server sees it, for people: at most a warning where files are
    evaluated; None if nothing may."""
    advice: bool = False
    """The finding is only information: `audit` if the rule's mode is `warn`."""
    suggestions: tuple[Suggestion, ...] = ()
    """Changes, each enough by itself."""
    probable: tuple[Suggestion, ...] = ()
    """More changes, which the planner's estimate supports, but not its minimum."""
    propose: Callable[[], Suggestion] | None = None
    """Return one more suggestion. It takes long, and is called only if the suggestions are shown."""
    computed: bool = False
    """The planner that found the fault computed that each suggestion fits."""
    yields_to: tuple[str, ...] = ()
    """Rules that report the same cause better: the finding is left out if one of them reports it at least as strongly
    under the policy in force."""
    presumes: str | None = None
    """A rule whose problem hides this one until it is fixed. The finding's mode is at most that rule's in the same
    container under the policy in force."""
    rests_on: tuple[str, ...] | None = None
    """The facts that the finding is based on, instead of all of `Rule.needs`.

    It is empty if a rule needs a ledger, but this finding follows from the arguments alone. It names a fact that the
    rule uses without needing it."""
    topic: str | None = None
    """The subject of the finding, of a rule with several. An update is not denied for a subject for which the object
    was denied before, wherever the finding was."""
    unknown_name: bool = False
    """It is about a flag, a key or a value that no release that was read knows, and that a newer one may."""
    of_vllm: bool | None = None
    """Instead of `Rule.of_vllm`, for a rule that has findings of both kinds."""
    fix: tuple[Edit, ...] = ()
    """Edits that repair it. It is proved that with these edits the finding is gone and no new finding appears."""


def lines(*texts: str | None) -> tuple[str, ...]:
    """`texts` without None and empty ones, in their order: for details that only some findings have."""
    return tuple(text for text in texts if text)


Form = Literal["gpu", "release", "model"]
"""The kind of name that a text in a policy is: a GPU (`l4`), a vLLM release (`0.27`, `0.27.1`), models (`Qwen/*`)."""


def parameter(default: Any, description: str, *, example: str = "", form: Form | None = None, **bounds: float) -> Any:
    """A field that a policy may set: of a rule, or of a dataclass that is such a field.

    - `default`: its value without a policy; MISSING if a policy must give one
    - `description`: for the documentation, with the unit
    - `example`: its value in YAML, for the documentation of a field whose default is to set nothing
    - `form`: the kind of name that its texts are; None if they are not names
    - `bounds`: pydantic's (`ge`, `gt`, `le`, `lt`, `min_length`)

    A tuple of dataclasses that have a field `gpus` is a value for each GPU: a policy may write one instead of a list
    (`podfit.evaluation.policy.shape`).
    """
    return field(default=default, metadata={"description": description, "example": example, "form": form, **bounds})


def camel(name: str) -> str:
    """A field's name as a policy spells it: `shared_maximum` → `sharedMaximum`."""
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)


@dataclass(frozen=True)
class Rule:
    """Base of every rule. The fields of a subclass are its parameters: what a policy may set.

    A plain dataclass: pydantic reads the fields where a policy is loaded (`evaluation.policy.document`), and the many
    starts without a policy need not wait for it.
    """

    plane: ClassVar[Plane]
    event: ClassVar[str]
    """The failure of the container or of its requests if the finding is right, as a clause without a full stop."""
    threatens: ClassVar[Threat] = "start"
    """The loss: vLLM does not start, does not stay up, or a practice that operators want is not followed. Only the
    first two can make a finding `likely to fail`: the event is then more probable than not. What may happen one day,
    under another load or on another node, is a practice."""
    mode: ClassVar[Mode] = "warn"
    """The default mode, which a policy may change."""
    never_denies: ClassVar[str | None] = None
    """Why no finding of this rule is ever certain, so that even `mode: deny` only warns; None if one can be certain."""
    fix: ClassVar[Fix] = "manual"
    """When the webhook applies the rule's fix, if it has one; a policy may change it."""
    of_vllm: ClassVar[bool] = True
    """vLLM decides whether the finding's event happens, not Kubernetes, the kubelet or the GPU's driver. Of a release
    newer than was read, such a finding is at most likely."""
    by_release: ClassVar[bool] = False
    """The findings depend on the release. Where that is unknown, the rule is evaluated for the releases that the image
    may contain (`podfit.rules.releases`)."""
    of_parser: ClassVar[bool] = False
    """The finding is about a flag or a value that the release does not know. A patch release may add some, so only a
    release whose parser is known can make it certain."""
    where: ClassVar[frozenset[Place]] = frozenset({"admission", "check", "scan"})
    needs: ClassVar[tuple[str, ...]] = ()
    """Attributes of Engine that must not be None (words of FACTS). The engine skips the rule otherwise, and denies
    nothing that rests on a fact of theirs which may only inform."""
    mute_for: ClassVar[tuple[str, ...]] = ()
    """Words of `Workload.completes` that silence the rule: the operator fills in what seems to be absent."""
    forbids: ClassVar[bool] = False
    """A finding says that the object has what a policy forbids, not that vLLM fails. A command that is not read whole,
    zero replicas and another server after this one do not soften it."""
    partly_denies: ClassVar[str | None] = None
    """The findings of the rule that only warn, also with `mode: deny`, and why; None if each kind can be certain."""
    of_unnamed: ClassVar[bool] = False
    """The rule also checks a container whose command is not read, and of which nothing else says that it runs vLLM."""

    @classmethod
    @cache
    def id(cls) -> str:
        """The rule's id: its module's name with dashes."""
        return cls.__module__.rpartition(".")[2].replace("_", "-")

    @classmethod
    def title(cls) -> str:
        """The first line of the docstring."""
        return (cls.__doc__ or "").strip().splitlines()[0].rstrip(".")

    @classmethod
    def highest_level(cls) -> Level:
        """The highest level that one of its findings can have by default (`evaluation.lint.GradedFinding.level`)."""
        if cls.mode == "deny":
            return "denied"
        return "advice" if cls.threatens == "practice" else "likely"

    @classmethod
    def has_a_say(cls, where: Place, unknown: frozenset[str], completes: frozenset[str]) -> bool:
        """True if the rule is evaluated in the place `where` for such an engine.

        - `unknown`: the names in FACTS whose value is unknown
        - `completes`: the fields that the operator fills in

        Raises KeyError if the rule needs a name that is not in FACTS."""
        if unheard_of := set(cls.needs) - FACTS.keys():
            raise KeyError(*unheard_of)
        return where in cls.where and unknown.isdisjoint(cls.needs) and completes.isdisjoint(cls.mute_for)

    def remarks(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """(the field's path below the rule, remark) of parameters that an admin should reconsider."""
        return iter(())

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Yields what is wrong. Pure: no logging, no clock, no environment, no network."""
        raise NotImplementedError
