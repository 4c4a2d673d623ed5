"""Rule entrypoint-repeated."""

from __future__ import annotations

from collections.abc import Iterator

from podfit.rules._flags import certainty, uncertain
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule


class EntrypointRepeated(Rule):
    """The args start vLLM a second time; the image's entrypoint already starts it.

    `args` replace an image's CMD, not its ENTRYPOINT. That of vllm/vllm-openai is `vllm serve` (up to v0.11.0
    `python3 -m vllm.entrypoints.openai.api_server`), so `args: [vllm, serve, MODEL]` runs `vllm serve vllm serve
    MODEL`:

        vllm: error: unrecognized arguments: serve MODEL

    Put the whole line into `command`, or only the model and its flags into `args`.
    """

    plane = "config"
    event = "vLLM exits with code 2"
    mode = "deny"
    about = ("a second entrypoint",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain for vLLM's own image, whose entrypoint is known."""
        if engine.command.repeated:
            yield Finding(
                path=engine.at("args", 0),
                message=f"the entrypoint of {engine.field('image')} starts vLLM already; the args start it again",
                certainty=certainty(engine),
                uncertain=uncertain(engine),
                suggestions=("the same words under command instead of args", "args with the model and its flags alone"),
            )
