from __future__ import annotations

from collections.abc import Iterator

from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule


class ScriptTooComplex(Rule):
    """The container's script or command line is too long or too deeply nested to be read.

    podfit follows a command line or a script to the command that starts vLLM. To keep the webhook responsive, it gives
    up on

    - more than 64 words before vLLM (the variables of `env A=b` do not count),
    - more than 512 words if none of these starts a server,
    - a script of more than 16,384 characters,
    - statements nested more than 50 deep (a function that calls itself, for example),
    - loops and branches that take too many steps.

    podfit then does not know whether and how the script starts vLLM, and checks none of vLLM's arguments. Start vLLM in
    `command`, or in a short script. Prepare the container in an init container or in a file of the image.

    If neither the command nor the image mentions vLLM, the container gets this finding only if it requests an
    accelerator. No other rule checks it.
    """

    plane = "config"
    event = "podfit checks only a part of the command"
    threatens = "practice"
    never_denies = "podfit does not know what the script starts"
    of_unnamed = True

    def check(self, engine: Engine) -> Iterator[Finding]:
        """One finding per container."""
        why = engine.command.unread
        if why is not None:
            checked = (
                "whether it starts vLLM is not known" if engine.command.unnamed else "vLLM's arguments are not checked"
            )
            yield Finding(
                path=engine.command.script_path or engine.command.path,
                message=f"{engine.command.program} is too complex to read: {why}; {checked}",
                certainty="possible",
                suggestions=("start vLLM in command, or in a shorter script",),
            )
