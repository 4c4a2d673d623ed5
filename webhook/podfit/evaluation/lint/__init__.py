"""The pure function behind the webhook, `podfit check` and everything else: object + policy + facts → Report.

- `containers`: reads the vLLM containers of the object, within a limit of work.
- `evaluate`: checks them with the rules that apply. What follows from a finding begins with its rule's mode.
- `doubts`: the table of everything that can lower it, in order. docs/decisions.md has the same table.
- `steps`: what looks at all findings of a container, after the doubts about each and before those of an update.
- `consequence`, `results`: the records.
- `fixes`, `exemptions`, `update`, `facts`: what the table asks.

Not here: repairs (`repair`), and the texts of denials and warnings (`denial`, `review`).
"""

from __future__ import annotations

from podfit.evaluation.lint.evaluate import MAX_FINDINGS_PER_OBJECT, lint
from podfit.evaluation.lint.results import GradedFinding, Report, Result, RuleError, Shadow

__all__ = ["MAX_FINDINGS_PER_OBJECT", "GradedFinding", "Report", "Result", "RuleError", "Shadow", "lint"]
