from __future__ import annotations

from collections.abc import Iterator

from podfit.kube.patch import Edit
from podfit.rules._flags import certainty, uncertain
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule
from podfit.vllm.release import Release

SERVES = Release(0, 11, 1)
"""From this release on the image's entrypoint is `vllm serve`, before the module (docker/Dockerfile)."""


class EntrypointRepeated(Rule):
    """The args start vLLM a second time; the image's entrypoint already starts it.

    `args` replace an image's CMD, not its ENTRYPOINT. That of vllm/vllm-openai is `vllm serve` (up to v0.11.0
    `python3 -m vllm.entrypoints.openai.api_server`), so `args: [vllm, serve, MODEL]` runs `vllm serve vllm serve
    MODEL`:

        vllm: error: unrecognized arguments: serve MODEL

    `args: [serve, MODEL]` fails in the same way. vLLM takes `serve` for the model.

    Put the whole line into `command`, or only the model and its flags into `args`.
    """

    plane = "config"
    event = "vLLM exits with code 2"
    mode = "deny"

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain for vLLM's own image, whose entrypoint is known."""
        if engine.command.repeated:
            yield Finding(
                path=engine.at("args", 0),
                message=f"the entrypoint of {engine.field('image')} starts vLLM already; the args start it again",
                certainty=certainty(engine),
                uncertain=uncertain(engine),
                suggestions=_changes(engine),
                fix=_fix(engine),
            )


STARTS = (
    ("vllm", "serve"),
    ("serve",),
    ("python3", "-m", "vllm.entrypoints.openai.api_server"),
    ("python", "-m", "vllm.entrypoints.openai.api_server"),
)
"""Words that start the server, as examples have them."""


def _changes(engine: Engine) -> tuple[str, ...]:
    """Other args, or the same words as the command. `serve` alone is not a program."""
    if engine.at("args", 0).get(engine.workload.object) == "serve":
        return ("args that begin with --model MODEL" if _has_module(engine) else "args that begin with the model",)
    return "the same words under command instead of args", "args with the model and its flags alone"


def _has_module(engine: Engine) -> bool:
    """True if the image's entrypoint is the module, which has no positional model."""
    return engine.release is not None and engine.release < SERVES


def _fix(engine: Engine) -> tuple[Edit, ...]:
    """The args without the words that start the server."""
    path = engine.at("args")
    args = path.get(engine.workload.object)
    if engine.container.synthetic or not isinstance(args, list) or not all(isinstance(word, str) for word in args):
        return ()
    for start in STARTS:
        count = len(start)
        if tuple(args[:count]) != start or len(args) <= count:
            continue
        first = args[count]
        kept = ["--model", first] if _has_module(engine) and not first.startswith("-") else [first]
        return (Edit(path, ([*start, first], kept), "swap"),)
    return ()
