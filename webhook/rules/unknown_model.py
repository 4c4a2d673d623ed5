"""Rule unknown-model."""

from __future__ import annotations

from collections.abc import Iterator

from webhook.engine import Engine
from webhook.rule import Finding, Rule


class UnknownModel(Rule):
    """The model is not known, so its memory can't be computed.

    podfit carries the shapes of some 1,800 published models and never asks the internet. For a model of your own, or
    a path inside a volume, name the published model it has the shape of:

        metadata.annotations["podfit.dev/model"]: meta-llama/Llama-3.1-8B-Instruct

    In CI, `podfit plan --model-config config.json` takes the model's own file. Without a shape nothing about memory
    is judged: ignorance is a finding, not a guess.
    """

    plane = "config"
    threatens = "practice"
    mode = "warn"
    mute_for = ("model",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """A fact about what podfit knows."""
        if engine.model is not None or engine.command.entry == "worker":
            return
        hint = "annotation podfit.dev/model with the id of a published model of the same shape"
        why = engine.args.unresolved.get("model")
        if why is not None:
            yield Finding(engine.argument("model"), f"which model is served can't be known: {why}", suggestions=(hint,))
        elif engine.args.model is None and engine.args.open:
            yield Finding(
                engine.command.path, f"which model is served can't be seen: {engine.args.open}", suggestions=(hint,)
            )
        elif engine.args.model is None and "args" not in engine.workload.completes:
            default = engine.args.defaults.get("model")
            yield Finding(
                engine.command.path,
                "no model is named" + (f": vLLM would serve its default, {default}" if default else ""),
                suggestions=("the model as first argument of `vllm serve`, or --model", hint),
            )
        elif engine.args.model is not None:
            yield Finding(
                engine.argument("model"),
                f"model {engine.args.model!r} is not known here: its memory is not judged",
                suggestions=(hint,),
            )
