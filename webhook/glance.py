"""What one glance at an engine tells: enough to know of most rules that they have nothing to say of it."""

from __future__ import annotations

from operator import attrgetter

from webhook.args import settings
from webhook.engine import Engine
from webhook.path import mapping
from webhook.rule import FACTS
from webhook.rules._flags import TWO_COLONS, has_a_blank, has_a_sign

FACT = {name: attrgetter(name) for name in FACTS}
"""A word of FACTS → what the engine knows of it."""
_ALL = attrgetter(*FACTS)


def unknown(engine: Engine) -> frozenset[str]:
    """The words of FACTS that nothing is known of."""
    return frozenset([name for name, known in zip(FACTS, _ALL(engine), strict=True) if known is None])


def shown(engine: Engine) -> list[str]:
    """What a rule may be about (`Rule.about`): the object's kind; fields of the Pod, the container and its resources,
    arguments that are given and variables, each by its name; and whatever is true of these words."""
    command, args, spec = engine.command, engine.args, engine.container.spec
    words = (
        ("a shell", command.shell),
        ("words that are lost", command.lost),
        ("a slip", command.slip),
        ("a blank in a word", has_a_blank(engine)),
        ("a sign in a word", has_a_sign(engine)),
        ("a field with two colons", not TWO_COLONS.isdisjoint(spec)),
        ("a second entrypoint", command.repeated),
        ("unknown flags", args.unknown or args.unheard),
        ("conflicts", args.conflicts),
        ("a config", not settings.configs().isdisjoint(args.given)),
        ("a variable that is checked", not settings.variables().isdisjoint(command.env)),
        ("vLLM's CPU backend", engine.on_processors),
        ("another engine", len(engine.siblings) > 1),
        ("live nodes", engine.placement),
        ("a volume at /dev/shm", engine.shm.mounted),
    )
    said = [word for word, there in words if there]
    resources = mapping(spec.get("resources"))
    return [*said, engine.workload.kind, *engine.workload.spec, *spec, *resources, *args.given, *command.env]
