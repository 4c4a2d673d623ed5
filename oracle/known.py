"""Differences that remain, and why; the table in docs/oracle.md is made of the same reasons."""

from __future__ import annotations

from collections.abc import Sequence

KNOWN: Sequence[tuple[str, str]] = ()
"""Pattern of `kind: text [model arguments]` → why podfit differs there."""
