"""Rule arguments-lost."""

from __future__ import annotations

from collections.abc import Iterator

from webhook.rules.engine import Engine
from webhook.rules.rule import Finding, Rule


class ArgumentsLost(Rule):
    """Arguments after the script of `sh -c` never reach vLLM.

    In `command: [sh, -c, "vllm serve MODEL", --max-model-len, "8192"]` the words after the script become $0, $1 …;
    vLLM starts without them and nothing says so.
    """

    plane = "config"
    threatens = "practice"
    mode = "warn"
    about = ("words that are lost",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain, and never fatal by itself: vLLM starts with its defaults."""
        lost = engine.command.lost
        if lost:
            words = " ".join(word.text for word in lost)
            yield Finding(
                path=lost[0].path,
                message=f"{len(lost)} word{'s' if len(lost) > 1 else ''} after the script of `sh -c` never "
                f"reach{'es' if len(lost) == 1 else ''} vLLM: {words!r}",
                suggestions=('put them into the script, or end it with "$@" and start the list with --',),
            )
