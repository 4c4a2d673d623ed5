"""Rule conflicting-flags."""

from __future__ import annotations

from collections.abc import Iterator

from webhook.engine import Engine
from webhook.rule import Finding, Rule


class ConflictingFlags(Rule):
    """A flag needs another one that is not given.

    vLLM checks some flags against each other when it has parsed them, before it loads anything
    (entrypoints/openai/cli_args.py, validate_parsed_serve_args):

        TypeError: Error: --enable-auto-tool-choice requires --tool-call-parser
    """

    plane = "config"
    mode = "deny"

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Likely: not every release and entry point checks the same pairs."""
        for conflict in engine.args.conflicts:
            yield Finding(path=conflict.path, message=conflict.message.removeprefix("Error: "), certainty="likely")
