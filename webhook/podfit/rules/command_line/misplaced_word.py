from __future__ import annotations

from collections.abc import Iterator

from podfit.rules._flags import TWO_COLONS, certainty, comment, misplaced, substitute, uncertain
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule


class MisplacedWord(Rule):
    """A word among vLLM's arguments belongs somewhere else.

    A flag without its dashes (`gpu-memory-utilization=0.9`, `-- host=0.0.0.0`) is one word too many for vLLM's
    parser, which ends with exit code 2 before it loads anything:

        vllm: error: unrecognized arguments: gpu-memory-utilization=0.9

    In a script, `\\ # note` is not a comment. The backslash makes the blank the first character of a word, and vLLM
    gets the words of the note.

    YAML that is indented too far becomes part of a block scalar: `env:` and all below it are words of the script
    then, and the container has no env. A key with two colons (`args::`) is a field that Kubernetes does not know, and
    the container runs without it.
    """

    plane = "config"
    event = "vLLM exits with code 2"
    mode = "deny"

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain in vLLM's own image if the parser rejects it; otherwise likely, since vLLM may start."""
        entries = engine.once(misplaced)
        words = engine.once(comment)
        refused = {error.index for error in engine.args.errors} if entries or words else set()
        if not refused.isdisjoint(words):
            first = engine.command.words[words[0]]
            yield Finding(
                path=first.path,
                certainty=certainty(engine),
                uncertain=uncertain(engine),
                message="a # after a backslash and a blank does not begin a comment: vLLM gets its words as arguments",
                details=("vLLM ends with exit code 2: unrecognized arguments",),
                suggestions=("move the comment above the command",),
            )
        for index, instead in entries.items():
            word = engine.command.words[index]
            if not instead or index not in refused:
                continue  # a value of the flag before it: --middleware host=…
            yield Finding(
                path=word.path,
                certainty=certainty(engine),
                uncertain=uncertain(engine),
                message=f"{word.text!r} is not a valid flag: its dashes are missing",
                suggestions=(instead,),
                fix=substitute(engine, index, 1, instead),
            )
        if yaml := [engine.command.words[index] for index, instead in entries.items() if not instead]:
            yield Finding(
                path=yaml[0].path,
                certainty="likely",
                message=f"{' '.join(word.text for word in yaml)!r} is YAML that became arguments of vLLM",
                suggestions=("less indentation, so that it is a field of the container again",),
            )
        for key in engine.container.spec:
            if key in TWO_COLONS:
                yield Finding(
                    path=engine.at(key),
                    certainty="likely",
                    message=f"{key!r} is not a field of a container: it has one colon too many",
                    suggestions=(f"{key[:-1]}:",),
                )
