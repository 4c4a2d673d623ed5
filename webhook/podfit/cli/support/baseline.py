"""The findings of a baseline file: `podfit check` accepts them, and `podfit fix` leaves them alone."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from podfit.cli.support import edge
from podfit.report.baseline import VERSION, WithBaseline, with_baseline
from podfit.report.checked import Checked


def add_argument(parser: argparse.ArgumentParser) -> None:
    """Registers --baseline."""
    parser.add_argument("--baseline", type=Path, metavar="FILE", help="findings in it are accepted, new ones are not")


def applied(outcome: Checked, path: Path) -> WithBaseline:
    """The run with the findings of the baseline file accepted. Raises UnusableError if the file is unusable."""
    try:
        known = json.loads(edge.read_text(path))
        if not isinstance(known, dict):
            raise ValueError("expected an object")
        accepted = with_baseline(outcome, known)
    except ValueError as error:
        raise edge.UnusableError(f"--baseline {path}: {error}", 3) from error
    except edge.UnusableError as error:
        raise edge.UnusableError(f"--baseline {error}", 3) from error
    if known["version"] != VERSION:
        edge.tell(
            f"note: {path}: version {known['version']} does not distinguish flags or variables. A new finding may be "
            "accepted in place of an old one. Update it with --write-baseline"
        )
    return accepted
