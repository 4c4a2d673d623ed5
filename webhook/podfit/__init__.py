"""podfit: will this vLLM Pod start, and will it stay up?

`plan` and `check` are for programs (docs/programs.md). They are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from podfit.report.programs import Check, Finding, Plan, check, plan

__all__ = ["Check", "Finding", "Plan", "__version__", "check", "plan"]

__version__ = "0.2.0"


def __getattr__(name: str) -> object:
    """A name of `podfit.report.programs`, which is imported at its first use."""
    if name not in __all__:
        raise AttributeError(f"module 'podfit' has no attribute {name!r}")
    from podfit.report import programs

    return getattr(programs, name)
