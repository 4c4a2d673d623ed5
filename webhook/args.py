"""argv + release → EngineArgs: typed, with that release's names and defaults, as vLLM's own argparse reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from webhook.command import Command
from webhook.path import FieldPath
from webhook.release import Release


@dataclass(frozen=True)
class UnknownFlag:
    """A flag that this release's parser does not know: vLLM exits with 2 before it loads anything."""

    flag: str
    path: FieldPath
    suggestion: str | None
    """The nearest flag that this release knows ("did you mean"), None where none is near."""
    first: str | None
    last: str | None
    """The first and last release of the table that know it; both None where none does."""


@dataclass(frozen=True)
class ArgumentError:
    """Anything else that makes vLLM's parser give up, in its own words where they are known."""

    message: str
    path: FieldPath
    dest: str | None = None


@dataclass(frozen=True)
class EngineArgs:
    """What vLLM's parser would make of the command line. Field names (`dest`) are vLLM's."""

    release: Release | None
    """The release whose table was used; None: read with every release, only what all agree on is an error."""
    given: Mapping[str, Any] = field(default_factory=dict)
    """dest → typed value, of the options on the command line (and in `--config`)."""
    places: Mapping[str, FieldPath] = field(default_factory=dict)
    """dest → the field its value came from."""
    unresolved: Mapping[str, str] = field(default_factory=dict)
    """dest → why its value can't be known (a command substitution, an unset variable)."""
    unknown: tuple[UnknownFlag, ...] = ()
    errors: tuple[ArgumentError, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """dest → that release's default (of the newest release of the table where the release is unknown)."""

    def get(self, dest: str) -> Any:
        """The value given, else the release's default; None where neither is known."""
        return self.given.get(dest, self.defaults.get(dest))

    @property
    def model(self) -> str | None:
        """The model that is named; None where the command names none (vLLM would serve its own default)."""
        model = self.given.get("model")
        return str(model) if model and "model" not in self.unresolved else None


def parse(command: Command, release: Release | None) -> EngineArgs:
    """Reads `command.words` as the release's parser does; never raises: what vLLM would refuse is in `errors`."""
    raise NotImplementedError
