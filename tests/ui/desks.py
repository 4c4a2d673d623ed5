"""What the command would hand to the page, of files that a test writes."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from podfit.cli.support import edge, policies
from podfit.evaluation.policy import builtin
from podfit.ui.desk import Desk, Opened, OpenedFile, ShippedPolicy
from podfit.vllm.facts import Facts

FACTS = Facts(plans_table=True)
"""As the command has them: without a named GPU, the plan is of each GPU."""


def desk(*files: Path) -> Desk:
    """With the default policy, and all policies that podfit ships."""
    sources, problems = edge.read([str(one) for one in files], FACTS)
    opened = Opened([OpenedFile(one, Path(one.name).read_text()) for one in sources], problems)
    return Desk(
        builtin(),
        FACTS,
        lambda: datetime(2026, 1, 1, tzinfo=UTC),
        lambda made: edge.read([], FACTS, made),
        lambda: opened,
        {name: ShippedPolicy(policies.title(name), policies.shipped_text(name)) for name in policies.SHIPPED},
    )
