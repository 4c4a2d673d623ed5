"""What the rules about flags share: how sure it is that the parser is the one of the table, and whose word it is."""

from __future__ import annotations

import re

from webhook import release
from webhook.command import Word
from webhook.engine import Engine
from webhook.path import FieldPath
from webhook.rule import Certainty

_UNSPLIT = re.compile(r"--?[A-Za-z][\w.-]*\s+\S.*", re.DOTALL)


def certainty(engine: Engine) -> Certainty:
    """Certain for a release in the table in vLLM's own image, or in one that the policy vouches for: a fork may know
    more flags, and so may tomorrow's `latest`."""
    image = engine.field("image")
    official = engine.vouched or (isinstance(image, str) and release.is_official(image))
    return "certain" if official and engine.release is not None else "likely"


def unsplit(engine: Engine) -> list[Word]:
    """Words of a list that hold a flag and its value. In a script the shell has split them."""
    if engine.command.shell:
        return []
    return [word for word in engine.command.words if not word.unknown and _UNSPLIT.fullmatch(word.text)]


def explained(engine: Engine) -> set[FieldPath]:
    """Places whose trouble another rule explains better: unsplit words, an entrypoint that is repeated."""
    paths = {word.path for word in unsplit(engine)}
    return {*paths, *(word.path for word in engine.command.words)} if engine.command.repeated else paths
