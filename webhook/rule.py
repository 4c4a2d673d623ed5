"""What a rule is: one small file of `webhook/rules/`, whose name is its id and whose docstring is its documentation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from webhook.patch import Edit
from webhook.path import FieldPath

if TYPE_CHECKING:
    from webhook.engine import Engine

Mode = Literal["deny", "warn", "audit", "ignore"]
Plane = Literal["gpu", "host", "config", "network", "storage", "cluster"]
Certainty = Literal["certain", "likely", "possible"]
Place = Literal["admission", "check", "scan"]


@dataclass(frozen=True)
class Finding:
    """Something wrong at one place of the object, as a rule yields it."""

    path: FieldPath
    message: str
    """One line: what is, what is needed. Numbers with units, the offending value quoted, no full stop."""
    details: tuple[str, ...] = ()
    """Further lines: the arithmetic."""
    certainty: Certainty = "certain"
    """Only "certain" may deny; the engine turns the others into warnings."""
    suggestions: tuple[str, ...] = ()
    """Changes that would fit, each enough by itself."""
    fix: tuple[Edit, ...] = ()
    """Edits that repair it. A claim with a proof: applied, the finding is gone and nothing new appears."""


class Rule(BaseModel):
    """Base of every rule. Pydantic fields of a subclass are what a policy may set."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    plane: ClassVar[Plane]
    mode: ClassVar[Mode] = "warn"
    """The mode where no policy says otherwise."""
    fix: ClassVar[bool] = False
    """Whether the mutating webhook applies the rule's fix where no policy says otherwise."""
    where: ClassVar[frozenset[Place]] = frozenset({"admission", "check", "scan"})
    needs: ClassVar[tuple[str, ...]] = ()
    """Attributes of Engine that must not be None: "model", "gpu", "plan.gpu", "plan.host", "plan.startup", "release".
    The engine skips the rule otherwise, and takes `may_deny` from the facts among them."""
    mute_for: ClassVar[tuple[str, ...]] = ()
    """Words of `Workload.completes` that silence the rule: the operator fills in what seems to be absent."""

    @classmethod
    def id(cls) -> str:
        """The rule's id: its module's name with dashes."""
        return cls.__module__.rpartition(".")[2].replace("_", "-")

    @classmethod
    def title(cls) -> str:
        """The first line of the docstring."""
        return (cls.__doc__ or "").strip().splitlines()[0].rstrip(".")

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Yields what is wrong. Pure: no logging, no clock, no environment, no network."""
        raise NotImplementedError
