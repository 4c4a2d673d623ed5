"""What the rules about flags share: how sure it is that the parser is the one of the table."""

from __future__ import annotations

from webhook import release
from webhook.engine import Engine
from webhook.rule import Certainty


def certainty(engine: Engine) -> Certainty:
    """Certain for a release in the table in vLLM's own image: a fork may know more flags, and so may tomorrow's
    `latest`."""
    image = engine.field("image")
    official = isinstance(image, str) and release.is_official(image)
    return "certain" if official and engine.release is not None else "likely"
