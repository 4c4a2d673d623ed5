"""Rule invalid-flag-value."""

from __future__ import annotations

from collections.abc import Iterator

from webhook.engine import Engine
from webhook.rule import Finding, Rule
from webhook.rules._flags import certainty, explained


class InvalidFlagValue(Rule):
    """vLLM's parser refuses an argument.

    A value of the wrong type, a word that belongs to no flag, a missing value: the parser ends with exit code 2
    before it loads anything, for example

        vllm: error: argument --max-num-seqs: invalid int value: '1k'
    """

    plane = "config"
    mode = "deny"

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain in vLLM's own image: read with that release's own grammar."""
        for error in engine.args.errors:
            if error.path in explained(engine):
                continue
            yield Finding(
                path=error.path,
                certainty=certainty(engine),
                message=error.message,
                details=(f"vLLM {engine.release or ''} ends with exit code 2 before it loads anything",),
            )
