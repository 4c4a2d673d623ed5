"""Rule argument-string-not-split."""

from __future__ import annotations

import re
from collections.abc import Iterator

from webhook.engine import Engine
from webhook.rule import Finding, Rule
from webhook.rules._flags import certainty, substitute, unsplit

_PLAIN = re.compile(r"[\w./:,%@+-]+")
"""A value that needs no quotes in a shell: one word, and what is meant is clear."""


class ArgumentStringNotSplit(Rule):
    """One item of the argument list holds a flag and its value.

    Kubernetes hands each item of `command` and `args` to the program as one word; no shell splits it. vLLM then looks
    for a flag called `--max-model-len 4096`, finds none, and ends with exit code 2. Write two items, or
    `--max-model-len=4096`.
    """

    plane = "config"
    mode = "deny"

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain in vLLM's own image: no flag has a blank in its name."""
        for index, word in unsplit(engine).items():
            flag, value = word.text.split(maxsplit=1)
            yield Finding(
                path=word.path,
                message=f"{word.text!r} is one word: no shell splits it into flag and value",
                certainty=certainty(engine),
                suggestions=(f"{flag}={value}" if " " not in value else f'two items: "{flag}", "{value}"',),
                fix=substitute(engine, index, 1, f"{flag}={value}") if _PLAIN.fullmatch(value) else (),
            )
