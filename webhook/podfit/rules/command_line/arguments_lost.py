from __future__ import annotations

from collections.abc import Iterator

from podfit.base.printable import shortened
from podfit.rules._flags import dropped, misplaced, unsplit
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule


class ArgumentsLost(Rule):
    """Arguments never reach vLLM: words after a script, lines after a comment, a module's positional.

    In `command: [sh, -c, "vllm serve MODEL", --max-model-len, "8192"]` the words after the script become $0, $1 …;
    vLLM starts without them, and no log line shows it.

    A comment between the lines of a command ends the command, even if the line before it ends with a backslash:

        vllm serve MODEL \\
          --max-model-len 8192 \\
          # --enforce-eager \\
          --gpu-memory-utilization 0.5

    From 0.10 on, `python -m vllm.entrypoints.openai.api_server` accepts a positional argument, `model_tag`, and ignores
    it: a flag without its dashes, or a value that stands alone, changes nothing.
    """

    plane = "config"
    event = "vLLM starts without some of the arguments"
    threatens = "practice"

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain, and never fatal by itself: vLLM starts with its defaults."""
        lost = engine.command.lost
        if lost:
            words = " ".join(word.text for word in lost)
            yield Finding(
                path=lost[0].path,
                message=f"{len(lost)} word{'s' if len(lost) > 1 else ''} after the script of `sh -c` never "
                f"reach{'es' if len(lost) == 1 else ''} vLLM: {words!r}",
                yields_to=("unquoted-value", "misplaced-word"),
                suggestions=('put them into the script, or end it with "$@" and start the list with --',),
            )
        cut_off = engine.command.cut_off
        if cut_off:
            flags = [word.text.partition("=")[0] for word in cut_off if word.text.startswith("-")]
            yield Finding(
                path=cut_off[0].path,
                message=f"the command ends before {shortened(', '.join(flags))}: vLLM starts without",
                details=("a comment between its lines, or a blank after a backslash, ends a command in a shell",),
                suggestions=("move the comment above the command, and end each of its lines with a backslash",),
            )
        ignored = dropped(engine)
        if ignored is not None and engine.args.served and ignored not in engine.once(unsplit).values():
            index = engine.command.words.index(ignored)
            meant = engine.once(misplaced).get(index)
            yield Finding(
                path=ignored.path,
                message=f"{ignored.text!r} is ignored: the api_server module serves --model {engine.args.served}",
                details=("its parser takes the word for the positional model_tag, which the module never reads",),
                suggestions=(meant,) if meant else (),
            )
